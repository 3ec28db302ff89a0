//! What is waited for, and who wakes whoever waits: nothing waits without saying so, and for
//! each of these there is one who keeps the promise.
//!
//! - [`On::Room`]: by [`Handler::on_room`](exchange::Handler::on_room), as what is queued for its
//!   client falls to [`app::SEND_LOW_WATER`], above which alone anybody waits so; where its carrier
//!   has no [room](exchange::ReplyFlow::room), as there is some; of a subrequest by
//!   [`SubWork::Room`](super::subs::SubWork), as who asked takes some.
//! - [`On::Source`]: by whoever gives the content or the word: an upstream's event, the client's
//!   body, a file's reader by [`Passing`](super::passing::Passing), a subrequest as what came of
//!   it is handed over.
//! - [`On::Helper`]: by a thread's answer, taken in the turn, with the ticket or the mark that it
//!   was asked with; where content is compressed by the clock, too, if that takes long.
//! - [`On::Place`]: by [`Rest::wake_line`], where a subrequest is over; by [`Rest::wake_active`],
//!   where its client waits for it from now on.
//! - [`On::Clock`]: by [`Rest::later`], with a ticket.
//!
//! Who is woken goes on in the engine's turn, and a data path takes another turn as long as
//! [`Handler::has_work`](exchange::Handler::has_work) says that somebody is.

use super::filtered_body::Filtering;
use super::request_state::RequestState;
use super::subrequest::{Permission, SubId};
use super::{Engine, Rest};
use asking::{AskLink, AskStage, IDLE, SHARED};
use exchange::{ExchangeId, UpstreamId};
use std::collections::VecDeque;
use wire::Time;

/// Subrequests of a silo from which on each request has but one at a time.
pub(super) const SUBS_OF_ALL: usize = 1_024;

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    /// Its client takes some of what is queued.
    Room,
    /// Whoever gives its content, or decides of it, goes on.
    Source,
    /// A helper thread answers.
    Helper,
    /// A silo has fewer subrequests, or it is next to be sent.
    Place,
    /// It is this time.
    Clock(Time),
}

/// What came of an answer that was asked for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pull {
    /// So many bytes were queued, and there may be more.
    Some(u64),
    /// There is no more before this.
    Waits(On),
    /// These bytes were the last.
    End(u64),
}

/// Those that wait for a place, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Line(VecDeque<(u32, ExchangeId)>);

impl Line {
    /// Whether nobody waits; some of those that do may be over.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl RequestState {
    /// Whether there is who gives content to an answer that waits for some.
    pub(super) fn has_source(&self, filtering: &Filtering) -> bool {
        let comes = self.passed.relay.as_deref().is_some_and(|relay| relay.ask.comes());
        let within = filtering.postponed.as_deref().is_some_and(|postponed| {
            // The next slice is asked for when the one before it is over.
            postponed.has_unfinished() || postponed.slices
        });
        comes || within || filtering.of_file
    }

    /// Whether a request that waits before its answer is known to whoever is to wake it.
    pub(super) fn is_awaited(&self, on: On) -> bool {
        let reads = self.body.as_deref().is_some_and(|body| body.is_read());
        match on {
            On::Clock(_) => self.wait.ticket.is_some(),
            On::Helper => self.wait.ticket.is_some() || self.wait.inner.is_some() || reads,
            On::Source => {
                let children = self.within.children.as_deref();
                let asks = matches!(children.map(|one| &one.permission), Some(Some(Permission::Asked { .. })));
                asks || reads || self.passed.relay.is_some()
            }
            // There is no answer yet.
            On::Room | On::Place => false,
        }
    }
}

impl Engine {
    /// Whether an exchange that its client does not hold up is ended by somebody, at the latest:
    /// an upstream's timer, a clock or a helper of its own, or one of those on which a request
    /// within it waits. For simulations, which know timers.
    #[must_use]
    pub fn is_timed(&self, id: ExchangeId, mark: u32, is_armed: &dyn Fn(UpstreamId) -> bool) -> bool {
        let Some(state) = self.rest.requests.of((mark, id)) else { return false };
        let relay = state.passed.relay.as_deref();
        let by_upstream = relay.is_some_and(|relay| {
            // Who resolves names has a time limit for each.
            let is_watched = |link| match link {
                AskLink::Own(id) => is_armed(id),
                AskLink::Shared(id) => self.rest.kept.shared.is_watched(id),
            };
            relay.ask.stage() == AskStage::Resolves || relay.ask.link().is_some_and(is_watched)
        });
        let in_line = state.reply.filtering.as_deref().is_some_and(|filtering| filtering.in_line);
        let within = || {
            let all = self.rest.subs.table.iter().filter(|(_, record)| record.parent == (mark, id));
            all.into_iter().any(|(sub, record)| self.is_timed(sub.exchange_id(), record.token, is_armed))
        };
        by_upstream || in_line || state.wait.ticket.is_some() || state.wait.inner.is_some() || within()
    }

    /// Whether the timer of a connection to an upstream is to be set whatever a client does, with
    /// so many bytes queued for it: while it is idle, and where it takes the bytes of a tunnel.
    #[must_use]
    pub fn needs_timer(&self, mark: u32, unsent: usize) -> bool {
        let state = self.rest.requests.get(mark);
        let relay = state.and_then(|state| state.passed.relay.as_deref());
        if mark & SHARED != 0 {
            return self.rest.kept.shared.rests(mark);
        }
        mark & IDLE != 0 || relay.is_none_or(|relay| relay.ask.stage() == AskStage::Tunnel && unsent > 0)
    }
}

impl Rest {
    /// An answer waits for a place among the subrequests of all.
    pub(super) fn stand_in_line(&mut self, token: u32, id: ExchangeId) {
        let line = &mut self.subs.line.0;
        if line.len() > self.requests.places() {
            // More than there are requests: most of them are over.
            let is_there =
                |state: &RequestState| state.reply.filtering.as_ref().is_some_and(|filtering| filtering.in_line);
            line.retain(|at| self.requests.of(*at).is_some_and(is_there));
        }
        line.push_back((token, id));
    }

    /// Each of those that stand in line goes on for whom there is a place.
    pub(super) fn wake_line(&mut self) {
        let mut places = SUBS_OF_ALL.saturating_sub(self.subs.alive);
        while places > 0
            && let Some((token, id)) = self.subs.line.0.pop_front()
        {
            places -= usize::from(self.leave_line(token, id));
        }
    }

    /// Whether there is a place for one that stands in line.
    pub(super) fn has_place(&self) -> bool {
        !self.subs.line.is_empty() && self.subs.alive < SUBS_OF_ALL
    }

    /// What a client waits for is the answer of this subrequest, from now on: it goes on, and
    /// what is next within it.
    pub(super) fn wake_active(&mut self, id: SubId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(token) = self.subs.table.get(&id).map(|record| record.token) else { return };
            let Some(state) = self.requests.of((token, id.exchange_id())) else { return };
            let placed = state.reply.filtering.as_deref().and_then(|filtering| filtering.postponed.as_deref());
            next = placed.and_then(|placed| placed.next_sub());
            let _ = self.leave_line(token, id.exchange_id());
        }
    }

    /// One that stands in line goes on; whether it did stand there. What is in the line of it
    /// is passed over.
    fn leave_line(&mut self, token: u32, id: ExchangeId) -> bool {
        let filtering = self.requests.of_mut((token, id)).and_then(|state| state.reply.filtering.as_deref_mut());
        let stood = filtering.is_some_and(|filtering| core::mem::take(&mut filtering.in_line));
        if stood {
            self.make_ready(token);
        }
        stood
    }
}
