//! Replies on their way from files to the carrier: what is sent of an answer is
//! counted, and logged at its end.

use super::Rest;
use super::filtered_body::Filtering;
use super::request_state::RequestStage;
use exchange::{
    About, ExchangeId, ExchangeSettings, Piece, Ready, Replies, Reply, ReplyEnd, ReplyFlow, Stop, Totals, Upstreams,
};
use semantics::Request;
use wire::Time;

/// What files see of the carrier.
pub(super) struct Passing<'a> {
    pub replies: &'a mut dyn Replies,
    pub rest: &'a mut Rest,
}

impl Passing<'_> {
    fn sent(&mut self, id: ExchangeId, bytes: u64) {
        if let Some(state) = self.rest.requests.of_exchange(self.replies, id) {
            state.sent.body += bytes;
        }
        self.moves(id);
    }

    /// What the content passes before it is sent, if anything.
    fn filtering(&mut self, id: ExchangeId) -> Option<&mut Filtering> {
        self.rest.requests.of_exchange(self.replies, id)?.reply.filtering.as_deref_mut()
    }

    /// There is more for it.
    fn make_ready(&mut self, id: ExchangeId) {
        if let Some(mark) = self.replies.mark(id) {
            self.rest.make_ready(mark);
        }
    }

    /// The file gives something.
    fn moves(&mut self, id: ExchangeId) {
        let now = self.replies.now();
        if let Some(state) = self.rest.requests.of_exchange(self.replies, id) {
            state.wait.moved = Some(now);
        }
    }

    fn over(&mut self, id: ExchangeId, complete: bool) {
        let Some(mark) = self.replies.mark(id) else { return };
        self.rest.end(self.replies, mark, complete);
    }
}

/// Files ask for none; nor, of replies, for what is left to the defaults here.
impl Upstreams for Passing<'_> {}

impl Replies for Passing<'_> {
    fn now(&self) -> Time {
        self.replies.now()
    }

    fn reply(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, body: &[Piece<'_>]) -> u64 {
        self.replies.reply(id, request, reply, body)
    }

    fn reply_ready(&mut self, id: ExchangeId, request: &Request<'_>, ready: &Ready) {
        self.replies.reply_ready(id, request, ready);
    }

    fn begin(&mut self, id: ExchangeId, request: &Request<'_>, reply: &Reply<'_>, end: ReplyEnd) -> u64 {
        if let Some(state) = self.rest.requests.of_exchange(self.replies, id)
            && let Some(mut filtering) = state.reply.filtering.take()
        {
            let head = filtering.begin(self.replies, id, request, reply);
            state.sent.head = head;
            state.reply.filtering = Some(filtering);
            return head;
        }
        let head = self.replies.begin(id, request, reply, end);
        if let Some(state) = self.rest.requests.of_exchange(self.replies, id) {
            state.sent.head = head;
        }
        head
    }

    fn body(&mut self, id: ExchangeId, piece: Piece<'_>) -> bool {
        if let Some(filtering) = self.filtering(id) {
            match piece {
                Piece::Bytes(bytes) => filtering.add_copy(bytes),
                Piece::Body(body, (start, end)) => filtering.add(body, start..end),
                // What passes a filter is read.
                Piece::File(..) => return false,
            }
            self.moves(id);
            self.make_ready(id);
            return true;
        }
        let queued = self.replies.body(id, piece);
        if queued {
            self.sent(id, piece.len());
        }
        queued
    }

    fn take_back(&mut self, id: ExchangeId, most: usize) -> usize {
        if self.filtering(id).is_some() {
            // What is queued is another content.
            return 0;
        }
        let taken = self.replies.take_back(id, most);
        if let Some(state) = self.rest.requests.of_exchange(self.replies, id) {
            state.sent.body = state.sent.body.saturating_sub(taken as u64);
        }
        taken
    }

    fn finish(&mut self, id: ExchangeId, trailers: &[u8]) {
        if let Some(filtering) = self.filtering(id) {
            if filtering.end() {
                self.make_ready(id);
            }
            return;
        }
        self.replies.finish(id, trailers);
    }

    fn pace(&mut self, id: ExchangeId, rate: u64) -> bool {
        self.replies.pace(id, rate)
    }

    fn end(&mut self, id: ExchangeId) {
        // What is logged is asked for while the exchange is.
        self.over(id, true);
        self.replies.end(id);
    }

    fn stop(&mut self, id: ExchangeId, how: Stop) {
        if how == Stop::Reset {
            self.rest.note_cut(self.replies, id);
        }
        if how != Stop::HangUp {
            self.over(id, false);
        }
        self.replies.stop(id, how);
    }

    fn read(&mut self, id: ExchangeId, most: Option<u64>) {
        self.replies.read(id, most);
    }

    fn about(&self, id: ExchangeId) -> About {
        self.replies.about(id)
    }

    fn totals(&self) -> Totals {
        self.replies.totals()
    }

    fn flow(&self, id: ExchangeId) -> ReplyFlow {
        let state = self.replies.mark(id).and_then(|mark| self.rest.requests.of((mark, id)));
        let waits = state.and_then(|state| state.reply.filtering.as_ref()).map_or(0, |filtering| filtering.pending());
        let flow = self.replies.flow(id);
        let room = if flow.is_bounded() { flow.room.saturating_sub(waits) } else { flow.room };
        ReplyFlow { unsent: flow.unsent + waits, room, ..flow }
    }

    /// The number is theirs; all else is said by who answers.
    fn set(&mut self, id: ExchangeId, settings: &ExchangeSettings) {
        if let Some(state) = self.rest.requests.of_exchange(self.replies, id) {
            state.wait.inner = settings.mark;
        }
    }

    fn mark(&self, id: ExchangeId) -> Option<u32> {
        let mark = self.replies.mark(id)?;
        self.rest.requests.of((mark, id)).filter(|state| state.wait.stage != RequestStage::Over)?.wait.inner
    }
}
