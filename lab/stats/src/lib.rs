//! The statistics of experiments: what a figure is, how sure it is, and
//! whether two of them differ.
//!
//! The unit is the run: samples within one (latencies of requests) depend on
//! each other, so they make one figure, and only runs are counted. Nothing
//! here reads a clock or draws randomness of its own; seeds are arguments, and
//! the same seed gives the same interval.
//!
//! | module | for |
//! | --- | --- |
//! | `sample` | mean, median, quantile, standard deviation |
//! | `moments` | the same in constant memory, one value at a time |
//! | `fairness` | Jain's index |
//! | `bootstrap` | the ratio of two sets of runs, with a confidence interval |
//! | `verdict` | faster, slower, equivalent, inconclusive |
//! | `log2` | histograms with buckets that double, as text |
//! | `random` | the generator behind shuffles and resamples |
#![forbid(unsafe_code)]

mod bootstrap;
mod fairness;
mod log2;
mod moments;
mod random;
mod sample;
mod verdict;

pub use self::random::Random;
pub use bootstrap::{Centre, Design, Effect, LEVEL, MIN_RUNS, RESAMPLES, effect};
pub use fairness::jain;
pub use log2::Log2;
pub use moments::Moments;
pub use sample::{deviation, mean, median, quantile};
pub use verdict::{Better, Policy, Reason, Verdict, noise_floor, verdict};
