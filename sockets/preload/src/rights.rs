//! Descriptors that a program passes to others (`SCM_RIGHTS`): the kernel's, and none of ours, which
//! are nobody's but this process's.

use crate::listeners::note_given;
use crate::marks::{Mark, mark};
use crate::memory::{self, Access, check};
use crate::worker::{place, say};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicBool, Ordering};
use libc::{cmsghdr, mmsghdr, msghdr};
use posix::{Errno, Result};

/// Control messages longer than this are passed on as they come: no kernel takes as many descriptors
/// (`SCM_MAX_FD`).
const LONGEST: usize = 4096;

/// Whether a message passes no connection of ours on.
///
/// # Errors
/// `EOPNOTSUPP` where it does: the operator is told. What is no message is the kernel's to refuse.
pub fn is_free_of_ours(msg: *const msghdr) -> Result<()> {
    if passed_by(msg).into_iter().any(|fd| mark(fd) == Mark::Connection) { refuse() } else { Ok(()) }
}

/// A message has come: listeners that another process has passed may be ours.
pub fn note_received(msg: *const msghdr) {
    passed_by(msg).into_iter().for_each(note_given);
}

/// The descriptors that a message passes on.
fn passed_by(msg: *const msghdr) -> Vec<c_int> {
    if place().is_none() {
        return Vec::new();
    }
    // SAFETY: any bytes are a header; where it says that there is memory is looked at.
    let Ok(head) = (unsafe { memory::read(msg) }) else { return Vec::new() };
    let len = head.msg_controllen;
    if !(1..=LONGEST).contains(&len) || check(Access::Read, head.msg_control, len).is_err() {
        return Vec::new();
    }
    // SAFETY: so much was found there.
    let control = unsafe { core::slice::from_raw_parts(head.msg_control.cast::<u8>(), len) };
    passed(control).collect()
}

/// The same of several messages.
pub fn are_free_of_ours(messages: *const mmsghdr, count: c_uint) -> Result<()> {
    if place().is_none() {
        return Ok(());
    }
    let count = count.min(libc::UIO_MAXIOV as c_uint) as usize;
    (0..count).try_for_each(|at| is_free_of_ours(messages.wrapping_add(at).cast()))
}

/// The descriptors that control messages pass on.
fn passed(control: &[u8]) -> impl Iterator<Item = c_int> {
    const HEAD: usize = size_of::<cmsghdr>();
    let mut rest = control;
    let each = core::iter::from_fn(move || {
        let (head, _) = rest.split_at_checked(HEAD)?;
        let word = |at: usize| head[at..at + 4].first_chunk().map(|word| i32::from_ne_bytes(*word));
        let len = head.first_chunk().map(|word| usize::from_ne_bytes(*word))?;
        let level = word(core::mem::offset_of!(cmsghdr, cmsg_level));
        let kind = word(core::mem::offset_of!(cmsghdr, cmsg_type));
        let data = rest.get(HEAD..len)?;
        // Each begins where a word of the machine's may.
        rest = rest.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        let is_rights = (level, kind) == (Some(libc::SOL_SOCKET), Some(libc::SCM_RIGHTS));
        Some(if is_rights { data } else { &[] })
    });
    each.flat_map(|data| data.chunks_exact(size_of::<c_int>()))
        .filter_map(|fd| fd.first_chunk().map(|fd| c_int::from_ne_bytes(*fd)))
}

#[cold]
fn refuse() -> Result<()> {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say(&format!(
            "process {} has passed a connection to another process (SCM_RIGHTS), and got EOPNOTSUPP: connections on \
             our stack are one process's",
            std::process::id()
        ));
    }
    Err(Errno(libc::EOPNOTSUPP))
}
