//! Hosts, links and a switch under a virtual clock.

use crate::peer::{Peer, Tally};
use crate::rng::Rng;
use crate::scenario::{Event, Happening, HostPlan, Scenario, addresses, cut};
use crate::switch::Switch;
use app::App;
use core::time::Duration;
use link::{FaultPlan, Faults, Impairment, Link, Pair, PairConfig, PairLink};
use silo::Silo;
use stack::{Config, LinkOffload, Seeds, Stack};
use wire::Time;

/// What a turn of all hosts takes at least: a round trip is never nothing.
pub const TURN: Duration = Duration::from_micros(2);

/// After this long something is stuck. The longest that a connection may take
/// by itself is a silent peer's: fifteen retransmissions are 25 minutes.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// TIME-WAIT, the neighbours' and all other memory must be gone this long
/// after the last connection.
const AFTERMATH: Duration = Duration::from_secs(300);

/// Turns in one run, so that a livelock ends: at one for each frame, a run of
/// the largest scenario takes a hundredth.
const MOST_TURNS: u64 = 50_000_000;

/// A host: the real stack in a real silo, on a faulty link.
pub type Host<A> = Silo<Faults<PairLink>, A>;

/// A host's silo at the far end of `faults`, and the switch's end of its link.
#[must_use]
pub fn host<A: App>(config: Config, faults: FaultPlan, ring: usize, seed: u64, app: A) -> (Host<A>, PairLink) {
    let (near, far) = Pair::new(PairConfig { ring, mtu: config.mtu, ..PairConfig::default() });
    let mut rng = Rng::new(seed);
    let mut keys = || core::array::from_fn(|_| rng.next());
    let seeds = Seeds { table: keys(), secret: keys() };
    // A clock that has run before: milliseconds wrap soon.
    let stack = Stack::new(config, LinkOffload::default(), &seeds, Time::ZERO);
    (Silo { link: Faults::new(near, faults), stack, app }, far)
}

/// When a host needs its next turn: at once, or later.
#[must_use]
pub fn due<A: App>(host: &mut Host<A>, last: Option<silo::Turn>, now: Time) -> Time {
    let Some(turn) = last else { return now };
    if turn.more || host.link.with_inner(|link| link.waiting()) > 0 {
        return now;
    }
    let frames = host.link.next_event().unwrap_or(Time::MAX);
    turn.deadline.min(frames).min(host.stack_deadline())
}

/// A scenario under way.
pub struct World {
    hosts: Vec<Station>,
    switch: Switch,
    events: Vec<Event>,
    now: Time,
    turns: u64,
}

struct Station {
    host: Host<Peer>,
    plan: HostPlan,
    last: Option<silo::Turn>,
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
}

impl World {
    /// The scenario's start.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let mut switch = Switch::default();
        let mut rng = Rng::new(!scenario.seed);
        let mut hosts = Vec::new();
        for (index, plan) in scenario.hosts.iter().enumerate() {
            let peer = Peer::new(format!("host {index}"), rng.next(), scenario.manner, plan.jobs.clone());
            let (host, port) = host(plan.config.clone(), plan.faults, scenario.ring, rng.next(), peer);
            switch.connect(port);
            hosts.push(Station { host, plan: plan.clone(), last: None, gone: false });
        }
        let mut events = scenario.events.clone();
        events.reverse();
        Self { hosts, switch, events, now: Time::ZERO, turns: 0 }
    }

    /// Runs to the end, and says how it went.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        let mut tally = Tally::default();
        while !self.done() {
            if self.now.since(Time::ZERO) > LIMIT || self.turns > MOST_TURNS {
                for what in self.hosts.iter().filter(|s| !s.gone).flat_map(|s| s.host.app.under_way()) {
                    tally.complain(format!("stuck: {what}"));
                }
                break;
            }
            self.step(Time::MAX);
        }
        let took = self.now.since(Time::ZERO);
        if tally.violations.is_empty() {
            self.clear_up(&mut tally);
        }
        for station in &self.hosts {
            tally.add(&station.host.app.tally);
        }
        Outcome { tally, took, turns: self.turns, frames: self.switch.forwarded }
    }

    fn done(&self) -> bool {
        self.hosts.iter().all(|station| station.gone || station.host.app.done())
    }

    /// Takes the turns that are due, then moves the clock to the next, no
    /// further than `until`.
    fn step(&mut self, until: Time) {
        self.happen();
        let mut next = self.events.last().map_or(Time::MAX, |event| event.at);
        for station in self.hosts.iter_mut().filter(|station| !station.gone) {
            if due(&mut station.host, station.last, self.now) <= self.now {
                station.last = Some(station.host.turn(self.now));
                self.turns += 1;
            }
        }
        self.switch.turn(self.now);
        for station in self.hosts.iter_mut().filter(|station| !station.gone) {
            next = next.min(due(&mut station.host, station.last, self.now));
        }
        if self.switch.has_work() {
            next = self.now;
        }
        self.now = next.max(self.now + TURN).min(until.max(self.now + TURN));
    }

    fn happen(&mut self) {
        while let Some(event) = self.events.pop_if(|event| event.at <= self.now) {
            let station = &mut self.hosts[event.host];
            let plan = station.plan.faults;
            let (receive, transmit): (Impairment, Impairment) = match event.what {
                Happening::Cut | Happening::Gone => (cut(), cut()),
                Happening::Mended => (plan.receive, plan.transmit),
            };
            station.host.link.set_impairments(receive, transmit);
            if event.what == Happening::Gone {
                station.gone = true;
                for other in &mut self.hosts {
                    other.host.app.lose(&addresses(event.host));
                }
            }
        }
    }

    /// Nothing may be left once all connections have been gone for a while.
    fn clear_up(&mut self, tally: &mut Tally) {
        let end = self.now + AFTERMATH;
        while self.now < end && self.turns <= MOST_TURNS {
            self.step(end);
        }
        for (index, station) in self.hosts.iter().enumerate().filter(|(_, station)| !station.gone) {
            let stack = &station.host.stack;
            let left = [
                ("connections", stack.connections()),
                ("half-open handshakes", stack.half_open()),
                ("TIME-WAIT records", stack.time_wait()),
                ("bytes received", stack.receive_memory()),
            ];
            for (what, count) in left.iter().filter(|(_, count)| *count > 0) {
                tally.complain(format!("host {index}: {count} {what} are left"));
            }
        }
    }
}

/// Simulates what `seed` stands for.
#[must_use]
pub fn simulate(seed: u64) -> Outcome {
    World::new(&Scenario::of(seed)).run()
}

/// The link's counters, for reports.
#[must_use]
pub fn frames_sent<A: App>(host: &Host<A>) -> u64 {
    host.link.counters().tx_frames
}
