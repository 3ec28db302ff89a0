//! The busy loop that notices when its core was away.

use core::sync::atomic::{AtomicBool, Ordering};
use perf::clock;
use rtrb::Producer;

/// A gap: its beginning and end, in ticks.
pub type GapEnds = (u64, u64);

/// What the loop is to do.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// A step that takes longer is a gap, in ticks.
    pub threshold: u64,
    /// For so many ticks.
    pub length: u64,
}

/// What the loop has to say of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spun {
    /// Steps.
    pub steps: u64,
    /// When it began and ended, in ticks.
    pub from: u64,
    /// The end.
    pub until: u64,
    /// Ticks that went to writing gaps down.
    pub own: u64,
    /// Gaps that there was no room for.
    pub dropped: u64,
}

/// Reads the clock until the time is over, and writes down whenever that took
/// longer than the threshold. `each` is called at every step: what it takes is
/// time of the loop.
pub fn spin(
    order: Order,
    gaps: &mut Producer<GapEnds>,
    stop: &AtomicBool,
    each: &mut (impl FnMut(u64) + ?Sized),
) -> Spun {
    let mut spun = Spun { from: clock::ticks(), ..Spun::default() };
    let mut last = spun.from;
    loop {
        let now = clock::ticks();
        spun.steps += 1;
        let step = now.wrapping_sub(last);
        last = now;
        if step >= order.threshold {
            spun.dropped += u64::from(gaps.push((now.wrapping_sub(step), now)).is_err());
            let written = clock::ticks();
            spun.own += written.wrapping_sub(now);
            last = written;
        }
        // A counter that some cores have set back ends it, too.
        if now.wrapping_sub(spun.from) >= order.length || stop.load(Ordering::Relaxed) {
            spun.until = now;
            return spun;
        }
        each(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_that_each_step_makes() {
        let (mut gaps, mut found) = rtrb::RingBuffer::new(64);
        let mut steps = 0;
        // Far longer than anything that a machine does between two steps, but
        // for stalls, which may be there too.
        let long = 200_000_000;
        let order = Order { threshold: long, length: 5 * long };
        let spun = spin(order, &mut gaps, &AtomicBool::new(false), &mut |now| {
            steps += 1;
            if steps % 1_000 == 0 {
                while clock::ticks().wrapping_sub(now) < long {}
            }
        });
        assert!(spun.steps > 1_000 && spun.dropped == 0, "{spun:?}");
        let (from, until) = found.pop().expect("a gap");
        assert!(until.wrapping_sub(from) >= long);
        assert!(until.wrapping_sub(spun.from) <= spun.until.wrapping_sub(spun.from));
    }

    #[test]
    fn it_stops_when_told_and_counts_what_has_no_room() {
        let (mut gaps, _found) = rtrb::RingBuffer::new(2);
        let stop = AtomicBool::new(false);
        let mut steps = 0;
        let order = Order { threshold: 0, length: u64::MAX };
        let spun = spin(order, &mut gaps, &stop, &mut |_| {
            steps += 1;
            stop.store(steps >= 10, Ordering::Relaxed);
        });
        assert_eq!((spun.steps, spun.dropped), (11, 9));
    }
}
