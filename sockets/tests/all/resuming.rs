//! Connections that the application goes on with in its own turn.

use crate::support::{PATIENCE, client, listen, on_engine};
use app::{App, Closed, ConnId, Net, Opened, Wake};
use sockets::{Attendant, Config, Model, Worker};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use wire::Time;

/// Answers byte by byte, and works on each between two of its own turns, as a
/// server does that has a file read for each request.
#[derive(Debug, Default)]
struct Slow {
    client: Option<ConnId>,
    /// A byte was taken, and the work on it has not begun.
    asked: bool,
    /// The work on it has begun.
    begun: bool,
    done: usize,
}

impl App for Slow {
    fn on_open<N: Net>(&mut self, _net: &mut N, _id: ConnId, _how: Opened) {}

    fn on_data<N: Net>(&mut self, _net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if self.asked || self.begun || data.is_empty() {
            return 0;
        }
        (self.asked, self.client) = (true, Some(id));
        1
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if core::mem::take(&mut self.begun) {
            self.done += 1;
            if let Some(client) = self.client {
                net.send_bytes(client, b"y");
                net.resume(client);
            }
        }
        self.begun |= core::mem::take(&mut self.asked);
        if self.begun { Wake::Now } else { Wake::Idle }
    }

    fn on_end<N: Net>(&mut self, _net: &mut N, _id: ConnId, _held: usize) {}
    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_timer<N: Net>(&mut self, _net: &mut N, _id: ConnId) {}
    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {}
    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

/// Looks at the application before each wait.
struct Watch {
    bytes: usize,
    until: Cell<Option<Time>>,
    /// Waits before which something was asked for and had not begun.
    forgotten: Cell<u32>,
}

impl Attendant<Slow> for &Watch {
    fn attend(&mut self, worker: &mut Worker<Slow>, now: Time, _usage: &silo::Usage) -> silo::Next {
        let until = *self.until.get().get_or_insert(now + PATIENCE);
        self.until.set(Some(until));
        let over = worker.app.done == self.bytes || now > until;
        if over { silo::Next::Stop } else { silo::Next::Go }
    }

    fn wake<'a>(&self, app: &'a Slow) -> Option<BorrowedFd<'a>> {
        self.forgotten.set(self.forgotten.get() + u32::from(app.asked));
        None
    }
}

/// What a connection asks for when it is gone on with begins in the same pass,
/// before anything is waited for.
#[test]
fn a_resumed_connection_is_taken_on_in_the_same_pass() {
    const BYTES: usize = 50;
    let (listeners, address) = listen(Model::Reuseport, 1);
    let mut stream = client(address);
    stream.write_all(&[b'x'; BYTES]).unwrap();
    let mut worker = Worker::new(on_engine(Config::default()), listeners.for_worker(0), Slow::default()).unwrap();
    let watch = Watch { bytes: BYTES, until: Cell::new(None), forgotten: Cell::new(0) };
    worker.run(&mut &watch).unwrap();
    assert_eq!(worker.app.done, BYTES);
    assert_eq!(watch.forgotten.get(), 0, "left for a pass that may never come");
}

/// Composes an answer as its client takes it: told of room, it queues the next piece in its
/// own turn.
#[derive(Debug, Default)]
struct Composer {
    client: Option<ConnId>,
    left: usize,
    has_room: bool,
    is_over: bool,
}

/// More than the mark below which room is told of, and little enough for a socket to take it
/// as it is sent.
const PIECE: usize = app::SEND_LOW_WATER + 1;

impl App for Composer {
    fn on_data<N: Net>(&mut self, _net: &mut N, id: ConnId, data: &[u8]) -> usize {
        (self.client, self.has_room) = (Some(id), true);
        data.len()
    }

    fn on_sent<N: Net>(&mut self, _net: &mut N, _id: ConnId) {
        self.has_room = true;
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, _why: Closed) {
        self.is_over = true;
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if core::mem::take(&mut self.has_room)
            && let Some(client) = self.client
        {
            match self.left.checked_sub(1) {
                Some(left) => {
                    self.left = left;
                    net.send_bytes(client, &[b'z'; PIECE]);
                }
                None => net.finish(client),
            }
        }
        Wake::Idle
    }

    fn has_work(&self) -> bool {
        self.has_room
    }
}

/// Looks before each wait whether there is work.
struct Careful(Cell<u32>);

impl Attendant<Composer> for &Careful {
    fn attend(&mut self, worker: &mut Worker<Composer>, _now: Time, _usage: &silo::Usage) -> silo::Next {
        if worker.app.is_over { silo::Next::Stop } else { silo::Next::Go }
    }

    fn due(&self, worker: &Worker<Composer>, now: Time, _usage: &silo::Usage) -> Time {
        self.0.set(self.0.get() + u32::from(worker.app.has_room));
        now + sockets::ATTEND_IDLE
    }
}

/// The kernel takes what a turn queued as that is sent, and the application is told of room
/// behind its turn: it has another before anything is waited for.
#[test]
fn room_behind_a_turn_is_followed_by_another_turn() {
    const PIECES: usize = 40;
    let (listeners, address) = listen(Model::Reuseport, 1);
    let mut stream = client(address);
    stream.write_all(b"x").unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len()
    });
    let composer = Composer { left: PIECES, ..Composer::default() };
    let mut worker = Worker::new(on_engine(Config::default()), listeners.for_worker(0), composer).unwrap();
    let careful = Careful(Cell::new(0));
    worker.run(&mut &careful).unwrap();
    assert_eq!(reader.join().unwrap(), PIECES * PIECE);
    assert_eq!(careful.0.get(), 0, "it slept with work to do");
}
