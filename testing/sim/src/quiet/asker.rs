//! A client that asks for one thing, and takes it as it is told to.

use super::cases::{Case, Takes};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use core::net::SocketAddr;
use core::time::Duration;

/// How long a client that takes little at a time waits before it takes more.
const PAUSE: Duration = Duration::from_millis(1);

/// What came.
#[derive(Debug, Default)]
pub struct Asked {
    /// All bytes.
    pub arrived: Vec<u8>,
    /// The connection was reset.
    pub is_torn: bool,
}

/// The client.
#[derive(Debug, Default)]
pub struct Asker {
    /// Where to, and what is sent.
    to: Option<SocketAddr>,
    request: Vec<u8>,
    /// What is sent once a head came.
    then: Option<Vec<u8>>,
    /// It sends no more from then on.
    ends: bool,
    takes: Takes,
    /// It says a byte each so often, once `then` was sent.
    chats: Option<Duration>,
    /// It must take no more before its timer has run out.
    pauses: bool,
    at: Option<ConnId>,
    asked: Asked,
    has_ended: bool,
    is_done: bool,
}

impl Asker {
    /// Asks for this from now on.
    pub fn ask(&mut self, to: SocketAddr, case: &Case) {
        *self = Self {
            to: Some(to),
            request: case.request.clone(),
            then: case.then.clone(),
            ends: case.ends,
            takes: case.takes,
            chats: case.chats,
            ..Self::default()
        };
    }

    /// Whether the connection is over.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.is_done
    }

    /// What came.
    pub fn take(&mut self) -> Asked {
        core::mem::take(&mut self.asked)
    }

    fn is_own(&self, id: ConnId) -> bool {
        self.at == Some(id)
    }
}

impl App for Asker {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        if self.is_own(id) {
            net.send_bytes(id, &self.request);
            if self.ends && self.then.is_none() {
                net.finish(id);
            }
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if !self.is_own(id) {
            return data.len();
        }
        let most = match self.takes {
            Takes::All => data.len(),
            Takes::Little(_) if self.pauses => return 0,
            Takes::First(most) => most.saturating_sub(self.asked.arrived.len()).min(data.len()),
            Takes::Little(most) => {
                self.pauses = true;
                net.set_timer(id, Some(net.now() + PAUSE));
                most.min(data.len())
            }
        };
        self.asked.arrived.extend_from_slice(&data[..most]);
        if self.then.is_some() && self.asked.arrived.windows(4).any(|four| four == b"\r\n\r\n") {
            let then = self.then.take().unwrap_or_default();
            net.send_bytes(id, &then);
            if self.ends {
                net.finish(id);
            }
            if let Some(pause) = self.chats {
                net.set_timer(id, Some(net.now() + pause));
            }
        }
        if self.has_ended && most == data.len() {
            net.finish(id);
        }
        most
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        if self.is_own(id) {
            self.has_ended = true;
        }
        if held == 0 {
            net.finish(id);
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.pauses = false;
        if let Some(pause) = self.chats.filter(|_| self.is_own(id)) {
            net.send_bytes(id, b"x");
            net.set_timer(id, Some(net.now() + pause));
        }
        net.resume(id);
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, why: Closed) {
        if self.is_own(id) {
            (self.is_done, self.asked.is_torn) = (true, why != Closed::Finished);
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if let Some(to) = self.to.take() {
            match net.connect(None, to) {
                Ok(id) => self.at = Some(id),
                Err(_) => (self.is_done, self.asked.is_torn) = (true, true),
            }
        }
        Wake::Idle
    }
}

/// Clients that ask for something, and wait for ever.
#[derive(Debug, Default)]
pub struct Crowd {
    /// Where they ask, what for, and how many are to come.
    pub to: Option<SocketAddr>,
    /// What each sends.
    pub request: Vec<u8>,
    /// How many are to come.
    pub left: usize,
    /// How many of them leave.
    pub leaves: usize,
    crowd: Vec<ConnId>,
    /// One among them.
    pub asker: Asker,
}

impl App for Crowd {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, how: Opened) {
        if self.asker.is_own(id) {
            return self.asker.on_open(net, id, how);
        }
        net.send_bytes(id, &self.request);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        self.asker.on_data(net, id, data)
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        self.asker.on_end(net, id, held);
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.asker.on_timer(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, why: Closed) {
        self.asker.on_close(net, id, why);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if let Some(to) = self.to.filter(|_| self.left > 0) {
            while self.left > 0 {
                self.left -= 1;
                self.crowd.extend(net.connect(None, to));
            }
        }
        while let Some(left) = self.leaves.checked_sub(1) {
            self.leaves = left;
            self.crowd.pop().into_iter().for_each(|id| net.abort(id));
        }
        self.asker.on_turn(net)
    }
}
