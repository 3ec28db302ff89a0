//! Streams that fail, and connections that end, whether they fail or are told to go.

use super::connections::Turn;
use crate::streaming::stream::Line;
use crate::streaming::{PAUSE, Streaming};
use app::{ConnId, Net};
use core::time::Duration;
use wire::Time;

/// Why no more answers come on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// It was closed: what was on its way then the server may not have seen.
    Closed,
    /// Nothing came for as long as a request may take.
    TimedOut,
    /// What came is no HTTP/2.
    Malformed,
}

impl Streaming {
    /// A stream failed, in words: the server is told if its answer is under way, and it asks for the next in turn
    /// after a pause. What it counts as is the caller's.
    pub(super) fn fail_stream<N: Net>(&mut self, net: &mut N, stream: usize, why: String) {
        let now = net.now();
        self.measure.figures.failure = Some(why);
        self.measure.on_unanswered(now, &mut self.streams[stream].flow);
        let Some((connection, place)) = self.shared.as_mut().and_then(|shared| shared.asked(stream)) else { return };
        let number = connection.carrier;
        if connection.client.places().any(|under_way| under_way == place) {
            connection.client.cancel(place, &mut connection.out);
        }
        self.rest(net, number, stream, now + PAUSE);
    }

    /// A connection is over, in words. Its streams ask on the next: what the server may not have seen for the same
    /// again, all else that was under way for the next in turn.
    pub(super) fn end_shared<N: Net>(&mut self, net: &mut N, id: ConnId, why: Loss, told: &str) {
        if why == Loss::Malformed {
            // The server is told (GOAWAY).
            self.flush(net, id);
        }
        let now = net.now();
        let Some(connection) = self.shared.as_mut().and_then(|shared| shared.remove(id)) else { return };
        let number = connection.carrier;
        let is_current = self.carriers[number].id == Some(id);
        if is_current {
            self.carriers[number].line = Line::Ending;
            self.forget_waits(number);
        }
        if !self.phase.starts() {
            return;
        }
        let may_repeat = why == Loss::Closed && connection.answers > 0;
        let lost = self.take_over(now, id, number, may_repeat);
        let errors = &mut self.measure.figures.errors;
        match why {
            Loss::Closed => errors.lost += lost,
            Loss::TimedOut => errors.timeouts += lost,
            Loss::Malformed => errors.malformed += lost.max(1),
        }
        let failed = lost > 0 || why != Loss::Closed;
        if failed {
            self.measure.figures.failure = Some(told.to_owned());
        }
        if is_current {
            self.measure.figures.reopened += u64::from(!failed);
            // One that was of no use is not followed by the next at once.
            let is_useless = failed || connection.answers == 0;
            self.carriers[number].pause = if is_useless { PAUSE } else { Duration::ZERO };
        } else {
            self.ask_waiting(net, number);
        }
    }

    /// The requests under way on a connection that is over are asked on the next. How many of them are lost.
    fn take_over(&mut self, now: Time, id: ConnId, number: usize, may_repeat: bool) -> u64 {
        let mut lost = 0;
        for stream in self.plan.carried(number) {
            let turn = self.shared.as_ref().map(|shared| shared.turn(stream));
            if !matches!(turn, Some(Turn::Asked { id: on, .. }) if on == id) {
                continue;
            }
            if may_repeat && self.is_repeatable(stream) {
                self.streams[stream].take_back();
            } else {
                lost += 1;
                self.measure.on_unanswered(now, &mut self.streams[stream].flow);
            }
            self.queue_up(now, number, stream);
        }
        lost
    }

    /// What streams wait for begins with the next connection.
    fn forget_waits(&mut self, number: usize) {
        for stream in &self.carriers[number].waiting {
            self.streams[*stream].flow.take_back();
        }
    }

    /// The server takes no further requests on a connection, and may say so twice (RFC 9113 section 6.8). Those that
    /// it has not processed, and all further ones, are sent on another.
    pub(super) fn on_go_away<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(connection) = self.shared.as_mut().and_then(|shared| shared.get(id)) else { return };
        let (number, is_useless) = (connection.carrier, connection.answers == 0);
        let mut unprocessed = Vec::new();
        while let Some(place) = connection.client.unprocessed() {
            unprocessed.push(connection.at(place));
        }
        if self.carriers[number].id == Some(id) {
            self.forget_waits(number);
            let carrier = &mut self.carriers[number];
            (carrier.id, carrier.line) = (None, Line::Closed);
            if self.phase.starts() {
                self.measure.figures.reopened += 1;
                let pause = if is_useless { PAUSE } else { Duration::ZERO };
                self.again.insert((now + pause, number));
            }
        }
        for stream in unprocessed {
            self.streams[stream].take_back();
            self.queue_up(now, number, stream);
        }
        // The next may be there already.
        self.ask_waiting(net, number);
    }

    /// Leaves a connection on which nothing is under way any more, and nothing will be. Whether it did.
    pub(super) fn leave_if_done<N: Net>(&mut self, net: &mut N, id: ConnId) -> bool {
        let connection = self.shared.as_mut().and_then(|shared| shared.get(id));
        let Some(connection) = connection.filter(|connection| connection.is_done()) else { return false };
        let number = connection.carrier;
        connection.client.leave(&mut connection.out);
        self.flush(net, id);
        self.shared.as_mut().and_then(|shared| shared.remove(id));
        let carrier = &mut self.carriers[number];
        if carrier.id == Some(id) {
            // All numbers of streams were used (section 5.1.1).
            carrier.line = Line::Ending;
            self.forget_waits(number);
        }
        net.finish(id);
        net.set_timer(id, Some(net.now() + self.plan.load.timeout));
        true
    }
}
