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
//!   are asked for by [`BodyProgress::read_back`] and come by [`Engine::on_body_news`]. Both can
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

use super::body_events::too_long;
use super::body_progress::{BodyCopy, BodyFailure, BodyProgress, BodyState};
use super::runner::{Flow, Runner};
use super::waits::On;
use bodies::{BodyContent, BodyFiles};
use exchange::RequestBody;
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
        let block = loaded.program.block(self.state.route.block);
        let is_filed = block.is_some_and(|block| block.body.in_file != BodyFiles::Long);
        if self.state.body.is_none() && is_filed && self.request.known(Known::ContentLength).is_some() {
            // One that is empty has a file, too.
            self.state.body = BodyProgress::of(RequestBody::Length(0));
            self.state.body.iter_mut().for_each(|body| body.ended = true);
        }
        let Some(body) = self.state.body.as_deref_mut() else { return Flow::On };
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
        let ticket = self.rest.tickets.next(self.token);
        self.set_terms();
        let Some(body) = self.state.body.as_deref_mut() else { return Flow::On };
        // A length that was told was held against the limit where the location was found.
        let is_told = body.length.is_some();
        body.most = if is_told || block.body_max == 0 { u64::MAX } else { block.body_max };
        if how == BodyReading::Streamed {
            if let Some(bytes) = body.at_hand.filter(|bytes| *bytes > body.most) {
                // It came along with the head: nobody is asked.
                return self.body_failed(too_long((0, bytes), self.state.about.http2));
            }
            body.state = BodyState::Streamed(0);
            body.copy = Some(BodyCopy { bytes: Vec::new(), most: block.body.buffer as usize });
            self.replies.read(self.state.id, Some(body.most));
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
                self.replies.read(self.state.id, Some(body.most));
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
        let ticket = self.rest.tickets.next(self.token);
        let loaded = Rc::clone(&self.loaded);
        let block = loaded.program.block(self.state.route.block);
        let (store, is_plain) = (loaded.bodies.borrow(), matches!(self.state.method, Method::Get | Method::Head));
        let Some(((body, store), block)) = self.state.body.as_deref_mut().zip(store.as_ref()).zip(block) else {
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
        self.state.body.as_ref()?.content().cloned()
    }

    /// Its body is in a file: told once.
    fn tell_of_body_file(&mut self) {
        let Some(body) = self.state.body.as_deref_mut() else { return };
        if core::mem::replace(&mut body.is_told, true) {
            return;
        }
        let long = self.state.body.as_ref().filter(|body| body.read() != Some(0));
        let Some(path) = long.and_then(|body| body.path()) else { return };
        let block = self.loaded.program.block(self.state.route.block);
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
                self.state.sent.status = 400;
                Flow::HangUp
            }
        }
    }

    /// Says what is wrong with a body whose answer has begun: that tells of it by its end alone.
    pub(super) fn tell_of_broken_body(&mut self) {
        let failure = self.state.body.as_deref_mut().and_then(|body| body.failure.take());
        if let Some(BodyFailure::Told(level, _, text)) = failure {
            self.tell(level, || text.into_bytes());
        }
    }

    /// Whether its body is no chunks, by what came along with the head: the connection ends
    /// with its answer, whatever that is.
    pub(super) fn is_body_malformed(&self) -> bool {
        self.state.body.as_ref().is_some_and(|body| body.is_malformed)
    }

    /// The request is refused for that.
    pub(super) fn refuse_body(&mut self) -> Flow {
        self.tell(ErrorLevel::ERROR, || b"client sent invalid chunked body".to_vec());
        Flow::Status(400)
    }
}

#[cfg(test)]
mod tests;
