//! New flows go to the silo with the least to do, and who gets one is
//! remembered.

use super::*;

fn least(flows: usize) -> MeshConfig {
    MeshConfig { policy: Policy::Least, flows, ..software() }
}

fn open(port: u16) -> Vec<u8> {
    segment((REMOTE_V4, port), (SERVER_V4, 80), Flags::SYN, b"")
}

impl House {
    /// Lets all silos receive until nothing is left; which silo had which
    /// port's frames.
    fn spread(&mut self) -> Vec<(usize, u16)> {
        let mut had = Vec::new();
        loop {
            let before = had.len();
            for silo in 0..self.silos.len() {
                let frames = self.receive(silo);
                had.extend(frames.iter().map(|frame| (silo, plain(frame).expect("a segment").0.remote_port)));
            }
            if had.len() == before {
                return had;
            }
        }
    }

    /// Turns of all silos beside the packet path, at `now`.
    fn look_after(&mut self, now: Time, owns: impl Fn(usize, u16) -> bool) {
        for _ in 0..3 {
            for (index, silo) in self.silos.iter_mut().enumerate() {
                silo.poll_control(now);
                silo.answer(&mut |remote, local| {
                    assert_eq!((remote.ip(), local), (REMOTE_V4, (SERVER_V4, 80).into()));
                    owns(index, remote.port())
                });
            }
            self.spread();
        }
    }
}

/// Loads that were told decide; a burst is spread although they are not told
/// anew; what follows the first segment goes where that went.
#[test]
fn new_flows_go_to_the_silo_with_the_least_to_do() {
    let mut house = house(&seats(&[1, 1, 1]), &least(64));
    let load = |working, open| Load { working, open };
    house.silos[0].set_load(load(5, 5));
    house.silos[1].set_load(load(0, 3));
    house.silos[2].set_load(load(0, 9));
    let mut owners = std::collections::HashMap::new();
    for port in 10_000..10_009 {
        house.arrive(0, &open(port));
    }
    for (silo, port) in house.spread() {
        assert_eq!(owners.insert(port, silo), None, "one SYN, one silo");
    }
    let of = |silo| owners.values().filter(|owner| **owner == silo).count();
    // Requests first: 0 and 0 against 5; of these two, evenly as they come.
    assert_eq!((of(0), of(1) + of(2)), (0, 9));
    assert!(of(1).abs_diff(of(2)) <= 1, "{owners:?}");
    for port in 10_000..10_009 {
        // The SYN again, and what follows.
        for frame in [open(port), request(port)] {
            house.arrive(0, &frame);
            assert_eq!(house.spread(), [(owners[&port], port)]);
        }
    }
    assert_eq!((house.silos[0].flows(), house.silos[0].steering().flows_steered), (9, 9));
    // Taken and told: now the other has the least.
    house.silos[1].set_load(load(9, 9));
    house.silos[2].set_load(load(9, 9));
    house.arrive(0, &open(20_000));
    assert_eq!(house.spread(), [(0, 20_000)]);
}

/// Without a word from the application, connections are spread evenly.
#[test]
fn a_burst_of_new_flows_is_shared_out() {
    let mut house = house(&seats(&[1, 0, 0, 0]), &least(1_000));
    for port in 10_000..10_100 {
        house.arrive(0, &open(port));
    }
    let had = house.spread();
    for silo in 0..4 {
        assert_eq!(had.iter().filter(|(owner, _)| *owner == silo).count(), 25);
    }
}

/// A full table leaves new flows where they arrive; a full ring has them
/// chosen anew.
#[test]
fn what_cannot_be_remembered_stays() {
    let mut house = house(&seats(&[1, 1]), &least(16));
    for port in 10_000..10_040 {
        house.arrive(0, &open(port));
    }
    let had = house.spread();
    assert_eq!(had.iter().filter(|(owner, _)| *owner == 1).count(), 8);
    assert_eq!(house.silos[0].steering().flows_full, 24);

    let mut house = self::house(&seats(&[1, 1]), &MeshConfig { ring: 4_096, ..least(1_000) });
    for port in 10_000..10_200 {
        house.arrive(0, &open(port));
        house.receive(0);
    }
    let counters = house.silos[0].steering();
    assert!(counters.ring_full > 0, "{counters:?}");
    assert_eq!(house.silos[0].flows() as u64, 200 - counters.ring_full, "those are not remembered");
}

/// Flows are forgotten once their silo knows them no more, and only then.
#[test]
fn flows_are_asked_after() {
    let mut house = house(&seats(&[1, 1]), &least(16));
    for port in 10_000..10_010 {
        house.arrive(0, &open(port));
    }
    let had = house.spread();
    let live = |silo, port| port % 2 == 0 && had.contains(&(silo, port));
    house.look_after(NOW + Duration::from_secs(5), live);
    assert_eq!(house.silos[0].flows(), 10, "not yet");
    house.look_after(NOW + Duration::from_secs(11), live);
    assert_eq!(house.silos[0].flows(), 5);
    assert_eq!(house.silos[0].steering().flows_forgotten, 5);
    // What is left goes where it went.
    for port in (10_000..10_010).filter(|port| port % 2 == 0) {
        house.arrive(0, &request(port));
        let went = house.spread();
        assert!(had.contains(&went[0]), "{went:?}");
    }
    // A silo that is gone knows nothing.
    drop(house.silos.pop());
    house.look_after(NOW + Duration::from_secs(30), |_, _| false);
    assert_eq!(house.silos[0].flows(), 0);
}

/// A flow that a failover moved is found once, and then its frames go
/// straight to their silo.
#[test]
fn a_moved_flow_is_found_again() {
    for config in [keyed(), least(64)] {
        let mut house = house(&seats(&[1, 1, 1]), &config);
        house.silos[0].mesh().set_failover(true);
        house.look_after(NOW, |_, _| false);
        let frame = request(10_000);
        house.arrive(0, &frame);
        let mut rx = house.silos[0].split().0;
        assert_eq!(rx.receive(NOW, 8), 1);
        assert!(rx.stray(0));
        rx.release();
        for silo in [1, 2] {
            assert_eq!(house.receive(silo), slice::from_ref(&frame));
        }
        house.look_after(NOW, |silo, port| (silo, port) == (2, 10_000));
        assert_eq!(house.silos[0].flows(), 1);
        house.arrive(0, &frame);
        assert_eq!(house.spread(), [(2, 10_000)]);
        assert_eq!(house.silos[2].steering().strays_owned, 1);
    }
}
