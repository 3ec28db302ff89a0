//! Both ends of secured connections that stand open: the real server and the real load
//! generator, a process each, over memif, secured by keys that both have. Handshakes for
//! millions of them would take minutes, and are no part of what a connection keeps.

use crate::BenchError;
use crate::peer::{Answerer, Asker};
use crate::rig::{PORT, SERVER, endless, host, host_config};
use crate::secured::Securing;
use app::App;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use cpu::Clock;
use link::{Link, LinkState};
use load::Load;
use memif::MemifLink;
use page::{Metric, MetricKind, Page, SeriesShape, Writer};
use record::TlsSide;
use server::{Config, Respond, Server, WallClock};
use silo::{Attendant, Idle, Next, Silo, Usage};
use std::path::PathBuf;
use wire::Time;

/// The generator's first address; it has one for each [`super::PER_SOURCE`] connections.
const SOURCES: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

/// How long connections may stand without a request: a slow machine opens a million of them in
/// a minute, and those that came first would end while it measures.
const STANDS: Duration = Duration::from_secs(3_600);

/// What a side publishes, as `nearside` names it.
const METRICS: [Metric; 3] = [
    Metric { name: "stack.connections", kind: MetricKind::Gauge },
    Metric { name: "silo.busy_ns", kind: MetricKind::Counter },
    Metric { name: "app.requests", kind: MetricKind::Counter },
];

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum SideKind {
    /// Answers.
    Server,
    /// Asks.
    Client,
}

/// One of them, as it runs.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Side {
    /// Which
    pub kind: SideKind,
    /// The link
    pub link: String,
    /// Where it publishes
    pub page: PathBuf,
    /// Its core
    pub core: u16,
    /// Connections
    pub count: u64,
    /// Those that carry requests
    pub active: u64,
    /// Whether these are chosen anew for each request
    #[arg(long)]
    pub mix: bool,
}

/// Runs until it is killed.
///
/// # Errors
/// If it cannot be set up.
pub fn run(side: &Side) -> Result<(), BenchError> {
    cpu::pin::pin(side.core)?;
    let link = MemifLink::open(side.link.parse()?)?;
    let wall = Clock.unix();
    let (page, mut writers) = Page::create(&side.page, "secured", wall, &METRICS, (1, SeriesShape::default()))?;
    let writer = writers.pop().ok_or("a page has a writer")?;
    let (now, room) = (Clock.now(), usize::try_from(side.count + side.count / 16 + 100)?);
    match side.kind {
        SideKind::Server => {
            let config = host_config(1, &link, &[SERVER.into()], &[PORT], room);
            let mut answers = Config::respond(Respond::Text("Hello, World!".into()));
            answers.timeouts.http.header = STANDS;
            answers.timeouts.http.keep_alive = STANDS;
            let server = Server::new(answers, WallClock::new(now, wall))?;
            let app = Securing::new(server, TlsSide::Server);
            let requests: fn(&Securing<Server>) -> u64 = |app| app.server().snapshot().requests;
            spin(Silo { stack: host(1, config, &link, now), link, app }, Publishing { writer, requests })?;
        }
        SideKind::Client => {
            let first = u32::from(SOURCES);
            let sources = first..first + u32::try_from(side.count.div_ceil(super::PER_SOURCE))?;
            let mut plan = endless("/");
            plan.sources = sources.map(|ip| IpAddr::from(Ipv4Addr::from(ip))).collect();
            plan.connections = u32::try_from(side.count)?;
            plan.active = Some(u32::try_from(side.active)?);
            plan.mix = side.mix;
            plan.ramp_limit = Duration::from_secs(600);
            let config = host_config(2, &link, &plan.sources, &[], room);
            let app = Securing::new(Load::new(plan)?, TlsSide::Client);
            let requests: fn(&Securing<Load>) -> u64 = |app| app.load().stage() as u64;
            spin(Silo { stack: host(2, config, &link, now), link, app }, Publishing { writer, requests })?;
        }
    }
    drop(page);
    Ok(())
}

fn spin<L: Link, A: App>(mut silo: Silo<L, A>, mut attendant: Publishing<fn(&A) -> u64>) -> Result<(), BenchError> {
    silo::run(&mut silo, Idle::Spin, &mut attendant)?;
    Ok(())
}

/// Publishes what a side does.
struct Publishing<R> {
    writer: Writer,
    requests: R,
}

impl<L: Link, A: App> Attendant<L, A> for Publishing<fn(&A) -> u64> {
    fn attend(&mut self, silo: &mut Silo<L, A>, now: Time, usage: &Usage, _: LinkState) -> Next {
        if self.writer.is_due(now) {
            let open = silo.stack.connections() as u64;
            self.writer.publish(now, &[open, usage.busy_ns, (self.requests)(&silo.app)]);
        }
        Next::Go
    }
}
