//! Descriptors run out: accept(2) fails with EMFILE, and the connection stays
//! in the queue, so that the listening socket stays readable. In a process of
//! its own, because the limit is a process's.

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../all/support/mod.rs"]
mod support;

use app::Closed;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockets::{Config, Model};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;
use support::puppet::{Do, Theatre};
use support::{is_asleep, listen, wait_for};

/// What the worker of this test uses.
const ENGINE: sockets::Engine = sockets::Engine::Epoll;

/// They are workers.
const BESIDE: bool = false;

/// Takes every descriptor that is left.
fn take_all() -> Vec<File> {
    core::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn no_descriptors_is_no_reason_to_spin() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut clients: Vec<OwnedFd> =
        (0..6).map(|_| socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()).collect();
    connect(&clients[0], &address).unwrap();
    let first = theatre.opened();
    // The worker began with more than it is left now.
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: most }).unwrap();
    let mut taken = take_all();
    for client in &clients[1..4] {
        connect(client, &address).unwrap();
    }
    wait_for("an accept without descriptors", || theatre.counters().accept_pauses > 0);
    let (before, began) = (theatre.counters(), cpu::Clock.now());
    std::thread::sleep(Duration::from_millis(400));
    let after = theatre.counters();
    let slept = cpu::Clock.now().since(began);
    // It asks again after 100 ms, then 200, 400 and so on to a second.
    let (asked, waits) = (after.accepts_no_descriptors - before.accepts_no_descriptors, after.waits - before.waits);
    assert!(asked <= 3 + slept.as_secs(), "asked {asked} times in {slept:?}");
    assert!(is_asleep(waits, slept), "{waits} waits in {slept:?}");
    // Descriptors are there again: no connection was lost.
    taken.truncate(taken.len() - 3);
    for _ in 0..3 {
        theatre.opened();
    }
    // One that closes is as good.
    connect(&clients[4], &address).unwrap();
    wait_for("another pause", || theatre.counters().accept_pauses > after.accept_pauses);
    theatre.tell(Do::Abort(first));
    assert_eq!(theatre.closed(), Closed::Aborted);
    theatre.opened();
    let counters = theatre.close();
    assert_eq!((counters.accepted, counters.closed), (5, 5));
    drop(taken);
    clients.clear();
}
