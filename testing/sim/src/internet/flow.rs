//! The two ends of a flow: one always has something to send, the other counts.

use super::TICK;
use crate::scenario::addresses;
use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::net::SocketAddr;
use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::Time;

/// What is queued at a time, and what is queued at most before it is sent, as by
/// a server of files: what more is under way than that, the stack has room for.
const PIECE: u32 = 64 * 1024;
const QUEUED: usize = 256 * 1024;

/// A connection that could not be opened is tried again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What arrived at the receiver.
pub(super) struct Record {
    /// By flow, in each [`TICK`].
    received: Vec<Vec<u64>>,
    ended: Vec<Option<Duration>>,
}

impl Record {
    pub fn new(flows: usize) -> Self {
        Self { received: vec![Vec::new(); flows], ended: vec![None; flows] }
    }

    /// Whether all flows have ended.
    pub fn is_over(&self) -> bool {
        self.ended.iter().all(Option::is_some)
    }

    pub fn ended(&self, flow: usize) -> Option<Duration> {
        self.ended[flow]
    }

    /// What a flow's receiver got in each [`TICK`] until `end`.
    pub fn received(&self, flow: usize, end: Duration) -> Vec<u64> {
        let mut received = self.received[flow].clone();
        received.resize(tick(end) + 1, 0);
        received
    }
}

fn tick(at: Duration) -> usize {
    (at.as_nanos() / TICK.as_nanos()) as usize
}

/// A sender.
pub(super) struct Source {
    to: SocketAddr,
    at: Time,
    left: u64,
    conn: Option<ConnId>,
    opened: bool,
    body: Body,
    /// Why its connection is gone, if that was not its end.
    pub broken: Option<Closed>,
}

impl Source {
    pub fn new(to: SocketAddr, at: Time, bytes: u64) -> Self {
        let body = Body::new(vec![0x5a; PIECE as usize]);
        Self { to, at, left: bytes, conn: None, opened: false, body, broken: None }
    }

    fn fill<N: Net>(&mut self, net: &mut N) {
        let Some(id) = self.conn.filter(|_| self.opened) else { return };
        if self.left == 0 {
            return;
        }
        while self.left > 0 && net.unsent(id) < QUEUED {
            let len = u64::from(PIECE).min(self.left);
            net.send_body(id, &self.body, 0..len as u32);
            // One that does not end has no count.
            self.left -= if self.left == u64::MAX { 0 } else { len };
        }
        if self.left == 0 {
            net.finish(id);
        }
    }
}

impl App for Source {
    fn on_open<N: Net>(&mut self, net: &mut N, _id: ConnId, _how: Opened) {
        self.opened = true;
        self.fill(net);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, _id: ConnId) {
        self.fill(net);
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, _id: ConnId, data: &[u8]) -> usize {
        data.len()
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}

    fn on_close<N: Net>(&mut self, net: &mut N, _id: ConnId, why: Closed) {
        self.conn = None;
        if !self.opened {
            self.at = net.now() + AGAIN_AFTER;
        } else if why != Closed::Finished {
            self.broken = Some(why);
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if self.conn.is_none() && !self.opened {
            if net.now() < self.at {
                return Wake::At(self.at);
            }
            match net.connect(None, self.to) {
                Ok(id) => self.conn = Some(id),
                Err(_) => return Wake::At(net.now() + AGAIN_AFTER),
            }
        }
        Wake::Idle
    }
}

/// The receiver.
pub(super) struct Sink {
    record: Rc<RefCell<Record>>,
    flows: BTreeMap<usize, usize>,
}

impl Sink {
    pub fn new(record: Rc<RefCell<Record>>) -> Self {
        Self { record, flows: BTreeMap::new() }
    }
}

impl App for Sink {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        let peer = net.peer(id).map(|peer| peer.ip());
        let count = self.record.borrow().received.len();
        let flow = (0..count).find(|flow| peer.is_some_and(|ip| addresses(*flow).contains(&ip)));
        if let Some(flow) = flow {
            self.flows.insert(id.index(), flow);
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if let Some(flow) = self.flows.get(&id.index()) {
            let at = tick(net.now().since(Time::ZERO));
            let received = &mut self.record.borrow_mut().received[*flow];
            if received.len() <= at {
                received.resize(at + 1, 0);
            }
            received[at] += data.len() as u64;
        }
        data.len()
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _held: usize) {
        if let Some(flow) = self.flows.get(&id.index()) {
            self.record.borrow_mut().ended[*flow] = Some(net.now().since(Time::ZERO));
        }
        net.finish(id);
    }
}
