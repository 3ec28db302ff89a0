//! `nearside serve` over kernel sockets: everything that is needed is made,
//! workers are started, and the main thread looks after them.

use super::asked::Asked;
use super::control::{Channel, ChannelError, Offered};
use super::orders::{NewSettings, Orders, PathSettings, Stage};
use super::reload::Prepare;
use super::share::share;
use super::succession;
use super::supervisor::{DataPath, PagePlace, Supervisor};
use super::systemd::{self, Found};
use super::takeover::Predecessor;
use super::worker::{Start, run};
use super::{exposed, holder, wanted};
use crate::plan::{KernelPlan, ServePath, ServePlan, SignalRules};
use core::time::Duration;
use cpu::Clock;
use host::figures::Board;
use host::machine;
use host::machine::Seating;
use host::sched::{self, Scheduling};
use latency::SeriesTable;
use page::Page;
use say::Failure;
use server::{Change, ConnectionNumbers, Server, WallClock};
use sockets::fleet::{self, FleetError, Stop};
use sockets::steer::{SteerError, Steering};
use sockets::{BindError, Config, Endpoint, Listeners, Model, Origin, Worker, kernel_tls};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use topology::Topology;

/// Serves until it is told to stop, or a successor has taken over and the
/// last connection ended.
///
/// # Errors
/// What the user is to know.
pub fn serve(plan: &KernelPlan, whole: &ServePlan) -> Result<(), Failure> {
    let mut seating = machine::seating(plan.workers, &plan.cores)?;
    let (plan, unsteered) = with_model(plan, seating.seats.len());
    let warnings: Vec<String> = seating.warning.take().into_iter().chain(unsteered).collect();
    serve_seated(&plan, whole, seating, warnings)
}

/// Sockets that were opened before: by a service manager, or by the process that is
/// followed.
fn found(
    plan: &KernelPlan,
    signals: SignalRules,
    predecessor: Option<&mut Predecessor>,
) -> Result<Vec<Found>, Failure> {
    let mut found = systemd::sockets()?;
    if let Some(predecessor) = predecessor {
        leaves_nothing_out(plan, signals, predecessor)?;
        found.append(&mut predecessor.sockets);
    }
    Ok(found)
}

/// Serves by workers who have their seats, and an accept model that can be had. For the
/// name of the program the kernel is asked first: once its file is replaced, it tells
/// another.
fn serve_seated(
    plan: &KernelPlan,
    whole: &ServePlan,
    Seating { seats, sets, note, .. }: Seating,
    mut warnings: Vec<String>,
) -> Result<(), Failure> {
    let program = programs::own()?;
    let mut predecessor = Predecessor::ask(plan.restart.take_over.as_ref())?;
    let found = found(plan, whole.signals, predecessor.as_mut())?;
    let workers = seats.len();
    let (config, limits) = worker_config(plan, workers);
    warnings.extend(limits.into_iter().chain(scheduling(plan, &seats)?));
    let endpoint = exposed::bind(whole, predecessor.is_some(), Predecessor::take_metrics(predecessor.as_mut()))?;
    let (mut board, page) = board(plan, (predecessor.is_some(), endpoint.is_some()), &seats)?;
    let server = share(whole.server.clone(), config.max_connections, workers);
    let orders = Orders::new(workers)?;
    let asked = Asked::new(&orders, whole.signals)?;
    let reopen = Arc::clone(&asked.reopens);
    try_out(&seats, &config, &server)?;
    let (listeners, managed) = listen(plan, found, workers, &mut warnings)?;
    let steering = steer(&listeners, &seats, &mut warnings);
    let latencies = endpoint.is_some().then(|| board.latencies());
    let starts = board.columns().into_iter().enumerate().map(|(index, column)| {
        let listeners = listeners.for_worker(index);
        let (config, mut server) = (config.clone(), server.clone());
        server.numbers = ConnectionNumbers::of(index, workers);
        server.latency = latencies.as_ref().map(|table| table.board(index));
        let seat = steering.as_ref().and_then(|steering| steering.seat(index));
        Some(Start { index, config, server, listeners, column, seat, orders: &orders, reopen: &reopen })
    });
    let starts: Mutex<Vec<Option<Start<'_>>>> = Mutex::new(starts.collect());
    // What is attached stays. Kept here it would keep sockets from a successor's program.
    drop(steering);
    let (endpoints, stop, prepare) = (listeners.endpoints(), Stop::default(), Even { workers, latencies });
    let path = KernelPath { listeners: Some(listeners), managed, board, prepare, predecessor };
    thread::scope(|scope| {
        let fleet = thread::Builder::new().name("fleet".to_owned()).spawn_scoped(scope, || {
            let one = |index: usize| {
                let start = starts.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index).and_then(Option::take);
                place(index, &sets, plan.nice);
                let outcome = plan.fifo.map_or(Ok(()), sched::of_thread).and_then(|()| start.map_or(Ok(()), run));
                if outcome.is_err() {
                    // The others finish what they have.
                    orders.advance(Stage::Drain);
                }
                outcome
            };
            let outcome = fleet::run(&seats, &stop, one);
            orders.advance(Stage::Halt);
            orders.ring();
            outcome
        })?;
        let mut supervisor = Supervisor::new(program, whole, (&orders, asked), path, (page, endpoint));
        let supervised = supervisor.serve(&fleet, |_, _| {
            announce((&endpoints, &server), plan, (&seats, &sets), (&config, orders.engine()));
            note.iter().for_each(|note| say::info(format_args!("  {note}")));
            warnings.iter().for_each(say::warning);
        });
        if supervised.is_err() {
            // What was accepted is still served.
            orders.advance(Stage::Drain);
        }
        let outcome = fleet.join().map_err(|_| "a worker ended by a bug: see above".to_owned())?;
        match outcome {
            Ok(_) => supervised,
            Err(FleetError::Worker(_, why)) => Err(why.into()),
            Err(other) => Err(other.to_string().into()),
        }
    })
}

/// The plan with the accept model that can be had, and why it is another than was asked
/// for.
fn with_model(plan: &KernelPlan, workers: usize) -> (KernelPlan, Option<String>) {
    let mut plan = plan.clone();
    let (model, why) = model(&plan, workers);
    plan.config.model = model;
    (plan, why)
}

/// The accept model of so many workers, and why it is another than was asked for.
#[must_use]
pub fn model(plan: &KernelPlan, workers: usize) -> (Model, Option<String>) {
    let asked = plan.config.model;
    if !plan.or_shared {
        return (asked, None);
    }
    match Steering::try_out(asked, workers) {
        Ok(()) => (asked, None),
        Err(why) => {
            let why = why.reason();
            (Model::Exclusive, Some(format!("accept model exclusive in the place of {asked}: {why}")))
        }
    }
}

/// How a plan's workers come by connections, in words: the model, and how many queues
/// each address has.
#[must_use]
pub fn told_model(plan: &KernelPlan, workers: usize) -> String {
    let queues = |shared: bool| match if shared { 1 } else { workers } {
        1 => "1 queue".to_owned(),
        count => format!("{count} queues"),
    };
    let model = plan.config.model;
    let hashed = plan.options.own.iter().any(|(_, own)| own.listen.hashed);
    let beside = if hashed { format!(", with reuseport {}", queues(false)) } else { String::new() };
    format!("{model}, {}{beside}", queues(model.is_shared()))
}

/// Has a worker's thread be where it is to be, as important as it is to be. What cannot
/// be is said, and it serves all the same, as nginx's workers do.
fn place(index: usize, sets: &[Vec<u16>], nice: Option<i32>) {
    if let Some(cores) = sets.get(index).filter(|cores| !cores.is_empty())
        && let Err(why) = cpu::pin::bind(cores)
    {
        say::error(format_args!("worker {index} cannot be bound to its cores (worker_cpu_affinity): {why}"));
    }
    // Of this thread alone (setpriority(2), "C library/kernel differences").
    if let Some(Err(why)) = nice.map(|nice| rustix::process::setpriority_process(None, nice)) {
        say::error(format_args!("worker {index} cannot have its worker_priority: {why}"));
    }
}

/// What is to be said of workers that have a real-time priority.
fn scheduling(plan: &KernelPlan, seats: &[Option<u16>]) -> Result<Option<String>, Failure> {
    let Some(priority) = plan.fifo else { return Ok(None) };
    Ok(Some(format!("--sched: {}", Scheduling::read(Path::new("/")).allows(priority, seats)?)))
}

/// What a service manager opened, and keeps.
struct Managed {
    /// What is listened on.
    endpoint: Endpoint,
    /// The name that it was given.
    name: Option<String>,
}

/// Listening sockets, and how they change hands.
struct KernelPath {
    /// Gone once nothing is to be accepted any more.
    listeners: Option<Listeners>,
    managed: Vec<Managed>,
    board: Board,
    prepare: Even,
    predecessor: Option<Predecessor>,
}

impl DataPath for KernelPath {
    type Prepare = Even;

    const GOES_BACK: bool = true;

    fn follow(&mut self) -> Result<Option<(u32, Option<Duration>)>, Failure> {
        let Some(predecessor) = &self.predecessor else { return Ok(None) };
        let pid = predecessor.pid();
        predecessor.succeed().map_err(|why| format!("the process that serves did not give way: {why}"))?;
        Ok(Some((pid, None)))
    }

    fn on_answering(&mut self) {
        let _ = self.predecessor.take().map(|predecessor| predecessor.answers());
    }

    fn offer(&self, channel: &Channel) -> Result<(), ChannelError> {
        let sockets = self.listeners.iter().flat_map(Listeners::iter);
        let sockets: Vec<(Offered, BorrowedFd<'_>)> = sockets
            .map(|(endpoint, socket)| {
                let managed = self.managed.iter().find(|managed| managed.endpoint == *endpoint);
                let name = managed.and_then(|managed| managed.name.clone());
                (Offered { endpoint: endpoint.to_string(), managed: managed.is_some(), name }, socket)
            })
            .collect();
        succession::offer(channel, &sockets)
    }

    /// Both accept from the same queues until it is told.
    fn hand_over(&mut self, _: Option<&Channel>) -> Result<(), String> {
        Ok(())
    }

    fn on_followed(&mut self) {
        if let Some(mut listeners) = self.listeners.take() {
            listeners.disown_files();
        }
    }

    /// Options of what is listened on still, as nginx sets them again.
    fn on_reloaded(&mut self, plan: &ServePlan) {
        let (Some(listeners), ServePath::Kernel(kernel)) = (&self.listeners, &plan.path) else { return };
        if !matches!(plan.signals, SignalRules::Nginx { .. }) {
            return;
        }
        for (at, why) in listeners.set_options(&kernel.options, &kernel.config.stream) {
            say::warning(format_args!("listen {at}: {why}; it stays as it was"));
        }
    }

    fn on_stop(&mut self) {
        self.listeners = None;
    }

    fn parts(&mut self) -> (&Even, &mut Page) {
        (&self.prepare, self.board.page())
    }
}

/// Refuses to follow a process that listens where this one would not: what it
/// serves there would vanish with it. It may be another site altogether. Another
/// nginx.conf is what was asked for.
fn leaves_nothing_out(plan: &KernelPlan, rules: SignalRules, predecessor: &Predecessor) -> Result<(), Failure> {
    let bare = wanted::uncovered(&plan.listen, &predecessor.sockets, plan.options.v6_only);
    if bare.is_empty() || rules != SignalRules::Own {
        return Ok(());
    }
    let bare: Vec<String> = bare.iter().map(ToString::to_string).collect();
    let (pid, bare) = (predecessor.pid(), bare.join(" "));
    predecessor.refuse(&format!("the new process would not listen on {bare}, which this one does"));
    Err(format!(
        "cannot take over from process {pid}: it listens on {bare}, where nobody would after it; \
         --listen there too, or end that process first"
    )
    .into())
}

/// What each worker is to be, and what there is to be said of it.
fn worker_config(plan: &KernelPlan, workers: usize) -> (Config, Vec<String>) {
    let mut warnings = Vec::new();
    let mut config = plan.config.clone();
    let total = config.max_connections;
    let held = machine::raise_descriptors(total, workers, &mut warnings);
    // Rounded up: all together hold at least what was asked for.
    config.max_connections = held.div_ceil(workers).max(1);
    if let Some(most) = machine::somaxconn().filter(|most| *most < plan.options.backlog) {
        let asked = plan.options.backlog;
        warnings.push(format!("--backlog {asked} is cut to {most}: raise net.core.somaxconn for more"));
    }
    (config, warnings)
}

/// So many workers, each of which has an even part of what is asked for.
struct Even {
    workers: usize,
    latencies: Option<Arc<SeriesTable>>,
}

impl Prepare for Even {
    fn prepare(&self, now: &ServePlan, next: &ServePlan) -> Result<Vec<NewSettings>, Failure> {
        let (Self { workers, .. }, ServePath::Kernel(plan)) = (self, &next.path) else { return Ok(Vec::new()) };
        let (config, warnings) = worker_config(plan, *workers);
        // Of the rest there was a word at the start.
        if now.server.limits.connections != next.server.limits.connections {
            warnings.iter().for_each(say::warning);
        }
        let part = |plan: &ServePlan| share(plan.server.clone(), config.max_connections, *workers);
        let (now, next) = (part(now), part(next));
        let one = |_| {
            Ok(NewSettings {
                change: Change::prepare(&now, &next)?,
                connections: config.max_connections,
                drain: next.timeouts.drain,
                path_settings: PathSettings::Worker(config.spin),
            })
        };
        (0..*workers).map(one).collect()
    }

    fn latencies(&self) -> Option<&SeriesTable> {
        self.latencies.as_deref()
    }
}

/// What a plan comes to.
pub struct Checked {
    /// How many workers there are to be.
    pub workers: usize,
    /// What would be said at the start.
    pub notes: Vec<String>,
}

/// Makes once what every worker of `plan` will, and drops it.
///
/// # Errors
/// If one cannot be made.
pub fn check(plan: &KernelPlan, server: server::Config) -> Result<Checked, Failure> {
    let Seating { seats, note, warning, .. } = machine::seating(plan.workers, &plan.cores)?;
    let (config, mut warnings) = worker_config(plan, seats.len());
    warnings.extend(model(plan, seats.len()).1);
    try_out(&seats, &config, &share(server, config.max_connections, seats.len()))?;
    let warnings = warnings.into_iter().chain(warning).map(|warning| format!("warning: {warning}"));
    Ok(Checked { workers: seats.len(), notes: note.into_iter().chain(warnings).collect() })
}

/// Makes once what every worker will, and drops it: whatever cannot be is
/// found out before the first socket listens. From then on connections come,
/// and those that wait in a new socket's queue end with this process.
fn try_out(seats: &[Option<u16>], config: &Config, server: &server::Config) -> Result<(), Failure> {
    let mut cores: Vec<u16> = seats.iter().flatten().copied().collect();
    cores.sort_unstable();
    cores.dedup();
    for core in cores {
        let pinned = thread::spawn(move || cpu::pin::pin(core)).join();
        pinned.map_err(|_| format!("core {core} cannot be tried out"))??;
    }
    let app = Server::new(server.clone(), WallClock::new(Clock.now(), Clock.unix()))?;
    Worker::new(config.clone(), Vec::new(), app)?;
    Ok(())
}

/// Listens, with the sockets that were there before as far as they are wanted.
fn listen(
    plan: &KernelPlan,
    found: Vec<Found>,
    workers: usize,
    warnings: &mut Vec<String>,
) -> Result<(Listeners, Vec<Managed>), Failure> {
    let wanted = wanted::sort_out(&plan.listen, found)?;
    for endpoint in &wanted.left_out {
        warnings.push(format!("a socket for {endpoint} was given and is not used: no --listen names it"));
    }
    let mut managed = Vec::new();
    for found in wanted.sockets.iter().filter(|found| found.managed) {
        if !managed.iter().any(|managed: &Managed| managed.endpoint == found.endpoint) {
            managed.push(Managed { endpoint: found.endpoint.clone(), name: found.name.clone() });
        }
    }
    // Where a service manager keeps some, no file is ours to remove: one left
    // behind is seen to be stale.
    let origin = if managed.is_empty() { Origin::Predecessor } else { Origin::Manager };
    let sockets = wanted.sockets.into_iter().map(|found| found.socket).collect();
    let model = plan.config.model;
    let listeners = Listeners::adopt(sockets, origin, &wanted.endpoints, &plan.options, model, workers);
    let listeners = listeners.map_err(|why| match &why {
        BindError::InUse(endpoint) => match holder::of(endpoint) {
            Some(holder) => format!("{why}: {holder}"),
            None => why.to_string(),
        },
        _ => why.to_string(),
    })?;
    Ok((listeners, managed))
}

/// Has the model's program choose workers, if it has one and the kernel takes
/// it; without, the kernel's hash does.
fn steer(listeners: &Listeners, seats: &[Option<u16>], warnings: &mut Vec<String>) -> Option<Steering> {
    let topology = Topology::here().map_err(SteerError::Topology);
    let steering = topology.and_then(|topology| Steering::attach(listeners, seats, &topology));
    steering.unwrap_or_else(|why| {
        warnings.push(why.to_string());
        None
    })
}

/// The statistics page, and where it is to be once the predecessor's is gone.
fn board(
    plan: &KernelPlan,
    (follows, latencies): (bool, bool),
    seats: &[Option<u16>],
) -> Result<(Board, PagePlace), Failure> {
    let what = format!("serve {} workers, {}", seats.len(), told_model(plan, seats.len()));
    if let Some(path) = plan.status_page.clone().filter(|_| follows) {
        let mut draft = path.clone().into_os_string();
        draft.push(format!(".{}.next", std::process::id()));
        let board = Board::new(Some(draft.as_ref()), &what, seats, latencies)?;
        return Ok((board, PagePlace { own: true, next: Some(path) }));
    }
    let path = plan.status_page.as_deref();
    Ok((Board::new(path, &what, seats, latencies)?, PagePlace { own: path.is_some(), next: None }))
}

/// Who seals the records of secured connections.
fn sealing() -> String {
    match kernel_tls::probe() {
        Ok(()) => {
            let from = kernel_tls::WORTH >> 10;
            format!("TLS: files from {from} KiB on that go by sendfile are sealed by the kernel (kTLS), all else here")
        }
        Err(why) => format!("TLS: all records are sealed here; kTLS: {why}"),
    }
}

fn announce(
    (endpoints, server): (&[Endpoint], &server::Config),
    plan: &KernelPlan,
    (seats, sets): (&[Option<u16>], &[Vec<u16>]),
    (config, engine): (&Config, &str),
) {
    let urls: Vec<String> = endpoints.iter().map(|endpoint| url(endpoint, server)).collect();
    let count = seats.len();
    let workers = if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") };
    let (urls, model) = (urls.join(" "), told_model(plan, count));
    say::info(format_args!("serving {urls} over kernel sockets: {workers}, accept model {model}, engine {engine}"));
    if server.speaks_tls() {
        say::info(format_args!("  {}", sealing()));
    }
    for (index, place) in machine::places(seats, sets).iter().enumerate() {
        let most = config.max_connections;
        say::info(format_args!("  worker {index}: {place}, at most {most} connections"));
    }
}

fn url(endpoint: &Endpoint, server: &server::Config) -> String {
    match endpoint {
        Endpoint::Tcp(address) => format!("{}://{address}/", server.scheme_at(*address)),
        Endpoint::Unix(_) => endpoint.to_string(),
    }
}
