//! Processor, memory, kernel, control group.

use crate::{Fingerprint, line, names, text};
use std::collections::BTreeMap;
use sysroot::Sysroot;

/// Single files, by what they tell.
const FILES: [(&str, &str); 14] = [
    ("firmware", "sys/devices/virtual/dmi/id/bios_version"),
    ("machine", "sys/devices/virtual/dmi/id/product_name"),
    ("threads of a core", "sys/devices/system/cpu/smt/control"),
    ("turbo off", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("frequency boost", "sys/devices/system/cpu/cpufreq/boost"),
    ("frequency driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
    ("frequency governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("idle driver", "sys/devices/system/cpu/cpuidle/current_driver"),
    ("isolated cores", "sys/devices/system/cpu/isolated"),
    ("cores without a tick", "sys/devices/system/cpu/nohz_full"),
    ("clock source", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("huge pages unasked", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("congestion control", "proc/sys/net/ipv4/tcp_congestion_control"),
    ("queueing discipline", "proc/sys/net/core/default_qdisc"),
];

/// Of control groups: what they limit (cgroup-v2.rst).
const LIMITS: [(&str, &str); 3] =
    [("processor quota", "cpu.max"), ("memory limit", "memory.max"), ("cores of the group", "cpuset.cpus.effective")];

/// The machine below `root`, but for its interfaces.
pub fn read(root: &Sysroot, cores: Vec<u16>) -> Fingerprint {
    let text = |path: &str| text(root, path);
    let cpu = text("proc/cpuinfo");
    let unknown = || "unknown".to_owned();
    let memory = field(&text("proc/meminfo"), "MemTotal").and_then(|text| number(&text)).unwrap_or(0);
    let system = text("etc/os-release")
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned()));
    let found = FILES.into_iter().filter_map(|(name, path)| Some((name.to_owned(), line(root, path)?)));
    let mut environment: BTreeMap<String, String> = found.collect();
    environment.extend(field(&cpu, "microcode").map(|version| ("microcode".to_owned(), version)));
    environment.extend(mitigations(root));
    environment.extend(limits(root));
    environment.extend(domains(root));
    environment.extend(neighbours(root).map(|found| ("neighbours".to_owned(), found)));
    Fingerprint {
        processor: field(&cpu, "model name").unwrap_or_else(unknown),
        cores,
        virtual_machine: field(&cpu, "flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor")),
        kernel: line(root, "proc/sys/kernel/osrelease").unwrap_or_default(),
        memory_mib: memory / 1024,
        system: system.unwrap_or_else(unknown),
        environment,
    }
}

/// The value of the first `name: value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The first number of a text.
fn number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

/// What the kernel does against flaws of the processor: those that it has.
fn mitigations(root: &Sysroot) -> Option<(String, String)> {
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    let one = |name: String| {
        let what = line(root, &format!("{FOLDER}/{name}")).filter(|what| what != "Not affected")?;
        Some(format!("{name}: {what}"))
    };
    let all: Vec<String> = names(root, FOLDER).into_iter().filter_map(one).collect();
    (!all.is_empty()).then(|| ("mitigations".to_owned(), all.join("; ")))
}

/// What this process's control group limits; those above it may limit it, too.
fn limits(root: &Sysroot) -> BTreeMap<String, String> {
    let groups = text(root, "proc/self/cgroup");
    let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else { return BTreeMap::new() };
    let limit = |(name, file): (&str, &str)| {
        let text = line(root, &format!("sys/fs/cgroup/{own}/{file}"))?;
        (!text.starts_with("max")).then(|| (name.to_owned(), text))
    };
    LIMITS.into_iter().filter_map(limit).collect()
}

/// Memory and huge pages of each NUMA domain.
fn domains(root: &Sysroot) -> BTreeMap<String, String> {
    const FOLDER: &str = "sys/devices/system/node";
    let one = |name: String| {
        let domain = name.strip_prefix("node").filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()))?.to_owned();
        let memory = text(root, &format!("{FOLDER}/{name}/meminfo"));
        let total = memory
            .lines()
            .find(|line| line.contains("MemTotal:"))
            .and_then(|line| number(line.split_once("MemTotal:")?.1))?;
        let pages = names(root, &format!("{FOLDER}/{name}/hugepages")).into_iter().filter_map(|size| {
            let count = line(root, &format!("{FOLDER}/{name}/hugepages/{size}/nr_hugepages"))?;
            let size = size.strip_prefix("hugepages-")?.to_owned();
            (count != "0").then(|| format!(", {count} pages of {size}"))
        });
        Some((format!("memory of domain {domain}"), format!("{} MiB{}", total / 1024, pages.collect::<String>())))
    };
    names(root, FOLDER).into_iter().filter_map(one).collect()
}

/// How busy the machine is: averages of a minute and of five, and who is running.
fn neighbours(root: &Sysroot) -> Option<String> {
    let text = line(root, "proc/loadavg")?;
    let mut words = text.split(' ');
    let (one, five) = (words.next()?, words.next()?);
    let running = words.nth(1)?;
    Some(format!("load {one} in a minute, {five} in five; running {running}"))
}
