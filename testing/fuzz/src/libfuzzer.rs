//! The targets as libFuzzer takes them (<https://llvm.org/docs/LibFuzzer.html>).
//!
//! Built with `--cfg fuzzing` as a static library, this crate has the entry
//! that clang's `-fsanitize=fuzzer` looks for; `make fuzz-libfuzzer` links it.
//! One program has all targets: its name says which one it is, so that each
//! is a program of its own for whoever runs them.

use crate::{TARGETS, Target};
use core::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

/// The target whose name stands behind the last dash of a program's.
fn chosen(program: &str) -> Option<&'static Target> {
    let (_, name) = program.rsplit_once('-')?;
    TARGETS.iter().find(|target| target.name == name)
}

/// Called once, before the first input.
///
/// # Safety
/// `arguments` points to a pointer to at least one string.
// SAFETY: libFuzzer gives the function this name, and nothing else defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LLVMFuzzerInitialize(_count: *mut c_int, arguments: *mut *mut *mut c_char) -> c_int {
    // SAFETY: libFuzzer passes main's arguments, whose first is the program.
    let program = unsafe { CStr::from_ptr(**arguments) }.to_string_lossy();
    let Some(target) = chosen(&program) else {
        eprintln!("the program's name is to end with -TARGET, as in fuzz-stack; targets:");
        TARGETS.iter().for_each(|target| eprintln!("{:12} {}", target.name, target.about));
        std::process::exit(2);
    };
    let _ = CHOSEN.set(target);
    0
}

/// Called for each input. A panic, which cannot leave it, aborts the process:
/// libFuzzer writes the input that did it.
///
/// # Safety
/// `input` is valid for `len` bytes.
// SAFETY: libFuzzer gives the function this name, and nothing else defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LLVMFuzzerTestOneInput(input: *const u8, len: usize) -> c_int {
    let Some(target) = CHOSEN.get() else { return -1 };
    // libFuzzer may pass no address for no bytes.
    let input = if len == 0 {
        &[][..]
    } else {
        // SAFETY: libFuzzer's own buffer, which it leaves alone meanwhile.
        unsafe { core::slice::from_raw_parts(input, len) }
    };
    if input.len() > target.max_len {
        // Not to be kept.
        return -1;
    }
    (target.run)(input);
    0
}
