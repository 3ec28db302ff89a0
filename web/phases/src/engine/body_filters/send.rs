//! Answers whose content passes filters on its way, or is sent in chunks for another
//! reason: they are made a piece at a time, as their clients take them, within a
//! budget of each turn.

use crate::engine::course::{Course, CourseState};
use crate::engine::filtered_body::{AnswerLength, Filtering, Made, Making};
use crate::engine::passing::Passing;
use crate::engine::run::{Flow, Runner};
use crate::engine::text::put_field;
use crate::engine::values::{Clock, Scope};
use crate::engine::waits::{On, Pull};
use crate::engine::{Engine, Rest};
use crate::filters::{Broken, FilterValues, Include, SsiValues};
use crate::program::Block;
use app::{Body, Wake};
use core::ops::Range;
use core::time::Duration;
use exchange::{ExchangeId, Gone, Handler, Piece, Replies, Reply, Stop};
use files::Rate;
use std::rc::Rc;

/// What filters may cost in a turn, for all answers together, in about nanoseconds.
const TURN: u64 = 500_000;

/// And for one answer before others have their turn.
const SHARE: u64 = 200_000;

/// Output that is made at once, bytes.
const PIECE: usize = 32 << 10;

/// Content up to so many bytes that is at hand, and what becomes of it up to so many,
/// is answered as a whole.
const WHOLE_MAX: u64 = 32 << 10;
const WHOLE_OUT_MAX: usize = 256 << 10;

/// Answers that are looked after in a turn, at most.
const POLLED: usize = 32;

/// The shortest time between two pieces of what is sent at a rate.
const STEP: Duration = Duration::from_millis(20);

impl Runner<'_> {
    /// Sends what is made of content: at once, if that is short and at hand; else its
    /// head, and the rest as it is taken.
    pub(in crate::engine) fn make(
        &mut self,
        making: Making,
        (length, pace): (AnswerLength, Option<Rate>),
        content: Vec<(Body, Range<u32>)>,
        (of_file, comes): (bool, bool),
    ) -> Made {
        let bytes: usize = content.iter().map(|(_, range)| range.len()).sum();
        let pace = pace.map(|rate| (rate, self.clock.now));
        let mut filtering =
            Filtering::new(&self.rest.makings, making.pipeline, (length, pace), content, (of_file, comes));
        let adds = making.postponed.as_ref().is_some_and(|postponed| postponed.adds());
        filtering.postponed = making.postponed;
        // Nothing is made of it that its client does not take.
        let fits = bytes <= self.replies.flow(self.course.id).room;
        let whole = !of_file && !comes && bytes as u64 <= WHOLE_MAX && pace.is_none() && !adds && fits;
        if whole && !filtering.pipeline.is_empty() && !self.expects_trailers() {
            let mut out = Vec::new();
            let mut budget = TURN;
            if filtering.postponed.is_some() {
                return self.make_with_includes(filtering);
            }
            match filtering.step((&mut out, WHOLE_OUT_MAX), &mut budget, &mut self.scope()) {
                Ok(true) => {
                    self.course.features.compression.lengths = filtering.pipeline.encoded().map(|whole| (whole, 0));
                    filtering.pipeline.give_back(&mut self.rest.encoders);
                    return Made::Whole(out);
                }
                Ok(false) => {
                    let out = Body::new(out);
                    return Made::Begun(filtering, Some(out).filter(|out| !out.is_empty()));
                }
                Err(Broken) => return Made::Broken,
            }
        }
        Made::Begun(filtering, None)
    }

    /// The same of content that may have others within it: if it has none, it is whole.
    fn make_with_includes(&mut self, mut filtering: Filtering) -> Made {
        let (mut out, mut budget) = (Vec::new(), TURN);
        let made = filtering.step((&mut out, WHOLE_OUT_MAX), &mut budget, &mut self.scope());
        let Ok(ended) = made else { return Made::Broken };
        let Some(postponed) = &mut filtering.postponed else { return Made::Broken };
        let include = self.course.include.take();
        if ended && include.is_none() {
            let mut coded = Vec::new();
            let whole = out.len();
            if postponed.coding.is_empty() {
                coded = out;
            } else {
                let mut at = 0;
                loop {
                    let input = out.get(at..).unwrap_or_default();
                    let mut budget = u64::MAX;
                    let ran =
                        postponed.coding.run((input, true), (&mut coded, usize::MAX), &mut budget, &mut self.scope());
                    match ran {
                        Ok(ran) if ran.ended => break,
                        Ok(ran) if ran.taken > 0 => at += ran.taken,
                        _ => return Made::Broken,
                    }
                }
                self.course.features.compression.lengths = Some((whole as u64, 0));
                postponed.coding.give_back(&mut self.rest.encoders);
            }
            filtering.pipeline.give_back(&mut self.rest.encoders);
            return Made::Whole(coded);
        }
        postponed.push_own(out);
        if let Some(include) = include {
            self.course.depends.on(crate::engine::course::Depends::OTHER);
            self.replies.be_patient(self.course.id);
            self.rest.place((self.token, self.course), self.request, postponed, *include);
        }
        Made::Begun(filtering, None)
    }

    /// Begins an answer whose content comes as it is made.
    pub(in crate::engine) fn begin_made(
        &mut self,
        mut filtering: Filtering,
        first: Option<&Body>,
        reply: &Reply<'_>,
    ) -> Flow {
        let id = self.course.id;
        self.course.sent.head = filtering.begin(self.replies, id, self.request, reply);
        if let Some(body) = first {
            self.replies.body(id, Piece::Body(body, (0, body.len())));
            self.course.sent.body += u64::from(body.len());
            filtering.told += u64::from(body.len());
        }
        self.course.filtering = Some(Box::new(filtering));
        self.course.state = CourseState::Sends;
        Flow::Done
    }

    /// Content is not made with this: what is used again is.
    pub(in crate::engine) fn spare(&mut self, mut making: Making) {
        making.pipeline.give_back(&mut self.rest.encoders);
    }

    /// Whether fields follow the body.
    pub(in crate::engine) fn expects_trailers(&self) -> bool {
        let Some(at) = Self::block(&self.loaded, self.course).filter(|_| self.course.sub.is_none()) else {
            return false;
        };
        expects_trailers(&self.loaded.program.blocks[at], self.course.sent.status)
    }
}

/// Whether fields follow the body of an answer with this status.
fn expects_trailers(block: &Block, status: u16) -> bool {
    let safe = crate::engine::reply::is_added_to(status);
    block.fields.trailers.iter().any(|field| safe || field.always)
}

impl FilterValues for Scope<'_> {
    fn named(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let loaded = self.loaded;
        let (number, found) = loaded.program.variables.find(name)?;
        let mut out = Vec::new();
        self.write_found(number, &found, &mut out).then_some(out)
    }

    fn second(&mut self) -> u64 {
        self.clock.second
    }

    fn tell(&mut self, fault: &dyn Fn() -> Vec<u8>) {
        Scope::tell(self, fault);
    }

    fn ssi(&mut self) -> &mut SsiValues {
        self.course.ssi.get_or_insert_default()
    }

    fn path(&mut self) -> Vec<u8> {
        self.course.uri.clone()
    }

    fn include(&mut self, include: Include) -> bool {
        if let Some(why) = self.course.refuses_sub() {
            let (_, text) = why.told(&include.uri);
            Scope::tell(self, || text);
            return false;
        }
        self.course.include = Some(Box::new(include));
        true
    }

    fn waits(&self) -> bool {
        self.course.include.is_some()
    }
}

impl Course {
    /// What its filters and trailers ask for.
    pub(in crate::engine) fn with_scope<T>(
        &mut self,
        clock: &Clock,
        act: impl FnOnce(&mut Scope<'_>) -> T,
    ) -> Option<T> {
        let request = self.request.take()?;
        let loaded = Rc::clone(&self.loaded);
        let done = {
            let request = request.get();
            let mut scope =
                Scope { loaded: &loaded, course: self, request: &request, clock, depth: 0, escapes_captures: false };
            act(&mut scope)
        };
        self.request = Some(request);
        Some(done)
    }

    /// The fields behind the body, as lines.
    fn trailers(&mut self, clock: &Clock) -> Vec<u8> {
        let loaded = Rc::clone(&self.loaded);
        let Some(block) = loaded.program.blocks.get(self.block.0 as usize) else { return Vec::new() };
        let safe = crate::engine::reply::is_added_to(self.sent.status);
        // As nginx has it, those of the upstream come first.
        let mut lines = self.passed_trailers(block);
        self.with_scope(clock, |scope| {
            for field in block.fields.trailers.iter().filter(|field| safe || field.always) {
                // Each may be made of those before it.
                scope.course.sent.trailers.clone_from(&lines);
                let value = scope.get(&field.value);
                if !value.is_empty() {
                    put_field(&field.name, &value, &mut lines);
                }
            }
        });
        self.sent.trailers.clone_from(&lines);
        lines
    }
}

/// What comes of an answer in a turn.
enum Progress {
    /// It waits for this.
    Waits(On),
    /// There was no time for more.
    Hungry,
    /// All is queued.
    Finished,
    /// It cannot be sent to its end.
    Broken,
    /// It ends before its end.
    Cut,
}

impl Engine {
    /// An answer that is made has its first turn.
    pub(in crate::engine) fn begin_making(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(id) = self.rest.courses.get(token as usize).and_then(Option::as_ref).map(|course| course.id) else {
            return;
        };
        self.make_more(replies, token);
        if self.rest.is_made(token, id) {
            self.rest.makings.list.push((token, id));
        }
    }

    /// Each turn: those who can go on do, as far as there is time. The data path tells
    /// of room only when the queue is nearly empty: some of the others are asked.
    pub(in crate::engine) fn make_all(&mut self, replies: &mut dyn Replies) -> Wake {
        self.rest.makings.left = TURN;
        if !self.rest.subs.line.is_empty() {
            self.rest.wake_line();
        }
        while self.rest.makings.left > 0
            && let Some(token) = self.rest.makings.ready.pop_front()
        {
            self.make_more_any(replies, token);
        }
        let mut left = POLLED.min(self.rest.makings.list.len());
        while left > 0 && self.rest.makings.left > 0 {
            let makings = &mut self.rest.makings;
            makings.next = if makings.next < makings.list.len() { makings.next } else { 0 };
            let Some((token, id)) = makings.list.get(makings.next).copied() else { break };
            if self.rest.is_made(token, id) {
                left -= 1;
                self.rest.makings.next += 1;
                self.make_more_any(replies, token);
            } else {
                let makings = &mut self.rest.makings;
                makings.list.swap_remove(makings.next);
            }
        }
        let makings = &mut self.rest.makings;
        if makings.ready.is_empty() && !makings.moved {
            return Wake::Idle;
        }
        makings.moved = false;
        Wake::Now
    }

    /// The same of any, be it a subrequest's.
    fn make_more_any(&mut self, replies: &mut dyn Replies, token: u32) {
        match self.rest.sub_at(token) {
            Some(id) => _ = self.with_sub(replies, id, |engine, within, token| engine.make_more(within, token)),
            None => self.make_more(replies, token),
        }
    }

    /// Makes some more of an answer.
    pub(in crate::engine) fn make_more(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        self.rest.clock.now = now;
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut) else { return };
        let Some(mut filtering) = course.filtering.take() else { return };
        filtering.is_ready = false;
        let (id, inner, of_file) = (course.id, course.inner, filtering.of_file);
        let progress = self.rest.progress(replies, token, &mut filtering);
        match progress {
            // What came of it is sent, and its client can tell that it is not all.
            Progress::Cut => {
                self.rest.end(replies, token, false);
                replies.stop(id, Stop::Cut);
                return;
            }
            Progress::Broken => {
                if of_file {
                    self.files.on_gone(id, inner, Gone::Cut);
                }
                self.rest.end(replies, token, false);
                replies.stop(id, Stop::Cut);
                return;
            }
            Progress::Finished => {
                // The file has given all. That its client has taken all is not waited for,
                // who may be gone by then.
                if of_file {
                    self.files.on_gone(id, inner, Gone::Cut);
                }
                self.rest.end(replies, token, true);
                replies.end(id);
                return;
            }
            Progress::Hungry => {
                filtering.is_ready = true;
                self.rest.makings.ready.push_back(token);
            }
            // One that waits for its time already goes on then.
            Progress::Waits(On::Clock(at)) if self.rest.waits_untimed(token) => self.rest.later(token, at),
            Progress::Waits(On::Place) if !core::mem::replace(&mut filtering.in_line, true) => {
                self.rest.stand_in_line(token, id);
            }
            Progress::Waits(On::Clock(_) | On::Place | On::Room | On::Source | On::Helper) => {}
        }
        if let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut) {
            course.filtering = Some(filtering);
        }
        self.rest.read_more(replies, token);
        if of_file {
            // It asks for more, or is over.
            let mut passing = Passing { replies, rest: &mut self.rest };
            self.files.on_room(&mut passing, id);
        }
    }
}

impl Rest {
    /// Whether an answer is being made.
    fn is_made(&self, token: u32, id: ExchangeId) -> bool {
        self.peek(token, id).is_some_and(|course| course.filtering.is_some())
    }

    /// Whether a request waits for no time.
    fn waits_untimed(&self, token: u32) -> bool {
        let course = self.courses.get(token as usize).and_then(Option::as_ref);
        course.is_some_and(|course| course.ticket.is_none())
    }

    /// An answer can go on: it does, in this turn or one of the next.
    pub(in crate::engine) fn make_ready(&mut self, token: u32) {
        let course = self.courses.get_mut(token as usize).and_then(Option::as_mut);
        if let Some(filtering) = course.and_then(|course| course.filtering.as_mut())
            && !core::mem::replace(&mut filtering.is_ready, true)
        {
            self.makings.ready.push_back(token);
        }
    }

    fn progress(&mut self, replies: &mut dyn Replies, token: u32, filtering: &mut Filtering) -> Progress {
        let clock = self.clock;
        let queued_max = self.makings.queued_max();
        let mut share = SHARE.min(self.makings.left);
        let before = share;
        let Some(mut course) = self.courses.get_mut(token as usize).and_then(Option::take) else {
            return Progress::Broken;
        };
        let progress = loop {
            if filtering.finished || !filtering.begun {
                break if filtering.finished { Progress::Finished } else { Progress::Waits(On::Source) };
            }
            let flow = replies.flow(course.id);
            let mut room = queued_max.saturating_sub(flow.unsent).min(flow.room);
            if room == 0 {
                break Progress::Waits(On::Room);
            }
            if let Some((rate, began)) = filtering.pace {
                let allowed = rate.allowed(clock.now.since(began)).saturating_sub(filtering.told);
                if allowed == 0 {
                    break Progress::Waits(On::Clock(clock.now + STEP));
                }
                room = room.min(usize::try_from(allowed).unwrap_or(usize::MAX));
            }
            let most = room.min(PIECE);
            let made = if filtering.postponed.is_some() {
                self.some_in_order(replies, (token, &mut course), filtering, most, (&mut share, &clock))
            } else {
                course.some(replies, filtering, most, (&mut share, &clock))
            };
            let (length, ended) = match made {
                Err(Broken) => break Progress::Broken,
                Ok(Pull::Some(length)) => (length, false),
                Ok(Pull::End(length)) => (length, true),
                Ok(Pull::Waits(_)) if share == 0 => break Progress::Hungry,
                // What waits is all that there will be.
                Ok(Pull::Waits(On::Source)) if filtering.is_cut || !course.has_source(filtering) => {
                    break Progress::Cut;
                }
                Ok(Pull::Waits(on)) => break Progress::Waits(on),
            };
            filtering.told += length;
            self.makings.moved |= length > 0 && filtering.postponed.is_some();
            course.sent.body += length;
            if ended {
                course.features.compression.lengths = filtering.encoded().map(|whole| (whole, filtering.told));
                let trailers = course.trailers(&clock);
                replies.finish(course.id, &trailers);
                filtering.finished = true;
            } else if share == 0 {
                break Progress::Hungry;
            }
        };
        if let Some(place) = self.courses.get_mut(token as usize) {
            *place = Some(course);
        }
        self.makings.left = self.makings.left.saturating_sub(before - share);
        if filtering.finished {
            filtering.pipeline.give_back(&mut self.encoders);
            if let Some(postponed) = &mut filtering.postponed {
                postponed.coding.give_back(&mut self.encoders);
            }
        }
        progress
    }
}

impl Course {
    /// Queues at most about `most` bytes more.
    fn some(
        &mut self,
        replies: &mut dyn Replies,
        filtering: &mut Filtering,
        most: usize,
        (share, clock): (&mut u64, &Clock),
    ) -> Result<Pull, Broken> {
        let id = self.id;
        if filtering.pipeline.is_empty() {
            let Some((body, range)) = filtering.waiting.front_mut() else {
                return Ok(if filtering.ended { Pull::End(0) } else { Pull::Waits(On::Source) });
            };
            let length = range.len().min(most) as u32;
            replies.body(id, Piece::Body(body, (range.start, range.start + length)));
            range.start += length;
            if range.start >= range.end {
                filtering.waiting.pop_front();
            }
            let ended = filtering.ended && filtering.waiting.is_empty();
            return Ok(if ended { Pull::End(length.into()) } else { Pull::Some(length.into()) });
        }
        let mut out = Vec::new();
        let made = self.with_scope(clock, |scope| filtering.step((&mut out, most), share, scope));
        let ended = made.unwrap_or(Err(Broken))?;
        let length = out.len() as u64;
        if length > 0 {
            let body = Body::new(out);
            replies.body(id, Piece::Body(&body, (0, body.len())));
        }
        Ok(match length {
            _ if ended => Pull::End(length),
            0 => Pull::Waits(On::Source),
            _ => Pull::Some(length),
        })
    }
}
