//! The machine that is measured on: what it is, and how busy it is.

pub use environment::Fingerprint;

use cpu::process_stat::{self, ProcessStat};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{Duration, Instant};

/// The clock of everything here that takes time.
#[expect(clippy::disallowed_methods, reason = "a tool that measures other programs reads the clock")]
pub fn now() -> Instant {
    Instant::now()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The cores that this process may use, in order.
pub fn allowed_cores() -> Vec<u16> {
    cpu::pin::allowed_cores().unwrap_or_default()
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The first place in the path, or in the folders of administration that a
/// user's path may lack, where `name` can be run.
pub fn find_program(name: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"])
        .map(|folder| format!("{folder}/{name}"))
        .find(|file| fs::metadata(file).is_ok_and(|data| data.is_file()))
}

/// A share of a core that others may take without a word.
pub const MAX_OTHERS: f64 = 0.08;

/// The share of one core that a side took while it was measured.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CpuShare {
    /// The process's time, user and system. A kernel without interrupt time
    /// accounting books on it most of the softirq that interrupts it.
    pub process: f64,
    /// Of that, system time: the kernel's on its behalf.
    #[serde(default)]
    pub system: f64,
    /// The core's time in softirq: the kernel's packet work.
    pub softirq: f64,
    /// The core's time with other programs, at least, or taken away by the
    /// hypervisor.
    pub others: f64,
}

/// The kernel counts in hundredths of a second whatever its own tick is
/// (USER_HZ, fixed for user space on every architecture Debian has).
pub const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time used so far by processes, and on a core.
#[derive(Clone, Copy, Debug)]
pub struct CpuSample {
    at: Instant,
    process: u64,
    system: u64,
    core: CoreTicks,
}

/// A core's times so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTicks {
    /// Everything but idle.
    pub busy: u64,
    /// Of that, softirq.
    pub softirq: u64,
}

impl CpuSample {
    /// The time of `pids` together (threads included), and of `core`.
    pub fn take(pids: &[u32], core: u16) -> Self {
        let times = pids.iter().filter_map(|pid| process_times(&process_stat::line_of(*pid)?));
        let (user, system) = times.fold((0, 0), |sum, (user, system)| (sum.0 + user, sum.1 + system));
        let core = core_ticks(&read("/proc/stat"), core).unwrap_or_default();
        Self { at: now(), process: user + system, system, core }
    }

    /// The shares from this sample to a later one.
    pub fn share_until(&self, later: &Self) -> CpuShare {
        let seconds = later.at.saturating_duration_since(self.at).max(Duration::from_millis(1)).as_secs_f64();
        let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / TICKS_PER_SECOND / seconds;
        let process = share(self.process, later.process);
        let system = share(self.system, later.system);
        let softirq = share(self.core.softirq, later.core.softirq);
        // Softirq may or may not be booked on the process: taking off both
        // errs towards nobody else.
        let others = (share(self.core.busy, later.core.busy) - process - softirq).max(0.0);
        CpuShare { process, system, softirq, others }
    }
}

impl CpuSample {
    /// The share of the core from this sample to a later one that was softirq
    /// and that no process here was charged with. A kernel without interrupt
    /// time accounting charges a process with the softirq that interrupts it,
    /// and counts it as the core's as well: beyond it there is no more than
    /// the core was busy for without the process. Overstated where others are
    /// on the core.
    #[must_use]
    pub fn softirq_beyond_until(&self, later: &Self) -> f64 {
        let CpuShare { process, softirq, .. } = self.share_until(later);
        let seconds = later.at.saturating_duration_since(self.at).max(Duration::from_millis(1)).as_secs_f64();
        let busy = later.core.busy.saturating_sub(self.core.busy) as f64 / TICKS_PER_SECOND / seconds;
        softirq.min(busy - process).max(0.0)
    }
}

/// utime + stime of `/proc/PID/stat`.
pub fn process_ticks(stat: &str) -> Option<u64> {
    process_times(stat).map(|(user, system)| user + system)
}

/// utime and stime of `/proc/PID/stat`.
pub fn process_times(stat: &str) -> Option<(u64, u64)> {
    ProcessStat::parse(stat)?.ticks()
}

/// A core's line in `/proc/stat` (proc(5)): user, nice, system, idle, iowait,
/// irq, softirq, steal.
pub fn core_ticks(stat: &str, core: u16) -> Option<CoreTicks> {
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(name.as_str()))?;
    let times: Vec<u64> = line.split_ascii_whitespace().skip(1).map_while(|time| time.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal, ..] = times[..] else { return None };
    Some(CoreTicks { busy: user + nice + system + irq + softirq + steal, softirq })
}

/// The children of a process, whichever of its threads started them
/// (`/proc/PID/task/TID/children`).
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    // A task that has ended meanwhile has none.
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

/// A process, and what it has started: of ours the one that keeps root's rights has
/// another beside it, which serves.
pub fn with_children(pid: u32) -> Vec<u32> {
    [vec![pid], children(pid)].concat()
}
