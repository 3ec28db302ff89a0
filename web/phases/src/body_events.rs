//! Bodies of requests come, and whoever reads them goes on.

use super::body_progress::{BodyFailure, BodyProgress, BodyState};
use super::request_state::RequestState;
use super::{Engine, Rest};
use bodies::{BodyError, BodyEvent, BodyStore};
use exchange::{BodyCut, ExchangeId, Replies};
use features::ErrorLevel;
use std::rc::Rc;

/// What there is to say of a body.
#[derive(Debug)]
pub(super) enum BodyNews {
    /// All of a streamed body was handed on.
    Ended,
    /// A streamed body will not be whole.
    Broken,
    /// A piece of a file that was [asked for](BodyProgress::read_back).
    Piece(Result<Vec<u8>, BodyError>),
}

impl Rest {
    /// The body that comes with an exchange that is kept, and its number.
    fn body_of(&mut self, replies: &dyn Replies, id: ExchangeId) -> Option<(u32, &mut BodyProgress)> {
        let token = replies.mark(id)?;
        let state = self.requests.of_mut((token, id))?;
        Some((token, state.body.as_deref_mut()?))
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
            BodyState::Left if why == BodyCut::Ended => {
                // Who reads it later is told. The answer may be one that needs none of it.
                body.failure = Some(BodyFailure::Gone);
                if let Some(state) = self.rest.requests.get_mut(token) {
                    state.end_connection(replies);
                }
                return true;
            }
            BodyState::Left | BodyState::Broken => return false,
            BodyState::Kept(received) => received.received(),
            BodyState::Streamed(bytes) => *bytes,
        };
        let failure = match why {
            BodyCut::TooLong if replies.about(id).http2 => too_long((wire, 0), true),
            BodyCut::TooLong => too_long((so_far, 0), false),
            BodyCut::Late => BodyFailure::Status(408),
            BodyCut::Malformed if replies.about(id).http2 => not_as_told(wire, body.length),
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
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        // Nothing after it can be understood.
        state.end_connection(replies);
        let Some(body) = state.body.as_deref_mut() else { return };
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
    pub(super) fn take_body(&mut self, replies: &mut dyn Replies, ticket: u64, event: BodyEvent) -> Option<BodyEvent> {
        let token = ticket as u32;
        let state = self.rest.requests.get_mut(token);
        let known = state.filter(|state| state.body.as_ref().is_some_and(|body| body.is_of(ticket)));
        let Some(RequestState { id, body: Some(body), .. }) = known else { return Some(event) };
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
                self.with_any(replies, token, |engine, replies| engine.on_body_news(replies, token, news));
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

fn no_place(why: &BodyError) -> BodyFailure {
    BodyFailure::Told(ErrorLevel::CRIT, 500, why.to_string())
}

/// So many bytes, and more, are too many: in nginx's words, which by HTTP/2 has no chunks to tell apart.
pub(super) fn too_long((so_far, more): (u64, u64), is_http2: bool) -> BodyFailure {
    let bytes = if is_http2 { (so_far + more).to_string() } else { format!("{so_far}+{more}") };
    let text = format!("client intended to send too large chunked body: {bytes} bytes");
    BodyFailure::Told(ErrorLevel::ERROR, 413, text)
}

/// A body by HTTP/2, of which so many bytes came, is longer or shorter than its request said, or fields behind it may
/// not be.
fn not_as_told(came: u64, length: Option<u64>) -> BodyFailure {
    let text = match length {
        Some(length) if came != length => {
            format!("client sent another body than declared: {came} out of {length} bytes of request body received")
        }
        _ => "client sent invalid trailers".to_owned(),
    };
    BodyFailure::Told(ErrorLevel::INFO, 400, text)
}
