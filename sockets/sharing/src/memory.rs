//! What the seats of a link have in common: one sealed memory, in words.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::Time;

/// Most seats of a link: each has a bit of a word, and rings grow with the square of it.
pub const SEATS_MAX: usize = 32;

/// Most queues of a link that seats share: each has a bit of a word.
pub const QUEUES_MAX: usize = 32;

/// What the memory begins with: "NEARSHR" and the version of all that is in it.
const MAGIC: u64 = 0x4e45_4152_5348_5205;

/// Connections of a seat that are noted; the peers of others hear of its end when they next send.
pub(crate) const FLOWS: usize = 1 << 16;
/// Words of each: ports, the remote address, the local one.
pub(crate) const FLOW_WORDS: usize = 5;

/// Words of a ring: 256 KiB, three of the largest frames and some 170 full ones.
pub(crate) const RING: usize = 1 << 15;
/// Flows whose seat is remembered; others are asked for from seat to seat.
const HINTS: usize = 1 << 15;
/// Words with a bit for each port.
const PORT_WORDS: usize = 1 << 10;
/// Random words: a key for flows, and the secrets of the stacks.
const KEY_WORDS: usize = 4;
const SECRET_WORDS: usize = 10;

/// Whoever has read the link for so long was stopped amid it, and another reads on.
const LEASE: Duration = Duration::from_millis(20);

// Where things lie, in words. What two processes write lies 128 bytes apart: CPUs fetch lines in
// pairs.
const AT_MAGIC: usize = 0;
const AT_SEATS: usize = 1;
const AT_KEY: usize = 2;
const AT_SECRET: usize = AT_KEY + KEY_WORDS;
const AT_READER: usize = 32;
const AT_CHANGES: usize = 48;
const AT_JOINED: usize = 49;
/// Which of its link's connections the keeper shares now.
const AT_LINK: usize = 50;
/// The keeper refuses seats, for none is free.
const AT_REFUSES: usize = 51;
const AT_SEAT: usize = 64;
/// Of a seat: when it was taken, as a count, or 0.
const SEAT_PRESENT: usize = 0;
/// Ports that it has listeners on, as a count.
const SEAT_DOORS: usize = 1;
/// Places up to which its connections are noted, as a count.
const SEAT_FLOWS: usize = 2;
/// Seats whose rings to it have news, as bits.
const SEAT_ARRIVED: usize = 16;
/// It sleeps, or is about to.
const SEAT_ASLEEP: usize = 32;
/// When its program last looked for what there is, in the clock's nanoseconds; all bits while it waits
/// for that.
const SEAT_ATTENDED: usize = 33;
/// When it was first told of news that it has not taken, in the clock's nanoseconds.
const SEAT_RUNG: usize = 34;
const SEAT_WORDS: usize = 48;
const AT_HINTS: usize = AT_SEAT + SEATS_MAX * SEAT_WORDS;
const AT_DOORS: usize = AT_HINTS + HINTS;
const AT_QUEUES: usize = AT_DOORS + SEATS_MAX * 2 * PORT_WORDS;
/// Of a queue: who receives from it, who sends to it, and when somebody last received.
const QUEUE_RECEIVER: usize = 0;
const QUEUE_SENDER: usize = 16;
const QUEUE_LOOKED: usize = 32;
const QUEUE_WORDS: usize = 48;
const AT_RINGS: usize = AT_QUEUES + QUEUES_MAX * QUEUE_WORDS;
/// Of a ring: where it is filled up to, and where it is emptied up to.
const RING_HEAD: usize = 0;
const RING_TAIL: usize = 16;
const RING_RECORDS: usize = 32;
const RING_WORDS: usize = RING_RECORDS + RING;

const _: () = assert!(AT_SECRET + SECRET_WORDS <= AT_READER && RING.is_power_of_two() && HINTS.is_power_of_two());

/// What a seat makes of connections to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// It watches for them.
    Watched = 0,
    /// It has a listener, whether or not anybody looks at it for now.
    Open = 1,
}

/// What one process at a time does with a queue whose rings all have mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Receives from it.
    Receive,
    /// Sends to it.
    Send,
}

impl Turn {
    const BOTH: [Self; 2] = [Self::Receive, Self::Send];

    const fn word(self, queue: usize) -> usize {
        let what = match self {
            Self::Receive => QUEUE_RECEIVER,
            Self::Send => QUEUE_SENDER,
        };
        AT_QUEUES + queue * QUEUE_WORDS + what
    }
}

/// The memory.
#[derive(Debug)]
pub struct SharedMemory {
    file: OwnedFd,
    start: NonNull<AtomicU64>,
    words: usize,
    seats: usize,
}

// SAFETY: the mapping is not bound to a thread, and reached as atomics only.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Memory for so many seats, of which none is taken. `random` are its secrets.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// For no seat or more than [`SEATS_MAX`].
    pub fn create(seats: usize, random: &[u64; 14]) -> io::Result<Self> {
        assert!((1..=SEATS_MAX).contains(&seats), "1 to {SEATS_MAX} seats");
        let file = rustix::fs::memfd_create(c"nearside-seats", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, (words_of(seats) * 8) as u64)?;
        // Whoever is given it need not fear that it shrinks (SIGBUS).
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let this = Self::map(file, seats)?;
        for (place, word) in this.words()[AT_KEY..].iter().zip(random) {
            place.store(*word, Ordering::Relaxed);
        }
        this.word(AT_SEATS).store(seats as u64, Ordering::Relaxed);
        this.word(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(this)
    }

    /// The same memory in another process.
    ///
    /// # Errors
    /// The system's, and `InvalidData` for what is no such memory.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "this is no memory of seats");
        let sealed = rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        let seats = (1..=SEATS_MAX).find(|seats| words_of(*seats) * 8 == bytes);
        let this = Self::map(file, seats.filter(|_| sealed).ok_or_else(wrong)?)?;
        let known = this.word(AT_MAGIC).load(Ordering::Acquire) == MAGIC
            && this.word(AT_SEATS).load(Ordering::Relaxed) == this.seats as u64;
        if known { Ok(this) } else { Err(wrong()) }
    }

    fn map(file: OwnedFd, seats: usize) -> io::Result<Self> {
        let words = words_of(seats);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), words * 8, protection, flags, &file, 0) }?;
        // SAFETY: the range is the mapping's. A child of fork(2) does not have it: it owns nothing.
        unsafe { rustix::mm::madvise(start, words * 8, Advice::LinuxDontFork) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, words, seats })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, has this many words, does not shrink, for that is
        // sealed, and lives as long as `self`. Its words are reached as atomics only, by this
        // process and by others.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words()[at]
    }

    #[inline]
    fn of_seat(&self, seat: usize, what: usize) -> &AtomicU64 {
        self.word(AT_SEAT + seat * SEAT_WORDS + what)
    }

    /// Seats that there are.
    #[must_use]
    pub const fn seats(&self) -> usize {
        self.seats
    }

    /// Secrets of the stacks, the same for all.
    #[must_use]
    pub fn secrets(&self) -> [u64; SECRET_WORDS] {
        core::array::from_fn(|at| self.word(AT_SECRET + at).load(Ordering::Relaxed))
    }

    pub(crate) fn key(&self) -> [u64; KEY_WORDS] {
        core::array::from_fn(|at| self.word(AT_KEY + at).load(Ordering::Relaxed))
    }

    /// Counts what changed of seats and doors.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.word(AT_CHANGES).load(Ordering::Acquire)
    }

    pub(crate) fn note_change(&self) {
        self.word(AT_CHANGES).fetch_add(1, Ordering::AcqRel);
    }

    /// The link's descriptors are others from now on: whoever has a seat asks for them.
    pub fn set_link_epoch(&self, epoch: u32) {
        self.word(AT_LINK).store(epoch.into(), Ordering::Release);
    }

    /// Which descriptors the keeper shares.
    #[inline]
    #[must_use]
    pub fn link_epoch(&self) -> u32 {
        self.word(AT_LINK).load(Ordering::Acquire) as u32
    }

    /// Processes that ask for a seat are refused one from now on, or no more: nobody is about to accept.
    pub fn set_refuses(&self, on: bool) {
        self.word(AT_REFUSES).store(on.into(), Ordering::Release);
    }

    pub(crate) fn refuses(&self) -> bool {
        self.word(AT_REFUSES).load(Ordering::Acquire) != 0
    }

    /// Whether a child of fork(2) has the memory, too. By default none does: it owns nothing.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn set_inherited(&self, on: bool) -> io::Result<()> {
        let advice = if on { Advice::LinuxDoFork } else { Advice::LinuxDontFork };
        // SAFETY: the range is the mapping's, whose content the advice leaves alone.
        Ok(unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.words * 8, advice) }?)
    }

    /// Whether any of these seats sleeps, or is about to.
    pub(crate) fn is_any_asleep(&self, seats: &[usize]) -> bool {
        seats.iter().any(|seat| self.of_seat(*seat, SEAT_ASLEEP).load(Ordering::Relaxed) != 0)
    }

    /// A process has the seat from now on.
    pub(crate) fn join(&self, seat: usize) {
        let order = self.word(AT_JOINED).fetch_add(1, Ordering::Relaxed);
        self.of_seat(seat, SEAT_PRESENT).store(order.wrapping_add(1).max(1), Ordering::Release);
        self.note_change();
    }

    /// When the seat was taken, as a count; 0 if it is free.
    #[inline]
    pub(crate) fn joined(&self, seat: usize) -> u64 {
        self.of_seat(seat, SEAT_PRESENT).load(Ordering::Acquire)
    }

    /// Nobody has the seat any more, however it came to that: its doors are shut, and if it was
    /// reading the link or amid a queue's rings, another may. Its process has none of the memory any
    /// more.
    pub fn vacate(&self, seat: usize) {
        if seat >= self.seats {
            return;
        }
        self.of_seat(seat, SEAT_PRESENT).store(0, Ordering::Release);
        for door in [Door::Watched, Door::Open] {
            self.doors(seat, door).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        self.of_seat(seat, SEAT_ASLEEP).store(0, Ordering::Relaxed);
        self.of_seat(seat, SEAT_ATTENDED).store(0, Ordering::Relaxed);
        self.of_seat(seat, SEAT_DOORS).store(0, Ordering::Relaxed);
        for queue in 0..QUEUES_MAX {
            Turn::BOTH.into_iter().for_each(|turn| self.end_turn(queue, turn, seat));
        }
        let reader = self.word(AT_READER);
        let held = reader.load(Ordering::Acquire);
        if held & 0xff == seat as u64 + 1 {
            // Whoever has it by now keeps it.
            let _ = reader.compare_exchange(held, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.note_change();
    }

    /// Where a seat's connections are noted, and up to which place.
    pub(crate) fn flows(&self, seat: usize) -> &[AtomicU64] {
        let at = AT_RINGS + self.seats * self.seats * RING_WORDS + seat * FLOWS * FLOW_WORDS;
        self.words().get(at..at + FLOWS * FLOW_WORDS).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn flow_count(&self, seat: usize) -> &AtomicU64 {
        self.of_seat(seat, SEAT_FLOWS)
    }

    fn doors(&self, seat: usize, door: Door) -> &[AtomicU64] {
        let at = AT_DOORS + (seat * 2 + door as usize) * PORT_WORDS;
        &self.words()[at..at + PORT_WORDS]
    }

    /// Whether a seat accepts connections to a port.
    #[inline]
    pub(crate) fn has_door(&self, seat: usize, door: Door, port: u16) -> bool {
        let word = &self.doors(seat, door)[usize::from(port) / 64];
        word.load(Ordering::Relaxed) >> (port % 64) & 1 != 0
    }

    pub(crate) fn set_door(&self, seat: usize, door: Door, port: u16, on: bool) {
        let word = &self.doors(seat, door)[usize::from(port) / 64];
        let bit = 1 << (port % 64);
        if on {
            word.fetch_or(bit, Ordering::Release)
        } else {
            word.fetch_and(!bit, Ordering::Release)
        };
    }

    /// Tells how many ports a seat has listeners on.
    pub(crate) fn set_doors(&self, seat: usize, count: usize) {
        self.of_seat(seat, SEAT_DOORS).store(count as u64, Ordering::Relaxed);
    }

    /// Whether a seat has a listener on any port.
    pub(crate) fn has_doors(&self, seat: usize) -> bool {
        self.of_seat(seat, SEAT_DOORS).load(Ordering::Relaxed) != 0
    }

    /// The seat that a flow was last seen with.
    #[inline]
    pub(crate) fn hint(&self, hash: u64) -> Option<usize> {
        let found = self.hint_word(hash).load(Ordering::Relaxed);
        let seat = (found & 0xff) as usize;
        (seat > 0 && seat <= self.seats && found >> 8 == hash >> 8).then(|| seat - 1)
    }

    pub(crate) fn set_hint(&self, hash: u64, seat: usize) {
        self.hint_word(hash).store(hash & !0xff | (seat as u64 + 1), Ordering::Relaxed);
    }

    /// A flow is not this seat's any more.
    pub(crate) fn clear_hint(&self, hash: u64, seat: usize) {
        if self.hint(hash) == Some(seat) {
            self.hint_word(hash).store(0, Ordering::Relaxed);
        }
    }

    fn hint_word(&self, hash: u64) -> &AtomicU64 {
        self.word(AT_HINTS + (hash >> 32) as usize % HINTS)
    }

    /// Begins to read the link, if nobody does. Returns what [`SharedMemory::end_reading`] is to be
    /// told.
    #[inline]
    pub(crate) fn begin_reading(&self, seat: usize, now: Time) -> Option<u64> {
        let reader = self.word(AT_READER);
        let held = reader.load(Ordering::Relaxed);
        if held != 0 {
            let since = Time::from_nanos(held & !0xff);
            if now.since(since) < LEASE {
                return None;
            }
        }
        let own = now.as_nanos() & !0xff | (seat as u64 + 1);
        reader.compare_exchange(held, own, Ordering::Acquire, Ordering::Relaxed).is_ok().then_some(own)
    }

    #[inline]
    pub(crate) fn end_reading(&self, own: u64) {
        // Somebody may have it who thought that this process had stopped.
        let _ = self.word(AT_READER).compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Begins a seat's turn at a queue's rings, unless another seat has its own. It takes as long as
    /// it takes: whoever took the rings from a process that merely stands still would have it write
    /// into them when it goes on. What a process leaves that dies amid it, [`SharedMemory::vacate`]
    /// ends.
    #[inline]
    pub(crate) fn begin_turn(&self, queue: usize, turn: Turn, seat: usize) -> bool {
        let word = self.word(turn.word(queue));
        word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, seat as u64 + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends a seat's turn, if it has one.
    #[inline]
    pub(crate) fn end_turn(&self, queue: usize, turn: Turn, seat: usize) {
        let own = seat as u64 + 1;
        let _ = self.word(turn.word(queue)).compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// A queue is received from now.
    #[inline]
    pub(crate) fn set_looked(&self, queue: usize, now: Time) {
        self.word(AT_QUEUES + queue * QUEUE_WORDS + QUEUE_LOOKED).store(now.as_nanos(), Ordering::Relaxed);
    }

    /// When a queue was last received from.
    #[inline]
    pub(crate) fn looked(&self, queue: usize) -> Time {
        Time::from_nanos(self.word(AT_QUEUES + queue * QUEUE_WORDS + QUEUE_LOOKED).load(Ordering::Relaxed))
    }

    /// A seat's program has just looked for what there is, or waits for it.
    #[inline]
    pub(crate) fn set_attended(&self, seat: usize, since: Option<Time>) {
        self.of_seat(seat, SEAT_ATTENDED).store(since.map_or(u64::MAX, Time::as_nanos), Ordering::Relaxed);
    }

    /// When it last did.
    pub(crate) fn attended(&self, seat: usize) -> Time {
        Time::from_nanos(self.of_seat(seat, SEAT_ATTENDED).load(Ordering::Relaxed))
    }

    /// Since when a seat has news that it has not taken, if it has.
    pub(crate) fn rung(&self, seat: usize) -> Option<Time> {
        let has_news = self.of_seat(seat, SEAT_ARRIVED).load(Ordering::Relaxed) != 0;
        has_news.then(|| Time::from_nanos(self.of_seat(seat, SEAT_RUNG).load(Ordering::Relaxed)))
    }

    /// The seat that has a turn at a queue, if any has.
    pub(crate) fn has_turn(&self, queue: usize, turn: Turn) -> Option<usize> {
        let held = self.word(turn.word(queue)).load(Ordering::Relaxed);
        usize::try_from(held).ok()?.checked_sub(1).filter(|seat| *seat < self.seats)
    }

    /// Whether a seat is amid a turn at any queue: others have none there meanwhile.
    #[must_use]
    pub fn is_amid_turn(&self, seat: usize) -> bool {
        (0..QUEUES_MAX).any(|queue| Turn::BOTH.into_iter().any(|turn| self.has_turn(queue, turn) == Some(seat)))
    }

    /// Tells a seat that the ring from another has news. Whether it sleeps, and is to be woken.
    #[inline]
    pub(crate) fn ring_bell(&self, to: usize, from: usize, now: Time) -> bool {
        if self.of_seat(to, SEAT_ARRIVED).fetch_or(1 << from, Ordering::SeqCst) == 0 {
            self.of_seat(to, SEAT_RUNG).store(now.as_nanos(), Ordering::Relaxed);
        }
        self.of_seat(to, SEAT_ASLEEP).load(Ordering::SeqCst) != 0
    }

    /// Seats whose rings to this one had news since the last call, as bits.
    #[inline]
    pub(crate) fn take_arrived(&self, seat: usize) -> u64 {
        let word = self.of_seat(seat, SEAT_ARRIVED);
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::Acquire) }
    }

    /// From here on whoever tells the seat something wakes it. Whether there is something already.
    pub(crate) fn lie_down(&self, seat: usize) -> bool {
        self.of_seat(seat, SEAT_ASLEEP).store(1, Ordering::SeqCst);
        self.of_seat(seat, SEAT_ARRIVED).load(Ordering::SeqCst) != 0
    }

    pub(crate) fn get_up(&self, seat: usize) {
        self.of_seat(seat, SEAT_ASLEEP).store(0, Ordering::Relaxed);
    }

    /// The ring from one seat to another: its head, its tail, and its words.
    pub(crate) fn ring(&self, from: usize, to: usize) -> (&AtomicU64, &AtomicU64, &[AtomicU64]) {
        let at = AT_RINGS + (to * self.seats + from) * RING_WORDS;
        let ring = &self.words()[at..at + RING_WORDS];
        (&ring[RING_HEAD], &ring[RING_TAIL], &ring[RING_RECORDS..])
    }
}

const fn words_of(seats: usize) -> usize {
    AT_RINGS + seats * seats * RING_WORDS + seats * FLOWS * FLOW_WORDS
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever reaches into it holds this value. It fails for a
        // wrong address only.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}
