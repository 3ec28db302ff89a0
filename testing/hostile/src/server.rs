//! `nearside serve` in a process of its own, and what can be seen of it.

use crate::arena::{PORT, SERVER, SERVER_MAC, SERVER_V6};
use crate::line::CONTENT;
use core::time::Duration;
use page::Reader;
use rustix::process::{Pid, Signal, kill_process};
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// What ends a run: a sentence for the user.
pub type Failure = Box<dyn Error>;

/// Connections that the server may hold: the noise gets some of them, a leak
/// would get them all.
pub const MAX_CONNECTIONS: u64 = 1_000;
/// Half-open handshakes that it may hold, its default.
pub const MAX_HALF_OPEN: u64 = 4_096;
/// Bytes of received data that it may hold, its default.
pub const MAX_RECEIVED: u64 = 256 << 20;
/// How much of its memory may be added after the first seconds. Tables that
/// fill up to their limits take less; a leak of a byte for each frame would
/// take more.
pub const MAX_GROWTH: u64 = 16 << 20;

/// How long the server waits for its peers, of which some have vanished, once
/// it is to stop.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// The server's process. Dropping it ends it.
pub struct Server {
    child: Child,
    folder: PathBuf,
}

/// What the server says of itself, and the system of it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Counters and gauges by name.
    pub values: Vec<(String, u64)>,
    /// Bytes of memory of its own that are resident.
    pub memory: u64,
    /// Time that it ran for.
    pub ran: Duration,
}

impl Sample {
    /// A counter or gauge; zero if there is none of that name.
    #[must_use]
    pub fn value(&self, name: &str) -> u64 {
        self.values.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }
}

impl Server {
    /// Starts `program`, on `core` if one is given.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: &Path, core: Option<u16>) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("nearside-hostile-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
        let said = File::create(folder.join("said"))?;
        let mut words = vec![
            "serve".to_owned(),
            "--user=root".to_owned(),
            format!("--respond={CONTENT}"),
            format!("--link=memif:{}", socket(&folder).display()),
            format!("--addr={SERVER}/8"),
            format!("--addr={SERVER_V6}/64"),
            format!("--mac={SERVER_MAC}"),
            format!("--listen={PORT}"),
            format!("--max-connections={MAX_CONNECTIONS}"),
            format!("--drain-timeout={}s", DRAIN_LIMIT.as_secs()),
            format!("--status-page={}", folder.join("page").display()),
        ];
        words.extend(core.map(|core| format!("--core={core}")));
        // It dies with us, however we die.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()
            .map_err(|why| format!("cannot start {}: {why}", program.display()))?;
        Ok(Self { child, folder })
    }

    /// Where its memif is to be reached.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        Ok(self.child.try_wait()?)
    }

    /// What it printed.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    /// Asks it to finish.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn stop(&self) -> Result<(), Failure> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?)
    }

    /// What is to be seen of it now.
    ///
    /// # Errors
    /// If it is gone, or its statistics page is not there.
    pub fn sample(&self) -> Result<Sample, Failure> {
        let reader = Reader::open(&self.folder.join("page"))?;
        let snapshot = reader.snapshot()?;
        let silo = snapshot.silos.first().ok_or("a page without a silo")?;
        let names = reader.metrics().iter().map(|(name, _)| name.clone());
        let pid = self.child.id();
        Ok(Sample { values: names.zip(silo.values.iter().copied()).collect(), memory: memory(pid)?, ran: ran(pid)? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("memif.sock")
}

/// RssAnon of proc_pid_status(5).
fn memory(process: u32) -> Result<u64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes: u64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).ok_or("no RssAnon")?;
    Ok(kilobytes * 1_024)
}

/// utime and stime of proc_pid_stat(5), which follow the name in parentheses.
fn ran(process: u32) -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
