//! The driver against this kernel, in a network namespace of its own. Without
//! the right to make one the tests say so and pass, unless `CI` or
//! `NEARSIDE_REQUIRE_TOOLS` says that they must run.

use super::*;
use driver::Driver;
use std::process::Command;

/// Runs `test` on a thread in a new network namespace with a pair of veth
/// interfaces, `a` and `b`, which ends with it.
fn with_veth(test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: takes flags by value and moves only this thread.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let ip = |words: &str| {
            moved && Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
        };
        if ip("link add name a type veth peer name b") && ip("link set dev a up") && ip("link set dev b up") {
            test();
            return;
        }
        let why = if moved { "ip makes no veth pair" } else { "no right to make a namespace" };
        let required = |name| std::env::var_os(name).is_some();
        assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "{why}; run as root");
        println!("skipped: {why}; run as root");
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

fn open(name: &str, by: Option<StampedBy>) -> PacketLink {
    let mut link = PacketLink::open(&Config { name: name.to_owned(), stamped_by: by }).expect("a link");
    // The kernel tells of a carrier in its own time (net/core/link_watch.c).
    wait_until(&mut link, LinkState::Up);
    link
}

/// Asks the link, each time as late as it asks the kernel again, until it says so.
fn wait_until(link: &mut PacketLink, state: LinkState) {
    until(|| {
        let next = link.asked.map_or(Time::ZERO, |asked| asked + STATE_INTERVAL);
        link.poll_control(next) == state
    });
}

/// Waits for what the machine decides, which has no end but the suite's.
fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The 802.1Q tag 7, or none, before an EtherType for experiments (IEEE 802).
fn frame(number: u8, tagged: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if tagged {
        frame.extend([0x81, 0, 0, 7]);
    }
    frame.extend([0x88, 0xb5]);
    frame.resize(60, number);
    frame
}

fn send(link: &mut PacketLink, frame: &[u8], stamped: bool) {
    let (_, tx) = link.split();
    if stamped {
        tx.stamp_next();
    }
    tx.slot().expect("room")[..frame.len()].copy_from_slice(frame);
    tx.commit(frame.len(), Offload::NONE);
    tx.flush(Time::ZERO);
}

/// What comes of ours by this link: the next one, and its stamp.
fn next(link: &mut PacketLink) -> (Vec<u8>, Option<u64>) {
    let mut found = None;
    until(|| {
        let (rx, _) = link.split();
        for index in 0..rx.receive(Time::ZERO, 1) {
            let frame = rx.frame(index);
            // The kernel sends of its own (IPv6).
            if frame.starts_with(&[2, 0, 0, 0, 0, 2]) {
                found = Some((frame.to_vec(), rx.stamp(index)));
            }
        }
        rx.release();
        found.is_some()
    });
    found.expect("one came")
}

#[test]
fn frames_are_stamped_by_the_kernel_as_they_leave_and_come() {
    with_veth(|| {
        let (mut a, mut b) = (open("a", Some(StampedBy::Kernel)), open("b", Some(StampedBy::Kernel)));
        // Stamps of frames that come are switched on a moment after they are asked for.
        until(|| {
            send(&mut a, &frame(0, false), false);
            next(&mut b).1.is_some()
        });
        let mut before = 0;
        for number in 1..=20 {
            let sent = frame(number, number % 2 == 0);
            send(&mut a, &sent, true);
            let (came, stamp) = next(&mut b);
            assert_eq!(came, sent, "{number}");
            let mut left = Vec::new();
            until(|| {
                a.split().1.departed(&mut |frame, stamp| left.push((frame.to_vec(), stamp)));
                !left.is_empty()
            });
            // Once, with the frame, and between the last one's stamp and that of its arrival.
            assert_eq!(left.len(), 1);
            let (back, left) = left.remove(0);
            assert_eq!(back, sent, "{number}");
            let stamp = stamp.expect("a stamp");
            assert!(before < left && left <= stamp, "{before} {left} {stamp}");
            before = stamp;
        }
        assert_eq!((a.counters().tx_frames >= 21, a.counters().tx_dropped), (true, 0));
    });
}

#[test]
fn a_frame_that_was_not_to_be_stamped_is_not_told() {
    with_veth(|| {
        let (mut a, mut b) = (open("a", Some(StampedBy::Kernel)), open("b", None));
        send(&mut a, &frame(1, false), true);
        send(&mut a, &frame(2, false), false);
        assert_eq!((next(&mut b), next(&mut b)), ((frame(1, false), None), (frame(2, false), None)));
        let mut told = 0;
        until(|| {
            a.split().1.departed(&mut |_, _| told += 1);
            told > 0
        });
        a.split().1.departed(&mut |_, _| told += 1);
        assert_eq!(told, 1);
    });
}

#[test]
fn what_an_interface_does_not_have_is_told() {
    with_veth(|| {
        let config = |name: &str| Config { name: name.to_owned(), stamped_by: None };
        assert_eq!(config("a").stamps(StampedBy::Kernel), Ok(driver::StampClock { ptp: None, only_ptp: false }));
        let told = config("a").stamps(StampedBy::Nic).expect_err("veth has no NIC");
        assert!(told.contains("a: its NIC does not stamp"), "{told}");
        assert!(config("none").stamps(StampedBy::Kernel).is_err());
        // The driver is not asked whether it can, but opened all the same.
        let nic = Config { stamped_by: Some(StampedBy::Nic), ..config("a") };
        let told = PacketLink::open(&nic).map(|_| ()).expect_err("no stamps").to_string();
        assert!(told.contains("a's NIC"), "{told}");
        let told = PacketLink::open(&config("none")).map(|_| ()).expect_err("no interface").to_string();
        assert!(told.contains("none"), "{told}");
    });
}

#[test]
fn an_interface_that_goes_down_is_noticed() {
    with_veth(|| {
        let mut a = open("a", None);
        let down = Command::new("ip").args(["link", "set", "dev", "a", "down"]).status();
        assert!(down.is_ok_and(|status| status.success()));
        wait_until(&mut a, LinkState::Down);
        send(&mut a, &frame(1, false), false);
        let counters = a.counters();
        assert_eq!((counters.tx_dropped, counters.tx_frames, counters.disconnects), (1, 0, 1));
        assert_eq!(a.split().0.receive(Time::ZERO, 8), 0);
    });
}
