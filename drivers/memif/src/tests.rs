//! Whole links against each other. Time is counted, not read.

mod attacks;
mod hostile;
mod seats;

use crate::channel::Channel;
use crate::{Address, Config, Memif, MemifError, MemifLink, MemoryKind, Mode, RETRY_LONGEST, Role};
use ::link::{Link, LinkState, Receive, Transmit};
use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::{Offload, Time};

/// Longer than the suite lets the program run: what the machine decides takes its time.
const LONG: Duration = Duration::from_secs(3_600);

/// A socket of its own for each test; abstract names need no cleaning up.
fn address() -> Address {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    Address::Abstract(format!("nearside-memif-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn config(address: &Address, role: Role) -> Config {
    Config { hugepages: false, log2_ring_size: 6, ..Config::new(address.clone(), role) }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 29)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }
}

/// Polls both until they are up.
fn connect(server: &mut MemifLink, client: &mut MemifLink, now: &mut Time) {
    for _ in 0..10_000 {
        *now = *now + Duration::from_millis(1);
        let up = (server.poll_control(*now), client.poll_control(*now));
        if up == (LinkState::Up, LinkState::Up) {
            return;
        }
    }
    panic!("no connection: server {:?}, client {:?}", server.status(), client.status());
}

fn pair_with(change: impl Fn(&mut Config)) -> (MemifLink, MemifLink, Time) {
    let address = address();
    let [server, client] = [Role::Server, Role::Client].map(|role| {
        let mut config = config(&address, role);
        change(&mut config);
        MemifLink::open(config).expect("open")
    });
    let (mut server, mut client, mut now) = (server, client, Time::ZERO);
    connect(&mut server, &mut client, &mut now);
    (server, client, now)
}

fn pair() -> (MemifLink, MemifLink, Time) {
    pair_with(|_| {})
}

/// A frame whose length and bytes follow from its number.
fn fill(number: u64, slot: &mut [u8]) -> usize {
    let len = 14 + (number as usize * 7919) % 1500;
    slot[..8].copy_from_slice(&number.to_le_bytes());
    for (index, byte) in slot[8..len].iter_mut().enumerate() {
        *byte = (number as usize + index) as u8;
    }
    len
}

fn check(number: u64, frame: &[u8]) {
    let mut expected = [0; 2048];
    let len = fill(number, &mut expected);
    assert_eq!(frame, &expected[..len], "frame {number}");
}

fn send(link: &mut MemifLink, number: u64) -> bool {
    let tx = link.split().1;
    let Some(slot) = tx.slot() else { return false };
    let len = fill(number, slot);
    tx.commit(len, Offload::NONE);
    true
}

fn flush(link: &mut MemifLink) {
    link.split().1.flush(Time::ZERO);
}

/// Takes all that is there and checks that it is `first`, `first + 1`, ….
fn receive_all(link: &mut MemifLink, mut first: u64) -> u64 {
    let rx = link.split().0;
    loop {
        let count = rx.receive(Time::ZERO, 32);
        for index in 0..count {
            check(first, rx.frame(index));
            first += 1;
        }
        rx.release();
        if count == 0 {
            return first;
        }
    }
}

#[test]
fn frames_arrive_intact_in_order_and_around_the_ring() {
    for copy in [false, true] {
        let (mut server, mut client, _) = pair_with(|config| config.copy = copy);
        let mut random = Random(1);
        let (mut sent, mut got) = ([0, 0], [0, 0]);
        // Enough for the indices of 16 bits to run over, too.
        while got[0] < 70_000 || got[1] < 70_000 {
            for _ in 0..random.below(40) {
                sent[0] += u64::from(send(&mut server, sent[0]));
            }
            for _ in 0..random.below(40) {
                sent[1] += u64::from(send(&mut client, sent[1]));
            }
            flush(&mut server);
            flush(&mut client);
            got[0] = receive_all(&mut client, got[0]);
            got[1] = receive_all(&mut server, got[1]);
            assert_eq!(got, sent);
        }
        let (s, c) = (server.counters(), client.counters());
        assert_eq!((s.tx_frames, s.rx_frames, c.tx_frames, c.rx_frames), (sent[0], sent[1], sent[1], sent[0]));
        assert_eq!((s.tx_bytes, s.rx_bytes), (c.rx_bytes, c.tx_bytes));
        assert_eq!((s.rx_dropped, s.tx_dropped, c.rx_dropped, c.tx_dropped), (0, 0, 0, 0));
    }
}

#[test]
fn a_full_ring_refuses_and_counts_and_goes_on() {
    let (mut server, mut client, _) = pair();
    for link in [&mut server, &mut client] {
        assert_eq!(link.split().1.room(), 64);
        let sent = (0..100).filter(|&number| send(link, number)).count();
        assert_eq!(sent, 64, "a ring of 64 holds 64");
        assert_eq!(link.split().1.room(), 0);
        assert_eq!(link.counters().tx_full, 36);
        flush(link);
    }
    assert_eq!(receive_all(&mut client, 0), 64);
    assert_eq!(receive_all(&mut server, 0), 64);
    for link in [&mut server, &mut client] {
        assert_eq!(link.split().1.room(), 64);
        assert!(send(link, 64));
        flush(link);
    }
    assert_eq!(receive_all(&mut client, 64), 65);
    assert_eq!(receive_all(&mut server, 64), 65);
}

#[test]
fn nothing_is_seen_before_the_flush() {
    let (mut server, mut client, _) = pair();
    for (from, to) in [(true, false), (false, true)] {
        let links = [&mut client, &mut server];
        let [a, b] = links;
        let (from, to) = if from && !to { (a, b) } else { (b, a) };
        assert!(send(from, 0) && send(from, 1));
        assert_eq!(to.split().0.receive(Time::ZERO, 32), 0);
        flush(from);
        assert_eq!(receive_all(to, 0), 2);
    }
}

#[test]
fn a_burst_is_bounded_and_keeps_its_frames_until_released() {
    let (mut server, mut client, _) = pair();
    for number in 0..50 {
        assert!(send(&mut client, number));
    }
    flush(&mut client);
    let rx = server.split().0;
    assert_eq!(rx.receive(Time::ZERO, 0), 0);
    assert_eq!(rx.receive(Time::ZERO, 8), 8);
    for index in 0..8 {
        check(index as u64, rx.frame(index));
    }
    rx.release();
    assert_eq!(rx.receive(Time::ZERO, usize::MAX), 42);
    check(49, rx.frame(41));
    assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| rx.frame(42).len())).is_err());
    rx.release();
    rx.release();
    assert_eq!(rx.receive(Time::ZERO, 8), 0);
}

#[test]
fn slots_are_as_long_as_promised_and_lengths_are_checked() {
    let (mut server, mut client, _) = pair();
    for link in [&mut server, &mut client] {
        let need = usize::from(link.capabilities().mtu) + 18;
        let tx = link.split().1;
        tx.commit(100, Offload::NONE); // Without a slot: nothing.
        for bad in [0, usize::MAX, 1 << 20] {
            assert!(tx.slot().expect("slot").len() >= need);
            tx.commit(bad, Offload::NONE);
        }
        tx.flush(Time::ZERO);
        assert_eq!((link.counters().tx_frames, link.counters().tx_dropped), (0, 3));
    }
    assert_eq!(receive_all(&mut server, 0), 0);
}

#[test]
fn without_a_peer_what_is_sent_is_dropped_and_counted() {
    let mut link = MemifLink::open(config(&address(), Role::Client)).expect("open");
    assert_eq!(link.poll_control(Time::ZERO), LinkState::Down);
    assert!(send(&mut link, 0) && send(&mut link, 1));
    flush(&mut link);
    assert_eq!(link.split().0.receive(Time::ZERO, 32), 0);
    assert_eq!(link.counters().tx_dropped, 2);
    assert!(link.status().is_some_and(|status| status.reason.is_some_and(|reason| reason.contains("cannot connect"))));
}

/// An application that remembers what it read must know.
#[test]
fn a_link_tells_whether_its_peer_can_write_its_frames() {
    for copy in [false, true] {
        let (mut server, mut client, _) = pair_with(|config| config.copy = copy);
        assert!([&server, &client].map(|link| link.capabilities().shared_frames) == [!copy, !copy]);
        for sends_to_server in [true, false] {
            let [from, to] = if sends_to_server { [&mut client, &mut server] } else { [&mut server, &mut client] };
            let slot = from.split().1.slot().expect("room");
            slot[..64].fill(1);
            let place = slot.as_mut_ptr();
            let tx = from.split().1;
            tx.commit(64, Offload::NONE);
            tx.flush(Time::ZERO);
            assert_eq!(to.split().0.receive(Time::ZERO, 1), 1);
            // SAFETY: the sender's mapping, alive while `from` is; no reference to it is held.
            unsafe { place.write_volatile(2) };
            assert_eq!(to.split().0.frame(0)[0] == 2, !copy, "what the link says is what a peer can do");
            to.split().0.release();
        }
    }
}

#[test]
fn two_threads_exchange_frames() {
    const FRAMES: u64 = 100_000;
    let (server, client, _) = pair();
    let run = |mut link: MemifLink| {
        let (mut sent, mut got) = (0, 0);
        while sent < FRAMES || got < FRAMES {
            for _ in 0..32 {
                if sent == FRAMES || !send(&mut link, sent) {
                    break;
                }
                sent += 1;
            }
            flush(&mut link);
            let before = got;
            got = receive_all(&mut link, got);
            if before == got {
                std::thread::yield_now();
            }
        }
        link
    };
    let other = std::thread::spawn(move || run(client));
    let server = run(server);
    let client = other.join().expect("no panic");
    assert_eq!(server.counters().rx_frames, FRAMES);
    assert_eq!(client.counters().rx_frames, FRAMES);
}

#[test]
fn a_peer_may_go_and_come_back() {
    let address = address();
    for survivor in [Role::Server, Role::Client] {
        let other = if survivor == Role::Server { Role::Client } else { Role::Server };
        let mut stays = MemifLink::open(config(&address, survivor)).expect("open");
        let mut now = Time::ZERO;
        for round in 0..5 {
            let mut goes = MemifLink::open(config(&address, other)).expect("open");
            match survivor {
                Role::Server => connect(&mut stays, &mut goes, &mut now),
                Role::Client => connect(&mut goes, &mut stays, &mut now),
            }
            assert!(send(&mut goes, 0) && send(&mut stays, 0));
            flush(&mut goes);
            flush(&mut stays);
            assert_eq!(receive_all(&mut stays, 0), 1);
            assert_eq!(receive_all(&mut goes, 0), 1);
            // It goes with frames under way and a burst not released.
            assert!(send(&mut goes, 7));
            flush(&mut goes);
            assert_eq!(stays.split().0.receive(now, 8), 1);
            drop(goes);
            check(7, stays.split().0.frame(0));
            assert_eq!(stays.poll_control(now), LinkState::Down);
            assert_eq!(stays.counters().disconnects, round + 1);
            assert_eq!(stays.split().0.receive(now, 8), 0);
            assert!(send(&mut stays, 0));
        }
    }
}

#[test]
fn a_client_tries_again_ever_more_rarely() {
    let address = address();
    let mut client = MemifLink::open(config(&address, Role::Client)).expect("open");
    let mut now = Time::ZERO;
    let mut pauses = Vec::new();
    let mut last = now;
    // While nobody listens, `readable` has nothing and `patience` tells the time to the next attempt.
    for _ in 0..12 {
        client.poll_control(now);
        let pause = client.control().patience();
        assert!(client.control().readable().is_none());
        pauses.push(pause);
        last = now;
        now = now + pause;
    }
    assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!((pauses[0], pauses[11]), (Duration::from_millis(10), RETRY_LONGEST));
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    client.poll_control(last + Duration::from_millis(1));
    assert!(client.control().readable().is_none(), "not before its time");
    connect(&mut server, &mut client, &mut now);
}

#[test]
fn several_queues_each_carry_their_own() {
    let address = address();
    let open = |role, queues| Memif::open(Config { queues, ..config(&address, role) }).expect("open");
    let mut servers = open(Role::Server, 3).split_queues();
    let (mut control, mut clients) = open(Role::Client, 3).split_control();
    let mut now = Time::ZERO;
    let all_up = |servers: &mut [MemifLink], clients: &mut [MemifLink], now| {
        servers.iter_mut().chain(clients).all(|link| link.poll_control(now) == LinkState::Up)
    };
    while !all_up(&mut servers, &mut clients, now) {
        now = now + Duration::from_millis(1);
        control.poll(now);
        assert!(now < Time::from_millis(1000), "no connection: {:?}", control.status());
    }
    assert_eq!(control.status().queues, 3);
    for (queue, (server, client)) in servers.iter_mut().zip(&mut clients).enumerate() {
        for number in 0..10 {
            assert!(send(server, number + queue as u64 * 100) && send(client, number + queue as u64 * 1000));
        }
        flush(server);
        flush(client);
    }
    for (queue, (server, client)) in servers.iter_mut().zip(&mut clients).enumerate() {
        assert_eq!(receive_all(server, queue as u64 * 1000), 10 + queue as u64 * 1000);
        assert_eq!(receive_all(client, queue as u64 * 100), 10 + queue as u64 * 100);
    }
    // All queues learn that the peer went.
    drop(servers);
    control.poll(now);
    for client in &mut clients {
        assert_eq!(client.poll_control(now), LinkState::Down);
        assert_eq!(client.counters().disconnects, 1);
    }
}

#[test]
fn a_server_with_fewer_queues_leaves_the_rest_down() {
    let address = address();
    let open = |role, queues| Memif::open(Config { queues, ..config(&address, role) }).expect("open").split_queues();
    let (mut servers, mut clients) = (open(Role::Server, 1), open(Role::Client, 3));
    let mut now = Time::ZERO;
    while (servers[0].poll_control(now) != LinkState::Up) | (clients[0].poll_control(now) != LinkState::Up) {
        now = now + Duration::from_millis(1);
    }
    assert_eq!(clients[1].poll_control(now), LinkState::Down);
    assert_eq!(clients[0].status().map(|status| status.queues), Some(1));
}

#[test]
fn a_sleeping_receiver_is_woken_by_a_frame() {
    for (mode, sleeper) in [(Mode::Interrupt, 0), (Mode::Interrupt, 1), (Mode::Poll, 0), (Mode::Poll, 1)] {
        let (server, client, _) = pair_with(|config| config.mode = mode);
        let mut links = [server, client];
        if sleeper == 1 {
            links.reverse();
        }
        let [mut sleeps, mut wakes] = links;
        const ROUNDS: u64 = 200;
        // Each wait may only end by the other side's frame: the timeout is longer than the test may take.
        let thread = std::thread::spawn(move || {
            let (mut got, mut waits) = (0, 0);
            while got < ROUNDS {
                sleeps.wait(None, LONG).expect("wait");
                waits += 1;
                let before = got;
                got = receive_all(&mut sleeps, got);
                if got > before {
                    assert!(send(&mut sleeps, before));
                    flush(&mut sleeps);
                }
            }
            // A wait may end early, by an interrupt that came after its frame was seen; not more often than that.
            assert!(waits <= 2 * ROUNDS + 1, "{waits} waits for {ROUNDS} frames");
            sleeps
        });
        for number in 0..ROUNDS {
            assert!(send(&mut wakes, number));
            flush(&mut wakes);
            while receive_all(&mut wakes, number) == number {
                flush(&mut wakes); // As a silo does each turn.
                std::thread::yield_now();
            }
        }
        let sleeps = thread.join().expect("no panic");
        assert_eq!(sleeps.counters().rx_frames, ROUNDS);
    }
}

#[test]
fn a_sleep_ends_for_the_wake_up_call_the_timeout_and_the_peers_end() {
    let (mut server, client, now) = pair();
    server.wait(None, Duration::from_millis(1)).expect("timeout");
    let (wake, other) = std::os::unix::net::UnixStream::pair().expect("pair");
    drop(other); // Readable from now on: end of file.
    server.wait(Some(wake.as_fd()), LONG).expect("woken");
    drop(client);
    server.wait(None, LONG).expect("control socket");
    assert_eq!(server.poll_control(now), LinkState::Down);
}

#[test]
fn a_queue_without_control_learns_of_the_end_while_it_sleeps() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let (mut control, mut clients) = Memif::open(config(&address, Role::Client)).expect("open").split_control();
    let mut client = clients.remove(0);
    let mut now = Time::ZERO;
    let (seen, is_seen) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        for wanted in [LinkState::Up, LinkState::Down] {
            while client.poll_control(Time::ZERO) != wanted {
                client.wait(None, LONG).expect("wait");
            }
            seen.send(wanted).expect("the test waits for it");
        }
    });
    while (server.poll_control(now) != LinkState::Up) | (control.poll(now) != LinkState::Up) {
        now = now + Duration::from_millis(1);
    }
    assert_eq!(is_seen.recv(), Ok(LinkState::Up));
    drop(server);
    while control.poll(now) == LinkState::Up {}
    thread.join().expect("both changes were seen");
}

#[test]
fn socket_files_are_respected() {
    let dir = std::env::temp_dir().join(format!("nearside-memif-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("directory");
    let path = dir.join("socket");
    let server = config(&Address::Path(path.clone()), Role::Server);

    let first = MemifLink::open(server.clone()).expect("open");
    assert!(matches!(MemifLink::open(server.clone()), Err(MemifError::InUse(_))));
    drop(first);
    assert!(!path.exists(), "removed when closed");

    let stale = std::os::unix::net::UnixListener::bind(&path).expect("bind");
    assert!(matches!(MemifLink::open(server.clone()), Err(MemifError::InUse(_))), "another kind of socket, listening");
    drop(stale);
    assert!(path.exists(), "the file stays behind, nobody listens");
    drop(MemifLink::open(server.clone()).expect("a stale file is replaced"));

    std::fs::write(&path, "precious").expect("write");
    assert!(matches!(MemifLink::open(server), Err(MemifError::NotASocket(_))));
    assert_eq!(std::fs::read(&path).expect("left alone"), b"precious");
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn the_secret_is_asked_for_and_the_refusal_is_told() {
    let address = address();
    let secret = |role, secret: &str| Config { secret: Some(secret.into()), ..config(&address, role) };
    let mut server = MemifLink::open(secret(Role::Server, "right")).expect("open");
    let mut wrong = MemifLink::open(secret(Role::Client, "wrong")).expect("open");
    let mut now = Time::ZERO;
    for _ in 0..10 {
        now = now + Duration::from_millis(1);
        assert_eq!((server.poll_control(now), wrong.poll_control(now)), (LinkState::Down, LinkState::Down));
    }
    let reason = wrong.status().and_then(|status| status.reason).unwrap_or_default();
    assert!(reason.contains("secret"), "{reason}");
    drop(wrong);
    let mut right = MemifLink::open(secret(Role::Client, "right")).expect("open");
    connect(&mut server, &mut right, &mut now);
}

#[test]
fn a_second_client_is_turned_away() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let mut first = MemifLink::open(config(&address, Role::Client)).expect("open");
    let mut now = Time::ZERO;
    connect(&mut server, &mut first, &mut now);
    let mut second = MemifLink::open(config(&address, Role::Client)).expect("open");
    for _ in 0..600 {
        now = now + Duration::from_millis(1);
        assert_eq!(server.poll_control(now), LinkState::Up);
        assert_eq!(second.poll_control(now), LinkState::Down);
    }
    let reason = second.status().and_then(|status| status.reason).unwrap_or_default();
    assert!(reason.contains("already connected"), "{reason}");
    assert_eq!(first.poll_control(now), LinkState::Up);
}

#[test]
fn a_peer_that_connects_and_says_nothing_does_not_keep_others_out() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let _silent = Channel::connect(&address).expect("connect");
    let mut now = Time::ZERO;
    server.poll_control(now);
    now = now + crate::GREETING_LIMIT;
    server.poll_control(now);
    let mut client = MemifLink::open(config(&address, Role::Client)).expect("open");
    connect(&mut server, &mut client, &mut now);
}

#[test]
fn the_kind_of_memory_is_reported() {
    let (server, client, _) = pair();
    assert_eq!(server.status().and_then(|status| status.backing), Some(MemoryKind::Peer));
    assert_eq!(client.status().and_then(|status| status.backing), Some(MemoryKind::Ordinary));
    let (_, client, _) = pair_with(|config| config.hugepages = true);
    let backing = client.status().and_then(|status| status.backing);
    assert!(backing == Some(MemoryKind::Huge) || backing == Some(MemoryKind::Ordinary), "whatever there is");
}

/// What each side tells of its memory is where its frames are.
#[test]
fn memory_is_told_as_it_is_used() {
    let (mut server, mut client, now) = pair();
    let ranges_with = |link: &MemifLink, place: core::ops::Range<*const u8>| {
        let mut found = 0;
        link.memory(&mut |range| {
            found += usize::from(range.start <= place.start.addr() && place.end.addr() <= range.end);
        });
        found
    };
    for turn in 0..200 {
        let (from, to) = if turn % 2 == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
        let place = from.split().1.slot().expect("room")[..64].as_ptr_range();
        assert_eq!(ranges_with(from, place), 1, "slot of turn {turn}");
        let tx = from.split().1;
        tx.commit(64, Offload::default());
        tx.flush(now);
        assert_eq!(to.split().0.receive(now, 8), 1);
        let place = to.split().0.frame(0).as_ptr_range();
        assert_eq!(ranges_with(to, place), 1, "frame of turn {turn}");
        to.split().0.release();
    }
}
