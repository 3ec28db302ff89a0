//! Calls of malloc: where it is in a process's files, and who calls it on the whole
//! machine.

use ::watch::Mallocs;
use object::{Object, ObjectSegment, ObjectSymbol};
use perf::Places;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Calls of malloc are counted for so long in each interval, which stands for
/// the whole.
pub(super) const SAMPLED: Duration = Duration::from_millis(100);

/// A uprobe costs so much each time, nanoseconds: what was found on several
/// machines is 1 to 2 us.
pub(super) const UPROBE_NANOS: f64 = 1_500.0;

/// Files of programs that are read for names are no longer, bytes.
const LONGEST_FILE: u64 = 512 << 20;

/// Files that malloc is probed in, at most: allocators of all processes, which are few.
const PLACES_LIMIT: usize = 16;

/// Cores that are looked at in one interval, at most; of more, others in the next. Each event is
/// one more that a call of malloc asks, on whichever core.
const CORES_LIMIT: usize = 16;

/// Processes are looked through for their files once in so many intervals: programs start, but
/// seldom with an allocator that no other has.
const INTERVALS: u64 = 10;

/// Processes that are told apart.
const PROCESSES_LIMIT: usize = 4_096;

/// Who calls malloc on the whole machine.
pub(super) struct Callers {
    /// Files by device and number, with the place of malloc in them.
    known: HashMap<(u64, u64), Option<u64>>,
    places: Vec<(PathBuf, u64)>,
    without: usize,
    counts: BTreeMap<u32, (Mallocs, f64)>,
    others: f64,
    sampled_until: u64,
    looks: u64,
    first_core: usize,
    lost: u64,
}

impl Callers {
    pub(super) fn new() -> Self {
        Self {
            known: HashMap::new(),
            places: Vec::new(),
            without: 0,
            counts: BTreeMap::new(),
            others: 0.0,
            sampled_until: 0,
            looks: 0,
            first_core: 0,
            lost: 0,
        }
    }

    /// Looks for a tenth of a second.
    pub(super) fn look(&mut self) -> Calls {
        if self.looks.is_multiple_of(INTERVALS) {
            self.find();
        }
        self.looks += 1;
        let cores = self.cores();
        let from = perf::clock::raw();
        let places = self.places.iter().map(|(file, offset)| (file.as_path(), *offset));
        let mut rings = match Places::of_files(&cores.looked_at, places) {
            Ok(rings) if !self.places.is_empty() => rings,
            Ok(_) => return Calls::none("no malloc is found in any process's files".to_owned()),
            Err(why) => return Calls::none(why),
        };
        std::thread::sleep(SAMPLED);
        let took = perf::clock::raw().saturating_sub(from).max(1);
        let mut hits: BTreeMap<u32, u64> = BTreeMap::new();
        while let Some(place) = rings.poll() {
            *hits.entry(place.process).or_default() += 1;
        }
        self.lost += rings.lost();
        drop(rings);
        let since =
            if self.sampled_until == 0 { took } else { from.saturating_add(took).saturating_sub(self.sampled_until) };
        self.sampled_until = from.saturating_add(took);
        let stand_for = since as f64 / took as f64 * cores.share;
        let seen: u64 = hits.values().sum();
        self.enter(hits, stand_for);
        Calls {
            by_process: self.counts.iter().map(|(pid, (mallocs, _))| (*pid, mallocs.clone())).collect(),
            untold: Some(self.untold()).filter(|untold| !untold.is_empty()),
            cost_nanos: (seen as f64 * cores.share * UPROBE_NANOS) as u64,
        }
    }

    /// What was seen of each process, which stands for so many times as much.
    fn enter(&mut self, hits: BTreeMap<u32, u64>, stand_for: f64) {
        for (pid, hits) in hits {
            let calls = hits as f64 * stand_for;
            if self.counts.len() >= PROCESSES_LIMIT && !self.counts.contains_key(&pid) {
                self.others += calls;
                continue;
            }
            let name = name_of(pid);
            let (mallocs, sum) = self.counts.entry(pid).or_default();
            // Its name may be another's by now; who has ended keeps what it had.
            if let Some(name) = name
                && *mallocs.name != name
            {
                (mallocs.name, *sum) = (name, 0.0);
            }
            *sum += calls;
            mallocs.count = *sum as u64;
        }
        self.counts.retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
    }

    /// What is not in the figures.
    fn untold(&self) -> String {
        let mut parts = Vec::new();
        if self.without > 0 {
            parts.push(format!("{} processes have no malloc by this name in their files", self.without));
        }
        if self.lost > 0 {
            parts.push(format!("{} calls were lost, because a ring was full", self.lost));
        }
        if self.others > 0.0 {
            parts.push(format!("{:.0} calls were those of more processes than are told apart", self.others));
        }
        parts.join("; ")
    }

    /// The cores of this look, and how many times as many there are.
    fn cores(&mut self) -> Cores {
        let all = perf::thread::online();
        let count = all.len().min(CORES_LIMIT);
        let looked_at: Vec<u16> = all.iter().cycle().skip(self.first_core).take(count).copied().collect();
        self.first_core = (self.first_core + count) % all.len().max(1);
        Cores { share: all.len() as f64 / count.max(1) as f64, looked_at }
    }

    /// The files that processes have malloc from.
    fn find(&mut self) {
        let mut found: BTreeMap<(u64, u64), (PathBuf, u64)> = BTreeMap::new();
        self.without = 0;
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
            // The kernel's own threads have none.
            if maps.is_empty() {
                continue;
            }
            let candidates = candidates(&maps).into_iter().map(|path| PathBuf::from(format!("/proc/{pid}/root{path}")));
            let place = candidates.filter_map(|path| {
                let file = fs::metadata(&path).ok()?;
                let id = (file.dev(), file.ino());
                let offset = *self.known.entry(id).or_insert_with(|| offset_of(&path, "malloc"));
                Some((id, (path, offset?)))
            });
            match place.into_iter().next() {
                Some((id, place)) if found.len() < PLACES_LIMIT || found.contains_key(&id) => {
                    found.entry(id).or_insert(place);
                }
                _ => self.without += 1,
            }
        }
        self.places = found.into_values().collect();
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) by_process: BTreeMap<u32, Mallocs>,
    /// Why there is nothing, or what is not in it.
    pub(super) untold: Option<String>,
    /// What this look made others spend.
    pub(super) cost_nanos: u64,
}

impl Calls {
    fn none(why: String) -> Self {
        Self { untold: Some(why), ..Self::default() }
    }
}

/// Cores, and how many times as many there are.
struct Cores {
    looked_at: Vec<u16>,
    share: f64,
}

fn name_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// Where malloc is in the file that a process has it from: its C library, or an
/// allocator that was put before it.
pub(super) fn place_of_malloc(pid: u32) -> Result<(PathBuf, u64), String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|why| format!("its maps: {why}"))?;
    for path in candidates(&maps) {
        // As the process sees it.
        let seen = PathBuf::from(format!("/proc/{pid}/root{path}"));
        if let Some(offset) = offset_of(&seen, "malloc") {
            return Ok((seen, offset));
        }
    }
    Err("no malloc is found in its files".to_owned())
}

/// The files that a process runs and may have malloc from: allocators that were put before its C
/// library, that, and the program itself. A file that was replaced meanwhile is none: its path
/// leads to another.
fn candidates(maps: &str) -> Vec<&str> {
    let mut files: Vec<&str> = Vec::new();
    for line in maps.lines() {
        let Some((before, path)) = line.split_once('/').map(|(before, _)| (before, &line[before.len()..])) else {
            continue;
        };
        let runs = before.split_ascii_whitespace().nth(1).is_some_and(|rights| rights.contains('x'));
        if runs && !path.ends_with(" (deleted)") && !files.contains(&path) {
            files.push(path);
        }
    }
    let is_allocator = |path: &&str| path.contains("malloc");
    let is_libc = |path: &&str| path.contains("/libc.so") || path.contains("/libc-") || path.contains("ld-musl");
    let mut all: Vec<&str> = files.iter().copied().filter(is_allocator).collect();
    all.extend(files.iter().copied().filter(is_libc));
    all.extend(files.first());
    all
}

fn offset_of(path: &Path, function: &str) -> Option<u64> {
    if fs::metadata(path).ok()?.len() > LONGEST_FILE {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let symbol = file
        .dynamic_symbols()
        .chain(file.symbols())
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(function))?;
    // A symbol has an address; a probe is put at a place in the file.
    file.segments().find_map(|segment| {
        let within = symbol.address().checked_sub(segment.address())?;
        let (start, length) = segment.file_range();
        (within < length).then_some(start + within)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malloc_is_looked_for_in_allocators_first_and_never_in_files_that_were_replaced() {
        let maps = "10-20 r-xp 0 08:01 7 /bin/a\n20-30 r--p 0 08:01 8 /lib/libjemalloc.so.2\n\
                    30-40 r-xp 0 08:01 9 /lib/x86_64-linux-gnu/libc.so.6\n40-50 r-xp 0 08:01 8 /lib/libjemalloc.so.2\n\
                    50-60 r-xp 0 08:01 6 /lib/my own/libtcmalloc.so\n60-70 r-xp 0 08:01 5 [vdso]\n";
        let found = candidates(maps);
        assert_eq!(
            found,
            ["/lib/libjemalloc.so.2", "/lib/my own/libtcmalloc.so", "/lib/x86_64-linux-gnu/libc.so.6", "/bin/a"]
        );
        // Another file has its path by now: a probe there would count nothing.
        let replaced = "10-20 r-xp 0 08:01 7 /bin/a\n30-40 r-xp 0 08:01 9 /lib/libc.so.6 (deleted)\n";
        assert_eq!(candidates(replaced), ["/bin/a"]);
    }

    #[test]
    fn each_process_is_counted_by_itself_for_all_of_the_time_and_all_cores() {
        let mut callers = Callers::new();
        let own = std::process::id();
        callers.enter([(own, 3), (u32::MAX >> 1, 4)].into(), 20.0);
        callers.enter([(own, 1)].into(), 20.0);
        let name = name_of(own).expect("it lives");
        let counted: Vec<(u32, &str, u64)> =
            callers.counts.iter().map(|(pid, (mallocs, _))| (*pid, mallocs.name.as_str(), mallocs.count)).collect();
        assert_eq!(counted, [(own, name.as_str(), 80)], "who has ended has no row");
    }

    #[test]
    fn calls_of_this_process_are_seen_among_all_or_it_is_told_why_not() {
        let mut callers = Callers::new();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let own = std::process::id();
        let calls = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::black_box(vec![1_u8; 100]);
                }
            });
            // As often as it takes: a machine may be busy with others.
            let calls = loop {
                let calls = callers.look();
                if calls.by_process.contains_key(&own) || (calls.by_process.is_empty() && calls.untold.is_some()) {
                    break calls;
                }
            };
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            calls
        });
        match calls.by_process.get(&own) {
            Some(mallocs) => assert!(mallocs.count > 0 && calls.cost_nanos > 0, "{calls:?}"),
            None => println!("left out: {calls:?}"),
        }
    }

    #[test]
    fn malloc_is_found_or_told_of() {
        match place_of_malloc(std::process::id()) {
            Ok((path, offset)) => assert!(offset > 0, "{path:?}"),
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
