//! The cold part of a connection: made on the first loss, gap, unconsumed
//! byte or window growth, and given up when it tells nothing any more.

use crate::config::Config;
use crate::congestion::{Algorithm, Congestion, Prr};
use crate::receive::ReceiveBuffer;
use crate::scoreboard::Scoreboard;
use wire::Time;
use wire::tcp::SeqNum;

/// What recovery a sender is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recovery {
    /// None.
    Open,
    /// Fast recovery (RFC 6675, RFC 6582), until this is acknowledged.
    Fast(SeqNum),
    /// After a retransmission timeout, until this is acknowledged.
    Loss(SeqNum),
}

#[derive(Debug)]
pub(crate) struct Cold {
    pub congestion: Congestion,
    /// Whether congestion control has learned anything worth keeping.
    pub learned: bool,
    pub recovery: Recovery,
    pub prr: Option<Prr>,
    pub scoreboard: Scoreboard,
    pub receive: ReceiveBuffer,
    /// Where the peer's FIN stands, when it came before what precedes it.
    pub fin_at: Option<SeqNum>,
    /// A segment whose round trip is timed to the microsecond, by its end.
    pub timed: Option<(SeqNum, Time)>,
    /// Segments retransmitted.
    pub retransmits: u32,
}

impl Cold {
    pub fn new(config: &Config, mss: u32, sack: bool) -> Self {
        let algorithm: Algorithm = config.congestion;
        Self {
            congestion: Congestion::new(algorithm, mss),
            learned: false,
            recovery: Recovery::Open,
            prr: None,
            scoreboard: Scoreboard::new(mss, sack),
            receive: ReceiveBuffer::default(),
            fin_at: None,
            timed: None,
            retransmits: 0,
        }
    }

    pub fn recovering(&self) -> bool {
        self.recovery != Recovery::Open
    }

    /// Whether the fast path may be taken again.
    pub fn undisturbed(&self) -> bool {
        !self.recovering() && self.receive.is_empty() && self.fin_at.is_none() && self.scoreboard.is_empty()
    }

    /// Whether nothing would be forgotten with this.
    pub fn disposable(&self) -> bool {
        !self.learned && self.retransmits == 0 && self.timed.is_none()
    }
}
