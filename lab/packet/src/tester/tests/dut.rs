//! A device with known faults, between two ports, in virtual time.

use link::{Link, PairLink, Receive, Transmit};
use std::collections::VecDeque;
use wire::{Offload, Time};

/// What it does wrong. Frames are counted in each direction from 1 on; 0 is
/// never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Every so many-th frame is dropped.
    pub drop: u64,
    /// Is passed on twice.
    pub duplicate: u64,
    /// Has two bytes of its payload swapped.
    pub swap: u64,
    /// Is held back until three others have passed.
    pub hold: u64,
    /// Every frame takes so long, in ticks.
    pub delay: u64,
    /// And up to so much longer, by its number, the order being kept.
    pub jitter: u64,
    /// Ticks that a frame takes to be passed on, and how many may wait: more
    /// are dropped.
    pub service: Option<(u64, usize)>,
    /// For so many ticks after it was last full every fiftieth frame is dropped.
    pub hangover: u64,
    /// It does nothing from the first time to the second.
    pub stall: (u64, u64),
}

/// What it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Did {
    pub received: u64,
    pub sent: u64,
    pub dropped: u64,
    pub duplicated: u64,
    pub swapped: u64,
    pub held: u64,
    /// Frames whose payload could not be changed by a swap: they are whole.
    pub no_room: u64,
}

#[derive(Default)]
struct Way {
    queue: VecDeque<(u64, Vec<u8>)>,
    held: Option<(u64, Vec<u8>)>,
    free_at: u64,
    last_due: u64,
    /// When it was last full.
    full_at: Option<u64>,
    did: Did,
}

pub struct Dut {
    faults: Faults,
    ways: [Way; 2],
}

impl Dut {
    pub fn new(faults: Faults) -> Self {
        Self { faults, ways: Default::default() }
    }

    pub fn did(&self, way: usize) -> Did {
        self.ways[way].did
    }

    /// Passes on what is due. With one port frames go back by it.
    pub fn turn(&mut self, links: &mut [PairLink], now: u64) {
        let (from, until) = self.faults.stall;
        if (from..until).contains(&now) {
            return;
        }
        for port in 0..links.len() {
            let (rx, _) = links[port].split();
            let count = rx.receive(Time::ZERO, 64);
            for index in 0..count {
                self.ways[port].take(&self.faults, rx.frame(index), now);
            }
            rx.release();
            let to = if links.len() == 2 { 1 - port } else { port };
            let (_, tx) = links[to].split();
            self.ways[port].give(tx, now);
        }
    }
}

impl Way {
    fn take(&mut self, faults: &Faults, frame: &[u8], now: u64) {
        self.did.received += 1;
        let number = self.did.received;
        // Each fault has a place of its own in its round, so that no two strike one frame.
        let strikes = |every: u64, place: u64| every > 0 && number % every == place % every;
        if let Some((service, room)) = faults.service {
            if self.queue.len() >= room {
                self.full_at = Some(now);
                self.did.dropped += 1;
                return;
            }
            if faults.hangover > 0
                && number.is_multiple_of(50)
                && self.full_at.is_some_and(|at| now < at + faults.hangover)
            {
                self.did.dropped += 1;
                return;
            }
            self.free_at = self.free_at.max(now) + service;
        }
        if strikes(faults.drop, 1) {
            self.did.dropped += 1;
            return;
        }
        let mut bytes = frame.to_vec();
        if strikes(faults.swap, 2) {
            let last = bytes.len() - 1;
            let other = last - 1 - (number as usize % 5);
            if bytes[last] != bytes[other] {
                bytes.swap(last, other);
                self.did.swapped += 1;
            }
        }
        let jitter = if faults.jitter == 0 { 0 } else { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % faults.jitter };
        let due = (now + faults.delay + jitter).max(self.free_at).max(self.last_due);
        self.last_due = due;
        if strikes(faults.hold, 3) && self.held.is_none() {
            self.did.held += 1;
            self.held = Some((number + 3, bytes));
            return;
        }
        if strikes(faults.duplicate, 4) {
            self.did.duplicated += 1;
            self.queue.push_back((due, bytes.clone()));
        }
        self.queue.push_back((due, bytes));
        if let Some((until, held)) = self.held.take_if(|(until, _)| number >= *until) {
            let _ = until;
            self.queue.push_back((due, held));
        }
    }

    fn give(&mut self, tx: &mut impl Transmit, now: u64) {
        while let Some((due, frame)) = self.queue.front() {
            if *due > now {
                break;
            }
            match tx.slot() {
                Some(slot) => {
                    slot[..frame.len()].copy_from_slice(frame);
                    tx.commit(frame.len(), Offload::NONE);
                    self.did.sent += 1;
                }
                None => self.did.no_room += 1,
            }
            self.queue.pop_front();
        }
        tx.flush(Time::ZERO);
    }
}
