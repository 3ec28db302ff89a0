//! What is due: retransmissions, delayed acknowledgements, handshakes,
//! TIME-WAIT, and applications' timers.

use crate::flow::{Flow, Owner};
use crate::neighbour::NeighbourId;
use crate::replies::Pending;
use crate::syn::DueSyn;
use crate::{Egress, Stack, wheel};
use app::{Closed, ConnId};
use core::time::Duration;
use tcp::LastWord;
use wire::Time;

/// An acknowledgement that waits for data to travel with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedAck {
    due: u32,
    id: ConnId,
}

/// While the transmit ring is full: no link says when its other side takes
/// frames, so it is looked at again after this. A tenth of a millisecond: what
/// waits is late by no more than a wake-up or two, and a peer that has stopped
/// costs a hundredth of a core.
const TRANSMIT_RETRY: Duration = Duration::from_micros(100);

/// Half-open handshakes and TIME-WAIT records worked off per turn.
const BOUND: usize = 64;

impl Stack {
    /// Runs what is due, a bounded amount of it. Returns whether more is due
    /// already.
    #[inline]
    pub fn on_timers(&mut self, out: &mut impl Egress) -> bool {
        if self.timed_ms == self.now_ms && !self.reassembly.is_due(self.now) {
            // Deadlines are whole milliseconds, and none is set for the one
            // that it is set in.
            return false;
        }
        self.run_timers(out)
    }

    #[inline(never)]
    fn run_timers(&mut self, out: &mut impl Egress) -> bool {
        let mut more = self.on_wheel();
        if self.reassembly.is_due(self.now) {
            self.on_fragments_late(out);
        }
        if !self.delayed_acks.is_empty() {
            more |= self.on_delayed_acks();
        }
        if self.syns.len() > 0 {
            more |= self.on_half_open_timers(out);
        }
        more |= self.on_time_wait_timers();
        if !more {
            self.timed_ms = self.now_ms;
        }
        more
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
    #[inline(always)]
    pub fn poll_app_timer(&mut self) -> Option<ConnId> {
        if self.app_timers.is_empty() { None } else { self.poll_due_timer() }
    }

    #[inline(never)]
    fn poll_due_timer(&mut self) -> Option<ConnId> {
        let soon = self.now_ms.wrapping_add(1);
        while let Some(id) = self.app_timers.pop_front() {
            let Some(slot) = self.slots.get_mut(id) else { continue };
            if !slot.is_over() {
                return Some(id);
            }
            if !slot.tcp.held().is_empty() {
                // It was closed in this turn, and lingers from its end on: the
                // application reads what is held by this timer.
                slot.set_app_timer(Some(soon));
            }
        }
        None
    }

    pub(crate) fn delay_ack(&mut self, index: u32) {
        // Not in the millisecond that may be worked off already.
        let due = self.now_ms.wrapping_add(self.config.tcp.delayed_ack.max(1));
        self.delayed_acks.push_back(DelayedAck { due, id: self.slots.id(index) });
    }

    fn on_delayed_acks(&mut self) -> bool {
        for _ in 0..wheel::BOUND {
            let Some(first) = self.delayed_acks.front().copied() else { return false };
            if (first.due.wrapping_sub(self.now_ms) as i32) > 0 {
                return false;
            }
            self.delayed_acks.pop_front();
            if let Some(slot) = self.slots.get_mut(first.id) {
                slot.tcp.on_delayed_ack();
                self.make_ready(first.id.index() as u32);
            }
        }
        true
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
    #[inline(always)]
    pub fn poll_closed(&mut self) -> Option<(ConnId, Closed)> {
        if self.over.is_empty() { None } else { self.poll_over() }
    }

    #[inline(never)]
    fn poll_over(&mut self) -> Option<(ConnId, Closed)> {
        while let Some((id, why)) = self.over.pop_front() {
            let index = id.index() as u32;
            if !self.slots.at(index).lingers() {
                self.leave_table(index);
            }
            let slot = self.slots.at_mut(index);
            // An orderly end is told once the application has read all.
            if why == Closed::Finished && !slot.tcp.held().is_empty() {
                slot.tcp.linger();
                slot.linger();
                self.schedule(index);
                continue;
            }
            self.discard_slot(index);
            return Some((id, why));
        }
        None
    }

    /// Frees the slot of a connection that was reset.
    #[cold]
    pub(crate) fn free_slot(&mut self, index: u32) {
        self.leave_table(index);
        self.discard_slot(index);
    }

    #[inline(always)]
    fn discard_slot(&mut self, index: u32) {
        self.counters.closed += 1;
        let flow = self.slots.at(index).flow();
        self.note_closed(&flow);
        let slot = self.slots.at_mut(index);
        let before = slot.tcp.buffered();
        slot.tcp.discard();
        self.account(index, before);
        self.slots.remove(index);
    }

    /// The flow belongs to a TIME-WAIT record from now on, or to nobody.
    #[inline(always)]
    fn leave_table(&mut self, index: u32) {
        let slot = self.slots.at(index);
        let (flow, neighbour) = (slot.flow(), slot.neighbour);
        let hash = self.hasher.hash(&flow);
        match slot.tcp.last_word() {
            Some(last) => self.begin_time_wait(index, flow, hash, neighbour, &last),
            None => _ = self.table.remove(hash, Owner::Connection(index)),
        }
        self.neighbours.unpin(neighbour);
    }

    #[inline(always)]
    fn begin_time_wait(&mut self, index: u32, flow: Flow, hash: u64, neighbour: NeighbourId, last: &LastWord) {
        if let Some(oldest) = self.waits.overdue() {
            self.counters.time_wait_dropped += 1;
            self.drop_time_wait(oldest);
        }
        let Some(record) = self.waits.insert(flow, hash, last.nxt, last.rcv_nxt, last.ts_recent, self.now_ms) else {
            self.table.remove(hash, Owner::Connection(index));
            return;
        };
        self.table.replace(hash, Owner::Connection(index), Owner::TimeWait(record));
        if last.owes_ack
            && let Some(mac) = self.neighbours.mac(neighbour)
        {
            // No slot was free for the last acknowledgement.
            self.reply_later(Pending::TimeWait(record, mac));
        }
    }

    /// When a turn is due even if nothing arrives; `None` if never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let to_send = !self.ready.is_empty() || !self.pending.is_empty() || !self.resets.is_empty();
        let to_tell = !self.over.is_empty() || !self.resumed.is_empty() || !self.app_timers.is_empty();
        if to_tell || (to_send && !self.blocked) {
            return Some(self.now);
        }
        let retry = self.now + TRANSMIT_RETRY;
        let delayed = self.delayed_acks.front().map(|first| (first.due.wrapping_sub(self.now_ms) as i32).max(0) as u32);
        let waits = self.waits.next(self.now_ms);
        let earliest = [self.wheel.next(), delayed, self.syns.next(self.now_ms), waits].into_iter().flatten().min();
        let milliseconds = earliest.map(|ms| self.now + Duration::from_millis(u64::from(ms)));
        let neighbours = self.neighbours.next_deadline().map(|at| if self.blocked { at.max(retry) } else { at });
        let presence = self.presence.next_deadline().map(|at| if self.blocked { at.max(retry) } else { at });
        let retry = to_send.then_some(retry);
        [milliseconds, retry, neighbours, presence, self.reassembly.next_deadline()].into_iter().flatten().min()
    }
}
