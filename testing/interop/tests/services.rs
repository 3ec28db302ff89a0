//! A service beside the web server, in one worker: connections to one listener are relayed to
//! another server as they are, those to the other are answered by HTTP.

use app::{Closed, ConnId, Net, Opened};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use server::exchange::{Listeners, LocalAddress, Speaks};
use server::{Config, Respond, Server, Service, WallClock};
use silo::{Next, Usage};
use sockets::{Attendant, Endpoint, ListenOptions, Model, Worker};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use wire::Time;

/// Bytes that wait for one side, at most.
const UNSENT_MAX: usize = 256 << 10;

/// What one side of a relayed connection is to the other.
#[derive(Clone, Copy, Debug)]
struct Side {
    other: ConnId,
    dialled: bool,
    /// It is established.
    open: bool,
    /// It sends no more, and what it sent last may still be held.
    ended: bool,
}

/// Relays each connection to a server.
#[derive(Debug)]
struct Relay {
    to: SocketAddr,
    sides: HashMap<ConnId, Side>,
}

impl Relay {
    fn is_open(&self, id: ConnId) -> bool {
        self.sides.get(&id).is_some_and(|side| side.open)
    }
}

impl Service for Relay {
    fn on_open(&mut self, net: &mut dyn Net, id: ConnId, how: Opened) {
        if how == Opened::Connected {
            let Some(side) = self.sides.get_mut(&id) else { return };
            side.open = true;
            // What came until now was left.
            net.resume(side.other);
            return;
        }
        match net.connect(None, self.to) {
            Ok(other) => {
                self.sides.insert(id, Side { other, dialled: false, open: true, ended: false });
                self.sides.insert(other, Side { other: id, dialled: true, open: false, ended: false });
            }
            Err(_) => net.abort(id),
        }
    }

    fn on_data(&mut self, net: &mut dyn Net, id: ConnId, data: &[u8]) -> usize {
        let Some(Side { other, ended, .. }) = self.sides.get(&id).copied() else { return data.len() };
        if !self.is_open(other) || net.unsent(other) > UNSENT_MAX {
            return 0;
        }
        net.send_bytes(other, data);
        if ended {
            net.finish(other);
        }
        data.len()
    }

    fn on_end(&mut self, net: &mut dyn Net, id: ConnId, held: usize) {
        let Some(side) = self.sides.get_mut(&id) else { return };
        side.ended = true;
        if held == 0 {
            net.finish(side.other);
        }
    }

    fn on_sent(&mut self, net: &mut dyn Net, id: ConnId) {
        if let Some(side) = self.sides.get(&id) {
            net.resume(side.other);
        }
    }

    fn on_close(&mut self, net: &mut dyn Net, id: ConnId, why: Closed) {
        if let Some(side) = self.sides.remove(&id)
            && why != Closed::Finished
        {
            net.abort(side.other);
        }
    }

    fn has_opened(&self, id: ConnId) -> bool {
        self.sides.get(&id).is_some_and(|side| side.dialled)
    }

    fn drain(&mut self, _: &mut dyn Net) -> bool {
        self.sides.is_empty()
    }
}

/// Ends its worker once that is wished, and nothing is left.
struct Ends(Arc<AtomicBool>);

impl Attendant<Server> for Ends {
    fn attend(&mut self, worker: &mut Worker<Server>, _: Time, _: &Usage) -> Next {
        if self.0.load(Ordering::Relaxed) && worker.drain() { Next::Stop } else { Next::Go }
    }
}

/// Sends back all that it gets, until its client ends: then how much that was.
fn echo(listener: TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || {
            let (mut stream, mut all, mut buffer) = (stream, 0, [0; 16 << 10]);
            while let Ok(length) = stream.read(&mut buffer)
                && length > 0
            {
                stream.write_all(&buffer[..length]).expect("a client that reads");
                all += length;
            }
            stream.write_all(format!(" {all}").as_bytes()).expect("a client that reads");
        });
    }
}

fn ask(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).expect("a listener");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("a connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_service_is_hosted_by_listener() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = origin.local_addr().expect("its address");
    thread::spawn(move || echo(origin));
    let free = Endpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let bound = sockets::Listeners::bind(&[free.clone(), free], &ListenOptions::default(), Model::Reuseport, 1);
    let bound = bound.expect("two listeners");
    let [Endpoint::Tcp(web), Endpoint::Tcp(relayed)] = *bound.endpoints() else { panic!("two ports") };
    let stop = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&stop);
    let worker = thread::spawn(move || {
        let clock = WallClock::new(Time::ZERO, Duration::from_secs(1_700_000_000));
        let server = Server::new(Config::respond(Respond::Text("by HTTP".into())), clock).expect("a server");
        let listeners = Listeners::new(vec![
            (LocalAddress::Inet(web), Speaks::PLAIN),
            (LocalAddress::Inet(relayed), Speaks::Service(0)),
        ]);
        let relay = Relay { to, sides: HashMap::new() };
        let server = server.speaking(listeners).beside(vec![Box::new(relay)]);
        let mut worker = Worker::new(sockets::Config::default(), bound.for_worker(0), server).expect("a worker");
        worker.run(&mut Ends(ends)).expect("it ends in good order");
        worker.app.snapshot()
    });
    assert!(ask(web).ends_with("by HTTP"));
    // More than waits for either side, written while it is read.
    let sent: Vec<u8> = (0..3 << 20).map(|at: u32| (at >> 3) as u8).collect();
    let mut stream = TcpStream::connect(relayed).expect("a listener");
    let mut writing = stream.try_clone().expect("the same");
    let written = sent.clone();
    let writer = thread::spawn(move || {
        writing.write_all(&written).expect("a relay that reads");
        writing.shutdown(Shutdown::Write).expect("an end");
    });
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).expect("all of it");
    assert!(got == sent && ask(web).ends_with("by HTTP"), "both at once");
    writer.join().expect("it is written");
    // What the server says behind the client's end comes, too.
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the rest");
    assert_eq!(rest, format!(" {}", sent.len()));
    stop.store(true, Ordering::Relaxed);
    let counters = worker.join().expect("it ends in good order");
    assert_eq!((counters.connections, counters.requests, counters.connections_open), (3, 2, 0));
}
