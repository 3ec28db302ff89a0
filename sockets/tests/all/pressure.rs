//! Peers and applications that are slow.

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{client, is_asleep, listen, start, start_echo, wait_for};
use app::{App, Closed, ConnId, HELD_LIMIT, LITTLE, Net, Opened, Receiving, Wake};
use rustix::net::sockopt::set_socket_linger;
use sockets::{Config, Model};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const LARGE: usize = 100 << 20;

fn byte(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]
}

/// A body that the peer takes slowly leaves as the peer takes it, with
/// nothing lost, and the worker sleeps meanwhile.
#[test]
fn a_slow_reader_gets_everything() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    theatre.tell(Do::Send(id, (0..LARGE).map(byte).collect()));
    theatre.tell(Do::Finish(id));
    theatre.tell(Do::Unsent(id));
    let Seen::Unsent(unsent) = theatre.next() else { panic!("how much is unsent") };
    assert!(unsent > LARGE / 2, "the peer has read nothing yet, and {unsent} are unsent");
    wait_for("the worker to sleep", || {
        let (before, began) = (theatre.counters().waits, cpu::Clock.now());
        std::thread::sleep(Duration::from_millis(20));
        is_asleep(theatre.counters().waits - before, cpu::Clock.now().since(began))
    });
    let mut at = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = stream.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        assert!(buffer[..n].iter().enumerate().all(|(i, b)| *b == byte(at + i)), "between {at} and {}", at + n);
        at += n;
    }
    assert_eq!(at, LARGE);
    assert_eq!(theatre.next(), Seen::Sent(id), "told when it is nearly empty");
    drop(stream);
    let counters = theatre.close();
    assert_eq!(counters.sent_bytes, LARGE as u64);
}

/// What an application leaves is kept up to a limit; beyond, the kernel keeps
/// it, and then the peer.
#[test]
fn a_slow_application_stops_the_peer() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    theatre.tell(Do::Take(0));
    theatre.tell(Do::Unsent(id));
    assert_eq!(theatre.next(), Seen::Unsent(0));
    stream.set_nonblocking(true).unwrap();
    // It is offered at least as much as a message head may have, and then no
    // more.
    let mut offers = 0;
    let mut has_stopped = || {
        theatre.tell(Do::Count);
        loop {
            match theatre.next() {
                Seen::Counted(counters) => break counters.receive_stops > 0,
                Seen::Data(..) => offers += 1,
                other => panic!("an offer, not {other:?}"),
            }
        }
    };
    let mut sent = 0;
    // Full when the worker has stopped, and nothing more is taken for a while.
    let mut refusals = 0;
    while refusals < 20 {
        let chunk: Vec<u8> = (sent..sent + 65_536).map(byte).collect();
        match stream.write(&chunk) {
            Ok(n) => (sent, refusals) = (sent + n, 0),
            Err(_) => {
                refusals += usize::from(has_stopped());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    assert!(offers > 0 && offers < 10_000, "{offers} offers");
    theatre.tell(Do::Take(usize::MAX));
    theatre.tell(Do::Resume(id));
    let all = theatre.bytes(sent);
    assert!(all.len() == sent && all.iter().enumerate().all(|(i, b)| *b == byte(i)));
    let counters = theatre.close();
    assert_eq!(counters.received_bytes as usize, sent);
    assert!(counters.receive_stops >= 1);
    assert!(counters.held_bytes as usize >= HELD_LIMIT, "{} held", counters.held_bytes);
}

/// Has no room before it is told so, and says that.
#[derive(Clone, Debug, Default)]
struct Full {
    client: Option<ConnId>,
    has_room: Arc<AtomicBool>,
    /// Bytes that were offered while there was none, at most.
    offered: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
    reset: Arc<AtomicBool>,
}

impl App for Full {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        self.client = Some(id);
        net.set_receiving(id, Receiving::Little);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        if self.client.is_none() {
            self.taken.fetch_add(data.len(), Ordering::Relaxed);
            return data.len();
        }
        self.offered.fetch_max(data.len(), Ordering::Relaxed);
        net.set_receiving(id, Receiving::Nothing);
        0
    }

    fn on_close<N: Net>(&mut self, _net: &mut N, _id: ConnId, why: Closed) {
        self.reset.store(why == Closed::Reset, Ordering::Relaxed);
    }

    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        if self.has_room.load(Ordering::Relaxed)
            && let Some(id) = self.client.take()
        {
            net.resume(id);
        }
        Wake::At(net.now() + Duration::from_millis(1))
    }

    fn drain<N: Net>(&mut self, _net: &mut N) -> bool {
        true
    }
}

/// Of what arrives for an application that says that it has no room, one piece is memory of ours, and
/// nothing is lost.
#[test]
fn who_says_that_there_is_no_room_has_little_received() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let full = Full::default();
    let (has_room, offered, taken) = (Arc::clone(&full.has_room), Arc::clone(&full.offered), Arc::clone(&full.taken));
    let running = start(Config::default(), listeners.for_worker(0), move || full, |full| full);
    let mut stream = client(address);
    stream.set_nonblocking(true).unwrap();
    let (mut sent, mut refusals) = (0, 0);
    while refusals < 20 {
        match stream.write(&[7; 65_536]) {
            Ok(bytes) => (sent, refusals) = (sent + bytes, 0),
            Err(_) => {
                refusals += usize::from(offered.load(Ordering::Relaxed) > 0);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    let most = offered.load(Ordering::Relaxed);
    assert!(most > 0 && most <= 2 * LITTLE && sent > HELD_LIMIT, "{most} of {sent}");
    has_room.store(true, Ordering::Relaxed);
    wait_for("all of it", || taken.load(Ordering::Relaxed) == sent);
    let (_, counters) = running.stop();
    assert!(counters.held_bytes as usize <= 2 * LITTLE + HELD_LIMIT, "{} held", counters.held_bytes);
}

/// What arrived before its peer reset a connection is there for an application that had no room until then: little
/// of it is held, and the kernel has the rest.
#[test]
fn who_has_no_room_loses_nothing_by_a_reset() {
    for sent in [1_000, 4 * LITTLE] {
        let (listeners, address) = listen(Model::Reuseport, 1);
        let full = Full::default();
        let (has_room, taken, reset) = (Arc::clone(&full.has_room), Arc::clone(&full.taken), Arc::clone(&full.reset));
        let offered = Arc::clone(&full.offered);
        let running = start(Config::default(), listeners.for_worker(0), move || full, |full| full);
        let mut stream = client(address);
        stream.write_all(&vec![7; sent]).unwrap();
        wait_for("an offer", || offered.load(Ordering::Relaxed) > 0);
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        // The reset is there, and seen.
        std::thread::sleep(Duration::from_millis(50));
        assert!(!reset.load(Ordering::Relaxed) && taken.load(Ordering::Relaxed) == 0);
        has_room.store(true, Ordering::Relaxed);
        wait_for("the end", || reset.load(Ordering::Relaxed));
        assert_eq!(taken.load(Ordering::Relaxed), sent);
        running.stop();
    }
}

/// Both at once: an echo that takes nothing while much is unsent, and a peer
/// that sends everything before it reads.
#[test]
fn an_echo_of_much_goes_round() {
    const MUCH: usize = 32 << 20;
    let (listeners, address) = listen(Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let mut half = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for start in (0..MUCH).step_by(1 << 20) {
            half.write_all(&(start..start + (1 << 20)).map(byte).collect::<Vec<u8>>()).unwrap();
        }
        half.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    writer.join().unwrap();
    assert!(all.len() == MUCH && all.iter().enumerate().all(|(i, b)| *b == byte(i)));
    drop(stream);
    assert_eq!(running.stop().0.closed, [app::Closed::Finished]);
}

/// A connection that takes all it can get leaves the others their turn.
#[test]
fn a_greedy_peer_does_not_starve_others() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let mut greedy = client(address);
    let mut reads = greedy.try_clone().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut reads, &mut std::io::sink()).unwrap());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = std::sync::Arc::clone(&stop);
    let writer = std::thread::spawn(move || {
        while !told.load(std::sync::atomic::Ordering::Relaxed) {
            greedy.write_all(&[5; 262_144]).unwrap();
        }
        greedy.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut modest = client(address);
    for _ in 0..100 {
        crate::support::ask(&mut modest, b"my turn");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    reader.join().unwrap();
    running.stop();
}
