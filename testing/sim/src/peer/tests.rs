//! That the application complains about what must not happen: a simulator
//! that finds nothing wrong must be able to.

use super::*;
use core::net::Ipv4Addr;
use core::ops::Range;

/// A data path that does nothing: the tests call the application.
struct Nowhere;

const ID: ConnId = ConnId::new(0, 0);
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Net for Nowhere {
    fn now(&self) -> Time {
        Time::from_millis(1_000_000)
    }
    fn connect(&mut self, _: Option<IpAddr>, _: SocketAddr) -> Result<ConnId, ConnectError> {
        Ok(ID)
    }
    fn send_body(&mut self, _: ConnId, _: &Body, _: Range<u32>) {}
    fn send_bytes(&mut self, _: ConnId, _: &[u8]) {}
    fn unsent(&self, _: ConnId) -> usize {
        0
    }
    fn finish(&mut self, _: ConnId) {}
    fn abort(&mut self, _: ConnId) {}
    fn resume(&mut self, _: ConnId) {}
    fn set_timer(&mut self, _: ConnId, _: Option<Time>) {}
    fn peer(&self, _: ConnId) -> Option<SocketAddr> {
        Some(SocketAddr::new(ADDRESS, 1))
    }
    fn local(&self, _: ConnId) -> Option<SocketAddr> {
        None
    }
}

const KEY: u64 = 77;
const MANNER: Manner = Manner { most: 1, aborts: 0, plain: true, sealed: 0, exact: Some((1_000, 0)) };

/// An accepted connection, to which the peer sends 1,000 bytes.
fn accepting() -> Peer {
    let mut peer = Peer::new("host".into(), 1, MANNER, Vec::new());
    peer.on_open(&mut Nowhere, ID, Opened::Accepted);
    peer
}

fn upward() -> Vec<u8> {
    let mut bytes = vec![0; 1_000];
    Stream::new(KEY, true).fill(0, &mut bytes);
    bytes[..8].copy_from_slice(&KEY.to_le_bytes());
    bytes
}

/// Offers `bytes` as a data path would: what is not consumed comes again.
fn offer(peer: &mut Peer, bytes: &[u8], piece: usize) {
    let mut start = 0;
    let mut end = 0;
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        start += peer.on_data(&mut Nowhere, ID, &bytes[start..end]);
    }
}

fn finish(peer: &mut Peer) {
    peer.on_end(&mut Nowhere, ID, 0);
    peer.on_close(&mut Nowhere, ID, Closed::Finished);
}

#[test]
fn what_is_right_is_taken() {
    for piece in [1, 3, 8, 100, 1_000] {
        let mut peer = accepting();
        offer(&mut peer, &upward(), piece);
        finish(&mut peer);
        assert_eq!(peer.tally.violations, Vec::<String>::new());
        assert_eq!((peer.tally.bytes, peer.tally.finished), (1_000, 1));
        assert!(peer.done());
    }
}

/// Each damage to the stream, and each wrong end, is a violation.
#[test]
fn what_is_wrong_is_told() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 5] = [
        |bytes| bytes[500] ^= 1,
        |bytes| {
            bytes.remove(500);
        },
        |bytes| bytes.insert(500, 0xee),
        |bytes| bytes.swap(500, 501),
        |bytes| bytes.extend_from_slice(&[0; 10]),
    ];
    for (index, damage) in damages.iter().enumerate() {
        let mut peer = accepting();
        let mut bytes = upward();
        damage(&mut bytes);
        offer(&mut peer, &bytes, 100);
        finish(&mut peer);
        assert!(!peer.tally.violations.is_empty(), "damage {index}");
    }
}

#[test]
fn wrong_calls_are_told() {
    type Calls = fn(&mut Peer);
    let wrong: [(&str, Calls); 8] = [
        ("end before all came", |peer| {
            offer(peer, &upward()[..900], 100);
            peer.on_end(&mut Nowhere, ID, 0);
        }),
        ("end twice", |peer| {
            offer(peer, &upward(), 100);
            peer.on_end(&mut Nowhere, ID, 0);
            peer.on_end(&mut Nowhere, ID, 0);
        }),
        ("finished without an end", |peer| {
            offer(peer, &upward(), 100);
            peer.on_close(&mut Nowhere, ID, Closed::Finished);
        }),
        ("reset for no reason", |peer| {
            offer(peer, &upward(), 100);
            peer.on_close(&mut Nowhere, ID, Closed::Reset);
        }),
        ("timed out for no reason", |peer| {
            offer(peer, &upward(), 100);
            peer.on_close(&mut Nowhere, ID, Closed::TimedOut);
        }),
        ("a call after the close", |peer| {
            offer(peer, &upward(), 100);
            finish(peer);
            peer.on_sent(&mut Nowhere, ID);
        }),
        ("opened twice", |peer| peer.on_open(&mut Nowhere, ID, Opened::Connected)),
        ("a timer that was not set", |peer| peer.on_timer(&mut Nowhere, ID)),
    ];
    for (what, calls) in wrong {
        let mut peer = accepting();
        calls(&mut peer);
        assert!(!peer.tally.violations.is_empty(), "{what}");
    }
}

/// A connect that fails for want of an answer is tried again; a refusal is a
/// violation, because every host listens.
#[test]
fn connects_are_tried_again() {
    let job = Job { at: Time::ZERO, from: None, to: SocketAddr::new(ADDRESS, 80), key: KEY, tries: 0 };
    for (why, violations) in [(Closed::TimedOut, 0), (Closed::Refused, 1)] {
        let mut peer = Peer::new("host".into(), 1, MANNER, vec![job.clone()]);
        assert!(matches!(peer.on_turn(&mut Nowhere), Wake::At(_)), "it may fail after this turn's call");
        peer.on_close(&mut Nowhere, ID, why);
        assert_eq!(peer.tally.violations.len(), violations);
        assert_eq!(peer.done(), violations > 0);
    }
}
