//! The controller of one load by many workers, as a function of what happens and when: messages of workers, ends of
//! their processes, the time go in, and what is to be done comes out. Without I/O, clock and randomness, so that the
//! simulator runs what a cluster does.
//!
//! | module | for |
//! | --- | --- |
//! | `machine` | the state of a test, and its transitions |
//! | `rules` | what a test is to be like |
//! | `action` | what is to be done, and how it goes |
//! | `seat` | what is known of one worker |
//! | `offset` | how far a worker's clock is ahead, and how well that is known |
//! | `problem` | what makes a test invalid, and who |
//! | `impostors` | who had one worker's token, and said to be another |
//! | `outcome` | what came of it |
//!
//! ```text
//! Preparing ──all are ready, their clocks are known──► Loading ──all have measured──► Over
//!     │                                                   │                            ▲
//!     └───────a worker fails, is lost, is not ready; interrupted ───► Ending ──────────┘
//! ```
//!
//! Each state has an end in time, so that whatever dies or is silent, a test ends. A controller keeps nothing that it
//! cannot be told again: one that takes another's place learns from the workers how far they are.
#![forbid(unsafe_code)]

mod action;
mod impostors;
mod machine;
mod offset;
mod outcome;
mod problem;
mod rules;
mod seat;

pub use action::{Action, ChannelId, Progress, RunningWorker};
pub use impostors::Refused;
pub use machine::Control;
pub use offset::Offset;
pub use outcome::{Outcome, Part, Skew, WorkerOutcome};
pub use problem::{Gone, Problem, ProblemKind};
pub use rules::ControlRules;
