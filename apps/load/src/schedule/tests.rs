use super::*;

fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9).round() as u64)
}

/// The times of the first `count` requests, in seconds, with changes on the
/// way.
fn times(schedule: &Schedule, seed: u64, count: usize, changes: &[(f64, Change)]) -> Vec<f64> {
    let mut arrivals = Arrivals::new(schedule, seed, Time::ZERO);
    let mut changes = changes.iter();
    let mut next = changes.next();
    let mut out = Vec::new();
    while out.len() < count && arrivals.next() < Time::MAX || next.is_some() {
        match next {
            Some(&(when, change)) if at(when) <= arrivals.next() => {
                arrivals.change(schedule, change, at(when));
                next = changes.next();
            }
            _ => {
                out.push(arrivals.next().as_nanos() as f64 * 1e-9);
                arrivals.advance(schedule);
            }
        }
    }
    out
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for (one, other) in found.iter().zip(expected) {
        assert!((one - other).abs() < 2e-9, "{found:?}\n{expected:?}");
    }
}

#[test]
fn a_constant_rate_is_exact_after_any_time() {
    let schedule = Schedule::constant(3_000_000.0);
    let mut arrivals = Arrivals::new(&schedule, 1, Time::from_nanos(17));
    for k in 1..=3_000_000_u64 {
        let exact = 17 + (k * 1_000 + 1) / 3;
        assert!(arrivals.next().as_nanos().abs_diff(exact) <= 1, "{k}");
        arrivals.advance(&schedule);
    }
}

#[test]
fn steps_hold_for_their_time_and_the_last_one_on() {
    let step = |rate, seconds| Step { rate, time: Duration::from_secs_f64(seconds) };
    let schedule = Schedule::steps(vec![step(2.0, 1.0), step(0.0, 1.0), step(4.0, 0.5), step(1.0, 0.1)]);
    // 2 a second up to 1 s, none for a second, 4 a second up to 2.5 s.
    let expected = [0.5, 1.0, 2.25, 2.5, 3.5, 4.5];
    assert_close(&times(&schedule, 1, 6, &[(0.0, Change::Begin)]), &expected);
    assert!((schedule.mean_rate(Duration::from_secs(3)) - (2.0 + 0.0 + 2.0 + 0.5) / 3.0).abs() < 1e-9);
    // Before the schedule's time begins, its first rate holds.
    assert_close(&times(&schedule, 1, 4, &[]), &[0.5, 1.0, 1.5, 2.0]);
    let later = times(&schedule, 1, 5, &[(1.0, Change::Begin)]);
    assert_close(&later, &[0.5, 1.0, 1.5, 2.0, 3.25]);
}

#[test]
fn a_ramp_follows_the_integral_of_its_rate() {
    let schedule = Schedule::ramp(0.0, 100.0, Duration::from_secs(10));
    let found = times(&schedule, 1, 510, &[(0.0, Change::Begin)]);
    // 5 t² requests are due by t; 500 in 10 s, then 100 a second.
    for (n, time) in found.iter().enumerate() {
        let k = n as f64 + 1.0;
        let exact = if k <= 500.0 { (k / 5.0).sqrt() } else { 10.0 + (k - 500.0) / 100.0 };
        assert!((time - exact).abs() < 2e-9, "{k}: {time} for {exact}");
    }
    assert!((schedule.mean_rate(Duration::from_secs(10)) - 50.0).abs() < 1e-9);
    // Downwards, to a standstill: 500 and no more, the last after 10 s but
    // for rounding.
    let down = Schedule::ramp(100.0, 0.0, Duration::from_secs(10));
    let found = times(&down, 1, 600, &[(0.0, Change::Begin)]);
    assert!((499..=500).contains(&found.len()), "{}", found.len());
    for (n, time) in found.iter().enumerate().take(499) {
        let exact = 10.0 - (100.0 - (n as f64 + 1.0) / 5.0).sqrt();
        assert!((time - exact).abs() < 2e-9, "{time} for {exact}");
    }
}

#[test]
fn a_change_of_rate_takes_effect_at_once_and_without_a_burst() {
    let schedule = Schedule::constant(1.0);
    // Half of a gap of 1 s is left, which is 5 ms at 100 a second.
    let found = times(&schedule, 1, 5, &[(1.5, Change::Rate(100.0))]);
    assert_close(&found, &[1.0, 1.505, 1.515, 1.525, 1.535]);
    // A pause of 10 s: nothing is made up for.
    let found = times(&schedule, 1, 4, &[(1.5, Change::Rate(0.0)), (11.5, Change::Rate(1.0))]);
    assert_close(&found, &[1.0, 12.0, 13.0, 14.0]);
    // From practically nothing.
    let slow = Schedule::constant(1e-6);
    let found = times(&slow, 1, 2, &[(5.0, Change::Rate(10.0))]);
    assert!(found[0] > 5.0 && found[0] <= 5.1 && (found[1] - found[0] - 0.1).abs() < 1e-8, "{found:?}");
}

#[test]
fn silos_in_sum_are_evenly_spaced() {
    let schedule = Schedule::constant(900.0);
    let mut all: Vec<f64> = (0..3).flat_map(|n| times(&schedule.share(n, 3), 1, 100, &[])).collect();
    all.sort_by(f64::total_cmp);
    let expected: Vec<f64> = (1..=300).map(|k| f64::from(k) / 900.0).collect();
    assert_close(&all, &expected);
}

#[test]
fn a_poisson_process_is_one() {
    const COUNT: usize = 200_000;
    for seed in [1, 2, 3] {
        let found = times(&Schedule::poisson(1_000.0), seed, COUNT, &[]);
        let gaps: Vec<f64> = core::iter::once(found[0]).chain(found.windows(2).map(|w| w[1] - w[0])).collect();
        let n = COUNT as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        // Five standard errors: 1/√n of the mean, √(8/n) of the variance.
        assert!((mean * 1e3 - 1.0).abs() < 5.0 / n.sqrt(), "mean {mean}");
        assert!((variance * 1e6 - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "variance {variance}");
        // Kolmogorov and Smirnov, at 0.1 %.
        let mut sorted = gaps.clone();
        sorted.sort_by(f64::total_cmp);
        let off = |(k, gap): (usize, &f64)| {
            let exact = 1.0 - (-gap * 1e3).exp();
            (exact - k as f64 / n).abs().max((exact - (k as f64 + 1.0) / n).abs())
        };
        let distance = sorted.iter().enumerate().map(off).fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "distance {distance}");
        // Gaps know nothing of each other.
        let pairs: f64 = gaps.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / n / variance;
        assert!(pairs.abs() < 5.0 / n.sqrt(), "correlation {pairs}");
        // Nor do counts: their variance is their mean.
        let mut counts = vec![0.0; 1_900];
        for time in &found {
            if let Some(count) = counts.get_mut((time * 10.0) as usize) {
                *count += 1.0;
            }
        }
        let mean = counts.iter().sum::<f64>() / 1_900.0;
        let spread = counts.iter().map(|count: &f64| (count - mean).powi(2)).sum::<f64>() / 1_900.0 / mean;
        assert!((spread - 1.0).abs() < 5.0 * (2.0_f64 / 1_900.0).sqrt(), "dispersion {spread}");
    }
    let [one, same, other] = [1, 1, 2].map(|seed| times(&Schedule::poisson(1e3), seed, 100, &[]));
    assert!(one == same && one != other);
}

#[test]
fn a_poisson_process_follows_a_ramp() {
    let schedule = Schedule { spacing: Spacing::Poisson, ..Schedule::ramp(0.0, 20_000.0, Duration::from_secs(10)) };
    let found = times(&schedule, 1, 100_000, &[(0.0, Change::Begin)]);
    for seconds in [2.0, 5.0, 8.0] {
        let due = found.iter().filter(|time| **time < seconds).count() as f64;
        let exact: f64 = 1_000.0 * seconds * seconds;
        assert!((due - exact).abs() < 5.0 * exact.sqrt(), "{due} for {exact}");
    }
}

#[test]
fn schedules_that_cannot_be_followed_are_refused() {
    let step = |rate| Step { rate, time: Duration::from_secs(1) };
    for bad in [
        Schedule::constant(0.0),
        Schedule::constant(-1.0),
        Schedule::constant(f64::NAN),
        Schedule::constant(f64::INFINITY),
        Schedule::constant(1.1e9),
        Schedule::steps(Vec::new()),
        Schedule::steps(vec![step(0.0); 3]),
        Schedule::steps(vec![step(1.0); 4_097]),
        Schedule::ramp(0.0, 0.0, Duration::from_secs(1)),
        Schedule { first_gap: 0.0, ..Schedule::constant(1.0) },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
    for good in [
        Schedule::constant(1e9),
        Schedule::constant(1e-9),
        Schedule::steps(vec![step(0.0), step(1.0)]),
        Schedule::ramp(0.0, 1.0, Duration::ZERO),
        Schedule::ramp(5.0, 0.0, Duration::from_secs(1)),
    ] {
        assert_eq!(good.check(), Ok(()));
        // And nothing in it turns for ever.
        let _ = times(&good, 1, 10, &[(0.0, Change::Begin)]);
        let _ = good.mean_rate(Duration::from_secs(10));
    }
}

/// The parts of `whole` that silos of workers follow, each with the seed that it has.
fn parts(whole: &Schedule, workers: u32, silos: u32) -> Vec<(Schedule, u64, (u32, u32))> {
    let request = crate::plan::Request::get("a", "/");
    let mut plan = crate::plan::Plan::new(([10, 0, 0, 2], 80).into(), request);
    (plan.connections, plan.arrival) = (1_000, Arrival::Open(whole.clone()));
    let of_worker = |worker| plan.share(worker, workers).expect("a connection each");
    let of_silo = |worker, silo| of_worker(worker).share(silo, silos).expect("a connection each");
    let all = (0..workers).flat_map(|worker| (0..silos).map(move |silo| (worker, silo)));
    all.map(|(worker, silo)| of_silo(worker, silo))
        .map(|plan| match plan.arrival {
            Arrival::Open(schedule) => (schedule, plan.seed, plan.lane),
            Arrival::Closed => panic!("it was open"),
        })
        .collect()
}

/// Ten workers of two silos together are one Poisson process (Cox and Lewis 1966): the variance of its counts is
/// their mean, in windows of any length.
#[test]
fn merged_poisson_parts_of_many_workers_are_poisson() {
    const WINDOWS: usize = 1_600_000;
    let mut counts = vec![0_u32; WINDOWS];
    for (schedule, seed, _) in parts(&Schedule::poisson(1_000.0), 10, 2) {
        let mut arrivals = Arrivals::new(&schedule, seed, Time::ZERO);
        while let Some(count) = counts.get_mut((arrivals.next().as_nanos() / 1_000_000) as usize) {
            *count += 1;
            arrivals.advance(&schedule);
        }
    }
    for millis in [1, 10, 100] {
        let sums: Vec<f64> = counts.chunks(millis).map(|chunk| f64::from(chunk.iter().sum::<u32>())).collect();
        let n = sums.len() as f64;
        let mean = sums.iter().sum::<f64>() / n;
        let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / (n - 1.0);
        assert!((mean - millis as f64).abs() < 0.01 * millis as f64, "{millis} ms: {mean}");
        assert!((variance / mean - 1.0).abs() < 0.05, "{millis} ms: dispersion {}", variance / mean);
    }
}

#[test]
fn constant_parts_of_many_workers_are_evenly_spaced_in_sum() {
    for (workers, silos) in [(1, 1), (3, 1), (10, 2), (4, 3)] {
        let mut all = Vec::new();
        for (schedule, seed, _) in parts(&Schedule::constant(3_000.0), workers, silos) {
            all.extend(times(&schedule, seed, 300, &[]));
        }
        all.sort_by(f64::total_cmp);
        let exact: Vec<f64> = (1..=all.len()).map(|n| n as f64 / 3_000.0).collect();
        assert_close(&all, &exact);
    }
}

#[test]
fn parts_of_parts_have_counters_and_seeds_of_their_own() {
    let mut places = std::collections::BTreeSet::new();
    let mut seeds = std::collections::BTreeSet::new();
    // The workers have different numbers of silos, as their machines have different numbers of cores.
    let whole = Schedule::constant(1_000.0);
    let mixed = [(0, 2), (1, 3), (2, 1)].map(|(worker, silos)| {
        let all = parts(&whole, 3, silos);
        all.into_iter().skip(worker * silos as usize).take(silos as usize).collect::<Vec<_>>()
    });
    for (_, seed, (lane, lanes)) in mixed.into_iter().flatten() {
        assert!(seeds.insert(seed), "{seed}");
        for n in 0..100 {
            assert!(places.insert(lane + n * lanes), "{lane} of {lanes}, {n}");
        }
    }
    assert_eq!((seeds.len(), places.len()), (6, 600));
    // As far as all have come, none is left out: rows of data go round without gaps.
    assert!((0..100).all(|place| places.contains(&place)));
}
