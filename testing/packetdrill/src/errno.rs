//! Why a system call failed, as the caller of C functions hears it.

use app::{Closed, ConnectError, Unreachable};

/// A value of `errno`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// What a system call comes to.
pub type Result<T> = core::result::Result<T, Errno>;

/// What one attempt of a system call comes to; `None` is that it would block.
pub type Attempt<T> = Result<Option<T>>;

/// Sets the calling thread's `errno`.
pub fn set(errno: Errno) {
    // SAFETY: the location is the calling thread's own, and valid.
    unsafe { *libc::__errno_location() = errno.0 }
}

/// The error that a socket reports when its connection is over; `ended` says
/// that the peer had finished before (Linux: `tcp_reset` in
/// net/ipv4/tcp_input.c).
pub const fn of_close(why: Closed, ended: bool) -> Option<Errno> {
    match why {
        Closed::Finished | Closed::Aborted => None,
        Closed::Reset if ended => Some(Errno(libc::EPIPE)),
        Closed::Reset => Some(Errno(libc::ECONNRESET)),
        Closed::Refused => Some(Errno(libc::ECONNREFUSED)),
        Closed::TimedOut => Some(Errno(libc::ETIMEDOUT)),
        Closed::Unreachable(why) => Some(of_unreachable(why)),
    }
}

/// What the network said, as Linux tells it (`icmp_err_convert` in
/// net/ipv4/icmp.c, `icmpv6_err_convert` in net/ipv6/icmp.c).
pub const fn of_unreachable(why: Unreachable) -> Errno {
    Errno(match why {
        Unreachable::Network => libc::ENETUNREACH,
        Unreachable::Host => libc::EHOSTUNREACH,
        Unreachable::NoHost => libc::EHOSTDOWN,
        Unreachable::Isolated => libc::ENONET,
        Unreachable::Protocol => libc::ENOPROTOOPT,
        Unreachable::Port => libc::ECONNREFUSED,
        Unreachable::SourceRoute => libc::EOPNOTSUPP,
        Unreachable::Prohibited => libc::EACCES,
        Unreachable::Header => libc::EPROTO,
    })
}

/// The error of a connection that could not start.
pub const fn of_connect(error: ConnectError) -> Errno {
    match error {
        ConnectError::NoRoute => Errno(libc::ENETUNREACH),
        ConnectError::NoPort => Errno(libc::EADDRNOTAVAIL),
        ConnectError::Full => Errno(libc::ENOBUFS),
        ConnectError::Path => Errno(libc::EINVAL),
        ConnectError::Busy => Errno(libc::EAGAIN),
        ConnectError::Refused => Errno(libc::ECONNREFUSED),
        ConnectError::Missing => Errno(libc::ENOENT),
        ConnectError::Denied => Errno(libc::EACCES),
    }
}
