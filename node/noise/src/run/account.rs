//! What counters say of the whole run, and so of the sources of latency.

use super::ears::{Ear, Ears};
use crate::look::{self, Table};
use crate::sources::{NAMES, Sight, grouped};
use std::collections::BTreeMap;
use std::fs;

/// Counters at a moment.
#[derive(Debug)]
pub(super) struct Account {
    interrupts: Table,
    softirqs: Table,
    stolen: BTreeMap<u16, u64>,
    busy: BTreeMap<u16, u64>,
    /// By core.
    idle: BTreeMap<u16, Vec<(String, u64)>>,
    /// Of the loops' threads: waiting for a core, nanoseconds, and how often one
    /// was taken from them.
    waited: BTreeMap<u32, (u64, u64)>,
    /// Seconds of processor time of the thread that listens.
    own: Option<f64>,
}

impl Account {
    pub(super) fn take(cores: &[u16], threads: &[u32]) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let waited = |thread: &u32| {
            let folder = format!("/proc/self/task/{thread}");
            let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            let waited = look::schedstat(&read("schedstat"))?[1];
            let status = read("status");
            let taken = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
            Some((*thread, (waited, taken.trim().parse().ok()?)))
        };
        Self {
            interrupts: Table::read("/proc/interrupts"),
            softirqs: Table::read("/proc/softirqs"),
            stolen: look::stolen(&stat),
            busy: look::busy(&stat),
            idle: cores.iter().map(|core| (*core, look::idle_states(*core))).collect(),
            waited: threads.iter().filter_map(waited).collect(),
            own: own(),
        }
    }

    /// What interrupts and softirqs of a core grew by: their names, and by how
    /// much.
    pub(super) fn grown(&self, earlier: &Self, core: u16) -> Vec<(String, u64)> {
        let interrupts = self.interrupts.grown(&earlier.interrupts, core);
        let softirqs = self.softirqs.grown(&earlier.softirqs, core);
        let named = interrupts.into_iter().map(|(key, name, grown)| (format!("{key} {name}"), grown));
        named.chain(softirqs.into_iter().map(|(key, _, grown)| (format!("softirq {key}"), grown))).collect()
    }

    pub(super) fn stolen_ms(&self, earlier: &Self, core: u16) -> Option<u64> {
        let (now, before) = (self.stolen.get(&core)?, earlier.stolen.get(&core)?);
        Some(now.saturating_sub(*before) * 10)
    }

    pub(super) fn own_seconds(&self, earlier: &Self) -> Option<f64> {
        Some((self.own? - earlier.own?).max(0.0))
    }

    /// What rows of `/proc/interrupts` grew by on these cores; `None` where there
    /// are no such rows.
    fn rows(&self, earlier: &Self, cores: &[u16], is_one: impl Fn(&str) -> bool) -> Option<u64> {
        let keys: Vec<&str> = self.interrupts.rows.iter().map(|row| &*row.key).filter(|key| is_one(key)).collect();
        let grown = |core: &u16| -> u64 {
            keys.iter()
                .filter_map(|key| {
                    Some(look::difference(self.interrupts.count(key, *core)?, earlier.interrupts.count(key, *core)?))
                })
                .sum()
        };
        (!keys.is_empty()).then(|| cores.iter().map(grown).sum())
    }

    fn idled(&self, earlier: &Self, deep: bool) -> Option<u64> {
        let mut known = false;
        let mut sum = 0;
        for (core, states) in &self.idle {
            for (at, (_, usage)) in states.iter().enumerate().filter(|(at, _)| (*at >= 2) == deep) {
                known = true;
                let before =
                    earlier.idle.get(core).and_then(|states| states.get(at)).map_or(*usage, |(_, usage)| *usage);
                sum += usage.saturating_sub(before);
            }
        }
        known.then_some(sum)
    }
}

/// The calling thread's processor time.
fn own() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(look::schedstat(&text)?[0] as f64 / 1e9)
}

/// What was seen of each source, in the order of [`NAMES`].
pub(super) fn sights(ears: &mut Ears, before: &Account, after: &Account) -> [Sight; NAMES.len()] {
    let cores: Vec<u16> = ears.cores.iter().map(|ear| ear.core).collect();
    let rows = |is_one: &dyn Fn(&str) -> bool, none: &str| {
        after.rows(before, &cores, is_one).ok_or_else(|| format!("/proc/interrupts has no row {none}"))
    };
    let hits =
        |name: &str| -> Result<u64, String> { ears.cores.iter().map(|ear| ear.hits_of(&ears.tracepoints, name)).sum() };
    let is_device = |key: &str| key.bytes().all(|byte| byte.is_ascii_digit());
    let is_ipi = |key: &str| matches!(key, "RES" | "CAL" | "TLB" | "IWI") || key.starts_with("IPI");
    let devices = rows(&is_device, "of a device");
    let checks = rows(&|key| key == "MCE", "MCE");
    let ipis = rows(&is_ipi, "of interrupts between cores");
    let timers = rows(&|key| key == "LOC", "LOC");
    let frequency = frequency(hits("power/cpu_frequency"));
    let (locks, stalls) = (hits("lock/contention_begin"), hits("rcu/rcu_stall_warning"));
    let scheduled = Sight::of(scheduled(&cores, before, after), "ms that loops waited for their cores", "schedstat");
    let switches = switches(&ears.cores, before, after);
    let neighbours = neighbours(&ears.cores, before, after);
    let smt = smt(&cores, before, after);
    let late = late(&ears.cores);
    let faults = faults(&mut ears.cores);
    let smis = smis(&ears.cores);
    let mut missed = |which: usize| -> Result<u64, String> { ears.cores.iter_mut().map(|ear| ear.missed(which)).sum() };
    let (cache, branches) = (missed(0), missed(1));
    [
        Sight::of(devices, "on these cores", "/proc/interrupts"),
        smis,
        Sight::of(checks, "exceptions", "/proc/interrupts, MCE"),
        frequency,
        idle(after.idled(before, false), "entries into the lightest states"),
        Sight::of(cache, "misses of the last cache", "the processor's counters"),
        Sight::of(branches, "branches foreseen wrongly", "the processor's counters"),
        smt,
        faults,
        idle(after.idled(before, true), "entries into deeper states"),
        timer_and_softirqs(&cores, before, after, timers),
        Sight::of(ipis, "on these cores", "/proc/interrupts, RES, CAL, TLB"),
        neighbours,
        late,
        switches,
        scheduled,
        Sight::of(locks, "times that somebody waited for a lock on these cores", "tracepoint lock/contention_begin"),
        Sight::of(stalls, "warnings", "tracepoint rcu/rcu_stall_warning"),
    ]
}

fn frequency(hits: Result<u64, String>) -> Sight {
    if fs::metadata("/sys/devices/system/cpu/cpufreq/policy0").is_err() {
        let why = match look::is_virtual() {
            true => "a virtual machine: its host changes frequencies, and does not say",
            false => "no driver changes frequencies; the firmware may, and does not say",
        };
        return Sight::CannotBeSeen(why.to_owned());
    }
    Sight::of(hits, "changes", "tracepoint power/cpu_frequency")
}

fn idle(entries: Option<u64>, what: &str) -> Sight {
    let why = match look::is_virtual() {
        true => "a virtual machine without cpuidle: what its host's cores do is not told",
        false => "no cpuidle driver, or no such state",
    };
    Sight::of(entries.ok_or_else(|| why.to_owned()), what, "cpuidle's usage: a busy core is never idle")
}

fn smis(ears: &[Ear]) -> Sight {
    let counted = ears.iter().map(|ear| match &ear.smis {
        Ok(_) => Ok(ear.smis_seen),
        Err(why) => Err(why.clone()),
    });
    let counted: Result<u64, String> = counted.sum();
    match counted {
        Ok(0) if look::is_virtual() => {
            Sight::CannotBeSeen("a virtual machine has a count of its own, without its host's".to_owned())
        }
        counted => Sight::of(counted, "on these cores", "the processor's count of them"),
    }
}

fn smt(cores: &[u16], before: &Account, after: &Account) -> Sight {
    let siblings: Vec<u16> =
        cores.iter().flat_map(|core| look::siblings(*core)).filter(|other| !cores.contains(other)).collect();
    let measured_together = cores.iter().any(|core| look::siblings(*core).iter().any(|other| cores.contains(other)));
    if measured_together {
        return Sight::Seen("two of these cores are threads of one, and both were busy".to_owned());
    }
    if siblings.is_empty() {
        return match look::is_virtual() {
            true => Sight::CannotBeSeen("a virtual machine: which of its cores share one is not told".to_owned()),
            false => Sight::NotSeen("these cores have one thread each".to_owned()),
        };
    }
    let busy = |core: &u16| Some(after.busy.get(core)?.saturating_sub(*before.busy.get(core)?) * 10);
    let busy: u64 = siblings.iter().filter_map(busy).sum();
    Sight::of(Ok(busy), "ms that the other threads of these cores were busy", "/proc/stat of the other threads")
}

fn faults(ears: &mut [Ear]) -> Sight {
    let faults: u64 = ears.iter().map(|ear| ear.faults).sum();
    let misses: Result<u64, String> = ears.iter_mut().map(|ear| ear.missed(2)).sum();
    let misses = match misses {
        Ok(misses) => format!("{} misses of the TLB", grouped(misses)),
        Err(why) => format!("misses of the TLB cannot be counted: {why}"),
    };
    match faults {
        0 => Sight::NotSeen(format!("no page fault of the loops; {misses}")),
        faults => Sight::Seen(format!("{} page faults of the loops; {misses}", grouped(faults))),
    }
}

fn timer_and_softirqs(cores: &[u16], before: &Account, after: &Account, timers: Result<u64, String>) -> Sight {
    let softirqs: u64 =
        cores.iter().flat_map(|core| after.softirqs.grown(&before.softirqs, *core)).map(|(_, _, grown)| grown).sum();
    let timers = timers.unwrap_or(0);
    match timers + softirqs {
        0 => Sight::NotSeen("/proc/interrupts, LOC, and /proc/softirqs".to_owned()),
        _ => Sight::Seen(format!("{} timer interrupts, {} softirqs", grouped(timers), grouped(softirqs))),
    }
}

fn neighbours(ears: &[Ear], before: &Account, after: &Account) -> Sight {
    let stolen: u64 = ears.iter().filter_map(|ear| after.stolen_ms(before, ear.core)).sum();
    let threads = |ear: &Ear| -> u64 {
        ear.tally.causes().iter().filter(|(cause, _)| cause.kind() == "thread").map(|(_, account)| account.nanos).sum()
    };
    let threads: u64 = ears.iter().map(threads).sum();
    let by = "steal of /proc/stat, other threads on these cores";
    if stolen == 0 && threads == 0 {
        return Sight::NotSeen(by.to_owned());
    }
    let mut seen = format!("other threads had these cores for {:.1} ms", threads as f64 / 1e6);
    if stolen > 0 {
        seen += &format!(", the hypervisor for {stolen} ms");
    }
    Sight::Seen(seen)
}

fn late(ears: &[Ear]) -> Sight {
    let mut all: Vec<u64> = ears.iter().flat_map(|ear| ear.late.iter().copied()).collect();
    all.sort_unstable();
    let Some((median, longest)) = all.get(all.len() / 2).zip(all.last()) else {
        return Sight::CannotBeSeen("no sleep was timed".to_owned());
    };
    Sight::Seen(format!(
        "{} sleeps of 1 ms before the run ended {:.0} us late at the median, {:.0} us at most, timers' slack among it",
        all.len(),
        *median as f64 / 1e3,
        *longest as f64 / 1e3
    ))
}

/// How often loops lost their cores, by the kernel's account.
fn switches(ears: &[Ear], before: &Account, after: &Account) -> Sight {
    let taken = |ear: &Ear| Some(after.waited.get(&ear.thread)?.1.saturating_sub(before.waited.get(&ear.thread)?.1));
    let counted: Option<u64> = ears.iter().map(taken).sum();
    let counted = counted.ok_or_else(|| "the loops were over before they were asked".to_owned());
    Sight::of(counted, "times that a loop lost its core", "nonvoluntary_ctxt_switches")
}

/// Milliseconds that loops waited for their cores.
fn scheduled(cores: &[u16], before: &Account, after: &Account) -> Result<u64, String> {
    let waited = |(thread, (now, _)): (&u32, &(u64, u64))| Some(now.saturating_sub(before.waited.get(thread)?.0));
    if after.waited.len() < cores.len() {
        return Err("the kernel keeps no account of it (CONFIG_SCHED_INFO)".to_owned());
    }
    Ok(after.waited.iter().filter_map(waited).sum::<u64>() / 1_000_000)
}
