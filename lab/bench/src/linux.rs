//! A transfer between two Linux stacks, each in a network namespace of its
//! own, over two TAPs that this process joins with faults. Namespaces and TAPs
//! are gone when their threads and links are.

use crate::BenchError;
use core::net::SocketAddr;
use core::time::Duration;
use cpu::Clock;
use link::{FaultPlan, Faults, Impairment, Link, Probability, Receive, Transmit};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tap::{Config, Tap};
use wire::{Offload, Time};

const SENDER: &str = "10.79.0.1";
const RECEIVER: &str = "10.79.0.2";
const PORT: u16 = 5001;

/// A transfer that is slower than this for a second is given up.
const SLOWEST: u64 = 50_000;

/// Frames passed on at a time.
const BURST: usize = 32;

/// How long the bridge sleeps where nothing is due: far below the round trip.
const NAP: Duration = Duration::from_micros(200);

/// Transfers `bytes` from one kernel stack to the other, with the kernel's
/// congestion control of this name. Returns bits of the application per second.
pub(crate) fn transfer(bytes: u64, loss: f64, rtt: Duration, congestion: &'static str) -> Result<f64, BenchError> {
    let (give, taps) = channel();
    let (told, done) = channel();
    let (ready, listening) = channel();
    let giver = give.clone();
    let receiver = thread::spawn(move || in_namespace(RECEIVER, &giver, || receive(bytes, &ready, &told)));
    let one = taps.recv()?.map_err(BenchError::from)?;
    listening.recv().map_err(|_| "nobody listens")?;
    let sender = thread::spawn(move || in_namespace(SENDER, &give, || send(bytes, congestion)));
    let other = taps.recv()?.map_err(BenchError::from)?;

    let impairment = Impairment { loss: Probability::new(loss), delay: rtt / 2, ..Impairment::default() };
    // On the way in and on the way out of one TAP: both directions, once each.
    let faulty = Faults::new(other, FaultPlan::both(impairment, 1));
    let limit = Duration::from_secs(30 + bytes / SLOWEST);
    let took = bridge(faulty, one, &done, limit);
    // With the bridge gone both end; what they say matters only if it failed.
    let took = took.ok_or_else(|| format!("it takes longer than {limit:?}"))?;
    let ended =
        |side: thread::JoinHandle<Result<(), String>>| side.join().unwrap_or_else(|_| Err("it panicked".into()));
    ended(receiver)?;
    ended(sender)?;
    Ok(bytes as f64 * 8.0 / took.as_secs_f64())
}

/// Runs `with` on this thread in a new network namespace with a TAP, which is
/// given away.
fn in_namespace(
    address: &str,
    give: &Sender<Result<Tap, String>>,
    with: impl FnOnce() -> std::io::Result<()>,
) -> Result<(), String> {
    let opened = open(address);
    let failed = opened.as_ref().err().cloned();
    let _ = give.send(opened);
    match failed {
        Some(why) => Err(why),
        None => with().map_err(|why| why.to_string()),
    }
}

fn open(address: &str) -> Result<Tap, String> {
    // SAFETY: only this thread moves, and it shares no files by number with
    // what expects the old namespace.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|why| format!("this user may not make a network namespace: {why}"))?;
    let mut config = Config::new("faulty0").map_err(|why| why.to_string())?;
    config.addresses = vec![format!("{address}/24").parse().map_err(|_| "no address")?];
    // Frames as they are on a wire: faults must not meet half-made ones.
    config.offload = false;
    Tap::open(&config).map_err(|why| why.to_string())
}

fn receive(bytes: u64, ready: &Sender<()>, told: &Sender<Time>) -> std::io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], PORT)))?;
    let _ = ready.send(());
    let (mut stream, _) = listener.accept()?;
    demo::bulk::take(&mut stream, bytes, 1 << 16)?;
    let _ = told.send(Clock.now());
    Ok(())
}

fn send(bytes: u64, congestion: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(format!("{RECEIVER}:{PORT}"))?;
    set_tcp_congestion(&stream, congestion)?;
    demo::bulk::give(&mut stream, bytes)
}

/// Passes frames both ways until the receiver is done; `None` if it is not
/// within `limit`. The time is from the sender's start.
fn bridge(mut faulty: Faults<Tap>, mut plain: Tap, done: &Receiver<Time>, limit: Duration) -> Option<Duration> {
    let begun = Clock.now();
    loop {
        let now = Clock.now();
        let busy = pass(&mut faulty, &mut plain, now) + pass(&mut plain, &mut faulty, now);
        if let Ok(ended) = done.try_recv() {
            return Some(ended.since(begun));
        }
        if now.since(begun) > limit {
            return None;
        }
        if busy == 0 {
            // A link that cannot wait is polled.
            let _ = faulty.wait(None, NAP);
        }
    }
}

/// Takes a burst from one link to the other; what finds no room is lost.
fn pass<A: Link, B: Link>(from: &mut A, to: &mut B, now: Time) -> usize {
    let (mut rx, _) = from.split();
    let (_, mut tx) = to.split();
    let count = rx.receive(now, BURST);
    for index in 0..count {
        let frame = rx.frame(index);
        if let Some(slot) = tx.slot()
            && let Some(place) = slot.get_mut(..frame.len())
        {
            place.copy_from_slice(frame);
            tx.commit(frame.len(), Offload::default());
        }
    }
    rx.release();
    tx.flush(now);
    count
}
