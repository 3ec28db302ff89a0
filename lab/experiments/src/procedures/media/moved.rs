//! Bytes that pass memory for each byte sent: by the model of `nearside numa --budget`, and by what the
//! machine counts, where it does.

use budget::{BudgetAsk, BudgetMachine, ContentWay, budget};
use demo::machine::now;
use perf::Count;
use perf::counter::{What, Whose};
use std::path::Path;
use std::time::Instant;
use watch::{ReadOptions, Reader};

/// What is asked of the model: a byte costs the same at every rate.
const BYTES: f64 = 1e9;

/// Bytes that memory reads and writes for each byte of content, of which this share comes from a disk.
///
/// # Errors
/// Why the model does not say.
pub(super) fn modelled(machine: &BudgetMachine, way: ContentWay, tls: bool, from_disk: f64) -> Result<f64, String> {
    let moved = |disk| {
        let made = budget(machine, &BudgetAsk { tls, disk, ..BudgetAsk::new(8.0 * BYTES) });
        let made = made.map_err(|why| why.to_string())?;
        let cost = made.ways.iter().find(|cost| cost.way == way).ok_or("the model has no such way")?;
        Ok::<_, String>((cost.reads + cost.writes) / BYTES)
    };
    let (memory, disk) = (moved(false)?, moved(true)?);
    Ok((disk - memory).mul_add(from_disk, memory))
}

/// What counts the bytes of this machine's memory, whoever moves them.
pub(super) struct MemoryCounters {
    reader: Reader,
    /// The controllers' counters, with the bytes that each count stands for.
    channels: Vec<(f64, Count)>,
    began: Instant,
    /// What had passed at each look.
    looks: Vec<(f64, f64)>,
}

impl MemoryCounters {
    /// Those of a machine, below a folder.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn of(root: &Path) -> Result<Self, String> {
        let mut reader = Reader::new(root, ReadOptions::default());
        let found = reader.channel_counters();
        let began = found.and_then(|counters| {
            let start = |counter: watch::ChannelCounter| {
                let what = What::Pmu(&counter.pmu, &counter.event);
                Ok((counter.bytes, Count::start(what, Whose::Core(counter.core))?))
            };
            counters.into_iter().map(start).collect::<Result<Vec<_>, String>>()
        });
        let (channels, why) = match began {
            Ok(channels) => (channels, String::new()),
            Err(why) => (Vec::new(), why),
        };
        let mut this = Self { reader, channels, began: now(), looks: Vec::new() };
        match this.passed() {
            Some(_) => Ok(this),
            None => Err(format!("{why}; no resctrl that counts traffic")),
        }
    }

    /// Who counts.
    pub(super) fn name(&self) -> &'static str {
        if self.channels.is_empty() { "resctrl, traffic of the cores' caches" } else { "memory controllers" }
    }

    /// Bytes that have passed so far.
    fn passed(&mut self) -> Option<f64> {
        if !self.channels.is_empty() {
            return self.channels.iter_mut().map(|(bytes, count)| Some(count.read().ok()? as f64 * *bytes)).sum();
        }
        let at = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let sample = self.reader.sample(at, 0, 100);
        let traffic: Vec<u64> = sample.domains.values().filter_map(|domain| Some(domain.traffic?[0])).collect();
        (!traffic.is_empty()).then(|| traffic.iter().map(|bytes| *bytes as f64).sum())
    }

    /// Looks at what has passed.
    pub(super) fn look(&mut self) {
        if let Some(bytes) = self.passed() {
            self.looks.push((self.began.elapsed().as_secs_f64(), bytes));
        }
    }

    /// Bytes a second between the first look and the last; all looks are forgotten.
    pub(super) fn rate(&mut self) -> Option<f64> {
        let looks = std::mem::take(&mut self.looks);
        let (first, last) = (looks.first()?, looks.last()?);
        let seconds = last.0 - first.0;
        (seconds > 0.0 && last.1 >= first.1).then(|| (last.1 - first.1) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use budget::BudgetDomain;

    fn machine() -> BudgetMachine {
        let domain = BudgetDomain {
            number: 0,
            socket: None,
            distances: Vec::new(),
            cores: 8,
            has_memory: true,
            memory: None,
            // Rings of the usual size stay in it.
            cache: Some((64 << 20, 8)),
        };
        BudgetMachine { domains: vec![domain], ..BudgetMachine::default() }
    }

    #[test]
    fn passes_are_those_of_the_way_and_of_what_came_from_disks() {
        let moved = |way, tls, from_disk| modelled(&machine(), way, tls, from_disk).ok();
        assert_eq!(moved(ContentWay::KernelTls, true, 1.0), Some(4.0));
        assert_eq!(moved(ContentWay::KernelTls, true, 0.25), Some(3.25));
        assert_eq!(
            (moved(ContentWay::IntoSlot, true, 1.0), moved(ContentWay::IntoSlot, true, 0.0)),
            (Some(2.0), Some(1.0))
        );
        assert_eq!(moved(ContentWay::Sendfile, false, 0.5), Some(1.5));
        assert_eq!(moved(ContentWay::KernelTls, false, 1.0), None, "there is no such way");
        let none = modelled(&BudgetMachine::default(), ContentWay::Sendfile, false, 1.0);
        assert!(none.is_err_and(|why| !why.is_empty()));
        // What falls out of the cache is written and read.
        let mut small = machine();
        small.domains[0].cache = Some((1 << 20, 8));
        assert_eq!(modelled(&small, ContentWay::IntoSlot, true, 1.0), Ok(4.0));
    }

    #[test]
    fn what_resctrl_counts_is_counted_between_looks() {
        let root = std::env::temp_dir().join(format!("nearside-moved-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            std::fs::write(path, text).expect("room");
        };
        write("sys/devices/system/node/node0/cpulist", "0\n");
        write("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 8 kB\n");
        let none = MemoryCounters::of(&root).map(|_| ()).expect_err("nothing counts");
        write("sys/devices/system/cpu/cpu0/cache/index3/id", "0\n");
        let traffic = "sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes";
        write(traffic, "1000\n");
        let mut counters = MemoryCounters::of(&root).expect("resctrl counts");
        let name = counters.name();
        counters.look();
        std::thread::sleep(std::time::Duration::from_millis(2));
        write(traffic, "1000001000\n");
        counters.look();
        let seconds = counters.looks[1].0 - counters.looks[0].0;
        let (rate, again) = (counters.rate(), counters.rate());
        counters.look();
        write(traffic, "5\n");
        counters.look();
        let back = counters.rate();
        std::fs::remove_dir_all(&root).expect("ours");
        assert!(none.contains("no PMU of memory controllers") && none.contains("resctrl"), "{none}");
        assert!(name.starts_with("resctrl"));
        assert!((rate.expect("two looks") * seconds - 1e9).abs() < 1.0, "{rate:?}");
        assert_eq!((again, back), (None, None), "a counter that began again says nothing");
    }
}
