//! Two silos beside one, and two workers beside one: how many requests more,
//! and what each costs the server.
//!
//! On two cores there is none left for the generator, so it is dealt out like
//! the server: a core has a silo and a thread that asks, both sleep while they
//! have nothing to do, and two such cores are held against one. A server that
//! shares nothing between its silos answers twice the requests, each for the
//! same processor time. One silo on a core of its own is measured beside, and
//! it is said which core was full.
//!
//! The same is counted in instructions: the whole server process under
//! callgrind, in user space, where neither cores nor caches matter.
//!
//! | module | for |
//! | --- | --- |
//! | `stand` | servers, the generator, and what one measurement gave |
//! | `instructions` | the server under callgrind |

mod instructions;
mod stand;

pub(crate) use stand::check;

use crate::BenchError;
use crate::kernel::{spread, word};
use clap::ValueEnum;
use demo::child::Interrupt;
use demo::machine::allowed_cores;
use demo::measure::thousands;
use demo::scratch::Scratch;
use instructions::Counted;
use serde::Serialize;
use stand::{Place, Sample, Stand};
use stats::median;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The program to measure.
    pub nearside: PathBuf,
    /// Each is measured in so many rounds, by turns.
    pub rounds: u32,
    /// For so long.
    pub duration: Duration,
    /// These data paths.
    pub paths: Vec<Path>,
    /// Requests that are counted under callgrind; 0 for none.
    pub requests: u64,
    /// Whether the result is printed as JSON.
    pub json: bool,
}

/// A data path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Kernel sockets over loopback: workers
    Kernel,
    /// Our own stack over memif, with a queue for each silo
    Bypass,
}

impl Path {
    fn title(self) -> &'static str {
        match self {
            Self::Kernel => "kernel sockets over loopback, workers",
            Self::Bypass => "own stack over memif, silos with a queue each",
        }
    }
}

/// Instructions per request with two beside one, at most. Idle turns are in it,
/// and under Valgrind, which runs one thread at a time, two silos have more of
/// them. What silos add by themselves is bounded by `bench cost --silos`.
pub const GROWTH: f64 = 1.1;

/// From this share of its time on, a core is full.
const FULL: f64 = 0.95;

/// Connections for each silo.
const CONNECTIONS: u32 = 64;

/// What is measured of one data path.
#[derive(Clone, Debug, Serialize)]
struct Found {
    path: Path,
    /// Of each place, in the order of [`Place::ALL`].
    samples: Vec<Vec<Sample>>,
    /// Requests per second, and those per second of processor time: with two
    /// beside one on such a core.
    rate: [f64; 3],
    efficiency: [f64; 3],
    /// Instructions with one and with two.
    counted: Option<[Counted; 2]>,
}

/// Measures and prints. Returns whether the bounds hold.
///
/// # Errors
/// If something cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let [first, second, ..] = allowed_cores()[..] else { return Err("two cores are needed".into()) };
    let scratch = Scratch::make()?;
    let mut all = Vec::new();
    for path in &plan.paths {
        let stand = Stand::new(&plan.nearside, scratch.path(), *path, (first, second), &interrupt)?;
        let samples = measure(plan, &stand)?;
        let counted = (plan.requests > 0).then(|| instructions::count(&stand, plan.requests)).transpose()?;
        let (rate, efficiency) = (beside_one(&samples, |s| s.rate), beside_one(&samples, Sample::efficiency));
        all.push(Found { path: *path, rate, efficiency, samples, counted });
    }
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        all.iter().for_each(|found| found.print((first, second)));
    }
    Ok(all.iter().all(Found::kept))
}

fn measure(plan: &Plan, stand: &Stand<'_>) -> Result<Vec<Vec<Sample>>, BenchError> {
    let mut samples: Vec<Vec<Sample>> = Place::ALL.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.rounds as usize {
        for turn in 0..Place::ALL.len() {
            let index = (round + turn) % Place::ALL.len();
            let place = Place::ALL[index];
            let sample = stand.sample(place, plan.duration)?;
            eprintln!(
                "round {}/{}, {}: {} requests/s, {} in a second of the server's time",
                round + 1,
                plan.rounds,
                place.title(),
                thousands(sample.rate),
                thousands(sample.efficiency())
            );
            samples[index].push(sample);
        }
    }
    Ok(samples)
}

/// A figure of each round with two, divided by that with one on such a core:
/// smallest, median and largest.
fn beside_one(samples: &[Vec<Sample>], value: fn(&Sample) -> f64) -> [f64; 3] {
    let [_, one, two] = samples else { return [f64::NAN; 3] };
    let (low, middle, high) = spread(two.iter().zip(one).map(|(two, one)| value(two) / value(one)).collect());
    [low, middle, high]
}

impl Found {
    /// What two cost more in instructions, as a factor.
    fn growth(&self) -> Option<f64> {
        let [one, two] = self.counted.as_ref()?;
        Some(two.each / one.each)
    }

    fn kept(&self) -> bool {
        self.growth().is_none_or(|growth| growth <= GROWTH)
    }

    fn print(&self, (first, second): (u16, u16)) {
        println!("\n{}, {CONNECTIONS} connections for each", self.path.title());
        println!(
            "  {:26} {:>11} {:>12} {:>14} {:>7} {:>7} {:>8}",
            "",
            "requests/s",
            "server CPU",
            "/s of its time",
            format!("core {first}"),
            format!("core {second}"),
            "by 2nd"
        );
        for (place, samples) in Place::ALL.iter().zip(&self.samples) {
            let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
            println!(
                "  {:26} {:>11} {:>9.3} us {:>14} {:>6.0}% {:>6.0}% {:>7.0}%",
                place.title(),
                thousands(of(|s| s.rate)),
                of(|s| 1e6 / s.efficiency()),
                thousands(of(Sample::efficiency)),
                100.0 * of(|s| s.cores[0]),
                100.0 * of(|s| s.cores[1]),
                100.0 * of(|s| s.second_share),
            );
        }
        for (what, [low, middle, high]) in
            [("requests/s", self.rate), ("requests in a second of the server's time", self.efficiency)]
        {
            println!("  two beside one, cores shared: {middle:.3} times the {what} ({low:.3} to {high:.3})");
        }
        println!("  {}", self.limit((first, second)));
        let (Some([one, two]), Some(growth)) = (&self.counted, self.growth()) else { return };
        println!(
            "  instructions per request, user space: {:.1} with one, {:.1} with two: {growth:.3} times, at most \
             {GROWTH}: {}",
            one.each,
            two.each,
            word(growth <= GROWTH)
        );
    }

    /// What limited them, in words.
    fn limit(&self, (first, second): (u16, u16)) -> String {
        let of = |place: usize, core: usize| {
            let samples = self.samples.get(place).map_or(&[][..], Vec::as_slice);
            median(&samples.iter().map(|sample| sample.cores[core]).collect::<Vec<_>>()) >= FULL
        };
        let apart = match (of(0, 0), of(0, 1)) {
            (true, true) => "both cores",
            (true, false) => "the server's",
            (false, true) => "the generator's",
            (false, false) => "neither",
        };
        let two = match (of(2, 0), of(2, 1)) {
            (true, true) => "both".to_owned(),
            (true, false) => format!("core {first}"),
            (false, true) => format!("core {second}"),
            (false, false) => "neither".to_owned(),
        };
        format!("full: with one on a core of its own {apart}; with two {two}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: f64, cpu: f64) -> Sample {
        Sample { rate, cpu, second_share: 0.5, cores: [0.5, 1.0] }
    }

    #[test]
    fn two_are_held_against_one_on_such_a_core() {
        let samples = [sample(9e9, 1.0), sample(1e5, 0.2), sample(1.9e5, 0.4)].map(|sample| vec![sample; 3]);
        assert_eq!(beside_one(&samples, |sample| sample.rate), [1.9; 3]);
        assert_eq!(beside_one(&samples, Sample::efficiency), [0.95; 3]);
        let found =
            Found { path: Path::Kernel, rate: [1.0; 3], efficiency: [1.0; 3], samples: samples.into(), counted: None };
        assert_eq!(found.limit((4, 7)), "full: with one on a core of its own the generator's; with two core 7");
    }

    #[test]
    fn instructions_are_held_against_their_bound() {
        let counted = |each| Counted { each, requests: 1, idle_turns: 0.0, requests_per_turn: 32.0 };
        let found = |two| Found {
            path: Path::Bypass,
            samples: Vec::new(),
            rate: [1.0; 3],
            efficiency: [1.0; 3],
            counted: Some([counted(1_000.0), counted(two)]),
        };
        assert!(found(1_100.0).kept() && !found(1_101.0).kept());
        assert!(Found { counted: None, ..found(2_000.0) }.kept(), "nothing was counted");
    }
}
