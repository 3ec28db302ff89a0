//! `bench`: runs one experiment and prints what it shows.

use bench::cost::{self, Around, Case, CostArgs, CostSide};
use bench::pace::{self, PaceArgs};
use bench::{
    BenchError, bodies, connections, dpdk, frame_server, frames, generator, generator_http2, goodput, grpc, hosts,
    http2, kernel, media, noise, offered, packet, posix, proxied, readers, sealing, silos, site, slow, squeezed, storm,
    tls, uncached, valgrind, watch,
};
use clap::{Parser, Subcommand};
use demo::DemoPlan;
use silo::memory::HugeAlloc;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// As in the program that is measured.
#[global_allocator]
static ALLOCATOR: HugeAlloc = HugeAlloc;

/// What the packet path costs.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Instructions per request on one side, and where they go
    Cost(CostArgs),
    /// Instructions of sockets on our stack, of a program that knows nothing of it
    Posix(posix::PosixArgs),
    /// Memory of idle connections, and what they make a request cost
    Connections {
        /// Connections that stand open, as in 10M
        #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
        idle: u64,
        /// Measure few and many this often, by turns
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u64,
        /// Secured connections (TLS 1.3), by keys that both sides have
        #[arg(long, conflicts_with = "nearside")]
        secured: bool,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// Requests beside the frames that the same link carries (testpmd)
    Frames {
        /// Measure both this often, by turns
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 4)]
        seconds: u64,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// DPDK's memif beside our own, with a program that has DPDK in it
    Dpdk {
        /// Measure both this often, by turns
        #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u64,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// `nearside packet` beside dpdk-testpmd: forwarders, senders, times kept, round trips
    Packet(PacketArgs),
    /// `nearside serve` on kernel sockets versus nginx: same core, same clients (wrk, then ours)
    Kernel {
        /// Measure each row this often, by turns
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 4)]
        seconds: u64,
        /// Measure these engines
        #[arg(long, value_name = "ENGINE,…", value_delimiter = ',', default_value = "epoll,io_uring")]
        engines: Vec<String>,
        /// Measure these rows
        #[arg(long, value_enum, value_name = "ROW,…", value_delimiter = ',', default_value = "small,large,new")]
        rows: Vec<kernel::AnswerKind>,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// TLS versus nginx, on kernel sockets and over memif: small answers, 1 MB, handshakes
    Tls(tls::Plan),
    /// Records of TLS, sealed and opened, and nothing else: by cipher and size
    Seal(sealing::Plan),
    /// A packet storm on one silo's queue, and what the other silo's clients see of it
    Storm {
        /// Measure calm and storm this often, by turns
        #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 1)]
        seconds: u64,
        /// Connections to the other silo
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
        connections: u32,
        /// What the storm is made of, by turns
        #[arg(
            long,
            value_enum,
            value_name = "KIND,…",
            value_delimiter = ',',
            default_value = "syn,unknown,junk,shared"
        )]
        kinds: Vec<storm::FrameKind>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// Two silos beside one, and two workers: requests per processor time, and instructions
    Silos {
        /// Measure each this often, by turns
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u64,
        /// These data paths
        #[arg(long, value_enum, value_name = "PATH,…", value_delimiter = ',', default_value = "kernel,bypass")]
        paths: Vec<silos::Path>,
        /// Requests counted under callgrind, as in 30k; 0: none
        #[arg(long, value_name = "N", default_value = "30k", value_parser = count)]
        requests: u64,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// Disturbances made on purpose, and what `nearside node noise` calls them
    Noise(NoiseArgs),
    /// What `nearside watch` reads, beside sysstat on the same interval, and what looking costs
    Watch(WatchArgs),
    /// Pipelined requests for files that are not in memory, on both data paths
    Uncached {
        /// Measure each this often, by turns
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3)]
        seconds: u64,
        /// Connections
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=512))]
        connections: u32,
        /// Requests under way on each
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=64))]
        depth: u16,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// An ordinary site by its nginx.conf, on every data path, beside nginx
    Site(SiteArgs),
    /// What a request costs at the loads that servers have, beside nginx, lighttpd, h2o and haproxy
    Offered(offered::Plan),
    /// HTTP/2 of many streams and of one, beside nginx and h2o
    Http2(http2::Plan),
    /// Calls of gRPC passed on: unary and many at a time beside nginx, and beside a client that stalls
    Grpc(grpc::Plan),
    /// Texts that are compressed for each request, beside nginx
    Squeezed(SqueezedArgs),
    /// Requests passed on to an upstream by an nginx.conf, on every data path, beside nginx
    Proxy(ProxyArgs),
    /// A long answer passed on to a client that takes it slowly: what the proxy holds of it
    Slow(slow::Plan),
    /// Long bodies of requests and answers passed on by an nginx.conf, beside nginx
    Bodies(bodies::Plan),
    /// Films that are larger than memory, by TLS over memif: streams and downloads, beside io_uring alone
    Media(media::Plan),
    /// 10,000 hosts by an nginx.conf, beside one: a request, and a reload
    Hosts(HostsArgs),
    /// A download over a link, alone and beside readers that take nothing
    Readers(readers::Plan),
    /// `nearside load` beside wrk, on the same nginx
    Generator {
        /// Measure each this often, by turns
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        rounds: u32,
        /// Measure each for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 4)]
        seconds: u64,
        /// A wrk2 to compare with at a fixed rate [default: none]
        #[arg(long, value_name = "PROGRAM")]
        wrk2: Option<PathBuf>,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// `nearside load` over HTTP/2 beside h2load: what a request costs of its core
    GeneratorHttp2(generator_http2::Plan),
    /// Instructions for each segment of paced flows, with few and with many
    Pace(PaceArgs),
    /// Transfers at 1 % loss and 20 ms beside the Mathis bound and Linux
    Goodput(GoodputArgs),
    /// The demo, and whether it kept what is promised of it
    Demo {
        /// One short round: shows that everything works, measures little
        #[arg(long)]
        quick: bool,
        /// Write report.html and results.json into this folder
        #[arg(long, value_name = "FOLDER", default_value = "out/demo")]
        out: PathBuf,
        /// The program to measure [default: nearside beside this one]
        #[arg(long, value_name = "PROGRAM")]
        nearside: Option<PathBuf>,
    },
    /// What `silos` runs the server by: becomes valgrind with these arguments
    #[command(hide = true)]
    Valgrind {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// What `connections` runs for either side of secured ones
    #[command(hide = true)]
    ConnectionsSide(connections::secured::Side),
    /// What `generator-http2` and `grpc` ask
    #[command(hide = true)]
    FrameServer(frame_server::FrameServerArgs),
    /// What `pace` runs under callgrind
    #[command(hide = true)]
    PaceCase { flows: u32, segments: u64 },
    /// What `posix` runs under callgrind
    #[command(hide = true)]
    PosixProgram(posix::PosixProgram),
    /// What `cost` runs under callgrind
    #[command(hide = true)]
    CostCase {
        case: Case,
        side: CostSide,
        requests: u64,
        #[arg(long, default_value_t = 1)]
        silos: u16,
        #[arg(long, value_enum, default_value_t = Around::Nothing)]
        around: Around,
    },
}

fn main() -> ExitCode {
    let outcome = call(Arguments::parse().command);
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the promises were kept.
fn call(command: Command) -> Result<bool, BenchError> {
    match command {
        Command::Cost(args) => args.run(),
        Command::Posix(args) => posix::run(&args, &program(args.nearside.clone())?),
        Command::PosixProgram(program) => program.run().map(|()| true),
        Command::Connections { idle, rounds, seconds, secured, nearside } => {
            let nearside = if secured { PathBuf::new() } else { program(nearside)? };
            let duration = span(seconds);
            connections::run(&connections::Plan { nearside, idle, rounds, duration, cores: (0, 1), secured })
        }
        Command::Frames { rounds, seconds, nearside } => frames::run(&demo(rounds, seconds), &program(nearside)?),
        Command::Dpdk { rounds, seconds, nearside } => {
            dpdk::run(&dpdk::Plan { nearside: program(nearside)?, rounds, duration: span(seconds) })
        }
        Command::Kernel { rounds, seconds, engines, rows, nearside } => {
            kernel::run(&kernel::Plan { nearside: program(nearside)?, rounds, duration: span(seconds), engines, rows })
        }
        Command::Tls(plan) => tls::run(&plan, &program(plan.nearside.clone())?),
        Command::Packet(args) => packet::run(&args.plan()?),
        Command::Storm { rounds, seconds, connections, kinds, json, nearside } => storm::run(&storm::Plan {
            nearside: program(nearside)?,
            rounds,
            duration: Duration::from_secs(seconds.max(1)),
            connections,
            kinds,
            json,
        }),
        Command::Seal(plan) => sealing::run(&plan),
        Command::Noise(args) => noise::run(&args.plan()),
        Command::Watch(args) => watch::run(&args.plan()),
        Command::Uncached { rounds, seconds, connections, depth, nearside } => {
            let (nearside, duration) = (program(nearside)?, Duration::from_secs(seconds.max(1)));
            uncached::run(&uncached::Plan { nearside, rounds, duration, connections, depth })
        }
        Command::Site(args) => site::run(&args.plan()?),
        Command::Offered(plan) => offered::run(&plan, &program(plan.nearside.clone())?),
        Command::Http2(plan) => http2::run(&plan, &program(plan.nearside.clone())?),
        Command::Grpc(plan) => grpc::run(&plan, &program(plan.nearside.clone())?),
        Command::Squeezed(args) => squeezed::run(&args.plan()?),
        Command::Proxy(args) => proxied::run(&args.plan()?),
        Command::Slow(plan) => slow::run(&plan, &program(plan.nearside.clone())?),
        Command::Media(plan) => media::run(&plan, &program(plan.nearside.clone())?),
        Command::Bodies(plan) => bodies::run(&plan, &program(plan.nearside.clone())?),
        Command::Hosts(args) => hosts::run(&args.plan()?),
        Command::Readers(plan) => readers::run(&plan, &program(plan.nearside.clone())?),
        Command::Silos { rounds, seconds, paths, requests, json, nearside } => silos::run(&silos::Plan {
            nearside: program(nearside)?,
            rounds,
            duration: Duration::from_secs(seconds.max(1)),
            paths,
            requests,
            json,
        }),
        Command::Generator { rounds, seconds, wrk2, nearside } => {
            generator::run(&generator::Plan { nearside: program(nearside)?, wrk2, rounds, duration: span(seconds) })
        }
        Command::GeneratorHttp2(plan) => generator_http2::run(&plan, &program(plan.nearside.clone())?),
        Command::FrameServer(args) => frame_server::run(&args).map(|()| true),
        Command::Goodput(args) => goodput::run(&args.plan()),
        Command::Pace(args) => args.run(),
        Command::PaceCase { flows, segments } => pace::run_case(flows, segments).map(|()| true),
        Command::Valgrind { words } => Err(valgrind::exec(&words)),
        Command::ConnectionsSide(side) => connections::secured::run(&side).map(|()| true),
        Command::CostCase { case, side, requests, silos, around } => {
            cost::run_case(case, side, requests, silos, around).map(|()| true)
        }
        Command::Demo { quick, out, nearside } => beside_nginx(quick, out, &program(nearside)?),
    }
}

/// How a site is measured.
#[derive(clap::Args)]
struct SiteArgs {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    connections: u32,
    /// How heads differ: short, browser or equal
    #[arg(long, value_name = "HEADS", default_value = "short", value_parser = ["short", "browser", "equal"])]
    heads: String,
    /// The nginx beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/nginx")]
    nginx: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
}

impl SiteArgs {
    fn plan(self) -> Result<site::Plan, BenchError> {
        let Self { rounds, seconds, connections, heads, nginx, nearside } = self;
        let duration = Duration::from_secs(seconds.max(1));
        Ok(site::Plan { nearside: program(nearside)?, nginx, rounds, duration, connections, heads })
    }
}

/// How a proxy is measured.
#[derive(clap::Args)]
struct ProxyArgs {
    #[command(flatten)]
    site: SiteArgs,
    /// Bytes of a body, as in 1M [default: a small text]
    #[arg(long, value_name = "N", value_parser = count)]
    body: Option<u64>,
    /// The longest packet on a memif, bytes; loopback, where nginx has its upstream, has 65,536 [default: 1500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(576..))]
    mtu: Option<u16>,
}

impl ProxyArgs {
    fn plan(self) -> Result<proxied::Plan, BenchError> {
        Ok(proxied::Plan { site: self.site.plan()?, body: self.body, mtu: self.mtu })
    }
}

/// How compression is measured.
#[derive(clap::Args)]
struct SqueezedArgs {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u64,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=512))]
    connections: u32,
    /// The nginx beside it
    #[arg(long, value_name = "PROGRAM", default_value = "/usr/sbin/nginx")]
    nginx: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
}

impl SqueezedArgs {
    fn plan(self) -> Result<squeezed::Plan, BenchError> {
        let Self { rounds, seconds, connections, nginx, nearside } = self;
        let duration = Duration::from_secs(seconds.max(1));
        Ok(squeezed::Plan { nearside: program(nearside)?, nginx, rounds, duration, connections })
    }
}

/// How many hosts are measured.
#[derive(clap::Args)]
struct HostsArgs {
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
}

impl HostsArgs {
    fn plan(self) -> Result<hosts::Plan, BenchError> {
        let Self { rounds, seconds, nearside } = self;
        Ok(hosts::Plan { nearside: program(nearside)?, rounds, duration: Duration::from_secs(seconds.max(1)) })
    }
}

/// How forwarders are measured.
#[derive(clap::Args)]
struct PacketArgs {
    /// Measure both this often, by turns
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u64,
    /// Measure these figures [default: all]
    #[arg(long, value_enum, value_name = "FIGURE,…", value_delimiter = ',')]
    figures: Vec<packet::PacketFigure>,
    /// Measure forwarders in these modes
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', default_value = "io,macswap,5tswap")]
    modes: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    nearside: Option<PathBuf>,
}

impl PacketArgs {
    fn plan(self) -> Result<packet::Plan, BenchError> {
        let Self { rounds, seconds, figures, modes, json, nearside } = self;
        let duration = Duration::from_secs(seconds.max(2));
        let figures = if figures.is_empty() { packet::PacketFigure::ALL.to_vec() } else { figures };
        Ok(packet::Plan { nearside: program(nearside)?, rounds, duration, figures, modes, json })
    }
}

/// What disturbances are asked for.
#[derive(clap::Args)]
struct NoiseArgs {
    /// The core that is disturbed [default: the last]
    #[arg(long, value_name = "CORE")]
    core: Option<u16>,
    /// Make each kind this often, by turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// For so many seconds each time, at most 8 for timers where files are limited to 1,024
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u64,
    /// What disturbs
    #[arg(
        long,
        value_enum,
        value_name = "KIND,…",
        value_delimiter = ',',
        default_value = "timer,net-rx,fifo,ipi,faults,disk"
    )]
    kinds: Vec<noise::DisturbanceKind>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl NoiseArgs {
    fn plan(self) -> noise::Plan {
        let Self { core, rounds, seconds, kinds, json } = self;
        noise::Plan { core, rounds, duration: Duration::from_secs(seconds.max(1)), kinds, json }
    }
}

/// What the comparison with sysstat is asked for.
#[derive(clap::Args)]
struct WatchArgs {
    /// For so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Only what a sample of this recorded machine costs: a folder with its proc/ and sys/
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

impl WatchArgs {
    fn plan(self) -> watch::Plan {
        watch::Plan { duration: Duration::from_secs(self.seconds.max(2)), root: self.root }
    }
}

/// What transfers over a lossy link are asked for.
#[derive(clap::Args)]
struct GoodputArgs {
    /// Bytes of each transfer, as in 100M
    #[arg(long, value_name = "N", default_value = "100M", value_parser = count)]
    bytes: u64,
    /// Transfers with each congestion control
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Bytes that Linux transfers twice, at some 7 Mbit/s in real time; 0 for none
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    linux_bytes: u64,
    /// Only CUBIC with timestamps beside CUBIC without
    #[arg(long)]
    only_timestamps: bool,
}

impl GoodputArgs {
    const fn plan(&self) -> goodput::Plan {
        let Self { bytes, seeds, linux_bytes, only_timestamps } = *self;
        goodput::Plan { bytes, seeds, linux_bytes, only_timestamps }
    }
}

/// Runs the demo, and holds its rows against what is promised of them.
fn beside_nginx(quick: bool, out: PathBuf, nearside: &Path) -> Result<bool, BenchError> {
    let (rounds, seconds) = if quick { (1, 1) } else { (5, 4) };
    let promises = demo::promises(&demo::run(&DemoPlan { out, ..demo(rounds, seconds) }, nearside)?);
    if promises.is_empty() {
        return Err("nginx was left out, so there is nothing to compare with".into());
    }
    println!();
    for promise in &promises {
        let word = if promise.kept { "kept" } else { "NOT KEPT" };
        println!("{}: {}: {word}", promise.what, promise.found);
    }
    Ok(promises.iter().all(|promise| promise.kept))
}

/// A number, with K, M or G for thousands of thousands.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok();
    number.and_then(|number| number.checked_mul(unit)).ok_or_else(|| "write a number, as in 1000, 10k or 1M".to_owned())
}

/// The program to measure: as named, or beside this one.
fn program(named: Option<PathBuf>) -> Result<PathBuf, BenchError> {
    let path = match named {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("nearside"),
    };
    if path.is_file() { Ok(path) } else { Err(format!("there is no {}: build it, or name it", path.display()).into()) }
}

/// A second at least.
fn span(seconds: u64) -> Duration {
    Duration::from_secs(seconds.max(1))
}

fn demo(rounds: u32, seconds: u64) -> DemoPlan {
    DemoPlan {
        rounds,
        duration: Duration::from_secs(seconds.max(1)),
        first_look: false,
        nginx: Vec::new(),
        cores: None,
        seed: 1,
        out: PathBuf::new(),
        json: false,
    }
}
