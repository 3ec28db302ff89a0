//! Starts valgrind so that a program of ours can run under it.
//!
//! Since Linux 6.4 a process can ask the kernel for its auxiliary vector
//! (prctl(2), PR_GET_AUXV), and rustix does, for the vDSO. Valgrind 3.19 hides
//! the vDSO in every other place where the vector is, but knows nothing of
//! this one: the program reads memory that is not there, and ends. Refused the
//! question, it reads /proc/self/auxv, which valgrind answers itself.

use crate::BenchError;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `PR_GET_AUXV` of linux/prctl.h: "AUXV".
const PR_GET_AUXV: u32 = 0x4155_5856;

/// Where the first argument's lower half lies in `seccomp_data`
/// (linux/seccomp.h), and the number of the call.
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
const NUMBER: u32 = 0;

/// Becomes valgrind with these arguments, among them the program to run.
///
/// # Errors
/// Returns only if that fails.
pub fn exec(words: &[String]) -> BenchError {
    match refuse_auxv() {
        Ok(()) => format!("cannot run valgrind: {}", Command::new("valgrind").args(words).exec()).into(),
        Err(why) => format!("cannot set a filter of system calls: {why}").into(),
    }
}

/// From now on the question for the auxiliary vector is refused (EINVAL, as
/// by older kernels), and nothing else.
fn refuse_auxv() -> std::io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        step(load, 0, 0, NUMBER),
        step(equal, 0, 3, libc::SYS_prctl as u32),
        step(load, 0, 0, FIRST_ARGUMENT),
        step(equal, 0, 1, PR_GET_AUXV),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes numbers only.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the program and its filter live until the call returns, and the
    // kernel copies both.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
