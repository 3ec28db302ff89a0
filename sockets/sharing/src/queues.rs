//! A link of queues whose rings all seats have mapped: one of them at a time receives from a queue,
//! and one sends to it.
//!
//! Frames are copied out of a queue's memory and into it, and each room goes back at once. So
//! everything that is to be known of a queue stands in its rings' positions, whoever was there
//! before, and however that ended. What a process keeps for itself is what it has not sent yet.

use crate::memory::{QUEUES_MAX, SharedMemory, Turn};
use core::hint::{cold_path, spin_loop};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::{Offload, Time};

/// Frames that a process may have built and not sent: several bursts.
const SLOTS: usize = 128;

/// Looks at a queue that another sends to, before a turn goes on without: as long as one takes to
/// copy a burst into it, which is all that anybody does there unless it is interrupted.
const LOOKS: usize = 256;

/// What waits to be sent, because somebody else was amid it or the queue had no room, is tried
/// again after so long.
const UNSENT_NAP: Duration = Duration::from_micros(50);

/// Frames of a queue that is another seat's wait so long for it: then whoever is awake takes them.
const OVERDUE: Duration = Duration::from_millis(2);

/// Who sleeps while there are such frames looks after them then.
const LOOK_AFTER_OVERDUE: Duration = Duration::from_millis(5);

/// The receiving side of a queue that several processes have mapped.
pub trait CommonReceive {
    /// Whether frames wait.
    fn has_frames(&self) -> bool;

    /// Takes up to `max` frames: copies each behind what `into` holds, and tells where and whether its
    /// transport checksum is vouched for. One process at a time.
    fn take(&mut self, max: usize, into: &mut Vec<u8>, each: &mut dyn FnMut(Range<usize>, bool));

    /// Looks after the queue, about once in 10 ms.
    fn poll_control(&mut self, now: Time) -> LinkState;

    /// As [`Link::arm`].
    fn arm<'q>(&'q mut self, each: &mut dyn FnMut(BorrowedFd<'q>)) -> Duration;

    /// Nobody sleeps: whoever sends need not wake anybody.
    #[inline]
    fn hush(&mut self) {}

    /// Frames that were dropped.
    fn dropped(&self) -> u64;
}

/// The sending side.
pub trait CommonTransmit {
    /// The longest frame.
    fn longest(&self) -> usize;

    /// Sends as many of the frames as there is room for, the first first: how many. One process at a
    /// time.
    fn put(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize;

    /// Has the other side take what was sent. Whether it did: else it is to be told again.
    fn kick(&mut self) -> bool;
}

/// What a process is amid receiving.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Burst>);

#[derive(Debug, Default)]
struct Burst {
    /// The queues, as bits.
    queues: AtomicU64,
    /// Frames of those that are this seat's alone: they come first.
    own_frames: AtomicUsize,
}

impl Held {
    /// Frames at the front of the burst that came by queues of this seat alone: new connections
    /// among them are its own.
    pub(crate) fn own_frames(&self) -> usize {
        self.0.own_frames.load(Ordering::Relaxed)
    }

    /// Others may receive from them again.
    pub(crate) fn let_go(&self, memory: &SharedMemory, own: usize) {
        let mut bits = self.0.queues.swap(0, Ordering::Relaxed);
        while bits != 0 {
            memory.end_turn(bits.trailing_zeros() as usize, Turn::Receive, own);
            bits &= bits - 1;
        }
    }
}

/// The queues, as a seat's link.
#[derive(Debug)]
pub struct QueueSet<R, T> {
    rx: QueueRx<R>,
    tx: QueueTx<T>,
    capabilities: Capabilities,
}

impl<R: CommonReceive, T: CommonTransmit> QueueSet<R, T> {
    /// A seat's link over these queues.
    ///
    /// # Errors
    /// `InvalidInput` for none, more than [`QUEUES_MAX`], or a seat that is not there.
    pub fn new(
        queues: Vec<(R, T)>,
        capabilities: Capabilities,
        memory: Arc<SharedMemory>,
        own: usize,
    ) -> io::Result<Self> {
        if !(1..=QUEUES_MAX).contains(&queues.len()) || own >= memory.seats() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there are no such queues or seat"));
        }
        let (receivers, mut senders): (Vec<R>, Vec<T>) = queues.into_iter().unzip();
        let queue = own % senders.len();
        let sender = senders.swap_remove(queue);
        let rx = QueueRx {
            receivers,
            memory: Arc::clone(&memory),
            own,
            own_queues: u64::MAX,
            taken: Vec::new(),
            is_divided: false,
            seen: u64::MAX,
            held: Held::default(),
            first: 0,
            frames: Vec::new(),
            bytes: Vec::new(),
            counters: Counters::default(),
        };
        Ok(Self { rx, tx: QueueTx::new(sender, queue, memory, own), capabilities })
    }

    /// The same queues of another connection, in place of those there were. What was not sent is lost.
    pub fn replace(&mut self, queues: Vec<(R, T)>) {
        if queues.len() != self.rx.receivers.len() {
            return;
        }
        let (receivers, mut senders): (Vec<R>, Vec<T>) = queues.into_iter().unzip();
        self.rx.receivers = receivers;
        self.tx.sender = senders.swap_remove(self.tx.queue);
        self.tx.counters.tx_dropped += (self.tx.committed - self.tx.sent) as u64;
        (self.tx.sent, self.tx.committed, self.tx.offered, self.tx.unsent) = (0, 0, false, false);
    }

    /// Another seat that is amid a turn at a queue which this one uses. They take microseconds: one that
    /// is there look after look, some milliseconds apart, was stopped amid it.
    pub fn in_the_way(&self) -> Option<usize> {
        let receives = (0..self.rx.receivers.len()).filter(|queue| self.rx.receivers[*queue].has_frames());
        let receivers = receives.filter_map(|queue| self.rx.memory.has_turn(queue, Turn::Receive));
        let sends = self.tx.waits().then(|| self.rx.memory.has_turn(self.tx.queue, Turn::Send)).flatten();
        sends.into_iter().chain(receivers).find(|seat| *seat != self.rx.own)
    }

    /// The receiving sides of its queues.
    pub fn receivers(&self) -> &[R] {
        &self.rx.receivers
    }

    /// Its queues, and the one that it sends to.
    pub fn sides(&mut self) -> (&mut [R], &mut T) {
        (&mut self.rx.receivers, &mut self.tx.sender)
    }

    /// What a [`SeatedLink`](crate::SeatedLink) is to know of it.
    pub fn held(&self) -> Held {
        self.rx.held.clone()
    }
}

/// The receive half of a [`QueueSet`].
#[derive(Debug)]
pub struct QueueRx<R> {
    receivers: Vec<R>,
    memory: Arc<SharedMemory>,
    own: usize,
    /// The queues that this seat reads, as bits; what waits in others for too long it reads as well.
    own_queues: u64,
    /// Seats that somebody has.
    taken: Vec<usize>,
    /// No other seat reads the same.
    is_divided: bool,
    /// How many changes of seats and doors that is from.
    seen: u64,
    held: Held,
    /// The queue that is looked at first.
    first: usize,
    frames: Vec<(Range<usize>, bool)>,
    bytes: Vec<u8>,
    counters: Counters,
}

impl<R: CommonReceive> QueueRx<R> {
    /// Which queues are this seat's: each is one's of those that accept connections. With fewer
    /// queues than seats all are everybody's.
    #[cold]
    fn divide(&mut self, changes: u64) {
        self.seen = changes;
        let all = u64::MAX >> (64 - self.receivers.len());
        self.taken = (0..self.memory.seats()).filter(|seat| self.memory.joined(*seat) != 0).collect();
        let mut holders: Vec<usize> = self.taken.iter().copied().filter(|seat| self.memory.has_doors(*seat)).collect();
        if holders.is_empty() {
            holders.clone_from(&self.taken);
        }
        self.is_divided = self.receivers.len() > 1 && self.receivers.len() >= holders.len();
        self.own_queues = if !self.is_divided {
            all
        } else {
            let queues = (0..self.receivers.len()).filter(|queue| holders[queue % holders.len()] == self.own);
            queues.fold(0, |bits, queue| bits | 1 << queue)
        };
    }

    /// Queues of other seats whose frames nobody took for long, as bits.
    fn overdue(&self, now: Time) -> u64 {
        let queues = (0..self.receivers.len()).filter(|queue| {
            self.own_queues >> queue & 1 == 0
                && self.receivers[*queue].has_frames()
                && now.since(self.memory.looked(*queue)) >= OVERDUE
        });
        queues.fold(0, |bits, queue| bits | 1 << queue)
    }
}

impl<R: CommonReceive> Receive for QueueRx<R> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        self.frames.clear();
        self.bytes.clear();
        let changes = self.memory.changes();
        if self.seen != changes {
            self.divide(changes);
        }
        let (count, mut held) = (self.receivers.len(), 0);
        let wanted = if count > 1 { self.own_queues | self.overdue(now) } else { self.own_queues };
        self.first = (self.first + 1) % count;
        // This seat is up by now.
        if !self.memory.is_any_asleep(&self.taken) {
            self.receivers.iter_mut().for_each(CommonReceive::hush);
        }
        let mut own_frames = 0;
        let own_queues = self.own_queues;
        let order = |own: bool| {
            let all = (0..count).map(|queue| (self.first + queue) % count);
            all.filter(move |queue| (own_queues >> queue & 1 != 0) == own)
        };
        for queue in order(true).chain(order(false)) {
            let room = max.saturating_sub(self.frames.len());
            if room == 0 {
                break;
            }
            let receiver = &mut self.receivers[queue];
            if wanted >> queue & 1 == 0 || !receiver.has_frames() {
                continue;
            }
            if !self.memory.begin_turn(queue, Turn::Receive, self.own) {
                continue;
            }
            held |= 1 << queue;
            self.memory.set_looked(queue, now);
            let frames = &mut self.frames;
            receiver.take(room, &mut self.bytes, &mut |bytes, verified| frames.push((bytes, verified)));
            if self.is_divided && own_queues >> queue & 1 != 0 {
                own_frames = self.frames.len();
            }
        }
        self.held.0.queues.store(held, Ordering::Relaxed);
        self.held.0.own_frames.store(own_frames, Ordering::Relaxed);
        self.counters.rx_frames += self.frames.len() as u64;
        self.counters.rx_bytes += self.bytes.len() as u64;
        self.frames.len()
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        let (bytes, _) = &self.frames[index];
        &self.bytes[bytes.clone()]
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        self.frames[index].1
    }

    fn release(&mut self) {
        self.frames.clear();
        self.bytes.clear();
    }
}

/// The transmit half of a [`QueueSet`].
#[derive(Debug)]
pub struct QueueTx<T> {
    sender: T,
    /// The number of its queue.
    queue: usize,
    memory: Arc<SharedMemory>,
    own: usize,
    /// Slots of `stride` bytes.
    slots: Box<[u8]>,
    stride: usize,
    /// Committed frames, oldest first, are `lens[sent..committed]`.
    lens: Box<[usize]>,
    sent: usize,
    committed: usize,
    offered: bool,
    /// The last flush did not bring all to the other side.
    unsent: bool,
    /// Nobody is at the other side, or no carrier.
    is_down: bool,
    counters: Counters,
}

impl<T: CommonTransmit> QueueTx<T> {
    fn new(sender: T, queue: usize, memory: Arc<SharedMemory>, own: usize) -> Self {
        let stride = sender.longest().next_multiple_of(64);
        Self {
            sender,
            queue,
            memory,
            own,
            slots: vec![0; stride * SLOTS].into_boxed_slice(),
            stride,
            lens: vec![0; SLOTS].into_boxed_slice(),
            sent: 0,
            committed: 0,
            offered: false,
            unsent: false,
            is_down: false,
            counters: Counters::default(),
        }
    }

    fn waits(&self) -> bool {
        self.sent < self.committed || self.unsent
    }

    /// Begins to send, unless another does for longer than a burst takes.
    fn begin(&self) -> bool {
        (0..LOOKS).any(|look| {
            if look > 0 {
                spin_loop();
            }
            self.memory.begin_turn(self.queue, Turn::Send, self.own)
        })
    }
}

impl<T: CommonTransmit> Transmit for QueueTx<T> {
    #[inline]
    fn room(&self) -> usize {
        SLOTS - self.committed
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.committed == SLOTS {
            cold_path();
            self.counters.tx_full += 1;
            return None;
        }
        self.offered = true;
        let start = self.committed * self.stride;
        Some(&mut self.slots[start..start + self.stride])
    }

    #[inline]
    fn commit(&mut self, len: usize, _offload: Offload) {
        if core::mem::take(&mut self.offered) {
            self.lens[self.committed] = len.min(self.sender.longest());
            self.committed += 1;
        }
    }

    fn flush(&mut self, _now: Time) {
        if !self.waits() {
            return;
        }
        if self.is_down {
            self.counters.tx_dropped += (self.committed - self.sent) as u64;
            (self.sent, self.committed, self.unsent) = (0, 0, false);
            return;
        }
        if self.sent < self.committed {
            if !self.begin() {
                // Another was interrupted amid it: what waits is sent in the next turn.
                self.unsent = true;
                return;
            }
            let (slots, lens, stride) = (&self.slots, &self.lens, self.stride);
            let frames = self.sent..self.committed;
            let count = self.sender.put(&mut frames.map(|at| &slots[at * stride..at * stride + lens[at]]));
            self.memory.end_turn(self.queue, Turn::Send, self.own);
            let sent = &self.lens[self.sent..self.sent + count.min(self.committed - self.sent)];
            self.counters.tx_frames += sent.len() as u64;
            self.counters.tx_bytes += sent.iter().sum::<usize>() as u64;
            self.sent += sent.len();
        }
        self.unsent = !self.sender.kick() || self.sent < self.committed;
        if self.sent == self.committed {
            // From the first slot again, which is warm.
            (self.sent, self.committed) = (0, 0);
        }
    }
}

impl<R: CommonReceive, T: CommonTransmit> Link for QueueSet<R, T> {
    type Rx<'a>
        = &'a mut QueueRx<R>
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut QueueTx<T>
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    #[inline]
    fn split(&mut self) -> (&mut QueueRx<R>, &mut QueueTx<T>) {
        (&mut self.rx, &mut self.tx)
    }

    /// Up while any queue is.
    fn poll_control(&mut self, now: Time) -> LinkState {
        let states = self.rx.receivers.iter_mut().map(|receiver| receiver.poll_control(now));
        let state = states.fold(LinkState::Down, |all, state| if state == LinkState::Up { state } else { all });
        self.tx.is_down = state == LinkState::Down;
        state
    }

    fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, _timeout: Duration) -> io::Result<()> {
        // Whoever has a seat sleeps by what it armed.
        Err(io::ErrorKind::Unsupported.into())
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        let mut nap = if self.tx.unsent { UNSENT_NAP } else { Duration::MAX };
        let own_queues = self.rx.own_queues;
        for (queue, receiver) in self.rx.receivers.iter_mut().enumerate() {
            if own_queues >> queue & 1 != 0 {
                nap = nap.min(receiver.arm(each));
            } else if receiver.has_frames() {
                nap = nap.min(LOOK_AFTER_OVERDUE);
            }
        }
        nap
    }

    fn counters(&self) -> Counters {
        let Counters { rx_frames, rx_bytes, .. } = self.rx.counters;
        let rx_dropped = self.rx.receivers.iter().map(CommonReceive::dropped).sum();
        Counters { rx_frames, rx_bytes, rx_dropped, ..self.tx.counters }
    }
}

#[cfg(test)]
mod tests;
