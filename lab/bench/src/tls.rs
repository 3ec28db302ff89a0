//! TLS beside nginx: the same certificate, suite, answers and client, one worker each on the
//! same core, measured by turns.
//!
//! The client is `nearside load`. Over kernel sockets both ends lie in namespaces; over memif
//! the client reaches our server alone, by a link of its own, and nginx over kernel sockets as
//! before. Where the client's core is full, its limit is measured and not the server's: so the
//! rows of handshakes are held by the server's CPU for each, of which polling that found
//! nothing is taken away where our server tells it.

mod beside;
mod bulk;
mod waits;
mod xdp;

use crate::BenchError;
use crate::client::{Ask, Place, Said, Sample, WARM_UP, by_turns, prepare, watch_with};
use crate::kernel::table::Ratio;
use crate::page::Page;
use demo::child::{Interrupt, Program, Running};
use demo::kernel::Kernel;
use demo::machine::children;
use demo::measure::{Connections, thousands};
use demo::media_site::make_certificate;
use demo::netns::SERVER;
use stats::median;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Measure each row this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Measure only these
    #[arg(long, value_enum, value_name = "PART,…", value_delimiter = ',')]
    pub only: Vec<Part>,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// A part of what is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Part {
    /// Small answers, on kernel sockets and over memif
    Small,
    /// The same over AF_XDP, on one veth pair
    AfXdp,
    /// Handshakes, full and resumed
    Handshakes,
    /// 1 MB, over TLS and in the clear
    Bulk,
    /// Plain requests beside handshakes
    Beside,
}

impl Plan {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// Those of the small rows: nginx, and ours on kernel sockets and over memif.
const CONTENDERS: usize = 3;

/// Bytes of the file that is asked for whole.
const LARGE: usize = 1_000_000;

/// Addresses on the memif link.
const LINK: [&str; 2] = ["10.78.0.2", "10.78.0.1"];

/// How much longer than planned a generator may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a row is held by, against nginx.
#[derive(Clone, Copy)]
enum Bound {
    /// The rate, at least, of our server on kernel sockets and over memif.
    Rate { sockets: Option<f64>, memif: f64 },
    /// The rate, at least, of our server over AF_XDP.
    OverXdp(f64),
    /// CPU for each, at most, on both.
    Cost(f64),
}

#[derive(Clone, Copy)]
struct Row {
    title: &'static str,
    path: &'static str,
    flags: &'static str,
    connections: u32,
    bound: Bound,
}

impl Row {
    const fn part(&self) -> Part {
        match self.bound {
            Bound::Rate { .. } => Part::Small,
            Bound::OverXdp(_) => Part::AfXdp,
            Bound::Cost(_) => Part::Handshakes,
        }
    }
}

/// The groups of nginx's library may not have those of the client that are dearest: so one that
/// both have is asked for. With TLS 1.2 a certificate's own curve must be among them, too (RFC 8422
/// section 5.1).
const SUITE: &str = "--tls=1.3 --ciphers=TLS_AES_128_GCM_SHA256 --curves=X25519";
const OLDER: &str = "--tls=1.2 --ciphers=ECDHE-ECDSA-AES128-GCM-SHA256 --curves=X25519:prime256v1";

const ROWS: [(Row, &str); 5] = [
    (
        Row {
            title: "small answer, 64 connections kept",
            path: "small",
            flags: "",
            connections: 64,
            bound: Bound::Rate { sockets: Some(1.5), memif: 18.0 },
        },
        SUITE,
    ),
    (
        Row {
            title: "small answer, 1,000 connections kept",
            path: "small",
            flags: "",
            connections: 1_000,
            bound: Bound::Rate { sockets: None, memif: 12.0 },
        },
        SUITE,
    ),
    (
        Row {
            title: "full handshake for each request, TLS 1.3",
            path: "small",
            flags: "--close",
            connections: 16,
            bound: Bound::Cost(0.5),
        },
        SUITE,
    ),
    (
        Row {
            title: "resumed handshake for each request, TLS 1.3",
            path: "small",
            flags: "--close --resume",
            connections: 16,
            bound: Bound::Cost(0.4),
        },
        SUITE,
    ),
    (
        Row {
            title: "resumed handshake for each request, TLS 1.2",
            path: "small",
            flags: "--close --resume",
            connections: 16,
            bound: Bound::Cost(0.25),
        },
        OLDER,
    ),
];

/// A server to be asked, and how it is reached.
struct Contender {
    name: &'static str,
    address: String,
    /// The port where it answers the same in the clear.
    plain: String,
    link: Option<Wire>,
    running: Running,
    /// What answers: nginx's workers, or all of ours.
    pids: Vec<u32>,
}

/// What a client reaches a server by that is no kernel socket.
struct Wire {
    /// As both ends open it.
    spec: String,
    /// The client's address on it.
    client: &'static str,
    /// The client opens it in its namespace.
    in_namespace: bool,
    /// Where a server of ours tells what it does.
    page: Option<PathBuf>,
}

/// Measures and prints. Returns whether all bounds hold.
///
/// # Errors
/// If a server cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let (interrupt, cores, scratch) = prepare()?;
    let site = make_site(scratch.path())?;
    // Its nginx serves nothing here: the namespaces and the core of each side are what is wanted.
    let kernel = Kernel::start(scratch.path(), &site, cores, None, &interrupt)?;
    kernel.names().keep_to_cores(cores)?;
    let at = Place { kernel: &kernel, dir: scratch.path(), cores, interrupt: &interrupt };
    let mut contenders = start(nearside, at)?;
    println!("nginx {}, one worker each, server on core {}, client on core {}", kernel.version, cores.0, cores.1);
    println!(
        "TLS with an ECDSA certificate on P-256. Ratios to nginx are of medians over {} rounds, with",
        plan.rounds
    );
    println!("their intervals of 95 % (of fewer than five rounds: least and largest).");
    let mut kept = true;
    for (row, suite) in ROWS.iter().filter(|(row, _)| plan.wants(row.part())) {
        kept &= small((nearside, plan), (row, suite), &mut contenders, at)?;
    }
    if plan.wants(Part::AfXdp) {
        kept &= xdp::run((nearside, plan), &mut contenders, at)?;
    }
    if plan.wants(Part::Bulk) {
        kept &= bulk::run(plan, nearside, &mut contenders, at)?;
    }
    if plan.wants(Part::Beside) {
        kept &= beside::run((nearside, plan), &mut contenders, at)?;
    }
    Ok(kept)
}

/// Measures and prints one row. Whether its bound holds.
fn small(
    (nearside, plan): (&Path, &Plan),
    (row, suite): (&Row, &str),
    contenders: &mut [Contender],
    at: Place<'_>,
) -> Result<bool, BenchError> {
    let duration = Duration::from_secs(plan.seconds);
    let samples = by_turns(plan.rounds, CONTENDERS, |index| {
        let contender = &mut contenders[index];
        let sample = ask((nearside, duration), &contender.asked(row, suite), at);
        contender.running.still_runs()?;
        Ok(Some(sample.map_err(|why| format!("{}, {}: {why}", row.title, contender.name))?))
    })?;
    let names: Vec<&str> = contenders.iter().map(|contender| contender.name).collect();
    Ok(print(row, &names, &samples))
}

fn make_site(dir: &Path) -> Result<PathBuf, BenchError> {
    let site = dir.join("site");
    fs::create_dir(&site)?;
    let bytes: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    fs::write(site.join("large.bin"), bytes)?;
    make_certificate(dir)?;
    Ok(site)
}

fn configuration(dir: &Path, own: &Path, (address, plain): (&str, &str)) -> String {
    let (dir, own) = (dir.display(), own.display());
    format!(
        "user root; worker_processes 1; daemon off; pid {own}/pid; error_log {own}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; root {dir}/site; default_type text/plain;\n\
         sendfile on; tcp_nopush on; open_file_cache max=100 inactive=1h;\n\
         keepalive_requests 1000000000; keepalive_timeout 1h; ssl_protocols TLSv1.2 TLSv1.3;\n\
         ssl_certificate {dir}/site.pem; ssl_certificate_key {dir}/site.key;\n\
         server {{ listen {address} ssl backlog=65535; listen {plain};\n\
         location = /small {{ return 200 \"0123456789abcdef\\n\"; }} }}\n\
         }}\n"
    )
}

/// Starts them all, and waits until they listen.
fn start(nearside: &Path, at: Place<'_>) -> Result<Vec<Contender>, BenchError> {
    let memif = |socket: &str, frames: &str| {
        let page = Some(at.dir.join(format!("{socket}.page")));
        let spec = format!("memif:{}{frames}", at.dir.join(socket).display());
        Some(Wire { spec, client: LINK[1], in_namespace: false, page })
    };
    let (small, large) = (memif("tls.sock", ""), memif("large.sock", bulk::LARGE_FRAMES));
    let whole = memif("whole.sock", bulk::RECORD_FRAMES);
    let on_link = ["443", "80"].map(|port| format!("{}:{port}", LINK[0]));
    let each = [
        ("nginx", [441, 541].map(|port| format!("{SERVER}:{port}")), None),
        ("sockets", [442, 542].map(|port| format!("{SERVER}:{port}")), None),
        ("memif", on_link.clone(), small),
        ("memif, frames of 9,000", on_link.clone(), large),
        ("memif, frames of 16,500", on_link, whole),
    ];
    each.into_iter().map(|(name, addresses, link)| start_one((nearside, name), addresses, link, at)).collect()
}

/// Starts one of ours, or nginx, and waits until it listens.
fn start_one(
    (nearside, name): (&Path, &'static str),
    [address, plain]: [String; 2],
    link: Option<Wire>,
    at: Place<'_>,
) -> Result<Contender, BenchError> {
    let own = at.dir.join(name.replace([',', ' '], "-"));
    fs::create_dir_all(own.join("logs"))?;
    // Of one that ran before: what is waited for is this one's.
    let _ = fs::remove_file(own.join("pid"));
    let file = own.join("tls.conf");
    fs::write(&file, configuration(at.dir, &own, (&address, &plain)))?;
    let mut words = vec!["nginx".to_owned()];
    if name != "nginx" {
        words.insert(0, nearside.display().to_string());
    }
    if let Some(Wire { spec, page, .. }) = &link {
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        words.extend([format!("--link={spec}"), format!("--addr={host}/24")]);
        words.extend(page.as_ref().map(|page| format!("--status-page={}", page.display())));
    }
    let texts = [&own, &file].map(|path| path.display().to_string());
    words.extend(["-e", "stderr", "-p", &texts[0], "-c", &texts[1]].map(str::to_owned));
    let is_apart = link.as_ref().is_some_and(|link| !link.in_namespace);
    let netns = (!is_apart).then_some(at.kernel.names().server.as_str());
    let named = format!("tls {name}");
    let mut running = Program { name: &named, netns, core: Some(at.cores.0), words }.start(at.dir)?;
    let pid = running.pid();
    wait(&mut running, name, (&own, pid), at.interrupt)?;
    let below = children(pid);
    let pids = if name == "nginx" { below } else { [vec![pid], below].concat() };
    Ok(Contender { name, address, plain, link, running, pids })
}

/// Waits until a server has written its pid, and nginx has its worker.
fn wait(running: &mut Running, name: &str, (own, pid): (&Path, u32), interrupt: &Interrupt) -> Result<(), BenchError> {
    let file = own.join("pid");
    let ready = || file.exists() && (name != "nginx" || !children(pid).is_empty());
    running.wait_until("start", Duration::from_secs(20), interrupt, ready)?;
    Ok(interrupt.sleep(Duration::from_millis(500))?)
}

/// What is asked, of whom, and over what.
struct Asked<'a> {
    row: &'a Row,
    suite: &'a str,
    url: String,
    link: Option<&'a Wire>,
    pids: &'a [u32],
}

impl Contender {
    /// What a row asks of it, over TLS and as it is reached.
    fn asked<'a>(&'a self, row: &'a Row, suite: &'a str) -> Asked<'a> {
        let url = format!("https://{}/{}", self.address, row.path);
        Asked { row, suite, url, link: self.link.as_ref(), pids: &self.pids }
    }
}

fn ask((nearside, duration): (&Path, Duration), asked: &Asked<'_>, at: Place<'_>) -> Result<Sample, BenchError> {
    let Asked { row, suite, url, link, pids } = asked;
    let mut words = vec![nearside.display().to_string(), "load".to_owned(), url.clone()];
    words.extend(["--json", "--progress=none"].map(str::to_owned));
    if url.starts_with("https") {
        words.push("--insecure".to_owned());
        words.extend(suite.split_whitespace().map(str::to_owned));
    }
    words.extend(row.flags.split_whitespace().map(str::to_owned));
    words.push(format!("--connections={}", row.connections));
    words.push(format!("--duration={}ms", duration.as_millis()));
    words.push(format!("--warmup={}ms", WARM_UP.as_millis()));
    let own = Some(at.kernel.names().client.as_str());
    let netns = match link {
        Some(Wire { spec, client, in_namespace, .. }) => {
            words.extend([format!("--link={spec}"), format!("--addr={client}/24")]);
            own.filter(|_| *in_namespace)
        }
        None => {
            words.extend(["--threads=1".to_owned(), "--no-floor".to_owned(), format!("--cores={}", at.cores.1)]);
            own
        }
    };
    let mut load = Program { name: "nearside load", netns, core: Some(at.cores.1), words }.start(at.dir)?;
    let connections = if row.flags.is_empty() { Connections::KeepAlive } else { Connections::New };
    let told = Ask { url, connections, count: row.connections, duration, servers: pids };
    let ((server, softirq, client), [first, last]) = watch_with(told, &load, WARM_UP, at, || polled(*link))?;
    let said = Said::read(&load.finish(WARM_UP + duration + PATIENCE, at.interrupt)?)?;
    if url.starts_with("https") {
        said.is_resumed(row.flags.contains("--resume"))?;
    }
    // What found nothing is no work: whoever waits for an eventfd would have slept.
    let polled = last.0.saturating_sub(first.0) as f64 / last.1.since(first.1).as_nanos().max(1) as f64;
    Ok(Sample {
        rate: said.throughput.requests_per_second,
        p99: said.latency.p99_ns / 1e3,
        mean: Some(said.latency.mean_ns / 1e3),
        errors: said.errors.values().sum(),
        server: (server.process - polled).max(0.0),
        softirq,
        client: client.process,
        others: server.others,
    })
}

/// Nanoseconds that a server over a link has polled for nothing, and the time.
fn polled(link: Option<&Wire>) -> Result<(u64, wire::Time), BenchError> {
    let idle = match link.and_then(|link| link.page.as_ref()) {
        Some(page) => Page::open(page)?.read()?.sum("silo.idle_ns")?,
        None => 0,
    };
    Ok((idle, cpu::Clock.now()))
}

/// Prints a row. Whether its bound holds.
fn print(row: &Row, names: &[&str], samples: &[Vec<Sample>]) -> bool {
    println!("\n{}", row.title);
    println!(
        "  {:14} {:>10} {:>9} {:>8} {:>8} {:>7} {:>7}  {:>10}",
        "", "each/s", "p99", "process", "softirq", "client", "others", "CPU/each"
    );
    let [nginx, ..] = samples else { return false };
    let mut kept = true;
    for (&name, samples) in names.iter().zip(samples) {
        let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
        let share = |value: fn(&Sample) -> f64| 100.0 * of(value);
        let errors: u64 = samples.iter().map(|sample| sample.errors).sum();
        println!(
            "  {:14} {:>10} {:>6.0} us {:>7.0}% {:>7.0}% {:>6.0}% {:>6.0}%  {:>7.2} us{}",
            name,
            thousands(of(|sample| sample.rate)),
            of(|sample| sample.p99),
            share(|sample| sample.server),
            share(|sample| sample.softirq),
            share(|sample| sample.client),
            share(|sample| sample.others),
            of(Sample::cost),
            if errors > 0 { format!("  {errors} ERRORS") } else { String::new() }
        );
        if name.starts_with("nginx") {
            continue;
        }
        let rate = Ratio::of(samples, nginx, |sample| sample.rate);
        let cost = Ratio::of(samples, nginx, Sample::cost);
        let held = match (row.bound, name) {
            (Bound::Rate { memif, .. }, "memif") => Some((rate.ratio >= memif, format!("rate at least {memif}"))),
            (Bound::Rate { sockets: Some(least), .. }, "sockets") => {
                Some((rate.ratio >= least, format!("rate at least {least}")))
            }
            (Bound::OverXdp(least), _) => Some((rate.ratio >= least, format!("rate at least {least}"))),
            (Bound::Cost(most), _) => Some((cost.ratio <= most, format!("CPU for each at most {most}"))),
            _ => None,
        };
        let whole = samples.iter().chain(nginx).all(|sample| sample.errors == 0);
        let told = held.map(|(held, told)| {
            kept &= held && whole;
            format!("; {told}: {}", crate::kernel::word(held && whole))
        });
        println!("                 rate {rate}, CPU for each {cost} times nginx's{}", told.unwrap_or_default());
    }
    kept
}
