pub(crate) mod frames;
mod least;

use crate::classify::{Tuple, plain};
use crate::*;
use core::slice;
use core::time::Duration;
use frames::{REMOTE_V4, REMOTE_V6, SERVER_V4, SERVER_V6, advertisement, arp, icmp_error, segment};
use link::{
    Capabilities, Counters as LinkCounters, Link, LinkState, Load, Pair, PairConfig, PairLink, Receive, Transmit,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wire::arp::Operation;
use wire::offload::PartialChecksum;
use wire::tcp::Flags;
use wire::{Offload, Time};

const NOW: Time = Time::from_millis(5);

/// Silos over pairs in memory, and the far ends of their queues.
struct House {
    silos: Vec<Steered<PairLink>>,
    far: Vec<PairLink>,
}

fn seats(queues: &[u16]) -> Vec<SiloSpec> {
    queues.iter().map(|&queues| SiloSpec { domain: 0, queues }).collect()
}

fn house(seats: &[SiloSpec], config: &MeshConfig) -> House {
    let mesh_ends = Mesh::new(seats, config).expect("a mesh");
    let (mut silos, mut far) = (Vec::new(), Vec::new());
    for mesh_end in mesh_ends {
        let (near, other) = Pair::new(PairConfig { ring: 128, checksum_offload: true, ..PairConfig::default() });
        silos.push(Steered::new(near, mesh_end));
        far.push(other);
    }
    House { silos, far }
}

fn software() -> MeshConfig {
    MeshConfig { key: [11, 12, 13, 14], ..MeshConfig::default() }
}

fn keyed() -> MeshConfig {
    MeshConfig { spread: Spread::Keyed, ..software() }
}

impl House {
    /// Puts a frame into a silo's queue.
    fn arrive(&mut self, queue: usize, frame: &[u8]) {
        let tx = self.far[queue].split().1;
        tx.slot().expect("room")[..frame.len()].copy_from_slice(frame);
        tx.commit(frame.len(), Offload::NONE);
        tx.flush(NOW);
    }

    /// All that a silo receives in one burst.
    fn receive(&mut self, silo: usize) -> Vec<Vec<u8>> {
        let mut rx = self.silos[silo].split().0;
        let count = rx.receive(NOW, 32);
        let frames = (0..count).map(|index| rx.frame(index).to_vec()).collect();
        // As a silo tells of what means nothing to its application.
        (0..count).for_each(|index| rx.taken(index));
        rx.release();
        frames
    }

    fn send(&mut self, silo: usize, frame: &[u8], offload: Offload) {
        let mut tx = self.silos[silo].split().1;
        tx.slot().expect("room")[..frame.len()].copy_from_slice(frame);
        tx.commit(frame.len(), offload);
        tx.flush(NOW);
    }

    /// All that a silo's queue sent.
    fn sent(&mut self, queue: usize) -> Vec<Vec<u8>> {
        let rx = self.far[queue].split().0;
        let count = rx.receive(NOW, 128);
        let frames = (0..count).map(|index| rx.frame(index).to_vec()).collect();
        rx.release();
        frames
    }

    fn flush(&mut self, silo: usize) {
        self.silos[silo].split().1.flush(NOW);
    }
}

fn request(port: u16) -> Vec<u8> {
    segment((REMOTE_V4, port), (SERVER_V4, 80), Flags::ACK, b"GET")
}

#[test]
fn software_gives_each_flow_to_one_silo() {
    let mut house = house(&seats(&[1, 0, 0]), &software());
    let mut owners = std::collections::HashMap::new();
    for round in 0..3 {
        for port in 10_000..10_064 {
            house.arrive(0, &request(port));
        }
        let mut counts = [0; 3];
        // The first of them passes on, the others take; twice, for bursts.
        for (silo, _) in (0..3).zip(0..).cycle().take(12) {
            for frame in house.receive(silo) {
                let (Tuple { remote_port, .. }, _) = plain(&frame).expect("a segment");
                assert_eq!(frame, request(remote_port));
                assert_eq!(*owners.entry(remote_port).or_insert(silo), silo, "it stays there");
                counts[silo] += 1;
            }
        }
        assert_eq!(counts.iter().sum::<i32>(), 64, "round {round}: each arrives once");
        assert!(counts.iter().all(|count| *count > 8), "{counts:?}");
    }
    let counters: Vec<_> = house.silos.iter().map(Steered::steering).collect();
    assert_eq!(counters[0].forwarded_out, counters[1].forwarded_in + counters[2].forwarded_in);
    assert_eq!(counters[0].forwarded_out_bytes, counters[1].forwarded_in_bytes + counters[2].forwarded_in_bytes);
    assert_eq!((counters[0].ring_full, counters[0].crossed_bytes), (0, 0));
}

#[test]
fn a_queue_for_each_silo_steers_nothing() {
    let mut house = house(&seats(&[1, 1]), &keyed());
    for port in 10_000..10_020 {
        house.arrive(usize::from(port % 2), &request(port));
    }
    for silo in 0..2 {
        let ports: Vec<_> = house.receive(silo).iter().map(|frame| plain(frame).unwrap().0.remote_port).collect();
        assert_eq!(ports, (10_000..10_020).filter(|port| usize::from(port % 2) == silo).collect::<Vec<_>>());
        assert_eq!(house.silos[silo].steering(), Counters::default());
    }
}

#[test]
fn neighbours_are_shared_and_requests_are_not() {
    let mut house = house(&seats(&[1, 1, 0]), &keyed());
    for (frame, shared) in [(arp(Operation::Reply), true), (advertisement(), true), (arp(Operation::Request), false)] {
        house.arrive(1, &frame);
        assert_eq!(house.receive(1), slice::from_ref(&frame));
        let others = if shared { vec![frame.clone()] } else { vec![] };
        assert_eq!(house.receive(0), others);
        assert_eq!(house.receive(2), others);
    }
    assert_eq!(house.silos[1].steering().messages_out, 4);
    assert_eq!(house.silos[2].steering().messages_in, 2);
}

/// With a hash in software the owner is known; without, all are told.
#[test]
fn icmp_errors_reach_the_flows_owner() {
    for config in [software(), keyed()] {
        let spreads = config.spread == Spread::Unknown;
        for (remote, server) in [(REMOTE_V4, SERVER_V4), (REMOTE_V6, SERVER_V6)] {
            for port in 10_000..10_010 {
                let mut house = house(&seats(&[1, 1, 1]), &config);
                let error = icmp_error(&segment((server, 80), (remote, port), Flags::ACK, b"12345678"));
                house.arrive(0, &error);
                let had: Vec<bool> = (0..3).map(|silo| house.receive(silo) == [error.clone()]).collect();
                if !spreads {
                    assert_eq!(had, [true; 3]);
                    continue;
                }
                assert_eq!(had.iter().filter(|had| **had).count(), 1);
                house.arrive(1, &segment((remote, port), (server, 80), Flags::ACK, b""));
                let owner: Vec<bool> = [1, 0, 2].map(|silo| (silo, house.receive(silo).len() == 1)).map(|x| x.1).into();
                assert_eq!([had[1], had[0], had[2]], owner[..], "where its flow's segments go");
            }
        }
    }
}

#[test]
fn floods_of_messages_end_at_their_limit() {
    let mut house = house(&seats(&[1, 1]), &keyed());
    for _ in 0..100 {
        house.arrive(0, &arp(Operation::Reply));
    }
    while !house.receive(0).is_empty() {}
    let counters = house.silos[0].steering();
    assert_eq!((counters.messages_out, counters.messages_limited), (32, 68));
    assert_eq!(house.receive(1).len() + house.receive(1).len(), 32);
}

#[test]
fn a_silo_without_a_queue_sends_through_another() {
    let mut house = house(&seats(&[0, 1]), &software());
    let frame = request(1);
    house.send(0, &frame, Offload::NONE);
    assert_eq!(house.sent(1), <Vec<Vec<u8>>>::new(), "not before the other's turn");
    house.flush(1);
    assert_eq!(house.sent(1), slice::from_ref(&frame));
    assert_eq!(house.sent(0), <Vec<Vec<u8>>>::new());
    let (a, b) = (house.silos[0].steering(), house.silos[1].steering());
    assert_eq!((a.lent_out, a.lent_out_bytes), (1, frame.len() as u64));
    assert_eq!((b.lent_in, b.lent_in_bytes), (1, frame.len() as u64));
    assert_eq!(house.silos[0].poll_control(NOW), LinkState::Up);
}

/// What the link is to finish is told to the link that does it.
#[test]
fn offloads_are_lent_as_well() {
    let mut house = house(&seats(&[0, 1]), &software());
    let frame = request(1);
    let checksum = Some(PartialChecksum { start: 34, field: 16 });
    house.send(0, &frame, Offload { checksum, segment: None });
    house.flush(1);
    let rx = house.far[1].split().0;
    assert_eq!(rx.receive(NOW, 8), 1);
    assert!(rx.verified(0), "the pair completed it");
}

/// Its own link down, a silo sends through another's until it is back.
#[test]
fn a_dead_link_is_passed_by() {
    let seats = [SiloSpec { domain: 0, queues: 1 }, SiloSpec { domain: 1, queues: 1 }];
    let mut house = house(&seats, &keyed());
    let frame = request(1);
    house.send(0, &frame, Offload::NONE);
    assert_eq!(house.sent(0).len(), 1);
    // The far end goes.
    let (_, other) = Pair::new(PairConfig::default());
    house.far[0] = other;
    assert_eq!(house.silos[0].poll_control(NOW), LinkState::Up, "by way of the other");
    house.send(0, &frame, Offload::NONE);
    house.flush(1);
    assert_eq!(house.sent(1), slice::from_ref(&frame));
    assert_eq!(house.silos[0].steering().crossed_bytes, frame.len() as u64);
}

#[test]
fn a_full_ring_drops_and_counts() {
    let config = MeshConfig { ring: 4_096, ..software() };
    let mut house = house(&seats(&[1, 0]), &config);
    let mut offered = 0;
    for port in 10_000..10_200 {
        house.arrive(0, &request(port));
        offered += 1 - house.receive(0).len() as u64;
    }
    let counters = house.silos[0].steering();
    assert!(counters.ring_full > 20, "{counters:?}");
    assert_eq!(counters.forwarded_out + counters.ring_full, offered);
    let mut taken = 0;
    while let burst @ 1.. = house.receive(1).len() as u64 {
        taken += burst;
    }
    assert_eq!(taken, counters.forwarded_out);
}

#[test]
fn a_silo_that_is_not_there_gets_nothing() {
    let mut house = house(&seats(&[1, 0]), &software());
    drop(house.silos.pop());
    for port in 10_000..10_100 {
        house.arrive(0, &request(port));
        house.receive(0);
    }
    let counters = house.silos[0].steering();
    assert!(counters.absent > 20 && counters.forwarded_out == 0, "{counters:?}");
}

/// Half of a burst at most is others', so neither starves.
#[test]
fn own_and_others_frames_take_turns() {
    let mut house = house(&seats(&[1, 1]), &software());
    let theirs: Vec<u16> = (10_000..10_600)
        .filter(|port| {
            house.arrive(0, &request(*port));
            house.receive(0).is_empty()
        })
        .collect();
    while !house.receive(1).is_empty() {}
    for port in theirs.iter().take(100) {
        house.arrive(0, &request(*port));
        house.receive(0);
    }
    for port in theirs.iter().skip(100).take(100) {
        house.arrive(1, &request(*port));
    }
    let mut seen = Vec::new();
    while let burst @ [_, ..] = &house.receive(1)[..] {
        let ports = burst.iter().map(|frame| plain(frame).unwrap().0.remote_port);
        let others = ports.clone().filter(|port| theirs[..100].contains(port)).count();
        seen.push((others, burst.len() - others));
    }
    assert!(seen.iter().take(6).all(|burst| *burst == (16, 16)), "{seen:?}");
    assert_eq!(seen.iter().map(|(a, b)| a + b).sum::<usize>(), 200);
}

/// A segment that nobody here knows goes to silos that may, but only once
/// ports have changed; what comes back from nobody is dropped.
#[test]
fn strays_are_passed_on_after_a_failover() {
    let seats = [0, 0, 1, 1].map(|domain| SiloSpec { domain, queues: 1 });
    for (config, owners) in [(keyed(), 3), (software(), 1)] {
        let mut house = house(&seats, &config);
        let port = (10_000..).find(|port| {
            house.arrive(0, &request(*port));
            house.receive(0).len() == 1
        });
        let frame = request(port.expect("a flow of the first silo"));
        for failover in [false, true] {
            house.silos[0].mesh().set_failover(failover);
            house.arrive(0, &frame);
            let mut rx = house.silos[0].split().0;
            assert_eq!(rx.receive(NOW, 8), 1);
            assert_eq!(rx.stray(0), failover);
            rx.release();
            let mut had = 0;
            for silo in 1..4 {
                let mut rx = house.silos[silo].split().0;
                let count = rx.receive(NOW, 8);
                had += count;
                for index in 0..count {
                    assert_eq!(rx.frame(index), frame);
                    assert!(rx.stray(index), "no reset for what another may own");
                }
                rx.release();
            }
            assert_eq!(had, if failover { owners } else { 0 });
        }
        assert_eq!(house.silos[0].steering().strays_passed, owners as u64);
    }
}

#[test]
fn what_cannot_be_joined_is_refused() {
    assert!(matches!(Mesh::new(&[], &software()), Err(MeshError::Silos(0))));
    assert!(matches!(Mesh::new(&seats(&[1; 257]), &software()), Err(MeshError::Silos(257))));
    assert!(matches!(Mesh::new(&seats(&[0, 0]), &software()), Err(MeshError::NoQueue)));
}

#[test]
fn the_choice_is_told_with_its_reason() {
    let told = |queues: &[u16], spread, policy| {
        let config = MeshConfig { spread, policy, ..software() };
        Mesh::new(&seats(queues), &config).expect("a mesh")[0].steering().to_owned()
    };
    assert_eq!(told(&[1, 1], Spread::Keyed, Policy::Hash), "hash: by the NIC (RSS), a queue for each silo");
    assert_eq!(told(&[1, 0], Spread::Keyed, Policy::Hash), "hash: in software (1 silos with a queue of 2)");
    assert_eq!(told(&[1, 1], Spread::Fixed, Policy::Hash), "hash: in software (the NIC's key is fixed)");
    assert!(told(&[1, 1], Spread::Unknown, Policy::Hash).starts_with("hash: in software"));
    assert!(told(&[1, 0], Spread::Unknown, Policy::Local).starts_with("local"));
}

/// A link that can be sent to another thread and slept on; what it receives
/// is put into it.
#[derive(Default)]
struct Still {
    half: Given,
    other: Given,
    slept: u64,
    /// Of these, that ended by the clock.
    overslept: u64,
}

#[derive(Default)]
struct Given {
    frame: Vec<u8>,
    waits: bool,
}

impl Receive for Given {
    fn receive(&mut self, _: Time, _: usize) -> usize {
        usize::from(core::mem::take(&mut self.waits))
    }
    fn frame(&self, _: usize) -> &[u8] {
        &self.frame
    }
    fn release(&mut self) {}
}

impl Transmit for Given {
    fn room(&self) -> usize {
        0
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        None
    }
    fn commit(&mut self, _: usize, _: Offload) {}
    fn flush(&mut self, _: Time) {}
}

impl Link for Still {
    type Rx<'a> = &'a mut Given;
    type Tx<'a> = &'a mut Given;

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
    fn split(&mut self) -> (&mut Given, &mut Given) {
        (&mut self.half, &mut self.other)
    }
    fn poll_control(&mut self, _: Time) -> LinkState {
        LinkState::Up
    }
    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        self.slept += 1;
        let mut fds = [PollFd::from_borrowed_fd(wake.expect("the doorbell"), PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).expect("a sane time");
        let ready = rustix::event::poll(&mut fds, Some(&timeout))?;
        self.overslept += u64::from(ready == 0);
        Ok(())
    }
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

/// Two silos that pass a frame to and fro and sleep in between: were one
/// wake-up slept over, the other would wait for ever.
#[test]
fn nothing_is_slept_over() {
    const ROUNDS: u64 = 20_000;
    let mesh_ends = Mesh::new(&seats(&[1, 1]), &keyed()).expect("a mesh");
    let mut silos: Vec<_> = mesh_ends.into_iter().map(|mesh_end| Steered::new(Still::default(), mesh_end)).collect();
    let pass = |mut silo: Steered<Still>| {
        let (mut now, mut seen) = (NOW, 0);
        for round in 1..=ROUNDS {
            // A shared frame goes to both: to us at once, to the other by ring.
            let inner = silo.inner_mut();
            (inner.half.frame, inner.half.waits) = (arp(Operation::Reply), true);
            now = now + Duration::from_millis(1);
            let mut rx = silo.split().0;
            let burst = rx.receive(now, 8);
            seen += burst as u64 - 1;
            (0..burst).for_each(|index| rx.taken(index));
            rx.release();
            while seen < round {
                silo.wait(None, Duration::from_secs(20)).expect("sleep");
                // It may be woken for what it has had: who rings may be late.
                assert_eq!(silo.inner().overslept, 0, "round {round} was slept over");
                let mut rx = silo.split().0;
                seen += rx.receive(now, 8) as u64;
                rx.release();
            }
        }
        silo.inner().slept
    };
    let (b, a) = (silos.pop().expect("two"), silos.pop().expect("two"));
    let slept = std::thread::scope(|scope| {
        let other = scope.spawn(move || pass(b));
        pass(a) + other.join().expect("no panic")
    });
    assert!(slept > 0, "they slept at all");
}

/// What else wakes a silo still does.
#[test]
fn the_callers_own_wake_up_wakes() {
    let mesh_ends = Mesh::new(&seats(&[1, 1]), &keyed()).expect("a mesh");
    let mut silo = Steered::new(Still::default(), mesh_ends.into_iter().next().expect("a mesh_end"));
    let event = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).expect("an eventfd");
    silo.wait(Some(event.as_fd()), Duration::from_secs(600)).expect("sleep");
    silo.wait(Some(event.as_fd()), Duration::from_secs(600)).expect("sleep");
    assert_eq!(silo.inner().slept, 2);
}
