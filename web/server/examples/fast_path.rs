//! Instructions per keep-alive request, application and HTTP engine only:
//!
//! ```text
//! cargo build --release -p nearside-server --example fast_path
//! valgrind --tool=callgrind target/release/examples/fast_path 100000
//! ```
//!
//! The difference between two counts, divided by the difference of their
//! requests, is the cost of one. Arguments: requests, then `text` (default)
//! or a file to serve, then `log` for an access log to /dev/null, or `close` for
//! a new connection per request, which the client asks to be closed.

use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use server::{AccessLog, Config, Content, ReaderKind, Respond, Server, WallClock};
use std::path::Path;
use wire::Time;

/// A data path that takes everything and keeps nothing.
#[derive(Debug, Default)]
struct Nowhere {
    now: Time,
    bytes: u64,
}

impl Net for Nowhere {
    #[inline]
    fn now(&self) -> Time {
        self.now
    }
    fn connect(&mut self, _from: Option<IpAddr>, _to: SocketAddr) -> Result<ConnId, ConnectError> {
        Err(ConnectError::NoRoute)
    }
    #[inline]
    fn send_body(&mut self, _id: ConnId, body: &Body, range: Range<u32>) {
        self.bytes += u64::from(range.end - range.start);
        std::hint::black_box(body);
    }
    fn send_bytes(&mut self, _id: ConnId, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }
    #[inline]
    fn unsent(&self, _id: ConnId) -> usize {
        0
    }
    fn finish(&mut self, _id: ConnId) {}
    fn abort(&mut self, _id: ConnId) {}
    fn resume(&mut self, _id: ConnId) {}
    fn set_timer(&mut self, _id: ConnId, _at: Option<Time>) {}
    fn peer(&self, _id: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 7], 1)))
    }
    fn local(&self, _id: ConnId) -> Option<SocketAddr> {
        None
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let requests: u32 = arguments.next().as_deref().unwrap_or("100000").parse()?;
    let what = arguments.next().unwrap_or_else(|| "text".into());
    let (mut config, target) = if what == "text" {
        (Config::respond(Respond::Text("hello".into())), "/".to_string())
    } else {
        let path = Path::new(&what);
        let name = path.file_name().ok_or("not a file")?.to_string_lossy();
        (Config::directory(path.parent().unwrap_or(Path::new("."))), format!("/{name}"))
    };
    if let Content::Directory(directory) = &mut config.content {
        directory.reader = ReaderKind::Inline;
    }
    let mode = arguments.next().unwrap_or_default();
    if mode == "log" {
        config.access_log = AccessLog::File("/dev/null".into());
    }
    let mut server = Server::new(config, WallClock::new(Time::ZERO, Duration::from_secs(1_800_000_000)))?;
    let mut net = Nowhere { now: Time::from_millis(1), bytes: 0 };
    let request = format!("GET {target} HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n");
    let id = ConnId::new(0, 1);
    server.on_open(&mut net, id, Opened::Accepted);
    let _ = server.on_data(&mut net, id, request.as_bytes());
    // The first waits for the file.
    while net.bytes == 0 {
        let _ = server.on_turn(&mut net);
    }
    let close = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    if mode == "close" {
        for generation in 0..requests {
            net.now = net.now + Duration::from_nanos(500);
            let id = ConnId::new(1, generation);
            server.on_open(&mut net, id, Opened::Accepted);
            let used = server.on_data(&mut net, id, std::hint::black_box(close.as_bytes()));
            assert_eq!(used, close.len());
            server.on_sent(&mut net, id);
            server.on_end(&mut net, id, 0);
            server.on_close(&mut net, id, Closed::Finished);
        }
        println!("{requests} connections, {} bytes queued", net.bytes);
        return Ok(());
    }
    for _ in 0..requests {
        net.now = net.now + Duration::from_nanos(500);
        let used = server.on_data(&mut net, id, std::hint::black_box(request.as_bytes()));
        assert_eq!(used, request.len());
        server.on_sent(&mut net, id);
    }
    println!("{requests} requests, {} bytes queued", net.bytes);
    Ok(())
}
