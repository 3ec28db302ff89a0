//! The programs in this kernel, on loopback. Without the right to load them
//! the tests say so and pass, unless `CI` or `NEARSIDE_REQUIRE_TOOLS` says
//! that they must run.

use super::*;
use crate::config::ListenOptions;
use crate::listen::{Listener, Origin};
use core::net::SocketAddr;
use core::ops::Range;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};

/// Whether programs may be loaded here.
pub(super) fn may_load() -> bool {
    let Err(error) = Map::create("probe", MapKind::ReuseportSockets, 4, 8, 1) else { return true };
    let required = |name| std::env::var_os(name).is_some();
    assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "{error}; run as root");
    println!("skipped: {error}; run as root");
    false
}

fn bind(model: Model, workers: usize) -> (Listeners, SocketAddr) {
    let at = "127.0.0.1:0".parse().unwrap();
    let listeners = Listeners::bind(&[at], &ListenOptions::default(), model, workers).unwrap();
    let Endpoint::Tcp(address) = listeners.endpoints()[0] else { panic!("a TCP socket") };
    (listeners, address)
}

fn queue(listeners: &Listeners, worker: usize) -> Listener {
    listeners.for_worker(worker).remove(0)
}

/// Takes a connection that waits for one of these workers. connect(2) may
/// return before it does: the last segment of the handshake is on its way for
/// as long as the kernel has other things to do.
fn take(listeners: &Listeners, mut workers: Range<usize>) -> (usize, OwnedFd) {
    let queues: Vec<_> = workers.clone().map(|worker| queue(listeners, worker)).collect();
    let mut ready: Vec<_> = queues.iter().map(|queue| PollFd::new(queue, PollFlags::IN)).collect();
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert!(poll(&mut ready, Some(&patience)).unwrap() > 0, "no connection for any of {workers:?}");
    let found = workers.find_map(|worker| {
        let queue = queue(listeners, worker);
        Some((worker, accept_with(queue.as_fd(), SocketFlags::CLOEXEC).ok()?))
    });
    found.expect("nobody else takes it")
}

/// Which worker has the connection that was just made.
fn who(listeners: &Listeners) -> (usize, OwnedFd) {
    take(listeners, 0..listeners.workers())
}

fn attach(listeners: &Listeners, cores: &[Option<u16>]) -> Steering {
    Steering::attach(listeners, cores, &Topology::here().unwrap()).unwrap().unwrap()
}

#[test]
fn both_programs_pass_the_verifier_for_few_workers_and_for_the_most_and_one_needs_none() {
    if !may_load() {
        return;
    }
    for model in [Model::Local, Model::Least] {
        let (listeners, _) = bind(model, 1);
        assert!(Steering::attach(&listeners, &[None], &Topology::here().unwrap()).unwrap().is_none());
        for workers in [1, 2, MAX_WORKERS] {
            Steering::try_out(model, workers).unwrap();
        }
        let few = Steering::try_out(model, MAX_WORKERS + 1);
        assert!(matches!(few, Err(SteerError::TooManyWorkers(_))), "{few:?}");
        for workers in [2, MAX_WORKERS] {
            let (listeners, address) = bind(model, workers);
            let steering = attach(&listeners, &vec![None; workers]);
            let client = TcpStream::connect(address).unwrap();
            who(&listeners);
            drop(client);
            assert_eq!(steering.chosen().unwrap(), Chosen { any: 1, ..Chosen::default() }, "{model} {workers}");
        }
        let (listeners, _) = bind(model, MAX_WORKERS + 1);
        let outcome = Steering::attach(&listeners, &[], &Topology::here().unwrap());
        assert!(matches!(outcome, Err(SteerError::TooManyWorkers(257))));
    }
    let (listeners, _) = bind(Model::Reuseport, 2);
    assert!(Steering::attach(&listeners, &[], &Topology::here().unwrap()).unwrap().is_none());
}

/// On loopback a connection is received on the CPU that its client runs on.
#[test]
fn local_keeps_a_connection_on_the_cpu_that_received_it() {
    if !may_load() {
        return;
    }
    let cores = cpu::pin::allowed_cores().unwrap();
    // One worker needs no program, on a machine with one core.
    let [_, _, ..] = cores[..] else { return };
    let (listeners, address) = bind(Model::Local, cores.len());
    let pinned: Vec<_> = cores.iter().copied().map(Some).collect();
    let steering = attach(&listeners, &pinned);
    for (worker, core) in cores.iter().copied().enumerate() {
        let client = std::thread::spawn(move || {
            cpu::pin::pin(core).unwrap();
            (0..20).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>()
        });
        let clients = client.join().unwrap();
        for _ in &clients {
            assert_eq!(who(&listeners).0, worker);
        }
    }
    let own = 20 * cores.len() as u64;
    assert_eq!(steering.chosen().unwrap(), Chosen { own, ..Chosen::default() });
    assert!(steering.seat(0).is_none(), "it does not look at what workers have");
}

/// Nobody is pinned to the CPU that receives: one of its domain takes it.
#[test]
fn local_takes_a_neighbour_where_no_worker_is_on_the_cpu() {
    if !may_load() {
        return;
    }
    let cores = cpu::pin::allowed_cores().unwrap();
    let [first, second, ..] = cores[..] else { return };
    let topology = Topology::here().unwrap();
    if topology.domain_of(first) != topology.domain_of(second) {
        return;
    }
    let (listeners, address) = bind(Model::Local, 3);
    let steering = attach(&listeners, &[None, Some(first), Some(first)]);
    let client = std::thread::spawn(move || {
        cpu::pin::pin(second).unwrap();
        (0..40).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>()
    });
    let clients = client.join().unwrap();
    let mut taken = [0; 3];
    for _ in &clients {
        taken[who(&listeners).0] += 1;
    }
    assert_eq!(taken[0], 0, "it is pinned nowhere, so it is no neighbour");
    assert!(taken[1] > 0 && taken[2] > 0, "the hash deals out among neighbours: {taken:?}");
    assert_eq!(steering.chosen().unwrap().domain, 40);
}

#[test]
fn least_lets_idle_workers_take_turns() {
    if !may_load() {
        return;
    }
    // On one CPU, because each has turns of its own.
    std::thread::spawn(take_turns).join().unwrap();
}

fn take_turns() {
    cpu::pin::pin(cpu::pin::allowed_cores().unwrap()[0]).unwrap();
    let (listeners, address) = bind(Model::Least, 3);
    let steering = attach(&listeners, &[Some(0), Some(0), Some(0)]);
    let mut seats: Vec<_> = (0..3).map(|worker| steering.seat(worker).unwrap()).collect();
    let mut taken = [0; 3];
    for _ in 0..30 {
        let client = TcpStream::connect(address).unwrap();
        let (worker, server) = who(&listeners);
        seats[worker].taken();
        taken[worker] += 1;
        drop((client, server));
        seats[worker].finished();
    }
    assert_eq!(taken, [10, 10, 10]);
    assert_eq!(steering.outstanding(), [0, 0, 0]);
}

#[test]
fn least_spares_a_worker_that_does_not_take_its_work() {
    if !may_load() {
        return;
    }
    let (listeners, address) = bind(Model::Least, 3);
    let steering = attach(&listeners, &[Some(0), Some(0), Some(0)]);
    let mut seats: Vec<_> = (0..3).map(|worker| steering.seat(worker).unwrap()).collect();
    // The first three are dealt out one each, and worker 0 leaves its own.
    let mut waiting: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(steering.outstanding(), [1, 1, 1], "they count before they are accepted");
    for worker in [1, 2] {
        drop(take(&listeners, worker..worker + 1));
        seats[worker].taken();
        seats[worker].finished();
    }
    for _ in 0..20 {
        let client = TcpStream::connect(address).unwrap();
        let (worker, _) = take(&listeners, 1..3);
        seats[worker].taken();
        drop(client);
        seats[worker].finished();
    }
    assert_eq!(steering.outstanding(), [1, 0, 0]);
    // Once it takes it, it is one of them again.
    drop(take(&listeners, 0..1));
    seats[0].taken();
    seats[0].finished();
    waiting.extend((0..3).map(|_| TcpStream::connect(address).unwrap()));
    assert_eq!(steering.outstanding(), [1, 1, 1]);
}

#[test]
fn least_goes_by_what_workers_publish() {
    if !may_load() {
        return;
    }
    let (listeners, address) = bind(Model::Least, 2);
    let steering = attach(&listeners, &[None, None]);
    let mut seats: Vec<_> = (0..2).map(|worker| steering.seat(worker).unwrap()).collect();
    seats[0].publish(3);
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(steering.outstanding(), [3, 3]);
    seats[1].set_in_service(false);
    let more = TcpStream::connect(address).unwrap();
    drop(take(&listeners, 0..1));
    // Nobody is in service: the kernel's hash decides.
    drop(seats);
    let last = TcpStream::connect(address).unwrap();
    assert_eq!(steering.chosen().unwrap(), Chosen { any: 4, kernel: 1, ..Chosen::default() });
    drop((clients, more, last));
}

/// Both families on one endpoint are one group.
#[test]
fn both_families_are_steered() {
    if !may_load() {
        return;
    }
    let listeners = Listeners::bind(&["0".parse().unwrap()], &ListenOptions::default(), Model::Least, 2).unwrap();
    let Endpoint::Tcp(address) = listeners.endpoints()[0] else { panic!("a TCP socket") };
    let steering = attach(&listeners, &[None, None]);
    let four = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
    let six = TcpStream::connect(("::1", address.port())).unwrap();
    assert_eq!(steering.outstanding(), [1, 1]);
    drop((four, six));
}

/// What a restart does: the sockets go on, the program is replaced.
#[test]
fn a_successor_attaches_its_own() {
    if !may_load() {
        return;
    }
    let (old, address) = bind(Model::Least, 2);
    let steering = attach(&old, &[None, None]);
    let first: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let handed = |from: &Listeners| from.iter().map(|(_, fd)| fd.try_clone_to_owned().unwrap()).collect();
    let adopt = |sockets| {
        Listeners::adopt(sockets, Origin::Predecessor, &[], &ListenOptions::default(), Model::Least, 2).unwrap()
    };
    let again = adopt(handed(&old));
    let successor = attach(&again, &[None, None]);
    drop((steering, old));
    // Its counts begin anew, and what waits is taken by whoever has the queue.
    let mut seats: Vec<_> = (0..2).map(|worker| successor.seat(worker).unwrap()).collect();
    let second: Vec<_> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(successor.outstanding(), [1, 1]);
    for _ in 0..first.len() + second.len() {
        // None is lost.
        seats[who(&again).0].taken();
    }
    assert_eq!(successor.outstanding().iter().sum::<i64>(), 5, "the old ones count as well");
}

#[test]
fn sockets_that_somebody_holds_on_to_are_not_waited_for() {
    if !may_load() {
        return;
    }
    let (listeners, address) = bind(Model::Least, 2);
    let theirs = Map::create("theirs", MapKind::ReuseportSockets, 4, 8, 1).unwrap();
    theirs.set_socket(0, queue(&listeners, 1).as_fd()).unwrap();
    let refused = Steering::attach(&listeners, &[], &Topology::here().unwrap());
    assert!(matches!(refused, Err(SteerError::Held(_))), "{refused:?}");
    let client = TcpStream::connect(address).unwrap();
    who(&listeners);
    drop(client);
}

#[test]
fn without_the_capability_the_hash_decides_and_it_says_why() {
    if !may_load() {
        return;
    }
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    // Capabilities are a thread's own.
    let unprivileged = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::SYS_ADMIN | CapabilitySet::BPF;
        set_capabilities(None, sets).unwrap();
        for model in [Model::Local, Model::Least] {
            let (listeners, address) = bind(model, 2);
            let refused = Steering::attach(&listeners, &[], &Topology::here().unwrap()).unwrap_err().to_string();
            assert!(refused.starts_with("connections are dealt out by the kernel's hash: "), "{refused}");
            assert!(refused.ends_with("needs CAP_BPF"), "{refused}");
            let client = TcpStream::connect(address).unwrap();
            who(&listeners);
            drop(client);
        }
    });
    unprivileged.join().unwrap();
}
