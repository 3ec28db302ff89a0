//! What a request waits by that waits for a time, a password that is verified, or content that is
//! compressed: a ticket, which is another whenever it waits.

use super::Rest;
use super::request_state::RequestState;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wire::Time;

/// The tickets of a silo.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    last: u32,
    /// Those that come up at a time.
    timed: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Tickets {
    /// What the request by `token` waits by.
    pub fn next(&mut self, token: u32) -> u64 {
        self.last = self.last.wrapping_add(1);
        u64::from(self.last) << 32 | u64::from(token)
    }

    /// A ticket comes up at this time, too.
    pub fn expire(&mut self, ticket: u64, at: Time) {
        self.timed.push(Reverse((at, ticket)));
    }

    /// The request by `token` goes on at this time.
    pub fn delay(&mut self, (token, state): (u32, &mut RequestState), at: Time) {
        let ticket = self.next(token);
        state.wait.ticket = Some(ticket);
        self.expire(ticket, at);
    }

    /// When the next comes up.
    pub fn wake(&self) -> Option<Time> {
        self.timed.peek().map(|Reverse((at, _))| *at)
    }

    /// One whose time has come.
    pub fn due(&mut self, now: Time) -> Option<u64> {
        self.wake().filter(|at| *at <= now)?;
        self.timed.pop().map(|Reverse((_, ticket))| ticket)
    }
}

impl Rest {
    /// The request by `token`, which waits in its place, goes on at this time.
    pub fn later(&mut self, token: u32, at: Time) {
        if let Some(state) = self.requests.get_mut(token) {
            self.tickets.delay((token, state), at);
        }
    }
}
