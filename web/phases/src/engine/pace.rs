//! Answers that are sent no faster than they may be (`limit_rate`).

use super::course::{Course, CourseState};
use super::paced::Paced;
use super::run::{Flow, Runner};
use super::{Engine, Rest};
use crate::value::Value;
use app::Body;
use core::time::Duration;
use exchange::{Part, Piece, Replies, Reply, ReplyEnd};
use files::Rate;
use std::cmp::Reverse;
use wire::Time;

/// The shortest time between two pieces.
const STEP: Duration = Duration::from_millis(20);

/// How often it is looked whether the last was taken.
const LINGER: Duration = Duration::from_millis(50);

impl Runner<'_> {
    /// How fast this answer of so many bytes may be sent, if that is limited.
    pub(super) fn pace(&mut self, length: u64) -> Option<Rate> {
        if self.is_sub() {
            // It is part of what is sent at the pace of another.
            return None;
        }
        let loaded = std::rc::Rc::clone(&self.loaded);
        let block = &loaded.program.blocks[Self::block(&loaded, self.course)?];
        let rate = match self.course.limit_rate {
            Some(rate) => rate,
            None => {
                let rate = block.limit_rate.as_ref()?;
                self.size(rate)?
            }
        };
        if rate == 0 {
            return None;
        }
        let after = match &block.limit_rate_after {
            Some(after) => self.size(after).unwrap_or(0),
            None => 0,
        };
        let pace = Rate { bytes: rate, after };
        (length > pace.allowed(Duration::ZERO)).then_some(pace)
    }

    /// What a value comes to in bytes; what is no size limits nothing.
    fn size(&mut self, value: &Value) -> Option<u64> {
        crate::units::size(&self.scope().get(value)).ok()
    }

    /// Begins to send a body in memory at a pace.
    pub(super) fn begin_paced(
        &mut self,
        reply: &Reply<'_>,
        (body, start): (Body, u32),
        parts: Vec<Part>,
        pace: Rate,
    ) -> Flow {
        self.replies.begin(self.course.id, self.request, reply, ReplyEnd::Length);
        self.course.sent.head = self.replies.head_len();
        self.course.paced =
            Some(Paced { pace, body, parts: parts.into(), start, began: self.clock.now, sent: 0, finished: false });
        self.course.state = CourseState::Sends;
        Flow::Done
    }
}

impl Engine {
    /// Sends some more of what is sent at a pace.
    pub(super) fn send_paced(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        let Some(course) = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut) else { return };
        let id = course.id;
        let again = match course.send_some(replies, now) {
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

impl Course {
    /// Sends what may be; when the next may, or nothing if all is queued.
    fn send_some(&mut self, replies: &mut dyn Replies, now: Time) -> Option<Duration> {
        let paced = self.paced.as_mut()?;
        let mut room = paced.pace.allowed(now.since(paced.began)).saturating_sub(paced.sent);
        let before = room;
        while room > 0 {
            match paced.parts.front_mut() {
                None => break,
                Some(Part::Bytes(bytes)) => {
                    replies.body(self.id, Piece::Bytes(bytes));
                    room = room.saturating_sub(bytes.len() as u64);
                    self.sent.body += bytes.len() as u64;
                    paced.sent += bytes.len() as u64;
                    paced.parts.pop_front();
                }
                Some(Part::Content(range)) => {
                    let length = room.min(range.end - range.start);
                    // Content in memory is below 4 GiB.
                    let from = paced.start + range.start as u32;
                    replies.body(self.id, Piece::Body(&paced.body, (from, from + length as u32)));
                    range.start += length;
                    room -= length;
                    self.sent.body += length;
                    paced.sent += length;
                    if range.start >= range.end {
                        paced.parts.pop_front();
                    }
                }
            }
        }
        if paced.parts.is_empty() {
            if !core::mem::replace(&mut paced.finished, true) {
                replies.finish(self.id, b"");
            }
            return None;
        }
        let queued = before - room;
        Some(Duration::from_millis(queued.saturating_mul(1_000) / paced.pace.bytes.max(1)).max(STEP))
    }
}

impl Rest {
    /// The request by `token` goes on at this time.
    pub fn later(&mut self, token: u32, at: Time) {
        let ticket = self.next_ticket(token);
        if let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_mut) {
            course.ticket = Some(ticket);
            self.delayed.push(Reverse((at, ticket)));
        }
    }
}
