//! What happens on connections that requests share, for each of them.

use super::Engine;
use asking::{AskLink, AskStage, StreamEvent, StreamId};
use exchange::{Replies, UpstreamEvent, UpstreamId};

/// Things that happened to streams, in a turn, at most.
const EVENTS_MAX: usize = 4_096;

impl Engine {
    /// Something happened at a connection that requests share. Of bytes, how many were taken.
    pub(super) fn on_shared_event(
        &mut self,
        replies: &mut dyn Replies,
        (id, mark): (UpstreamId, u32),
        event: UpstreamEvent<'_>,
    ) -> usize {
        let now = replies.now();
        let taken = self.rest.kept.on_event(&self.loaded.groups, (&mut *replies, id, mark), (event, now));
        self.run_streams(replies);
        taken
    }

    /// Requests go on by what happened to their streams; then what is to be sent goes out.
    pub(super) fn run_streams(&mut self, replies: &mut dyn Replies) {
        let mut left = EVENTS_MAX;
        while left > 0
            && let Some((mark, id, event)) = self.rest.kept.shared.poll_ready()
        {
            left -= 1;
            self.with_any(replies, mark, |engine, replies| engine.on_stream(replies, (mark, id), event));
        }
        if left > 0 {
            let now = replies.now();
            self.rest.kept.flush(&self.loaded.groups, replies, now);
        }
    }

    /// Something happened to the stream of a request.
    fn on_stream(&mut self, replies: &mut dyn Replies, (token, id): (u32, StreamId), event: StreamEvent) {
        match self.rest.stage_of(token, AskLink::Shared(id)) {
            // Nobody's any more.
            None => self.rest.kept.shared.release(id),
            Some(AskStage::Resolves | AskStage::Tunnel) => {}
            Some(AskStage::Connects | AskStage::Head) => self.on_early_stream(replies, (token, id), event),
            Some(AskStage::Body) => self.on_stream_body(replies, (token, id), event),
        }
    }

    /// Before the answer's body: the request goes on by it.
    fn on_early_stream(&mut self, replies: &mut dyn Replies, (token, id): (u32, StreamId), event: StreamEvent) {
        let StreamEvent::Came = event else {
            return self
                .run_early(replies, token, |runner| runner.ask_step(|ask, turn| ask.on_stream_event(turn, event)));
        };
        let inbox = self.rest.kept.shared.take_inbox(id);
        let mut taken = 0;
        self.run_early(replies, token, |runner| {
            let (all, flow) = runner.on_head_bytes(inbox.bytes());
            taken = all;
            flow
        });
        self.rest.kept.shared.give_inbox(id, inbox, taken);
        if self.rest.stage_of(token, AskLink::Shared(id)) == Some(AskStage::Body) {
            self.on_stream_body(replies, (token, id), StreamEvent::Came);
        }
    }

    /// While the answer's body comes.
    fn on_stream_body(&mut self, replies: &mut dyn Replies, (token, id): (u32, StreamId), event: StreamEvent) {
        let event = match event {
            StreamEvent::Room => UpstreamEvent::Room,
            StreamEvent::Timer => UpstreamEvent::Timer,
            _ => {
                let inbox = self.rest.kept.shared.take_inbox(id);
                let _ = self.rest.ask_for(replies, token, |ask, turn| ask.look_at_stream(turn));
                let taken = self.on_body_bytes(replies, token, inbox.bytes());
                self.rest.kept.shared.give_inbox(id, inbox, taken);
                return;
            }
        };
        self.on_body_event(replies, token, event);
    }
}
