//! Requests of streams, and what becomes of one that fails.

use super::stream::Line;
use super::{PAUSE, Streaming};
use app::{Net, Receiving};
use core::time::Duration;
use wire::Time;

/// Methods of which a request may be sent again where nobody knows whether it was taken up (RFC 9110 section 9.2.2).
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

impl Streaming {
    /// A connection failed, in words: it ends, and what it carried is started anew on another.
    pub(super) fn fail<N: Net>(&mut self, net: &mut N, number: usize, why: String) {
        self.measure.figures.failure = Some(why);
        self.on_unanswered(net.now(), number);
        let carrier = &mut self.carriers[number];
        self.handshakes -= u32::from(matches!(carrier.line, Line::Connecting | Line::Securing));
        (carrier.line, carrier.pause) = (Line::Ending, PAUSE);
        if let Some(id) = carrier.id {
            self.securing.remove(&id.index());
            net.abort(id);
        }
    }

    /// Nothing more comes of what a connection was asked. Those that share one ask for nothing while it is opened.
    pub(super) fn on_unanswered(&mut self, now: Time, number: usize) {
        if self.shared.is_none() {
            self.measure.on_unanswered(now, &mut self.streams[number].flow);
        }
    }

    /// The same as [`Streaming::fail`], while a connection is opened.
    pub(super) fn fail_connect<N: Net>(&mut self, net: &mut N, number: usize, why: String) {
        self.measure.figures.errors.connects += 1;
        self.carriers[number].is_unconnected = true;
        self.fail(net, number, why);
    }

    /// Asks for what is next in turn.
    pub(super) fn ask<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let (stream, carrier) = (&mut self.streams[number], &mut self.carriers[number]);
        let Some(id) = carrier.id else { return };
        carrier.line = Line::Asked;
        stream.begin_asking(self.order.at(stream.next));
        stream.flow.ask(now);
        if let Some(dialogue) = &mut self.dialogue {
            // There are no words to fill in, nor cookies: it is sent as it was written once.
            dialogue.begin(&self.plan.load.requests[usize::from(stream.number)].item, id, now);
        }
        self.mix.send(net, id, stream.number, false);
        net.set_timer(id, Some(now + self.plan.load.timeout));
    }

    /// The connection of a stream ended before anything came of what it asked for. Whether that is asked for again,
    /// on another connection: servers may close one that they keep at any time (RFC 9112 sections 9.3.1 and 9.5), and
    /// what was on its way then they have not seen.
    pub(super) fn take_back(&mut self, number: usize) -> bool {
        if self.carriers[number].answers == 0 || !self.is_repeatable(number) {
            return false;
        }
        self.carriers[number].pause = Duration::ZERO;
        self.streams[number].take_back();
        self.measure.figures.reopened += 1;
        true
    }

    /// Whether a stream may send its request again: nothing came of it, and it is one of which that does no harm.
    pub(super) fn is_repeatable(&self, number: usize) -> bool {
        let stream = &self.streams[number];
        let request = &self.plan.load.requests[usize::from(stream.number)].item;
        !stream.came && IDEMPOTENT.contains(&request.method.as_str())
    }

    /// The player has no room: nothing is taken until it has.
    pub(super) fn pause<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let stream = &mut self.streams[number];
        let Some(id) = self.carriers[number].id else { return };
        let until = stream.flow.has_room_at(now);
        stream.paused = Some(until);
        net.set_receiving(id, Receiving::Nothing);
        net.set_timer(id, Some(until));
    }
}
