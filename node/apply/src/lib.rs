//! Settings of a machine, changed by plan, with a journal, and undone.
//!
//! ```text
//!   Evidence, Role ─► TuningPlan (steps, id) ─► apply ─► journal, settings
//!                                                           │
//!                          undo, confirm, or nobody ◄───────┘
//! ```
//!
//! A plan is a pure function of the evidence; its id is a hash of its steps
//! and of the values they found, so that what is applied is what was read.
//! Everything else goes through [`Machine`]: tests put a folder in its place,
//! and end the process after each of its writes.
//!
//! Call order: [`TuningPlan::for_role`] or [`TuningPlan::of`], then
//! [`obstacles`] for what stands against it, [`apply`], and [`confirm`] or
//! [`undo`]; [`waits`] is for the process that undoes a plan nobody confirms.

#![forbid(unsafe_code)]

mod apply;
mod form;
mod grub;
mod journal;
mod kept;
mod machine;
mod obstacles;
mod persist;
mod placed;
mod plan;
mod refusal;
mod target;
#[cfg(test)]
mod tests;
mod undo;

pub use apply::{Applied, ApplyError, apply, write_files};
pub use form::Form;
pub use grub::boot_once;
pub use journal::{Journal, journals};
pub use machine::{Lock, Machine, STATE, Tree};
pub use obstacles::obstacles;
pub use persist::{PersistTo, PersistedFile, files, for_manager};
pub use plan::{Argument, Left, Step, TuningPlan};
pub use refusal::Refusal;
pub use undo::{Outcome, Restored, Which, confirm, undo, waits};
