//! Threads that were ready and had no core, by the kernel's account of each
//! (Documentation/scheduler/sched-stats.rst).

use super::owner::{Whereabouts, numbers};
use core::time::Duration;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Threads that are watched, at most: a look is to take microseconds.
const THREADS_LIMIT: usize = 128;

/// Cores that are told apart.
const CORES: usize = 1_024;

/// Looks of which the usual wait of a wake is taken.
const USUAL_OF: usize = 32;

/// A look with fewer wakes says nothing of the usual wait.
const WAKES_LEAST: u64 = 8;

/// No wake takes longer where nobody else has the core: an idle core in a
/// virtual machine is back in some 30 µs.
const WAKE_LONGEST: f64 = 30_000.0;

/// How far waits may be above the usual.
const USUAL_ROOM: f64 = 2.0;

/// Names of this process's threads that measure, and are not measured.
pub const OWN_WATCH: [&str; 2] = ["near-collect", "near-wakes"];

/// Whose thread it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Generator,
    Server,
    /// The kernel's, for what the network brings.
    Network,
}

/// The threads that matter.
#[derive(Debug)]
pub struct Threads {
    all: HashMap<(u32, u32), Thread>,
    /// Kernel threads that take what interrupts leave.
    network: Vec<u32>,
}

#[derive(Debug)]
struct Thread {
    group: Group,
    account: File,
    cores: Cores,
    last: Account,
    usual: Usual,
    /// Whether it was listed last time.
    here: bool,
}

/// Nanoseconds on a core, nanoseconds ready and without one, times that it
/// came onto one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    worked: u64,
    waited: u64,
    runs: u64,
}

type Cores = [u64; CORES / 64];

/// What a look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    pub generator: Option<Duration>,
    pub server: Option<Duration>,
    /// Somebody waited, perhaps for another thread that is watched.
    pub unsure: bool,
}

impl Threads {
    pub fn new() -> Self {
        let named = |pid: &u32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("ksoftirqd/")
        };
        Self { all: HashMap::new(), network: numbers("/proc").filter(named).collect() }
    }

    /// Finds threads that are new, and forgets those that are gone.
    pub fn list(&mut self, own: u32, server: &Whereabouts) {
        for thread in self.all.values_mut() {
            thread.here = false;
        }
        self.list_process(own, Group::Generator);
        for process in server.processes() {
            self.list_process(*process, Group::Server);
        }
        for process in self.network.clone() {
            self.list_process(process, Group::Network);
        }
        self.all.retain(|_, thread| thread.here);
    }

    fn list_process(&mut self, process: u32, group: Group) {
        for thread in numbers(&format!("/proc/{process}/task")) {
            let cores = cores_of(thread);
            if let Some(known) = self.all.get_mut(&(process, thread)) {
                (known.here, known.cores) = (true, cores);
                continue;
            }
            let folder = format!("/proc/{process}/task/{thread}");
            let name = fs::read_to_string(format!("{folder}/comm")).unwrap_or_default();
            let measures = group == Group::Generator && OWN_WATCH.contains(&name.trim());
            if measures || self.all.len() >= THREADS_LIMIT {
                continue;
            }
            let Ok(account) = File::open(format!("{folder}/schedstat")) else { continue };
            let Some(last) = read(&account) else { continue };
            let usual = Usual::default();
            self.all.insert((process, thread), Thread { group, account, cores, last, usual, here: true });
        }
    }

    /// Whether a thread of `group` may use this core.
    pub fn may_use(&self, group: Group, core: u16) -> bool {
        let (word, bit) = (usize::from(core) / 64, usize::from(core) % 64);
        let may = |thread: &Thread| thread.cores.get(word).is_some_and(|word| word >> bit & 1 == 1);
        self.all.values().filter(|thread| thread.group == group).any(may)
    }

    /// Who waited since the last look for `limit` or longer than usual.
    pub fn look(&mut self, limit: Duration) -> Waits {
        let mut spent: Vec<(Group, Cores, Account, f64)> = Vec::with_capacity(self.all.len());
        for thread in self.all.values_mut() {
            let Some(now) = read(&thread.account) else { continue };
            let since = now.since(&thread.last);
            thread.last = now;
            spent.push((thread.group, thread.cores, since, thread.usual.of(&since)));
        }
        let mut found = Waits::default();
        for (index, (group, cores, account, usual)) in spent.iter().enumerate() {
            let beyond = account.waited as f64 - usual;
            if *group == Group::Network || beyond <= limit.as_nanos() as f64 {
                continue;
            }
            let others = spent.iter().enumerate().filter(|(other, _)| *other != index);
            let shared = others.filter(|(_, (_, theirs, ..))| theirs.iter().zip(cores).any(|(a, b)| a & b != 0));
            let mutual: u64 = shared.map(|(_, (_, _, account, _))| account.worked).sum();
            if beyond - mutual as f64 <= limit.as_nanos() as f64 {
                found.unsure = true;
                continue;
            }
            let waited = Duration::from_nanos(account.waited);
            let longest = if *group == Group::Server { &mut found.server } else { &mut found.generator };
            *longest = Some(longest.map_or(waited, |longest| longest.max(waited)));
        }
        found
    }
}

impl Account {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            worked: self.worked.saturating_sub(earlier.worked),
            waited: self.waited.saturating_sub(earlier.waited),
            runs: self.runs.saturating_sub(earlier.runs),
        }
    }
}

/// What waking takes a thread where nobody is in its way.
#[derive(Debug, Default)]
struct Usual {
    /// Nanoseconds a wake, of the last looks.
    each: Vec<f64>,
    next: usize,
}

impl Usual {
    /// The wait that so many wakes may take, by the quieter looks so far.
    fn of(&mut self, since: &Account) -> f64 {
        if since.runs >= WAKES_LEAST {
            let each = since.waited as f64 / since.runs as f64;
            if self.each.len() < USUAL_OF {
                self.each.push(each);
            } else if let Some(place) = self.each.get_mut(self.next) {
                *place = each;
            }
            self.next = (self.next + 1) % USUAL_OF;
        }
        let mut order = self.each.clone();
        order.sort_unstable_by(f64::total_cmp);
        let quarter = order.get(order.len() / 4).copied().unwrap_or(WAKE_LONGEST);
        USUAL_ROOM * quarter.min(WAKE_LONGEST) * since.runs as f64
    }
}

/// The cores that a thread may use; all, if that is not told.
fn cores_of(thread: u32) -> Cores {
    let mut cores = [0; CORES / 64];
    let pid = i32::try_from(thread).ok().and_then(rustix::process::Pid::from_raw);
    let Ok(set) = sched_getaffinity(pid) else { return [u64::MAX; CORES / 64] };
    for core in 0..CORES.min(CpuSet::MAX_CPU) {
        if let Some(word) = cores.get_mut(core / 64) {
            *word |= u64::from(set.is_set(core)) << (core % 64);
        }
    }
    cores
}

fn read(account: &File) -> Option<Account> {
    let mut buffer = [0; 96];
    let length = account.read_at(&mut buffer, 0).ok()?;
    parse(core::str::from_utf8(buffer.get(..length)?).ok()?)
}

fn parse(text: &str) -> Option<Account> {
    let mut fields = text.split_whitespace().map(str::parse);
    let mut next = || fields.next()?.ok();
    Some(Account { worked: next()?, waited: next()?, runs: next()? })
}

/// The wait of the calling thread so far.
pub fn own_wait(account: &File) -> Option<Duration> {
    Some(Duration::from_nanos(read(account)?.waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(waited: u64, runs: u64) -> Account {
        Account { worked: 5_000_000, waited, runs }
    }

    #[test]
    fn usual_waits_are_learnt_and_bounded() {
        let mut usual = Usual::default();
        for _ in 0..20 {
            usual.of(&account(300_000, 100));
        }
        assert!((usual.of(&account(6_000_000, 100)) - 600_000.0).abs() < 1.0, "twice 3 µs a wake");
        // Two looks of three are disturbed: the quieter ones decide.
        for _ in 0..30 {
            usual.of(&account(300_000, 100));
            usual.of(&account(9_000_000, 100));
            usual.of(&account(9_000_000, 100));
        }
        assert!((usual.of(&account(1, 10)) - 60_000.0).abs() < 1.0);
        // And one that never ceases is not usual.
        for _ in 0..100 {
            usual.of(&account(5_000_000, 10));
        }
        assert!((usual.of(&account(5_000_000, 10)) - USUAL_ROOM * WAKE_LONGEST * 10.0).abs() < 1.0);
    }

    #[test]
    fn the_kernels_account_is_read() {
        assert_eq!(parse("5 6 7\n"), Some(Account { worked: 5, waited: 6, runs: 7 }));
        assert_eq!((parse("5 6"), parse(""), parse("a b c")), (None, None, None));
        let mut threads = Threads::new();
        threads.list(std::process::id(), &Whereabouts::Elsewhere);
        assert!(!threads.all.is_empty());
        assert!((0..64).any(|core| threads.may_use(Group::Generator, core)));
        assert_eq!(threads.look(Duration::from_secs(3_600)), Waits::default());
    }
}
