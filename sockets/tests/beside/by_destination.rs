//! By which of both a connection is opened, and what becomes of it.

use crate::relay::{Relay, UNSENT_MAX, Upstream};
use crate::support::beside::{address, half, silo_on};
use crate::support::{PATIENCE, wait_for};
use app::{App, Closed, ConnId, Net, Opened, SEND_LOW_WATER};
use core::net::SocketAddr;
use cpu::Clock;
use link::{Pair, PairConfig, PairLink};
use rustix::net::sockopt;
use silo::Silo;
use sockets::{Composite, Config, ConnectRoutes, StreamOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

const PORT: u16 = 80;

/// Of sockets of the kernel, in bytes.
const BUFFER: u32 = 65_536;

/// Sends so much, and takes what comes back, in steps of its own.
#[derive(Debug, Default)]
struct Client {
    to_send: usize,
    sent: usize,
    received: usize,
    /// Bytes that it may take, if it is slow.
    may_take: usize,
    id: Option<ConnId>,
    closed: Vec<Closed>,
}

/// The byte at a place of the stream.
const fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

impl App for Client {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _: Opened) {
        self.id = Some(id);
        self.on_sent(net, id);
    }

    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        while self.sent < self.to_send && net.unsent(id) < 2 * SEND_LOW_WATER {
            let len = (self.to_send - self.sent).min(16 * 1024);
            let bytes: Vec<u8> = (self.sent..self.sent + len).map(byte).collect();
            net.send_bytes(id, &bytes);
            self.sent += len;
        }
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let take = data.len().min(self.may_take);
        self.may_take -= take;
        assert!(data[..take].iter().enumerate().all(|(at, &got)| got == byte(self.received + at)));
        self.received += take;
        if self.received == self.to_send {
            net.finish(id);
        }
        take
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, _: usize) {
        net.finish(id);
    }

    fn on_close<N: Net>(&mut self, _: &mut N, _: ConnId, why: Closed) {
        self.closed.push(why);
    }
}

struct World {
    server: Silo<PairLink, Composite<Relay>>,
    client: Silo<PairLink, Client>,
}

impl World {
    fn new(config: Config, upstream: Upstream, to_send: usize) -> Self {
        let (near, far) = Pair::new(PairConfig::default());
        let relay = Composite::new(Relay::new(upstream), half(config, Vec::new()), ConnectRoutes::default());
        let server = silo_on(near, 1, vec![PORT], relay);
        let client = silo_on(far, 2, Vec::new(), Client { to_send, ..Client::default() });
        Self { server, client }
    }

    fn connect(&mut self) {
        let opened = self.client.stack.connect(None, SocketAddr::new(address(1), PORT));
        assert!(opened.is_ok());
    }

    fn turn(&mut self) {
        let now = Clock.now();
        self.client.turn(now);
        self.server.turn(now);
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        wait_for(what, || {
            for _ in 0..100 {
                self.turn();
                if done(self) {
                    return true;
                }
            }
            false
        });
    }
}

/// Sends back what comes, `taken` connections one after the other.
fn echo(mut one: impl FnMut() -> Box<dyn ReadWrite> + Send + 'static, taken: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..taken {
            let mut stream = one();
            let mut buffer = [0; 32 * 1024];
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                stream.write_all(&buffer[..len]).unwrap();
            }
        }
    })
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

fn upstreams(name: &str) -> [(Upstream, thread::JoinHandle<()>); 2] {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    // What is accepted has the same: little, so that little fills all.
    sockopt::set_socket_recv_buffer_size(&tcp, BUFFER as usize).unwrap();
    sockopt::set_socket_send_buffer_size(&tcp, BUFFER as usize).unwrap();
    let at = tcp.local_addr().unwrap();
    let path = std::env::temp_dir().join(format!("nearside-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let unix = UnixListener::bind(&path).unwrap();
    let accepts = move || -> Box<dyn ReadWrite> {
        let (stream, _) = tcp.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Box::new(stream)
    };
    [
        (Upstream::Address(at), echo(accepts, 1)),
        (Upstream::Path(path), echo(move || Box::new(unix.accept().unwrap().0), 1)),
    ]
}

/// What a client over the stack sends passes to the kernel's side and back, while
/// neither side is ahead by more than its window.
#[test]
fn a_connection_of_the_stack_is_joined_to_one_of_the_kernel() {
    const BYTES: usize = 4 << 20;
    for (upstream, echo) in upstreams("joined") {
        let stream =
            StreamOptions { send_buffer: Some(BUFFER), receive_buffer: Some(BUFFER), ..StreamOptions::default() };
        let mut world = World::new(Config { stream, ..Config::default() }, upstream.clone(), BYTES);
        world.connect();
        // The client takes nothing, until all that is between is full.
        let mut before = (0, 0);
        let mut same = 0;
        world.until("everything to be full", |world| {
            let now = (world.client.app.sent, world.server.app.half().counters().received_bytes);
            same = if now == before && now.1 > 0 { same + 1 } else { 0 };
            before = now;
            same > 20_000
        });
        assert!(world.client.app.sent < BYTES, "held back: {before:?}");
        world.until("everything to be back", |world| {
            let client = &mut world.client.app;
            client.may_take = client.may_take.max(4_096);
            if let Some(id) = client.id {
                world.client.stack.resume(id);
            }
            world.client.app.received == BYTES
        });
        world.until("both ends", |world| !world.client.app.closed.is_empty() && world.server.app.app.closed.len() == 2);
        assert_eq!(world.client.app.closed, [Closed::Finished]);
        let relay = &world.server.app.app;
        assert_eq!((relay.closed.as_slice(), relay.opened, relay.refused), (&[Closed::Finished; 2][..], 2, 0));
        assert!(relay.most_unsent <= UNSENT_MAX, "{}", relay.most_unsent);
        assert_eq!(relay.slots(), world.server.app.half().slots() as usize + 1, "the kernel's slots, and one");
        assert_eq!((world.server.app.half().connections(), world.server.stack.connections()), (0, 0));
        echo.join().unwrap();
        if let Upstream::Path(path) = upstream {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Ends of either side reach the other, once each, and nothing is left.
#[test]
fn an_end_of_either_side_is_told_to_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = Upstream::Address(listener.local_addr().unwrap());
    let mut world = World::new(Config::default(), upstream, 1_000);
    // The client resets: the kernel's connection is reset in the same turn as
    // that, though the silo may sleep next.
    world.connect();
    world.until("the request to pass", |world| world.server.app.half().counters().sent_bytes == 1_000);
    let (mut upstream, _) = listener.accept().unwrap();
    upstream.set_read_timeout(Some(PATIENCE)).unwrap();
    let id = world.client.app.id.unwrap();
    world.client.stack.abort(id);
    world.until("both ends", |world| world.server.app.app.closed.len() == 2);
    assert_eq!(world.server.app.app.closed, [Closed::Reset, Closed::Aborted]);
    let mut got = [0; 2_000];
    let end = loop {
        match upstream.read(&mut got) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(why) => break Some(why.kind()),
        }
    };
    assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
    // The upstream ends: so does the client's.
    world.client.app = Client { to_send: 10, ..Client::default() };
    world.connect();
    let (upstream, _) = {
        world.until("the request to pass", |world| world.server.app.half().counters().sent_bytes == 1_010);
        listener.accept().unwrap()
    };
    drop(upstream);
    world.until("both ends", |world| world.server.app.app.closed.len() == 4 && !world.client.app.closed.is_empty());
    // Nobody listens any more.
    drop(listener);
    world.client.app = Client { to_send: 10, ..Client::default() };
    world.connect();
    world.until("both ends", |world| world.server.app.app.closed.len() == 6 && !world.client.app.closed.is_empty());
    let told = &world.server.app.app.closed[4..];
    assert!(told.contains(&Closed::Refused) && told.contains(&Closed::Aborted), "{told:?}");
    assert_eq!((world.server.app.half().connections(), world.server.stack.connections()), (0, 0));
}

/// The kernel's connections have a limit of their own; the silo's do not suffer.
#[test]
fn the_limit_of_one_side_is_not_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = Upstream::Address(listener.local_addr().unwrap());
    let config = Config { max_connections: 3, ..Config::default() };
    let mut world = World::new(config, upstream, 0);
    for _ in 0..5 {
        world.connect();
    }
    world.until("all to be told", |world| world.server.app.app.refused == 2 && world.server.app.app.opened == 8);
    assert_eq!(world.server.app.half().connections(), 3);
    assert_eq!(world.server.app.half().slots(), 3);
    world.until("the two to be gone", |world| world.server.stack.connections() == 3);
    // The end of the process: each is told once.
    let Silo { stack, app, .. } = &mut world.server;
    app.end_all(stack);
    assert_eq!(app.half().connections(), 0);
    world.until("all to be gone", |world| world.server.stack.connections() == 0);
    assert_eq!(world.server.app.app.closed.len(), 3 + 5);
}
