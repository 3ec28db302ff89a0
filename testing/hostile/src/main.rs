//! Bad input at the highest rate for a while, beside a client that must be
//! served.

use clap::Parser;
use core::time::Duration;
use cpu::Clock;
use cpu::pin::{allowed_cores, pin};
use hostile::line::{Line, Passed};
use hostile::noise::NAMES;
use hostile::server::{DRAIN_LIMIT, Failure, MAX_CONNECTIONS, MAX_GROWTH, MAX_HALF_OPEN, MAX_RECEIVED, Sample, Server};
use hostile::soak::Soak;
use memif::{Address, Config, MemifLink, Role};
use std::path::PathBuf;
use std::process::ExitCode;
use wire::Time;

/// Sends random and mutated frames to a server as fast as it takes them, and
/// checks that a well-behaved client is served all the while, that nothing
/// grows past its limit, and that the server ends in good order.
///
/// The server is `nearside serve` behind a memif, in a process of its own, on
/// the first core; everybody else is on the second.
#[derive(Parser)]
struct Arguments {
    /// How long, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Where the noise comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server [default: nearside beside this program]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
    /// All on one thread, over an in-memory link, in virtual time: slower, but
    /// a seed is the same run every time.
    #[arg(long, conflicts_with = "nearside")]
    simulated: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = if arguments.simulated { simulated(&arguments) } else { real(&arguments) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hostile: seed {}: {why}", arguments.seed);
            ExitCode::FAILURE
        }
    }
}

/// Turns between two looks at the clock.
const TURNS: u64 = 1_000;

fn simulated(arguments: &Arguments) -> Result<(), Failure> {
    let mut soak = Soak::new(arguments.seed, u64::MAX);
    let started = Clock.now();
    let end = started + Duration::from_secs(arguments.seconds);
    while Clock.now() < end {
        soak.turns(TURNS);
        let violations = soak.violations();
        if !violations.is_empty() {
            return Err(violations.join("\n").into());
        }
    }
    let took = Clock.now().since(started).as_secs_f64();
    let traffic = soak.arena.traffic;
    println!("seed {}: {:.0} bad frames a second for {took:.1} s:", arguments.seed, traffic.injected as f64 / took);
    print!("{}", soak.report());
    let served = soak.served();
    let open = soak.arena.client.as_ref().map_or(0, |client| client.app.load.held());
    println!("client: {served} responses right to the last byte, {open} connections open");
    soak.end();
    println!("afterwards: nothing is left");
    if served == 0 { Err("the client was not served".into()) } else { Ok(()) }
}

/// How long the server may take to be there.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often the server is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Growth counts from here on: tables and queues have been touched by then.
const SETTLED: Duration = Duration::from_secs(5);
/// How long the client may take to close its connections.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);
/// How long the server may take to end.
const STOP_LIMIT: Duration = DRAIN_LIMIT.saturating_add(Duration::from_secs(10));

fn real(arguments: &Arguments) -> Result<(), Failure> {
    let program = match &arguments.nearside {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("nearside"),
    };
    if !program.is_file() {
        let name = program.display();
        return Err(format!("there is no {name}: cargo build --release -p cli, or name it with --nearside").into());
    }
    let cores = allowed_cores()?;
    let (first, second) = (cores.first().copied(), cores.get(1).copied());
    let server_core = first.filter(|_| second.is_some());
    let server = Server::start(&program, server_core)?;
    if let Some(core) = second {
        pin(core)?;
    }
    let link = MemifLink::open(Config::new(Address::Path(server.socket()), Role::Client))?;
    let line = Line::new(link, arguments.seed, Duration::from_secs(arguments.seconds), Clock.now());
    let mut attack = Attack { line, server, first: None, settled: None, last: None };
    let outcome = attack.run(arguments);
    outcome.map_err(|why| match attack.server.said() {
        said if said.is_empty() => why,
        said => format!("{why}\nthe server said:\n{said}").into(),
    })
}

/// What was seen of the server, and when.
type Seen = (Time, Sample);

struct Attack {
    line: Line,
    server: Server,
    /// At the start, once memory had settled, and at last.
    first: Option<Seen>,
    settled: Option<Seen>,
    last: Option<Seen>,
}

impl Attack {
    fn run(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        let span = Duration::from_secs(arguments.seconds);
        if !self.go_on(START_LIMIT, |line| line.up)? {
            return Err("the server does not answer on its memif".into());
        }
        // Some time passes before all of the client's connections are open.
        let over = self.go_on(span + START_LIMIT, |line| line.done())?;
        self.look()?;
        self.report(arguments);
        if !over {
            return Err("the client cannot open its connections".into());
        }
        self.check_client()?;
        self.line.noisy = false;
        if !self.go_on(LEAVE_LIMIT, Line::drain)? {
            return Err("the client cannot close its connections".into());
        }
        self.end()
    }

    /// Turns until `enough`, at most for `limit`; whether it was. The server
    /// is looked at once a second.
    fn go_on(&mut self, limit: Duration, mut enough: impl FnMut(&mut Line) -> bool) -> Result<bool, Failure> {
        let end = Clock.now() + limit;
        loop {
            let next = Clock.now() + LOOK_EVERY;
            let mut now = Clock.now();
            while now < next {
                self.line.turn(now);
                now = Clock.now();
                if enough(&mut self.line) {
                    return Ok(true);
                }
            }
            if let Some(status) = self.server.ended()? {
                return Err(format!("the server ended: {status}").into());
            }
            if self.line.up {
                self.look()?;
            }
            if now >= end {
                return Ok(false);
            }
        }
    }

    /// What the server holds is within its limits, and the client is right.
    fn look(&mut self) -> Result<(), Failure> {
        let (now, sample) = (Clock.now(), self.server.sample()?);
        let first = self.first.get_or_insert_with(|| (now, sample.clone())).0;
        if self.settled.is_none() && now.since(first) >= SETTLED {
            self.settled = Some((now, sample.clone()));
        }
        let before = self.settled.as_ref().map_or(sample.memory, |(_, settled)| settled.memory);
        let limits = [
            ("connections", sample.value("stack.connections"), MAX_CONNECTIONS),
            ("half-open handshakes", sample.value("stack.half_open"), MAX_HALF_OPEN),
            ("bytes of received data", sample.value("stack.receive_memory_bytes"), MAX_RECEIVED),
            ("bytes of memory more than before", sample.memory.saturating_sub(before), MAX_GROWTH),
        ];
        self.last = Some((now, sample));
        if let Some((what, count, limit)) = limits.into_iter().find(|(_, count, limit)| count > limit) {
            return Err(format!("the server holds {count} {what}: the limit is {limit}").into());
        }
        match self.line.answers() {
            (_, []) => Ok(()),
            (_, wrong) => Err(wrong.join("\n").into()),
        }
    }

    fn report(&self, arguments: &Arguments) {
        let (Some((start, first)), Some((end, last))) = (&self.first, &self.last) else { return };
        let took = end.since(*start).as_secs_f64();
        let rate = |count: u64| count as f64 / took;
        let gained = |name: &str| last.value(name) - first.value(name);
        let Passed { noise, mutants, peers, client, from_server, turns, full } = self.line.passed;
        println!("seed {}, {took:.1} s over memif, in frames a second:", arguments.seed);
        println!("  {:>12.0} noise; the ring was full of it in {:.0} % of looks", rate(noise), percent(full, turns));
        println!("  {:>12.0} of peers, {:.0} of them mutants", rate(peers), rate(mutants));
        println!("  {:>12.0} of the well-behaved client", rate(client));
        println!("  {:>12.0} taken by the server, {:.0} sent by it", rate(gained("link.rx_frames")), rate(from_server));
        println!("noise by kind, in frames made (each is sent many times, changed):");
        for (name, made) in NAMES.iter().zip(self.line.made()) {
            println!("  {made:>12} {name}");
        }
        println!("the server:");
        let cpu = (last.ran - first.ran).as_secs_f64() / took * 100.0;
        println!(
            "  {cpu:>12.0} % of a core; {:.0} frames in a second of it",
            rate(gained("link.rx_frames")) / cpu * 100.0
        );
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let settled = self.settled.as_ref().map_or(first, |(_, settled)| settled);
        println!(
            "  {:>12.1} MB of memory; {:.1} at the start, {:.1} once settled",
            megabytes(last.memory),
            megabytes(first.memory),
            megabytes(settled.memory)
        );
        for (name, value) in &last.values {
            let told = ["stack.", "tcp.", "neighbour.", "fragments.", "app."].iter().any(|part| name.starts_with(part));
            if told && *value > 0 {
                println!("  {value:>12} {name}");
            }
        }
    }

    /// Every request of the client's was answered, and answered right.
    fn check_client(&self) -> Result<(), Failure> {
        let (right, _) = self.line.answers();
        let (counts, median, longest) = self.line.client().ok_or("the client has no figures")?;
        let errors = counts.errors.failed_requests() + counts.errors.failed_connects();
        let (start, end) = (self.first.as_ref(), self.last.as_ref());
        let took = start.zip(end).map_or(f64::NAN, |(start, end)| end.0.since(start.0).as_secs_f64());
        println!("the well-behaved client:");
        println!("  {right:>12} responses right to the last byte, {:.0} a second", right as f64 / took);
        println!("  {errors:>12} failed; latency {median:?} in the middle, {longest:?} at most");
        if right == 0 || errors > 0 {
            return Err(format!("the client was not served: {:?}", counts.errors).into());
        }
        Ok(())
    }

    /// The server finishes when it is asked to, and without complaint.
    fn end(&mut self) -> Result<(), Failure> {
        self.server.stop()?;
        let asked = Clock.now();
        loop {
            let now = Clock.now();
            self.line.turn(now);
            self.line.drain();
            match self.server.ended()? {
                Some(status) if status.success() => {
                    println!(
                        "the server ended in good order {:.1} s after it was asked to",
                        now.since(asked).as_secs_f64()
                    );
                    return Ok(());
                }
                Some(status) => return Err(format!("asked to end, the server ended: {status}").into()),
                None if now.since(asked) >= STOP_LIMIT => return Err("asked to end, the server goes on".into()),
                None => {}
            }
        }
    }
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}
