//! What subrequests are answered is handed to whoever asked for them.

use super::request_state::RequestStage;
use super::subrequest::{SubId, SubResult};
use super::subs::{SubEvent, SubRecord, SubWork};
use super::within::SubReplies;
use super::{Engine, Rest};
use exchange::{ExchangeId, Gone, Handler, Replies, Stop};
use features::ErrorLevel;

/// Bytes that are kept for a variable, whatever a place says.
const MEMORY_MAX: usize = 1 << 20;

/// nginx's number for an exchange that is over without a word.
const CLOSED: u16 = 444;

impl Engine {
    /// Runs some of a subrequest: `act` has its carrier and what it waits by.
    pub(super) fn with_sub<T>(
        &mut self,
        replies: &mut dyn Replies,
        id: SubId,
        act: impl FnOnce(&mut Self, &mut SubReplies<'_>, u32) -> T,
    ) -> Option<T> {
        let record = self.rest.subs.table.get(&id)?;
        let (token, main) = (record.token, record.main);
        let lent = self.rest.lend(id);
        let mut table = core::mem::take(&mut self.rest.subs.table);
        let done = act(self, &mut SubReplies { replies, table: &mut table }, token);
        self.rest.subs.table = table;
        if lent {
            self.rest.return_values((token, id), main);
        }
        self.hand_over(replies, id);
        Some(done)
    }

    /// Runs some of a request that waits by `token`, be it a subrequest or not: `act` has its carrier.
    pub(super) fn with_any<T: Default>(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        act: impl FnOnce(&mut Self, &mut dyn Replies) -> T,
    ) -> T {
        match self.rest.sub_at(token) {
            Some(id) => self.with_sub(replies, id, |engine, within, _| act(engine, within)).unwrap_or_default(),
            None => act(self, replies),
        }
    }

    /// Hands over what came of all of them, after something that is not one's own.
    pub(super) fn hand_over_all(&mut self, replies: &mut dyn Replies) {
        let told = self.rest.subs.table.iter().filter(|(_, record)| record.has_events()).map(|(id, _)| *id);
        for id in told.collect::<Vec<_>>() {
            self.hand_over(replies, id);
        }
    }

    /// Who asked for a subrequest has what came of it.
    fn hand_over(&mut self, replies: &mut dyn Replies, id: SubId) {
        let Some(mut record) = self.rest.subs.table.remove(&id) else { return };
        let (main, mut goes_on) = (record.main, true);
        for event in record.take_events() {
            goes_on = match event {
                SubEvent::HangUp => {
                    // Nobody asks for what it came to.
                    let _ = self.rest.subs.take_result(id);
                    record.is_mirror
                }
                SubEvent::Over => self.rest.end_for_parent(id, &mut record),
                SubEvent::Content(body, range) => {
                    match &mut record.memory {
                        Some((_, bytes)) if bytes.len() + range.len() > MEMORY_MAX => {
                            self.rest.tell_of_memory(&record);
                            goes_on = false;
                        }
                        Some((_, bytes)) => {
                            let some = body.as_slice().get(range.start as usize..range.end as usize);
                            bytes.extend_from_slice(some.unwrap_or_default());
                            record.unsent = record.unsent.saturating_sub(range.len());
                        }
                        None => self.rest.add_placed(record.parent, id, (body, range)),
                    }
                    goes_on
                }
            };
            if !goes_on {
                break;
            }
        }
        let is_over = self.rest.requests.of((record.token, id.exchange_id())).is_none();
        self.rest.subs.table.insert(id, record);
        if is_over {
            self.rest.subs.remove(id);
        }
        if !goes_on {
            self.give_up(replies, main);
        }
    }

    /// The exchange cannot be answered: its connection is closed.
    fn give_up(&mut self, replies: &mut dyn Replies, (token, main): (u32, ExchangeId)) {
        let Some(state) = self.rest.requests.of((token, main)) else { return };
        let inner = state.wait.inner;
        let begun = state.wait.stage == RequestStage::Sends;
        self.files.on_gone(main, inner, Gone::Cut);
        if !begun && let Some(state) = self.rest.requests.get_mut(token) {
            state.sent.status = CLOSED;
        }
        self.rest.end(replies, token, false);
        // What was sent of it is known not to be all.
        replies.stop(main, if begun { Stop::Cut } else { Stop::HangUp });
        self.drop_subs(main);
    }

    /// All that an exchange has made is let go of, but for copies.
    pub(super) fn drop_subs(&mut self, main: ExchangeId) {
        for id in self.rest.subs_of(main) {
            let Some(record) = self.rest.subs.remove(id) else { continue };
            if self.rest.requests.of((record.token, id.exchange_id())).is_none() {
                continue;
            }
            let Some(state) = self.rest.requests.take(record.token) else {
                continue;
            };
            self.files.on_gone(id.exchange_id(), state.wait.inner, Gone::Cut);
            self.rest.give_back(record.token, state);
        }
    }
}

impl Rest {
    /// Who asked has the end of an answer. Whether it can go on.
    fn end_for_parent(&mut self, id: SubId, record: &mut SubRecord) -> bool {
        let parent = record.parent;
        let mut result = if record.is_mirror { SubResult::default() } else { self.subs.take_result(id) };
        if let Some((name, bytes)) = record.memory.take() {
            if result.is_too_long {
                return false;
            }
            let main = self.requests.of_mut(record.main).filter(|_| (200..300).contains(&result.status));
            if let Some(main) = main {
                main.within.ssi.get_or_insert_default().set(&name, bytes);
            }
        }
        if record.is_slice && !self.end_slice(parent, result.slice.take()) {
            return false;
        }
        self.end_placed(parent, id);
        let children = self.requests.of_mut(parent).and_then(|state| state.within.children.as_deref_mut());
        if !record.is_mirror && children.is_some_and(|children| children.say(result)) {
            self.subs.work.push_back(SubWork::GoOn(parent.0, parent.1));
        }
        true
    }

    /// What a variable was to be set to is too long, whatever a place says.
    fn tell_of_memory(&self, record: &SubRecord) {
        let (token, id) = record.main;
        let Some(state) = self.requests.of((token, id)) else { return };
        let Some(request) = &state.request else { return };
        let text = || b"too big subrequest response".to_vec();
        super::errors::tell((&state.loaded, state), &request.get(), &self.clock, (ErrorLevel::ERROR, text));
    }
}
