//! A server, a data path in memory, and clients of HTTP/2 whose frames are counted.

use app::{App, Body, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use h2::frame::{self, FrameHead, HEAD, Kind, PREFACE, setting};
use nginx::{ConfFiles, Configuration, Surroundings};
use server::{Config, Server, WallClock};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Time;

const CONF: &str = "\
    error_log /dev/null crit;\n\
    events {}\n\
    http { access_log off; error_log /dev/null crit; log_format told '$status $request';\n\
    server { listen 80 http2; root {root};\n\
    location /coded/ { alias {root}/; gzip on; gzip_types *; gzip_min_length 1; }\n\
    location /changed/ { alias {root}/; sub_filter word $request_id; sub_filter_once off; }\n\
    location /made/ { alias {root}/; ssi on; }\n\
    location /asked/ { proxy_pass http://192.0.2.9:81; }\n\
    location /asked/coded/ { gzip on; gzip_types *; gzip_min_length 1; proxy_pass http://192.0.2.9:81; }\n\
    location /asked/changed/ { sub_filter word other; sub_filter_types *; proxy_pass http://192.0.2.9:81; }\n\
    location = /none { return 204; }\n\
    location /grpc/ { grpc_pass grpc://192.0.2.9:82; }\n\
    location /streams/ { proxy_pass http://192.0.2.9:82; proxy_http_version 2; }\n\
    }\n\
    {logging}\n\
    }";

/// A server whose requests are logged: where there is one, all that is ready is told of.
const LOGGING: &str = "log_format counted '$bytes_sent $body_bytes_sent';\
    server { listen 81 http2; root {root}; access_log {root}/access.log told;\
    location /asked/ { proxy_pass http://192.0.2.9:81; }\
    location /counted/ { access_log {root}/counted.log counted; proxy_pass http://192.0.2.9:81; } }";

/// One file, and no other.
struct Text(String);

impl ConfFiles for Text {
    fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// A folder that goes away.
pub(crate) struct Folder(pub PathBuf);

/// Bytes of the file that is not kept in memory, and of the one that is.
pub(crate) const LARGE: u64 = 3 << 20;
pub(crate) const SHORT: u64 = 30 << 10;

impl Folder {
    pub(crate) fn new() -> Self {
        let root = std::env::temp_dir().join(format!("nearside-stalled-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder");
        let words = b"a word, and ".repeat(LARGE as usize / 12 + 1);
        std::fs::write(root.join("large.html"), &words[..LARGE as usize]).expect("a file");
        std::fs::write(root.join("short.html"), &words[..SHORT as usize]).expect("a file");
        Self(root)
    }

    pub(crate) fn server(&self, logs: bool) -> Server {
        let text =
            CONF.replace("{logging}", if logs { LOGGING } else { "" }).replace("{root}", &self.0.display().to_string());
        let configuration = Configuration::read(&mut Text(text), Path::new("/nginx.conf"), b"");
        let configuration = configuration.unwrap_or_else(|why| panic!("{why}"));
        let around = Surroundings { prefix: &self.0, hostname: "a", root: false, resolve: |_| Vec::new() };
        let compiled = nginx::compile(&configuration, around).unwrap_or_else(|why| panic!("{why}"));
        let clock = WallClock::new(Time::ZERO, Duration::from_secs(1_700_000_000));
        Server::new(Config::program(Arc::new(compiled.program)), clock).unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a client's connection came to.
#[derive(Default)]
pub(crate) struct Came {
    /// Of which connection.
    pub number: u32,
    pub frames: Vec<u8>,
    pub heads: usize,
    /// Bytes of these, with what frames them.
    pub head_bytes: usize,
    pub ends: usize,
    pub resets: usize,
    pub body: u64,
}

/// A data path whose clients take what is queued at once.
#[derive(Default)]
pub(crate) struct MemoryPath {
    pub now: Time,
    pub clients: BTreeMap<u32, Came>,
    pub upstreams: Vec<ConnId>,
    pub resumed: Vec<ConnId>,
    pub dialled: u32,
    /// Bytes that came of a client.
    pub heard: usize,
    /// Bytes that are sent are counted, and not looked at.
    pub counts_only: bool,
    pub sent: usize,
    /// Where clients connect, if that is not port 80.
    pub port: Option<u16>,
    /// What upstreams were sent.
    pub passed: BTreeMap<usize, Vec<u8>>,
}

/// Upstream connections have numbers from here on.
const DIALLED: u32 = 1 << 16;

impl MemoryPath {
    fn take(&mut self, id: ConnId, bytes: &[u8]) {
        self.sent += bytes.len();
        if self.counts_only {
            return;
        }
        let Some(came) = self.clients.get_mut(&(id.index() as u32)) else {
            return self.passed.entry(id.index()).or_default().extend_from_slice(bytes);
        };
        came.frames.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = FrameHead::read(&came.frames[at..]) {
            let all = HEAD + head.length as usize;
            if came.frames.len() - at < all {
                break;
            }
            at += all;
            match head.kind {
                Kind::Headers => (came.heads, came.head_bytes) = (came.heads + 1, came.head_bytes + all),
                Kind::Data => came.body += u64::from(head.length),
                Kind::Reset => came.resets += 1,
                _ => {}
            }
            let may_end = matches!(head.kind, Kind::Headers | Kind::Data);
            came.ends += usize::from(may_end && head.has(frame::END_STREAM));
        }
        came.frames.drain(..at);
        came.frames.shrink_to(64);
    }
}

impl Net for MemoryPath {
    fn now(&self) -> Time {
        self.now
    }
    fn connect(&mut self, _: Option<IpAddr>, _: SocketAddr) -> Result<ConnId, ConnectError> {
        self.dialled += 1;
        let id = ConnId::new(DIALLED + self.dialled, 1);
        self.upstreams.push(id);
        Ok(id)
    }
    fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        self.take(id, &body.as_slice()[range.start as usize..range.end as usize]);
    }
    fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        self.take(id, bytes);
    }
    fn unsent(&self, _: ConnId) -> usize {
        0
    }
    fn finish(&mut self, _: ConnId) {}
    fn abort(&mut self, _: ConnId) {}
    fn resume(&mut self, id: ConnId) {
        self.resumed.push(id);
    }
    fn set_timer(&mut self, _: ConnId, _: Option<Time>) {}
    fn peer(&self, _: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 7], 1)))
    }
    fn local(&self, _: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 1], self.port.unwrap_or(80))))
    }
}

pub(crate) fn request(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x01, 1, b'a', 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x0f\x01\x04gzip");
    let mut out = Vec::new();
    frame::write_headers(&mut out, stream, &block, true, 1 << 14);
    out
}

/// Streams of a connection.
pub(crate) const STREAMS: u32 = 128;

/// Bytes of a body that upstreams offer at once.
const OFFERED: usize = 64 << 10;

pub(crate) struct World {
    pub server: Server,
    pub net: MemoryPath,
    /// What upstreams have not got rid of: of each, how much of its body was taken.
    pub asked: HashMap<ConnId, usize>,
    pub next: u32,
    pub generation: u32,
}

impl World {
    pub(crate) fn new(folder: &Folder) -> Self {
        Self::serving(folder, false)
    }

    pub(crate) fn serving(folder: &Folder, logs: bool) -> Self {
        let net = MemoryPath { now: Time::from_millis(10), ..MemoryPath::default() };
        Self { server: folder.server(logs), net, asked: HashMap::new(), next: 0, generation: 1 }
    }

    /// A connection with a request on each of its streams, whose window has so many bytes.
    pub(crate) fn open(&mut self, path: &str, window: u32) -> ConnId {
        let (id, mut out) = self.connect(window);
        for stream in 0..STREAMS {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        self.say(id, &out);
        id
    }

    /// A connection without a request.
    pub(crate) fn begin(&mut self) -> ConnId {
        let (id, out) = self.connect(1 << 20);
        self.say(id, &out);
        id
    }

    /// A second passes: timers run out.
    pub(crate) fn second(&mut self, id: ConnId) {
        self.net.now = self.net.now + Duration::from_secs(1);
        self.server.on_timer(&mut self.net, id);
        self.turn();
        std::thread::sleep(Duration::from_micros(50));
    }

    /// A connection, and what its client begins with.
    pub(crate) fn connect(&mut self, window: u32) -> (ConnId, Vec<u8>) {
        let (id, mut out) = self.connect_shut(window);
        frame::write_window_update(&mut out, 0, 1 << 30);
        (id, out)
    }

    /// The same, where the connection has the window that it begins with.
    pub(crate) fn connect_shut(&mut self, window: u32) -> (ConnId, Vec<u8>) {
        self.next += 1;
        let id = ConnId::new(self.next, self.generation);
        if !self.net.counts_only {
            self.net.clients.insert(self.next, Came { number: self.next, ..Came::default() });
        }
        self.server.on_open(&mut self.net, id, Opened::Accepted);
        let mut out = PREFACE.to_vec();
        frame::write_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, window)]);
        (id, out)
    }

    pub(crate) fn say(&mut self, id: ConnId, bytes: &[u8]) {
        self.net.heard += bytes.len();
        assert_eq!(self.server.on_data(&mut self.net, id, bytes), bytes.len());
    }

    pub(crate) fn turn(&mut self) {
        for id in core::mem::take(&mut self.net.upstreams) {
            self.server.on_open(&mut self.net, id, Opened::Connected);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {LARGE}\r\n\r\n");
            assert_eq!(self.server.on_data(&mut self.net, id, head.as_bytes()), head.len());
            self.offer(id, 0);
        }
        for id in core::mem::take(&mut self.net.resumed) {
            if let Some(taken) = self.asked.get(&id).copied() {
                self.offer(id, taken);
            }
        }
        let _ = self.server.on_turn(&mut self.net);
    }

    /// What has come from an upstream and waits with the data path.
    fn offer(&mut self, id: ConnId, mut taken: usize) {
        loop {
            let some = OFFERED.min(LARGE as usize - taken);
            let more = self.server.on_data(&mut self.net, id, &BODY[..some]);
            taken += more;
            if more < some || some == 0 {
                break;
            }
        }
        self.asked.insert(id, taken);
    }

    /// Turns in which readers of files, and who compresses, come to an end.
    pub(crate) fn rest(&mut self) {
        for _ in 0..100 {
            self.turn();
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Came) -> bool) {
        let mut turns = 0;
        while !self.net.clients.values().all(&is_so) {
            self.turn();
            self.net.now = self.net.now + Duration::from_micros(100);
            turns += 1;
            assert!(turns < 1_000_000, "{what}");
            // Readers of files are threads.
            std::thread::yield_now();
        }
    }
}

/// What upstreams say of their content.
static BODY: [u8; OFFERED] = [b'w'; OFFERED];
