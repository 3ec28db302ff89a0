//! What is found of each part of a profile.

use crate::advice::{Setting, quantity};
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

/// Memory domains of the machine that a profile is for: this one, if its
/// cores are; else two, which servers of this kind have.
fn domains(case: &Case<'_>) -> u64 {
    let all: Vec<u32> = ["isolated", "reserved"]
        .iter()
        .filter_map(|side| cpu_list(case.advised(&format!("PerformanceProfile cpu.{side}"))?))
        .flatten()
        .collect();
    let nodes = case.evidence.names("sys/devices/system/node");
    let here =
        nodes.iter().filter(|name| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok())).count();
    match all.len() == case.evidence.cores().len() && of_this_machine(case, &all) && here > 0 {
        true => here as u64,
        false => 2,
    }
}

pub(super) fn isolated(case: &Case<'_>) -> Finding {
    let Some(cores) = cpu_list(case.value) else {
        return Finding::new(Dangerous, "is no list of cores as 2-15,18-31");
    };
    if cores.is_empty() {
        return Finding::new(Improvable, "no core is isolated: then no profile is needed");
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

pub(super) fn reserved(case: &Case<'_>) -> Finding {
    match cpu_list(case.value) {
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
    let domains = domains(case);
    match domain {
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

/// What a pod may have of a size of pages: in all, and of one domain.
pub(in crate::catalogue) fn pages_for(case: &Case<'_>, size: &str) -> Option<(u64, u64)> {
    let domains = domains(case);
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
    any.then_some((all, even.saturating_add(named)))
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
