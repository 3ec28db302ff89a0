mod table;

use super::state::*;
use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
const OURS: Mac = Mac([2, 0, 0, 0, 0, 99]);
const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 99);

fn v4(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))
}

fn v6(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn arp(operation: Operation, ip: IpAddr, mac: Mac) -> ArpPacket {
    let IpAddr::V4(sender_ip) = ip else { unreachable!("ARP is for IPv4") };
    ArpPacket { operation, sender_mac: mac, sender_ip, target_mac: OURS, target_ip: US }
}

fn reply(table: &mut NeighbourTable, ip: IpAddr, mac: Mac, now: Time) {
    table.on_arp(&arp(Operation::Reply, ip, mac), true, now);
}

fn drain(table: &mut NeighbourTable, now: Time) -> Vec<Output> {
    core::iter::from_fn(|| table.poll(now)).collect()
}

fn solicit(target: IpAddr, to: Option<Mac>) -> Output {
    Output::Solicit { target, to }
}

fn frame(tag: u8) -> Vec<u8> {
    vec![0, 0, 0, 0, 0, 0, tag, tag, tag]
}

fn sent(mac: Mac, tag: u8) -> Output {
    Output::Frame([&mac.0[..], &[tag, tag, tag]].concat().into())
}

fn state(table: &NeighbourTable, id: NeighbourId) -> State {
    table.entries[usize::from(id.0)].state
}

/// A table with one neighbour that has just answered, at time zero.
fn resolved() -> (NeighbourTable, NeighbourId) {
    let mut table = NeighbourTable::new(at(0));
    let id = table.resolve(v4(1), at(0));
    assert_eq!(drain(&mut table, at(0)), [solicit(v4(1), None)]);
    reply(&mut table, v4(1), A, at(0));
    (table, id)
}

/// RFC 1122 section 2.3.2.2: the packet that asked is sent when the answer
/// comes, and in order.
#[test]
fn the_first_packets_are_not_lost() {
    let mut table = NeighbourTable::new(at(0));
    let id = table.resolve(v4(1), at(0));
    assert_eq!(table.mac(id), None);
    table.hold(id, &frame(1));
    table.hold(id, &frame(2));
    assert_eq!(drain(&mut table, at(0)), [solicit(v4(1), None)]);
    assert_eq!(drain(&mut table, at(0)), []);
    reply(&mut table, v4(1), A, at(3));
    assert_eq!(table.next_deadline(), Some(Time::ZERO));
    assert_eq!(drain(&mut table, at(3)), [sent(A, 1), sent(A, 2)]);
    assert_eq!(table.mac(id), Some(A));
    assert_eq!(table.resolve(v4(1), at(4)), id);
    assert_eq!((table.held_bytes, table.counters().held), (0, 2));
}

/// RFC 4861 section 7.2.2: three solicitations, a second apart; then those
/// who wait are told.
#[test]
fn nobody_answers() {
    let mut table = NeighbourTable::new(at(0));
    let id = table.resolve(v4(1), at(0));
    table.hold(id, &frame(1));
    for second in 0..3 {
        assert_eq!(drain(&mut table, at(second * 1000)), [solicit(v4(1), None)]);
        assert_eq!(table.next_deadline(), Some(at(second * 1000 + 1000)));
        assert_eq!(drain(&mut table, at(second * 1000 + 999)), []);
    }
    assert_eq!(drain(&mut table, at(3000)), [Output::Failed { id, ip: v4(1), held: [frame(1).into()].into() }]);
    assert_eq!(table.next_deadline(), None);
    assert_eq!((table.counters().failed, table.counters().held_lost, table.held_bytes), (1, 1, 0));
    // Asked for again at the next use, in the same place.
    assert_eq!(drain(&mut table, at(9000)), []);
    table.hold(id, &frame(2));
    assert_eq!(drain(&mut table, at(9000)), [solicit(v4(1), None)]);
    reply(&mut table, v4(1), A, at(9001));
    assert_eq!(drain(&mut table, at(9001)), [sent(A, 2)]);
    assert_eq!(table.resolve(v4(1), at(9001)), id);
}

/// RFC 4861 section 7.3.3: stale after 30 s, delay at the next use, probes
/// after 5 s more.
#[test]
fn reachable_stale_delay_probe() {
    let (mut table, id) = resolved();
    table.pin(id);
    assert_eq!(state(&table, id), State::Reachable);
    assert_eq!(drain(&mut table, at(29_999)), []);
    assert_eq!(state(&table, id), State::Reachable);
    drain(&mut table, at(30_000));
    assert_eq!(state(&table, id), State::Stale);
    // Not used: not asked for.
    drain(&mut table, at(35_000));
    drain(&mut table, at(40_000));
    assert_eq!(state(&table, id), State::Stale);
    assert_eq!(table.mac(id), Some(A));
    drain(&mut table, at(45_000));
    assert_eq!(state(&table, id), State::Delay);
    assert_eq!(table.mac(id), Some(A));
    for second in 50..53 {
        assert_eq!(drain(&mut table, at(second * 1000)), [solicit(v4(1), Some(A))]);
        assert_eq!(table.mac(id), Some(A));
    }
    // Three probes without answer: perhaps it has another address now.
    assert_eq!(drain(&mut table, at(53_000)), [solicit(v4(1), None)]);
    assert_eq!(table.mac(id), None);
    reply(&mut table, v4(1), B, at(53_100));
    assert_eq!((table.mac(id), state(&table, id)), (Some(B), State::Reachable));
}

#[test]
fn a_probe_that_is_answered_ends_in_reachable() {
    let (mut table, id) = resolved();
    drain(&mut table, at(30_000));
    table.mac(id);
    drain(&mut table, at(35_000));
    assert_eq!(drain(&mut table, at(40_000)), [solicit(v4(1), Some(A))]);
    reply(&mut table, v4(1), A, at(40_001));
    assert_eq!(state(&table, id), State::Reachable);
    assert_eq!(drain(&mut table, at(69_000)), []);
    assert_eq!(state(&table, id), State::Reachable);
}

/// RFC 4861 section 7.3.1: acknowledgements of new data spare the probes.
#[test]
fn an_upper_layer_confirms() {
    let (mut table, id) = resolved();
    // While reachable: the time starts anew.
    table.confirm(id, at(20_000));
    drain(&mut table, at(30_000));
    assert_eq!(state(&table, id), State::Reachable);
    drain(&mut table, at(50_000));
    assert_eq!(state(&table, id), State::Stale);
    // While stale.
    table.confirm(id, at(51_000));
    drain(&mut table, at(55_000));
    assert_eq!(state(&table, id), State::Reachable);
    // While delayed.
    drain(&mut table, at(85_000));
    table.mac(id);
    drain(&mut table, at(90_000));
    assert_eq!(state(&table, id), State::Delay);
    table.confirm(id, at(92_000));
    assert_eq!(drain(&mut table, at(95_000)), []);
    assert_eq!(state(&table, id), State::Reachable);
    // Proof counts only for an address that is known.
    let other = table.resolve(v4(2), at(95_000));
    table.confirm(other, at(95_000));
    assert_eq!(drain(&mut table, at(95_000)), [solicit(v4(2), None)]);
    assert_eq!(table.mac(other), None);
    table.confirm(NeighbourId::NONE, at(95_000));
}

/// RFC 826, "Packet Reception": the merge flag, and entries only for what
/// concerns us.
#[test]
fn arp_merges_and_creates_only_what_concerns_us() {
    let mut table = NeighbourTable::new(at(0));
    // Two others talk, and one announces itself.
    table.on_arp(&arp(Operation::Request, v4(5), A), false, at(0));
    table.on_arp(&arp(Operation::Reply, v4(6), A), false, at(0));
    assert!(table.entries.is_empty());
    // A request for us: its sender is known, and not yet proven.
    table.on_arp(&arp(Operation::Request, v4(5), A), true, at(0));
    let id = table.resolve(v4(5), at(0));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Stale));
    assert_eq!(drain(&mut table, at(0)), []);
    // It announces another hardware address, to everybody.
    table.on_arp(&arp(Operation::Request, v4(5), B), false, at(1));
    assert_eq!((table.mac(id), state(&table, id)), (Some(B), State::Stale));
    assert_eq!(table.counters().changed, 1);
    // Probes for duplicates name nobody (RFC 5227 section 2.1.1).
    table.on_arp(&arp(Operation::Request, IpAddr::V4(Ipv4Addr::UNSPECIFIED), A), true, at(1));
    table.on_arp(&arp(Operation::Request, IpAddr::V4(Ipv4Addr::BROADCAST), A), true, at(1));
    assert_eq!(table.entries.len(), 1);
}

#[test]
fn an_announcement_is_no_proof() {
    let (mut table, id) = resolved();
    // The same address again changes nothing.
    table.on_arp(&arp(Operation::Request, v4(1), A), false, at(100));
    assert_eq!(state(&table, id), State::Reachable);
    // Another one is taken once the known one is silent, and is to be proven.
    table.on_arp(&arp(Operation::Reply, v4(1), B), true, at(200));
    assert_eq!(drain(&mut table, at(200)), [solicit(v4(1), Some(A))]);
    assert_eq!(drain(&mut table, at(203)), [solicit(v4(1), Some(A))]);
    assert_eq!(drain(&mut table, at(206)), [solicit(v4(1), Some(B))]);
    assert_eq!((table.mac(id), state(&table, id)), (Some(B), State::Probe { sent: 1 }));
    reply(&mut table, v4(1), B, at(207));
    assert_eq!(state(&table, id), State::Reachable);
}

/// What is to be sent while two claim an address waits for the milliseconds
/// that it takes to ask the one that is known, and goes to who has it.
#[test]
fn a_forged_claim_is_asked_about_and_steals_nothing() {
    let claims: [fn(&mut NeighbourTable, Time); 3] = [
        |table, now| table.on_arp(&arp(Operation::Request, v4(1), B), false, now),
        |table, now| reply(table, v4(1), B, now),
        |table, now| _ = table.resolve_from(v4(1), B, now),
    ];
    for claim in claims {
        let (mut table, id) = resolved();
        claim(&mut table, at(10));
        assert_eq!((table.mac(id), table.counters().disputed), (None, 1));
        table.hold(id, &frame(1));
        assert_eq!(drain(&mut table, at(10)), [solicit(v4(1), Some(A))]);
        reply(&mut table, v4(1), A, at(11));
        assert_eq!(drain(&mut table, at(11)), [sent(A, 1)]);
        assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Reachable));
        // A flood of them is no flood of questions.
        let mut asked = 0;
        for ms in 12..1_012 {
            claim(&mut table, at(ms));
            asked += drain(&mut table, at(ms)).len();
            reply(&mut table, v4(1), A, at(ms));
            assert_eq!(table.mac(id), Some(A));
        }
        assert!(asked <= 10, "{asked} questions in a second");
        assert_eq!(table.counters().changed, 0);
    }
}

/// A take-over is heard of within [`DISPUTE_LONGEST`], and what waits for it
/// goes to whoever took over.
#[test]
fn an_announced_take_over_is_heard_of_at_once() {
    let (mut table, id) = resolved();
    table.on_arp(&arp(Operation::Request, v4(1), B), false, at(20_000));
    table.hold(id, &frame(1));
    let mut out = Vec::new();
    for ms in 0..=DISPUTE_LONGEST.as_millis() as u64 {
        out.extend(drain(&mut table, at(20_000 + ms)));
    }
    let asked = solicit(v4(1), Some(A));
    assert_eq!(out, [asked.clone(), asked, sent(B, 1), solicit(v4(1), Some(B))]);
    assert_eq!((table.mac(id), table.counters().changed), (Some(B), 1));
}

/// The same where nothing is announced: its own first packet tells.
#[test]
fn a_silent_take_over_is_found_by_asking_everybody() {
    let (mut table, id) = resolved();
    assert_eq!(table.resolve_from(v4(1), B, at(100)), id);
    table.hold(id, &frame(1));
    let mut out: Vec<_> = [100, 103, 106].into_iter().flat_map(|ms| drain(&mut table, at(ms))).collect();
    // Nor does a second one change where it goes before somebody has answered.
    assert_eq!(table.resolve_from(v4(1), B, at(107)), id);
    assert_eq!(table.mac(id), None);
    reply(&mut table, v4(1), B, at(107));
    out.extend(drain(&mut table, at(107)));
    let asked = solicit(v4(1), Some(A));
    assert_eq!(out, [asked.clone(), asked, solicit(v4(1), None), sent(B, 1)]);
    assert_eq!(state(&table, id), State::Reachable);
}

/// One that takes longer than a dispute to answer has its address back once it
/// does, and the next claim is asked about again.
#[test]
fn a_late_answer_counts() {
    let (mut table, id) = resolved();
    let claimed = |table: &mut NeighbourTable, ms| table.on_arp(&arp(Operation::Request, v4(1), B), false, at(ms));
    claimed(&mut table, 10);
    let _ = [10, 13, 16].map(|ms| drain(&mut table, at(ms)));
    assert_eq!(table.mac(id), Some(B));
    reply(&mut table, v4(1), A, at(20));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Reachable));
    claimed(&mut table, 120);
    assert_eq!(drain(&mut table, at(120)), [solicit(v4(1), Some(A))]);
}

/// Proof from an upper layer ends a dispute as an answer does.
#[test]
fn progress_ends_a_dispute() {
    let (mut table, id) = resolved();
    table.on_arp(&arp(Operation::Request, v4(1), B), false, at(10));
    table.hold(id, &frame(1));
    drain(&mut table, at(10));
    table.confirm(id, at(11));
    assert_eq!(drain(&mut table, at(13)), [sent(A, 1)]);
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Reachable));
}

/// RFC 1122 section 2.3.2.1: no flood of questions for those whom no route
/// leads to, whatever they send.
#[test]
fn nobody_is_asked_for_off_the_link() {
    let mut table = NeighbourTable::new(at(0));
    for n in 0..5_000 {
        let id = table.resolve_off_link(v4(n), A, at(u64::from(n)));
        table.pin(id);
        assert_eq!(table.mac(id), Some(A));
    }
    for second in 0..600 {
        assert_eq!(drain(&mut table, at(second * 1_000)), []);
    }
    assert_eq!(table.counters().solicited + table.counters().put_off, 0);
    // Its router has another hardware address now; one that works is kept, and
    // nobody speaks ARP for it.
    let id = table.resolve_off_link(v4(1), B, at(600_000));
    assert_eq!(table.mac(id), Some(B));
    table.confirm(id, at(600_001));
    assert_eq!(table.resolve_off_link(v4(1), A, at(600_002)), id);
    table.on_arp(&arp(Operation::Request, v4(1), A), false, at(600_002));
    assert_eq!(table.mac(id), Some(B));
}

/// What answers a stranger's first packet is no use of its entry.
#[test]
fn strangers_are_not_asked_for() {
    let mut table = NeighbourTable::new(at(0));
    for n in 0..2_000 {
        let id = table.resolve_from(v4(n), A, at(0));
        table.pin(id);
        assert_eq!(table.mac_unused(id), Some(A));
    }
    for second in 0..120 {
        assert_eq!(drain(&mut table, at(second * 1_000)), []);
    }
}

#[test]
fn a_request_from_the_one_asked_for_resolves_it() {
    let mut table = NeighbourTable::new(at(0));
    let id = table.resolve(v4(1), at(0));
    table.hold(id, &frame(1));
    table.on_arp(&arp(Operation::Request, v4(1), A), true, at(0));
    assert_eq!(drain(&mut table, at(0)), [sent(A, 1)]);
    assert_eq!((table.incomplete, state(&table, id)), (0, State::Stale));
}

fn advertisement(target: Ipv6Addr, solicited: bool, replace: bool, mac: Option<Mac>) -> NeighborAdvertisement {
    NeighborAdvertisement { target, router: false, solicited, replace, link_layer: mac }
}

/// RFC 4861 section 7.2.5 and appendix C.
#[test]
fn advertisements() {
    let target = v6(1);
    let mut table = NeighbourTable::new(at(0));
    // Nobody asked.
    table.on_advertisement(&advertisement(target, true, true, Some(A)), at(0));
    assert!(table.entries.is_empty());

    let id = table.resolve(target.into(), at(0));
    assert_eq!(drain(&mut table, at(0)), [solicit(target.into(), None)]);
    // Incomplete, and it names no address.
    table.on_advertisement(&advertisement(target, true, true, None), at(1));
    assert_eq!(table.mac(id), None);
    // Incomplete, unsolicited.
    table.on_advertisement(&advertisement(target, false, false, Some(A)), at(1));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Stale));
    // Solicited, the same address.
    table.on_advertisement(&advertisement(target, true, false, Some(A)), at(2));
    assert_eq!(state(&table, id), State::Reachable);
    // Another address without leave to replace: reachable becomes stale,
    // stale stays as it is.
    table.on_advertisement(&advertisement(target, true, false, Some(B)), at(3));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Stale));
    table.on_advertisement(&advertisement(target, true, false, Some(B)), at(4));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Stale));
    // Solicited, without address.
    table.on_advertisement(&advertisement(target, true, false, None), at(5));
    assert_eq!(state(&table, id), State::Reachable);
    // Unsolicited, the same address: no proof, no doubt.
    table.on_advertisement(&advertisement(target, false, true, Some(A)), at(6));
    assert_eq!(state(&table, id), State::Reachable);
    // Unsolicited, another address, with leave: the known one is asked first,
    // and need not name its address (RFC 4861 section 7.2.4).
    table.on_advertisement(&advertisement(target, false, true, Some(B)), at(7));
    assert_eq!(drain(&mut table, at(7)), [solicit(target.into(), Some(A))]);
    table.on_advertisement(&advertisement(target, true, false, None), at(7));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Reachable));
    // The same, as if in answer to us, while the known one is silent.
    table.on_advertisement(&advertisement(target, true, true, Some(B)), at(200));
    drain(&mut table, at(200));
    drain(&mut table, at(203));
    assert_eq!(drain(&mut table, at(206)), [solicit(target.into(), Some(B))]);
    table.on_advertisement(&advertisement(target, true, true, Some(B)), at(207));
    assert_eq!((table.mac(id), state(&table, id)), (Some(B), State::Reachable));
}

/// RFC 4861 section 7.2.3.
#[test]
fn a_solicitation_names_its_sender() {
    let mut table = NeighbourTable::new(at(0));
    table.on_sender(v6(1).into(), A, at(0));
    let id = table.resolve(v6(1).into(), at(0));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Stale));
    table.on_advertisement(&advertisement(v6(1), true, false, Some(A)), at(0));
    table.on_sender(v6(1).into(), A, at(1));
    assert_eq!(state(&table, id), State::Reachable);
    table.on_sender(v6(1).into(), B, at(2));
    assert_eq!(drain(&mut table, at(2)), [solicit(v6(1).into(), Some(A))]);
    assert_eq!((table.mac(id), state(&table, id)), (None, State::Disputed { sent: 1 }));
}

#[test]
fn a_packet_tells_where_it_came_from_only_if_nobody_knows_better() {
    let mut table = NeighbourTable::new(at(0));
    let id = table.resolve_from(v4(1), A, at(0));
    assert_eq!((table.mac(id), state(&table, id)), (Some(A), State::Stale));
    assert_eq!(table.resolve_through(v4(1), B, at(0)), id);
    assert_eq!(table.mac(id), Some(A));
    // It is used, so it is checked.
    drain(&mut table, at(5_000));
    assert_eq!(drain(&mut table, at(10_000)), [solicit(v4(1), Some(A))]);
    // One from elsewhere leads to a question at once.
    assert_eq!(table.resolve_from(v4(1), B, at(10_001)), id);
    assert_eq!(drain(&mut table, at(10_001)), [solicit(v4(1), Some(A))]);
    assert_eq!(table.mac(id), None);

    // What waits for an answer takes it.
    let waiting = table.resolve(v4(2), at(0));
    table.hold(waiting, &frame(7));
    assert_eq!(table.resolve_from(v4(2), B, at(10_000)), waiting);
    assert_eq!(drain(&mut table, at(10_000)), [sent(B, 7)]);
    // A group has no say.
    let group = table.resolve_from(v4(3), Mac::BROADCAST, at(10_000));
    assert_eq!(table.mac(group), None);
}
