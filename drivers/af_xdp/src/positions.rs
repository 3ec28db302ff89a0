//! A queue whose rings several processes have mapped, as moves between us and the kernel, without
//! memory or socket.
//!
//! One process at a time makes them ([`crate::XdpSeatRx`]), for as long as it takes, and none remembers
//! anything: which room is where follows from the rings' positions. Rooms to receive into go back in
//! the order in which they came, one for one:
//!
//! ```text
//!  fill.producer = receive.consumer + size
//! ```
//!
//! and rooms to send from are used in the order in which they come back, after each was used once:
//!
//! ```text
//!  transmit.producer = completion.consumer + size      (less, before each was)
//! ```
//!
//! A process may be killed between any two writes. The ring that the kernel reads is written first,
//! so that the one behind is what is made up for by whoever comes next: no room is lost, and none is
//! in two places. What the other processes wrote there is held against the memory, as the kernel
//! holds it against its own: the worst is a frame of theirs that is lost or another.

use crate::config::HEADROOM;
use crate::ring::{Consumer, Descriptor, Parts, Producer};
use crate::transmit::place;

/// The shortest frame: an Ethernet header.
const LEAST: u32 = wire::ethernet::HEADER_LEN as u32;

/// Where the rooms of one direction lie in the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonRooms {
    /// Where the first begins, as the umem counts.
    pub first: u64,
    /// Bytes of each, a power of two.
    pub frame: u32,
    /// Bytes of the memory.
    pub len: u64,
}

impl CommonRooms {
    /// Where the room begins that an address lies in.
    const fn room(&self, address: u64) -> u64 {
        address & !(self.frame as u64 - 1)
    }

    /// Whether so many bytes from there on are of one room of the memory.
    const fn holds(&self, address: u64, len: u32) -> bool {
        let within = address & (self.frame as u64 - 1);
        address < self.len && within + len as u64 <= self.frame as u64
    }
}

/// The rings of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonRings {
    /// The receive or the transmit ring.
    pub frames: Parts<Descriptor>,
    /// The ring that rooms go the other way by: the fill or the completion ring.
    pub returns: Parts<u64>,
    pub rooms: CommonRooms,
}

/// A burst that is taken.
#[derive(Debug)]
pub(crate) struct Taking {
    ring: Consumer<Descriptor>,
    fill: Producer<u64>,
    rooms: CommonRooms,
    taken: u32,
}

/// Makes up for what a process that was killed had not said of its burst: it was so far ahead in the
/// ring that the kernel reads, and behind in the one that it writes.
fn catch_up<T: Copy>(behind: &mut Consumer<T>, ahead: u32, size: u32) {
    let excess = ahead.wrapping_sub(behind.position()).wrapping_sub(size);
    if excess > 0 && excess <= behind.available() {
        behind.advance(excess);
    }
}

impl CommonRings {
    /// Frames that wait to be taken.
    ///
    /// # Safety
    /// The rings are mapped.
    pub unsafe fn waiting(&self) -> u32 {
        // SAFETY: as the caller promises; nothing is written.
        unsafe { Consumer::new(self.frames) }.available()
    }

    /// Begins to take from the receive ring.
    ///
    /// # Safety
    /// The rings are mapped until [`Taking::end`], and no process begins before that.
    pub unsafe fn begin_taking(&self) -> Taking {
        // SAFETY: as the caller promises.
        let (mut ring, fill) = unsafe { (Consumer::new(self.frames), Producer::new(self.returns)) };
        // Rooms that were given back and not said to be taken: of frames that it had, or nobody.
        catch_up(&mut ring, fill.position(), self.frames.size);
        Taking { ring, fill, rooms: self.rooms, taken: 0 }
    }

    /// Begins to send by the transmit ring.
    ///
    /// # Safety
    /// The rings are mapped until [`Putting::end`], and no process begins before that.
    pub unsafe fn begin_putting(&self) -> Putting {
        // SAFETY: as the caller promises.
        let (ring, mut completion) = unsafe { (Producer::new(self.frames), Consumer::new(self.returns)) };
        // Rooms that came back and were used.
        catch_up(&mut completion, ring.position(), self.frames.size);
        Putting { ring, completion, rooms: self.rooms, size: self.frames.size, used: 0 }
    }

    /// Frames to be sent that the kernel has not taken.
    ///
    /// # Safety
    /// The rings are mapped.
    pub unsafe fn pending(&self) -> u32 {
        // SAFETY: as the caller promises; nothing is written.
        unsafe { Producer::new(self.frames) }.pending()
    }

    /// Whether the kernel wants to be told of frames to be sent.
    ///
    /// # Safety
    /// The rings are mapped.
    pub unsafe fn needs_wakeup(&self) -> bool {
        // SAFETY: as the caller promises; nothing is written.
        unsafe { Producer::new(self.frames) }.needs_wakeup()
    }
}

impl Taking {
    /// The next frame's place and length, `None` inside for what is none; its room goes back with
    /// [`Taking::end`], before which it is to be copied. `None`: there is no other.
    pub fn next(&mut self) -> Option<Option<(u64, u32)>> {
        if self.taken >= self.ring.available() {
            return None;
        }
        let Descriptor { address, len, .. } = self.ring.peek(self.taken);
        self.fill.push(self.rooms.room(address));
        self.taken += 1;
        Some((len >= LEAST && self.rooms.holds(address, len)).then_some((address, len)))
    }

    /// Gives the rooms back: first to the kernel. Whether that wants to be told.
    pub fn end(mut self) -> bool {
        if self.taken == 0 {
            return false;
        }
        self.fill.publish();
        self.ring.advance(self.taken);
        self.fill.needs_wakeup()
    }
}

/// A burst that is sent.
#[derive(Debug)]
pub(crate) struct Putting {
    ring: Producer<Descriptor>,
    completion: Consumer<u64>,
    rooms: CommonRooms,
    size: u32,
    /// Rooms that came back, used since.
    used: u32,
}

impl Putting {
    /// The place for the next frame, of this length: to be written before [`Putting::end`]. `None`: no
    /// room is free.
    pub fn push(&mut self, len: u32) -> Option<u64> {
        let returned = self.completion.position().wrapping_add(self.used);
        let away = self.ring.position().wrapping_sub(returned);
        let address = if away < self.size {
            // The rooms of this number on were never used.
            place(self.rooms.first, self.rooms.frame, away)
        } else if self.used < self.completion.available() {
            let address = self.completion.peek(self.used);
            self.used += 1;
            let within = (address & (u64::from(self.rooms.frame) - 1)).min(u64::from(HEADROOM));
            let room = self.rooms.room(address);
            // What is beyond the memory the kernel never had: another process wrote it there.
            if room < self.rooms.len { room + within } else { self.rooms.first }
        } else {
            return None;
        };
        self.ring.push(Descriptor { address, len, options: 0 });
        Some(address)
    }

    /// Shows the kernel what was written.
    pub fn end(mut self) {
        self.ring.publish();
        if self.used > 0 {
            self.completion.advance(self.used);
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
    const ROOMS: CommonRooms = CommonRooms { first: 0, frame: FRAME, len: SIZE as u64 * FRAME as u64 };

    /// What a process did of its burst before it was killed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Until {
        Built,
        Shown,
        Ended,
    }

    fn until() -> impl Strategy<Value = Until> {
        prop_oneof![Just(Until::Built), Just(Until::Shown), Just(Until::Ended)]
    }

    proptest! {
        /// Processes take bursts one after the other, and each may be killed at any write: each frame
        /// is taken once or is lost with one that was killed, and no room is lost or in two places.
        #[test]
        fn rooms_to_receive_into_outlive_whoever_takes(
            start: u32,
            moves in proptest::collection::vec((0u32..6, 0u32..6, until()), 1..200),
        ) {
            let (mut ring, mut fill) = (Memory::<Descriptor>::new(SIZE, start), Memory::<u64>::new(SIZE, start));
            let (ring, fill) = (ring.parts(), fill.parts());
            // SAFETY: the memory outlives all; each side is used by one at a time.
            let (mut given, mut arrived, mut empty) =
                unsafe { (Producer::new(fill), Producer::new(ring), Consumer::new(fill)) };
            (0..u64::from(SIZE)).for_each(|n| given.push(n * u64::from(FRAME)));
            given.publish();
            let receiving = CommonRings { frames: ring, returns: fill, rooms: ROOMS };
            let (mut sent, mut seen) = (0u32, 0u32);
            for (come, take, until) in moves {
                for _ in 0..come.min(empty.available()) {
                    let room = empty.peek(0);
                    empty.advance(1);
                    // Its length says which it is.
                    arrived.push(Descriptor { address: room + 256, len: LEAST + sent % 1_000, options: 0 });
                    arrived.publish();
                    sent += 1;
                }
                // SAFETY: as above.
                let mut taking = unsafe { receiving.begin_taking() };
                for _ in 0..take {
                    let Some(frame) = taking.next() else { break };
                    let (address, len) = frame.expect("a frame");
                    prop_assert_eq!(address % u64::from(FRAME), 256);
                    if until == Until::Ended {
                        let number = seen + (len - LEAST + 1_000 - seen % 1_000) % 1_000;
                        prop_assert!(number < sent, "it was sent");
                        seen = number + 1;
                    }
                }
                match until {
                    Until::Built => {}
                    Until::Shown => taking.fill.publish(),
                    Until::Ended => drop(taking.end()),
                }
                // Whatever is not with the kernel lies in the ring of frames, each room once.
                // SAFETY: as above.
                let after = unsafe { receiving.begin_taking() };
                let rooms = (0..empty.available()).map(|at| empty.peek(at));
                let waiting = (0..after.ring.available()).map(|at| after.ring.peek(at).address - 256);
                let all: Vec<u64> = rooms.chain(waiting).collect();
                prop_assert_eq!(all.len() as u32, SIZE);
                prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len() as u32, SIZE);
            }
        }

        /// The same for what is sent: no room is built in while the kernel has it, and none is lost.
        #[test]
        fn rooms_to_send_from_outlive_whoever_sends(
            start: u32,
            moves in proptest::collection::vec((0u32..6, 0u32..6, 0u32..6, until()), 1..200),
        ) {
            let (mut ring, mut done) = (Memory::<Descriptor>::new(SIZE, start), Memory::<u64>::new(SIZE, start));
            let (ring, completion) = (ring.parts(), done.parts());
            // SAFETY: as above.
            let (mut taken, mut done) = unsafe { (Consumer::new(ring), Producer::new(completion)) };
            let sending = CommonRings { frames: ring, returns: completion, rooms: ROOMS };
            let mut flying = VecDeque::new();
            for (put, fly, land, until) in moves {
                // SAFETY: as above.
                let mut putting = unsafe { sending.begin_putting() };
                let queued: Vec<u64> = (0..taken.available()).map(|at| taken.peek(at).address).collect();
                for _ in 0..put {
                    let Some(address) = putting.push(60) else { break };
                    prop_assert!(!flying.contains(&address) && !queued.contains(&address), "the kernel has it");
                }
                match until {
                    Until::Built => {}
                    Until::Shown => putting.ring.publish(),
                    Until::Ended => putting.end(),
                }
                for _ in 0..fly.min(taken.available()) {
                    flying.push_back(taken.peek(0).address);
                    taken.advance(1);
                }
                for _ in 0..land {
                    let Some(address) = flying.pop_front() else { break };
                    done.push(address);
                    done.publish();
                }
            }
            // All come back, and each can be used.
            while taken.available() > 0 {
                flying.push_back(taken.peek(0).address);
                taken.advance(1);
            }
            flying.drain(..).for_each(|address| done.push(address));
            done.publish();
            // SAFETY: as above.
            let mut putting = unsafe { sending.begin_putting() };
            let places: BTreeSet<u64> = (0..SIZE).filter_map(|_| putting.push(60)).map(|at| ROOMS.room(at)).collect();
            prop_assert_eq!(places.len() as u32, SIZE);
            prop_assert_eq!(putting.push(60), None);
        }
    }

    /// Another process may write whatever it likes: no place is outside of the memory.
    #[test]
    fn what_others_wrote_is_held_against_the_memory() {
        let (mut ring, mut done) = (Memory::<Descriptor>::new(SIZE, 0), Memory::<u64>::new(SIZE, 0));
        let (ring, completion) = (ring.parts(), done.parts());
        // SAFETY: the memory outlives all; each side is used by one at a time.
        let (mut taken, mut done) = unsafe { (Consumer::new(ring), Producer::new(completion)) };
        let sending = CommonRings { frames: ring, returns: completion, rooms: ROOMS };
        // SAFETY: as above.
        let mut first = unsafe { sending.begin_putting() };
        (0..SIZE).for_each(|_| assert!(first.push(60).is_some()));
        first.end();
        taken.advance(SIZE);
        for address in [u64::MAX, ROOMS.len, ROOMS.len - 1, 0, 300, 1 << 40, 17, u64::MAX - 2_047] {
            done.push(address);
        }
        done.publish();
        // SAFETY: as above.
        let mut second = unsafe { sending.begin_putting() };
        while let Some(address) = second.push(60) {
            assert!(ROOMS.holds(address, FRAME - HEADROOM), "{address}");
        }

        let (mut arrived, mut fill) = (Memory::<Descriptor>::new(SIZE, 0), Memory::<u64>::new(SIZE, SIZE));
        let (ring, fill) = (arrived.parts(), fill.parts());
        // SAFETY: as above.
        let mut kernel = unsafe { Producer::new(ring) };
        let told = [(ROOMS.len, 60), (u64::MAX, 60), (ROOMS.len - 60, 61), (256, 13), (256, 2_000), (256, 60)];
        told.iter().for_each(|(address, len)| kernel.push(Descriptor { address: *address, len: *len, options: 0 }));
        kernel.publish();
        let receiving = CommonRings { frames: ring, returns: fill, rooms: ROOMS };
        // SAFETY: as above.
        let mut taking = unsafe { receiving.begin_taking() };
        let found: Vec<_> = std::iter::from_fn(|| taking.next()).collect();
        assert_eq!(found, [None, None, None, None, None, Some((256, 60))]);
    }
}
