//! Requests that wait for a file which no carrier limits: those within others, and those that wait for others too
//! ([`patient`](exchange::ExchangeSettings::patient)). A disk may hang, and what is around them is to come to an end:
//! what was not found in time is answered 503, as where a carrier says so, and what is not read on is cut short.
//! nginx has no such limit: its worker waits for the disk.

use super::Engine;
use super::request_state::RequestStage;
use core::time::Duration;
use exchange::{Gone, Handler, Replies, Stop};
use features::ErrorLevel;

impl Engine {
    /// The patience of a request with a file may be at its end.
    #[cold]
    pub(super) fn on_limit(&mut self, replies: &mut dyn Replies, token: u32) {
        self.with_any(replies, token, |engine, replies| engine.end_wait(replies, token));
    }

    fn end_wait(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        state.wait.limit = None;
        if !state.is_unlimited() {
            return;
        }
        let (id, inner, sends) = (state.id, state.wait.inner, state.wait.stage == RequestStage::Sends);
        let now = replies.now();
        if sends {
            if replies.flow(id).unsent > 0 {
                // Nothing is read before its client takes some.
                state.wait.moved = Some(now);
            }
            let left = state.wait.moved.map_or(Duration::ZERO, |at| state.patience().saturating_sub(now.since(at)));
            if left > Duration::ZERO {
                let ticket = self.rest.tickets.next(token);
                self.rest.tickets.expire(ticket, now + left);
                state.wait.limit = Some(ticket);
                return;
            }
        }
        (state.wait.login, state.wait.ticket) = (false, None);
        self.files.on_gone(id, inner, Gone::Cut);
        if !sends {
            return self.refuse_late(replies, token);
        }
        self.with_runner(replies, token, |runner| {
            runner.tell(ErrorLevel::ERROR, || b"the file system did not answer in time".to_vec());
        });
        let is_main = self.rest.requests.get(token).is_some_and(|state| state.within.sub.is_none());
        self.rest.end(replies, token, false);
        replies.stop(id, Stop::Cut);
        if is_main {
            self.drop_subs(id);
        }
    }
}
