//! Frames that leave on time: the rings are not looked at when one is due soon,
//! and no more is taken from them than can be before.

use super::{BURST, Pacing, Plan};
use core::time::Duration;

/// Frames are waited for where they are so many times as far apart: half of the
/// time at least is the rings'.
const EAGER_GAP: u128 = 2;
/// What each received frame but a turn's first takes at most, nearly always: its
/// lines come from another core, and are looked at, checked and counted.
const FRAME_TIME: Duration = Duration::from_nanos(150);

/// So many frames may leave, or turns pass, before the rings are looked at again: where links
/// are slow to send, one is always due.
const UNLOOKED: usize = 8;

/// Which frames are waited for.
pub(super) struct Eager {
    /// How many ticks before it is due a frame is waited for; zero: not at all.
    pub ahead: u64,
    /// Ticks of a received frame.
    frame_time: u64,
    /// Frames that have left since the rings were looked at, and turns without any.
    unlooked: usize,
}

impl Eager {
    pub fn new(plan: &Plan, hz: u64) -> Self {
        let ticks = |span: Duration| (span.as_nanos() * u128::from(hz) / 1_000_000_000) as u64;
        let ahead = if is_sparse(plan) { ticks(plan.eager) } else { 0 };
        Self { ahead, frame_time: ticks(FRAME_TIME).max(1), unlooked: 0 }
    }

    /// How many frames may be received of each port before the next one is due
    /// that is to leave on time.
    #[inline]
    pub fn receive_limit(&mut self, due: impl Iterator<Item = u64>, (now, late): (u64, u64), ports: usize) -> usize {
        if self.ahead == 0 {
            return BURST;
        }
        let due = due.min().unwrap_or(u64::MAX);
        let left = due.saturating_sub(now);
        // After an absence the rings have waited, too.
        if left <= self.ahead && now.saturating_sub(due) <= late && self.unlooked < UNLOOKED {
            return 0;
        }
        if core::mem::take(&mut self.unlooked) >= UNLOOKED || left <= self.ahead {
            return BURST;
        }
        // One at least: a look and a frame take less than what the next is waited for.
        let frames = (left - self.ahead) / self.frame_time / ports.max(1) as u64;
        usize::try_from(frames).unwrap_or(BURST).clamp(1, BURST)
    }

    /// A turn has sent so many frames.
    #[inline]
    pub fn left(&mut self, frames: usize) {
        self.unlooked += frames.max(1);
    }
}

/// Whether all streams together leave most of the time to the rings.
fn is_sparse(plan: &Plan) -> bool {
    let mut milli = 0_u64;
    for stream in &plan.streams {
        match stream.pacing {
            Pacing::Rate { milli: one, .. } => {
                milli += one * stream.ways.iter().filter(|way| **way).count() as u64;
            }
            Pacing::Max | Pacing::Probe(_) => return false,
        }
    }
    let gap = 1_000_000_000_000_u64.checked_div(milli).unwrap_or(0);
    u128::from(gap) >= plan.eager.as_nanos() * EAGER_GAP
}
