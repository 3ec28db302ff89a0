//! What connections of HTTP/2 hold: idle ones, and those whose clients take nothing of what they asked for.
//! Bytes and allocations are counted as they are made.

use app::{App, Body, Closed, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use h2::frame::{self, FrameHead, HEAD, Kind, PREFACE, setting};
use nginx::{ConfFiles, Configuration, Surroundings};
use server::{Config, Server, WallClock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Time;

/// Bytes that are allocated, by any thread, and how often any were.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Both are of one test at a time.
static COUNTED: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: every call goes to the system allocator as it came; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

const CONF: &str = "\
    error_log /dev/null crit;\n\
    events {}\n\
    http { access_log off; error_log /dev/null crit;\n\
    server { listen 80 http2; root {root};\n\
    location /coded/ { alias {root}/; gzip on; gzip_types *; gzip_min_length 1; }\n\
    location /changed/ { alias {root}/; sub_filter word $request_id; sub_filter_once off; }\n\
    location /made/ { alias {root}/; ssi on; }\n\
    location /asked/ { proxy_pass http://192.0.2.9:81; }\n\
    location /asked/coded/ { gzip on; gzip_types *; gzip_min_length 1; proxy_pass http://192.0.2.9:81; }\n\
    } }";

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
struct Folder(PathBuf);

/// Bytes of the file that is not kept in memory, and of the one that is.
const LARGE: u64 = 3 << 20;
const SHORT: u64 = 30 << 10;

impl Folder {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("nearside-stalled-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a folder");
        let words = b"a word, and ".repeat(LARGE as usize / 12 + 1);
        std::fs::write(root.join("large.html"), &words[..LARGE as usize]).expect("a file");
        std::fs::write(root.join("short.html"), &words[..SHORT as usize]).expect("a file");
        Self(root)
    }

    fn server(&self) -> Server {
        let text = CONF.replace("{root}", &self.0.display().to_string());
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
struct Came {
    /// Of which connection.
    number: u32,
    frames: Vec<u8>,
    heads: usize,
    ends: usize,
    resets: usize,
    body: u64,
}

/// A data path whose clients take what is queued at once.
#[derive(Default)]
struct MemoryPath {
    now: Time,
    clients: BTreeMap<u32, Came>,
    upstreams: Vec<ConnId>,
    resumed: Vec<ConnId>,
    dialled: u32,
    /// Bytes that came of a client.
    heard: usize,
    /// Bytes that are sent are counted, and not looked at.
    counts_only: bool,
    sent: usize,
}

/// Upstream connections have numbers from here on.
const DIALLED: u32 = 1 << 16;

impl MemoryPath {
    fn take(&mut self, id: ConnId, bytes: &[u8]) {
        self.sent += bytes.len();
        if self.counts_only {
            return;
        }
        let Some(came) = self.clients.get_mut(&(id.index() as u32)) else { return };
        came.frames.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = FrameHead::read(&came.frames[at..]) {
            let all = HEAD + head.length as usize;
            if came.frames.len() - at < all {
                break;
            }
            at += all;
            match head.kind {
                Kind::Headers => came.heads += 1,
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
        Some(SocketAddr::from(([192, 0, 2, 1], 80)))
    }
}

fn request(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x01, 1, b'a', 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x0f\x01\x04gzip");
    let mut out = Vec::new();
    frame::write_headers(&mut out, stream, &block, true, 1 << 14);
    out
}

/// Streams of a connection.
const STREAMS: u32 = 128;

/// Bytes of a body that upstreams offer at once.
const OFFERED: usize = 64 << 10;

struct World {
    server: Server,
    net: MemoryPath,
    /// What upstreams have not got rid of: of each, how much of its body was taken.
    asked: HashMap<ConnId, usize>,
    next: u32,
    generation: u32,
}

impl World {
    fn new(folder: &Folder) -> Self {
        let net = MemoryPath { now: Time::from_millis(10), ..MemoryPath::default() };
        Self { server: folder.server(), net, asked: HashMap::new(), next: 0, generation: 1 }
    }

    /// A connection with a request on each of its streams, whose window has so many bytes.
    fn open(&mut self, path: &str, window: u32) -> ConnId {
        let (id, mut out) = self.connect(window);
        for stream in 0..STREAMS {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        self.say(id, &out);
        id
    }

    /// A connection without a request.
    fn begin(&mut self) -> ConnId {
        let (id, out) = self.connect(1 << 20);
        self.say(id, &out);
        id
    }

    /// A second passes: timers run out.
    fn second(&mut self, id: ConnId) {
        self.net.now = self.net.now + Duration::from_secs(1);
        self.server.on_timer(&mut self.net, id);
        self.turn();
        std::thread::sleep(Duration::from_micros(50));
    }

    /// A connection, and what its client begins with.
    fn connect(&mut self, window: u32) -> (ConnId, Vec<u8>) {
        let (id, mut out) = self.connect_shut(window);
        frame::write_window_update(&mut out, 0, 1 << 30);
        (id, out)
    }

    /// The same, where the connection has the window that it begins with.
    fn connect_shut(&mut self, window: u32) -> (ConnId, Vec<u8>) {
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

    fn say(&mut self, id: ConnId, bytes: &[u8]) {
        self.net.heard += bytes.len();
        assert_eq!(self.server.on_data(&mut self.net, id, bytes), bytes.len());
    }

    fn turn(&mut self) {
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
    fn rest(&mut self) {
        for _ in 0..100 {
            self.turn();
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Came) -> bool) {
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

/// Connections whose memory is measured.
const CONNECTIONS: usize = 4;

/// Bytes that a connection may hold whose streams all are stalled from the beginning, beside twice what
/// came of it.
const STALLED_FIRST: usize = 128 << 10;

/// And one whose streams are stalled behind what their windows had room for: some of the body waits.
const STALLED_LATER: usize = 2 << 20;

fn check(folder: &Folder, path: &str, window: u32) {
    let mut world = World::new(folder);
    let heads = |came: &Came| came.heads >= if window == 0 { 8 } else { STREAMS as usize };
    let first = world.open(path, window);
    world.until("heads", heads);
    world.rest();
    let (before, heard) = (live(), world.net.heard);
    for _ in 0..CONNECTIONS {
        world.open(path, window);
        world.until("heads", heads);
    }
    world.rest();
    let each = live().saturating_sub(before) / CONNECTIONS;
    let heard = (world.net.heard - heard) / CONNECTIONS;
    let most = if window == 0 { STALLED_FIRST + 2 * heard } else { STALLED_LATER };
    assert!(each <= most, "{path}, windows of {window}: {each} bytes, of {most}");
    // The last of the first goes on as soon as it may, whatever the others did.
    let mut out = Vec::new();
    for stream in 0..STREAMS - 1 {
        frame::write_reset(&mut out, 2 * stream + 1, h2::ErrorCode::NO_ERROR);
    }
    frame::write_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, 1 << 24)]);
    world.say(first, &out);
    world.until("the end of one", |came| came.ends == 1 || came.number > 1);
    let came = &world.net.clients[&1];
    let whole = if path.contains("short") { SHORT } else { LARGE };
    let changed = path.contains("coded") || path.contains("changed");
    assert!(came.resets == 0 && (changed && came.body > 500 || came.body >= whole), "{path}: {} bytes", came.body);
    // What the others held is given back with them.
    for number in 2..2 + CONNECTIONS as u32 {
        world.server.on_close(&mut world.net, ConnId::new(number, 1), Closed::Finished);
        world.net.clients.remove(&number);
    }
    world.rest();
    let left = live().saturating_sub(before);
    assert!(left <= KEPT, "{path}, windows of {window}: {left} bytes are left");
}

/// Bytes that a silo keeps for those who follow: courses, heads, places in tables.
const KEPT: usize = 1 << 20;

#[test]
fn a_stream_whose_client_takes_nothing_holds_its_place_alone() {
    let _alone = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let paths = ["/large.html", "/coded/large.html", "/changed/large.html", "/made/large.html"];
    let paths = paths.into_iter().chain(["/changed/short.html", "/made/short.html", "/asked/a", "/asked/coded/a"]);
    for path in paths {
        [0, 1, 3_000].into_iter().for_each(|window| check(&folder, path, window));
    }
}

/// Bytes of an idle connection, beside what its data path and its table of fields have.
const IDLE: usize = 1_500;

#[test]
fn an_idle_connection_is_small_and_what_is_ready_allocates_nothing() {
    const MANY: u32 = 500;
    let _alone = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    world.net.counts_only = true;
    // Tables grow by doubling: these have grown.
    let ids: Vec<ConnId> = (0..MANY).map(|_| world.begin()).collect();
    ids.iter().for_each(|id| world.server.on_close(&mut world.net, *id, Closed::Finished));
    (world.next, world.generation) = (0, 2);
    let before = live();
    let mut ids = Vec::with_capacity(MANY as usize);
    ids.extend((0..MANY).map(|_| world.begin()));
    let each = live().saturating_sub(before) / MANY as usize;
    assert!(each <= IDLE, "{each} bytes before a request");
    // One request each: the first waits for the file.
    for id in &ids {
        let sent = world.net.sent;
        world.say(*id, &request(1, "/short.html"));
        while world.net.sent < sent + SHORT as usize {
            world.turn();
        }
    }
    let each = live().saturating_sub(before) / MANY as usize;
    assert!(each <= IDLE, "{each} bytes behind a request");
    let asked: Vec<Vec<u8>> = (1..200).map(|number| request(2 * number + 1, "/short.html")).collect();
    let (count, sent) = (ALLOCATIONS.load(Ordering::Relaxed), world.net.sent);
    for one in &asked {
        world.say(ids[0], one);
        let _ = world.server.on_turn(&mut world.net);
    }
    assert!(world.net.sent >= sent + asked.len() * SHORT as usize);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - count;
    assert_eq!(allocations, 0, "in {} requests", asked.len());
}

/// Requests that wait behind stalled ones begin when these are given up, and are given up themselves, however
/// they are answered.
#[test]
fn who_takes_nothing_is_given_up_and_whoever_waits_begins() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    for path in ["/large.html", "/coded/large.html", "/changed/large.html", "/asked/large.html"] {
        let mut world = World::new(&folder);
        let (id, mut out) = world.connect(0);
        for stream in 0..20 {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        world.say(id, &out);
        world.until("heads", |came| came.heads >= 8);
        for _ in 0..400 {
            world.second(id);
        }
        let came = &world.net.clients[&1];
        assert_eq!((came.heads, came.resets, came.body), (20, 20, 0), "{path}");
    }
}

/// A request with a body, and one for a head alone, are answered whatever is stalled.
#[test]
fn heads_wait_for_no_window() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    let (id, mut out) = world.connect(0);
    for stream in 0..12 {
        out.extend_from_slice(&request(2 * stream + 1, "/large.html"));
    }
    world.say(id, &out);
    world.until("heads", |came| came.heads >= 8);
    world.rest();
    assert_eq!(world.net.clients[&1].heads, 8);
    let mut posted = Vec::new();
    let block = *b"\x83\x86\x01\x01a\x04\x0b/large.html";
    frame::write_headers(&mut posted, 101, &block, false, 1 << 14);
    posted.extend_from_slice(&FrameHead { length: 3, kind: Kind::Data, flags: frame::END_STREAM, stream: 101 }.bytes());
    posted.extend_from_slice(b"abc");
    let block = *b"\x02\x04HEAD\x86\x01\x01a\x04\x0b/large.html";
    frame::write_headers(&mut posted, 103, &block, true, 1 << 14);
    world.say(id, &posted);
    world.until("both heads", |came| came.heads >= 10);
    assert_eq!(world.net.clients[&1].resets, 0);
}

/// Whoever takes all the time is not late with what is sent behind the rest.
#[test]
fn who_takes_slowly_is_not_late_with_what_waits_for_its_turn() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    for path in ["/large.html", "/asked/large.html"] {
        let mut world = World::new(&folder);
        let (id, mut out) = world.connect_shut(1 << 30);
        for stream in 0..6 {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        world.say(id, &out);
        let mut more = Vec::new();
        frame::write_window_update(&mut more, 0, 120_000);
        let mut seconds = 0;
        while world.net.clients[&1].ends < 6 {
            world.second(id);
            world.say(id, &more);
            seconds += 1;
            assert!(seconds < 2_000, "{path}");
        }
        let came = &world.net.clients[&1];
        assert_eq!((came.resets, came.body), (0, 6 * LARGE), "{path}");
        assert!(seconds > 120, "longer than any may take nothing");
    }
}
