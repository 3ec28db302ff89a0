//! Where a queue's frames are: the moves between us and the kernel, without
//! memory or socket.

use crate::config::HEADROOM;
use crate::ring::{Consumer, Descriptor, Producer};
use crate::stamps::HAS_METADATA;
use core::hint::cold_path;
use std::collections::VecDeque;

/// Frames that were stamped and are kept until they are told of: one is in flight
/// where stamps are measured by.
const STAMPED_LIMIT: usize = 16;

/// The shortest frame: an Ethernet header.
const LEAST: u64 = wire::ethernet::HEADER_LEN as u64;

/// The frames that are received into.
///
/// Each is, at any time, in one place: with the kernel (the fill ring
/// included), in the receive ring, or taken. All of them fit into the fill
/// ring.
#[derive(Debug)]
pub(crate) struct ReceiveFrames {
    ring: Consumer<Descriptor>,
    fill: Producer<u64>,
    rooms: Rooms,
}

/// Where the frames of one direction of a queue lie, as the umem counts. What
/// stands in a ring that another process had before is held against it.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    first: u64,
    /// Past the last.
    end: u64,
    /// Bytes of a frame's room, less one: a mask.
    within: u64,
}

impl Rooms {
    /// Of `count` frames of `frame` bytes of room, a power of two, from `first`
    /// on.
    pub fn new(first: u64, count: u32, frame: u32) -> Self {
        debug_assert!(frame.is_power_of_two() && first.is_multiple_of(u64::from(frame)));
        Self { first, end: first + u64::from(count) * u64::from(frame), within: u64::from(frame) - 1 }
    }

    /// Where the room begins that `address` lies in, if it is one of these.
    #[inline]
    fn of(&self, address: u64) -> Option<u64> {
        (self.first..self.end).contains(&address).then_some(address & !self.within)
    }

    /// Whether a frame that is sent may begin there: in one of these rooms, no
    /// further in than leaves a slot's length.
    #[inline]
    fn has_frame(&self, address: u64) -> bool {
        self.of(address).is_some() && address & self.within <= u64::from(HEADROOM)
    }

    fn count(&self) -> usize {
        ((self.end - self.first) / (self.within + 1)) as usize
    }
}

impl ReceiveFrames {
    /// `fill` holds all the frames, which are those of `rooms`.
    pub fn new(ring: Consumer<Descriptor>, fill: Producer<u64>, rooms: Rooms) -> Self {
        Self { ring, fill, rooms }
    }

    /// Frames that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.ring.available()
    }

    /// Where the frame that waits at `index` lies, and its length; `None` for
    /// what is none, whose room goes back.
    #[inline]
    pub fn look(&mut self, index: u32) -> Option<(u64, u32)> {
        let Descriptor { address, len, .. } = self.ring.peek(index);
        let bytes = u64::from(len);
        let room = self.rooms.of(address);
        // Within one room: the last that is ours ends where they all do.
        let room_left = self.rooms.within + 1 - (address & self.rooms.within);
        if room.is_none() || bytes > room_left || bytes < LEAST {
            cold_path();
            if room.is_some() {
                self.give(address);
            }
            return None;
        }
        Some((address, len))
    }

    /// Takes the first `count` of those that were looked at.
    #[inline]
    pub fn take(&mut self, count: u32) {
        self.ring.advance(count);
    }

    /// Gives back the room that `address` lies in.
    #[inline]
    pub fn give(&mut self, address: u64) {
        self.fill.push(address & !self.rooms.within);
    }

    /// Whether so many bytes before `address` are of the same room.
    pub fn has_before(&self, address: u64, bytes: usize) -> bool {
        address & self.rooms.within >= bytes as u64
    }

    /// Shows the kernel what was given back; whether it wants to be told.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.fill.publish();
        self.fill.needs_wakeup()
    }
}

/// The frames that are sent from.
///
/// Each is, at any time, in one place: free, in the transmit ring, with the
/// kernel, or in the completion ring. All of them fit into either ring.
#[derive(Debug)]
pub(crate) struct SendFrames {
    ring: Producer<Descriptor>,
    completion: Consumer<u64>,
    /// Where each begins, as the umem counts. The one given back last is
    /// taken first: it is warm.
    free: Vec<u64>,
    /// With the kernel, to be stamped; and stamped, and not told of yet. With
    /// their lengths.
    asked: Vec<(u64, u32)>,
    stamped: VecDeque<(u64, u32)>,
    total: usize,
    rooms: Rooms,
}

impl SendFrames {
    /// All of `frames`, one in each of `rooms`, are free; the first is taken
    /// first.
    pub fn new(
        ring: Producer<Descriptor>,
        completion: Consumer<u64>,
        frames: impl DoubleEndedIterator<Item = u64>,
        rooms: Rooms,
    ) -> Self {
        let free: Vec<u64> = frames.rev().collect();
        let (asked, stamped) = (Vec::new(), VecDeque::new());
        Self { ring, completion, total: free.len(), free, asked, stamped, rooms }
    }

    /// Goes on from where another process stopped: of those in `rooms` these
    /// are in no ring. There is room for the others' return.
    pub fn resume(ring: Producer<Descriptor>, completion: Consumer<u64>, frames: Vec<u64>, rooms: Rooms) -> Self {
        let mut free = frames;
        let total = rooms.count();
        free.truncate(total);
        free.reserve(total - free.len());
        let (asked, stamped) = (Vec::new(), VecDeque::new());
        Self { ring, completion, total, free, asked, stamped, rooms }
    }

    /// The frames that are in no ring, each once.
    pub fn free(&self) -> &[u64] {
        &self.free
    }

    /// Frames that are free.
    #[inline]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// The frame that [`SendFrames::push`] sends next.
    #[inline]
    pub fn next(&mut self) -> Option<u64> {
        if self.free.is_empty() {
            cold_path();
            self.reap();
        }
        self.free.last().copied()
    }

    /// Puts the next frame into the transmit ring, with `len` bytes; whether
    /// there was one.
    #[inline]
    pub fn push(&mut self, len: u32) -> bool {
        let Some(address) = self.free.pop() else { return false };
        self.ring.push(Descriptor { address, len, options: 0 });
        true
    }

    /// The same for a frame that is to be stamped, for which is asked in what
    /// stands before it.
    #[cold]
    pub fn push_asked(&mut self, len: u32) -> bool {
        let Some(address) = self.free.pop() else { return false };
        self.ring.push(Descriptor { address, len, options: HAS_METADATA });
        self.asked.push((address, len));
        true
    }

    /// A frame that was to be stamped and is back, with its length: it is given
    /// back once it was told of.
    pub fn take_stamped(&mut self) -> Option<(u64, u32)> {
        self.stamped.pop_front()
    }

    /// Gives back a frame that was told of: to be taken last, as another one may
    /// be offered.
    pub fn give(&mut self, address: u64) {
        self.free.insert(0, address);
    }

    /// Keeps frames that are to be told of, of those that came back last: from
    /// `from` on among those that are free.
    #[cold]
    fn keep_stamped(&mut self, from: usize) {
        for at in (from..self.free.len()).rev() {
            let address = self.free[at];
            if let Some(asked) = self.asked.iter().position(|(asked, _)| *asked == address) {
                self.stamped.push_back(self.asked.swap_remove(asked));
                self.free.swap_remove(at);
            }
        }
        while self.stamped.len() > STAMPED_LIMIT {
            // Nobody wants to be told.
            let oldest = self.stamped.pop_front();
            self.free.extend(oldest.map(|(address, _)| address));
        }
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// Whether the kernel wants to be told of it.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// Frames that the kernel has not taken.
    #[inline]
    pub fn pending(&self) -> u32 {
        self.ring.pending()
    }

    /// Takes back what was sent.
    #[inline]
    pub fn reap(&mut self) {
        let done = self.completion.available();
        if done == 0 {
            return;
        }
        let before = self.free.len();
        for index in 0..done {
            // More than there are cannot come back, nor others; what stands
            // there beyond is a mistake, or the work of the process that had
            // the ring before, and is left out.
            let address = self.completion.peek(index);
            if self.rooms.has_frame(address) && self.free.len() < self.total {
                self.free.push(address);
            }
        }
        self.completion.advance(done);
        if !self.asked.is_empty() {
            self.keep_stamped(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::Memory;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, VecDeque};

    const SIZE: u32 = 8;
    const FRAME: u32 = 2_048;

    proptest! {
        /// Whatever order things happen in, each frame to send is in one
        /// place, and none is lost.
        #[test]
        fn frames_to_send_never_leak(start: u32, moves in proptest::collection::vec(0u8..5, 1..400)) {
            let (mut ring, mut completion) = (Memory::new(SIZE, start), Memory::new(SIZE, start));
            let (ring, completion) = (ring.parts(), completion.parts());
            // SAFETY: the memory outlives all four; each side is used once.
            let (ours, mut taken, mut done) = unsafe {
                let ours = (Producer::new(ring), Consumer::new(completion));
                (ours, Consumer::new(ring), Producer::new(completion))
            };
            let all: Vec<u64> = (0..u64::from(SIZE)).map(|n| n * u64::from(FRAME)).collect();
            let rooms = Rooms::new(0, SIZE, FRAME);
            let mut frames = SendFrames::new(ours.0, ours.1, all.iter().copied(), rooms);
            let (mut pushed, mut in_ring, mut in_flight, mut completed) =
                (Vec::new(), VecDeque::new(), VecDeque::new(), VecDeque::new());
            for step in moves {
                match step {
                    0 => {
                        if let Some(next) = frames.next() {
                            // What was completed came back with it.
                            if frames.room() > 1 || completed.contains(&next) {
                                completed.clear();
                            }
                            prop_assert!(frames.push(60));
                            pushed.push(next);
                        } else {
                            prop_assert!(!frames.push(60));
                        }
                    }
                    1 => {
                        frames.publish();
                        in_ring.extend(pushed.drain(..));
                    }
                    2 => if taken.available() > 0 {
                        let frame = taken.peek(0).address;
                        taken.advance(1);
                        prop_assert_eq!(in_ring.pop_front(), Some(frame));
                        in_flight.push_back(frame);
                    },
                    3 => if let Some(frame) = in_flight.pop_front() {
                        done.push(frame);
                        done.publish();
                        completed.push_back(frame);
                    },
                    _ => {
                        frames.reap();
                        completed.clear();
                    }
                }
                let free: BTreeSet<u64> = frames.free.iter().copied().collect();
                prop_assert_eq!(free.len(), frames.room(), "twice free");
                let away = pushed.len() + in_ring.len() + in_flight.len();
                let waiting = done.pending() as usize;
                prop_assert_eq!(free.len() + away + waiting, all.len());
                prop_assert!(pushed.iter().chain(&in_ring).chain(&in_flight).all(|frame| !free.contains(frame)));
            }
        }

        /// The same for frames to receive into, with descriptors that lie.
        #[test]
        fn frames_to_receive_into_never_leak(
            start: u32,
            moves in proptest::collection::vec((0u8..3, 0u32..3_000, 0u32..300), 1..300),
        ) {
            let (mut ring, mut fill) = (Memory::<Descriptor>::new(SIZE, start), Memory::<u64>::new(SIZE, start));
            let (ring, fill) = (ring.parts(), fill.parts());
            // SAFETY: as above.
            let (receive, mut ours, mut arrived, mut empty) = unsafe {
                (Consumer::new(ring), Producer::new(fill), Producer::new(ring), Consumer::new(fill))
            };
            for n in 0..u64::from(SIZE) {
                ours.push(n * u64::from(FRAME));
            }
            ours.publish();
            let mut frames = ReceiveFrames::new(receive, ours, Rooms::new(0, SIZE, FRAME));
            let mut taken = VecDeque::new();
            for (step, len, offset) in moves {
                match step {
                    // A frame arrives.
                    0 => if empty.available() > 0 {
                        let room = empty.peek(0);
                        empty.advance(1);
                        arrived.push(Descriptor { address: room + u64::from(offset), len, options: 0 });
                        arrived.publish();
                    },
                    // It is taken.
                    1 => if frames.waiting() > 0 {
                        let found = frames.look(0);
                        frames.take(1);
                        if let Some((address, len)) = found {
                            prop_assert!(address % u64::from(FRAME) + u64::from(len) <= u64::from(FRAME));
                            taken.push_back(address);
                        } else {
                            prop_assert!(u64::from(len) < LEAST || offset + len > 0);
                        }
                    },
                    // It is released.
                    _ => if let Some(address) = taken.pop_front() {
                        frames.give(address);
                    },
                }
                let _ = frames.publish();
                let places = empty.available() + frames.waiting() + taken.len() as u32;
                prop_assert_eq!(places, SIZE);
            }
        }
    }

    /// A process that had the rings before may have put anything there, also
    /// frames of another queue that lie in the same memory.
    #[test]
    fn addresses_of_others_are_left_out() {
        let (mut ring, mut completion) = (Memory::<Descriptor>::new(SIZE, 0), Memory::<u64>::new(SIZE, 0));
        let (ring, completion) = (ring.parts(), completion.parts());
        // SAFETY: the memory outlives all; each side is used once.
        let (ours, mut done) = unsafe { ((Producer::new(ring), Consumer::new(completion)), Producer::new(completion)) };
        let base = u64::from(SIZE * FRAME);
        let free = vec![base + u64::from(FRAME)];
        let mut sending = SendFrames::resume(ours.0, ours.1, free, Rooms::new(base, SIZE, FRAME));
        for address in [0, base - 1, base + 64, base + 300, 2 * base, u64::MAX] {
            done.push(address);
        }
        done.publish();
        sending.reap();
        assert_eq!(sending.free(), [base + u64::from(FRAME), base + 64]);

        let (mut arrived, mut fill) = (Memory::<Descriptor>::new(SIZE, 0), Memory::<u64>::new(SIZE, 0));
        let (arrived, fill) = (arrived.parts(), fill.parts());
        // SAFETY: as above.
        let (receive, rooms, mut kernel, empty) =
            unsafe { (Consumer::new(arrived), Producer::new(fill), Producer::new(arrived), Consumer::new(fill)) };
        let mut receiving = ReceiveFrames::new(receive, rooms, Rooms::new(base, SIZE, FRAME));
        let told = [
            (base - 1, 60, false),
            (0, 60, false),
            (2 * base, 60, false),
            (u64::MAX, 60, false),
            (2 * base - 60, 60, true),
            (2 * base - 60, 61, false),
            (base + 256, FRAME, false),
            (base + 256, FRAME - 256, true),
        ];
        for (address, len, _) in told {
            kernel.push(Descriptor { address, len, options: 0 });
        }
        kernel.publish();
        for (index, (address, len, good)) in (0..).zip(told) {
            assert_eq!(receiving.look(index), good.then_some((address, len)), "{address}");
        }
        receiving.take(SIZE);
        let _ = receiving.publish();
        // The rooms of two that are ours went back at once.
        let back: Vec<u64> = (0..empty.available()).map(|index| empty.peek(index)).collect();
        assert_eq!(back, [2 * base - u64::from(FRAME), base]);
    }
}
