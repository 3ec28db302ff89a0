//! Why the kernel refused, in words that lead to a remedy.

use crate::Version;
use core::fmt;
use rustix::io::Errno;

/// What could not be done, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// What was tried, with the name of the map or program.
    pub operation: String,
    /// Why it did not succeed.
    pub cause: Cause,
}

/// Why the kernel refuses maps and programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The process lacks these capabilities: the administrator's to mend.
    Capability(&'static str),
    /// RLIMIT_MEMLOCK, which counted maps before Linux 5.11.
    LockedMemory,
    /// A security module or kernel lockdown forbids it to a process that has
    /// the capabilities.
    Forbidden,
    /// The kernel is older than the program needs.
    Kernel {
        /// The oldest that would do.
        needs: Version,
        /// The running one.
        has: Version,
    },
    /// The kernel was built without bpf(2).
    Absent,
    /// The verifier found the program unsafe: ours to mend.
    Rejected {
        /// EACCES or EINVAL, mostly.
        errno: Errno,
        /// The end of what the verifier says.
        log: String,
    },
    /// The interface has a program already: who attached it is to take it off.
    Attached,
    /// The program names a map that it was not given: ours to mend.
    UnknownMap(String),
    /// The program calls a function of this name, which this kernel has not.
    UnknownFunction(String),
    /// The kernel does not tell its types, among which a function of its is found.
    NoTypes(String),
    /// A key or value of the wrong size, or past the end: ours to mend.
    Size,
    /// Anything else.
    System(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability(names) => write!(f, "needs {names}"),
            Self::LockedMemory => f.write_str("the limit on locked memory (ulimit -l) is too small"),
            Self::Forbidden => f.write_str("forbidden by a security module or kernel lockdown"),
            Self::Kernel { needs, has } => write!(f, "needs Linux {needs}, this is {has}"),
            Self::Absent => f.write_str("this kernel has no bpf(2) (CONFIG_BPF_SYSCALL)"),
            Self::Rejected { errno, log } => write!(f, "refused by the kernel's verifier ({errno}):\n{log}"),
            Self::Attached => f.write_str("the interface has another XDP program"),
            Self::UnknownMap(name) => write!(f, "the program uses a map {name} that is not there"),
            Self::UnknownFunction(name) => write!(f, "this kernel has no function {name} that programs may call"),
            Self::NoTypes(why) => {
                write!(f, "this kernel's types are not known ({}: {why}; CONFIG_DEBUG_INFO_BTF)", crate::btf::KERNEL)
            }
            Self::Size => f.write_str("a key or value of the wrong size"),
            Self::System(errno) => write!(f, "{errno}"),
        }
    }
}

impl core::error::Error for Error {}

impl Error {
    pub(crate) fn new(operation: impl Into<String>, cause: Cause) -> Self {
        Self { operation: operation.into(), cause }
    }
}

/// CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_BPF (`linux/capability.h`).
const NET_ADMIN: u64 = 1 << 12;
const SYS_ADMIN: u64 = 1 << 21;
const BPF: u64 = 1 << 39;

/// What an operation needs of the process and of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    pub kernel: Version,
    /// CAP_NET_ADMIN besides CAP_BPF: for types that see foreign packets.
    pub network: bool,
}

/// Where it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub kernel: Version,
    /// Effective capabilities; all, if that cannot be read.
    pub capabilities: u64,
}

impl Place {
    pub(crate) fn here() -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(u64::MAX);
        Self { kernel: Version::running(), capabilities }
    }
}

/// What `errno` means for an operation that `needs` something, at `place`.
pub(crate) fn explain(errno: Errno, needs: Needs, place: Place) -> Cause {
    let old = place.kernel < needs.kernel;
    let has = |bits| place.capabilities & bits != 0;
    match errno {
        Errno::NOSYS => Cause::Absent,
        // Since 5.8 CAP_BPF is enough (with CAP_NET_ADMIN for some types).
        Errno::PERM if !has(SYS_ADMIN) && !has(BPF) => Cause::Capability(match (needs.network, place.kernel) {
            (_, kernel) if kernel < Version::new(5, 8) => "CAP_SYS_ADMIN",
            (true, _) => "CAP_BPF and CAP_NET_ADMIN",
            (false, _) => "CAP_BPF",
        }),
        Errno::PERM if needs.network && !has(NET_ADMIN) && !has(SYS_ADMIN) => Cause::Capability("CAP_NET_ADMIN"),
        Errno::PERM if place.kernel < Version::new(5, 11) => Cause::LockedMemory,
        Errno::PERM => Cause::Forbidden,
        Errno::INVAL | Errno::TOOBIG | Errno::NOTSUP if old => Cause::Kernel { needs: needs.kernel, has: place.kernel },
        errno => Cause::System(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(errno: Errno, kernel: (u32, u32), capabilities: u64, network: bool) -> Cause {
        let needs = Needs { kernel: Version::new(5, 5), network };
        explain(errno, needs, Place { kernel: Version::new(kernel.0, kernel.1), capabilities })
    }

    #[test]
    fn refusals_name_their_remedy() {
        assert_eq!(cause(Errno::PERM, (6, 1), 0, false), Cause::Capability("CAP_BPF"));
        assert_eq!(cause(Errno::PERM, (6, 1), 0, true), Cause::Capability("CAP_BPF and CAP_NET_ADMIN"));
        assert_eq!(cause(Errno::PERM, (6, 1), BPF, true), Cause::Capability("CAP_NET_ADMIN"));
        assert_eq!(cause(Errno::PERM, (5, 4), 0, false), Cause::Capability("CAP_SYS_ADMIN"));
        assert_eq!(cause(Errno::PERM, (5, 4), SYS_ADMIN, false), Cause::LockedMemory);
        assert_eq!(cause(Errno::PERM, (6, 1), BPF, false), Cause::Forbidden);
        assert_eq!(cause(Errno::NOSYS, (6, 1), BPF, false), Cause::Absent);
        let (needs, has) = (Version::new(5, 5), Version::new(4, 19));
        assert_eq!(cause(Errno::INVAL, (4, 19), BPF, false), Cause::Kernel { needs, has });
        assert_eq!(cause(Errno::INVAL, (6, 1), BPF, false), Cause::System(Errno::INVAL));
    }

    #[test]
    fn errors_say_what_was_tried() {
        let error = Error::new("map work", Cause::Kernel { needs: Version::new(5, 5), has: Version::new(4, 19) });
        assert_eq!(error.to_string(), "map work: needs Linux 5.5, this is 4.19");
    }
}
