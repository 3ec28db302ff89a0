//! Calls of gRPC passed on (`grpc_pass`), kernel sockets on both sides: unary calls beside nginx; many at a
//! time to an upstream that bounds the streams of a connection; and many clients on one connection to the
//! upstream of which one stalls. All of a proxy is on one core; who asks it and the upstream, which is a
//! [`frame_server`](crate::frame_server), share the other. What a call costs is the proxy's processor time:
//! of its process, and of softirq on its core.

use crate::BenchError;
use crate::client::by_turns;
use crate::frame_server::{Seen, stall};
use crate::generator_http2::start_server;
use crate::kernel::{spread, word};
use crate::program::Scratch;
use crate::proxied::{PORT, Watched};
use crate::site::{PROCESS, nginx, workers};
use crate::slow::in_namespace;
use cpu::Clock;
use demo::child::Interrupt;
use demo::field::{Ask, Field, Generator, Link};
use demo::machine::with_children;
use demo::measure::thousands;
use demo::netns::{Namespaces, SERVER};
use demo::stand::{Server, Stand, two_cores};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Measure these
    #[arg(long, value_enum, value_name = "ROW,…", value_delimiter = ',', default_value = "unary,bounded,stalled")]
    pub rows: Vec<GrpcRow>,
    /// How long a client stalls, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub stall: u64,
    /// How long the upstream holds each call of `bounded`, milliseconds: so many are under way that it takes
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub hold: u64,
    /// The nginx beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum GrpcRow {
    /// Unary calls that are answered at once, beside nginx
    Unary,
    /// 1,000 calls at a time, to an upstream that allows 512 streams on a connection
    Bounded,
    /// 99 clients at their rate, with and without another that takes nothing
    Stalled,
}

/// What a unary call may cost, as a share of nginx's: twice its calls for the same processor time.
const UNARY: f64 = 0.5;

/// What one of many at a time may cost, likewise, and over how many connections they are to go.
const BOUNDED: f64 = 0.5;
const BOUNDED_CONNECTIONS: u64 = 2;

/// Streams that the upstream allows.
const UPSTREAM_STREAMS: u32 = 512;

/// Time for a server to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// What others keep of their rate beside a client that stalls.
const STALLED: f64 = 0.95;

/// Calls of the client that stalls, and bytes of an answer to each.
const STALLED_CALLS: u32 = 100;
const STALLED_BYTES: u32 = 1 << 20;

/// Who passes calls on, and how it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Arm {
    name: &'static str,
    nginx: bool,
    /// Connections, and calls under way on each.
    shape: (u32, u16),
    /// The upstream holds each call.
    held: bool,
    /// A client beside these takes nothing.
    stalled: bool,
}

impl GrpcRow {
    const fn title(self) -> &'static str {
        match self {
            Self::Unary => "unary calls, 10 connections of 100",
            Self::Bounded => "1,000 calls at a time to an upstream that allows 512 streams",
            Self::Stalled => "99 clients, and one that takes nothing",
        }
    }

    /// Whoever others are held against comes first.
    const fn arms(self) -> [Arm; 2] {
        let arm = Arm { name: "nginx", nginx: true, shape: (10, 100), held: false, stalled: false };
        match self {
            Self::Unary => [arm, Arm { name: "nearside", nginx: false, ..arm }],
            Self::Bounded => [Arm { held: true, ..arm }, Arm { name: "nearside", nginx: false, held: true, ..arm }],
            Self::Stalled => {
                let arm = Arm { name: "without", nginx: false, shape: (99, 4), ..arm };
                [arm, Arm { name: "beside it", stalled: true, ..arm }]
            }
        }
    }
}

/// What one measurement gave.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    rate: f64,
    p99: f64,
    /// Microseconds of the proxy's core for a call.
    cost: f64,
    /// Connections to the upstream.
    connections: u64,
    errors: u64,
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(nearside), two_cores()?)?;
    let names = Namespaces::make()?;
    names.keep_to_cores(stand.cores)?;
    let folder = Scratch::in_memory()?;
    let bench = Bench { plan, stand: &stand, names: &names, folder: folder.path(), interrupt: &interrupt };
    let mut kept = true;
    for row in &plan.rows {
        let arms = row.arms();
        let duration = Duration::from_secs(if *row == GrpcRow::Stalled { plan.stall } else { plan.seconds });
        let samples = by_turns(plan.rounds, arms.len(), |at| {
            let sample = bench.measure(arms[at], duration)?;
            eprintln!("  {:10} {:>9} calls/s, {:.2} us each", arms[at].name, thousands(sample.rate), sample.cost);
            Ok(Some(sample))
        })?;
        println!("{}, {} rounds by turns", row.title(), plan.rounds);
        for (arm, samples) in arms.iter().zip(&samples) {
            tell(arm, samples);
        }
        kept &= judge(*row, &samples[0], &samples[1]);
    }
    Ok(kept)
}

fn tell(arm: &Arm, samples: &[Sample]) {
    let middle = |value: fn(&Sample) -> f64| spread(samples.iter().map(value).collect());
    let (low, cost, high) = middle(|sample| sample.cost);
    let rate = thousands(middle(|sample| sample.rate).1);
    let p99 = middle(|sample| sample.p99).1;
    let connections = samples.iter().map(|sample| sample.connections).max().unwrap_or(0);
    let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
    let errors = if errors > 0 { format!("  {errors} ERRORS") } else { String::new() };
    let name = arm.name;
    println!(
        "  {name:10} {rate:>9} calls/s, p99 {p99:>7.0} us, {cost:>6.2} us of the proxy each ({low:.2} to {high:.2}), \
         {connections} connections to the upstream at most{errors}"
    );
}

/// Prints how the second compares with the first, and whether the bound is kept.
fn judge(row: GrpcRow, first: &[Sample], second: &[Sample]) -> bool {
    let compare = |value: fn(&Sample) -> f64| {
        spread(second.iter().zip(first).map(|(second, first)| value(second) / value(first)).collect())
    };
    let whole = first.iter().chain(second).all(|sample| sample.errors == 0);
    let cost = compare(|sample| sample.cost);
    let told = |(low, middle, high): (f64, f64, f64)| format!("{middle:.3} ({low:.3} to {high:.3})");
    let (text, holds) = match row {
        GrpcRow::Unary => (format!("{} of nginx's cost, at most {UNARY}", told(cost)), cost.1 <= UNARY),
        GrpcRow::Bounded => {
            let few = second.iter().all(|sample| sample.connections <= BOUNDED_CONNECTIONS);
            let text = format!(
                "{} of nginx's cost, at most {BOUNDED}, over at most {BOUNDED_CONNECTIONS} connections",
                told(cost)
            );
            (text, few && cost.1 <= BOUNDED)
        }
        GrpcRow::Stalled => {
            let rate = compare(|sample| sample.rate);
            (format!("{} of the rate without it, at least {STALLED}", told(rate)), rate.1 >= STALLED)
        }
    };
    println!("  {text}: {}", word(holds && whole));
    holds && whole
}

struct Bench<'a> {
    plan: &'a Plan,
    stand: &'a Stand,
    names: &'a Namespaces,
    folder: &'a Path,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn measure(&self, arm: Arm, duration: Duration) -> Result<Sample, BenchError> {
        let Self { plan, stand, names, folder, interrupt } = *self;
        // Who shares a core with the upstream leaves it where there is nothing to do.
        let cores = [stand.cores.0, stand.cores.1];
        let field = Field { stand, veth: Some(names), tap: None, servers: &cores, mtu: None, interrupt };
        let configuration = folder.join("nginx.conf");
        let text = PROCESS.to_owned() + &PASSING.replace("UPSTREAM", &format!("127.0.0.1:{PORT}"));
        fs::write(&configuration, text.replace("FOLDER", &folder.display().to_string()))?;
        let hold = if arm.held { plan.hold } else { 0 };
        let more = [
            "--grpc".to_owned(),
            format!("--listen=127.0.0.1:{PORT}"),
            format!("--streams={UPSTREAM_STREAMS}"),
            format!("--hold={hold}"),
        ];
        let (_upstream, _, tells) = start_server(Some(&names.server), stand.cores.1, &more, folder, interrupt)?;
        let mut running = None;
        let mut server = if arm.nginx {
            let nginx = running.insert(nginx(&plan.nginx, &configuration, stand, names)?);
            Server::other(&workers(nginx, interrupt)?)
        } else {
            field.serve_configuration(Link::Kernel, &configuration)?
        };
        let processes = match &mut running {
            Some(nginx) => workers(nginx, interrupt)?,
            None => with_children(server.pid()),
        };
        let _stalled = if arm.stalled {
            let to = SocketAddr::new(SERVER.parse()?, 80);
            let end = Clock.now() + PATIENCE;
            let client = loop {
                // A server tells that it serves before its last worker does.
                match in_namespace(&names.client, || stall(to, SERVER, STALLED_CALLS, STALLED_BYTES)) {
                    Err(_) if Clock.now() < end => interrupt.sleep(Duration::from_millis(50))?,
                    stalled => break stalled?,
                }
            };
            // Its calls are at the upstream before others are measured.
            interrupt.sleep(Duration::from_millis(500))?;
            Some(client)
        } else {
            None
        };
        let watched = Watched { processes, core: stand.cores.0, page: None };
        let sample = thread::scope(|scope| -> Result<Sample, BenchError> {
            let busy = scope.spawn(move || watched.busy(duration).map_err(|why| why.to_string()));
            let (connections, streams) = arm.shape;
            let more = ["--grpc".to_owned(), format!("--max-concurrent-streams={streams}")];
            let ask = Ask { path: "/bench.Frames/Short", connections, more: &more, duration, secured: false };
            let asked = field.ask(&mut server, (Link::Kernel, Some(80)), Generator::Sockets, ask)?;
            let busy = busy.join().map_err(|_| "a thread panicked")??;
            let (p99, cost) = (asked.at(99.0), busy * 1e6 / asked.rate);
            Ok(Sample { rate: asked.rate, p99, cost, connections: 0, errors: asked.errors })
        })?;
        // It tells now and then.
        interrupt.sleep(Duration::from_millis(200))?;
        let seen = Seen::read(&tells)?;
        if arm.stalled && seen.held_up == 0 {
            return Err("nothing of the client that takes nothing waits at the upstream".into());
        }
        Ok(Sample { connections: seen.connections, ..sample })
    }
}

/// A proxy of calls. What a connection carries, and how many are kept, is as it is recommended for many
/// calls: nginx has a call on each.
const PASSING: &str = r"
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    send_timeout 900s;
    grpc_read_timeout 900s;
    grpc_send_timeout 900s;
    upstream back { server UPSTREAM; keepalive 1000; keepalive_requests 1000000000; }
    server {
        listen 80 http2;
        location / { grpc_pass grpc://back; }
    }
}
";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: f64, cost: f64, connections: u64, errors: u64) -> [Sample; 1] {
        [Sample { rate, p99: 1.0, cost, connections, errors }]
    }

    #[test]
    fn each_row_has_its_bound() {
        let nginx = sample(1e4, 40.0, 1_000, 0);
        assert!(judge(GrpcRow::Unary, &nginx, &sample(1e4, 20.0, 1, 0)));
        assert!(!judge(GrpcRow::Unary, &nginx, &sample(1e4, 20.1, 1, 0)));
        assert!(judge(GrpcRow::Bounded, &nginx, &sample(1e4, 19.0, 2, 0)));
        assert!(!judge(GrpcRow::Bounded, &nginx, &sample(1e4, 19.0, 3, 0)));
        assert!(judge(GrpcRow::Stalled, &nginx, &sample(0.96e4, 90.0, 1, 0)));
        assert!(!judge(GrpcRow::Stalled, &nginx, &sample(0.94e4, 40.0, 1, 0)));
        for row in [GrpcRow::Unary, GrpcRow::Bounded, GrpcRow::Stalled] {
            assert!(!judge(row, &nginx, &sample(1e4, 1.0, 1, 1)), "{row:?}");
        }
    }
}
