//! Congestion control: how many bytes may be in flight.
//!
//! The window itself (cwnd, in bytes) is the connection's and is passed in;
//! the rest is here, made when a connection first needs it. In fast recovery
//! the window is driven by [`Prr`]; the calls here frame it:
//!
//! ```text
//! on_ack* ─► on_loss ─► (Prr::on_ack)* ─► on_recovery_exit ─► on_ack*
//!        └─► on_rto ─► on_ack* (slow start again)
//! ```

mod cubic;
mod hystart;
mod newreno;
pub mod prr;
#[cfg(test)]
mod tests;

pub use prr::Prr;

use cubic::Cubic;
use hystart::{Growth, HyStart};
use newreno::NewReno;
use wire::Time;
use wire::tcp::SeqNum;

/// Largest window in bytes: what TCP can express (RFC 7323 section 2.3).
pub const CWND_MAX: u32 = 1 << 30;

/// Least ssthresh, in segments (RFC 5681 section 3.1).
const MIN_SSTHRESH_SEGMENTS: u32 = 2;

/// Most segments by which one ACK lets the window grow in the slow start
/// after a timeout: the ACK may cover what arrived before it
/// (RFC 3465 section 2.3).
const L_AFTER_RTO: u32 = 1;
/// The same in other slow starts (RFC 3465 section 2.2).
const L_RESTART: u32 = 2;

/// The initial window in bytes (RFC 6928 section 2).
#[inline]
#[must_use]
pub fn initial_window(mss: u32) -> u32 {
    let mss = mss.max(1);
    mss.saturating_mul(10).min(mss.saturating_mul(2).max(14_600))
}

/// Which algorithm avoids congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681 with RFC 6582.
    NewReno,
}

/// An ACK that acknowledges new data outside recovery.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Time,
    /// Bytes that it newly, cumulatively acknowledges.
    pub acked: u32,
    /// Bytes in flight before it.
    pub in_flight: u32,
    /// The round-trip time that it measured, in microseconds.
    pub rtt_us: Option<u32>,
    /// The smoothed round-trip time, in microseconds.
    pub srtt_us: u32,
    /// SND.UNA with this ACK taken.
    pub snd_una: SeqNum,
    /// SND.NXT.
    pub snd_nxt: SeqNum,
    /// Whether the window, rather than the application or the peer's window,
    /// was what kept more from being sent before it.
    pub cwnd_limited: bool,
}

/// A connection's congestion control, without its window.
#[derive(Clone, Debug)]
pub struct Congestion {
    algorithm: Algorithm,
    mss: u32,
    ssthresh: u32,
    /// Segments by which one ACK lets the window grow in slow start.
    limit: u32,
    /// Whether the window was in use at the last ACK.
    used: bool,
    hystart: HyStart,
    cubic: Cubic,
    newreno: NewReno,
}

impl Congestion {
    /// In the first slow start.
    #[must_use]
    pub fn new(algorithm: Algorithm, mss: u32) -> Self {
        Self {
            algorithm,
            mss: mss.max(1),
            ssthresh: u32::MAX,
            limit: L_RESTART,
            used: false,
            hystart: HyStart::new(),
            cubic: Cubic::default(),
            newreno: NewReno::default(),
        }
    }

    /// Above this, congestion is avoided; `u32::MAX` until the first loss or
    /// until HyStart++ ended slow start.
    #[inline]
    #[must_use]
    pub const fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// Whether a window of `cwnd` is in slow start.
    #[inline]
    #[must_use]
    pub const fn in_slow_start(&self, cwnd: u32) -> bool {
        cwnd < self.ssthresh
    }

    /// The segment size changed (path MTU).
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
    }

    /// An ACK of new data, outside fast recovery. The window grows or stays.
    pub fn on_ack(&mut self, cwnd: &mut u32, ack: &Ack) {
        if ack.acked == 0 {
            return;
        }
        self.used = ack.cwnd_limited;
        let mut acked = ack.acked;
        if self.in_slow_start(*cwnd) {
            acked = self.slow_start(cwnd, ack);
            if acked == 0 {
                *cwnd = (*cwnd).min(CWND_MAX);
                return;
            }
        }
        if !ack.cwnd_limited {
            // RFC 9438 section 5.8, RFC 7661 section 4.3: a window that was
            // not used is not known to fit the path.
            self.cubic.on_unused(ack.now);
            return;
        }
        match self.algorithm {
            Algorithm::Cubic => self.cubic.on_ack(cwnd, acked, ack.srtt_us, self.mss, ack.now),
            Algorithm::NewReno => self.newreno.on_ack(cwnd, acked, self.mss),
        }
        *cwnd = (*cwnd).min(CWND_MAX);
    }

    /// Fast recovery begins, with `in_flight` bytes outstanding (FlightSize).
    /// Sets ssthresh; the window is then driven by [`Prr`].
    pub fn on_loss(&mut self, cwnd: u32, in_flight: u32, _now: Time) {
        self.reduce_ssthresh(cwnd, in_flight);
        self.cubic.on_loss(cwnd);
        self.newreno.reset();
    }

    /// The recovery point was acknowledged (RFC 9937 section 6).
    pub fn on_recovery_exit(&mut self, cwnd: &mut u32, _now: Time) {
        *cwnd = self.ssthresh.min(CWND_MAX);
        self.cubic.restart();
    }

    /// The retransmission timer ran out. `first`: the segment was not yet
    /// sent again by the timer; a repeated timeout leaves ssthresh alone
    /// (RFC 5681 section 3.1).
    pub fn on_rto(&mut self, cwnd: &mut u32, in_flight: u32, first: bool, _now: Time) {
        if first {
            self.reduce_ssthresh(*cwnd, in_flight);
            self.cubic.on_timeout(*cwnd);
            self.newreno.reset();
        }
        self.limit = L_AFTER_RTO;
        *cwnd = self.mss; // The loss window.
    }

    /// Nothing was sent for longer than the RTO: the window is no longer
    /// known to fit the path, and starts again from at most the initial
    /// window, by slow start up to where it was (RFC 5681 section 4.1;
    /// RFC 7661 section 4.4 for ssthresh).
    pub fn on_idle_restart(&mut self, cwnd: &mut u32, initial: u32) {
        if *cwnd > initial {
            if self.ssthresh != u32::MAX {
                self.ssthresh = self.ssthresh.max(*cwnd / 4 * 3);
            }
            *cwnd = initial;
        }
        self.cubic.restart();
    }

    /// Grows by slow start and returns the acknowledged bytes left over for
    /// congestion avoidance.
    fn slow_start(&mut self, cwnd: &mut u32, ack: &Ack) -> u32 {
        // RFC 7661 section 4.3: in slow start a window half used is valid.
        let used = ack.cwnd_limited || *cwnd / 2 < ack.in_flight;
        let grow = if self.ssthresh == u32::MAX {
            // RFC 9406 section 4.3: for the first slow start only.
            match self.hystart.on_ack(ack.acked, ack.rtt_us, ack.snd_una, ack.snd_nxt, self.mss) {
                Growth::By(bytes) => bytes,
                Growth::LastBy(bytes) => {
                    self.ssthresh = *cwnd;
                    bytes
                }
            }
        } else {
            ack.acked.min(self.limit.saturating_mul(self.mss))
        };
        if !used {
            return 0;
        }
        let room = self.ssthresh.saturating_sub(*cwnd);
        let step = grow.min(room);
        *cwnd = cwnd.saturating_add(step);
        if *cwnd >= self.ssthresh {
            self.limit = L_RESTART;
            return grow - step;
        }
        0
    }

    fn reduce_ssthresh(&mut self, cwnd: u32, in_flight: u32) {
        // RFC 5681 equation 4 takes FlightSize. Where ACKs are taken in bursts
        // before anything is sent, that is less than what was in flight when
        // the loss happened; cwnd, if it was in use, is what it stands for
        // (RFC 9438 section 4.6 allows it to a sender that does not let an
        // unused window grow). Limited transmit above cwnd does not count.
        let flight = u64::from(if self.used { cwnd } else { in_flight.min(cwnd) });
        let reduced = match self.algorithm {
            Algorithm::Cubic => flight * cubic::BETA_NUM / cubic::BETA_DEN,
            Algorithm::NewReno => flight / 2,
        };
        // The window is used in whole segments. Half of one, lost on average
        // at each reduction, is 4 % of a window of twelve: to the nearest.
        let mss = u64::from(self.mss);
        let whole = (reduced + mss / 2) / mss * mss;
        let floor = self.mss.saturating_mul(MIN_SSTHRESH_SEGMENTS);
        self.ssthresh = u32::try_from(whole).unwrap_or(u32::MAX).max(floor);
    }
}
