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

use std::time::{Duration, Instant};

/// What ends a run: a sentence for the user.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The clock of everything here that takes time.
#[expect(clippy::disallowed_methods, reason = "a test of processes waits for them")]
pub fn now() -> Instant {
    Instant::now()
}

/// How often a wait looks up.
const NAP: Duration = Duration::from_millis(2);

/// Waits until `done` gives something, at most for `limit`.
///
/// # Errors
/// If it never does, with `what` it was; or what `done` fails with.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut done: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let end = now() + limit;
    loop {
        if let Some(it) = done()? {
            return Ok(it);
        }
        if now() > end {
            return Err(format!("{what}: not within {limit:?}").into());
        }
        std::thread::sleep(NAP);
    }
}
