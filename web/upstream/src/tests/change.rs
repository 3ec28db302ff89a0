//! Groups that change while their peers are asked.

use super::*;

fn group(ports: &[u16]) -> Arc<Group> {
    let servers: Vec<GroupServer> = ports.iter().map(|port| server(*port, |_| {})).collect();
    Arc::new(Group::of(b"u", Balancing::RoundRobin, &servers, 0).unwrap())
}

fn conns(balancer: &Balancer) -> Vec<u32> {
    (0..balancer.group().peers().len()).map(|place| balancer.connections(PeerId(place as u16))).collect()
}

fn choose(balancer: &mut Balancer) -> Attempts {
    let mut attempts = balancer.begin(BalancingKey::None);
    balancer.choose(&mut attempts, 0, &mut || 0).expect("a peer");
    attempts
}

#[test]
fn what_is_known_of_a_peer_that_stays_stays() {
    let mut balancer = Balancer::new(group(&[1, 2]));
    let (mut one, mut other) = (choose(&mut balancer), choose(&mut balancer));
    balancer.change(group(&[3, 2]));
    assert_eq!(conns(&balancer), [0, 1]);
    assert!(!balancer.is_current(&one));
    // What was there is released, whatever it was.
    balancer.release(&mut one, 0, true);
    assert_eq!(conns(&balancer), [0, 1]);
    assert!(balancer.release(&mut other, 0, true).disabled);
    assert_eq!(conns(&balancer), [0, 0]);
    assert!(balancer.former.is_empty());
    // The one that failed rests; a request that began before goes on with the others.
    assert_eq!((one.left(), other.left()), (1, 1));
    assert_eq!(balancer.choose(&mut other, 0, &mut || 0).map(PeerId::place), Some(0));
    assert!(balancer.is_current(&other));
    assert_eq!(balancer.choose(&mut one, 0, &mut || 0).map(PeerId::place), Some(0));
    balancer.change(group(&[2, 3]));
    assert_eq!(conns(&balancer), [0, 2]);
}

#[test]
fn a_group_may_lose_all_its_peers_however_they_are_chosen() {
    let kinds = [
        Balancing::RoundRobin,
        Balancing::ClientAddress,
        Balancing::LeastConnections,
        Balancing::Key,
        Balancing::ConsistentKey,
        Balancing::Random,
        Balancing::RandomOfTwo,
    ];
    for balancing in kinds {
        let of = |ports: &[u16]| {
            let servers: Vec<GroupServer> = ports.iter().map(|port| server(*port, |_| {})).collect();
            Arc::new(Group::of(b"u", balancing, &servers, 9).unwrap())
        };
        let mut balancer = Balancer::new(of(&[]));
        let mut attempts = balancer.begin(BalancingKey::Value(b"key"));
        assert_eq!(balancer.choose(&mut attempts, 0, &mut || 7), None, "{balancing:?}");
        balancer.change(of(&[1, 2]));
        let mut attempts = balancer.begin(BalancingKey::Value(b"key"));
        assert!(balancer.choose(&mut attempts, 0, &mut || 7).is_some(), "{balancing:?}");
        balancer.change(of(&[]));
        balancer.release(&mut attempts, 0, true);
        assert_eq!(balancer.choose(&mut attempts, 0, &mut || 7), None, "{balancing:?}");
        assert!(balancer.former.is_empty(), "{balancing:?}");
    }
}

/// Requests begin and end, and the group changes, in any order: each peer counts the
/// requests that it is asked, and nothing is left.
#[test]
fn each_request_is_counted_once() {
    let mut random = SplitMix64::new(5);
    let any = |random: &mut SplitMix64| {
        let mut ports: Vec<u16> = (1..=6).filter(|_| random.below(2) == 0).collect();
        if ports.is_empty() {
            ports.push(9);
        }
        ports
    };
    for _ in 0..200 {
        let mut balancer = Balancer::new(group(&any(&mut random)));
        // Each, and where it was sent; nowhere once that peer was gone.
        let mut asked: Vec<(Attempts, Option<PeerAddress>)> = Vec::new();
        for _ in 0..60 {
            match random.below(5) {
                0 => {
                    balancer.change(group(&any(&mut random)));
                    for (_, at) in &mut asked {
                        let stays = |at: &PeerAddress| balancer.group().peers().iter().any(|peer| peer.address == *at);
                        *at = at.take().filter(stays);
                    }
                }
                1 | 2 if !asked.is_empty() => {
                    let (mut attempts, _) = asked.swap_remove(random.below(asked.len()));
                    balancer.release(&mut attempts, 0, false);
                }
                _ => {
                    let mut attempts = balancer.begin(BalancingKey::None);
                    let peer = balancer.choose(&mut attempts, 0, &mut || 0).expect("a peer");
                    let at = balancer.group().address(peer).clone();
                    asked.push((attempts, Some(at)));
                }
            }
            for (place, peer) in balancer.group().peers().iter().enumerate() {
                let known = asked.iter().filter(|(_, at)| at.as_ref() == Some(&peer.address)).count();
                assert_eq!(balancer.peers[place].conns as usize, known);
            }
        }
        for (mut attempts, _) in asked {
            balancer.release(&mut attempts, 0, false);
        }
        assert!(balancer.former.is_empty() && conns(&balancer).iter().all(|conns| *conns == 0));
    }
}

#[test]
fn idle_connections_stay_with_their_addresses() {
    let mut pool = IdlePool::new(IdleRules::new(9), group(&[1, 2, 3]));
    let kept = |conn| KeptConnection { conn, requests: 1, opened: 0 };
    let put = |pool: &mut IdlePool<u32>, peer: u16, conn| match pool.put(PeerId(peer), kept(conn), 0) {
        PutBack::Kept(id, None) => id,
        other => panic!("{other:?}"),
    };
    let ids = [(0, 10), (1, 20), (2, 30), (1, 21), (0, 11)].map(|(peer, conn)| put(&mut pool, peer, conn));
    let mut gone = pool.change(group(&[4, 2, 1]));
    gone.sort_unstable();
    assert_eq!((gone, pool.len()), (vec![30], 4));
    assert_eq!(pool.take(PeerId(0)), None);
    // The newest first, as before.
    assert_eq!(pool.take(PeerId(1)).map(|kept| kept.conn), Some(21));
    assert_eq!(pool.remove(ids[2]), None);
    assert_eq!(pool.remove(ids[0]), Some(10));
    assert_eq!(pool.take(PeerId(2)).map(|kept| kept.conn), Some(11));
    assert_eq!(pool.change(group(&[])), [20]);
    assert!(pool.is_empty() && pool.poll_any().is_none());
    pool.change(group(&[5]));
    put(&mut pool, 0, 50);
    assert_eq!(pool.take(PeerId(0)).map(|kept| kept.conn), Some(50));
}

fn found(last: u8, service: Option<(&str, u16, u16)>) -> FoundPeer {
    let service = service.map(|(host, priority, weight)| (host.as_bytes().into(), priority, weight));
    FoundPeer { address: SocketAddr::new([10, 0, 0, last].into(), 90), service }
}

/// The peers of a group: addresses, weights, and with a star whether they are backups.
fn shown(group: &Group) -> Vec<String> {
    let backups = group.rank(true).start.max(1);
    let star = |place: usize| if group.has_backup() && place >= backups { "*" } else { "" };
    let peers = group.peers().iter().enumerate();
    peers.map(|(place, peer)| format!("{} {}{}", peer.address, peer.weight, star(place))).collect()
}

#[test]
fn servers_with_names_follow_those_with_addresses() {
    let named = |service: Option<&str>, change: fn(&mut GroupServer)| {
        let mut settings = GroupServer::new(b"name", Vec::new());
        change(&mut settings);
        let service = service.map(|service| service.as_bytes().into());
        NamedServer { settings, host: b"name"[..].into(), port: 80, service }
    };
    let mut servers = NamedServers {
        name: b"u"[..].into(),
        balancing: Balancing::RoundRobin,
        fixed: vec![server(1, |_| {})],
        named: vec![named(None, |server| server.weight = 3), named(Some("http"), |_| {})],
    };
    let hosts = || vec![found(3, Some(("a", 5, 7))), found(4, Some(("b", 5, 1))), found(5, Some(("c", 9, 2)))];
    let all = [vec![found(1, None), found(2, None)], hosts()];
    assert_eq!(
        shown(&servers.group(&all).unwrap()),
        ["127.0.0.1:1 1", "10.0.0.1:80 3", "10.0.0.2:80 3", "10.0.0.3:90 7", "10.0.0.4:90 1", "10.0.0.5:90 2*"]
    );
    assert_eq!(shown(&servers.group(&[vec![], vec![]]).unwrap()), ["127.0.0.1:1 1"]);
    // A weight of its own is that of all its hosts; and there is nothing behind backups.
    servers.named = vec![named(Some("http"), |server| (server.weight, server.backup) = (4, true))];
    let told = shown(&servers.group(&[hosts()]).unwrap());
    assert_eq!(told, ["127.0.0.1:1 1", "10.0.0.3:90 4*", "10.0.0.4:90 4*"]);
    // Where there are no backups, hosts of the least number are all.
    (servers.balancing, servers.named) = (Balancing::Random, vec![named(Some("http"), |_| {})]);
    assert_eq!(shown(&servers.group(&[hosts()]).unwrap()), ["127.0.0.1:1 1", "10.0.0.3:90 7", "10.0.0.4:90 1"]);
    servers.balancing = Balancing::ConsistentKey;
    let heavy = vec![found(3, Some(("a", 5, 300)))];
    assert_eq!(servers.group(&[heavy]).unwrap_err(), GroupError::TooHeavy);
}
