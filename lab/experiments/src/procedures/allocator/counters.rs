//! What a process did: calls of malloc by uprobes, TLB misses and page faults
//! by perf_event_open(2), processor time by `/proc`.

use demo::machine::{TICKS_PER_SECOND, core_ticks, now, process_times};
use object::{Object, ObjectSegment, ObjectSymbol};
use perf::counter::{What, Whose};
use perf::{Count, Why};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The functions behind each figure. The C library's `posix_memalign` calls
/// its malloc for small alignments, such as those of nginx's pools: one sum of
/// all would count these twice.
const CALLS: [(&str, &[&str]); 4] = [
    ("malloc", &["malloc"]),
    ("posix_memalign", &["posix_memalign"]),
    ("calloc and realloc", &["calloc", "realloc"]),
    ("free", &["free"]),
];

/// What a worker takes requests in by: the C library's, whichever malloc it has.
const RECEIVES: (&str, &[&str]) = ("recvmsg", &["recv", "recvfrom", "recvmsg"]);

/// Counters of one process.
#[derive(Debug, Default)]
pub(super) struct Counters(Vec<Counted>);

/// What is counted, and what was counted before it mattered.
#[derive(Debug)]
struct Counted {
    figure: &'static str,
    count: Count,
    before: u64,
}

impl Counters {
    /// TLB misses and page faults, where there are counters of them.
    pub(super) fn of_memory(pid: u32) -> Self {
        let kinds = [("dTLB misses", What::TlbMisses), ("page faults", What::PageFaults)];
        Self(kinds.into_iter().filter_map(|(figure, what)| Counted::new(figure, what, pid).ok()).collect())
    }

    /// Calls of a library's functions; nothing where there are no uprobes.
    pub(super) fn of_calls(pid: u32, library: &Path) -> Self {
        let mut this = Self::default();
        for (figure, functions) in CALLS {
            let places = offsets(library, functions);
            let counted: Result<Vec<Counted>, Why> =
                places.iter().map(|at| Counted::new(figure, What::Uprobe(library, *at), pid)).collect();
            // Some of them would be a wrong count.
            this.0.extend(counted.unwrap_or_default());
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if let Some(libc) = libc_of(&maps) {
            let (figure, functions) = RECEIVES;
            let places = offsets(&libc, functions);
            let counted = places.iter().map(|at| Counted::new(figure, What::Uprobe(&libc, *at), pid));
            this.0.extend(counted.collect::<Result<Vec<Counted>, Why>>().unwrap_or_default());
        }
        this
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn start(&mut self) {
        // One that cannot be read is left out.
        self.0.retain_mut(|counted| {
            counted.count.read().is_ok_and(|count| {
                counted.before = count;
                true
            })
        });
    }

    /// The counts, those of one figure together.
    pub(super) fn stop(mut self) -> Vec<(&'static str, u64)> {
        let mut counts: Vec<(&'static str, u64)> = Vec::new();
        for Counted { figure, count, before } in &mut self.0 {
            let Ok(count) = count.read() else { continue };
            let count = count.saturating_sub(*before);
            match counts.iter_mut().find(|(known, _)| known == figure) {
                Some((_, sum)) => *sum += count,
                None => counts.push((figure, count)),
            }
        }
        counts
    }
}

impl Counted {
    fn new(figure: &'static str, what: What<'_>, pid: u32) -> Result<Self, Why> {
        Ok(Self { figure, count: Count::start(what, Whose::Alone(pid))?, before: 0 })
    }
}

/// The C library that a process has mapped.
fn libc_of(maps: &str) -> Option<PathBuf> {
    let files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).map(Path::new);
    let is_libc = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libc.so") || name.starts_with("libc-")
    };
    files.into_iter().find(is_libc).map(Path::to_owned)
}

/// The bytes that a process's network namespace sent and received by its interfaces but loopback, the
/// busier way (proc_net_dev(5)).
fn carried(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo");
    let bytes = lines.filter_map(|(_, rest)| {
        let fields: Vec<u64> = rest.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        Some((*fields.first()?, *fields.get(8)?))
    });
    let (received, sent) = bytes.fold((0, 0), |sum, (received, sent)| (sum.0 + received, sum.1 + sent));
    received.max(sent)
}

/// Where in the file the functions begin. Names for the same place count
/// once: each would be a probe.
fn offsets(library: &Path, functions: &[&str]) -> Vec<u64> {
    let Ok(bytes) = fs::read(library) else { return Vec::new() };
    let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
    let wanted = |symbol: &object::Symbol<'_, '_>| {
        symbol.is_definition() && symbol.name().is_ok_and(|name| functions.contains(&name))
    };
    // A symbol has an address; a probe is put at a place in the file.
    let place = |address: u64| {
        file.segments().find_map(|segment| {
            let within = address.checked_sub(segment.address())?;
            let (start, length) = segment.file_range();
            (within < length).then_some(start + within)
        })
    };
    let mut found: Vec<u64> = file.dynamic_symbols().filter(wanted).filter_map(|s| place(s.address())).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What cannot be counted on this machine, and why.
pub(super) fn unavailable() -> Vec<String> {
    let own = Whose::Alone(std::process::id());
    let mut found = Vec::new();
    if let Err(why) = Count::start(What::TlbMisses, own) {
        found.push(format!("TLB misses: the processor's counters cannot be had ({why})"));
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let place = super::malloc_of(&maps, None).ok().and_then(|library| {
        let place = *offsets(&library, &["malloc"]).first()?;
        Some((library, place))
    });
    let tried = match &place {
        Some((library, place)) => Count::start(What::Uprobe(library, *place), own).map(drop),
        None => Err("no malloc was found".to_owned()),
    };
    if let Err(why) = tried {
        found.push(format!("calls of malloc: no uprobe can be set ({why})"));
    }
    found
}

/// Processor time so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processor {
    at: Instant,
    user: u64,
    system: u64,
    softirq: u64,
    /// All of the core's time that was not idle.
    busy: u64,
    /// Bytes by its interfaces.
    carried: u64,
}

/// Shares of a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) user: f64,
    pub(super) system: f64,
    pub(super) softirq: f64,
    /// Of the core, whoever could have had it.
    pub(super) idle: f64,
    /// Bytes per second, the busier way.
    pub(super) carried: f64,
}

impl Processor {
    /// Of a process, and softirq of its core.
    pub(super) fn now(pid: u32, core: u16) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (user, system) = process_times(&read(&format!("/proc/{pid}/stat"))).unwrap_or_default();
        let core = core_ticks(&read("/proc/stat"), core).unwrap_or_default();
        Self { at: now(), user, system, softirq: core.softirq, busy: core.busy, carried: carried(pid) }
    }

    pub(super) fn since(&self, before: &Self) -> Shares {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3);
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / TICKS_PER_SECOND / seconds;
        Shares {
            user: share(self.user, before.user),
            system: share(self.system, before.system),
            softirq: share(self.softirq, before.softirq),
            idle: (1.0 - share(self.busy, before.busy)).max(0.0),
            carried: self.carried.saturating_sub(before.carried) as f64 / seconds,
        }
    }
}

/// The memory that a process holds, MiB.
pub(super) fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0.0) / 1_024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_the_c_library_once_each() {
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let Ok(libc) = super::super::malloc_of(&maps, None) else { return };
        let (one, two) = (offsets(&libc, &["malloc"]), offsets(&libc, &["malloc", "free"]));
        assert_eq!((one.len(), two.len()), (1, 2));
        assert!(two.contains(&one[0]));
        assert!(offsets(&libc, &["no such function"]).is_empty());
        assert_eq!(libc_of(&maps).as_deref(), Some(&*libc));
        assert!(!offsets(&libc, RECEIVES.1).is_empty(), "a process receives by the C library");
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_mib(std::process::id()) > 0.1);
    }
}
