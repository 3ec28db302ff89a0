//! Why there is no io_uring.

use core::fmt;
use rustix::io::Errno;
use std::io;

/// Why a worker that was to use io_uring uses epoll.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRing {
    /// Not asked for: it is not the faster one here.
    Slower,
    /// Model `blocking` waits in accept(2).
    Blocking,
    /// The kernel has no io_uring (5.1, CONFIG_IO_URING).
    Absent,
    /// kernel.io_uring_disabled: 2 for all, 1 for all but a group.
    Disabled(u8),
    /// A sandbox forbids it, as the default seccomp profile of containers
    /// does.
    Forbidden,
    /// The limit on locked memory (RLIMIT_MEMLOCK), or memory itself.
    NoMemory,
    /// The kernel lacks what is used of it: 6.1 has all.
    Old(&'static str),
    /// Anything else.
    System(Errno),
}

impl fmt::Display for NoRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slower => f.write_str("epoll is the faster one here"),
            Self::Blocking => f.write_str("model blocking waits in accept(2)"),
            Self::Absent => f.write_str("this kernel has no io_uring"),
            Self::Disabled(how) => write!(f, "kernel.io_uring_disabled is {how}"),
            Self::Forbidden => f.write_str("a sandbox forbids io_uring_setup(2)"),
            Self::NoMemory => f.write_str("no memory, or the limit on locked memory (ulimit -l) is too small"),
            Self::Old(what) => write!(f, "this kernel's io_uring has no {what}: Linux 6.1 has"),
            Self::System(e) => write!(f, "io_uring_setup(2): {e}"),
        }
    }
}

impl core::error::Error for NoRing {}

/// What a refusal to set up means.
pub(super) fn explain(e: &io::Error) -> NoRing {
    let disabled = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    of(Errno::from_io_error(e).unwrap_or(Errno::IO), disabled)
}

fn of(errno: Errno, disabled: impl Fn() -> u8) -> NoRing {
    match errno {
        Errno::NOSYS => NoRing::Absent,
        Errno::PERM | Errno::ACCESS => match disabled() {
            0 => NoRing::Forbidden,
            how => NoRing::Disabled(how),
        },
        Errno::NOMEM => NoRing::NoMemory,
        Errno::INVAL => NoRing::Old("IORING_SETUP_DEFER_TASKRUN"),
        errno => NoRing::System(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let cases = [
            (Errno::NOSYS, 0, NoRing::Absent),
            (Errno::PERM, 0, NoRing::Forbidden),
            (Errno::PERM, 2, NoRing::Disabled(2)),
            (Errno::NOMEM, 0, NoRing::NoMemory),
            (Errno::INVAL, 0, NoRing::Old("IORING_SETUP_DEFER_TASKRUN")),
            (Errno::MFILE, 0, NoRing::System(Errno::MFILE)),
        ];
        for (errno, disabled, reason) in cases {
            assert_eq!(of(errno, || disabled), reason);
        }
    }
}
