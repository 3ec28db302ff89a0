//! Frames between the process that has a queue and the one that had it before,
//! over memory that both have mapped.
//!
//! ```text
//!  NIC ─► new process ── down: what belongs to the old one's connections ──► old process
//!  NIC ◄─ new process ◄─ up: what the old one has to say to them ─────────── old process
//! ```
//!
//! Each way is a ring of slots with one writer and one reader; positions are
//! 32 bits wide, run freely, and are taken modulo the number of slots. Whoever
//! sleeps says so first, and is woken by an eventfd. A full ring drops frames,
//! which are counted, and come again as lost ones do.
//!
//! Before the rings stands the account: which frames to send are in none of
//! the socket's rings, and when the last burst was taken. The old process
//! writes it once it has stopped, the new one reads it before it begins.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Slots of each way: a power of two, and several bursts. What is passed on is
/// what the old process's connections receive, which end one by one.
pub(crate) const SLOTS: u32 = 512;

/// What this memory begins with: "NEARRLY" and the version of all that is in
/// it.
const MAGIC: u64 = 0x4e45_4152_524c_5901;

// Where things lie, in bytes. What two processes write lies 128 bytes apart:
// CPUs fetch lines in pairs.
const AT_MAGIC: usize = 0;
const AT_SHAPE: usize = 8;
const AT_LAST: usize = 16;
const AT_WRITTEN: usize = 24;
const AT_FREE: usize = 1_024;
const AT_WAYS: usize = 4_096;
const WAY_LEN: usize = 512;
const AT_HEAD: usize = 0;
const AT_TAIL: usize = 128;
const AT_ASLEEP: usize = 256;
const AT_SLOTS: usize = 8_192;

/// Bytes of a slot before its frame: the length, and the rest of the line.
const SLOT_HEAD: usize = 64;

/// Most frames of one account: what one ring has at most.
const FRAMES_LIMIT: usize = 16_384;

const _: () = assert!(AT_FREE + FRAMES_LIMIT / 8 <= AT_WAYS && AT_WAYS + 2 * WAY_LEN <= AT_SLOTS);
const _: () = assert!(SLOTS.is_power_of_two());

/// The memory of one queue's relay.
#[derive(Debug)]
pub(crate) struct Relay {
    file: OwnedFd,
    start: NonNull<u8>,
    len: usize,
    /// Bytes of a slot, its head included: as a frame's room.
    slot: usize,
}

// SAFETY: the mapping is not bound to a thread; its words are reached as
// atomics, and its slots through the one end that they belong to.
unsafe impl Send for Relay {}
// SAFETY: as above.
unsafe impl Sync for Relay {}

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From the process that has the queue to the one that had it.
    Down,
    /// And back.
    Up,
}

/// What the old process leaves of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    /// When its last burst was taken, in nanoseconds of the clock that does
    /// not stop (CLOCK_MONOTONIC).
    pub last: u64,
    /// The frames to send that are in no ring, by number, in order.
    pub free: Vec<u32>,
}

impl Relay {
    /// Memory for frames of `frame` bytes of room.
    pub fn create(frame: u32) -> Result<Self, Errno> {
        let file = rustix::fs::memfd_create(c"nearside-relay", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let len = bytes(frame);
        rustix::fs::ftruncate(&file, len as u64)?;
        // Whoever is given it need not fear that it shrinks (SIGBUS).
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let this = Self::map(file, frame)?;
        this.double(AT_SHAPE).store(shape(frame), Ordering::Relaxed);
        this.double(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(this)
    }

    /// The same memory in another process; `None` if it is none, or of another
    /// version.
    pub fn open(file: OwnedFd, frame: u32) -> Option<Self> {
        let sealed = rustix::fs::fcntl_get_seals(&file).ok()?.contains(SealFlags::SHRINK);
        let fits = u64::try_from(rustix::fs::fstat(&file).ok()?.st_size).ok()? >= bytes(frame) as u64;
        if !sealed || !fits {
            return None;
        }
        let this = Self::map(file, frame).ok()?;
        let known = this.double(AT_MAGIC).load(Ordering::Acquire) == MAGIC
            && this.double(AT_SHAPE).load(Ordering::Relaxed) == shape(frame);
        known.then_some(this)
    }

    fn map(file: OwnedFd, frame: u32) -> Result<Self, Errno> {
        let len = bytes(frame);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, protection, flags, &file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Self { file, start, len, slot: frame as usize })
    }

    /// The account of a queue that has stopped: `free` are the frames to send
    /// that are in no ring, by number.
    pub fn write_account(&self, last: u64, free: impl Iterator<Item = u32>) {
        for word in 0..FRAMES_LIMIT / 64 {
            self.double(AT_FREE + 8 * word).store(0, Ordering::Relaxed);
        }
        for frame in free.map(|frame| frame as usize % FRAMES_LIMIT) {
            self.double(AT_FREE + frame / 64 * 8).fetch_or(1 << (frame % 64), Ordering::Relaxed);
        }
        self.double(AT_LAST).store(last, Ordering::Relaxed);
        self.word(AT_WRITTEN).store(1, Ordering::Release);
    }

    /// The account, of a queue with so many frames to send; `None` if there is
    /// none, or it tells of frames that do not exist.
    pub fn account(&self, frames: u32) -> Option<Account> {
        if self.word(AT_WRITTEN).load(Ordering::Acquire) != 1 {
            return None;
        }
        let mut free = Vec::new();
        for word in 0..FRAMES_LIMIT / 64 {
            let mut bits = self.double(AT_FREE + 8 * word).load(Ordering::Relaxed);
            while bits != 0 {
                free.push(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        let exist = free.last().is_none_or(|last| *last < frames);
        exist.then(|| Account { last: self.double(AT_LAST).load(Ordering::Relaxed), free })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= AT_SLOTS, "no word before the slots");
        // SAFETY: within the mapping, which begins at a page and lives as long
        // as `self`, and aligned; others change it as a whole only.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    fn double(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= AT_SLOTS, "no double word before the slots");
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    fn of(&self, way: Way, at: usize) -> &AtomicU32 {
        self.word(AT_WAYS + way as usize * WAY_LEN + at)
    }

    /// The slot at a position.
    fn slot(&self, way: Way, position: u32) -> NonNull<u8> {
        let index = (way as usize * SLOTS as usize) + (position & (SLOTS - 1)) as usize;
        // SAFETY: `bytes` counts this many slots.
        unsafe { self.start.add(AT_SLOTS + index * self.slot) }
    }
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever reaches into it holds this
        // value. It fails for a wrong address only.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

const fn bytes(frame: u32) -> usize {
    AT_SLOTS + 2 * SLOTS as usize * frame as usize
}

const fn shape(frame: u32) -> u64 {
    (SLOTS as u64) << 32 | frame as u64
}

/// The end that fills a way.
#[derive(Debug)]
pub(crate) struct Sender {
    relay: Arc<Relay>,
    way: Way,
    /// Wakes the other side.
    bell: Arc<OwnedFd>,
    next: u32,
    /// Shown to the other side up to here.
    shown: u32,
}

impl Sender {
    /// # Safety
    /// Nobody else fills this way, in any process.
    pub unsafe fn new(relay: Arc<Relay>, way: Way, bell: Arc<OwnedFd>) -> Self {
        let next = relay.of(way, AT_HEAD).load(Ordering::Relaxed);
        Self { relay, way, bell, next, shown: next }
    }

    /// Slots that are free.
    pub fn room(&self) -> usize {
        let done = self.relay.of(self.way, AT_TAIL).load(Ordering::Acquire);
        // The other side may lie; there are never more slots than there are.
        SLOTS.saturating_sub(self.next.wrapping_sub(done)) as usize
    }

    /// The next slot, if one is free: as long as that of a queue at least.
    pub fn slot(&mut self) -> Option<&mut [u8]> {
        if self.room() == 0 {
            return None;
        }
        let start = self.relay.slot(self.way, self.next);
        // SAFETY: within the slot; the other side does not read it before it
        // is shown, and nobody else has this end.
        Some(unsafe { core::slice::from_raw_parts_mut(start.add(SLOT_HEAD).as_ptr(), self.relay.slot - SLOT_HEAD) })
    }

    /// Completes the slot that was given last with the frame's length.
    pub fn commit(&mut self, len: usize) {
        let len = len.min(self.relay.slot - SLOT_HEAD) as u32;
        let start = self.relay.slot(self.way, self.next);
        // SAFETY: as in `slot`; a slot begins at a multiple of 64 bytes.
        unsafe { start.cast::<u32>().write(len) };
        self.next = self.next.wrapping_add(1);
    }

    /// Adds a copy of a frame; whether there was room.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let Some(place) = self.slot().and_then(|slot| slot.get_mut(..frame.len())) else { return false };
        place.copy_from_slice(frame);
        self.commit(frame.len());
        true
    }

    /// Shows the other side all that was added, and wakes it if it sleeps.
    pub fn publish(&mut self) {
        if self.shown == self.next {
            return;
        }
        self.shown = self.next;
        self.relay.of(self.way, AT_HEAD).store(self.next, Ordering::Release);
        // Against the fence of `Receiver::lie_down`: one of both sees the other.
        fence(Ordering::SeqCst);
        let asleep = self.relay.of(self.way, AT_ASLEEP);
        if asleep.load(Ordering::Relaxed) != 0 {
            asleep.store(0, Ordering::Relaxed);
            ring(&self.bell);
        }
    }
}

/// The end that empties a way.
#[derive(Debug)]
pub(crate) struct Receiver {
    relay: Arc<Relay>,
    way: Way,
    next: u32,
}

impl Receiver {
    /// # Safety
    /// Nobody else empties this way, in any process.
    pub unsafe fn new(relay: Arc<Relay>, way: Way) -> Self {
        let next = relay.of(way, AT_TAIL).load(Ordering::Relaxed);
        Self { relay, way, next }
    }

    /// Frames that wait.
    pub fn waiting(&self) -> u32 {
        let head = self.relay.of(self.way, AT_HEAD).load(Ordering::Acquire);
        head.wrapping_sub(self.next).min(SLOTS)
    }

    /// Where the frame that waits at `index` lies, and its length; it stays
    /// until [`Receiver::release`].
    pub fn look(&self, index: u32) -> (NonNull<u8>, u32) {
        let start = self.relay.slot(self.way, self.next.wrapping_add(index));
        // SAFETY: within the slot and aligned; the other side wrote it before
        // it showed it, and leaves it alone until it is released.
        let len = unsafe { start.cast::<u32>().read() };
        // SAFETY: a slot is longer than its head.
        (unsafe { start.add(SLOT_HEAD) }, len.min((self.relay.slot - SLOT_HEAD) as u32))
    }

    /// Gives the first `count` slots that wait back.
    pub fn release(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.relay.of(self.way, AT_TAIL).store(self.next, Ordering::Release);
    }

    /// Asks to be woken. Whether frames wait already: then there is nothing to
    /// sleep for.
    pub fn lie_down(&self) -> bool {
        self.relay.of(self.way, AT_ASLEEP).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.waiting() > 0
    }
}

/// Wakes whoever sleeps on this eventfd.
pub(crate) fn ring(bell: &OwnedFd) {
    // Fails only when its counter is full, and then it is readable anyway.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Silences it again.
pub(crate) fn hush(bell: &OwnedFd) {
    // It does not block; one that is silent says so.
    let _ = rustix::io::read(bell, &mut [0_u8; 8]);
}

/// Whether a frame may concern both processes: a neighbour's answer, an ICMP
/// error, a fragment. The frame is untagged: a queue takes no other.
pub(crate) fn concerns_both(frame: &[u8]) -> bool {
    use wire::ethernet::{self, ETHER_ARP, ETHER_IPV4, ETHER_IPV6};
    use wire::{ipv4, ipv6, protocol};
    let be16 = |at: usize| frame.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    const IP: usize = ethernet::HEADER_LEN;
    match be16(12) {
        Some(ETHER_IPV4) => {
            let Some(head) = frame.get(IP..IP + ipv4::HEADER_LEN) else { return false };
            // More fragments, or not the first (RFC 791 section 3.1).
            let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0;
            let upper = IP + usize::from(head[0] & 0xf) * 4;
            // RFC 792: destination unreachable, time exceeded, parameter problem.
            let error = || matches!(frame.get(upper), Some(3 | 11 | 12));
            fragment || head[9] == protocol::ICMP && error()
        }
        Some(ETHER_IPV6) => match frame.get(IP + 6) {
            // RFC 4443 section 2.1: errors are below 128; RFC 4861 section 4.4.
            Some(&protocol::ICMPV6) => matches!(frame.get(IP + ipv6::HEADER_LEN), Some(0..128 | 136)),
            // RFC 8200 section 4.5.
            Some(next) => *next == IPV6_FRAGMENT,
            None => false,
        },
        // RFC 826: 2 is a reply.
        Some(ETHER_ARP) => be16(IP + 6) == Some(2),
        _ => false,
    }
}

/// The next header that says that a fragment follows.
const IPV6_FRAGMENT: u8 = 44;

#[cfg(test)]
mod tests;
