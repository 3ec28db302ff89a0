//! Requests of streams, and what becomes of one that fails.

use super::stream::Line;
use super::{PAUSE, Streaming};
use app::{Net, Receiving};
use core::time::Duration;

/// Methods of which a request may be sent again where nobody knows whether it was taken up (RFC 9110 section 9.2.2).
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

impl Streaming {
    /// A stream failed, in words: its connection ends, and it is started anew.
    pub(super) fn fail<N: Net>(&mut self, net: &mut N, number: usize, why: String) {
        self.measure.figures.failure = Some(why);
        let stream = &mut self.streams[number];
        self.measure.on_unanswered(net.now(), &mut stream.flow);
        self.handshakes -= u32::from(matches!(stream.line, Line::Connecting | Line::Securing));
        (stream.line, stream.pause) = (Line::Ending, PAUSE);
        if let Some(id) = stream.id {
            self.securing.remove(&id.index());
            net.abort(id);
        }
    }

    /// The same, while a connection is opened.
    pub(super) fn fail_connect<N: Net>(&mut self, net: &mut N, number: usize, why: String) {
        self.measure.figures.errors.connects += 1;
        self.streams[number].is_unconnected = true;
        self.fail(net, number, why);
    }

    /// Asks for what is next in turn.
    pub(super) fn ask<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let stream = &mut self.streams[number];
        let Some(id) = stream.id else { return };
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
        let stream = &mut self.streams[number];
        let request = &self.plan.load.requests[usize::from(stream.number)].item;
        if stream.answers == 0 || stream.came || !IDEMPOTENT.contains(&request.method.as_str()) {
            return false;
        }
        stream.next = stream.next.wrapping_sub(1);
        stream.pause = Duration::ZERO;
        stream.flow.take_back();
        self.measure.figures.reopened += 1;
        true
    }

    /// The player has no room: nothing is taken until it has.
    pub(super) fn pause<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let stream = &mut self.streams[number];
        let Some(id) = stream.id else { return };
        let until = stream.flow.has_room_at(now);
        stream.paused = Some(until);
        net.set_receiving(id, Receiving::Nothing);
        net.set_timer(id, Some(until));
    }
}
