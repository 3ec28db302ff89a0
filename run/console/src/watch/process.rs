//! One process: what `/proc` tells of it, and what is counted where it runs.

use super::mallocs::{SAMPLED, UPROBE_NANOS, place_of_malloc};
use super::profile::Profile;
use super::serving::{Serving, serving};
use crate::plan::Tracing;
use ::watch::Process;
use cpu::process_stat::ProcessStat;
use perf::counter::{Count, What, Whose};
use perf::{Tracefs, cost};
use say::Failure;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Threads that are looked at, at most: each has counters of its own.
const THREADS_LIMIT: usize = 512;

/// Looks at a process.
pub(super) struct Looker {
    pid: u32,
    /// Who was named, where its child is looked at in its place.
    named: u32,
    tracing: Tracing,
    notes: Vec<String>,
    /// By thread: each figure's counter.
    counters: HashMap<u32, Vec<(&'static str, Count)>>,
    /// What threads counted that have ended.
    ended: BTreeMap<&'static str, u64>,
    missing: BTreeMap<String, String>,
    tracepoints: Vec<(&'static str, u64)>,
    nanos_each: f64,
    malloc: Option<(PathBuf, u64)>,
    mallocs: f64,
    /// When malloc was last probed.
    sampled_until: u64,
    profile: Option<Profile>,
    probe_nanos: f64,
    last: u64,
    looks: u64,
    placed: BTreeMap<u16, u64>,
}

impl Looker {
    /// # Errors
    /// If there is no such process.
    pub(super) fn new(pid: u32, tracing: Tracing) -> Result<Self, Failure> {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(format!("there is no process {pid}, or none that this user may see (proc's hidepid)").into());
        }
        let mut looker = Self::of(Serving { pid, notes: Vec::new() }, pid, tracing);
        looker.go_on();
        Ok(looker)
    }

    /// Looks at who serves now for the process that was named: another one where a parent
    /// started it anew.
    fn go_on(&mut self) {
        let serving = serving(self.named);
        if serving.pid != self.pid {
            *self = Self::of(serving, self.named, self.tracing);
        } else {
            self.notes = serving.notes;
        }
    }

    fn of(serving: Serving, named: u32, tracing: Tracing) -> Self {
        let Serving { pid, notes } = serving;
        let mut missing = BTreeMap::new();
        let mut tracepoints = Vec::new();
        for (asked, figure, name) in [
            (tracing.syscalls, "system calls", "raw_syscalls/sys_enter"),
            (tracing.receives, "receives", "sock/sock_recv_length"),
        ] {
            match Tracefs::open().and_then(|tracefs| tracefs.format(name)) {
                _ if !asked => {}
                Ok(format) => tracepoints.push((figure, format.id)),
                Err(why) => drop(missing.insert(figure.to_owned(), why)),
            }
        }
        let malloc = match tracing.mallocs.then(|| place_of_malloc(pid)) {
            Some(Ok(place)) => Some(place),
            Some(Err(why)) => {
                missing.insert("mallocs".to_owned(), why);
                None
            }
            None => None,
        };
        let profile = match tracing.symbols.then(|| Profile::of(pid, tracing.graphs)) {
            Some(Ok(profile)) => Some(profile),
            Some(Err(why)) => {
                missing.insert("symbols".to_owned(), why);
                None
            }
            None => None,
        };
        let nanos_each = if tracepoints.is_empty() { 0.0 } else { cost::of_a_tracepoint(false).unwrap_or(0.0) };
        Self {
            pid,
            named,
            tracing,
            notes,
            counters: HashMap::new(),
            ended: BTreeMap::new(),
            missing,
            tracepoints,
            nanos_each,
            malloc,
            mallocs: 0.0,
            sampled_until: 0,
            profile,
            probe_nanos: 0.0,
            last: 0,
            looks: 0,
            placed: BTreeMap::new(),
        }
    }

    /// As it is now, `None` if it has ended; and what looking has made it spend,
    /// nanoseconds.
    pub(super) fn look(&mut self) -> (Option<Process>, u64) {
        self.sample_mallocs();
        let process = self.process().or_else(|| {
            // A parent may have started another one.
            (self.pid != self.named).then(|| self.go_on())?;
            self.process()
        });
        (process, self.probe_nanos as u64)
    }

    fn process(&mut self) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let stat = Stat::parse(&stat)?;
        let mut process = Process { pid: self.pid, name: stat.name, began: stat.began, ..Process::default() };
        let hz = rustix::param::clock_ticks_per_second().max(1);
        process.counts.insert("processor ms, user".to_owned(), stat.user * 1_000 / hz);
        process.counts.insert("processor ms, system".to_owned(), stat.system * 1_000 / hz);
        process.counts.insert("page faults without a disk".to_owned(), stat.minor_faults);
        process.counts.insert("page faults from a disk".to_owned(), stat.major_faults);
        process.levels.insert("threads".to_owned(), stat.threads);
        process.levels.insert("memory, MiB".to_owned(), (stat.pages * 4_096) >> 20);
        let threads = threads(self.pid);
        self.delays(&threads, &mut process);
        self.count(&threads, &mut process);
        if self.malloc.is_some() {
            process.counts.insert("mallocs, from a tenth of a second".to_owned(), self.mallocs as u64);
        }
        process.counts.insert("microseconds that looking cost it".to_owned(), (self.probe_nanos / 1e3) as u64);
        if let Some(profile) = &mut self.profile {
            (process.symbols, process.chains) = profile.look();
        }
        // Walking its page tables holds its lock: seldom.
        if self.looks.is_multiple_of(10) {
            self.placed = placed(&fs::read_to_string(format!("/proc/{}/numa_maps", self.pid)).unwrap_or_default());
        }
        self.looks += 1;
        process.placed.clone_from(&self.placed);
        process.missing.clone_from(&self.missing);
        process.notes.clone_from(&self.notes);
        if process.missing.get(CYCLES).is_some_and(|why| why == perf::NO_PMU) {
            process.notes.push(unanswered(self.pid));
        }
        Some(process)
    }

    /// How long its threads waited for a core, and how often they left one.
    fn delays(&self, threads: &[u32], process: &mut Process) {
        let (mut waited, mut left, mut taken) = (0_u64, 0_u64, 0_u64);
        for thread in threads {
            let folder = format!("/proc/{}/task/{thread}", self.pid);
            let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            waited +=
                read("schedstat").split_ascii_whitespace().nth(1).and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
            for line in read("status").lines() {
                let value = |rest: &str| rest.trim().parse::<u64>().unwrap_or(0);
                if let Some(rest) = line.strip_prefix("voluntary_ctxt_switches:") {
                    left += value(rest);
                } else if let Some(rest) = line.strip_prefix("nonvoluntary_ctxt_switches:") {
                    taken += value(rest);
                }
            }
        }
        process.counts.insert("us that it waited for a core".to_owned(), waited / 1_000);
        process.counts.insert("times that it left its core".to_owned(), left);
        process.counts.insert("times that its core was taken".to_owned(), taken);
    }

    /// Counters of each thread: begun where it is new, kept where it has ended.
    fn count(&mut self, threads: &[u32], process: &mut Process) {
        let gone: Vec<u32> = self.counters.keys().copied().filter(|thread| !threads.contains(thread)).collect();
        for thread in gone {
            for (figure, mut count) in self.counters.remove(&thread).unwrap_or_default() {
                *self.ended.entry(figure).or_default() += count.read().unwrap_or(0);
            }
        }
        for thread in threads {
            if !self.counters.contains_key(thread) {
                let begun = self.begin(*thread);
                self.counters.insert(*thread, begun);
            }
        }
        let mut sums = self.ended.clone();
        for (figure, count) in self.counters.values_mut().flatten() {
            *sums.entry(figure).or_default() += count.read().unwrap_or(0);
        }
        let hits: u64 = self.tracepoints.iter().filter_map(|(figure, _)| sums.get(figure)).sum();
        self.probe_nanos += hits.saturating_sub(self.last) as f64 * self.nanos_each;
        self.last = hits;
        process.counts.extend(sums.into_iter().map(|(figure, sum)| (figure.to_owned(), sum)));
    }

    fn begin(&mut self, thread: u32) -> Vec<(&'static str, Count)> {
        let usual = [
            (CYCLES, What::Cycles),
            ("instructions", What::Instructions),
            ("misses of the last cache", What::CacheMisses),
            ("misses of the TLB", What::TlbMisses),
        ];
        let traced = self.tracepoints.iter().map(|(figure, id)| (*figure, What::Tracepoint(*id)));
        let mut counts = Vec::new();
        for (figure, what) in usual.into_iter().chain(traced) {
            match Count::start(what, Whose::Alone(thread)) {
                Ok(count) => counts.push((figure, count)),
                // It may just have ended.
                Err(_) if !Path::new(&format!("/proc/{}/task/{thread}", self.pid)).exists() => {}
                Err(why) => drop(self.missing.insert(figure.to_owned(), why)),
            }
        }
        counts
    }

    /// Probes malloc for a moment: each call of it then costs far more than
    /// itself.
    fn sample_mallocs(&mut self) {
        let Some((file, offset)) = &self.malloc else { return };
        let now = perf::clock::raw();
        let counts: Result<Vec<Count>, String> = threads(self.pid)
            .into_iter()
            .map(|thread| Count::start(What::Uprobe(file, *offset), Whose::Alone(thread)))
            .collect();
        let mut counts = match counts {
            Ok(counts) => counts,
            Err(why) => {
                self.missing.insert("mallocs".to_owned(), why);
                self.malloc = None;
                return;
            }
        };
        std::thread::sleep(SAMPLED);
        let took = perf::clock::raw().saturating_sub(now).max(1);
        let hits: u64 = counts.iter_mut().filter_map(|count| count.read().ok()).sum();
        let since =
            if self.sampled_until == 0 { took } else { now.saturating_add(took).saturating_sub(self.sampled_until) };
        self.sampled_until = now.saturating_add(took);
        self.mallocs += hits as f64 * since as f64 / took as f64;
        self.probe_nanos += hits as f64 * UPROBE_NANOS;
    }
}

const CYCLES: &str = "cycles";

/// Which questions stay open on a machine that does not show its counters, and who could answer
/// them.
fn unanswered(pid: u32) -> String {
    format!(
        "no counters of the processor (PMU) are shown here, so nobody can tell how much of its cycles is waiting for \
         memory (instructions per cycle), nor which loads miss the caches or the TLB, and from which domain they are \
         served (perf mem, perf c2c). On bare metal, or in a guest that is given a PMU (qemu: -cpu host,pmu=on), perf \
         stat -d -p {pid} and perf mem record -p {pid} can; what there is without are page faults, memory by domain, \
         and --trace symbols"
    )
}

/// A process's threads, as many as are looked at.
fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(THREADS_LIMIT).collect()
}

/// Of proc_pid_stat(5).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stat {
    name: String,
    minor_faults: u64,
    major_faults: u64,
    user: u64,
    system: u64,
    threads: u64,
    began: u64,
    pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        let stat = ProcessStat::parse(text)?;
        let (user, system) = stat.ticks()?;
        Some(Self {
            name: stat.name().to_owned(),
            minor_faults: stat.field(10)?,
            major_faults: stat.field(12)?,
            user,
            system,
            threads: stat.field(20)?,
            began: stat.began()?,
            pages: stat.field(24)?,
        })
    }
}

/// Bytes by domain, of numa_maps: `N0=5 kernelpagesize_kB=4`.
fn placed(text: &str) -> BTreeMap<u16, u64> {
    let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
    for line in text.lines() {
        let words = || line.split_ascii_whitespace();
        let size = words().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok()).unwrap_or(4);
        for word in words() {
            let part = word.strip_prefix('N').and_then(|rest| rest.split_once('='));
            if let Some((Ok(domain), Ok(pages))) = part.map(|(domain, pages)| (domain.parse(), pages.parse::<u64>())) {
                *sums.entry(domain).or_default() += pages.saturating_mul(size) << 10;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_with_any_name() {
        let text = "77 (a) S 1 (b) R 5 0 0 0 0 0 11 0 12 0 30 12 0 0 20 0 4 0 100 1 9 1\n";
        let stat = Stat::parse(text).expect("a line");
        assert_eq!((stat.name.as_str(), stat.minor_faults, stat.major_faults), ("a) S 1 (b", 11, 12));
        assert_eq!((stat.user, stat.system, stat.threads, stat.began, stat.pages), (30, 12, 4, 100, 9));
        assert_eq!(Stat::parse("77 (a"), None);
    }

    #[test]
    fn memory_by_domain_counts_pages_of_any_size() {
        let text =
            "7f0 default anon=3 N0=2 N1=1 kernelpagesize_kB=4\n7f1 default huge N1=1 kernelpagesize_kB=2048\nx\n";
        assert_eq!(placed(text), [(0, 8 << 10), (1, (4 << 10) + (2 << 20))].into());
    }

    #[test]
    fn this_process_is_looked_at() {
        let own = std::process::id();
        let mut looker = Looker::new(own, Tracing { syscalls: true, ..Tracing::default() }).expect("it is there");
        let (first, _) = looker.look();
        let (second, _) = looker.look();
        let (first, second) = (first.expect("it lives"), second.expect("it lives"));
        assert_eq!((first.pid, first.began), (second.pid, second.began));
        assert!(first.levels["threads"] >= 1 && second.counts.contains_key("us that it waited for a core"));
        assert!(second.counts.contains_key("system calls") || second.missing.contains_key("system calls"));
        assert!(Looker::new(u32::MAX >> 1, Tracing::default()).is_err());
    }

    #[test]
    fn what_only_a_pmu_tells_is_named_where_there_is_none() {
        let own = std::process::id();
        let (process, _) = Looker::new(own, Tracing::default()).expect("it is there").look();
        let process = process.expect("it lives");
        let named = process.notes.iter().any(|note| note.contains("perf mem record -p"));
        // With counters, and where they are not permitted, that question is another.
        assert_eq!(named, process.missing.get(CYCLES).is_some_and(|why| why == perf::NO_PMU), "{process:?}");
        let all = unanswered(7);
        assert!(all.contains("TLB") && all.contains("perf mem record -p 7") && all.contains("pmu=on"), "{all}");
    }
}
