//! The command line as typed: one definition per flag, and the rules between
//! flags that turn it into a plan.

use super::values::{self, AddressRange, BitRate, Cidr, Count, Header, LinkSpec, Size, Target};
use super::{Command, HostPlan, LoadPlan, ServePlan, StatusPlan};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use demo::DemoPlan;
use link::{FaultPlan, Impairment, Probability, Rate};
use server::{AccessLog, Respond};
use silo::Idle;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tcp::congestion::Algorithm;
use wire::Mac;

/// A web server and a load generator on a TCP/IP stack of their own.
#[derive(Parser)]
#[command(name = "nearside", version, max_term_width = 100, arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Typed,
}

#[derive(Subcommand)]
pub(super) enum Typed {
    /// Serve a folder, or one fixed answer, over a link
    Serve(ServeArgs),
    /// Load a server over a link and measure its latency
    Load(LoadArgs),
    /// Measure Nearside beside nginx on kernel sockets
    Demo(DemoArgs),
    /// Print the statistics of running processes
    Status(StatusArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command into a folder
    Man {
        /// The folder; made if missing
        #[arg(value_hint = ValueHint::DirPath)]
        folder: Option<PathBuf>,
    },
}

/// Congestion control, as it is named here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Congestion {
    /// CUBIC (RFC 9438)
    Cubic,
    /// NewReno (RFC 5681, RFC 6582)
    Newreno,
}

/// Which symbolic links below the served folder are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Symlinks {
    /// None
    Off,
    /// Those that stay within the folder
    Within,
    /// All, wherever they lead
    On,
}

#[derive(Args)]
pub(super) struct HostArgs {
    /// Where frames come from and go to: memif:SOCKET or tap:NAME
    ///
    /// memif is shared memory with another process; a socket that begins with
    /// @ is an abstract one. Options follow it, separated by commas:
    /// role=server|client (the usual: serve is server, load is client), id=N
    /// (0), ring=DESCRIPTORS (256), buffer=BYTES (2048), mtu=BYTES (1500),
    /// hugepages=on|off (on), mode=interrupt|poll (interrupt), secret=TEXT,
    /// name=TEXT, sealed=required|optional (optional).
    ///
    /// tap is a device of the local kernel, made if it does not exist, and
    /// needs CAP_NET_ADMIN. Options: addr=ADDRESS/PREFIX for the kernel's
    /// side, mtu=BYTES, offload=on|off (on), large=on|off (off), ring=SLOTS.
    #[arg(long, value_name = "LINK")]
    link: String,

    /// Our address with its subnet's prefix length; repeat for more
    #[arg(long = "addr", value_name = "ADDRESS/PREFIX", required = true)]
    addresses: Vec<Cidr>,

    /// The next hop for what is in no subnet of ours; one per family
    #[arg(long = "gateway", value_name = "ADDRESS")]
    gateways: Vec<IpAddr>,

    /// Our Ethernet address [default: a local one, made from the first address]
    #[arg(long, value_name = "ADDRESS")]
    mac: Option<Mac>,

    /// Pin to this core and its memory domain [default: not pinned]
    #[arg(long, value_name = "N")]
    core: Option<u16>,

    /// What to do while there is nothing to do: spin, adaptive, or adaptive:SPIN:WAIT
    ///
    /// spin polls on: the lowest latency, and one core always busy. adaptive
    /// polls for a while (SPIN, 50us) and then sleeps until frames come, at
    /// most for WAIT (10ms).
    #[arg(long, value_name = "POLICY", default_value = "adaptive")]
    idle: Idle,

    /// Congestion control
    #[arg(long, value_enum, default_value_t = Congestion::Cubic)]
    congestion: Congestion,

    /// Write every frame to this file, in pcapng format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    capture: Option<PathBuf>,

    /// Keep the statistics page in this file [default: one per process, where status finds it]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    status_page: Option<PathBuf>,

    /// Print results as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    faults: FaultArgs,
}

/// Harm done to frames, on both directions of this side's link.
#[derive(Args)]
#[command(next_help_heading = "Fault injection (both directions of this side's link)")]
pub(super) struct FaultArgs {
    /// Lose this share of frames
    #[arg(long, value_name = "PERCENT")]
    loss: Option<Probability>,

    /// Let this share of frames come after their successors
    #[arg(long, value_name = "PERCENT")]
    reorder: Option<Probability>,

    /// Let this share of frames come twice
    #[arg(long, value_name = "PERCENT")]
    duplicate: Option<Probability>,

    /// Flip a bit in this share of frames
    #[arg(long, value_name = "PERCENT")]
    corrupt: Option<Probability>,

    /// Let each frame come this much later, as in 10ms
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    delay: Option<Duration>,

    /// Pass at most this many bits per second, as in 100M; 100 ms of them may queue
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,

    /// Draw faults from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
pub(super) struct ServeArgs {
    /// The folder to serve
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath, required_unless_present = "respond")]
    folder: Option<PathBuf>,

    /// Answer every request with this text, or with this many bytes if it is
    /// a size as in 2649 or 64K (write text:64K to mean the text)
    #[arg(long, value_name = "TEXT|SIZE", value_parser = values::respond, conflicts_with = "folder")]
    respond: Option<Respond>,

    /// Listen on this TCP port; repeat for more
    #[arg(long = "listen", value_name = "PORT", default_value = "80", value_parser = values::port)]
    ports: Vec<u16>,

    /// Hold at most this many connections; SYNs for more are dropped and counted
    #[arg(long, value_name = "N", default_value = "100k")]
    max_connections: Count,

    /// Keep at most this much file content in memory; larger files are streamed
    #[arg(long, value_name = "SIZE", default_value = "256M", conflicts_with = "respond")]
    cache_size: Size,

    /// Which symbolic links below the folder are followed
    #[arg(long, value_enum, default_value_t = Symlinks::Off, conflicts_with = "respond")]
    symlinks: Symlinks,

    /// Wait this long for the complete head of a request, then answer 408
    /// (as nginx's client_header_timeout)
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::nonzero_duration)]
    header_timeout: Duration,

    /// Wait this long for more of a request's body, then answer 408
    /// (as nginx's client_body_timeout)
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::nonzero_duration)]
    body_timeout: Duration,

    /// Keep an idle connection open for this long (as nginx's keepalive_timeout)
    #[arg(long, value_name = "TIME", default_value = "65s", value_parser = values::nonzero_duration)]
    keep_alive_timeout: Duration,

    /// Wait this long for a client to take more of a response, then reset
    /// (as nginx's send_timeout)
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::nonzero_duration)]
    send_timeout: Duration,

    /// Finish responses under way for this long when told to stop, then reset
    /// (as nginx's worker_shutdown_timeout)
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    drain_timeout: Duration,

    /// Write an access log in nginx's combined format: off, stderr, or a file's
    /// name; SIGUSR1 opens the file again, for rotation
    #[arg(long, value_name = "off|stderr|FILE", default_value = "off", value_parser = values::access_log)]
    access_log: AccessLog,

    #[command(flatten)]
    host: HostArgs,
}

#[derive(Args)]
pub(super) struct LoadArgs {
    /// What to ask for, as in http://10.0.0.2/index.html
    #[arg(value_name = "URL")]
    target: Target,

    /// Hold this many connections
    #[arg(short, long, value_name = "N", default_value = "64")]
    connections: Count,

    /// Send requests on this many of them, the others stay idle [default: all]
    #[arg(long, value_name = "N")]
    active: Option<Count>,

    /// With --active: choose the connections anew for each request, so that all have their turn
    #[arg(long, requires = "active")]
    mix: bool,

    /// Measure for this long, after the warm-up
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = values::nonzero_duration)]
    duration: Duration,

    /// End after this many measured requests, if that comes first
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<Count>,

    /// Run for this long before measuring
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    warmup: Duration,

    /// Give the connections this long to open; then go on with those that are
    /// open, and say so
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = values::duration)]
    ramp: Duration,

    /// Count a request that takes longer than this as failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::nonzero_duration)]
    timeout: Duration,

    /// Count a connect that takes longer than this as failed, and try again
    /// [default: as --timeout]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    connect_timeout: Option<Duration>,

    /// Open a new connection for every request
    #[arg(long)]
    close: bool,

    /// Have this many requests under way on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u16,

    /// The request's method
    #[arg(short, long, value_name = "METHOD", default_value = "GET")]
    method: String,

    /// Send this text with every request, or the content of a file if it is
    /// @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,

    /// Send this header with every request; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,

    /// Connect from these addresses: one, first-last, or a subnet; repeat for
    /// more [default: --addr of the target's family]
    #[arg(long = "source", value_name = "ADDRESSES")]
    sources: Vec<AddressRange>,

    /// Write the latency distribution to this file, as HdrHistogram prints it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    hgrm: Option<PathBuf>,

    #[command(flatten)]
    host: HostArgs,
}

#[derive(Args)]
pub(super) struct DemoArgs {
    /// Measure each row in this many rounds [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Measure each row this long per round [default: 4s, with --quick 1s]
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    duration: Option<Duration>,

    /// One short round: shows that everything works, measures little
    #[arg(long)]
    quick: bool,

    /// The server's core and the client's core [default: the first two allowed ones]
    #[arg(long, value_name = "SERVER,CLIENT", value_parser = core_pair)]
    cores: Option<(u16, u16)>,

    /// Shuffle the rows of each round by this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Write report.html and results.json into this folder
    #[arg(long, value_name = "FOLDER", default_value = "out/demo", value_hint = ValueHint::DirPath)]
    out: PathBuf,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct StatusArgs {
    /// The statistics page to read [default: those of all running processes]
    #[arg(value_name = "PAGE", value_hint = ValueHint::FilePath)]
    page: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Typed {
    /// What is meant, or what makes no sense together.
    pub(super) fn plan(self) -> Result<Command, String> {
        Ok(match self {
            Self::Serve(args) => Command::Serve(args.plan()?),
            Self::Load(args) => Command::Load(args.plan()?),
            Self::Demo(args) => Command::Demo(args.plan()),
            Self::Status(args) => Command::Status(StatusPlan { page: args.page, json: args.json }),
            Self::Completions { shell } => Command::Completions(shell),
            Self::Man { folder } => Command::Man(folder),
        })
    }
}

impl HostArgs {
    fn plan(self, role: memif::Role, max_connections: u32) -> Result<HostPlan, String> {
        for (index, gateway) in self.gateways.iter().enumerate() {
            if !self.addresses.iter().any(|ours| ours.contains(*gateway)) {
                return Err(format!("the gateway {gateway} is in no subnet of --addr"));
            }
            if self.gateways[..index].iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
                return Err("there is more than one gateway of the same family".to_owned());
            }
        }
        if self.mac.is_some_and(|mac| !mac.is_unicast()) {
            return Err("--mac must be a unicast address".to_owned());
        }
        let link = LinkSpec::parse(&self.link, role).map_err(|why| format!("--link {}: {why}", self.link))?;
        Ok(HostPlan {
            link,
            addresses: self.addresses,
            gateways: self.gateways,
            mac: self.mac,
            core: self.core,
            idle: self.idle,
            congestion: match self.congestion {
                Congestion::Cubic => Algorithm::Cubic,
                Congestion::Newreno => Algorithm::NewReno,
            },
            max_connections,
            capture: self.capture,
            faults: self.faults.plan(),
            status_page: self.status_page,
            json: self.json,
        })
    }
}

/// What may wait before a bottleneck: as long as a common router's queue.
const QUEUE_TIME: Duration = Duration::from_millis(100);

/// A queue holds at least some frames of full size.
const MIN_QUEUE: u64 = 16 * 1514;

impl FaultArgs {
    fn plan(self) -> Option<FaultPlan> {
        let default = Impairment::default();
        let rate = self.rate.map(|BitRate(bits)| {
            let bytes_per_second = bits / 8;
            let queue = bytes_per_second as f64 * QUEUE_TIME.as_secs_f64();
            Rate { bytes_per_second, queue_bytes: (queue as u64).max(MIN_QUEUE) }
        });
        let impairment = Impairment {
            loss: self.loss.unwrap_or_default(),
            reorder: self.reorder.unwrap_or_default(),
            duplicate: self.duplicate.unwrap_or_default(),
            corrupt: self.corrupt.unwrap_or_default(),
            delay: self.delay.unwrap_or_default(),
            rate,
            ..default
        };
        (impairment != default).then(|| FaultPlan::both(impairment, self.seed))
    }
}

/// The most connections that may be asked for: ten million, and half as many
/// again for those on their way out.
const MAX_CONNECTIONS: u64 = 15_000_000;

fn connections(count: Count, flag: &str) -> Result<u32, String> {
    u32::try_from(count.0)
        .ok()
        .filter(|n| u64::from(*n) <= MAX_CONNECTIONS)
        .ok_or_else(|| format!("{flag} can be at most {MAX_CONNECTIONS}"))
}

impl ServeArgs {
    fn plan(self) -> Result<ServePlan, String> {
        let max_connections = connections(self.max_connections, "--max-connections")?;
        let mut server = match (self.folder, self.respond) {
            (_, Some(respond)) => server::Config::respond(respond),
            (Some(folder), None) => server::Config::directory(folder),
            (None, None) => return Err("give a folder to serve, or --respond".to_owned()),
        };
        if let server::Content::Directory(directory) = &mut server.content {
            directory.cache_bytes = usize::try_from(self.cache_size.0).map_err(|_| "--cache-size is too large")?;
            directory.symlinks = match self.symlinks {
                Symlinks::Off => server::Symlinks::Off,
                Symlinks::Within => server::Symlinks::WithinRoot,
                Symlinks::On => server::Symlinks::On,
            };
        }
        server.access_log = self.access_log;
        let timeouts = &mut server.timeouts;
        timeouts.http.header = self.header_timeout;
        timeouts.http.body = self.body_timeout;
        timeouts.http.keep_alive = self.keep_alive_timeout;
        timeouts.http.send = self.send_timeout;
        timeouts.drain = self.drain_timeout;
        server.limits.connections = max_connections as usize;
        let mut ports = self.ports;
        ports.sort_unstable();
        ports.dedup();
        Ok(ServePlan { host: self.host.plan(memif::Role::Server, max_connections)?, server, ports })
    }
}

impl LoadArgs {
    fn plan(self) -> Result<LoadPlan, String> {
        let held = connections(self.connections, "--connections")?;
        let target = self.target.address.ip();
        let host = self.host.plan(memif::Role::Client, held)?;
        let sources = sources(&self.sources, &host.addresses, target)?;
        let reached = host.addresses.iter().any(|ours| ours.contains(target));
        let routed = host.gateways.iter().any(|gateway| gateway.is_ipv4() == target.is_ipv4());
        if !reached && !routed {
            return Err(format!("{target} is in no subnet of --addr, and there is no --gateway"));
        }
        let mut request = load::Request::get(&self.target.host, &self.target.path);
        request.method = self.method;
        request.body = self.body.map_or(Ok(Vec::new()), |body| content(&body))?;
        request.headers = self.headers.into_iter().map(|header| (header.name, header.value)).collect();
        let mut plan = load::Plan::new(self.target.address, request);
        plan.sources = sources;
        plan.connections = held;
        plan.active = self.active.map(|active| connections(active, "--active")).transpose()?;
        plan.mix = self.mix;
        plan.stop = match self.requests {
            Some(Count(count)) => load::Stop::Requests { count, within: self.duration },
            None => load::Stop::After(self.duration),
        };
        plan.warm_up = self.warmup;
        plan.ramp_limit = self.ramp;
        plan.timeout = self.timeout;
        plan.connect_timeout = self.connect_timeout.unwrap_or(self.timeout);
        plan.pipeline = self.pipeline;
        if self.close {
            plan.reuse = load::Reuse::ServerCloses;
        }
        plan.check().map_err(|why| why.to_string())?;
        Ok(LoadPlan { host, load: plan, hgrm: self.hgrm })
    }
}

/// A body: as written, or of the file that `@` names.
fn content(text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix('@') {
        Some(file) => std::fs::read(file).map_err(|why| format!("--body: cannot read {file}: {why}")),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// The addresses to connect from: those asked for, or else our own ones.
fn sources(asked: &[AddressRange], ours: &[Cidr], target: IpAddr) -> Result<Vec<IpAddr>, String> {
    let alike = |address: IpAddr| address.is_ipv4() == target.is_ipv4();
    if let Some(other) = asked.iter().find(|range| !alike(range.first)) {
        return Err(format!("--source {} and the target {target} are of different families", other.first));
    }
    if !asked.is_empty() {
        return Ok(asked.iter().flat_map(AddressRange::iter).collect());
    }
    let own: Vec<IpAddr> = ours.iter().map(|cidr| cidr.address).filter(|address| alike(*address)).collect();
    if own.is_empty() { Err(format!("no --addr is of the family of the target {target}")) } else { Ok(own) }
}

impl DemoArgs {
    fn plan(self) -> DemoPlan {
        let (rounds, seconds, warmup) = if self.quick { (1, 1, 300) } else { (5, 4, 1_000) };
        DemoPlan {
            rounds: self.rounds.unwrap_or(rounds),
            duration: self.duration.unwrap_or(Duration::from_secs(seconds)),
            warmup: Duration::from_millis(warmup),
            cores: self.cores,
            seed: self.seed,
            out: self.out,
            json: self.json,
        }
    }
}

fn core_pair(text: &str) -> Result<(u16, u16), String> {
    text.split_once(',')
        .and_then(|(server, client)| Some((server.trim().parse().ok()?, client.trim().parse().ok()?)))
        .filter(|(server, client)| server != client)
        .ok_or_else(|| "write two different cores, as in 0,1".to_owned())
}
