//! `nearside serve` as a service: restarted under load, started by a service
//! manager, and short of what it needs.
//!
//! | module | for |
//! | --- | --- |
//! | [`server`] | the process, and those that follow it |
//! | [`clients`] | clients that check every byte, and forgive nothing |
//! | [`restarts`] | one process after the other, under load |
#![forbid(unsafe_code)]

pub mod clients;
pub mod restarts;
pub mod server;

use std::time::Instant;

/// What ends a run: a sentence for the user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The clock of everything here that takes time.
#[expect(clippy::disallowed_methods, reason = "a test of processes waits for them")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits until `done` gives something, however long that takes ([`interop::wait_for`]).
///
/// # Errors
/// What `done` fails with.
pub fn wait_for<T>(what: &str, mut done: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let mut result = None;
    interop::wait_for(what, || {
        result = done().transpose();
        result.is_some()
    });
    result.expect("it was waited for")
}
