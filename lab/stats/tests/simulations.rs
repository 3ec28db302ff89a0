//! What the intervals and verdicts are worth, shown on runs whose truth is
//! known. Seeded: the same outcome every time.

use stats::{Better, Centre, Design, LEVEL, Policy, Random, Verdict, effect, noise_floor, verdict};

/// Simulated experiments behind each share, unless `NEARSIDE_EXPERIMENTS` says another
/// number: its standard error at 5 % is 2 %.
const EXPERIMENTS: u32 = 120;

fn experiments() -> u32 {
    std::env::var("NEARSIDE_EXPERIMENTS").map_or(EXPERIMENTS, |count| count.parse().expect("a number"))
}

/// Three standard errors of such a share.
fn luck() -> f64 {
    3.0 * (0.05 * 0.95 / f64::from(experiments())).sqrt()
}

/// Shapes that figures of runs have.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Many small causes.
    Normal,
    /// Now and then a disturbed run, worse by 15 %.
    Disturbed,
    /// Latency-like: skewed to the right.
    Skewed,
}

const SHAPES: [Noise; 3] = [Noise::Normal, Noise::Disturbed, Noise::Skewed];

/// A run's figure about 1, with a spread of some 2 %.
fn run(random: &mut Random, noise: Noise) -> f64 {
    // Twelve uniform draws have variance 1.
    let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    match noise {
        Noise::Normal => 1.0 + 0.02 * normal,
        Noise::Disturbed => (1.0 + 0.02 * normal) * if random.below(10) == 0 { 0.85 } else { 1.0 },
        Noise::Skewed => 1.0 + 0.02 * random.exponential(),
    }
}

fn runs(random: &mut Random, noise: Noise, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| run(random, noise) * scale).collect()
}

/// The share of experiments of which `holds`.
fn share(mut holds: impl FnMut(&mut Random, u64) -> bool) -> f64 {
    let mut random = Random::new(42);
    let held = (0..u64::from(experiments())).filter(|seed| holds(&mut random, *seed)).count();
    held as f64 / f64::from(experiments())
}

#[test]
fn intervals_hold_the_true_ratio_about_as_often_as_stated() {
    for centre in [Centre::Median, Centre::Mean] {
        for noise in SHAPES {
            for count in [5, 10] {
                let covered = share(|random, seed| {
                    let candidate = runs(random, noise, count, 1.3);
                    let baseline = runs(random, noise, count, 1.0);
                    let found = effect(&candidate, &baseline, centre, Design::Independent, seed).expect("a ratio");
                    let (low, high) = found.interval.expect("an interval");
                    low <= 1.3 && 1.3 <= high
                });
                println!("{centre:?} {noise:?} {count} runs: {covered:.3}");
                // Wider is no fault.
                assert!(covered >= LEVEL - luck(), "{centre:?} {noise:?} {count} runs: {covered}");
            }
        }
    }
}

#[test]
fn intervals_are_not_wider_than_they_need_to_be() {
    // Against the t interval of Welch for ten runs of 2 % on each side:
    // 1.3 × 0.02 × √(2/10) × 2.1.
    let needed = 1.3 * 0.02 * (0.2_f64).sqrt() * 2.1 * 2.0;
    let mut random = Random::new(3);
    let mut width = 0.0;
    for seed in 0..100 {
        let candidate = runs(&mut random, Noise::Normal, 10, 1.3);
        let baseline = runs(&mut random, Noise::Normal, 10, 1.0);
        let found = effect(&candidate, &baseline, Centre::Mean, Design::Independent, seed).expect("a ratio");
        let (low, high) = found.interval.expect("an interval");
        width += (high - low) / 100.0;
    }
    assert!(width < needed * 1.2, "{width} against {needed}");
}

#[test]
fn two_arms_that_are_the_same_are_rarely_told_apart() {
    for design in [Design::Independent, Design::Rounds] {
        for noise in SHAPES {
            let wrong = share(|random, seed| {
                let (a, b, control) =
                    (runs(random, noise, 8, 1.0), runs(random, noise, 8, 1.0), runs(random, noise, 8, 1.0));
                let floor = noise_floor(effect(&control, &b, Centre::Median, design, seed));
                let found = effect(&a, &b, Centre::Median, design, seed + 1);
                let verdict = verdict(found, Policy { better: Better::Higher, margin: 0.001, floor });
                matches!(verdict, Verdict::Faster | Verdict::Slower)
            });
            println!("{design:?} {noise:?}: {wrong:.3}");
            assert!(wrong <= 1.0 - LEVEL, "{design:?} {noise:?}: {wrong}");
        }
    }
}

#[test]
fn without_a_control_the_stated_share_holds_as_well() {
    for noise in SHAPES {
        let wrong = share(|random, seed| {
            let (a, b) = (runs(random, noise, 8, 1.0), runs(random, noise, 8, 1.0));
            let found = effect(&a, &b, Centre::Median, Design::Independent, seed);
            let verdict = verdict(found, Policy { better: Better::Higher, margin: 0.001, floor: 0.0 });
            matches!(verdict, Verdict::Faster | Verdict::Slower)
        });
        println!("{noise:?}: {wrong:.3}");
        assert!(wrong <= 1.0 - LEVEL + luck(), "{noise:?}: {wrong}");
    }
}

#[test]
fn a_shift_of_four_deviations_is_found() {
    for noise in SHAPES {
        let found = share(|random, seed| {
            let (a, b, control) =
                (runs(random, noise, 8, 1.08), runs(random, noise, 8, 1.0), runs(random, noise, 8, 1.0));
            let floor = noise_floor(effect(&control, &b, Centre::Median, Design::Independent, seed));
            let found = effect(&a, &b, Centre::Median, Design::Independent, seed + 1);
            verdict(found, Policy { better: Better::Higher, margin: 0.02, floor }) == Verdict::Faster
        });
        println!("{noise:?}: {found:.3}");
        // One run in ten is off by twice that size: that costs power, never
        // a false word.
        let wanted = if matches!(noise, Noise::Disturbed) { 0.5 } else { 0.95 };
        assert!(found >= wanted, "{noise:?}: {found}");
    }
}

#[test]
fn a_shift_beyond_the_margin_is_almost_never_called_equivalent() {
    let wrong = share(|random, seed| {
        let (a, b) = (runs(random, Noise::Normal, 10, 1.051), runs(random, Noise::Normal, 10, 1.0));
        let found = effect(&a, &b, Centre::Median, Design::Independent, seed);
        verdict(found, Policy { better: Better::Higher, margin: 0.05, floor: 0.0 }) == Verdict::Equivalent
    });
    assert!(wrong <= 0.025, "{wrong}");
}

#[test]
fn equivalence_is_found_where_there_is_enough_to_see_it() {
    let found = share(|random, seed| {
        let (a, b) = (runs(random, Noise::Normal, 20, 1.0), runs(random, Noise::Normal, 20, 1.0));
        let found = effect(&a, &b, Centre::Mean, Design::Independent, seed);
        verdict(found, Policy { better: Better::Higher, margin: 0.03, floor: 0.0 }) == Verdict::Equivalent
    });
    assert!(found >= 0.9, "{found}");
}
