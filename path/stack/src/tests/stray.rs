//! Segments of flows that another silo may own.

use super::Sent;
use crate::{Address, Arrived, Config, LinkOffload, Seeds, Stack};
use app::{ConnId, Net};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::ipv4::{self, Ipv4Header};
use wire::tcp::{Flags, TcpHeader};
use wire::{LinkVouched, Mac, Time};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 80;

/// A host, or one silo of it.
fn stack(number: u8, ip: Ipv4Addr, steered: bool, key: u64) -> Stack {
    let mut config = Config::new(Mac([2, 0, 0, 0, 0, number]), 1_500);
    config.addresses = vec![Address { ip: IpAddr::V4(ip), prefix_len: 24 }];
    config.listen = vec![PORT];
    config.steered = steered;
    Stack::new(
        config,
        LinkOffload::default(),
        &Seeds { table: [key; 4], secret: [key; 4], timestamps: [9; 2] },
        Time::from_millis(1),
    )
}

fn flags(frame: &[u8]) -> Flags {
    TcpHeader::parse_trusted(&frame[34..], LinkVouched::new()).expect("a segment").0.flags
}

/// A client, the silo that its connection belongs to, another silo of the
/// same host, and the client's next segment.
struct Scene {
    client: Stack,
    id: ConnId,
    owner: Stack,
    other: Stack,
    next: Vec<u8>,
}

fn scene(steered: bool) -> Scene {
    let mut client = stack(1, CLIENT, false, 1);
    let (mut owner, other) = (stack(2, SERVER, steered, 2), stack(2, SERVER, steered, 3));
    let id = client.open(None, SocketAddr::new(SERVER.into(), PORT)).expect("a connection");
    let (mut there, mut back) = (Sent::default(), Sent::default());
    for _ in 0..8 {
        client.poll_transmit(&mut there);
        for frame in core::mem::take(&mut there.frames) {
            let _ = owner.on_frame(&frame, false, &mut back);
        }
        owner.poll_transmit(&mut back);
        for frame in core::mem::take(&mut back.frames) {
            let _ = client.on_frame(&frame, false, &mut there);
        }
    }
    assert_eq!(owner.connections(), 1);
    client.send_bytes(id, &[7; 64]);
    client.poll_transmit(&mut there);
    let next = there.frames.pop().expect("a segment with data");
    Scene { client, id, owner, other, next }
}

/// RFC 9293 section 3.10.7.1 holds once it is known to be nobody's.
#[test]
fn a_stray_is_told_before_it_is_answered() {
    let Scene { mut other, next, .. } = scene(true);
    let mut out = Sent::default();
    assert!(matches!(other.on_frame(&next, false, &mut out), Arrived::Stray));
    assert!(out.frames.is_empty());
    // It was passed on: the frame after it is not told again.
    let mut elsewhere = next.clone();
    elsewhere[0] ^= 2;
    assert!(matches!(other.on_frame(&elsewhere, false, &mut out), Arrived::Nothing));
    // It is nobody's.
    assert!(matches!(other.on_frame(&next, false, &mut out), Arrived::Stray));
    other.refuse(&mut out);
    other.refuse(&mut out);
    assert_eq!(out.frames.iter().map(|frame| flags(frame)).collect::<Vec<_>>(), [Flags::RST]);
    assert_eq!(other.counters().strays, 2);
}

/// A reset may be a stray, and is never answered.
#[test]
fn a_stray_reset_is_told_and_not_answered() {
    let Scene { mut client, id, mut other, .. } = scene(true);
    let mut out = Sent::default();
    client.abort(id);
    client.poll_transmit(&mut out);
    let reset = out.frames.pop().expect("a reset");
    assert!(flags(&reset).contains(Flags::RST));
    assert!(matches!(other.on_frame(&reset, false, &mut out), Arrived::Stray));
    other.refuse(&mut out);
    assert!(out.frames.is_empty());
}

/// Alone, nothing is asked; and what opens a connection is no stray.
#[test]
fn others_are_asked_only_where_there_are_any() {
    let Scene { mut other, next, .. } = scene(false);
    let mut out = Sent::default();
    assert!(matches!(other.on_frame(&next, false, &mut out), Arrived::Nothing));
    assert_eq!(out.frames.drain(..).map(|frame| flags(&frame)).collect::<Vec<_>>(), [Flags::RST]);

    let mut client = stack(1, CLIENT, false, 1);
    let mut steered = stack(2, SERVER, true, 2);
    let closed = SocketAddr::new(SERVER.into(), PORT + 1);
    client.open(None, closed).expect("a connection");
    let mut there = Sent::default();
    for _ in 0..3 {
        client.poll_transmit(&mut there);
        for frame in core::mem::take(&mut there.frames) {
            assert!(matches!(steered.on_frame(&frame, false, &mut out), Arrived::Nothing));
        }
        for frame in core::mem::take(&mut out.frames) {
            let _ = client.on_frame(&frame, false, &mut there);
        }
    }
    assert_eq!((steered.counters().refused, steered.counters().strays), (1, 0));
}

/// Where other processes have listeners, who asks for a connection is not told that nobody listens
/// before they were asked.
#[test]
fn a_syn_may_be_for_another_process() {
    let mut client = stack(1, CLIENT, false, 1);
    let mut shared = stack(2, SERVER, true, 2);
    shared.share_listeners();
    let (mut there, mut out) = (Sent::default(), Sent::default());
    client.open(None, SocketAddr::new(SERVER.into(), PORT + 1)).expect("a connection");
    // The neighbour is asked for first.
    client.poll_transmit(&mut there);
    for frame in core::mem::take(&mut there.frames) {
        let _ = shared.on_frame(&frame, false, &mut out);
    }
    for frame in core::mem::take(&mut out.frames) {
        let _ = client.on_frame(&frame, false, &mut there);
    }
    client.poll_transmit(&mut there);
    let syn = there.frames.pop().expect("a SYN");
    assert!(matches!(shared.on_frame(&syn, false, &mut out), Arrived::Stray));
    assert!(out.frames.is_empty());
    shared.refuse(&mut out);
    assert_eq!(out.frames.iter().map(|frame| flags(frame)).collect::<Vec<_>>(), [Flags(Flags::RST.0 | Flags::ACK.0)]);
}

#[test]
fn a_silo_knows_what_it_owns() {
    let Scene { mut client, id, owner, other, .. } = scene(true);
    let (remote, local) = (client.local(id).expect("open"), client.peer(id).expect("open"));
    assert!(owner.owns(remote, local) && !other.owns(remote, local));
    assert!(!owner.owns(remote, SocketAddr::new(local.ip(), 81)));
    assert!(!owner.owns(remote, "192.0.2.1:80".parse().expect("an address")));
    client.abort(id);
}

/// Every silo is shown the pieces: the owner takes the segment (RFC 1122
/// section 3.3.2), the others neither answer nor open anything.
#[test]
fn fragments_are_their_owners() {
    let Scene { mut owner, mut other, next, .. } = scene(true);
    let (ip, payload) = Ipv4Header::parse(&next[14..]).expect("a packet");
    let cut = 40;
    let piece = |offset: usize, part: &[u8], more: bool| {
        let header = Ipv4Header {
            dont_fragment: false,
            more_fragments: more,
            fragment_offset: offset as u16,
            payload_len: part.len() as u16,
            identification: 9,
            ..ip
        };
        let mut packet = vec![0; ipv4::HEADER_LEN];
        header.emit(&mut packet);
        [&next[..14], &packet, part].concat()
    };
    let pieces = [piece(0, &payload[..cut], true), piece(cut, &payload[cut..], false)];
    let mut out = Sent::default();
    for frame in &pieces {
        assert!(matches!(other.on_frame(frame, false, &mut out), Arrived::Nothing));
    }
    assert_eq!((other.counters().reassembled_foreign, out.frames.len()), (1, 0));
    assert!(matches!(owner.on_frame(&pieces[1], false, &mut out), Arrived::Nothing));
    assert!(matches!(owner.on_frame(&pieces[0], false, &mut out), Arrived::Segment(_)));
    // What stays out is not told to the sender by every silo.
    let rest = piece(0, &payload[..cut], true);
    assert!(matches!(other.on_frame(&rest, false, &mut out), Arrived::Nothing));
    other.begin_turn(Time::from_millis(1) + crate::ip::REASSEMBLY_TIMEOUT * 2);
    other.on_timers(&mut out);
    assert!(out.frames.is_empty());
}
