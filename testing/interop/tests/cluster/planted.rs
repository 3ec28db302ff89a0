//! Faults of nodes, each planted in the files of a recorded node: audits find each by what it does, the table of nodes
//! has it on the nodes that have it and no others, and the next audit tells it as a drift.

use interop::{Nearside, scratch};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A machine of two sockets with a NIC on each, as `topology` has it.
const MACHINE: &str = include_str!("../../../../node/topology/fixtures/two-sockets.txt");

/// Nodes that have no fault: more than any fault has.
const SOUND: usize = 60;

/// Settings of a node that is as it should be: the file, and what it says.
const SETTINGS: [(&str, &str); 41] = [
    (
        "proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet isolcpus=managed_irq,2-7 nohz_full=2-7 rcu_nocbs=2-7",
    ),
    ("proc/meminfo", MEMORY),
    ("proc/net/netstat", "TcpExt: ListenOverflows ListenDrops TW\nTcpExt: 0 0 9"),
    ("proc/net/softnet_stat", "00001000 00000000 00000000"),
    ("proc/sys/fs/file-max", "9223372036854775807"),
    ("proc/sys/fs/nr_open", "1048576"),
    ("proc/sys/kernel/numa_balancing", "0"),
    ("proc/sys/kernel/osrelease", "6.12.41+deb13-amd64"),
    ("proc/sys/kernel/threads-max", "192729"),
    ("proc/sys/net/core/busy_poll", "0"),
    ("proc/sys/net/core/netdev_budget", "300"),
    ("proc/sys/net/core/netdev_max_backlog", "1000"),
    ("proc/sys/net/core/rmem_max", "4194304"),
    ("proc/sys/net/core/somaxconn", "4096"),
    ("proc/sys/net/ipv4/ip_forward", "0"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999"),
    ("proc/sys/net/ipv4/tcp_abort_on_overflow", "0"),
    ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr"),
    ("proc/sys/net/ipv4/tcp_congestion_control", "cubic"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "2048"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432"),
    ("proc/sys/net/ipv4/tcp_sack", "1"),
    ("proc/sys/net/ipv4/tcp_syncookies", "1"),
    ("proc/sys/net/ipv4/tcp_timestamps", "1"),
    ("proc/sys/net/ipv4/tcp_window_scaling", "1"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "262144"),
    ("proc/sys/vm/dirty_ratio", "20"),
    ("proc/sys/vm/min_free_kbytes", "67584"),
    ("proc/sys/vm/overcommit_memory", "0"),
    ("proc/sys/vm/swappiness", "60"),
    ("proc/sys/vm/zone_reclaim_mode", "0"),
    ("sys/class/net/ens1f0/mtu", "1500"),
    ("sys/class/net/ens1f0/queues/rx-0/rps_cpus", "00000000"),
    ("sys/class/net/ens1f0/queues/tx-0/xps_cpus", "00000001"),
    ("sys/class/net/ens1f0/speed", "25000"),
    ("sys/class/net/ens1f0/statistics/rx_errors", "0"),
    ("sys/class/net/ens1f0/tx_queue_len", "1000"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
    ("sys/kernel/mm/ksm/run", "0"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
];

const MEMORY: &str = "MemTotal: 65000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugepagesize: 2048 kB";

/// What somebody did to a node.
struct Fault {
    /// The file that says otherwise since, and what it says.
    file: &'static str,
    says: &'static str,
    /// The setting by which it is found, and the thing of several that it is of.
    key: &'static str,
    subject: &'static str,
    /// What is found there.
    value: &'static str,
    verdict: &'static str,
}

/// One whose setting has the name of its file, and the file's own words as its value.
const fn sysctl(key: &'static str, file: &'static str, says: &'static str, verdict: &'static str) -> Fault {
    Fault { file, says, key, subject: "", value: says, verdict }
}

/// One of an interface.
const fn interface(key: &'static str, file: &'static str, says: &'static str, verdict: &'static str) -> Fault {
    Fault { file, says, key, subject: "ens1f0", value: says, verdict }
}

const WORSE: &str = "worse-than-default";

const FAULTS: [Fault; 36] = [
    sysctl("fs.nr_open", "proc/sys/fs/nr_open", "1024", WORSE),
    sysctl("kernel.numa_balancing", "proc/sys/kernel/numa_balancing", "1", "ok"),
    sysctl("kernel.threads-max", "proc/sys/kernel/threads-max", "4096", "ok"),
    sysctl("net.core.busy_poll", "proc/sys/net/core/busy_poll", "50", "ok"),
    sysctl("net.core.netdev_budget", "proc/sys/net/core/netdev_budget", "30", WORSE),
    sysctl("net.core.rmem_max", "proc/sys/net/core/rmem_max", "4096", WORSE),
    sysctl("net.core.somaxconn", "proc/sys/net/core/somaxconn", "128", WORSE),
    sysctl("net.ipv4.ip_forward", "proc/sys/net/ipv4/ip_forward", "1", "ok"),
    sysctl("net.ipv4.ip_local_port_range", "proc/sys/net/ipv4/ip_local_port_range", "60000 60999", WORSE),
    sysctl("net.ipv4.tcp_abort_on_overflow", "proc/sys/net/ipv4/tcp_abort_on_overflow", "1", WORSE),
    sysctl("net.ipv4.tcp_congestion_control", "proc/sys/net/ipv4/tcp_congestion_control", "reno", "improvable"),
    sysctl("net.ipv4.tcp_max_syn_backlog", "proc/sys/net/ipv4/tcp_max_syn_backlog", "64", WORSE),
    sysctl("net.ipv4.tcp_rmem", "proc/sys/net/ipv4/tcp_rmem", "4096 8192 16384", WORSE),
    sysctl("net.ipv4.tcp_sack", "proc/sys/net/ipv4/tcp_sack", "0", WORSE),
    sysctl("net.ipv4.tcp_syncookies", "proc/sys/net/ipv4/tcp_syncookies", "0", "dangerous"),
    sysctl("net.ipv4.tcp_timestamps", "proc/sys/net/ipv4/tcp_timestamps", "0", WORSE),
    sysctl("net.ipv4.tcp_window_scaling", "proc/sys/net/ipv4/tcp_window_scaling", "0", WORSE),
    sysctl("net.netfilter.nf_conntrack_max", "proc/sys/net/netfilter/nf_conntrack_max", "1024", WORSE),
    sysctl("vm.dirty_ratio", "proc/sys/vm/dirty_ratio", "90", WORSE),
    sysctl("vm.min_free_kbytes", "proc/sys/vm/min_free_kbytes", "8192", WORSE),
    sysctl("vm.overcommit_memory", "proc/sys/vm/overcommit_memory", "2", WORSE),
    sysctl("vm.swappiness", "proc/sys/vm/swappiness", "100", "no-effect"),
    sysctl("vm.zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode", "1", WORSE),
    sysctl("ksm/run", "sys/kernel/mm/ksm/run", "1", "improvable"),
    sysctl(
        "transparent_hugepage/enabled",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never",
        "improvable",
    ),
    sysctl("clock source", "sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet", WORSE),
    interface("MTU", "sys/class/net/ens1f0/mtu", "9000", "ok"),
    interface("link speed", "sys/class/net/ens1f0/speed", "1000", "ok"),
    interface("received errors", "sys/class/net/ens1f0/statistics/rx_errors", "5000", "improvable"),
    interface("transmit queue length", "sys/class/net/ens1f0/tx_queue_len", "10", "unnecessary"),
    interface("memory domain of the interface", "sys/class/net/ens1f0/device/numa_node", "1", "ok"),
    Fault {
        file: "sys/class/net/ens1f0/queues/rx-0/rps_cpus",
        says: "0000ffff",
        key: "RPS",
        subject: "ens1f0 rx-0",
        value: "0000ffff",
        verdict: "ok",
    },
    // The host was started again without an argument.
    Fault {
        file: "proc/cmdline",
        says: "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet nohz_full=2-7 rcu_nocbs=2-7",
        key: "cmdline isolcpus",
        subject: "",
        value: "",
        verdict: "ok",
    },
    Fault {
        file: "proc/meminfo",
        says: "MemTotal: 65000000 kB\nSwapTotal: 8000000 kB\nSwapFree: 1000000 kB\nHugepagesize: 2048 kB",
        key: "swap in use",
        subject: "all",
        value: "7168000000",
        verdict: "improvable",
    },
    // Packets were dropped, and connections: a setting that is as on other nodes is too small for this one.
    Fault {
        file: "proc/net/softnet_stat",
        says: "00001000 00000fff 00000000",
        key: "net.core.netdev_max_backlog",
        subject: "",
        value: "1000",
        verdict: "improvable",
    },
    Fault {
        file: "proc/net/netstat",
        says: "TcpExt: ListenOverflows ListenDrops TW\nTcpExt: 900 900 9",
        key: "net.core.somaxconn",
        subject: "",
        value: "4096",
        verdict: "improvable",
    },
];

/// The files of a recording, by their paths.
fn recorded() -> BTreeMap<String, String> {
    let lines = MACHINE.lines().filter(|line| !line.starts_with('#'));
    let files = lines.map(|line| line.split_once(' ').unwrap_or((line, "")));
    let mut files: BTreeMap<String, String> = files.map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    files.extend(SETTINGS.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
    // A folder of a file is told as a file, too.
    let paths: Vec<String> = files.keys().cloned().collect();
    files.retain(|path, _| !paths.iter().any(|other| other.starts_with(&format!("{path}/"))));
    files
}

/// Writes what an audit of these files says, where it is to be.
fn audited(files: &BTreeMap<String, String>, root: &Path, place: &Path) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }
    let mut command = Nearside::command(["node", "audit", "--json", "--role", "mixed", "--root"]);
    let output = command.arg(root).output().expect("it runs");
    fs::remove_dir_all(root).expect("it is there");
    let audit: Value = serde_json::from_slice(&output.stdout).expect("an audit");
    assert_eq!(audit["kind"], "audit");
    fs::write(place, output.stdout).expect("a file");
}

/// What the table of these nodes has, and what changed since the audits in `before`.
fn table(nodes: &Path, before: &Path) -> Value {
    let mut command = Nearside::command(["cluster", "audits", "--json"]);
    let mut files: Vec<PathBuf> =
        fs::read_dir(nodes).expect("a folder").map(|entry| entry.expect("it").path()).collect();
    files.sort();
    let output = command.args(files).arg("--before").arg(before).output().expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// How many nodes have a fault.
fn share(number: usize) -> usize {
    1 + number % 3
}

#[test]
fn each_planted_fault_is_found_by_its_effect_on_its_nodes_alone_and_told_as_a_drift() {
    let place = scratch("cluster-planted");
    let _ = fs::remove_dir_all(&place);
    let (now, before, root) = (place.join("now"), place.join("before"), place.join("root"));
    [&now, &before].iter().for_each(|folder| fs::create_dir_all(folder).expect("a folder"));
    let sound = place.join("sound.json");
    audited(&recorded(), &root, &sound);
    let copy = |from: &Path, folder: &Path, node: &str| {
        fs::hard_link(from, folder.join(format!("{node}.json"))).expect("another name");
    };
    for node in 0..SOUND {
        copy(&sound, &now, &format!("sound-{node}"));
    }
    for (number, fault) in FAULTS.iter().enumerate() {
        let mut files = recorded();
        assert!(files.insert(fault.file.to_owned(), fault.says.to_owned()).is_some(), "{} is new", fault.file);
        let faulty = place.join(format!("{number}.json"));
        audited(&files, &root, &faulty);
        for node in 0..share(number) {
            let node = format!("node-{number:02}-{node}");
            copy(&faulty, &now, &node);
            copy(&sound, &before, &node);
        }
    }
    let table = table(&now, &before);
    assert_eq!(table["alike"].as_array().map(Vec::len), Some(SOUND));
    let rows = table["others"].as_array().expect("a list");
    let drifts = table["changed"].as_array().expect("a list");
    // A row for each fault: so none is one with another, and none is on a node that is sound.
    assert_eq!(rows.len(), FAULTS.len());
    for (number, fault) in FAULTS.iter().enumerate() {
        let nodes: Vec<String> = (0..share(number)).map(|node| format!("node-{number:02}-{node}")).collect();
        let of_it = |row: &&Value| row["nodes"][0] == nodes[0].as_str();
        let row = rows.iter().find(of_it).unwrap_or_else(|| panic!("{} is not found: {table}", fault.key));
        assert_eq!(row["nodes"], json!(nodes), "{}", fault.key);
        let is_it = |one: &&Value, field: &str| {
            let state = &one[field];
            one["key"] == fault.key
                && one["subject"] == fault.subject
                && state["value"].as_str().map(|value| value.replace('\t', " ")) == Some(fault.value.to_owned())
                && state["verdict"] == fault.verdict
        };
        let found = row["differences"].as_array().expect("a list");
        let told = found.iter().find(|one| is_it(one, "here")).unwrap_or_else(|| panic!("{}: {row}", fault.key));
        // It is its effect that is seen, and little beside it.
        assert!(found.len() <= 2 && told["usual"] != told["here"], "{}: {row}", fault.key);
        for node in &nodes {
            let drift = drifts.iter().find(|one| one["node"] == node.as_str());
            let changes = drift.and_then(|one| one["changes"].as_array()).expect(fault.key);
            let change =
                changes.iter().find(|one| is_it(one, "is")).unwrap_or_else(|| panic!("{}: {drift:?}", fault.key));
            assert_eq!(change["was"], told["usual"], "{}", fault.key);
        }
    }
    assert_eq!(drifts.len(), (0..FAULTS.len()).map(share).sum::<usize>(), "nothing else changed");
    let _ = fs::remove_dir_all(&place);
}
