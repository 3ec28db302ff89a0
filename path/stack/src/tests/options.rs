//! Options of listeners and connections, and ICMP errors, on the wire.

use super::*;
use crate::ip::{of_v4, of_v6};
use app::Unreachable;
use tcp::SocketOptions;
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::Icmpv6;
use wire::ipv4::{HEADER_LEN, Ipv4Header};
use wire::{ethernet, protocol};

/// A class with a bit of ECN's that is left out.
const ASKED: SocketOptions =
    SocketOptions { max_segment: Some(900), traffic_class: 0x29, user_timeout: None, pacing_rate: None };

/// The octet of the DS field, and the MSS that a frame announces.
fn class_and_mss(frame: &[u8]) -> (u8, Option<u16>) {
    let (ip, segment) = Ipv4Header::parse(&frame[ethernet::HEADER_LEN..]).unwrap();
    let (header, ..) = TcpHeader::parse_trusted(segment, LinkVouched::new()).unwrap();
    (ip.dscp_ecn, header.options.mss)
}

#[test]
fn a_listeners_options_count_for_its_answers_and_its_connections() {
    let mut pair = acquainted(|_| {});
    pair.server.stack.set_listener_options(PORT, ASKED);
    pair.client.connect(SERVER).unwrap();
    pair.deliver_to_server();
    pair.server.turn();
    assert_eq!(class_and_mss(&pair.server.out.sent[0]), (0x28, Some(900)));
    pair.settle();
    let (client, id) = (pair.client.opened[1], pair.server.opened[1]);
    assert_eq!(pair.server.stack.options(id).unwrap().max_segment, Some(900));
    // The client's are its own, but no longer than the server takes.
    pair.client.stack.send_bytes(client, &[7; 2_000]);
    pair.client.turn();
    let sent: Vec<_> = pair.client.out.sent.iter().map(|frame| (frame.len(), class_and_mss(frame).0)).collect();
    let headers = ethernet::HEADER_LEN + HEADER_LEN + wire::tcp::ESTABLISHED_HEADER_LEN;
    assert_eq!(sent, [900 - 12, 900 - 12, 2_000 - 2 * 888].map(|len| (headers + len, 0)));
    pair.settle();
    pair.server.stack.send_bytes(id, &[7; 2_000]);
    pair.server.turn();
    assert!(pair.server.out.sent.iter().all(|frame| class_and_mss(frame).0 == 0x28 && frame.len() <= headers + 888));
    pair.settle();
    pair.server.stack.abort(id);
    pair.server.turn();
    assert_eq!(class_and_mss(&pair.server.out.sent[0]).0, 0x28, "of a reset too");
    // The listener's next connections have none.
    pair.server.stack.set_listener_options(PORT, SocketOptions::default());
    pair.client.connect(SERVER).unwrap();
    pair.settle();
    assert_eq!(pair.server.stack.options(pair.server.opened[2]), Some(SocketOptions::default()));
}

#[test]
fn options_that_are_set_in_the_turn_of_connecting_count_for_the_syn() {
    let mut pair = acquainted(|_| {});
    let id = pair.client.connect(SERVER).unwrap();
    pair.client.stack.set_options(id, ASKED);
    pair.client.turn();
    assert_eq!(class_and_mss(&pair.client.out.sent[0]), (0x28, Some(900)));
    pair.settle();
    assert_eq!(pair.client.stack.info(id).unwrap().mss, 900 - 12);
}

#[test]
fn a_corked_connection_goes_on_when_the_cork_is_drawn() {
    let mut pair = acquainted(|_| {});
    let id = pair.client.opened[0];
    pair.client.stack.set_cork(id, true);
    pair.client.stack.send_bytes(id, b"half ");
    pair.client.turn();
    assert!(pair.client.out.sent.is_empty());
    pair.client.stack.set_cork(id, false);
    pair.client.turn();
    assert_eq!(pair.client.out.sent.len(), 1);
    pair.settle();
    pair.client.stack.set_more(id, true);
    pair.client.stack.send_bytes(id, b"half ");
    pair.client.turn();
    assert!(pair.client.out.sent.is_empty());
    // What nothing follows is sent all the same.
    pair.advance(Duration::from_secs(1));
    pair.client.turn();
    assert_eq!(pair.client.out.sent.len(), 1);
}

/// An error from a router about a frame that was sent.
fn error_about(frame: &[u8], error: impl FnOnce(&[u8]) -> (usize, Vec<u8>)) -> Vec<u8> {
    let (ip, _) = Ipv4Header::parse(&frame[ethernet::HEADER_LEN..]).unwrap();
    let (len, message) = error(&frame[ethernet::HEADER_LEN..ethernet::HEADER_LEN + HEADER_LEN + 8]);
    let mut out = frame[..ethernet::HEADER_LEN].to_vec();
    out[..12].rotate_left(6);
    out.resize(ethernet::HEADER_LEN + HEADER_LEN, 0);
    let header = Ipv4Header { src: ip.dst, dst: ip.src, protocol: protocol::ICMP, payload_len: len as u16, ..ip };
    header.emit(&mut out[ethernet::HEADER_LEN..]);
    out.extend_from_slice(&message[..len]);
    out
}

fn emit(message: &Icmpv4<'_>) -> (usize, Vec<u8>) {
    let mut out = vec![0; 128];
    (message.emit(&mut out), out)
}

fn unreachable_about(frame: &[u8], code: u8) -> Vec<u8> {
    error_about(frame, |original| emit(&Icmpv4::DestinationUnreachable { code, original }))
}

/// RFC 1122 section 4.2.3.9: one that is being opened ends, for the reason
/// that was told.
#[test]
fn an_icmp_error_ends_what_is_being_opened() {
    let mut pair = acquainted(|_| {});
    let host = &mut pair.client;
    let network = Icmpv4::TimeExceeded { code: icmpv4::time_exceeded::HOPS, original: &[] };
    for (code, why) in [(0, Unreachable::Network), (3, Unreachable::Port), (13, Unreachable::Host)] {
        let id = host.connect(SERVER).unwrap();
        host.turn();
        let syn = host.out.sent.pop_back().unwrap();
        host.take(&unreachable_about(&syn, code));
        host.turn();
        assert_eq!(host.closed.pop(), Some((id, Closed::Unreachable(why))), "code {code}");
    }
    assert_eq!(of_v4(&network), Some(Unreachable::Host));
    let id = host.connect(SERVER).unwrap();
    host.turn();
    let syn = host.out.sent.pop_back().unwrap();
    host.take(&error_about(&syn, |original| emit(&Icmpv4::ParameterProblem { code: 0, pointer: 1, original })));
    host.turn();
    assert_eq!(host.closed.pop(), Some((id, Closed::Unreachable(Unreachable::Header))));
}

/// RFC 5461 section 2: an established connection outlives it, and has it for
/// the reason if it ends unheard.
#[test]
fn an_icmp_error_is_the_reason_of_a_connection_that_times_out() {
    let mut pair = acquainted(|_| {});
    let id = pair.client.opened[0];
    // Before it is found that the neighbour answers nothing either.
    pair.client.stack.set_options(id, SocketOptions { user_timeout: Some(1_000), ..SocketOptions::default() });
    pair.client.stack.send_bytes(id, b"lost");
    pair.client.turn();
    let lost = pair.client.out.sent.pop_back().unwrap();
    pair.client.take(&unreachable_about(&lost, icmpv4::unreachable::PORT));
    pair.client.turn();
    assert!(pair.client.stack.is_live(id) && pair.client.closed.is_empty());
    for _ in 0..100 {
        pair.advance(Duration::from_millis(100));
        pair.client.turn();
        pair.client.out.sent.clear();
    }
    let why = pair.client.closed.iter().find(|(of, _)| *of == id).map(|(_, why)| *why);
    assert_eq!(why, Some(Closed::Unreachable(Unreachable::Port)));
}

/// Linux: `tcp_req_err` in net/ipv4/tcp_ipv4.c.
#[test]
fn an_icmp_error_ends_a_handshake_whose_answer_it_quotes() {
    let mut pair = acquainted(|_| {});
    pair.client.connect(SERVER).unwrap();
    pair.deliver_to_server();
    pair.server.turn();
    let answer = pair.server.out.sent.pop_back().unwrap();
    let mut other = answer.clone();
    other[ethernet::HEADER_LEN + HEADER_LEN + 7] ^= 1;
    let errors = [(&answer, icmpv4::unreachable::PORT, 1), (&other, 1, 1), (&answer, icmpv4::unreachable::HOST, 0)];
    for (about, code, left) in errors {
        pair.server.take(&unreachable_about(about, code));
        assert_eq!(pair.server.stack.half_open(), left, "code {code}");
    }
    let counters = pair.server.stack.counters();
    assert_eq!((counters.icmp_ignored, counters.half_open_unreachable), (2, 1));
}

/// Linux: `icmp_err_convert` in net/ipv4/icmp.c and net/ipv6/icmp.c.
#[test]
fn icmp_errors_are_told_apart_as_linux_does() {
    use Unreachable::{Header, Host, Isolated, Network, NoHost, Port, Prohibited, Protocol, SourceRoute};
    let v4 = [
        Network,
        Host,
        Protocol,
        Port,
        Host,
        SourceRoute,
        Network,
        NoHost,
        Isolated,
        Network,
        Host,
        Network,
        Host,
        Host,
        Host,
        Host,
    ];
    for (code, why) in v4.into_iter().enumerate().filter(|(code, _)| *code != 4) {
        let message = Icmpv4::DestinationUnreachable { code: code as u8, original: &[] };
        assert_eq!(of_v4(&message), Some(why), "code {code}");
    }
    assert_eq!(of_v4(&Icmpv4::DestinationUnreachable { code: 16, original: &[] }), None);
    for (code, why) in [Network, Prohibited, Host, Host, Port, Prohibited, Prohibited, Header].into_iter().enumerate() {
        let message = Icmpv6::DestinationUnreachable { code: code as u8, original: &[] };
        assert_eq!(of_v6(&message), Some(why), "code {code}");
    }
    assert_eq!(of_v6(&Icmpv6::TimeExceeded { code: 0, original: &[] }), Some(Host));
    assert_eq!(of_v6(&Icmpv6::ParameterProblem { code: 0, pointer: 0, original: &[] }), Some(Header));
    assert_eq!(of_v6(&Icmpv6::EchoRequest { identifier: 1, sequence: 1, data: &[] }), None);
}
