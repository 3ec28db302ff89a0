//! Such frames, and what is taken for one.

use super::*;
use crate::stream::End;
use proptest::prelude::*;
use wire::checksum::sum;

const HZ: u64 = 1_000;
const WHOSE: (u8, u32) = (3, 0x1234_5678);

fn shape(v4: bool) -> Shape {
    let ends: [End; 2] = if v4 { Shape::ends_v4() } else { Shape::ends_v6() };
    Shape { sizes: vec![128], ends, ..Shape::default() }
}

fn managed(v4: bool) -> Modifier {
    let address = if v4 { "198.18.0.1" } else { "2001:2::1" }.parse().expect("an address");
    Modifier::Management(Managed { addresses: [address; 2], community: "public".to_owned() })
}

fn begin(kind: &Modifier, v4: bool) -> Modifying {
    Modifying::new(kind, &shape(v4), (0, WHOSE.0, WHOSE.1), (HZ, 0))
}

/// The next such frame.
fn sent(modifying: &mut Modifying, now: u64) -> Vec<u8> {
    let mut slot = [0; 256];
    let len = modifying.write(Some(&mut slot), now).expect("it fits");
    slot[..len].to_vec()
}

/// An agent's answer to a query: addresses and ports swapped, a response with
/// such a value in the place of the null.
fn answered(query: &[u8], error: u8, value: &[u8]) -> Vec<u8> {
    let packet = Packet::find(query).expect("a packet");
    let (source, destination) = packet.addresses();
    let mut frame = query[..packet.payload.start].to_vec();
    for at in 0..source.len() {
        frame.swap(source.start + at, destination.start + at);
    }
    let datagram = &query[packet.payload.clone()];
    let mut message = datagram[8..].to_vec();
    let get = 7 + usize::from(message[6]);
    assert_eq!((message[get], message[message.len() - 2..].to_vec()), (0xa0, vec![5, 0]));
    message[get] = 0xa2;
    message[get + 10] = error;
    message.truncate(message.len() - 2);
    message.extend_from_slice(value);
    // The lengths of all that ends with the value: message, response, list, pair.
    let more = (value.len() - 2) as u8;
    for at in [1, get + 1, get + 15, get + 17] {
        message[at] += more;
    }
    frame.extend_from_slice(&datagram[2..4]);
    frame.extend_from_slice(&datagram[..2]);
    frame.extend_from_slice(&(message.len() as u16 + 8).to_be_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&message);
    let (at, len) = if packet.v4 { (16, frame.len() - 14) } else { (18, message.len() + 8) };
    frame[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
    frame
}

const TIME: [u8; 4] = [0x43, 2, 1, 0];

#[test]
fn what_is_sent_is_what_the_rfcs_say() {
    for v4 in [true, false] {
        let mut updates = begin(&Modifier::Routing, v4);
        let (a, b) = (sent(&mut updates, 0), sent(&mut updates, 30_000));
        for frame in [&a, &b, &sent(&mut begin(&managed(v4), v4), 0)] {
            let packet = Packet::find(frame).expect("a packet");
            let payload = &frame[packet.payload.clone()];
            let (source, destination) = packet.addresses();
            let pseudo = sum(&frame[source]).add(sum(&frame[destination])).add_u16(17).add_u16(payload.len() as u16);
            assert_eq!(pseudo.add(sum(payload)).finish(), 0);
            assert!(!packet.v4 || sum(&frame[packet.header.clone()]).finish() == 0);
            assert!(packet.payload.end == frame.len() && frame.len() >= 60);
        }
        // RIP says of the same networks the contrary; and again the first time.
        let differ: Vec<(u8, u8)> = a.iter().zip(&b).filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)).collect();
        // The checksum's two bytes may be the same.
        assert_eq!(differ.iter().filter(|pair| [(7, 16), (16, 7)].contains(pair)).count(), 6, "{differ:?}");
        assert_eq!(sent(&mut updates, 60_000), a);
        assert!(a[..6] == if v4 { [0xff; 6] } else { [0x33, 0x33, 0, 0, 0, 9] });
    }
    let broadcast = sent(&mut begin(&Modifier::Broadcast, true), 0);
    assert_eq!((broadcast.len(), &broadcast[..6], &broadcast[12..14]), (124, &[0xff; 6][..], &[0x88, 0xb5][..]));
}

#[test]
fn each_is_due_when_the_rfc_says_and_is_not_made_up_for() {
    let mut broadcasts = begin(&Modifier::Broadcast, true);
    let due: Vec<u64> = (0..400)
        .filter(|slot| {
            let is_due = broadcasts.is_due(*slot);
            // The second finds the ring full.
            if is_due && *slot == 199 {
                assert_eq!(broadcasts.write(None, *slot), None);
            } else if is_due {
                sent(&mut broadcasts, *slot);
            }
            is_due
        })
        .collect();
    assert_eq!(due, [99, 199, 299, 399]);
    assert_eq!((broadcasts.counts.sent, broadcasts.counts.refused), (3, 1));
    // At 0, 1 and 2 s; the tester is away until 4.5 s, and sends one for all that were due.
    let mut queries = begin(&managed(true), true);
    let mut due = Vec::new();
    for now in (0..6_000).filter(|now| !(2_500..4_500).contains(now)) {
        if queries.is_due(now) {
            sent(&mut queries, now);
            due.push(now);
        }
    }
    assert_eq!(due, [0, 1_000, 2_000, 4_500, 5_000]);
}

#[test]
fn answers_are_verified_and_counted_once() {
    for v4 in [true, false] {
        let mut queries = begin(&managed(v4), v4);
        let first = sent(&mut queries, 0);
        let second = sent(&mut queries, 1_000);
        assert_ne!(first, second);
        let answer = answered(&first, 0, &TIME);
        assert!(queries.take(&answer, WHOSE, true));
        // Again it is nobody's; and so is the answer to a query that another trial sent.
        assert!(!queries.take(&answer, WHOSE, true));
        let mut others = Modifying::new(&managed(v4), &shape(v4), (0, WHOSE.0, 99), (HZ, 0));
        assert!(!queries.take(&answered(&sent(&mut others, 0), 0, &TIME), WHOSE, true));
        // An error (noSuchName), and a variable of another kind.
        assert!(queries.take(&answered(&second, 2, &TIME), WHOSE, true));
        let third = sent(&mut queries, 2_000);
        assert!(queries.take(&answered(&third, 0, &[4, 2, 65, 66]), WHOSE, true));
        // A device with one port sends the query back as it is.
        let fourth = sent(&mut queries, 3_000);
        assert!(queries.take(&fourth, WHOSE, true));
        assert_eq!(queries.counts, Modified { sent: 4, came: 1, answered: 1, wrong: 2, ..Modified::default() });
    }
}

#[test]
fn broadcasts_are_known_by_run_and_lane() {
    let mut mine = begin(&Modifier::Broadcast, true);
    let frame = sent(&mut mine, 0);
    assert!(
        mine.take(&frame, WHOSE, true)
            && !mine.take(&frame, (WHOSE.0 + 1, WHOSE.1), true)
            && !mine.take(&frame, (3, 1), true)
    );
    assert_eq!(mine.counts.came, 1);
}

/// What a router makes of a frame: a hop less.
fn passed(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let v4 = frame[14] >> 4 == 4;
    frame[if v4 { 22 } else { 21 }] -= 1;
    frame
}

#[test]
fn updates_that_are_taken_are_told_from_those_that_are_not() {
    for (v4, arrived) in [(true, true), (false, true), (true, false)] {
        let mut updates = begin(&Modifier::Routing, v4);
        updates.verify_routes(&shape(v4), (0, WHOSE.0, WHOSE.1), HZ);
        for at in [0, 30_000] {
            assert!(updates.is_due(at));
            let update = sent(&mut updates, at);
            assert!(!updates.is_due(at + 1_999) && updates.is_due(at + 2_000));
            let (near, far) = (sent(&mut updates, at + 2_000), sent(&mut updates, at + 2_000));
            assert!(!updates.is_due(at + 2_001));
            // To a network which the other port's update says is near: of this one's, but for the port.
            let packet = Packet::find(&near).expect("a packet");
            let (_, destination) = packet.addresses();
            let network = near[destination.start + 2 + if v4 { 0 } else { 5 }];
            let (entry, size) = if v4 { (14 + 20 + 8 + 4, 20) } else { (14 + 40 + 8 + 4, 20) };
            let entry = update[entry..].chunks(size).find(|entry| entry[if v4 { 6 } else { 7 }] == network);
            assert_eq!(entry.map(|entry| entry[19]), Some(7), "{update:?} {near:?}");
            assert_ne!(near, far);
            // It comes by its port, or by another; once. The other is dropped; but passed on the second time.
            assert!(updates.take(&passed(&near), WHOSE, arrived) && updates.take(&passed(&near), WHOSE, arrived));
            assert!(at == 0 || updates.take(&passed(&far), WHOSE, arrived));
            // Of another run, or lane.
            assert!(!updates.take(&near, (WHOSE.0 + 1, WHOSE.1), true));
        }
        let came = u64::from(arrived);
        let counts = Modified { sent: 6, near: 2, near_came: 2 * came, far: 2, far_came: came, ..Modified::default() };
        assert_eq!(updates.counts, counts);
    }
}

proptest! {
    #[test]
    fn nothing_that_comes_panics_or_is_an_answer_by_chance(
        cut in 0_usize..100, at in 0_usize..100, byte in any::<u8>(), noise in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut queries = begin(&managed(true), true);
        let query = sent(&mut queries, 0);
        let mut answer = answered(&query, 0, &TIME);
        let len = answer.len();
        answer[at % len] = byte;
        answer.truncate(len - cut.min(len));
        for frame in [&answer, &noise] {
            queries.take(frame, WHOSE, true);
        }
        let _ = snmp::read_answer(&noise);
        let _ = broadcast_mark(&noise, WHOSE.1);
        prop_assert!(queries.counts.answered + queries.counts.wrong <= 2);
    }
}
