//! One test, from its file to its exit code.

use crate::args::RunArgs;
use crate::listen::{Event, Known, listen};
use crate::local::{Machine, Need, Processes, SpecFolder, TestFolder};
use crate::output::Output;
use crate::shown::{Shown, progress_line};
use control::{Action, ChannelId, Control, ControlRules, Gone, Outcome, Progress};
use core::time::Duration;
use cpu::Clock;
use load::{Interval, Plan, Setup};
use merge::{Timeline, WorkerFigures, WorkerMessage};
use messages::{FromWorker, TOKEN_VARIABLE, Token};
use report::interval_json;
use rustix::rand::{GetRandomFlags, getrandom};
use say::{Failure, eprintln};
use signal_hook::consts::{SIGINT, SIGTERM};
use spec::{Arranged, LoadTest};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use wire::Time;

/// The exit code where the test's file makes no sense.
const NO_SENSE: u8 = 2;

/// Events that wait for the one who decides.
const EVENTS_LIMIT: usize = 256;

/// How often signals and processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often a line says how it goes.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Runs a test.
///
/// # Errors
/// What the user is to know.
pub fn run(asked: &RunArgs) -> Result<ExitCode, Failure> {
    let (mut folder, text) = SpecFolder::open(&asked.spec, asked.secrets.as_deref())?;
    let refuse = |wrong: Vec<spec::FieldError>| {
        wrong.iter().for_each(|one| eprintln!("nearside: {}: {one}", asked.spec.display()));
        ExitCode::from(NO_SENSE)
    };
    let test = match LoadTest::read(&text) {
        Ok(test) => test,
        Err(wrong) => return Ok(refuse(wrong)),
    };
    let machine = asked.local.then(Machine::here).ok_or("so far workers are processes of this machine: --local")?;
    let need = Need { workers: test.workers, connections: test.connections, threads: test.threads };
    if let Some(why) = machine.lack(need) {
        return Ok(refuse(vec![spec::FieldError { field: "spec.workers".to_owned(), line: 0, why }]));
    }
    let arranged = match test.arrange(resolve(&test)?, &mut folder) {
        Ok(arranged) => arranged,
        Err(wrong) => return Ok(refuse(wrong)),
    };
    let mut intervals = Output::create(asked.ndjson.as_deref())?;
    let page = Output::create(asked.html.as_deref())?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut running = Running::start(&test, &arranged, &machine, need)?;
    running.run(&interrupted, asked.quiet, &mut intervals);
    let (outcome, words) = running.finish();
    let failures = u32::from(intervals.has_failed());
    Shown { test: &test, plan: &arranged.plan, outcome, words: &words, failures }.print(asked.json, page)
}

/// The address of the server: the first that its name has.
fn resolve(test: &LoadTest) -> Result<SocketAddr, Failure> {
    let (host, port) = (test.target.host.as_str(), test.target.port);
    let found = (host, port).to_socket_addrs().map_err(|why| format!("spec.target: {host}: {why}"))?;
    Ok(found.into_iter().next().ok_or_else(|| format!("spec.target: {host} has no address"))?)
}

/// A test that runs.
struct Running<'a> {
    test: &'a LoadTest,
    control: Control<WorkerFigures>,
    processes: Processes,
    timeline: Timeline,
    streams: BTreeMap<ChannelId, TcpStream>,
    events: Receiver<Event>,
    /// Each worker's command line.
    arguments: Vec<Vec<OsString>>,
    /// The last interval of all workers.
    latest: Option<Interval>,
    /// What the workers read before they say who they are: gone when all have.
    folder: Option<TestFolder>,
}

impl<'a> Running<'a> {
    fn start(test: &'a LoadTest, arranged: &Arranged, machine: &Machine, need: Need) -> Result<Self, Failure> {
        let token = Token::new(random()?);
        let plans: Vec<Plan> =
            (0..test.workers).filter_map(|worker| arranged.plan.share(worker, test.workers)).collect();
        if plans.len() != test.workers as usize {
            return Err("spec.workers: there are fewer connections than workers".into());
        }
        let rules = ControlRules {
            token: token.clone(),
            version: messages::version(),
            setups: plans.iter().map(understood).collect(),
            prepare: test.prepare,
            load: test.warm_up.time + test.duration.time,
            start_tolerance: test.start_tolerance,
        };
        let folder = TestFolder::make(&format!("nearside-{}-{:016x}", test.name, random()? as u64))?;
        let requests = folder.write("request.json", arranged.request.as_bytes())?;
        let feed = arranged.feed.as_deref().map(|bytes| folder.write("feed.csv", bytes)).transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (sender, events) = sync_channel(EVENTS_LIMIT);
        let controller = listen(listener, Arc::new(Known { token: token.clone(), plans }), sender)?;
        let arguments = |worker: u32| {
            let mut words = test.arguments(worker, controller, &requests, feed.as_deref());
            let numbers = |cores: &[u16]| cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let cores = machine.cores_of(worker, need).map_or_else(|| "none".to_owned(), numbers);
            words.extend(["--cores".into(), cores.into()]);
            words
        };
        Ok(Self {
            control: Control::new(rules, Clock.now()),
            processes: Processes::new(programs::tools()?, test.workers, (TOKEN_VARIABLE, token.text().to_owned())),
            timeline: Timeline::new(test.workers),
            streams: BTreeMap::new(),
            events,
            arguments: (0..test.workers).map(arguments).collect(),
            latest: None,
            test,
            folder: Some(folder),
        })
    }

    /// Runs it to its end.
    fn run(&mut self, interrupted: &AtomicBool, quiet: bool, intervals: &mut Output) {
        let mut next_line = Clock.now() + LINE_EVERY;
        loop {
            self.act();
            if self.control.progress() == Progress::Over {
                return;
            }
            let now = Clock.now();
            // Signals and ends of processes wake nobody: they are looked for.
            let wait = self.control.next_deadline().since(now).min(LOOK_EVERY);
            if let Ok(event) = self.events.recv_timeout(wait) {
                self.on_event(event);
                while let Ok(event) = self.events.try_recv() {
                    self.on_event(event);
                }
            }
            let now = Clock.now();
            for (worker, gone) in self.processes.ended() {
                self.control.on_gone(worker, gone, now);
            }
            if interrupted.swap(false, Ordering::Relaxed) {
                self.control.on_interrupt(now);
            }
            if now >= self.control.next_deadline() {
                self.control.on_time(now);
            }
            if self.folder.is_some() && self.control.workers().all(|worker| worker.is_here) {
                self.folder = None;
            }
            while let Some(interval) = self.timeline.poll() {
                intervals.write(&interval_json(&interval));
                self.latest = Some(interval);
            }
            if now >= next_line {
                next_line = now + LINE_EVERY;
                if !quiet {
                    eprintln!("{}", progress_line(&self.control, self.latest.as_ref(), now));
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = Clock.now();
        match event {
            Event::Connected(channel, stream) => {
                self.streams.insert(channel, stream);
                self.control.on_connected(channel, now);
            }
            Event::Message(channel, message, received) => self.on_message(channel, *message, received),
            Event::Nonsense(channel, why) => self.control.on_nonsense(channel, &why, now),
            Event::Closed(channel) => {
                self.streams.remove(&channel);
                self.control.on_closed(channel, now);
            }
        }
    }

    fn on_message(&mut self, channel: ChannelId, message: WorkerMessage, received: Time) {
        let worker = self.control.worker_at(channel);
        match (worker, message) {
            (Some(worker), FromWorker::Interval(interval)) => {
                self.timeline.add(worker, *interval);
                self.control.on_message(channel, FromWorker::Interval(()), received, Clock.now());
            }
            (_, message) => {
                if let (Some(worker), FromWorker::Measured(_)) = (worker, &message) {
                    self.timeline.end(worker);
                }
                self.control.on_message(channel, message, received, Clock.now());
            }
        }
    }

    /// Does what is to be done.
    fn act(&mut self) {
        while let Some(action) = self.control.poll_action() {
            match action {
                Action::Launch { worker } => self.launch(worker),
                Action::Send { channel, message } => {
                    // One that takes nothing is silent, and found to be lost.
                    if let Some(stream) = self.streams.get_mut(&channel) {
                        let _ = stream.write_all(&message.line());
                    }
                }
                Action::Close { channel } => {
                    if let Some(stream) = self.streams.remove(&channel) {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                }
                Action::Kill { worker } => self.processes.kill(worker),
            }
        }
    }

    fn launch(&mut self, worker: u32) {
        let Some(arguments) = self.arguments.get(worker as usize) else { return };
        if let Err(why) = self.processes.launch(worker, arguments) {
            eprintln!("nearside: worker {worker}: {why}");
            self.control.on_gone(worker, Gone::NotStarted, Clock.now());
        }
    }

    /// What came of it, and the last words of each worker; nothing of it is left.
    fn finish(mut self) -> (Outcome<WorkerFigures>, Vec<String>) {
        self.processes.finish();
        let words = (0..self.test.workers).map(|worker| self.processes.words(worker)).collect();
        (self.control.into_outcome(), words)
    }
}

/// What a worker is to understand; the address that a name has is its own to find.
fn understood(plan: &Plan) -> String {
    let mut setup = Setup::new(plan);
    setup.targets.clear();
    report::setup_json(&setup)
}

/// Random bits, as a secret takes.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    if filled == bytes.len() { Ok(u128::from_ne_bytes(bytes)) } else { Err("no random bits".into()) }
}
