//! The cold part of a connection: made on the first loss, gap, unconsumed
//! byte or window growth, and given up when it tells nothing any more.

use crate::asked::Asked;
use crate::config::Config;
use crate::incoming::Incoming;
use crate::late::LateSegments;
use crate::paced::Pacing;
use crate::prr::Prr;
use crate::rack::Rack;
use crate::receive::ReceiveBuffer;
use crate::scoreboard::Scoreboard;
use crate::sizes::SizeSearch;
use app::Unreachable;
use congestion::{Controller, Sampler};
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

/// A tail loss probe that is not settled yet (RFC 8985 section 7.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// TLP.end_seq
    pub end: SeqNum,
    /// TLP.is_retrans
    pub again: bool,
}

/// What a recovery changed, until it is known not to have been needless.
#[derive(Clone, Debug)]
pub(crate) struct Undo {
    pub congestion: Controller,
    /// When something was first sent again, in the timestamp's clock.
    pub again_at: Option<u32>,
    /// Segments sent again that no DSACK reported.
    pub again: u32,
    /// SND.UNA when it began: what came twice below that was sent again before.
    pub from: SeqNum,
}

/// Where a connection stands in the stack's queues of those that hold received
/// bytes. They are the stack's; 0 is nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HolderMark {
    /// Number of the valid entry for in-order bytes.
    pub held: u32,
    /// Number of the valid entry for bytes ahead of a gap.
    pub early: u32,
    /// The queue that this entry is in.
    pub class: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Cold {
    /// Congestion control. Its window is the connection's, but for what steers that in recovery.
    pub congestion: Controller,
    /// Where SND.UNA stands, counted in bytes since the cold part was made.
    pub acked_to: u64,
    /// What paces it, if anything does.
    pub pacing: Option<Pacing>,
    /// Nothing is in flight, or nothing that is was acknowledged yet: there are no
    /// acknowledgements in the rhythm of the path.
    pub unclocked: bool,
    pub sampler: Sampler,
    /// Whether congestion control has learned anything worth keeping.
    pub learned: bool,
    pub recovery: Recovery,
    pub prr: Option<Prr>,
    pub scoreboard: Scoreboard,
    pub rack: Rack,
    /// Where the last segment sent begins, if one was since this exists.
    pub last_segment: Option<SeqNum>,
    /// When the first segment in flight was sent, in milliseconds, once a
    /// timer ran out for it; or the first probe of a closed window that was
    /// not answered.
    pub unanswered_since: Option<u32>,
    /// While the congestion window is what limits: all up to here was sent
    /// under its limit.
    pub limited_until: Option<SeqNum>,
    /// The largest window that the peer has offered, where that began with
    /// less than two segments.
    pub most_window: Option<u32>,
    pub probe: Option<Probe>,
    /// The loss probe is to be sent.
    pub probe_due: bool,
    /// The TCP timer is RACK's reordering timer (RFC 8985 section 6.2 step 5).
    pub reordering_timer: bool,
    pub undo: Option<Box<Undo>>,
    /// From where to where something was sent again that was not acknowledged a flight ago: only
    /// what lies there may have come twice for it.
    pub again: Option<(SeqNum, SeqNum)>,
    /// Received twice, and to be told (RFC 2883).
    pub dsack: Option<(SeqNum, SeqNum)>,
    /// The timestamp of a segment that came again, which the next
    /// acknowledgement echoes in place of TS.Recent (RFC 7323 section 4.3).
    pub echo: Option<u32>,
    pub receive: ReceiveBuffer,
    /// What PAWS goes by, while segments may come that a gap's end overtook.
    pub late: Option<LateSegments>,
    /// The window, once it is measured what comes.
    pub incoming: Option<Incoming>,
    /// What may be under way to the peer and count as sent, in bytes.
    pub send_room: u32,
    /// Where the connection stands among those that hold received bytes.
    pub holder: HolderMark,
    /// Where the peer's FIN stands, when it came before what precedes it.
    pub fin_at: Option<SeqNum>,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// The farthest that a segment was overtaken by others, in segments.
    pub reordering: u32,
    /// Routers may fragment its packets.
    pub fragmented: bool,
    /// What size of segments passes, while that is looked for and where it is
    /// less than what both sides take.
    pub sizes: Option<Box<SizeSearch>>,
    /// What the application asks of this connection.
    pub asked: Option<Box<Asked>>,
    /// The end of what was last sent with PSH, since the cold part was made.
    pub pushed_to: Option<SeqNum>,
    /// The largest window of the peer that was sent into since.
    pub largest_window: u32,
    /// What the network said of the peer, since it last acknowledged anything.
    pub unreachable: Option<Unreachable>,
}

impl Cold {
    pub fn new(config: &Config, mss: u32, cwnd: u32) -> Self {
        Self {
            congestion: Controller::new(config.congestion, mss, cwnd),
            acked_to: 0,
            pacing: None,
            unclocked: false,
            sampler: Sampler::default(),
            learned: false,
            recovery: Recovery::Open,
            prr: None,
            scoreboard: Scoreboard::new(mss),
            rack: Rack::default(),
            last_segment: None,
            unanswered_since: None,
            limited_until: None,
            most_window: None,
            probe: None,
            probe_due: false,
            reordering_timer: false,
            undo: None,
            again: None,
            dsack: None,
            echo: None,
            receive: ReceiveBuffer::default(),
            late: None,
            incoming: None,
            send_room: 0,
            holder: HolderMark::default(),
            fin_at: None,
            retransmits: 0,
            reordering: 0,
            fragmented: false,
            sizes: None,
            asked: None,
            pushed_to: None,
            largest_window: 0,
            unreachable: None,
        }
    }

    pub fn recovering(&self) -> bool {
        self.recovery != Recovery::Open
    }

    /// `bytes` more have arrived, the highest of them up to `end`.
    pub fn note_delivered(&mut self, now: Time, bytes: u32, end: SeqNum) {
        let newest = self.rack.send_state(end);
        self.sampler.on_delivered(now, bytes, newest, self.rack.min_rtt());
    }

    /// A segment is sent again. That another, from `floor` on, came twice may
    /// still be told: a flight is acknowledged by then.
    pub fn note_again(&mut self, floor: SeqNum, seq: SeqNum, len: u32) {
        let end = seq.plus(len);
        self.retransmits += 1;
        self.again = match self.again {
            Some((from, to)) if to.after(floor) => {
                let from = from.latest(floor);
                Some((if seq.before(from) { seq } else { from }, to.latest(end)))
            }
            _ => Some((seq, end)),
        };
    }

    /// Whether what a peer says it received twice may be something that was sent again. Anything
    /// else came twice for others' reasons: because the network doubles, or a stranger who knows
    /// no numbers sent something in our name, which is reported wherever it lies below the window.
    pub fn may_have_come_twice(&self, (start, end): (SeqNum, SeqNum)) -> bool {
        self.again.is_some_and(|(from, to)| start.at_or_after(from) && end.after(start) && end.at_or_before(to))
    }

    /// Whether the fast path may be taken again.
    pub fn undisturbed(&self) -> bool {
        self.pacing.is_none() && self.is_calm()
    }

    /// Whether nothing but a pacer keeps the fast path from being taken.
    pub fn is_calm(&self) -> bool {
        !self.recovering()
            && self.receive.is_empty()
            && self.fin_at.is_none()
            && self.scoreboard.is_empty()
            && self.probe.is_none()
            && !self.probe_due
            // What RACK waits for is told apart from what is overdue with each
            // acknowledgement (RFC 8985 section 6.2 step 5).
            && !self.reordering_timer
            && self.dsack.is_none()
            && self.echo.is_none()
            && self.sizes.as_ref().is_none_or(|sizes| sizes.is_at_rest())
    }

    /// Whether its packets are treated as nearly all are on their way.
    pub fn is_treated_usually(&self) -> bool {
        !self.fragmented && self.asked.as_ref().is_none_or(|asked| asked.options.traffic_class == 0)
    }

    /// Whether a segment of the peer has only what it says itself for a consequence: nothing
    /// waits for the peer to be heard, or for time to pass.
    pub fn hears_nothing_else(&self) -> bool {
        self.sizes.is_none() && self.late.is_none() && self.asked.as_ref().is_none_or(|asked| !asked.more)
    }

    /// Whether nothing would be forgotten with this but how often something
    /// was sent again.
    pub fn disposable(&self) -> bool {
        !self.learned
            && self.rack.is_blank()
            && self.undo.is_none()
            && self.asked.is_none()
            && self.sizes.is_none()
            && self.incoming.is_none_or(|incoming| incoming.is_unlearned())
            && self.late.is_none()
            && !self.fragmented
            && self.unreachable.is_none()
            && self.unanswered_since.is_none()
            && self.most_window.is_none()
    }

    /// The rate that was given, in bytes per second: the connection's, and that
    /// of all.
    pub fn given_rate(&self, config: &Config) -> Option<u64> {
        let asked = self.asked.as_ref().and_then(|asked| asked.options.pacing_rate);
        [asked, config.max_pacing_rate].into_iter().flatten().min()
    }

    /// Whether what was queued with a rate is acknowledged, and what follows has none.
    pub fn rate_is_over(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.rate_until.is_some_and(|until| self.acked_to >= until))
    }

    /// The rate that congestion control asks for, by a round trip smoothed to
    /// `srtt_us`.
    pub fn own_rate(&self, config: &Config, srtt_us: u32) -> Option<u64> {
        if config.pace_start { self.congestion.pacing_rate(srtt_us, self.unclocked) } else { None }
    }

    /// RCV.NXT is now here, and the window's edge there. Looked at with each segment that
    /// arrives, whichever way it takes, so that they agree on when nothing is late any more.
    pub fn pass_late(&mut self, (rcv_nxt, edge): (SeqNum, SeqNum), ts_recent: u32, now_ms: u32) {
        if self.late.as_mut().is_some_and(|late| late.is_over(now_ms) || late.pass(rcv_nxt, edge, ts_recent)) {
            self.late = None;
        }
    }

    /// Nothing waits for the pacer.
    pub fn forget_wait(&mut self) {
        if let Some(pacing) = &mut self.pacing {
            (pacing.until, pacing.moved) = (None, false);
        }
    }
}
