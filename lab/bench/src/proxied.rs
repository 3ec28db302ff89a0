//! Requests that are passed on by an nginx.conf (`proxy_pass`): by nginx, and by
//! `nearside nginx` on every data path. All of a proxy is on one core; who asks it and
//! the upstream that it asks share the other. What a request costs is the proxy's
//! processor time: of its process and of softirq on its core, or, over a link on which
//! it polls, the time in which it had something to do.

use crate::BenchError;
use crate::client::by_turns;
use crate::kernel::{spread, word};
use crate::ordinary::passing;
use crate::page::Page;
use crate::peer::Peer;
use crate::program::Scratch;
use crate::site::{self, PROCESS, nginx, workers};
use core::net::Ipv4Addr;
use cpu::Clock;
use demo::child::{Interrupt, Program, Running};
use demo::field::{Ask, Field, Generator, Link};
use demo::machine::{CpuSample, with_children};
use demo::measure::{SMALL_BODY, thousands};
use demo::netns::Namespaces;
use demo::stand::{Server, Stand, WARM_UP, two_cores};
use link::{Link as _, LinkState};
use load::{Heads, Load, Request, Stage, Stop};
use memif::{Memif, MemifLink, Role};
use server::Respond;
use silo::{Attendant, Idle, Next, Silo, Usage};
use stack::{Address, LinkOffload, Seeds, Stack};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use wire::{Mac, Time};

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The programs, and how they are asked.
    pub site: site::Plan,
    /// Bytes of a body; none for a small text.
    pub body: Option<u64>,
    /// The longest packet on a memif, where it is not Ethernet's.
    pub mtu: Option<u16>,
}

/// Where the upstream is, seen from the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    /// On loopback, with kernel sockets.
    Loopback,
    /// On the client's host, over the client's link.
    Link,
}

/// Who is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Arm {
    name: &'static str,
    link: Link,
    nginx: bool,
    behind: Behind,
    /// What asks, where that is not this program.
    generator: Generator,
    /// What a small answer may cost, as a share of nginx's.
    small: f64,
    /// And a large one.
    large: f64,
}

const ARMS: [Arm; 5] = [
    Arm {
        name: "nginx",
        link: Link::Kernel,
        nginx: true,
        behind: Behind::Loopback,
        generator: Generator::Sockets,
        small: 1.0,
        large: 1.0,
    },
    Arm {
        name: "sockets, loopback",
        link: Link::Kernel,
        nginx: false,
        behind: Behind::Loopback,
        generator: Generator::Sockets,
        small: 0.75,
        large: 1.0 / 2.0,
    },
    Arm {
        name: "af_xdp, loopback",
        link: Link::AfXdp,
        nginx: false,
        behind: Behind::Loopback,
        generator: Generator::Bypass,
        small: 0.45,
        large: 1.0 / 3.0,
    },
    Arm {
        name: "memif, loopback",
        link: Link::Memif,
        nginx: false,
        behind: Behind::Loopback,
        generator: Generator::Bypass,
        small: 0.45,
        large: 1.0 / 3.0,
    },
    Arm {
        name: "memif, memif",
        link: Link::Memif,
        nginx: false,
        behind: Behind::Link,
        generator: Generator::Bypass,
        small: 0.1,
        large: 1.0 / 3.0,
    },
];

/// Of the upstream.
pub(crate) const PORT: u16 = 18_080;

/// The host on the other end of the memif: as [`Field`] has its generator.
const PEER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const PEER_MAC: Mac = Mac([0x02, 0x4e, 10, 78, 0, 1]);

/// Time for anything but the measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one measurement gave.
struct Sample {
    rate: f64,
    p99: f64,
    /// Microseconds of the proxy's core for a request.
    cost: f64,
    /// Its share of the core.
    busy: f64,
    errors: u64,
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(&plan.site.nearside), two_cores()?)?;
    let names = Namespaces::make()?;
    names.keep_to_cores(stand.cores)?;
    let folder = Scratch::in_memory()?;
    let bench = Bench { plan, stand: &stand, names: &names, folder: folder.path(), interrupt: &interrupt };
    let samples = by_turns(plan.site.rounds, ARMS.len(), |at| {
        let sample = bench.measure(ARMS[at])?;
        let Sample { rate, cost, .. } = sample;
        eprintln!("  {:18} {:>9} requests/s, {cost:.2} us of the proxy each", ARMS[at].name, thousands(rate));
        Ok(Some(sample))
    })?;
    let Plan { site: site::Plan { connections, heads, rounds, .. }, .. } = plan;
    let body = plan.body.map_or_else(|| "small answers".to_owned(), |bytes| format!("answers of {bytes} bytes"));
    println!("Requests passed on: {body}, {connections} connections, {heads} heads, {rounds} rounds by turns");
    if let Some(mtu) = plan.mtu {
        println!("  A memif's packets have at most {mtu} bytes.");
    }
    let head = ["requests/s", "p99", "proxy", "each"];
    println!("  {:18} {:>11} {:>10} {:>7} {:>10}", "", head[0], head[1], head[2], head[3]);
    for (arm, samples) in ARMS.iter().zip(&samples) {
        let middle = |value: fn(&Sample) -> f64| spread(samples.iter().map(value).collect()).1;
        let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
        println!(
            "  {:18} {:>11} {:>7.0} us {:>6.0}% {:>7.2} us{}",
            arm.name,
            thousands(middle(|sample| sample.rate)),
            middle(|sample| sample.p99),
            100.0 * middle(|sample| sample.busy),
            middle(|sample| sample.cost),
            if errors > 0 { format!("  {errors} ERRORS") } else { String::new() }
        );
    }
    let mut kept = true;
    for (arm, ours) in ARMS.iter().zip(&samples).skip(1) {
        let bound = if plan.body.is_some() { arm.large } else { arm.small };
        let shares = ours.iter().zip(&samples[0]).map(|(ours, nginx)| ours.cost / nginx.cost).collect();
        let (low, middle, high) = spread(shares);
        let holds = middle <= bound && ours.iter().chain(&samples[0]).all(|sample| sample.errors == 0);
        kept &= holds;
        let name = arm.name;
        println!(
            "  {name:18} {middle:.3} of nginx's cost ({low:.3} to {high:.3}), at most {bound:.3}: {}",
            word(holds)
        );
    }
    Ok(kept)
}

struct Bench<'a> {
    plan: &'a Plan,
    stand: &'a Stand,
    names: &'a Namespaces,
    folder: &'a Path,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn measure(&self, arm: Arm) -> Result<Sample, BenchError> {
        let Self { plan, stand, names, folder, interrupt } = *self;
        // Who shares a core with the upstream leaves it where there is nothing to do.
        let cores = [stand.cores.0, stand.cores.1];
        let servers = if arm.behind == Behind::Loopback { &cores[..] } else { &cores[..1] };
        let field = Field { stand, veth: Some(names), tap: None, servers, mtu: plan.mtu, interrupt };
        let behind = match arm.behind {
            Behind::Loopback => format!("127.0.0.1:{PORT}"),
            Behind::Link => format!("{PEER}:{PORT}"),
        };
        let text = passing(PROCESS, &behind).replace("FOLDER", &folder.display().to_string());
        let configuration = folder.join("nginx.conf");
        fs::write(&configuration, text)?;
        let _upstream = match arm.behind {
            Behind::Loopback => Some(upstream((stand, names), folder, arm.link, plan.body, interrupt)?),
            Behind::Link => None,
        };
        let mut running = None;
        let mut server = if arm.nginx {
            let nginx = running.insert(nginx(&plan.site.nginx, &configuration, stand, names)?);
            Server::other(&workers(nginx, interrupt)?)
        } else {
            field.serve_configuration(arm.link, &configuration)?
        };
        let processes = match &mut running {
            Some(nginx) => workers(nginx, interrupt)?,
            None => with_children(server.pid()),
        };
        let page = (!arm.nginx && arm.link != Link::Kernel).then(|| stand.folder().join("serve.page"));
        let watched = Watched { processes, core: stand.cores.0, page };
        let duration = plan.site.duration;
        thread::scope(|scope| {
            let busy = scope.spawn(move || watched.busy(duration).map_err(|why| why.to_string()));
            let (rate, p99, errors) = match arm.behind {
                Behind::Link => self.ask_as_peer(&field.memif_link())?,
                Behind::Loopback => {
                    let more = [format!("--heads={}", plan.site.heads)];
                    let ask =
                        Ask { path: "/", connections: plan.site.connections, more: &more, duration, secured: false };
                    let asked = field.ask(&mut server, (arm.link, Some(80)), arm.generator, ask)?;
                    (asked.rate, asked.at(99.0), asked.errors)
                }
            };
            let busy = busy.join().map_err(|_| "a thread panicked")??;
            Ok(Sample { rate, p99, cost: busy * 1e6 / rate, busy, errors })
        })
    }

    /// Asks over the memif, and answers there what is passed on: requests in a second,
    /// their 99th percentile in microseconds, and how many failed.
    fn ask_as_peer(&self, link: &str) -> Result<(f64, f64, u64), BenchError> {
        let link = Memif::open(memif::Config::parse(link, Role::Client)?)?;
        let link = link.split_queues().pop().ok_or("no queue")?;
        let server = Field::address(Link::Memif).parse().map_err(|_| "no address")?;
        let mut plan =
            load::Plan::new((Ipv4Addr::to_owned(&server), 80).into(), Request::get(&server.to_string(), "/"));
        plan.connections = self.plan.site.connections;
        plan.warm_up = WARM_UP;
        plan.stop = Stop::After(self.plan.site.duration);
        plan.heads = match self.plan.site.heads.as_str() {
            "browser" => Heads::Browser,
            "short" => Heads::Short,
            _ => Heads::Equal,
        };
        let answers = self.plan.body.map_or_else(|| Respond::Text(SMALL_BODY.to_owned()), Respond::Size);
        let core = self.stand.cores.1;
        let asks = thread::spawn(move || peer(core, link, plan, answers).map_err(|why| why.to_string()));
        Ok(asks.join().map_err(|_| "a thread panicked")??)
    }
}

/// Starts the upstream beside a proxy, on the client's core: it answers a body of `body` bytes,
/// or a small text.
pub(crate) fn upstream(
    (stand, names): (&Stand, &Namespaces),
    folder: &Path,
    link: Link,
    body: Option<u64>,
    interrupt: &Interrupt,
) -> Result<Running, BenchError> {
    let core = stand.cores.1;
    let page = folder.join("upstream.page");
    let _ = fs::remove_file(&page);
    let respond = body.map_or_else(|| format!("text:{SMALL_BODY}"), |bytes| bytes.to_string());
    let words = [
        stand.program().to_owned(),
        "serve".to_owned(),
        "--user=root".to_owned(),
        format!("--respond={respond}"),
        format!("--listen=127.0.0.1:{PORT}"),
        "--workers=1".to_owned(),
        format!("--cores={core}"),
        "--control=off".to_owned(),
        format!("--status-page={}", page.display()),
    ];
    let netns = (link != Link::Memif).then_some(names.server.as_str());
    let program = Program { name: "upstream", netns, core: Some(core), words: words.into() };
    let mut running = program.start(folder)?;
    running.wait_until("serve", PATIENCE, interrupt, || page.exists())?;
    Ok(running)
}

/// Whose time is looked at.
pub(crate) struct Watched {
    pub(crate) processes: Vec<u32>,
    pub(crate) core: u16,
    /// Of a server that polls: its own account.
    pub(crate) page: Option<PathBuf>,
}

impl Watched {
    /// The share of the core over the middle of a measurement.
    pub(crate) fn busy(&self, duration: Duration) -> Result<f64, BenchError> {
        let page = self.page.as_ref().map(|page| Page::open(page)).transpose()?;
        let sample = || -> Result<_, BenchError> {
            let told = match &page {
                Some(page) => {
                    let values = page.read()?;
                    let busy = values.sum("silo.busy_ns")?;
                    Some((busy, busy + values.sum("silo.idle_ns")? + values.sum("silo.asleep_ns")?))
                }
                None => None,
            };
            Ok((told, CpuSample::take(&self.processes, self.core)))
        };
        thread::sleep(WARM_UP + duration / 5);
        let before = sample()?;
        thread::sleep(duration * 3 / 5);
        let after = sample()?;
        Ok(match (before.0, after.0) {
            (Some(before), Some(after)) => (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64,
            _ => before.1.share_until(&after.1).process + before.1.softirq_beyond_until(&after.1),
        })
    }
}

/// A generator and an upstream on the other end of the link.
fn peer(core: u16, link: MemifLink, plan: load::Plan, answers: Respond) -> Result<(f64, f64, u64), BenchError> {
    cpu::pin::pin(core)?;
    let capabilities = link.capabilities();
    let mut config = stack::Config::new(PEER_MAC, capabilities.mtu);
    config.addresses = vec![Address { ip: PEER.into(), prefix_len: 24 }];
    config.listen = vec![PORT];
    config.max_connections = 16 << 10;
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    let seeds = Seeds { table: [1, 2, 3, 4], secret: [5, 6, 7, 8], timestamps: [9; 2] };
    let now = Clock.now();
    let server = server::Server::new(server::Config::respond(answers), server::WallClock::new(now, Duration::ZERO))?;
    let app = Peer::new(Load::new(plan)?, server);
    let mut silo = Silo { link, stack: Stack::new(config, offload, &seeds, now), app };
    silo::run(&mut silo, Idle::Spin, &mut UntilEnd)?;
    let figures = silo.app.load.into_figures(Clock.now());
    Ok((figures.rate, figures.latency.quantile(0.99) as f64 / 1e3, figures.counts.errors.total()))
}

/// Ends the run when the generator has.
struct UntilEnd;

impl<L: link::Link> Attendant<L, Peer> for UntilEnd {
    fn attend(&mut self, silo: &mut Silo<L, Peer>, _now: Time, _usage: &Usage, _link: LinkState) -> Next {
        if silo.app.load.stage() == Stage::Ended { Next::Stop } else { Next::Go }
    }
}
