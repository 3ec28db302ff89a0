mod change;

use super::*;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use random::SplitMix64;
use std::sync::Arc;

fn at(port: u16) -> PeerAddress {
    PeerAddress::Inet(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))
}

fn server(port: u16, change: impl FnOnce(&mut GroupServer)) -> GroupServer {
    let mut server = GroupServer::new(format!("127.0.0.1:{port}").as_bytes(), vec![at(port)]);
    change(&mut server);
    server
}

fn weighted(weights: &[u32]) -> Vec<GroupServer> {
    weights.iter().zip(1..).map(|(weight, port)| server(port, |server| server.weight = *weight)).collect()
}

fn balancer(balancing: Balancing, servers: &[GroupServer]) -> Balancer {
    Balancer::new(Arc::new(Group::new(b"u", balancing, servers).unwrap()))
}

/// One request that goes well: the place of the peer that it gets.
fn one(balancer: &mut Balancer, key: BalancingKey<'_>, now: i64) -> Option<usize> {
    let mut attempts = balancer.begin(key);
    let peer = balancer.choose(&mut attempts, now, &mut || 0)?;
    balancer.release(&mut attempts, now, false);
    Some(peer.place())
}

/// One request, which peers fail where `fails` says so: those that it gets.
fn tried(balancer: &mut Balancer, now: i64, fails: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut attempts = balancer.begin(BalancingKey::None);
    let mut tried = Vec::new();
    while let Some(peer) = balancer.choose(&mut attempts, now, &mut || 0) {
        tried.push(peer.place());
        let failed = fails(peer.place());
        balancer.release(&mut attempts, now, failed);
        if !failed || attempts.left() == 0 {
            break;
        }
    }
    tried
}

/// What was not processed says nothing of a peer: the others come first, and then it is asked again.
#[test]
fn what_a_peer_has_not_processed_it_may_be_asked_again() {
    let mut balancer = balancer(Balancing::RoundRobin, &weighted(&[1, 1]));
    let mut attempts = balancer.begin(BalancingKey::None);
    let mut asked = Vec::new();
    for _ in 0..4 {
        let peer = balancer.choose(&mut attempts, 1, &mut || 0).expect("one of them may be asked");
        asked.push(peer.place());
        balancer.release_unprocessed(&mut attempts, 1);
        assert_eq!(attempts.left(), 2);
    }
    assert_eq!(asked, [0, 1, 0, 1]);
    // What failed is not asked again.
    let failed = balancer.choose(&mut attempts, 1, &mut || 0).expect("the first");
    balancer.release(&mut attempts, 1, true);
    let other = balancer.choose(&mut attempts, 1, &mut || 0).expect("the second");
    balancer.release(&mut attempts, 1, true);
    assert_ne!(failed, other);
    assert!(balancer.choose(&mut attempts, 1, &mut || 0).is_none());
}

/// One that refuses is asked again once no other is left: first the others, and the backups.
#[test]
fn who_refuses_is_asked_again_behind_all_others() {
    let backed = [server(1, |_| {}), server(2, |server| server.backup = true)];
    for (servers, expected) in
        [(&backed[..], [0, 1, 1]), (&weighted(&[1, 1, 1])[..], [0, 1, 2]), (&backed[..1], [0; 3])]
    {
        let mut balancer = balancer(Balancing::RoundRobin, servers);
        let mut attempts = balancer.begin(BalancingKey::None);
        let asked = expected.map(|_| {
            let peer = balancer.choose(&mut attempts, 1, &mut || 0).expect("one of them may be asked");
            balancer.release_refused(&mut attempts, 1);
            peer.place()
        });
        assert_eq!(asked, expected);
    }
}

#[test]
fn weights_are_spread_smoothly() {
    let mut balancer = balancer(Balancing::RoundRobin, &weighted(&[5, 1, 1]));
    let places: Vec<_> = (0..14).map(|_| one(&mut balancer, BalancingKey::None, 0).unwrap()).collect();
    assert_eq!(places, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn in_a_round_each_peer_has_its_weight() {
    let mut random = SplitMix64::new(1);
    for _ in 0..50 {
        let weights: Vec<u32> = (0..=random.below(90)).map(|_| random.up_to(9) as u32 + 1).collect();
        let total: u32 = weights.iter().sum();
        let mut balancer = balancer(Balancing::RoundRobin, &weighted(&weights));
        let mut counts = vec![0; weights.len()];
        (0..total).for_each(|_| counts[one(&mut balancer, BalancingKey::None, 0).unwrap()] += 1);
        assert_eq!(counts, weights);
    }
}

#[test]
fn what_fails_is_left_alone_and_comes_back() {
    let mut servers = weighted(&[4, 1]);
    (servers[0].max_fails, servers[0].fail_timeout) = (2, 10);
    let mut balancer = balancer(Balancing::RoundRobin, &servers);
    let bad = |place| place == 0;
    assert_eq!(tried(&mut balancer, 100, bad), [0, 1]);
    // Once more: two failures are the limit.
    assert!((0..4).any(|_| tried(&mut balancer, 105, bad) == [0, 1]));
    for now in 106..=115 {
        assert_eq!(tried(&mut balancer, now, bad), [1], "it rests up to ten seconds after the last");
    }
    // It is tried again, by one request, whose failure has it rest anew.
    let again: Vec<_> = (0..4).map(|_| tried(&mut balancer, 116, bad)).collect();
    assert_eq!(again.iter().filter(|tried| tried.contains(&0)).count(), 1, "{again:?}");
    // And when it is well, it has its whole weight again in a while.
    (0..20).for_each(|_| drop(tried(&mut balancer, 130, |_| false)));
    let well: Vec<_> = (0..5).flat_map(|_| tried(&mut balancer, 131, |_| false)).collect();
    assert_eq!(well.iter().filter(|place| **place == 0).count(), 4);
}

#[test]
fn a_disabled_peer_is_told_of_at_each_failure_at_the_limit() {
    let mut servers = weighted(&[1, 1]);
    servers[0].max_fails = 2;
    servers[1].max_fails = 0;
    let mut balancer = balancer(Balancing::RoundRobin, &servers);
    let mut told = Vec::new();
    for _ in 0..2 {
        let mut attempts = balancer.begin(BalancingKey::None);
        while balancer.choose(&mut attempts, 5, &mut || 0).is_some() {
            told.push(balancer.release(&mut attempts, 5, true).disabled);
        }
    }
    assert_eq!(told, [false, false, false, true], "without a limit none is disabled");
}

#[test]
fn a_single_peer_is_asked_however_often_it_failed() {
    let mut balancer = balancer(Balancing::RoundRobin, &weighted(&[1]));
    for _ in 0..5 {
        let mut attempts = balancer.begin(BalancingKey::None);
        assert_eq!(attempts.left(), 1);
        assert!(balancer.choose(&mut attempts, 1, &mut || 0).is_some());
        assert!(!balancer.release(&mut attempts, 1, true).disabled);
        assert_eq!(attempts.left(), 0);
    }
    let mut down = balancer_of_down();
    assert_eq!(one(&mut down, BalancingKey::None, 0), None);
}

fn balancer_of_down() -> Balancer {
    balancer(Balancing::RoundRobin, &[server(1, |server| server.down = true)])
}

#[test]
fn backups_are_asked_when_the_others_cannot_be() {
    let servers =
        [server(1, |_| {}), server(2, |server| server.backup = true), server(3, |server| server.backup = true)];
    for balancing in [Balancing::RoundRobin, Balancing::LeastConnections] {
        let mut balancer = balancer(balancing, &servers);
        assert_eq!(tried(&mut balancer, 1, |place| place == 0), [0, 1]);
        assert_eq!(tried(&mut balancer, 1, |_| false), [2], "the first rests");
        assert_eq!(tried(&mut balancer, 1, |_| true).len(), 2);
        assert_eq!(tried(&mut balancer, 1, |_| true), [0; 0], "no live upstreams");
        assert_eq!(tried(&mut balancer, 12, |_| false), [0]);
    }
}

#[test]
fn connections_are_bounded_and_given_back() {
    let servers = [server(1, |server| server.max_conns = 2), server(2, |server| server.max_conns = 1)];
    for balancing in [
        Balancing::RoundRobin,
        Balancing::LeastConnections,
        Balancing::ClientAddress,
        Balancing::Key,
        Balancing::ConsistentKey,
        Balancing::Random,
        Balancing::RandomOfTwo,
    ] {
        let mut balancer = balancer(balancing, &servers);
        let mut random = SplitMix64::new(3);
        let mut under_way = Vec::new();
        for _ in 0..3 {
            let mut attempts = balancer.begin(BalancingKey::Value(b"k"));
            assert!(balancer.choose(&mut attempts, 0, &mut || random.bits()).is_some(), "{balancing:?}");
            under_way.push(attempts);
        }
        let mut fourth = balancer.begin(BalancingKey::Value(b"k"));
        assert_eq!(balancer.choose(&mut fourth, 0, &mut || random.bits()), None, "{balancing:?}");
        let peer = under_way[0].current().unwrap();
        balancer.release(&mut under_way[0], 0, false);
        let mut fifth = balancer.begin(BalancingKey::Value(b"k"));
        assert_eq!(balancer.choose(&mut fifth, 0, &mut || random.bits()), Some(peer), "{balancing:?}");
    }
}

#[test]
fn each_peer_is_tried_once_however_they_are_chosen() {
    let servers = weighted(&(0..70).map(|number| number % 5 + 1).collect::<Vec<_>>());
    for balancing in [Balancing::ClientAddress, Balancing::Key, Balancing::ConsistentKey, Balancing::Random] {
        let mut balancer = balancer(balancing, &servers);
        let mut random = SplitMix64::new(7);
        let client = BalancingKey::Client(Some(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3))));
        let key = if balancing == Balancing::ClientAddress { client } else { BalancingKey::Value(b"key") };
        let mut attempts = balancer.begin(key);
        let mut seen = Vec::new();
        while let Some(peer) = balancer.choose(&mut attempts, 0, &mut || random.bits()) {
            seen.push(peer);
            balancer.release(&mut attempts, 0, true);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 70, "{balancing:?}");
        assert_eq!(attempts.left(), 0);
    }
}

#[test]
fn few_keys_change_their_peer_when_one_is_added() {
    let one_more = balancer(Balancing::ConsistentKey, &weighted(&[1; 10]));
    let mut balancers = [balancer(Balancing::ConsistentKey, &weighted(&[1; 9])), one_more];
    let keys: Vec<_> = (0..1_000).map(|number| format!("/key/{number}")).collect();
    let [before, after] = balancers.each_mut().map(|balancer| {
        keys.iter().map(|key| one(balancer, BalancingKey::Value(key.as_bytes()), 0).unwrap()).collect::<Vec<_>>()
    });
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
    let (all, elsewhere) =
        moved.fold((0, 0), |(all, elsewhere), (_, after)| (all + 1, elsewhere + usize::from(*after != 9)));
    assert!((40..200).contains(&all) && elsewhere == 0, "{all} {elsewhere}");
}

#[test]
fn sums_are_those_of_the_standard() {
    assert_eq!(checksum::Crc32::new().with(b"1234").with(b"56789").finish(), 0xcbf4_3926);
}

#[test]
fn groups_without_peers_or_with_too_many_are_refused() {
    let backup = server(1, |server| server.backup = true);
    assert_eq!(Group::new(b"u", Balancing::RoundRobin, &[backup]).unwrap_err(), GroupError::None);
    let many = GroupServer::new(b"many", (0..=u16::MAX).map(at).collect());
    assert_eq!(Group::new(b"u", Balancing::RoundRobin, &[many]).unwrap_err(), GroupError::TooMany);
    let heavy = server(1, |server| server.weight = 1 << 20);
    assert_eq!(Group::new(b"u", Balancing::ConsistentKey, &[heavy]).unwrap_err(), GroupError::TooHeavy);
}

#[test]
fn idle_connections_are_used_newest_first_and_leave_oldest_first() {
    let group = Arc::new(Group::new(b"u", Balancing::RoundRobin, &weighted(&[1, 1])).unwrap());
    let balancer = Balancer::new(Arc::clone(&group));
    let mut peers = [balancer.begin(BalancingKey::None), balancer.begin(BalancingKey::None)];
    let mut balancer = balancer;
    let [one, other] = peers.each_mut().map(|attempts| balancer.choose(attempts, 0, &mut || 0).unwrap());
    let rules = IdleRules { requests: 3, ..IdleRules::new(2) };
    let mut pool = IdlePool::new(rules, group);
    let kept = |conn, requests| KeptConnection { conn, requests, opened: 0 };
    let put = |pool: &mut IdlePool<u32>, peer, conn| match pool.put(peer, kept(conn, 1), 100 + u64::from(conn)) {
        PutBack::Kept(id, gone) => (id, gone),
        PutBack::Spent => panic!("it may be kept"),
    };
    assert_eq!(put(&mut pool, one, 1).1, None);
    assert_eq!(put(&mut pool, one, 2).1, None);
    assert_eq!(put(&mut pool, other, 3).1, Some(1), "the oldest gives way");
    assert_eq!(pool.take(one).unwrap().conn, 2);
    assert_eq!(pool.take(one), None);
    let (third, _) = put(&mut pool, one, 4);
    assert_eq!(pool.next_deadline(), Some(103 + 60_000));
    assert_eq!((pool.poll_expired(103 + 59_999), pool.poll_expired(103 + 60_000)), (None, Some(3)));
    assert_eq!((pool.remove(third), pool.remove(third), pool.len()), (Some(4), None, 0));
    assert_eq!(pool.put(one, kept(5, 3), 100), PutBack::Spent, "requests");
    assert_eq!(pool.put(one, kept(5, 1), 3_600_001), PutBack::Spent, "time");
}

#[test]
fn the_pool_is_a_list_in_the_order_of_use() {
    let group = Arc::new(Group::new(b"u", Balancing::RoundRobin, &weighted(&[1; 5])).unwrap());
    let mut random = SplitMix64::new(11);
    let mut pool = IdlePool::new(IdleRules::new(7), group);
    // Newest last: peer, connection, id, when.
    let mut model: Vec<(u16, u32, IdleId, u64)> = Vec::new();
    for number in 0..20_000_u32 {
        let peer = random.below(5) as u16;
        let now = u64::from(number) * 500;
        match random.below(8) {
            0..4 => {
                let kept = KeptConnection { conn: number, requests: 1, opened: now };
                let PutBack::Kept(id, gone) = pool.put(PeerId(peer), kept, now) else { panic!("kept") };
                let expected = (model.len() == 7).then(|| model.remove(0).1);
                assert_eq!(gone, expected);
                model.push((peer, number, id, now));
            }
            4 | 5 => {
                let at = model.iter().rposition(|(other, ..)| *other == peer);
                assert_eq!(pool.take(PeerId(peer)).map(|kept| kept.conn), at.map(|at| model.remove(at).1));
            }
            6 if !model.is_empty() => {
                let (_, conn, id, _) = model.remove(random.below(model.len()));
                assert_eq!((pool.remove(id), pool.remove(id)), (Some(conn), None));
            }
            _ => {
                while let Some(conn) = pool.poll_expired(now) {
                    let (_, expected, _, since) = model.remove(0);
                    assert_eq!((conn, since + 60_000 <= now), (expected, true));
                }
                assert!(model.first().is_none_or(|(.., since)| since + 60_000 > now));
            }
        }
        assert_eq!(pool.len(), model.len());
    }
    while let Some(conn) = pool.poll_any() {
        assert_eq!(conn, model.remove(0).1);
    }
    assert!(model.is_empty());
}
