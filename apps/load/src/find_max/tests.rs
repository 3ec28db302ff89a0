use super::*;
use crate::random::Random;

/// Searches a server of which only the latency at a rate is known, as a
/// factor of its service time, with noise.
fn search(config: FindMaxConfig, mut latency: impl FnMut(f64) -> f64, bound: f64) -> Found {
    let mut search = FindMax::new(config);
    let mut runs = 0;
    while let Some(rate) = search.propose() {
        let value = latency(rate);
        search.record(Trial { achieved: rate, met: value < bound, mean_ns: value, ..Trial::default() });
        runs += 1;
        assert!(runs <= config.trials, "the search does not end");
    }
    search.found()
}

/// M/M/1 at a capacity of 100,000: the mean is 1 ÷ (capacity − rate).
fn mm1(rate: f64) -> f64 {
    if rate < 1e5 { 1e9 / (1e5 - rate) } else { f64::INFINITY }
}

/// M/D/1 at the same (Pollaczek and Khinchine): half of the wait.
fn md1(rate: f64) -> f64 {
    let load = rate / 1e5;
    if load < 1.0 { 1e4 * (1.0 + load / (2.0 * (1.0 - load))) } else { f64::INFINITY }
}

/// Flat up to 80,000, and then a wall.
fn knee(rate: f64) -> f64 {
    if rate <= 8e4 { 20_000.0 } else { 1e9 }
}

fn assert_near(found: &Found, exact: f64, precision: f64) {
    let rate = found.rate.expect("some rate is met");
    assert!((rate / exact - 1.0).abs() <= precision, "{rate} for {exact}");
    assert!(!found.cut_short);
}

#[test]
fn known_servers_give_known_answers() {
    let config = FindMaxConfig::default();
    for start in [1.0, 1_000.0, 89_000.0, 5e6] {
        let config = FindMaxConfig { start, ..config };
        // A mean of 100 µs is at 90,000 per second.
        assert_near(&search(config, mm1, 1e5), 9e4, config.precision);
        // 30 µs: 1 + ρ ÷ (2 (1 − ρ)) = 3 where ρ = 0.8.
        assert_near(&search(config, md1, 3e4), 8e4, config.precision);
        assert_near(&search(config, knee, 1e5), 8e4, config.precision);
    }
    let fine = FindMaxConfig { precision: 1e-4, ..config };
    assert_near(&search(fine, mm1, 1e5), 9e4, 1e-4);
    let found = search(config, mm1, 1e5);
    assert!(found.missed.is_some_and(|missed| missed > found.rate.unwrap()));
    assert!(found.points.iter().map(|point| point.trials.len()).sum::<usize>() < 30);
    assert!(!found.limited);
}

#[test]
fn the_curve_is_in_order_and_has_every_run() {
    let found = search(FindMaxConfig::default(), mm1, 1e5);
    assert!(found.points.is_sorted_by(|one, other| one.rate < other.rate));
    assert!(found.points.len() > 8);
    for point in &found.points {
        assert!(point.trials.iter().all(|trial| trial.mean_ns == mm1(point.rate)));
        assert_eq!(point.median(|trial| trial.mean_ns).mean_ns, mm1(point.rate));
    }
}

#[test]
fn noise_does_not_lead_astray() {
    let mut far = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        // The mean of a run of M/M/1 has an error; one run in twenty is
        // disturbed by something else.
        let noisy = |rate: f64| {
            let error = 0.05 * (random.exponential() - 1.0);
            let disturbed = random.below(20) == 0;
            if disturbed { 1e9 } else { mm1(rate) * (1.0 + error) }
        };
        let found = search(FindMaxConfig::default(), noisy, 1e5);
        let rate = found.rate.expect("some rate is met");
        // 5 % of the latency are 0.5 % of the rate here.
        far += u32::from((rate / 9e4 - 1.0).abs() > 0.05);
        assert!(rate > 5e4 && rate < 9.5e4, "seed {seed}: {rate}");
    }
    assert!(far <= 10, "{far} of 200 are more than 5 % off");
}

#[test]
fn one_lucky_run_is_not_an_answer() {
    // Above the true limit of 50,000 every third run looks fine.
    let mut runs = 0;
    let lucky = |rate: f64| {
        runs += 1;
        if rate <= 5e4 || runs % 3 == 0 { 1.0 } else { 1e9 }
    };
    let found = search(FindMaxConfig::default(), lucky, 1e5);
    assert!(found.rate.is_some_and(|rate| rate <= 5e4 * 1.001), "{:?}", found.rate);
}

#[test]
fn the_ends_of_the_range_are_answers_too() {
    let config = FindMaxConfig { lowest: 100.0, highest: 1e6, ..FindMaxConfig::default() };
    let all = search(config, |_| 1.0, 10.0);
    assert_eq!((all.rate, all.missed, all.cut_short), (Some(1e6), None, false));
    let none = search(config, |_| 100.0, 10.0);
    assert_eq!((none.rate, none.missed, none.cut_short), (None, Some(100.0), false));
    let short = search(FindMaxConfig { trials: 4, ..config }, mm1, 1e5);
    assert!(short.cut_short && short.rate == Some(8_000.0), "{short:?}");
}

#[test]
fn a_rate_that_is_not_sent_is_not_met() {
    let mut search = FindMax::new(FindMaxConfig::default());
    while let Some(rate) = search.propose() {
        // The generator itself stops at 30,000, where all is still well.
        search.record(Trial { achieved: rate.min(3e4), met: true, ..Trial::default() });
    }
    let found = search.found();
    let rate = found.rate.unwrap();
    assert!(rate > 3e4 * 0.98 && rate <= 3e4 / 0.95, "{rate}");
    assert!(found.limited);
}

#[test]
fn settings_that_make_no_sense_do_no_harm() {
    let config = FindMaxConfig {
        start: f64::NAN,
        lowest: -1.0,
        highest: f64::INFINITY,
        growth: 0.5,
        precision: 0.0,
        votes: 0,
        confirm: 0,
        achieved: 7.0,
        trials: 1_000,
        patience: 0,
    };
    let found = search(config, mm1, 1e5);
    assert_near(&found, 9e4, FindMaxConfig::default().precision);
    let mut over = FindMax::new(FindMaxConfig { trials: 0, ..config });
    assert!(over.propose().is_some());
    over.record(Trial::default());
    assert!(over.propose().is_none());
    over.record(Trial::default());
    assert_eq!(over.found().points.len(), 1);
}

/// A server with a wall at 80,000 on a machine that is disturbed in some runs:
/// those miss whatever the rate, and are known to be spoilt, as far as
/// `seen` says.
fn disturbed(seed: u64, often: u32, seen: u32) -> Found {
    let mut random = Random::new(seed);
    let mut search = FindMax::new(FindMaxConfig { patience: 5, ..FindMaxConfig::default() });
    while let Some(rate) = search.propose() {
        let disturbed = random.below(100) < often;
        let spoilt = (disturbed && random.below(100) < seen).then_some(Spoilt::Others { share: 0.5, waited: 0.2 });
        search.record(Trial { achieved: rate, met: rate <= 8e4 && !disturbed, spoilt, ..Trial::default() });
    }
    search.found()
}

#[test]
fn a_disturbed_machine_gives_no_wrong_answer() {
    let (mut answers, mut invalid) = (0, 0);
    for often in [5, 30, 50, 80, 95, 100] {
        for seed in 0..200 {
            let found = disturbed(seed, often, 100);
            match found.rate {
                Some(rate) => {
                    answers += 1;
                    assert!((rate / 8e4 - 1.0).abs() <= 0.1 && !found.invalid, "{often} %, seed {seed}: {rate}");
                }
                None => {
                    invalid += 1;
                    assert!(found.invalid && !found.cut_short, "{often} %, seed {seed}: {found:?}");
                    assert!(found.at_least.is_none_or(|least| least <= 8e4));
                }
            }
        }
    }
    assert!(answers > 400 && invalid > 300, "{answers} answers, {invalid} invalid");
    // The runs have to be told apart: unseen disturbances lead astray.
    assert!((0..200).any(|seed| disturbed(seed, 50, 0).rate.is_none_or(|rate| rate < 4e4)));
}

/// A server with a wall at 80,000 on cores that have half of their speed in some
/// runs, which no wait tells.
fn slowed(seed: u64, often: u32, seen: bool) -> Found {
    let mut random = Random::new(seed);
    let mut search = FindMax::new(FindMaxConfig::default());
    while let Some(rate) = search.propose() {
        let slow = random.below(100) < often;
        // Under load the two cores are in each other's way, a little.
        let pace = (5_000.0 + rate / 1e3) * if slow { 2.0 } else { 1.0 };
        let met = rate <= if slow { 4e4 } else { 8e4 };
        search.record(Trial { achieved: rate, met, pace_ns: seen.then_some(pace), ..Trial::default() });
    }
    search.found()
}

#[test]
fn slow_cores_are_not_held_against_the_server() {
    let mut answers = 0;
    for often in [0, 10, 30, 60] {
        for seed in 0..100 {
            let found = slowed(seed, often, true);
            answers += u32::from(found.rate.is_some());
            let rate = found.rate.unwrap_or(8e4);
            assert!((rate / 8e4 - 1.0).abs() <= 0.1, "{often} %, seed {seed}: {rate}");
            assert!(found.invalid != found.rate.is_some() && (often > 0 || found.slower == 0));
        }
    }
    assert!(answers > 200, "{answers} answers");
    assert!((0..100).any(|seed| slowed(seed, 60, false).rate.is_none_or(|rate| rate < 7.2e4)), "unseen");
}

#[test]
fn a_disturbed_run_that_met_the_objective_counts() {
    let mut search = FindMax::new(FindMaxConfig { highest: 4_000.0, ..FindMaxConfig::default() });
    while let Some(rate) = search.propose() {
        let spoilt = Some(Spoilt::Stolen { share: 0.5 });
        search.record(Trial { achieved: rate, met: true, spoilt, ..Trial::default() });
    }
    assert_eq!(search.found().rate, Some(4_000.0));
}

#[test]
fn few_samples_are_no_answer_either_way() {
    for met in [false, true] {
        let mut search = FindMax::new(FindMaxConfig::default());
        while let Some(rate) = search.propose() {
            let spoilt = Some(Spoilt::FewSamples { samples: 39, least: 1_000 });
            search.record(Trial { achieved: rate, met, spoilt, ..Trial::default() });
        }
        let found = search.found();
        assert!(found.invalid && found.rate.is_none(), "{found:?}");
        assert_eq!(found.points[0].trials.len(), 3);
    }
}

mod spoiling {
    use super::*;
    use crate::figures::Figures;
    use crate::plan::{Plan, Request};
    use crate::report::Outside;
    use core::time::Duration;

    fn spoilt(objective: &str, around: Surroundings, sifted: &Sifted) -> Option<Spoilt> {
        let plan = Plan::new(([10, 0, 0, 2], 80).into(), Request::get("h", "/"));
        let mut figures = Figures { window: Duration::from_secs(1), silos: 1, ..Figures::default() };
        (0..5_000).for_each(|_| figures.latency.record(1_000));
        let report = Report::new(&plan, &figures, Outside::default());
        Spoilt::of(&report, &Objective::parse_list(objective).unwrap(), sifted, &around)
    }

    const ENOUGH: Sifted = Sifted {
        slices: 200,
        counted: 100,
        stolen: 0,
        generator_waited: 0,
        server_waited: 0,
        recovering: 100,
        too_short: 0,
        late_ns: 0,
        enough: true,
    };

    #[test]
    fn what_is_lost_is_held_against_what_was_asked() {
        let calm = Surroundings::default();
        assert_eq!(spoilt("p99<1ms", calm, &ENOUGH), None);
        // Too short each to matter, and too much in all.
        assert_eq!(spoilt("p99<1ms", Surroundings { stolen: 0.02, ..calm }, &ENOUGH), None);
        let stolen = Surroundings { stolen: 0.06, ..calm };
        assert_eq!(spoilt("p99<1ms", stolen, &ENOUGH), Some(Spoilt::Stolen { share: 0.06 }));
        assert_eq!(spoilt("rate<1k", stolen, &ENOUGH), None);
        let taken = Surroundings { others: 0.5, waited: 0.1, ..calm };
        assert_eq!(spoilt("p99<1ms", taken, &ENOUGH), Some(Spoilt::Others { share: 0.5, waited: 0.1 }));
        // Elsewhere on the machine, or by the server and the generator alone.
        assert_eq!(spoilt("p99<1ms", Surroundings { waited: 0.001, ..taken }, &ENOUGH), None);
        assert_eq!(spoilt("p99<1ms", Surroundings { others: 0.002, ..taken }, &ENOUGH), None);
    }

    #[test]
    fn what_counted_must_be_enough_and_undisturbed() {
        let calm = Surroundings::default();
        let disturbed = Some(Spoilt::Disturbed { counted: 100, slices: 200 });
        assert_eq!(spoilt("p99<1ms", calm, &Sifted { enough: false, ..ENOUGH }), disturbed);
        assert_eq!(spoilt("p99<1ms", calm, &Sifted { late_ns: 6_000_000, ..ENOUGH }), disturbed);
        assert_eq!(spoilt("p99<1ms", calm, &Sifted { late_ns: 4_000_000, ..ENOUGH }), None);
    }

    #[test]
    fn a_percentile_needs_its_samples() {
        for (objective, least) in
            [("p99<1ms", 1_000), ("p99.9<1ms", 10_000), ("errors<1", 1), ("p50<1ms,lag90<1s", 100)]
        {
            let needed = Objective::parse_list(objective).unwrap().iter().map(Objective::least_samples).max();
            assert_eq!(needed, Some(least), "{objective}");
        }
        let few = Some(Spoilt::FewSamples { samples: 5_000, least: 10_000 });
        assert_eq!(spoilt("p99.9<1ms", Surroundings::default(), &ENOUGH), few);
    }
}
