//! Answers that are sent no faster than they may be (`limit_rate`): how fast that is, and
//! one that is sent so from memory.

use super::Engine;
use crate::program::Block;
use app::Body;
use core::time::Duration;
use exchange::{ExchangeId, Part, Piece, Replies};
use features::{Values, units};
use files::Rate;
use std::collections::VecDeque;
use wire::Time;

/// How often it is looked whether the last was taken of what is sent at a rate.
const LINGER: Duration = Duration::from_millis(50);

/// The shortest time between two pieces.
const STEP: Duration = Duration::from_millis(20);

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
    rate: Rate,
    body: Body,
    /// What is left of it, and what stands between.
    parts: VecDeque<Part>,
    /// Where content begins in the body.
    start: u32,
    began: Time,
    sent: u64,
    /// All of it is queued.
    finished: bool,
}

impl RatedBody {
    /// One whose content begins at `start` of a body.
    pub fn new(rate: Rate, (body, start): (Body, u32), parts: Vec<Part>, began: Time) -> Self {
        Self { rate, body, parts: parts.into(), start, began, sent: 0, finished: false }
    }

    /// Queues what may be, and counts it in `told`; when the next may, or nothing if all is
    /// queued.
    pub fn send(&mut self, replies: &mut dyn Replies, id: ExchangeId, now: Time, told: &mut u64) -> Option<Duration> {
        let allowed = self.rate.allowed(now.since(self.began)).saturating_sub(self.sent);
        let (before, mut room) = (self.sent, allowed);
        while room > 0 {
            let length = match self.parts.front_mut() {
                None => break,
                Some(Part::Bytes(bytes)) => {
                    replies.body(id, Piece::Bytes(bytes));
                    let length = bytes.len() as u64;
                    self.parts.pop_front();
                    length
                }
                Some(Part::Content(range)) => {
                    let length = room.min(range.end - range.start);
                    // Content in memory is below 4 GiB.
                    let from = self.start + range.start as u32;
                    replies.body(id, Piece::Body(&self.body, (from, from + length as u32)));
                    range.start += length;
                    if range.start >= range.end {
                        self.parts.pop_front();
                    }
                    length
                }
            };
            room = room.saturating_sub(length);
            self.sent += length;
        }
        *told += self.sent - before;
        if self.parts.is_empty() {
            if !core::mem::replace(&mut self.finished, true) {
                replies.finish(id, b"");
            }
            return None;
        }
        let queued = allowed - room;
        Some(Duration::from_millis(queued.saturating_mul(1_000) / self.rate.bytes.max(1)).max(STEP))
    }
}

impl Engine {
    /// Sends some more of what is sent at a rate.
    pub(super) fn send_rated(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        let id = state.id;
        let Some(rated) = &mut state.reply.rated else { return };
        let again = match rated.send(replies, id, now, &mut state.sent.body) {
            Some(again) => again,
            None if replies.flow(id).unsent > 0 => LINGER,
            None => {
                self.rest.end(replies, token, true);
                replies.end(id);
                return;
            }
        };
        self.rest.later(token, now + again);
    }
}
