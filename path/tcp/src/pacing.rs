//! When what the windows let go leaves: a connection that is paced asks its
//! pacer before it sends new data, and before it sends something again.
//!
//! Nothing of it is there for others. A pacer lives in the cold part, which the
//! short ways of others take no connection with, and makes the connection a slow
//! one, so that [`Connection::poll_segment`] does not look for it either. What a
//! paced connection has of short ways stands apart (`steady.rs`).

#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::connection::Connection;
use crate::flags::Flags;
use crate::paced::Pacing;
use crate::state::State;
use congestion::{Pacer, initial_window};
use wire::Time;
use wire::tcp::SeqNum;

impl Connection {
    /// When the pacer lets go what waits for it; `None` if nothing does.
    #[inline]
    #[must_use]
    pub fn paced_until(&self) -> Option<Time> {
        self.cold.as_ref()?.pacing.as_ref()?.until
    }

    /// The rate follows the window, the round trip and what was given; or the
    /// connection is not paced, or not any more.
    #[cold]
    pub(crate) fn steer_pacing(&mut self, config: &Config, now: Time) {
        let (srtt_us, segment) = (self.rtt.srtt_us(), u32::from(self.mss));
        let Some(cold) = &mut self.cold else { return };
        let own = cold.own_rate(config, srtt_us);
        let given = cold.given_rate(config);
        let Some(rate) = [own, given].into_iter().flatten().min() else {
            if cold.pacing.take().is_some() && cold.undisturbed() && self.dupacks == 0 {
                self.flags.clear(Flags::SLOW);
            }
            return;
        };
        // What starts on an empty path has the initial window at once (RFC 6928),
        // unless a rate was given.
        let starts = cold.unclocked && self.una == self.nxt && given.is_none();
        match &mut cold.pacing {
            Some(pacing) if !starts => pacing.moved |= pacing.pacer.set(now, rate, segment),
            pacing => {
                let burst = if starts { initial_window(segment) } else { 0 };
                *pacing = Some(Pacing { pacer: Pacer::new(rate, segment, burst), until: None, moved: false });
            }
        }
        self.flags.set(Flags::SLOW);
    }

    /// Whether a turn to send would only have its pacer refuse once more: what is queued waits
    /// for that, its rate is what it was then, and nothing else has to be said.
    #[cold]
    #[inline(never)]
    pub(crate) fn waits_for_pacer(&self) -> bool {
        const URGENT: u16 = Flags::ACK_NOW | Flags::PROBE | Flags::SEALED;
        let Some(cold) = &self.cold else { return false };
        let refused = cold.pacing.is_some_and(|pacing| pacing.until.is_some() && !pacing.moved);
        let in_flight = self.nxt.forward_from(self.una);
        refused
            && self.state == State::Established
            && !self.flags.has(URGENT)
            && self.unacked == 0
            && self.dupacks == 0
            && self.rope.len() > in_flight
            // What the windows hold back does not wait for the pacer.
            && self.snd_wnd.min(self.cwnd) > in_flight
            && cold.is_calm()
    }

    /// How much of `waiting` bytes of new data, of which the windows let `usable`
    /// go, the pacer does now; `None` if they wait for it.
    pub(crate) fn paced(&mut self, now: Time, waiting: u32, usable: u32) -> Option<u32> {
        let Some(pacing) = self.cold.as_mut().and_then(|cold| cold.pacing.as_mut()) else { return Some(waiting) };
        match pacing.pacer.may_send(now, waiting) {
            Ok(bytes) => Some(bytes),
            // What the windows hold back does not wait for the pacer.
            Err(_) if usable == 0 => Some(waiting),
            Err(at) => {
                pacing.until = Some(at);
                None
            }
        }
    }

    /// Whether what begins at `seq` may be sent again now. The first segment in
    /// flight never waits: what else is sent waits for its answer.
    pub(crate) fn may_send_again(&mut self, now: Time, seq: SeqNum) -> bool {
        let first = seq == self.una;
        let Some(pacing) = self.cold.as_mut().and_then(|cold| cold.pacing.as_mut()) else { return true };
        match pacing.pacer.may_send_again(now) {
            Err(at) if !first => {
                pacing.until = Some(at);
                false
            }
            _ => true,
        }
    }
}
