//! What the machine itself counts of its memory and its power, to be held beside a model.

use super::si;
use core::fmt;
use core::time::Duration;
use cpu::Clock;
use serde_json::{Value, json};
use sysroot::Sysroot;
use topology::Topology;

/// How long is counted.
const WHILE: Duration = Duration::from_millis(500);

/// Nothing that is read here is longer.
const FILE_LIMIT: u64 = 4_096;

const RESCTRL: &str = "sys/fs/resctrl/mon_data";
const POWER: &str = "sys/class/powercap";
const EVENTS: &str = "sys/bus/event_source/devices";

/// What is counted: for each, its name, what it came to in a second with the unit, or why there is
/// none.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineCounters(Vec<(String, Result<Counted, String>)>);

/// In a second.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Counted {
    /// Bytes, which a value beside it counts as another domain's.
    Bytes(f64),
    /// Watts.
    Watts(f64),
    /// It counts, and somebody else reads it.
    Elsewhere(&'static str),
}

impl MachineCounters {
    /// Looks what there is on this machine, and counts for half a second where there is something.
    pub fn of_this_machine(topology: &Topology) -> Self {
        Self::read(&Sysroot::of_this_machine(), topology, &mut || {
            std::thread::sleep(WHILE);
        })
    }

    /// The same of files below `root`; `pause` passes the time.
    fn read(root: &Sysroot, topology: &Topology, pause: &mut dyn FnMut()) -> Self {
        let (traffic, power) = (traffic(root), power(root));
        let files: Vec<&(String, String, bool)> = traffic.iter().chain(&power).collect();
        let look = || files.iter().map(|(_, file, _)| number(root, file)).collect::<Vec<_>>();
        let clock = Clock;
        let (began, before) = (clock.now(), look());
        if !files.is_empty() {
            pause();
        }
        let (ended, after) = (clock.now(), look());
        let seconds = (ended.as_nanos().saturating_sub(began.as_nanos()) as f64 / 1e9).max(1e-3);
        let mut found = Vec::new();
        for (at, (name, _, is_power)) in files.into_iter().enumerate() {
            let change = before[at].zip(after[at]).and_then(|(before, after)| after.checked_sub(before));
            let value = change.map(|change| {
                let rate = change as f64 / seconds;
                if *is_power { Counted::Watts(rate / 1e6) } else { Counted::Bytes(rate) }
            });
            found.push((name.clone(), value.ok_or_else(|| "it cannot be read, or began again".to_owned())));
        }
        if traffic.is_empty() {
            found.push(("memory by domain (resctrl)".to_owned(), Err(no_resctrl(root, topology))));
        }
        let controllers = root.names(EVENTS).unwrap_or_default();
        let controllers = controllers.iter().any(|name| name.starts_with("uncore_imc") || name.starts_with("amd_umc"));
        let told = if controllers {
            Ok(Counted::Elsewhere("nearside watch --domains reads them"))
        } else {
            Err(no_controllers(topology))
        };
        found.push(("memory controllers (uncore)".to_owned(), told));
        if power.is_empty() {
            found.push(("power (RAPL)".to_owned(), Err(format!("no readable /{POWER}/*/energy_uj"))));
        }
        Self(found)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let one = |(name, value): &(String, Result<Counted, String>)| match value {
            Ok(Counted::Bytes(bytes)) => json!({ "counter": name, "bytes_per_second": bytes }),
            Ok(Counted::Watts(watts)) => json!({ "counter": name, "watts": watts }),
            Ok(Counted::Elsewhere(by)) => json!({ "counter": name, "read_by": by }),
            Err(why) => json!({ "counter": name, "missing": why }),
        };
        Value::Array(self.0.iter().map(one).collect())
    }
}

impl fmt::Display for MachineCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "what this machine counts just now, with whatever runs on it:")?;
        for (name, value) in &self.0 {
            let name = topology::plain(name);
            match value {
                Ok(Counted::Bytes(bytes)) => writeln!(f, "  {name}: {}", si(*bytes, "B/s"))?,
                Ok(Counted::Watts(watts)) => writeln!(f, "  {name}: {}", si(*watts, "W"))?,
                Ok(Counted::Elsewhere(by)) => writeln!(f, "  {name}: {by}")?,
                Err(why) => writeln!(f, "  {name}: none, {why}")?,
            }
        }
        Ok(())
    }
}

/// Files of resctrl: all traffic of a cache, and what of it is its own domain's.
fn traffic(root: &Sysroot) -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    for cache in root.names(RESCTRL).unwrap_or_default().iter().filter(|name| name.starts_with("mon_L3_")) {
        for (file, what) in [("mbm_total_bytes", "all"), ("mbm_local_bytes", "of its own domain")] {
            let path = format!("{RESCTRL}/{cache}/{file}");
            if number(root, &path).is_some() {
                found.push((
                    format!("memory through cache {} (resctrl), {what}", &cache["mon_L3_".len()..]),
                    path,
                    false,
                ));
            }
        }
    }
    found
}

/// Files of RAPL: a zone's microjoules.
fn power(root: &Sysroot) -> Vec<(String, String, bool)> {
    let names = root.names(POWER).unwrap_or_default();
    let zones = names.iter().filter(|name| name.contains("rapl:"));
    let found = zones.map(|zone| {
        let name = root.text(&format!("{POWER}/{zone}/name"), FILE_LIMIT).unwrap_or_default();
        (format!("power of {} (RAPL)", name.trim()), format!("{POWER}/{zone}/energy_uj"), true)
    });
    found.filter(|(_, path, _)| number(root, path).is_some()).collect()
}

fn number(root: &Sysroot, path: &str) -> Option<u64> {
    root.text(path, FILE_LIMIT).ok()?.trim().parse().ok()
}

/// Whether it is an EPYC of this generation: the last digit of four.
fn is_epyc(topology: &Topology, generation: char) -> bool {
    let mut words = topology.processor.split_whitespace();
    let is_model = |word: &str| word.starts_with('7') && word.chars().nth(3) == Some(generation);
    topology.processor.contains("EPYC") && words.any(is_model)
}

fn no_resctrl(root: &Sysroot, topology: &Topology) -> String {
    if is_epyc(topology, '1') {
        return "AMD's Naples has no such counter".to_owned();
    }
    match root.kind("sys/fs/resctrl") {
        Some(_) => "resctrl is not mounted (mount -t resctrl resctrl /sys/fs/resctrl), or counts no traffic".to_owned(),
        None => "this kernel or processor has no resctrl".to_owned(),
    }
}

fn no_controllers(topology: &Topology) -> String {
    if is_epyc(topology, '1') || is_epyc(topology, '2') {
        return "AMD's Naples and Rome tell none to the kernel: what the model says stands alone".to_owned();
    }
    "no PMU of memory controllers (uncore_imc, amd_umc)".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use topology::Recording;

    fn machine(processor: &str) -> Topology {
        let text = format!("sys/devices/system/cpu/possible 0\nproc/cpuinfo model name : {processor}\n");
        Topology::of(&Recording::parse(&text).unwrap(), None).unwrap()
    }

    #[test]
    fn a_machine_that_counts_nothing_says_so_of_each() {
        let nowhere = Sysroot::at(Path::new("/nonexistent"));
        let mut pauses = 0;
        for (processor, why) in [
            ("AMD EPYC 7551 32-Core Processor", "Naples has no such counter"),
            ("AMD EPYC 7502P 32-Core Processor", "Naples and Rome tell none"),
            ("Some processor", "no PMU of memory controllers"),
        ] {
            let read = MachineCounters::read(&nowhere, &machine(processor), &mut || pauses += 1);
            let told = read.to_string();
            assert!(told.contains(why) && told.matches(": none, ").count() == 3, "{told}");
        }
        assert_eq!(pauses, 0, "nobody waits for what does not count");
    }

    #[test]
    fn what_counts_is_counted() {
        let folder = std::env::temp_dir().join(format!("nearside-counters-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            std::fs::write(path, text).expect("room");
        };
        let cache = "sys/fs/resctrl/mon_data/mon_L3_00";
        write(&format!("{cache}/mbm_total_bytes"), "1000\n");
        write(&format!("{cache}/mbm_local_bytes"), "Unavailable\n");
        write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
        write("sys/class/powercap/intel-rapl:0/energy_uj", "900\n");
        write("sys/bus/event_source/devices/uncore_imc_0/type", "12\n");
        let mut later = || {
            write(&format!("{cache}/mbm_total_bytes"), "900000000\n");
            // It began again.
            write("sys/class/powercap/intel-rapl:0/energy_uj", "7\n");
        };
        let read = MachineCounters::read(&Sysroot::at(&folder), &machine("x"), &mut later);
        std::fs::remove_dir_all(&folder).expect("ours");
        let [(traffic, Ok(Counted::Bytes(bytes))), (power, Err(_)), (_, Ok(Counted::Elsewhere(_)))] = &read.0[..]
        else {
            panic!("{read:?}")
        };
        assert!(*bytes > 0.0 && traffic.contains("cache 00") && power.contains("package-0"), "{read:?}");
    }
}
