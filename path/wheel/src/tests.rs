use super::*;
use random::SplitMix64;

/// Deadlines that move about at random: each slot comes up at its
/// deadline or before, never after, and never later than the horizon.
#[test]
fn nothing_comes_up_late() {
    let mut numbers = SplitMix64::new(3);
    let mut random = |n: usize| numbers.below(n) as u32;
    for start in [0u32, 1, 5_000, u32::MAX - 3_000_000, u32::MAX - 10] {
        let mut wheel = Wheel::new(start, 4);
        let mut now = start;
        let mut marks = [WheelMark::default(); 40];
        let mut deadlines = [None::<u32>; 40];
        let mut fired = 0;
        for _ in 0..60_000 {
            let slot = random(40);
            let span = [3, 300, 5_000, 70_000, 900_000][random(5) as usize];
            let deadline = now.wrapping_add(1 + random(span));
            deadlines[slot as usize] = Some(deadline);
            wheel.schedule(slot, &mut marks[slot as usize], deadline);
            now = now.wrapping_add(random(40));
            let mut due = Vec::new();
            while !wheel.advance(now, &mut due) || !due.is_empty() {
                for entry in due.drain(..) {
                    let i = entry.slot as usize;
                    if !entry.claim(&mut marks[i]) {
                        continue;
                    }
                    let Some(at) = deadlines[i] else { continue };
                    if (at.wrapping_sub(now) as i32) <= 0 {
                        deadlines[i] = None;
                        fired += 1;
                    } else {
                        wheel.schedule(entry.slot, &mut marks[i], at);
                    }
                }
            }
            // What is noted is what is in the rings.
            assert_eq!(wheel.next(), wheel.next_deadline());
            assert!(wheel.entries == 0 || wheel.ahead() == Some(wheel.quiet.wrapping_sub(wheel.now)));
            for at in deadlines.iter().flatten() {
                // Tick 0 goes by the name of tick 1.
                let slack = u32::from(*at == 0);
                assert!((at.wrapping_add(slack).wrapping_sub(now) as i32) > 0, "deadline {at} missed at {now}");
            }
        }
        assert!(fired > 5_000, "{fired}");
        // Nothing moved later adds entries without end.
        assert!(wheel.entries < 40 * 600, "{}", wheel.entries);
    }
}

/// After a long sleep, or a clock that jumps, what is due comes up without
/// a look at every millisecond in between.
#[test]
fn time_may_jump() {
    const JUMP: u32 = 1 << 30;
    let mut wheel = Wheel::new(5, 4);
    let mut marks = [WheelMark::default(); 3];
    for (slot, delta) in [(0, 3), (1, 90_000), (2, 2_000_000_000)] {
        wheel.schedule(slot, &mut marks[slot as usize], 5 + delta);
    }
    let mut due = Vec::new();
    assert!(wheel.advance(5 + JUMP, &mut due));
    due.retain(|entry| entry.claim(&mut marks[entry.slot as usize]));
    // The last is not due: it comes up at the horizon, to be entered again.
    assert_eq!(due.iter().map(|entry| entry.slot).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((wheel.now, wheel.entries, wheel.next()), (5 + JUMP, 0, None));
}

/// More in one tick than one turn takes: the rest is not lost, nor is the
/// tick passed over.
#[test]
fn a_crowded_tick_takes_several_turns() {
    let mut wheel = Wheel::new(0, 4);
    let mut marks = vec![WheelMark::default(); 3 * BOUND];
    for (slot, mark) in marks.iter_mut().enumerate() {
        wheel.schedule(slot as u32, mark, if slot % 2 == 0 { 100 } else { 5_000 });
    }
    let mut seen = vec![0; marks.len()];
    let mut turns = 0;
    loop {
        let mut due = Vec::new();
        let all = wheel.advance(6_000, &mut due);
        assert!(due.len() <= BOUND);
        turns += 1;
        for entry in due.drain(..).filter(|entry| entry.claim(&mut marks[entry.slot as usize])) {
            seen[entry.slot as usize] += 1;
        }
        if all {
            break;
        }
    }
    assert!(seen.iter().all(|times| *times == 1));
    assert!((3..=5).contains(&turns), "{turns}");
}

#[test]
fn next_is_never_late() {
    let mut wheel = Wheel::new(100, 4);
    assert_eq!(wheel.next(), None);
    let mut mark = WheelMark::default();
    wheel.schedule(1, &mut mark, 350);
    assert_eq!(wheel.next(), Some(250));
    let mut far = WheelMark::default();
    wheel.schedule(2, &mut far, 100_000);
    assert!(wheel.next().unwrap() <= 250);
}

/// Who sleeps until the wheel says so comes in time for each deadline, and is not
/// woken for a far bucket beside.
#[test]
fn a_sleeper_is_woken_for_deadlines_only() {
    for start in [0u32, 123_456, u32::MAX - 200_000, (1 << 26) - 100_000] {
        let mut wheel = Wheel::new(start, 4);
        let mut marks = [WheelMark::default(); 200];
        let mut random = SplitMix64::new(start.into());
        let mut deadlines = Vec::new();
        for (slot, mark) in marks.iter_mut().enumerate() {
            let deadline = never_zero(start.wrapping_add(1 + random.below(500_000) as u32));
            // Entered for later first, and brought forward: in its bucket, or in
            // another.
            wheel.schedule(slot as u32, mark, deadline.wrapping_add(700 * (slot as u32 % 4)));
            wheel.schedule(slot as u32, mark, deadline);
            deadlines.push(Some(deadline));
        }
        let (mut now, mut wakes, mut fired) = (start, 0, 0);
        while let Some(next) = wheel.next() {
            now = now.wrapping_add(next);
            wakes += 1;
            let mut due = Vec::new();
            while !wheel.advance(now, &mut due) {}
            for entry in due {
                if !entry.claim(&mut marks[entry.slot as usize]) {
                    continue;
                }
                let Some(deadline) = deadlines[entry.slot as usize] else { continue };
                if (deadline.wrapping_sub(now) as i32) > 0 {
                    wheel.schedule(entry.slot, &mut marks[entry.slot as usize], deadline);
                    continue;
                }
                assert_eq!(deadline, now, "late");
                fired += 1;
                deadlines[entry.slot as usize] = None;
            }
        }
        assert_eq!(fired, 200);
        // One for each, and at most one more for what was entered for later.
        assert!(wakes <= 350, "{wakes}");
    }
}
