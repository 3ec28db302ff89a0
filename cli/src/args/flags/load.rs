//! `nearside load`, as typed.

mod http2;
mod output;
mod plan;
mod script;
mod secured;
mod worker;

pub(in crate::args) use output::OutputArgs;

use super::host::HostArgs;
use crate::args::rates;
use crate::args::target::Target;
use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum, ValueHint};
use host::Cores;
use host::values::{self, AddressRange, BadValue, BitRate, Count, Header};
use http2::Http2Args;
use load::{Heads, Objective, Schedule};
use script::{AnswerArgs, ScriptArgs};
use secured::SecuredArgs;
use sockets::Engine;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use worker::WorkerArgs;

/// What the exit code of `load` says, for its help.
const EXIT_CODES: &str = "Exit code:
  0  measured, and what --expect and --find-max ask for is met
  1  it could not run, or could not write what it measured
  2  the command line makes no sense
  3  an objective of --expect is missed, or --find-max found no rate
  4  nothing to go by: no response came in the measured window, or no connection to the server was left at its end
  5  --find-max is INVALID: other programs, or the hypervisor, spoilt too many runs for an answer; or --bulk or --stream
     is, of which nothing counts
  6  with --strict: the figures cannot be trusted
  130  it was interrupted; what was measured until then is printed

Every figure that something speaks against has a warning below it.";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::args) struct LoadArgs {
    /// What to ask for, as in http://localhost:8080/index.html or unix:/run/site.sock:/index.html
    ///
    /// Over a link, the host is an IP address. Numbers in
    /// brackets stand for as many paths, drawn at random: /f/[00-99].html is a
    /// hundred. (A bracket itself is written %5B.)
    #[arg(value_name = "URL")]
    target: Target,

    /// Hold this many connections
    #[arg(short, long, value_name = "N", default_value = "64", default_value_if("bulk", ArgPredicate::IsPresent, "1"))]
    connections: Count,

    /// Measure for this long, after the warm-up [default: 10s; with --find-max and --sweep 3s for each run]
    #[arg(short, long, value_name = "TIME", value_parser = values::nonzero_duration)]
    duration: Option<Duration>,

    /// End after this many measured requests, if that comes first
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<Count>,

    /// Run for this long, or this many requests, before measuring: 1s, or 1000r [default: 1s; with --requests nothing]
    #[arg(long, value_name = "TIME|REQUESTSr")]
    warmup: Option<WarmUp>,

    #[command(flatten)]
    pace: PaceArgs,

    #[command(flatten)]
    request: RequestArgs,

    #[command(flatten)]
    answers: AnswerArgs,

    #[command(flatten)]
    script: ScriptArgs,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    http2: Http2Args,

    #[command(flatten)]
    secured: SecuredArgs,

    #[command(flatten)]
    goal: GoalArgs,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    worker: WorkerArgs,

    #[command(flatten)]
    kernel: KernelArgs,

    #[command(flatten)]
    host: HostArgs,
}

/// When requests are sent.
#[derive(Args)]
#[command(next_help_heading = "Pace")]
struct PaceArgs {
    /// Send so many requests per second, whatever the server does (open loop)
    /// [default: each connection sends when its last response is there]
    ///
    /// 10k, poisson:10k, ramp:1k..50k/30s (from 1k to 50k in 30 s),
    /// steps:1k/10s,5k/10s,10k. Latency then counts from the time that a
    /// request was due, so that one that had to wait for a free connection
    /// shows its wait; without that wait it is printed as uncorrected. While
    /// it runs, + and - change the rate in the live view.
    #[arg(long, value_name = "RATE", value_parser = rates::schedule)]
    rate: Option<Schedule>,

    /// Send requests on this many connections, the others stay idle [default: all]
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    active: Option<Count>,

    /// With --active: choose the connections anew for each request, so that all have their turn
    #[arg(long, requires = "active")]
    mix: bool,

    /// Have this many requests under way on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u16,
}

/// What is asked for.
#[derive(Args)]
#[command(next_help_heading = "Requests")]
struct RequestArgs {
    /// The request's method
    #[arg(short, long, value_name = "METHOD", default_value = "GET")]
    method: String,

    /// Send this text with every request, or the content of a file if it is
    /// @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// Send this header with every request; repeat for more. Host takes the place of the URL's
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Send fields beside those of --header as programs do, with values of its own on each connection, or none
    #[arg(long, value_enum, value_name = "KIND", default_value_t = HeadsArg::Equal, conflicts_with = "body")]
    heads: HeadsArg,

    /// Ask for the URLs in this file, drawn at random: a line each, as
    /// PATH, WEIGHT PATH, or WEIGHT METHOD PATH
    ///
    /// Below a line may stand what Vegeta's targets have: fields (NAME: VALUE) and
    /// the content (@FILE); a blank line ends it. Or a line is a JSON object, as
    /// Vegeta's are: method, url, header, body (Base64), and of our own text,
    /// weight and want (status, length, header, body, regex, sha256).
    ///
    /// A server's access log is read, too (common, combined, nginx's forms with "$request", JSON):
    /// GET, HEAD and OPTIONS, as often as they are there. And a browser's archive (HAR): what was
    /// sent to this server, or to the host that --header names, with its headers and content. What
    /// is left out is said.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    urls: Option<PathBuf>,

    /// Count a request that takes longer than this as failed; with --stream one on which nothing came for so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::nonzero_duration)]
    timeout: Duration,
}

/// How connections come and go.
#[derive(Args)]
#[command(next_help_heading = "Connections")]
struct ConnectionArgs {
    /// Open a new connection for every request (as --reuse 1) [default with --as ab]
    #[arg(long, conflicts_with = "reuse")]
    close: bool,

    /// Keep connections for further requests [default, but for --as ab, which opens one for each as ab does]
    #[arg(short = 'k', long, conflicts_with_all = ["close", "reuse"])]
    keep_alive: bool,

    /// Open a new connection after this many requests [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reuse: Option<u32>,

    /// Who closes a connection that is to end; that side keeps its TIME_WAIT
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = Closer::Server)]
    closer: Closer,

    /// Spread the opening of the connections over this time
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration)]
    ramp: Duration,

    /// Give the connections this long to open, beyond --ramp; then go on with
    /// those that are open, and say so
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    ramp_limit: Duration,

    /// Count a connect that takes longer than this as failed, and try again
    /// [default: as --timeout]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    connect_timeout: Option<Duration>,

    /// Connect from these addresses: one, first-last, or a subnet; repeat for
    /// more [default: over a link --addr of the target's family, else the kernel's choice]
    #[arg(long = "source", value_name = "ADDRESSES")]
    sources: Vec<AddressRange>,
}

/// What is to be found out, and what is to be met.
#[derive(Args)]
#[command(next_help_heading = "Objectives")]
struct GoalArgs {
    /// Fail with exit code 3 unless this is met, as in p99<1ms, errors<0.1% or rate>10k; repeat for more
    ///
    /// Figures: p50, p99.9 and any other percentile, mean, min, max, stdev,
    /// lag99 (schedule lag), connect99, errors, timeouts, notok, wrong, rate,
    /// achieved. With --stream: connect99, ttfb99 (time to the first byte), late99 (behind what was due), errors,
    /// wrong; with --buffer start99 (time to playing), underruns, underrun99, stalled; without within1, within2
    /// (segments in a second), drift99 (over 10 s). Relations: < <= > >=, and = for counts.
    #[arg(long = "expect", value_name = "OBJECTIVE", value_parser = objectives)]
    expect: Vec<Objectives>,

    /// Find the highest rate that meets this, as in p99<1ms or 'p99<1ms,errors<0.1%',
    /// and print latency over load
    ///
    /// Runs are judged by the slices of 10ms in which neither the generator nor
    /// a server on this machine waited for a core that another program had, and
    /// the hypervisor had none. Behind a disturbance no request falls due until
    /// all are answered. A run takes up to five times --duration until so much
    /// of it counts, and lasts as long as a percentile needs samples, 60s at
    /// most: ten beyond it. With too little undisturbed time the search is
    /// INVALID (exit code 5). Waits are told apart where generator and server
    /// have cores of their own (--cores); a server elsewhere is not watched.
    #[arg(long, value_name = "OBJECTIVE", value_parser = objectives,
          conflicts_with_all = ["rate", "requests", "sweep", "active"])]
    find_max: Option<Objectives>,

    /// Begin --find-max with this rate
    #[arg(long, value_name = "RATE", default_value = "1k", requires = "find_max")]
    find_start: Count,

    /// End --find-max when the rate is known as well as this
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = percent, requires = "find_max")]
    find_precision: f64,

    /// Measure what the way to the server carries, as iperf3 does: -c streams without end, [default: 1]
    /// up (to the server), down, or both
    ///
    /// Any server of HTTP/1.1 is the other side: what is received are answers to the URL, one behind
    /// the other, of which a large one is wanted (nearside serve --respond 1000M); what is sent is
    /// content of requests (POST), which it is to take and answer (nearside serve --respond 1). Bytes
    /// sent count when the peer acknowledged them. Each interval has a line with what was sent
    /// again, the congestion window and the round-trip time, by the kernel (TCP_INFO) or our own stack.
    #[arg(long, value_enum, value_name = "WAY", num_args = 0..=1, default_missing_value = "up",
          conflicts_with_all = ["rate", "requests", "sweep", "find_max", "active", "pipeline", "find_start",
                                "find_precision", "procs", "csv", "mix", "buffer", "play_at", "stream_start"])]
    bulk: Option<BulkArg>,

    /// Have each connection be a stream of this many bits a second, as in 5Mbit, and count who has it
    ///
    /// Each asks for the URL, or for those of --urls or in brackets in turn, over and over, each as often as its
    /// weight says. Over HTTP/2 each connection has --max-concurrent-streams of them. What comes is held against
    /// the rate, in each second and over ten of them: for servers that pace (limit_rate, --max-pacing-rate), with
    /// long answers. With --buffer it is played. Seconds in which the hypervisor had a core, or the generator was
    /// late, are left out and counted.
    #[arg(long, value_name = "RATE",
          conflicts_with_all = ["rate", "requests", "sweep", "find_max", "active", "pipeline", "bulk", "close",
                                "reuse", "closer", "find_start", "find_precision", "procs", "csv", "server_pid",
                                "server_page", "mix"])]
    stream: Option<BitRate>,

    /// With --stream: which request each stream begins with, where there are several
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = StreamStart::Together, requires = "stream")]
    stream_start: StreamStart,

    /// With --stream: play it, from a buffer that holds this time
    ///
    /// A player takes as fast as the server sends until its buffer is full, then at the rate; over HTTP/2 it opens its
    /// stream's window for as much as it has room for. It plays when the buffer is full for the first time, and
    /// again after an under-run.
    #[arg(long, value_name = "TIME", requires = "stream", value_parser = values::nonzero_duration)]
    buffer: Option<Duration>,

    /// With --buffer: play once so much of it is full
    #[arg(long, value_name = "PERCENT", default_value = "100%", requires = "buffer", value_parser = part)]
    play_at: f64,

    /// Measure with each number of connections, as in conns=1,2,4..128, and print one table
    #[arg(long, value_name = "conns=LIST", value_parser = sweep, conflicts_with_all = ["requests", "active"])]
    sweep: Option<List>,

    /// With --sweep: measure with each of these numbers of threads
    #[arg(long, value_name = "LIST", value_parser = list, requires = "sweep", conflicts_with_all = ["threads", "link"])]
    procs: Option<List>,

    /// Write the table of --sweep to this file, comma-separated
    #[arg(long, value_name = "FILE", requires = "sweep", value_hint = ValueHint::FilePath)]
    csv: Option<PathBuf>,

    /// With --sweep: read the server's CPU time from this process and those below it;
    /// with --find-max: watch their waits [default: of who listens]
    #[arg(long, value_name = "PID", conflicts_with = "server_page")]
    server_pid: Option<u32>,

    /// With --sweep: read the server's CPU time from its statistics page
    /// [default: that of the only nearside serve that runs here, if there is one];
    /// with --find-max: watch the waits of its process
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    server_page: Option<PathBuf>,
}

/// Threads and their sockets.
#[derive(Args)]
#[command(next_help_heading = "Kernel sockets (without --link)")]
struct KernelArgs {
    /// Generate load on this many threads [default: one for each core, at most one for each connection]
    #[arg(long, value_name = "N", conflicts_with = "link", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// Pin threads to these cores, by turns, as in 0-3,8; or none, not to pin
    /// [default: all that this process may use]
    #[arg(long, value_name = "LIST|none", conflicts_with = "link")]
    cores: Option<Cores>,

    /// How a thread learns what its sockets have for it: auto, epoll or io_uring
    #[arg(long, value_name = "ENGINE", default_value = "auto", conflicts_with = "link")]
    engine: Engine,

    /// Connect to this Unix socket, whatever host the URL names; a name that begins with @ is abstract
    #[arg(long, value_name = "PATH", conflicts_with = "link", value_hint = ValueHint::FilePath)]
    unix: Option<String>,

    /// Leave out the second that measures the generator's own floor against a server that does nothing
    #[arg(long, conflicts_with = "link")]
    no_floor: bool,
}

/// Who closes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Closer {
    /// The server, as the last request asks it to
    Server,
    /// We, after the last response
    Client,
}

/// What streams begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum StreamStart {
    /// All with the first
    Together,
    /// The n-th stream with the n-th request in turn: a store of films is asked for all over
    Spread,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum BulkArg {
    /// To the server
    Up,
    /// From the server
    Down,
    /// Both ways, each by streams of its own
    Both,
}

/// Which fields requests carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum HeadsArg {
    /// No more than --header says: the same bytes on all connections
    Equal,
    /// User-Agent, Cookie and Accept: heads of 40 to 150 bytes
    Short,
    /// Twelve fields, Host included: heads of 600 bytes
    Browser,
}

impl From<HeadsArg> for Heads {
    fn from(arg: HeadsArg) -> Self {
        match arg {
            HeadsArg::Equal => Self::Equal,
            HeadsArg::Short => Self::Short,
            HeadsArg::Browser => Self::Browser,
        }
    }
}

/// How long to warm up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WarmUp {
    /// For this time.
    Time(Duration),
    /// For so many requests.
    Requests(u64),
}

impl FromStr for WarmUp {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let requests = text.strip_suffix('r').and_then(|count| count.parse::<Count>().ok());
        match requests {
            Some(Count(count)) => Ok(Self::Requests(count)),
            None => values::duration(text)
                .map(Self::Time)
                .map_err(|_| BadValue::new("write a time as in 1s, or a number of requests as in 1000r")),
        }
    }
}

/// What one flag asks for; clap would take a bare list for several flags.
#[derive(Clone, Debug)]
struct Objectives(Vec<Objective>);

/// Numbers to try one after the other.
#[derive(Clone, Debug)]
struct List(Vec<u32>);

fn objectives(text: &str) -> Result<Objectives, load::ObjectiveError> {
    Objective::parse_list(text).map(Objectives)
}

fn list(text: &str) -> Result<List, BadValue> {
    rates::list(text).map(List)
}

fn sweep(text: &str) -> Result<List, BadValue> {
    rates::sweep(text).map(List)
}

/// A fraction above 0 and up to all.
fn part(text: &str) -> Result<f64, BadValue> {
    let percent = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.1..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| BadValue::new("write a share from 0.1% to 100%, as in 50%"))
}

/// A fraction, written in percent.
fn percent(text: &str) -> Result<f64, BadValue> {
    let percent = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.01..=50.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| BadValue::new("write a share from 0.01% to 50%, as in 2%"))
}
