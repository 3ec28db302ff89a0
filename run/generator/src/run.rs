//! One run of a plan, over either data path.

use super::account::{Side, merge};
use super::bulk;
use super::bypass;
use super::collect::{Collector, Seen, Source};
use super::files::Files;
use super::floor;
use super::kernel::Sockets;
use super::noise::stolen;
use super::own::ephemeral_ports;
use super::port::{self, PortCount};
use super::post::Post;
use super::resolve::resolve;
use super::server_time::ServerTime;
use super::show::Show;
use super::siblings::Siblings;
use super::sift::Sifter;
use super::streaming::{self, Streamed, StreamingMeasured};
use super::watch::{Lookout, Whereabouts};
use crate::plan::{BulkTask, Form, LoadPath, LoadSockets, OutputPlan, Place, ProgressKind, ServerPlan, StreamTask};
use core::time::Duration;
use cpu::Clock;
use environment::Fingerprint;
use host::drivers::LinkSpec;
use host::{HostPlan, Silos};
use host::{Layout, count_hangups, stop_signals};
use load::{
    BulkPlan, Ended, Figures, Floor, Objective, Outside, Plan, PortUse, Ports, Report, Reuse, Sieve, SieveConfig,
    Sifted,
};
use page::{Reader, living_of_user};
use say::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// What runs plans.
pub struct Runner {
    way: Way,
    output: OutputPlan,
    /// Interrupts and terminations, and the key that stops a run.
    pub signals: Arc<AtomicUsize>,
    /// Where a worker's figures go while it runs.
    pub post: Option<Post>,
}

enum Way {
    Link(Box<HostPlan>),
    Kernel(Box<Kernel>),
}

struct Kernel {
    asked: LoadSockets,
    sockets: Sockets,
}

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// What was measured.
    pub report: Report,
    /// What was seen from beside it.
    pub seen: Seen,
    /// What the figures belong to.
    pub environment: Fingerprint,
}

/// What one run measured.
#[derive(Debug)]
pub struct Raw {
    /// What was counted.
    pub figures: Figures,
    /// What only its surroundings know.
    pub outside: Outside,
    /// What was seen from beside it.
    pub seen: Seen,
    /// What the figures belong to.
    pub environment: Fingerprint,
}

impl Runner {
    /// Makes ready: resolves the target's name into the plan, and sees whether
    /// anybody is there.
    ///
    /// # Errors
    /// What the user is to know.
    pub fn new(path: LoadPath, output: OutputPlan, plan: &mut Plan) -> Result<Self, Failure> {
        let signals = stop_signals()?;
        count_hangups(&signals)?;
        // Both clocks now, for the time in templates.
        plan.source.epoch = Clock.unix().saturating_sub(Duration::from_nanos(Clock.now().as_nanos()));
        let way = match path {
            LoadPath::Link(host) => Way::Link(host),
            LoadPath::Kernel(asked) => {
                resolve(&asked, plan)?;
                let sockets = Sockets::new(&asked, None)?;
                Way::Kernel(Box::new(Kernel { asked, sockets }))
            }
        };
        Ok(Self { way, output, signals, post: None })
    }

    /// The same with another number of threads.
    ///
    /// # Errors
    /// If the kernel does not say which cores there are.
    pub fn set_threads(&mut self, threads: u32) -> Result<(), Failure> {
        if let Way::Kernel(kernel) = &mut self.way {
            kernel.sockets = Sockets::new(&kernel.asked, Some(threads))?;
        }
        Ok(())
    }

    /// Threads that would work on this plan.
    pub fn workers(&self, plan: &Plan) -> usize {
        match &self.way {
            Way::Link(host) => silos(host, plan).map_or(1, |layout| layout.seats.len()),
            Way::Kernel(kernel) => kernel.sockets.workers(plan),
        }
    }

    /// Whether the run is to end, or the next one is not to begin.
    pub fn is_stopped(&self) -> bool {
        self.signals.load(Ordering::Relaxed) > 0
    }

    /// What the same plan takes against a server that does nothing; `None` if
    /// that is not measured.
    ///
    /// # Errors
    /// If the null server cannot start.
    pub fn floor(&self, plan: &Plan) -> Result<Option<Floor>, Failure> {
        let Way::Kernel(kernel) = &self.way else { return Ok(None) };
        let Kernel { asked, sockets } = &**kernel;
        // A Unix socket is another path, with a floor of its own.
        if !asked.floor || matches!(asked.place, Place::Unix(_)) {
            return Ok(None);
        }
        floor::measure(sockets, plan, &self.signals)
    }

    /// One run, reported.
    ///
    /// # Errors
    /// As [`Runner::measure`].
    pub fn run(&self, plan: &Plan, floor: Option<Floor>, server: Option<&ServerTime>) -> Result<Outcome, Failure> {
        let Raw { figures, outside, seen, environment } = self.measure(plan, floor, server)?;
        Ok(Outcome { report: Report::new(plan, &figures, outside), seen, environment })
    }

    /// One run.
    ///
    /// # Errors
    /// What the user is to know; a file that could not be written to its end
    /// is none, and counted.
    pub fn measure(&self, plan: &Plan, floor: Option<Floor>, server: Option<&ServerTime>) -> Result<Raw, Failure> {
        let title = title(plan);
        let started = Clock.unix();
        let mut files = Files::create(&self.output, started, &title)?;
        let mut show = Show::new(self.output.progress, plan, title, &self.signals);
        // Before the load is part of what the machine does.
        let environment = self.environment(plan);
        let counts: Vec<PortCount> = self.interfaces(plan).iter().filter_map(|name| PortCount::now(name)).collect();
        let siblings = Siblings::of(&self.cores(plan));
        let before = (Clock.now(), stolen());
        let (sides, seen) = self.collect(plan, &mut files, &mut show, server)?;
        drop(show);
        let whole = Clock.now().since(before.0);
        let span = whole.as_secs_f64();
        let (figures, mut outside) = merge(sides);
        usable(&figures)?;
        outside.floor = floor;
        outside.siblings = siblings.since();
        outside.carried = counts.iter().filter_map(|port| Some(port.again()?.since(port, whole))).collect();
        outside.stolen = Some(stolen().saturating_sub(before.1).as_secs_f64() / span.max(1e-9));
        if matches!(&self.way, Way::Kernel(kernel) if !matches!(kernel.asked.place, Place::Unix(_))) {
            outside.ports = ports(plan, &figures);
        }
        Ok(Raw { figures, outside, seen, environment })
    }

    /// What figures of this machine belong to, with the interfaces that requests go by.
    pub fn environment(&self, plan: &Plan) -> Fingerprint {
        let own = self.interfaces(plan);
        Fingerprint::read_with(&own.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The kernel's interfaces that requests go by, as far as they have any.
    pub fn interfaces(&self, plan: &Plan) -> Vec<String> {
        match &self.way {
            Way::Link(host) => host.links.iter().filter_map(|link| port::of_link(&link.name())).collect(),
            Way::Kernel(kernel) if matches!(kernel.asked.place, Place::Unix(_)) => Vec::new(),
            Way::Kernel(_) => plan.targets.first().and_then(|target| port::towards(target.ip())).into_iter().collect(),
        }
    }

    /// What the way to the server carries: streams without end to where a plan goes, told by `put`.
    ///
    /// # Errors
    /// What the user is to know.
    pub fn bulk(
        &self,
        plan: &Plan,
        task: &BulkTask,
        form: Form,
        put: bulk::Put,
    ) -> Result<bulk::BulkMeasured, Failure> {
        let request = plan.first_request();
        let streams = BulkPlan {
            target: *plan.targets.first().ok_or("there is no server to go to")?,
            sources: plan.sources.clone(),
            host: request.host.clone(),
            path: request.path.clone(),
            up: task.up,
            down: task.down,
            omit: task.omit,
            duration: task.duration,
            connect_timeout: plan.connect_timeout,
        };
        let environment = self.environment(plan);
        let carried = self.carried(plan);
        let (every, signals) = (self.output.interval, &self.signals);
        let busy = |all: usize| (0..all as u32).filter(|index| streams.share(*index, all as u32).is_some()).count();
        Ok(match &self.way {
            Way::Kernel(kernel) => {
                let workers = busy(kernel.sockets.seats().len());
                let told = bulk::Told { plan: &streams, path: "kernel sockets".to_owned(), form, put };
                let work = |sender| bulk::over_sockets(&kernel.sockets, &streams, every, signals, &sender);
                bulk::measure(&told, workers, environment, work, carried)?
            }
            Way::Link(host) => {
                let layout = silos(host, plan)?;
                let path = host.links.iter().map(LinkSpec::name).collect::<Vec<_>>().join(", ");
                let told = bulk::Told { plan: &streams, path, form, put };
                let work = |sender| bulk::over_links(host, &layout, &streams, every, signals, &sender);
                bulk::measure(&told, busy(layout.seats.len()), environment, work, carried)?
            }
        })
    }

    /// Counts what the interfaces carry from now on, until it is asked.
    fn carried(&self, plan: &Plan) -> impl FnOnce() -> Vec<PortUse> + use<> {
        let counts: Vec<PortCount> = self.interfaces(plan).iter().filter_map(|name| PortCount::now(name)).collect();
        let before = Clock.now();
        move || {
            let span = Clock.now().since(before);
            counts.iter().filter_map(|port| Some(port.again()?.since(port, span))).collect()
        }
    }

    /// Whether streams have their rate, told by `put`.
    ///
    /// # Errors
    /// What the user is to know.
    pub fn stream(
        &self,
        plan: &Plan,
        task: &StreamTask,
        expect: &[Objective],
        form: Form,
        put: fn(&str) -> Result<(), Failure>,
    ) -> Result<StreamingMeasured, Failure> {
        let streams = task.plan(plan);
        streams.check().map_err(|why| why.to_string())?;
        let (environment, carried) = (self.environment(plan), self.carried(plan));
        let (every, signals) = (self.output.interval, &self.signals);
        let lines = self.output.progress != ProgressKind::None;
        let told = |way: String| Streamed { plan: &streams, way, expect, form, every, lines, put };
        match &self.way {
            Way::Kernel(kernel) => {
                let work = |sender| streaming::over_sockets(&kernel.sockets, &streams, signals, &sender);
                streaming::measure(&told("kernel sockets".to_owned()), &environment, work, carried)
            }
            Way::Link(host) => {
                let layout = silos(host, plan)?;
                let way = host.links.iter().map(LinkSpec::name).collect::<Vec<_>>().join(", ");
                let work = |sender| streaming::over_links(host, &layout, &streams, signals, sender);
                streaming::measure(&told(way), &environment, work, carried)
            }
        }
    }

    /// One run of which undisturbed slices alone count, and how many did.
    ///
    /// # Errors
    /// What the user is to know.
    pub fn sifted(&self, plan: &Plan, watch: &mut Lookout, config: SieveConfig) -> Result<(Report, Sifted), Failure> {
        let title = title(plan);
        let mut show = Show::new(self.output.progress, plan, title, &self.signals);
        let (sender, sources) = channel();
        let stop = Arc::new(AtomicUsize::new(0));
        let (quiet, every) = (show.is_live(), config.slice);
        let sieve = Sieve::new(config, self.workers(plan));
        let (sides, sieve) = thread::scope(|scope| {
            let (show, signals) = (&mut show, &*self.signals);
            let sifter = Sifter { sources, show, watch, sieve, signals, stop: Arc::clone(&stop) };
            // Its name keeps it from being watched itself.
            let sifter = thread::Builder::new().name("near-collect".into()).spawn_scoped(scope, || sifter.run())?;
            let sides = self.work(plan, every, &stop, sender, quiet);
            let sieve = sifter.join().map_err(|_| "the collector of slices panicked")?;
            Ok::<_, Failure>((sides?, sieve))
        })?;
        let (whole, outside) = merge(sides);
        usable(&whole)?;
        let (figures, sifted) = sieve.finish(whole);
        Ok((Report::new(plan, &figures, outside), sifted))
    }

    /// The cores that the generator is pinned to, if any.
    pub fn cores(&self, plan: &Plan) -> Vec<u16> {
        match &self.way {
            Way::Link(host) => silos(host, plan)
                .map_or(Vec::new(), |layout| layout.seats.iter().filter_map(|seat| seat.core).collect()),
            Way::Kernel(kernel) => kernel.sockets.cores().collect(),
        }
    }

    /// Where the server of this plan runs.
    pub fn server(&self, plan: &Plan, asked: &ServerPlan) -> Whereabouts {
        let page = match (asked, &self.way) {
            (ServerPlan::Process(pid), _) => return Whereabouts::below(*pid),
            (ServerPlan::Page(path), _) => Reader::open(path).ok(),
            (ServerPlan::Usual, Way::Kernel(kernel)) => {
                return Whereabouts::find(&plan.targets, Some(&kernel.asked.place));
            }
            (ServerPlan::Usual, Way::Link(_)) => only_server().ok(),
        };
        page.map_or(Whereabouts::Hidden, |page| Whereabouts::below(page.pid()))
    }

    fn collect(
        &self,
        plan: &Plan,
        files: &mut Files,
        show: &mut Show,
        server: Option<&ServerTime>,
    ) -> Result<(Vec<Side>, Seen), Failure> {
        let (sender, sources) = channel();
        let (workers, every) = (self.workers(plan), self.output.interval);
        let quiet = show.is_live();
        thread::scope(|scope| {
            let post = self.post.as_ref();
            let collector = Collector { sources, workers, every, files, show, server, post };
            let collector =
                thread::Builder::new().name("near-collect".into()).spawn_scoped(scope, || collector.run())?;
            let sides = self.work(plan, every, &self.signals, sender, quiet);
            let seen = collector.join().map_err(|_| "the collector of figures panicked")?;
            Ok((sides?, seen))
        })
    }

    /// `signals` above zero end it.
    fn work(
        &self,
        plan: &Plan,
        every: Duration,
        signals: &Arc<AtomicUsize>,
        sources: Sender<Source>,
        quiet: bool,
    ) -> Result<Vec<Side>, Failure> {
        match &self.way {
            Way::Link(host) => bypass::run(host, &silos(host, plan)?, plan, every, signals, sources, quiet),
            Way::Kernel(kernel) => kernel.sockets.run(plan, every, signals, &sources),
        }
    }
}

/// The page of the only `nearside serve` of this machine, or why none is known: with several nobody
/// knows which one it is.
pub fn only_server() -> Result<Reader, String> {
    let servers = living_of_user().unwrap_or_default();
    let mut servers: Vec<Reader> = servers.into_iter().filter(|page| page.label().starts_with("serve")).collect();
    match servers.len() {
        0 => Err("no nearside serve of yours runs on this machine (--server-pid names another server)".to_owned()),
        1 => servers.pop().ok_or_else(String::new),
        many => {
            let pids: Vec<String> = servers.iter().map(|page| page.pid().to_string()).collect();
            Err(format!("{many} of nearside serve run on this machine (--server-pid takes one of {})", pids.join(", ")))
        }
    }
}

/// The silos that have a share of this plan.
fn silos(host: &HostPlan, plan: &Plan) -> Result<Layout, Failure> {
    let layout = Layout::new(host)?;
    let all = layout.seats.len() as u32;
    let busy = (0..all).filter(|index| plan.share(*index, all).is_some()).count();
    if busy == layout.seats.len() {
        return Ok(layout);
    }
    let fewer = match &host.silos {
        Silos::Cores(cores) => Silos::Cores(cores.iter().copied().take(busy).collect()),
        _ => Silos::Count(u16::try_from(busy).unwrap_or(u16::MAX)),
    };
    Layout::new(&HostPlan { silos: fewer, ..host.clone() })
}

/// Whether any connection could be secured, if they were to be, and is understood.
fn usable(figures: &Figures) -> Result<(), Failure> {
    let why = figures.connection_failure.as_deref();
    if figures.ended == Ended::NotHttp2 {
        return Err(format!("HTTP/2: {}", why.unwrap_or("the server does not speak it")).into());
    }
    if figures.ended != Ended::Unsecured {
        return Ok(());
    }
    let why = why.unwrap_or("no handshake succeeded");
    let hint = if figures.before.errors.untrusted > 0 { ": trust it by --cacert, or say --insecure" } else { "" };
    Err(format!("HTTPS: {why}{hint}").into())
}

/// What is measured, in a line.
fn title(plan: &Plan) -> String {
    let request = plan.first_request();
    let others = match plan.requests.len() {
        1 => String::new(),
        n => format!(" and {} others", n - 1),
    };
    let scheme = if plan.secured.is_some() { "https" } else { "http" };
    format!("{} {scheme}://{}{}{others}, {} connections", request.method, request.host, request.path, plan.connections)
}

/// The local ports that the run took: those of open connections, and where we
/// close first those in TIME-WAIT, which outlasts most runs (60 s on Linux).
fn ports(plan: &Plan, figures: &Figures) -> Option<Ports> {
    let each = u64::from(ephemeral_ports()?);
    let available = each * plan.sources.len().max(1) as u64 * plan.targets.len() as u64;
    let waiting = match plan.reuse {
        Reuse::ClientCloses | Reuse::ClientClosesAfter(_) => {
            figures.before.connections.closed + figures.counts.connections.closed
        }
        Reuse::KeepAlive | Reuse::ServerCloses | Reuse::ServerClosesAfter(_) => 0,
    };
    Some(Ports { used: (figures.most_open + waiting).min(available), available })
}
