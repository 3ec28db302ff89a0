//! Seats of one link, in one process: what each receives, whoever reads.

use crate::link::SeatedLink;
use crate::memory::{RING, SharedMemory};
use crate::seat_of_port;
use core::net::SocketAddr;
use core::time::Duration;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use wire::tcp::Flags;
use wire::{Offload, Time};

/// What all seats read.
type Device = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A link whose frames are the test's.
struct Wire {
    device: Device,
    burst: Vec<Vec<u8>>,
}

struct Sink;

impl Receive for Wire {
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        let mut device = self.device.lock().unwrap();
        let count = device.len().min(max);
        self.burst = device.drain(..count).collect();
        count
    }
    fn frame(&self, index: usize) -> &[u8] {
        &self.burst[index]
    }
    fn release(&mut self) {
        self.burst.clear();
    }
}

impl Transmit for Sink {
    fn room(&self) -> usize {
        0
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        None
    }
    fn commit(&mut self, _len: usize, _offload: Offload) {}
    fn flush(&mut self, _now: Time) {}
}

/// The link, which receives by a [`Wire`].
struct WireLink(Wire);

impl Link for WireLink {
    type Rx<'a> = &'a mut Wire;
    type Tx<'a> = Sink;
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: 1_500,
            receive_checksum: false,
            transmit_checksum: false,
            segmentation: None,
            queues: 1,
            shared_frames: false,
        }
    }
    fn split(&mut self) -> (&mut Wire, Sink) {
        (&mut self.0, Sink)
    }
    fn poll_control(&mut self, _now: Time) -> LinkState {
        LinkState::Up
    }
    fn wait(&mut self, _wake: Option<BorrowedFd<'_>>, _timeout: Duration) -> io::Result<()> {
        Ok(())
    }
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The seats of one memory.
struct Scene {
    device: Device,
    memory: SharedMemory,
    bells: Vec<OwnedFd>,
    now: Time,
}

const SEATS: usize = 4;

impl Scene {
    fn new() -> Self {
        let random = core::array::from_fn(|at| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(at as u64 + 1));
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Self {
            device: Device::default(),
            memory: SharedMemory::create(SEATS, &random).unwrap(),
            bells: (0..SEATS).map(|_| bell()).collect(),
            now: Time::from_millis(1_000),
        }
    }

    fn seat(&self, seat: usize) -> SeatedLink<WireLink> {
        let memory = SharedMemory::open(self.memory.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let bells = self.bells.iter().map(|bell| bell.try_clone().unwrap()).collect();
        let wire = Wire { device: Arc::clone(&self.device), burst: Vec::new() };
        SeatedLink::new(WireLink(wire), None, Arc::new(memory), seat, bells).unwrap()
    }

    fn send(&self, frame: Vec<u8>) {
        self.device.lock().unwrap().push_back(frame);
    }
}

/// What a stack makes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Makes {
    Known,
    Stray,
}

/// Takes a burst; the ports of the frames' senders, and for strays whether they were passed on.
fn turn(link: &mut SeatedLink<WireLink>, now: Time, makes: Makes) -> Vec<(u16, bool)> {
    let (mut rx, _) = link.split();
    let count = rx.receive(now, 32);
    let seen = (0..count).map(|index| {
        let port = port(rx.frame(index));
        (port, makes == Makes::Stray && rx.stray(index))
    });
    let seen = seen.collect();
    rx.release();
    seen
}

fn port(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]])
}

/// A segment over IPv4.
fn segment(from: u16, to: u16, flags: Flags) -> Vec<u8> {
    let mut frame = vec![0; 54];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14] = 0x45;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    frame[30..34].copy_from_slice(&[10, 0, 0, 2]);
    frame[34..36].copy_from_slice(&from.to_be_bytes());
    frame[36..38].copy_from_slice(&to.to_be_bytes());
    frame[47] = flags.0;
    frame
}

/// Whoever reads, SYNs go to those who watch for them, each about as many, and what follows them
/// goes where they went, whoever watches by then.
#[test]
fn new_flows_go_to_those_who_watch() {
    let scene = Scene::new();
    let mut links: Vec<_> = (0..3).map(|seat| scene.seat(seat)).collect();
    links[1].set_doors(&[(80, true)]);
    links[2].set_doors(&[(80, true)]);
    let mut given = [0; 3];
    let mut went = Vec::new();
    for from in 1_000..1_200 {
        scene.send(segment(from, 80, Flags::SYN));
        assert!(turn(&mut links[0], scene.now, Makes::Known).is_empty(), "it only reads");
        for (seat, link) in links.iter_mut().enumerate().skip(1) {
            let seen = turn(link, scene.now, Makes::Known);
            given[seat] += seen.len();
            went.extend(seen.iter().map(|(from, _)| (*from, seat)));
        }
    }
    assert!(given[1] > 60 && given[2] > 60 && given[1] + given[2] == 200, "{given:?}");
    links[2].set_doors(&[(80, false)]);
    for (from, seat) in went {
        scene.send(segment(from, 80, Flags::ACK));
        turn(&mut links[0], scene.now, Makes::Known);
        assert_eq!(turn(&mut links[seat], scene.now, Makes::Known), [(from, false)]);
    }
    // Who put it off gets none any more, as long as another watches.
    for from in 2_000..2_050 {
        scene.send(segment(from, 80, Flags::SYN));
        turn(&mut links[0], scene.now, Makes::Known);
        assert!(turn(&mut links[2], scene.now, Makes::Known).is_empty());
        assert_eq!(turn(&mut links[1], scene.now, Makes::Known).len(), 1);
    }
}

/// New flows are not for who computes, as long as another waits or looks now and then.
#[test]
fn who_computes_gets_no_new_flows() {
    let scene = Scene::new();
    let mut links: Vec<_> = (0..3).map(|seat| scene.seat(seat)).collect();
    links[1].set_doors(&[(80, true)]);
    links[2].set_doors(&[(80, true)]);
    let mut given = |since: [Option<Time>; 2], from: u16| {
        links[1].set_attended(since[0]);
        links[2].set_attended(since[1]);
        for port in from..from + 50 {
            scene.send(segment(port, 80, Flags::SYN));
            turn(&mut links[0], scene.now, Makes::Known);
        }
        let count = |link: &mut SeatedLink<WireLink>| {
            core::iter::from_fn(|| Some(turn(link, scene.now, Makes::Known).len()).filter(|len| *len > 0))
                .sum::<usize>()
        };
        let [_, one, other] = &mut links[..] else { panic!("three") };
        [count(one), count(other)]
    };
    let (now, before) = (Some(scene.now), Some(Time::from_millis(900)));
    assert_eq!(given([before, now], 1_000), [0, 50]);
    assert_eq!(given([None, before], 2_000), [50, 0], "the first waits");
    let both = given([before, before], 3_000);
    assert!(both[0] > 5 && both[1] > 5 && both[0] + both[1] == 50, "there is nobody else: {both:?}");
    let both = given([now, None], 4_000);
    assert!(both[0] > 5 && both[1] > 5, "{both:?}");
}

/// One that waits and does not take what was passed to it was stopped: new flows are not for it, nor those
/// that ask once more, and what it has stays with it.
#[test]
fn who_was_stopped_while_it_waited_gets_no_new_flows() {
    let mut scene = Scene::new();
    let mut links: Vec<_> = (0..3).map(|seat| scene.seat(seat)).collect();
    for link in &mut links[1..] {
        link.set_doors(&[(80, true)]);
        link.set_attended(None);
    }
    // All know of each other's listeners by now.
    for link in &mut links {
        assert!(turn(link, scene.now, Makes::Known).is_empty());
    }
    let takes = |links: &mut [SeatedLink<WireLink>], seat: usize, now: Time| -> Vec<u16> {
        let all =
            core::iter::from_fn(|| Some(turn(&mut links[seat], now, Makes::Known)).filter(|seen| !seen.is_empty()));
        all.flatten().map(|(from, _)| from).collect()
    };
    let read = |links: &mut [SeatedLink<WireLink>], now: Time| {
        while !scene.device.lock().unwrap().is_empty() {
            turn(&mut links[0], now, Makes::Known);
        }
    };
    (1_000..1_050).for_each(|from| scene.send(segment(from, 80, Flags::SYN)));
    read(&mut links, scene.now);
    let others = takes(&mut links, 2, scene.now);
    let its: Vec<u16> = (1_000..1_050).filter(|from| !others.contains(from)).collect();
    assert!(others.len() > 5 && its.len() > 5, "{others:?}");
    // It does not take them.
    let later = scene.now + Duration::from_millis(10);
    (2_000..2_050).for_each(|from| scene.send(segment(from, 80, Flags::SYN)));
    scene.send(segment(its[0], 80, Flags::SYN));
    scene.send(segment(its[1], 80, Flags::ACK));
    read(&mut links, later);
    let taken = takes(&mut links, 2, later);
    assert!(taken.len() == 51 && taken.contains(&its[0]), "{taken:?}");
    // It goes on, and finds what it had.
    let found = takes(&mut links, 1, later);
    assert_eq!(found.len(), its.len() + 1);
    scene.now = later;
    (3_000..3_050).for_each(|from| scene.send(segment(from, 80, Flags::SYN)));
    read(&mut links, scene.now);
    assert!(takes(&mut links, 1, scene.now).len() > 5, "it gets some again");
}

/// A flow that nobody remembers is looked for from seat to seat, found, and not looked for again.
#[test]
fn strays_find_their_seat_once() {
    let scene = Scene::new();
    let mut links: Vec<_> = (0..3).map(|seat| scene.seat(seat)).collect();
    links[2].set_doors(&[(80, true)]);
    scene.send(segment(1_000, 80, Flags::ACK));
    turn(&mut links[2], scene.now, Makes::Known);
    // Another has it: seat 0, the oldest.
    scene.send(segment(1_001, 80, Flags::ACK));
    assert_eq!(turn(&mut links[2], scene.now, Makes::Stray), [(1_001, true)]);
    assert_eq!(turn(&mut links[1], scene.now, Makes::Stray), [(1_001, true)], "the newest first");
    assert_eq!(turn(&mut links[0], scene.now, Makes::Known), [(1_001, false)]);
    scene.send(segment(1_001, 80, Flags::ACK));
    assert!(turn(&mut links[2], scene.now, Makes::Known).is_empty());
    assert!(turn(&mut links[1], scene.now, Makes::Known).is_empty());
    assert_eq!(turn(&mut links[0], scene.now, Makes::Known), [(1_001, false)]);
    // It ended there: the last that is asked answers.
    scene.send(segment(1_001, 80, Flags::ACK));
    turn(&mut links[2], scene.now, Makes::Known);
    assert_eq!(turn(&mut links[0], scene.now, Makes::Stray), [(1_001, true)]);
    assert_eq!(turn(&mut links[2], scene.now, Makes::Stray), [(1_001, true)]);
    assert_eq!(turn(&mut links[1], scene.now, Makes::Stray), [(1_001, false)], "it resets");
}

/// Who is left a connection hears of it before any of its segments is looked at, whichever seat that came
/// by.
#[test]
fn a_connection_that_is_left_is_heard_of_before_its_segments() {
    let scene = Scene::new();
    let (mut old, mut new) = (scene.seat(0), scene.seat(1));
    new.set_doors(&[(80, true)]);
    let (remote, local) = (SocketAddr::from(([10, 0, 0, 1], 1_000)), SocketAddr::from(([10, 0, 0, 2], 80)));
    assert!(old.leave_to(1, remote, local, b"a connection"));
    scene.send(segment(1_000, 80, Flags::ACK));
    assert!(turn(&mut new, scene.now, Makes::Known).is_empty());
    assert_eq!(new.poll_message().as_deref(), Some(&b"a connection"[..]));
    assert_eq!(turn(&mut new, scene.now, Makes::Known), [(1_000, false)]);
    // One that was looked for at the new one too early goes there again.
    scene.send(segment(1_001, 80, Flags::ACK));
    assert_eq!(turn(&mut new, scene.now, Makes::Stray), [(1_001, true)]);
    assert!(old.leave_to(1, SocketAddr::new(remote.ip(), 1_001), local, b"another"));
    assert_eq!(turn(&mut old, scene.now, Makes::Stray), [(1_001, true)]);
    assert!(turn(&mut new, scene.now, Makes::Known).is_empty());
    assert!(new.poll_message().is_some());
    // It has ended there by now: the last one answers.
    assert_eq!(turn(&mut new, scene.now, Makes::Stray), [(1_001, false)]);
}

/// Between two workers a SYN waits, if somebody is about to accept, and is not lost.
#[test]
fn a_syn_waits_for_who_is_about_to_accept() {
    let scene = Scene::new();
    let mut old = scene.seat(0);
    old.set_doors(&[(80, true)]);
    old.set_doors(&[]);
    scene.send(segment(1_000, 80, Flags::SYN));
    assert_eq!(turn(&mut old, scene.now, Makes::Stray), [(1_000, false)], "nobody is about to");
    old.set_awaited(&[80]);
    scene.send(segment(1_001, 80, Flags::SYN));
    assert_eq!(turn(&mut old, scene.now, Makes::Stray), [(1_001, true)]);
    assert!(turn(&mut old, scene.now, Makes::Stray).is_empty());
    assert_eq!(old.passing().parked, 1);
    let mut new = scene.seat(1);
    assert!(turn(&mut old, scene.now, Makes::Stray).is_empty(), "it has no listener yet");
    new.set_doors(&[(80, true)]);
    assert_eq!(turn(&mut old, scene.now, Makes::Stray), [(1_001, true)]);
    assert_eq!(turn(&mut new, scene.now, Makes::Known), [(1_001, false)]);
    // Where the keeper has no seat for it, nothing waits.
    new.set_doors(&[]);
    scene.memory.set_refuses(true);
    scene.send(segment(1_003, 80, Flags::SYN));
    let mut seen = turn(&mut old, scene.now, Makes::Stray);
    seen.extend(turn(&mut new, scene.now, Makes::Stray));
    seen.extend(turn(&mut old, scene.now, Makes::Stray));
    assert!(seen.contains(&(1_003, false)), "{seen:?}");
    scene.memory.set_refuses(false);
    new.set_doors(&[(80, true)]);
    // One that nobody wants is forgotten.
    new.set_doors(&[]);
    scene.send(segment(1_002, 80, Flags::SYN));
    while !turn(&mut old, scene.now, Makes::Stray).is_empty() | !turn(&mut new, scene.now, Makes::Stray).is_empty() {}
    let later = scene.now + Duration::from_secs(4);
    new.set_doors(&[(80, true)]);
    assert!(turn(&mut old, later, Makes::Stray).is_empty() && turn(&mut new, later, Makes::Known).is_empty());
}

/// Answers to a seat's own connections come back to it by their port.
#[test]
fn answers_find_who_asked() {
    let scene = Scene::new();
    let mut links: Vec<_> = (0..SEATS).map(|seat| scene.seat(seat)).collect();
    for to in 20_000..20_040 {
        let seat = seat_of_port(to, SEATS);
        scene.send(segment(443, to, Flags(Flags::SYN.0 | Flags::ACK.0)));
        let reader = (seat + 1) % SEATS;
        assert!(turn(&mut links[reader], scene.now, Makes::Known).is_empty());
        assert_eq!(turn(&mut links[seat], scene.now, Makes::Known).len(), 1);
    }
}

/// Neighbours' answers are everybody's.
#[test]
fn all_hear_of_neighbours() {
    let scene = Scene::new();
    let mut links: Vec<_> = (0..3).map(|seat| scene.seat(seat)).collect();
    let mut reply = vec![0; 60];
    reply[12..14].copy_from_slice(&[0x08, 0x06]);
    reply[20..22].copy_from_slice(&[0, 2]);
    scene.send(reply);
    for link in &mut links {
        assert_eq!(turn(link, scene.now, Makes::Known).len(), 1);
    }
}

/// One reads at a time; one that was stopped amid it, or has ended, does not keep the others from it.
#[test]
fn who_is_stopped_amid_reading_stops_nobody() {
    let scene = Scene::new();
    let mut link = scene.seat(1);
    let reading = scene.memory.begin_reading(0, scene.now).unwrap();
    scene.send(segment(1, 80, Flags::ACK));
    assert!(turn(&mut link, scene.now, Makes::Known).is_empty());
    let later = scene.now + Duration::from_millis(25);
    assert_eq!(turn(&mut link, later, Makes::Known).len(), 1);
    scene.memory.end_reading(reading);
    let _killed = scene.memory.begin_reading(0, later).unwrap();
    scene.memory.vacate(0);
    scene.send(segment(1, 80, Flags::ACK));
    assert_eq!(turn(&mut link, later, Makes::Known).len(), 1);
}

/// What was passed to a process that died before it looked is had by the next on its seat.
#[test]
fn a_seat_goes_on_where_it_was_left() {
    let scene = Scene::new();
    let (mut reader, mut first) = (scene.seat(0), scene.seat(1));
    first.set_doors(&[(80, true)]);
    for from in 1..=3 {
        scene.send(segment(from, 80, Flags::SYN));
        turn(&mut reader, scene.now, Makes::Known);
        if from < 3 {
            assert_eq!(turn(&mut first, scene.now, Makes::Known), [(from, false)]);
        }
    }
    drop(first);
    let mut second = scene.seat(1);
    assert_eq!(turn(&mut second, scene.now, Makes::Known), [(3, false)]);
    assert_eq!(second.passing().nonsense, 0);
}

/// A sleeper is told, by its bell, and not before.
#[test]
fn sleepers_are_woken() {
    let scene = Scene::new();
    let (mut reader, mut sleeper) = (scene.seat(0), scene.seat(1));
    sleeper.set_doors(&[(80, true)]);
    turn(&mut sleeper, scene.now, Makes::Known);
    let rang = |bell: &OwnedFd| rustix::io::read(bell, &mut [0; 8]).is_ok();
    scene.send(segment(1, 80, Flags::SYN));
    turn(&mut reader, scene.now, Makes::Known);
    assert!(!rang(&scene.bells[1]), "it is awake");
    assert_eq!(sleeper.arm(&mut |_| {}), Duration::ZERO, "there is something already");
    turn(&mut sleeper, scene.now, Makes::Known);
    assert!(sleeper.arm(&mut |_| {}) > Duration::ZERO);
    scene.send(segment(2, 80, Flags::SYN));
    turn(&mut reader, scene.now, Makes::Known);
    assert!(rang(&scene.bells[1]));
}

/// A full ring loses frames, which are counted, and nothing else.
#[test]
fn a_full_ring_is_counted() {
    let scene = Scene::new();
    let (mut reader, mut busy) = (scene.seat(0), scene.seat(1));
    busy.set_doors(&[(80, true)]);
    let mut sent = 0;
    while reader.passing().ring_full == 0 {
        let mut frame = segment(sent, 80, Flags::SYN);
        frame.resize(1_500, 7);
        scene.send(frame);
        turn(&mut reader, scene.now, Makes::Known);
        sent += 1;
    }
    let mut got = Vec::new();
    loop {
        let seen = turn(&mut busy, scene.now, Makes::Known);
        if seen.is_empty() {
            break;
        }
        got.extend(seen.into_iter().map(|(from, _)| from));
    }
    assert_eq!(got, (0..sent - 1).collect::<Vec<_>>());
}

/// Whatever another process writes: frames are lost, and nobody is harmed.
#[test]
fn nonsense_in_the_memory_harms_nobody() {
    let scene = Scene::new();
    let (mut one, mut other) = (scene.seat(0), scene.seat(1));
    other.set_doors(&[(80, true)]);
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    for round in 0..2_000 {
        let (head, tail, words) = scene.memory.ring(0, 1);
        for _ in 0..8 {
            let value = if random() % 2 == 0 { random() % 200 } else { random() << 20 };
            words[random() as usize % RING].store(value, core::sync::atomic::Ordering::Relaxed);
        }
        match random() % 4 {
            0 => head.store(random() << 10, core::sync::atomic::Ordering::Relaxed),
            1 => tail.store(random(), core::sync::atomic::Ordering::Relaxed),
            2 => _ = head.fetch_add(random() % 64, core::sync::atomic::Ordering::Relaxed),
            _ => {}
        }
        scene.memory.ring_bell(1, 0, Time::ZERO);
        scene.send(segment(round, 80, Flags::SYN));
        turn(&mut one, scene.now, Makes::Known);
        let (mut rx, _) = other.split();
        let count = rx.receive(scene.now, 32);
        for index in 0..count {
            assert!(rx.frame(index).len() <= (1 << 16) + 18);
            rx.stray(index);
        }
        rx.release();
    }
    assert!(other.passing().nonsense > 0);
}

#[test]
fn other_memory_is_refused() {
    let scene = Scene::new();
    let file = rustix::fs::memfd_create(c"none", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    assert!(SharedMemory::open(file).is_err());
    // Another's secrets are the same, for all go on with one another's sequence numbers.
    let other = SharedMemory::open(scene.memory.as_fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(other.secrets(), scene.memory.secrets());
    assert_eq!(scene.memory.secrets()[0], 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(5));
}
