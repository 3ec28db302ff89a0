//! The transmit half: the own queue, or the ring to a silo that has one; and
//! frames of silos that have none.

use crate::counters::Counters;
use crate::lent::Lent;
use crate::mesh::Common;
use crate::ring::{Consumer, Head, Producer};
use core::hint::cold_path;
use core::sync::atomic::Ordering;
use link::{Link, Transmit};
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

/// The transmit half of a [`crate::Steered`].
#[derive(Debug)]
pub struct SteeredTx<L: Link> {
    pub(crate) link: Lent<L::Tx>,
    own: usize,
    common: Arc<Common>,
    route: Route,
    /// Bytes of a slot.
    slot: usize,
    send_by: Vec<(usize, Producer)>,
    send_for: Vec<(usize, Consumer)>,
    /// Rings with frames for which there was no slot.
    left: bool,
    /// The ring to begin with.
    turn: usize,
    counters: Counters,
}

impl<L: Link> SteeredTx<L> {
    pub(crate) fn new(
        own: usize,
        common: Arc<Common>,
        send_by: Vec<(usize, Producer)>,
        send_for: Vec<(usize, Consumer)>,
        slot: usize,
        queue: bool,
    ) -> Self {
        let route = if queue || send_by.is_empty() { Route::Own } else { Route::Lent(0) };
        let (link, counters) = (Lent::nothing(), Counters::default());
        Self { link, own, common, route, slot, send_by, send_for, left: false, turn: 0, counters }
    }

    /// Adds this half's counters.
    pub(crate) fn count(&self, all: &mut Counters) {
        all.lent_out += self.counters.lent_out;
        all.lent_out_bytes += self.counters.lent_out_bytes;
        all.lent_in += self.counters.lent_in;
        all.lent_in_bytes += self.counters.lent_in_bytes;
        all.crossed_bytes += self.counters.crossed_bytes;
        all.ring_full += self.counters.ring_full;
        all.too_long += self.counters.too_long;
    }

    pub(crate) fn waiting(&self) -> bool {
        self.send_for.iter().any(|(_, ring)| ring.has_more())
    }

    /// Decides where frames go out from now on. Returns whether another silo
    /// sends them.
    pub(crate) fn choose_route(&mut self, up: bool) -> bool {
        let seat = |silo: usize| &self.common.seats[silo];
        let usable = |(silo, _): &(usize, Producer)| {
            seat(*silo).up.load(Ordering::Relaxed) && seat(*silo).present.load(Ordering::Acquire)
        };
        let lender = if up { None } else { self.send_by.iter().position(usable) };
        self.route = lender.map_or(Route::Own, Route::Lent);
        lender.is_some()
    }

    /// Sends what waits for other silos.
    #[cold]
    fn send_for_others(&mut self) {
        let silos = self.send_for.len();
        let each = LENT_BOUND.div_ceil(silos.max(1));
        self.left = false;
        for step in 0..silos {
            let (_, ring) = &mut self.send_for[(self.turn + step) % silos];
            for _ in 0..each {
                let Some(record) = ring.take() else { break };
                let Some(slot) = self.link.get_mut().slot() else {
                    ring.put_back(&record);
                    break;
                };
                let bytes = ring.bytes(&record);
                let Some(place) = slot.get_mut(..bytes.len()) else {
                    self.counters.too_long += 1;
                    continue;
                };
                place.copy_from_slice(bytes);
                self.link.get_mut().commit(bytes.len(), unpack(record.head.note));
                self.counters.lent_in += 1;
                self.counters.lent_in_bytes += bytes.len() as u64;
            }
            ring.release();
            self.left |= ring.has_more();
        }
        self.turn = (self.turn + 1) % silos.max(1);
    }
}

impl<L: Link> Transmit for SteeredTx<L> {
    #[inline]
    fn room(&self) -> usize {
        match self.route {
            Route::Own if !self.left => self.link.get().room(),
            // Others' frames wait as well: half is theirs.
            Route::Own => self.link.get().room() / 2,
            Route::Lent(by) => self.send_by[by].1.room(self.slot),
        }
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        match self.route {
            Route::Own => self.link.get_mut().slot(),
            Route::Lent(by) => {
                let slot = self.send_by[by].1.reserve(self.slot);
                self.counters.ring_full += u64::from(slot.is_none());
                slot
            }
        }
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        let Route::Lent(by) = self.route else {
            return self.link.get_mut().commit(len, offload);
        };
        cold_path();
        let (silo, ring) = &mut self.send_by[by];
        ring.commit(Head { len: len as u32, note: pack(offload), ..Head::default() });
        self.counters.lent_out += 1;
        self.counters.lent_out_bytes += len as u64;
        if self.common.seats[*silo].domain != self.common.seats[self.own].domain {
            self.counters.crossed_bytes += len as u64;
        }
    }

    #[inline]
    fn flush(&mut self, now: Time) {
        if self.common.seats[self.own].bell.take_to_send() != 0 || self.left {
            cold_path();
            self.send_for_others();
        }
        if let Route::Lent(by) = self.route {
            cold_path();
            let (silo, ring) = &mut self.send_by[by];
            if ring.publish() {
                self.common.seats[*silo].bell.ring_to_send(self.own);
            }
        }
        self.link.get_mut().flush(now);
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
