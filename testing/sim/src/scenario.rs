//! What a seed stands for: hosts, their settings, the network between them,
//! and the talks that they hold.

use crate::fleet::{Queues, Silos};
use crate::peer::Job;
use crate::rng::Rng;
use crate::talk::Manner;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use link::{BurstLoss, FaultPlan, Impairment, Probability, Rate};
use stack::{Address, Config};
use steer::Policy;
use tcp::congestion::Algorithm;
use wire::{Mac, Time};

/// The port on which every host serves.
pub const PORT: u16 = 80;

/// Talks start within this time.
const START_WITHIN_MS: u64 = 5_000;

/// A run to be simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Where all of it came from.
    pub seed: u64,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// Frames that a port of the switch queues.
    pub ring: usize,
    /// What happens to links on the way, by time.
    pub events: Vec<Event>,
    /// How the talks go.
    pub manner: Manner,
}

/// A host of a scenario.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its stack.
    pub config: Config,
    /// Its link.
    pub faults: FaultPlan,
    /// The talks that it starts.
    pub jobs: Vec<Job>,
    /// Its silos, if it has several.
    pub silos: Option<Silos>,
}

/// Something that happens to a host's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When.
    pub at: Time,
    /// To which host.
    pub host: usize,
    /// What.
    pub what: Happening,
}

/// What happens to a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening {
    /// No frame passes.
    Cut,
    /// All is as before.
    Mended,
    /// No frame passes any more, and the host is forgotten.
    Gone,
    /// Packets of more bytes do not pass from now on.
    Shorter(u16),
}

/// The addresses of host `index`.
#[must_use]
pub fn addresses(index: usize) -> [IpAddr; 2] {
    let host = index as u16 + 1;
    let [high, low] = host.to_be_bytes();
    [IpAddr::V4(Ipv4Addr::new(10, 0, high, low)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host))]
}

/// A stack's settings for host `index`, all else as by default.
#[must_use]
pub fn host_config(index: usize, mtu: u16) -> Config {
    let [high, low] = (index as u16 + 1).to_be_bytes();
    let mut config = Config::new(Mac([2, 0, 0, 0, high, low]), mtu);
    let [v4, v6] = addresses(index);
    config.addresses = vec![Address { ip: v4, prefix_len: 16 }, Address { ip: v6, prefix_len: 64 }];
    config.listen = vec![PORT];
    config.max_connections = 1_024;
    config.max_time_wait = 1_024;
    config.max_half_open = 64;
    config
}

impl Scenario {
    /// What `seed` stands for.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let weather = Weather::of(rng);
        let manner = Manner {
            most: weather.most_bytes(),
            aborts: if rng.one_in(3) { rng.range(1, 10) } else { 0 },
            plain: rng.one_in(8),
            sealed: 4,
            exact: None,
        };
        let mtu = rng.pick(&[1_500, 1_500, 1_500, 1_280, 9_000]);
        let count = rng.range(2, 5) as usize;
        let mut hosts: Vec<_> = (0..count)
            .map(|index| HostPlan {
                config: settings(rng, index, mtu, &weather),
                faults: FaultPlan {
                    // Damaged once, a frame's checksum tells; damaged twice,
                    // it may be right again.
                    receive: Impairment { corrupt: Probability::NEVER, ..weather.impairment(rng) },
                    transmit: weather.impairment(rng),
                    seed: rng.next(),
                },
                jobs: Vec::new(),
                silos: None,
            })
            .collect();
        for _ in 0..rng.scale(1, 40) {
            let from = rng.range(0, count as u64 - 1) as usize;
            let to = (from + rng.range(1, count as u64 - 1) as usize) % count;
            let family = rng.range(0, 1) as usize;
            let job = Job {
                at: Time::ZERO + rng.millis(0, START_WITHIN_MS),
                from: rng.one_in(2).then(|| addresses(from)[family]),
                to: SocketAddr::new(addresses(to)[family], PORT),
                key: rng.next(),
                tries: 0,
            };
            hosts[from].jobs.push(job);
        }
        let events = events(rng, count);
        Self { seed, hosts, ring: rng.scale(4, 1_024) as usize, events, manner }
    }
}

impl Scenario {
    /// The same, with all talks sealed, some of them long, and with links whose packets get
    /// shorter.
    #[must_use]
    pub fn of_sealed(seed: u64) -> Self {
        let mut scenario = Self::of(seed);
        let rng = &mut Rng::new(seed ^ SEALED);
        scenario.manner.sealed = 1;
        for host in 0..scenario.hosts.len() {
            if rng.one_in(2) {
                let at = Time::ZERO + rng.millis(0, START_WITHIN_MS);
                let mtu = rng.pick(&[1_280, 1_400]);
                scenario.events.push(Event { at, host, what: Happening::Shorter(mtu) });
            }
        }
        scenario.events.sort_by_key(|event| event.at);
        scenario
    }

    /// The same, with hosts whose connections have a rate, from one of a modem to more than
    /// any path's; half of the talks are sealed.
    #[must_use]
    pub fn of_paced(seed: u64) -> Self {
        let mut scenario = Self::of(seed);
        let rng = &mut Rng::new(seed ^ PACED);
        scenario.manner.sealed = 2;
        for host in &mut scenario.hosts {
            if !rng.one_in(4) {
                host.config.tcp.max_pacing_rate = Some(rng.scale(20_000, 200_000_000));
            }
        }
        scenario
    }

    /// The same, with several silos at half of the hosts, and at the first.
    #[must_use]
    pub fn of_silos(seed: u64) -> Self {
        let mut scenario = Self::of(seed);
        let rng = &mut Rng::new(seed ^ SILOS);
        for (index, host) in scenario.hosts.iter_mut().enumerate() {
            if index > 0 && rng.one_in(2) {
                continue;
            }
            let queues = rng.pick(&[Queues::Each, Queues::One]);
            let policy = match queues {
                // Where one silo receives all, local gives it all.
                Queues::One => rng.pick(&[Policy::Hash, Policy::Least]),
                Queues::Each => rng.pick(&[Policy::Hash, Policy::Local, Policy::Least]),
            };
            let moves = queues == Queues::Each && rng.one_in(3);
            let failover = moves.then(|| Time::ZERO + rng.millis(0, 2 * START_WITHIN_MS));
            host.silos = Some(Silos { count: rng.range(2, 5) as usize, queues, policy, failover });
        }
        scenario
    }
}

/// Tells the silos' random numbers from the others.
const SILOS: u64 = 0x51_10_50_00;

/// The same, of what is paced.
const PACED: u64 = 0x9a_ce_d0_00;

/// The same, of what is sealed.
const SEALED: u64 = 0x5e_a1_ed_00;

/// How bad the network is.
struct Weather {
    /// On the way from one host to another: half of it at each.
    loss: f64,
    burst: bool,
    odd: f64,
    delay_ms: u64,
    slow: bool,
}

impl Weather {
    fn of(rng: &mut Rng) -> Self {
        Self {
            loss: rng.pick(&[0.0, 0.0, 0.001, 0.01, 0.01, 0.05, 0.2]),
            burst: rng.one_in(5),
            odd: rng.pick(&[0.0, 0.0, 0.001, 0.01, 0.05]),
            delay_ms: rng.pick(&[0, 0, 1, 10, 50, 200]),
            slow: rng.one_in(3),
        }
    }

    /// The worse the network, the smaller the talks.
    fn most_bytes(&self) -> u64 {
        let lossy = self.loss + if self.burst { 0.05 } else { 0.0 };
        match () {
            () if lossy >= 0.2 => 60_000,
            () if lossy >= 0.05 => 200_000,
            () => 1_500_000,
        }
    }

    fn impairment(&self, rng: &mut Rng) -> Impairment {
        let odd = |rng: &mut Rng| Probability::new(if rng.one_in(2) { self.odd } else { 0.0 });
        let delay = rng.millis(0, self.delay_ms);
        Impairment {
            loss: Probability::new(self.loss / 2.0),
            burst_loss: self.burst.then(|| BurstLoss {
                fail: Probability::new(0.005),
                recover: Probability::new(0.3),
                loss_good: Probability::NEVER,
                loss_bad: Probability::new(0.7),
            }),
            duplicate: odd(rng),
            corrupt: odd(rng),
            reorder: odd(rng),
            reorder_by: rng.millis(0, 1 + self.delay_ms),
            delay,
            jitter: delay / 4,
            rate: self.slow.then(|| Rate {
                bytes_per_second: rng.scale(125_000, 125_000_000),
                queue_bytes: rng.scale(20_000, 1_000_000),
            }),
            ..Impairment::default()
        }
    }
}

/// Settings of a host: all that peers may disagree on.
fn settings(rng: &mut Rng, index: usize, mtu: u16, weather: &Weather) -> Config {
    let mut config = host_config(index, mtu);
    // None left: every handshake is by cookie.
    config.max_half_open = rng.pick(&[64, 64, 2, 0]);
    let tcp = &mut config.tcp;
    tcp.congestion = rng.pick(&[Algorithm::Cubic, Algorithm::Cubic, Algorithm::NewReno]);
    tcp.sack = !rng.one_in(4);
    tcp.timestamps = !rng.one_in(4);
    tcp.nagle = rng.one_in(6);
    tcp.receive_limit = rng.pick(&[1 << 20, 1 << 20, 256 * 1024, app::HELD_LIMIT as u32]);
    // An aborting peer's reset may be lost: only asking tells.
    tcp.keepalive_idle = 30_000;
    tcp.keepalive_interval = 10_000;
    // Where a third of all exchanges fail, the usual number in a row would
    // some time.
    let rough = weather.loss >= 0.05 || weather.burst;
    tcp.keepalive_probes = if rough { 40 } else { 9 };
    tcp.retries = if rough { 40 } else { 15 };
    tcp.fin_wait2 = 10_000;
    config
}

/// Cuts, and now and then a host that vanishes.
fn events(rng: &mut Rng, hosts: usize) -> Vec<Event> {
    let mut events = Vec::new();
    let last = hosts as u64 - 1;
    if rng.one_in(5) {
        for _ in 0..rng.range(1, 4) {
            let host = rng.range(0, last) as usize;
            let at = Time::ZERO + rng.millis(0, 20_000);
            events.push(Event { at, host, what: Happening::Cut });
            let until = at + rng.millis(1, 20_000);
            events.push(Event { at: until, host, what: Happening::Mended });
        }
    }
    if hosts > 2 && rng.one_in(10) {
        let at = Time::ZERO + rng.millis(0, 10_000);
        events.push(Event { at, host: rng.range(0, last) as usize, what: Happening::Gone });
    }
    events.sort_by_key(|event| event.at);
    events
}

/// Nothing passes.
#[must_use]
pub fn cut() -> Impairment {
    Impairment { loss: Probability::ALWAYS, delay: Duration::ZERO, ..Impairment::default() }
}
