//! The process becomes another program: `execve`, and what else does the same.
//!
//! The C library's own functions call each other past the names that this library has taken, so each
//! of them is here.

use crate::ending::{before_program, program_failed};
use crate::kernel::{self, call, int, result};
use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use posix::Errno;
use std::ffi::CString;
use std::sync::OnceLock;

/// What a program that is started by this one needs in its environment, to be on our stack, too:
/// `NAME=value` each.
static KEPT: OnceLock<Vec<CString>> = OnceLock::new();

/// Says what that is; called once.
pub fn keep_variables(variables: impl Iterator<Item = CString>) {
    KEPT.get_or_init(|| variables.collect());
}

/// Variables of an environment that is put together without taking memory: a child of many threads
/// may not.
const MOST_VARIABLES: usize = 1024;

/// A list of strings, as a program gets it: it ends with a null.
type Strings = *const *const c_char;

unsafe extern "C" {
    /// This process's environment.
    static environ: Strings;
}

/// Becomes a program by `execute`, which is given its environment, and returns where it could not:
/// programs that make their environment themselves (nginx, when it changes its binary) leave out
/// what they do not know. Where it is not even there (`is_there`), as in folder after folder of a path,
/// nothing is prepared for it.
///
/// # Safety
/// `environment` is null, or a list of strings.
unsafe fn become_program(environment: Strings, is_there: bool, execute: impl FnOnce(Strings) -> c_int) -> c_int {
    let before = if is_there { before_program() } else { None };
    let mut whole = [ptr::null::<c_char>(); MOST_VARIABLES];
    // SAFETY: as the caller says.
    let outcome = execute(if unsafe { complete(environment, &mut whole) } { whole.as_ptr() } else { environment });
    let errno = kernel::errno();
    program_failed(before);
    kernel::set_errno(errno);
    outcome
}

/// An environment with what is ours. Whether there is room for it.
///
/// # Safety
/// As for [`become_program`].
unsafe fn complete(environment: Strings, whole: &mut [*const c_char; MOST_VARIABLES]) -> bool {
    let Some(kept) = KEPT.get().filter(|_| !environment.is_null()) else { return false };
    let mut count = 0;
    // SAFETY: the caller gives an environment, which ends with a null.
    while let Some(variable) = unsafe { environment.add(count).read().as_ref() } {
        if count + kept.len() + 1 >= MOST_VARIABLES {
            // More variables than are looked at: as they came.
            return false;
        }
        whole[count] = variable;
        count += 1;
    }
    let given = count;
    for one in kept {
        let name = one.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
        let is_it = |variable: &*const c_char| {
            // SAFETY: the variables are the caller's strings.
            let variable = unsafe { CStr::from_ptr(*variable) }.to_bytes();
            variable.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'='))
        };
        if !whole[..given].iter().any(is_it) {
            whole[count] = one.as_ptr();
            count += 1;
        }
    }
    true
}

/// `execve`.
///
/// # Safety
/// As for execve(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    let is_there = call!(SYS_faccessat, libc::AT_FDCWD, path, libc::F_OK) == 0;
    let execute = |whole: Strings| int(call!(SYS_execve, path, arguments, whole));
    // SAFETY: as the caller says.
    unsafe { become_program(environment, is_there, execute) }
}

/// `execv`.
///
/// # Safety
/// As for exec(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: as the caller says; the environment is this process's.
    unsafe { execve(path, arguments, environ) }
}

/// `execveat`.
///
/// # Safety
/// As for execveat(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    let execute = |whole: Strings| int(call!(SYS_execveat, folder, path, arguments, whole, flags));
    // SAFETY: as the caller says.
    unsafe { become_program(environment, true, execute) }
}

/// `fexecve`.
///
/// # Safety
/// As for fexecve(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: as the caller says.
    unsafe { execveat(file, c"".as_ptr(), arguments, environment, libc::AT_EMPTY_PATH) }
}

/// `execvpe`: the C library looks for the program.
///
/// # Safety
/// As for exec(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    type Execute = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    let Some(next) = kernel::next(c"execvpe") else { return int(result(Err(Errno(libc::ENOSYS)))) };
    // SAFETY: the symbol of this name is a function of this type in every C library that has it.
    let next: Execute = unsafe { core::mem::transmute(next) };
    // SAFETY: as the caller says.
    unsafe { become_program(environment, true, |whole| next(file, arguments, whole)) }
}

/// `execvp`.
///
/// # Safety
/// As for exec(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: as the caller says; the environment is this process's.
    unsafe { execvpe(file, arguments, environ) }
}

/// Arguments that come in registers, behind the first.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 7;

/// How a program is found whose arguments are listed, and what environment it gets.
const BY_PATH: c_int = 0;
const BY_NAME: c_int = 1;
const BY_PATH_WITH_ENVIRONMENT: c_int = 2;

/// What `execl`, `execlp` and `execle` have in common: their arguments lie where the calling
/// convention has them, those of registers in one place, and the rest on the stack.
///
/// # Safety
/// Both are where the arguments lie, which end with a null; behind it there is the environment, if
/// it is of the third kind.
unsafe extern "C" fn execute_listed(path: *const c_char, registers: Strings, stack: Strings, how: c_int) -> c_int {
    let argument = |at: usize| {
        // SAFETY: as the caller says; nothing is read behind the end.
        unsafe { if at < IN_REGISTERS { registers.add(at) } else { stack.add(at - IN_REGISTERS) }.read() }
    };
    let mut arguments = Vec::new();
    while arguments.last().is_none_or(|last: &*const c_char| !last.is_null()) {
        arguments.push(argument(arguments.len()));
    }
    let list = arguments.as_ptr();
    // SAFETY: as the caller says.
    unsafe {
        match how {
            BY_NAME => execvp(path, list),
            BY_PATH_WITH_ENVIRONMENT => execve(path, list, argument(arguments.len()).cast()),
            _ => execv(path, list),
        }
    }
}

/// A function of C that takes a list of arguments of any length, which Rust has none of yet: hands
/// them to [`execute_listed`] where they lie.
macro_rules! listed {
    ($(#[$what:meta])* $name:ident, $how:expr) => {
        $(#[$what])*
        ///
        /// # Safety
        /// As for exec(3).
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            // System V ABI for AMD64 section 3.2.3: the first argument is in rdi, the next five as
            // they are pushed here, the rest above the address of return. Five words more have the
            // stack aligned for a call.
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]",
                "mov ecx, {how}",
                "call {execute}",
                "add rsp, 40",
                "ret",
                how = const $how,
                execute = sym execute_listed,
            );
            // AAPCS64 section 6.8.2: the first argument is in x0, seven more in x1 to x7, the rest on
            // the stack.
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                "stp x1, x2, [sp, #16]",
                "stp x3, x4, [sp, #32]",
                "stp x5, x6, [sp, #48]",
                "str x7, [sp, #64]",
                "add x1, sp, #16",
                "add x2, sp, #80",
                "mov w3, {how}",
                "bl {execute}",
                "ldp x29, x30, [sp], #80",
                "ret",
                how = const $how,
                execute = sym execute_listed,
            );
        }
    };
}

listed! {
    /// `execl`.
    execl, BY_PATH
}
listed! {
    /// `execlp`.
    execlp, BY_NAME
}
listed! {
    /// `execle`.
    execle, BY_PATH_WITH_ENVIRONMENT
}
