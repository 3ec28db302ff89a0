//! Which system calls each kind of thread makes once it serves.
//!
//! What is hot stands first: where a kernel keeps no bitmap (before Linux 5.11),
//! a filter is read from its beginning for each call.

use host::drivers::KINDS;
use libc::{
    SYS_accept4, SYS_bind, SYS_bpf, SYS_brk, SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone,
    SYS_clone3, SYS_close, SYS_connect, SYS_dup, SYS_dup3, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait,
    SYS_epoll_pwait2, SYS_eventfd2, SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fadvise64,
    SYS_fallocate, SYS_fcntl, SYS_fdatasync, SYS_fstat, SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_futex,
    SYS_get_mempolicy, SYS_get_robust_list, SYS_getcpu, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid,
    SYS_getpeername, SYS_getpid, SYS_getppid, SYS_getrandom, SYS_getrusage, SYS_getsockname, SYS_getsockopt,
    SYS_gettid, SYS_gettimeofday, SYS_getuid, SYS_io_uring_enter, SYS_io_uring_register, SYS_ioctl, SYS_listen,
    SYS_lseek, SYS_madvise, SYS_mbind, SYS_membarrier, SYS_memfd_create, SYS_mincore, SYS_mkdirat, SYS_mmap,
    SYS_move_pages, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat, SYS_openat2,
    SYS_pipe2, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_preadv, SYS_prlimit64, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_pwrite64, SYS_read, SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg,
    SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity,
    SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_setaffinity, SYS_sched_yield, SYS_sendfile, SYS_sendmmsg,
    SYS_sendmsg, SYS_sendto, SYS_set_mempolicy, SYS_set_robust_list, SYS_setsockopt, SYS_shutdown, SYS_sigaltstack,
    SYS_socket, SYS_socketpair, SYS_splice, SYS_statx, SYS_sysinfo, SYS_tgkill, SYS_timerfd_create,
    SYS_timerfd_settime, SYS_uname, SYS_unlinkat, SYS_write, SYS_writev,
};

/// A system call, and when it is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// When.
    pub when: When,
}

/// When a system call is allowed. Only the lower halves of arguments are looked
/// at, for those that are looked at are of 32 bits, but for pointers.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Whatever its arguments.
    Always,
    /// Never, and as if the kernel did not have it.
    Absent,
    /// With one of these values as this argument.
    OneOf(u8, &'static [u32]),
    /// With a null pointer as this argument.
    Null(u8),
    /// With this process's number as this argument.
    OwnProcess(u8),
    /// With one of these bits in this argument.
    With(u8, u32),
    /// Without any of these bits in this argument.
    Without(u8, u32),
}

/// What a thread is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadKind {
    /// The main thread, and those that only wait; they may start others.
    Control,
    /// A worker over kernel sockets.
    Worker,
    /// A silo, and what helps it with its link.
    Silo,
    /// Reads files, and computes: passwords, compressed content.
    FileReader,
    /// Writes the access log.
    LogWriter,
    /// Writes bodies of requests to temporary files.
    BodyWriter,
    /// Tells metrics.
    Metrics,
    /// Asks DNS servers, and responders about certificates.
    Resolver,
}

impl ThreadKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Control,
        Self::Worker,
        Self::Silo,
        Self::FileReader,
        Self::LogWriter,
        Self::BodyWriter,
        Self::Metrics,
        Self::Resolver,
    ];

    /// Of the thread that has this name, in a process with silos or with
    /// workers. One that is not known may do what the main thread may.
    pub fn of(name: &[u8], silos: bool) -> Self {
        match name {
            b"file-reader" | b"passwords" | b"compressor" | b"handshakes" => Self::FileReader,
            b"access-log" => Self::LogWriter,
            b"body-files" => Self::BodyWriter,
            b"metrics" => Self::Metrics,
            b"resolver" | b"stapler" => Self::Resolver,
            b"placement" => Self::Silo,
            _ if helps_a_link(name) => Self::Silo,
            _ if name.starts_with(b"near-w") && silos => Self::Silo,
            _ if name.starts_with(b"near-w") => Self::Worker,
            _ => Self::Control,
        }
    }

    /// What it may do, in the order in which it is looked for; where the process connects
    /// to upstreams if it `connects`.
    pub fn calls(self, connects: bool) -> Vec<Call> {
        let own: &[&[i64]] = match self {
            Self::Worker => &[REQUESTS_TAKE, SOCKETS, EVENTS],
            Self::Silo => &[REQUESTS_TAKE, SOCKETS, EVENTS, LINKS],
            Self::FileReader => &[FILES, READS],
            Self::LogWriter => &[FILES, LOGS],
            Self::BodyWriter => &[FILES, TEMPORARY],
            Self::Metrics => &[METRICS],
            Self::Resolver => &[RESOLVER],
            Self::Control => &[REQUESTS_TAKE, SOCKETS, EVENTS, LINKS, FILES, LOGS, TEMPORARY, CONTROL],
        };
        let always = own.iter().chain(&[ANYBODY]).flat_map(|list| list.iter());
        let mut calls: Vec<Call> = always.map(|&number| Call { number, when: When::Always }).collect();
        let more: &[&[Call]] = match (self, connects) {
            (Self::Silo, false) => &[NARROW, NARROW_LINKS, LINK_SOCKETS],
            (Self::Silo, true) => &[NARROW, NARROW_LINKS, PEER_SOCKETS],
            (Self::Control, false) => &[NARROW_THREADS, NARROW, NARROW_LINKS, LINK_SOCKETS],
            (Self::Control, true) => &[NARROW_THREADS, NARROW, NARROW_LINKS, PEER_SOCKETS],
            (Self::Worker, true) => &[NARROW, NARROW_UPSTREAMS],
            (Self::Resolver, true) => &[NARROW, NAME_SERVERS],
            _ => &[NARROW],
        };
        calls.extend(more.iter().flat_map(|list| list.iter()));
        calls
    }
}

/// Whether a driver has its threads called so.
fn helps_a_link(name: &[u8]) -> bool {
    KINDS.iter().flat_map(|kind| kind.threads).any(|thread| thread.as_bytes() == name)
}

/// What every thread does: memory, time, locks, and the descriptors it has.
const ANYBODY: &[i64] = &[
    SYS_futex,
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_madvise,
    SYS_munmap,
    SYS_brk,
    SYS_mremap,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_clock_getres,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_sched_yield,
    SYS_ppoll,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_getcpu,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getscheduler,
    SYS_sched_getparam,
    SYS_membarrier,
    SYS_rseq,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_fstat,
    SYS_lseek,
    SYS_uname,
    SYS_sysinfo,
    SYS_eventfd2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// What every request takes, or every connection.
const REQUESTS_TAKE: &[i64] = &[
    SYS_recvfrom,
    SYS_sendto,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    SYS_epoll_pwait2,
    SYS_epoll_pwait,
    SYS_sendfile,
    SYS_sendmsg,
    SYS_accept4,
    SYS_close,
    SYS_epoll_ctl,
    SYS_shutdown,
];

/// What else connections take.
const SOCKETS: &[i64] = &[
    SYS_recvmsg,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_getpeername,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_readv,
    SYS_writev,
    SYS_sendmmsg,
    SYS_recvmmsg,
    // Files are read where they are sealed, opened as they are.
    SYS_pread64,
    SYS_splice,
    SYS_pipe2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_accept,
];

/// What makes descriptors to wait for.
const EVENTS: &[i64] = &[SYS_epoll_create1, SYS_timerfd_create, SYS_timerfd_settime];

/// What links need while they are there, and when they come back: shared memory
/// of a peer or of their own, queues that are given, and where pages are.
const LINKS: &[i64] = &[
    SYS_bind,
    SYS_connect,
    SYS_memfd_create,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_statx,
    SYS_move_pages,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_get_mempolicy,
    SYS_mincore,
    SYS_dup,
    // How large the pages of a peer's memory are.
    SYS_fstatfs,
];

/// Files, found and read; Landlock says which.
const FILES: &[i64] = &[
    SYS_openat2,
    SYS_openat,
    SYS_newfstatat,
    SYS_statx,
    SYS_pread64,
    SYS_preadv,
    SYS_fadvise64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getdents64,
    // Whose file system it is: one that may not answer is read by who may wait.
    SYS_fstatfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

/// Files read by a ring that was made before, and can do nothing else (`web/disk`).
const READS: &[i64] = &[SYS_io_uring_enter];

/// Lines, appended.
const LOGS: &[i64] = &[SYS_writev, SYS_fsync, SYS_fdatasync, SYS_dup, SYS_connect];

/// Files made, written and removed again.
const TEMPORARY: &[i64] = &[SYS_pwrite64, SYS_unlinkat, SYS_mkdirat];

/// Clients answered on a socket that is there.
const METRICS: &[i64] = &[SYS_accept4, SYS_recvfrom, SYS_sendto, SYS_shutdown, SYS_listen];

/// Questions and answers.
const RESOLVER: &[i64] = &[SYS_sendto, SYS_recvfrom];

/// What the main thread does beside the others' work.
const CONTROL: &[i64] = &[SYS_listen, SYS_socketpair, SYS_dup3, SYS_rt_sigaction, SYS_set_robust_list];

/// `PROT_EXEC` of mmap(2) and mprotect(2): nothing becomes code.
const EXECUTE: u32 = libc::PROT_EXEC as u32;

/// Operations of prctl(2): names of threads and of memory, and what can be asked.
const OPERATIONS: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_GET_SECCOMP as u32,
    libc::PR_SET_VMA as u32,
    libc::PR_GET_DUMPABLE as u32,
];

/// Operations of fcntl(2): what a descriptor is, and another number for it. None
/// that sends signals.
const DESCRIPTORS: &[u32] = &[
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_SETFL as u32,
    libc::F_SETPIPE_SZ as u32,
    libc::F_GET_SEALS as u32,
    libc::F_ADD_SEALS as u32,
];

/// Requests of ioctl(2) that only ask (`SIOCGIF*`, FIONREAD, SIOCOUTQ; what
/// `SIOCETHTOOL` would set needs a right), and FIONBIO.
const REQUESTS: &[u32] = &[0x5421, 0x541b, 0x5411, 0x8913, 0x8921, 0x8927, 0x8933, 0x8946, 0x5413, 0x5401];

const NARROW: &[Call] = &[
    Call { number: SYS_fcntl, when: When::OneOf(1, DESCRIPTORS) },
    Call { number: SYS_mmap, when: When::Without(2, EXECUTE) },
    Call { number: SYS_mprotect, when: When::Without(2, EXECUTE) },
    Call { number: SYS_prctl, when: When::OneOf(0, OPERATIONS) },
    Call { number: SYS_ioctl, when: When::OneOf(1, REQUESTS) },
    // Limits are only asked for.
    Call { number: SYS_prlimit64, when: When::Null(2) },
    // Its own place behind others, or before them, as far as it has rights for that: where a thread
    // begins after these filters.
    Call { number: libc::SYS_sched_getattr, when: When::OneOf(0, &[0]) },
    Call { number: libc::SYS_sched_setattr, when: When::OneOf(0, &[0]) },
];

/// Of bpf(2), entries of maps that are there; of signals, those that call a thread of this
/// process away from its wait.
const NARROW_LINKS: &[Call] = &[
    Call { number: SYS_bpf, when: When::OneOf(0, &[1, 2, 3]) },
    Call { number: SYS_tgkill, when: When::OwnProcess(0) },
];

/// Sockets that a link opens while it serves: to a memif peer, and to the
/// kernel, which tells of addresses and neighbours. Neither leads off the
/// machine.
const LINK_SOCKETS: &[Call] =
    &[Call { number: SYS_socket, when: When::OneOf(0, &[libc::AF_UNIX as u32, libc::AF_NETLINK as u32]) }];

/// The same where connections are opened to upstreams, which may be anywhere.
const PEER_SOCKETS: &[Call] = &[Call {
    number: SYS_socket,
    when: When::OneOf(0, &[libc::AF_UNIX as u32, libc::AF_NETLINK as u32, libc::AF_INET as u32, libc::AF_INET6 as u32]),
}];

/// Connections to upstreams, from an address of their own where one is named. What is
/// bound so is never listened on.
const NARROW_UPSTREAMS: &[Call] = &[
    Call {
        number: SYS_socket,
        when: When::OneOf(0, &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32]),
    },
    Call { number: SYS_connect, when: When::Always },
    Call { number: SYS_bind, when: When::Always },
];

/// Servers of names are asked from sockets that are theirs alone.
const NAME_SERVERS: &[Call] = &[
    Call { number: SYS_socket, when: When::OneOf(0, &[libc::AF_INET as u32, libc::AF_INET6 as u32]) },
    Call { number: SYS_connect, when: When::Always },
];

/// Threads, and no processes. The newer call's flags lie in memory, where a
/// filter cannot see them: libc goes on with the older one.
const NARROW_THREADS: &[Call] = &[
    Call { number: SYS_clone, when: When::With(0, libc::CLONE_THREAD as u32) },
    Call { number: SYS_clone3, when: When::Absent },
];

/// What nothing here ever does, and an attacker would: programs started, other
/// processes looked into, the kernel changed.
pub const FATAL: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_pivot_root,
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
];

#[cfg(test)]
mod tests {
    use super::super::filter::Filter;
    use super::*;

    #[test]
    fn every_kind_has_a_filter_and_nothing_fatal() {
        for kind in ThreadKind::ALL {
            let calls = [kind.calls(false), kind.calls(true)].concat();
            if let Some(filter) = Filter::compile(&calls, FATAL, 1) {
                assert!(filter.program().len > 0);
            }
            assert!(calls.iter().all(|call| !FATAL.contains(&call.number)), "{kind:?}");
        }
        let may = |kind: ThreadKind, number: i64| kind.calls(false).iter().any(|call| call.number == number);
        for kind in [ThreadKind::Worker, ThreadKind::Silo] {
            assert!(!may(kind, SYS_openat) && !may(kind, SYS_openat2) && !may(kind, SYS_clone), "{kind:?}");
        }
        for number in [SYS_openat, SYS_openat2, SYS_socket, SYS_bind, SYS_connect, SYS_clone] {
            assert!(!may(ThreadKind::Metrics, number), "{number}");
        }
        for kind in [ThreadKind::FileReader, ThreadKind::LogWriter, ThreadKind::BodyWriter] {
            assert!(!may(kind, SYS_sendto) && !may(kind, SYS_socket) && !may(kind, SYS_clone), "{kind:?}");
        }
        // Signals go to threads of this process, and to nobody else's.
        for kind in ThreadKind::ALL {
            let calls = [kind.calls(false), kind.calls(true)].concat();
            let signals = [SYS_tgkill, libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo];
            let signals = [&signals[..], &[libc::SYS_rt_tgsigqueueinfo, libc::SYS_pidfd_send_signal]].concat();
            let mut sends = calls.iter().filter(|call| signals.contains(&call.number));
            let own = |call: &Call| call.number == SYS_tgkill && matches!(call.when, When::OwnProcess(0));
            assert!(sends.all(own), "{kind:?}");
        }
        // Only where there is somebody to connect to, and nobody listens anew.
        for (connects, number, expected) in
            [(false, SYS_socket, false), (true, SYS_socket, true), (true, SYS_connect, true), (true, SYS_listen, false)]
        {
            let calls = ThreadKind::Worker.calls(connects);
            assert_eq!(calls.iter().any(|call| call.number == number), expected, "{number}");
        }
        // What a thread starts has its filters too.
        let started =
            [ThreadKind::LogWriter, ThreadKind::BodyWriter, ThreadKind::Resolver].map(|kind| kind.calls(true));
        let started = started.concat();
        for number in started.iter().map(|call| call.number) {
            assert!(may(ThreadKind::Control, number), "{number}");
        }
    }

    #[test]
    fn who_opens_connections_may_and_nobody_else() {
        let families = |kind: ThreadKind, connects: bool| {
            let calls = kind.calls(connects);
            let mut sockets = calls.iter().filter(|call| call.number == SYS_socket).map(|call| match call.when {
                When::OneOf(0, families) => families.to_vec(),
                other => panic!("{other:?}"),
            });
            let families = sockets.next().unwrap_or_default();
            assert_eq!(sockets.next(), None, "{kind:?}: one rule");
            families.contains(&(libc::AF_INET as u32)) && families.contains(&(libc::AF_INET6 as u32))
        };
        for kind in ThreadKind::ALL {
            assert!(!families(kind, false), "{kind:?}");
            let opens = matches!(kind, ThreadKind::Worker | ThreadKind::Silo | ThreadKind::Control);
            assert_eq!(families(kind, true), opens || kind == ThreadKind::Resolver, "{kind:?}");
            let may = |number| kind.calls(true).iter().any(|call| call.number == number);
            assert_eq!(may(SYS_connect) && may(SYS_bind), opens, "{kind:?}");
        }
    }

    #[test]
    fn threads_are_known_by_their_names() {
        for (name, silos, kind) in [
            (&b"near-w0"[..], false, ThreadKind::Worker),
            (b"near-w12", true, ThreadKind::Silo),
            (b"file-reader", true, ThreadKind::FileReader),
            (b"access-log", false, ThreadKind::LogWriter),
            (b"body-files", true, ThreadKind::BodyWriter),
            (b"metrics", true, ThreadKind::Metrics),
            (b"placement", false, ThreadKind::Silo),
            (b"nearside", false, ThreadKind::Control),
            (b"fleet", true, ThreadKind::Control),
        ] {
            assert_eq!(ThreadKind::of(name, silos), kind);
        }
    }
}
