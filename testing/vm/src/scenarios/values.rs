//! What the kernel takes of a text for `kernel.*`, `vm.*`, `fs.*` and `net.*`, and
//! what `node audit` reads of it: alike. Most of these are the whole machine's, so that they
//! are tried in one that is booted for it.

use super::Scenario;
use crate::Failure;
use crate::guest::{Guest, nearside, output};
use crate::machine::{Domain, Machine};
use serde_json::Value;
use std::fs;

pub const SCENARIO: Scenario = Scenario {
    name: "values",
    about: "texts for sysctls of the whole machine: what the kernel takes, node audit reads as it does",
    machines: &[Machine { name: "one domain", domains: &[Domain { cores: 2, memory: 1024 }], ports: &[] }],
    modules: &[],
    limit: std::time::Duration::from_secs(400),
    prove,
};

/// What people write, and what they do not.
const TEXTS: [&str; 29] = [
    "0",
    "1",
    "2",
    "3 # never",
    "10 #x",
    "010",
    "0x10",
    "08",
    "1#x",
    "1x",
    "-1",
    "-2",
    "+1",
    "64",
    "100",
    "101",
    "255",
    "1000",
    "4096",
    "65536 # pages",
    "2147483647",
    "2147483648",
    "4294967296",
    "18446744073709551616",
    "lots",
    "16M",
    "1;",
    "on",
    "1 2 3 4",
];
/// How many of them each sysctl meets.
const EACH: usize = 6;

/// Sysctls of which a value cannot be taken back, ends the machine, or depends
/// on devices that are not there.
const LEFT_OUT: [&str; 4] =
    ["kernel.unprivileged_bpf_disabled", "kernel.watchdog_cpumask", "vm.drop_caches", "vm.hugetlb_optimize_vmemmap"];
/// Names and lists, for the test of audit, which asks in a namespace; times that
/// are kept in ticks, of which a kernel has as many as it was built with; and
/// what some versions take and some do not: buffers smaller than any segment, a
/// queue of less than nothing.
const OF_OTHER_SHAPES: [&str; 9] = [
    "net.unix.max_dgram_qlen",
    "net.ipv4.tcp_rmem",
    "net.core.netdev_budget_usecs",
    "net.core.default_qdisc",
    "net.core.rps_default_mask",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.icmp_ratelimit",
    "net.ipv4.tcp_invalid_ratelimit",
];
/// Of these large values take the memory that there is.
const OF_MEMORY: [&str; 4] =
    ["vm.min_free_kbytes", "vm.nr_hugepages", "vm.nr_overcommit_hugepages", "kernel.threads-max"];

fn prove(guest: &mut Guest) -> Result<(), Failure> {
    let catalogue: Value = serde_json::from_str(&output(&mut nearside(["node", "explain", "--json"]))?)?;
    let keys = catalogue.as_array().into_iter().flatten().filter_map(|rule| rule["key"].as_str());
    let of_machine = |key: &&str| {
        ["kernel.", "vm.", "fs.", "net.core.", "net.ipv4.", "net.unix."].iter().any(|folder| key.starts_with(folder))
    };
    let mut asked: Vec<(String, &str)> = Vec::new();
    for (at, key) in keys
        .filter(of_machine)
        .filter(|key| !key.contains('*') && !LEFT_OUT.contains(key) && !OF_OTHER_SHAPES.contains(key))
        .enumerate()
    {
        // One that the kernel lets nobody write says nothing of texts.
        let old = fs::read_to_string(path(key)).unwrap_or_default();
        if old.is_empty() || fs::write(path(key), &old).is_err() {
            continue;
        }
        let small = |text: &&&str| !OF_MEMORY.contains(&key) || text.len() < 4;
        let texts = TEXTS.iter().cycle().skip(at * 5).take(TEXTS.len()).filter(small).take(EACH);
        asked.extend(texts.map(|text| (key.to_owned(), *text)));
    }
    let lines: Vec<String> = asked.iter().map(|(key, text)| format!("{key} = {text}")).collect();
    fs::write("/tmp/values.conf", lines.join("\n"))?;
    // Its status tells the worst verdict.
    let audited = nearside(["node", "audit", "--of", "/tmp/values.conf", "--json"]).output()?;
    let report: Value = serde_json::from_slice(&audited.stdout)?;
    let rows = report["rows"].as_array().ok_or("a report without rows")?;
    if rows.len() != asked.len() {
        return Err(format!("{} rows for {} lines", rows.len(), asked.len()).into());
    }
    let mut otherwise = Vec::new();
    for ((key, text), row) in asked.iter().zip(rows) {
        let (refused, value) = (row["verdict"] == "refused", row["value"].as_str().unwrap_or_default());
        let old = fs::read_to_string(path(key))?;
        let taken = fs::write(path(key), format!("{text}\n"));
        let shows = fs::read_to_string(path(key))?;
        fs::write(path(key), &old).map_err(|why| format!("{key}: {} cannot be written back: {why}", old.trim()))?;
        let same = match (&taken, refused) {
            (Err(_), true) => true,
            (Ok(()), false) => starts_with(&shows, value),
            _ => false,
        };
        if !same {
            otherwise.push(format!(
                "{key} = {text}: {taken:?}, shows {}, and is read as {value} ({})",
                shows.trim(),
                row["why"]
            ));
        }
    }
    guest.say(format!("{} texts for sysctls of the machine, {} read otherwise", asked.len(), otherwise.len()))?;
    match otherwise.is_empty() && asked.len() >= 300 {
        true => Ok(()),
        false => Err(otherwise.join("\n").into()),
    }
}

fn path(key: &str) -> String {
    format!("/proc/sys/{}", key.replace('.', "/"))
}

/// Whether the first words are the same.
fn starts_with(all: &str, first: &str) -> bool {
    let mut words = all.split_whitespace();
    first.split_whitespace().all(|word| words.next() == Some(word))
}
