//! Requests that are over: logged, counted no more, and their memory kept for others.

use super::Rest;
use super::log::CLIENT_LEFT;
use super::request_state::{RequestStage, RequestState};
use exchange::Replies;
use wire::Time;

/// That of a request whose body is read and will not be whole.
const BODY_CUT: u16 = 400;

impl Rest {
    /// One that was being sent is over.
    pub fn end(&mut self, replies: &mut dyn Replies, token: u32, complete: bool) {
        let Some(mut state) = self.requests.take(token) else { return };
        state.sent.complete = complete;
        state.wait.stage = RequestStage::Over;
        self.clock.now = replies.now();
        if state.loaded.asks_for_paths {
            state.client.path = replies.about(state.id).path;
        }
        if let Some(request) = state.request.take() {
            self.log(&mut state, &request.get());
        }
        self.give_back(token, state);
    }

    pub(super) fn give_back(&mut self, token: u32, state: Box<RequestState>) {
        self.requests.release(token);
        self.recycle(state);
    }

    pub(super) fn recycle(&mut self, mut state: Box<RequestState>) {
        // What it counted as, counts no more.
        self.end_sub(&mut state);
        state.features.limits.held.clear();
        if state.passed.left_behind.take().is_some() {
            self.left_behind.leave();
        }
        (state.reply.filtering, state.body, state.client.session) = (None, None, None);
        self.abandon(&mut state);
        self.spare.give_state(state);
    }

    /// Logs a request whose client has left: with what was sent of its answer, if that
    /// was begun.
    pub(super) fn log_left(&mut self, token: u32, unsent: u64, now: Time, status: u16) {
        let Some(mut state) = self.requests.take(token) else { return };
        if let Some(request) = state.request.take().filter(|_| state.wait.stage != RequestStage::Over) {
            state.sent.complete = false;
            if let Some(relay) = &mut state.passed.relay {
                // It was asked until now.
                relay.ask.note_end(now);
            }
            if state.wait.stage == RequestStage::Sends {
                state.sent.body = state.sent.body.saturating_sub(unsent);
            } else {
                let is_cut = state.body.as_ref().is_some_and(|body| body.is_read() && !body.ended);
                // By HTTP/2 that of one which is kept before anybody is asked is no more than a stream's end.
                let is_cut = is_cut && !(state.about.http2 && state.passed.relay.is_none());
                state.sent.status = if is_cut && status == CLIENT_LEFT { BODY_CUT } else { status };
            }
            self.clock.now = now;
            self.log(&mut state, &request.get());
        }
        self.requests.put(token, state);
    }
}
