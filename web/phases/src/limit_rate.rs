//! Answers that are sent no faster than they may be (`limit_rate`): how fast that is, and
//! one that is sent so from memory.

use super::Engine;
use app::Body;
use configuration::program::Block;
use core::time::Duration;
use exchange::{ExchangeId, Part, Piece, Replies};
use features::{Values, units};
use files::{Rate, RateKept};
use std::collections::VecDeque;
use wire::Time;

/// How often it is looked whether the last was taken of what is sent at a rate.
const LINGER: Duration = Duration::from_millis(50);

/// How fast an answer of so many bytes may be sent in a place, if that is limited; by the
/// rate that was `set` for the request, or by that of the place. What is no size limits
/// nothing.
pub(crate) fn rate_of(block: &Block, set: Option<u64>, values: &mut dyn Values, length: u64) -> Option<Rate> {
    let bytes = match set {
        Some(rate) => rate,
        None => units::size(&values.value(block.limit_rate.as_ref()?)).ok()?,
    };
    if bytes == 0 {
        return None;
    }
    let after = block.limit_rate_after.as_ref().and_then(|after| units::size(&values.value(after)).ok());
    let rate = Rate { bytes, after: after.unwrap_or(0) };
    (length > rate.allowed(Duration::ZERO)).then_some(rate)
}

/// A body in memory that is sent at a rate.
#[derive(Debug)]
pub(crate) struct RatedBody {
    rate: RateKept,
    body: Body,
    /// What is left of it, and what stands between.
    parts: VecDeque<Part>,
    /// Where content begins in the body.
    start: u32,
    /// All of it is queued.
    finished: bool,
}

impl RatedBody {
    /// One whose content begins at `start` of a body.
    pub fn new(rate: RateKept, (body, start): (Body, u32), parts: Vec<Part>) -> Self {
        Self { rate, body, parts: parts.into(), start, finished: false }
    }

    /// Queues what may be, and counts it in `told`; when the next may, or nothing if all is
    /// queued.
    pub fn send(&mut self, replies: &mut dyn Replies, id: ExchangeId, told: &mut u64) -> Option<Time> {
        while let Some(part) = self.parts.front_mut() {
            let room = match self.rate.room(replies, id) {
                Ok(room) => room,
                Err(later) => return Some(later),
            };
            let (length, is_whole) = match part {
                Part::Bytes(bytes) => {
                    replies.body(id, Piece::Bytes(bytes));
                    (bytes.len() as u64, true)
                }
                Part::Content(range) => {
                    let length = room.min(range.end.saturating_sub(range.start));
                    // Content in memory is below 4 GiB.
                    let from = self.start + range.start as u32;
                    replies.body(id, Piece::Body(&self.body, (from, from + length as u32)));
                    range.start += length;
                    (length, range.start >= range.end)
                }
            };
            self.rate.queue(length);
            *told += length;
            if is_whole {
                self.parts.pop_front();
            }
        }
        if !core::mem::replace(&mut self.finished, true) {
            replies.finish(id, b"");
        }
        None
    }
}

impl Engine {
    /// Sends some more of what is sent at a rate.
    pub(super) fn send_rated(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        let id = state.id;
        let Some(rated) = &mut state.reply.rated else { return };
        let again = rated.send(replies, id, &mut state.sent.body).unwrap_or_else(|| {
            let unsent = replies.flow(id).unsent as u64;
            now + if unsent > 0 { rated.rate.span(unsent).max(LINGER) } else { Duration::ZERO }
        });
        if again <= now {
            self.rest.end(replies, token, true);
            replies.end(id);
            return;
        }
        self.rest.later(token, again);
    }
}
