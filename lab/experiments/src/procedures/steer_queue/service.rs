//! An application that serves one request at a time with each of its servers,
//! in the order of their arrival, and lets its silo go on meanwhile.

use app::{App, Closed, ConnId, Net, Opened, Wake};
use std::collections::VecDeque;
use std::time::Duration;
use wire::Time;

/// The answer, the same every time.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nHello, world!\n";

/// The end of a request's head; it has no body.
const END: &[u8] = b"\r\n\r\n";

/// One silo's servers, behind one queue.
#[derive(Debug)]
pub(super) struct Timed {
    service: Duration,
    keep_alive: bool,
    /// When each server has done all that it was given.
    free_at: Vec<Time>,
    /// Requests and when each is done, the first first: all take the same
    /// time, so they end in the order in which they began.
    under_way: VecDeque<(Time, ConnId)>,
    /// Connections that it took.
    pub(super) taken: u64,
    /// Those of them that are gone.
    closed: u64,
    /// Requests that it answered.
    pub(super) served: u64,
    /// By how much later than they were done, all together.
    pub(super) late: Duration,
}

impl Timed {
    pub(super) fn new(servers: usize, service: Duration, keep_alive: bool) -> Self {
        Self {
            service,
            keep_alive,
            free_at: vec![Time::ZERO; servers.max(1)],
            under_way: VecDeque::new(),
            taken: 0,
            closed: 0,
            served: 0,
            late: Duration::ZERO,
        }
    }

    /// Gives a request to the server that is free first; returns when it will
    /// be done.
    fn begin(&mut self, now: Time) -> Time {
        let next = self.free_at.iter_mut().min();
        let Some(free) = next else { return now };
        *free = (*free).max(now) + self.service;
        *free
    }
}

impl App for Timed {
    fn on_open<N: Net>(&mut self, _net: &mut N, _id: ConnId, _how: Opened) {
        self.taken += 1;
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let Some(at) = data.windows(END.len()).position(|window| window == END) else { return 0 };
        let done = self.begin(net.now());
        self.under_way.push_back((done, id));
        if data.len() > at + END.len() {
            net.resume(id);
        }
        at + END.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    /// What it asked for is served nevertheless, to nobody: the work was
    /// begun.
    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {
        self.closed += 1;
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        while let Some(&(done, id)) = self.under_way.front() {
            if done > now {
                return Wake::At(done);
            }
            self.under_way.pop_front();
            self.served += 1;
            self.late += now.since(done);
            net.send_bytes(id, RESPONSE);
            if !self.keep_alive {
                net.close(id);
            }
        }
        Wake::Idle
    }

    /// Each of its connections has a request under way, or will at once.
    fn working(&self) -> u32 {
        u32::try_from(self.taken - self.closed).unwrap_or(u32::MAX)
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_the_server_that_is_free_first() {
        let at = Time::from_micros;
        let service = Duration::from_micros(100);
        let mut one = Timed::new(1, service, true);
        assert_eq!([0, 10, 500].map(|now| one.begin(at(now))), [100, 200, 600].map(at));
        let mut two = Timed::new(2, service, true);
        assert_eq!([0, 10, 20, 30].map(|now| two.begin(at(now))), [100, 110, 200, 210].map(at));
    }
}
