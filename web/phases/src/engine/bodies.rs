//! Bodies of requests, read for what answers them.
//!
//! A body that nothing asks for stays with its client, whose window closes, and is
//! dropped once the answer is out. What reads one asks in the content phase, after
//! which the whole phase runs again whenever there is news:
//!
//! ```text
//!  fn content(..) {
//!      match self.read_body(BodyReading::Whole) {     // or Streamed
//!          Flow::On => {}
//!          flow => return flow,                       // Waits, or 413, 500 …
//!      }
//!      self.body_content()                            // memory, or a file
//! ```
//!
//! - [`BodyReading::Whole`]: `Flow::On` once all of it is there (at once where there is
//!   none), then and ever after [`Runner::body_content`] has it: [`BodyContent::Memory`],
//!   an [`app::Body`] that can be queued without a copy, or [`BodyContent::File`], a
//!   descriptor and a length; where the data path sends no files itself, pieces of it
//!   are asked for by [`CourseBody::read_back`] and come by [`Engine::on_body_news`]. Both can
//!   be gone through more than once, for another upstream.
//! - [`BodyReading::Streamed`]: `Flow::On` at once. Its bytes go to
//!   [`Engine::stream_body`] as they come, which says how many it takes; what it leaves
//!   stays with the client until [`Replies::read`], for whatever answers to call when
//!   there is room again. Its end is told by [`Engine::on_body_news`].
//!
//! If the body ends otherwise (too long, too late, malformed, its client gone, a disk
//! full), `read_body` returns that status where the phase runs again; in a stream that
//! [`Engine::on_body_news`] is told of. An exchange that is over lets go of what was
//! read, wherever it is.

use super::course::Course;
use super::course_body::{BodyCopy, BodyFailure, BodyState, CourseBody};
use super::run::{Flow, Runner};
use super::waits::On;
use super::{Engine, Rest};
use bodies::{BodyContent, BodyError, BodyEvent, BodyFiles, BodyStore};
use exchange::{BodyCut, ExchangeId, Replies, RequestBody};
use features::ErrorLevel;
use semantics::{Known, Method};
use std::rc::Rc;

/// How a body is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyReading {
    /// All of it, before anything else.
    Whole,
    /// As it comes.
    Streamed,
}

impl Runner<'_> {
    /// Reads the request's body: see the module.
    pub(super) fn read_body(&mut self, how: BodyReading) -> Flow {
        let loaded = Rc::clone(&self.loaded);
        let block = Self::block(&loaded, self.course).map(|at| &loaded.program.blocks[at]);
        let is_filed = block.is_some_and(|block| block.body.in_file != BodyFiles::Long);
        if self.course.body.is_none() && is_filed && self.request.known(Known::ContentLength).is_some() {
            // One that is empty has a file, too.
            self.course.body = CourseBody::of(RequestBody::Length(0));
            self.course.body.iter_mut().for_each(|body| body.ended = true);
        }
        let Some(body) = self.course.body.as_deref_mut() else { return Flow::On };
        if let Some(failure) = body.failure.take() {
            return self.body_failed(failure);
        }
        if body.is_malformed {
            return self.refuse_body();
        }
        match &body.state {
            BodyState::Left => {}
            BodyState::Kept(received) if received.content().is_none() => return Flow::Waits(On::Source),
            BodyState::Kept(_) => {
                self.tell_of_body_file();
                return Flow::On;
            }
            BodyState::Streamed(_) | BodyState::Broken => return Flow::On,
        }
        let Some(block) = block else { return Flow::Status(500) };
        let ticket = self.rest.next_ticket(self.token);
        // How long its client may take is said where the request has come to.
        self.replies.set_terms(self.course.id, loaded.program.terms.of_block(self.course.block));
        let Some(body) = self.course.body.as_deref_mut() else { return Flow::On };
        // A length that was told was held against the limit where the location was found.
        let is_told = body.length.is_some();
        body.most = if is_told || block.body_max == 0 { u64::MAX } else { block.body_max };
        if how == BodyReading::Streamed {
            body.state = BodyState::Streamed(0);
            body.copy = Some(BodyCopy { bytes: Vec::new(), most: block.body.buffer as usize });
            self.replies.read(self.course.id, Some(body.most));
            return Flow::On;
        }
        let store = loaded.bodies.borrow();
        let Some(store) = store.as_ref() else { return Flow::Status(500) };
        let mut received = Box::new(store.begin(block.body, body.length, ticket));
        let ended = if body.ended { received.end() } else { Ok(false) };
        body.state = BodyState::Kept(received);
        match ended {
            Ok(true) => Flow::On,
            Ok(false) => {
                self.replies.read(self.course.id, Some(body.most));
                Flow::Waits(On::Source)
            }
            Err(why) => {
                body.state = BodyState::Broken;
                self.body_failed(BodyFailure::Told(ErrorLevel::CRIT, 500, why.to_string()))
            }
        }
    }

    /// A body that was handed on already is passed on again, to whom an error page or an upstream
    /// leads: from what memory has of it, if that is all. Else a request that has become one
    /// without a body goes without; whether one of the two is so.
    pub(super) fn repeat_body(&mut self) -> bool {
        let ticket = self.rest.next_ticket(self.token);
        let loaded = Rc::clone(&self.loaded);
        let block = loaded.program.blocks.get(self.course.block.0 as usize);
        let (store, is_plain) = (loaded.bodies.borrow(), matches!(self.course.method, Method::Get | Method::Head));
        let Some(((body, store), block)) = self.course.body.as_deref_mut().zip(store.as_ref()).zip(block) else {
            return false;
        };
        let BodyState::Streamed(bytes) = body.state else { return true };
        let whole = body.copy.take().filter(|copy| body.ended && copy.bytes.len() as u64 == bytes);
        if let Some(copy) = whole {
            let mut received = Box::new(store.begin(block.body, Some(bytes), ticket));
            if received.add(&copy.bytes).is_ok_and(|taken| taken == copy.bytes.len())
                && matches!(received.end(), Ok(true))
            {
                (body.state, body.length) = (BodyState::Kept(received), Some(bytes));
                return true;
            }
        }
        if is_plain {
            body.state = BodyState::Broken;
        }
        is_plain
    }

    /// What was read, if there was anything to read.
    pub(super) fn body_content(&self) -> Option<BodyContent> {
        self.course.body.as_ref()?.content().cloned()
    }

    /// Its body is in a file: told once.
    fn tell_of_body_file(&mut self) {
        let Some(body) = self.course.body.as_deref_mut() else { return };
        if core::mem::replace(&mut body.is_told, true) {
            return;
        }
        let long = self.course.body.as_ref().filter(|body| body.read() != Some(0));
        let Some(path) = long.and_then(|body| body.path()) else { return };
        let block = self.loaded.program.blocks.get(self.course.block.0 as usize);
        let asked = block.is_some_and(|block| block.body.in_file != BodyFiles::Long);
        let level = if asked { ErrorLevel::WARN.milder() } else { ErrorLevel::WARN };
        self.tell(level, || [b"a client request body is buffered to a temporary file ", path].concat());
    }

    fn body_failed(&mut self, failure: BodyFailure) -> Flow {
        match failure {
            BodyFailure::Status(status) => Flow::Status(status),
            BodyFailure::Told(level, status, text) => {
                self.tell(level, || text.into_bytes());
                Flow::Status(status)
            }
            BodyFailure::Gone => {
                // Nobody waits for an answer.
                self.course.sent.status = 400;
                Flow::HangUp
            }
        }
    }

    /// Says what is wrong with a body whose answer has begun: that tells of it by its end alone.
    pub(super) fn tell_of_broken_body(&mut self) {
        let failure = self.course.body.as_deref_mut().and_then(|body| body.failure.take());
        if let Some(BodyFailure::Told(level, _, text)) = failure {
            self.tell(level, || text.into_bytes());
        }
    }
}

impl Rest {
    /// The body that comes with an exchange that is kept, and its number.
    fn body_of(&mut self, replies: &dyn Replies, id: ExchangeId) -> Option<(u32, &mut CourseBody)> {
        let token = replies.mark(id)?;
        let course = self.courses.get_mut(token as usize)?.as_deref_mut().filter(|course| course.id == id)?;
        Some((token, course.body.as_deref_mut()?))
    }
}

impl Engine {
    /// Some of a body: how many bytes were taken.
    pub(super) fn add_body(&mut self, replies: &mut dyn Replies, id: ExchangeId, bytes: &[u8]) -> usize {
        let Some((token, body)) = self.rest.body_of(replies, id) else { return 0 };
        let so_far = match &mut body.state {
            BodyState::Left | BodyState::Broken => return 0,
            BodyState::Kept(received) => received.received(),
            BodyState::Streamed(bytes) => *bytes,
        };
        if so_far.saturating_add(bytes.len() as u64) > body.most {
            let is_http2 = replies.about(id).http2;
            self.break_body(replies, token, too_long((so_far, bytes.len() as u64), is_http2));
            return 0;
        }
        let BodyState::Kept(received) = &mut body.state else {
            let taken = self.stream_body(replies, token, bytes).min(bytes.len());
            if let Some((_, body)) = self.rest.body_of(replies, id) {
                body.on_streamed(bytes.get(..taken).unwrap_or_default());
            }
            return taken;
        };
        match received.add(bytes) {
            Ok(taken) => taken,
            Err(why) => {
                self.break_body(replies, token, no_place(&why));
                0
            }
        }
    }

    /// All of a body came.
    pub(super) fn end_body(&mut self, replies: &mut dyn Replies, id: ExchangeId) {
        let wire = replies.flow(id).received;
        let Some((token, body)) = self.rest.body_of(replies, id) else { return };
        (body.ended, body.wire) = (true, wire);
        let whole = match &mut body.state {
            BodyState::Left | BodyState::Broken => return,
            BodyState::Streamed(_) => return self.on_body_news(replies, token, BodyNews::Ended),
            BodyState::Kept(received) => received.end(),
        };
        self.on_body_settled(replies, token, whole);
    }

    /// A body that is read will not be whole; whether anybody reads it.
    pub(super) fn cut_body(&mut self, replies: &mut dyn Replies, id: ExchangeId, why: BodyCut) -> bool {
        let wire = replies.flow(id).received;
        let Some((token, body)) = self.rest.body_of(replies, id) else { return false };
        body.wire = wire;
        let so_far = match &body.state {
            BodyState::Left | BodyState::Broken => return false,
            BodyState::Kept(received) => received.received(),
            BodyState::Streamed(bytes) => *bytes,
        };
        let failure = match why {
            BodyCut::TooLong if replies.about(id).http2 => too_long((wire, 0), true),
            BodyCut::TooLong => too_long((so_far, 0), false),
            BodyCut::Late => BodyFailure::Status(408),
            BodyCut::Malformed => {
                BodyFailure::Told(ErrorLevel::ERROR, 400, "client sent invalid chunked body".to_owned())
            }
            BodyCut::Ended => BodyFailure::Gone,
        };
        self.break_body(replies, token, failure);
        true
    }

    /// Nothing more is read of a body, and what answers is told why.
    fn break_body(&mut self, replies: &mut dyn Replies, token: u32, failure: BodyFailure) {
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_deref_mut) else { return };
        // Nothing after it can be understood.
        course.end_connection(replies);
        let Some(body) = course.body.as_deref_mut() else { return };
        let streamed = matches!(body.state, BodyState::Streamed(_));
        (body.state, body.failure) = (BodyState::Broken, Some(failure));
        if streamed {
            self.on_body_news(replies, token, BodyNews::Broken);
        } else {
            self.go_on(replies, token);
        }
    }

    /// The store's news of bodies; whether there were any.
    pub(super) fn take_bodies(&mut self, replies: &mut dyn Replies) -> bool {
        let mut any = false;
        for at in 0..=self.retired.len() {
            let loaded = Rc::clone(self.retired.get(at).unwrap_or(&self.loaded));
            if !loaded.bodies.borrow_mut().as_mut().is_some_and(BodyStore::arrived) {
                continue;
            }
            // Before it is taken: what is done meanwhile makes it readable again. It is not,
            // if another helper's answer took its signal along.
            let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
            loop {
                let event = loaded.bodies.borrow_mut().as_mut().and_then(BodyStore::take);
                let Some((ticket, event)) = event else { break };
                any = true;
                if let Some(BodyEvent::Written(wrote)) = self.take_body(replies, ticket, event)
                    && let Some(store) = loaded.bodies.borrow().as_ref()
                {
                    store.drop_written(wrote);
                }
            }
        }
        any
    }

    /// The store's news of one body; returned if it is nobody's.
    fn take_body(&mut self, replies: &mut dyn Replies, ticket: u64, event: BodyEvent) -> Option<BodyEvent> {
        let token = ticket as u32;
        let course = self.rest.courses.get_mut(token as usize).and_then(Option::as_deref_mut);
        let known = course.filter(|course| course.body.as_ref().is_some_and(|body| body.is_of(ticket)));
        let Some(Course { id, body: Some(body), .. }) = known else { return Some(event) };
        let BodyState::Kept(received) = &mut body.state else { return Some(event) };
        match event {
            BodyEvent::Room => {
                received.on_room();
                replies.read(*id, None);
            }
            BodyEvent::Written(wrote) => {
                let settled = received.on_written(wrote);
                if settled.is_ok() && !body.ended {
                    replies.read(*id, None);
                }
                self.on_body_settled(replies, token, settled);
            }
            BodyEvent::Read(read) => {
                received.on_read();
                let news = BodyNews::Piece(read);
                match self.rest.sub_at(token) {
                    Some(id) => {
                        self.with_sub(replies, id, |engine, within, token| engine.on_body_news(within, token, news));
                    }
                    None => self.on_body_news(replies, token, news),
                }
            }
        }
        None
    }

    /// Bytes of a streamed body: how many of them whatever answers takes.
    fn stream_body(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> usize {
        #[cfg(test)]
        if self.rest.relay_of(token).is_none() {
            return self.echo_bytes(replies, token, bytes);
        }
        self.on_streamed_bytes(replies, token, bytes)
    }

    /// News of a body for whatever answers.
    fn on_body_news(&mut self, replies: &mut dyn Replies, token: u32, news: BodyNews) {
        #[cfg(test)]
        self.echo_news(token, &news);
        match news {
            // Whom it was passed on to wants no more of it.
            _ if self.rest.relay_of(token).is_none() => {
                #[cfg(test)]
                self.go_on(replies, token);
            }
            BodyNews::Piece(piece) => self.on_relay_piece(replies, token, piece.as_deref().ok()),
            BodyNews::Ended => self.on_streamed_end(replies, token, true),
            BodyNews::Broken => self.on_streamed_end(replies, token, false),
        }
    }

    fn on_body_settled(&mut self, replies: &mut dyn Replies, token: u32, whole: Result<bool, BodyError>) {
        match whole {
            Ok(false) => {}
            Ok(true) => self.go_on(replies, token),
            Err(why) => self.break_body(replies, token, no_place(&why)),
        }
    }
}

/// What there is to say of a body.
#[derive(Debug)]
pub(super) enum BodyNews {
    /// All of a streamed body was handed on.
    Ended,
    /// A streamed body will not be whole.
    Broken,
    /// A piece of a file that was [asked for](CourseBody::read_back).
    Piece(Result<Vec<u8>, BodyError>),
}

fn no_place(why: &BodyError) -> BodyFailure {
    BodyFailure::Told(ErrorLevel::CRIT, 500, why.to_string())
}

/// So many bytes, and more, are too many: in nginx's words, which by HTTP/2 has no chunks to tell apart.
fn too_long((so_far, more): (u64, u64), is_http2: bool) -> BodyFailure {
    let bytes = if is_http2 { (so_far + more).to_string() } else { format!("{so_far}+{more}") };
    let text = format!("client intended to send too large chunked body: {bytes} bytes");
    BodyFailure::Told(ErrorLevel::ERROR, 413, text)
}

#[cfg(test)]
mod tests;
