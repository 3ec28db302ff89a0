//! Films that are larger than memory, sent to players: nginx and Nearside on kernel sockets, Nearside over
//! AF_XDP and shared memory, over TLS and in the clear. Each serves the same store by the same nginx.conf,
//! to more and more streams, until some run dry or a core is full. Server and generator have one core each.
//!
//! | module | for |
//! | --- | --- |
//! | `arms` | who serves, and how |
//! | `climb` | the steps, the knee, and the figures of both |
//! | `moved` | bytes that pass memory, by a model and as counted |

mod arms;
mod climb;
mod moved;

use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Figure, FigureCurve, Run, RunVerdict};
use arms::{FilmArm, FilmServer, FilmTransport};
use budget::BudgetMachine;
use climb::{COST, COUNTED, Climb, FilmStep, KEPT, MODELLED, READ, of_step};
use demo::child::{Running, call};
use demo::field::{Ask, Field, Generator, Link};
use demo::films::{FILMS, FilmStore};
use demo::kernel::{start_nginx, workers};
use demo::media_site::{FilmReading, MediaSite, Sealer, make_certificate};
use demo::memory_group::MemoryGroup;
use demo::netns::{Namespaces, SERVER};
use demo::stand::{Server, Stand, two_cores};
use moved::MemoryCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use topology::Topology;

/// The films, and who plays them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Streams of each step, from few to many; it ends where some run dry, or a core is full.
    #[serde(default = "default_streams")]
    pub streams: Vec<u32>,
    /// Mbit/s that each plays.
    #[serde(default = "default_mbit")]
    pub mbit: f64,
    /// Milliseconds of playing that a player's buffer holds.
    #[serde(default = "default_buffer")]
    pub buffer_milliseconds: u64,
    /// Seconds before each step is measured: half of them to open connections.
    #[serde(default = "default_lead")]
    pub lead_seconds: u64,
    /// Seconds for which each step is measured.
    #[serde(default = "default_seconds")]
    pub seconds: u64,
    /// MiB of memory for films: of Nearside over links its own (--media-memory), of the others a control
    /// group's.
    #[serde(default = "default_memory")]
    pub memory_mib: u64,
    /// How many times as much the films have.
    #[serde(default = "default_times")]
    pub times: u32,
    /// The folder of the films, which are made if they are not there.
    #[serde(default = "default_folder")]
    pub folder: PathBuf,
    /// Who serves; the first is what the others are compared with.
    #[serde(default = "default_servers")]
    pub servers: Vec<FilmServer>,
    /// What over.
    #[serde(default = "default_transports")]
    pub transports: Vec<FilmTransport>,
    /// How nginx reads.
    #[serde(default)]
    pub nginx_reads: NginxReads,
    /// Where players are that are no peers over shared memory.
    #[serde(default)]
    pub players: Players,
    /// The nearside to measure; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

/// How nginx has films read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NginxReads {
    /// `sendfile on; aio threads`: threads read what is not in memory.
    #[default]
    Threads,
    /// `sendfile on`: the worker waits for the disk.
    Sendfile,
    /// `directio` by threads: past the page cache.
    Directio,
}

/// Where players are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Players {
    /// On kernel sockets, which take long segments uncut from a veth pair.
    #[default]
    Sockets,
    /// Over AF_XDP, which leaves more of their core to them; each segment is cut by the server's kernel.
    Bypass,
}

fn default_streams() -> Vec<u32> {
    vec![50, 100, 200, 400, 800, 1_600, 3_200]
}

const fn default_mbit() -> f64 {
    5.0
}

const fn default_buffer() -> u64 {
    1_000
}

const fn default_lead() -> u64 {
    6
}

const fn default_seconds() -> u64 {
    10
}

const fn default_memory() -> u64 {
    1_024
}

const fn default_times() -> u32 {
    4
}

fn default_folder() -> PathBuf {
    "out/media".into()
}

fn default_servers() -> Vec<FilmServer> {
    FilmServer::ALL.into()
}

fn default_transports() -> Vec<FilmTransport> {
    vec![FilmTransport::Tls, FilmTransport::Plain]
}

impl From<NginxReads> for FilmReading {
    fn from(reads: NginxReads) -> Self {
        match reads {
            NginxReads::Threads => Self::Threads,
            NginxReads::Sendfile => Self::Sendfile,
            NginxReads::Directio => Self::Directio,
        }
    }
}

/// How long the disk is read alone before each run.
const ALONE: Duration = Duration::from_secs(1);

/// What a server itself needs of a control group's memory, beside films.
const OWN_MEMORY: u64 = 128 << 20;

/// What is asked for over TLS: a suite and a group that both sides have.
const SUITE: [&str; 4] = ["--insecure", "--tls=1.3", "--ciphers=TLS_AES_128_GCM_SHA256", "--curves=X25519"];

/// How many times nginx's content for the same processor time there is to be, on kernel sockets and over
/// shared memory.
const BOUNDS: [(FilmServer, f64); 2] = [(FilmServer::Sockets, 1.0), (FilmServer::Memif, 2.0)];

/// The experiment.
pub struct Media {
    settings: Settings,
    arms: Vec<FilmArm>,
    store: FilmStore,
    stand: Result<Stand, String>,
    /// Whether a control group can be had.
    group: Result<(), String>,
    machine: Result<BudgetMachine, String>,
    counters: Result<MemoryCounters, String>,
    names: Option<Namespaces>,
    is_ready: bool,
}

/// A server that runs, and what ends with it.
struct Serving {
    server: Server,
    // Who is in a group ends before it.
    nginx: Option<Running>,
    _group: Option<MemoryGroup>,
}

impl Media {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        settings.check()?;
        let stand = match two_cores() {
            Ok(cores) => Ok(Stand::new(settings.program.as_deref(), cores)?),
            Err(why) => Err(why),
        };
        let bytes = (settings.memory_mib << 20).saturating_mul(u64::from(settings.times));
        Ok(Self {
            arms: FilmArm::all(&settings.servers, &settings.transports),
            store: FilmStore::new(&settings.folder, bytes),
            stand,
            group: MemoryGroup::make(settings.memory()).map(drop).map_err(|why| why.to_string()),
            machine: Topology::here().map(|here| BudgetMachine::of(&here, &[])).map_err(|why| why.to_string()),
            counters: MemoryCounters::of(Path::new("/")),
            names: None,
            is_ready: false,
            settings: settings.clone(),
        })
    }

    /// Makes what all runs need, at the first.
    fn prepare(&mut self, setting: &Setting) -> Result<(), Failure> {
        if self.is_ready {
            return Ok(());
        }
        let stand = self.stand.as_ref().map_err(String::as_str)?;
        let runs = |arm: &&FilmArm| arm.missing(stand.program()).is_none();
        self.store.make(setting.interrupt)?;
        if self.arms.iter().filter(runs).any(|arm| arm.secured.is_some()) {
            make_certificate(stand.folder())?;
        }
        if self.arms.iter().filter(runs).any(|arm| arm.server != FilmServer::Memif) {
            let names = Namespaces::make()?;
            names.keep_to_cores(stand.cores)?;
            self.names = Some(names);
        }
        self.is_ready = true;
        Ok(())
    }

    /// Starts a server of films.
    fn serve(&self, field: &Field<'_>, arm: FilmArm) -> Result<Serving, Failure> {
        let link = arm.server.link();
        let port = if arm.secured.is_some() { 443 } else { 80 };
        let address = if arm.server.is_kernels() { SERVER } else { Field::address(link) };
        let (films, listen, own) = (self.store.place()?, format!("{address}:{port}"), field.stand.folder());
        let reading = self.settings.nginx_reads.into();
        let site = MediaSite { films: &films, own, listen: &listen, secured: arm.secured, reading };
        let file = own.join("media.conf");
        fs::write(&file, site.configuration()).map_err(|why| format!("cannot write {}: {why}", file.display()))?;
        // Of the one that ran before.
        let _ = fs::remove_file(own.join("pid"));
        let group = (arm.server.is_kernels() && self.group.is_ok()).then(|| MemoryGroup::make(self.settings.memory()));
        let group = group.transpose()?;
        if arm.server != FilmServer::Nginx {
            // All of its threads are on the one core: a silo that polls without pause would leave those
            // that read and shake hands next to nothing, so that it has the server's own policy.
            let memory = format!("--media-memory={}M", self.settings.memory_mib);
            let more = if arm.server.is_kernels() { Vec::new() } else { vec![memory] };
            let server = field.serve_configuration_with(link, &file, &more)?;
            for pid in server.processes() {
                group.as_ref().map_or(Ok(()), |group| group.add(*pid))?;
            }
            return Ok(Serving { server, nginx: None, _group: group });
        }
        let (nginx, _) = arms::nginx().ok_or("nginx is not installed")?;
        let names = field.veth.ok_or("nginx has no namespace")?;
        let mut running = start_nginx(&nginx, &file, (own, &names.server, field.stand.cores.0))?;
        group.as_ref().map_or(Ok(()), |group| group.add(running.pid()))?;
        let pids = workers(&mut running, field.interrupt)?;
        Ok(Serving { server: Server::other(&pids), nginx: Some(running), _group: group })
    }

    /// Has so many streams play what is served.
    fn play(
        &mut self,
        (serving, arm): (&mut Serving, FilmArm),
        streams: u32,
        setting: &Setting,
    ) -> Result<FilmStep, Failure> {
        let Self { settings, stand, names, counters, .. } = self;
        let stand = stand.as_ref().map_err(String::as_str)?;
        let servers = [stand.cores.0];
        let field = Field {
            stand,
            veth: names.as_ref(),
            tap: None,
            servers: &servers,
            mtu: None,
            interrupt: setting.interrupt,
        };
        let list = stand.folder().join("requests");
        let span = settings.lead_seconds + settings.seconds + 5;
        let part = self.store.part((settings.mbit * 1e6 / 8.0 * 2.0 * span as f64) as u64);
        let requests = self.store.requests(streams, part, FILMS, setting.seed ^ u64::from(streams));
        fs::write(&list, requests).map_err(|why| format!("cannot write {}: {why}", list.display()))?;
        let mut more = settings.words(&list);
        if arm.secured.is_some() {
            more.extend(SUITE.map(str::to_owned));
        }
        let duration = Duration::from_secs(settings.seconds);
        let ask = Ask { path: "/", connections: streams, more: &more, duration, secured: arm.secured.is_some() };
        let link = arm.server.link();
        let port = if arm.secured.is_some() { 443 } else { 80 };
        let generator = settings.generator(link);
        let mut mark = || {
            if let Ok(counters) = counters {
                counters.look();
            }
        };
        let lead = Duration::from_secs(settings.lead_seconds);
        let target = ((link, Some(port)), generator);
        let (played, watched) = field.play(&mut serving.server, target, ask, lead, &mut mark)?;
        serving.nginx.as_mut().map_or(Ok(()), Running::still_runs)?;
        let mut step = FilmStep::of(streams, &played, &watched);
        // What of it was not seen to be in memory is taken to come from the disk.
        let from_disk = step.disk_share().unwrap_or(1.0);
        if step.disk_share().is_none() {
            let why = "no content, or the kernel does not count what a process has disks read (/proc/PID/io)";
            step.unmeasured.push((READ, why.to_owned()));
        }
        match self.modelled(arm, from_disk) {
            Ok(moved) => step.modelled = Some(moved),
            Err(why) => step.unmeasured.push((MODELLED, why)),
        }
        let rate = self.counters.as_mut().map_err(|why| why.clone());
        let again = || "the counters began again, or were not read twice".to_owned();
        match rate.and_then(|counters| counters.rate().ok_or_else(again)) {
            Ok(rate) => step.counted = Some(rate / step.bytes()),
            Err(why) => step.unmeasured.push((COUNTED, why)),
        }
        Ok(step)
    }

    /// Bytes that pass memory for each of content, of which this share comes from the disk; or why the model does
    /// not say.
    fn modelled(&self, arm: FilmArm, from_disk: f64) -> Result<f64, String> {
        let machine = self.machine.as_ref().map_err(Clone::clone)?;
        let way = arm.way(self.settings.nginx_reads.into()).ok_or("the model has no such way")?;
        moved::modelled(machine, way, arm.secured.is_some(), from_disk)
    }

    /// On how many connections of the servers' namespace the kernel has sealed so far, where it is to; or why that
    /// is not known.
    fn sealed_by_kernel(&self, arm: FilmArm) -> Option<Result<u64, String>> {
        let names = self.names.as_ref().filter(|_| arm.secured == Some(Sealer::Kernel))?;
        let stat = call(&["ip", "netns", "exec", &names.server, "cat", "/proc/net/tls_stat"]);
        Some(stat.map(|stat| connections_sealed(&stat)).map_err(|why| why.to_string()))
    }

    /// The largest step that both arms held in all runs, and how many times the content of `theirs`
    /// there is for the same processor time.
    fn beside(&self, ours: &ArmResults, theirs: &ArmResults) -> Option<(u32, f64)> {
        let held = |arm: &ArmResults, streams: u32| {
            let dry = arm.values(&of_step(streams, climb::DRY));
            !dry.is_empty() && dry.iter().all(|dry| *dry == 0.0)
        };
        let both = |streams: &&u32| held(ours, **streams) && held(theirs, **streams);
        self.settings.streams.iter().rev().filter(both).find_map(|streams| {
            let cost = |arm: &ArmResults| arm.median(&of_step(*streams, COST));
            Some((*streams, cost(theirs)? / cost(ours)?))
        })
    }
}

impl Settings {
    fn check(&self) -> Result<(), Failure> {
        let Self { streams, mbit, buffer_milliseconds, lead_seconds, seconds, memory_mib, times, .. } = self;
        let grows = streams.windows(2).all(|pair| pair[0] < pair[1]);
        let good = !streams.is_empty()
            && grows
            && streams.iter().all(|streams| (1..=10_000).contains(streams))
            && (0.01..=1_000.0).contains(mbit)
            && (100..=60_000).contains(buffer_milliseconds)
            && (2..=600).contains(lead_seconds)
            && (2..=600).contains(seconds)
            && (8..=1_048_576).contains(memory_mib)
            && (1..=1_000).contains(times)
            && !self.servers.is_empty()
            && !self.transports.is_empty();
        if good {
            return Ok(());
        }
        Err("media: write streams of 1 to 10,000 that grow, 0.01 to 1,000 mbit, a buffer of 100 to 60,000 \
             milliseconds, a lead and a measurement of 2 to 600 seconds, 8 to 1,048,576 MiB of memory and films 1 to \
             1,000 times as large, a server or more and a transport or more"
            .into())
    }

    /// What a control group may have.
    const fn memory(&self) -> u64 {
        (self.memory_mib << 20) + OWN_MEMORY
    }

    fn generator(&self, link: Link) -> Generator {
        match (link, self.players) {
            (Link::Memif | Link::Dpdk, _) | (_, Players::Bypass) => Generator::Bypass,
            (_, Players::Sockets) => Generator::Sockets,
        }
    }

    /// What the generator is told of its players.
    fn words(&self, list: &Path) -> Vec<String> {
        let ramp = self.lead_seconds * 500;
        vec![
            format!("--urls={}", list.display()),
            "--progress=none".to_owned(),
            format!("--stream={}kbit", (self.mbit * 1e3).round() as u64),
            "--stream-start=spread".to_owned(),
            format!("--buffer={}ms", self.buffer_milliseconds),
            format!("--ramp={ramp}ms"),
            format!("--warmup={}ms", self.lead_seconds * 1_000 - ramp),
        ]
    }
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Media::new(self)?))
    }
}

impl Procedure for Media {
    fn arms(&self) -> Vec<Arm> {
        let none = self.stand.as_ref().err().cloned();
        let program = self.stand.as_ref().map(|stand| stand.program().to_owned()).unwrap_or_default();
        let Settings { mbit, buffer_milliseconds, memory_mib, .. } = &self.settings;
        let arm = |arm: &FilmArm| {
            let link = arm.server.link();
            let is_limited = !arm.server.is_kernels() || self.group.is_ok();
            let memory = if is_limited { format!("{memory_mib} MiB") } else { "all of the machine".to_owned() };
            Arm {
                name: arm.name(),
                conditions: BTreeMap::from([
                    ("over".to_owned(), arm.transport().name().to_owned()),
                    ("link".to_owned(), link.joins().to_owned()),
                    ("streams".to_owned(), format!("{mbit} Mbit/s, a buffer of {buffer_milliseconds} ms")),
                    ("films".to_owned(), format!("{} MiB", self.store.bytes() >> 20)),
                    ("memory for films".to_owned(), memory),
                    ("cores".to_owned(), "one for the server, one for the generator".to_owned()),
                ]),
                left_out: none.clone().or_else(|| arm.missing(&program)),
            }
        };
        self.arms.iter().map(arm).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        climb::figures(&self.settings.streams)
    }

    fn curves(&self) -> Vec<FigureCurve> {
        let curve = |transport: &FilmTransport| {
            let arms = self.arms.iter().filter(|arm| arm.transport() == *transport);
            climb::curve(transport.name(), arms.map(|arm| arm.name()).collect(), &self.settings.streams)
        };
        self.settings.transports.iter().map(curve).collect()
    }

    fn tools(&self) -> BTreeMap<String, String> {
        arms::nginx().map(|(_, version)| ("nginx".to_owned(), version)).into_iter().collect()
    }

    fn notes(&self) -> Vec<String> {
        let memory = match &self.group {
            Ok(()) => format!(
                "Memory for films: over links the server's own ({} MiB, --media-memory); on kernel sockets a control \
                 group's, with {} MiB more for the server itself. Films are dropped from the page cache before each \
                 run.",
                self.settings.memory_mib,
                OWN_MEMORY >> 20
            ),
            Err(why) => format!(
                "Memory for films: over links the server's own ({} MiB, --media-memory); on kernel sockets it is not \
                 limited ({why}), so that what was read once is not read again: these are not compared with the \
                 others.",
                self.settings.memory_mib
            ),
        };
        let counted = match &self.counters {
            Ok(counters) => format!(
                "Moved, as counted ({}): all that passed memory, the generator's part and everybody else's with it.",
                counters.name()
            ),
            Err(why) => format!("Moved, as counted: nothing counts it here ({why})."),
        };
        let mut notes = vec![
            "CPU: the server's processes, and softirq of its core beyond them, without polling for nothing; 100 % is \
             one core. Per Gbit/s of content."
                .to_owned(),
            "Knee: the last step in which no stream ran dry; the figures without a number of streams are its. A step \
             in which a core is full is the last."
                .to_owned(),
            "Moved, by the model: bytes that memory reads and writes for each byte sent, as nearside numa --budget \
             reckons them for a NIC, with the part that was read from the disk as it was; on a pair or over shared \
             memory the peer's core reads in the NIC's place, and AF_XDP copies once more there."
                .to_owned(),
            counted,
            memory,
            "Disk alone: what a ring of 64 reads of 256 KiB anywhere in the films gives, past the page cache, with \
             nothing else, before each run: the disk's own limit."
                .to_owned(),
        ];
        if let Err(why) = &self.machine {
            notes.push(format!("Moved, by the model: this machine's topology cannot be read ({why})."));
        }
        notes
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        self.prepare(setting)?;
        let arm = self.arms[arm];
        self.store.forget()?;
        let mut climb = Climb::new(self.store.read_alone(ALONE, setting.interrupt)?);
        let mut serving = {
            let stand = self.stand.as_ref().map_err(String::as_str)?;
            let (servers, veth) = ([stand.cores.0], self.names.as_ref());
            let field = Field { stand, veth, tap: None, servers: &servers, mtu: None, interrupt: setting.interrupt };
            self.serve(&field, arm)?
        };
        let sealed_before = self.sealed_by_kernel(arm);
        let steps = self.settings.streams.clone();
        for (done, streams) in steps.iter().enumerate() {
            setting.progress.tell(done as u64, steps.len() as u64);
            let step = self.play((&mut serving, arm), *streams, setting)?;
            if !climb.add(step) {
                break;
            }
        }
        let mut run = climb.run();
        if let Some((before, after)) = sealed_before.zip(self.sealed_by_kernel(arm)) {
            tell_of_sealer(&mut run, before, after);
        }
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        let mut checks =
            vec![Check { what: "no answer fails".to_owned(), found: failed.to_string(), kept: Some(failed == 0) }];
        let measured = |arm: &FilmArm| arms.iter().find(|one| one.name == arm.name() && !one.runs.is_empty());
        for arm in &self.arms {
            if let Some(results) = measured(arm) {
                let kept = results.median(KEPT);
                checks.push(Check {
                    what: format!("{}: a step holds", arm.name()),
                    found: kept.map_or_else(|| "none".to_owned(), |kept| format!("{kept:.3} Gbit/s")),
                    kept: Some(kept.is_some()),
                });
            }
            let Some((_, bound)) = BOUNDS.iter().find(|(server, _)| *server == arm.server) else { continue };
            let nginx = FilmArm { server: FilmServer::Nginx, ..*arm };
            // Nobody but the server seals over shared memory: beside nginx's own TLS.
            let pair = measured(arm).zip(measured(&nginx));
            let found = pair.and_then(|(ours, theirs)| self.beside(ours, theirs));
            checks.push(Check {
                what: format!(
                    "{}: content for the same processor time beside {}, at least {bound}",
                    arm.name(),
                    nginx.name()
                ),
                found: found.map_or_else(
                    || "no step that both held".to_owned(),
                    |(streams, ratio)| format!("{ratio:.2} at {streams} streams"),
                ),
                kept: found.map(|(_, ratio)| ratio >= *bound),
            });
        }
        checks
    }
}

/// Who sealed, of a run that is the kernel's to seal: what the server sealed itself is another measurement, and what
/// is not known may be.
fn tell_of_sealer(run: &mut Run, before: Result<u64, String>, after: Result<u64, String>) {
    let told = match (before, after) {
        (Ok(before), Ok(after)) if after > before => format!("the kernel, on {} connections", after - before),
        (Ok(_), Ok(_)) => "the server itself: the kernel was not asked to".to_owned(),
        (Err(why), _) | (_, Err(why)) => format!("not known: {why}"),
    };
    if !told.starts_with("the kernel") {
        let reason = format!("sealed by: {told}");
        let verdict = run
            .verdict
            .get_or_insert_with(|| RunVerdict { word: results::Worth::Partial.word().to_owned(), reasons: Vec::new() });
        verdict.reasons.push(reason);
    }
    run.details.insert("sealed by".to_owned(), told);
}

/// Of `/proc/net/tls_stat`, by software and by NICs (Documentation/networking/tls.rst).
fn connections_sealed(stat: &str) -> u64 {
    let of = |name: &str| {
        let found = stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        found.unwrap_or(0)
    };
    ["TlsTxSw ", "TlsTxDevice "].into_iter().map(of).sum()
}

#[cfg(test)]
mod tests;
