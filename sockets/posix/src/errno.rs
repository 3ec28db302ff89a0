//! Why a call failed, as Linux says it.

use app::{Closed, ConnectError, Unreachable};

/// A value of `errno`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// What a call comes to.
pub type Result<T> = core::result::Result<T, Errno>;

/// What one attempt of a call comes to; `None`: it would block.
pub type Attempt<T> = Result<Option<T>>;

/// The error that a socket has once its connection is over; `ended` says that
/// the peer had finished before (Linux: `tcp_reset` in net/ipv4/tcp_input.c).
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

/// The error of a connection that could not start. Those of Unix sockets do not
/// come from a stack.
pub const fn of_connect(error: ConnectError) -> Errno {
    Errno(match error {
        ConnectError::NoRoute => libc::ENETUNREACH,
        ConnectError::NoPort => libc::EADDRNOTAVAIL,
        ConnectError::Full => libc::ENOBUFS,
        ConnectError::Path => libc::EINVAL,
        ConnectError::Busy => libc::EAGAIN,
        ConnectError::Refused => libc::ECONNREFUSED,
        ConnectError::Missing => libc::ENOENT,
        ConnectError::Denied => libc::EACCES,
    })
}
