//! The driver against this kernel, each test in a network namespace of its
//! own. Without the right to make one they say so and pass, unless `CI` or
//! `NEARSIDE_REQUIRE_TOOLS` says that they must run.

use super::*;
use core::net::SocketAddr;
use std::net::UdpSocket;
use std::process::Command;
use wire::offload::PartialChecksum;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 2];
const V4: &str = "tap:near0,addr=10.9.0.1/24";

/// Runs `test` on a thread in a new network namespace, which ends with it.
fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let run = move || {
        // SAFETY: takes flags by value and moves only this thread.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let tun = std::fs::File::open("/dev/net/tun");
        if moved && tun.is_ok() {
            test();
            return;
        }
        let why = if moved { "/dev/net/tun does not open" } else { "no right to make a namespace" };
        let required = |name| std::env::var_os(name).is_some();
        assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "{why}; run as root");
        println!("skipped: {why}; run as root");
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

fn open(text: &str) -> Tap {
    Tap::open(&text.parse().unwrap()).unwrap()
}

/// Longer than the suite lets the program run: the kernel answers in its own time.
const LONG: Duration = Duration::from_secs(3_600);

/// Answers ARP for 10.9.0.2 and neighbour solicitations for fd09::2 until a
/// frame satisfies `wanted`, and returns it with whether it was vouched for. Waits as long
/// as the suite lets the program run.
fn receive_until(tap: &mut Tap, wanted: impl Fn(&[u8]) -> bool) -> (Vec<u8>, bool) {
    loop {
        let (rx, tx) = tap.split();
        let mut found = None;
        for i in 0..rx.receive(Time::ZERO, 32) {
            let frame = rx.frame(i);
            if let Some(reply) = arp_reply(frame).or_else(|| neighbour_reply(frame)) {
                tx.slot().unwrap()[..reply.len()].copy_from_slice(&reply);
                tx.commit(reply.len(), Offload::NONE);
            } else if found.is_none() && wanted(frame) {
                found = Some((frame.to_vec(), rx.verified(i)));
            }
        }
        rx.release();
        tx.flush(Time::ZERO);
        if let Some(found) = found {
            return found;
        }
        tap.wait(None, Duration::from_millis(100)).unwrap();
    }
}

fn arp_reply(frame: &[u8]) -> Option<Vec<u8>> {
    let asked = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[38..42] == [10, 9, 0, 2];
    asked.then(|| {
        let mut reply = [&frame[6..12], &OURS, &frame[12..21], &[2], &OURS].concat();
        reply.extend([10, 9, 0, 2]);
        reply.extend(&frame[22..32]);
        reply
    })
}

fn neighbour_reply(frame: &[u8]) -> Option<Vec<u8>> {
    let ours: [u8; 16] = "fd09::2".parse::<core::net::Ipv6Addr>().unwrap().octets();
    let asked = frame.len() >= 78 && frame[12..14] == [0x86, 0xdd] && frame[54] == 135;
    (asked && frame[62..78] == ours).then(|| {
        let mut reply = [&frame[6..12], &OURS, &frame[12..22], &ours, &frame[22..38]].concat();
        reply.extend([136, 0, 0, 0, 0x60, 0, 0, 0]);
        reply.extend(ours);
        reply.extend([2, 1]);
        reply.extend(OURS);
        let checksum = !fold(words(&reply[22..54]) + 58 + 32 + words(&reply[54..]));
        reply[56..58].copy_from_slice(&checksum.to_be_bytes());
        reply
    })
}

fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// An IP packet of ours to the kernel, behind its Ethernet header, with the
/// pseudo-header's sum at `field` of the transport header.
fn packet(mac: &[u8], v6: bool, protocol: u8, transport: &[u8], field: usize) -> (Vec<u8>, usize) {
    let mut f = [mac, &OURS].concat();
    let len = transport.len() as u16;
    let addresses;
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend(len.to_be_bytes());
        f.extend([protocol, 64]);
        addresses = f.len()..f.len() + 32;
        for last in [2, 1] {
            f.extend([0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
    } else {
        f.extend([8, 0, 0x45, 0]);
        f.extend((20 + len).to_be_bytes());
        f.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        addresses = f.len()..f.len() + 8;
        f.extend([10, 9, 0, 2, 10, 9, 0, 1]);
        let checksum = !fold(words(&f[14..34]));
        f[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    let pseudo = fold(words(&f[addresses]) + u32::from(protocol) + u32::from(len));
    let start = f.len();
    f.extend(transport);
    f[start + field..start + field + 2].copy_from_slice(&pseudo.to_be_bytes());
    (f, start)
}

fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    [&7u16.to_be_bytes()[..], &to.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload].concat()
}

fn send(tap: &mut Tap, frame: &[u8], offload: Offload) {
    let tx = tap.split().1;
    tx.slot().unwrap()[..frame.len()].copy_from_slice(frame);
    tx.commit(frame.len(), offload);
    tx.flush(Time::ZERO);
}

/// Has the kernel's side send, and returns its Ethernet address.
fn learn_mac(tap: &mut Tap, socket: &UdpSocket, to: SocketAddr) -> Vec<u8> {
    socket.send_to(b"hello", to).unwrap();
    let (frame, verified) = receive_until(tap, |f| f.ends_with(b"hello"));
    assert_eq!(verified, tap.capabilities().receive_checksum);
    frame[6..12].to_vec()
}

#[test]
fn udp_passes_both_ways_with_and_without_offload() {
    for text in [V4, "tap:near0,addr=10.9.0.1/24,offload=off"] {
        in_namespace(move || {
            let mut tap = open(text);
            assert_eq!(tap.poll_control(Time::ZERO), LinkState::Up);
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            let port = socket.local_addr().unwrap().port();
            let mac = learn_mac(&mut tap, &socket, "10.9.0.2:7".parse().unwrap());

            let (mut frame, start) = packet(&mac, false, 17, &udp(port, b"answer!"), 6);
            let offload = if tap.capabilities().transmit_checksum {
                let checksum = Some(PartialChecksum { start: start as u16, field: 6 });
                Offload { checksum, segment: None }
            } else {
                let checksum = !fold(words(&frame[start..]));
                frame[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
                Offload::NONE
            };
            send(&mut tap, &frame, offload);
            socket.set_read_timeout(Some(LONG)).unwrap();
            let mut buffer = [0; 64];
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"answer!");
            assert_eq!(from, "10.9.0.2:7".parse().unwrap());
            let counters = tap.counters();
            assert!(counters.rx_frames >= 2 && counters.tx_frames >= 2);
            assert_eq!((counters.rx_dropped, counters.tx_dropped), (0, 0));
        });
    }
}

#[test]
fn an_ipv6_address_works_at_once_and_twice_is_no_error() {
    in_namespace(|| {
        let text = "tap:near0,addr=fd09::1/64,addr=10.9.0.1/24,mtu=1400";
        let mut tap = open(text);
        assert_eq!(tap.capabilities().mtu, 1400);
        let control = Control::new(&text.parse().unwrap()).unwrap();
        control.configure(&text.parse().unwrap()).unwrap();
        // Binding fails while an address is in duplicate detection, which
        // would take a second at least.
        let socket = bind("[fd09::1]:0");
        learn_mac(&mut tap, &socket, "[fd09::2]:7".parse().unwrap());
    });
}

/// A socket on an address that the kernel may take a moment to make usable
/// after the device came up.
fn bind(address: &str) -> UdpSocket {
    for _ in 0..3_000 {
        match UdpSocket::bind(address) {
            Err(why) if why.kind() == io::ErrorKind::AddrNotAvailable => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound.unwrap(),
        }
    }
    panic!("{address} did not become usable in half a minute");
}

/// RFC 9293, section 3.10.7.1: without ACK bit, the reset acknowledges all of
/// the segment. So its number shows how much the kernel took as one.
#[test]
fn the_kernel_takes_a_large_packet_of_tcp_whole() {
    for v6 in [false, true] {
        in_namespace(move || {
            let mut tap = open("tap:near0,addr=10.9.0.1/24,addr=fd09::1/64");
            assert_eq!(tap.capabilities().segmentation, Some(65_535));
            let to = if v6 { "[fd09::2]:7" } else { "10.9.0.2:7" };
            let from = if v6 { "[fd09::1]:0" } else { "10.9.0.1:0" };
            let socket = bind(from);
            let mac = learn_mac(&mut tap, &socket, to.parse().unwrap());

            let mut segment = vec![0, 7, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 4, 0, 0, 0, 0, 0];
            segment.resize(20 + 60_000, 0xab);
            let (frame, start) = packet(&mac, v6, 6, &segment, 16);
            let checksum = Some(PartialChecksum { start: start as u16, field: 16 });
            send(&mut tap, &frame, Offload { checksum, segment: Some(1400) });
            assert_eq!(tap.counters().tx_dropped, 0);
            let next_header = if v6 { 20 } else { 23 };
            let (reset, _) = receive_until(&mut tap, |f| f.len() > start + 19 && f[next_header] == 6);
            assert_eq!(reset[start + 13] & 0x14, 0x14, "RST and ACK");
            assert_eq!(reset[start + 8..start + 12], 60_000u32.to_be_bytes());
        });
    }
}

#[test]
fn large_frames_come_when_asked_for_only() {
    for large in [false, true] {
        in_namespace(move || {
            let mut tap = open(if large { "tap:near0,addr=10.9.0.1/24,large=on" } else { V4 });
            let connecting = std::thread::spawn(|| {
                let mut stream = std::net::TcpStream::connect("10.9.0.2:80").unwrap();
                std::io::Write::write_all(&mut stream, &[0x5a; 10_000]).unwrap();
                stream
            });
            let (syn, _) = receive_until(&mut tap, |f| f.len() > 53 && f[23] == 6 && f[47] == 0x02);
            // SYN and ACK, sequence number 0, MSS 1460, a window of 64 KiB.
            let ack = u32::from_be_bytes(syn[38..42].try_into().unwrap()).wrapping_add(1);
            let mut segment = [&syn[36..38], &syn[34..36], &[0; 4], &ack.to_be_bytes()].concat();
            segment.extend([0x60, 0x12, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 0x05, 0xb4]);
            let (frame, start) = packet(&syn[6..12], false, 6, &segment, 16);
            let checksum = Some(PartialChecksum { start: start as u16, field: 16 });
            send(&mut tap, &frame, Offload { checksum, segment: None });
            let (data, verified) = receive_until(&mut tap, |f| f.len() > 100 && f[23] == 6);
            assert!(verified);
            let segments = (data.len() - 54) as f64 / 1460.0;
            assert!(if large { segments >= 2.0 } else { segments == 1.0 }, "{segments}");
            drop(connecting.join().unwrap());
        });
    }
}

#[test]
fn a_deleted_device_is_down_and_what_is_sent_counted() {
    in_namespace(|| {
        let mut tap = open(V4);
        assert_eq!(tap.poll_control(Time::ZERO), LinkState::Up);
        let deleted = Command::new("ip").args(["link", "del", "near0"]).status().unwrap();
        assert!(deleted.success());
        tap.wait(None, LONG).unwrap();
        tap.split().0.receive(Time::ZERO, 32);
        assert_eq!(tap.poll_control(Time::ZERO), LinkState::Down);
        send(&mut tap, &[0; 60], Offload::NONE);
        let counters = tap.counters();
        assert_eq!((counters.tx_dropped, counters.disconnects), (1, 1));
        // Sleeping must not become spinning, nor fail.
        tap.wait(None, Duration::from_millis(20)).unwrap();
        let (wake, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        tap.wait(Some(wake.as_fd()), Duration::from_millis(20)).unwrap();
    });
}

#[test]
fn an_interface_set_down_and_up_is_noticed() {
    in_namespace(|| {
        let mut tap = open(V4);
        let mut now = Time::ZERO;
        assert_eq!(tap.poll_control(now), LinkState::Up);
        for (state, expected) in [("down", LinkState::Down), ("up", LinkState::Up)] {
            let set = Command::new("ip").args(["link", "set", "near0", state]).status().unwrap();
            assert!(set.success());
            now = now + STATE_INTERVAL;
            assert_eq!(tap.poll_control(now), expected);
            send(&mut tap, &[0xff; 60], Offload::NONE);
        }
        let counters = tap.counters();
        assert_eq!((counters.tx_dropped, counters.tx_frames, counters.disconnects), (1, 1, 1));
    });
}

#[test]
fn a_full_transmit_ring_refuses_and_counts() {
    in_namespace(|| {
        let mut tap = open("tap:near0,ring=2");
        let tx = tap.split().1;
        for _ in 0..2 {
            assert!(tx.slot().is_some());
            tx.commit(60, Offload::NONE);
        }
        assert_eq!((tx.room(), tx.slot().is_none()), (0, true));
        tx.flush(Time::ZERO);
        assert_eq!((tx.room(), tx.slot().is_some()), (2, true));
        assert_eq!(tap.counters().tx_full, 1);
    });
}

#[test]
fn every_queue_is_a_link() {
    in_namespace(|| {
        let config: Config = "tap:near0,addr=10.9.0.1/24,queues=2".parse().unwrap();
        let mut taps = Tap::open_queues(&config).unwrap();
        assert_eq!((taps.len(), taps[0].capabilities().queues), (2, 2));
        for tap in &mut taps {
            send(tap, &[0xff; 60], Offload::NONE);
            assert_eq!((tap.counters().tx_frames, tap.counters().tx_dropped), (1, 0));
        }
        let error = Tap::open(&config).err().unwrap().to_string();
        assert!(error.contains("number of queues"), "{error}");
    });
}

#[test]
fn a_device_in_use_is_said() {
    in_namespace(|| {
        let _tap = open(V4);
        let error = Tap::open(&V4.parse().unwrap()).err().unwrap();
        assert!(error.to_string().contains("another process has it open"), "{error}");
        assert!(!error.is_permission());
    });
}

/// The kernel settles addresses on a thread of its own: who connects before would come from ::1, or
/// from the link-local one.
#[test]
fn addresses_are_settled_when_the_device_is_open() {
    in_namespace(|| {
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        // A program that another test starts may hold a device for a moment: each has a name of its own.
        for number in 10..50 {
            let _tap = open(&format!("tap:near{number},addr=fd{number}::1/64"));
            let socket = UdpSocket::bind("[::]:0").unwrap();
            socket.connect(format!("[fd{number}::2]:7")).unwrap();
            assert_eq!(socket.local_addr().unwrap().ip().to_string(), format!("fd{number}::1"));
        }
    });
}

#[test]
fn a_missing_capability_is_named_with_what_to_run() {
    in_namespace(|| {
        // SAFETY: takes numbers by value; as a raw call it changes this
        // thread only, which ends with the test.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        assert_eq!(changed, 0);
        let error = Tap::open(&V4.parse().unwrap()).err().unwrap();
        assert!(error.is_permission(), "{error}");
        let text = error.to_string();
        assert!(text.contains("CAP_NET_ADMIN") && text.contains("ip tuntap add dev near0"), "{text}");
    });
}

#[test]
fn a_prepared_device_needs_no_right_to_configure_it() {
    in_namespace(|| {
        let run = |args: &[&str]| assert!(Command::new("ip").args(args).status().unwrap().success());
        run(&["tuntap", "add", "dev", "near0", "mode", "tap", "user", "65534", "vnet_hdr"]);
        run(&["addr", "add", "10.9.0.1/24", "dev", "near0"]);
        run(&["addr", "add", "fd09::1/64", "dev", "near0", "nodad"]);
        run(&["link", "set", "near0", "up"]);
        // SAFETY: as above, for this thread only.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        assert_eq!(changed, 0);
        let text = "tap:near0,mtu=1500,addr=10.9.0.1/24,addr=fd09::1/64";
        let mut tap = open(text);
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        learn_mac(&mut tap, &socket, "10.9.0.2:7".parse().unwrap());
    });
}

/// A device that is deleted under the link: it is down, says so, sleeps, and
/// takes up a new one of the same name, with another index, where there is
/// one.
#[test]
fn a_deleted_device_is_attached_to_again_when_it_is_back() {
    in_namespace(|| {
        let run = |args: &[&str]| assert!(Command::new("ip").args(args).status().unwrap().success(), "{args:?}");
        run(&["tuntap", "add", "dev", "near0", "mode", "tap", "vnet_hdr"]);
        let mut tap = open("tap:near0,mtu=1400,addr=10.9.0.1/24");
        let mut now = Time::ZERO;
        let mut look = |tap: &mut Tap| {
            now = now + STATE_INTERVAL;
            tap.split().0.receive(now, 32);
            tap.split().0.release();
            (tap.poll_control(now), tap.is_gone())
        };
        while look(&mut tap) != (LinkState::Up, false) {}
        for _ in 0..2 {
            let before = tap.counters().disconnects;
            run(&["link", "del", "near0"]);
            while look(&mut tap) != (LinkState::Down, true) {}
            // What is sent meanwhile is dropped, and nothing spins.
            send(&mut tap, &[0xff; 60], Offload::NONE);
            tap.wait(None, Duration::from_millis(1)).unwrap();
            for _ in 0..3 {
                assert_eq!(look(&mut tap), (LinkState::Down, true));
            }
            assert_eq!(tap.counters().disconnects, before + 1);
            run(&["tuntap", "add", "dev", "near0", "mode", "tap", "vnet_hdr"]);
            while look(&mut tap) != (LinkState::Up, false) {}
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            learn_mac(&mut tap, &socket, "10.9.0.2:7".parse().unwrap());
            assert_eq!(tap.control.mtu().unwrap(), 1_400);
        }
    });
}

/// A link is opened by one thread and may be run, wrapped or not, by another.
#[test]
fn a_link_may_move_to_its_silo() {
    fn moves<T: Send>() {}
    moves::<Tap>();
    moves::<link::Capture<link::Faults<Tap>, std::fs::File>>();
}
