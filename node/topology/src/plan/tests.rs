//! Plans for recorded machines.

use super::*;
use crate::tests::{FIXTURES, machine};

fn port(name: &str, domain: Option<u16>, queues: Queues) -> Port {
    Port { name: name.into(), domain, queues }
}

fn ask(ports: &[Port], silos: Silos, numa: bool) -> Ask {
    Ask { ports: ports.to_vec(), silos, numa }
}

fn cores(plan: &Plan) -> Vec<u16> {
    plan.silos.iter().map(|seat| seat.core).collect()
}

fn warnings(plan: &Plan) -> Vec<String> {
    plan.warnings.iter().map(ToString::to_string).collect()
}

fn two_ports() -> [Port; 2] {
    [port("ens1f0", Some(0), Queues::Fixed(4)), port("ens2f0", Some(1), Queues::Fixed(4))]
}

#[test]
fn silos_sit_at_their_ports() {
    let two = machine("two-sockets", None);
    let made = plan(&two, &ask(&two_ports(), Silos::Count(4), true)).unwrap();
    // Core 0 has other work; the rest take turns between the ports.
    assert_eq!(cores(&made), [2, 1, 4, 3]);
    assert_eq!(made.queues, [4, 4]);
    for seat in &made.silos {
        assert_eq!(seat.memory, Memory::Domain(seat.domain));
        assert_eq!((seat.home, seat.egress.as_slice()), (seat.domain, &[seat.domain][..]));
        assert!(seat.queues.iter().all(|queue| queue.port == seat.domain) && seat.queues.len() == 2);
    }
    assert_eq!(made.crossing(&two_ports()), 0);
    assert!(made.warnings.is_empty());
}

#[test]
fn siblings_come_after_all_physical_cores() {
    let two = machine("two-sockets", None);
    let made = plan(&two, &ask(&two_ports(), Silos::Count(10), true)).unwrap();
    assert_eq!(cores(&made), [2, 1, 4, 3, 6, 5, 0, 7, 10, 9]);
    assert_eq!(
        warnings(&made),
        [
            "silos are on 10 cores which are threads of 8 physical ones",
            "more silos than queues: silos 8-9 have no queue of their own, and their frames are steered in software"
        ]
    );
}

#[test]
fn automatic_is_one_for_each_core_and_queue() {
    let two = machine("two-sockets", None);
    let auto = |ports: &[Port]| cores(&plan(&two, &ask(ports, Silos::Auto, true)).unwrap());
    // One core is left for the rest of the machine.
    assert_eq!(auto(&two_ports()), [2, 1, 4, 3, 6, 5, 7]);
    assert_eq!(auto(&two_ports()[1..]), [1, 3, 5, 7]);
    assert_eq!(auto(&[port("a", Some(1), Queues::UpTo(2))]), [1, 3]);
    // Shared memory is nowhere in particular: silos are at least together.
    assert_eq!(auto(&[port("memif", None, Queues::Fixed(3))]), [2, 4, 6]);
    assert_eq!(auto(&[port("memif", None, Queues::UpTo(64))]), [2, 4, 6, 1, 3, 5, 7]);
    let one = machine("single", Some(&[1, 3]));
    let made = plan(&one, &ask(&[port("a", None, Queues::Fixed(4))], Silos::Auto, true)).unwrap();
    // Of two cores, both.
    assert_eq!(cores(&made), [3, 1]);
    assert_eq!(made.warnings, [Warning::NoCoreLeft]);
}

#[test]
fn a_port_opens_as_many_queues_as_are_wanted() {
    let two = machine("two-sockets", None);
    let ports = [port("a", Some(0), Queues::UpTo(64)), port("b", Some(0), Queues::UpTo(2))];
    let made = plan(&two, &ask(&ports, Silos::Count(3), true)).unwrap();
    assert_eq!(made.queues, [3, 2]);
    let shares: Vec<usize> = made.silos.iter().map(|seat| seat.queues.len()).collect();
    assert_eq!(shares, [2, 2, 1]);
}

#[test]
fn what_is_far_is_used_and_said() {
    let two = machine("two-sockets", None);
    let ports = two_ports();
    // One silo for two ports.
    let made = plan(&two, &ask(&ports, Silos::On(vec![3]), true)).unwrap();
    assert_eq!((made.crossing(&ports), made.silos[0].queues.len()), (4, 8));
    assert_eq!(
        warnings(&made),
        ["ens1f0 is in NUMA domain 0, where no silo is: silos of domain 1 serve it, and its frames cross"]
    );
    // A silo without a port.
    let made = plan(&two, &ask(&ports[..1], Silos::On(vec![2, 4, 3]), true)).unwrap();
    assert_eq!(made.crossing(&ports[..1]), 1);
    assert_eq!(
        warnings(&made),
        [
            "NUMA domain 1 has no port: its silo 2 serves ports of domain 0, and the frames cross",
            "the 4 queues of ens1f0 do not divide by the 3 silos that serve it: some have one more"
        ]
    );
    // More silos than the port's domain has cores.
    let few = machine("two-sockets", Some(&[0, 2, 3]));
    let made = plan(&few, &ask(&ports[..1], Silos::Count(5), true)).unwrap();
    assert_eq!(cores(&made), [2, 0, 3, 2, 0]);
    assert!(warnings(&made)[0].starts_with("5 silos on 3 cores"), "{:?}", warnings(&made));
    // The nearest in the same socket.
    let epyc = machine("epyc-nps4", Some(&[0, 16, 17]));
    let made = plan(&epyc, &ask(&[port("a", Some(6), Queues::Fixed(1))], Silos::Count(1), true)).unwrap();
    assert_eq!((cores(&made), made.silos[0].home), (vec![16], 6));
}

#[test]
fn memory_comes_from_where_there_is_some() {
    let odd = machine("memoryless", None);
    let made = plan(&odd, &ask(&[port("eth0", Some(1), Queues::Fixed(2))], Silos::Auto, true)).unwrap();
    assert_eq!(cores(&made), [2, 3]);
    assert!(made.silos.iter().all(|seat| seat.memory == Memory::Domain(0)));
    assert_eq!(warnings(&made), ["NUMA domain 1 has no memory: that of its silos is in domain 0"]);
}

#[test]
fn isolated_cores_are_taken_first() {
    let some = machine("offline", None);
    let ports = [port("eth0", Some(0), Queues::Fixed(2)), port("eth1", Some(1), Queues::Fixed(2))];
    assert_eq!(cores(&plan(&some, &ask(&ports, Silos::Count(4), true)).unwrap()), [1, 7, 3, 4]);
}

#[test]
fn without_regard_to_domains_cores_go_by_number() {
    let two = machine("two-sockets", None);
    let made = plan(&two, &ask(&two_ports(), Silos::Count(4), false)).unwrap();
    assert_eq!(cores(&made), [0, 1, 2, 3]);
    assert!(made.silos.iter().all(|seat| seat.memory == Memory::Interleave && seat.egress == [0, 1]));
    // Half of the queues are on the wrong side, as one expects of chance.
    assert_eq!(made.crossing(&two_ports()), 4);
}

#[test]
fn what_cannot_be_had_is_refused() {
    let two = machine("two-sockets", Some(&[1, 2]));
    let refused = |ports: &[Port], silos| plan(&two, &ask(ports, silos, true)).unwrap_err().to_string();
    let ports = two_ports();
    assert_eq!(refused(&ports, Silos::On(vec![2, 3])), "core 3 cannot be used: this process may run on cores 1-2");
    assert_eq!(refused(&ports, Silos::On(vec![2, 2])), "core 2 is named twice: there is one silo on a core");
    assert_eq!(refused(&ports, Silos::Count(0)), "0 silos: there are to be at least one and at most 1024");
    assert_eq!(refused(&ports, Silos::Count(1025)), "1025 silos: there are to be at least one and at most 1024");
    assert_eq!(refused(&[], Silos::Auto), "0 ports: there are to be at least one and at most 64");
    assert_eq!(refused(&[port("a", None, Queues::UpTo(0))], Silos::Auto), "a has no queue");
    let none = machine("two-sockets", Some(&[]));
    assert_eq!(plan(&none, &ask(&ports, Silos::Auto, true)), Err(PlanError::NoCores));
}

/// What holds of every plan.
fn verify(topology: &Topology, ask: &Ask, plan: &Plan) {
    let Ask { ports, silos, numa } = ask;
    match silos {
        Silos::Count(count) => assert_eq!(plan.silos.len(), usize::from(*count)),
        Silos::On(cores) => assert_eq!(&self::cores(plan), cores),
        Silos::Auto => assert!(!plan.silos.is_empty()),
    }
    assert!(plan.silos.iter().all(|seat| topology.core(seat.core).is_some_and(crate::Core::is_usable)));
    // Every queue of every port has one owner, and there are no others.
    let mut owned: Vec<Queue> = plan.silos.iter().flat_map(|seat| seat.queues.clone()).collect();
    owned.sort_unstable();
    let opened = plan.queues.iter().enumerate();
    let all: Vec<Queue> =
        opened.flat_map(|(port, count)| (0..*count).map(move |queue| Queue { port: port as u16, queue })).collect();
    assert_eq!(owned, all);
    for (port, opened) in ports.iter().zip(&plan.queues) {
        match port.queues {
            Queues::Fixed(count) => assert_eq!(*opened, count),
            Queues::UpTo(most) => assert!((1..=most).contains(opened)),
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let of = |seat: &PlannedSilo| seat.queues.iter().filter(|queue| usize::from(queue.port) == index).count();
        let at_home: Vec<&PlannedSilo> = plan.silos.iter().filter(|seat| Some(seat.domain) == port.domain).collect();
        if *numa && port.domain.is_some() && !at_home.is_empty() {
            // Strangers have none but those who have no port at all.
            for seat in &plan.silos {
                assert!(of(seat) == 0 || Some(seat.home) == port.domain, "{seat:?}");
            }
            // Nobody at home is left without while another has two.
            let shares: Vec<usize> = at_home.iter().map(|seat| of(seat)).collect();
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
        }
    }
    for seat in &plan.silos {
        assert!(!seat.egress.is_empty());
        let has_port = ports.iter().any(|port| port.domain == Some(seat.domain));
        assert!(!numa || !has_port || seat.home == seat.domain);
        assert_eq!(seat.memory == Memory::Interleave, !numa);
    }
    // What crosses is said.
    let told = plan
        .warnings
        .iter()
        .any(|warning| matches!(warning, Warning::PortWithoutSilo { .. } | Warning::SiloWithoutPort { .. }));
    assert!(!numa || plan.crossing(ports) == 0 || told, "{plan:?}");
    let without = plan.silos.iter().any(|seat| seat.queues.is_empty());
    assert_eq!(without, plan.warnings.iter().any(|warning| matches!(warning, Warning::MoreSilosThanQueues(_))));
}

#[test]
fn whatever_is_asked_every_queue_has_one_owner() {
    for name in FIXTURES {
        for allowed in [None, Some(&[1_u16, 2, 3, 7, 20, 27, 33][..])] {
            let topology = machine(name, allowed);
            let places: Vec<Option<u16>> =
                topology.domains.iter().map(|domain| Some(domain.number)).chain([None]).collect();
            for (&first, &second) in places.iter().flat_map(|a| places.iter().map(move |b| (a, b))) {
                for queues in [Queues::Fixed(1), Queues::Fixed(3), Queues::Fixed(8), Queues::UpTo(2), Queues::UpTo(64)]
                {
                    let both = [port("a", first, queues), port("b", second, Queues::Fixed(4))];
                    for ports in [&both[..1], &both[..]] {
                        for numa in [true, false] {
                            let counts = [1, 2, 3, 5, 8, 40].map(Silos::Count);
                            let usable = topology.cores.iter().filter(|core| core.is_usable());
                            let list = usable.map(|core| core.number).step_by(3).collect();
                            for silos in counts.into_iter().chain([Silos::Auto, Silos::On(list)]) {
                                let ask = ask(ports, silos, numa);
                                verify(&topology, &ask, &plan(&topology, &ask).unwrap());
                            }
                        }
                    }
                }
            }
        }
    }
}
