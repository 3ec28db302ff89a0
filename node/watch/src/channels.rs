//! What counts the bytes over memory's channels: the PMUs of memory controllers,
//! as the kernel describes them.

use crate::text;
use sysroot::Sysroot;

/// An event of a memory controller.
#[derive(Clone, PartialEq, Debug)]
pub struct ChannelCounter {
    /// The PMU's name.
    pub pmu: String,
    /// The event's.
    pub event: String,
    /// The core through which it is read.
    pub core: u16,
    /// The domain whose memory it is.
    pub domain: u16,
    /// Bytes that each count stands for.
    pub bytes: f64,
}

/// Reads and writes, as drivers name them, those of servers first
/// (arch/x86/events/intel/uncore_snbep.c, uncore_snb.c): counters that run freely
/// count the same, and no PMU is counted twice.
const EVENTS: [[&str; 2]; 4] = [
    ["cas_count_read", "cas_count_write"],
    ["data_reads", "data_writes"],
    ["data_read", "data_write"],
    ["read", "write"],
];

/// PMUs that are looked at; machines have some ten for each socket.
const PMUS_LIMIT: usize = 512;

/// No file that describes one is longer.
const FILE_LIMIT: u64 = 1 << 16;

const FOLDER: &str = "sys/bus/event_source/devices";

/// Finds them below `root`; `domains` are numbers and cores.
///
/// # Errors
/// Why there are none.
pub(crate) fn channel_counters(root: &Sysroot, domains: &[(u16, Vec<u16>)]) -> Result<Vec<ChannelCounter>, String> {
    let names = root.names(FOLDER).unwrap_or_default().into_iter();
    let pmus: Vec<String> = names.filter(|name| name.starts_with("uncore_imc")).take(PMUS_LIMIT).collect();
    if pmus.is_empty() {
        return Err("no PMU of memory controllers (uncore_imc)".to_owned());
    }
    for names in EVENTS {
        let found: Vec<ChannelCounter> = pmus.iter().flat_map(|pmu| of_pmu(root, pmu, names, domains)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(format!("{}: no event that counts reads and writes is known here", pmus[0]))
}

fn of_pmu(root: &Sysroot, pmu: &str, names: [&str; 2], domains: &[(u16, Vec<u16>)]) -> Vec<ChannelCounter> {
    let small = |name: &str| root.text(&format!("{FOLDER}/{pmu}/{name}"), FILE_LIMIT).ok();
    let bytes = |event: &str| {
        let scale: f64 = small(&format!("events/{event}.scale"))?.trim().parse().ok()?;
        let unit = match small(&format!("events/{event}.unit"))?.trim() {
            "B" | "Bytes" => 1.0,
            "KiB" => 1_024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => return None,
        };
        Some(scale * unit).filter(|bytes: &f64| bytes.is_finite() && *bytes > 0.0)
    };
    // One core of each socket.
    let cores = text::list(&small("cpumask").unwrap_or_default());
    let mut found = Vec::new();
    for event in names {
        let (Some(bytes), Some(_)) = (bytes(event), small(&format!("events/{event}"))) else { return Vec::new() };
        for core in &cores {
            if let Some((domain, _)) = domains.iter().find(|(_, cores)| cores.contains(core)) {
                let counter = ChannelCounter {
                    pmu: pmu.to_owned(),
                    event: event.to_owned(),
                    core: *core,
                    domain: *domain,
                    bytes,
                };
                found.push(counter);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join("sys/bus/event_source/devices").join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        std::fs::write(path, text).expect("room");
    }

    /// A PMU as the driver of a server's memory controllers shows it.
    fn controller(root: &Path, pmu: &str, names: [&str; 2]) {
        write(root, &format!("{pmu}/cpumask"), "0,2\n");
        for (event, code) in names.into_iter().zip(["event=0x04,umask=0x03\n", "event=0x04,umask=0x0c\n"]) {
            write(root, &format!("{pmu}/events/{event}"), code);
            write(root, &format!("{pmu}/events/{event}.scale"), "6.103515625e-5\n");
            write(root, &format!("{pmu}/events/{event}.unit"), "MiB\n");
        }
    }

    #[test]
    fn controllers_count_for_their_sockets_and_none_twice() {
        let root = std::env::temp_dir().join(format!("nearside-watch-channels-{}", std::process::id()));
        let domains = [(0, vec![0, 1]), (1, vec![2, 3])];
        std::fs::create_dir_all(&root).expect("room");
        assert!(channel_counters(&Sysroot::at(&root), &domains).is_err_and(|why| why.contains("no PMU")));
        write(&root, "uncore_imc_9/events/clockticks", "event=0x00\n");
        assert!(
            channel_counters(&Sysroot::at(&root), &domains).is_err_and(|why| why.starts_with("uncore_imc_9: no event"))
        );
        controller(&root, "uncore_imc_free_running_0", ["read", "write"]);
        assert_eq!(channel_counters(&Sysroot::at(&root), &domains).map(|all| all.len()), Ok(4));
        controller(&root, "uncore_imc_0", ["cas_count_read", "cas_count_write"]);
        // It has no scale, and says nothing.
        write(&root, "uncore_imc_1/cpumask", "0,2\n");
        write(&root, "uncore_imc_1/events/cas_count_read", "event=0x04,umask=0x03\n");
        let all = channel_counters(&Sysroot::at(&root), &domains).expect("counters");
        std::fs::remove_dir_all(&root).expect("it is ours");
        // A line of 64 bytes each.
        let of = |event: &str, core, domain| ChannelCounter {
            pmu: "uncore_imc_0".to_owned(),
            event: event.to_owned(),
            core,
            domain,
            bytes: 64.0,
        };
        let wanted =
            [("cas_count_read", 0, 0), ("cas_count_read", 2, 1), ("cas_count_write", 0, 0), ("cas_count_write", 2, 1)];
        assert_eq!(all, wanted.map(|(event, core, domain)| of(event, core, domain)));
    }
}
