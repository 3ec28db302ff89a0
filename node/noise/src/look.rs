//! What `/proc` and sysfs count by core, as texts and as read.

use std::collections::BTreeMap;
use std::fs;

/// A row of `/proc/interrupts` or `/proc/softirqs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterruptRow {
    /// What stands before the colon: a number, or a short name.
    pub key: String,
    /// What stands after the counts.
    pub name: String,
    /// By column.
    pub counts: Vec<u64>,
}

/// A table with a column for each core that is on line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    cores: Vec<u16>,
    /// Its rows.
    pub rows: Vec<InterruptRow>,
}

impl Table {
    /// Reads one: a line of cores, then rows. A row that is no row is left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let cores: Vec<u16> =
            head.split_ascii_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
        let row = |line: &str| {
            let (key, rest) = line.split_once(':')?;
            let mut counts = Vec::with_capacity(cores.len());
            let mut rest = rest.trim_start();
            while counts.len() < cores.len() {
                let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let Ok(count) = word.parse() else { break };
                counts.push(count);
                rest = after.trim_start();
            }
            let name = rest.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            Some(InterruptRow { key: key.trim().to_owned(), name, counts })
        };
        Self { rows: lines.filter_map(row).collect(), cores }
    }

    /// This machine's.
    #[must_use]
    pub fn read(path: &str) -> Self {
        Self::parse(&fs::read_to_string(path).unwrap_or_default())
    }

    /// A row's count on a core; `None` where one of them is not there.
    #[must_use]
    pub fn count(&self, key: &str, core: u16) -> Option<u64> {
        let row = self.rows.iter().find(|row| row.key == key)?;
        self.of(row, core)
    }

    fn of(&self, row: &InterruptRow, core: u16) -> Option<u64> {
        let column = self.cores.iter().position(|known| *known == core)?;
        row.counts.get(column).copied()
    }

    /// What rows grew by on a core since `earlier`: key, name, by how much; those
    /// that grew most first. Kernel counters have 32 bits, and wrap.
    #[must_use]
    pub fn grown(&self, earlier: &Self, core: u16) -> Vec<(&str, &str, u64)> {
        let grown = |row: &'_ InterruptRow| {
            let (now, before) = (self.of(row, core)?, earlier.count(&row.key, core)?);
            Some(difference(now, before)).filter(|grown| *grown > 0)
        };
        let mut all: Vec<(&str, &str, u64)> =
            self.rows.iter().filter_map(|row| Some((&*row.key, &*row.name, grown(row)?))).collect();
        all.sort_by(|one, other| other.2.cmp(&one.2).then_with(|| one.0.cmp(other.0)));
        all
    }
}

/// How much a counter grew that may have 32 bits: one that is less than before
/// has wrapped, if both fit.
#[must_use]
pub const fn difference(now: u64, before: u64) -> u64 {
    const NARROW: u64 = u32::MAX as u64;
    match now.checked_sub(before) {
        Some(grown) => grown,
        None if before <= NARROW && before - now > NARROW / 2 => now + (NARROW + 1 - before),
        None => 0,
    }
}

/// What the hypervisor took from each core, in ticks of 10 ms: proc_stat(5), the
/// eighth figure.
#[must_use]
pub fn stolen(stat: &str) -> BTreeMap<u16, u64> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((core, words.nth(7)?.parse().ok()?))
    };
    stat.lines().filter_map(line).collect()
}

/// Time that each core was busy, in ticks: all but idle and waiting.
#[must_use]
pub fn busy(stat: &str) -> BTreeMap<u16, u64> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let times: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let idle = times.get(3).copied()? + times.get(4).copied()?;
        Some((core, times.iter().take(8).sum::<u64>() - idle))
    };
    stat.lines().filter_map(line).collect()
}

/// How often each idle state of a core was entered, with its name, the lightest
/// first; none where nothing tells.
#[must_use]
pub fn idle_states(core: u16) -> Vec<(String, u64)> {
    let folder = format!("/sys/devices/system/cpu/cpu{core}/cpuidle");
    let read = |state: usize, what: &str| fs::read_to_string(format!("{folder}/state{state}/{what}")).ok();
    let one = |state: usize| Some((read(state, "name")?.trim().to_owned(), read(state, "usage")?.trim().parse().ok()?));
    (0..16).map_while(one).collect()
}

/// A thread's account: nanoseconds on a core, nanoseconds waiting for one, and
/// how often it got one.
#[must_use]
pub fn schedstat(text: &str) -> Option<[u64; 3]> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Whether a hypervisor is below.
#[must_use]
pub fn is_virtual() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// The other threads of a core's core.
#[must_use]
pub fn siblings(core: u16) -> Vec<u16> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (from, until) = part.split_once('-').unwrap_or((part, part));
            Some(from.parse::<u16>().ok()?..=until.parse().ok()?)
        })
        .flatten()
        .filter(|other| *other != core)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU2\n\
         36:          1     903755 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
        LOC:    6757877    6242808   Local timer interrupts\nERR:          0\n garbage\n";

    #[test]
    fn a_table_is_read_by_core() {
        let table = Table::parse(INTERRUPTS);
        assert_eq!(table.count("36", 2), Some(903_755));
        assert_eq!((table.count("36", 1), table.count("37", 0), table.count("ERR", 2)), (None, None, None));
        assert_eq!(table.rows[0].name, "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0");
        assert_eq!(table.rows.len(), 3);
    }

    #[test]
    fn growth_is_by_key_where_rows_and_cores_come_and_go() {
        let before = Table::parse("  CPU0 CPU2\nLOC: 4294967290 5 x\n36: 1 2 disk\n40: 9 9 gone\n");
        let now = Table::parse("  CPU0\nLOC: 10 x\n36: 4 disk\n41: 7 new\n");
        assert_eq!(now.grown(&before, 0), [("LOC", "x", 16), ("36", "disk", 3)]);
        assert!(now.grown(&before, 2).is_empty(), "off line");
    }

    #[test]
    fn a_counter_wraps_or_begins_again() {
        assert_eq!(difference(7, 5), 2);
        assert_eq!(difference(3, u64::from(u32::MAX)), 4);
        assert_eq!(difference(3, 100), 0);
    }

    #[test]
    fn times_of_cores_are_read() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 1 0\ncpu1 1 1\nintr 5\n";
        assert_eq!(stolen(stat), [(0, 8)].into());
        assert_eq!(busy(stat), [(0, 27)].into());
        assert_eq!((schedstat("5 6 7\n"), schedstat("5 6")), (Some([5, 6, 7]), None));
    }
}
