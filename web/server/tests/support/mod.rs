//! A data path made of memory: connections whose peers are the tests.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

mod meanwhile;

use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened, SEND_LOW_WATER, Wake};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
pub use meanwhile::Meanwhile;
use semantics::{Request, Status};
use server::exchange::{ExchangeId, Handler, Listeners, Page, Replies};
use server::{Config, Server, WallClock};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::Time;

/// The wall clock of the tests at the start: Wed, 21 Oct 2015 07:28:00 GMT.
pub const START: u64 = 1_445_412_480;

/// Answers a request with the page of a status.
pub fn answer_page<R: Replies>(replies: &mut R, id: ExchangeId, request: &Request<'_>, status: Status) {
    let page = Page::new(status, b"");
    replies.reply(id, request, &page.reply(), &page.body());
}

#[derive(Debug)]
enum Queued {
    Body(Body, Range<u32>),
    Bytes(Vec<u8>, usize),
    File(Arc<OwnedFd>, Range<u64>),
}

/// One connection, as the data path and the peer see it.
#[derive(Debug)]
pub struct ServedConnection {
    queue: VecDeque<Queued>,
    unsent: usize,
    pub most_unsent: usize,
    /// What the peer got, unless it only counts.
    pub got: Vec<u8>,
    pub got_count: u64,
    pub counts_only: bool,
    pub finished: bool,
    /// Whatever the peer still says is not waited for.
    pub closes: bool,
    pub aborted: bool,
    pub timer: Option<Time>,
    /// What has come and was not taken.
    pub held: Vec<u8>,
    ended: bool,
    resume: bool,
    /// The peer acknowledges at once.
    pub acks: bool,
    /// Of what is queued, at most so many bytes have been sent.
    pub flight: usize,
}

/// The data path.
#[derive(Debug)]
pub struct Mock {
    pub now: Time,
    pub conns: BTreeMap<usize, (ConnId, ServedConnection)>,
    pub timers_set: u64,
    /// Whether files are sent without the application's reading them.
    pub sends_files: bool,
    /// Whether frames lie where their sender still writes.
    pub shares_frames: bool,
    /// Where peers are that are elsewhere than the others, by their slots.
    pub peers: BTreeMap<usize, IpAddr>,
    aborts: Vec<ConnId>,
    /// Whether connections to upstreams begin, of which nothing more is heard.
    pub has_upstreams: bool,
    dialled: u32,
    /// What a peer writes over the frame that it has handed over.
    pub meanwhile: Meanwhile,
}

impl Mock {
    fn conn(&mut self, id: ConnId) -> Option<&mut ServedConnection> {
        self.conns.get_mut(&id.index()).filter(|(found, _)| *found == id).map(|(_, conn)| conn)
    }
}

impl Net for Mock {
    fn now(&self) -> Time {
        self.meanwhile.on_call();
        self.now
    }

    fn connect(&mut self, _from: Option<IpAddr>, _to: SocketAddr) -> Result<ConnId, ConnectError> {
        if !self.has_upstreams {
            return Err(ConnectError::NoRoute);
        }
        // Beyond all that peers open.
        self.dialled += 1;
        Ok(ConnId::new(1 << 20 | self.dialled, 1))
    }

    fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        self.meanwhile.on_call();
        assert!(range.start <= range.end && range.end <= body.len(), "{range:?} of {}", body.len());
        let Some(conn) = self.conn(id) else { return };
        assert!(!conn.finished, "sent after the end");
        if range.start < range.end {
            conn.unsent += range.len();
            conn.most_unsent = conn.most_unsent.max(conn.unsent);
            conn.queue.push_back(Queued::Body(body.clone(), range));
        }
    }

    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        self.meanwhile.on_call();
        let Some(conn) = self.conn(id) else { return };
        assert!(!conn.finished, "sent after the end");
        conn.unsent += bytes.len();
        conn.most_unsent = conn.most_unsent.max(conn.unsent);
        conn.queue.push_back(Queued::Bytes(bytes.to_vec(), 0));
    }

    fn send_file(&mut self, id: ConnId, file: &Arc<OwnedFd>, range: Range<u64>) -> bool {
        self.meanwhile.on_call();
        assert!(range.start < range.end, "{range:?}");
        if self.sends_files
            && let Some(conn) = self.conn(id)
        {
            assert!(!conn.finished, "sent after the end");
            conn.unsent += (range.end - range.start) as usize;
            conn.most_unsent = conn.most_unsent.max(conn.unsent);
            conn.queue.push_back(Queued::File(Arc::clone(file), range));
        }
        self.sends_files
    }

    fn unsent(&self, id: ConnId) -> usize {
        self.meanwhile.on_call();
        self.conns.get(&id.index()).filter(|(found, _)| *found == id).map_or(0, |(_, conn)| conn.unsent)
    }

    fn shares_frames(&self) -> bool {
        self.meanwhile.on_call();
        self.shares_frames
    }

    fn take_back(&mut self, id: ConnId, most: usize) -> usize {
        let Some(conn) = self.conn(id).filter(|conn| !conn.finished) else { return 0 };
        let all = conn.unsent.saturating_sub(conn.flight).min(most);
        let mut left = all;
        conn.unsent -= all;
        while left > 0 {
            let last = conn.queue.back_mut().expect("the count is right");
            let len = match last {
                Queued::Body(_, range) => range.len(),
                Queued::Bytes(bytes, start) => bytes.len() - *start,
                Queued::File(_, range) => (range.end - range.start) as usize,
            };
            let cut = len.min(left);
            match last {
                Queued::Body(_, range) => range.end -= cut as u32,
                Queued::Bytes(bytes, _) => bytes.truncate(bytes.len() - cut),
                Queued::File(_, range) => range.end -= cut as u64,
            }
            left -= cut;
            if cut == len {
                conn.queue.pop_back();
            }
        }
        all
    }

    fn finish(&mut self, id: ConnId) {
        self.meanwhile.on_call();
        if let Some(conn) = self.conn(id) {
            conn.finished = true;
        }
    }

    fn close(&mut self, id: ConnId) {
        self.finish(id);
        if let Some(conn) = self.conn(id) {
            conn.closes = true;
        }
    }

    fn abort(&mut self, id: ConnId) {
        self.meanwhile.on_call();
        if let Some(conn) = self.conn(id) {
            conn.aborted = true;
            self.aborts.push(id);
        }
    }

    fn resume(&mut self, id: ConnId) {
        self.meanwhile.on_call();
        if let Some(conn) = self.conn(id) {
            conn.resume = true;
        }
    }

    fn set_timer(&mut self, id: ConnId, at: Option<Time>) {
        self.meanwhile.on_call();
        self.timers_set += 1;
        let now = self.now;
        if let Some(conn) = self.conn(id) {
            assert!(at.is_none_or(|at| at > now), "a timer that is over when it is set");
            conn.timer = at;
        }
    }

    /// What follows is taken as if it had been sealed, and opened.
    fn secure(&mut self, id: ConnId, _layer: Box<dyn seal::Layer>) -> bool {
        self.resume(id);
        true
    }

    fn peer(&self, id: ConnId) -> Option<SocketAddr> {
        self.meanwhile.on_call();
        let usual = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
        Some(SocketAddr::new(self.peers.get(&id.index()).copied().unwrap_or(usual), 40_000))
    }

    fn local(&self, _id: ConnId) -> Option<SocketAddr> {
        self.meanwhile.on_call();
        Some(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 80)))
    }
}

/// A server and its data path.
pub struct World<H = server::SiteHandler> {
    pub server: Server<H>,
    pub net: Mock,
    next: u32,
}

impl World {
    pub fn new(config: Config) -> Self {
        Self::of(Server::new(config, clock()).expect("the configuration is valid"))
    }

    /// As [`World::new`], with a data path that sends files by itself.
    pub fn sending_files(config: Config) -> Self {
        let mut world = Self::new(config);
        world.net.sends_files = true;
        world
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.server.counters().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

fn clock() -> WallClock {
    WallClock::new(Time::ZERO, Duration::from_secs(START))
}

impl<H: Handler> World<H> {
    /// Whose requests are all answered by `handler`.
    pub fn with_handler(config: Config, handler: H) -> Self {
        Self::of(Server::with_handler(config, handler, clock()).expect("the configuration is valid"))
    }

    /// The same, whose clients speak what `listeners` say.
    pub fn speaking(config: Config, handler: H, listeners: Listeners) -> Self {
        let server = Server::with_handler(config, handler, clock()).expect("the configuration is valid");
        Self::of(server.speaking(listeners))
    }

    fn of(server: Server<H>) -> Self {
        let net = Mock {
            now: Time::from_millis(10),
            conns: BTreeMap::new(),
            timers_set: 0,
            sends_files: false,
            shares_frames: false,
            peers: BTreeMap::new(),
            aborts: Vec::new(),
            has_upstreams: false,
            dialled: 0,
            meanwhile: Meanwhile::default(),
        };
        Self { server, net, next: 0 }
    }

    /// A connection whose peer takes everything at once.
    pub fn open(&mut self) -> ConnId {
        let id = self.open_within_a_turn();
        self.settle();
        id
    }

    /// The same; nothing else happens yet.
    pub fn open_within_a_turn(&mut self) -> ConnId {
        // Each a slot of its own, unless the last one is free again.
        let slot = (0..).find(|slot| !self.net.conns.contains_key(slot)).expect("there is always one");
        self.next += 1;
        let id = ConnId::new(slot as u32, self.next);
        let conn = ServedConnection {
            queue: VecDeque::new(),
            unsent: 0,
            most_unsent: 0,
            got: Vec::new(),
            got_count: 0,
            counts_only: false,
            finished: false,
            closes: false,
            aborted: false,
            timer: None,
            held: Vec::new(),
            ended: false,
            resume: false,
            acks: true,
            flight: usize::MAX,
        };
        self.net.conns.insert(slot, (id, conn));
        self.server.on_open(&mut self.net, id, Opened::Accepted);
        id
    }

    pub fn conn(&mut self, id: ConnId) -> &mut ServedConnection {
        self.net.conn(id).expect("the connection is open")
    }

    pub fn is_open(&mut self, id: ConnId) -> bool {
        self.net.conn(id).is_some()
    }

    /// Bytes arrive; the turn is run to its end, and further ones until
    /// nothing happens any more.
    pub fn send(&mut self, id: ConnId, bytes: impl AsRef<[u8]>) {
        self.arrive(id, bytes);
        self.settle();
    }

    /// Bytes arrive; nothing else happens yet.
    pub fn arrive(&mut self, id: ConnId, bytes: impl AsRef<[u8]>) {
        let conn = self.conn(id);
        assert!(!conn.ended, "the peer sent its FIN");
        conn.held.extend_from_slice(bytes.as_ref());
        self.offer(id);
    }

    /// The peer's FIN.
    pub fn end(&mut self, id: ConnId) {
        let conn = self.conn(id);
        conn.ended = true;
        let held = conn.held.len();
        self.server.on_end(&mut self.net, id, held);
        self.settle();
    }

    fn offer(&mut self, id: ConnId) {
        let Some(conn) = self.net.conn(id) else { return };
        let data = core::mem::take(&mut conn.held);
        let used = self.server.on_data(&mut self.net, id, &data);
        assert!(used <= data.len(), "more consumed than offered");
        if let Some(conn) = self.net.conn(id) {
            conn.held = data[used..].to_vec();
        }
    }

    /// The peer acknowledges `bytes` of what is queued.
    pub fn ack(&mut self, id: ConnId, bytes: usize) {
        let Some(conn) = self.net.conn(id) else { return };
        let mut left = bytes.min(conn.unsent);
        conn.unsent -= left;
        conn.got_count += left as u64;
        while left > 0 {
            let from_file;
            let (bytes, done) = match conn.queue.front_mut().expect("the count is right") {
                Queued::Body(body, range) => {
                    let take = range.len().min(left);
                    let start = range.start as usize;
                    range.start += take as u32;
                    (&body.as_slice()[start..start + take], range.start == range.end)
                }
                Queued::Bytes(bytes, start) => {
                    let take = (bytes.len() - *start).min(left);
                    *start += take;
                    (&bytes[*start - take..*start], *start == bytes.len())
                }
                Queued::File(file, range) => {
                    let mut bytes = vec![0; ((range.end - range.start) as usize).min(left)];
                    let read = rustix::io::pread(&**file, bytes.as_mut_slice(), range.start).expect("a file");
                    assert_eq!(read, bytes.len(), "the file is shorter");
                    range.start += read as u64;
                    from_file = bytes;
                    (from_file.as_slice(), range.start == range.end)
                }
            };
            left -= bytes.len();
            if !conn.counts_only {
                conn.got.extend_from_slice(bytes);
            }
            if done {
                conn.queue.pop_front();
            }
        }
        if conn.unsent <= SEND_LOW_WATER {
            self.server.on_sent(&mut self.net, id);
        }
    }

    /// One turn after its arrivals. Whether more is to be done.
    pub fn turn(&mut self) -> bool {
        let wake = self.server.on_turn(&mut self.net);
        let ids: Vec<_> = self.net.conns.values().map(|(id, _)| *id).collect();
        let mut busy = wake == Wake::Now;
        for id in ids {
            if let Some(conn) = self.net.conn(id)
                && core::mem::take(&mut conn.resume)
                && !conn.held.is_empty()
            {
                busy = true;
                self.offer(id);
            }
            if let Some(conn) = self.net.conn(id)
                && conn.acks
                && conn.unsent > 0
            {
                busy = true;
                let all = conn.unsent;
                self.ack(id, all);
            }
            if let Some(conn) = self.net.conn(id)
                && conn.finished
                && conn.ended
                && conn.unsent == 0
            {
                self.close(id, Closed::Finished);
            }
        }
        for id in core::mem::take(&mut self.net.aborts) {
            self.close(id, Closed::Aborted);
        }
        busy
    }

    /// The connection is gone.
    pub fn close(&mut self, id: ConnId, why: Closed) {
        if self.net.conn(id).is_some() {
            self.server.on_close(&mut self.net, id, why);
            self.net.conns.remove(&id.index());
        }
    }

    /// Turns until nothing more happens.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.turn() && !self.net.conns.values().any(|(_, conn)| conn.resume && !conn.held.is_empty()) {
                return;
            }
        }
        panic!("it never settles");
    }

    /// Time passes; timers run out on the way.
    pub fn advance(&mut self, span: Duration) {
        let end = self.net.now + span;
        loop {
            let timers = self.net.conns.values().filter_map(|(id, conn)| Some((conn.timer?, *id)));
            let Some((at, id)) = timers.filter(|(at, _)| *at <= end).min_by_key(|(at, _)| *at) else { break };
            self.net.now = self.net.now.max(at);
            self.conn(id).timer = None;
            self.server.on_timer(&mut self.net, id);
            self.settle();
        }
        self.net.now = end;
        self.settle();
    }

    /// What the peer got since it was last asked.
    pub fn got(&mut self, id: ConnId) -> Vec<u8> {
        core::mem::take(&mut self.conn(id).got)
    }

    /// A request on a connection of its own, and its response.
    pub fn fetch(&mut self, request: impl AsRef<[u8]>) -> Response {
        let id = self.open();
        self.send(id, request.as_ref());
        let got = self.got(id);
        let head_only = request.as_ref().starts_with(b"HEAD ");
        let (response, rest) = Response::parse(&got, head_only);
        assert_eq!(rest, b"", "one response to one request");
        self.end(id);
        assert!(!self.is_open(id), "both sides are done");
        response
    }

    /// `GET path`, with more field lines.
    pub fn get_with(&mut self, path: &str, fields: &str) -> Response {
        self.fetch(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }

    /// `GET path`.
    pub fn get(&mut self, path: &str) -> Response {
        self.get_with(path, "")
    }
}

/// A response as the peer reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The first response in `bytes`, and what follows it.
    pub fn parse(bytes: &[u8], head_only: bool) -> (Self, &[u8]) {
        let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
        let end =
            bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("a head: {}", shown()));
        let head = core::str::from_utf8(&bytes[..end]).expect("heads are ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next().expect("a status line");
        assert!(status.starts_with("HTTP/1.1 ") && status.as_bytes()[12] == b' ', "{status}");
        let status: u16 = status[9..12].parse().expect("a status code");
        let fields: Vec<_> = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("a field line: {line}")))
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let mut response = Self { status, fields, body: Vec::new() };
        let rest = &bytes[end + 4..];
        // RFC 9112 §6.3
        let length = if head_only || status < 200 || status == 204 || status == 304 {
            0
        } else {
            response.field("Content-Length").expect("a length").parse().expect("a number")
        };
        assert!(rest.len() >= length, "{} of {length} body bytes: {}", rest.len(), shown());
        response.body = rest[..length].to_vec();
        (response, &rest[length..])
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let value = values.next()?.1.as_str();
        assert!(values.next().is_none(), "{name} twice");
        Some(value)
    }

    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.body).expect("text")
    }
}

/// A directory that goes away.
#[derive(Debug)]
pub struct Site(PathBuf);

impl Site {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("nearside-server-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("site")).expect("a directory for the test");
        Self(path)
    }

    /// The served root; a level above it there is room for secrets.
    pub fn root(&self) -> PathBuf {
        self.0.join("site")
    }

    pub fn outside(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("directories");
        std::fs::write(path, content).expect("a file");
    }

    /// Moves a file's time of modification to unix `seconds`.
    pub fn touch(&self, path: &str, seconds: u64) {
        let file = std::fs::File::options().append(true).open(self.root().join(path)).expect("a file");
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).expect("its time");
    }

    /// Served without helper threads, so that tests are deterministic.
    pub fn config(&self) -> Config {
        let mut config = Config::directory(self.root());
        directory(&mut config).reader = server::ReaderKind::Inline;
        config
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The directory that `config` serves.
pub fn directory(config: &mut Config) -> &mut server::Directory {
    match &mut config.content {
        server::Content::Directory(directory) => directory,
        _ => panic!("it serves a directory"),
    }
}
