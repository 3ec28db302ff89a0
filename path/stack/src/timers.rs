//! What is due: retransmissions, delayed acknowledgements, handshakes,
//! TIME-WAIT, and applications' timers.

use crate::flow::Owner;
use crate::syn::DueSyn;
use crate::{Egress, Stack, wheel};
use app::{Closed, ConnId};
use core::time::Duration;
use tcp::State;
use wire::Time;

/// An acknowledgement that waits for data to travel with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedAck {
    due: u32,
    id: ConnId,
}

/// Half-open handshakes and TIME-WAIT records worked off per turn.
const BOUND: usize = 64;

impl Stack {
    /// Runs what is due, a bounded amount of it. Returns whether more is due
    /// already.
    pub fn on_timers(&mut self, out: &mut impl Egress) -> bool {
        let mut more = self.on_wheel();
        self.reassembly.on_time(self.now);
        if !self.delayed_acks.is_empty() {
            self.on_delayed_acks();
        }
        if self.syns.len() > 0 {
            more |= self.on_half_open_timers(out);
        }
        more | self.on_time_wait_timers()
    }

    fn on_wheel(&mut self) -> bool {
        let mut due = core::mem::take(&mut self.due);
        let done = self.wheel.advance(self.now_ms, &mut due);
        for entry in due.drain(..) {
            if entry.claim(&mut self.slots.at_mut(entry.slot).tcp.wheel) && self.slots.is_used(entry.slot) {
                self.on_slot_due(entry.slot);
            }
        }
        self.due = due;
        !done
    }

    fn on_slot_due(&mut self, index: u32) {
        let now_ms = self.now_ms;
        let passed = |at: u32| (at.wrapping_sub(now_ms) as i32) <= 0;
        if self.slots.at(index).tcp.timer().is_some_and(passed) {
            let before = self.slots.at(index).tcp.buffered();
            let over = self.with(index, |tcp, cx, _| tcp.on_timer(cx));
            self.account(index, before);
            if let Some(why) = over {
                let id = self.slots.id(index);
                self.note_over(id, why);
            } else if self.slots.at(index).tcp.wants_poll() {
                self.make_ready(index);
            }
        }
        if self.slots.at(index).app_timer().is_some_and(passed) {
            self.slots.at_mut(index).set_app_timer(None);
            self.app_timers.push_back(self.slots.id(index));
        }
        self.schedule(index);
    }

    /// The next connection whose application timer ran out.
    pub fn poll_app_timer(&mut self) -> Option<ConnId> {
        while let Some(id) = self.app_timers.pop_front() {
            if self.slots.get(id).is_some_and(|slot| !slot.is_over()) {
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn delay_ack(&mut self, index: u32) {
        let due = self.now_ms.wrapping_add(self.config.tcp.delayed_ack);
        self.delayed_acks.push_back(DelayedAck { due, id: self.slots.id(index) });
    }

    fn on_delayed_acks(&mut self) {
        for _ in 0..wheel::BOUND {
            let Some(first) = self.delayed_acks.front().copied() else { return };
            if (first.due.wrapping_sub(self.now_ms) as i32) > 0 {
                return;
            }
            self.delayed_acks.pop_front();
            if let Some(slot) = self.slots.get_mut(first.id) {
                slot.tcp.on_delayed_ack();
                self.make_ready(first.id.index() as u32);
            }
        }
    }

    fn on_half_open_timers(&mut self, out: &mut impl Egress) -> bool {
        for _ in 0..BOUND {
            match self.syns.poll(self.now_ms) {
                None => return false,
                Some(DueSyn::Resend(entry)) => self.send_syn_ack(entry, out),
                Some(DueSyn::Expired(entry)) => {
                    self.counters.half_open_expired += 1;
                    self.drop_half_open(entry);
                }
            }
        }
        true
    }

    fn on_time_wait_timers(&mut self) -> bool {
        for _ in 0..BOUND {
            let Some(record) = self.waits.expired(self.now_ms) else { return false };
            self.drop_time_wait(record);
        }
        true
    }

    /// The next connection that is over, with the reason; its slot is free
    /// from now on. Call after [`Stack::poll_transmit`], so that the last
    /// acknowledgement of a connection leaves before its state goes.
    pub fn poll_closed(&mut self) -> Option<(ConnId, Closed)> {
        let (id, why) = loop {
            let (id, why) = self.over.pop_front()?;
            let index = id.index() as u32;
            // An orderly end is told once the application has read all.
            if why != Closed::Finished || self.slots.at(index).tcp.held().is_empty() {
                break (id, why);
            }
            let hash = self.hasher.hash(&self.slots.at(index).flow());
            self.leave_table(index, hash);
            let slot = self.slots.at_mut(index);
            slot.tcp.linger();
            slot.linger();
        };
        let index = id.index() as u32;
        self.counters.closed += 1;
        let slot = self.slots.at_mut(index);
        let flow = slot.flow();
        let hash = self.hasher.hash(&flow);
        let before = self.slots.at(index).tcp.buffered();
        self.receive_memory = self.receive_memory.saturating_sub(before);
        if !self.slots.at(index).lingers() {
            self.leave_table(index, hash);
        }
        self.slots.at_mut(index).tcp.discard();
        self.slots.remove(index);
        Some((id, why))
    }

    /// The flow belongs to a TIME-WAIT record from now on, or to nobody.
    fn leave_table(&mut self, index: u32, hash: u64) {
        let record =
            if self.slots.at(index).tcp.state() == State::TimeWait { self.begin_time_wait(index, hash) } else { None };
        match record {
            Some(record) => {
                self.table.replace(hash, Owner::Connection(index), Owner::TimeWait(record));
            }
            None => {
                self.table.remove(hash, Owner::Connection(index));
            }
        }
        self.neighbours.unpin(self.slots.at(index).neighbour);
    }

    fn begin_time_wait(&mut self, index: u32, hash: u64) -> Option<u32> {
        if let Some(oldest) = self.waits.overdue() {
            self.counters.time_wait_dropped += 1;
            self.drop_time_wait(oldest);
        }
        let slot = self.slots.at(index);
        let info = slot.tcp.info();
        let recent = info.timestamps.then_some(info.ts_recent);
        self.waits.insert(slot.flow(), hash, info.nxt, info.rcv_nxt, recent, self.now_ms)
    }

    /// When a turn is due even if nothing arrives; `None` if never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.ready.is_empty() || !self.over.is_empty() || !self.resumed.is_empty() || !self.app_timers.is_empty() {
            return Some(self.now);
        }
        let delayed = self.delayed_acks.front().map(|first| (first.due.wrapping_sub(self.now_ms) as i32).max(0) as u32);
        let waits = self.waits.next(self.now_ms);
        let earliest = [self.wheel.next(), delayed, self.syns.next(self.now_ms), waits].into_iter().flatten().min();
        let milliseconds = earliest.map(|ms| self.now + Duration::from_millis(u64::from(ms)));
        [milliseconds, self.neighbours.next_deadline(), self.reassembly.next_deadline()].into_iter().flatten().min()
    }
}
