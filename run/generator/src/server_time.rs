//! The CPU time of the server under load, from its statistics page or from
//! the kernel's files on its process.

use core::time::Duration;
use cpu::process_stat::{self, ProcessStat};
use page::Reader;
use report::CpuUse;
use say::Failure;
use std::fs;
use std::path::Path;

/// Where a server's time is read.
pub enum ServerTime {
    /// From the page on which it publishes how long its silos were busy.
    Page(Box<Reader>),
    /// From /proc, of a process and those below it.
    Process(u32),
}

/// What a silo publishes of its time.
const BUSY: &str = "silo.busy_ns";

impl ServerTime {
    /// From the statistics page at `path`, if it has the silos' time; of that
    /// process by number if not.
    ///
    /// # Errors
    /// If there is no page.
    pub fn page(path: &Path) -> Result<Self, Failure> {
        let reader = Reader::open(path).map_err(|why| format!("no statistics page at {}: {why}", path.display()))?;
        Self::read_from(reader)
    }

    /// From a page that was found.
    ///
    /// # Errors
    /// If neither it nor /proc has the time.
    pub fn read_from(reader: Reader) -> Result<Self, Failure> {
        let own = reader.metrics().iter().any(|(name, _)| name == BUSY);
        if own { Ok(Self::Page(Box::new(reader))) } else { Self::process(reader.pid()) }
    }

    /// Of the process with this number and all below it.
    ///
    /// # Errors
    /// If there is none.
    pub fn process(pid: u32) -> Result<Self, Failure> {
        let server = Self::Process(pid);
        server.read().map(|_| server).ok_or_else(|| format!("there is no process {pid} to read the time of").into())
    }

    /// Its time so far; `None` once the server is gone.
    #[must_use]
    pub fn read(&self) -> Option<Spent> {
        match self {
            Self::Page(reader) => {
                let place = reader.metrics().iter().position(|(name, _)| name == BUSY)?;
                let silos = reader.snapshot().ok()?.silos;
                let busy = silos.iter().filter_map(|silo| silo.values.get(place)).sum();
                // A silo that polls is charged for all of its time, and tells how much it needed.
                reader.is_alive().then(|| Spent { all: Duration::from_nanos(busy), system: None })
            }
            Self::Process(pid) => tree(*pid),
        }
    }
}

/// Processor time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub struct Spent {
    /// In all.
    pub all: Duration,
    /// Of it, in the kernel, where that is told apart.
    pub system: Option<Duration>,
}

impl Spent {
    /// What was spent since `earlier`, as a share of `span`.
    pub fn since(&self, earlier: &Self, span: Duration) -> CpuUse {
        let share = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / span.as_secs_f64();
        let all = share(self.all, earlier.all);
        match self.system.zip(earlier.system) {
            Some((now, then)) => CpuUse::of(all - share(now, then), share(now, then)),
            None => CpuUse { all, user: None, system: None },
        }
    }
}

/// What /proc/PID/stat says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    pid: u32,
    parent: u32,
    /// User and system time.
    ticks: u64,
    /// Of it, system time.
    system: u64,
}

/// A process and those below it. One that ends in between takes its time with
/// it, unless its parent waited for it.
fn tree(root: u32) -> Option<Spent> {
    let all: Vec<Stat> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| stat(&process_stat::line_of(pid)?))
        .collect();
    let own = all.iter().find(|stat| stat.pid == root)?;
    let (mut ticks, mut system) = (own.ticks, own.system);
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for child in all.iter().filter(|stat| stat.parent == parent && stat.pid != parent) {
            (ticks, system) = (ticks + child.ticks, system + child.system);
            open.push(child.pid);
        }
    }
    let span = |ticks: u64| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64);
    Some(Spent { all: span(ticks), system: Some(span(system)) })
}

fn stat(text: &str) -> Option<Stat> {
    let stat = ProcessStat::parse(text)?;
    let (user, system) = stat.ticks()?;
    Some(Stat { pid: stat.number(), parent: stat.parent()?, ticks: user + system, system })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "77 (a) S 1 (b) R 5 0 0 0 0 0 0 0 0 0 30 12 0 0 20 0 1 0 100 1 1\n";
        assert_eq!(stat(text), Some(Stat { pid: 77, parent: 5, ticks: 42, system: 12 }));
        assert_eq!((stat(""), stat("1 (x"), stat("1 (x) S")), (None, None, None));
    }

    #[test]
    fn this_process_is_one() {
        let me = ServerTime::process(std::process::id()).expect("this very process");
        let before = me.read().expect("still here");
        assert!(me.read() >= Some(before));
        let second = Duration::from_secs(1);
        let later = Spent { all: before.all + second * 3, system: before.system.map(|system| system + second) };
        assert_eq!(later.since(&before, second * 2), CpuUse::of(1.0, 0.5));
        assert!(ServerTime::process(u32::MAX).is_err());
        assert!(ServerTime::page(Path::new("/nowhere/page")).is_err());
    }
}
