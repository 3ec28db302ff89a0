//! A worker's link: what it receives of it, and what it passes on.

use crate::memory::{Door, SharedMemory};
use crate::passing::{Behind, LOOK_AFTER_PARKED, MOST_MOVED, PassingCounters, SeatState};
use crate::queues::Held;
use crate::ring::Note;
use core::net::SocketAddr;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use steer::{Kind, Tuple, kind};
use wire::Time;

/// A link that several processes have, each a seat at it.
#[derive(Debug)]
pub struct SeatedLink<L> {
    link: L,
    state: SeatState,
    /// The link's queues, where it is a [`QueueSet`](crate::QueueSet).
    held: Option<Held>,
}

impl<L: Link> SeatedLink<L> {
    /// Takes a seat at a link. `bells` wake the seats, in their order. `held` is that of a link that
    /// is a [`QueueSet`](crate::QueueSet) of the same seat; any other is read by one seat at a time,
    /// under a lease.
    ///
    /// # Errors
    /// `InvalidInput` for a seat that is not there, or without a bell.
    pub fn new(
        link: L,
        held: Option<Held>,
        memory: Arc<SharedMemory>,
        own: usize,
        bells: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        if own >= memory.seats() || bells.len() != memory.seats() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no such seat"));
        }
        Ok(Self { link, state: SeatState::new(memory, own, bells), held })
    }

    /// Where this seat accepts from now on: ports, and whether it watches for connections to them.
    pub fn set_doors(&mut self, doors: &[(u16, bool)]) {
        let state = &mut self.state;
        let mut doors = doors.to_vec();
        // Of several listeners on a port, one that is watched counts.
        doors.sort_unstable_by_key(|(port, watched)| (*port, !watched));
        doors.dedup_by_key(|(port, _)| *port);
        if doors == state.doors {
            return;
        }
        for (port, _) in &state.doors {
            if !doors.iter().any(|(other, _)| other == port) {
                state.memory.set_door(state.own, Door::Open, *port, false);
                state.memory.set_door(state.own, Door::Watched, *port, false);
            }
        }
        for (port, watched) in &doors {
            state.memory.set_door(state.own, Door::Open, *port, true);
            state.memory.set_door(state.own, Door::Watched, *port, *watched);
        }
        state.memory.set_doors(state.own, doors.len());
        state.doors = doors;
        state.memory.note_change();
        // What is parked elsewhere may be for these.
        for to in state.others.clone() {
            state.tell(to);
        }
    }

    /// SYNs for these ports wait, where no seat accepts: a process has a listener that has no seat
    /// yet.
    pub fn set_awaited(&mut self, ports: &[u16]) {
        ports.clone_into(&mut self.state.awaited);
    }

    /// This process's program has just looked for what there is, and computes from now on, or waits for it
    /// (`None`).
    #[inline]
    pub fn set_attended(&self, since: Option<Time>) {
        self.state.memory.set_attended(self.state.own, since);
    }

    /// Whether a process is about to accept at a port, which has no seat yet.
    pub fn awaits(&self, port: u16) -> bool {
        self.state.awaits(port)
    }

    /// Another seat that a connection may be left to, which nobody has accepted here.
    pub fn successor(&mut self, remote: SocketAddr, local: SocketAddr) -> Option<usize> {
        self.state.look_around();
        let hash = self.state.hasher.hash(&Tuple::of(remote, local));
        self.state.door(hash, local.port(), 1 << self.state.own)
    }

    /// Tells another seat's worker what it needs to go on with a connection, before any frame of it
    /// that comes by this seat. Whether there was room.
    pub fn leave_to(&mut self, to: usize, remote: SocketAddr, local: SocketAddr, message: &[u8]) -> bool {
        let state = &mut self.state;
        let note = Note { is_message: true, ..Note::default() };
        if !state.filling.push(&state.memory, (state.own, to), message, note) {
            state.counters.ring_full += 1;
            return false;
        }
        state.untold |= 1 << to;
        state.tell_all();
        if state.moved.len() >= MOST_MOVED {
            state.moved.pop_front();
        }
        state.moved.push_back((state.hasher.hash(&Tuple::of(remote, local)), to));
        state.counters.left_to_others += 1;
        true
    }

    /// What another worker said to this one. Until it is heard nothing is read from the link: to be called
    /// after each turn, and a turn to be taken after it.
    pub fn poll_message(&mut self) -> Option<Vec<u8>> {
        self.state.messages.pop_front()
    }

    /// The next connection of a process that was killed, whose peer is to hear of it from this seat:
    /// its remote and its local end. Answers come here. Looks at `looks` places at most.
    pub fn take_lost(&mut self, looks: &mut usize) -> Option<(SocketAddr, SocketAddr)> {
        let state = &mut self.state;
        let memory = &state.memory;
        let own = if *looks > 0 { state.lost.pop_front() } else { None };
        let (remote, local) = if let Some(own) = own {
            *looks -= 1;
            own
        } else {
            let mut left = (0..memory.seats()).filter(|seat| memory.joined(*seat) == 0 && memory.has_flows(*seat));
            left.find_map(|seat| memory.take_flow(seat, looks))?
        };
        memory.set_hint(state.hasher.hash(&Tuple::of(remote, local)), state.own);
        Some((remote, local))
    }

    /// What wakes this seat, where it sleeps.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.state.bells.get(self.state.own).map(AsFd::as_fd)
    }

    /// The number of the seat.
    #[must_use]
    pub const fn seat(&self) -> usize {
        self.state.own
    }

    /// Whether a child of fork(2) has the memory of all seats, too; by default it has not.
    ///
    /// # Errors
    /// The system's.
    pub fn set_inherited(&self, on: bool) -> io::Result<()> {
        self.state.memory.set_inherited(on)
    }

    /// Whether connections of processes that are gone are noted, which somebody is to end.
    pub fn has_lost(&self) -> bool {
        let memory = &self.state.memory;
        let is_left = |seat: usize| memory.joined(seat) == 0 && memory.has_flows(seat);
        !self.state.lost.is_empty() || (0..memory.seats()).any(is_left)
    }

    /// This process ends, and has seen to its connections.
    pub fn forget_flows(&self) {
        self.state.memory.strike_flows(self.state.own);
    }

    /// The link.
    pub const fn link(&self) -> &L {
        &self.link
    }

    /// The same, to be changed.
    pub const fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// Counts what changed of seats and doors.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.state.memory.changes()
    }

    /// Which of the link's connections the keeper shares.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.state.memory.link_epoch()
    }

    /// What passed between this seat and others.
    pub const fn passing(&self) -> &PassingCounters {
        &self.state.counters
    }

    /// The descriptors that this holds, beside the link's.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.state.bells.iter().map(AsFd::as_fd).chain([self.state.memory.as_fd()])
    }
}

/// The receive half of a [`SeatedLink`], around that of its link.
#[derive(Debug)]
pub struct SeatedRx<'a, R> {
    link: R,
    state: &'a mut SeatState,
    held: Option<&'a Held>,
}

impl<R: Receive> SeatedRx<'_, R> {
    /// Reads the link, as far as nobody else does.
    fn read(&mut self, now: Time, max: usize) {
        if let Some(held) = self.held {
            self.read_now(now, max);
            held.let_go(&self.state.memory, self.state.own);
        } else if let Some(reading) = self.state.memory.begin_reading(self.state.own, now) {
            self.read_now(now, max);
            self.state.memory.end_reading(reading);
        }
    }

    /// Receives, and passes on what is another's: before anybody else receives, so that no flow's
    /// frames overtake each other.
    #[inline]
    fn read_now(&mut self, now: Time, max: usize) {
        let count = self.link.receive(now, max);
        if self.state.others.is_empty() {
            self.state.straight = count;
        } else {
            let own_frames = self.held.map_or(0, Held::own_frames);
            for index in 0..count {
                self.state.keeps_new = index < own_frames;
                if self.state.keeps(self.link.frame(index), self.link.verified(index)) {
                    self.state.behind.push(Behind::Own(index));
                }
            }
            self.state.tell_all();
        }
    }

    fn behind(&self, index: usize) -> Option<&Behind> {
        self.state.behind.get(index.checked_sub(self.state.straight)?)
    }
}

impl<R: Receive> Receive for SeatedRx<'_, R> {
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let state = &mut *self.state;
        state.now = now;
        state.get_up();
        state.look_around();
        state.straight = 0;
        // What was passed on came before what is read now; half of the burst each, where both have
        // so many.
        state.take_passed(max.div_ceil(2));
        if !state.parked.is_empty() {
            state.take_parked(max.div_ceil(2));
        }
        // What the link has may be about a connection that was just left to this seat.
        if state.messages.is_empty() {
            let room = max - state.behind.len().min(max);
            self.read(now, room);
        }
        self.state.straight + self.state.behind.len()
    }

    fn frame(&self, index: usize) -> &[u8] {
        match self.behind(index) {
            None => self.link.frame(index),
            Some(Behind::Own(index)) => self.link.frame(*index),
            Some(Behind::Passed { bytes, .. }) => self.state.bytes.get(bytes.clone()).unwrap_or_default(),
        }
    }

    fn verified(&self, index: usize) -> bool {
        match self.behind(index) {
            None => self.link.verified(index),
            Some(Behind::Own(index)) => self.link.verified(*index),
            Some(Behind::Passed { note, .. }) => note.verified,
        }
    }

    #[cold]
    fn stray(&mut self, index: usize) -> bool {
        let own = match self.behind(index) {
            None => Some(index),
            Some(Behind::Own(own)) => Some(*own),
            Some(Behind::Passed { .. }) => None,
        };
        if let Some(own) = own {
            let note = Note { verified: self.link.verified(own), ..Note::default() };
            return self.state.pass_stray(self.link.frame(own), note);
        }
        let behind = self.behind(index).cloned();
        match behind {
            Some(Behind::Passed { bytes, note, .. }) => {
                let frame = self.state.bytes.get(bytes).unwrap_or_default().to_vec();
                let at = index - self.state.straight;
                if let Some(Behind::Passed { is_stray, .. }) = self.state.behind.get_mut(at) {
                    *is_stray = true;
                }
                self.state.pass_stray(&frame, note)
            }
            Some(Behind::Own(_)) | None => false,
        }
    }

    fn release(&mut self) {
        self.link.release();
        let state = &mut *self.state;
        // Flows that were looked for from seat to seat are here: they need not be looked for again.
        let found = state.behind.iter().filter_map(|behind| match behind {
            Behind::Passed { bytes, note, is_stray: false } if note.visited != 0 => state.bytes.get(bytes.clone()),
            _ => None,
        });
        for frame in found {
            if let Kind::Segment(tuple, _) = kind(frame) {
                state.memory.set_hint(state.hasher.hash(&tuple), state.own);
            }
        }
        state.straight = 0;
        state.behind.clear();
        state.bytes.clear();
        state.tell_all();
    }
}

impl<L: Link> Link for SeatedLink<L> {
    type Rx<'a>
        = SeatedRx<'a, L::Rx<'a>>
    where
        Self: 'a;
    type Tx<'a>
        = L::Tx<'a>
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.link.capabilities()
    }

    fn split(&mut self) -> (Self::Rx<'_>, Self::Tx<'_>) {
        let (rx, tx) = self.link.split();
        (SeatedRx { link: rx, state: &mut self.state, held: self.held.as_ref() }, tx)
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        self.link.poll_control(now)
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let mut nap = timeout;
        let mut fds = Vec::new();
        if let Some(wake) = wake {
            fds.push(rustix::event::PollFd::from_borrowed_fd(wake, rustix::event::PollFlags::IN));
        }
        nap = nap.min(self.arm(&mut |fd| {
            fds.push(rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN));
        }));
        let nap = rustix::event::Timespec {
            tv_sec: i64::try_from(nap.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: nap.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut fds, Some(&nap)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        let Self { link, state, .. } = self;
        state.asleep = true;
        let has_news = state.memory.lie_down(state.own) || state.left != 0 || state.seen != state.memory.changes();
        let nap = link.arm(each);
        if let Some(bell) = state.bells.get(state.own) {
            each(bell.as_fd());
        }
        match (has_news, state.parked.is_empty()) {
            (true, _) => Duration::ZERO,
            (false, false) => nap.min(LOOK_AFTER_PARKED),
            (false, true) => nap,
        }
    }

    fn counters(&self) -> Counters {
        self.link.counters()
    }
}

impl<L> Drop for SeatedLink<L> {
    fn drop(&mut self) {
        self.state.memory.vacate(self.state.own);
    }
}
