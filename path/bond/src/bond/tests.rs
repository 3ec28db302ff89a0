use super::*;
use crate::aggregator::{Config, Mode, PortConfig, PortCounters, PortView};
use crate::lacp::{Mux, ReceiveState as Heard, Selected, Settings};
use link::{Pair, PairConfig, PairLink};
use wire::Mac;

fn config(ports: usize) -> Config {
    let ports = (0..ports).map(|index| PortConfig { name: format!("p{index}"), weight: 1 }).collect();
    Config { mac: Mac([2, 0, 0, 0, 0, 1]), mode: Mode::Static, min_links: 1, ports }
}

/// A bond of one queue for each port, and the other ends.
fn bond(ports: usize, aggregator: &Arc<Aggregator>, ring: usize) -> (Bond<PairLink>, Vec<PairLink>) {
    let pair = |_| Pair::new(PairConfig { ring, ..PairConfig::default() });
    let (near, far): (Vec<_>, Vec<_>) = (0..ports).map(pair).unzip();
    let members = near.into_iter().enumerate().map(|(port, link)| Member { port: port as u16, link }).collect();
    let mut bond = Bond::new(members, Arc::clone(aggregator)).unwrap();
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Up);
    (bond, far)
}

/// A TCP segment over IPv4 from `port`, `tag` its only byte.
fn frame(port: u16, tag: u8) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend_from_slice(&[8, 0, 0x45, 0, 0, 41, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes.extend_from_slice(&[0; 18]);
    bytes.push(tag);
    bytes
}

fn send(link: &mut impl Link, bytes: &[u8]) -> bool {
    let (_, mut tx) = link.split();
    let Some(slot) = tx.slot() else { return false };
    slot[..bytes.len()].copy_from_slice(bytes);
    tx.commit(bytes.len(), Offload::NONE);
    tx.flush(Time::ZERO);
    true
}

fn receive(link: &mut impl Link) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let (mut rx, _) = link.split();
    loop {
        let count = rx.receive(Time::ZERO, 32);
        if count == 0 {
            rx.release();
            return all;
        }
        all.extend((0..count).map(|index| rx.frame(index).to_vec()));
        rx.release();
    }
}

/// Which port each of 64 flows leaves through.
fn ways(bond: &mut Bond<PairLink>, far: &mut [Option<PairLink>]) -> Vec<usize> {
    let way = |flow| {
        assert!(send(bond, &frame(flow, 7)));
        let mut got = far.iter_mut().enumerate().filter_map(|(at, link)| Some((at, receive(link.as_mut()?))));
        let (at, frames) = got.find(|(_, frames)| !frames.is_empty()).expect("it arrives");
        assert_eq!(frames, [frame(flow, 7)]);
        assert_eq!(got.map(|(_, frames)| frames.len()).sum::<usize>(), 0, "nowhere else");
        at
    };
    (0..64).map(way).collect()
}

/// A link of 100 Gbit/s in a slot of 63 has 63 flows of 163; when it fails its flows go, and no others.
#[test]
fn flows_are_spread_by_weight() {
    let mut weighted = config(2);
    (weighted.ports[0].weight, weighted.ports[1].weight) = (100, 63);
    let aggregator = Aggregator::new(weighted);
    let (mut bond, far) = bond(2, &aggregator, 64);
    let table = |bond: &Bond<PairLink>, port: u8| bond.tx.table.iter().filter(|entry| **entry == port).count();
    assert_eq!((table(&bond, 0), table(&bond, 1)), (157, 99), "256 by 100 and 63");
    // No port has its flows in a row.
    assert!(bond.tx.table.windows(4).all(|four| four.contains(&0) && four != [0; 4] || four.contains(&1)));
    let before = *bond.tx.table;
    let mut far: Vec<_> = far.into_iter().map(Some).collect();
    far[1] = None;
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Up);
    ways(&mut bond, &mut far);
    assert_eq!(table(&bond, 0), 256);
    assert!(before.iter().zip(bond.tx.table.iter()).all(|(before, now)| *before == 1 || before == now));
}

/// Three ports of which one fails: the others take over its flows by their own weights.
#[test]
fn flows_of_a_port_that_failed_go_by_the_weights_of_the_others() {
    let mut weighted = config(3);
    (weighted.ports[0].weight, weighted.ports[1].weight, weighted.ports[2].weight) = (2, 1, 1);
    let aggregator = Aggregator::new(weighted);
    let (mut bond, far) = bond(3, &aggregator, 64);
    let count = |bond: &Bond<PairLink>, port: u8| bond.tx.table.iter().filter(|entry| **entry == port).count();
    assert_eq!([0, 1, 2].map(|port| count(&bond, port)), [128, 64, 64]);
    let mut far: Vec<_> = far.into_iter().map(Some).collect();
    far[2] = None;
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Up);
    ways(&mut bond, &mut far);
    let shares = [0, 1].map(|port| count(&bond, port));
    assert_eq!(shares[0] + shares[1], 256);
    assert!(shares[0].abs_diff(128 + 43) <= 1, "{shares:?}");
}

#[test]
fn flows_keep_their_member_through_the_failure_of_another() {
    let aggregator = Aggregator::new(config(3));
    let (mut bond, far) = bond(3, &aggregator, 64);
    let mut far: Vec<_> = far.into_iter().map(Some).collect();
    let before = ways(&mut bond, &mut far);
    assert_eq!(before, ways(&mut bond, &mut far));
    for port in 0..3 {
        assert!((10..=35).contains(&before.iter().filter(|at| **at == port).count()), "{before:?}");
    }
    far[1] = None;
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Up);
    assert_eq!(aggregator.distributing(), 0b101);
    let after = ways(&mut bond, &mut far);
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 1));
    assert!([0, 2].iter().all(|port| before.iter().zip(&after).any(|(b, a)| *b == 1 && a == port)), "both take over");
    far[0] = None;
    far[2] = None;
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Down);
    // As at any link that is down: dropped and counted.
    assert!(send(&mut bond, &frame(1, 1)));
    assert!(bond.split().1.room() > 0);
    assert_eq!((bond.bond_counters().no_member, bond.counters().tx_dropped), (1, 1));
    assert_eq!((0..3).map(|port| aggregator.counters(port).left).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_full_member_lends_its_frames_and_none_is_lost() {
    let aggregator = Aggregator::new(config(2));
    let (mut bond, mut far) = bond(2, &aggregator, 8);
    // One flow, that has one member.
    for tag in 0..16 {
        assert_eq!(bond.split().1.room(), 16 - usize::from(tag));
        assert!(send(&mut bond, &frame(1, tag)));
    }
    assert!(!send(&mut bond, &frame(1, 16)));
    assert_eq!(bond.bond_counters().lent, 8);
    let mut all: Vec<_> = far.iter_mut().flat_map(receive).collect();
    all.sort();
    assert_eq!(all, (0..16).map(|tag| frame(1, tag)).collect::<Vec<_>>());
}

#[test]
fn members_are_received_from_in_turn() {
    let aggregator = Aggregator::new(config(2));
    let (mut bond, mut far) = bond(2, &aggregator, 64);
    for tag in 0..40 {
        assert!(send(&mut far[0], &frame(0, tag)));
    }
    assert!(send(&mut far[1], &frame(1, 99)));
    let (mut rx, _) = bond.split();
    let mut bursts = Vec::new();
    for _ in 0..4 {
        let count = rx.receive(Time::ZERO, 16);
        bursts.push((0..count).map(|index| rx.frame(index)[54]).collect::<Vec<_>>());
        rx.release();
    }
    let run = |range: core::ops::Range<u8>| range.collect::<Vec<_>>();
    assert_eq!(bursts, [run(0..16), vec![99], run(16..32), run(32..40)]);
}

#[test]
fn several_queues_of_a_port_are_one_port() {
    let aggregator = Aggregator::new(config(1));
    let (near, mut far): (Vec<_>, Vec<_>) = (0..2).map(|_| Pair::new(PairConfig::default())).unzip();
    let members = near.into_iter().map(|link| Member { port: 0, link }).collect();
    let mut bond = Bond::new(members, Arc::clone(&aggregator)).unwrap();
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Up);
    for flow in 0..32 {
        assert!(send(&mut bond, &frame(flow, 0)));
    }
    assert_eq!([receive(&mut far[0]).len(), receive(&mut far[1]).len()], [32, 0]);
    assert!(send(&mut far[1], &frame(3, 3)));
    assert_eq!(receive(&mut bond), [frame(3, 3)]);
    far.remove(0);
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Up);
    assert_eq!(aggregator.counters(0).left, 0, "the port is still there");
    assert!(send(&mut bond, &frame(4, 4)));
    assert_eq!(receive(&mut far[0]), [frame(4, 4)]);
}

#[test]
fn a_silo_without_a_queue_is_down() {
    let aggregator = Aggregator::new(config(1));
    let (mut owner, _far) = bond(1, &aggregator, 8);
    let mut bond = Bond::<PairLink>::without_members(Arc::clone(&aggregator), owner.capabilities());
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Down);
    assert_eq!(aggregator.distributing(), 1, "and yet the port can be had elsewhere");
    assert!(send(&mut bond, &frame(1, 1)));
    assert_eq!(bond.bond_counters().no_member, 1);
    assert!(receive(&mut bond).is_empty());
    bond.wait(None, Duration::from_millis(1)).unwrap();
    drop(bond);
    owner.poll_control(Time::ZERO);
    assert_eq!(aggregator.distributing(), 1);
    drop(owner);
    assert_eq!(aggregator.distributing(), 0);
}

#[test]
fn too_few_links_are_none() {
    let aggregator = Aggregator::new(Config { min_links: 2, ..config(2) });
    let (mut bond, mut far) = bond(2, &aggregator, 8);
    far.pop();
    assert_eq!(bond.poll_control(Time::ZERO), LinkState::Down);
    assert!(send(&mut bond, &frame(1, 1)));
    assert_eq!(bond.bond_counters().no_member, 1);
}

#[test]
fn what_cannot_be_a_bond_is_refused() {
    let aggregator = Aggregator::new(config(1));
    let member = |port| Member { port, link: Pair::new(PairConfig::default()).0 };
    let fail = |members| Bond::<PairLink>::new(members, Arc::clone(&aggregator)).map(drop).unwrap_err();
    assert_eq!(fail(vec![]), BondError::NoMember);
    assert_eq!(fail(vec![member(1)]), BondError::NoSuchPort);
    assert_eq!(fail((0..=MAX_MEMBERS).map(|_| member(0)).collect()), BondError::TooManyMembers);
}

fn lacp(mac: u8, ports: usize) -> Arc<Aggregator> {
    Aggregator::new(Config { mac: Mac([2, 0, 0, 0, 0, mac]), mode: Mode::Lacp(Settings::default()), ..config(ports) })
}

/// Two bonds of two ports each, joined.
fn joined(a: &Arc<Aggregator>, b: &Arc<Aggregator>) -> [Bond<PairLink>; 2] {
    let (near, far): (Vec<_>, Vec<_>) = (0..2).map(|_| Pair::new(PairConfig::default())).unzip();
    let bond = |links: Vec<PairLink>, aggregator| {
        let members = links.into_iter().enumerate().map(|(port, link)| Member { port: port as u16, link });
        Bond::new(members.collect(), Arc::clone(aggregator)).unwrap()
    };
    [bond(near, a), bond(far, b)]
}

/// Both sides' silos have nothing to do but to look after their links.
fn idle(bonds: &mut [Bond<PairLink>], from: u64, to: u64) {
    for millis in from..to {
        for bond in bonds.iter_mut() {
            bond.poll_control(Time::from_millis(millis));
            let (mut rx, _) = bond.split();
            for _ in 0..2 {
                rx.receive(Time::from_millis(millis), 32);
                rx.release();
            }
        }
    }
}

#[test]
fn lacp_decides_what_is_sent_and_taken() {
    let (a, b) = (lacp(1, 2), lacp(2, 2));
    let mut bonds = joined(&a, &b);
    idle(&mut bonds, 0, 1_000);
    assert_eq!(bonds[0].poll_control(Time::from_millis(1_000)), LinkState::Down, "not yet agreed");
    assert!(send(&mut bonds[0], &frame(1, 1)));
    assert_eq!(bonds[0].bond_counters().no_member, 1);
    // A partner that does not keep to it: its frame is dropped and counted.
    assert!(bonds[1].with_member(0, |link| send(link, &frame(1, 1))).unwrap());
    assert!(receive(&mut bonds[0]).is_empty());
    assert_eq!(a.counters(0).dropped_not_collecting, 1);
    idle(&mut bonds, 1_000, 3_000);
    assert_eq!((a.distributing(), b.distributing()), (3, 3));
    assert!(send(&mut bonds[0], &frame(1, 1)));
    assert_eq!(receive(&mut bonds[1]), [frame(1, 1)]);
    let text = a.to_string();
    for wanted in ["mode: LACP, active, rate fast", "partner: system 02:00:00:00:00:02", "mux Distributing", "looped 0"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    // What is read without waiting for the machines is what they say.
    let view = a.view(1);
    let lacp = view.lacp.expect("machines");
    assert!(view.up && view.distributing && view.counters == a.counters(1));
    assert_eq!((lacp.receive, lacp.selected, lacp.mux), (Heard::Current, Selected::Selected, Mux::Distributing));
    assert_eq!((lacp.key, lacp.partner, lacp.partner_key, lacp.partner_port), (1, b.mac(), 1, 2));
    assert!(text.contains(&format!("LACP in {}, out {}", lacp.pdus_in, lacp.pdus_out)) && lacp.pdus_in > 2, "{text}");
    assert_eq!(a.view(9), PortView::default());
    // The other process is gone without a word.
    let [mut one, other] = bonds;
    drop(other);
    assert_eq!(one.poll_control(Time::from_millis(3_001)), LinkState::Down);
    assert_eq!(a.distributing(), 0);
    let view = a.view(1);
    assert!(!view.up && !view.distributing && view.counters.left == 1);
    let lacp = view.lacp.expect("machines");
    assert_eq!((lacp.receive, lacp.mux), (Heard::PortDisabled, Mux::Detached));
}

#[test]
fn a_port_without_machines_is_up_or_not() {
    let aggregator = Aggregator::new(Config { min_links: 2, ..config(2) });
    let (mut bond, mut far) = bond(2, &aggregator, 8);
    let counters = PortCounters { joined: 1, ..PortCounters::default() };
    assert_eq!(aggregator.view(0), PortView { up: true, distributing: true, counters, lacp: None });
    far.pop();
    bond.poll_control(Time::ZERO);
    let counters = PortCounters { left: 1, ..counters };
    assert_eq!(aggregator.view(0), PortView { up: true, distributing: false, counters, lacp: None });
    assert!(!aggregator.view(1).up);
}

/// A silo takes no turn before its link is up, and with LACP it is not before
/// the partner was heard.
#[test]
fn ports_join_although_a_silo_waits_for_its_link() {
    let (a, b) = (lacp(1, 2), lacp(2, 2));
    let mut bonds = joined(&a, &b);
    for millis in 0..3_000 {
        let now = Time::from_millis(millis);
        for bond in &mut bonds {
            if bond.poll_control(now) == LinkState::Up {
                receive(bond);
            }
        }
    }
    assert_eq!((a.distributing(), b.distributing()), (3, 3));
}

/// Several silos, each with a queue of its own of each port: whichever queue
/// a data unit comes in on, all silos see what follows from it.
#[test]
fn silos_share_what_lacp_has_agreed() {
    let (a, b) = (lacp(1, 1), lacp(2, 1));
    let (near, far): (Vec<_>, Vec<_>) = (0..2).map(|_| Pair::new(PairConfig::default())).unzip();
    let bond = |link, aggregator: &Arc<_>| Bond::new(vec![Member { port: 0, link }], Arc::clone(aggregator)).unwrap();
    let mut bonds: Vec<_> = near.into_iter().map(|link| bond(link, &a)).collect();
    bonds.extend(far.into_iter().map(|link| bond(link, &b)));
    idle(&mut bonds, 0, 3_500);
    assert_eq!((a.distributing(), b.distributing()), (1, 1));
    for bond in &mut bonds {
        assert_eq!(bond.poll_control(Time::from_millis(3_500)), LinkState::Up);
        assert!(send(bond, &frame(1, 1)));
    }
    for bond in &mut bonds {
        assert_eq!(receive(bond), [frame(1, 1)]);
    }
}

/// A silo that sleeps wakes for what the aggregation has to say.
#[test]
fn a_sleeper_is_awake_when_it_must_speak() {
    let aggregator = lacp(1, 2);
    let (near, _far) = Pair::new(PairConfig::default());
    let mut bond = Bond::new(vec![Member { port: 0, link: near }], Arc::clone(&aggregator)).unwrap();
    bond.poll_control(Time::ZERO);
    assert_eq!(aggregator.due(), Time::from_millis(1_000), "the first of each second");
    assert_eq!(aggregator.speaking(), 0, "said at once");
}

#[test]
fn one_member_that_shares_its_frames_makes_the_bond_share_them() {
    let (own, _) = Pair::new(PairConfig::default());
    let own = own.capabilities();
    let shared = Capabilities { shared_frames: true, ..own };
    assert_eq!(
        [(own, own), (own, shared), (shared, own)].map(|(a, b)| common(a, b).shared_frames),
        [false, true, true]
    );
}
