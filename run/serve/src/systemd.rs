//! What systemd gives and is told: sockets (sd_listen_fds(3)), readiness and
//! the watchdog (sd_notify(3)). Where it is not there, none of it happens.

use super::ward::{self, FromChild};
use core::net::SocketAddr as InetAddr;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};
use say::Failure;
use say::manager::{NotifyState, tell};
use sockets::Endpoint;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// What tells a child of ours nothing: it is about this process only.
pub const OWN_VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// A listening socket that was there before this process.
#[derive(Debug)]
pub struct Found {
    /// What it listens on.
    pub endpoint: Endpoint,
    /// Its name (`FileDescriptorName=` of systemd.socket(5)), if it has one.
    pub name: Option<String>,
    /// A service manager opened it, and keeps it.
    pub managed: bool,
    /// The socket itself.
    pub socket: OwnedFd,
}

/// The sockets of socket activation; none where there is none.
///
/// # Errors
/// If systemd says what makes no sense, or a socket is not one that listens.
pub fn sockets() -> Result<Vec<Found>, Failure> {
    if ward::here().is_some() {
        return named(inherited());
    }
    let given = sd_notify::listen_fds_with_names().map_err(|why| format!("sockets from systemd: {why}"))?;
    // SAFETY: by sd_listen_fds(3) these descriptors are open and for this
    // process, as LISTEN_PID confirms; nobody else here takes them, for this
    // is called once.
    let given = given.map(|(raw, name)| (unsafe { OwnedFd::from_raw_fd(raw) }, name));
    named(given.collect())
}

/// The first descriptor of socket activation (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// The most that are looked for.
const GIVEN_MAX: i32 = 1_024;

/// Sockets that were for the parent, which passes them on as they are: the
/// variables tell of its own number.
fn inherited() -> Vec<(OwnedFd, String)> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let count = variable("LISTEN_FDS").parse::<i32>().unwrap_or(0).clamp(0, GIVEN_MAX);
    let names = variable("LISTEN_FDNAMES");
    let names = names.split(':').map(str::to_owned).chain(core::iter::repeat("unknown".to_owned()));
    (FIRST..FIRST + count)
        .zip(names)
        .filter_map(|(raw, name)| {
            // SAFETY: a number that is no descriptor is refused, and one that is
            // belongs to nobody else here: this is called once, by the thread
            // that starts, and these were open before the program was.
            let kept = unsafe { BorrowedFd::borrow_raw(raw) };
            let owned = rustix::io::fcntl_dupfd_cloexec(kept, FIRST).ok()?;
            Some((owned, name))
        })
        .collect()
}

fn named(given: Vec<(OwnedFd, String)>) -> Result<Vec<Found>, Failure> {
    given
        .into_iter()
        .map(|(socket, name)| {
            let endpoint = listens_on(&socket).map_err(|why| format!("socket {name} from systemd {why}"))?;
            Ok(Found { endpoint, name: Some(name), managed: true, socket })
        })
        .collect()
}

/// What `socket` listens on.
///
/// # Errors
/// If it is no stream socket that listens; a sentence's end that says so.
pub fn listens_on(socket: impl AsFd) -> Result<Endpoint, String> {
    let refused = |why: rustix::io::Errno| format!("cannot be used: {why}");
    if sockopt::socket_type(&socket).map_err(refused)? != SocketType::STREAM {
        return Err("is not a stream socket: it needs ListenStream=".to_owned());
    }
    if !sockopt::socket_acceptconn(&socket).map_err(refused)? {
        return Err("does not listen: it needs Accept=no".to_owned());
    }
    let address = getsockname(&socket).map_err(refused)?;
    if address.address_family() == AddressFamily::UNIX {
        let address = SocketAddrUnix::try_from(address).map_err(refused)?;
        let path = match (address.path(), address.abstract_name()) {
            (Some(path), _) => PathBuf::from(OsStr::from_bytes(path.to_bytes())),
            (None, Some(name)) => PathBuf::from(OsStr::from_bytes(&[b"@", name].concat())),
            (None, None) => return Err("has no address".to_owned()),
        };
        return Ok(Endpoint::Unix(path));
    }
    InetAddr::try_from(address).map(Endpoint::Tcp).map_err(|_| "is neither of TCP nor a Unix socket".to_owned())
}

/// The most of a status that is told, in bytes.
const STATUS_MAX: usize = 512;

/// One line of `status`, and no more than is shown: a line's end would begin another
/// variable of sd_notify(3), whoever wrote the text.
pub fn line(status: &str) -> String {
    let cut = &status[..status.floor_char_boundary(STATUS_MAX)];
    cut.replace(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'), " ")
}

/// Serves.
pub fn ready(status: &str) {
    if ward::tell(&FromChild::Ready { status: line(status) }) {
        return;
    }
    tell(&[NotifyState::Ready, NotifyState::Status(&line(status))]);
}

/// Does what `status` says; [`ready`] or [`succeeded`] follows.
pub fn reloading(status: &str) {
    if ward::tell(&FromChild::Reloading { status: line(status) }) {
        return;
    }
    // systemd 253 wants to know since when.
    let since = NotifyState::monotonic_usec_now();
    let status = line(status);
    let mut states = vec![NotifyState::Reloading, NotifyState::Status(&status)];
    states.extend(since);
    tell(&states);
}

/// The process `pid` serves in our place.
pub fn succeeded(pid: u32) {
    if ward::tell(&FromChild::Followed { pid }) {
        return;
    }
    tell(&[NotifyState::MainPid(pid), NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Ends.
pub fn stopping() {
    if ward::tell(&FromChild::Stopping) {
        return;
    }
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing responses under way")]);
}

/// How often [`alive`] is to be said; `None` if nobody listens.
pub fn watchdog() -> Option<Duration> {
    // Twice in the time allowed, as sd_watchdog_enabled(3) advises.
    sd_notify::watchdog_enabled().map(|limit| limit / 2).filter(|every| !every.is_zero())
}

/// All workers are at work.
pub fn alive() {
    if ward::tell(&FromChild::Alive) {
        return;
    }
    tell(&[NotifyState::Watchdog]);
}

#[cfg(test)]
mod tests;
