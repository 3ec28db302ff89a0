//! `TCP_INFO`, and what the network says.

use crate::library::{Library, OURS, PEER_PORT, THEIRS, call, errno};
use core::ffi::c_int;
use libc::{IPPROTO_TCP, SO_ERROR, SOL_SOCKET, TCP_INFO, TCP_MAXSEG};
use wire::icmpv4::Icmpv4;
use wire::ipv4::{self, Ipv4Header};
use wire::protocol;
use wire::tcp::Flags;

struct Info(Vec<u8>);

impl Info {
    fn of(library: &Library, fd: c_int) -> Self {
        Self(library.get(fd, IPPROTO_TCP, TCP_INFO, 280).unwrap())
    }

    /// By its offset in `struct tcp_info`.
    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn congestion_state(&self) -> u8 {
        self.0[1]
    }
}

/// A non-blocking socket that connects to the peer, and the SYN as it was
/// sent.
fn connecting(library: &Library) -> (c_int, Vec<u8>) {
    let fd = call!(library, socket, libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, IPPROTO_TCP);
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: PEER_PORT.to_be(),
        sin_addr: libc::in_addr { s_addr: THEIRS.to_bits().to_be() },
        sin_zero: [0; 8],
    };
    let connected = call!(library, connect, fd, (&raw const address).cast(), size_of_val(&address) as u32);
    assert_eq!((connected, errno()), (-1, libc::EINPROGRESS));
    (fd, library.sniff_packet().1)
}

/// An ICMP error about a packet of ours.
fn error_about(packet: &[u8], kind: u8, code: u8) -> Vec<u8> {
    let original = &packet[..ipv4::HEADER_LEN + 8];
    let message = match kind {
        3 => Icmpv4::DestinationUnreachable { code, original },
        11 => Icmpv4::TimeExceeded { code, original },
        _ => Icmpv4::ParameterProblem { code, pointer: 0, original },
    };
    let len = message.emit_len();
    let mut out = vec![0; ipv4::HEADER_LEN + len];
    let header = Ipv4Header {
        src: THEIRS,
        dst: OURS,
        protocol: protocol::ICMP,
        ttl: 64,
        dscp_ecn: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        header_len: ipv4::HEADER_LEN as u8,
        payload_len: len as u16,
    };
    header.emit(&mut out);
    assert_eq!(message.emit(&mut out[ipv4::HEADER_LEN..]), len);
    out
}

/// Linux: `icmp_err_convert` in net/ipv4/icmp.c, `tcp_v4_err` in
/// net/ipv4/tcp_ipv4.c.
#[test]
fn an_icmp_error_ends_a_connect_as_on_linux() {
    let errors = [
        (3, 0, libc::ENETUNREACH),
        (3, 1, libc::EHOSTUNREACH),
        (3, 2, libc::ENOPROTOOPT),
        (3, 3, libc::ECONNREFUSED),
        (3, 5, libc::EOPNOTSUPP),
        (3, 7, libc::EHOSTDOWN),
        (3, 8, libc::ENONET),
        (3, 9, libc::ENETUNREACH),
        (3, 13, libc::EHOSTUNREACH),
        (11, 0, libc::EHOSTUNREACH),
        (12, 0, libc::EPROTO),
    ];
    for (kind, code, error) in errors {
        let library = Library::new(c"");
        let (fd, syn) = connecting(&library);
        library.arrive(&error_about(&syn, kind, code));
        assert_eq!(library.number(fd, SOL_SOCKET, SO_ERROR), Ok(error), "type {kind} code {code}");
        assert_eq!(library.number(fd, SOL_SOCKET, SO_ERROR), Ok(0), "told once");
    }
    // What is forged, and an unknown code.
    let library = Library::new(c"");
    let (fd, syn) = connecting(&library);
    library.arrive(&error_about(&syn, 3, 16));
    let mut forged = syn.clone();
    forged[ipv4::HEADER_LEN + 5] ^= 1;
    library.arrive(&error_about(&forged, 3, 3));
    assert_eq!(library.number(fd, SOL_SOCKET, SO_ERROR), Ok(0));
    assert_eq!((library.read(fd), Info::of(&library, fd).0[0]), (Err(libc::EAGAIN), 2), "SYN-SENT");
}

/// RFC 1122 section 4.2.3.9, RFC 5461 section 2: it is told when asked for,
/// and as the reason of a connection that is given up.
#[test]
fn an_icmp_error_on_an_established_connection_is_soft() {
    for asked in [false, true] {
        let library = Library::new(c"timestamps=off,retries=3");
        let listener = library.listener();
        library.handshake();
        let fd = library.accept(listener);
        assert_eq!(library.write(fd, b"lost"), 4);
        let (_, lost) = library.sniff_packet();
        library.arrive(&error_about(&lost, 3, 3));
        assert_eq!(library.write(fd, b"more"), 4, "it goes on");
        if asked {
            assert_eq!(library.number(fd, SOL_SOCKET, SO_ERROR), Ok(libc::ECONNREFUSED));
            assert_eq!(library.number(fd, SOL_SOCKET, SO_ERROR), Ok(0));
        }
        assert_eq!(call!(library, usleep, 60_000_000), 0);
        let why = if asked { libc::ETIMEDOUT } else { libc::ECONNREFUSED };
        assert_eq!((library.write(fd, b"more"), errno()), (-1, why));
    }
}

/// Data is waited for in SYN-SENT and SYN-RECEIVED, as on Linux.
#[test]
fn a_read_before_the_handshake_is_complete_waits() {
    let library = Library::new(c"timestamps=off");
    let (fd, syn) = connecting(&library);
    let (_, segment) = Ipv4Header::parse(&syn).unwrap();
    let port = u16::from_be_bytes([segment[0], segment[1]]);
    let iss = u32::from_be_bytes(segment[4..8].try_into().unwrap());
    assert_eq!(library.read(fd), Err(libc::EAGAIN));
    assert_eq!((library.write(fd, b"early"), errno()), (-1, libc::EAGAIN));
    // Simultaneous open (RFC 9293 section 3.5, figure 7).
    library.inject_to(port, Flags::SYN, 100, 0, &[]);
    assert_eq!(library.sniff().1.flags, Flags::SYN | Flags::ACK);
    assert_eq!((library.read(fd), Info::of(&library, fd).0[0]), (Err(libc::EAGAIN), 3), "SYN-RECEIVED");
    library.inject_to(port, Flags::ACK | Flags::PSH, 101, iss.wrapping_add(1), b"first");
    assert_eq!(library.read(fd).as_deref(), Ok(&b"first"[..]));
    // Without a connection nothing comes.
    let fresh = call!(library, socket, libc::AF_INET, libc::SOCK_STREAM, IPPROTO_TCP);
    assert_eq!(library.read(fresh), Err(libc::ENOTCONN));
    assert_eq!((library.write(fresh, b"early"), errno()), (-1, libc::EPIPE));
}

/// The peer still has an earlier connection of the flow, as in TIME-WAIT: it is
/// reset, and the SYN goes again long before its timeout, but once for all of
/// its answers (Linux: `tcp_rcv_synsent_state_process`).
#[test]
fn a_strange_acknowledgement_of_a_syn_is_reset_and_the_syn_goes_again() {
    let library = Library::new(c"timestamps=off");
    let (fd, syn) = connecting(&library);
    let (_, segment) = Ipv4Header::parse(&syn).unwrap();
    let port = u16::from_be_bytes([segment[0], segment[1]]);
    let iss = u32::from_be_bytes(segment[4..8].try_into().unwrap());
    let strange = iss.wrapping_add(7_000);
    library.inject_to(port, Flags::ACK, 100, strange, &[]);
    let (at, reset, _) = library.sniff();
    assert_eq!((reset.flags, reset.seq.0), (Flags::RST, strange));
    let (again, syn, _) = library.sniff();
    assert_eq!((syn.flags, syn.seq.0), (Flags::SYN, iss));
    assert!((0..20_000).contains(&(again - at)), "after {} µs", again - at);
    library.inject_to(port, Flags::ACK, 100, strange, &[]);
    assert_eq!(library.sniff().1.flags, Flags::RST);
    let (third, syn, _) = library.sniff();
    assert_eq!(syn.flags, Flags::SYN);
    assert!(third - again > 900_000, "after {} µs", third - again);
    library.inject_to(port, Flags::SYN | Flags::ACK, 100, iss.wrapping_add(1), &[]);
    assert_eq!(library.sniff().1.flags, Flags::ACK);
    assert_eq!(library.write(fd, b"open"), 4);
}

/// Linux: include/uapi/linux/tcp.h.
#[test]
fn info_tells_of_what_was_received() {
    let library = Library::new(c"timestamps=off");
    let listener = library.listener();
    let iss = library.handshake();
    let fd = library.accept(listener);
    let una = iss.wrapping_add(1);
    assert_eq!(call!(library, usleep, 1_000_000), 0);
    let info = Info::of(&library, fd);
    assert!((1_000..1_010).contains(&info.word(52)), "last_data_recv {}", info.word(52));
    assert_eq!((info.word(20), info.word(84)), (536, 1_460), "rcv_mss, advmss");
    // An acknowledgement is no data.
    library.inject(Flags::ACK, 101, una, &[]);
    assert!(Info::of(&library, fd).word(52) >= 1_000);
    library.inject(Flags::ACK, 101, una, &[7; 1_000]);
    assert_eq!(call!(library, usleep, 5_000), 0);
    let info = Info::of(&library, fd);
    assert!((5..8).contains(&info.word(52)), "last_data_recv {}", info.word(52));
    assert_eq!(info.word(20), 1_000);
    library.inject(Flags::ACK, 1_101, una, &[7; 300]);
    assert_eq!(Info::of(&library, fd).word(20), 1_000, "a short one tells nothing");
}

#[test]
fn info_tells_of_losses() {
    let library = Library::new(c"timestamps=off");
    let listener = library.listener();
    let iss = library.handshake_with_sack();
    let fd = library.accept(listener);
    let una = iss.wrapping_add(1);
    assert_eq!(library.number(fd, IPPROTO_TCP, TCP_MAXSEG), Ok(1_000));
    assert_eq!(library.write(fd, &[7; 10_000]), 10_000);
    let state = || {
        let info = Info::of(&library, fd);
        // unacked, sacked, lost, reordering
        (info.congestion_state(), info.word(24), info.word(28), info.word(32), info.word(88))
    };
    assert_eq!(state(), (0, 10, 0, 0, 3));
    assert_eq!(call!(library, usleep, 20_000), 0);
    library.inject_sack(una, &[(una.wrapping_add(1_000), una.wrapping_add(2_000))]);
    assert_eq!(state(), (1, 10, 1, 0, 3), "disorder");
    library.inject_sack(una, &[(una.wrapping_add(1_000), una.wrapping_add(4_000))]);
    assert_eq!(state(), (3, 10, 3, 1, 3), "recovery");
    assert_eq!(call!(library, usleep, 3_000_000), 0);
    let (loss, unacked, sacked, lost, _) = state();
    assert_eq!((loss, unacked, sacked, lost), (4, 10, 3, 7));
}
