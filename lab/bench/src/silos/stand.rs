//! A server of one silo or two and the generator that asks it, each a process,
//! and what one measurement of them gives.

use super::{CONNECTIONS, Path};
use crate::BenchError;
use crate::page::{Page, Values};
use crate::program::processor_time;
use core::time::Duration;
use cpu::Clock;
use demo::child::{Interrupt, Program, Running};
use demo::machine::{TICKS_PER_SECOND, core_ticks, is_root};
use demo::measure::SMALL_BODY;
use demo::netns::Alone;
use serde::Serialize;
use serde_json::Value;
use std::fs;

/// How many silos or workers, and where. The generator has as many threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// One, on a core of its own.
    Apart,
    /// One, on the core of the generator.
    Beside,
    /// Two, each on a core with a thread of the generator.
    Both,
}

impl Place {
    pub(super) const ALL: [Self; 3] = [Self::Apart, Self::Beside, Self::Both];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Apart => "one, core of its own",
            Self::Beside => "one, core shared",
            Self::Both => "two, cores shared",
        }
    }

    /// Silos or workers.
    pub(super) const fn count(self) -> u32 {
        if matches!(self, Self::Both) { 2 } else { 1 }
    }
}

/// What one measurement gave.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// Requests per second.
    pub(super) rate: f64,
    /// Seconds of processor time of the server's threads, in a second.
    pub(super) cpu: f64,
    /// The share of the requests that the second one answered.
    pub(super) second_share: f64,
    /// The share of its time in which each core was busy, with whatever.
    pub(super) cores: [f64; 2],
}

impl Sample {
    /// Requests in a second of the server's processor time.
    pub(super) fn efficiency(&self) -> f64 {
        self.rate / self.cpu
    }
}

/// Load before each measurement that is not counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// How much longer than asked for something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const SERVER: &str = "10.78.0.2";
const CLIENT: &str = "10.78.0.1";
const PORT: u16 = 8_000;

/// Who polls would seem to need its whole core, and who sleeps until it is
/// woken costs its peer a system call each time: both look again by
/// themselves, and find what has come meanwhile.
const IDLE: &str = "--idle=sleep:20us";

/// What both sides are started from.
pub(super) struct Stand<'a> {
    program: String,
    folder: &'a std::path::Path,
    pub(super) path: Path,
    cores: (u16, u16),
    pub(super) interrupt: &'a Interrupt,
    /// A loopback of their own, for kernel sockets.
    netns: Option<Alone>,
}

impl<'a> Stand<'a> {
    pub(super) fn new(
        program: &std::path::Path,
        folder: &'a std::path::Path,
        path: Path,
        cores: (u16, u16),
        interrupt: &'a Interrupt,
    ) -> Result<Self, BenchError> {
        let alone = path == Path::Kernel && is_root();
        let netns = alone.then(|| Alone::make("silos")).transpose()?;
        Ok(Self { program: program.display().to_string(), folder, path, cores, interrupt, netns })
    }

    /// Measures one server from start to end.
    pub(super) fn sample(&self, place: Place, duration: Duration) -> Result<Sample, BenchError> {
        let (mut server, page) = self.serve(place, IDLE, &[])?;
        let timed = [format!("--duration={}ms", duration.as_millis()), format!("--warmup={}ms", WARM_UP.as_millis())];
        let mut client = self.ask(place, &timed)?;
        // Over the middle: not while connections are opened, and not while
        // results are printed.
        self.interrupt.sleep(WARM_UP + duration / 5)?;
        let before = Moment::take(server.pid(), self.cores, page.read()?)?;
        self.interrupt.sleep(duration * 3 / 5)?;
        let after = Moment::take(server.pid(), self.cores, page.read()?)?;
        check(&client.finish(duration + PATIENCE, self.interrupt)?)?;
        server.still_runs()?;
        before.until(&after)
    }

    /// Starts a server, through `before` if that is another program.
    pub(super) fn serve(&self, place: Place, idle: &str, before: &[String]) -> Result<(Running, Page), BenchError> {
        let path = self.folder.join("serve.page");
        let (socket, control) = (self.socket(), self.folder.join("memif.sock"));
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(&control);
        let mut words = before.to_vec();
        words.extend([self.program.clone(), "serve".to_owned(), "--user=root".to_owned()]);
        words.push(format!("--respond=text:{SMALL_BODY}"));
        words.extend([format!("--status-page={}", path.display()), "--max-connections=4k".to_owned()]);
        let (first, second) = self.cores;
        let cores = match place {
            Place::Apart => first.to_string(),
            Place::Beside => second.to_string(),
            Place::Both => format!("{first},{second}"),
        };
        match (self.path, place) {
            (Path::Kernel, _) => {
                words.push(format!("--listen=127.0.0.1:{PORT}"));
                words.push(format!("--workers={}", place.count()));
                words.push(format!("--cores={cores}"));
                words.extend(["--engine=epoll", "--control=off", "--backlog=65535"].map(str::to_owned));
            }
            (Path::Bypass, _) => {
                words.push(format!("--link=memif:{socket}"));
                words.extend([format!("--addr={SERVER}/24"), idle.to_owned()]);
                let option = if place == Place::Both { "silos" } else { "core" };
                words.push(format!("--{option}={cores}"));
            }
        }
        let mut running = self.start("nearside serve", words)?;
        // Its page is there before its sockets are, but not what its silos tell.
        let told = || Page::open(&path).is_ok_and(|page| page.read().is_ok_and(|values| values.are_told()));
        running.wait_until("serve", PATIENCE, self.interrupt, told)?;
        Ok((running, Page::open(&path)?))
    }

    /// Starts the generator, for as long as `how` says.
    pub(super) fn ask(&self, place: Place, how: &[String]) -> Result<Running, BenchError> {
        let (first, second) = self.cores;
        let mut words = vec![self.program.clone(), "load".to_owned(), "--json".to_owned()];
        words.push(format!("--connections={}", CONNECTIONS * place.count()));
        words.extend(how.iter().cloned());
        match self.path {
            Path::Kernel => {
                words.push(format!("http://127.0.0.1:{PORT}/"));
                words.extend(["--no-floor", "--engine=epoll"].map(str::to_owned));
                words.push(format!("--threads={}", place.count()));
                words.push(if place == Place::Both {
                    format!("--cores={first},{second}")
                } else {
                    format!("--cores={second}")
                });
            }
            Path::Bypass => {
                words.push(format!("http://{SERVER}/"));
                words.push(format!("--link=memif:{}", self.socket()));
                words.extend([format!("--addr={CLIENT}/24"), IDLE.to_owned()]);
                words.push(if place == Place::Both {
                    format!("--silos={first},{second}")
                } else {
                    format!("--core={second}")
                });
                words.push(format!("--status-page={}", self.folder.join("load.page").display()));
            }
        }
        self.start("nearside load", words)
    }

    fn start(&self, name: &str, words: Vec<String>) -> Result<Running, BenchError> {
        let netns = self.netns.as_ref().map(Alone::name);
        Ok(Program { name, netns, core: None, words }.start(self.folder)?)
    }

    fn socket(&self) -> String {
        self.folder.join("memif.sock").display().to_string()
    }
}

/// An error if the generator's report tells of one.
pub(crate) fn check(report: &str) -> Result<(), BenchError> {
    let begin = report.find('{').ok_or("nearside load gave no report")?;
    let report: Value = serde_json::from_str(&report[begin..]).map_err(|_| "nearside load gave no whole report")?;
    let errors = report["errors"].as_object().ok_or("nearside load's report tells no errors")?;
    let errors: u64 = errors.values().filter_map(Value::as_u64).sum();
    if errors > 0 { Err(format!("{errors} requests failed").into()) } else { Ok(()) }
}

/// What was used up so far.
struct Moment {
    nanos: u64,
    cpu: f64,
    busy: [u64; 2],
    requests: Vec<u64>,
}

impl Moment {
    fn take(server: u32, cores: (u16, u16), values: Values<'_>) -> Result<Self, BenchError> {
        let stat = fs::read_to_string("/proc/stat")?;
        let busy =
            |core| core_ticks(&stat, core).map(|ticks| ticks.busy).ok_or(format!("/proc/stat has no core {core}"));
        let requests = (0..values.silos()).map(|silo| values.of(silo, "app.requests"));
        Ok(Self {
            nanos: Clock.now().as_nanos(),
            cpu: processor_time(server)?.as_secs_f64(),
            busy: [busy(cores.0)?, busy(cores.1)?],
            requests: requests.collect::<Result<_, _>>()?,
        })
    }

    fn until(&self, later: &Self) -> Result<Sample, BenchError> {
        let seconds = later.nanos.saturating_sub(self.nanos).max(1) as f64 / 1e9;
        let answered = self.requests.iter().zip(&later.requests).map(|(before, after)| after.saturating_sub(*before));
        let answered: Vec<u64> = answered.collect();
        let all: u64 = answered.iter().sum();
        if all == 0 {
            return Err("nothing was answered".into());
        }
        let busy = |core: usize| (later.busy[core] - self.busy[core]) as f64 / TICKS_PER_SECOND / seconds;
        Ok(Sample {
            rate: all as f64 / seconds,
            cpu: (later.cpu - self.cpu) / seconds,
            second_share: answered.get(1).copied().unwrap_or(0) as f64 / all as f64,
            cores: [busy(0), busy(1)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_what_lies_between_two_moments() {
        let moment = |nanos, cpu, busy, requests: [u64; 2]| Moment { nanos, cpu, busy, requests: requests.to_vec() };
        let (before, after) = (moment(0, 1.0, [0, 100], [10, 20]), moment(2_000_000_000, 3.0, [100, 300], [110, 320]));
        let sample = before.until(&after).expect("requests were answered");
        assert_eq!((sample.rate, sample.cpu, sample.second_share, sample.cores), (200.0, 1.0, 0.75, [0.5, 1.0]));
        assert_eq!(sample.efficiency(), 200.0);
        assert!(before.until(&before).is_err());
    }

    #[test]
    fn the_time_of_this_process_is_found() {
        assert!(processor_time(std::process::id()).expect("it runs") > Duration::ZERO);
    }

    #[test]
    fn a_report_with_errors_is_one() {
        assert!(check(r#"a warning {"errors":{"reset":0}}"#).is_ok());
        assert!(check(r#"{"errors":{"reset":1}}"#).is_err());
        assert!(check("").is_err() && check("{}").is_err());
    }
}
