//! Filters of system calls (seccomp(2)), compiled from lists.
//!
//! What is allowed whatever its arguments stands first, because the kernel then
//! knows by the number alone, from a bitmap, and runs no filter
//! (`seccomp_cache_check_allow` of kernel/seccomp.c, Linux 5.11). What is not
//! named fails with EPERM, as if the right to it were lacking, so that a call
//! that nobody thought of is an error that is handled, and no end; what only an
//! attacker would do ends the process.

use super::calls::{Call, When};
use libc::sock_filter;

/// `AUDIT_ARCH_*` of linux/audit.h for this machine; `None`: not known here.
#[cfg(target_arch = "x86_64")]
const ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: Option<u32> = None;

/// Numbers from here on are those of another kind of program (x32).
const OTHERS: u32 = 0x4000_0000;

/// Where things lie in `struct seccomp_data`: the number, the architecture, and
/// the lower half of an argument on a little-endian machine.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u8) -> u32 {
    16 + 8 * index as u32
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const END: u32 = libc::SECCOMP_RET_KILL_PROCESS;

/// Instructions of a filter, at most (BPF_MAXINSNS).
const LONGEST: usize = 4_096;

/// A filter, ready to be taken.
#[derive(Debug)]
pub struct Filter(Vec<sock_filter>);

impl Filter {
    /// Allows `calls` to the process of this number, and ends it at `fatal` ones; of a call
    /// that is named twice the first counts. `None` where the machine is not known.
    pub fn compile(calls: &[Call], fatal: &[i64], process: u32) -> Option<Self> {
        let arch = ARCH?;
        let mut code = vec![
            statement(LOAD, ARCHITECTURE),
            jump(JUMP_EQUAL, arch, 1, 0),
            statement(RETURN, END),
            statement(LOAD, NUMBER),
            jump(JUMP_ABOVE, OTHERS, 0, 1),
            statement(RETURN, END),
        ];
        for call in calls {
            let verdict = verdict(call.when, process);
            code.push(jump(JUMP_EQUAL, u32::try_from(call.number).ok()?, 0, u8::try_from(verdict.len()).ok()?));
            code.extend(verdict);
        }
        for number in fatal {
            code.push(jump(JUMP_EQUAL, u32::try_from(*number).ok()?, 0, 1));
            code.push(statement(RETURN, END));
        }
        code.push(statement(RETURN, REFUSE));
        (code.len() <= LONGEST).then_some(Self(code))
    }

    /// What is to be given to the kernel; as long as this value lives.
    pub fn program(&self) -> libc::sock_fprog {
        // The kernel reads it only; at most LONGEST.
        libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() }
    }
}

/// What becomes of a call whose number is loaded and fits.
fn verdict(when: When, process: u32) -> Vec<sock_filter> {
    let one = |values: &[u32], index: u8| {
        let mut code = vec![statement(LOAD, argument(index))];
        for (at, value) in values.iter().enumerate() {
            // To the last statement but one: allowed.
            code.push(jump(JUMP_EQUAL, *value, (values.len() - at) as u8, 0));
        }
        code.extend([statement(RETURN, REFUSE), statement(RETURN, ALLOW)]);
        code
    };
    match when {
        When::Always => vec![statement(RETURN, ALLOW)],
        When::Absent => vec![statement(RETURN, ABSENT)],
        When::OneOf(index, values) => one(values, index),
        When::Null(index) => vec![
            statement(LOAD, argument(index)),
            jump(JUMP_EQUAL, 0, 0, 2),
            statement(LOAD, argument(index) + 4),
            jump(JUMP_EQUAL, 0, 1, 0),
            statement(RETURN, REFUSE),
            statement(RETURN, ALLOW),
        ],
        When::OwnProcess(index) => one(&[process], index),
        When::With(index, bits) => vec![
            statement(LOAD, argument(index)),
            jump(JUMP_SET, bits, 1, 0),
            statement(RETURN, REFUSE),
            statement(RETURN, ALLOW),
        ],
        When::Without(index, bits) => vec![
            statement(LOAD, argument(index)),
            jump(JUMP_SET, bits, 0, 1),
            statement(RETURN, REFUSE),
            statement(RETURN, ALLOW),
        ],
    }
}

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Has the calling thread take the filter upon itself, and all threads that it
/// starts. Async-signal-safe.
///
/// Speculation stays as it was: kernels before 5.16 switch some of it off for
/// threads with a filter, which is to guard a process against code of others that
/// it runs itself, and slows every instruction down. Here is none.
///
/// # Errors
/// The system's number.
///
/// # Safety
/// The program's instructions are there.
pub unsafe fn take(program: &libc::sock_fprog) -> Result<(), i32> {
    let program: *const libc::sock_fprog = program;
    let take = |flags: libc::c_ulong| {
        // SAFETY: the program is valid, as the caller promises, and read only.
        let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, program) };
        super::checked(done)
    };
    // Linux 4.17 knows the flag.
    match take(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
        Err(libc::EINVAL) => take(0),
        outcome => outcome,
    }
}

/// Whether the kernel has filters.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), String> {
    if ARCH.is_none() {
        return Err("system calls are not filtered on this architecture".to_owned());
    }
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: reads one number.
    let told = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0_u32, &raw const action) };
    super::checked(told).map_err(|_| "this kernel has no filter of system calls (CONFIG_SECCOMP_FILTER)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would say, by the rules of classic BPF.
    fn ask(filter: &Filter, number: i64, arguments: [u64; 6]) -> u32 {
        run(filter, number, arguments).0
    }

    /// The same, whether an argument was looked at, and the steps that it took.
    fn run(filter: &Filter, number: i64, arguments: [u64; 6]) -> (u32, bool, usize) {
        let mut data = [0_u8; 64];
        data[..4].copy_from_slice(&u32::try_from(number).unwrap().to_ne_bytes());
        data[4..8].copy_from_slice(&ARCH.unwrap().to_ne_bytes());
        for (index, value) in arguments.iter().enumerate() {
            data[16 + 8 * index..24 + 8 * index].copy_from_slice(&value.to_ne_bytes());
        }
        let (mut at, mut word, mut looked, mut steps) = (0, 0_u32, false, 0);
        loop {
            let step = filter.0[at];
            at += 1;
            steps += 1;
            looked |= step.code == LOAD && step.k >= argument(0);
            let skip = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
            match step.code {
                LOAD => word = u32::from_ne_bytes(data[step.k as usize..][..4].try_into().unwrap()),
                JUMP_EQUAL => at += skip(word == step.k),
                JUMP_ABOVE => at += skip(word >= step.k),
                JUMP_SET => at += skip(word & step.k != 0),
                RETURN => return (step.k, looked, steps),
                other => panic!("{other}"),
            }
        }
    }

    /// What a request takes is allowed by its number alone, so that the kernel's
    /// bitmap answers; and where there is none, after a few steps.
    #[test]
    fn what_is_hot_is_constant_and_first() {
        use super::super::calls::{FATAL, ThreadKind};
        let hot = [
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_epoll_ctl,
            libc::SYS_recvfrom,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_sendfile,
            libc::SYS_accept4,
            libc::SYS_close,
            libc::SYS_shutdown,
            libc::SYS_setsockopt,
            libc::SYS_getsockopt,
            libc::SYS_io_uring_enter,
            libc::SYS_futex,
            libc::SYS_read,
            libc::SYS_write,
        ];
        for kind in [ThreadKind::Worker, ThreadKind::Silo] {
            let Some(filter) = Filter::compile(&kind.calls(true), FATAL, 1) else { return };
            for number in hot {
                let (told, looked, steps) = run(&filter, number, [u64::MAX; 6]);
                assert_eq!((told, looked), (ALLOW, false), "{kind:?} {number}");
                assert!(steps <= 70, "{kind:?} {number}: {steps} steps");
            }
            let (_, _, first) = run(&filter, libc::SYS_recvfrom, [0; 6]);
            assert!(first <= 12, "{first} steps");
        }
    }

    #[test]
    fn a_list_becomes_what_it_says() {
        let always = |number| Call { number, when: When::Always };
        let calls = [
            always(libc::SYS_read),
            Call { number: libc::SYS_socket, when: When::OneOf(0, &[1, 16, 2]) },
            Call { number: libc::SYS_mmap, when: When::Without(2, 4) },
            Call { number: libc::SYS_clone, when: When::With(0, 0x1_0000) },
            Call { number: libc::SYS_clone3, when: When::Absent },
            Call { number: libc::SYS_tgkill, when: When::OwnProcess(0) },
            Call { number: libc::SYS_prlimit64, when: When::Null(2) },
            always(libc::SYS_socket),
        ];
        let filter = Filter::compile(&calls, &[libc::SYS_execve], 4_711).expect("compiled");
        let with = |index: usize, value: u64| {
            let mut arguments = [0; 6];
            arguments[index] = value;
            arguments
        };
        for (number, arguments, told) in [
            (libc::SYS_read, [7; 6], ALLOW),
            (libc::SYS_write, [0; 6], REFUSE),
            (libc::SYS_execve, [0; 6], END),
            (libc::SYS_socket, with(0, 1), ALLOW),
            (libc::SYS_socket, with(0, 16), ALLOW),
            (libc::SYS_socket, with(0, 2), ALLOW),
            (libc::SYS_socket, with(0, 10), REFUSE),
            (libc::SYS_mmap, with(2, 3), ALLOW),
            (libc::SYS_mmap, with(2, 7), REFUSE),
            (libc::SYS_clone, with(0, 0x3d_0f00), ALLOW),
            (libc::SYS_clone, with(0, 0x11), REFUSE),
            (libc::SYS_clone3, [0; 6], ABSENT),
            (libc::SYS_tgkill, with(0, 4_711), ALLOW),
            (libc::SYS_tgkill, with(0, 4_712), REFUSE),
            (libc::SYS_tgkill, with(0, 1), REFUSE),
            (libc::SYS_prlimit64, with(2, 0), ALLOW),
            (libc::SYS_prlimit64, with(2, 1), REFUSE),
            // Memory can be had at such an address.
            (libc::SYS_prlimit64, with(2, 1 << 32), REFUSE),
            (libc::SYS_prlimit64, with(2, u64::MAX), REFUSE),
            (libc::SYS_tgkill, with(0, u64::from(u32::MAX)), REFUSE),
            (0x4000_0000, [0; 6], END),
        ] {
            assert_eq!(ask(&filter, number, arguments), told, "{number} {arguments:?}");
        }
    }
}
