//! Films that are larger than memory, over TLS and a memif: as many streams as the disk has content for,
//! and downloads that take what they can, beside what io_uring alone reads in the same pattern.
//!
//! The store lies on a disk and is four times what the server has for blocks (`--media-memory`). Streams
//! begin anywhere in it, so that nearly all that they are sent is read. Both are asked by
//! `nearside load`, on the other core.

use crate::BenchError;
use crate::client::{by_turns, prepare};
use crate::kernel::{spread, word};
use crate::page::Page;
use core::time::Duration;
use cpu::Clock;
use demo::child::{Interrupt, Program, Running};
use demo::films::{BLOCK, FILMS, FilmStore};
use demo::media_site::{FilmReading, MediaSite, Sealer, make_certificate};
use demo::played::StreamsPlayed;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What is measured, and how often.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// MiB of memory for blocks; the store has four times as much
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..=65_536))]
    pub memory: u64,
    /// At most so many streams of 5 Mbit/s; fewer where the disk reads less than 1.43 times what they take
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub streams: u32,
    /// Measure each this often, by turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Measure each for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub seconds: u64,
    /// Where the store is made, if it is not there
    #[arg(long, value_name = "FOLDER", default_value = "out/media")]
    pub folder: PathBuf,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// What a stream takes, bits a second, and of what the disk reads alone streams take so much.
const RATE: f64 = 5e6;
const SHARE: f64 = 0.7;
/// Downloads at a time, what each answer has, and how much of the disk's rate they are to reach.
const DOWNLOADS: u32 = 64;
const PART: u64 = 4 << 20;
const REACHED: f64 = 0.8;
/// Time for anything but the measurement.
const PATIENCE: Duration = Duration::from_secs(60);
/// Addresses of server and client on the link.
const LINK: [&str; 2] = ["10.78.0.2", "10.78.0.1"];

/// What one measurement gave.
#[derive(Clone, Copy, Debug)]
enum Sample {
    /// Bytes a second that io_uring read.
    Disk(f64),
    Played {
        streams: u32,
        under_way: u64,
        dry: u64,
        first_byte: f64,
        /// Bytes a second, and blocks read for them.
        rate: f64,
        read: f64,
    },
    Downloaded {
        rate: f64,
        read: f64,
    },
    /// Bytes a second of the same downloads, of content that fits into memory.
    Remembered(f64),
}

/// Measures by turns and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let (interrupt, cores, scratch) = prepare()?;
    let store = FilmStore::new(&plan.folder, (plan.memory * 4) << 20);
    store.make(&interrupt)?;
    make_certificate(scratch.path())?;
    let bench = Bench { plan, nearside, cores, scratch: scratch.path(), store, interrupt: &interrupt };
    println!(
        "A store of {} MiB, {} MiB of memory for blocks; server on core {}, client on core {}, TLS 1.3 over a memif",
        4 * plan.memory,
        plan.memory,
        cores.0,
        cores.1
    );
    let mut disk = f64::NAN;
    let samples = by_turns(plan.rounds, 4, |at| {
        let sample = match at {
            0 => {
                disk = bench.store.read_alone(bench.span(), &interrupt)?;
                Sample::Disk(disk)
            }
            1 => bench.play(disk)?,
            2 => bench.download(FILMS)?,
            _ => match bench.download(1)? {
                Sample::Downloaded { rate, .. } => Sample::Remembered(rate),
                other => other,
            },
        };
        eprintln!("  {sample:.3?}");
        Ok(Some(sample))
    })?;
    Ok(report(&samples))
}

/// Prints what was measured, beside its bounds. Whether they are kept.
fn report(samples: &[Vec<Sample>]) -> bool {
    let rows = |pick: fn(&Sample) -> Option<f64>| -> Vec<f64> { samples.iter().flatten().filter_map(pick).collect() };
    let told = |values: Vec<f64>| {
        let (low, middle, high) = spread(values);
        format!("{middle:.3} ({low:.3} to {high:.3})")
    };
    let disks = rows(|sample| if let Sample::Disk(rate) = sample { Some(*rate) } else { None });
    println!("  io_uring alone      {} GB/s", told(disks.iter().map(|rate| rate / 1e9).collect()));
    let mut kept = true;
    for (sample, disk) in samples.iter().flatten().filter(|sample| matches!(sample, Sample::Played { .. })).zip(&disks)
    {
        let Sample::Played { streams, under_way, dry, first_byte, rate, read } = *sample else { continue };
        let holds = dry == 0 && under_way == u64::from(streams);
        kept &= holds;
        println!(
            "  {streams} streams of 5 Mbit/s: {under_way} played, {dry} ran dry; first byte p99 {:.1} ms; {:.3} GB/s, \
             of them {:.3} from disk, {:.2} of io_uring's: {}",
            first_byte / 1e6,
            rate / 1e9,
            read / 1e9,
            read / disk,
            word(holds)
        );
    }
    let downloaded = rows(|sample| if let Sample::Downloaded { read, .. } = sample { Some(*read) } else { None });
    let rates = rows(|sample| if let Sample::Downloaded { rate, .. } = sample { Some(*rate / 1e9) } else { None });
    let of_memory = rows(|sample| if let Sample::Remembered(rate) = sample { Some(*rate) } else { None });
    println!("  the same from memory {} GB/s", told(of_memory.iter().map(|rate| rate / 1e9).collect()));
    // What is in memory already is not read: of the rest as much as there could be.
    let least = disks.iter().zip(&of_memory).map(|(disk, memory)| disk.min(*memory));
    let shares: Vec<f64> = rates.iter().zip(least).map(|(rate, least)| rate * 1e9 / least).collect();
    let holds = spread(shares.clone()).1 >= REACHED;
    println!(
        "  {DOWNLOADS} downloads: {} GB/s, of them {} from disk; {} of io_uring's or memory's, at least {REACHED}: {}",
        told(rates),
        told(downloaded.iter().map(|read| read / 1e9).collect()),
        told(shares),
        word(holds)
    );
    kept && holds
}

struct Bench<'a> {
    plan: &'a Plan,
    nearside: &'a Path,
    cores: (u16, u16),
    scratch: &'a Path,
    store: FilmStore,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn span(&self) -> Duration {
        Duration::from_secs(self.plan.seconds)
    }

    /// As many streams as the disk has content for.
    fn play(&self, disk: f64) -> Result<Sample, BenchError> {
        let streams = (disk * SHARE * 8.0 / RATE).min(f64::from(self.plan.streams)).max(1.0) as u32;
        // More than a stream takes.
        let part = (RATE / 8.0 * 2.0 * (self.plan.seconds + 10) as f64) as u64;
        let flags = ["--stream=5Mbit", "--stream-start=spread", "--buffer=1s", "--ramp=3s", "--warmup=5s"];
        let (said, read) = self.ask(streams, (self.store.part(part), FILMS), streams, &flags)?;
        let played = StreamsPlayed::read(&said)?;
        let (under_way, dry, rate) = (played.under_way, played.dry(), played.bits_per_second / 8.0);
        Ok(Sample::Played { streams, under_way, dry, first_byte: played.first_byte.p99_ns, rate, read })
    }

    /// Parts of so many of the files, as fast as they come. One of them fits into memory.
    fn download(&self, files: u64) -> Result<Sample, BenchError> {
        let (said, read) = self.ask(DOWNLOADS, (PART, files), 20 * DOWNLOADS, &["--warmup=2s"])?;
        let Requests { throughput } = serde_json::from_str(&said)?;
        Ok(Sample::Downloaded { rate: throughput.body_bytes_per_second, read })
    }

    /// What `load` says of so many connections that ask for parts anywhere in the store, and the bytes a
    /// second that were read for them.
    fn ask(
        &self,
        connections: u32,
        (part, files): (u64, u64),
        requests: u32,
        flags: &[&str],
    ) -> Result<(String, f64), BenchError> {
        let (mut server, page) = self.serve()?;
        let list = self.scratch.join("requests");
        fs::write(&list, self.store.requests(requests, part, files, connections.into()))?;
        let mut words = vec![self.nearside.display().to_string(), "load".to_owned(), format!("https://{}/", LINK[0])];
        words.extend(
            ["--urls", &list.display().to_string(), "--insecure", "--json", "--progress=none"].map(str::to_owned),
        );
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        words.push(format!("--connections={connections}"));
        words.push(format!("--duration={}s", self.plan.seconds));
        words.push(format!("--link=memif:{},role=client", self.socket().display()));
        words.push(format!("--addr={}/24", LINK[1]));
        let client = Program { name: "nearside load", netns: None, core: Some(self.cores.1), words };
        let mut client = client.start(self.scratch)?;
        let before = page.read()?.sum("app.block_reads")?;
        let began = Clock.now();
        let said = client.finish(self.span() + PATIENCE, self.interrupt)?;
        let took = Clock.now().since(began).as_secs_f64();
        let blocks = page.read()?.sum("app.block_reads")? - before;
        server.still_runs()?;
        Ok((said, (blocks * BLOCK) as f64 / took))
    }

    fn socket(&self) -> PathBuf {
        self.scratch.join("media.sock")
    }

    fn serve(&self) -> Result<(Running, Page), BenchError> {
        let page = self.scratch.join("media.page");
        let (films, listen) = (self.store.place()?, format!("{}:443", LINK[0]));
        let site = MediaSite {
            films: &films,
            own: self.scratch,
            listen: &listen,
            secured: Some(Sealer::Server),
            reading: FilmReading::Sendfile,
        };
        let text = site.configuration();
        let file = self.scratch.join("media.conf");
        fs::write(&file, text)?;
        let _ = fs::remove_file(self.scratch.join("pid"));
        let _ = fs::remove_file(self.socket());
        let mut words =
            vec![self.nearside.display().to_string(), "nginx".to_owned(), "-e".to_owned(), "stderr".to_owned()];
        words.extend(["-c".to_owned(), file.display().to_string(), format!("--core={}", self.cores.0)]);
        words.push(format!("--link=memif:{},role=server", self.socket().display()));
        words.extend([format!("--addr={}/24", LINK[0]), format!("--media-memory={}M", self.plan.memory)]);
        words.push(format!("--status-page={}", page.display()));
        let mut server = Program { name: "media", netns: None, core: None, words }.start(self.scratch)?;
        let is_ready = || self.scratch.join("pid").exists() && page.exists();
        server.wait_until("start", PATIENCE, self.interrupt, is_ready)?;
        self.interrupt.sleep(Duration::from_millis(500))?;
        let page = Page::open(&page)?;
        Ok((server, page))
    }
}

/// What `load` says of requests, as far as it is asked.
#[derive(Deserialize)]
struct Requests {
    throughput: Throughput,
}

#[derive(Deserialize)]
struct Throughput {
    body_bytes_per_second: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_of_each_turn_and_of_the_middle() {
        let played = |dry| Sample::Played { streams: 10, under_way: 10, dry, first_byte: 1e6, rate: 6e6, read: 6e6 };
        let turns = |dry, rate| {
            let downloaded = Sample::Downloaded { rate, read: rate / 2.0 };
            let samples = [Sample::Disk(1e9), played(dry), downloaded, Sample::Remembered(2e9)];
            samples.map(|sample| vec![sample])
        };
        assert!(report(&turns(0, 8.1e8)));
        assert!(!report(&turns(1, 8.1e8)) && !report(&turns(0, 7.9e8)));
        assert!(!report(&[Vec::new(), Vec::new(), Vec::new()]), "nothing was measured");
    }
}
