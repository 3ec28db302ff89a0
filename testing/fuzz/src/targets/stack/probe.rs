//! An application that does as it is told, and holds the data path to its
//! contract.

use super::peer::SERVER_PORT;
use super::steps::Act;
use crate::packets::{THEIR_V4, THEIR_V6};
use app::{App, Body, Closed, ConnId, Net, Opened, Wake};
use core::net::{IpAddr, SocketAddr};

/// Bytes that the application lets wait in a send queue.
const MAX_UNSENT: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Probe {
    pub acts: Vec<Act>,
    connections: Vec<Connection>,
    /// Of what is offered, so many of 8 parts are left.
    leave: u8,
    /// Contents may be anything.
    anything: bool,
    letting_go: bool,
    /// Bytes consumed, of all connections.
    pub received: usize,
}

#[derive(Debug)]
struct Connection {
    id: ConnId,
    open: bool,
    ended: bool,
    /// What the next byte must be, once one was seen.
    next: Option<u8>,
    /// Bytes sent so far.
    sent: u32,
    finished: bool,
    /// Bytes of the last offer that were left.
    left: usize,
}

impl Probe {
    pub(super) fn trust_nothing(&mut self) {
        self.anything = true;
    }

    pub(super) fn let_go(&mut self) {
        self.letting_go = true;
        self.leave = 0;
    }

    pub(super) fn check_closed(&self) {
        assert!(self.connections.is_empty(), "never closed: {:?}", self.connections);
    }

    fn find(&mut self, id: ConnId) -> &mut Connection {
        self.connections.iter_mut().find(|connection| connection.id == id).expect("a connection that is not closed")
    }

    fn act<N: Net>(&mut self, net: &mut N, act: Act) {
        let which = match act {
            Act::Connect { v6 } => {
                let to: IpAddr = if v6 { THEIR_V6.into() } else { THEIR_V4.into() };
                if let Ok(id) = net.connect(None, SocketAddr::new(to, SERVER_PORT)) {
                    self.connections.push(Connection::new(id, false));
                }
                return;
            }
            Act::Consume { eighths } => {
                self.leave = 8 - eighths.min(8);
                return;
            }
            Act::Send { which, .. }
            | Act::SendBody { which, .. }
            | Act::Finish { which }
            | Act::Abort { which }
            | Act::Resume { which }
            | Act::Timer { which, .. } => usize::from(which),
        };
        let count = self.connections.len().max(1);
        if let Some(connection) = self.connections.get_mut(which % count) {
            connection.act(net, act);
        }
    }
}

impl Connection {
    const fn new(id: ConnId, open: bool) -> Self {
        Self { id, open, ended: false, next: None, sent: 0, finished: false, left: 0 }
    }

    fn act<N: Net>(&mut self, net: &mut N, act: Act) {
        match act {
            Act::Send { len, .. } => self.send(net, len, |net, id, bytes| net.send_bytes(id, bytes)),
            Act::SendBody { len, .. } => self.send(net, len, |net, id, bytes| {
                net.send_body(id, &Body::new(bytes.to_vec()), 0..bytes.len() as u32);
            }),
            Act::Finish { .. } => {
                self.finished = true;
                net.finish(self.id);
            }
            Act::Abort { .. } => net.abort(self.id),
            Act::Resume { .. } => net.resume(self.id),
            Act::Timer { after, .. } => net.set_timer(self.id, Some(net.now() + after)),
            Act::Connect { .. } | Act::Consume { .. } => {}
        }
    }

    /// Sends bytes that say where in the stream they are.
    fn send<N: Net>(&mut self, net: &mut N, len: usize, send: impl FnOnce(&mut N, ConnId, &[u8])) {
        if !self.open || self.finished || net.unsent(self.id) + len > MAX_UNSENT {
            return;
        }
        let bytes: Vec<u8> = (0..len as u32).map(|at| self.sent.wrapping_add(at) as u8).collect();
        send(net, self.id, &bytes);
        self.sent = self.sent.wrapping_add(len as u32);
    }
}

impl App for Probe {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        assert!(net.peer(id).is_some() && net.local(id).is_some());
        match how {
            Opened::Accepted => {
                assert!(self.connections.iter().all(|connection| connection.id != id), "opened twice");
                self.connections.push(Connection::new(id, true));
            }
            Opened::Connected => {
                let connection = self.find(id);
                assert!(!connection.open, "opened twice");
                connection.open = true;
            }
        }
    }

    fn on_data<N: Net>(&mut self, _: &mut N, id: ConnId, data: &[u8]) -> usize {
        let (leave, anything) = (usize::from(self.leave), self.anything);
        let connection = self.find(id);
        assert!(connection.open && !data.is_empty());
        assert!(data.len() >= connection.left, "less than what was left");
        if !anything {
            let first = connection.next.unwrap_or(data[0]);
            for (at, &byte) in data.iter().enumerate() {
                assert_eq!(byte, first.wrapping_add(at as u8), "byte {at} of {}", data.len());
            }
        }
        let consumed = data.len() - data.len() * leave / 8;
        connection.next = Some(data[0].wrapping_add(consumed as u8));
        connection.left = data.len() - consumed;
        self.received += consumed;
        consumed
    }

    fn on_end<N: Net>(&mut self, _: &mut N, id: ConnId, held: usize) {
        let connection = self.find(id);
        assert!(connection.open && !connection.ended, "ended twice");
        assert_eq!(held, connection.left, "what was left unconsumed");
        connection.ended = true;
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        assert!(self.find(id).open && net.unsent(id) <= app::SEND_LOW_WATER);
    }

    fn on_timer<N: Net>(&mut self, _: &mut N, id: ConnId) {
        let _ = self.find(id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        let _ = (self.find(id), why);
        assert_eq!(net.unsent(id), 0, "nothing is queued for a connection that is gone");
        self.connections.retain(|connection| connection.id != id);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        for act in core::mem::take(&mut self.acts) {
            self.act(net, act);
        }
        if self.letting_go {
            for connection in &self.connections {
                net.abort(connection.id);
            }
        }
        Wake::Idle
    }

    fn drain<N: Net>(&mut self, _: &mut N) -> bool {
        self.connections.is_empty()
    }
}
