//! The loop allocates nothing once its connections are open.

use app::{App, Body, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use load::{Arrival, Heads, Load, Plan, Schedule, Stop};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use wire::Time;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting takes
// a thread-local that needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + size));
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// A data path that does nothing but say which connections were sent on.
struct Bare {
    now: Time,
    slots: u32,
    sent: Vec<ConnId>,
}

impl Net for Bare {
    fn now(&self) -> Time {
        self.now
    }
    fn connect(&mut self, _: Option<IpAddr>, _: SocketAddr) -> Result<ConnId, ConnectError> {
        self.slots += 1;
        Ok(ConnId::new(self.slots - 1, 1))
    }
    fn send_body(&mut self, id: ConnId, _: &Body, _: core::ops::Range<u32>) {
        self.sent.push(id);
    }
    fn send_bytes(&mut self, _: ConnId, _: &[u8]) {}
    fn unsent(&self, _: ConnId) -> usize {
        0
    }
    fn finish(&mut self, _: ConnId) {}
    fn abort(&mut self, _: ConnId) {}
    fn resume(&mut self, _: ConnId) {}
    fn set_timer(&mut self, _: ConnId, _: Option<Time>) {}
    fn peer(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }
    fn local(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }
}

fn looping(active: Option<u32>, pipeline: u16) -> Plan {
    let mut plan = crate::world::plan();
    plan.connections = 64;
    plan.active = active;
    plan.pipeline = pipeline;
    plan
}

fn allocations_of_the_loop(mut plan: Plan) -> (u64, u64) {
    plan.stop = Stop::After(core::time::Duration::from_secs(100));
    let mut load = Load::new(plan).unwrap();
    let mut intervals = load.intervals(core::time::Duration::from_millis(20));
    let mut taken = 0;
    let mut net = Bare { now: Time::from_millis(1), slots: 0, sent: Vec::with_capacity(1_024) };
    let mut answered = Vec::with_capacity(1_024);
    let response = crate::world::response("200 OK", 13);
    let _ = load.on_turn(&mut net);
    for slot in 0..net.slots {
        load.on_open(&mut net, ConnId::new(slot, 1), Opened::Connected);
    }
    let mut turn = |load: &mut Load| {
        net.now = net.now + core::time::Duration::from_micros(100);
        core::mem::swap(&mut net.sent, &mut answered);
        for id in answered.drain(..) {
            assert_eq!(load.on_data(&mut net, id, &response), response.len());
        }
        let _ = load.on_turn(&mut net);
        while let Some(interval) = intervals.take() {
            taken += u64::from(!interval.samples.classes[0].is_empty());
        }
    };
    // Past the warm-up of 100 ms, into the window.
    for _ in 0..2_000 {
        turn(&mut load);
    }
    let (before, responses) = (ALLOCATIONS.get(), load.progress(Time::from_millis(201)).responses);
    // More than half a second of it, so publishing is included.
    for _ in 0..6_000 {
        turn(&mut load);
    }
    let allocations = ALLOCATIONS.get() - before;
    assert!(taken > 20, "{taken} intervals");
    (allocations, load.progress(Time::from_millis(801)).responses - responses)
}

#[test]
fn the_loop_allocates_nothing() {
    for (active, pipeline, each_turn) in [(None, 1, 64), (None, 4, 256), (Some(8), 1, 8)] {
        let (allocations, responses) = allocations_of_the_loop(looping(active, pipeline));
        assert_eq!(responses, 6_000 * each_turn);
        assert_eq!(allocations, 0);
    }
}

#[test]
fn nor_does_an_open_loop_of_several_requests() {
    // 6,000 turns of 100 µs: at 300,000 a second all are answered, at 2 million
    // there is a backlog that grows and grows.
    for (rate, each_turn) in [(300_000.0, 30), (2_000_000.0, 64)] {
        let mut plan = looping(None, 1);
        plan.arrival = Arrival::Open(Schedule::poisson(rate));
        plan.requests = vec![plan.requests[0].clone(); 10];
        let (allocations, responses) = allocations_of_the_loop(plan);
        assert!(responses.abs_diff(6_000 * each_turn) < 6_000, "{responses}");
        assert_eq!(allocations, 0);
    }
}

/// Heads of their own are written into place once a connection has sent its
/// first.
#[test]
fn nor_do_heads_that_differ() {
    for heads in [Heads::Short, Heads::Browser] {
        let mut plan = looping(None, 1);
        plan.heads = heads;
        plan.requests = vec![plan.requests[0].clone(); 10];
        let (allocations, responses) = allocations_of_the_loop(plan);
        assert_eq!((allocations, responses), (0, 6_000 * 64));
    }
}

/// A hundred thousand connections that have sent a browser's head each.
#[test]
fn heads_that_differ_take_as_much_as_is_told() {
    for (heads, each) in [(Heads::Short, 300), (Heads::Browser, 800)] {
        let mut plan = crate::world::plan();
        plan.connections = 20_000;
        plan.handshakes = 20_000;
        plan.heads = heads;
        let mut net = Bare { now: Time::from_millis(1), slots: 0, sent: Vec::with_capacity(1_024) };
        let before = BYTES.get();
        let mut load = Load::new(plan).unwrap();
        let mut next = 0;
        while next < 20_000 {
            net.now = net.now + core::time::Duration::from_micros(10);
            let _ = load.on_turn(&mut net);
            while next < net.slots {
                load.on_open(&mut net, ConnId::new(next, 1), Opened::Connected);
                next += 1;
            }
            net.sent.clear();
        }
        let bytes = BYTES.get() - before;
        assert!(bytes <= (48 + each) * 20_000 + BESIDE, "{heads:?}: {bytes} bytes");
    }
}

/// What is asked of the allocator beside the table: a histogram for each class
/// and each kind of time, for the phases of the run, one after the other. Of
/// these 254 KB each only the pages with samples become memory.
const BESIDE: usize = 32 * 254_000;

/// A million connections, 64 of them active: the table, and next to it the
/// histograms, the request and odds and ends.
#[test]
fn a_million_connections_take_48_bytes_each() {
    let mut plan = crate::world::plan();
    plan.connections = 1_000_000;
    plan.active = Some(64);
    plan.handshakes = 10_000;
    let mut net = Bare { now: Time::from_millis(1), slots: 0, sent: Vec::with_capacity(1_024) };
    let response = crate::world::response("200 OK", 13);
    let before = BYTES.get();
    let mut load = Load::new(plan).unwrap();
    let mut next = 0;
    while next < 1_000_000 {
        net.now = net.now + core::time::Duration::from_micros(10);
        let _ = load.on_turn(&mut net);
        while next < net.slots {
            load.on_open(&mut net, ConnId::new(next, 1), Opened::Connected);
            while let Some(id) = net.sent.pop() {
                let _ = load.on_data(&mut net, id, &response);
            }
            next += 1;
        }
    }
    let _ = load.on_turn(&mut net);
    assert_eq!(net.sent.len(), 64, "the first active ones, within a turn's bound");
    assert_eq!((load.held(), net.slots), (1_000_000, 1_000_000));
    let bytes = BYTES.get() - before;
    assert!(bytes <= 48 * 1_000_000 + BESIDE, "{bytes} bytes");
}

#[test]
fn allocations_are_counted_at_all() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert!(ALLOCATIONS.get() > before);
}
