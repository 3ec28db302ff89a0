//! A scenario under the virtual clock, from start to end.

use crate::fabric::Fabric;
use crate::fleet::{Fleet, Machine};
use crate::peer::{Peer, Tally};
use crate::rng::Rng;
use crate::scenario::{Event, Happening, HostPlan, Scenario, addresses, cut};
use crate::shadow::Plant;
use core::time::Duration;
use link::Impairment;
use stack::Stack;
use stack::shadow::Way;
use std::collections::BTreeMap;
use wire::Time;

/// After this long something is stuck. The longest that a connection may take
/// by itself is a silent peer's: fifteen retransmissions are 25 minutes.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// TIME-WAIT, the neighbours' and all other memory must be gone this long
/// after the last connection.
const AFTERMATH: Duration = Duration::from_secs(300);

/// Turns in one run, so that a livelock ends: at one for each frame, a run of
/// the largest scenario takes a hundredth.
const MOST_TURNS: u64 = 50_000_000;

/// A scenario under way.
pub struct World {
    stations: Vec<Station>,
    fabric: Fabric,
    /// By time, the last first.
    events: Vec<Event>,
}

struct Station {
    host: Machine,
    plan: HostPlan,
    gone: bool,
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What happened at all hosts.
    pub tally: Tally,
    /// How long it took, in virtual time.
    pub took: Duration,
    /// Turns taken.
    pub turns: u64,
    /// Frames that the switch forwarded.
    pub frames: u64,
    /// What passed between silos of one host, by name.
    pub steering: BTreeMap<&'static str, u64>,
    /// Short ways that were held against the general ones.
    pub compared: BTreeMap<Way, u64>,
}

impl World {
    /// The scenario's start.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        Self::over(Fabric::default(), scenario)
    }

    /// The same, with short ways held against the general ones, except for
    /// what `plant` does to them.
    #[must_use]
    pub fn shadowed(scenario: &Scenario, plant: Option<Plant>) -> Self {
        Self::over(Fabric::shadowed(plant), scenario)
    }

    fn over(mut fabric: Fabric, scenario: &Scenario) -> Self {
        let mut rng = Rng::new(!scenario.seed);
        let mut stations = Vec::new();
        for (index, plan) in scenario.hosts.iter().enumerate() {
            let mut peer = |name, jobs| Peer::new(name, rng.next(), scenario.manner, jobs);
            let host = match plan.silos {
                None => {
                    let peer = peer(format!("host {index}"), plan.jobs.clone());
                    let host = fabric.host(plan.config.clone(), plan.faults, scenario.ring, rng.next(), peer);
                    Machine::One(Box::new(host))
                }
                Some(silos) => {
                    let shared_out = |silo| plan.jobs.iter().skip(silo).step_by(silos.count).cloned().collect();
                    let peers =
                        (0..silos.count).map(|silo| peer(format!("host {index} silo {silo}"), shared_out(silo)));
                    let peers = peers.collect();
                    let port = fabric.port(plan.config.mtu, plan.faults, scenario.ring);
                    let mut fleet = Fleet::new(port, &plan.config, silos, rng.next(), peers);
                    fleet.watcher = fabric.watcher();
                    Machine::Several(Box::new(fleet))
                }
            };
            stations.push(Station { host, plan: plan.clone(), gone: false });
        }
        let mut events = scenario.events.clone();
        events.reverse();
        Self { stations, fabric, events }
    }

    /// Prints every frame.
    pub fn trace(&mut self) {
        self.fabric.trace();
    }

    /// Runs to the end, and says how it went.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        let mut tally = Tally::default();
        let mut took = Duration::ZERO;
        while !self.done() {
            // A step moves the clock on to what is next, which may be nothing.
            took = self.fabric.elapsed();
            if self.fabric.elapsed() > LIMIT || self.fabric.turns() > MOST_TURNS {
                for what in
                    self.stations.iter().filter(|s| !s.gone).flat_map(|s| s.host.apps()).flat_map(Peer::under_way)
                {
                    tally.complain(format!("stuck: {what}"));
                }
                tally.complain("stuck: it does not come to an end".into());
                break;
            }
            self.step(Time::MAX);
        }
        if tally.violations.is_empty() {
            self.clear_up(&mut tally);
        }
        let mut compared = BTreeMap::new();
        for (index, station) in self.stations.iter().enumerate() {
            let Some(watcher) = station.host.watcher() else { continue };
            watcher.drifts.iter().for_each(|drift| tally.complain(format!("host {index}: {drift}")));
            for (way, count) in &watcher.compared {
                *compared.entry(*way).or_default() += count;
            }
        }
        for station in &self.stations {
            station.host.apps().for_each(|app| tally.add(&app.tally));
        }
        tally.bear_out();
        let mut steering = BTreeMap::new();
        for (name, count) in self.stations.iter().flat_map(|station| station.host.steering()) {
            *steering.entry(name).or_default() += count;
        }
        Outcome { tally, took, turns: self.fabric.turns(), frames: self.fabric.frames(), steering, compared }
    }

    fn done(&self) -> bool {
        self.stations.iter().all(|station| station.gone || station.host.apps().all(Peer::done))
    }

    fn step(&mut self, until: Time) {
        self.happen();
        let next = self.events.last().map_or(until, |event| event.at.min(until));
        let present = self.stations.iter_mut().filter(|station| !station.gone);
        let mut hosts: Vec<_> = present.map(|station| &mut station.host).collect();
        self.fabric.step(&mut hosts, next);
    }

    fn happen(&mut self) {
        while let Some(event) = self.events.pop_if(|event| event.at <= self.fabric.now()) {
            let station = &mut self.stations[event.host];
            let plan = station.plan.faults;
            let (receive, transmit): (Impairment, Impairment) = match event.what {
                Happening::Shorter(mtu) => {
                    station.host.set_mtu(mtu);
                    continue;
                }
                Happening::Cut | Happening::Gone => (cut(), cut()),
                Happening::Mended => (plan.receive, plan.transmit),
            };
            station.host.set_impairments(receive, transmit);
            if event.what == Happening::Gone {
                station.gone = true;
                for other in &mut self.stations {
                    other.host.apps_mut().for_each(|app| app.lose(&addresses(event.host)));
                }
            }
        }
    }

    /// Nothing may be left once all connections have been gone for a while.
    fn clear_up(&mut self, tally: &mut Tally) {
        let end = self.fabric.now() + AFTERMATH;
        while self.fabric.now() < end && self.fabric.turns() <= MOST_TURNS {
            self.step(end);
        }
        for (index, station) in self.stations.iter().enumerate().filter(|(_, station)| !station.gone) {
            let sum = |count: fn(&Stack) -> usize| station.host.stacks().map(count).sum();
            let left: [(_, usize); 6] = [
                ("connections", sum(Stack::connections)),
                ("half-open handshakes", sum(Stack::half_open)),
                ("TIME-WAIT records", sum(Stack::time_wait)),
                ("bytes received", sum(Stack::receive_memory)),
                ("bytes under way", sum(Stack::send_memory)),
                ("remembered flows", station.host.flows()),
            ];
            for (what, count) in left.iter().filter(|(_, count)| *count > 0) {
                tally.complain(format!("host {index}: {count} {what} are left"));
            }
        }
    }
}

/// Simulates what `seed` stands for, with several silos to a host.
#[must_use]
pub fn simulate_silos(seed: u64) -> Outcome {
    World::shadowed(&Scenario::of_silos(seed), None).run()
}

/// Simulates what `seed` stands for, with all talks sealed.
#[must_use]
pub fn simulate_sealed(seed: u64) -> Outcome {
    World::shadowed(&Scenario::of_sealed(seed), None).run()
}

/// The same of [`Scenario::of_paced`].
#[must_use]
pub fn simulate_paced(seed: u64) -> Outcome {
    World::shadowed(&Scenario::of_paced(seed), None).run()
}

/// Simulates what `seed` stands for.
#[must_use]
pub fn simulate(seed: u64) -> Outcome {
    World::shadowed(&Scenario::of(seed), None).run()
}

/// The same, with nobody who looks at short ways.
#[must_use]
pub fn simulate_bare(seed: u64, silos: bool) -> Outcome {
    let scenario = if silos { Scenario::of_silos(seed) } else { Scenario::of(seed) };
    World::new(&scenario).run()
}
