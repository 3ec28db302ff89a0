//! What is found of each part of a profile.

use crate::advice::{OF_THE_OPERATOR, Setting, quantity};
use crate::evidence::cpu_list;
use crate::rule::Verdict;
use crate::{Case, Finding};

use Verdict::{Conflicts, Dangerous, Improvable, NoEffect, Unnecessary, WorseThanDefault};

pub(super) fn off_for_a_laboratory(off: bool) -> Finding {
    match off {
        true => Finding::new(
            WorseThanDefault,
            "for laboratories: on a cluster that serves, nobody sees or is told of failures; with workload \
                partitioning \
             it takes nothing from isolated cores",
        ),
        false => Finding::ok("as by default, or nearly"),
    }
}

/// The pool of machines that gets a profile, and no other.
pub(super) fn selector(case: &Case<'_>) -> Finding {
    let same = |other: &&Setting| {
        other.key == "PerformanceProfile nodeSelector" && other.value == case.value && other.subject != case.subject
    };
    match case.others.iter().find(same) {
        Some(other) => Finding::new(
            Verdict::Refused,
            format!("the operator refuses the profile: {} has the same nodeSelector", other.subject),
        ),
        None => Finding::ok("the pool of machines that gets all this; each restarts"),
    }
}

/// How long measurements are kept: 15 days by default (Prometheus's durations).
pub(super) fn retention(case: &Case<'_>) -> Finding {
    let end = case.value.find(|char: char| !char.is_ascii_digit()).unwrap_or(case.value.len());
    let (digits, unit) = case.value.split_at(end);
    let hours = match unit {
        "h" => Some(1),
        "d" => Some(24),
        "w" => Some(24 * 7),
        "y" => Some(24 * 365),
        // Shorter units, also several of them, are less than two days to anybody.
        unit if unit.starts_with('m') || unit.starts_with('s') => Some(0),
        _ => None,
    };
    let hours = digits.parse::<u64>().ok().zip(hours).map(|(count, hours)| count.saturating_mul(hours));
    match hours {
        Some(hours) if hours >= 48 => Finding::ok(format!("{} days; 15 by default", hours / 24)),
        Some(_) => off_for_a_laboratory(true),
        None => Finding::new(Verdict::Refused, "is no duration as 24h or 15d: the monitoring operator refuses it"),
    }
}

/// What there is to say of what came with a version, for a cluster before it.
pub(super) fn since(case: &Case<'_>, first: (u16, u16)) -> Option<Finding> {
    let version = case.evidence.cluster().filter(|version| *version < first)?;
    let why = format!("{}.{} does not have it: it came with {}.{}", version.0, version.1, first.0, first.1);
    Some(Finding::new(Verdict::Removed, why))
}

/// The filesystem of a file: of Ignition 2, which requires it.
pub(super) fn filesystem(case: &Case<'_>) -> Finding {
    let two = case.of_same("MachineConfig config.ignition.version").is_some_and(|version| version.starts_with("2."));
    match (two, case.value) {
        (true, "") => Finding::new(
            Verdict::Refused,
            "Ignition 2 requires filesystem in each file: the machine-config operator refuses the whole MachineConfig",
        )
        .want("filesystem: root"),
        (true, "root") => Finding::ok("required in Ignition 2, and dropped when it is converted"),
        (true, _) => Finding::new(Improvable, "a name that storage.filesystems must have").want("root"),
        (false, _) => Finding::new(
            Verdict::Removed,
            "Ignition 3 has no filesystem in a file: under strict validation the whole MachineConfig is refused",
        ),
    }
}

/// Whether the set has a PerformanceProfile, and so the operator's own output.
pub(super) fn operator(case: &Case<'_>) -> bool {
    case.others.iter().any(|other| other.key.starts_with("PerformanceProfile "))
}

pub(super) fn by_the_operator(case: &Case<'_>) -> Option<Finding> {
    operator(case).then(|| Finding::new(Unnecessary, "the operator writes it by itself, from the PerformanceProfile"))
}

/// Arguments that the operator writes by itself, and where only for a hint.
const WRITTEN: &[(&str, Option<&str>)] = &[
    ("nohz", None),
    ("rcu_nocbs", None),
    ("isolcpus", None),
    ("nohz_full", None),
    ("skew_tick", None),
    ("iommu", None),
    ("intel_iommu", None),
    ("systemd.cpu_affinity", None),
    ("tuned.non_isolcpus", None),
    ("hugepages", None),
    ("hugepagesz", None),
    ("default_hugepagesz", None),
    ("nosoftlockup", Some("realTime")),
    ("nmi_watchdog", Some("realTime")),
    ("mce", Some("realTime")),
    ("tsc", Some("realTime")),
    ("rcutree.kthread_prio", Some("realTime")),
    ("processor.max_cstate", Some("highPowerConsumption")),
    ("intel_idle.max_cstate", Some("highPowerConsumption")),
    ("idle", Some("highPowerConsumption")),
];

/// What there is to say of a line that repeats what the operator writes.
pub(crate) fn repeated(settings: &[Setting], setting: &Setting) -> Option<String> {
    let off = |key: &str| settings.iter().any(|other| other.key == key && other.value == "false");
    let on = |key: &str| settings.iter().any(|other| other.key == key && other.value == "true");
    if !settings.iter().any(|other| other.key.starts_with("PerformanceProfile ")) {
        return None;
    }
    if setting.key == "kernel.timer_migration" {
        let why = "the operator writes kernel.timer_migration=1 itself, from 4.20 on for real-time kernels only, which \
                   are those that need it";
        return Some(why.to_owned());
    }
    let name = setting.key.strip_prefix("cmdline ")?;
    let (_, hint) = WRITTEN.iter().find(|(written, _)| *written == name)?;
    let hint = match hint {
        // On unless it is turned off.
        Some("realTime") if off("PerformanceProfile workloadHints.realTime") => return None,
        Some("realTime") => ", unless workloadHints.realTime is false",
        Some(_) if on("PerformanceProfile workloadHints.highPowerConsumption") => "",
        Some(_) => ", where workloadHints.highPowerConsumption is true",
        None => "",
    };
    Some(format!("the operator writes {name} by itself{hint}"))
}

/// Whether cores are this machine's, as far as that can be told.
fn of_this_machine(case: &Case<'_>, cores: &[u32]) -> bool {
    let online = case.evidence.cores();
    !online.is_empty() && cores.iter().all(|core| online.contains(core))
}

/// Memory domains of the machine that a profile is for: of the one that was
/// named, or of this one, if its cores are; else nobody knows.
fn domains(case: &Case<'_>) -> Option<u64> {
    let all: Vec<u32> = ["isolated", "reserved"]
        .iter()
        .filter_map(|side| cpu_list(case.advised(&format!("PerformanceProfile cpu.{side}"))?))
        .flatten()
        .collect();
    let nodes = case.evidence.names("sys/devices/system/node");
    let here =
        nodes.iter().filter(|name| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok())).count();
    let known = case.evidence.named() || all.len() == case.evidence.cores().len() && of_this_machine(case, &all);
    (known && here > 0).then_some(here as u64)
}

pub(super) fn isolated(case: &Case<'_>) -> Finding {
    let Some(cores) = cpu_list(case.value) else {
        return Finding::new(Dangerous, "is no list of cores as 2-15,18-31");
    };
    if cores.is_empty() {
        return Finding::new(Improvable, "no core is isolated: then no profile is needed");
    }
    if let Some(finding) = not_there(case, &cores) {
        return finding;
    }
    let Some(reserved) = case.of_same("PerformanceProfile cpu.reserved").and_then(cpu_list) else {
        return Finding::new(Conflicts, "cpu.reserved is missing: the operator refuses one without the other");
    };
    if let Some(both) = cores.iter().find(|core| reserved.contains(core)) {
        return Finding::new(Conflicts, format!("core {both} is reserved as well: the operator refuses that"));
    }
    for core in &cores {
        let path = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let siblings = case.evidence.get(&path).and_then(cpu_list).unwrap_or_default();
        if let Some(other) = siblings.iter().find(|other| of_this_machine(case, &cores) && reserved.contains(other)) {
            return Finding::new(
                Improvable,
                format!(
                    "core {core} and its sibling {other} are on two sides: the kernel's work there slows the poller"
                ),
            );
        }
    }
    match case.evidence.cores().iter().find(|core| !cores.contains(core) && !reserved.contains(core)) {
        Some(none) if of_this_machine(case, &cores) && case.of_same("PerformanceProfile cpu.offlined").is_none() => {
            Finding::new(Improvable, format!("core {none} of this machine is in neither set"))
        }
        _ => Finding::ok(format!("{} cores for pods, {} for everything else", cores.len(), reserved.len())),
    }
}

/// What there is to say of cores that the node lacks.
pub(in crate::catalogue) fn not_there(case: &Case<'_>, cores: &[u32]) -> Option<Finding> {
    let core = case.lacks(cores)?;
    let has = case.evidence.present().len();
    let why = format!("the node has {has} cores, and no core {core}: the kubelet does not start with this set");
    Some(Finding::new(Dangerous, why))
}

/// Cores of a set that has no more to be said of than whether they are there.
pub(super) fn set_of_cores(case: &Case<'_>, why: &str) -> Finding {
    cpu_list(case.value).and_then(|cores| not_there(case, &cores)).unwrap_or_else(|| Finding::ok(why))
}

/// Whether the operator's profiles that a profile is on top of are those of a
/// PerformanceProfile of the set.
pub(super) fn include(case: &Case<'_>) -> Finding {
    let known: Vec<&str> = case
        .others
        .iter()
        .filter(|other| {
            other.key == "PerformanceProfile nodeSelector" || other.key == "PerformanceProfile cpu.isolated"
        })
        .map(|other| other.subject.as_str())
        .collect();
    let names = case.value.split([',', ';']).map(str::trim);
    let mut of_operator = names.filter_map(|name| name.strip_prefix(OF_THE_OPERATOR)).peekable();
    if of_operator.peek().is_none() {
        return Finding::ok("on top of that profile");
    }
    match of_operator.find(|name| !known.is_empty() && !known.contains(name)) {
        Some(name) => Finding::new(
            Conflicts,
            format!("there is no PerformanceProfile {name} in the set, but {}: nothing is applied", known.join(", ")),
        )
        .want(format!("{OF_THE_OPERATOR}{}", known.first().copied().unwrap_or_default())),
        None => {
            Finding::ok("on top of what the operator makes of the PerformanceProfile; its name must be that profile's")
        }
    }
}

pub(super) fn reserved(case: &Case<'_>) -> Finding {
    let cores = cpu_list(case.value);
    if let Some(finding) = cores.as_ref().and_then(|cores| not_there(case, cores)) {
        return finding;
    }
    match cores {
        Some(cores) if cores.is_empty() => Finding::new(Dangerous, "no core is left for the kernel and the kubelet"),
        Some(cores) if cores.len() < 2 => {
            Finding::new(Improvable, "one thread for the kernel, the kubelet and CRI-O").want("2 to 4 a domain")
        }
        Some(cores) => Finding::ok(format!("{} cores for everything that is no pod with whole cores", cores.len())),
        None => Finding::new(Dangerous, "is no list of cores as 0-1,16-17"),
    }
}

/// Size, number and domain of `1G:20@0`.
fn parts(value: &str) -> Option<(&str, u64, Option<&str>)> {
    let (size, rest) = value.split_once(':')?;
    let (count, domain) = rest.split_once('@').map_or((rest, None), |(count, domain)| (count, Some(domain)));
    Some((size, count.parse().ok()?, domain))
}

pub(super) fn pages(case: &Case<'_>) -> Finding {
    let Some((size, count, domain)) = parts(case.value) else {
        return Finding::new(Dangerous, "is no number of pages");
    };
    let Some(domains) = domains(case) else {
        return match domain {
            Some(domain) => Finding::ok(format!("{count} pages of {size} on domain {domain}, if the node has it")),
            None if count.is_multiple_of(2) => Finding::ok(format!(
                "{count} pages of {size}; if the node has two domains, {} on each (--root with its recording tells)",
                count / 2
            )),
            None => Finding::ok(format!(
                "{count} pages of {size}; if the node has two domains, they cannot be divided evenly: name them by \
                 node then (--root with its recording tells)"
            )),
        };
    };
    match domain {
        Some(domain) if domain.parse::<u64>().is_ok_and(|domain| domain >= domains) => {
            Finding::new(Conflicts, format!("the node has no domain {domain}: it has {domains}"))
        }
        Some(domain) => Finding::ok(format!("{count} pages of {size} on domain {domain}")),
        None if domains > 1 && !count.is_multiple_of(domains) => Finding::new(
            Improvable,
            format!("{count} pages of {size} cannot be divided evenly among {domains} domains: name them by node"),
        ),
        None if domains > 1 => {
            Finding::ok(format!("{count} pages of {size}: {} on each of {domains} domains", count / domains))
        }
        None => Finding::ok(format!("{count} pages of {size}")),
    }
}

/// What a pod may have of a size of pages: in all, and of one domain; and
/// whether it is known how many domains there are. Where it is not, it is what
/// two would have.
pub(in crate::catalogue) fn pages_for(case: &Case<'_>, size: &str) -> Option<(u64, u64, bool)> {
    let known = domains(case);
    let domains = known.unwrap_or(2);
    let profile = case.others.iter().filter(|other| other.key == "PerformanceProfile hugepages.pages");
    let of_size =
        profile.filter_map(|other| parts(&other.value)).filter(|(other, ..)| quantity_of_page(other) == quantity(size));
    let (mut all, mut even, mut named) = (0_u64, 0_u64, 0_u64);
    let mut any = false;
    for (_, count, domain) in of_size {
        any = true;
        all = all.saturating_add(count);
        match domain {
            Some(_) => named = named.max(count),
            None => even = even.saturating_add(count / domains),
        }
    }
    any.then_some((all, even.saturating_add(named), known.is_some()))
}

/// Bytes, in thousandths, of `1G` as the operator writes it: powers of two.
fn quantity_of_page(size: &str) -> Option<u64> {
    quantity(&format!("{size}i"))
}

pub(super) fn chronyd(case: &Case<'_>) -> Finding {
    if !case.value.contains("stop") && !case.value.contains("disable") && !case.value.contains("mask") {
        return Finding::ok("runs: the clock is right");
    }
    let ptp = case.others.iter().any(|other| other.value == "PtpConfig" || other.key.starts_with("service ptp4l"));
    match ptp || case.evidence.runs("ptp4l") {
        true => Finding::ok("PTP disciplines the clock instead"),
        false => {
            Finding::new(WorseThanDefault, "nothing sets the clock any more: no PTP is in its place, so it drifts")
                .want("leave it, or PTP in its place")
        }
    }
}

pub(super) fn chrt(case: &Case<'_>) -> Finding {
    let Some(priority) = case.value.strip_prefix("fifo:").and_then(|text| text.parse::<u64>().ok()) else {
        return Finding::new(NoEffect, "is no priority");
    };
    let isolated =
        ["PerformanceProfile cpu.isolated", "cmdline isolcpus"].iter().any(|key| case.advised(key).is_some());
    if !isolated && case.evidence.isolated().is_empty() {
        return Finding::new(
            Dangerous,
            format!("a poller at FIFO:{priority} on a core that is not isolated stops everything else there"),
        );
    }
    let rcu = case.argument("rcutree.kthread_prio").and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    if priority >= rcu.max(1) {
        return Finding::new(
            Conflicts,
            format!(
                "RCU's threads are at FIFO:{}: below a poller at {priority} they do not run, and grace periods stall",
                rcu
            ),
        );
    }
    match case.other("kernel.sched_rt_runtime_us") {
        Some("-1") => {
            Finding::ok(format!("below RCU's FIFO:{rcu}; nothing throttles it, so nothing else runs there at all"))
        }
        _ => Finding::new(
            Improvable,
            format!(
                "below RCU's FIFO:{rcu}, on isolated cores; but it is throttled: 50 ms of each second \
                 (sched_rt_runtime_us 950000; from 6.12 on by a deadline server, and only where something else waits)"
            ),
        ),
    }
}
