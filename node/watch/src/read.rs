//! Reading a machine: its files below a folder.

use crate::channels::{ChannelCounter, channel_counters};
use crate::sample::{PortCounters, Sample};
use crate::tables::Sums;
use crate::text;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use sysroot::Sysroot;

/// The longest file that is read, bytes: `/proc/interrupts` of the largest
/// machines has some ten million.
const LONGEST: u64 = 64 << 20;

/// The longest of the small ones.
const SHORT: u64 = 1 << 20;

/// What is asked for beside what always is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// Interrupts and softirqs of each core: long tables.
    pub interrupts: bool,
}

/// Reads samples, and keeps files open between them.
#[derive(Debug)]
pub struct Reader {
    root: Sysroot,
    wanted: ReadOptions,
    open: BTreeMap<&'static str, File>,
    text: String,
    bytes: Vec<u8>,
    /// Of `/proc/interrupts`, and softirqs by core, as they were read last.
    sums: Sums,
    softirqs: BTreeMap<u16, Vec<u64>>,
    tables_at: Option<u64>,
    /// What seldom changes: interfaces' devices and speeds, cores of domains.
    slow: Slow,
    turns: u64,
}

#[derive(Debug, Default)]
struct Slow {
    ports: BTreeMap<String, (bool, Option<u64>)>,
    domains: Vec<(u16, Vec<u16>)>,
    /// Folders that count traffic of memory, with their domain.
    monitors: Vec<(u16, String)>,
}

const PORTS: &str = "sys/class/net";
const NODES: &str = "sys/devices/system/node";

/// What seldom changes is looked at again after so many samples.
const SLOW: u64 = 10;

impl Reader {
    /// Of the machine whose `proc` and `sys` are below `root`.
    #[must_use]
    pub fn new(root: &Path, wanted: ReadOptions) -> Self {
        Self {
            root: Sysroot::at(root),
            wanted,
            open: BTreeMap::new(),
            text: String::new(),
            bytes: Vec::new(),
            sums: Sums::default(),
            softirqs: BTreeMap::new(),
            tables_at: None,
            slow: Slow::default(),
            turns: 0,
        }
    }

    /// Asks for something else from the next sample on. Tables that are not asked
    /// for any more stand in samples as they were read last.
    pub const fn ask(&mut self, wanted: ReadOptions) {
        self.wanted = wanted;
    }

    /// What counts the bytes over its memory's channels, for whoever may ask the
    /// kernel for such counters.
    ///
    /// # Errors
    /// Why nothing does.
    pub fn channel_counters(&mut self) -> Result<Vec<ChannelCounter>, String> {
        self.look_at_what_is_slow();
        channel_counters(&self.root, &self.slow.domains)
    }

    /// The machine's counters as they are now; the time is an argument.
    pub fn sample(&mut self, at: u64, unix_ms: u64, ticks_per_second: u64) -> Sample {
        let mut sample = Sample { at, unix_ms, ticks_per_second, ..Sample::default() };
        if self.turns.is_multiple_of(SLOW) {
            self.look_at_what_is_slow();
        }
        self.turns += 1;
        self.cores(&mut sample);
        self.pressure(&mut sample);
        self.network(&mut sample);
        self.memory(&mut sample);
        sample
    }

    /// Reads a file into the buffer, which is given back with [`Self::text`].
    fn load(&mut self, path: &'static str) -> Result<(), String> {
        self.text.clear();
        let file = match self.open.remove(path) {
            Some(file) => Ok(file),
            None => self.root.open(path),
        };
        let read = file.and_then(|mut file| {
            file.seek(SeekFrom::Start(0))?;
            let mut bytes = core::mem::take(&mut self.text).into_bytes();
            let outcome = (&mut file).take(LONGEST).read_to_end(&mut bytes);
            // Names that are no UTF-8 are not to hide all the rest.
            self.text =
                String::from_utf8(bytes).unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned());
            outcome?;
            self.open.insert(path, file);
            Ok(())
        });
        read.map_err(|why| unread(path, &why))
    }

    /// Reads a long file into the other buffer, as it is.
    fn load_table(&mut self, path: &'static str) -> Result<(), String> {
        /// What a table may grow by between two readings without another try.
        const ROOM: usize = 64 << 10;
        let file = match self.open.remove(path) {
            Some(file) => Ok(file),
            None => self.root.open(path),
        };
        let read = file.and_then(|file| {
            let mut length = 0;
            loop {
                if length == self.bytes.len() {
                    self.bytes.resize(length + ROOM, 0);
                }
                match file.read_at(&mut self.bytes[length..], length as u64) {
                    Ok(0) => break,
                    Ok(more) => length += more,
                    Err(why) if why.kind() == ErrorKind::Interrupted => {}
                    Err(why) => return Err(why),
                }
                if length as u64 >= LONGEST {
                    break;
                }
            }
            self.bytes.truncate(length);
            self.open.insert(path, file);
            Ok(())
        });
        read.map_err(|why| unread(path, &why))
    }

    fn small(&self, path: &str) -> Option<String> {
        self.root.text(path, SHORT).ok()
    }

    fn cores(&mut self, sample: &mut Sample) {
        match self.load("proc/stat") {
            Ok(()) => text::stat(&self.text, &mut sample.cores, &mut sample.counts, &mut sample.levels),
            Err(why) => {
                for key in ["cpu", "interrupts", "switches"] {
                    sample.missing.insert(key.to_owned(), why.clone());
                }
            }
        }
        if self.load("proc/net/softnet_stat").is_ok() {
            for (core, backlog) in text::softnet(&self.text) {
                if let Some(core) = sample.cores.get_mut(&core) {
                    core.backlog = backlog;
                }
            }
        }
        if self.wanted.interrupts {
            self.read_tables(sample);
            self.tables_at = Some(sample.at);
        }
        if self.tables_at.is_some() {
            self.tables(sample);
        }
    }

    fn read_tables(&mut self, sample: &mut Sample) {
        match self.load_table("proc/interrupts") {
            Ok(()) => self.sums.update(&mut self.bytes),
            Err(why) => {
                sample.missing.insert("interrupts by core".to_owned(), why);
                self.sums = Sums::default();
            }
        }
        self.softirqs.clear();
        if self.load("proc/softirqs").is_ok() {
            let mut rows: Vec<Vec<u64>> = Vec::new();
            let cores = text::by_core(self.text.as_bytes(), |_, counts| rows.push(counts.collect()));
            let column = |at: usize| rows.iter().map(|row| row.get(at).copied().unwrap_or(0)).collect();
            self.softirqs = cores.iter().enumerate().map(|(at, core)| (*core, column(at))).collect();
        }
    }

    fn tables(&self, sample: &mut Sample) {
        for (core, sum) in self.sums.by_core() {
            if let Some(core) = sample.cores.get_mut(&core) {
                core.interrupts = Some(sum);
            }
        }
        for (core, counts) in &self.softirqs {
            if let Some(core) = sample.cores.get_mut(core) {
                core.softirqs.clone_from(counts);
            }
        }
        sample.tables_at = self.tables_at;
    }

    /// For how long somebody waited: pressure stall information.
    fn pressure(&mut self, sample: &mut Sample) {
        for (path, key) in [
            ("proc/pressure/cpu", "waited for cores, us"),
            ("proc/pressure/memory", "waited for memory, us"),
            ("proc/pressure/io", "waited for disks, us"),
        ] {
            if self.load(path).is_ok() {
                sample.counts.extend(text::pressure(&self.text).map(|us| (key.to_owned(), us)));
            }
        }
    }

    fn network(&mut self, sample: &mut Sample) {
        match self.load("proc/net/dev") {
            Ok(()) => {
                sample.ports = text::dev(&self.text);
                for (name, port) in &mut sample.ports {
                    if let Some((device, speed)) = self.slow.ports.get(name) {
                        (port.device, port.speed) = (*device, *speed);
                    }
                }
            }
            Err(why) => {
                sample.missing.insert("ports".to_owned(), why);
            }
        }
        for (path, key) in [("proc/net/snmp", "tcp"), ("proc/net/netstat", "listen")] {
            if let Err(why) = self.load(path) {
                sample.missing.insert(key.to_owned(), why);
                continue;
            }
            text::groups(&self.text, |group, name, value| {
                let value = u64::try_from(value).unwrap_or(0);
                match (group, name) {
                    ("Tcp", "CurrEstab") => drop(sample.levels.insert("tcp.CurrEstab".to_owned(), value)),
                    ("Tcp", "ActiveOpens" | "PassiveOpens" | "InSegs" | "OutSegs" | "RetransSegs" | "OutRsts")
                    | (
                        "TcpExt",
                        "ListenOverflows" | "ListenDrops" | "TCPReqQFullDrop" | "TCPBacklogDrop" | "TCPSynRetrans"
                        | "TCPTimeouts" | "TCPMemoryPressures",
                    ) => drop(sample.counts.insert(format!("tcp.{name}"), value)),
                    _ => {}
                }
            });
        }
    }

    fn memory(&mut self, sample: &mut Sample) {
        match self.load("proc/meminfo") {
            Ok(()) => {
                for (key, name) in
                    [("MemTotal", "memory"), ("MemFree", "memory free"), ("MemAvailable", "memory available")]
                {
                    sample.levels.extend(text::memory(&self.text, key).map(|bytes| (name.to_owned(), bytes)));
                }
            }
            Err(why) => drop(sample.missing.insert("memory".to_owned(), why)),
        }
        for (number, cores) in &self.slow.domains {
            let folder = format!("{NODES}/node{number}");
            // It may be gone: memory can be taken off line.
            let Some(meminfo) = self.small(&format!("{folder}/meminfo")) else { continue };
            let domain = sample.domains.entry(*number).or_default();
            domain.memory = text::memory(&meminfo, "MemTotal").unwrap_or(0);
            domain.free = text::memory(&meminfo, "MemFree").unwrap_or(0);
            domain.cores.clone_from(cores);
            if let Some(numastat) = self.small(&format!("{folder}/numastat")) {
                text::numastat(&numastat, domain);
            }
        }
        for (number, folder) in &self.slow.monitors {
            let read = |name: &str| self.small(&format!("{folder}/{name}"))?.trim().parse::<u64>().ok();
            if let (Some(total), Some(domain)) = (read("mbm_total_bytes"), sample.domains.get_mut(number)) {
                let sums = domain.traffic.get_or_insert([0, 0]);
                sums[0] = sums[0].wrapping_add(total);
                sums[1] = sums[1].wrapping_add(read("mbm_local_bytes").unwrap_or(0));
            }
            if let (Some(filled), Some(domain)) = (read("llc_occupancy"), sample.domains.get_mut(number)) {
                *domain.cache.get_or_insert(0) += filled;
            }
        }
    }

    fn look_at_what_is_slow(&mut self) {
        let ports = self.names(PORTS).into_iter().map(|name| {
            // -1 where it has no carrier, and megabits else.
            let speed = self.small(&format!("{PORTS}/{name}/speed")).and_then(|text| text.trim().parse::<i64>().ok());
            let speed = speed.filter(|speed| *speed > 0).and_then(|speed| u64::try_from(speed).ok());
            let device = self.root.kind(&format!("{PORTS}/{name}/device")).is_some();
            (name, (device, speed.map(|speed| speed.saturating_mul(1_000_000))))
        });
        let ports = ports.collect();
        let mut domains: Vec<(u16, Vec<u16>)> = self
            .names(NODES)
            .into_iter()
            .filter_map(|name| {
                let number = name.strip_prefix("node")?.parse().ok()?;
                let cores = self.small(&format!("{NODES}/{name}/cpulist")).unwrap_or_default();
                Some((number, text::list(&cores)))
            })
            .collect();
        domains.sort_unstable();
        self.slow = Slow { monitors: self.monitors(&domains), ports, domains };
    }

    /// Where resctrl counts traffic: a folder for each cache of the third level,
    /// whose cores tell its domain.
    fn monitors(&self, domains: &[(u16, Vec<u16>)]) -> Vec<(u16, String)> {
        const FOLDER: &str = "sys/fs/resctrl/mon_data";
        let mut found = Vec::new();
        for name in self.names(FOLDER) {
            let Some(cache) = name.strip_prefix("mon_L3_").and_then(|id| id.parse::<u32>().ok()) else { continue };
            let of = |core: u16| {
                let id = self.small(&format!("sys/devices/system/cpu/cpu{core}/cache/index3/id"))?;
                id.trim().parse::<u32>().ok()
            };
            let domain = domains.iter().find(|(_, cores)| cores.iter().any(|core| of(*core) == Some(cache)));
            found.extend(domain.map(|(number, _)| (*number, format!("{FOLDER}/{name}"))));
        }
        found
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.root.names(folder).unwrap_or_default()
    }
}

/// Why a file was not read.
fn unread(path: &str, why: &std::io::Error) -> String {
    match why.kind() {
        ErrorKind::NotFound => format!("no /{path}"),
        ErrorKind::PermissionDenied => format!("/{path} is not for us to read"),
        _ => format!("/{path}: {why}"),
    }
}

/// Interfaces whose traffic is the machine's: those with a device behind them,
/// since others pass on what these carry; where there is none, all but the
/// loopback.
#[must_use]
pub fn outward(ports: &BTreeMap<String, PortCounters>) -> Vec<&str> {
    let any = ports.values().any(|port| port.device);
    let counts = |(name, port): &(&String, &PortCounters)| if any { port.device } else { *name != "lo" };
    ports.iter().filter(counts).map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read_twice() {
        let mut reader = Reader::new(Path::new("/"), ReadOptions { interrupts: true });
        let one = reader.sample(1, 2, 100);
        let two = reader.sample(3, 4, 100);
        for sample in [&one, &two] {
            assert!(!sample.cores.is_empty() && !sample.domains.is_empty(), "{sample:?}");
            assert!(sample.counts["interrupts"] > 0 && sample.levels["memory"] > 0);
            assert!(sample.cores.values().all(|core| core.interrupts.is_some()), "{sample:?}");
        }
        assert!(two.counts["switches"] >= one.counts["switches"]);
    }

    #[test]
    fn a_machine_without_files_says_what_is_missing() {
        let mut reader = Reader::new(Path::new("/nonexistent"), ReadOptions { interrupts: true });
        let sample = reader.sample(1, 2, 100);
        assert_eq!(sample.missing["cpu"], "no /proc/stat");
        assert!(sample.missing.contains_key("tcp") && sample.missing.contains_key("ports") && sample.cores.is_empty());
    }

    /// A machine of two domains whose resctrl counts, below a folder of its own.
    fn two_domains(root: &Path, bytes: [(u64, u64, u64); 2]) {
        let write = |path: String, text: String| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            std::fs::write(path, text).expect("room");
        };
        write("proc/stat".into(), "cpu0 1 0 0 9\ncpu1 1 0 0 9\n".into());
        for (domain, (total, local, filled)) in bytes.into_iter().enumerate() {
            let node = format!("sys/devices/system/node/node{domain}");
            write(format!("{node}/cpulist"), format!("{domain}\n"));
            write(format!("{node}/meminfo"), format!("Node {domain} MemTotal: 8 kB\n"));
            // The caches' numbers are not the domains'.
            write(format!("sys/devices/system/cpu/cpu{domain}/cache/index3/id"), format!("{}\n", 9 - domain));
            let cache = format!("sys/fs/resctrl/mon_data/mon_L3_{:02}", 9 - domain);
            write(format!("{cache}/mbm_total_bytes"), format!("{total}\n"));
            write(format!("{cache}/mbm_local_bytes"), format!("{local}\n"));
            write(format!("{cache}/llc_occupancy"), format!("{filled}\n"));
        }
    }

    #[test]
    fn memory_traffic_its_remote_share_and_the_cache_are_each_domains() {
        let root = std::env::temp_dir().join(format!("nearside-watch-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("room");
        let mut reader = Reader::new(&root, ReadOptions::default());
        two_domains(&root, [(1_000, 1_000, 5 << 20), (0, 0, 1 << 20)]);
        let before = reader.sample(1_000_000_000, 0, 100);
        two_domains(&root, [(3_000, 2_200, 6 << 20), (2_000, 2_000, 1 << 20)]);
        let now = reader.sample(3_000_000_000, 2_000, 100);
        // A counter that cannot be had for a moment is no number.
        two_domains(&root, [(4_000, 2_300, 6 << 20), (2_500, 2_500, 1 << 20)]);
        std::fs::write(root.join("sys/fs/resctrl/mon_data/mon_L3_09/mbm_total_bytes"), "Unavailable\n").expect("room");
        let later = reader.sample(4_000_000_000, 3_000, 100);
        std::fs::remove_dir_all(&root).expect("it is ours");
        let change = crate::Change::between(&before, &now).expect("time passed");
        let [one, other] = &change.domains[..] else { panic!("{:?}", change.domains) };
        let values = |row: &crate::DomainRow| [&row.traffic, &row.remote, &row.cache].map(crate::Figure::value);
        assert_eq!(values(one), [Some(1_000.0), Some(0.4), Some(6_291_456.0)]);
        assert_eq!(values(other), [Some(1_000.0), Some(0.0), Some(1_048_576.0)]);
        assert_eq!(change.machine["remote"].value(), Some(20.0));
        let change = crate::Change::between(&now, &later).expect("time passed");
        assert_eq!(change.domains[0].traffic.value(), None);
        assert_eq!(change.domains[1].traffic.value(), Some(500.0));
    }

    /// Tables that are not read for each sample have the rates of the time between
    /// two readings.
    #[test]
    fn tables_have_the_time_of_their_reading() {
        let root = std::env::temp_dir().join(format!("nearside-watch-tables-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc")).expect("room");
        std::fs::write(root.join("proc/stat"), "cpu0 1 0 0 9\n").expect("room");
        let count = |count: u64| {
            std::fs::write(root.join("proc/interrupts"), format!("  CPU0\nLOC: {count} x\n")).expect("room");
        };
        let mut reader = Reader::new(&root, ReadOptions { interrupts: true });
        count(100);
        let first = reader.sample(1_000_000_000, 0, 100);
        reader.ask(ReadOptions { interrupts: false });
        count(150);
        let second = reader.sample(2_000_000_000, 0, 100);
        reader.ask(ReadOptions { interrupts: true });
        count(180);
        let third = reader.sample(3_000_000_000, 0, 100);
        std::fs::remove_dir_all(&root).expect("it is ours");
        let rate = |before, now| crate::Change::between(before, now).expect("time passed").cores[0].interrupts.clone();
        assert_eq!(rate(&second, &third).value(), Some(40.0));
        assert!(matches!(rate(&first, &second), crate::Figure::Missing(why) if why.contains("not read in this")));
    }

    #[test]
    fn outward_are_devices_or_all_but_the_loopback() {
        let port = |device| PortCounters { device, ..PortCounters::default() };
        let mut ports: BTreeMap<String, PortCounters> =
            [("lo".into(), port(false)), ("veth0".into(), port(false))].into();
        assert_eq!(outward(&ports), ["veth0"]);
        ports.insert("eth0".into(), port(true));
        assert_eq!(outward(&ports), ["eth0"]);
    }
}
