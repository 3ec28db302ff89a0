//! What applications ask of a connection, by its id.

use super::Tcp;
use app::{Body, ConnId, Unreachable};
use core::hint::cold_path;
use core::ops::Range;
use tcp::{QueueFull, ReceiveBuffer, SocketOptions, State};
use wire::Time;

const NANOS_PER_MS: u64 = 1_000_000;

/// Longest wait of an application timer: 12 days.
const MAX_WAIT_MS: u32 = 1 << 30;
const MAX_WAIT_NS: u64 = MAX_WAIT_MS as u64 * NANOS_PER_MS;

impl Tcp {
    /// Queues a range of a body, as [`app::Net::send_body`] says.
    #[inline(always)]
    pub fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let len = range.end.saturating_sub(range.start);
        let queued = slot.tcp.send_body(body, range.start, len);
        let ready = slot.tcp.is_ready();
        self.queued(id, queued, ready);
    }

    /// Queues a whole body, as [`app::Net::reply`] says.
    #[inline(always)]
    pub fn reply(&mut self, id: ConnId, body: &Body, limit: usize) -> bool {
        let Some(slot) = self.slots.get_mut(id) else { return limit > 0 };
        if slot.tcp.unsent_reaches(limit) {
            return false;
        }
        let queued = slot.tcp.send_body(body, 0, body.len());
        let ready = slot.tcp.is_ready();
        self.queued(id, queued, ready);
        true
    }

    /// Queues a copy of bytes.
    pub fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let queued = slot.tcp.send_bytes(bytes);
        let ready = slot.tcp.is_ready();
        self.queued(id, queued, ready);
    }

    /// Queues what `fill` appends, as [`crate::Stack::send_first`] says.
    #[inline(always)]
    pub fn send_first(&mut self, id: ConnId, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(slot) = self.slots.get_mut(id) else { return false };
        if !slot.tcp.send_first(len, fill) {
            cold_path();
            return false;
        }
        if !slot.tcp.is_ready() {
            slot.tcp.set_ready(true);
            self.outbox.ready.push(id.index() as u32);
        }
        true
    }

    /// Takes back what is queued and was never sent; how many bytes.
    pub fn take_back(&mut self, id: ConnId, most: usize) -> usize {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.slots.get_mut(id).map_or(0, |slot| slot.tcp.take_back(most) as usize)
    }

    /// Bytes queued and not acknowledged.
    #[inline]
    pub fn unsent(&self, id: ConnId) -> usize {
        self.slots.get(id).map_or(0, |slot| slot.tcp.unsent() as usize)
    }

    /// Nothing more is sent: FIN follows what is queued.
    pub fn finish(&mut self, id: ConnId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.tcp.finish();
        self.make_ready(id.index() as u32);
    }

    /// Ends a connection at once, with a reset to the peer.
    pub fn abort(&mut self, id: ConnId) {
        let Some(slot) = self.slots.get(id) else { return };
        if slot.is_over() {
            cold_path();
            self.abort_over(id);
            return;
        }
        self.reset_connection(id);
        self.note_over(id, app::Closed::Aborted);
    }

    /// Has held bytes offered again in this turn.
    pub fn resume(&mut self, id: ConnId) {
        if self.slots.get(id).is_some() {
            self.events.resumed.push_back(id);
        }
    }

    /// Sets or clears the application's timer.
    #[inline]
    pub fn set_timer(&mut self, id: ConnId, at: Option<Time>) {
        let (now, now_ms) = (self.common.now, self.common.now_ms);
        let Some(slot) = self.slots.get_mut(id) else { return };
        // Rounded up: a timer is never early. Bounded, because milliseconds
        // are kept modulo 2³².
        let deadline = at.map(|at| {
            if at.as_nanos().saturating_sub(now.as_nanos()) >= MAX_WAIT_NS {
                return now_ms.wrapping_add(MAX_WAIT_MS);
            }
            let tick = at.max(now).as_nanos().div_ceil(NANOS_PER_MS) as u32;
            if tick == now_ms { tick.wrapping_add(1) } else { tick }
        });
        slot.set_app_timer(deadline);
        if !slot.is_over() {
            // Of one that is over, nothing but `on_close` comes any more; if
            // it lingers, its timer is entered then.
            self.schedule(id.index() as u32);
        }
    }

    /// Whether the application's timer is set.
    pub fn has_timer(&self, id: ConnId) -> bool {
        self.slots.get(id).is_some_and(|slot| slot.app_timer().is_some())
    }

    /// Something was queued, or not; `ready` says that the connection has its
    /// turn to send already, as while it is told of an arrival.
    #[inline(always)]
    fn queued(&mut self, id: ConnId, queued: Result<(), QueueFull>, ready: bool) {
        if queued.is_err() {
            cold_path();
            self.counters.send_queue_overflow += 1;
            self.abort(id);
            return;
        }
        if !ready {
            self.make_ready(id.index() as u32);
        }
    }

    /// Aborts a connection that has ended in this turn, which the application
    /// is still to hear. Where that was orderly, the end would otherwise wait
    /// for bytes to be read that nobody wants any more. There is nobody to
    /// reset (RFC 9293 section 3.10.5, TIME-WAIT: the state goes).
    fn abort_over(&mut self, id: ConnId) {
        let finished = |(of, why): &&mut (ConnId, app::Closed)| *of == id && *why == app::Closed::Finished;
        if let Some((_, why)) = self.events.over.iter_mut().find(finished) {
            *why = app::Closed::Aborted;
            self.reset_connection(id);
        }
    }

    /// Whether a connection's small segments wait for acknowledgements; new
    /// connections do as [`tcp::Config::nagle`] says.
    pub fn set_nagle(&mut self, id: ConnId, on: bool) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.tcp.set_nagle(on);
        if !on {
            // What waited may go.
            self.make_ready(id.index() as u32);
        }
    }

    /// The options of a connection that is there.
    pub fn options(&self, id: ConnId) -> Option<SocketOptions> {
        self.slots.get(id).map(|slot| slot.tcp.options())
    }

    /// What the network last said of a connection's peer, that it cannot be
    /// reached, if the peer has acknowledged nothing since; said once.
    pub fn take_unreachable(&mut self, id: ConnId) -> Option<Unreachable> {
        self.slots.get_mut(id)?.tcp.take_unreachable()
    }

    /// Sets a connection's options, in the turn of [`app::Net::connect`] where they
    /// are to count for its SYN.
    pub fn set_options(&mut self, id: ConnId, options: SocketOptions) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.tcp.set_options(&self.common.config, self.common.now, options);
        if slot.tcp.paced_until().is_some() {
            // Perhaps it waits for less now.
            self.make_ready(id.index() as u32);
        }
    }

    /// Sets the rate of what is queued on a connection from now on, or that it has none;
    /// whether the connection is there.
    pub fn set_rate(&mut self, id: ConnId, rate: Option<u64>) -> bool {
        let Some(slot) = self.slots.get_mut(id) else { return false };
        slot.tcp.set_rate(&self.common.config, self.common.now, rate);
        true
    }

    /// Whether a connection's segments that are not full wait until this is
    /// taken back (`TCP_CORK`).
    pub fn set_cork(&mut self, id: ConnId, on: bool) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.tcp.set_cork(&self.common.config, on);
        self.make_ready(id.index() as u32);
    }

    /// Whether more follows what is queued next on a connection (`MSG_MORE`).
    pub fn set_more(&mut self, id: ConnId, on: bool) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.tcp.set_more(&self.common.config, on);
        self.make_ready(id.index() as u32);
    }

    /// Keeps in-order bytes of an arrival that the application did not
    /// consume.
    pub fn hold(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let before = slot.tcp.buffered();
        slot.tcp.hold(&self.common.config, bytes);
        self.account(id.index() as u32, before);
    }

    /// Takes a connection's held bytes out, so that the application can be
    /// called with them; give them back by [`Tcp::put_held`] before others
    /// are taken.
    pub fn take_held(&mut self, id: ConnId) -> Option<ReceiveBuffer> {
        let slot = self.slots.get_mut(id)?;
        let bytes = slot.tcp.buffered();
        let held = slot.tcp.take_held()?;
        self.lend(bytes);
        Some(held)
    }

    /// Gives a connection's held bytes back: what the application did not take of them.
    pub fn put_held(&mut self, id: ConnId, held: ReceiveBuffer, took: bool) {
        let index = id.index() as u32;
        let Some(slot) = self.slots.get_mut(id) else { return self.write_off() };
        slot.tcp.put_held(&self.common.config, held);
        let wants = slot.tcp.wants_poll();
        let read = slot.lingers() && slot.tcp.held().is_empty();
        self.end_loan(index, took);
        if read {
            self.note_over(id, app::Closed::Finished);
        } else if wants {
            self.make_ready(index);
        }
    }

    /// In-order bytes that the application left unconsumed.
    pub fn held(&self, id: ConnId) -> usize {
        let held = |slot: &super::Slot| {
            if slot.tcp.is_sealed() { slot.tcp.held_opened() } else { slot.tcp.held().len() }
        };
        self.slots.get(id).map_or(0, held)
    }

    /// Whether what arrived for this connection is still the application's:
    /// it was neither reset nor aborted.
    #[inline]
    pub fn is_live(&self, id: ConnId) -> bool {
        self.slots.get(id).is_some_and(|slot| slot.tcp.state() != State::Closed)
    }

    /// Connections that wait in [`Tcp::poll_resumed`].
    pub fn resumed_len(&self) -> usize {
        self.events.resumed.len()
    }

    /// The next connection whose held bytes the application asked for.
    pub fn poll_resumed(&mut self) -> Option<ConnId> {
        while let Some(id) = self.events.resumed.pop_front() {
            if self.is_live(id) && self.slots.get(id).is_some_and(|slot| !slot.tcp.held().is_empty()) {
                return Some(id);
            }
        }
        None
    }
}
