//! Requests and responses: what happens once per request.

use super::mix::{ANY_LENGTH, ANY_STATUS};
use super::{DRAWS, Load, Phase};
use crate::checks::{Wrong, WrongAnswer, excerpt, keep_sample};
use crate::conn::State;
use crate::figures::Ended;
use crate::plan::Reuse;
use crate::samples::Class;
use app::{ConnId, Net};
use h1::client::Summary;
use semantics::Method;
use wire::Time;

/// The first request of a connection, where it is known before that is ready.
#[derive(Debug)]
pub(super) enum FirstRequest {
    /// It was drawn. To draw again would favour those that may be sent early.
    Drawn(u16),
    Sent(EarlyRequest),
}

/// A request that was sent before its connection's handshake was over.
#[derive(Debug)]
pub(super) struct EarlyRequest {
    /// Which of the plan's it is.
    pub number: u16,
    pub bytes: Box<[u8]>,
    pub sent: Time,
    /// Bytes of it that the server took.
    pub taken: usize,
}

impl Load {
    /// Sends one more request on a connection, if any may still be sent.
    #[inline]
    pub(super) fn ask<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.plain {
            self.ask_plain(net, id);
        } else if self.allowance > 0 {
            let now = net.now();
            self.ask_due(net, id, now);
        }
    }

    #[inline]
    fn ask_plain<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.allowance == 0 {
            return;
        }
        let now = net.now();
        self.allowance -= 1;
        self.counts.traffic.sent += 1;
        let timed = self.table.push(id, now);
        self.progress.sent(now);
        if self.single {
            net.send_body(id, &self.request, 0..self.request.len());
        } else {
            let number = self.mix.draw();
            self.counts.traffic.sent_bytes += u64::from(self.mix.send(net, id, number, false));
        }
        if !timed {
            net.set_timer(id, Some(now + self.plan.timeout));
        }
    }

    /// Sends one more request, one of several or due since `due`.
    pub(super) fn ask_due<N: Net>(&mut self, net: &mut N, id: ConnId, due: Time) {
        let now = net.now();
        self.allowance -= 1;
        self.counts.traffic.sent += 1;
        let number = self.mix.draw();
        let timed = match &mut self.http2 {
            None => self.table.push_kept(id, now, due, number),
            Some(http2) => {
                let before = http2.unsent();
                // It was looked for room.
                let Some(place) = http2.ask(id, number) else { return };
                self.counts.traffic.sent_bytes += (http2.unsent() - before) as u64;
                self.table.push_at(id, place, now, due, number)
            }
        };
        self.progress.sent(now);
        if self.open_loop.is_some() {
            self.samples.lag.record(now.as_nanos().saturating_sub(due.as_nanos()));
            let delayed = self.http2.as_ref().is_some_and(|http2| http2.going.delayed(due));
            self.counts.traffic.delayed_by_go_away += u64::from(delayed);
        }
        match &self.http2 {
            None => {
                let last = self.reuse.per_connection().is_some_and(|n| self.table.uses(id) >= n);
                self.counts.traffic.sent_bytes += u64::from(self.send(net, id, number, last));
            }
            Some(http2) if http2.is_holding() => {}
            Some(_) => self.flush(net, id),
        }
        if !timed {
            net.set_timer(id, Some(now + self.plan.patience()));
        }
    }

    /// The first requests on a new connection.
    pub(super) fn ask_first<N: Net>(&mut self, net: &mut N, id: ConnId, mut first: Option<FirstRequest>) {
        if self.http2.is_some() {
            return self.begin_http2(net, id);
        }
        self.busy += u32::from(self.mixing && self.allowance > 0);
        for _ in 0..self.plan.pipeline {
            match first.take() {
                Some(FirstRequest::Sent(early)) => self.after_early(net, id, early),
                Some(FirstRequest::Drawn(number)) => self.ask_drawn(net, id, number),
                None => self.again(net, id),
            }
        }
    }

    /// The first request of a connection that is not ready; with its bytes if it may be sent before the handshake
    /// is over, as nothing is lost if somebody sends it again (RFC 8470 section 4).
    pub(super) fn draw_early(&mut self, id: ConnId) -> Option<(u16, Option<Box<[u8]>>)> {
        // A place is kept for each connection that is not ready.
        if self.allowance < u64::from(self.handshakes) {
            return None;
        }
        let number = self.mix.draw();
        let is_safe = matches!(self.mix.kind(number).method, Method::Get | Method::Head);
        if !is_safe || !self.plan.requests[usize::from(number)].item.body.is_empty() {
            return Some((number, None));
        }
        let last = self.reuse.per_connection() == Some(1);
        Some((number, Some(self.mix.bytes(id, number, last).into())))
    }

    /// A connection is ready, and its first request was drawn before.
    fn ask_drawn<N: Net>(&mut self, net: &mut N, id: ConnId, number: u16) {
        if self.allowance == 0 {
            return;
        }
        let now = net.now();
        self.allowance -= 1;
        self.progress.sent(now);
        let last = self.reuse.per_connection() == Some(1);
        let bytes = self.mix.bytes(id, number, last).into();
        self.after_early(net, id, EarlyRequest { number, bytes, sent: now, taken: 0 });
    }

    /// A connection is ready whose first request was sent before: what its server did not take of that is sent
    /// again. Its time counts from the first.
    fn after_early<N: Net>(&mut self, net: &mut N, id: ConnId, early: EarlyRequest) {
        let EarlyRequest { number, bytes, sent, taken } = early;
        self.counts.traffic.sent += 1;
        self.counts.traffic.sent_bytes += bytes.len() as u64;
        let timed = if self.plain { self.table.push(id, sent) } else { self.table.push_kept(id, sent, sent, number) };
        if let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            net.send_bytes(id, rest);
        }
        if !timed {
            net.set_timer(id, Some(sent + self.plan.timeout));
        }
    }

    /// A connection may carry one more request.
    #[inline]
    pub(super) fn again<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.plain {
            self.ask_plain(net, id);
        } else {
            self.again_kept(net, id);
        }
    }

    fn again_kept<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.reuse.per_connection().is_some_and(|n| self.table.uses(id) >= n) {
            return;
        }
        if let Some(http2) = &mut self.http2
            && !http2.has_room(id)
        {
            return http2.drop_ticket(id);
        }
        if self.open_loop.is_some() {
            self.offer(net, id);
        } else {
            self.ask(net, id);
        }
    }

    /// The method of the oldest request on a connection.
    #[inline]
    pub(super) fn method(&self, id: ConnId) -> Method {
        if self.plain { self.only_method } else { self.mix.kind(self.table.oldest_kind(id)).method }
    }

    /// The oldest request of a connection is answered.
    #[inline]
    pub(super) fn on_response<N: Net>(&mut self, net: &mut N, id: ConnId, summary: Summary) {
        let code = summary.status.code();
        let class = if code.wrapping_sub(200) < 100 {
            self.counts.statuses.success += 1;
            Class::Success
        } else {
            self.count_status(code)
        };
        self.on_classed(net, id, summary, (class, false));
    }

    /// The same, by an answer that is known to be of this class, and counted; and perhaps to be wrong.
    #[inline]
    pub(super) fn on_classed<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        summary: Summary,
        (class, wrong): (Class, bool),
    ) {
        let now = net.now();
        if let Some(parts) = &mut self.parts
            && let Some(conn) = self.table.get(id)
            && let Some(total) = parts.on_response(id, conn.since, now)
        {
            self.samples.total.record(total);
        }
        let mut expect_length = self.expect_length;
        if self.plain {
            let sent = self.table.pop(id);
            self.progress.ended(sent);
            self.samples.classes[class as usize].record(now.as_nanos().saturating_sub(sent));
        } else {
            expect_length = ANY_LENGTH;
            self.note_response(id, now, (class, wrong), &summary);
        }
        self.counts.traffic.responses += 1;
        self.counts.traffic.body_bytes += summary.body;
        if expect_length != ANY_LENGTH && summary.body != expect_length {
            self.on_wrong_length(0, &summary);
            self.count_wrong(class);
        }
        self.done(now, 1);
        if self.reuse != Reuse::KeepAlive || !summary.keep_alive {
            self.on_used(net, id, summary.keep_alive);
        } else if self.mixing {
            self.pass_on(net, id);
        } else {
            self.again(net, id);
        }
    }

    /// As for a plain response, with what is kept of its request.
    fn note_response(&mut self, id: ConnId, now: Time, (class, wrong): (Class, bool), summary: &Summary) {
        let number = self.table.oldest_kind(id);
        let kind = self.mix.kind(number);
        let wrong_status = kind.expect_status != ANY_STATUS && kind.expect_status != summary.status.code();
        let wrong_length = kind.expect_length != ANY_LENGTH && kind.expect_length != summary.body;
        let mut wrong = wrong || wrong_status || wrong_length;
        if wrong_status {
            self.on_wrong_status(number, summary);
        }
        if wrong_length {
            self.on_wrong_length(number, summary);
        }
        if let Some(dialogue) = &mut self.dialogue {
            wrong |= core::mem::take(&mut dialogue.wrong);
        }
        if wrong {
            self.count_wrong(class);
        }
        if let Some(rows) = &mut self.rows {
            rows.content(number, summary.body);
            if wrong {
                rows.wrong(number);
            }
        }
        self.end_oldest(id, now, class);
    }

    /// A response was not as it was to be, in whatever way.
    #[cold]
    fn count_wrong(&mut self, class: Class) {
        self.counts.traffic.wrong += 1;
        self.counts.traffic.wrong_success += u64::from(class == Class::Success);
    }

    /// A response to request `number` has another length than it was to have.
    #[cold]
    fn on_wrong_length(&mut self, number: u16, summary: &Summary) {
        self.counts.errors.wrong_length += 1;
        self.sample_wrong(number, Wrong::Length, summary);
    }

    #[cold]
    fn on_wrong_status(&mut self, number: u16, summary: &Summary) {
        self.counts.errors.wrong_status += 1;
        self.sample_wrong(number, Wrong::Status, summary);
    }

    pub(super) fn sample_wrong(&mut self, number: u16, wrong: Wrong, summary: &Summary) {
        let (requests, plain) = (&self.plan.requests, self.plain);
        keep_sample(&mut self.wrong_answers, wrong, || {
            let request = &requests[usize::from(number)].item;
            let one_of = if plain && requests.len() > 1 { "one of several as " } else { "" };
            WrongAnswer {
                request: format!("{one_of}{} {}", request.method, excerpt(request.path.as_bytes())),
                wrong,
                status: summary.status.code(),
                came: format!("{} bytes", summary.body),
            }
        });
    }

    /// The oldest request of a connection has ended: its samples.
    pub(super) fn end_oldest(&mut self, id: ConnId, now: Time, class: Class) {
        let due = self.table.oldest_due(id);
        let number = self.table.oldest_kind(id);
        let sent = self.table.pop(id);
        self.progress.ended(sent);
        let since = |start: u64| now.as_nanos().saturating_sub(start);
        self.samples.classes[class as usize].record(since(due.unwrap_or(sent)));
        if let Some(rows) = &mut self.rows {
            rows.end(number, class, since(due.unwrap_or(sent)));
        }
        if due.is_some() {
            // Of the same requests as the time since they were due.
            let samples = &mut self.samples;
            let service = if class.is_latency() { &mut samples.service } else { &mut samples.service_failed };
            service.record(since(sent));
        }
    }

    /// All requests of a connection have ended without a response. Answers
    /// their number. The connection is idle then.
    pub(super) fn end_all(&mut self, id: ConnId, now: Time, class: Class) -> u8 {
        let asked = self.table.get(id).map_or(0, |conn| conn.asked);
        let places: Vec<u16> = self.http2.iter().flat_map(|http2| http2.places(id)).collect();
        for turn in 0..asked {
            if let Some(place) = places.get(usize::from(turn)) {
                self.table.set_oldest(id, *place);
            }
            self.end_oldest(id, now, class);
        }
        asked
    }

    #[cold]
    pub(super) fn count_status(&mut self, code: u16) -> Class {
        let class = Class::of_status(code);
        self.counts.statuses.too_early += u64::from(code == 425);
        self.count_class(class);
        class
    }

    /// Counts a response of a class.
    pub(super) fn count_class(&mut self, class: Class) {
        let statuses = &mut self.counts.statuses;
        *match class {
            Class::Success => &mut statuses.success,
            Class::Redirection => &mut statuses.redirection,
            Class::ClientError => &mut statuses.client_error,
            Class::ServerError => &mut statuses.server_error,
            Class::Other | Class::Failed | Class::TimedOut => &mut statuses.other,
        } += 1;
    }

    /// `n` requests were answered or failed.
    #[inline]
    pub(super) fn done(&mut self, now: Time, n: u64) {
        self.quota = self.quota.saturating_sub(n);
        if self.quota == 0 {
            self.on_quota(now);
        }
    }

    #[cold]
    fn on_quota(&mut self, now: Time) {
        if let Phase::Window { .. } = self.phase {
            self.end(now, Ended::AsPlanned);
        } else {
            // Enough to be warm: the next turn looks whether it was long
            // enough, too.
            self.quota = u64::MAX;
            self.warm = true;
            self.look_up();
        }
    }

    /// A connection is idle again: it asks again, or hands its turn to one
    /// drawn at random.
    #[inline]
    pub(super) fn pass_on<N: Net>(&mut self, net: &mut N, id: ConnId) {
        if self.busy > self.busy_wanted || self.allowance == 0 {
            self.busy -= 1;
            return;
        }
        let drawn = if self.plan.mix { self.draw_idle() } else { None };
        let next = drawn.unwrap_or(id);
        self.ask(net, next);
    }

    /// An idle connection, each with the same probability.
    #[inline]
    pub(super) fn draw_idle(&mut self) -> Option<ConnId> {
        let slots = self.table.slots() as u32;
        for _ in 0..if slots == 0 { 0 } else { DRAWS } {
            let slot = self.random.below(slots);
            let (id, conn) = self.table.at(slot as usize);
            if conn.state == State::Idle {
                return Some(id);
            }
        }
        None
    }

    /// A response came on a connection whose uses are counted, or that the
    /// server means to close.
    fn on_used<N: Net>(&mut self, net: &mut N, id: ConnId, keep_alive: bool) {
        let wanted = self.reuse.per_connection().unwrap_or(u32::MAX);
        let asked = self.table.get(id).map_or(0, |conn| conn.asked);
        if wanted == 1 || !keep_alive || (self.table.uses(id) >= wanted && asked == 0) {
            self.on_last_response(net, id);
        } else if self.table.uses(id) >= wanted {
            // The responses to the last requests are still to come.
        } else if self.mixing {
            self.pass_on(net, id);
        } else {
            self.again(net, id);
        }
    }

    /// The connection carries no further request.
    pub(super) fn on_last_response<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let client_closes = matches!(self.reuse, Reuse::ClientCloses | Reuse::ClientClosesAfter(_));
        // RFC 9112 §9.6: nothing behind a `close` is answered.
        let unanswered = u64::from(self.end_all(id, now, Class::Failed));
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        conn.state = State::Awaiting;
        conn.since = now.as_nanos();
        self.busy -= u32::from(self.mixing);
        if unanswered > 0 {
            self.counts.errors.unanswered += unanswered;
            self.done(now, unanswered);
        }
        // Over HTTP/2 a server says that it goes, and the client closes.
        if client_closes || self.http2.is_some() {
            self.leave(net, id);
        }
    }

    /// The peer finished, perhaps within a response: so do we.
    pub(super) fn on_peer_finished<N: Net>(&mut self, net: &mut N, id: ConnId, within: bool) {
        let now = net.now();
        if self.table.get(id).is_some_and(|conn| conn.state == State::Busy) {
            let asked = self.end_all(id, now, Class::Failed);
            let within = u64::from(within && asked > 0);
            self.counts.errors.truncated += within;
            self.counts.errors.unanswered += u64::from(asked) - within;
            self.on_failed(now, asked);
        }
        self.leave(net, id);
    }

    /// Bytes that answer nothing, on a connection of ours.
    #[cold]
    pub(super) fn on_unasked<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let leaving = self.table.get(id).is_none_or(|conn| conn.state == State::Leaving);
        if !leaving {
            self.counts.errors.unasked += 1;
            self.on_malformed(net, id);
        }
    }

    /// What came is not to be trusted, nor is what would follow.
    #[cold]
    pub(super) fn on_malformed<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let asked = self.table.get(id).map_or(0, |conn| conn.asked);
        self.counts.errors.malformed += u64::from(asked);
        self.give_up(net, id);
    }

    /// `asked` requests of one connection will not be answered.
    pub(super) fn on_failed(&mut self, now: Time, asked: u8) {
        self.busy -= u32::from(self.mixing);
        self.done(now, u64::from(asked));
    }

    /// A connect, a response or the peer's FIN did not come in time.
    pub(super) fn on_overdue<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(conn) = self.table.get_mut(id) else {
            return;
        };
        match conn.state {
            State::Free | State::Idle => {}
            State::Busy if self.plan.patience() < self.plan.timeout => self.end_overdue_calls(net, id),
            State::Busy => {
                // Each request is a sample of the time it has waited: the
                // slowest requests must not be missing from the percentiles.
                let asked = u64::from(self.end_all(id, now, Class::TimedOut));
                self.counts.errors.timeouts += asked;
                self.done(now, asked);
                self.busy -= u32::from(self.mixing);
                self.give_up(net, id);
            }
            State::Awaiting => {
                self.counts.errors.unclosed += 1;
                self.give_up(net, id);
            }
            State::Connecting | State::Securing | State::Leaving => net.abort(id),
        }
    }
}
