//! Requests whose clients have gone, and whose upstreams are to finish all the same
//! (`proxy_ignore_client_abort`): nothing is sent any more, and the answer is read on as far as it
//! would wait for a client that takes none of it. Until then the request counts as one under way.

use super::Rest;
use super::request_state::{LeftBehind, RequestStage};
use asking::{AskStage, BodyEnd};
use exchange::{ExchangeId, Replies};

/// Such requests of a silo at a time; those of more clients end as those clients leave.
const MAX: usize = 4_096;

/// The requests of a silo that are left behind.
#[derive(Debug, Default)]
pub(super) struct LeftRequests {
    alive: usize,
    /// Those of this turn, which may have waited for their clients to take some.
    fresh: Vec<(u32, ExchangeId)>,
}

impl LeftRequests {
    /// Those that are to go on in this turn.
    pub fn take_fresh(&mut self) -> Vec<(u32, ExchangeId)> {
        core::mem::take(&mut self.fresh)
    }

    /// Whether some are to go on in the next turn.
    pub fn has_work(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// One is over.
    pub const fn leave(&mut self) {
        self.alive = self.alive.saturating_sub(1);
    }
}

impl Rest {
    /// The client of a request has gone, which has not taken so many bytes. Whether it goes on
    /// without it: all of it was read, it alone is asked for, and its place has it so.
    pub(super) fn leave_behind(&mut self, (token, id): (u32, ExchangeId), unsent: u64) -> bool {
        let Some(state) = self.requests.get_mut(token) else { return false };
        let Some(relay) = state.passed.relay.as_deref() else { return false };
        let ask = &relay.ask;
        let listens = relay.rules.ignores_client_end
            && matches!(ask.stage(), AskStage::Connects | AskStage::Head | AskStage::Body)
            && !ask.is_passing();
        let is_alone = state.within.children.is_none() && state.within.slices.is_none() && state.within.sub.is_none();
        let is_whole = state.body.as_deref().is_none_or(|body| body.ended);
        if !listens || !is_alone || !is_whole || self.left_behind.alive >= MAX {
            return false;
        }
        if state.wait.stage == RequestStage::Sends {
            state.sent.body = state.sent.body.saturating_sub(unsent);
        }
        state.passed.left_behind = Some(LeftBehind { room: ask.left_max() });
        state.reply.filtering = None;
        self.left_behind.alive += 1;
        self.left_behind.fresh.push((token, id));
        true
    }

    /// Takes some of an answer that goes to nobody. How many bytes were taken, and whether it is
    /// over: it is, too, where no more of it would have waited for a client.
    pub(super) fn take_left(&mut self, replies: &dyn Replies, token: u32, bytes: &[u8]) -> Option<(usize, BodyEnd)> {
        let now = replies.now();
        let state = self.requests.get_mut(token)?;
        let (left, relay) = (state.passed.left_behind.as_mut()?, state.passed.relay.as_deref_mut()?);
        let mut came = 0;
        let (taken, end) = relay.ask.read_body(now, bytes, usize::MAX, &mut |bytes| came += bytes.len());
        let is_too_long = came > left.room;
        left.room = left.room.saturating_sub(came);
        Some((taken, if is_too_long && end == BodyEnd::Not { BodyEnd::Whole(Vec::new()) } else { end }))
    }
}
