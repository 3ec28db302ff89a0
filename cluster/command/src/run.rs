//! One test, from its file to its exit code.

use crate::args::RunArgs;
use crate::cluster::{ClusterFiles, ClusterTest, Started, reach};
use crate::listen::{Event, Known, listen};
use crate::local::{Machine, Need, Processes, TestFolder};
use crate::opened::{NAMESPACE, Opened};
use crate::output::Output;
use crate::shown::{Shown, progress_line};
use crate::workers::Workers;
use channel::{Channel, Keys};
use control::{Action, ChannelId, Control, ControlRules, Gone, Outcome, Progress};
use core::time::Duration;
use cpu::Clock;
use load::{Interval, Plan, Setup};
use merge::{Timeline, WorkerFigures, WorkerMessage};
use messages::{Counted, FromWorker, TOKEN_VARIABLE, Token};
use report::{ExitReason, interval_json};
use rustix::rand::{GetRandomFlags, getrandom};
use say::{Failure, eprintln};
use signal_hook::consts::{SIGINT, SIGTERM};
use spec::{Arranged, ControllerPlace, FieldError, LoadTest, WorkerPlace};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use wire::Time;

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
    let opened = Opened::open(&asked.spec, asked.secrets.as_deref())?;
    let test = match opened.read() {
        Ok(test) => test,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    if asked.local {
        run_here(asked, opened, &test, &interrupted)
    } else {
        run_there(asked, opened, &test, &interrupted)
    }
}

/// Runs a test whose workers are processes of this machine.
fn run_here(
    asked: &RunArgs,
    mut opened: Opened,
    test: &LoadTest,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let machine = Machine::here();
    let need = Need { workers: test.workers, connections: test.connections, threads: test.threads };
    if let Some(why) = machine.lack(need) {
        let field = "spec.workers".to_owned();
        return Ok(opened.refuse(&[FieldError { line: test.line(&field), field, why }]));
    }
    let arranged = match test.arrange(resolve(test)?, &mut opened.files) {
        Ok(arranged) => arranged,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let outputs = Outputs::create(asked)?;
    let token = Token::new(random()?);
    let folder = TestFolder::make(&format!("nearside-{}-{:016x}", test.name, random()? as u64))?;
    let requests = folder.write("request.json", arranged.request.as_bytes())?;
    let feed = arranged.feed.as_deref().map(|bytes| folder.write("feed.csv", bytes)).transpose()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let controller = ControllerPlace::Address(listener.local_addr()?);
    let arguments = |worker: u32| {
        let number = worker.to_string();
        let place = WorkerPlace { worker: &number, controller, requests: &requests, feed: feed.as_deref() };
        let mut words = test.arguments(&place);
        let numbers = |cores: &[u16]| cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let cores = machine.cores_of(worker, need).map_or_else(|| "none".to_owned(), numbers);
        words.extend(["--cores".into(), cores.into()]);
        words
    };
    let processes = Processes::new(programs::tools()?, test.workers, (TOKEN_VARIABLE, token.text().to_owned()));
    let workers = Workers::Here(processes, (0..test.workers).map(arguments).collect());
    let running = Running::start((test, &arranged), (token, listener), workers, Some(folder))?;
    running.complete(&arranged, interrupted, asked, outputs)
}

/// Runs a test whose workers are pods of a cluster.
fn run_there(
    asked: &RunArgs,
    mut opened: Opened,
    test: &LoadTest,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let (client, theirs) = reach(asked.kubeconfig.as_deref(), asked.context.as_deref())?;
    let said = asked.namespace.as_deref().or(test.namespace.as_deref()).or(theirs.as_deref());
    let namespace = said.unwrap_or(NAMESPACE);
    let mut files = ClusterFiles { folder: &mut opened.files, client: &client, namespace };
    // What its name means here may be nothing: pods find out what it means to them.
    let nowhere = (Ipv4Addr::UNSPECIFIED, test.target.port).into();
    let arranged = match test.arrange(resolve(test).unwrap_or(nowhere), &mut files) {
        Ok(arranged) => arranged,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let cluster = ClusterTest { asked, test, source: &opened.text, namespace };
    // With as much as there will be where what is not known yet stands.
    let manifests = match cluster.objects(&arranged, Token::new(0).text(), asked.address.as_deref().unwrap_or_default())
    {
        Ok(manifests) => manifests,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let outputs = Outputs::create(asked)?;
    // Whoever reads the target's Lease sees its holder's number, and nothing of the token.
    let drawn = (Token::new(random()?), random()? as u64);
    let Some(started) = cluster.start((client, &arranged), manifests, drawn, interrupted)? else {
        eprintln!("nearside: interrupted before it began");
        return Ok(ExitCode::from(ExitReason::Interrupted.code()));
    };
    let Started { token, listener, pods } = started;
    let running = Running::start((test, &arranged), (token, listener), Workers::Pods(pods), None)?;
    running.complete(&arranged, interrupted, asked, outputs)
}

/// Files for results.
struct Outputs {
    intervals: Output,
    page: Output,
}

impl Outputs {
    fn create(asked: &RunArgs) -> Result<Self, Failure> {
        Ok(Self { intervals: Output::create(asked.ndjson.as_deref())?, page: Output::create(asked.html.as_deref())? })
    }
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
    workers: Workers,
    timeline: Timeline,
    channels: BTreeMap<ChannelId, Arc<Channel>>,
    events: Receiver<Event>,
    /// The last interval of all workers.
    latest: Option<Interval>,
    /// What the workers read before they say who they are: gone when all have.
    folder: Option<TestFolder>,
}

impl<'a> Running<'a> {
    fn start(
        (test, arranged): (&'a LoadTest, &Arranged),
        (token, listener): (Token, TcpListener),
        workers: Workers,
        folder: Option<TestFolder>,
    ) -> Result<Self, Failure> {
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
        let (sender, events) = sync_channel(EVENTS_LIMIT);
        let keys = Keys::of(&token)?;
        listen(listener, Arc::new(Known { token, keys, plans }), sender)?;
        Ok(Self {
            control: Control::new(rules, Clock.now()),
            workers,
            timeline: Timeline::new(test.workers),
            channels: BTreeMap::new(),
            events,
            latest: None,
            test,
            folder,
        })
    }

    /// Runs it to its end, and prints what came of it.
    fn complete(
        mut self,
        arranged: &Arranged,
        interrupted: &AtomicBool,
        asked: &RunArgs,
        outputs: Outputs,
    ) -> Result<ExitCode, Failure> {
        let Outputs { mut intervals, page } = outputs;
        self.run(interrupted, asked.quiet, &mut intervals);
        let test = self.test;
        let (outcome, words) = self.finish();
        let failures = u32::from(intervals.has_failed());
        Shown { test, plan: &arranged.plan, outcome, words: &words, failures }.print(asked.json, page)
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
            for (worker, gone) in self.workers.ended() {
                self.control.on_gone(worker, gone, now);
            }
            if self.workers.is_displaced() {
                self.control.on_displaced(now);
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
            Event::Connected(channel, way) => {
                self.channels.insert(channel, way);
                self.control.on_connected(channel, now);
            }
            Event::Message(channel, message, received) => self.on_message(channel, *message, received),
            Event::Nonsense(channel, why) => self.control.on_nonsense(channel, &why, now),
            Event::Closed(channel) => {
                self.channels.remove(&channel);
                self.control.on_closed(channel, now);
            }
        }
    }

    fn on_message(&mut self, channel: ChannelId, message: WorkerMessage, received: Time) {
        let worker = self.control.worker_at(channel);
        match (worker, message) {
            (Some(worker), FromWorker::Interval(Counted { number, place, interval })) => {
                if self.control.is_new_interval(worker, number) {
                    self.timeline.add(worker, place, *interval);
                }
                let here = FromWorker::Interval(Counted { number, place, interval: () });
                self.control.on_message(channel, here, received, Clock.now());
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
                    if let Some(way) = self.channels.get(&channel) {
                        let _ = way.write(&message.line());
                    }
                }
                Action::Close { channel } => {
                    if let Some(way) = self.channels.remove(&channel) {
                        way.shutdown();
                    }
                }
                Action::Kill { worker } => self.workers.kill(worker),
            }
        }
    }

    fn launch(&mut self, worker: u32) {
        if let Err(why) = self.workers.launch(worker) {
            eprintln!("nearside: worker {worker}: {why}");
            self.control.on_gone(worker, Gone::NotStarted, Clock.now());
        }
    }

    /// What came of it, and the last words of each worker; nothing of it is left.
    fn finish(mut self) -> (Outcome<WorkerFigures>, Vec<String>) {
        self.workers.finish();
        let words = (0..self.test.workers).map(|worker| self.workers.words(worker)).collect();
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
