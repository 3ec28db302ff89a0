//! The transmit half: the own queue, or the ring to a silo that has one; and
//! frames of silos that have none.

use crate::counters::Counters;
use crate::mesh::{Common, Seated};
use crate::ring::{Consumer, Head, Producer};
use core::sync::atomic::Ordering;
use link::Transmit;
use std::sync::Arc;
use wire::offload::PartialChecksum;
use wire::{Offload, Time};

/// Frames sent for others in one turn, so that an own turn does not wait
/// longer for them than for a large burst of its own.
const LENT_BOUND: usize = 64;

/// Where frames go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    /// Through the own queue.
    Own,
    /// Through the ring at this place of `send_by`.
    Lent(usize),
}

/// The transmit half of a [`crate::Steered`], around that of its link.
#[derive(Debug)]
pub struct SteeredTx<'a, T> {
    pub(crate) link: T,
    pub(crate) state: &'a mut TxState,
}

/// What sending remembers.
#[derive(Debug)]
pub(crate) struct TxState {
    own: usize,
    common: Arc<Common>,
    seat: Arc<Seated>,
    route: Route,
    /// Bytes of a slot.
    slot: usize,
    send_by: Vec<(usize, Producer)>,
    send_for: Vec<(usize, Consumer)>,
    /// Rings with frames for which there was no slot.
    left: bool,
    /// Frames go out by another silo, or others' frames wait.
    unusual: bool,
    /// The ring to begin with.
    turn: usize,
    counters: Counters,
}

impl TxState {
    pub fn new(
        own: usize,
        common: Arc<Common>,
        send_by: Vec<(usize, Producer)>,
        send_for: Vec<(usize, Consumer)>,
        slot: usize,
        queue: bool,
    ) -> Self {
        let route = if queue || send_by.is_empty() { Route::Own } else { Route::Lent(0) };
        let counters = Counters::default();
        let seat = Arc::clone(&common.seats[own]);
        let unusual = route != Route::Own;
        Self { own, seat, unusual, common, route, slot, send_by, send_for, left: false, turn: 0, counters }
    }

    /// Adds this half's counters.
    pub fn count(&self, all: &mut Counters) {
        all.lent_out += self.counters.lent_out;
        all.lent_out_bytes += self.counters.lent_out_bytes;
        all.lent_in += self.counters.lent_in;
        all.lent_in_bytes += self.counters.lent_in_bytes;
        all.crossed_bytes += self.counters.crossed_bytes;
        all.ring_full += self.counters.ring_full;
        all.too_long += self.counters.too_long;
    }

    pub fn waiting(&self) -> bool {
        self.send_for.iter().any(|(_, ring)| ring.has_more())
    }

    fn set_usual(&mut self) {
        self.unusual = self.left || self.route != Route::Own;
    }

    /// Decides where frames go out from now on. Returns whether another silo
    /// sends them.
    pub fn choose_route(&mut self, up: bool) -> bool {
        let seat = |silo: usize| &self.common.seats[silo];
        let usable = |(silo, _): &(usize, Producer)| {
            seat(*silo).up.load(Ordering::Relaxed) && seat(*silo).present.load(Ordering::Acquire)
        };
        let lender = if up { None } else { self.send_by.iter().position(usable) };
        self.route = lender.map_or(Route::Own, Route::Lent);
        self.set_usual();
        lender.is_some()
    }
}

impl<T: Transmit> SteeredTx<'_, T> {
    /// Sends what waits for other silos.
    #[cold]
    fn send_for_others(&mut self) {
        let silos = self.state.send_for.len();
        let each = LENT_BOUND.div_ceil(silos.max(1));
        self.state.left = false;
        for step in 0..silos {
            let (_, ring) = &mut self.state.send_for[(self.state.turn + step) % silos];
            for _ in 0..each {
                let Some(record) = ring.take() else { break };
                let Some(slot) = self.link.slot() else {
                    ring.put_back(&record);
                    break;
                };
                let bytes = ring.bytes(&record);
                let Some(place) = slot.get_mut(..bytes.len()) else {
                    self.state.counters.too_long += 1;
                    continue;
                };
                place.copy_from_slice(bytes);
                self.link.commit(bytes.len(), unpack(record.head.note));
                self.state.counters.lent_in += 1;
                self.state.counters.lent_in_bytes += bytes.len() as u64;
            }
            ring.release();
            self.state.left |= ring.has_more();
        }
        self.state.turn = (self.state.turn + 1) % silos.max(1);
    }
}

impl<T: Transmit> SteeredTx<'_, T> {
    #[cold]
    fn room_elsewhere(&self) -> usize {
        match self.state.route {
            // Others' frames wait as well: half is theirs.
            Route::Own => self.link.room() / 2,
            Route::Lent(by) => self.state.send_by[by].1.room(self.state.slot),
        }
    }

    #[cold]
    fn slot_elsewhere(&mut self) -> Option<&mut [u8]> {
        let Route::Lent(by) = self.state.route else { return self.link.slot() };
        let slot = self.state.send_by[by].1.reserve(self.state.slot);
        self.state.counters.ring_full += u64::from(slot.is_none());
        slot
    }

    #[cold]
    fn commit_elsewhere(&mut self, len: usize, offload: Offload) {
        let Route::Lent(by) = self.state.route else { return self.link.commit(len, offload) };
        let state = &mut *self.state;
        let (silo, ring) = &mut state.send_by[by];
        ring.commit(Head { len: len as u32, note: pack(offload), ..Head::default() });
        state.counters.lent_out += 1;
        state.counters.lent_out_bytes += len as u64;
        if state.common.seats[*silo].domain != state.seat.domain {
            state.counters.crossed_bytes += len as u64;
        }
    }

    #[cold]
    fn flush_elsewhere(&mut self) {
        if self.state.seat.bell.take_to_send() != 0 || self.state.left {
            self.send_for_others();
        }
        if let Route::Lent(by) = self.state.route {
            let (silo, ring) = &mut self.state.send_by[by];
            if ring.publish() {
                self.state.common.seats[*silo].bell.ring_to_send(self.state.own);
            }
        }
        self.state.set_usual();
    }
}

impl<T: Transmit> Transmit for SteeredTx<'_, T> {
    #[inline]
    fn room(&self) -> usize {
        if self.state.unusual {
            return self.room_elsewhere();
        }
        self.link.room()
    }

    #[inline(always)]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.state.unusual {
            return self.slot_elsewhere();
        }
        self.link.slot()
    }

    #[inline(always)]
    fn commit(&mut self, len: usize, offload: Offload) {
        if self.state.unusual {
            return self.commit_elsewhere(len, offload);
        }
        self.link.commit(len, offload);
    }

    #[inline]
    fn flush(&mut self, now: Time) {
        if self.state.unusual | self.state.seat.bell.has_to_send() {
            self.flush_elsewhere();
        }
        self.link.flush(now);
    }
}

/// An offload in a word.
fn pack(offload: Offload) -> u64 {
    let checksum = offload
        .checksum
        .map_or(0, |PartialChecksum { start, field }| 1 << 63 | u64::from(start) | u64::from(field) << 16);
    checksum | offload.segment.map_or(0, |segment| 1 << 62 | u64::from(segment) << 32)
}

fn unpack(word: u64) -> Offload {
    let checksum = (word >> 63 != 0).then_some(PartialChecksum { start: word as u16, field: (word >> 16) as u16 });
    Offload { checksum, segment: (word >> 62 & 1 != 0).then_some((word >> 32) as u16) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_survive_packing() {
        for checksum in [None, Some(PartialChecksum { start: 34, field: 16 })] {
            for segment in [None, Some(0), Some(1_448), Some(u16::MAX)] {
                let offload = Offload { checksum, segment };
                assert_eq!(unpack(pack(offload)), offload);
            }
        }
    }
}
