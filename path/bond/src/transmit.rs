//! What a bond sends: each flow through the port that its hash names.

use crate::aggregator::{Aggregator, MAX_PORTS};
use crate::flow;
use crate::halves::{Halves, MAX_MEMBERS};
use core::hint::cold_path;
use link::{Link, Transmit};
use std::sync::Arc;
use wire::{Offload, Time};

/// Flows are spread over this many buckets, each of which has a port: so many
/// times finer than ports that shares differ by little.
const BUCKETS: usize = 256;
const _: () = assert!(BUCKETS.is_power_of_two() && BUCKETS >= 16 * MAX_PORTS);

/// Slots that are free where frames are dropped: a burst of answers.
const DROPPED_ROOM: usize = 64;

/// No member: beyond every index.
const NONE: u8 = u8::MAX;

const _: () = assert!(MAX_MEMBERS < NONE as usize);

/// What was done with frames beyond what a single link does with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BondCounters {
    /// Frames sent that were built in another member's slot.
    pub copied: u64,
    /// Frames sent through another member because their own was full.
    pub lent: u64,
    /// Frames dropped because no member took part: as at a link that is down,
    /// where they would otherwise be built anew each turn.
    pub no_member: u64,
    /// Times that the members which this silo sends through changed.
    pub changes: u64,
}

/// The transmit half of a [`crate::Bond`].
pub struct BondTx<'a, L: Link + 'a> {
    pub(crate) members: Halves<L::Tx<'a>>,
    pub(crate) state: &'a mut TxState,
}

/// What sending remembers.
#[derive(Debug)]
pub(crate) struct TxState {
    pub aggregator: Arc<Aggregator>,
    /// Each member's port.
    pub ports: Box<[u8]>,
    /// Members whose link is up, by index.
    pub up: u32,
    /// `up` has changed since the table was made.
    pub stale: bool,
    /// The ports that distributed when the table was made.
    pub distributing: u32,
    /// Members to send through, by index.
    pub active: u32,
    /// There are several of them.
    pub spread: bool,
    /// The member whose slot is, or will be, handed out.
    pub choice: u8,
    /// A slot was handed out, and not yet committed.
    pub offered: bool,
    /// Where a frame is built that nobody sends; taken when it is needed.
    pub scratch: Vec<u8>,
    /// Bytes of a slot.
    pub slot: usize,
    /// The member of each bucket of flows.
    pub table: Box<[u8; BUCKETS]>,
    pub counters: BondCounters,
}

impl TxState {
    pub fn new(aggregator: Arc<Aggregator>, ports: Box<[u8]>, slot: usize) -> Self {
        Self {
            aggregator,
            ports,
            scratch: Vec::new(),
            slot,
            up: 0,
            stale: true,
            distributing: 0,
            active: 0,
            spread: false,
            choice: NONE,
            offered: false,
            table: Box::new([NONE; BUCKETS]),
            counters: BondCounters::default(),
        }
    }

    /// Makes the table anew if what it was made of has changed.
    #[inline]
    pub fn follow(&mut self) {
        let distributing = self.aggregator.distributing();
        if self.stale || distributing != self.distributing {
            self.make_table(distributing);
        }
    }

    /// Gives each bucket its port's member if that takes part, and otherwise
    /// one of those that do: so the failure of a port moves its own flows and
    /// no others, and its return brings them back.
    #[cold]
    fn make_table(&mut self, distributing: u32) {
        let before = self.active;
        let mut egress = [NONE; MAX_PORTS];
        for (index, &port) in self.ports.iter().enumerate() {
            let entry = &mut egress[usize::from(port)];
            if *entry == NONE && self.up >> index & 1 != 0 && distributing >> port & 1 != 0 {
                *entry = index as u8;
            }
        }
        // Every silo with a queue of the same ports decides alike: by port,
        // not by member. Lists, and not arrays, which the compiler unrolls
        // for minutes; a port changes its state seldom enough.
        let own = (0..MAX_PORTS as u8).filter(|port| self.ports.contains(port));
        let mut own = self.turns(own);
        let mut others = self.turns((0..MAX_PORTS as u8).filter(|port| egress[usize::from(*port)] != NONE));
        let active: Vec<u8> = egress.iter().copied().filter(|member| *member != NONE).collect();
        let count = active.len();
        let member = |port: Option<u8>| port.map_or(NONE, |port| egress[usize::from(port)]);
        for entry in self.table.iter_mut() {
            *entry = match member(own.next()) {
                NONE => member(others.next()),
                member => member,
            };
        }
        self.active = active.iter().fold(0, |set, member| set | 1 << member);
        self.spread = count > 1;
        self.choice = active.first().copied().unwrap_or(NONE);
        self.offered = false;
        self.distributing = distributing;
        self.stale = false;
        self.counters.changes += u64::from(self.active != before);
    }
}

impl TxState {
    /// Ports by turns, each as often as its weight says.
    fn turns(&self, ports: impl Iterator<Item = u8>) -> Turns {
        let weight =
            |port: u8| self.aggregator.config().ports.get(usize::from(port)).map_or(1, |port| port.weight.max(1));
        Turns(ports.map(|port| (port, i32::from(weight(port)), 0)).collect())
    }
}

/// Ports by turns: number, weight, and how far its turn has come. The one whose turn has come
/// farthest is next, and goes back by all weights together, so that those of one port do not follow
/// each other (as nginx's round robin, which is called smooth).
struct Turns(Vec<(u8, i32, i32)>);

impl Turns {
    fn next(&mut self) -> Option<u8> {
        let all: i32 = self.0.iter().map(|(_, weight, _)| weight).sum();
        self.0.iter_mut().for_each(|(_, weight, turn)| *turn += *weight);
        // The first of several that have come as far.
        let (port, _, turn) = self.0.iter_mut().rev().max_by_key(|(_, _, turn)| *turn)?;
        *turn -= all;
        Some(*port)
    }
}

impl<'a, L: Link + 'a> BondTx<'a, L> {
    #[inline]
    fn chosen(&mut self) -> Option<&mut L::Tx<'a>> {
        self.members.get_mut(usize::from(self.state.choice))
    }

    /// Moves the choice to another member, if the one at hand has no slot.
    fn choose(&mut self) {
        let has_slot = |tx: &mut L::Tx<'a>| tx.slot().is_some();
        self.state.offered = self.chosen().is_some_and(has_slot);
        if self.state.offered {
            return;
        }
        let active = self.state.active;
        let members = self.members.several_mut().iter_mut();
        let mut others = members.enumerate().filter(|(index, _)| active >> index & 1 != 0);
        if let Some((index, _)) = others.find_map(|(index, tx)| Some((index, tx.as_mut().filter(|tx| tx.room() > 0)?)))
        {
            self.state.choice = index as u8;
            self.state.offered = self.chosen().is_some_and(has_slot);
        }
    }

    /// Commits through the member that the frame's flow belongs to; through
    /// the one in whose slot it is, where that has no room. Its frames may
    /// overtake each other then: better than a loss, which the peer's TCP
    /// must wait for, and congestion control answers.
    fn commit_spread(&mut self, len: usize, offload: Offload) {
        if !core::mem::take(&mut self.state.offered) {
            return;
        }
        let Self { members, state } = self;
        let members = members.several_mut();
        let from = usize::from(state.choice);
        let Some(Some(built_in)) = members.get_mut(from) else { return };
        let Some(frame) = built_in.slot().and_then(|slot| slot.get(..len)) else { return };
        let bucket = flow::hash(frame) as usize % BUCKETS;
        let to = usize::from(state.table[bucket]);
        if to == from {
            built_in.commit(len, offload);
            return;
        }
        if let Ok([Some(built_in), Some(wanted)]) = members.get_disjoint_mut([from, to]) {
            let frame = built_in.slot().and_then(|slot| slot.get(..len));
            let slot = wanted.slot().and_then(|slot| slot.get_mut(..len));
            if let (Some(frame), Some(slot)) = (frame, slot) {
                slot.copy_from_slice(frame);
                wanted.commit(len, offload);
                state.counters.copied += 1;
                state.choice = to as u8;
                return;
            }
        }
        state.counters.lent += 1;
        if let Some(Some(built_in)) = members.get_mut(from) {
            built_in.commit(len, offload);
        }
    }
}

impl<'a, L: Link + 'a> Transmit for BondTx<'a, L> {
    #[inline]
    fn room(&self) -> usize {
        if !self.state.spread {
            let only = self.members.get(usize::from(self.state.choice));
            return only.map_or(DROPPED_ROOM, Transmit::room);
        }
        let members = self.members.several().iter().enumerate();
        let active = members.filter(|(index, _)| self.state.active >> index & 1 != 0);
        active.filter_map(|(_, tx)| tx.as_ref()).map(Transmit::room).sum()
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.state.spread {
            self.choose();
        }
        match self.members.get_mut(usize::from(self.state.choice)) {
            Some(tx) => tx.slot(),
            None => {
                cold_path();
                self.state.scratch.resize(self.state.slot, 0);
                Some(&mut self.state.scratch)
            }
        }
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        if self.state.spread {
            self.commit_spread(len, offload);
        } else if let Some(tx) = self.chosen() {
            tx.commit(len, offload);
        } else {
            cold_path();
            self.state.counters.no_member += 1;
        }
    }

    #[inline]
    fn flush(&mut self, now: Time) {
        match &mut self.members {
            Halves::One(only) => only.flush(now),
            several => several.several_mut().iter_mut().flatten().for_each(|tx| tx.flush(now)),
        }
        self.state.follow();
    }
}
