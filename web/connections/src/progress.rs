//! How exchanges of connections go on and end, as far as no protocol has a say in it.

use crate::beginnings::Beginnings;
use crate::conn::{DRY, ENDED, MARKED, PARTIAL, PAUSED, State, Tick};
use crate::exchanges::Exchange;
use crate::table::Connections;
use crate::trace;
use access_log::Log;
use app::{ConnId, Net};
use core::hint::cold_path;
use exchange::Ready;
use latency::Recorder;
use semantics::Status;
use wire::Time;

impl Connections {
    /// The end of an offer: what was left, and why.
    pub fn after_data<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, left: usize, paused: bool) {
        let now = net.now();
        let conn = &mut self.conns[id.index()];
        if !matches!(conn.state, State::Proxied | State::Ready | State::Body) {
            return;
        }
        if paused {
            conn.flags |= PAUSED;
            self.counters.back_pressure += 1;
            self.watch_progress(net, id);
            return;
        }
        if conn.flags & ENDED != 0 {
            // What was to come of a request never will.
            self.close_after_queue(net, id);
            return;
        }
        if left > 0 && conn.state == State::Ready && conn.flags & PARTIAL == 0 {
            conn.flags |= PARTIAL;
            conn.last = Tick::of(now);
            self.reading.add(id.index());
            let span = self.terms.head(conn.terms).timeout;
            self.arm(net, id, span);
        }
    }

    /// A response is queued, or its head.
    pub fn answered<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, head: usize, body: u64) {
        self.queued(id, head as u64 + body);
        let conn = &mut self.conns[id.index()];
        conn.requests = conn.requests.saturating_add(1);
        conn.last = Tick::of(net.now());
    }

    /// The last byte of a response is queued: on to the next, or the end.
    pub fn response_over<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId, goes_on: bool) {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Ready;
        conn.give_more(&mut self.spare);
        if !goes_on || conn.flags & DRY != 0 {
            self.close_after_queue(net, id);
        } else if net.unsent(id) > app::SEND_LOW_WATER {
            self.watch_progress(net, id);
        }
    }

    /// One more response with this status.
    pub fn count(&mut self, status: Status, request: bool) {
        self.counters.requests += u64::from(request);
        match status.code() {
            200..300 => self.counters.responses_2xx += 1,
            300..400 => self.counters.responses_3xx += 1,
            400..500 => self.counters.responses_4xx += 1,
            _ => self.counters.responses_5xx += 1,
        }
    }

    /// Tells of a reply that was begun, with what was sent of it: the log, and who traces.
    pub fn close_line(&mut self, id: ConnId, now: Time) {
        if let Some(more) = self.conns[id.index()].more.as_mut() {
            tell_of_end((&self.beginnings, &mut self.log), id, &mut more.exchange, now);
        }
    }

    /// What is no request was answered.
    pub fn record_rejected(&self, id: ConnId, status: Status, bytes: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.on_rejected(status.code(), bytes);
        }
        trace::refused(&self.beginnings, id, status, bytes);
    }

    /// A long response was queued: whether its peer takes it is watched, unless
    /// it is already.
    pub fn watch_long<N: Net + ?Sized>(&mut self, net: &mut N, id: ConnId) {
        if self.conns.get(id.index()).is_some_and(|conn| conn.flags & MARKED == 0)
            && net.unsent(id) > app::SEND_LOW_WATER
        {
            self.watch_progress(net, id);
        }
    }
}

/// Tells of a reply that was begun on a connection, with what was sent of it.
pub fn tell_of_end((beginnings, log): (&Beginnings, &mut Option<Log>), id: ConnId, exchange: &mut Exchange, now: Time) {
    trace::end((beginnings, Some(exchange)), id, now, None);
    if let (Some(line), Some(log)) = (exchange.line.take(), log) {
        log.close_line(&line, exchange.sent, now);
    }
}

/// A response that was ready was queued, of this `series` or of what has none of its `own`.
/// Without a recorder it is one comparison, and what is not wanted then is not kept for it.
#[inline(always)]
pub fn record_ready(recorder: &mut Option<Box<Recorder>>, own: &u16, series: u16, bytes: u32, now: Time) {
    if recorder.is_some() {
        cold_path();
        record_one(recorder, *own, series, bytes, now);
    }
}

#[inline(never)]
fn record_one(recorder: &mut Option<Box<Recorder>>, own: u16, series: u16, bytes: u32, now: Time) {
    if let Some(recorder) = recorder {
        let series = if series == Ready::OF_HOST { own } else { series };
        recorder.on_ready(series, bytes.into(), now);
    }
}
