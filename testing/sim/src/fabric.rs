//! Hosts, their links, the switch between them, and the virtual clock.

use crate::rng::Rng;
use crate::shadow::{Plant, Watcher};
use crate::switch::Switch;
use app::App;
use core::time::Duration;
use link::{FaultPlan, Faults, Pair, PairConfig, PairLink};
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

/// The switch, the clock, and nothing else: hosts are lent to it.
#[derive(Default)]
pub struct Fabric {
    switch: Switch,
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
        let next = if self.switch.has_work() {
            self.now
        } else {
            let now = self.now;
            nodes.iter_mut().map(|node| node.due(now)).fold(Time::MAX, Time::min)
        };
        self.now = next.min(until).max(self.now + TURN);
    }
}
