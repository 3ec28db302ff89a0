//! A server and a generator, each a process of this program on a core of its
//! own, and what one measurement of them gives.

use crate::child::{Interrupt, Program, Running};
use crate::error::Error;
use crate::machine::{CpuShare, allowed_cores, with_children};
use crate::measure::{Latency, Measurement};
use crate::played::StreamsPlayed;
use crate::scratch::Scratch;
use crate::watched::{Moment, Watched};
use page::Reader;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Load before each measurement that is not counted.
pub const WARM_UP: Duration = Duration::from_millis(500);

/// How much longer than asked for a run may take on a busy machine: the
/// generator gives its connections 30 s to open, and its last requests 10 s.
const SLACK: Duration = Duration::from_secs(60);

/// How long a server may take to begin.
pub(crate) const START: Duration = Duration::from_secs(60);

/// From this share of its time on, a side is what limits the other.
pub const SATURATED: f64 = 0.95;

/// From this share of a core on, what other programs took is said, and may be
/// what limits.
pub const OTHERS: f64 = 0.1;

/// What both sides are started from.
#[derive(Debug)]
pub struct Stand {
    program: String,
    scratch: Scratch,
    /// The server's core, and the generator's.
    pub cores: (u16, u16),
}

/// A server that runs. Dropping it ends it, if it was started here.
#[derive(Debug)]
pub struct Server {
    running: Option<Running>,
    pids: Vec<u32>,
    page: Option<PathBuf>,
}

impl Server {
    /// Another program, which tells nothing of itself.
    pub fn other(pids: &[u32]) -> Self {
        Self { running: None, pids: pids.to_vec(), page: None }
    }

    /// One that was started here, with the processes that answer.
    pub(crate) const fn run(running: Running, pids: Vec<u32>) -> Self {
        Self { running: Some(running), pids, page: None }
    }

    /// Its process, or the first of them.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pids.first().copied().unwrap_or(0)
    }

    /// An error if it ended; of another program nobody here knows.
    fn still_runs(&mut self) -> Result<(), Error> {
        self.running.as_mut().map_or(Ok(()), Running::still_runs)
    }

    /// All of its processes.
    #[must_use]
    pub fn processes(&self) -> &[u32] {
        &self.pids
    }

    /// What all silos or workers tell of themselves by this name, together.
    #[must_use]
    pub fn told(&self, name: &str) -> Option<u64> {
        let reader = Reader::open(self.page.as_ref()?).ok()?;
        let index = reader.metrics().iter().position(|(known, _)| known == name)?;
        reader.snapshot().ok()?.silos.iter().map(|silo| silo.values.get(index).copied()).sum()
    }
}

/// What one measurement gave. Latencies in microseconds, shares of a core.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Answered requests per second.
    pub rate: f64,
    /// Bytes of bodies per second.
    pub goodput: f64,
    /// Bytes of responses per second, heads included.
    pub transfer: f64,
    /// The mean latency.
    pub mean: f64,
    /// The standard deviation of latencies.
    pub stdev: f64,
    /// Its curve.
    pub latency: Latency,
    /// How many latencies there are.
    pub samples: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The share of its time in which the server had something to do, by its
    /// own account: on average over its silos or workers. Another program's is
    /// that of its process and of softirq on its core.
    pub server_busy: f64,
    /// Frames that it sent in a second; none over kernel sockets.
    pub frames_sent: f64,
    /// The server's process and its core, by the kernel's account: a server
    /// that polls takes all of it.
    pub server: CpuShare,
    /// The generator's share of its time in which it had something to do.
    pub client_busy: f64,
    /// The generator's process and its core, likewise.
    pub client: CpuShare,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
}

impl Stand {
    /// Measures `program`; this very program if none is named.
    ///
    /// # Errors
    /// If there is no folder to be had.
    pub fn new(program: Option<&Path>, cores: (u16, u16)) -> Result<Self, Error> {
        let program = match program {
            Some(named) => named.to_owned(),
            None => std::env::current_exe().map_err(Error::io("cannot find this program"))?,
        };
        Ok(Self { program: program.to_string_lossy().into_owned(), scratch: Scratch::make()?, cores })
    }

    /// The program that is measured.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Where it may write.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Starts `nearside serve` with `words`, which name link and content, and
    /// waits until it serves.
    ///
    /// # Errors
    /// If it does not.
    pub fn serve(&self, netns: Option<&str>, words: &[String], interrupt: &Interrupt) -> Result<Server, Error> {
        // Its process is the one that is started then, whose time is counted.
        let serve = ["serve".to_owned(), "--user=root".to_owned()];
        self.start(netns, None, &[&serve, words].concat(), interrupt)
    }

    /// Starts this program with `words`, a command that serves as root, all of it on
    /// `core` if one is named, and waits until it serves.
    ///
    /// # Errors
    /// If it does not.
    pub fn start(
        &self,
        netns: Option<&str>,
        core: Option<u16>,
        words: &[String],
        interrupt: &Interrupt,
    ) -> Result<Server, Error> {
        let page = self.folder().join("serve.page");
        let _ = fs::remove_file(&page);
        let mut all = vec![self.program.clone()];
        all.extend_from_slice(words);
        all.push(format!("--status-page={}", page.display()));
        let mut running = Program { name: "nearside serve", netns, core, words: all }.start(self.folder())?;
        running.wait_until("serve", START, interrupt, || page.exists())?;
        // Whoever has made the page is there.
        let pids = with_children(running.pid());
        Ok(Server { running: Some(running), pids, page: Some(page) })
    }

    /// Asks `server` by `nearside load` with `words`, which name link and
    /// target, for `duration`, after [`WARM_UP`] or as long where that is shorter.
    ///
    /// # Errors
    /// If nothing was answered.
    pub fn ask(
        &self,
        server: &mut Server,
        netns: Option<&str>,
        words: &[String],
        duration: Duration,
        interrupt: &Interrupt,
    ) -> Result<Asked, Error> {
        let warm_up = WARM_UP.min(duration);
        let curve = self.folder().join("latency.hgrm");
        let mut all = vec![format!("--hgrm={}", curve.display())];
        all.push(format!("--warmup={}ms", warm_up.as_millis()));
        all.extend(words.iter().cloned());
        let (mut client, watched) =
            self.watch(server, netns, (all, None), (warm_up, duration), (interrupt, &mut || ()))?;
        let output = client.finish(duration + SLACK, interrupt)?;
        server.still_runs()?;
        let hgrm = fs::read_to_string(&curve).map_err(Error::io(format!("cannot read {}", curve.display())))?;
        let mut asked = Asked::read(&output, &hgrm)?;
        (asked.server, asked.client) = (watched.server, watched.client);
        asked.server_busy = watched.server_busy_of(server.pids.len());
        asked.frames_sent = watched.server_account.map_or(f64::NAN, |account| account.frames);
        Ok(asked)
    }

    /// Has `nearside load` play streams of `server`: by words of its command line, over a link with a page
    /// of its own; it begins to count after the first of the spans, and does for the second. What is given
    /// beside the interrupt is called at both ends of what is watched.
    ///
    /// # Errors
    /// If there is no report.
    pub fn play(
        &self,
        server: &mut Server,
        netns: Option<&str>,
        asking: (Vec<String>, Option<PathBuf>),
        spans: (Duration, Duration),
        (interrupt, mark): (&Interrupt, &mut dyn FnMut()),
    ) -> Result<(StreamsPlayed, Watched), Error> {
        let (mut client, watched) = self.watch(server, netns, asking, spans, (interrupt, mark))?;
        // Its status tells what its report does as well: that no second counts, or that the server is gone.
        client.ended(spans.1 + SLACK, interrupt)?;
        server.still_runs()?;
        let played = StreamsPlayed::read(&client.output()).map_err(|why| match client.complaint() {
            said if said.is_empty() => why,
            said => Error::Machine(format!("{why}, and said:\n{said}")),
        })?;
        Ok((played, watched))
    }

    /// Starts `nearside load`, and watches both sides over the middle of its measurement, which begins
    /// after `lead`: not while connections are opened, and not while results are printed.
    fn watch(
        &self,
        server: &Server,
        netns: Option<&str>,
        (words, own): (Vec<String>, Option<PathBuf>),
        (lead, duration): (Duration, Duration),
        (interrupt, mark): (&Interrupt, &mut dyn FnMut()),
    ) -> Result<(Running, Watched), Error> {
        let mut all = vec![self.program.clone(), "load".to_owned(), "--json".to_owned()];
        all.push(format!("--duration={}ms", duration.as_millis()));
        all.extend(words);
        if let Some(own) = &own {
            let _ = fs::remove_file(own);
            all.push(format!("--status-page={}", own.display()));
        }
        let client = Program { name: "nearside load", netns, core: None, words: all }.start(self.folder())?;
        let page = server.page.as_ref().map(|page| Reader::open(page)).transpose();
        let page = page.map_err(|why| Error::Machine(format!("the server's statistics: {why}")))?;
        interrupt.sleep(lead + duration / 5)?;
        // It is there once its links are open.
        let own = own.and_then(|own| Reader::open(&own).ok());
        let (pids, pages) = ([&server.pids[..], &[client.pid()]], [page.as_ref(), own.as_ref()]);
        mark();
        let before = Moment::take(pids, self.cores, pages);
        interrupt.sleep(duration * 3 / 5)?;
        let after = Moment::take(pids, self.cores, pages);
        mark();
        Ok((client, before.until(&after)))
    }
}

/// The first two cores that may be used, or why that is not enough.
pub fn two_cores() -> Result<(u16, u16), String> {
    match allowed_cores()[..] {
        [server, client, ..] => Ok((server, client)),
        _ => Err("it needs two cores: one for the server, one for the generator".to_owned()),
    }
}

/// The part of the generator's report that is read here.
#[derive(Deserialize)]
struct Said {
    throughput: Throughput,
    latency: Moments,
    client: Busy,
}

#[derive(Deserialize)]
struct Throughput {
    received_bytes_per_second: f64,
    body_bytes_per_second: f64,
}

#[derive(Deserialize)]
struct Moments {
    samples: u64,
    mean_ns: f64,
    stdev_ns: f64,
}

#[derive(Deserialize)]
struct Busy {
    busy_fraction: Option<f64>,
}

impl Asked {
    fn read(report: &str, hgrm: &str) -> Result<Self, Error> {
        let measured = crate::load::parse(report, hgrm)?;
        let said: Said = serde_json::from_str(report).map_err(|_| Error::output("nearside load", "whole report"))?;
        Ok(Self {
            rate: measured.requests_per_second,
            goodput: said.throughput.body_bytes_per_second,
            transfer: said.throughput.received_bytes_per_second,
            mean: said.latency.mean_ns / 1e3,
            stdev: said.latency.stdev_ns / 1e3,
            latency: measured.latency,
            samples: said.latency.samples,
            errors: measured.errors,
            server_busy: f64::NAN,
            frames_sent: f64::NAN,
            server: CpuShare::default(),
            client_busy: said.client.busy_fraction.unwrap_or(f64::NAN),
            client: CpuShare::default(),
            warnings: measured.warnings,
        })
    }

    /// The latency that `percentile` percent do not exceed.
    pub fn at(&self, percentile: f64) -> f64 {
        self.latency.at(percentile).unwrap_or(f64::NAN)
    }

    /// Rate × mean latency, which is the connections of a closed loop
    /// (Little's law: Operations Research 9(3), 1961).
    pub fn in_progress(&self) -> f64 {
        self.rate * self.mean / 1e6
    }

    /// What limited it.
    pub fn saturated(&self) -> &'static str {
        let taken = self.server.others >= OTHERS || self.client.others >= OTHERS;
        match (self.server_busy >= SATURATED, self.client_busy >= SATURATED) {
            (false, false) if taken => "other programs, which took part of the cores",
            (true, true) => "both cores",
            (true, false) => "the server's core",
            (false, true) => "the generator's core",
            (false, false) => "neither core",
        }
    }
}

impl From<Asked> for Measurement {
    fn from(asked: Asked) -> Self {
        Self {
            requests_per_second: asked.rate,
            response_bytes: if asked.rate > 0.0 { asked.transfer / asked.rate } else { 0.0 },
            latency: asked.latency,
            errors: asked.errors,
            server: asked.server,
            client: asked.client,
            server_busy: asked.server_busy.is_finite().then_some(asked.server_busy),
            warnings: asked.warnings,
        }
    }
}

/// Words of a command line.
pub fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"throughput":{"requests_per_second":2e6,"received_bytes_per_second":3e8,
        "body_bytes_per_second":26e6},
        "traffic":{"responses":4,"received_bytes":600},
        "latency":{"samples":4,"min_ns":1000,"mean_ns":2500.0,"stdev_ns":100.0,"p50_ns":2000,"p75_ns":2500,
        "p90_ns":3000,"p99_ns":4000,"p999_ns":5000,"p9999_ns":6000,"max_ns":9000},"errors":{"timeouts":1,"reset":2},
        "client":{"busy_fraction":0.97},"warnings":[{"kind":"client-saturated","busy_fraction":0.97}]}"#;
    const HGRM: &str = "Value Percentile TotalCount 1/(1-Percentile)\n\n0.001 0.0 1 1.00\n0.009 1.0 4\n";

    #[test]
    fn a_report_is_read_with_its_moments_and_what_limited_it() {
        let mut asked = Asked::read(REPORT, HGRM).expect("it is whole");
        assert_eq!((asked.rate, asked.goodput, asked.mean, asked.stdev), (2e6, 26e6, 2.5, 0.1));
        assert_eq!((asked.at(50.0), asked.at(99.0), asked.latency.max, asked.errors), (2.0, 4.0, 9.0, 3));
        assert_eq!(asked.saturated(), "the generator's core");
        asked.server_busy = 1.0;
        assert_eq!(asked.saturated(), "both cores");
        (asked.server_busy, asked.client_busy) = (0.5, 0.5);
        assert_eq!(asked.saturated(), "neither core");
        asked.client.others = 0.48;
        assert_eq!(asked.saturated(), "other programs, which took part of the cores");
        assert!(Asked::read(&REPORT.replace("mean_ns", "mean"), HGRM).is_err());
    }
}
