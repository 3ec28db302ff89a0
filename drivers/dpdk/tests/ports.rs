//! Virtual devices of the distribution's DPDK, driven by this crate. One
//! process has one DPDK, and the tests of this file share it.
#![cfg(feature = "libdpdk")]

use core::time::Duration;
use dpdk::{Dpdk, DpdkLink};
use link::{Link, LinkState, Receive, Transmit};
use memif::{Address, MemifLink, Role};
use std::path::PathBuf;
use wire::{Offload, Time};

/// Without huge pages, so that the tests run anywhere.
const ORDINARY: &str = "huge=off,memory=512";

/// Waits of a millisecond: far more than anything here takes, on a machine
/// busy with other tests.
const PATIENCE: usize = 30_000;

/// Frames of a test that counts them.
const FRAMES: usize = 5_000;

fn open(link: &str) -> DpdkLink {
    let link = format!("dpdk:{link},{ORDINARY}");
    DpdkLink::open(&link.parse().unwrap()).unwrap_or_else(|why| panic!("{why}"))
}

/// A clock for `poll_control`.
fn later(now: &mut Time) -> Time {
    *now = *now + Duration::from_millis(10);
    *now
}

fn wait_until(link: &mut impl Link, state: LinkState) {
    let mut now = Time::ZERO;
    for _ in 0..PATIENCE {
        if link.poll_control(later(&mut now)) == state {
            return;
        }
        // What nobody took would end each wait.
        link.split().0.receive(Time::ZERO, 32);
        link.split().0.release();
        link.wait(None, Duration::from_millis(1)).unwrap();
    }
    panic!("the link does not become {state:?}");
}

/// Frame `number`: 60 to 1,514 bytes that follow from it.
fn frame(number: usize) -> Vec<u8> {
    let len = 60 + number * 7919 % 1455;
    let mut frame: Vec<u8> = (0..len).map(|index| (number * 31 + index) as u8).collect();
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xB5]); // Local experimental EtherType, IEEE 802.
    frame[14..22].copy_from_slice(&(number as u64).to_be_bytes());
    frame
}

/// Sends frame `number` if there is room.
fn send(link: &mut impl Link, number: usize) -> bool {
    let mut tx = link.split().1;
    let Some(slot) = tx.slot() else { return false };
    let frame = frame(number);
    slot[..frame.len()].copy_from_slice(&frame);
    tx.commit(frame.len(), Offload::NONE);
    true
}

/// Takes what came, which must be the frames from `got` on; returns how many.
fn take(link: &mut impl Link, got: usize) -> usize {
    let mut rx = link.split().0;
    let count = rx.receive(Time::ZERO, 32);
    (0..count).for_each(|index| assert_eq!(rx.frame(index), frame(got + index), "frame {}", got + index));
    rx.release();
    count
}

/// Sends FRAMES frames one way, with a few under way, and looks at each.
fn carry(from: &mut impl Link, to: &mut impl Link) {
    let (mut waits, mut sent, mut got) = (0, 0, 0);
    while got < FRAMES {
        assert!(waits < PATIENCE, "{got} of {sent} frames came");
        while sent < FRAMES && sent - got < 100 && send(from, sent) {
            sent += 1;
        }
        from.split().1.flush(Time::ZERO);
        let count = take(to, got);
        got += count;
        if count == 0 {
            waits += 1;
            to.wait(None, Duration::from_millis(1)).unwrap();
        }
    }
    let (out, into) = (from.counters(), to.counters());
    assert_eq!((out.tx_frames, into.rx_frames), (FRAMES as u64, FRAMES as u64));
    assert_eq!((out.tx_bytes, into.rx_dropped, out.tx_dropped), (into.rx_bytes, 0, 0));
}

#[test]
fn a_ring_gives_back_what_is_sent() {
    let mut link = open("net_ring0");
    wait_until(&mut link, LinkState::Up);
    let before = link.buffers_in_use();
    let (mut sent, mut got) = (0, 0);
    while got < FRAMES {
        while sent < FRAMES && sent - got < 64 && send(&mut link, sent) {
            sent += 1;
        }
        link.split().1.flush(Time::ZERO);
        got += take(&mut link, got);
    }
    assert_eq!(link.counters().rx_frames, FRAMES as u64);
    // But for slots that are filled ahead.
    assert!(link.buffers_in_use() <= before + 32, "{} buffers are in use", link.buffers_in_use());
}

#[test]
fn a_full_port_leaves_frames_waiting_and_loses_none() {
    let mut link = open("net_ring1");
    wait_until(&mut link, LinkState::Up);
    let mut sent = 0;
    loop {
        let room = link.split().1.room();
        let mut committed = 0;
        while send(&mut link, sent) {
            (sent, committed) = (sent + 1, committed + 1);
        }
        assert_eq!(committed, room, "room is neither more nor less than what fits");
        link.split().1.flush(Time::ZERO);
        if link.split().1.room() == 0 {
            break;
        }
    }
    assert!(link.counters().tx_full > 0 && sent > 1_000, "{sent} frames");
    let mut got = 0;
    while got < sent {
        let count = take(&mut link, got);
        assert!(count > 0 || got > 0, "frames come");
        got += count;
        link.split().1.flush(Time::ZERO);
    }
    assert_eq!(link.counters().tx_frames, sent as u64);
}

#[test]
fn a_frame_that_the_port_never_takes_does_not_hold_up_the_others() {
    let mut link = open("net_ring3");
    wait_until(&mut link, LinkState::Up);
    let mut sent = 0;
    while send(&mut link, sent) {
        sent += 1;
        link.split().1.flush(Time::ZERO);
    }
    let mut now = Time::from_nanos(1_000_000_000);
    link.poll_control(now);
    link.poll_control(later(&mut now));
    assert_eq!(link.counters().tx_dropped, 0, "it may be full for a while");
    link.poll_control(now + Duration::from_millis(400));
    assert_eq!(link.counters().tx_dropped, 1);
    // A consumer that goes on finds the others, in order.
    let taken = take(&mut link, 0);
    assert!(taken > 0);
}

/// Peers that come and go in the middle of traffic: DPDK unmaps their memory
/// on a thread of its own.
#[test]
fn a_peer_may_go_in_the_middle_of_a_burst() {
    let path = socket("gone");
    let mut dpdk = open(&format!("net_memif50,dev.role=server,dev.socket={},dev.socket-abstract=no", path.display()));
    let mut now = Time::ZERO;
    for round in 0..10 {
        let config =
            memif::Config { hugepages: false, ..memif::Config::new(Address::Path(path.clone()), Role::Client) };
        let mut native = MemifLink::open(config).unwrap();
        let mut waits = 0;
        while (dpdk.poll_control(later(&mut now)) == LinkState::Down) | (native.poll_control(now) == LinkState::Down) {
            assert!(waits < PATIENCE, "no connection in round {round}: {:?}", native.status());
            waits += 1;
            native.wait(None, Duration::from_millis(1)).unwrap();
        }
        let peer = std::thread::spawn(move || {
            for number in 0..2_000 {
                send(&mut native, number);
                native.split().1.flush(Time::ZERO);
            }
        });
        while !peer.is_finished() {
            dpdk.split().0.receive(Time::ZERO, 32);
            dpdk.split().0.release();
            send(&mut dpdk, round);
            dpdk.split().1.flush(Time::ZERO);
        }
        peer.join().unwrap();
        wait_until(&mut dpdk, LinkState::Down);
    }
    assert_eq!(dpdk.counters().disconnects, 10);
}

#[test]
fn no_buffer_is_lost() {
    let mut link = open("net_null0");
    wait_until(&mut link, LinkState::Up);
    for round in 0..1_000 {
        assert!(link.split().0.receive(Time::ZERO, 32) > 0);
        assert_eq!(link.split().0.frame(0).len(), 64, "what net_null receives");
        for number in 0..round % 50 {
            assert!(send(&mut link, number));
        }
        link.split().1.flush(Time::ZERO);
        link.split().0.release();
        if round % 3 == 0 {
            link.wait(None, Duration::from_millis(1)).unwrap();
        }
    }
    // Slots filled ahead, and a burst that the wait has looked at.
    assert!(link.buffers_in_use() <= 64, "{} buffers are in use", link.buffers_in_use());
}

#[test]
fn a_slot_that_is_not_committed_is_offered_again() {
    let mut link = open("net_null1");
    let tx = link.split().1;
    let first = tx.slot().unwrap().as_ptr();
    assert_eq!(tx.slot().unwrap().as_ptr(), first);
    assert!(tx.slot().unwrap().len() >= 1518);
    tx.commit(60, Offload::NONE);
    tx.commit(60, Offload::NONE);
    assert_eq!(tx.room(), 255, "a commit without a slot does nothing");
    assert_ne!(tx.slot().unwrap().as_ptr(), first);
}

#[test]
fn a_link_knows_where_its_packets_lie() {
    let mut link = open("net_null2");
    let slot = link.split().1.slot().unwrap().as_ptr() as usize;
    let mut inside = 0;
    link.memory(&mut |range| inside += usize::from(range.contains(&slot)));
    assert_eq!(inside, 1);
}

#[test]
fn several_queues_are_several_links() {
    let config = format!("dpdk:net_ring2,queues=1,{ORDINARY}").parse().unwrap();
    let port = Dpdk::open(&config).unwrap();
    assert_eq!((port.facts().driver.as_str(), port.facts().queues), ("net_ring", 1));
    assert_eq!(port.split_queues().len(), 1);
}

fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearside-dpdk-{}-{name}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// DPDK's memif and our own, one after the other in each role.
fn memif_pair(name: &str, ours: Role, more: &str) -> (DpdkLink, MemifLink) {
    let path = socket(name);
    let native = || {
        let config = memif::Config { hugepages: false, ..memif::Config::new(Address::Path(path.clone()), ours) };
        MemifLink::open(config).unwrap()
    };
    let role = if ours == Role::Server { "client" } else { "server" };
    let number = name.len();
    let theirs = format!(
        "net_memif{number},dev.role={role},dev.socket={},dev.socket-abstract=no,dev.rsize=8{more}",
        path.display()
    );
    let (mut dpdk, mut native) = match ours {
        Role::Server => {
            let native = native();
            (open(&theirs), native)
        }
        Role::Client => {
            let dpdk = open(&theirs);
            (dpdk, native())
        }
    };
    let (mut waits, mut now) = (0, Time::ZERO);
    // Both are polled: one needs the other to go on.
    while (dpdk.poll_control(later(&mut now)) == LinkState::Down) | (native.poll_control(now) == LinkState::Down) {
        assert!(waits < PATIENCE, "no connection: {:?}", native.status());
        waits += 1;
        native.wait(None, Duration::from_millis(1)).unwrap();
    }
    (dpdk, native)
}

#[test]
fn frames_pass_between_dpdk_as_client_and_our_memif() {
    let (mut dpdk, mut native) = memif_pair("c", Role::Server, "");
    carry(&mut dpdk, &mut native);
    carry(&mut native, &mut dpdk);
}

#[test]
fn frames_pass_between_dpdk_as_server_and_our_memif() {
    let (mut dpdk, mut native) = memif_pair("se", Role::Client, "");
    carry(&mut dpdk, &mut native);
    carry(&mut native, &mut dpdk);
}

#[test]
fn frames_pass_out_of_dpdks_own_buffers() {
    let (mut dpdk, mut native) = memif_pair("zer", Role::Server, ",dev.zero-copy=yes");
    carry(&mut dpdk, &mut native);
    carry(&mut native, &mut dpdk);
}

#[test]
fn what_is_sent_into_a_link_that_went_down_is_dropped_and_counted() {
    let (mut dpdk, native) = memif_pair("down", Role::Server, "");
    drop(native);
    wait_until(&mut dpdk, LinkState::Down);
    for number in 0..100 {
        assert!(send(&mut dpdk, number));
    }
    dpdk.split().1.flush(Time::ZERO);
    assert_eq!(dpdk.counters().tx_dropped, 100);
    assert_eq!(dpdk.counters().disconnects, 1);
    assert_eq!(dpdk.split().1.room(), 256);
}

#[test]
fn messages_say_what_is_wrong() {
    // With the options of the other tests: whoever is first starts DPDK.
    let message = |link: &str| {
        let link = format!("dpdk:{link},{ORDINARY}");
        DpdkLink::open(&link.parse().unwrap()).unwrap_err().to_string()
    };
    drop(open("net_null9"));
    let none = message("ffff:1f:1f.7");
    assert!(none.contains("there is no network device ffff:1f:1f.7"), "{none}");
    let unknown = message("net_nonsense0");
    assert!(unknown.contains("does not take the device"), "{unknown}");
    let queues = message("net_ring9,queues=2,dev.nodeaction=x");
    assert!(queues.contains("cannot open dpdk:net_ring9"), "{queues}");
    let other = DpdkLink::open(&"dpdk:net_null8,memory=64,huge=off".parse().unwrap()).unwrap_err().to_string();
    assert!(other.contains("runs already with other options"), "{other}");
}

#[test]
fn the_start_leaves_threads_where_they_may_run() {
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let _link = open("net_null7");
    assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
}

/// A capture of these frames, in pcap's oldest form, with a time in seconds and
/// microseconds each.
fn capture(frames: &[(Vec<u8>, u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Magic, version 2.4, zone, accuracy, longest, and Ethernet.
    [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    for (frame, seconds, micros) in frames {
        let len = frame.len() as u32;
        [*seconds, *micros, len, len].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn a_frame_has_the_stamp_that_its_driver_left_beside_it() {
    let folder = std::env::temp_dir().join(format!("nearside-dpdk-stamps-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // Not in order, and one at the beginning of time, which is no lack of a stamp.
    let times = [(1_790_000_000, 123_456), (1_790_000_000, 123_455), (0, 0), (2_000_000_000, 999_999)];
    let frames: Vec<_> = (0..).zip(times).map(|(number, (at, micros))| (frame(number), at, micros)).collect();
    std::fs::write(folder.join("in.pcap"), capture(&frames)).unwrap();
    let open = |device: &str, stamps| {
        let config = format!("dpdk:{device},{ORDINARY}").parse().unwrap();
        DpdkLink::open(&dpdk::Config { stamps, ..config }).unwrap_or_else(|why| panic!("{why}"))
    };
    for stamps in [false, true] {
        let files = format!("dev.rx_pcap={0}/in.pcap,dev.tx_pcap={0}/out.pcap", folder.display());
        let mut link = open(&format!("net_pcap{},{files}", u8::from(stamps)), stamps);
        wait_until_came(&mut link, times.len(), |rx, index| {
            let (seconds, micros) = times[index];
            // In its driver's unit: microseconds.
            let want = stamps.then_some(u64::from(seconds) * 1_000_000 + u64::from(micros));
            assert_eq!(rx.stamp(index), want, "frame {index}");
        });
        // It has neither a clock nor stamps of what leaves, and is never said to.
        let told = link.facts().stamps.clone();
        assert_eq!(told.is_some(), stamps);
        let why = told.map(|told| told.expect_err("a capture has no clock")).unwrap_or_default();
        assert!(!stamps || why.contains("net_pcap does not stamp frames that leave"), "{why}");
        let tx = link.split().1;
        tx.stamp_next();
        assert!(send(&mut link, 0));
        let tx = link.split().1;
        tx.flush(Time::ZERO);
        tx.departed(&mut |_, stamp| panic!("a stamp from nowhere: {stamp}"));
    }
    // A driver that leaves none has none, though the field is there.
    let mut link = open("net_ring9", true);
    wait_until(&mut link, LinkState::Up);
    assert!(send(&mut link, 7));
    link.split().1.flush(Time::ZERO);
    wait_until_came(&mut link, 1, |rx, index| assert_eq!(rx.stamp(index), None));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Waits for frames, all in one burst, and shows each.
fn wait_until_came(link: &mut DpdkLink, count: usize, mut show: impl FnMut(&dpdk::DpdkRx, usize)) {
    for _ in 0..PATIENCE {
        let rx = link.split().0;
        let came = rx.receive(Time::ZERO, 32);
        if came > 0 {
            assert_eq!((came, rx.stamp(came)), (count, None));
            (0..came).for_each(|index| show(rx, index));
            rx.release();
            return;
        }
        link.wait(None, Duration::from_millis(1)).unwrap();
    }
    panic!("nothing comes");
}
