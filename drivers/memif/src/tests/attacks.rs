//! Peers that want more than to send nonsense: to hold a silo up, to end its
//! process, to have it write where it reads.

use super::hostile::{RawClient, plan, receive_message};
use super::*;
use crate::memory::OwnMemory;
use crate::message::Message;
use crate::ring::Descriptor;
use core::ops::Range;
use std::os::fd::OwnedFd;

/// Fills an eventfd, and has whoever writes to it wait.
fn block(event: &OwnedFd) {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(event).expect("flags");
    fcntl_setfl(event, flags | OFlags::NONBLOCK).expect("non-blocking");
    let _ = rustix::io::read(event, &mut [0_u8; 8]);
    rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes()).expect("room");
    fcntl_setfl(event, flags - OFlags::NONBLOCK).expect("blocking");
}

fn refusal(raw: &RawClient) -> String {
    match receive_message(&raw.channel, || {}).0 {
        Message::Disconnect { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_fills_its_eventfd_ends_its_link_and_holds_nobody_up() {
    let (told, outcome) = std::sync::mpsc::channel();
    // On a thread of its own: it would hang for good.
    std::thread::spawn(move || {
        let address = address();
        let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
        let mut now = Time::ZERO;
        for _ in 0..2 {
            let own = OwnMemory::new(&config(&address, Role::Client), &plan()).expect("memory");
            let raw = RawClient::connect_with(&mut server, &address, own, now);
            raw.to_client.get().publish_head(64);
            raw.to_client.get().ask_for_interrupt(true);
            // As it should be, this wakes and nobody waits.
            assert!(send(&mut server, 0));
            flush(&mut server);
            assert_eq!(server.poll_control(now), LinkState::Up);
            block(&raw.events[1]);
            assert!(send(&mut server, 1));
            flush(&mut server);
            assert!(server.split().1.slot().is_some(), "a slot that leads nowhere");
            assert_eq!(server.poll_control(now), LinkState::Down);
            let why = refusal(&raw);
            assert!(why.contains("makes its ringer wait"), "{why}");
            drop(raw);
            // Whoever comes at once would hold it up again.
            let early = Channel::connect(&address).expect("a place in the queue");
            assert_eq!(server.poll_control(now + Duration::from_millis(1)), LinkState::Down);
            assert!(matches!(early.receive(), crate::channel::Received::Nothing));
            drop(early);
            now = now + RETRY_LONGEST + Duration::from_millis(1);
            // Takes the one that has gone.
            (0..3).for_each(|_| _ = server.poll_control(now));
        }
        told.send(server.counters().disconnects).expect("somebody waits");
    });
    let disconnects = outcome.recv().expect("held up for good");
    assert_eq!(disconnects, 2);
}

#[test]
fn a_ring_that_works_is_not_called_away() {
    let (mut server, mut client, now) = pair();
    for number in 0..50 {
        // The watch sleeps, wakes and looks meanwhile, in no order.
        client.split().0.ring().expect("up").ask_for_interrupt(true);
        assert!(send(&mut server, number));
        flush(&mut server);
        std::thread::sleep(crate::bell::LOOK / 10);
        assert_eq!(receive_all(&mut client, number), number + 1);
    }
    assert_eq!((server.poll_control(now), client.poll_control(now)), (LinkState::Up, LinkState::Up));
}

#[test]
fn a_region_that_is_truncated_ends_its_link_and_not_the_process() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let mut now = Time::ZERO;
    // While frames are received, while they are built, and while nothing happens.
    for during in 0..3 {
        let own = OwnMemory::unsealed(&config(&address, Role::Client), &plan()).expect("memory");
        let raw = RawClient::connect_with(&mut server, &address, own, now);
        let take_away = || rustix::fs::ftruncate(&raw.own.file, 0).expect("nothing seals it");
        raw.to_client.get().publish_head(64);
        raw.to_server.get().describe(0, Descriptor::new(0, 0, 100));
        raw.to_server.get().publish_head(1);
        match during {
            0 => {
                let rx = server.split().0;
                assert_eq!(rx.receive(now, 8), 1);
                take_away();
                assert_eq!(rx.frame(0), [0; 100]);
                rx.release();
                assert_eq!(rx.receive(now, 8), 0);
            }
            1 => {
                assert!(send(&mut server, 0));
                let slot = server.split().1.slot().expect("room");
                take_away();
                slot.fill(7);
                server.split().1.commit(100, Offload::NONE);
                flush(&mut server);
            }
            _ => take_away(),
        }
        // What is not noticed by an access is by the next, which a wait makes too.
        let _ = server.split().0.receive(now, 8);
        server.split().0.release();
        assert_eq!(server.poll_control(now), LinkState::Down, "{during}");
        let why = refusal(&raw);
        assert!(why.contains("took its memory away"), "{why}");
    }
    let mut client = MemifLink::open(config(&address, Role::Client)).expect("open");
    connect(&mut server, &mut client, &mut now);
    assert!(send(&mut client, 0));
    flush(&mut client);
    assert_eq!(receive_all(&mut server, 0), 1);
}

fn span(bytes: &[u8]) -> Range<usize> {
    bytes.as_ptr_range().start.addr()..bytes.as_ptr_range().end.addr()
}

fn apart(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.end <= b.start || b.end <= a.start
}

/// Whether the next slot lies in memory that is shared, and where it is.
fn next_slot(link: &mut MemifLink, raw: &RawClient) -> (bool, Range<usize>) {
    let shared = raw.own.layout.size as usize;
    let place = span(link.split().1.slot().expect("room"));
    // The server has mapped the memory at another place than the client.
    let mut within = false;
    link.memory(&mut |range| within |= range.len() == shared && range.start <= place.start && place.end <= range.end);
    (within, place)
}

#[test]
fn slots_that_a_peer_lets_overlap_are_not_written_in_place() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let raw = RawClient::connect(&mut server, &address);
    let ring = raw.to_client.get();
    ring.publish_head(64);
    let describe = |slot: u16, offset: u32| ring.write(slot, Descriptor::new(0, offset, 2048));
    let usual: Vec<u32> = (0..64).map(|slot| ring.snapshot(slot).offset()).collect();
    // The place of the first again, half of it, a ring, and what is received.
    let received = raw.to_server.get().snapshot(0).offset();
    for (slot, offset) in [(1, usual[0]), (2, usual[0] + 1024), (3, 0), (4, received)] {
        describe(slot, offset);
    }
    // As it was when it connected: in place.
    let (in_place, first) = next_slot(&mut server, &raw);
    assert!(in_place);
    assert!(send(&mut server, 0));
    // The others by a copy, which arrives where it was told.
    for slot in 1..5 {
        let (in_place, place) = next_slot(&mut server, &raw);
        assert!(!in_place && apart(&place, &first), "slot {slot}");
        if slot == 3 {
            let bytes = server.split().1.slot().expect("room");
            bytes[..4].copy_from_slice(&crate::ring::COOKIE.to_ne_bytes());
            server.split().1.commit(4, Offload::NONE);
        } else {
            assert!(send(&mut server, slot));
        }
    }
    flush(&mut server);
    for slot in [2, 4] {
        let descriptor = ring.snapshot(slot);
        // SAFETY: within the client's mapping; nobody writes there now.
        let frame = unsafe {
            let start = raw.bytes().add(descriptor.offset() as usize);
            core::slice::from_raw_parts(start, descriptor.length() as usize)
        };
        check(u64::from(slot), frame);
    }
    // And in place again, where all is as it was.
    assert!(next_slot(&mut server, &raw).0);
}

/// A reply is built while the frame that asked for it is borrowed.
#[test]
fn a_frame_that_lies_in_a_slot_is_copied_out() {
    let address = address();
    let mut server = MemifLink::open(config(&address, Role::Server)).expect("open");
    let raw = RawClient::connect(&mut server, &address);
    raw.to_client.get().publish_head(64);
    let slots: Vec<Descriptor> = (0..64).map(|slot| raw.to_client.get().snapshot(slot)).collect();
    let ring = raw.to_server.get();
    // In place; in a slot; into one; in place.
    let usual = ring.snapshot(3).offset();
    for (slot, offset) in [(0, usual), (1, slots[0].offset()), (2, slots[0].offset() - 50), (3, usual + 100)] {
        ring.write(slot, Descriptor::new(0, offset, 100));
    }
    ring.publish_head(4);
    let (rx, tx) = server.split();
    assert_eq!(rx.receive(Time::ZERO, 8), 4);
    let slot = span(tx.slot().expect("room"));
    for index in 0..4 {
        assert!(apart(&span(rx.frame(index)), &slot), "frame {index}");
    }
    tx.slot().expect("the same")[..100].fill(9);
    tx.commit(100, Offload::NONE);
    assert!((0..4).all(|index| rx.frame(index).iter().all(|byte| *byte != 9)), "nothing changed under a reader");
    rx.release();
}

#[test]
fn queues_whose_slots_overlap_do_not_share_one() {
    let server = Memif::open(Config { queues: 2, ..config(&address(), Role::Server) }).expect("open");
    drop(server);
    let plan = crate::handshake::Plan { queues: 2, ..plan() };
    let own = OwnMemory::new(&config(&address(), Role::Client), &plan).expect("memory");
    let rings: Vec<_> = own
        .layout
        .rings
        .iter()
        .map(|&(to_server, to_client)| {
            let ring = |offset| crate::memory::RingRef::new(&own.memory, 0, offset, 6).expect("ring");
            (ring(to_server), ring(to_client))
        })
        .collect();
    let found = |rings: &[(crate::memory::RingRef, crate::memory::RingRef)]| {
        let (slots, reserved) = crate::slots::apart(rings.iter().map(|(rx, tx)| (rx, tx)), 1518);
        let has = |queue: usize| {
            let first = rings[queue].1.get().snapshot(0);
            slots[queue].are_in(first.place_word()) && slots[queue].has(0, first.offset())
        };
        (has(0), has(1), reserved.within(0))
    };
    let (first, second, reserved) = found(&rings);
    assert!(first && second && !reserved.is_empty(), "as clients lay them out");
    // One slot of the second queue lies in one of the first.
    let (at, of) = (rings[0].1.get().snapshot(63).offset(), rings[1].1.get().snapshot(9));
    rings[1].1.get().write(9, Descriptor::new(0, at + 1000, 2048));
    assert_eq!((found(&rings).0, found(&rings).1), (true, false));
    rings[1].1.get().write(9, of);
    // Two of the same queue do; one lies on a ring; one is too short; one is in another region.
    for bad in [
        Descriptor::new(0, rings[0].1.get().snapshot(1).offset() + 1, 2048),
        Descriptor::new(0, 64, 2048),
        Descriptor::new(0, rings[0].1.get().snapshot(0).offset(), 1517),
        Descriptor::new(1, rings[0].1.get().snapshot(0).offset(), 2048),
    ] {
        rings[0].1.get().write(0, bad);
        assert_eq!((found(&rings).0, found(&rings).1), (false, true), "{bad:?}");
    }
}

/// The uid is that of whoever connects: of this thread alone, if it is root.
fn as_user(uid: libc::c_long, act: impl FnOnce() + Send + 'static) -> bool {
    let apart = move || {
        // SAFETY: takes numbers only; the system call, unlike the function of that name, is for this thread.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1_i64, uid, -1_i64) } == 0;
        if changed {
            act();
        }
        changed
    };
    std::thread::spawn(apart).join().expect("no panic")
}

#[test]
fn only_processes_of_users_that_are_named_may_be_the_peer() {
    let own = rustix::process::geteuid().as_raw();
    let stranger = own + 4_321;
    for (peers, admitted) in [
        (crate::Peers::Own, false),
        (crate::Peers::Users(vec![stranger + 1]), false),
        (crate::Peers::Users(vec![7, stranger]), true),
        (crate::Peers::Any, true),
    ] {
        assert_eq!(peers.admit(stranger, own), admitted);
        assert!(peers.admit(0, own) && peers.admit(own, own));
        let address = address();
        let mut server = MemifLink::open(Config { peers, ..config(&address, Role::Server) }).expect("open");
        let theirs = address.clone();
        let (give, channel) = std::sync::mpsc::channel();
        let tried = as_user(stranger.into(), move || {
            let channel = Channel::connect(&theirs).expect("abstract sockets are open to everybody");
            give.send(channel).expect("somebody waits");
        });
        if let Ok(channel) = channel.recv() {
            let (answer, _) = receive_message(&channel, || _ = server.poll_control(Time::ZERO));
            let refused = matches!(&answer, Message::Disconnect { reason, .. } if reason.contains("uid"));
            assert_eq!((refused, matches!(answer, Message::Hello { .. })), (!admitted, admitted), "{answer:?}");
        }
        if !tried {
            println!("not root: only the rule was tried");
        }
    }
    // A client does not give its memory to everybody either.
    let address = address();
    let theirs = address.clone();
    let tried = as_user(stranger.into(), move || {
        // Who listens counts as it was then.
        let _server =
            MemifLink::open(Config { peers: crate::Peers::Any, ..config(&theirs, Role::Server) }).expect("open");
        let back = std::thread::spawn(move || {
            // SAFETY: as in `as_user`.
            unsafe { libc::syscall(libc::SYS_setresuid, -1_i64, libc::c_long::from(own), -1_i64) };
            let mut client = MemifLink::open(config(&theirs, Role::Client)).expect("open");
            client.poll_control(Time::ZERO);
            client.status().and_then(|status| status.reason).unwrap_or_default()
        });
        let why = back.join().expect("no panic");
        assert!(why.contains(&format!("uid {stranger} may not be the peer")), "{why}");
    });
    if !tried {
        println!("not root, or in a box of its own: only the rule was tried");
    }
}

#[test]
fn the_socket_file_has_the_mode_that_is_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let dir = std::env::temp_dir().join(format!("nearside-memif-mode-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("folder");
    for (mode, expected) in [("", 0o600), (",socket-mode=0666", 0o666), (",socket-mode=0660", 0o660)] {
        let path = dir.join("x.sock");
        let config = format!("memif:{},role=server{mode}", path.display()).parse().expect("valid");
        let _link = MemifLink::open(config).expect("open");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, expected);
    }
    std::fs::remove_dir_all(&dir).expect("clean up");
}
