//! What a service manager is told (sd_notify(3)). Where there is none, nobody is.

use crate::warning;
use core::time::Duration;
pub use sd_notify::NotifyState;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// How long the service manager may take to make room for what it is told: nobody else
/// is served by the thread that tells it.
const ROOM: Duration = Duration::from_secs(1);

/// Whether anybody is told.
#[must_use]
pub fn is_there() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Tells it all of this at once; a warning where that fails.
pub fn tell(states: &[NotifyState<'_>]) {
    let Some(at) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match at.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(&at),
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        // A virtual machine's.
        _ => return warn(sd_notify::notify(states)),
    };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    warn(address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(ROOM))?;
        socket.send_to_addr(text.as_bytes(), &address).map(drop)
    }));
}

fn warn(told: io::Result<()>) {
    if let Err(why) = told {
        warning(format_args!("systemd cannot be told: {why}"));
    }
}
