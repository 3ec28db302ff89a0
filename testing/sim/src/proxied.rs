//! Upstreams that fail behind the real web server, over faulty links: nothing leaks, and
//! nothing mixes.
//!
//! ```text
//!  Clients ── link ── switch ── link ── the web server ── link ── Origin, twice
//! ```
//!
//! A seed stands for a world: how bad its links are, when upstreams are killed, and
//! [what becomes of each request](plan). Answers and bodies of requests say whose they are
//! in every byte, so that a mixture shows at once.

pub mod client;
mod frames;
pub mod multiplexed;
pub mod origin;
pub mod plan;
pub mod streams;

use crate::fabric::{Fabric, Host, Node};
use crate::rng::Rng;
use crate::scenario::{PORT, addresses, host_config};
use app::App;
use client::Clients;
use core::net::SocketAddr;
use core::time::Duration;
use link::{FaultPlan, Impairment, Probability};
use multiplexed::StreamClients;
use nginx::{ConfFiles, Configuration, Surroundings};
use origin::Origin;
use server::{Config, Server, WallClock};
use stack::Stack;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use streams::Streams;
use wire::Time;

/// What the proxy is told. `{one}` and `{other}` are the upstreams.
const CONF: &str = "\
    error_log /dev/null crit;\n\
    events {}\n\
    http {\n\
    access_log off; error_log /dev/null crit; client_body_buffer_size 1m; client_max_body_size 4m;\n\
    proxy_connect_timeout 5s; proxy_read_timeout 3s; proxy_send_timeout 3s; send_timeout 20s;\n\
    proxy_http_version 1.1; proxy_set_header Connection '';\n\
    upstream kept { server {one} max_fails=0; keepalive 6; }\n\
    upstream two { server {one} max_fails=0; server {other} max_fails=0; keepalive 2; }\n\
    server { listen 80;\n\
    location /kept/ { proxy_pass http://kept; }\n\
    location /new/ { proxy_http_version 1.0; proxy_set_header Connection close; proxy_pass http://{one}; }\n\
    location /streamed/ { proxy_buffering off; proxy_request_buffering off; proxy_pass http://kept; }\n\
    location /two/ { proxy_pass http://two; }\n\
    location /stays/ { proxy_ignore_client_abort on; proxy_pass http://kept; }\n\
    location /paced/ { proxy_limit_rate 40k; limit_rate 60k; proxy_buffers 2 4k; proxy_pass http://two; }\n\
    } }";

/// What is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/1.0 at one place.
    Http1,
    /// HTTP/2: requests share connections.
    Http2,
}

/// What clients and upstreams speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spoken {
    /// Clients.
    pub clients: Protocol,
    /// Upstreams.
    pub upstreams: Protocol,
}

impl Spoken {
    /// HTTP/1.1 on both sides.
    pub const HTTP1: Self = Self { clients: Protocol::Http1, upstreams: Protocol::Http1 };

    /// The configuration of a proxy between them.
    fn conf(self) -> String {
        let conf = match self.upstreams {
            Protocol::Http1 => CONF.to_owned(),
            Protocol::Http2 => CONF
                .replace("proxy_http_version 1.1; proxy_set_header Connection '';", "proxy_http_version 2;")
                .replace("proxy_http_version 1.0; proxy_set_header Connection close;", ""),
        };
        match self.clients {
            Protocol::Http1 => conf,
            Protocol::Http2 => conf.replace("listen 80;", "listen 80; http2 on;"),
        }
    }
}

/// What was counted, by kind, and what must not be.
type Told<'a> = (&'a BTreeMap<&'static str, u64>, &'a [String]);

/// All clients of a world.
trait Asking: App {
    /// Whether all of them are done, and their connections gone.
    fn is_done(&self) -> bool;
    /// What is still waited for.
    fn under_way(&self) -> Vec<String>;
    /// What they were given.
    fn told(&self) -> Told<'_>;
}

impl Asking for Clients {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }

    fn under_way(&self) -> Vec<String> {
        Self::under_way(self).collect()
    }

    fn told(&self) -> Told<'_> {
        (&self.seen, &self.objections)
    }
}

impl Asking for StreamClients {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }

    fn under_way(&self) -> Vec<String> {
        Self::under_way(self).collect()
    }

    fn told(&self) -> Told<'_> {
        (&self.seen, &self.objections)
    }
}

/// An upstream of a world.
trait Upstream: App {
    /// Connections that are open.
    fn open(&self) -> usize;
    /// What was injected.
    fn told(&self) -> Told<'_>;
}

impl Upstream for Origin {
    fn open(&self) -> usize {
        Self::open(self)
    }

    fn told(&self) -> Told<'_> {
        (&self.injected, &self.objections)
    }
}

impl Upstream for Streams {
    fn open(&self) -> usize {
        Self::open(self)
    }

    fn told(&self) -> Told<'_> {
        (&self.injected, &self.objections)
    }
}

/// Clients of a world, and requests that they share.
const CLIENTS: usize = 6;
const REQUESTS: u32 = 48;

/// After this long something is stuck.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// Turns of one world, so that a livelock ends: a hundred times what one takes.
const MOST_TURNS: u64 = 4_000_000;

/// All memory must be gone this long after the last request: connections that are kept, and
/// TIME-WAIT.
const AFTERMATH: Duration = Duration::from_secs(400);

/// How a world went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proxied {
    /// What upstreams did, by kind.
    pub injected: BTreeMap<&'static str, u64>,
    /// What clients were given, by kind.
    pub seen: BTreeMap<&'static str, u64>,
    /// What must not be.
    pub objections: Vec<String>,
    /// Frames that the switch forwarded, and how long it took.
    pub frames: u64,
    /// Virtual time.
    pub took: Duration,
}

impl Proxied {
    /// Faults of upstreams, of all kinds.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.injected.values().sum()
    }

    /// Adds another world's.
    pub fn add(&mut self, other: &Self) {
        for (all, more) in [(&mut self.injected, &other.injected), (&mut self.seen, &other.seen)] {
            more.iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
        }
        self.frames += other.frames;
        self.took += other.took;
    }
}

/// One file, and no other.
pub(crate) struct Text(pub(crate) String);

impl ConfFiles for Text {
    fn read(&mut self, _path: &Path, _most: usize) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }

    fn matching(&mut self, _pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn at(host: usize, family: usize) -> SocketAddr {
    SocketAddr::new(addresses(host)[family], PORT)
}

fn proxy(spoken: Spoken, family: usize) -> Server {
    let text =
        spoken.conf().replace("{one}", &at(1, family).to_string()).replace("{other}", &at(2, family).to_string());
    let configuration = Configuration::read(&mut Text(text), Path::new("/nginx.conf"), b"");
    let configuration = configuration.unwrap_or_else(|why| panic!("{why}"));
    let around = Surroundings { prefix: Path::new("/tmp"), hostname: "proxy", root: false, resolve: |_| Vec::new() };
    let compiled = nginx::compile(&configuration, around).unwrap_or_else(|why| panic!("{why}"));
    let config = Config::program(Arc::new(compiled.program));
    let clock = WallClock::new(Time::ZERO, Duration::from_secs(1_700_000_000));
    Server::new(config, clock).unwrap_or_else(|why| panic!("{why}"))
}

/// How bad links are: nothing, or some of everything.
fn weather(rng: &mut Rng) -> Impairment {
    let loss = rng.pick(&[0.001, 0.01, 0.03]);
    Impairment {
        loss: Probability::new(loss),
        duplicate: Probability::new(rng.pick(&[0.0, 0.005])),
        corrupt: Probability::new(rng.pick(&[0.0, 0.005])),
        reorder: Probability::new(rng.pick(&[0.0, 0.02])),
        reorder_by: rng.millis(0, 3),
        delay: rng.millis(0, 15),
        ..Impairment::default()
    }
}

/// When an upstream is killed, and when it is there again.
type Kills = VecDeque<(Time, Time)>;

struct World<C, U> {
    fabric: Fabric,
    proxy: Host<Server>,
    origins: [Host<U>; 2],
    clients: Host<C>,
}

impl<C: Asking, U: Upstream> World<C, U> {
    /// Upstreams are made of the seed, whether they are the second of two, whether nothing but
    /// single requests goes wrong, and when they are killed; clients of the seed, whom they ask,
    /// how many they are and how much they ask, and whether nothing but upstreams goes wrong.
    fn new(
        seed: u64,
        spoken: Spoken,
        clients: fn(u64, SocketAddr, (usize, u32), bool) -> C,
        upstream: fn(u64, bool, bool, Kills) -> U,
    ) -> Self {
        let rng = &mut Rng::new(seed);
        let mut fabric = Fabric::default();
        let (is_calm, family) = (rng.one_in(3), rng.range(0, 1) as usize);
        let mut faults = || match is_calm {
            true => FaultPlan::default(),
            false => FaultPlan {
                // Damaged twice, a frame may be right again.
                receive: Impairment { corrupt: Probability::NEVER, ..weather(rng) },
                transmit: weather(rng),
                seed: rng.next(),
            },
        };
        let plans: [FaultPlan; 4] = core::array::from_fn(|_| faults());
        let kills = |rng: &mut Rng| {
            let mut kills = VecDeque::new();
            let mut from = Time::ZERO;
            while !is_calm && kills.len() < 4 {
                from = from + rng.millis(200, 20_000);
                let until = from + rng.millis(1, 3_000);
                kills.push_back((from, until));
                from = until;
            }
            kills
        };
        let [to_proxy, to_one, to_other, to_clients] = plans;
        let host = |index, faults, seed| (host_config(index, 1_500), faults, 1_024, seed);
        let (config, faults, ring, keys) = host(0, to_proxy, rng.next());
        let proxy = fabric.host(config, faults, ring, keys, proxy(spoken, family));
        let mut origin = |index, faults, is_second, rng: &mut Rng| {
            let (config, faults, ring, keys) = host(index, faults, rng.next());
            let origin = upstream(seed, is_second, is_calm, kills(rng));
            fabric.host(config, faults, ring, keys, origin)
        };
        let origins = [origin(1, to_one, false, rng), origin(2, to_other, true, rng)];
        let (config, faults, ring, keys) = host(3, to_clients, rng.next());
        let clients = clients(seed, at(0, family), (CLIENTS, REQUESTS), is_calm);
        let clients = fabric.host(config, faults, ring, keys, clients);
        Self { fabric, proxy, origins, clients }
    }

    fn step(&mut self, until: Time) {
        let [one, other] = &mut self.origins;
        let mut nodes: [&mut dyn Node; 4] = [&mut self.proxy, one, other, &mut self.clients];
        self.fabric.step(&mut nodes, until);
    }

    fn run(mut self) -> Proxied {
        let mut outcome = Proxied::default();
        while !self.clients.silo.app.is_done() {
            if self.fabric.elapsed() > LIMIT || self.fabric.turns() > MOST_TURNS {
                let stuck = self.clients.silo.app.under_way().into_iter().map(|what| format!("stuck: {what}"));
                outcome.objections.extend(stuck);
                outcome.objections.push(format!("it does not come to an end: {}", self.busy()));
                break;
            }
            self.step(Time::MAX);
        }
        outcome.took = self.fabric.elapsed();
        let end = self.fabric.now() + AFTERMATH;
        while outcome.objections.is_empty() && self.fabric.now() < end {
            self.step(end);
        }
        if outcome.objections.is_empty() {
            outcome.objections.extend(self.leftovers());
        }
        outcome.frames = self.fabric.frames();
        for origin in &self.origins {
            let (injected, objections) = origin.silo.app.told();
            for (kind, count) in injected {
                *outcome.injected.entry(kind).or_default() += count;
            }
            outcome.objections.extend(objections.iter().cloned());
        }
        let (seen, objections) = self.clients.silo.app.told();
        outcome.seen.clone_from(seen);
        outcome.objections.extend(objections.iter().cloned());
        outcome
    }

    /// Who has work to do now, for the report of a world without end.
    fn busy(&mut self) -> String {
        let now = self.fabric.now();
        let [one, other] = &mut self.origins;
        let dues = [self.proxy.due(now), one.due(now), other.due(now), self.clients.due(now)];
        let spans = dues.map(|due| due.since(now));
        format!("after {:?} the proxy, upstreams and clients have work in {spans:?}", self.fabric.elapsed())
    }

    /// What is left once all is over.
    fn leftovers(&mut self) -> Vec<String> {
        let [one, other] = &self.origins;
        let stacks = [
            ("the proxy", &self.proxy.silo.stack),
            ("an upstream", &one.silo.stack),
            ("the other", &other.silo.stack),
            ("the clients", &self.clients.silo.stack),
        ];
        let of = |(who, stack): &(&str, &Stack)| {
            [
                (stack.connections(), format!("connections of {who}")),
                (stack.half_open(), format!("half-open handshakes of {who}")),
                (stack.time_wait(), format!("TIME-WAIT records of {who}")),
                (stack.receive_memory(), format!("bytes received by {who}")),
            ]
        };
        let all = stacks.iter().flat_map(of);
        let mut left: Vec<(usize, String)> = all.collect();
        let server = &mut self.proxy.silo.app;
        left.push((server.snapshot().connections_open as usize, "connections of clients".to_owned()));
        left.push((server.upstreams_open(), "connections to upstreams".to_owned()));
        let engines = server.handler().engine().into_iter();
        left.extend(engines.flat_map(phases::Engine::held).map(|(what, count)| (count, what.to_owned())));
        let open = one.silo.app.open() + other.silo.app.open();
        left.push((open, "connections at upstreams".to_owned()));
        left.into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what} are left"))
            .collect()
    }
}

/// The world of a seed, from its start to its end.
#[must_use]
pub fn simulate_proxied(seed: u64, spoken: Spoken) -> Proxied {
    let lines = |seed, is_second, _: bool, kills| Origin::new(seed, is_second, kills);
    match (spoken.clients, spoken.upstreams) {
        (Protocol::Http1, Protocol::Http1) => World::new(seed, spoken, Clients::new, lines).run(),
        (Protocol::Http1, Protocol::Http2) => World::new(seed, spoken, Clients::new, Streams::new).run(),
        (Protocol::Http2, Protocol::Http1) => World::new(seed, spoken, StreamClients::new, lines).run(),
        (Protocol::Http2, Protocol::Http2) => World::new(seed, spoken, StreamClients::new, Streams::new).run(),
    }
}
