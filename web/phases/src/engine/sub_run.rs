//! Subrequests run, and who asked for them goes on.

use super::Engine;
use super::course::CourseState;
use super::passing::Passing;
use super::sub_course::{SubId, SubResult};
use super::subs::{SubEvent, SubRecord, SubWork};
use super::within::SubReplies;
use app::Wake;
use exchange::{ExchangeId, Gone, Handler, Replies, Stop, UpstreamEvent, UpstreamId};
use features::ErrorLevel;

/// Bytes that are kept for a variable, whatever a place says.
const MEMORY_MAX: usize = 1 << 20;

/// nginx's number for an exchange that is over without a word.
const CLOSED: u16 = 444;

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
                SubWork::Begin(id, course) => {
                    if self.rest.place_sub(id, course) {
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
                    if self.rest.peek(token, id).is_some() {
                        self.go_on_any(replies, token);
                    }
                }
            }
        }
        left < STEPS_MAX
    }

    /// One that has waited goes on, be it a subrequest or not.
    pub(super) fn go_on_any(&mut self, replies: &mut dyn Replies, token: u32) {
        match self.rest.sub_at(token) {
            Some(id) => _ = self.with_sub(replies, id, |engine, within, token| engine.go_on(within, token)),
            None => self.go_on(replies, token),
        }
    }

    /// Runs some of a subrequest: `act` has its carrier and what it waits by.
    pub(super) fn with_sub<T>(
        &mut self,
        replies: &mut dyn Replies,
        id: SubId,
        act: impl FnOnce(&mut Self, &mut SubReplies<'_>, u32) -> T,
    ) -> Option<T> {
        let record = self.rest.subs.table.get(&id)?;
        let (token, main) = (record.token, record.main_at());
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
        let (main, mut goes_on) = (record.main_at(), true);
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
        self.rest.subs.table.insert(id, record);
        let is_over =
            self.rest.subs.table.get(&id).is_some_and(|one| self.rest.peek(one.token, id.exchange_id()).is_none());
        if is_over {
            self.rest.subs.remove(id);
        }
        if !goes_on {
            self.give_up(replies, main);
        }
    }

    /// The exchange cannot be answered: its connection is closed.
    fn give_up(&mut self, replies: &mut dyn Replies, (token, main): (u32, ExchangeId)) {
        let Some(course) = self.rest.peek(token, main) else { return };
        let inner = course.inner;
        let begun = course.state == CourseState::Sends;
        self.files.on_gone(main, inner, Gone::Cut);
        if !begun && let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_deref_mut) {
            course.sent.status = CLOSED;
        }
        self.rest.end(replies, token, false);
        // What was sent of it is known not to be all.
        if begun {
            replies.stop(main, Stop::Cut)
        } else {
            replies.stop(main, Stop::HangUp)
        }
        self.drop_subs(main);
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

    /// Something happened at the upstream of a subrequest.
    pub(super) fn on_upstream_of_sub(
        &mut self,
        replies: &mut dyn Replies,
        sub: SubId,
        (id, mark): (UpstreamId, u32),
        event: UpstreamEvent<'_>,
    ) -> usize {
        self.with_sub(replies, sub, |engine, within, _| engine.on_upstream_event(within, id, mark, event)).unwrap_or(0)
    }

    /// The client of a request sends no more, for which upstreams are asked: as nginx has it,
    /// it has left.
    #[cold]
    pub(super) fn on_client_left_within(&mut self, replies: &mut dyn Replies, id: ExchangeId) {
        let Some(token) = replies.mark(id) else { return };
        let Some(course) = self.rest.peek(token, id) else { return };
        let (begun, inner) = (course.state == CourseState::Sends, course.inner);
        let subs = self.rest.subs_of(id);
        let asked = subs.iter().filter_map(|sub| Some(self.rest.subs.table.get(sub)?.token)).collect::<Vec<u32>>();
        let matters = |token: u32| self.rest.relay_of(token).is_some_and(|relay| !relay.rules.ignores_client_end);
        if !asked.into_iter().any(matters) {
            return;
        }
        if !begun && let Some(course) = self.rest.course_of(replies, id) {
            (course.sent.status, course.told) = (LEFT, None);
        }
        self.files.on_gone(id, inner, Gone::Cut);
        self.rest.end(replies, token, false);
        replies.stop(id, if begun { Stop::Cut } else { Stop::HangUp });
        self.drop_subs(id);
    }

    /// All that an exchange has made is let go of, but for copies.
    pub(super) fn drop_subs(&mut self, main: ExchangeId) {
        for id in self.rest.subs_of(main) {
            let Some(record) = self.rest.subs.remove(id) else { continue };
            if self.rest.peek(record.token, id.exchange_id()).is_none() {
                continue;
            }
            let Some(course) = self.rest.courses.get_mut(record.token as usize).and_then(Option::take) else {
                continue;
            };
            self.files.on_gone(id.exchange_id(), course.inner, Gone::Cut);
            self.rest.give_back(record.token, course);
        }
    }
}

impl super::Rest {
    /// Who asked has the end of an answer. Whether it can go on.
    fn end_for_parent(&mut self, id: SubId, record: &mut SubRecord) -> bool {
        let parent = record.parent;
        let mut result = if record.is_mirror { SubResult::default() } else { self.subs.take_result(id) };
        if let Some((name, bytes)) = record.memory.take() {
            if result.is_too_long {
                return false;
            }
            let main = record.main_at();
            let main = self.courses.get_mut(main.0 as usize).and_then(Option::as_deref_mut);
            if let Some(main) = main.filter(|main| main.id == record.main && (200..300).contains(&result.status)) {
                main.ssi.get_or_insert_default().set(&name, bytes);
            }
        }
        if record.is_slice && !self.end_slice(parent, result.slice.take()) {
            return false;
        }
        self.end_placed(parent, id);
        let course = self.courses.get_mut(parent.0 as usize).and_then(Option::as_deref_mut);
        let children = course.filter(|course| course.id == parent.1).and_then(|course| course.children.as_deref_mut());
        if !record.is_mirror && children.is_some_and(|children| children.say(result)) {
            self.subs.work.push_back(SubWork::GoOn(parent.0, parent.1));
        }
        true
    }

    /// What a variable was to be set to is too long, whatever a place says.
    fn tell_of_memory(&self, record: &SubRecord) {
        let (token, id) = record.main_at();
        let Some(course) = self.peek(token, id) else { return };
        let Some(request) = &course.request else { return };
        let text = || b"too big subrequest response".to_vec();
        super::errors::tell((&course.loaded, course), &request.get(), &self.clock, (ErrorLevel::ERROR, text));
    }
}
