//! Whose a frame is: kept, passed on, looked for from seat to seat, or parked.

use crate::memory::{Door, SharedMemory};
use crate::ring::{Note, Positions};
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use steer::{Allowance, Hasher, Kind, Tuple, is_plain, kind, plain};
use wire::Time;
use wire::tcp::Flags;

/// SYNs that wait for whoever is about to accept, at most; their senders send others again.
const MOST_PARKED: usize = 256;
/// SYNs wait no longer for whoever is about to accept: their senders have sent them again by then.
pub const LONGEST_PARKED: Duration = Duration::from_secs(3);
/// Those that wait are looked after this often.
pub(crate) const LOOK_AFTER_PARKED: Duration = Duration::from_millis(5);

/// A program that has not looked for what there is for so long computes, or was stopped, and so was one
/// that waits and has not taken for so long what others passed to it: new connections are for others, as
/// long as there is one that does.
const COMPUTES: Duration = Duration::from_millis(5);

/// Flows that were left to others and are remembered, at most: their seats know them soon.
pub(crate) const MOST_MOVED: usize = 4_096;

/// Frames that a seat gives copies of to all others at once, and one more of them so often: a flood
/// of them costs the others no more than that.
const COPIES: u32 = 64;
const COPY_EVERY: Duration = Duration::from_micros(250);

app::counters! {
    /// What passed between seats.
    pub PassingCounters {
        /// Frames passed to another seat, for they are of its flows.
        passed,
        /// Frames that another seat passed to this one.
        taken,
        /// Segments of flows that this seat does not know, passed to one that may.
        strays,
        /// SYNs that waited until somebody accepted.
        parked,
        /// Frames dropped because a ring was full.
        ring_full,
        /// Frames that were not copied to all, because there were too many.
        limited,
        /// Connections that other seats go on with.
        left_to_others,
        /// Rings that held nonsense, and were emptied.
        nonsense,
    }
}

/// What a seat remembers.
#[derive(Debug)]
pub(crate) struct SeatState {
    pub memory: Arc<SharedMemory>,
    pub own: usize,
    /// The frame at hand came by a queue of this seat alone: a new connection is its own, where it
    /// watches for it.
    pub keeps_new: bool,
    /// What wakes each seat.
    pub bells: Vec<OwnedFd>,
    pub hasher: Hasher,
    pub filling: Positions,
    pub emptying: Positions,
    /// Seats whose rings hold what they were not told of, as bits.
    pub untold: u64,
    /// Seats whose rings to this one may hold more, as bits.
    pub left: u64,
    /// The others, the newest first.
    pub others: Vec<usize>,
    /// How many changes of seats and doors `others` is from.
    pub seen: u64,
    /// Doors of this seat, as it told them.
    pub doors: Vec<(u16, bool)>,
    /// Ports on which another process is about to accept.
    pub awaited: Vec<u16>,
    pub parked: Vec<Parked>,
    /// What workers said to this one, and it did not hear yet.
    pub messages: VecDeque<Vec<u8>>,
    /// Connections of the process that had the seat before, and was killed.
    pub lost: VecDeque<(SocketAddr, SocketAddr)>,
    /// Flows that were left to other seats, in order: who asks for them here asks there.
    pub moved: VecDeque<(u64, usize)>,
    /// How many changes those that are parked were held against.
    pub parked_seen: u64,
    pub asleep: bool,
    /// Frames at the front of the burst that are the link's first ones.
    pub straight: usize,
    /// The frames behind them.
    pub behind: Vec<Behind>,
    /// The bytes of those that did not come from the link.
    pub bytes: Vec<u8>,
    pub may_copy: Allowance,
    pub now: Time,
    pub counters: PassingCounters,
}

/// A frame that does not lie where its index says.
#[derive(Clone, Debug)]
pub(crate) enum Behind {
    /// Frame of the link's burst.
    Own(usize),
    /// One that another seat passed on, or that was parked.
    Passed { bytes: Range<usize>, note: Note, is_stray: bool },
}

/// A SYN that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    pub since: Time,
    pub port: u16,
    pub frame: Vec<u8>,
    pub verified: bool,
}

impl SeatState {
    /// Takes the seat.
    pub fn new(memory: Arc<SharedMemory>, own: usize, bells: Vec<OwnedFd>) -> Self {
        let (filling, emptying) = (Positions::filling(&memory, own), Positions::emptying(&memory, own));
        let hasher = Hasher::new(memory.key());
        // Their places are this process's from now on.
        let mut looks = usize::MAX;
        let lost = core::iter::from_fn(|| memory.take_flow(own, &mut looks)).collect();
        memory.join(own);
        let mut this = Self {
            own,
            keeps_new: false,
            bells,
            hasher,
            filling,
            emptying,
            untold: 0,
            // Who had the seat before may not have emptied them.
            left: u64::MAX >> (64 - memory.seats()),
            others: Vec::new(),
            seen: 0,
            doors: Vec::new(),
            awaited: Vec::new(),
            parked: Vec::new(),
            messages: VecDeque::new(),
            lost,
            moved: VecDeque::new(),
            parked_seen: 0,
            asleep: false,
            straight: 0,
            behind: Vec::new(),
            bytes: Vec::new(),
            may_copy: Allowance::new(COPIES, COPY_EVERY),
            now: Time::ZERO,
            counters: PassingCounters::default(),
            memory,
        };
        this.look_around();
        this
    }

    /// Who else is there, if that has changed.
    pub fn look_around(&mut self) {
        let changes = self.memory.changes();
        if self.seen == changes && changes != 0 {
            return;
        }
        self.seen = changes;
        let mut others: Vec<(u64, usize)> =
            (0..self.memory.seats()).map(|seat| (self.memory.joined(seat), seat)).collect();
        others.retain(|(joined, seat)| *joined != 0 && *seat != self.own);
        others.sort_unstable_by(|one, other| other.cmp(one));
        self.others = others.into_iter().map(|(_, seat)| seat).collect();
    }

    pub fn is_there(&self, seat: usize) -> bool {
        seat == self.own || self.others.contains(&seat)
    }

    /// Whether a seat's program waits and is not stopped, or does not compute for long.
    fn is_attended(&self, seat: usize) -> bool {
        let is_heard = self.memory.rung(seat).is_none_or(|rung| self.now.since(rung) < COMPUTES);
        is_heard && self.now.since(self.memory.attended(seat)) < COMPUTES
    }

    /// The seat that a new flow to a port is for: one of those that watch for it, or else of those
    /// that have a listener, each as often as the others; those of programs that compute only where
    /// all do.
    pub fn door(&self, hash: u64, port: u16, but: u64) -> Option<usize> {
        [Door::Watched, Door::Open].into_iter().find_map(|door| {
            let seats = (0..self.memory.seats())
                .filter(|seat| but >> seat & 1 == 0 && self.is_there(*seat) && self.memory.has_door(*seat, door, port));
            let all = seats.fold(0u64, |bits, seat| bits | 1 << seat);
            let attended = (0..self.memory.seats()).filter(|seat| all >> seat & 1 != 0 && self.is_attended(*seat));
            let bits = match attended.fold(0u64, |bits, seat| bits | 1 << seat) {
                0 => all,
                attended => attended,
            };
            let place = ((hash >> 32) * u64::from(bits.count_ones())) >> 32;
            let rest = (0..place).fold(bits, |bits, _| bits & bits.wrapping_sub(1));
            (rest != 0).then(|| rest.trailing_zeros() as usize)
        })
    }

    /// The seat that a segment is passed to first.
    pub fn seat_of(&self, tuple: &Tuple, flags: Flags) -> usize {
        let hash = self.hasher.hash(tuple);
        let hint = self.memory.hint(hash).filter(|seat| self.is_there(*seat));
        // Who asks for a connection again, of a process that does not answer, may have another's.
        if let Some(seat) = hint.filter(|seat| !is_opening(flags) || *seat == self.own || self.is_attended(*seat)) {
            return seat;
        }
        let here = self.keeps_new
            && self.memory.has_door(self.own, Door::Watched, tuple.local_port)
            && self.is_attended(self.own);
        let door = if here { Some(self.own) } else { self.door(hash, tuple.local_port, 0) };
        let Some(seat) = door else {
            // A flow that a seat began has a port that tells the seat.
            return Some(seat_of_port(tuple.local_port, self.memory.seats()))
                .filter(|seat| self.is_there(*seat))
                .unwrap_or(self.own);
        };
        if is_opening(flags) {
            // Doors may change before the handshake is over.
            self.memory.set_hint(hash, seat);
        }
        seat
    }

    /// Whether a frame of the link is for this seat. If not, it has been passed on.
    #[inline]
    pub fn keeps(&mut self, frame: &[u8], verified: bool) -> bool {
        if is_plain(frame) {
            let Some((tuple, flags)) = plain(frame) else { return true };
            return self.keeps_segment(frame, verified, &tuple, flags);
        }
        match kind(frame) {
            Kind::Segment(tuple, flags) => self.keeps_segment(frame, verified, &tuple, flags),
            Kind::Piece(tuple) => {
                // All pieces of a packet meet at one seat.
                let places = self.others.len() as u64 + 1;
                let place = (((self.hasher.hash(&tuple) >> 32) * places) >> 32) as usize;
                let mut seats = self.others.clone();
                seats.push(self.own);
                seats.sort_unstable();
                seats.get(place).is_none_or(|seat| self.keeps_for(*seat, frame, verified))
            }
            Kind::Error(_) | Kind::Neighbour | Kind::Fragment => {
                if self.may_copy.take(self.now) {
                    for at in 0..self.others.len() {
                        self.pass(self.others[at], frame, Note { is_copy: true, verified, ..Note::default() });
                    }
                } else {
                    self.counters.limited += 1;
                }
                true
            }
            Kind::Other => true,
        }
    }

    #[inline]
    pub fn keeps_segment(&mut self, frame: &[u8], verified: bool, tuple: &Tuple, flags: Flags) -> bool {
        let seat = self.seat_of(tuple, flags);
        self.keeps_for(seat, frame, verified)
    }

    pub fn keeps_for(&mut self, seat: usize, frame: &[u8], verified: bool) -> bool {
        if seat == self.own {
            return true;
        }
        self.counters.passed += 1;
        self.pass(seat, frame, Note { verified, ..Note::default() });
        false
    }

    /// Puts a frame into a seat's ring.
    pub fn pass(&mut self, to: usize, frame: &[u8], note: Note) {
        if self.filling.push(&self.memory, (self.own, to), frame, note) {
            self.untold |= 1 << to;
        } else {
            self.counters.ring_full += 1;
        }
    }

    /// Tells seats of what was passed to them.
    pub fn tell_all(&mut self) {
        while self.untold != 0 {
            let to = self.untold.trailing_zeros() as usize;
            self.untold &= self.untold - 1;
            self.filling.publish(&self.memory, (self.own, to));
            self.tell(to);
        }
    }

    pub fn tell(&self, to: usize) {
        if self.memory.ring_bell(to, self.own, self.now)
            && let Some(bell) = self.bells.get(to)
        {
            // Fails only when its counter is full, and then it is readable anyway.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    pub fn get_up(&mut self) {
        if core::mem::take(&mut self.asleep) {
            self.memory.get_up(self.own);
            let mut count = [0; 8];
            // Fails where nobody rang.
            let _ = rustix::io::read(&self.bells[self.own], &mut count);
        }
    }

    /// Takes up to `max` frames that others passed on, by turns.
    pub fn take_passed(&mut self, max: usize) {
        let mut bits = self.left | self.memory.take_arrived(self.own);
        self.left = 0;
        let each = max.div_ceil(bits.count_ones().max(1) as usize);
        while bits != 0 {
            let from = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            for _ in 0..each.min(max.saturating_sub(self.behind.len())) {
                match self.emptying.take(&self.memory, (from, self.own), &mut self.bytes) {
                    Ok(Some((bytes, note))) if note.is_message => {
                        // What follows it may be about it, and waits until it was heard.
                        self.messages.push_back(self.bytes.drain(bytes).collect());
                        break;
                    }
                    Ok(Some((bytes, note))) => {
                        self.counters.taken += 1;
                        self.behind.push(Behind::Passed { bytes, note, is_stray: false });
                    }
                    Ok(None) => break,
                    Err(_) => self.counters.nonsense += 1,
                }
            }
            if self.emptying.has_more(&self.memory, (from, self.own)) {
                self.left |= 1 << from;
            }
        }
    }

    /// SYNs that somebody accepts by now are looked at again, too old ones are forgotten.
    #[cold]
    pub fn take_parked(&mut self, max: usize) {
        let (now, changes) = (self.now, self.memory.changes());
        self.parked.retain(|parked| now.since(parked.since) < LONGEST_PARKED);
        if self.parked_seen == changes {
            return;
        }
        self.parked_seen = changes;
        let mut still = Vec::new();
        for parked in core::mem::take(&mut self.parked) {
            if self.door(0, parked.port, 0).is_none() || self.behind.len() >= max {
                // Those that the burst has no room for are looked at in the next.
                self.parked_seen = if self.behind.len() >= max { changes.wrapping_sub(1) } else { changes };
                still.push(parked);
                continue;
            }
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&parked.frame);
            let note = Note { verified: parked.verified, ..Note::default() };
            self.behind.push(Behind::Passed { bytes: start..self.bytes.len(), note, is_stray: false });
        }
        self.parked = still;
    }

    /// Passes a segment that this seat does not know to another that may. Whether there is one.
    #[cold]
    pub fn pass_stray(&mut self, frame: &[u8], note: Note) -> bool {
        if note.is_copy {
            return true;
        }
        let Kind::Segment(tuple, flags) = kind(frame) else { return false };
        let hash = self.hasher.hash(&tuple);
        let was_here = note.visited >> self.own & 1 != 0;
        let visited = note.visited | 1 << self.own;
        let moved = self.moved.iter().find(|(of, _)| *of == hash).map(|(_, to)| *to);
        if moved.is_none() {
            self.memory.clear_hint(hash, self.own);
        }
        // Who was left a connection has heard of it before whatever comes from here, if not yet when the
        // segment was there.
        let may_know = |to: &usize| !was_here || visited >> to & 1 == 0;
        let next = if let Some(to) = moved.filter(|to| may_know(to) && self.others.contains(to)) {
            Some(to)
        } else if is_opening(flags) {
            self.door(hash, tuple.local_port, visited)
        } else {
            self.others.iter().copied().find(|seat| visited >> seat & 1 == 0)
        };
        let Some(next) = next else {
            return is_opening(flags) && self.park(tuple.local_port, frame, note.verified);
        };
        self.counters.strays += 1;
        self.pass(next, frame, Note { visited, ..note });
        true
    }

    /// Whether a process is about to accept at a port. Where the keeper has no seat for it, nobody is to
    /// wait for nothing.
    pub fn awaits(&self, port: u16) -> bool {
        self.awaited.contains(&port) && !self.memory.refuses()
    }

    pub fn park(&mut self, port: u16, frame: &[u8], verified: bool) -> bool {
        if !self.awaits(port) {
            return false;
        }
        if self.parked.len() < MOST_PARKED {
            self.counters.parked += 1;
            self.parked.push(Parked { since: self.now, port, frame: frame.to_vec(), verified });
        }
        true
    }
}

/// A segment that asks for a connection.
fn is_opening(flags: Flags) -> bool {
    flags.contains(Flags::SYN) && !flags.intersects(Flags(Flags::ACK.0 | Flags::RST.0))
}

/// The seat whose connections have a local port, where it was its to choose.
#[must_use]
pub const fn seat_of_port(port: u16, seats: usize) -> usize {
    port as usize % seats
}
