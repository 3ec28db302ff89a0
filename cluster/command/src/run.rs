//! One test, from its file to its exit code.

use crate::args::RunArgs;
use crate::cluster::{ClusterFiles, ClusterTest, Found, Started, Starting, WorkerKeys, reach};
use crate::local::{Machine, Need, Processes, TestFolder};
use crate::nodes;
use crate::opened::{NAMESPACE, Opened};
use crate::output::Output;
use crate::random::random;
use crate::running::{Onlooker, Running};
use crate::shown::{Shown, progress_line};
use crate::workers::Workers;
use control::Control;
use core::time::Duration;
use cpu::Clock;
use load::Interval;
use merge::WorkerFigures;
use messages::{KEY_VARIABLE, TOKEN_VARIABLE, Token};
use report::{ExitReason, interval_json};
use say::{Failure, eprintln};
use signal_hook::consts::{SIGINT, SIGTERM};
use spec::{Arranged, ControllerPlace, FieldError, LoadTest, WorkerPlace};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wire::Time;

/// How often a line says how it goes.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Runs a test.
///
/// # Errors
/// What the user is to know.
pub fn run(asked: &RunArgs) -> Result<ExitCode, Failure> {
    let opened = Opened::open(&asked.spec, asked.secrets.as_deref())?;
    if opened.is_audit() {
        return nodes::run(asked, &opened);
    }
    if asked.reports.is_some() || asked.before.is_some() {
        return Err(format!("--reports and --before are of audits, and {} is a test", opened.name()).into());
    }
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
    let keys = WorkerKeys::of(&token, test.workers)?;
    let variables = |token: &String| [(TOKEN_VARIABLE, token.clone()), (KEY_VARIABLE, keys.controller.clone())];
    let processes = Processes::new(programs::tools()?, keys.tokens.iter().map(variables).collect());
    let workers = Workers::Here(processes, (0..test.workers).map(arguments).collect());
    let running = Running::start((test, &arranged), (token, listener), workers, Some(folder))?;
    complete(running, (test, &arranged), interrupted, asked, outputs)
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
    let found = asked.address.as_deref().map_or(Found::Own, Found::At);
    let (source, image) = (opened.text.as_str(), asked.image.as_deref());
    let cluster = ClusterTest { test, source, namespace, image, owner: None, found };
    // With as much as there will be where what is not known yet stands.
    let keys = WorkerKeys::of(&Token::new(0), test.workers)?;
    let manifests = match cluster.objects(&arranged, &keys, asked.address.as_deref().unwrap_or_default()) {
        Ok(manifests) => manifests,
        Err(wrong) => return Ok(opened.refuse(&wrong)),
    };
    let outputs = Outputs::create(asked)?;
    // Whoever reads the target's Lease sees its holder's number, and nothing of the token.
    let drawn = (Token::new(random()?), random()? as u64);
    let mut tell = |starting: Starting<'_>| match starting {
        _ if asked.quiet => {}
        Starting::Waits(holder) => eprintln!("waiting    another test has this target: {holder}"),
        Starting::Resumes => eprintln!("resuming   an earlier controller began this test"),
        Starting::Begun => {}
    };
    let Some(started) = cluster.start((client, &arranged), manifests, drawn, interrupted, &mut tell)? else {
        eprintln!("nearside: interrupted before it began");
        return Ok(ExitCode::from(ExitReason::Interrupted.code()));
    };
    let Started { token, listener, pods } = started;
    let running = Running::start((test, &arranged), (token, listener), Workers::Pods(pods), None)?;
    complete(running, (test, &arranged), interrupted, asked, outputs)
}

/// Runs a test to its end, and prints what came of it.
fn complete(
    mut running: Running<'_>,
    (test, arranged): (&LoadTest, &Arranged),
    interrupted: &AtomicBool,
    asked: &RunArgs,
    outputs: Outputs,
) -> Result<ExitCode, Failure> {
    let Outputs { intervals, page } = outputs;
    let next_line = Clock.now() + LINE_EVERY;
    let mut lines = LinesOf { intervals, latest: None, next_line, quiet: asked.quiet };
    running.run(interrupted, &mut lines);
    let (outcome, words) = running.finish();
    let failures = u32::from(lines.intervals.has_failed());
    Shown { test, plan: &arranged.plan, outcome, words: &words, failures }.print(asked.json, page.as_deref())
}

/// Lines while a test runs: of intervals to a file, and each second one for people.
struct LinesOf {
    intervals: Output,
    /// The last interval of all workers.
    latest: Option<Interval>,
    next_line: Time,
    quiet: bool,
}

impl Onlooker for LinesOf {
    fn on_interval(&mut self, interval: Interval) {
        self.intervals.write(&interval_json(&interval));
        self.latest = Some(interval);
    }

    fn look(&mut self, control: &Control<WorkerFigures>, now: Time) {
        if now >= self.next_line {
            self.next_line = now + LINE_EVERY;
            if !self.quiet {
                eprintln!("{}", progress_line(control, self.latest.as_ref(), now));
            }
        }
    }
}

/// Files for results.
struct Outputs {
    intervals: Output,
    page: Option<PathBuf>,
}

impl Outputs {
    fn create(asked: &RunArgs) -> Result<Self, Failure> {
        if let Some(page) = &asked.html {
            let others: Vec<&Path> = [&asked.spec].into_iter().chain(&asked.ndjson).map(PathBuf::as_path).collect();
            results::refuse_onto(page, &others)?;
            results::expect_writable(page)?;
        }
        Ok(Self { intervals: Output::create(asked.ndjson.as_deref())?, page: asked.html.clone() })
    }
}

/// The address of the server: the first that its name has.
fn resolve(test: &LoadTest) -> Result<SocketAddr, Failure> {
    let (host, port) = (test.target.host.as_str(), test.target.port);
    let found = (host, port).to_socket_addrs().map_err(|why| format!("spec.target: {host}: {why}"))?;
    Ok(found.into_iter().next().ok_or_else(|| format!("spec.target: {host} has no address"))?)
}
