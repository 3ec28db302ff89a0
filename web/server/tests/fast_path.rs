//! The short way of a keep-alive GET: no allocation, no timer, one queued
//! slice.

mod support;

use app::{App, Body, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use server::{AccessLog, Config, Respond, Server, WallClock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{START, Site, directory};
use wire::Time;

thread_local! {
    /// Allocations by this thread: helper threads may allocate.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system allocator as it came; counting does
// not allocate, since the counter is a constant-initialised `Cell`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A data path that only counts.
#[derive(Debug, Default)]
struct Counts {
    now: Time,
    slices: u64,
    copies: u64,
    bytes: u64,
    timers: u64,
}

impl Net for Counts {
    fn now(&self) -> Time {
        self.now
    }
    fn connect(&mut self, _from: Option<IpAddr>, _to: SocketAddr) -> Result<ConnId, ConnectError> {
        Err(ConnectError::NoRoute)
    }
    fn send_body(&mut self, _id: ConnId, _body: &Body, range: Range<u32>) {
        self.slices += 1;
        self.bytes += u64::from(range.end - range.start);
    }
    fn send_bytes(&mut self, _id: ConnId, bytes: &[u8]) {
        self.copies += 1;
        self.bytes += bytes.len() as u64;
    }
    fn unsent(&self, _id: ConnId) -> usize {
        0
    }
    fn finish(&mut self, _id: ConnId) {}
    fn abort(&mut self, _id: ConnId) {}
    fn resume(&mut self, _id: ConnId) {}
    fn set_timer(&mut self, _id: ConnId, _at: Option<Time>) {
        self.timers += 1;
    }
    fn peer(&self, _id: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 7], 1)))
    }
    fn local(&self, _id: ConnId) -> Option<SocketAddr> {
        None
    }
}

const REQUEST: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 10.0.0.2\r\nUser-Agent: test/1.0\r\nAccept: */*\r\n\r\n";

/// Serves `REQUEST` ten thousand times on some connections; over several
/// seconds, so that the date changes on the way.
fn check(config: Config, slices_each: u64) {
    let clock = WallClock::new(Time::ZERO, Duration::from_secs(START));
    let mut server = Server::new(config, clock).expect("the configuration is valid");
    let mut net = Counts { now: Time::from_millis(1), ..Counts::default() };
    let ids: Vec<_> = (0..10).map(|slot| ConnId::new(slot, 1)).collect();
    for &id in &ids {
        server.on_open(&mut net, id, Opened::Accepted);
        let queued = net.bytes;
        assert_eq!(server.on_data(&mut net, id, REQUEST), REQUEST.len());
        // The first waits for the file.
        while net.bytes == queued {
            let _ = server.on_turn(&mut net);
        }
    }
    let (timers, slices, copies) = (net.timers, net.slices, net.copies);
    let before = ALLOCATIONS.get();
    let rounds = 1000;
    for _ in 0..rounds {
        net.now = net.now + Duration::from_millis(1);
        for &id in &ids {
            std::hint::black_box(server.warm(id));
            assert_eq!(server.on_data(&mut net, id, REQUEST), REQUEST.len());
            server.on_sent(&mut net, id);
        }
        let _ = server.on_turn(&mut net);
    }
    let allocations = ALLOCATIONS.get() - before;
    // Once per second a file is checked: the request to the reader holds its
    // path. Nothing else may be allocated, and no request may.
    assert!(allocations <= 4, "{allocations} allocations in {} requests", rounds * 10);
    assert_eq!(net.timers, timers, "no timer");
    assert_eq!(net.copies, copies, "nothing copied");
    assert_eq!(net.slices - slices, rounds * 10 * slices_each);
    let count = |name| server.counters().find(|(found, _)| *found == name).map(|(_, value)| value);
    assert_eq!(count("requests"), Some(rounds * 10 + 10));
    assert_eq!(count("responses_2xx"), Some(rounds * 10 + 10));
}

#[test]
fn a_fixed_response_allocates_nothing() {
    check(Config::respond(Respond::Text("hello".into())), 1);
}

#[test]
fn a_cached_file_allocates_nothing() {
    let site = Site::new();
    site.write("index.html", vec![b'x'; 2649]);
    check(site.config(), 1);
}

#[test]
fn a_cached_file_of_several_slices_allocates_nothing() {
    let site = Site::new();
    site.write("index.html", vec![b'x'; 100_000]);
    check(site.config(), 2);
}

#[test]
fn with_a_reader_thread_and_an_access_log_neither() {
    let site = Site::new();
    site.write("index.html", vec![b'x'; 2649]);
    let mut config = site.config();
    directory(&mut config).reader = server::ReaderKind::Thread;
    config.access_log = AccessLog::File(site.outside().join("log"));
    // Buffers are made where the writer is behind, as on a busy machine: at most one
    // beyond these.
    config.limits.log_bytes = 256 << 10;
    check(config, 1);
}
