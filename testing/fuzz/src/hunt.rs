//! Looking for an input that breaks a target.

use crate::coverage::{Map, Progress};
use crate::mutate::{Random, minimise, mutate};
use crate::{Target, corpus};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Inputs kept beside the first ones; beyond, a new one replaces another.
const MAX_POOL: usize = 20_000;

/// What a hunt came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Inputs run.
    pub runs: u64,
    /// Edges taken and edges there are; 0 without instrumentation.
    pub coverage: (usize, usize),
    /// An input that broke the target, made as short as possible.
    pub broken_by: Option<Vec<u8>>,
}

/// A hunt on one target.
#[derive(Debug)]
pub struct Hunt {
    pool: Vec<Vec<u8>>,
    random: Random,
    map: Map,
}

impl Hunt {
    /// Begins with these inputs. The same inputs, seed and build take the same
    /// course.
    #[must_use]
    pub fn new(mut inputs: Vec<Vec<u8>>, seed: u64) -> Self {
        if inputs.is_empty() {
            inputs.push(Vec::new());
        }
        Self { pool: inputs, random: Random::new(seed), map: Map::new() }
    }

    /// Runs all inputs as they are, then mutations of them, as long as
    /// `go_on`, asked with the number of runs and the next input, says so.
    /// `on_new` gets the inputs that reached new code.
    pub fn run(
        &mut self,
        target: &Target,
        mut go_on: impl FnMut(u64, &[u8]) -> bool,
        mut on_new: impl FnMut(&[u8]),
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let first = self.pool.len() as u64;
        let mut input = Vec::new();
        loop {
            if outcome.runs < first {
                input.clone_from(&self.pool[outcome.runs as usize]);
            } else {
                self.next(target, &mut input);
            }
            if !go_on(outcome.runs, &input) {
                break;
            }
            let broken = breaks(target, &input);
            outcome.runs += 1;
            if broken {
                outcome.broken_by = Some(minimise(&input, |shorter| breaks(target, shorter)));
                break;
            }
            if self.map.update() != Progress::None && outcome.runs > first {
                on_new(&input);
                self.keep(&input);
            }
        }
        outcome.coverage = (self.map.taken(), self.map.edges());
        outcome
    }

    fn next(&mut self, target: &Target, input: &mut Vec<u8>) {
        // Half of the time one of the latest: they reached new code.
        let len = self.pool.len();
        let recent = len.min(64);
        let index =
            if self.random.below(2) == 0 { len - 1 - self.random.below(recent) } else { self.random.below(len) };
        input.clone_from(&self.pool[index]);
        let other = self.random.below(len);
        mutate(input, &self.pool[other], target.dictionary, &mut self.random);
        input.truncate(target.max_len);
    }

    fn keep(&mut self, input: &[u8]) {
        if self.pool.len() < MAX_POOL {
            self.pool.push(input.to_vec());
        } else {
            let index = self.random.below(MAX_POOL);
            self.pool[index] = input.to_vec();
        }
    }
}

/// Edges that an input must reach by itself to be worth committing.
const WORTH: u32 = 4;

/// Those of `inputs`, the longest first, that reach several edges which
/// neither the committed inputs nor a longer one does: few of them, as long
/// ones reach much. None without instrumentation.
///
/// # Errors
/// If the committed inputs cannot be read.
pub fn new_edges(target: &Target, mut inputs: Vec<Vec<u8>>) -> io::Result<Vec<Vec<u8>>> {
    let mut map = Map::new();
    for input in corpus::committed(target)? {
        let _ = breaks(target, &input);
        map.update();
    }
    inputs.sort_by_key(|input| core::cmp::Reverse(input.len()));
    inputs.retain(|input| !breaks(target, input) && map.update() >= Progress::Edges(WORTH));
    Ok(inputs)
}

/// Whether the target panics.
#[must_use]
pub fn breaks(target: &Target, input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err()
}

/// Runs a target's committed inputs and `runs` mutations of them, for
/// `cargo test`.
///
/// # Panics
/// If an input breaks the target: with the command that replays it.
pub fn replay(target: &Target, runs: u32) {
    let inputs = corpus::committed(target).expect("the committed inputs can be read");
    assert!(!inputs.is_empty(), "{} has no inputs: cargo run -p fuzz -- --write-corpus", target.name);
    let runs = inputs.len() as u64 + u64::from(runs);
    let outcome = Hunt::new(inputs, corpus::digest(target.name.as_bytes())).run(target, |done, _| done < runs, |_| {});
    if let Some(input) = outcome.broken_by {
        let prefix = format!("fuzz-{}-", target.name);
        let path = corpus::write(&std::env::temp_dir(), &prefix, &input).expect("the input can be written");
        panic!("{}: cargo run -p fuzz -- {} --replay {}", target.about, target.name, path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANTED: Target = Target {
        name: "planted",
        about: "no two capital Xs",
        run: |input| assert!(input.iter().filter(|&&byte| byte == b'X').count() < 2),
        seeds: || vec![b"hello".to_vec()],
        dictionary: &[],
        test_runs: 0,
        max_len: 100,
    };

    #[test]
    fn a_planted_fault_is_found_and_made_short() {
        let outcome = Hunt::new((PLANTED.seeds)(), 1).run(&PLANTED, |runs, _| runs < 1_000_000, |_| {});
        assert_eq!(outcome.broken_by.as_deref(), Some(&b"XX"[..]));
    }

    #[test]
    fn a_seed_stands_for_its_course() {
        let course = |seed| {
            let mut inputs = Vec::new();
            let target = Target { run: |_| {}, ..PLANTED };
            let outcome = Hunt::new((PLANTED.seeds)(), seed).run(
                &target,
                |runs, input| {
                    inputs.push(input.to_vec());
                    runs < 1000
                },
                |_| {},
            );
            assert_eq!((outcome.runs, outcome.broken_by), (1000, None));
            inputs
        };
        assert_eq!(course(7), course(7));
        assert_ne!(course(7), course(8));
    }
}
