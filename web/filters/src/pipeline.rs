//! Filters behind each other.

use super::{Broken, Filter, FilterStep, Include, SsiValues};
use features::Values;
use gzip::{Encoder, Encoders};

/// What filters ask of the request that they work for.
pub trait FilterValues: Values {
    /// A variable by its name, in lower case; nothing if it stands for nothing.
    fn named(&mut self, name: &[u8]) -> Option<Vec<u8>>;
    /// The unix second.
    fn second(&mut self) -> u64;
    /// What commands have set, for all content of a request.
    fn ssi(&mut self) -> &mut SsiValues;
    /// The path that was asked for.
    fn path(&mut self) -> Vec<u8>;
    /// Something is included here; whether it is. It [waits](Self::waits) then.
    fn include(&mut self, include: Include) -> bool;
    /// Nothing more is to be made of content before what was included has its place.
    fn waits(&self) -> bool;
    /// Something is wrong with the content: for the error log, where it has such lines.
    fn tell(&mut self, fault: &dyn Fn() -> Vec<u8>) {
        let _ = fault;
    }
}

/// Bytes that wait between two filters, at most, but for what one step makes.
const BETWEEN: usize = 16 << 10;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Bytes of the input that were taken.
    pub taken: usize,
    /// All was told.
    pub ended: bool,
}

/// Filters, the one that is next to the content first.
#[derive(Debug, Default)]
pub struct Pipeline {
    stages: Vec<Stage>,
}

#[derive(Debug)]
struct Stage {
    filter: Filter,
    /// What the one before it has told; of that it has taken so much.
    input: Vec<u8>,
    at: usize,
    ended: bool,
    /// What it was given is not what it was said to be: no more comes of it.
    is_broken: bool,
}

impl Pipeline {
    /// One more, next to the client.
    pub fn push(&mut self, filter: Filter) {
        self.stages.push(Stage { filter, input: Vec::new(), at: 0, ended: false, is_broken: false });
    }

    /// Whether bodies pass as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Takes some of `input`, which ends there if `last`, and appends to `out`, `most`
    /// bytes and what one step more makes. Ends early once `budget` is used up.
    ///
    /// # Errors
    /// The content is not what it is said to be, and what could be made of it was appended by
    /// the calls before: by this one nothing is.
    pub fn run(
        &mut self,
        (input, last): (&[u8], bool),
        (out, most): (&mut Vec<u8>, usize),
        budget: &mut u64,
        values: &mut dyn FilterValues,
    ) -> Result<Ran, Broken> {
        let start = out.len();
        let mut taken = 0;
        loop {
            let mut moved = false;
            // The one next to the client first: what is made is passed on at once.
            for at in (0..self.stages.len()).rev() {
                if *budget == 0 {
                    break;
                }
                let (before, rest) = self.stages.split_at_mut(at);
                let Some((stage, after)) = rest.split_first_mut() else { break };
                let (target, room) = match after.first_mut() {
                    None => {
                        let room = most.saturating_sub(out.len() - start);
                        (&mut *out, room)
                    }
                    Some(next) => next.room(),
                };
                if room == 0 || stage.ended || stage.is_broken {
                    continue;
                }
                let (bytes, last) = match before.last() {
                    None => (&input[taken..], last),
                    Some(before) => (&stage.input[stage.at..], before.ended),
                };
                if bytes.is_empty() && !last {
                    continue;
                }
                let length = target.len();
                let Ok(step) = stage.filter.take((bytes, last), (target, room), values) else {
                    // Those behind it pass on what it made.
                    (stage.is_broken, moved) = (true, true);
                    continue;
                };
                let FilterStep { bytes, ended } = step;
                *budget = budget.saturating_sub(stage.filter.cost() * (bytes.max(64) as u64));
                moved |= bytes > 0 || ended || target.len() > length;
                stage.ended = ended;
                if at == 0 {
                    taken += bytes;
                } else {
                    stage.at += bytes;
                }
            }
            if !moved {
                break;
            }
        }
        if self.stages.iter().any(|stage| stage.is_broken) && out.len() == start && most > 0 && *budget > 0 {
            return Err(Broken);
        }
        Ok(Ran { taken, ended: self.stages.last().is_none_or(|stage| stage.ended) })
    }

    /// Bytes that were compressed, if any are.
    #[must_use]
    pub fn encoded(&self) -> Option<u64> {
        self.stages.iter().find_map(|stage| match &stage.filter {
            Filter::Encode(_, _, bytes) => Some(*bytes),
            _ => None,
        })
    }

    /// Gives back what is used again.
    pub fn give_back(&mut self, encoders: &mut Encoders) {
        for stage in self.stages.drain(..) {
            if let Filter::Encode(encoder, ..) = stage.filter {
                encoders.give_back(*encoder);
            }
        }
    }
}

impl Stage {
    /// Where the one before it tells, and how much.
    fn room(&mut self) -> (&mut Vec<u8>, usize) {
        if self.at > 0 {
            self.input.drain(..self.at);
            self.at = 0;
        }
        let room = BETWEEN.saturating_sub(self.input.len());
        (&mut self.input, room)
    }
}

/// An encoder as a filter.
impl Filter {
    /// Into a coding, at a level, by an encoder of theirs.
    #[must_use]
    pub fn encode(encoder: Encoder, of: (gzip::Coding, u8)) -> Self {
        Self::Encode(Box::new(encoder), of, 0)
    }
}
