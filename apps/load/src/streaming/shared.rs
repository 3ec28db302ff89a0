//! Over HTTP/2: connections that several streams share (RFC 9113).
//!
//! ```text
//! Waiting ─ the server takes one more ─► Asked ─ its answer is whole ─┐
//!    ▲  ▲                                  │ it fails                 │
//!    │  └── when the pause is over ─ Resting ◄──── no room ───────────┤
//!    └────────────────────────────────────── room ───────────────────┘
//! ```
//!
//! All that comes on a connection is read at once. What holds a server back is each stream's window
//! (section 5.2): where streams are played it has what their player's buffer has room for, and is opened
//! again as that is played, an eighth of the buffer at a time. So a stream whose buffer is full holds up
//! no other on its connection, and nothing of it lies in buffers of TCP.
//!
//! A connection that is told to go (section 6.8) keeps the streams whose answers are under way; the
//! others ask on another, which is opened at once.
//!
//! | file | what happens |
//! | --- | --- |
//! | this one | what the data path calls |
//! | `answers` | frames that come |
//! | `endings` | streams and connections that fail, or are told to go |
//! | `asking` | requests, windows, timers |
//! | `connections` | what is kept |

mod answers;
mod asking;
mod connections;
mod endings;

pub use connections::Shared;

use super::Streaming;
use super::stream::Line;
use app::{Closed, ConnId, Net};
use connections::Turn;
use endings::Loss;

impl Streaming {
    /// A connection is ready: what it begins with, and its first requests.
    pub(super) fn begin_shared<N: Net>(&mut self, net: &mut N, number: usize) {
        let now = net.now();
        let (Some(id), Some(shared)) = (self.carriers[number].id, &mut self.shared) else { return };
        shared.begin(id, number);
        let carrier = &mut self.carriers[number];
        carrier.line = Line::Shared;
        carrier.waiting.iter().for_each(|stream| self.streams[*stream].flow.ask(now));
        self.look_after(net, id);
    }

    /// The server sends no more: answers under way are cut off.
    pub(super) fn on_shared_end<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.end_shared(net, id, Loss::Closed, "the server closed a connection within its streams' answers");
        net.finish(id);
        net.set_timer(id, Some(net.now() + self.plan.load.timeout));
    }

    /// A connection is closed that was ready.
    pub(super) fn on_shared_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let told = format!("a stream's connection ended: {}", crate::bulk::word(why));
        self.end_shared(net, id, Loss::Closed, &told);
    }

    /// A connection is to be looked after: streams whose answers do not come, whose players have room again, or
    /// that have paused for long enough.
    pub(super) fn on_shared_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let (now, patience) = (net.now(), self.plan.load.timeout);
        let connection = self.shared.as_mut().and_then(|shared| shared.get(id));
        let Some(number) = connection.map(|connection| connection.carrier) else { return };
        let carried = self.plan.carried(number);
        let Some(shared) = &mut self.shared else { return };
        let is_asked =
            |shared: &Shared, stream: usize| matches!(shared.turn(stream), Turn::Asked { id: on, .. } if on == id);
        let asked: Vec<usize> = carried.filter(|stream| is_asked(shared, *stream)).collect();
        let mut quiet_for = |stream: &usize, time| shared.is_let_come(*stream) && now >= shared.heard(*stream) + time;
        let overdue: Vec<usize> = asked.iter().copied().filter(|stream| quiet_for(stream, patience)).collect();
        // They were not asked at one time: a connection is silent where nothing came on any for half of that.
        if !overdue.is_empty() && asked.iter().all(|stream| quiet_for(stream, patience / 2)) {
            self.end_shared(net, id, Loss::TimedOut, "the server sent nothing for as long as --timeout says");
            return net.abort(id);
        }
        for stream in overdue {
            self.measure.figures.errors.timeouts += 1;
            self.fail_stream(
                net,
                stream,
                "the server sent nothing of an answer for as long as --timeout says".to_owned(),
            );
        }
        self.look_after(net, id);
        // The last of one that was told to go may have been given up.
        self.leave_if_done(net, id);
    }
}
