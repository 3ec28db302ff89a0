//! The application under test: does what the script says, and remembers what
//! it was told.

use crate::frames::{Family, SERVICE_PORT, pattern};
use crate::run::{Act, Told};
use app::{App, Closed, ConnId, Net, Opened, Unreachable, Wake};
use core::net::SocketAddr;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The strings: shared between the script's runner and the application.
#[derive(Clone, Default)]
pub struct Strings(Rc<RefCell<Shared>>);

#[derive(Default)]
struct Shared {
    acts: VecDeque<Act>,
    told: Told,
}

impl Strings {
    /// To be done at the next turn.
    pub fn pull(&self, act: Act) {
        self.0.borrow_mut().acts.push_back(act);
    }

    /// What the application was told so far.
    #[must_use]
    pub fn told(&self) -> Told {
        self.0.borrow().told.clone()
    }
}

/// The application.
pub struct Puppet {
    strings: Strings,
    family: Family,
    /// The connection opened last, or being opened.
    conn: Option<ConnId>,
    sent: u32,
    hold: bool,
}

impl Puppet {
    /// An application on these strings.
    #[must_use]
    pub fn new(strings: Strings, family: Family) -> Self {
        Self { strings, family, conn: None, sent: 0, hold: false }
    }

    fn act<N: Net>(&mut self, net: &mut N, act: Act) {
        match act {
            Act::Listen => {} // The stack listens by its settings.
            Act::Connect => match net.connect(None, SocketAddr::new(self.family.peer(), SERVICE_PORT)) {
                Ok(id) => self.conn = Some(id),
                Err(_) => self.tell(|told| told.closed = Some(Closed::Unreachable(Unreachable::Host))),
            },
            Act::Hold(hold) => {
                self.hold = hold;
                if let (false, Some(id)) = (hold, self.conn) {
                    net.resume(id);
                }
            }
            Act::Send(len) => {
                let bytes: Vec<u8> = (self.sent..self.sent + len).map(pattern).collect();
                self.sent += len;
                self.on_conn(|id| net.send_bytes(id, &bytes));
            }
            Act::Finish => self.on_conn(|id| net.finish(id)),
            Act::Abort => self.on_conn(|id| net.abort(id)),
        }
    }

    fn on_conn(&self, f: impl FnOnce(ConnId)) {
        if let Some(id) = self.conn {
            f(id);
        }
    }

    fn tell(&self, f: impl FnOnce(&mut Told)) {
        f(&mut self.strings.0.borrow_mut().told);
    }
}

impl App for Puppet {
    fn on_open<N: Net>(&mut self, _net: &mut N, id: ConnId, how: Opened) {
        if how == Opened::Accepted {
            self.conn = Some(id);
        }
        self.sent = 0;
        self.tell(|told| *told = Told { opened: told.opened + 1, ..Told::default() });
    }

    fn on_data<N: Net>(&mut self, _net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if self.hold || self.conn != Some(id) {
            return 0;
        }
        self.tell(|told| {
            for &byte in data {
                if byte != pattern(told.received as u32) && told.wrong.is_none() {
                    told.wrong = Some(told.received);
                }
                told.received += 1;
            }
        });
        data.len()
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, id: ConnId, _held: usize) {
        if self.conn == Some(id) {
            self.tell(|told| told.ended = true);
        }
    }

    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}

    fn on_close<N: Net>(&mut self, _net: &mut N, id: ConnId, why: Closed) {
        if self.conn == Some(id) {
            self.tell(|told| told.closed = Some(why));
        }
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        loop {
            let act = self.strings.0.borrow_mut().acts.pop_front();
            let Some(act) = act else { return Wake::Idle };
            self.act(net, act);
        }
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        self.conn.is_none()
    }
}
