//! Instructions per request: one side's whole turn, from the frame received
//! to the frame sent, counted by callgrind. The other side runs beside it and
//! is not counted.

use crate::BenchError;
use crate::callgrind::{self, Profile};
use crate::ordinary::{hosts, ordinary, passing};
use crate::peer::{Answerer, Asker};
use crate::program::Scratch;
use crate::rig::{Rack, Rig, endless};
use crate::sealing;
use crate::steps;
use clap::ValueEnum;
use latency::{SeriesHeap, SeriesTable};
use link::Link;
use load::{Heads, Plan, Reuse};
use nginx::{Configuration, Disk, Surroundings};
use server::{Config, Content, ReaderKind, Respond};
use std::path::Path;
use std::sync::Arc;

/// What a small response to a keep-alive request may cost, in instructions,
/// where 32 requests share a turn.
pub const BOUND: f64 = 1_085.0;

/// The same where a request has the turn to itself.
pub const BOUND_ALONE: f64 = 1_265.0;

/// The same where the request has a browser's head.
pub const BOUND_BROWSER: f64 = 1_810.0;

/// The same where it has the turn to itself, too.
pub const BOUND_BROWSER_ALONE: f64 = 1_990.0;

/// What a file of two segments may cost where requests share a turn.
pub const BOUND_FILE: f64 = 1_915.0;

/// The same where it has the turn to itself.
pub const BOUND_FILE_ALONE: f64 = 2_115.0;

/// What a small answer that is passed on may cost, of an upstream over the same link, where
/// requests share a turn.
pub const BOUND_PASSED: f64 = 15_200.0;

/// The same where it has the turn to itself.
pub const BOUND_PASSED_ALONE: f64 = 16_050.0;

/// What a file by a bare nginx.conf may cost where requests share a turn.
pub const BOUND_CONF: f64 = 2_025.0;

/// What a file may cost where a site has what an ordinary one has, a log among that, and
/// requests share a turn.
pub const BOUND_SITE: f64 = 3_900.0;

/// The same where it has the turn to itself.
pub const BOUND_SITE_ALONE: f64 = 4_400.0;

/// What a small answer to a small request may cost in records of TLS, beside what the cipher
/// itself takes, where requests share a turn.
pub const BOUND_SEALED: f64 = 2_150.0;

/// The same where it has the turn to itself.
pub const BOUND_SEALED_ALONE: f64 = 2_330.0;

/// Requests before any is counted: caches are filled, tables have grown.
const WARM_UP: u64 = 2_000;

/// The file's length, as in the demo.
const FILE_BYTES: usize = 2_649;

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Case {
    /// Small response, one connection: one request in each turn
    SmallSingle,
    /// Small response, 64 connections: 32 requests in each turn
    SmallBurst,
    /// A file of 2,649 bytes, one connection
    FileSingle,
    /// A file of 2,649 bytes, 64 connections
    FileBurst,
    /// The file by a bare nginx.conf, one connection
    ConfSingle,
    /// The file by a bare nginx.conf, 64 connections
    ConfBurst,
    /// The file as an ordinary site has it by its nginx.conf, one connection
    SiteSingle,
    /// The file as an ordinary site has it by its nginx.conf, 64 connections
    SiteBurst,
    /// The file by an nginx.conf with three hosts of ten locations, 64 connections
    HostsFew,
    /// The same with 10,000 hosts
    HostsMany,
    /// A request passed on to an upstream over the same link, one connection
    ProxySingle,
    /// A request passed on to an upstream over the same link, 64 connections
    ProxyBurst,
    /// Small response with latencies counted, one connection
    TimedSingle,
    /// Small response with latencies counted, 64 connections
    TimedBurst,
    /// The file by a bare nginx.conf with latencies counted, 64 connections
    TimedConfBurst,
    /// Small response to a browser's head of some 600 bytes, one connection
    BrowserSingle,
    /// Small response to such heads, another on each of 64 connections
    BrowserBurst,
    /// Small response on a secured connection: records sealed and opened
    SealedSingle,
    /// Small response on 64 secured connections
    SealedBurst,
    /// A file of 2,649 bytes on 64 secured connections
    SealedFileBurst,
    /// Small response over HTTP/2, one connection with one stream
    H2Single,
    /// Small response over HTTP/2, 10 connections with 100 streams each
    H2Burst,
    /// Small response to browsers' heads over HTTP/2, 10 connections with 100 streams each
    H2BrowserBurst,
    /// A request over HTTP/2 passed on to an upstream over the same link, 10 connections with 100 streams each
    H2ProxyBurst,
    /// Small response, a new connection for each request, one at a time
    NewSingle,
    /// Small response, a new connection for each request, 64 at a time
    NewBurst,
}

/// Whose instructions are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CostSide {
    /// The server
    Server,
    /// The generator
    Generator,
}

impl CostSide {
    fn title(self) -> &'static str {
        match self {
            Self::Server => "server's side",
            Self::Generator => "generator's side",
        }
    }
}

impl Case {
    fn title(self) -> &'static str {
        match self {
            Self::SmallSingle => "small response, keep-alive, one request per turn",
            Self::SmallBurst => "small response, keep-alive, bursts from 64 connections",
            Self::FileSingle => "2,649-byte file, keep-alive, one request per turn",
            Self::FileBurst => "2,649-byte file, keep-alive, bursts from 64 connections",
            Self::ConfSingle => "2,649-byte file by a bare nginx.conf, one request per turn",
            Self::ConfBurst => "2,649-byte file by a bare nginx.conf, bursts from 64 connections",
            Self::SiteSingle => "2,649-byte file of an ordinary site by its nginx.conf, one request per turn",
            Self::SiteBurst => "2,649-byte file of an ordinary site by its nginx.conf, bursts from 64 connections",
            Self::HostsFew => "2,649-byte file, three hosts of ten locations, bursts from 64 connections",
            Self::HostsMany => "2,649-byte file, 10,000 hosts of ten locations, bursts from 64 connections",
            Self::ProxySingle => "small response passed on, keep-alive both sides, one request per turn",
            Self::ProxyBurst => "small response passed on, keep-alive both sides, bursts from 64 connections",
            Self::TimedSingle => "small response, keep-alive, one request per turn, latencies counted",
            Self::TimedBurst => "small response, keep-alive, bursts from 64 connections, latencies counted",
            Self::TimedConfBurst => "2,649-byte file by a bare nginx.conf, bursts, latencies counted",
            Self::BrowserSingle => "small response to a browser's head, keep-alive, one request per turn",
            Self::BrowserBurst => "small response to a browser's head, keep-alive, bursts from 64 connections",
            Self::SealedSingle => "small response, records of AES-128-GCM, keep-alive, one request per turn",
            Self::SealedBurst => "small response, records of AES-128-GCM, keep-alive, bursts from 64 connections",
            Self::SealedFileBurst => "2,649-byte file, records of AES-128-GCM, bursts from 64 connections",
            Self::H2Single => "small response over HTTP/2, one request per turn",
            Self::H2Burst => "small response over HTTP/2, 10 connections of 100 streams",
            Self::H2BrowserBurst => "small response to browsers' heads over HTTP/2, 10 connections of 100 streams",
            Self::H2ProxyBurst => "small response passed on, keep-alive, to 10 connections of 100 streams over HTTP/2",
            Self::NewSingle => "small response, new connection per request, one at a time",
            Self::NewBurst => "small response, new connection per request, 64 at a time",
        }
    }

    /// What the specification promises.
    fn bound(self, side: CostSide) -> Option<f64> {
        match (side, self) {
            (CostSide::Server, Self::SmallBurst) => Some(BOUND),
            (CostSide::Server, Self::SmallSingle) => Some(BOUND_ALONE),
            (CostSide::Server, Self::BrowserBurst) => Some(BOUND_BROWSER),
            (CostSide::Server, Self::BrowserSingle) => Some(BOUND_BROWSER_ALONE),
            (CostSide::Server, Self::FileBurst) => Some(BOUND_FILE),
            (CostSide::Server, Self::FileSingle) => Some(BOUND_FILE_ALONE),
            (CostSide::Server, Self::ConfBurst) => Some(BOUND_CONF),
            (CostSide::Server, Self::SiteBurst) => Some(BOUND_SITE),
            (CostSide::Server, Self::SiteSingle) => Some(BOUND_SITE_ALONE),
            (CostSide::Server, Self::ProxyBurst) => Some(BOUND_PASSED),
            (CostSide::Server, Self::ProxySingle) => Some(BOUND_PASSED_ALONE),
            (CostSide::Server, Self::SealedBurst) => Some(BOUND_SEALED),
            (CostSide::Server, Self::SealedSingle) => Some(BOUND_SEALED_ALONE),
            _ => None,
        }
    }

    /// Whether its bound is about what was counted. That of records is by steps of a processor
    /// with VAES: callgrind shows a program none.
    fn is_judged(self, counter: Counter) -> bool {
        let is_sealed = matches!(self, Self::SealedBurst | Self::SealedSingle);
        !is_sealed || counter == Counter::Steps && sealing::features().contains("vaes")
    }

    fn plan(self) -> Plan {
        let file = matches!(
            self,
            Self::FileSingle
                | Self::FileBurst
                | Self::ConfSingle
                | Self::ConfBurst
                | Self::SiteSingle
                | Self::SiteBurst
                | Self::HostsFew
                | Self::HostsMany
                | Self::TimedConfBurst
                | Self::SealedFileBurst
        );
        let mut plan = endless(if file { "/page.html" } else { "/" });
        if matches!(self, Self::BrowserSingle | Self::BrowserBurst | Self::H2BrowserBurst) {
            plan.heads = Heads::Browser;
        }
        let single = matches!(
            self,
            Self::SmallSingle
                | Self::FileSingle
                | Self::ConfSingle
                | Self::SiteSingle
                | Self::ProxySingle
                | Self::TimedSingle
                | Self::BrowserSingle
                | Self::SealedSingle
                | Self::H2Single
                | Self::NewSingle
        );
        plan.connections = if single { 1 } else { 64 };
        if matches!(self, Self::H2Single | Self::H2Burst | Self::H2BrowserBurst | Self::H2ProxyBurst) {
            plan.http2 = Some(load::Http2::default());
            (plan.connections, plan.pipeline) = if single { (1, 1) } else { (10, 100) };
        }
        if matches!(self, Self::NewSingle | Self::NewBurst) {
            plan.reuse = Reuse::ServerCloses;
        }
        plan
    }
}

/// What `bench cost` is asked.
#[derive(Debug, clap::Args)]
pub struct CostArgs {
    /// Measure only these cases
    #[arg(value_enum)]
    cases: Vec<Case>,
    /// Whose instructions
    #[arg(long, value_enum, default_value_t = CostSide::Server)]
    side: CostSide,
    /// Requests of each case [default: 20000; 400 with --steps]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Count by steps of this processor: a cipher has instructions that callgrind has not
    #[arg(long, conflicts_with_all = ["silos", "bonded", "by_table"])]
    steps: bool,
    /// Functions told of each case
    #[arg(long, value_name = "N", default_value_t = 24)]
    functions: usize,
    /// With each of these numbers of silos, as in 1,2,4,8,16
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    silos: Vec<u16>,
    /// With the link as it is, and as the only port of an aggregation
    #[arg(long, conflicts_with_all = ["silos", "side"])]
    bonded: bool,
    /// With the link as it is, and by the copy of the stack that links share
    #[arg(long, conflicts_with_all = ["silos", "side", "bonded"])]
    by_table: bool,
}

/// What the server's link has around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Around {
    /// Nothing
    Nothing,
    /// An aggregation whose only port it is
    Bond,
    /// The table by which links are called that have no copy of the stack
    Table,
}

impl Around {
    const fn title(self) -> &'static str {
        match self {
            Self::Nothing => "the link",
            Self::Bond => "it as an aggregation's only port",
            Self::Table => "it by the copy of the stack that links share",
        }
    }
}

impl CostArgs {
    /// Measures what is asked for, and prints it. Returns whether the promised bounds hold.
    ///
    /// # Errors
    /// If what counts cannot be run, or a case does not work.
    pub fn run(&self) -> Result<bool, BenchError> {
        let counter = if self.steps { Counter::Steps } else { Counter::Callgrind };
        let requests = self.requests.unwrap_or(counter.usual_requests());
        match self.silos.is_empty() {
            _ if self.bonded => run_around(&self.cases, requests, Around::Bond).map(|()| true),
            _ if self.by_table => run_around(&self.cases, requests, Around::Table).map(|()| true),
            true => run(&self.cases, self.side, requests, self.functions, counter),
            false => run_silos(&self.cases, &self.silos, requests),
        }
    }
}

/// Who counts instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counter {
    /// callgrind, whose processor has not all that this one may have.
    Callgrind,
    /// This processor, step by step.
    Steps,
}

impl Counter {
    /// Requests of a case, where nobody says how many.
    const fn usual_requests(self) -> u64 {
        match self {
            Self::Callgrind => 20_000,
            Self::Steps => 400,
        }
    }

    fn profile(self, arguments: &[String]) -> Result<Profile, BenchError> {
        match self {
            Self::Callgrind => callgrind::profile(arguments, "*counted_turn*"),
            Self::Steps => steps::profile(arguments, "counted_turn"),
        }
    }
}

/// Measures `cases` (all, if none are named), `requests` of each, and prints
/// what they cost. Returns whether the promised bounds hold.
///
/// # Errors
/// If callgrind or addr2line cannot be run, or a case does not work.
fn run(cases: &[Case], side: CostSide, requests: u64, functions: usize, counter: Counter) -> Result<bool, BenchError> {
    let cases = if cases.is_empty() { Case::value_variants() } else { cases };
    let mut kept = true;
    let mut sums = Vec::new();
    for case in cases {
        let profile = counter.profile(&case_arguments(*case, side, requests))?;
        let (counted, turns) = (profile.said("requests")?, profile.said("turns")?);
        let [each, cipher] =
            [profile.total(), profile.of(callgrind::CIPHER)].map(|instructions| instructions as f64 / counted as f64);
        print_profile(*case, &profile, counted, turns, functions);
        sums.push((*case, each - cipher, cipher));
    }
    println!("instructions per request, {}, wire to wire", side.title());
    for (case, each, cipher) in sums {
        let verdict = match case.bound(side) {
            Some(bound) if !case.is_judged(counter) => {
                format!("  at most {bound} by steps of a processor with VAES: not judged here")
            }
            Some(bound) if each <= bound => format!("  at most {bound}: kept"),
            Some(bound) => {
                kept = false;
                format!("  at most {bound}: NOT KEPT")
            }
            None => String::new(),
        };
        let beside = if cipher > 0.0 { format!(", {cipher:.1} of the cipher beside") } else { String::new() };
        println!("{each:9.1}  {}{beside}{verdict}", case.title());
    }
    Ok(kept)
}

/// What a request may cost more where the silos are many, as a factor.
pub const GROWTH: f64 = 1.05;

/// Measures `cases` (the small responses, if none are named) with each of
/// these numbers of silos, and prints them side by side. Returns whether the
/// promised bound holds.
///
/// # Errors
/// As for [`run`].
fn run_silos(cases: &[Case], silos: &[u16], requests: u64) -> Result<bool, BenchError> {
    let cases = if cases.is_empty() { &[Case::SmallSingle, Case::SmallBurst] } else { cases };
    let mut kept = true;
    println!("instructions per request, server's side, wire to wire, by number of silos");
    for case in cases {
        println!("{}", case.title());
        let mut first = None;
        for &count in silos {
            let mut arguments = case_arguments(*case, CostSide::Server, requests * u64::from(count)).to_vec();
            arguments.extend(["--silos".into(), count.to_string()]);
            let profile = callgrind::profile(&arguments, "*counted_turn*")?;
            let each = profile.total() as f64 / profile.said("requests")? as f64;
            let grown = each / *first.get_or_insert(each);
            let holds = grown <= GROWTH;
            kept &= holds || case.bound(CostSide::Server).is_none();
            let verdict = match case.bound(CostSide::Server) {
                Some(_) if holds => format!("  at most {GROWTH}: kept"),
                Some(_) => format!("  at most {GROWTH}: NOT KEPT"),
                None => String::new(),
            };
            println!("{count:6} silos {each:9.1}  x {grown:.3}{verdict}");
        }
    }
    Ok(kept)
}

/// Measures `cases` (the small responses, if none are named) with the link as
/// it is, and with it as the only port of an aggregation.
///
/// # Errors
/// As for [`run`].
fn run_around(cases: &[Case], requests: u64, around: Around) -> Result<(), BenchError> {
    let cases = if cases.is_empty() { &[Case::SmallSingle, Case::SmallBurst] } else { cases };
    let [alone, wrapped] = [Around::Nothing, around].map(Around::title);
    println!("instructions per request, server's side, wire to wire: {alone}, and {wrapped}");
    for case in cases {
        let mut arguments = case_arguments(*case, CostSide::Server, requests).to_vec();
        let bare = callgrind::profile(&arguments, "*counted_turn*")?;
        arguments.extend(["--around".into(), name_of(around)]);
        let wrapped = callgrind::profile(&arguments, "*counted_turn*")?;
        let each = |profile: &Profile| Ok::<_, BenchError>(profile.total() as f64 / profile.said("requests")? as f64);
        let (bare, wrapped) = (each(&bare)?, each(&wrapped)?);
        println!("{bare:9.1} {wrapped:9.1} {:+9.1}  {}", wrapped - bare, case.title());
    }
    Ok(())
}

/// What our own server's stack takes for a request of a case: all instructions but those of what the
/// stack carries.
///
/// # Errors
/// As for [`run`].
pub(crate) fn stack_work(case: Case, requests: u64) -> Result<f64, BenchError> {
    let profile = callgrind::profile(&case_arguments(case, CostSide::Server, requests), "*counted_turn*")?;
    let carried = |krate: &str| ["web", "http"].iter().any(|folder| callgrind::has_crate(folder, krate));
    let by_crate = profile.by_crate();
    let stack: u64 = by_crate.iter().filter(|(krate, _)| !carried(krate)).map(|(_, count)| count).sum();
    Ok(stack as f64 / profile.said("requests")? as f64)
}

fn case_arguments(case: Case, side: CostSide, requests: u64) -> [String; 4] {
    ["cost-case".into(), name_of(case), name_of(side), requests.to_string()]
}

/// As it is written on the command line.
fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn print_profile(case: Case, profile: &Profile, requests: u64, turns: u64, functions: usize) {
    let per = |instructions: u64| instructions as f64 / requests as f64;
    let total = per(profile.total());
    println!("== {}", case.title());
    println!("{total:9.1}  instructions per request ({requests} requests in {turns} turns)");
    for (what, instructions) in profile.by_crate() {
        println!("{:9.1}  {:4.1} %  {what}", per(instructions), per(instructions) / total * 100.0);
    }
    println!("     of which in the functions, with what is inlined from libraries");
    for (what, instructions) in profile.by_function().into_iter().take(functions) {
        println!("{:9.1}  {what}", per(instructions));
    }
    println!();
}

/// One case as the profiled process runs it; prints how much was counted.
///
/// # Errors
/// If the case does not work.
pub fn run_case(case: Case, side: CostSide, requests: u64, silos: u16, around: Around) -> Result<(), BenchError> {
    let site = Scratch::make()?;
    std::fs::write(site.path().join("page.html"), [b'x'; FILE_BYTES])?;
    let config = || {
        Ok::<_, BenchError>(match case {
            Case::FileSingle | Case::FileBurst | Case::SealedFileBurst => {
                // Read within the turn: turns that wait for a helper thread would
                // be counted, and how many there are is the machine's to say.
                let mut config = Config::directory(site.path());
                if let Content::Directory(directory) = &mut config.content {
                    directory.reader = ReaderKind::Inline;
                }
                config
            }
            Case::ConfSingle | Case::ConfBurst | Case::TimedConfBurst => by_conf(site.path(), BARE)?,
            Case::ProxySingle | Case::ProxyBurst => by_conf(site.path(), &passing("", "10.0.1.1:8080"))?,
            Case::H2ProxyBurst => {
                by_conf(site.path(), &passing("", "10.0.1.1:8080").replace("listen 80;", "listen 80 http2;"))?
            }
            Case::H2Single | Case::H2Burst | Case::H2BrowserBurst => by_conf(site.path(), SMALL_HTTP2)?,
            Case::HostsFew => by_conf(site.path(), &hosts("", "80", 3))?,
            Case::HostsMany => by_conf(site.path(), &hosts("", "80", 10_000))?,
            Case::SiteSingle | Case::SiteBurst => by_conf(site.path(), &ordinary(""))?,
            _ => Config::respond(Respond::Text("Hello, World!".into())),
        })
    };
    let mut config = config()?;
    if matches!(case, Case::TimedSingle | Case::TimedBurst | Case::TimedConfBurst) {
        config.latency = Some(SeriesTable::new(SeriesHeap::default()).board(0));
    }
    // One silo has its link to itself.
    if silos > 1 {
        return run_rack(Rack::new(silos.into(), || config.clone(), || case.plan())?, requests);
    }
    if matches!(case, Case::ProxySingle | Case::ProxyBurst | Case::H2ProxyBurst) {
        let answering = Config::respond(Respond::Text("Hello, World!".into()));
        return run_rig(Rig::passing(config, case.plan(), answering)?, side, requests);
    }
    if matches!(case, Case::SealedSingle | Case::SealedBurst | Case::SealedFileBurst) {
        return run_rig(Rig::secured(config, case.plan())?, side, requests);
    }
    match around {
        Around::Nothing => run_rig(Rig::new(config, case.plan())?, side, requests),
        Around::Bond => run_rig(Rig::bonded(config, case.plan())?, side, requests),
        Around::Table => run_rig(Rig::by_table(config, case.plan())?, side, requests),
    }
}

/// A server of a folder.
const BARE: &str = "events {} http { types { text/html html; } access_log off; server { listen 80; root FOLDER; } }";

/// A small text over HTTP/2.
const SMALL_HTTP2: &str = "events {} http { access_log off; keepalive_requests 1000000000; \
     server { listen 80 http2; location / { return 200 'Hello, World!'; } } }";

/// What an nginx.conf says, in its folder, whose files are read within the turn.
pub(crate) fn by_conf(folder: &Path, text: &str) -> Result<Config, BenchError> {
    let file = folder.join("nginx.conf");
    let text = text.replace("FOLDER", &folder.display().to_string()).replace("HOST", "10.0.0.2");
    std::fs::write(&file, text)?;
    let around = Surroundings { prefix: folder, hostname: "bench", root: true, resolve: |_| Vec::new() };
    let read = Configuration::read(&mut Disk, &file, b"").map_err(|why| why.to_string())?;
    let compiled = nginx::compile(&read, around).map_err(|why| why.to_string())?;
    let mut config = Config::program(Arc::new(compiled.program));
    if let Content::Program(_, directory) = &mut config.content {
        directory.reader = ReaderKind::Inline;
    }
    Ok(config)
}

fn run_rig<L: Link, A: Asker, S: Answerer>(
    mut rig: Rig<L, A, S>,
    side: CostSide,
    requests: u64,
) -> Result<(), BenchError> {
    rig.warm_up(WARM_UP)?;
    let start = rig.requests();
    while rig.requests() - start < requests {
        match side {
            CostSide::Server => {
                rig.client_turn();
                rig.counted_server_turn();
            }
            CostSide::Generator => {
                rig.counted_client_turn();
                rig.server_turn();
            }
        }
    }
    println!("requests {}", rig.requests() - start);
    println!("turns {}", rig.counted_turns());
    Ok(())
}

fn run_rack(mut rack: Rack, requests: u64) -> Result<(), BenchError> {
    rack.warm_up(WARM_UP)?;
    let start = rack.requests();
    rack.count();
    while rack.requests() - start < requests {
        rack.round();
    }
    println!("requests {}", rack.requests() - start);
    println!("turns {}", rack.counted_turns());
    Ok(())
}
