//! One process after the other, under load.

use crate::clients::{Clients, habits};
use crate::server::Server;
use crate::{Failure, wait_for};
use std::sync::atomic::Ordering;

/// How each restart is made, by turns: by SIGUSR2, from the same file with
/// the same arguments, or by hand, with other workers and another model.
const BY_HAND: [&[&str]; 8] = [
    &["--workers", "2", "--accept", "reuseport", "--engine", "epoll"],
    &["--workers", "1", "--accept", "exclusive"],
    &["--workers", "3", "--accept", "reuseport"],
    &["--workers", "2", "--accept", "epoll"],
    &["--workers", "2", "--accept", "least"],
    &["--workers", "3", "--accept", "reuseport", "--engine", "io_uring"],
    &["--workers", "3", "--accept", "local"],
    &["--workers", "1", "--accept", "reuseport"],
];

/// Requests that are answered between two restarts, at least: as many as there
/// are clients, so that each new process serves.
const BETWEEN: u64 = 12;

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Restarts made.
    pub restarts: u32,
    /// Requests answered right, to the last byte.
    pub answered: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Connections opened.
    pub connections: u64,
    /// The first failures.
    pub why: Vec<String>,
}

/// Restarts `server`, which runs, so many times, with clients at work all the
/// while. `progress` is told after each.
///
/// # Errors
/// If a process does not come up, or does not end.
pub fn run(server: &mut Server, restarts: u32, mut progress: impl FnMut(&Report)) -> Result<Report, Failure> {
    let clients = Clients::start(server, &habits());
    let counts = std::sync::Arc::clone(&clients.counts);
    let report = |restarts| Report {
        restarts,
        answered: counts.answered.load(Ordering::Relaxed),
        failed: counts.failed.load(Ordering::Relaxed),
        connections: counts.connections.load(Ordering::Relaxed),
        why: counts.failures(),
    };
    for restart in 0..restarts {
        let before = report(restart);
        wait_for("answers between two restarts", || {
            let now = report(restart);
            Ok((now.answered + now.failed >= before.answered + before.failed + BETWEEN).then_some(()))
        })?;
        let old = server.serving().ok_or("nobody serves")?;
        if restart % 2 == 0 {
            server.restart()?;
        } else {
            let more = BY_HAND[restart as usize / 2 % BY_HAND.len()];
            let mut command = server.command(more);
            command.arg("--take-over").arg(server.control());
            server.start(&mut command)?;
        }
        // It waits for every connection's next request, and for nothing else.
        server.wait_until_ended(old)?;
        progress(&report(restart + 1));
    }
    clients.finish();
    Ok(report(restarts))
}
