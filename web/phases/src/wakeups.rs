//! Requests go on whose tickets come up: by the clock, or by what a helper has found out.

use super::Engine;
use exchange::Replies;
use features::compression::CompressedBodies;
use passwords::{Verdict, Verifier};

impl Engine {
    /// Those that were delayed long enough go on; whether any did.
    pub(super) fn wake_delayed(&mut self, replies: &mut dyn Replies) -> bool {
        let (now, mut any) = (replies.now(), false);
        while let Some(ticket) = self.rest.tickets.due(now) {
            any |= self.go_on_by(replies, ticket, None);
        }
        any
    }

    /// One that waits by a ticket goes on; whether it is still there.
    pub(super) fn go_on_by(&mut self, replies: &mut dyn Replies, ticket: u64, verdict: Option<Verdict>) -> bool {
        if let Some(token) = self.rest.requests.limited_by(ticket) {
            self.on_limit(replies, token);
            return true;
        }
        let Some((token, state)) = self.rest.requests.by_ticket(ticket) else { return false };
        state.wait.login = false;
        state.features.auth_basic.verdict = verdict;
        if state.reply.filtering.is_some() {
            self.rest.make_ready(token);
            return true;
        }
        self.go_on_any(replies, token);
        true
    }

    /// Those whose content was compressed go on.
    pub(super) fn take_compressed(&mut self, replies: &mut dyn Replies) -> bool {
        let mut any = false;
        while let Some(tickets) = self.rest.compressed.as_mut().and_then(CompressedBodies::take) {
            for ticket in tickets {
                any |= self.go_on_by(replies, ticket, None);
            }
        }
        any
    }

    /// Those whose passwords were looked at go on.
    pub(super) fn take_verdicts(&mut self, replies: &mut dyn Replies) -> bool {
        let mut any = false;
        while let Some((ticket, verdict)) = self.rest.verifier.as_mut().and_then(Verifier::take) {
            any |= self.go_on_by(replies, ticket, Some(verdict));
        }
        any
    }
}
