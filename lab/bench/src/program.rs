//! Programs that an experiment starts, and a folder for them; both are gone
//! when dropped.

use crate::BenchError;
use core::time::Duration;
use demo::machine::{TICKS_PER_SECOND, process_ticks};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    said: PathBuf,
}

impl Program {
    /// Starts `program` as `name`; what it prints goes into the folder.
    pub(crate) fn start(program: &Path, name: &str, words: &[String], folder: &Path) -> Result<Self, BenchError> {
        let said = folder.join(format!("{name}.said"));
        let file = File::create(&said)?;
        // It dies with us, however we die.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|why| format!("cannot start {}: {why}", program.display()))?;
        Ok(Self { name: name.to_owned(), child, said })
    }

    /// Its process: setpriv becomes the program.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error if it ended.
    pub(crate) fn still_runs(&mut self) -> Result<(), BenchError> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        Err(format!("{} ended with {status} and said:\n{said}", self.name).into())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if it ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for sockets, pages and files to serve.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make() -> Result<Self, BenchError> {
        Self::make_in(&std::env::temp_dir())
    }

    /// One whose files are in memory (tmpfs).
    pub(crate) fn in_memory() -> Result<Self, BenchError> {
        Self::make_in(Path::new("/dev/shm"))
    }

    fn make_in(place: &Path) -> Result<Self, BenchError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("nearside-bench-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).map_err(|why| format!("cannot make {}: {why}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes of memory that a process has of its own: resident, and not shared
/// (RssAnon of proc_pid_status(5)).
pub(crate) fn memory(process: u32) -> Result<u64, BenchError> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes: u64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).ok_or("no RssAnon")?;
    Ok(kilobytes * 1_024)
}

/// What all threads of a process have had of processors: by the scheduler's account in
/// nanoseconds (Documentation/scheduler/sched-stats.rst), or without that in ticks (proc(5)).
pub(crate) fn processor_time(process: u32) -> Result<Duration, BenchError> {
    let mut all = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?.path();
        // A thread that has ended meanwhile has none.
        let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let exact: Option<u64> = read("schedstat").split_ascii_whitespace().next().and_then(|text| text.parse().ok());
        all += match exact {
            Some(nanos) => Duration::from_nanos(nanos),
            None => Duration::from_secs_f64(process_ticks(&read("stat")).unwrap_or(0) as f64 / TICKS_PER_SECOND),
        };
    }
    Ok(all)
}
