//! A silo that sleeps on several links at once: over memif, whose peers wake
//! it.

use bond::{Bond, Member, Setup};
use core::time::Duration;
use link::{Link, LinkState, Receive, Transmit};
use memif::{Address, Config, MemifLink, Mode, Role};
use std::os::fd::AsFd;
use wire::{Mac, Offload, Time};

fn joined(mode: Mode, name: &str) -> (Bond<MemifLink>, Vec<MemifLink>) {
    let open = |port, role| {
        let address = Address::Abstract(format!("nearside-bond-{name}-{}-{port}", std::process::id()));
        MemifLink::open(Config { mode, ..Config::new(address, role) }).expect("open")
    };
    let aggregator = Setup::default().aggregator(Mac([2, 0, 0, 0, 0, 1]), ["a", "b"].map(String::from));
    let members = (0..2).map(|port| Member { port, link: open(port, Role::Server) }).collect();
    let mut bond = Bond::new(members, aggregator).expect("bond");
    let mut peers: Vec<_> = (0..2).map(|port| open(port, Role::Client)).collect();
    let mut now = Time::ZERO;
    loop {
        bond.poll_control(now);
        let up = peers.iter_mut().filter_map(|peer| (peer.poll_control(now) == LinkState::Up).then_some(())).count();
        if up == 2 && bond.aggregator().distributing() == 3 {
            break;
        }
        now = now + Duration::from_millis(1);
    }
    (bond, peers)
}

fn send(link: &mut impl Link, number: u64) {
    let (_, mut tx) = link.split();
    let slot = tx.slot().expect("room");
    slot[..64].fill(2);
    slot[56..64].copy_from_slice(&number.to_le_bytes());
    tx.commit(64, Offload::NONE);
    tx.flush(Time::ZERO);
}

fn receive(link: &mut impl Link) -> Vec<u64> {
    let mut all = Vec::new();
    let (mut rx, mut tx) = link.split();
    loop {
        let count = rx.receive(Time::ZERO, 32);
        for index in 0..count {
            let number = rx.frame(index)[56..64].try_into().expect("eight bytes");
            all.push(u64::from_le_bytes(number));
        }
        rx.release();
        if count == 0 {
            tx.flush(Time::ZERO);
            return all;
        }
    }
}

/// Each wait may only end by a frame: the timeout is longer than the test may
/// take.
#[test]
fn a_frame_on_any_member_ends_the_sleep() {
    for (mode, name) in [(Mode::Interrupt, "interrupt"), (Mode::Poll, "poll")] {
        const ROUNDS: u64 = 200;
        let (mut bond, mut peers) = joined(mode, name);
        let (seen, is_seen) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut waits = 0;
            let mut next = 0;
            while next < ROUNDS {
                bond.wait(None, Duration::from_secs(60)).expect("wait");
                waits += 1;
                for number in receive(&mut bond) {
                    assert_eq!(number, next);
                    next += 1;
                    seen.send(number).expect("the test waits for it");
                }
            }
            waits
        });
        for number in 0..ROUNDS {
            // By turns of three, so that each follows itself and the other.
            send(&mut peers[usize::from(number % 3 == 0)], number);
            assert_eq!(is_seen.recv(), Ok(number));
        }
        let waits = thread.join().expect("no panic");
        // It may end early: by what woke it the last time.
        assert!(mode == Mode::Poll || waits <= 2 * ROUNDS + 2, "{waits} waits");
    }
}

#[test]
fn the_timeout_and_the_callers_own_descriptor_end_the_sleep() {
    let (mut bond, _peers) = joined(Mode::Interrupt, "timeout");
    bond.wait(None, Duration::from_millis(1)).expect("timeout");
    let (wake, other) = std::os::unix::net::UnixStream::pair().expect("pair");
    drop(other); // Readable from now on: end of file.
    bond.wait(Some(wake.as_fd()), Duration::from_secs(60)).expect("woken");
}
