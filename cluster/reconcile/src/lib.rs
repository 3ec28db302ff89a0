//! The objects of one test in a cluster, as a function of what the API server answers and when: what is asked next
//! goes out, answers and the time come in. Without I/O, clock and randomness, so that the simulator runs what a
//! cluster does.
//!
//! | module | for |
//! | --- | --- |
//! | `machine` | the stages of a test's objects, and what is asked next |
//! | `step` | one question each |
//! | `lease` | the queue of a target |
//! | `watch` | what a list of pods says of workers |
//! | `found` | what objects say that were there |
//!
//! ```text
//! Holding ──the target is free──► Finding ──none, or this very test's──► Meeting ──the caller listens──► Making
//!    │                               │                                      │                              │
//!    │                               └──another's────────┐                  │        its pods may begin    ▼
//!    └──────────────────ended────────────────────────────┴──────────────► Leaving ◄───────ended──────── Running
//!                                                                           │
//!                                                                           ▼
//!                                                                          Over
//! ```
//!
//! Nothing is kept that cannot be asked for again: names say which test objects belong to, and the API server refuses
//! what was made or changed meanwhile. A controller may die between any two answers, and another goes on. An answer
//! that is lost leaves open whether what was asked is done, so each question may be asked twice.
#![forbid(unsafe_code)]

mod found;
mod lease;
mod machine;
mod step;
mod watch;

pub use found::Meeting;
pub use lease::{LeaseStep, LeaseWaiting, left, renewed};
pub use machine::{ClusterEvent, Reconciler, Stage};
pub use step::Call;
