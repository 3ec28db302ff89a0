//! Subrequests run, and who asked for them goes on.

use super::Engine;
use super::passing::Passing;
use super::request_state::{RequestStage, RequestState};
use super::subrequest::{SubId, SubUse};
use super::subs::{SubRecord, SubWork};
use super::within::SubReplies;
use app::Wake;
use exchange::{ExchangeId, Gone, Handler, Replies, Stop};

/// And for one whose client did not wait.
const LEFT: u16 = 499;

/// Steps of subrequests in a turn, at most.
const STEPS_MAX: usize = 32;

impl Engine {
    /// What is to be done about subrequests is, as far as a turn allows. Whether anything
    /// was.
    pub(super) fn run_subs(&mut self, replies: &mut dyn Replies) -> bool {
        let mut left = STEPS_MAX;
        while left > 0
            && let Some(work) = self.rest.subs.work.pop_front()
        {
            left -= 1;
            match work {
                SubWork::Begin(id, state) => {
                    if self.rest.place_sub(id, state) {
                        self.with_sub(replies, id, |engine, within, token| engine.go_on(within, token));
                    }
                }
                SubWork::Room(id, bytes) => {
                    if let Some(record) = self.rest.subs.table.get_mut(&id) {
                        record.unsent = record.unsent.saturating_sub(bytes);
                    }
                    self.with_sub(replies, id, |engine, within, _| engine.on_room(within, id.exchange_id()));
                }
                SubWork::Reached(id) => {
                    self.rest.wake_active(id);
                    self.with_sub(replies, id, |engine, within, _| engine.on_room(within, id.exchange_id()));
                }
                SubWork::GoOn(token, id) => {
                    if self.rest.requests.of((token, id)).is_some() {
                        self.go_on_any(replies, token);
                    }
                }
            }
        }
        left < STEPS_MAX
    }

    /// One that has waited goes on, be it a subrequest or not.
    pub(super) fn go_on_any(&mut self, replies: &mut dyn Replies, token: u32) {
        self.with_any(replies, token, |engine, replies| engine.go_on(replies, token));
    }

    /// The turn of files, some of which are for subrequests.
    #[cold]
    pub(super) fn on_files_turn(&mut self, replies: &mut dyn Replies) -> Wake {
        let mut table = core::mem::take(&mut self.rest.subs.table);
        let mut within = SubReplies { replies: &mut *replies, table: &mut table };
        let wake = self.files.on_turn(&mut Passing { replies: &mut within, rest: &mut self.rest });
        self.rest.subs.table = table;
        self.hand_over_all(replies);
        wake
    }

    /// When subrequests are to be looked after again.
    pub(super) fn subs_wake(&self) -> Wake {
        let rests = self.rest.subs.work.is_empty() && self.rest.makings.ready.is_empty() && !self.rest.has_place();
        if rests { Wake::Idle } else { Wake::Now }
    }

    /// The client of a request sends no more, for which upstreams are asked: as nginx has it,
    /// it has left.
    #[cold]
    pub(super) fn on_client_left_within(&mut self, replies: &mut dyn Replies, id: ExchangeId) {
        let Some(token) = replies.mark(id) else { return };
        let Some(state) = self.rest.requests.of((token, id)) else { return };
        let (begun, inner) = (state.wait.stage == RequestStage::Sends, state.wait.inner);
        let subs = self.rest.subs_of(id);
        let asked = subs.iter().filter_map(|sub| Some(self.rest.subs.table.get(sub)?.token)).collect::<Vec<u32>>();
        let matters = |token: u32| self.rest.relay_of(token).is_some_and(|relay| !relay.rules.ignores_client_end);
        if !asked.into_iter().any(matters) {
            return;
        }
        if !begun && let Some(state) = self.rest.requests.of_exchange(replies, id) {
            (state.sent.status, state.reply.override_status) = (LEFT, None);
        }
        self.files.on_gone(id, inner, Gone::Cut);
        self.rest.end(replies, token, false);
        replies.stop(id, if begun { Stop::Cut } else { Stop::HangUp });
        self.drop_subs(id);
    }
}

impl super::Rest {
    /// Gives a subrequest its place. Whether who asked is still there, or nobody is needed.
    fn place_sub(&mut self, id: SubId, mut state: Box<RequestState>) -> bool {
        let Some(sub) = state.within.sub.as_deref() else { return false };
        if !matches!(sub.purpose, SubUse::Mirror) && self.requests.of(sub.parent).is_none() {
            self.subs.forget(id);
            self.recycle(state);
            return false;
        }
        let token = self.requests.reserve();
        let record = SubRecord::new(sub, token);
        let ticket = self.tickets.next(token);
        state.body.iter_mut().for_each(|body| body.set_ticket(ticket));
        self.requests.put(token, state);
        self.subs.table.insert(id, record);
        true
    }
}
