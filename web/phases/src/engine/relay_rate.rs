//! Bodies of upstreams' answers that are read no faster than a place says
//! (`proxy_limit_rate`, `fastcgi_limit_rate` and the like).

use super::Rest;
use super::relay::Relay;
use super::run::Runner;
use core::time::Duration;
use exchange::{Replies, UpstreamId};
use features::ErrorLevel;
use std::sync::Arc;
use wire::Time;

/// When more is read of what is read at a rate, and could be at once.
pub(super) const PACE: Duration = Duration::from_millis(20);

impl Runner<'_> {
    /// How fast the body is read whose head has come: it may be a value of that.
    pub(super) fn set_rate(&mut self) {
        let Some(relay) = self.course.relay.as_deref() else { return };
        let rules = Arc::clone(&relay.rules);
        let Some(value) = &rules.rate else { return };
        let text = self.scope().get(value);
        let rate = features::units::size(&text).unwrap_or_else(|_| {
            self.tell(ErrorLevel::ERROR, || [b"invalid size \"", text.as_slice(), b"\""].concat());
            0
        });
        if let Some(relay) = self.relay() {
            relay.rate = rate;
        }
    }
}

impl Relay {
    /// Bytes of a body that may be read by now, of which `so_far` were; or how long none may.
    pub(super) fn allowed(&self, so_far: u64, now: Time) -> Result<usize, Duration> {
        let rate = self.rate;
        if rate == 0 || !self.buffering {
            return Ok(usize::MAX);
        }
        // A second's worth at once, as nginx has it.
        let millis = u128::from(now.since(self.answered).as_millis() as u64 + 1_000);
        let most = u64::try_from(u128::from(rate) * millis / 1_000).unwrap_or(u64::MAX);
        match most.checked_sub(so_far) {
            Some(left @ 1..) => Ok(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => {
                let due = u128::from(so_far) * 1_000 / u128::from(rate) + 1;
                Err(Duration::from_millis(u64::try_from(due.saturating_sub(millis)).unwrap_or(u64::MAX)))
            }
        }
    }
}

impl Rest {
    /// Whether more may be read by now of what is read at a rate: it is asked for.
    pub(super) fn is_its_time(&mut self, replies: &mut dyn Replies, token: u32) -> bool {
        let Some(relay) = self.relay_of(token).filter(|relay| relay.paced) else { return false };
        relay.paced = false;
        if let Some(link) = relay.link {
            replies.set_upstream_timer(link, None);
            replies.resume_upstream(link);
        }
        true
    }

    /// Bytes of a program's answer that may be read by now; where these are none, it is
    /// asked again when there are some.
    pub(super) fn allowed_of_program(&mut self, replies: &mut dyn Replies, token: u32, id: UpstreamId) -> usize {
        let now = replies.now();
        let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return 0 };
        let so_far = course.tries.last().map_or(0, |last| last.length);
        let Some(relay) = course.relay.as_deref_mut() else { return 0 };
        match relay.allowed(so_far, now) {
            Ok(most) => most,
            Err(wait) => {
                relay.paced = true;
                replies.set_upstream_timer(id, Some(now + wait.max(PACE)));
                0
            }
        }
    }
}
