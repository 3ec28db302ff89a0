//! The same over sockets of this machine: who gives way where nearly all places are taken.

use app::App;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use nginx::{ConfFiles, Configuration, Surroundings};
use rustix::fd::BorrowedFd;
use rustix::net::{AddressFamily, SocketType};
use server::{Config, Server, WallClock};
use silo::{Next, Usage};
use sockets::{Attendant, Endpoint, ListenOptions, Listeners, Model, Worker};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use wire::Time;

/// `{upstream}` never answers. Nothing else than a lack of places ends what waits.
const CONF: &str = "\
    error_log /dev/null crit;\n\
    events {}\n\
    http {\n\
    access_log off; error_log /dev/null crit;\n\
    client_body_timeout 1d; proxy_read_timeout 1d;\n\
    server { listen 80;\n\
    location / { return 200 served; }\n\
    location /held { proxy_pass http://{upstream}; }\n\
    } }";

/// One file, and no other.
struct Text(String);

impl ConfFiles for Text {
    fn read(&mut self, _path: &Path, _most: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }

    fn matching(&mut self, _pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Ends its worker once that is wished.
struct Ends(Arc<AtomicBool>);

impl Attendant<Server> for Ends {
    fn attend(&mut self, _: &mut Worker<Server>, _: Time, _: &Usage) -> Next {
        if self.0.load(Ordering::Relaxed) { Next::Stop } else { Next::Go }
    }

    fn wake<'a>(&'a self, app: &'a Server) -> Option<BorrowedFd<'a>> {
        app.wake_fd()
    }
}

/// A server with so many places, on a thread of its own.
struct Served {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<server::Counters>,
    /// Connections to it wait in its queue.
    _upstream: TcpListener,
}

impl Served {
    fn start(places: usize) -> Self {
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = CONF.replace("{upstream}", &upstream.local_addr().unwrap().to_string());
        let local = Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listeners = Listeners::bind(&[local], &ListenOptions::default(), Model::Reuseport, 1).unwrap();
        let listeners = listeners.for_worker(0);
        let Endpoint::Tcp(at) = *listeners[0].endpoint() else { panic!("a port") };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (begins, begun) = channel();
        let thread = thread::spawn(move || {
            let configuration = Configuration::read(&mut Text(text), Path::new("/nginx.conf"), b"").unwrap();
            let around =
                Surroundings { prefix: Path::new("/tmp"), hostname: "a", root: false, resolve: |_| Vec::new() };
            let mut program = nginx::compile(&configuration, around).unwrap().program;
            // The listener is the test's.
            program.listeners.iter_mut().for_each(|listener| listener.address = Some(at));
            let mut config = Config::program(Arc::new(program));
            config.limits.connections = places;
            let clock = WallClock::new(Time::ZERO, Duration::from_secs(1_700_000_000));
            let server = Server::new(config, clock).unwrap();
            let config = sockets::Config { max_connections: places, ..sockets::Config::default() };
            let mut worker = Worker::new(config, listeners, server).unwrap();
            begins.send(()).unwrap();
            worker.run(&mut Ends(stopped)).unwrap();
            worker.app.snapshot()
        });
        begun.recv().expect("it starts");
        Self { at, stop, thread, _upstream: upstream }
    }

    /// A connection from 127.0.`source`, on which this was said.
    fn say(&self, source: (u8, u8), text: &str) -> TcpStream {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let from = SocketAddr::from((Ipv4Addr::new(127, 0, source.0, source.1), 0));
        rustix::net::bind(&socket, &from).unwrap();
        rustix::net::connect(&socket, &self.at).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn end(self) -> server::Counters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends in good order")
    }
}

/// The first bytes of an answer, whenever it comes.
fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    String::from_utf8_lossy(&line).into_owned()
}

/// Whether nothing has come, and the connection stands.
fn waits(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.read(&mut [0; 1]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
}

/// Half bodies from many addresses fill all places; who comes next is served all the same.
#[test]
fn half_bodies_make_room() {
    const PLACES: u8 = 16;
    let served = Served::start(PLACES.into());
    let head = "POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    let mut all: Vec<TcpStream> = (1..=PLACES).map(|last| served.say((1, last), head)).collect();
    let mut honest = served.say((2, 1), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let done = Arc::new(AtomicBool::new(false));
    let drips = Arc::clone(&done);
    let dripping = thread::spawn(move || {
        while !drips.load(Ordering::Relaxed) {
            // Those that have given way are told so.
            all.retain_mut(|stream| stream.write_all(b"x").is_ok());
            thread::sleep(Duration::from_millis(200));
        }
    });
    assert_eq!(status(&mut honest), "HTTP/1.1 200");
    done.store(true, Ordering::Relaxed);
    dripping.join().unwrap();
    assert!(served.end().gave_way_bodies > 0);
}

/// Of requests that wait for an upstream the youngest of one address give way, where that has
/// more than a quarter of all places; those of others wait on.
#[test]
fn the_youngest_of_who_has_more_than_a_quarter_make_room() {
    let served = Served::start(32);
    let get = "GET /held HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut many: Vec<TcpStream> = (0..10).map(|_| served.say((3, 1), get)).collect();
    // With their upstreams they have seven of eight places now.
    let mut others: Vec<TcpStream> = (1..5).map(|last| served.say((4, last), get)).collect();
    let mut late = many.split_off(8);
    for stream in &mut late {
        assert_eq!(status(stream), "HTTP/1.1 503");
    }
    assert!(many.iter_mut().chain(&mut others).all(waits));
    let counters = served.end();
    assert_eq!((counters.gave_way_requests, counters.gave_way_tunnels), (2, 0));
}
