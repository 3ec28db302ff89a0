//! Counts the instructions of the generator's fast path: a complete response
//! taken, its latency recorded, the next request queued.
//!
//! `cargo run --release -p load --example cost` runs itself under callgrind
//! (valgrind must be installed), with two lengths of each loop: the difference
//! is free of set-up. Subtract what the bare data path costs.

use app::{App, Body, ConnId, ConnectError, Net, Opened};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use hdrhistogram::Histogram;
use load::{Load, Plan, Recorder, Request};
use std::hint::black_box;
use std::process::Command;
use wire::Time;

const CONNECTIONS: u32 = 64;
const ROUNDS: u64 = 2_000;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nearside\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

struct Bare {
    now: Time,
    slots: u32,
    queue: Vec<ConnId>,
}

impl Net for Bare {
    #[inline]
    fn now(&self) -> Time {
        self.now
    }
    fn connect(&mut self, _: Option<IpAddr>, _: SocketAddr) -> Result<ConnId, ConnectError> {
        self.slots += 1;
        Ok(ConnId::new(self.slots - 1, 1))
    }
    #[inline]
    fn send_body(&mut self, id: ConnId, body: &Body, range: Range<u32>) {
        black_box((body, range));
        self.queue.push(id);
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

/// `rounds` turns in each of which all connections are answered.
fn requests(rounds: u64, active: Option<u32>, length: Option<u64>) {
    let mut plan = Plan::new(([10, 0, 0, 2], 80).into(), Request::get("10.0.0.2", "/"));
    plan.connections = CONNECTIONS * if active.is_some() { 16 } else { 1 };
    plan.active = active;
    plan.expect.length = length;
    plan.warm_up = Duration::ZERO;
    let mut load = Load::new(plan).expect("a sound plan");
    let mut net = Bare { now: Time::from_millis(1), slots: 0, queue: Vec::with_capacity(2_048) };
    let mut answered = Vec::with_capacity(2_048);
    for _ in 0..16 {
        let _ = load.on_turn(&mut net);
    }
    for slot in 0..net.slots {
        load.on_open(&mut net, ConnId::new(slot, 1), Opened::Connected);
    }
    for _ in 0..rounds + 20 {
        net.now = net.now + Duration::from_micros(30);
        core::mem::swap(&mut net.queue, &mut answered);
        for id in answered.drain(..) {
            let used = load.on_data(&mut net, id, black_box(RESPONSE));
            assert_eq!(used, RESPONSE.len());
        }
        black_box(load.on_turn(&mut net));
    }
    let progress = load.progress(net.now);
    assert!(progress.responses >= rounds * u64::from(CONNECTIONS), "{progress:?}");
}

fn spans(n: u64) -> impl Iterator<Item = u64> {
    (0..n).map(|n| black_box(10_000 + (n * 7_919) % 100_000))
}

/// What the bare data path costs in [`requests`].
fn bare(rounds: u64) {
    let body = Body::new(vec![0; 64]);
    let queue = (0..CONNECTIONS).map(|slot| ConnId::new(slot, 1)).collect();
    let mut net = Bare { now: Time::from_millis(1), slots: 0, queue };
    let mut answered = Vec::with_capacity(CONNECTIONS as usize);
    for _ in 0..rounds {
        core::mem::swap(&mut net.queue, &mut answered);
        for id in answered.drain(..) {
            assert_eq!(black_box(RESPONSE).len(), RESPONSE.len());
            net.send_body(id, &body, 0..body.len());
        }
    }
}

fn run(what: &str, rounds: u64) {
    match what {
        "the bare data path" => bare(rounds),
        "with a request" => requests(rounds, None, None),
        "with a request, length checked" => requests(rounds, None, Some(13)),
        "with a request, 64 of 1,024 drawn" => requests(rounds, Some(CONNECTIONS), None),
        "recording alone" => {
            let mut recorder = Recorder::new();
            spans(rounds * u64::from(CONNECTIONS)).for_each(|span| recorder.record(span));
            black_box(recorder.max());
        }
        "recording in hdrhistogram instead" => {
            let mut histogram = Histogram::<u64>::new_with_bounds(1, load::LONGEST, 3).expect("constant bounds");
            spans(rounds * u64::from(CONNECTIONS)).for_each(|span| histogram.saturating_record(span));
            black_box(histogram.max());
        }
        "99th percentile of 10 µs to 10 ms" => {
            let mut recorder = Recorder::new();
            (0..10_000).for_each(|n| recorder.record(10_000 + n * 999));
            (0..rounds).for_each(|_| _ = black_box(black_box(&recorder).quantile(0.99)));
        }
        "no recording (the loop around it)" => {
            black_box(spans(rounds * u64::from(CONNECTIONS)).fold(0, u64::wrapping_add));
        }
        _ => panic!("no such measurement: {what}"),
    }
}

/// Instructions of this program doing `what` for `rounds`.
fn instructions(what: &str, rounds: u64) -> u64 {
    let this = std::env::current_exe().expect("a path to this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args([what, &rounds.to_string()])
        .output()
        .expect("valgrind can be run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let line = text.lines().find_map(|line| line.split_once("Collected :")).expect("callgrind's sum");
    line.1.trim().parse().expect("a number")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some(what), Some(rounds)) = (arguments.next(), arguments.next()) {
        return run(&what, rounds.parse().expect("a number of rounds"));
    }
    println!("instructions each, over {} of them:", ROUNDS * u64::from(CONNECTIONS));
    for what in [
        "the bare data path",
        "with a request",
        "with a request, length checked",
        "with a request, 64 of 1,024 drawn",
        "no recording (the loop around it)",
        "recording alone",
        "recording in hdrhistogram instead",
    ] {
        let more = instructions(what, 2 * ROUNDS) - instructions(what, ROUNDS);
        println!("  {what:<36} {:>7.1}", more as f64 / (ROUNDS * u64::from(CONNECTIONS)) as f64);
    }
    let what = "99th percentile of 10 µs to 10 ms";
    let more = instructions(what, 400) - instructions(what, 200);
    println!("and, twice a second:\n  {what:<36} {:>7.0}", more as f64 / 200.0);
}
