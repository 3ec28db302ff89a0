//! How long requests wait for files where no carrier limits that; what becomes of those that have stands in `late`.

use super::Rest;
use super::request_state::RequestState;
use core::time::Duration;
use exchange::Replies;

/// The least that anybody waits.
const LEAST: Duration = Duration::from_millis(1);

impl RequestState {
    /// Whether it waits for a file, and nobody else ends that.
    pub(super) fn is_unlimited(&self) -> bool {
        let waits = self.wait.inner.is_some() || self.wait.login;
        waits && (self.within.sub.is_some() || self.settings.patient || self.reply.filtering.is_some())
    }

    /// How long a file may give nothing: `client_header_timeout` until its first byte, `send_timeout` from then on.
    pub(super) fn patience(&self) -> Duration {
        let program = &self.loaded.program;
        let patience = match self.wait.moved {
            Some(_) => program.block(self.route.block).map(|block| block.connection.send),
            None => program.server(self.route.server).map(|server| server.head.timeout),
        };
        patience.unwrap_or(Duration::from_secs(60)).max(LEAST)
    }
}

impl Rest {
    /// A request waits: no longer for a file than it may.
    pub(super) fn limit_wait(&mut self, replies: &dyn Replies, token: u32) {
        let Some(state) = self.requests.get_mut(token) else { return };
        if state.wait.limit.is_none() && state.is_unlimited() {
            let ticket = self.tickets.next(token);
            self.tickets.expire(ticket, replies.now() + state.patience());
            state.wait.limit = Some(ticket);
        }
    }
}
