//! `dprintf` on connections: what is printed is put together by the C library, and written here.

use crate::data::{is_ours, write};
use crate::next::next;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;

/// A list of arguments (`va_list`), which both ABIs pass as an address.
type Arguments = *mut c_void;

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: Arguments) -> c_int;
    fn __vasprintf_chk(text: *mut *mut c_char, flag: c_int, format: *const c_char, arguments: Arguments) -> c_int;
}

/// `vdprintf`.
///
/// # Safety
/// As for vdprintf(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn vdprintf(fd: c_int, format: *const c_char, arguments: Arguments) -> c_int {
    if !is_ours(fd) {
        let next = next!(c"vdprintf", unsafe extern "C" fn(c_int, *const c_char, Arguments) -> c_int);
        // SAFETY: the arguments are the caller's.
        return unsafe { next(fd, format, arguments) };
    }
    let mut text = ptr::null_mut();
    // SAFETY: the arguments are the caller's.
    let len = unsafe { vasprintf(&raw mut text, format, arguments) };
    write_text(fd, text, len)
}

/// `__vdprintf_chk`, as programs call it that were built with checks.
///
/// # Safety
/// As for vdprintf(3).
#[unsafe(no_mangle)]
unsafe extern "C" fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: Arguments) -> c_int {
    if !is_ours(fd) {
        let next = next!(c"__vdprintf_chk", unsafe extern "C" fn(c_int, c_int, *const c_char, Arguments) -> c_int);
        // SAFETY: the arguments are the caller's.
        return unsafe { next(fd, flag, format, arguments) };
    }
    let mut text = ptr::null_mut();
    // SAFETY: the arguments are the caller's.
    let len = unsafe { __vasprintf_chk(&raw mut text, flag, format, arguments) };
    write_text(fd, text, len)
}

/// Writes what was put together, and frees it.
fn write_text(fd: c_int, text: *mut c_char, len: c_int) -> c_int {
    let Ok(all) = usize::try_from(len) else { return len };
    let mut done = 0;
    while done < all {
        // SAFETY: so many bytes are there.
        let wrote = unsafe { write(fd, text.wrapping_add(done).cast(), all - done) };
        match usize::try_from(wrote) {
            Ok(wrote) if wrote > 0 => done += wrote,
            _ => break,
        }
    }
    // SAFETY: the C library took it from malloc(3), and nobody has it any more.
    unsafe { libc::free(text.cast()) };
    if done == all { len } else { -1 }
}

/// The functions whose arguments are as many as their format says, as System V's ABI for x86-64 passes
/// them: each puts the registers that may hold arguments where a list of arguments looks for them, and
/// has the function called that takes a list (section 3.5.7 of the ABI). On AArch64 they are the C
/// library's, and fail on connections.
#[cfg(target_arch = "x86_64")]
mod variadic {
    use super::{__vdprintf_chk, vdprintf};
    use core::arch::naked_asm;
    use core::ffi::{c_char, c_int, c_void};

    unsafe extern "C" fn print(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
        // SAFETY: the arguments are the caller's.
        unsafe { vdprintf(fd, format, arguments) }
    }

    unsafe extern "C" fn print_checked(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
        // SAFETY: the arguments are the caller's.
        unsafe { __vdprintf_chk(fd, flag, format, arguments) }
    }

    /// Has `$print` called with a list of arguments, which is put together on the stack, in `$list`, its last argument;
    /// `$passed` bytes of the general registers are the arguments before those.
    macro_rules! with_list {
        ($passed:literal, $list:literal, $print:ident) => {
            naked_asm!(
                // 176 bytes of registers, 24 of the list, and the stack as a call wants it.
                "sub rsp, 216",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 48], xmm0",
                "movaps [rsp + 64], xmm1",
                "movaps [rsp + 80], xmm2",
                "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4",
                "movaps [rsp + 128], xmm5",
                "movaps [rsp + 144], xmm6",
                "movaps [rsp + 160], xmm7",
                "2:",
                concat!("mov dword ptr [rsp + 176], ", $passed),
                "mov dword ptr [rsp + 180], 48",
                // What did not fit lies behind the return address.
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                concat!("lea ", $list, ", [rsp + 176]"),
                "call {print}",
                "add rsp, 216",
                "ret",
                print = sym $print,
            )
        };
    }

    /// `dprintf`.
    ///
    /// # Safety
    /// As for dprintf(3).
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    unsafe extern "C" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
        with_list!("16", "rdx", print)
    }

    /// `__dprintf_chk`, as programs call it that were built with checks.
    ///
    /// # Safety
    /// As for dprintf(3).
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    unsafe extern "C" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
        with_list!("24", "rcx", print_checked)
    }
}
