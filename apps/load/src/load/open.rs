//! The open loop: what is due, and who sends it.
//!
//! A request that is due while no connection is free waits. Those that wait
//! are not queued: one walk along the schedule ([`Arrivals`]) stands at the
//! next request to be sent, and while it is behind, a second one, at the time,
//! counts what comes due. So a backlog of any length takes the same memory,
//! and each request is still timed from the very moment it was due.

use super::{Load, STARTS_PER_TURN};
use crate::conn::State;
use crate::live::{self, Live};
use crate::plan::Plan;
use crate::schedule::{Arrival, Arrivals, Change, Schedule};
use app::{ConnId, Net, Wake};
use std::collections::VecDeque;
use wire::Time;

/// Requests that one turn counts as due, at most, so that a generator that
/// stood still is back in time: at 10 ns each, 40 µs.
const DUES_PER_TURN: u64 = 4_096;

/// Changes of the rate that a backlog may reach back over. Further ones wait
/// until the backlog is shorter.
const CHANGES_LIMIT: usize = 64;

/// The schedule as it is followed, and the connections that are free.
#[derive(Debug)]
pub struct Open {
    schedule: Schedule,
    /// At the next request to be sent; `None` before the warm-up.
    behind: Option<Arrivals>,
    /// At the next request to come due, while `behind` is not.
    ahead: Option<Arrivals>,
    /// Requests between the two: due, and not sent.
    backlog: u64,
    /// Requests that came due.
    due: u64,
    /// Changes that `ahead` has seen, and `behind` has not.
    changes: VecDeque<(Time, Change)>,
    /// When the last request was taken to be sent.
    last_taken: Time,
    /// The rate last taken from [`Live`].
    wanted: u64,
    /// Free connections, the longest free first, so that all are in use; one
    /// entry for each request that may be sent. Some are gone by now. Bounded:
    /// those that are not have as many entries as there are places.
    ready: VecDeque<ConnId>,
    ready_limit: usize,
    /// When requests were due that were sent and taken back: they are sent again before all others.
    /// Bounded: each had a place.
    taken_back: VecDeque<Time>,
}

impl Open {
    /// The open loop of a plan; none of a closed one.
    pub fn of(plan: &Plan) -> Option<Box<Self>> {
        let Arrival::Open(schedule) = &plan.arrival else { return None };
        let places = plan.connections as usize * usize::from(plan.pipeline);
        Some(Box::new(Self::new(schedule.clone(), places)))
    }

    fn new(schedule: Schedule, places: usize) -> Self {
        // Twice the places, so that throwing out what is gone is rare.
        let ready_limit = 2 * places;
        Self {
            schedule,
            behind: None,
            ahead: None,
            backlog: 0,
            due: 0,
            changes: VecDeque::with_capacity(CHANGES_LIMIT),
            last_taken: Time::ZERO,
            wanted: 0,
            ready: VecDeque::with_capacity(ready_limit),
            ready_limit,
            taken_back: VecDeque::new(),
        }
    }

    /// Requests fall due from now on.
    pub fn start(&mut self, seed: u64, now: Time) {
        self.behind = Some(Arrivals::new(&self.schedule, seed, now));
    }

    /// The schedule's own time begins.
    pub fn begin(&mut self, now: Time) {
        self.count_due(now, u64::MAX);
        if self.wanted == 0 {
            self.change(Change::Begin, now);
        }
    }

    /// Requests that came due so far, by the last [`Open::count_due`].
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Of these, those that were not sent.
    pub fn backlog(&self) -> u64 {
        self.backlog + self.taken_back.len() as u64
    }

    /// When the next request to be sent is due, or was.
    pub fn next(&self) -> Time {
        let next = self.behind.as_ref().map_or(Time::MAX, Arrivals::next);
        self.taken_back.front().map_or(next, |due| next.min(*due))
    }

    /// A request that was due at this time was not processed, and is to be sent again.
    pub fn take_back(&mut self, due: Time) {
        self.taken_back.push_back(due);
    }

    /// When the last request was sent.
    pub fn last_taken(&self) -> Time {
        self.last_taken
    }

    /// A connection takes no more requests.
    pub fn forget(&mut self, id: ConnId) {
        self.ready.retain(|ready| *ready != id);
    }

    /// When the next request comes due.
    pub fn next_due(&self) -> Time {
        self.ahead.as_ref().or(self.behind.as_ref()).map_or(Time::MAX, Arrivals::next)
    }

    /// The rate at present.
    pub fn rate(&self, now: Time) -> f64 {
        self.ahead.as_ref().or(self.behind.as_ref()).map_or(0.0, |arrivals| arrivals.rate(now))
    }

    /// Counts what came due until now, `limit` requests at most. Answers
    /// whether that was all.
    pub fn count_due(&mut self, now: Time, limit: u64) -> bool {
        let Some(behind) = &self.behind else {
            return true;
        };
        if self.ahead.is_none() {
            if behind.next() > now {
                return true;
            }
            self.ahead = Some(behind.clone());
        }
        let Some(ahead) = &mut self.ahead else {
            return true;
        };
        for _ in 0..limit {
            if ahead.next() > now {
                return true;
            }
            self.backlog += 1;
            self.due += 1;
            ahead.advance(&self.schedule);
        }
        ahead.next() > now
    }

    /// Counts what came due before this moment: what is due at the very end
    /// of a phase is of the next one.
    pub fn count_due_before(&mut self, end: Time) {
        self.count_due(Time::from_nanos(end.as_nanos().saturating_sub(1)), u64::MAX);
    }

    /// Takes the next request, if one is due, and answers since when.
    #[inline]
    pub fn take(&mut self, now: Time) -> Option<Time> {
        if let Some(due) = self.taken_back.pop_front() {
            self.last_taken = now;
            return Some(due);
        }
        let behind = self.behind.as_mut()?;
        let at = behind.next();
        if at > now {
            return None;
        }
        self.last_taken = now;
        if self.ahead.is_none() {
            self.due += 1;
            behind.advance(&self.schedule);
            return Some(at);
        }
        self.take_backlog();
        Some(at)
    }

    /// `behind` goes on by one request, on the way of `ahead`.
    fn take_backlog(&mut self) {
        self.backlog -= 1;
        if self.backlog == 0 {
            // Then the two stand at the same request.
            self.behind = self.ahead.take();
            self.changes.clear();
            return;
        }
        let Some(behind) = &mut self.behind else {
            return;
        };
        behind.advance(&self.schedule);
        while let Some(&(at, change)) = self.changes.front() {
            // What was due by the time of a change was due at the old rate.
            if behind.next() <= at {
                break;
            }
            behind.change(&self.schedule, change, at);
            self.changes.pop_front();
        }
    }

    /// Follows the rate that another thread set.
    #[inline]
    fn steer(&mut self, live: &Live, now: Time) {
        let wanted = live.wanted();
        if wanted != self.wanted {
            self.take_wanted(wanted, now);
        }
    }

    #[cold]
    fn take_wanted(&mut self, wanted: u64, now: Time) {
        let Some(rate) = live::wanted_rate(wanted) else {
            return;
        };
        // What was due until now was due at the old rate.
        if self.behind.is_some() && self.count_due(now, DUES_PER_TURN) && self.change(Change::Rate(rate), now) {
            self.wanted = wanted;
        }
    }

    /// Takes a change once all that came due is counted. Answers whether
    /// there was room to note it.
    fn change(&mut self, change: Change, now: Time) -> bool {
        match (&mut self.ahead, &mut self.behind) {
            (Some(ahead), _) => {
                // One place is kept for the schedule's own beginning.
                if self.changes.len() + usize::from(change != Change::Begin) >= CHANGES_LIMIT {
                    return false;
                }
                ahead.change(&self.schedule, change, now);
                self.changes.push_back((now, change));
            }
            (None, Some(behind)) => behind.change(&self.schedule, change, now),
            (None, None) => {}
        }
        true
    }
}

impl Load {
    /// A connection may send one more request: at once if one is due.
    pub(super) fn offer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let now = net.now();
        let Some(open) = &mut self.open_loop else {
            return;
        };
        if self.allowance > 0
            && let Some(due) = open.take(now)
        {
            self.ask_due(net, id, due);
            return;
        }
        if open.ready.len() >= open.ready_limit {
            let table = &self.table;
            let here = |id: &ConnId| table.get(*id).is_some_and(|conn| matches!(conn.state, State::Idle | State::Busy));
            open.ready.retain(here);
        }
        open.ready.push_back(id);
    }

    /// The connection that is to send next, if one is free.
    fn front(&mut self) -> Option<ConnId> {
        let per_connection = self.reuse.per_connection().unwrap_or(u32::MAX);
        let open = self.open_loop.as_mut()?;
        while let Some(&id) = open.ready.front() {
            let free = self.table.get(id).is_some_and(|conn| {
                let room = match &self.http2 {
                    None => usize::from(conn.asked) < self.table.depth(),
                    Some(http2) => http2.has_room(id),
                };
                matches!(conn.state, State::Idle | State::Busy) && room
            });
            if free && self.table.uses(id) < per_connection {
                return Some(id);
            }
            open.ready.pop_front();
            if let Some(http2) = &mut self.http2 {
                http2.drop_ticket(id);
            }
        }
        None
    }

    /// Sends what is due, and answers when to come again.
    pub(super) fn open_turn<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        self.progress.tick(now);
        if let Some(open) = &mut self.open_loop {
            open.steer(&self.live, now);
        }
        for _ in 0..STARTS_PER_TURN {
            if self.allowance == 0 {
                return Wake::At(Time::MAX);
            }
            let front = self.front();
            let may_connect = front.is_none() && self.may_connect_for_more();
            let Some(open) = &mut self.open_loop else {
                break;
            };
            let Some(id) = front else {
                let all = open.count_due(now, DUES_PER_TURN);
                let next = open.next_due();
                // With all connections busy, nothing is to be done when the
                // next request comes due.
                return if !all {
                    Wake::Now
                } else if may_connect {
                    Wake::At(next)
                } else {
                    Wake::At(Time::MAX)
                };
            };
            let Some(due) = open.take(now) else {
                return Wake::At(open.next());
            };
            open.ready.pop_front();
            self.worked = true;
            self.ask_due(net, id, due);
        }
        Wake::Now
    }

    /// Whether a request that comes due would start a connection.
    fn may_connect_for_more(&self) -> bool {
        self.reuse.per_connection() == Some(1) && self.standing() < self.plan.connections
    }
}
