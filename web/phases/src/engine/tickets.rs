//! Requests that wait for a time, a password that is verified, or content that is compressed:
//! each is known by a ticket, which is another whenever it waits.

use super::{Engine, Rest};
use exchange::Replies;
use features::compression::CompressedBodies;
use passwords::{Verdict, Verifier};
use std::cmp::Reverse;
use wire::Time;

impl Rest {
    /// What the request by `token` waits by.
    pub fn next_ticket(&mut self, token: u32) -> u64 {
        self.tickets = self.tickets.wrapping_add(1);
        u64::from(self.tickets) << 32 | u64::from(token)
    }

    /// The request by `token` goes on at this time.
    pub fn later(&mut self, token: u32, at: Time) {
        let ticket = self.next_ticket(token);
        if let Some(course) = self.courses.get_mut(token as usize).and_then(Option::as_mut) {
            course.ticket = Some(ticket);
            self.delayed.push(Reverse((at, ticket)));
        }
    }
}

impl Engine {
    /// Those that were delayed long enough go on; whether any did.
    pub(super) fn wake_delayed(&mut self, replies: &mut dyn Replies) -> bool {
        let (now, mut any) = (replies.now(), false);
        while let Some(Reverse((at, ticket))) = self.rest.delayed.peek().copied()
            && at <= now
        {
            self.rest.delayed.pop();
            any |= self.go_on_by(replies, ticket, None);
        }
        any
    }

    /// One that waits by a ticket goes on; whether it is still there.
    pub(super) fn go_on_by(&mut self, replies: &mut dyn Replies, ticket: u64, verdict: Option<Verdict>) -> bool {
        let token = ticket as u32;
        let course = self.rest.courses.get_mut(token as usize).and_then(Option::as_mut);
        let Some(course) = course.filter(|course| course.ticket == Some(ticket)) else { return false };
        (course.ticket, course.features.auth_basic.verdict) = (None, verdict);
        if course.filtering.is_some() {
            self.rest.make_ready(token);
            return true;
        }
        self.go_on_any(replies, token);
        true
    }

    /// Those whose content was compressed go on.
    pub(super) fn take_compressed(&mut self, replies: &mut dyn Replies) -> bool {
        let mut any = false;
        while let Some(tickets) = self.rest.compressed.as_mut().and_then(CompressedBodies::take) {
            for ticket in tickets {
                any |= self.go_on_by(replies, ticket, None);
            }
        }
        any
    }

    /// Those whose passwords were looked at go on.
    pub(super) fn take_verdicts(&mut self, replies: &mut dyn Replies) -> bool {
        let mut any = false;
        while let Some((ticket, verdict)) = self.rest.verifier.as_mut().and_then(Verifier::take) {
            any |= self.go_on_by(replies, ticket, Some(verdict));
        }
        any
    }
}
