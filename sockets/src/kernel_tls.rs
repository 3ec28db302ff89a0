//! Connections whose records the kernel seals (kTLS): what they send is plain from here on,
//! and their files go by sendfile(2).
//!
//! A connection is sealed in user space until it has a long file to send, because to change
//! over takes two system calls and a key schedule, which small answers never win back. The
//! kernel then has the keys of what is sent alone, and the number of the next record. It
//! stays so to the end. What arrives is opened here as before.
//!
//! The keys that the kernel has are not updated: a peer that asks for others, or a connection
//! that has used its keys up, gets the answer that is under way and is closed.

use crate::counters::Counters;
use crate::secured::{Due, InKernel, Secured};
use crate::send::{self, Sent};
use crate::table::{Flags, Socket};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use seal::message::{CLOSE_NOTIFY, NO_RENEGOTIATION, fatal};
use seal::{ContentType, SealingCipher, SealingKeys};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// A file of so many bytes is worth the change.
pub const WORTH: u64 = 256 << 10;

/// Of linux/tls.h and linux/tcp.h, which libc has for some platforms only.
const TCP_ULP: i32 = 31;
const SOL_TLS: i32 = 282;
const TLS_TX: i32 = 1;
const TLS_SET_RECORD_TYPE: i32 = 1;

/// The least of a file that one record has, unless it is the last of a call: a page.
const PAGE: u64 = 4_096;

/// Bytes of the longest description of keys, and of a record's number, which is its last part.
const KEYS_MAX: usize = 56;
const NUMBER_LEN: usize = 8;

/// Whether this kernel seals records of connections; why not, else. The first to ask has the
/// kernel load its module, if that one may.
///
/// # Errors
/// In words, what is missing.
pub fn probe() -> Result<(), &'static str> {
    static FOUND: OnceLock<Result<(), &'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).map_err(|_| "no socket could be had")?;
        // A socket without a connection is refused only where there is something to refuse it.
        match attach(fd.as_fd()) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(Errno::NOENT) => Err("this kernel has no module tls, or did not load it (modprobe tls)"),
            Err(Errno::NOPROTOOPT) => Err("this kernel knows of no protocols above TCP (TCP_ULP)"),
            Err(_) => Err("setting TCP_ULP is refused"),
        }
    })
}

/// Whether this kernel seals records of connections.
pub(crate) fn is_there() -> bool {
    probe().is_ok()
}

/// Whether a long file is queued, which the kernel may be had to seal.
#[inline]
pub(crate) fn is_worth(conn: &Socket, secured: &Secured) -> bool {
    let may = !secured.kernel_refused && secured.due == Due::Nothing && !conn.flags.has(Flags::UNIX);
    may && conn.queue.first_file().is_some_and(|(_, _, len)| len >= WORTH)
}

/// Has the kernel seal what follows, where all that was sealed is sent.
#[cold]
pub(crate) fn take_over(conn: &Socket, secured: &mut Secured, counters: &mut Counters) {
    let Some(fd) = conn.fd() else { return };
    // First what waits, then what is acknowledged: of what moves between, both have it. So
    // this is no less than what TCP has, and what it is given later is never overrated.
    let waits = unacknowledged(fd);
    let (Some(waits), Some(acknowledged)) = (waits, acknowledged(fd)) else {
        secured.kernel_refused = true;
        return;
    };
    let mut given = None;
    let taken = secured.layer.hand_over(secured.epoch, secured.number, &mut |keys| {
        let told = attach(fd).and_then(|()| set_keys(fd, keys));
        given = told.ok().map(|keys_len| (keys.number, keys_len));
        given.is_some()
    });
    secured.kernel_refused = !taken;
    if let (true, Some((first, keys_len))) = (taken, given) {
        counters.kernel_tls += 1;
        counters.kernel_tls_open += 1;
        secured.set_kernel(InKernel { first, keys_len, plain: 0, written: waits + acknowledged });
    }
}

/// Hands over what is queued, as it is, and the end.
pub(crate) fn send_queue(
    conn: &mut Socket,
    secured: &mut Secured,
    rules: (usize, bool),
    counters: &mut Counters,
) -> Sent {
    if secured.number >= secured.layer.most_records() && !conn.queue.is_empty() {
        // Nothing more is to be sealed with these keys but that this is the end.
        conn.queue.clear();
        conn.flags.set(Flags::FINISHED | Flags::CLOSES);
    }
    if core::mem::take(&mut secured.refuses)
        && let (Some(fd), Some(kernel)) = (conn.fd(), &mut secured.kernel)
        && say(fd, NO_RENEGOTIATION).is_ok()
    {
        // Where there is no room, there is much that it does not read.
        kernel.plain += NO_RENEGOTIATION.len() as u64;
        secured.number += 1;
    }
    let (before, calls) = (conn.queue.unsent(), counters.sends);
    let sent = send::send_queue(conn, rules, counters);
    let plain = before.saturating_sub(conn.queue.unsent()) as u64;
    // The kernel does not tell how many records that made: no more than these.
    secured.number += plain.div_ceil(PAGE) + (counters.sends - calls);
    if let Some(kernel) = &mut secured.kernel {
        kernel.plain += plain;
    }
    match sent {
        Sent::All if conn.flags.has(Flags::FINISHED) => end(conn, secured),
        other => other,
    }
}

/// The peer is told that this is all, and the connection may be shut when the kernel's TCP has
/// the whole of it: a FIN that is early takes the place of records which the kernel has sealed
/// and found no room for.
#[cold]
fn end(conn: &Socket, secured: &mut Secured) -> Sent {
    let (Some(fd), Some(kernel)) = (conn.fd(), &mut secured.kernel) else { return Sent::All };
    if secured.due != Due::EndSaid {
        match say(fd, CLOSE_NOTIFY) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Sent::Blocked,
            Err(e) => return Sent::Failed(e),
        }
        secured.due = Due::EndSaid;
        kernel.plain += CLOSE_NOTIFY.len() as u64;
    }
    if lacks(kernel, fd, secured.layer.overhead() as u64).is_none_or(|lacks| lacks == 0) {
        return Sent::All;
    }
    // Once there is room the kernel goes on by itself, in a moment.
    if has_room(fd) { Sent::Spent } else { Sent::Blocked }
}

/// The peer is told why this is its end, as far as the kernel takes that at once.
#[cold]
pub(crate) fn send_last(conn: &Socket, secured: &mut Secured, alert: u8) {
    if secured.due != Due::EndSaid
        && let Some(fd) = conn.fd()
    {
        secured.due = Due::EndSaid;
        let _ = say(fd, fatal(alert));
    }
}

/// Bytes of records that TCP does not have yet. `None` where the kernel does not tell.
fn lacks(kernel: &InKernel, fd: BorrowedFd<'_>, overhead: u64) -> Option<u64> {
    let records = next_number(fd, kernel.keys_len)?.checked_sub(kernel.first)?;
    let sealed = kernel.plain + records * overhead;
    // What moves between both is in neither, so that this is no more than what TCP has.
    let acknowledged = acknowledged(fd)?;
    let written = acknowledged + unacknowledged(fd)?;
    Some(sealed.saturating_sub(written.saturating_sub(kernel.written)))
}

/// Has the kernel put its record layer over a connection.
fn attach(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    set(fd, libc::IPPROTO_TCP, TCP_ULP, b"tls")
}

/// Gives the kernel the keys of what is sent (linux/tls.h, `tls12_crypto_info_…`). Returns how
/// long they are, told so.
fn set_keys(fd: BorrowedFd<'_>, keys: &SealingKeys<'_>) -> Result<usize, Errno> {
    let mut told = Zeroizing::new([0; KEYS_MAX]);
    let len = describe(keys, &mut told).ok_or(Errno::INVAL)?;
    set(fd, SOL_TLS, TLS_TX, &told[..len]).map(|()| len)
}

/// Version, cipher, then as the cipher has them: what is mixed with numbers or counts up, key,
/// salt, number.
fn describe(keys: &SealingKeys<'_>, out: &mut [u8; KEYS_MAX]) -> Option<usize> {
    const SALT: usize = 4;
    let (cipher, key_len, salt) = match keys.cipher {
        SealingCipher::Aes128Gcm => (51_u16, 16, SALT),
        SealingCipher::Aes256Gcm => (52, 32, SALT),
        SealingCipher::ChaCha20Poly1305 => (54, 32, 0),
    };
    if keys.key.len() != key_len {
        return None;
    }
    let (salt, iv) = keys.iv.split_at(salt);
    let number = keys.number.to_be_bytes();
    let parts: [&[u8]; 6] = [&keys.version.to_ne_bytes(), &cipher.to_ne_bytes(), iv, keys.key, salt, &number];
    let mut len = 0;
    for part in parts {
        out.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

/// The number of the record that the kernel seals next. It tells the key with it.
fn next_number(fd: BorrowedFd<'_>, keys_len: usize) -> Option<u64> {
    let mut told = Zeroizing::new([0_u8; KEYS_MAX]);
    // The cipher is asked for by the length alone.
    let len = get(fd, SOL_TLS, TLS_TX, &mut told[..keys_len]).ok()?;
    let number = told.get(len.checked_sub(NUMBER_LEN)?..len)?;
    number.try_into().ok().map(u64::from_be_bytes)
}

/// Bytes that the peer's TCP has acknowledged (TCP_INFO, `tcpi_bytes_acked`).
fn acknowledged(fd: BorrowedFd<'_>) -> Option<u64> {
    const AT: core::ops::Range<usize> = 120..128;
    let mut info = [0; AT.end];
    let len = get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).ok()?;
    let bytes = info.get(..len)?.get(AT)?;
    bytes.try_into().ok().map(u64::from_ne_bytes)
}

/// Bytes that TCP was given and has no acknowledgement of (SIOCOUTQ, tcp(7)).
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for the borrow, and the kernel writes one int.
    let rc = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if rc < 0 { None } else { u64::try_from(bytes).ok() }
}

fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let now = Timespec::try_from(Duration::ZERO).ok();
    poll(&mut fds, now.as_ref()).is_ok_and(|ready| ready > 0)
}

/// An alert, as a record of its own.
fn say(fd: BorrowedFd<'_>, alert: [u8; 2]) -> Result<(), Errno> {
    /// A control message with one byte, aligned as its header is.
    #[repr(C)]
    struct Control {
        header: libc::cmsghdr,
        kind: u8,
        padding: [u8; size_of::<usize>() - 1],
    }
    let mut alert = alert;
    // SAFETY: a header of zeros is one, whatever padding the platform has in it.
    let mut header: libc::cmsghdr = unsafe { core::mem::zeroed() };
    // SAFETY: computes a length.
    header.cmsg_len = unsafe { libc::CMSG_LEN(1) } as _;
    (header.cmsg_level, header.cmsg_type) = (SOL_TLS, TLS_SET_RECORD_TYPE);
    let mut control = Control { header, kind: ContentType::Alert as u8, padding: [0; size_of::<usize>() - 1] };
    let mut piece = libc::iovec { iov_base: alert.as_mut_ptr().cast(), iov_len: alert.len() };
    // SAFETY: as the header: no name, no pieces, no control messages.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut control).cast(), size_of::<Control>() as _);
    // SAFETY: the kernel reads the message, its one piece and its control message, all of
    // which outlive the call.
    let rc = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    if rc < 0 { Err(last_error()) } else { Ok(()) }
}

fn set(fd: BorrowedFd<'_>, level: i32, option: i32, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: the descriptor is open for the borrow, and the kernel reads `bytes.len()` bytes
    // at `bytes`, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, bytes.as_ptr().cast(), bytes.len() as libc::socklen_t)
    };
    if rc < 0 { Err(last_error()) } else { Ok(()) }
}

/// How many bytes the kernel wrote of what `into` has room for.
fn get(fd: BorrowedFd<'_>, level: i32, option: i32, into: &mut [u8]) -> Result<usize, Errno> {
    let mut len = into.len() as libc::socklen_t;
    // SAFETY: the descriptor is open for the borrow, and the kernel writes at most `len` bytes
    // at `into`, which has as many.
    let rc = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, into.as_mut_ptr().cast(), &raw mut len) };
    if rc < 0 { Err(last_error()) } else { Ok((len as usize).min(into.len())) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As linux/tls.h has it: `info`, `iv`, `key`, `salt`, `rec_seq`.
    #[test]
    fn keys_are_told_as_the_kernel_reads_them() {
        let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let key: Vec<u8> = (100..132).collect();
        let told = |cipher, key: &[u8]| {
            let mut out = [0; KEYS_MAX];
            let keys = SealingKeys { version: 0x0304, cipher, key, iv: &iv, number: 0x0102 };
            describe(&keys, &mut out).map(|len| out[..len].to_vec())
        };
        let number = [0, 0, 0, 0, 0, 0, 1, 2];
        let expected = |cipher: u16, key: &[u8], salt: usize| {
            let head = [0x0304_u16.to_ne_bytes(), cipher.to_ne_bytes()].concat();
            Some([&head, &iv[salt..], key, &iv[..salt], &number].concat())
        };
        assert_eq!(told(SealingCipher::Aes128Gcm, &key[..16]), expected(51, &key[..16], 4));
        assert_eq!(told(SealingCipher::Aes256Gcm, &key), expected(52, &key, 4));
        assert_eq!(told(SealingCipher::ChaCha20Poly1305, &key), expected(54, &key, 0));
        assert_eq!(told(SealingCipher::Aes128Gcm, &key), None, "a key of another length");
    }
}
