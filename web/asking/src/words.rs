//! Faults of connections, in the system's words.

use crate::tries::NoteLevel;
use app::{Closed, ConnectError, Unreachable};

/// Why a connection did not begin, and how severe nginx finds that.
pub(crate) const fn connect_fault(why: ConnectError) -> (NoteLevel, &'static str) {
    match why {
        ConnectError::NoRoute => (NoteLevel::Error, "101: Network is unreachable"),
        ConnectError::Refused => (NoteLevel::Error, "111: Connection refused"),
        ConnectError::Busy => (NoteLevel::Error, "11: Resource temporarily unavailable"),
        ConnectError::NoPort => (NoteLevel::Critical, "99: Cannot assign requested address"),
        ConnectError::Full => (NoteLevel::Critical, "24: Too many open files"),
        ConnectError::Path => (NoteLevel::Critical, "36: File name too long"),
        ConnectError::Missing => (NoteLevel::Critical, "2: No such file or directory"),
        ConnectError::Denied => (NoteLevel::Critical, "13: Permission denied"),
    }
}

/// Why a connection ended; where it `connects`, before it had begun.
pub(crate) fn link_fault(why: Closed, connects: bool) -> String {
    let errno = match why {
        Closed::Refused => "111: Connection refused",
        Closed::Reset => "104: Connection reset by peer",
        Closed::TimedOut => "110: Connection timed out",
        Closed::Unreachable(Unreachable::Network) => "101: Network is unreachable",
        Closed::Unreachable(Unreachable::Port) => "111: Connection refused",
        Closed::Unreachable(_) => "113: No route to host",
        Closed::Aborted => "103: Software caused connection abort",
        Closed::Finished => return "upstream prematurely closed connection".to_owned(),
    };
    if connects { format!("connect() failed ({errno})") } else { format!("recv() failed ({errno})") }
}
