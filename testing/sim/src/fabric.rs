//! Hosts, their links, the switch between them, and the virtual clock.

use crate::rng::Rng;
use crate::shadow::{Plant, Watcher};
use crate::switch::Switch;
use app::App;
use core::time::Duration;
use link::{EmulatedPath, FaultCounters, FaultPlan, Faults, Impairment, Pair, PairConfig, PairLink};
use silo::{Silo, Turn};
use stack::{Config, LinkOffload, Seeds, Stack};
use wire::Time;

/// What a turn of all hosts takes at least: a round trip is never nothing.
pub const TURN: Duration = Duration::from_micros(2);

/// A host: the real stack in a real silo, on a faulty link.
pub struct Host<A> {
    /// The silo.
    pub silo: Silo<Faults<PairLink>, A>,
    /// What the last turn left to do.
    last: Option<Turn>,
    /// Who holds its short ways against the general ones.
    pub watcher: Option<Watcher>,
}

impl<A> Host<A> {
    /// It has its next turn now.
    pub const fn wake(&mut self) {
        self.last = None;
    }

    /// Whether its last turn left nothing to do.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.last.as_ref().is_some_and(|turn| !turn.more)
    }
}

/// A host as the clock sees it, whatever its application.
pub trait Node {
    /// When it needs its next turn: now, or later.
    fn due(&mut self, now: Time) -> Time;

    /// Takes a turn.
    fn turn(&mut self, now: Time);
}

impl<A: App> Node for Host<A> {
    fn due(&mut self, now: Time) -> Time {
        let Some(turn) = self.last else { return now };
        if turn.more || self.silo.link.with_inner(|link| link.waiting()) > 0 {
            return now;
        }
        let frames = self.silo.link.next_event().unwrap_or(Time::MAX);
        turn.deadline.min(frames).min(self.silo.stack_deadline())
    }

    fn turn(&mut self, now: Time) {
        let Self { silo, watcher, .. } = self;
        self.last = Some(match watcher {
            None => silo.turn(now),
            Some(watcher) => {
                let turn = silo.turn_shadowed(now, watcher);
                watcher.audit(&silo.stack);
                turn
            }
        });
    }
}

/// Frames that wait at each end of a path.
const PATH_RING: usize = 4_096;

/// A path, and the switch at its far end.
struct Beyond {
    path: EmulatedPath<PairLink, PairLink>,
    switch: Switch,
}

impl Beyond {
    fn has_work(&self) -> bool {
        self.switch.has_work() || self.path.ask(|near, far| near.waiting() + far.waiting()) > 0
    }

    fn turn(&mut self, now: Time) {
        self.path.turn(now);
        self.switch.turn(now);
    }
}

/// The switch, the clock, and nothing else: hosts are lent to it. There may be
/// a second switch, behind a path that all who are there share.
#[derive(Default)]
pub struct Fabric {
    switch: Switch,
    beyond: Option<Beyond>,
    now: Time,
    turns: u64,
    /// Whether short ways are held against the general ones, and what is done
    /// to them on purpose.
    shadowed: Option<Option<Plant>>,
}

impl Fabric {
    /// One whose hosts' short ways are held against the general ones, except
    /// for what `plant` does to them.
    #[must_use]
    pub fn shadowed(plant: Option<Plant>) -> Self {
        Self { shadowed: Some(plant), ..Self::default() }
    }

    /// With a path to a second switch, which treats frames there by `there`,
    /// and back by `back`.
    #[must_use]
    pub fn with_path(mtu: u16, there: Impairment, back: Impairment, seed: u64) -> Self {
        let pair = || Pair::new(PairConfig { ring: PATH_RING, mtu, ..PairConfig::default() });
        let ((near, near_port), (far, far_port)) = (pair(), pair());
        let (mut fabric, mut switch) = (Self::default(), Switch::default());
        fabric.switch.connect(near_port);
        switch.connect(far_port);
        fabric.beyond = Some(Beyond { path: EmulatedPath::new(near, far, there, back, seed), switch });
        fabric
    }

    /// The path to the second switch treats frames like this from now on;
    /// where it is another `route`, they may overtake those that are held.
    pub fn change_path(&mut self, there: Impairment, back: Impairment, route: bool) {
        match &mut self.beyond {
            Some(beyond) if route => beyond.path.reroute(there, back),
            Some(beyond) => beyond.path.set_impairments(there, back),
            None => {}
        }
    }

    /// What the path did to frames there and back.
    #[must_use]
    pub fn path_counters(&self) -> [FaultCounters; 2] {
        self.beyond.as_ref().map(|beyond| beyond.path.counters()).unwrap_or_default()
    }

    /// Who looks at a host's short ways, if anybody does.
    #[must_use]
    pub fn watcher(&self) -> Option<Watcher> {
        self.shadowed.map(Watcher::new)
    }

    /// A host on a link of its own to the switch. `ring` frames wait in each
    /// direction.
    #[must_use]
    pub fn host<A: App>(&mut self, config: Config, faults: FaultPlan, ring: usize, seed: u64, app: A) -> Host<A> {
        let link = self.port(config.mtu, faults, ring);
        self.host_on(link, config, seed, app)
    }

    /// The same at the second switch.
    #[must_use]
    pub fn host_beyond<A: App>(
        &mut self,
        config: Config,
        faults: FaultPlan,
        ring: usize,
        seed: u64,
        app: A,
    ) -> Host<A> {
        let (near, far) = Pair::new(PairConfig { ring, mtu: config.mtu, ..PairConfig::default() });
        match &mut self.beyond {
            Some(beyond) => beyond.switch.connect(far),
            None => self.switch.connect(far),
        }
        self.host_on(Faults::new(near, faults), config, seed, app)
    }

    fn host_on<A: App>(&self, link: Faults<PairLink>, config: Config, seed: u64, app: A) -> Host<A> {
        let mut rng = Rng::new(seed);
        let mut keys = || core::array::from_fn(|_| rng.next());
        let seeds = Seeds { table: keys(), secret: keys(), timestamps: core::array::from_fn(|_| rng.next()) };
        let stack = Stack::new(config, LinkOffload::default(), &seeds, self.now);
        Host { silo: Silo { link, stack, app }, last: None, watcher: self.watcher() }
    }

    /// The near end of a faulty link to the switch.
    #[must_use]
    pub fn port(&mut self, mtu: u16, faults: FaultPlan, ring: usize) -> Faults<PairLink> {
        let (near, far) = Pair::new(PairConfig { ring, mtu, ..PairConfig::default() });
        self.switch.connect(far);
        Faults::new(near, faults)
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now.since(Time::ZERO)
    }

    /// Turns taken by all hosts.
    #[must_use]
    pub const fn turns(&self) -> u64 {
        self.turns
    }

    /// Prints every frame that the switch forwards from now on.
    pub fn trace(&mut self) {
        self.switch.trace = true;
        if let Some(beyond) = &mut self.beyond {
            beyond.switch.trace = true;
        }
    }

    /// Frames forwarded.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.switch.forwarded
    }

    /// Takes the turns that are due, and moves the clock to what is next, but
    /// no further than `until`.
    pub fn step<'a, N: Node + ?Sized + 'a>(&mut self, nodes: &mut [&mut N], until: Time) {
        for node in nodes.iter_mut() {
            if node.due(self.now) <= self.now {
                node.turn(self.now);
                self.turns += 1;
            }
        }
        self.switch.turn(self.now);
        let mut path = None;
        if let Some(beyond) = &mut self.beyond {
            beyond.turn(self.now);
            path = beyond.path.next_event();
        }
        let works = self.switch.has_work() || self.beyond.as_ref().is_some_and(Beyond::has_work);
        let next = if works {
            self.now
        } else {
            let now = self.now;
            nodes.iter_mut().map(|node| node.due(now)).chain(path).fold(Time::MAX, Time::min)
        };
        self.now = next.min(until).max(self.now + TURN);
    }
}
