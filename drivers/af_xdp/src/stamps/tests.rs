//! Stamps, by hand and in this kernel, over veth: it hands on those that a frame
//! has, of which there are none here, and its departures are stamped by the kernel.

use super::*;
use crate::receive::BURST_LIMIT;
use crate::{AfXdp, Config, CopyChoice, ModeChoice, Stamps, XdpError, XdpLink};
use driver::{Claim, Driver, StampedBy};
use link::{Link, LinkState, Receive, Transmit};
use std::process::Command;
use std::time::Duration;
use wire::{Offload, Time};

const MARK: u64 = 0x0123_4567_89ab_cdef;

fn before(mark: u64, time: u64) -> [u8; BEFORE_ARRIVAL] {
    let mut before = [0; BEFORE_ARRIVAL];
    before[..8].copy_from_slice(&mark.to_ne_bytes());
    before[8..].copy_from_slice(&time.to_ne_bytes());
    before
}

#[test]
fn a_stamp_stands_before_its_frame_once() {
    let mut arrivals = Arrivals::new(MARK, BURST_LIMIT);
    let mut good = before(MARK, 1_234);
    arrivals.take(0, Some(&mut good));
    assert_eq!(arrivals.of(0), Some(1_234));
    // The same memory, before the next frame that the kernel puts there.
    arrivals.take(0, Some(&mut good));
    assert_eq!(arrivals.of(0), None);
    for (mark, time) in [(0, 1_234), (MARK ^ 1, 1_234), (MARK.swap_bytes(), 1_234), (MARK, 0), (u64::MAX, u64::MAX)] {
        arrivals.take(1, Some(&mut before(mark, time)));
        assert_eq!(arrivals.of(1), None, "{mark:x} {time}");
    }
    arrivals.take(2, None);
    assert_eq!((arrivals.of(2), arrivals.of(BURST_LIMIT)), (None, None));
    assert_ne!(new_mark(), new_mark());
}

#[test]
fn an_answer_is_not_an_earlier_ones() {
    let mut before = [0xff; BEFORE_DEPARTURE];
    ask(&mut before);
    assert_eq!((before[0], answer(&before)), (1, None));
    before[8..16].copy_from_slice(&77_u64.to_ne_bytes());
    assert_eq!(answer(&before), Some(77));
}

/// Runs `test` on a thread in a new network namespace with a pair of veth
/// interfaces, `a` and `b`, which ends with it. Without the right to make one it
/// says so, unless `CI` or `NEARSIDE_REQUIRE_TOOLS` says that it must run.
pub(crate) fn with_veth(test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: takes flags by value and moves only this thread.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let ip = |words: &str| {
            moved && Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
        };
        let queues = "numrxqueues 2 numtxqueues 2";
        if ip(&format!("link add name a {queues} type veth peer name b {queues}"))
            && ip("link set dev a up")
            && ip("link set dev b up")
        {
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

fn config(name: &str, stamps: Stamps) -> Config {
    Config { ring: 64, hugepages: false, stamps, ..Config::new(name).expect("a name") }
}

fn open(config: Config) -> Vec<XdpLink> {
    let mut links = AfXdp::open(config, &Claim::Whole).expect("a port").split_queues();
    for link in &mut links {
        link.start().expect("a queue");
        until_up(link);
    }
    links
}

/// Asks by a clock: whoever saw the carrier too early looks again later.
fn until_up(link: &mut XdpLink) {
    until(|| link.poll_control(Time::from_nanos(monotonic())) == LinkState::Up);
}

/// Waits as long as the suite lets the program run, which names tests that have not ended.
fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(link: &mut XdpLink, number: u8, stamped: bool) {
    let (_, tx) = link.split();
    let slot = tx.slot().expect("a slot");
    slot[..60].fill(number);
    // To all, of an EtherType for experiments.
    slot[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    if stamped {
        tx.stamp_next();
    }
    tx.commit(60, Offload::NONE);
    tx.flush(Time::ZERO);
}

/// The kernel sends frames of its own beside ours: IPv6.
fn is_ours(frame: &[u8]) -> bool {
    frame.len() == 60 && frame[12..14] == [0x88, 0xb5]
}

/// The clock that the kernel stamps what it has sent from a socket by, in nanoseconds.
fn now() -> u64 {
    read(libc::CLOCK_TAI)
}

fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one `timespec`.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut at) }, 0);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

const BOTH: Stamps = Stamps { arrivals: true, departures: true, switch_on: false };

/// Frames come by both queues, and go; more of them than the rings have room for,
/// so that each room is used again.
#[test]
fn frames_over_veth_come_without_a_stamp_and_leave_with_the_kernels() {
    if ebpf::Version::running() < ebpf::Version::new(6, 8) {
        println!("skipped: this kernel has no metadata of frames that leave");
        return;
    }
    // On interfaces of their own: what another test starts may hold those of before for a moment.
    for shared_umem in [false, true] {
        with_veth(move || {
            let mut near = open(Config { mode: ModeChoice::Native, shared_umem, ..config("a", BOTH) });
            let mut far = open(Config { mode: ModeChoice::Native, ..config("b", BOTH) });
            let (mut came, mut told) = (0, Vec::new());
            for number in 0..160_u8 {
                let queue = usize::from(number) % near.len();
                let asked = now();
                send(&mut near[queue], number, number % 3 == 0);
                let expected = usize::from(number) + 1;
                until(|| {
                    for link in &mut far {
                        let rx = link.split().0;
                        let count = rx.receive(Time::ZERO, 64);
                        (0..count).for_each(|index| assert_eq!(rx.stamp(index), None));
                        came += (0..count).filter(|index| is_ours(rx.frame(*index))).count();
                        rx.release();
                    }
                    came == expected
                });
                let mut found = None;
                until(|| {
                    near[queue].split().1.departed(&mut |frame, stamp| found = Some((frame.to_vec(), stamp)));
                    found.is_some() || number % 3 != 0
                });
                if let Some((frame, stamp)) = found {
                    assert!(frame.len() == 60 && frame[14..].iter().all(|byte| *byte == number), "{frame:?}");
                    assert!((asked..=now()).contains(&stamp), "{stamp} is not after {asked}");
                    told.push(number);
                }
            }
            assert_eq!(told.len(), 54);
            // Of all rooms none was lost on the way.
            let rooms: Vec<usize> = near
                .iter_mut()
                .map(|link| {
                    let tx = link.split().1;
                    while tx.slot().is_none() {}
                    tx.room()
                })
                .collect();
            assert!(rooms.iter().all(|room| *room > 32), "{rooms:?}");
        });
    }
}

/// The program at work with another clock in the NIC's place: a frame has the time at
/// which it came, or none, whatever stood in its room before.
#[test]
fn what_the_program_writes_is_read_with_its_frame() {
    with_veth(|| {
        let mut near = open(config("a", Stamps::default()));
        let mut port =
            AfXdp::open(Config { mode: ModeChoice::Native, ..config("b", Stamps::default()) }, &Claim::Whole)
                .expect("a port");
        let shared = std::sync::Arc::get_mut(&mut port.shared).expect("no queue is out");
        let filter = crate::filter::Filter::load_stamped_by_clock(2).expect("a program");
        let attachment = shared.attachment.get_mut().expect("a lock").as_ref().expect("an attachment");
        attachment.replace(&filter.program).expect("it is replaced");
        shared.filter = Some(filter);
        let mut far = port.split_queues();
        for link in &mut far {
            link.start().expect("a queue");
            until_up(link);
        }
        for number in 0..160_u8 {
            let queue = usize::from(number / 2) % near.len();
            let asked = monotonic();
            send(&mut near[queue], number, false);
            let mut found = None;
            until(|| {
                for link in &mut far {
                    let rx = link.split().0;
                    let count = rx.receive(Time::ZERO, 64);
                    let ours = (0..count).find(|index| is_ours(rx.frame(*index)));
                    found = found.take().or(ours.map(|index| (rx.frame(index).to_vec(), rx.stamp(index))));
                    rx.release();
                }
                found.is_some()
            });
            let (frame, stamp) = found.expect("a frame");
            assert!(frame.len() == 60 && frame[14..].iter().all(|byte| *byte == number), "{frame:?}");
            match stamp {
                Some(stamp) => assert!(number % 2 == 0 && (asked..=monotonic()).contains(&stamp), "{number}: {stamp}"),
                None => assert_eq!(number % 2, 1, "without a stamp"),
            }
        }
    });
}

#[test]
fn what_has_no_stamps_is_refused_with_the_reason() {
    if ebpf::Version::running() < ebpf::Version::new(6, 3) {
        println!("skipped: this kernel has no metadata of frames that come");
        return;
    }
    with_veth(|| {
        let told = |name: &str, by| config(name, Stamps::default()).stamps(by).expect_err("no stamps");
        let nic = told("a", StampedBy::Nic);
        assert!(nic.contains("a: ") && nic.contains("does not tell sockets when a frame left"), "{nic}");
        assert!(told("none", StampedBy::Nic).contains("none"));
        assert!(told("a", StampedBy::Kernel).contains("af_packet"));
        // Opened all the same.
        let refused = |config: Config, claim: &Claim| match AfXdp::open(config, claim) {
            Ok(_) => panic!("it was opened"),
            Err(why) => why,
        };
        let why = refused(config("a", Stamps { switch_on: true, ..BOTH }), &Claim::Whole);
        assert!(matches!(&why, XdpError::Stamps(told) if told.contains("a's NIC")), "{why}");
        let why = refused(config("lo", BOTH), &Claim::Whole);
        assert!(matches!(why, XdpError::Stamps(_) | XdpError::Interface { .. }), "{why}");
        let why = refused(config("a", BOTH), &Claim::Host { ports: vec![80] });
        assert!(matches!(&why, XdpError::Stamps(told) if told.contains("every frame")), "{why}");
        let why = refused(Config { mode: ModeChoice::Generic, ..config("a", BOTH) }, &Claim::Whole);
        assert!(why.to_string().contains("generic"), "{why}");
        // Frames without a copy, which veth has not, are what a NIC stamps.
        let port = AfXdp::open(Config { copy: CopyChoice::ZeroCopy, ..config("a", BOTH) }, &Claim::Whole);
        let mut links = port.expect("a port").split_queues();
        let why = links[0].start().expect_err("no frames without a copy").to_string();
        assert!(why.contains("--clock tsc"), "{why}");
    });
}
