//! Bodies that are read no faster than they are to be.

use crate::ask::{Ask, AskTurn};
use core::time::Duration;
use wire::Time;

/// When more is read of what is read at a rate, and could be at once.
pub(crate) const PACE: Duration = Duration::from_millis(20);

impl Ask {
    /// The body is read at this rate, bytes a second; 0 is any.
    pub const fn set_rate(&mut self, rate: u64) {
        self.reading.rate = rate;
    }

    /// Bytes of the body that may be read by now; or how long none may.
    pub(crate) fn allowed(&self, now: Time) -> Result<usize, Duration> {
        let rate = self.reading.rate;
        if rate == 0 || !self.reading.buffering {
            return Ok(usize::MAX);
        }
        let so_far = self.tries.last().map_or(0, |last| last.length);
        // A second's worth at once, as nginx has it.
        let millis = u128::from(now.since(self.reading.since).as_millis() as u64 + 1_000);
        let most = u64::try_from(u128::from(rate) * millis / 1_000).unwrap_or(u64::MAX);
        match most.checked_sub(so_far) {
            Some(left @ 1..) => Ok(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => {
                let due = u128::from(so_far) * 1_000 / u128::from(rate) + 1;
                // In whole milliseconds, and never at once: nothing more may be read in this one.
                let wait = u64::try_from(due.saturating_sub(millis)).unwrap_or(u64::MAX);
                Err(Duration::from_millis(wait.max(1)))
            }
        }
    }

    /// Its timer ran out: whether that was to read more by now, which is asked for.
    pub(crate) fn is_its_time(&mut self, turn: &mut AskTurn<'_>) -> bool {
        if !core::mem::take(&mut self.reading.paced) {
            return false;
        }
        if let Some(link) = self.link {
            turn.set_timer(link, None);
            turn.resume(link);
        }
        true
    }
}
