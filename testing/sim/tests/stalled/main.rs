//! What connections of HTTP/2 hold: idle ones, and those whose clients take nothing of what they asked for.
//! Bytes and allocations are counted as they are made.

mod ends;
mod refusing;
mod streams;
mod world;

use app::{App, Closed, ConnId};
use h2::frame::{self, FrameHead, Kind, setting};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use world::{Came, Folder, LARGE, SHORT, STREAMS, World, request};

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

/// Connections whose memory is measured.
const CONNECTIONS: usize = 4;

/// Bytes that a connection may hold whose streams all are stalled from the beginning, beside twice what
/// came of it.
const STALLED_FIRST: usize = 128 << 10;

/// And one whose streams are stalled behind what their windows had room for: some of the body waits.
const STALLED_LATER: usize = 2 << 20;

/// Connections whose clients take nothing, who have lent to them all that a silo lends, and what that is.
const GREEDY: usize = 10;
const LENT: usize = 6 << 20;

fn check(folder: &Folder, path: &str, window: u32) {
    let mut world = World::new(folder);
    let all = |came: &Came| came.heads >= STREAMS as usize;
    let first = world.open(path, window);
    world.until("heads", all);
    world.rest();
    let (mut heads, mut greedy): (fn(&Came) -> bool, _) = (|came| came.heads >= STREAMS as usize, 0);
    if window == 0 {
        // What is lent is bounded, and holds what it is lent for.
        let before = live();
        heads = |came| came.heads >= 8;
        greedy = GREEDY;
        for _ in 0..GREEDY {
            world.open(path, window);
            world.until("heads", heads);
        }
        world.rest();
        let each = live().saturating_sub(before) / GREEDY;
        assert!(each <= STALLED_FIRST + LENT / GREEDY, "{path}: {each} bytes of who holds what is lent");
        // What is ready for others holds nothing.
        let waits = world.net.clients.values().any(|came| came.heads < STREAMS as usize);
        assert!(waits || path.contains("coded"), "{path}: all is lent");
    }
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
    let (came, others) = (&world.net.clients[&1], 2 + greedy as u32);
    let whole = if path.contains("short") { SHORT } else { LARGE };
    let changed = path.contains("coded") || path.contains("changed");
    assert!(came.resets == 0 && (changed && came.body > 500 || came.body >= whole), "{path}: {} bytes", came.body);
    // What the others held is given back with them.
    for number in others..others + CONNECTIONS as u32 {
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
    // Tables grow by doubling, and the first request waits for the file, which is read meanwhile: these
    // have grown, and it is at hand.
    let ids: Vec<ConnId> = (0..MANY).map(|_| world.begin()).collect();
    world.ask_for_short(ids[0]);
    ids.iter().for_each(|id| world.server.on_close(&mut world.net, *id, Closed::Finished));
    (world.next, world.generation) = (0, 2);
    world.turn();
    let before = live();
    let mut ids = Vec::with_capacity(MANY as usize);
    ids.extend((0..MANY).map(|_| world.begin()));
    let each = live().saturating_sub(before) / MANY as usize;
    assert!(each <= IDLE, "{each} bytes before a request");
    for id in &ids {
        world.ask_for_short(*id);
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

impl World {
    /// The first request of a connection, and its answer.
    fn ask_for_short(&mut self, id: ConnId) {
        let sent = self.net.sent;
        self.say(id, &request(1, "/short.html"));
        while self.net.sent < sent + SHORT as usize {
            self.turn();
        }
    }

    /// Clients that take nothing have lent to them all that a silo lends: the next has what each has.
    fn exhaust(&mut self) {
        for _ in 0..GREEDY {
            self.open("/large.html", 0);
        }
        self.rest();
    }
}

/// Requests that wait behind stalled ones begin when these are given up, and are given up themselves, however
/// they are answered.
#[test]
fn who_takes_nothing_is_given_up_and_whoever_waits_begins() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    for path in ["/large.html", "/coded/large.html", "/changed/large.html", "/asked/large.html"] {
        let mut world = World::new(&folder);
        world.exhaust();
        let (id, mut out) = world.connect(0);
        for stream in 0..20 {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        world.say(id, &out);
        world.until("heads", |came| came.heads >= 8);
        assert_eq!(world.net.clients[&world.next].heads, 8, "{path}");
        for _ in 0..400 {
            world.second(id);
        }
        let came = &world.net.clients[&world.next];
        assert_eq!((came.heads, came.resets, came.body), (20, 20, 0), "{path}");
    }
}

/// All heads come while all windows are shut, and what has no body comes whole.
#[test]
fn heads_wait_for_no_window() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    for path in ["/large.html", "/coded/large.html", "/changed/large.html", "/asked/a"] {
        let mut world = World::new(&folder);
        let (id, mut out) = world.connect(0);
        for stream in 0..100 {
            out.extend_from_slice(&request(2 * stream + 1, path));
        }
        for stream in 100..STREAMS {
            out.extend_from_slice(&request(2 * stream + 1, "/none"));
        }
        world.say(id, &out);
        world.until("all heads", |came| came.heads == STREAMS as usize);
        assert_eq!((world.net.clients[&1].ends, world.net.clients[&1].resets), (28, 0), "{path}");
    }
}

/// Where nothing is lent any more, a request for a head alone is answered all the same. Others begin when those before
/// them are over; one with a body is refused, as what comes of that would have to be kept, and is answered where there
/// is a window.
#[test]
fn what_needs_no_window_is_answered_whatever_is_lent() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    world.exhaust();
    let (id, mut out) = world.connect(0);
    for stream in 0..12 {
        out.extend_from_slice(&request(2 * stream + 1, "/large.html"));
    }
    world.say(id, &out);
    world.until("heads", |came| came.heads >= 8);
    world.rest();
    assert_eq!(world.net.clients[&world.next].heads, 8);
    let post = |out: &mut Vec<u8>, stream: u32| {
        let block = *b"\x83\x86\x01\x01a\x04\x0b/large.html";
        frame::write_headers(out, stream, &block, false, 1 << 14);
        out.extend_from_slice(&FrameHead { length: 3, kind: Kind::Data, flags: frame::END_STREAM, stream }.bytes());
        out.extend_from_slice(b"abc");
    };
    let mut posted = Vec::new();
    post(&mut posted, 101);
    let block = *b"\x02\x04HEAD\x86\x01\x01a\x04\x0b/large.html";
    frame::write_headers(&mut posted, 103, &block, true, 1 << 14);
    world.say(id, &posted);
    let mine = world.next;
    world.until("its head", |came| came.number != mine || came.heads >= 9);
    let came = &world.net.clients[&mine];
    assert_eq!((came.heads, came.ends, came.resets), (9, 1, 1));
    let (with_room, mut posted) = world.connect(1 << 20);
    post(&mut posted, 1);
    world.say(with_room, &posted);
    let its = world.next;
    world.until("its answer", |came| came.number != its || came.ends == 1);
    assert_eq!((world.net.clients[&its].heads, world.net.clients[&its].resets), (1, 0));
    world.net.clients.remove(&its);
    // What the others have lent is for others once they are gone.
    for number in 1..mine {
        world.server.on_close(&mut world.net, ConnId::new(number, 1), Closed::Reset);
        world.net.clients.remove(&number);
    }
    let nothing = FrameHead { length: 8, kind: Kind::Ping, flags: 0, stream: 0 }.bytes();
    world.say(id, &[&nothing[..], &[0; 8]].concat());
    world.until("the others", |came| came.heads == 13);
}

/// What a browser sends with each request, a kilobyte of cookies, refuses none of those that it sends at once;
/// heads that are much on a byte of the wire are refused once all that is lent for them is used.
#[test]
fn heads_that_repeat_much_are_refused_where_a_silo_holds_too_much_of_them() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::new(&folder);
    let heads = |bytes: usize| {
        let mut out = Vec::new();
        for stream in 0..STREAMS {
            // The cookie stands in the table from the first on.
            let mut block = vec![0x82, 0x86, 0x01, 1, b'a', 0x04, 11];
            block.extend_from_slice(b"/large.html");
            if stream == 0 {
                block.extend_from_slice(&[0x60, 0x7f]);
                let mut left = bytes - 0x7f;
                while left >= 0x80 {
                    block.push(left as u8 | 0x80);
                    left >>= 7;
                }
                block.push(left as u8);
                block.resize(block.len() + bytes, b'c');
            } else {
                block.push(0x80 | 62);
            }
            frame::write_headers(&mut out, 2 * stream + 1, &block, true, 1 << 14);
        }
        out
    };
    for (bytes, window) in [(1_000, 1 << 20), (1_000, 0), (4_000, 0)] {
        let (id, out) = world.connect(window);
        world.say(id, &[out, heads(bytes)].concat());
        assert_eq!(world.net.clients[&world.next].resets, 0, "{bytes} bytes, windows of {window}");
    }
    world.exhaust();
    world.net.clients.clear();
    let (before, heard) = (live(), world.net.heard);
    for _ in 0..CONNECTIONS {
        let (id, out) = world.connect(0);
        world.say(id, &[out, heads(4_000)].concat());
        assert!(world.net.clients[&world.next].resets > 80);
    }
    let each = live().saturating_sub(before) / CONNECTIONS;
    let most = STALLED_FIRST + 2 * (world.net.heard - heard) / CONNECTIONS;
    assert!(each <= most, "{each} bytes, of {most}");
}

/// Requests that waited, and that their client wants no more or leaves behind, have a line each; so has a head
/// of which no more comes.
#[test]
fn what_never_began_is_in_the_log() {
    let _guard = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new();
    let mut world = World::serving(&folder, true);
    world.exhaust();
    world.net.port = Some(81);
    let (id, mut out) = world.connect(0);
    for stream in 0..12 {
        out.extend_from_slice(&request(2 * stream + 1, &format!("/large.html?{stream}")));
    }
    world.say(id, &out);
    let mine = world.next;
    world.until("heads", |came| came.number != mine || came.heads >= 8);
    let mut out = Vec::new();
    frame::write_reset(&mut out, 2 * 11 + 1, h2::ErrorCode::CANCEL);
    frame::write(&mut out, Kind::Headers, 0, 101, b"\x82\x86");
    world.say(id, &out);
    world.server.on_close(&mut world.net, id, Closed::Reset);
    let path = folder.0.join("access.log");
    let mut lines: Vec<String> = Vec::new();
    for _ in 0..1_000 {
        world.second(ConnId::new(1, 1));
        lines = std::fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect();
        if lines.len() >= 13 {
            break;
        }
    }
    lines.sort_unstable();
    let mut expected: Vec<String> = (8..12).map(|at| format!("499 GET /large.html?{at} HTTP/2.0")).collect();
    expected.extend((0..8).map(|at| format!("200 GET /large.html?{at} HTTP/2.0")));
    expected.push("400 ".to_owned());
    expected.sort_unstable();
    assert_eq!(lines, expected);
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
            if seconds > 400 {
                // Whoever reads files does so in the machine's time.
                std::thread::sleep(core::time::Duration::from_millis(10));
            }
        }
        let came = &world.net.clients[&1];
        assert_eq!((came.resets, came.body), (0, 6 * LARGE), "{path}");
        assert!(seconds > 120, "longer than any may take nothing");
    }
}
