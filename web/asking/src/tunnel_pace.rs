//! How long a tunnel's upstream may be silent, and take nothing.

use core::time::Duration;
use wire::Time;

/// Looks in each span in which an upstream is to take something: it is found out between two of
/// them that it did.
const LOOKS: u32 = 16;

/// Nothing went either way for too long, or the upstream took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelLate;

/// What is to happen within which time (`proxy_read_timeout`, `proxy_send_timeout`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TunnelLimits {
    pub read: Duration,
    pub send: Duration,
}

/// What a tunnel's upstream has taken, and when.
#[derive(Debug)]
pub(crate) struct TunnelPace {
    /// Bytes queued for it; of them those that it had taken by the last look that found more, and
    /// when that was. What seals them may make more of them: they count as differences alone.
    queued: u64,
    taken: u64,
    since: Time,
    /// When something went either way last.
    active: Time,
}

impl TunnelPace {
    /// A tunnel begins, with so many bytes on their way to its upstream.
    pub fn begin(unsent: usize, now: Time) -> Self {
        let queued = unsent as u64;
        Self { queued, taken: 0, since: now, active: now }
    }

    /// So many bytes are queued for the upstream, behind so many that are unsent.
    pub fn queued(&mut self, bytes: usize, unsent: usize, now: Time) {
        if bytes > 0 {
            if unsent == 0 {
                // Nothing was waited for until now.
                self.since = now;
            }
            self.queued += bytes as u64;
            self.active = now;
        }
    }

    /// Bytes of the upstream were taken, or it is asked for more.
    pub const fn came(&mut self, now: Time) {
        self.active = now;
    }

    /// When to look again, with so many bytes unsent; none of its bytes are read while they are
    /// `held` for the client, and it need not say any then.
    pub fn look(
        &mut self,
        now: Time,
        unsent: usize,
        held: bool,
        limits: TunnelLimits,
    ) -> Result<Option<Time>, TunnelLate> {
        let taken = self.queued.wrapping_sub(unsent as u64);
        if taken != self.taken || unsent == 0 {
            (self.taken, self.since) = (taken, now);
        }
        let read = (!held).then(|| self.active + limits.read);
        let send = (unsent > 0).then(|| self.since + limits.send);
        if [read, send].into_iter().flatten().any(|end| now >= end) {
            return Err(TunnelLate);
        }
        let look = send.map(|end| end.min(now + limits.send / LOOKS));
        Ok([read, look].into_iter().flatten().min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TunnelLimits = TunnelLimits { read: Duration::from_secs(60), send: Duration::from_secs(16) };

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1_000)
    }

    #[test]
    fn an_upstream_that_takes_nothing_is_late_whatever_it_says() {
        let mut pace = TunnelPace::begin(0, at(0));
        assert_eq!(pace.look(at(0), 0, false, LIMITS), Ok(Some(at(60))));
        pace.queued(1_000, 0, at(100));
        assert_eq!(pace.look(at(100), 1_000, false, LIMITS), Ok(Some(at(101))));
        for second in 101..116 {
            pace.came(at(second));
            assert_eq!(pace.look(at(second), 1_000, false, LIMITS), Ok(Some(at(second + 1))));
        }
        assert_eq!(pace.look(at(116), 1_000, false, LIMITS), Err(TunnelLate));
        // One byte is something.
        assert_eq!(pace.look(at(116), 999, false, LIMITS), Ok(Some(at(117))));
        assert_eq!(pace.look(at(131), 999, false, LIMITS), Ok(Some(at(132))));
        assert_eq!(pace.look(at(132), 999, false, LIMITS), Err(TunnelLate));
    }

    #[test]
    fn silence_is_late_but_where_the_client_is_waited_for() {
        let mut pace = TunnelPace::begin(0, at(0));
        assert_eq!(pace.look(at(59), 0, false, LIMITS), Ok(Some(at(60))));
        assert_eq!(pace.look(at(60), 0, false, LIMITS), Err(TunnelLate));
        assert_eq!(pace.look(at(600), 0, true, LIMITS), Ok(None), "the client has a timer");
        pace.came(at(600));
        assert_eq!(pace.look(at(600), 0, false, LIMITS), Ok(Some(at(660))));
        pace.queued(1, 0, at(650));
        assert_eq!(pace.look(at(651), 0, false, LIMITS), Ok(Some(at(710))));
    }
}
