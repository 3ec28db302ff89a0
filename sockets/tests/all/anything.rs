//! Peers that do anything, in any order: every connection is opened once and
//! closed once, and nothing is left.

use crate::support::{Echo, ask, client, listen, start, wait_for};
use rustix::net::sockopt::set_socket_linger;
use sockets::{Config, Model};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn random_from(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    }
}

/// One peer: what it reads is what it sent, as far as it gets.
fn peer(to: SocketAddr, seed: u64) {
    let mut random = random_from(seed);
    let mut stream = client(to);
    let (mut sent, mut seen) = (0u64, 0u64);
    for _ in 0..random(12) {
        match random(8) {
            0..=2 => {
                let bytes: Vec<u8> = (sent..sent + random(20_000)).map(|at| ((at * 31) >> 3) as u8).collect();
                stream.write_all(&bytes).unwrap();
                sent += bytes.len() as u64;
            }
            3..=5 => read(&mut stream, sent.min(seen + random(30_000)), &mut seen),
            6 => std::thread::sleep(Duration::from_micros(random(3_000))),
            _ => break,
        }
    }
    match random(4) {
        // Gone, with or without something unread.
        0 => {}
        1 => set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
        2 => read(&mut stream, sent, &mut seen),
        // In good order.
        _ => {
            stream.shutdown(Shutdown::Write).unwrap();
            read(&mut stream, sent, &mut seen);
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "seed {seed}");
        }
    }
}

fn read(stream: &mut TcpStream, until: u64, seen: &mut u64) {
    let mut bytes = vec![0; (until - *seen) as usize];
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().zip(*seen..).all(|(byte, at)| *byte == ((at * 31) >> 3) as u8));
    *seen = until;
}

#[test]
fn every_connection_is_opened_once_and_closed_once() {
    const PEERS: u64 = 400;
    let (listeners, address) = listen(Model::Exclusive, 2);
    let config = || Config { model: Model::Exclusive, ..Config::default() };
    let all = Arc::new(AtomicU64::new(0));
    let running = [0, 1].map(|at| {
        let echo = Echo::counting(Arc::clone(&all));
        start(config(), listeners.for_worker(at), || echo, |echo| echo)
    });
    std::thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || (0..PEERS / 8).for_each(|seed| peer(address, part * PEERS + seed)));
        }
    });
    ask(&mut client(address), b"the last");
    // A connection may be in the queue only after connect(2) has returned.
    wait_for("all to be taken", || all.load(Ordering::Relaxed) == PEERS + 1);
    let (mut opened, mut closed) = (0, 0);
    for worker in running {
        let (echo, counters) = worker.stop();
        assert_eq!(echo.opened, counters.accepted);
        assert_eq!((counters.connections, counters.closed), (0, counters.accepted));
        opened += echo.opened;
        closed += echo.closed.len() as u64;
    }
    assert_eq!((opened, closed), (PEERS + 1, PEERS + 1));
}
