//! An application that keeps its worker busy.

use super::service::{Service, sleep_sharply};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use stats::Random;
use std::time::Duration;

/// The request, the same every time: on a connection that stays, and on one
/// that is for it alone (RFC 9112 §9.6).
const NEXT: &[u8] = b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n";

/// Which of both.
pub(super) const fn request(keep_alive: bool) -> &'static [u8] {
    if keep_alive { NEXT } else { LAST }
}

/// Its answer.
pub(super) const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nHello, world!\n";

/// One worker's.
#[derive(Debug)]
pub(super) struct Busy {
    service: Service,
    random: Random,
    keep_alive: bool,
    sharp: bool,
    /// Connections that it took.
    pub(super) taken: u64,
    /// Requests that it served.
    pub(super) served: u64,
    /// By how much longer than asked for, all together.
    pub(super) late: Duration,
}

impl Busy {
    pub(super) fn new(service: Service, seed: u64, keep_alive: bool) -> Self {
        Self { service, random: Random::new(seed), keep_alive, sharp: false, taken: 0, served: 0, late: Duration::ZERO }
    }
}

impl App for Busy {
    fn on_open<N: Net>(&mut self, _net: &mut N, _id: ConnId, _how: Opened) {
        if !self.sharp {
            // Here and not in `new`: it is the worker's thread that sleeps.
            sleep_sharply();
            self.sharp = true;
        }
        self.taken += 1;
    }

    /// One request at a time: who sends two must wait for the first.
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let request = request(self.keep_alive).len();
        if data.len() < request {
            return 0;
        }
        self.late += self.service.occupy(&mut self.random);
        self.served += 1;
        net.send_bytes(id, RESPONSE);
        if !self.keep_alive {
            net.close(id);
        }
        if data.len() > request {
            net.resume(id);
        }
        request
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        net.finish(id);
    }

    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {}

    fn on_turn<N: Net>(&mut self, _net: &mut N) -> Wake {
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}
