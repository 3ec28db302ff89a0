//! What a request costs at the loads that servers have: 5, 15, 30 and 60 % of what nginx
//! can do at most, open loop with Poisson arrivals, by turns beside nginx and the servers
//! that people compare with, on every data path of ours and under each idle policy.
//!
//! A server at such a load has no bursts to spread a system call over, and its caches have
//! served others meanwhile: figures at saturation say nothing of it. What is counted is the
//! processor time of the server's processes (to the nanosecond, by the scheduler's own
//! account) and the softirq of its core beyond that; who polls pays for polling.

mod contender;
mod meter;
mod report;

use crate::BenchError;
use crate::client::by_turns;
use crate::kernel::spread;
use crate::program::Scratch;
use crate::proxied::upstream;
use crate::site;
use contender::Contender;
use demo::child::{Interrupt, Running};
use demo::field::{Ask, Field, Generator, Link};
use demo::measure::thousands;
use demo::media_site::make_certificate;
use demo::netns::Namespaces;
use demo::stand::{Asked, Server, Stand, WARM_UP, two_cores};
use meter::{Cost, Meter};
use report::{Sample, Table};
use silo::Idle;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Loads, in percent of nginx's best of the same row in the same run
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "5,15,30,60",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub loads: Vec<u32>,
    /// Offer these rates instead, in requests/s
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "loads",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rates: Vec<u32>,
    /// Measure these rows
    #[arg(
        long,
        value_enum,
        value_name = "ROW,…",
        value_delimiter = ',',
        default_value = "file,proxied,proxied-64k,tls,new"
    )]
    pub rows: Vec<OfferedRow>,
    /// Measure these data paths of ours
    #[arg(
        long,
        value_enum,
        value_name = "PATH,…",
        value_delimiter = ',',
        default_value = "sockets,io-uring,af-xdp,memif"
    )]
    pub paths: Vec<DataPath>,
    /// Idle policies on links, as nearside's --idle takes them; `default` is none
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', default_value = "default,spin", value_parser = policy)]
    pub idle: Vec<Option<Idle>>,
    /// Leave out lighttpd, h2o and haproxy
    #[arg(long)]
    pub only_nginx: bool,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub connections: u32,
    /// Requests under way on each connection of HTTP/2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub streams: u16,
    /// Measure as much as is answered, too
    #[arg(long)]
    pub best: bool,
    /// Count system calls too, in one more round, by strace
    #[arg(long)]
    pub calls: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// The nginx beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// An idle policy, or the server's own default.
fn policy(text: &str) -> Result<Option<Idle>, String> {
    if text == "default" {
        Ok(None)
    } else {
        text.parse().map(Some).map_err(|why: <Idle as std::str::FromStr>::Err| why.to_string())
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum OfferedRow {
    /// A file of 2,649 bytes
    File,
    /// A small answer of an upstream on loopback, over connections that are kept
    Proxied,
    /// One of 64 KB
    #[value(name = "proxied-64k")]
    Proxied64k,
    /// The file over TLS 1.3, on connections that are kept
    Tls,
    /// The file, with a new connection for each request
    New,
    /// A small file over HTTP/2, with prior knowledge
    Http2,
    /// The same over TLS 1.3
    Http2Tls,
}

impl OfferedRow {
    const fn title(self) -> &'static str {
        match self {
            Self::File => "a file of 2,649 bytes",
            Self::Proxied => "a small answer passed on",
            Self::Proxied64k => "an answer of 64 KB passed on",
            Self::Tls => "the file over TLS 1.3",
            Self::New => "the file, a connection for each",
            Self::Http2 => "a small file over HTTP/2",
            Self::Http2Tls => "a small file over HTTP/2 and TLS 1.3",
        }
    }

    /// What the upstream answers, where there is one: bytes, or none for a small text.
    const fn behind(self) -> Option<Option<u64>> {
        match self {
            Self::Proxied => Some(None),
            Self::Proxied64k => Some(Some(64 << 10)),
            Self::File | Self::Tls | Self::New | Self::Http2 | Self::Http2Tls => None,
        }
    }

    const fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Http2Tls)
    }

    const fn is_secured(self) -> bool {
        matches!(self, Self::Tls | Self::Http2Tls)
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Proxied | Self::Proxied64k => "/",
            Self::File | Self::Tls | Self::New => "/f/[00-99].html",
            Self::Http2 | Self::Http2Tls => "/small.html",
        }
    }

    /// The share of nginx's processor time that ours may take, by its data path.
    const fn bound(self, link: Link) -> Option<f64> {
        match (self, link) {
            (Self::File | Self::Proxied | Self::Tls, Link::Kernel) => Some(0.75),
            (Self::Http2 | Self::Http2Tls, Link::Kernel) => Some(HTTP2_BOUND),
            (Self::File | Self::Proxied, Link::AfXdp) => Some(0.6),
            (Self::File, Link::Memif) => Some(0.3),
            (Self::Proxied, Link::Memif) => Some(0.6),
            _ => None,
        }
    }
}

/// The share of nginx's processor time that HTTP/2 may take on kernel sockets.
const HTTP2_BOUND: f64 = 1.0 / 6.0;

/// A data path of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum DataPath {
    /// Kernel sockets by epoll
    Sockets,
    /// Kernel sockets by io_uring
    IoUring,
    /// Our stack over AF_XDP on the veth pair
    AfXdp,
    /// Our stack over shared memory
    Memif,
}

/// Load that finds nginx's best, for so long.
const BEST: Duration = Duration::from_secs(3);

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
    site::make_site(folder.path())?;
    fs::write(folder.path().join("small.html"), demo::measure::SMALL_BODY)?;
    make_certificate(folder.path())?;
    let cores = [stand.cores.0, stand.cores.1];
    let bench = Bench { plan, stand: &stand, cores, names: &names, folder: folder.path(), interrupt: &interrupt };
    let mut tables = Vec::new();
    for row in &plan.rows {
        tables.extend(bench.row(*row)?);
    }
    if plan.json {
        println!("{}", serde_json::to_string_pretty(&tables)?);
    }
    Ok(tables.iter().all(|table| table.is_kept()))
}

struct Bench<'a> {
    plan: &'a Plan,
    stand: &'a Stand,
    /// The server's, and the client's.
    cores: [u16; 2],
    names: &'a Namespaces,
    folder: &'a Path,
    interrupt: &'a Interrupt,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
enum Offer {
    /// As much as is answered.
    All,
    /// Requests in a second, at random times.
    Rate(u32),
}

impl Bench<'_> {
    /// One row at all loads.
    fn row(&self, row: OfferedRow) -> Result<Vec<Table>, BenchError> {
        let Plan { rounds, seconds, json, .. } = *self.plan;
        let contenders = contender::all(self.plan, row);
        let duration = Duration::from_secs(seconds);
        let mut rates: Vec<(Option<u32>, u32)> = self.plan.rates.iter().map(|rate| (None, *rate)).collect();
        if rates.is_empty() {
            let best = self.measure(row, &contenders[0], Offer::All, BEST)?.rate;
            eprintln!("{}: nginx's best is {} requests/s", row.title(), thousands(best));
            let of = |load: u32| (best * f64::from(load) / 100.0).max(1.0) as u32;
            rates.extend(self.plan.loads.iter().map(|load| (Some(*load), of(*load))));
        }
        if self.plan.best {
            self.full(row, &contenders)?;
        }
        let mut tables = Vec::new();
        for (load, rate) in rates {
            let samples = by_turns(rounds, contenders.len(), |at| {
                let sample = self.measure(row, &contenders[at], Offer::Rate(rate), duration)?;
                eprintln!(
                    "  {:24} {:>8} requests/s, {:6.2} us",
                    contenders[at].name,
                    thousands(sample.rate),
                    sample.cost
                );
                Ok(Some(sample))
            })?;
            let calls = self.count_calls(row, &contenders, rate)?;
            let table = Table::new(row, (load, rate), &contenders, &samples, &calls);
            if !json {
                table.print(rounds);
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// As much as each answers, by turns, and how many times what nginx does.
    fn full(&self, row: OfferedRow, contenders: &[Contender]) -> Result<(), BenchError> {
        let duration = Duration::from_secs(self.plan.seconds);
        let samples = by_turns(self.plan.rounds, contenders.len(), |at| {
            let sample = self.measure(row, &contenders[at], Offer::All, duration)?;
            eprintln!("  {:24} {:>9} requests/s", contenders[at].name, thousands(sample.rate));
            Ok(Some(sample))
        })?;
        println!("{}: all that is answered, medians of {} rounds by turns", row.title(), self.plan.rounds);
        for (contender, own) in contenders.iter().zip(&samples) {
            let rate = spread(own.iter().map(|sample| sample.rate).collect()).1;
            let p99 = spread(own.iter().map(|sample| sample.p99).collect()).1;
            let cost = spread(own.iter().map(|sample| sample.cost).collect()).1;
            let times = own.iter().zip(&samples[0]).map(|(own, nginx)| own.rate / nginx.rate).collect();
            let (low, middle, high) = spread(times);
            let errors: u64 = own.iter().map(|sample| sample.errors).sum();
            let errors = if errors > 0 { format!("  {errors} ERRORS") } else { String::new() };
            let times = format!("{middle:.2} times nginx ({low:.2} to {high:.2})");
            let (name, rate) = (&contender.name, thousands(rate));
            println!("  {name:24} {rate:>11} requests/s {cost:>7.2} us each, p99 {p99:>7.0} us  {times}{errors}");
        }
        Ok(())
    }

    /// System calls of each for a request, where that is wanted.
    fn count_calls(
        &self,
        row: OfferedRow,
        contenders: &[Contender],
        rate: u32,
    ) -> Result<Vec<Option<f64>>, BenchError> {
        let count = |contender: &Contender| {
            if !self.plan.calls {
                return Ok(None);
            }
            self.with_server(row, contender, |server| {
                let duration = Duration::from_secs(2);
                let trace = self.folder.join("calls");
                let mut strace = meter::strace(server.processes(), &trace, self.stand)?;
                let asked = self.ask(row, contender, server, Offer::Rate(rate), duration)?;
                strace.end();
                let answered = asked.rate * (duration + WARM_UP.min(duration)).as_secs_f64();
                Ok(meter::calls(&fs::read_to_string(&trace)?).map(|calls| calls as f64 / answered))
            })
        };
        contenders.iter().map(count).collect()
    }

    fn measure(
        &self,
        row: OfferedRow,
        contender: &Contender,
        offer: Offer,
        duration: Duration,
    ) -> Result<Sample, BenchError> {
        self.with_server(row, contender, |server| {
            let meter = Meter::new(server.processes(), self.stand.cores.0);
            thread::scope(|scope| {
                let window = scope.spawn(move || meter.over(WARM_UP.min(duration) + duration / 5, duration * 3 / 5));
                let asked = self.ask(row, contender, server, offer, duration)?;
                let Cost { process, softirq, wakeups, others } = window.join().map_err(|_| "a thread panicked")?;
                Ok(Sample {
                    rate: asked.rate,
                    cost: (process + softirq) * 1e6 / asked.rate,
                    softirq: softirq * 1e6 / asked.rate,
                    wakeups: wakeups / asked.rate,
                    left: 1.0 - process - softirq,
                    p50: asked.at(50.0),
                    p99: asked.at(99.0),
                    others: others.max(asked.client.others),
                    errors: asked.errors,
                })
            })
        })
    }

    /// Whoever shares a core with the upstream leaves it where there is nothing to do.
    fn field(&self, row: OfferedRow) -> Field<'_> {
        let servers = if row.behind().is_some() { &self.cores[..] } else { &self.cores[..1] };
        let Self { stand, names, interrupt, .. } = *self;
        Field { stand, veth: Some(names), tap: None, servers, mtu: None, interrupt }
    }

    /// Starts a server, and its upstream if the row has one, for as long as it is asked.
    fn with_server<T>(
        &self,
        row: OfferedRow,
        contender: &Contender,
        go: impl FnOnce(&mut Server) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let Self { stand, names, folder, interrupt, plan, .. } = *self;
        let field = self.field(row);
        let _upstream: Option<Running> =
            row.behind().map(|body| upstream((stand, names), folder, contender.link, body, interrupt)).transpose()?;
        let (_other, mut server) = contender::start(contender, row, &field, folder, &plan.nginx)?;
        go(&mut server)
    }

    fn ask(
        &self,
        row: OfferedRow,
        contender: &Contender,
        server: &mut Server,
        offer: Offer,
        duration: Duration,
    ) -> Result<Asked, BenchError> {
        let mut more = vec!["--heads=short".to_owned()];
        if let Offer::Rate(rate) = offer {
            more.push(format!("--rate=poisson:{rate}"));
        }
        match row {
            OfferedRow::New => more.push("--close".to_owned()),
            OfferedRow::Tls | OfferedRow::Http2Tls => {
                more.extend(contender::SUITE.map(str::to_owned));
                // The certificate is its own issuer's.
                more.push("--insecure".to_owned());
            }
            OfferedRow::File | OfferedRow::Proxied | OfferedRow::Proxied64k | OfferedRow::Http2 => {}
        }
        if row.is_http2() {
            more.extend(["--http2".to_owned(), format!("--max-concurrent-streams={}", self.plan.streams)]);
        }
        let ask = Ask {
            path: row.path(),
            connections: self.plan.connections,
            more: &more,
            duration,
            secured: row.is_secured(),
        };
        let port = if row.is_secured() { 443 } else { 80 };
        Ok(self.field(row).ask(server, (contender.link, Some(port)), Generator::Bypass, ask)?)
    }
}
