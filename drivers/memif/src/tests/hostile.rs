//! Peers that do not keep to the protocol: their rings and messages are
//! written by hand.

use super::*;
use crate::channel::{Listener, Received};
use crate::handshake::{ClientHandshake, ClientStep, End, Layout, Plan};
use crate::memory::{Memory, OwnMemory, RingRef, map_peers};
use crate::message::{Direction, Limits, Message, VERSION};
use crate::ring::Descriptor;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A client whose rings are written by hand.
pub(super) struct RawClient {
    pub(super) channel: Channel,
    pub(super) own: OwnMemory,
    /// Of the ring to the server, and of the one to the client.
    pub(super) events: Vec<OwnedFd>,
    pub(super) to_server: RingRef,
    pub(super) to_client: RingRef,
}

pub(super) fn receive_message(channel: &Channel, mut poll: impl FnMut()) -> (Message, Option<OwnedFd>) {
    for _ in 0..1000 {
        poll();
        match channel.receive() {
            Received::Nothing => {}
            Received::Message(message, fd) => return (message, fd),
            other => panic!("{other:?}"),
        }
    }
    panic!("no message");
}

impl RawClient {
    pub(super) fn connect(server: &mut MemifLink, address: &Address) -> Self {
        let config = config(address, Role::Client);
        let own = OwnMemory::new(&config, &plan()).expect("memory");
        Self::connect_with(server, address, own, Time::ZERO)
    }

    pub(super) fn connect_with(server: &mut MemifLink, address: &Address, own: OwnMemory, now: Time) -> Self {
        let config = config(address, Role::Client);
        let channel = Channel::connect(address).expect("connect");
        let events: Vec<_> = (0..2)
            .map(|_| rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).expect("eventfd"))
            .collect();
        let (hello, _) = receive_message(&channel, || _ = server.poll_control(now));
        assert!(matches!(hello, Message::Hello { .. }));
        let mut handshake = ClientHandshake::default();
        let mut next = handshake.offer(&config, &own.layout);
        loop {
            let fd = match &next {
                Message::AddRegion { .. } => Some(own.file.as_fd()),
                Message::AddRing { direction: Direction::ToServer, .. } => Some(events[0].as_fd()),
                Message::AddRing { .. } => Some(events[1].as_fd()),
                _ => None,
            };
            channel.send(&next, fd).expect("send");
            match receive_message(&channel, || _ = server.poll_control(now)).0 {
                Message::Ack => {
                    next = match handshake.on_message(&config, Message::Ack).expect("in order") {
                        ClientStep::Send(message, _) => message,
                        other => panic!("{other:?}"),
                    }
                }
                Message::Connected { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(server.poll_control(now), LinkState::Up);
        let (to_server, to_client) = own.layout.rings[0];
        let ring = |offset| RingRef::new(&own.memory, 0, offset, 6).expect("ring");
        Self { channel, to_server: ring(to_server), to_client: ring(to_client), own, events }
    }

    pub(super) fn bytes(&self) -> *mut u8 {
        self.own.memory.extents()[0].base
    }
}

/// One small queue.
pub(super) fn plan() -> Plan {
    Plan { peer: String::new(), queues: 1, log2_ring_size: 6 }
}

/// A server whose rings are written by hand.
struct RawServer {
    _channel: Channel,
    to_server: RingRef,
    to_client: RingRef,
    memory: Arc<Memory>,
}

impl RawServer {
    fn accept(listener: &Listener, client: &mut MemifLink, now: Time) -> Self {
        client.poll_control(now);
        let channel = listener.accept().expect("a connection");
        let limits = Limits { region: 255, ring_to_client: 0, ring_to_server: 0, log2_ring_size: 14 };
        let hello = Message::Hello { name: "raw".into(), min_version: VERSION, max_version: VERSION, limits };
        channel.send(&hello, None).expect("send");
        let mut regions = Vec::new();
        let mut rings = Vec::new();
        loop {
            let (message, fd) = receive_message(&channel, || _ = client.poll_control(now));
            match message {
                Message::AddRegion { size, .. } => regions.push((fd.expect("memory"), size)),
                Message::AddRing { offset, log2_size, .. } => rings.push((offset, log2_size)),
                Message::Connect { .. } => break,
                _ => {}
            }
            channel.send(&Message::Ack, None).expect("send");
        }
        channel.send(&Message::Connected { name: "raw".into() }, None).expect("send");
        assert_eq!(client.poll_control(now), LinkState::Up);
        let memory = map_peers(&regions, true, u64::MAX).expect("sealed memory");
        let ring = |(offset, log2_size)| RingRef::new(&memory, 0, offset, log2_size).expect("ring");
        Self { _channel: channel, to_server: ring(rings[0]), to_client: ring(rings[1]), memory }
    }
}

#[test]
fn chained_frames_are_put_together() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let raw = RawClient::connect(&mut server, &address);
    let ring = raw.to_server.get();
    // SAFETY: the buffers are within the memory, which `raw` holds; the server reads them only in `receive_all`.
    let put = |slot: u16, text: &[u8]| unsafe {
        let place = raw.bytes().add(ring.snapshot(slot).offset() as usize);
        core::ptr::copy_nonoverlapping(text.as_ptr(), place, text.len());
    };
    let describe = |slot: u16, len: u32, chained: bool| {
        let descriptor = Descriptor::new(0, 0, len);
        ring.describe(slot, if chained { descriptor.chained() } else { descriptor });
    };
    // A whole frame, a chain of three, a whole frame, a chain with a bad middle, a chain whose end is yet to come.
    for (slot, text) in [(0, "whole"), (1, "one-"), (2, "two-"), (3, "three"), (4, "again")] {
        put(slot, text.as_bytes());
        describe(slot, text.len() as u32, slot == 1 || slot == 2);
    }
    describe(5, 10, true);
    describe(6, u32::MAX, true);
    describe(7, 10, false);
    put(8, b"late ");
    describe(8, 5, true);
    ring.publish_head(9);
    let rx = server.split().0;
    assert_eq!(rx.receive(Time::ZERO, 32), 3);
    let frames: Vec<_> = (0..3).map(|index| rx.frame(index).to_vec()).collect();
    assert_eq!(frames, [b"whole".to_vec(), b"one-two-three".to_vec(), b"again".to_vec()]);
    rx.release();
    assert_eq!(ring.tail(), 8, "the dropped chain is given back, the unfinished one is not");
    put(9, b"but whole");
    describe(9, 9, false);
    ring.publish_head(10);
    assert_eq!(rx.receive(Time::ZERO, 32), 1);
    assert_eq!(rx.frame(0), b"late but whole");
    rx.release();
    assert_eq!(server.counters().rx_dropped, 1);
}

#[test]
fn a_chain_without_end_or_beyond_the_limit_is_dropped() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let raw = RawClient::connect(&mut server, &address);
    let ring = raw.to_server.get();
    for slot in 0..64 {
        ring.describe(slot, Descriptor::new(0, 0, 100).chained());
    }
    ring.publish_head(64);
    assert_eq!(server.split().0.receive(Time::ZERO, 32), 0);
    server.split().0.release();
    assert_eq!((ring.tail(), server.counters().rx_dropped), (64, 1));
    // 63 × 2048 bytes and an end: longer than any frame.
    for slot in 0..64 {
        let descriptor = Descriptor::new(0, 0, 2048);
        ring.describe(slot, if slot < 63 { descriptor.chained() } else { descriptor });
    }
    ring.publish_head(128);
    assert_eq!(server.split().0.receive(Time::ZERO, 32), 0);
    server.split().0.release();
    assert_eq!((ring.tail(), server.counters().rx_dropped), (128, 2));
    assert_eq!(server.poll_control(Time::ZERO), LinkState::Up);
}

#[test]
fn an_impossible_index_resets_the_link() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let mut now = Time::ZERO;
    for receiving in [true, false] {
        let raw = RawClient::connect(&mut server, &address);
        let before = server.counters().disconnects;
        if receiving {
            raw.to_server.get().publish_head(65);
            assert_eq!(server.split().0.receive(now, 32), 0);
        } else {
            raw.to_client.get().publish_head(40_000);
            assert!(send(&mut server, 0), "into nowhere");
        }
        assert_eq!(server.poll_control(now), LinkState::Down);
        assert_eq!(server.counters().disconnects, before + 1);
        let (bye, _) = receive_message(&raw.channel, || {});
        assert!(matches!(&bye, Message::Disconnect { reason, .. } if reason.contains("index")), "{bye:?}");
    }
    // And serves whoever comes next.
    let mut client = MemifLink::open(config(&address, Role::Client)).expect("open");
    connect(&mut server, &mut client, &mut now);
    assert!(send(&mut client, 0));
    flush(&mut client);
    assert_eq!(receive_all(&mut server, 0), 1);
}

#[test]
fn buffers_that_are_too_small_or_elsewhere_reset_the_link() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let bad = [Descriptor::new(0, 0, 1517), Descriptor::new(0, u32::MAX, 2048), Descriptor::new(9, 0, 2048)];
    for descriptor in bad {
        let raw = RawClient::connect(&mut server, &address);
        raw.to_client.get().write(0, descriptor);
        raw.to_client.get().publish_head(64);
        assert!(send(&mut server, 0), "into nowhere");
        assert_eq!(server.poll_control(Time::ZERO), LinkState::Down);
    }
    assert_eq!(server.counters().tx_dropped, 3);
}

/// Reads every byte, so that one outside of a mapping would be noticed.
fn sum_of_burst(link: &mut MemifLink, now: Time, max: usize) -> u64 {
    let rx = link.split().0;
    let count = rx.receive(now, max);
    let sum = (0..count).flat_map(|index| rx.frame(index)).map(|&byte| u64::from(byte)).sum();
    rx.release();
    sum
}

fn random_descriptor(random: &mut Random, size: u64) -> Descriptor {
    let region = if random.below(8) == 0 { random.next() as u16 } else { 0 };
    let near = |random: &mut Random, value: u64| (value as u32).wrapping_add(random.below(5) as u32).wrapping_sub(2);
    let offset = match random.below(4) {
        0 => random.next() as u32,
        1 => near(random, size),
        _ => random.below(size) as u32,
    };
    let length = match random.below(6) {
        0 => random.next() as u32,
        1 => near(random, size.saturating_sub(u64::from(offset))),
        2 => near(random, 0),
        _ => random.below(4096) as u32,
    };
    let descriptor = Descriptor::new(region, offset, length);
    if random.below(6) == 0 { descriptor.chained() } else { descriptor }
}

/// How many lying peers there are: as many as `NEARSIDE_MEMIF_SEEDS` says, else a few of
/// each kind.
fn seeds() -> u64 {
    std::env::var("NEARSIDE_MEMIF_SEEDS").map_or(6, |count| count.parse().expect("a number"))
}

#[test]
fn a_lying_client_harms_only_itself() {
    let mut disconnects = 0;
    let address = address();
    for seed in 0..seeds() {
        let copy = seed % 2 == 1;
        let mut server = MemifLink::open(Config { copy, ..config(&address, Role::Server) }).expect("open");
        let mut random = Random(seed);
        let mut raw = RawClient::connect(&mut server, &address);
        let size = raw.own.layout.size;
        let mut sum = 0_u64;
        for _ in 0..2_000 {
            for ring in [&raw.to_server, &raw.to_client] {
                ring.get().write(random.next() as u16, random_descriptor(&mut random, size));
            }
            let step = random.below(20) as u16;
            raw.to_server.get().publish_head(raw.to_server.get().tail().wrapping_add(step));
            raw.to_client.get().publish_head(raw.to_client.get().tail().wrapping_add(step));
            if random.below(200) == 0 {
                raw.to_server.get().publish_head(random.next() as u16);
                raw.to_client.get().publish_tail(random.next() as u16);
            }
            sum = sum.wrapping_add(sum_of_burst(&mut server, Time::ZERO, 32));
            let tx = server.split().1;
            for _ in 0..random.below(8) {
                if let Some(slot) = tx.slot() {
                    let len = slot.len();
                    slot.fill(0x5A);
                    tx.commit(len, Offload::NONE);
                }
            }
            tx.flush(Time::ZERO);
            if server.poll_control(Time::ZERO) == LinkState::Down {
                drop(raw);
                server.poll_control(Time::ZERO);
                raw = RawClient::connect(&mut server, &address);
            }
        }
        let counters = server.counters();
        disconnects += counters.disconnects;
        assert!(counters.rx_dropped > 100, "seed {seed}: {counters:?}");
        assert!(counters.rx_frames > 100 && sum > 0, "seed {seed}: {counters:?}");
    }
    // How often is decided by what a seed draws.
    assert!(disconnects > 2 * seeds(), "{disconnects}");
}

#[test]
fn a_lying_server_harms_only_itself() {
    let mut disconnects = 0;
    for seed in 0..seeds() {
        let address = address();
        let copy = seed % 2 == 1;
        let listener = Listener::new(&address, 0o600).expect("listen");
        let mut client = MemifLink::open(Config { copy, ..config(&address, Role::Client) }).expect("open");
        let mut random = Random(seed);
        let mut now = Time::ZERO;
        let mut raw = RawServer::accept(&listener, &mut client, now);
        let size = raw.memory.extents()[0].size;
        for _ in 0..2_000 {
            for ring in [&raw.to_server, &raw.to_client] {
                ring.get().write(random.next() as u16, random_descriptor(&mut random, size));
            }
            let step = random.below(20) as u16;
            raw.to_client.get().publish_tail(raw.to_client.get().tail().wrapping_add(step));
            raw.to_server.get().publish_tail(raw.to_server.get().head());
            if random.below(200) == 0 {
                raw.to_server.get().publish_tail(random.next() as u16);
                raw.to_client.get().publish_head(random.next() as u16);
                raw.to_client.get().publish_tail(random.next() as u16);
            }
            sum_of_burst(&mut client, now, 32);
            let tx = client.split().1;
            for _ in 0..random.below(8) {
                if let Some(slot) = tx.slot() {
                    assert!(slot.len() <= 2048, "our own buffers, whatever the descriptors say");
                    slot.fill(0x5A);
                    tx.commit(1 + random.below(1500) as usize, Offload::NONE);
                }
            }
            tx.flush(now);
            if client.poll_control(now) == LinkState::Down {
                drop(raw);
                now = now + RETRY_LONGEST;
                raw = RawServer::accept(&listener, &mut client, now);
            }
        }
        let counters = client.counters();
        disconnects += counters.disconnects;
        assert!(counters.rx_dropped > 100, "seed {seed}: {counters:?}");
        assert!(counters.rx_frames > 100, "seed {seed}: {counters:?}");
    }
    // How often is decided by what a seed draws.
    assert!(disconnects > 2 * seeds(), "{disconnects}");
}

#[test]
fn random_messages_never_harm_a_server() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let mut random = Random(42);
    for _ in 0..300 {
        let channel = Channel::connect(&address).expect("connect");
        for _ in 0..random.below(12) {
            let some = || Config::new(address.clone(), Role::Client);
            let message = match random.below(9) {
                0 => Message::Ack,
                1 => Message::AddRegion { index: random.below(3) as u16, size: random.next() >> random.below(64) },
                2 => Message::AddRing {
                    direction: if random.below(2) == 0 { Direction::ToServer } else { Direction::ToClient },
                    index: random.below(2) as u16,
                    region: random.below(2) as u16,
                    offset: random.next() as u32 >> random.below(32),
                    log2_size: random.below(20) as u8,
                },
                3 => Message::Connect { name: String::new() },
                4 => Message::Disconnect { code: 0, reason: "x".into() },
                _ => {
                    ClientHandshake::default().offer(&some(), &Layout { size: 0, rings: Vec::new(), log2_ring_size: 6 })
                }
            };
            // Any file may come with it.
            let file = match random.below(4) {
                0 => None,
                1 => Some(OwnedFd::from(std::fs::File::open("/dev/zero").expect("open"))),
                2 => Some(rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).expect("eventfd")),
                _ => {
                    let file = rustix::fs::memfd_create(c"test", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("memfd");
                    rustix::fs::ftruncate(&file, random.below(1 << 20)).expect("truncate");
                    Some(file)
                }
            };
            let _ = channel.send(&message, file.as_ref().map(AsFd::as_fd));
            server.poll_control(Time::ZERO);
            sum_of_burst(&mut server, Time::ZERO, 32);
        }
        drop(channel);
        server.poll_control(Time::ZERO);
    }
    let mut client = MemifLink::open(config(&address, Role::Client)).expect("open");
    connect(&mut server, &mut client, &mut { Time::ZERO });
}

#[test]
fn an_interrupt_that_is_no_eventfd_is_refused() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let client = config(&address, Role::Client);
    let own = OwnMemory::new(&client, &Plan { peer: String::new(), queues: 1, log2_ring_size: 6 }).expect("memory");
    let (pipe, _other) = std::os::unix::net::UnixStream::pair().expect("pair");
    let channel = Channel::connect(&address).expect("connect");
    let mut handshake = ClientHandshake::default();
    let mut message = handshake.offer(&client, &own.layout);
    let end = loop {
        let fd = match &message {
            Message::AddRegion { .. } => Some(own.file.as_fd()),
            Message::AddRing { .. } => Some(pipe.as_fd()),
            _ => None,
        };
        channel.send(&message, fd).expect("send");
        let (mut answer, _) = receive_message(&channel, || _ = server.poll_control(Time::ZERO));
        if let Message::Hello { .. } = answer {
            (answer, _) = receive_message(&channel, || _ = server.poll_control(Time::ZERO));
        }
        match handshake.on_message(&client, answer) {
            Ok(ClientStep::Send(next, _)) => message = next,
            other => break other,
        }
    };
    assert!(matches!(end, Err(End::Said(ref reason)) if reason.contains("eventfd")), "{end:?}");
}
