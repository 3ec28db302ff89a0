//! nginx with one malloc and another: the C library's, and jemalloc, tcmalloc
//! and mimalloc loaded before it (`LD_PRELOAD`); on kernel sockets, and unmodified on our stack
//! over AF_XDP (`nearside run`). nginx is started anew for each run, for where
//! its memory happens to lie is part of what varies (Mytkowicz, Diwan,
//! Hauswirth, Sweeney: Producing wrong data without doing anything obviously
//! wrong!, ASPLOS 2009).

mod counters;

use crate::Failure;
use crate::procedure::{Arm, Procedure, ProcedureSettings, Setting};
use crate::runs::{ArmResults, Check, Distribution, Figure, Run};
use counters::{Counters, Processor};
use demo::child::Running;
use demo::kernel::{self, Kernel, WrkReport};
use demo::machine::{allowed_cores, find_program};
use demo::measure::{Connections, Content, Heads, PERCENTILES, Scenario, Stage};
use demo::netns::DEVICE;
use demo::stand::{Server, Stand};
use demo::unmodified::{self, RunNginx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How nginx is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Connections at a time, the same for both.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Whole seconds of each measurement.
    #[serde(default = "default_seconds")]
    pub seconds: u64,
    /// jemalloc's library; looked for where Debian puts it if it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jemalloc: Option<PathBuf>,
    /// tcmalloc's, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcmalloc: Option<PathBuf>,
    /// mimalloc's, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mimalloc: Option<PathBuf>,
    /// The nearside on whose stack nginx is run; this program if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

/// Libraries loaded before the C library: arm, how their files' names begin,
/// and Debian's packages.
const OTHERS: [(&str, &str, &str); 3] = [
    ("jemalloc", "libjemalloc.so", "libjemalloc2"),
    ("tcmalloc", "libtcmalloc_minimal.so", "libtcmalloc-minimal4"),
    ("mimalloc", "libmimalloc.so", "libmimalloc2.0"),
];

/// The names of arms that are on our stack.
const ON_OURS: &str = "on our stack, ";
/// nginx's address there, on the pair's network.
const ADDRESS: &str = "10.77.0.22";

const fn default_connections() -> u32 {
    64
}

const fn default_seconds() -> u64 {
    3
}

/// Load before a measurement that is not counted, and during which calls are
/// counted.
const SHORT: Duration = Duration::from_secs(1);

/// What a veth pair says that it carries each way, in bits per second (drivers/net/veth.c): what
/// utilisation is of.
const PORT: f64 = 1e10;

/// How much longer than asked for wrk may take.
const SLACK: Duration = Duration::from_secs(20);

/// Both ways to use connections, with the names of their figures.
const KINDS: [(Connections, &str); 2] = [(Connections::KeepAlive, "keep-alive"), (Connections::New, "per request")];

/// The experiment.
#[derive(Debug)]
pub struct Allocator {
    settings: Settings,
    cores: (u16, u16),
    stand: Option<Stand>,
    missing: Option<String>,
    /// Of [`OTHERS`], as far as they are here.
    libraries: [Option<PathBuf>; 3],
    nginx: String,
}

impl Allocator {
    /// # Errors
    /// If the settings make no sense.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        if settings.connections == 0 || settings.connections > 10_000 || !(1..=3_600).contains(&settings.seconds) {
            return Err("allocator: write 1 to 10,000 connections and 1 to 3,600 seconds".into());
        }
        let (cores, few) = match allowed_cores()[..] {
            [server, client, ..] => ((server, client), None),
            _ => ((0, 0), Some("it needs two cores: one for nginx, one for wrk".to_owned())),
        };
        let named = [&settings.jemalloc, &settings.tcmalloc, &settings.mimalloc];
        let libraries = core::array::from_fn(|at| {
            named[at].clone().filter(|file| file.is_file()).or_else(|| debians(OTHERS[at].1))
        });
        let mut this = Self {
            settings: settings.clone(),
            cores,
            stand: None,
            missing: kernel::missing().or(few),
            libraries,
            nginx: "unknown".to_owned(),
        };
        if this.missing.is_none() {
            let nginx = find_program("nginx").unwrap_or_default();
            this.nginx = kernel::version(&nginx)?;
            this.stand = Some(Stand::new(settings.program.as_deref(), cores)?);
        }
        Ok(this)
    }

    /// Whether an arm is on our stack, and the library that it loads: as many arms are there as on the
    /// kernel's sockets, in the same order.
    fn preload(&self, arm: usize) -> Result<(bool, Option<&Path>), Failure> {
        let of_each = 1 + self.libraries.len();
        let library = self.library(arm % of_each)?;
        Ok((arm >= of_each, library))
    }

    fn library(&self, arm: usize) -> Result<Option<&Path>, Failure> {
        let Some(other) = arm.checked_sub(1) else { return Ok(None) };
        match self.libraries.get(other) {
            Some(Some(file)) => Ok(Some(file)),
            _ => Err(format!("the library of arm {arm} is not installed").into()),
        }
    }
}

impl Allocator {
    /// Starts nginx on our stack, in the server's namespace and with the same malloc.
    fn run_nginx(
        &self,
        stand: &Stand,
        kernel: &Kernel,
        preload: Option<&Path>,
        setting: &Setting,
    ) -> Result<Server, Failure> {
        let core = self.cores.0;
        let configuration = unmodified::site(stand.folder(), &format!("{ADDRESS}:80"), &[core])?;
        let options = [format!("--link=af_xdp:{DEVICE}"), format!("--addr={ADDRESS}/24")];
        let run = RunNginx { configuration: &configuration, workers: 1, preload };
        Ok(stand.run_nginx((Some(&kernel.names().server), Some(core)), &options, run, setting.interrupt)?)
    }
}

/// Where Debian's packages put a library, on any architecture.
fn debians(start: &str) -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let mut found: Vec<PathBuf> = files
        .filter(|file| file.file_name().to_string_lossy().starts_with(start))
        .map(|file| file.path())
        .filter(|path| path.is_file())
        .collect();
    // The shortest name is the link by which programs find it.
    found.sort_unstable_by_key(|path| (path.as_os_str().len(), path.clone()));
    found.into_iter().next()
}

impl ProcedureSettings for Settings {
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure> {
        Ok(Box::new(Allocator::new(self)?))
    }
}

impl Procedure for Allocator {
    fn arms(&self) -> Vec<Arm> {
        let conditions = BTreeMap::from([
            ("connections".to_owned(), self.settings.connections.to_string()),
            ("response".to_owned(), "13 B of body from nginx's own memory".to_owned()),
            ("link".to_owned(), "veth between two network namespaces".to_owned()),
            ("server".to_owned(), "one nginx worker on a core of its own".to_owned()),
            ("client".to_owned(), "wrk, one thread on a core of its own".to_owned()),
        ]);
        let glibc = Arm { name: "glibc".to_owned(), conditions: conditions.clone(), left_out: self.missing.clone() };
        let other = |(library, (name, _, package)): (&Option<PathBuf>, (&str, &str, &str))| {
            let absent = || library.is_none().then(|| format!("{name} is not installed (package {package})"));
            let left_out = self.missing.clone().or_else(absent);
            Arm { name: name.to_owned(), conditions: conditions.clone(), left_out }
        };
        let kernels: Vec<Arm> = core::iter::once(glibc).chain(self.libraries.iter().zip(OTHERS).map(other)).collect();
        let on_ours = |arm: &Arm| {
            let mut arm = Arm { name: format!("{ON_OURS}{}", arm.name), ..arm.clone() };
            let lacks = || unmodified::missing(self.stand.as_ref()?.program());
            arm.left_out = arm.left_out.or_else(lacks);
            arm.conditions.insert("data path".to_owned(), "our stack over AF_XDP (nearside run)".to_owned());
            arm
        };
        let ours: Vec<Arm> = kernels.iter().map(on_ours).collect();
        [kernels, ours].concat()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (_, kind) in KINDS {
            let name = |what: &str| format!("{kind} {what}");
            figures.push(Figure::higher(&name("rate"), "requests/s"));
            figures.extend(["p50", "p99", "p99.9"].map(|what| Figure::lower(&name(what), "µs")));
            figures.push(Figure::plain(&name("max"), "µs"));
            figures.extend(["user", "system", "softirq", "idle"].map(|what| Figure::plain(&name(what), "% of a core")));
            figures.push(Figure::plain(&name("ifutil"), "% of 10 Gbit/s"));
            figures.push(Figure::lower(&name("CPU time"), "µs/request"));
            let calls = ["malloc", "posix_memalign", "calloc and realloc", "free", "recvmsg"];
            figures.extend(calls.map(|what| Figure::plain(&name(what), "calls/request")));
            figures.push(Figure::lower(&name("dTLB misses"), "per request"));
            figures.push(Figure::plain(&name("page faults"), "per 1,000 requests"));
        }
        figures.push(Figure::lower("resident memory", "MiB"));
        figures
    }

    fn tools(&self) -> BTreeMap<String, String> {
        let mut tools = BTreeMap::from([("nginx".to_owned(), self.nginx.clone())]);
        for package in ["nginx-light", "nginx", "libc6", "wrk"].into_iter().chain(OTHERS.map(|(.., package)| package)) {
            tools.extend(package_version(package).map(|version| (format!("package {package}"), version)));
        }
        tools
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "Latencies and the plot are wrk's, in a closed loop at full load; the plot shows keep-alive.".to_owned(),
            "Which malloc a worker has is read from its /proc/PID/maps in every run.".to_owned(),
            "Calls are counted by uprobes in a pass of its own, which nothing else is taken from. The C library's \
             posix_memalign calls its malloc for small alignments: those stand in both rows."
                .to_owned(),
            "On our stack nginx answers at an address of its own on the same pair; the same nginx on kernel sockets \
             stays idle beside it."
                .to_owned(),
            "recvmsg is calls of recv, recvfrom and recvmsg of the C library; ifutil what the busier direction of \
             the pair carries, of what a veth says it can, as sar -n DEV has it."
                .to_owned(),
        ];
        notes.extend(counters::unavailable().into_iter().map(|why| format!("Not counted here: {why}.")));
        notes
    }

    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure> {
        let (is_ours, preload) = self.preload(arm)?;
        let stand = self.stand.as_ref().ok_or("nothing to measure with")?;
        let site = stand.folder().join("site");
        fs::create_dir_all(&site).map_err(|why| format!("cannot make the folder of the site: {why}"))?;
        // Where nginx is on our stack this one stays idle: its are the namespaces.
        let of_kernels = preload.filter(|_| !is_ours);
        let kernel = Kernel::start(stand.folder(), &site, self.cores, of_kernels, setting.interrupt)?;
        let ours = if is_ours { Some(self.run_nginx(stand, &kernel, preload, setting)?) } else { None };
        let processes = ours.as_ref().map_or(kernel.workers(), Server::processes);
        let worker = *processes.first().ok_or("nginx has no worker")?;
        let library = verify(worker, preload)?;
        let mut run = Run::default();
        run.details.insert("malloc".to_owned(), library.display().to_string());
        let passes = (2 * KINDS.len()) as u64;
        for (index, (connections, kind)) in (0..).zip(KINDS) {
            let (stage, content, heads) = (Stage::SharedMemory, Content::Small, Heads::Equal);
            let scenario = Scenario { stage, content, heads, connections, count: self.settings.connections };
            setting.progress.tell(2 * index, passes);
            let pass = Pass { kernel: &kernel, is_ours, worker, core: self.cores.0, scenario, kind, setting };
            pass.measure(Duration::from_secs(self.settings.seconds), &mut run)?;
            setting.progress.tell(2 * index + 1, passes);
            pass.count(&library, &mut run)?;
        }
        run.figures.insert("resident memory".to_owned(), counters::resident_mib(worker));
        Ok(run)
    }

    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let malloc = |arm: &ArmResults| {
            let all = arm.runs.iter().filter_map(|run| run.details.get("malloc").cloned());
            all.collect::<std::collections::BTreeSet<String>>().into_iter().collect::<Vec<_>>().join(", ")
        };
        let mut checks: Vec<Check> = arms
            .iter()
            .map(|arm| Check {
                what: format!("{}'s worker has that malloc in every run", arm.name),
                found: arm.left_out.clone().unwrap_or_else(|| malloc(arm)),
                kept: arm.left_out.is_none().then(|| {
                    let name = arm.name.strip_prefix(ON_OURS).unwrap_or(&arm.name);
                    let wanted = if name == "glibc" { "libc" } else { name };
                    !arm.runs.is_empty() && arm.runs.iter().all(|run| run.details["malloc"].contains(wanted))
                }),
            })
            .collect();
        let failed: u64 = arms.iter().flat_map(|arm| &arm.runs).map(|run| run.errors).sum();
        checks.push(Check { what: "no request fails".to_owned(), found: failed.to_string(), kept: Some(failed == 0) });
        checks
    }
}

/// One way to use connections, on one nginx.
struct Pass<'a> {
    kernel: &'a Kernel,
    /// The nginx on our stack is asked, beside the kernel's.
    is_ours: bool,
    worker: u32,
    core: u16,
    scenario: Scenario,
    kind: &'static str,
    setting: &'a Setting<'a>,
}

impl Pass<'_> {
    /// Starts wrk for so long.
    fn load(&self, duration: Duration) -> Result<Running, Failure> {
        let Scenario { connections, count, .. } = self.scenario;
        if self.is_ours {
            let url = format!("http://{ADDRESS}{}", self.scenario.path());
            return Ok(self.kernel.ask(&url, connections, count, duration)?);
        }
        Ok(self.kernel.load(self.scenario, duration, self.setting.interrupt)?)
    }

    /// Rate, latency, processor time, TLB misses.
    fn measure(&self, duration: Duration, run: &mut Run) -> Result<(), Failure> {
        let interrupt = self.setting.interrupt;
        self.load(SHORT)?.finish(SHORT + SLACK, interrupt)?;
        let mut counters = Counters::of_memory(self.worker);
        counters.start();
        let mut wrk = self.load(duration)?;
        // Not while connections are opened, and not while results are printed.
        interrupt.sleep(duration / 5)?;
        let before = Processor::now(self.worker, self.core);
        interrupt.sleep(duration * 3 / 5)?;
        let used = Processor::now(self.worker, self.core).since(&before);
        let report = self.report(&wrk.finish(duration + SLACK, interrupt)?)?;
        let counts = counters.stop();
        let rate = report.requests as f64 * 1e6 / report.microseconds.max(1) as f64;
        self.put(run, "rate", rate);
        for (name, percentile) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)] {
            let at = PERCENTILES.iter().position(|kept| *kept == percentile);
            if let Some(value) = at.and_then(|at| report.percentiles.get(at)) {
                self.put(run, name, *value);
            }
        }
        self.put(run, "max", report.max);
        self.put(run, "user", used.user * 100.0);
        self.put(run, "system", used.system * 100.0);
        self.put(run, "softirq", used.softirq * 100.0);
        self.put(run, "idle", used.idle * 100.0);
        self.put(run, "ifutil", used.carried * 8e2 / PORT);
        self.put(run, "CPU time", (used.user + used.system) * 1e6 / rate);
        for (name, count) in counts {
            let per = if name == "page faults" { 1_000.0 } else { 1.0 };
            self.put(run, name, count as f64 * per / report.requests as f64);
        }
        run.errors += report.errors;
        if self.scenario.connections == Connections::KeepAlive {
            let (curve, max, count) = (report.percentiles, report.max, report.requests);
            run.latency = Some(Distribution { curve, max, count, hdr: None });
        }
        Ok(())
    }

    /// Calls of malloc and free. Each costs a trap, so nothing else is
    /// measured meanwhile.
    fn count(&self, library: &Path, run: &mut Run) -> Result<(), Failure> {
        let mut counters = Counters::of_calls(self.worker, library);
        if counters.is_empty() {
            return Ok(());
        }
        counters.start();
        let mut wrk = self.load(SHORT)?;
        let report = self.report(&wrk.finish(SHORT + SLACK, self.setting.interrupt)?)?;
        for (name, count) in counters.stop() {
            self.put(run, name, count as f64 / report.requests as f64);
        }
        Ok(())
    }

    fn report(&self, output: &str) -> Result<WrkReport, Failure> {
        Ok(kernel::parse(output)?)
    }

    fn put(&self, run: &mut Run, name: &str, value: f64) {
        run.figures.insert(format!("{} {name}", self.kind), value);
    }
}

/// The library whose malloc a process has: that which was loaded first, or
/// else the C library.
///
/// # Errors
/// If it is not the one that was asked for.
fn verify(pid: u32, preload: Option<&Path>) -> Result<PathBuf, Failure> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(|why| format!("cannot read which libraries nginx has: {why}"))?;
    malloc_of(&maps, preload).map_err(Into::into)
}

fn malloc_of(maps: &str, preload: Option<&Path>) -> Result<PathBuf, String> {
    let mut files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).map(Path::new);
    let named = |file: &Path, part: &str| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(part));
    let mut other = files.clone().filter(|file| OTHERS.iter().any(|(_, start, _)| named(file, start)));
    match (preload, other.next()) {
        (None, None) => {
            let libc = files.find(|file| named(file, "libc.so") || named(file, "libc-"));
            libc.map(Path::to_owned)
                .ok_or_else(|| "nginx has no C library of its own: it is linked statically".to_owned())
        }
        (None, Some(file)) => Err(format!("nginx has {} without being asked to", file.display())),
        (Some(wanted), None) => Err(format!("nginx's worker did not load {}", wanted.display())),
        // A link has another name than what is mapped: the library is the same.
        (Some(wanted), Some(file)) => {
            let kind = |path: &Path| OTHERS.iter().position(|(_, start, _)| named(path, start));
            match kind(wanted).is_none() || kind(wanted) == kind(file) {
                true => Ok(file.to_owned()),
                false => Err(format!("nginx's worker loaded {} instead of {}", file.display(), wanted.display())),
            }
        }
    }
}

/// What dpkg says, where there is dpkg.
fn package_version(package: &str) -> Option<String> {
    let text = demo::child::call(&["dpkg-query", "-W", "-f", "${Version}", package]).ok()?;
    Some(text.trim().to_owned()).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_malloc_is_there_on_both_data_paths() {
        let named = |name: &str| Some(PathBuf::from(format!("/usr/lib/{name}.so.2")));
        let settings =
            Settings { connections: 1, seconds: 1, jemalloc: None, tcmalloc: None, mimalloc: None, program: None };
        let libraries = [named("libjemalloc"), None, named("libmimalloc")];
        let this =
            Allocator { settings, cores: (0, 1), stand: None, missing: None, libraries, nginx: "1.22.1".to_owned() };
        let names: Vec<String> = this.arms().into_iter().map(|arm| arm.name).collect();
        assert_eq!(names.len(), 8);
        assert_eq!((names[1].as_str(), names[5].as_str()), ("jemalloc", "on our stack, jemalloc"));
        let jemalloc = Path::new("/usr/lib/libjemalloc.so.2");
        assert_eq!(this.preload(0).expect("glibc"), (false, None));
        assert_eq!(this.preload(1).expect("jemalloc"), (false, Some(jemalloc)));
        assert_eq!(this.preload(4).expect("glibc"), (true, None));
        assert_eq!(this.preload(5).expect("jemalloc"), (true, Some(jemalloc)));
        assert!(this.preload(6).is_err(), "tcmalloc is not installed");
    }

    const GLIBC: &str = "55d0-55d1 r--p 00000000 fe:00 12 /usr/sbin/nginx\n\
                         7f00-7f01 r-xp 00000000 fe:00 34 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                         7f02-7f03 rw-p 00000000 00:00 0 \n";

    #[test]
    fn the_worker_says_which_malloc_it_has() {
        let jemalloc = Path::new("/usr/lib/libjemalloc.so.2");
        let both = format!("{GLIBC}7f04-7f05 r-xp 00000000 fe:00 56 /usr/lib/libjemalloc.so.2\n");
        assert_eq!(malloc_of(GLIBC, None).expect("glibc"), Path::new("/usr/lib/x86_64-linux-gnu/libc.so.6"));
        assert_eq!(malloc_of(&both, Some(jemalloc)).expect("jemalloc"), jemalloc);
        assert!(malloc_of(GLIBC, Some(jemalloc)).expect_err("not loaded").contains("did not load"));
        assert!(malloc_of(&both, None).expect_err("loaded").contains("without being asked"));
        assert!(malloc_of("", None).is_err());
        let mimalloc = Path::new("/usr/lib/libmimalloc.so.2");
        assert!(malloc_of(&both, Some(mimalloc)).expect_err("another").contains("instead of"));
    }
}
