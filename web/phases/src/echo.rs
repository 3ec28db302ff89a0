//! What answers with what it was sent: bodies are read for it, in tests.

use super::Engine;
use super::answer::{Answer, AnswerBody};
use super::bodies::BodyReading;
use super::body_events::BodyNews;
use super::runner::{Flow, Runner};
use super::waits::On;
use bodies::BodyContent;
use exchange::Replies;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Bytes of a file that are read at a time, and of a stream that are taken.
const PIECE: usize = 5_000;

thread_local! {
    /// Whether it answers in place of a place's content, and then with bodies as they come or once they are whole.
    pub(super) static ANSWERS: Cell<Option<bool>> = const { Cell::new(None) };
    /// What came so far, by the requests' numbers.
    static ECHOED: RefCell<HashMap<u32, Vec<u8>>> = RefCell::default();
}

impl Runner<'_> {
    pub(super) fn echo(&mut self, streamed: bool) -> Flow {
        let how = if streamed { BodyReading::Streamed } else { BodyReading::Whole };
        if self.state.body.as_ref().is_some_and(|body| !body.is_read()) {
            ECHOED.with_borrow_mut(|echoed| echoed.insert(self.token, Vec::new()));
        }
        match self.read_body(how) {
            Flow::On => {}
            flow => return flow,
        }
        let echoed = ECHOED.with_borrow_mut(|echoed| echoed.entry(self.token).or_default().clone());
        let bytes = match self.body_content() {
            Some(BodyContent::Memory(body)) => body.as_slice().to_vec(),
            Some(BodyContent::File(file)) if (echoed.len() as u64) < file.length => {
                let body = self.state.body.as_mut().expect("its content was told");
                assert!(body.read_back(echoed.len() as u64, PIECE), "nothing else is read");
                return Flow::Waits(On::Source);
            }
            None if self.state.body.as_ref().is_some_and(|body| body.is_read() && !body.ended) => {
                return Flow::Waits(On::Source);
            }
            _ => echoed,
        };
        ECHOED.with_borrow_mut(|echoed| echoed.remove(&self.token));
        self.send(Answer::new(200, AnswerBody::Bytes(bytes)))
    }
}

impl Engine {
    pub(super) fn echo_bytes(&mut self, replies: &mut dyn Replies, token: u32, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(PIECE);
        ECHOED.with_borrow_mut(|echoed| echoed.entry(token).or_default().extend_from_slice(&bytes[..taken]));
        if let Some(id) = self.rest.requests.get(token).map(|state| state.id) {
            replies.read(id, None);
        }
        taken
    }

    pub(super) fn echo_news(&self, token: u32, news: &BodyNews) {
        if let BodyNews::Piece(Ok(bytes)) = news {
            ECHOED.with_borrow_mut(|echoed| echoed.entry(token).or_default().extend_from_slice(bytes));
        }
    }
}
