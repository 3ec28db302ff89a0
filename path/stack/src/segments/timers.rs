//! What is due: retransmissions, delayed acknowledgements, handshakes,
//! TIME-WAIT, and applications' timers.

use super::Tcp;
use super::flows::{Keyed, Owner};
use super::slots::Slot;
use super::syn::DueSyn;
use crate::egress::Egress;
use crate::ip::Ip;
use app::{Closed, ConnId};
use core::time::Duration;
use std::collections::VecDeque;
use wheel::{Calendar, Due, Wheel};
use wire::Time;

/// An acknowledgement that waits for data to travel with.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayedAck {
    due: u32,
    id: ConnId,
}

/// Half-open handshakes and TIME-WAIT records worked off per turn.
const BOUND: usize = 64;

/// Timers of connections that run in a turn whose burst was full, and in a millisecond in which
/// so many connections wait for room to send. Each has a frame sent, and one or two that answer
/// it: more than half a burst, and frames would come sooner than they are taken.
const FEW: usize = 16;

/// Farthest that a pacer's deadline is entered ahead: from there again.
const MOST_AHEAD: Duration = Duration::from_secs(86_400);

/// Connections that are let go by their pacers in one turn; the others wait for the next.
const PACED_BOUND: usize = 1_024;
const BACKLOG: usize = 512;

/// When connections are due.
#[derive(Debug)]
pub(super) struct Timers {
    pub wheel: Wheel,
    /// Connections that wait for their pacers, for less than the calendar spans.
    pub calendar: Calendar,
    /// What the wheel gave; empty between turns.
    due: Vec<Due>,
    pub delayed_acks: VecDeque<DelayedAck>,
    /// The millisecond whose deadlines are all worked off.
    done_ms: u32,
}

impl Timers {
    /// For so many slots.
    pub fn new(now_ms: u32, slots: usize) -> Self {
        Self {
            wheel: Wheel::new(now_ms, slots),
            calendar: Calendar::new(slots),
            due: Vec::with_capacity(wheel::BOUND),
            delayed_acks: VecDeque::new(),
            done_ms: now_ms.wrapping_sub(1),
        }
    }

    /// Where the wheel is.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        self.wheel.memory(each);
        self.calendar.memory(each);
    }

    /// Enters a connection's earliest deadline.
    #[inline]
    pub fn enter_deadline(&mut self, index: u32, slot: &mut Slot) {
        let deadline = match (slot.tcp.timer(), slot.app_timer()) {
            (None, None) => return,
            (Some(at), None) | (None, Some(at)) => at,
            (Some(a), Some(b)) => {
                if (a.wrapping_sub(b) as i32) < 0 {
                    a
                } else {
                    b
                }
            }
        };
        self.enter(index, slot, deadline);
    }

    /// Has a connection that waits for its pacer come up at `at`: by the calendar, or by the
    /// wheel where that is far.
    #[inline(never)]
    pub fn enter_paced(&mut self, index: u32, slot: &mut Slot, at: Time, now: Time) {
        if !self.calendar.enter(index, at.as_nanos(), now.as_nanos()) {
            let most = now + MOST_AHEAD;
            self.enter(index, slot, at.min(most).as_millis() as u32);
        }
    }

    /// Has a connection come up at `deadline` at the latest.
    #[inline]
    pub fn enter(&mut self, index: u32, slot: &mut Slot, deadline: u32) {
        self.wheel.schedule(index, &mut slot.tcp.wheel, deadline);
    }
}

impl Tcp {
    /// Whether deadlines of this millisecond may not be worked off yet: they
    /// are whole milliseconds, and none is set for the one that it is set in.
    #[inline]
    pub const fn has_timers(&self) -> bool {
        self.timers.done_ms != self.common.now_ms
    }

    /// Whether connections wait for their pacers.
    #[inline]
    pub const fn awaits_pacers(&self) -> bool {
        self.timers.calendar.entries() != 0
    }

    /// Connections that need not wait for their pacers any more have their turn to send. Returns
    /// whether more are due already.
    #[inline(never)]
    pub fn on_paced(&mut self) -> bool {
        let Self { timers, slots, outbox, common, .. } = self;
        let all = timers.calendar.take(common.now.as_nanos(), PACED_BOUND, |index| {
            let tcp = &mut slots.at_mut(index).tcp;
            if !tcp.is_ready() {
                tcp.set_ready(true);
                outbox.ready.push(index);
            }
        });
        !all
    }

    /// When the next connection is let go by its pacer.
    #[inline]
    pub fn next_paced(&self) -> Option<Time> {
        self.timers.calendar.next().map(Time::from_nanos)
    }

    /// Runs what is due, less of it where the turn is `crowded`. Returns whether more is due
    /// already.
    pub fn on_timers(&mut self, ip: &mut Ip, crowded: bool, out: &mut impl Egress) -> bool {
        // What timers have to be said goes behind what waits for room: of that there is no
        // more than the link soon takes, or nobody would be answered for as long as the rest
        // of a million ends.
        let waits = self.outbox.ready.len() >= BACKLOG;
        let mut more = self.on_wheel(ip, if crowded || waits { FEW } else { wheel::BOUND });
        more &= !waits;
        if !self.timers.delayed_acks.is_empty() {
            more |= self.on_delayed_acks();
        }
        if self.syns.len() > 0 {
            more |= self.on_half_open_timers(ip, out);
        }
        more |= self.on_time_wait_timers();
        if self.seals.is_awake() {
            self.rest_quiet();
        }
        if !more {
            self.timers.done_ms = self.common.now_ms;
        }
        more
    }

    /// Milliseconds until something is due next; `None` if nothing is.
    pub fn next_timer(&self) -> Option<u32> {
        let now_ms = self.common.now_ms;
        let delayed = self.timers.delayed_acks.front();
        let delayed = delayed.map(|first| (first.due.wrapping_sub(now_ms) as i32).max(0) as u32);
        let waits = self.waits.next(now_ms);
        let quiet = self.seals.is_awake().then_some(super::sealed::QUIET_AFTER);
        [self.timers.wheel.next(), delayed, self.syns.next(now_ms), waits, quiet].into_iter().flatten().min()
    }

    /// Whether applications are to be told something.
    pub fn has_events(&self) -> bool {
        self.events.has_some()
    }

    fn on_wheel(&mut self, ip: &Ip, most: usize) -> bool {
        let mut due = core::mem::take(&mut self.timers.due);
        let done = self.timers.wheel.advance_some(self.common.now_ms, most, &mut due);
        // First all of them, in little room, so that their cache misses overlap:
        // where there are many connections, each is one.
        due.retain(|entry| entry.claim(&mut self.slots.at_mut(entry.slot).tcp.wheel));
        for entry in due.drain(..) {
            if self.slots.is_used(entry.slot) {
                self.on_slot_due(ip, entry.slot);
            }
        }
        self.timers.due = due;
        !done
    }

    fn on_slot_due(&mut self, ip: &Ip, index: u32) {
        let now_ms = self.common.now_ms;
        let passed = |at: u32| (at.wrapping_sub(now_ms) as i32) <= 0;
        if self.slots.at(index).tcp.timer().is_some_and(passed) {
            let before = self.slots.at(index).tcp.buffered();
            let over = self.with(ip, index, |tcp, cx, _| tcp.on_timer(cx));
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
            self.events.app_timers.push_back(self.slots.id(index));
        }
        self.schedule(index);
        if let Some(at) = self.slots.at(index).tcp.paced_until() {
            // It may have been this that it came up for, being far.
            self.timers.enter_paced(index, self.slots.at_mut(index), at, self.common.now);
        }
    }

    /// The next connection whose application timer ran out.
    #[inline(always)]
    pub fn poll_app_timer(&mut self) -> Option<ConnId> {
        if self.events.app_timers.is_empty() { None } else { self.poll_due_timer() }
    }

    #[inline(never)]
    fn poll_due_timer(&mut self) -> Option<ConnId> {
        let soon = self.common.now_ms.wrapping_add(1);
        while let Some(id) = self.events.app_timers.pop_front() {
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

    pub(super) fn delay_ack(&mut self, index: u32) {
        // Not in the millisecond that may be worked off already.
        let due = self.common.now_ms.wrapping_add(self.common.config.delayed_ack.max(1));
        self.timers.delayed_acks.push_back(DelayedAck { due, id: self.slots.id(index) });
    }

    fn on_delayed_acks(&mut self) -> bool {
        for _ in 0..wheel::BOUND {
            let Some(first) = self.timers.delayed_acks.front().copied() else { return false };
            if (first.due.wrapping_sub(self.common.now_ms) as i32) > 0 {
                return false;
            }
            self.timers.delayed_acks.pop_front();
            if let Some(slot) = self.slots.get_mut(first.id) {
                slot.tcp.on_delayed_ack();
                // Mostly it has travelled with data since.
                if slot.tcp.wants_poll() {
                    self.make_ready(first.id.index() as u32);
                }
            }
        }
        true
    }

    fn on_half_open_timers(&mut self, ip: &mut Ip, out: &mut impl Egress) -> bool {
        for _ in 0..BOUND {
            match self.syns.poll(self.common.now_ms) {
                None => return false,
                Some(DueSyn::Resend(entry)) => self.send_syn_ack(ip, entry, out),
                Some(DueSyn::Expired(entry)) => {
                    self.counters.half_open_expired += 1;
                    self.drop_half_open(ip, entry);
                }
            }
        }
        true
    }

    fn on_time_wait_timers(&mut self) -> bool {
        for _ in 0..BOUND {
            let Some(record) = self.waits.expired(self.common.now_ms) else { return false };
            self.drop_time_wait(record);
        }
        true
    }

    /// Whether [`Tcp::poll_closed`] has something to look at.
    #[inline(always)]
    pub fn has_closed(&self) -> bool {
        !self.events.over.is_empty()
    }

    /// The next connection that is over, with the reason; its slot is free
    /// from now on. Call after [`crate::Stack::poll_transmit`], so that the last
    /// acknowledgement of a connection leaves before its state goes.
    #[inline(always)]
    pub fn poll_closed(&mut self, ip: &mut Ip) -> Option<(ConnId, Closed)> {
        if self.events.over.is_empty() { None } else { self.poll_over(ip) }
    }

    #[inline(never)]
    fn poll_over(&mut self, ip: &mut Ip) -> Option<(ConnId, Closed)> {
        while let Some((id, why)) = self.events.over.pop_front() {
            let index = id.index() as u32;
            if !self.slots.at(index).lingers() {
                self.leave_table(ip, index);
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
    pub(super) fn free_slot(&mut self, ip: &mut Ip, index: u32) {
        self.leave_table(ip, index);
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
        self.seals.remove(index);
        self.timers.calendar.remove(index);
        self.account(index, before);
        self.free_room(index);
        self.slots.remove(index);
    }

    /// The flow belongs to a TIME-WAIT record from now on, or to nobody.
    #[inline(always)]
    fn leave_table(&mut self, ip: &mut Ip, index: u32) {
        let slot = self.slots.at(index);
        let (flow, neighbour) = (slot.flow(), slot.neighbour);
        let key = Keyed { flow, hash: self.flows.hash(&flow) };
        match slot.tcp.last_word() {
            Some(last) => self.begin_time_wait(ip, index, key, neighbour, &last),
            None => _ = self.flows.remove(key.hash, Owner::Connection(index)),
        }
        ip.neighbours.unpin(neighbour);
    }
}
