//! How cores are read, and what is found of them.

use crate::evidence::{cpu_list, cpu_mask};
use crate::rule::{Reading, Verdict};
use crate::{Case, Evidence, Finding};

use super::CPU;
use crate::catalogue::memory::one;
use Verdict::{Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

/// The same file of every frequency policy, those with one value as one.
pub(super) fn policies(evidence: &Evidence, name: &str) -> Vec<Reading> {
    let folder = format!("{CPU}/cpufreq");
    let read =
        |policy: &&str| Some(((*policy).to_owned(), evidence.get(&format!("{folder}/{policy}/{name}"))?.to_owned()));
    grouped(evidence.names(&folder).iter().filter(|policy| policy.starts_with("policy")).filter_map(read))
}

/// The same file of every core, those with one value as one.
pub(super) fn per_core(evidence: &Evidence, name: &str) -> Vec<Reading> {
    let read = |core: u32| Some((format!("cpu{core}"), evidence.get(&format!("{CPU}/cpu{core}/{name}"))?.to_owned()));
    grouped(evidence.cores().into_iter().filter_map(read))
}

/// A reading for each value there is, with who has it: 256 cores that are all
/// alike are one row.
fn grouped(found: impl Iterator<Item = (String, String)>) -> Vec<Reading> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (subject, value) in found {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, subjects)) => subjects.push(subject),
            None => groups.push((value, vec![subject])),
        }
    }
    let reading = |(value, subjects): (String, Vec<String>)| {
        let subject = match subjects.as_slice() {
            [only] => only.clone(),
            [first, .., last] => format!("{first} to {last} ({} of them)", subjects.len()),
            [] => String::new(),
        };
        Reading { subject, value: Ok(value) }
    };
    groups.into_iter().map(reading).collect()
}

pub(super) fn governor(case: &Case<'_>) -> Finding {
    let drivers = policies(case.evidence, "scaling_driver");
    let chooses = drivers.iter().any(|driver| {
        driver.value.as_deref().is_ok_and(|name| name.ends_with("_pstate") || name.ends_with("pstate-epp"))
    });
    match case.value {
        "performance" => Finding::ok("stays at the top"),
        "powersave" if chooses => {
            Finding::new(Improvable, "goes by load: the first requests after a pause are slower").want("performance")
        }
        "powersave" => Finding::new(WorseThanDefault, "stays at the lowest frequency").want("performance"),
        "ondemand" | "conservative" => {
            Finding::new(WorseThanDefault, "looks at the load every 10 ms or so, and is late").want("performance")
        }
        _ => Finding::new(
            Improvable,
            "goes by load: the first requests after a pause are \
            slower",
        )
        .want("performance"),
    }
}

pub(super) fn frequency_driver(case: &Case<'_>) -> Finding {
    match case.value {
        "acpi-cpufreq" | "pcc-cpufreq" => Finding::new(
            Improvable,
            "knows few steps; see whether intel_pstate or amd_pstate is disabled on the command line",
        ),
        other => Finding::ok(format!("{other} knows the processor's ranges")),
    }
}

pub(super) fn energy_preference(case: &Case<'_>) -> Finding {
    match case.value {
        "performance" | "0" => Finding::ok("performance"),
        "balance_performance" | "default" => {
            Finding::new(Improvable, "the processor saves power when load is low").want("performance")
        }
        _ => Finding::new(WorseThanDefault, "the processor saves power before it serves").want("performance"),
    }
}

pub(super) fn energy_bias(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0..=4) => Finding::ok("performance"),
        Some(5..=6) => Finding::new(Improvable, "the balanced hint").want("0"),
        _ => Finding::new(WorseThanDefault, "the hint is to save power").want("0"),
    }
}

pub(super) fn no_turbo(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("turbo is used"),
        _ => Finding::new(Improvable, "turbo is off: steady figures at the price of speed").want("0"),
    }
}

pub(super) fn boost(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("boost is used"),
        _ => Finding::new(Improvable, "boost is off: steady figures at the price of speed").want("1"),
    }
}

pub(super) fn uncore(case: &Case<'_>) -> Finding {
    let folder = format!("{CPU}/intel_uncore_frequency/{}", case.subject);
    let most = case.evidence.get(&format!("{folder}/max_freq_khz")).and_then(|text| text.parse::<u64>().ok());
    match (case.number(), most) {
        (Some(least), Some(most)) if least < most => Finding::new(
            Improvable,
            format!("may fall to {} MHz of {} MHz when cores are quiet", least / 1_000, most / 1_000),
        )
        .want(most.to_string()),
        (Some(_), Some(_)) => Finding::ok("stays at its highest"),
        _ => Finding::new(Verdict::Unreadable, "the range cannot be told"),
    }
}

/// Of each group of cores that are alike: the deepest state that is not
/// disabled, and what it takes to leave it.
pub(super) fn deepest(evidence: &Evidence) -> Vec<Reading> {
    let of = |core: u32| {
        let folder = format!("{CPU}/cpu{core}/cpuidle");
        let states = evidence.names(&folder);
        let state = |name: &&str| {
            let read = |file: &str| evidence.get(&format!("{folder}/{name}/{file}"));
            let off = read("disable").is_some_and(|text| text != "0");
            let latency: u64 = read("latency")?.parse().ok()?;
            (!off).then(|| (latency, read("name").unwrap_or(name).to_owned()))
        };
        let (latency, name) = states.iter().filter_map(state).max()?;
        Some((format!("cpu{core}"), format!("{latency} us ({name})")))
    };
    grouped(evidence.cores().into_iter().filter_map(of))
}

pub(super) fn idle_state(case: &Case<'_>) -> Finding {
    let latency = case.value.split_whitespace().next().and_then(|text| text.parse::<u64>().ok());
    match latency {
        None => Finding::new(Verdict::Unreadable, "no latency in it"),
        Some(latency) if latency <= 10 => Finding::ok("wakes up at once"),
        Some(_) if case.role.polls() => Finding::ok("polling cores never sleep; others may"),
        Some(latency) => Finding::new(
            Improvable,
            format!(
                "the first request after a pause waits {latency} us \
            longer"
            ),
        )
        .want("a bound by /dev/cpu_dma_latency while the server runs"),
    }
}

pub(super) fn resume_latency(case: &Case<'_>) -> Finding {
    match case.value {
        "n/a" => Finding::ok("may not sleep at all: for polling cores that is nothing, for others heat"),
        other => Finding::ok(format!("wakes up within {other} us")),
    }
}

pub(super) fn idle_governor(case: &Case<'_>) -> Finding {
    match case.value {
        "haltpoll" if !case.evidence.virtual_machine() => Finding::new(
            WorseThanDefault,
            "is for \
            guests",
        )
        .want("menu"),
        "ladder" => Finding::new(WorseThanDefault, "is for machines with ticks, and slow to choose").want("menu"),
        other => Finding::ok(format!("{other} chooses")),
    }
}

pub(super) fn idle_driver(case: &Case<'_>) -> Finding {
    match case.value {
        "none" => Finding::ok("no idle states to choose from"),
        "acpi_idle" if !case.evidence.virtual_machine() => Finding::new(
            Improvable,
            "the firmware's states; intel_idle knows the processor's, unless intel_idle.max_cstate=0 turned it off",
        ),
        "" => Finding::ok("does not say"),
        other => Finding::ok(other.to_owned()),
    }
}

pub(super) fn smt(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("each core is a core"),
        _ if case.role.polls() => Finding::ok(
            "on: give a silo a core's both threads, or leave the other idle; nearside serve --plan says what it does",
        ),
        _ => Finding::ok("on: more requests in all, and each a little slower"),
    }
}

pub(super) fn siblings(evidence: &Evidence) -> Vec<Reading> {
    let isolated = evidence.isolated();
    let lone = |core: &&u32| {
        let path = format!("{CPU}/cpu{core}/topology/thread_siblings_list");
        let all = evidence.get(&path).and_then(cpu_list).unwrap_or_default();
        all.iter().any(|sibling| !isolated.contains(sibling))
    };
    if isolated.is_empty() {
        return one("all", (!evidence.cores().is_empty()).then(|| "none isolated".to_owned()));
    }
    let split: Vec<String> = isolated.iter().filter(lone).map(u32::to_string).collect();
    one("isolated", Some(if split.is_empty() { "together".to_owned() } else { split.join(",") }))
}

pub(super) fn split_siblings(case: &Case<'_>) -> Finding {
    match case.value {
        "none isolated" => Finding::ok("no core is isolated"),
        "together" => Finding::ok("siblings are isolated together"),
        cores => Finding::new(
            Improvable,
            format!("cores {cores} share a core with what the scheduler puts on their siblings"),
        ),
    }
}

pub(super) fn isolated(case: &Case<'_>) -> Finding {
    let count = case.evidence.cores().len();
    match case.value {
        "" if count <= 2 => Finding::ok("none, on a machine with too few cores for it"),
        "" => Finding::new(Improvable, "other programs may run on polling cores")
            .want("cpuset.cpus.partition=isolated, or isolcpus=managed_irq,domain,…"),
        list => Finding::ok(format!("{list} are left alone")),
    }
}

pub(super) fn nohz_full(case: &Case<'_>) -> Finding {
    match case.value {
        "" | "(null)" if case.role.polls() && case.evidence.cores().len() > 2 => {
            Finding::new(Improvable, "ticks interrupt polling cores 100 to 1,000 times a second")
                .want("the isolated cores")
        }
        "" | "(null)" => Finding::ok("none"),
        list if !case.role.polls() => {
            Finding::new(WorseThanDefault, format!("system calls on {list} cost more, and this role makes many"))
                .want("none")
        }
        list => Finding::ok(format!("{list} have no tick while one thread runs there")),
    }
}

/// Cores on line that are not isolated.
pub(super) fn housekeeping(evidence: &Evidence) -> Vec<u32> {
    let isolated = evidence.isolated();
    evidence.cores().into_iter().filter(|core| !isolated.contains(core)).collect()
}

pub(super) fn housekeeping_cores(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(Verdict::Dangerous, "every core is isolated: nothing is left for the kernel")
            .want("at least one for each domain"),
        Some(1) if case.evidence.cores().len() >= 8 => {
            Finding::new(Improvable, "one core for the interrupts and threads of many").want("2")
        }
        _ => Finding::ok("some are left for the kernel and others"),
    }
}

pub(super) fn offline(case: &Case<'_>) -> Finding {
    match case.value {
        "" => Finding::ok("all cores that are possible are on line"),
        list => Finding::ok(format!("{list} are off line, or could be added")),
    }
}

pub(super) fn workqueues(case: &Case<'_>) -> Finding {
    let isolated = case.evidence.isolated();
    let Some(mask) = cpu_mask(case.value) else {
        return Finding::new(Verdict::Unreadable, "is no mask of cores");
    };
    let both = isolated.iter().filter(|core| mask.contains(core)).count();
    match both {
        0 => Finding::ok(if isolated.is_empty() { "no core is isolated" } else { "isolated cores are left out" }),
        _ => Finding::new(Improvable, format!("work items may run on {both} isolated cores"))
            .want("the housekeeping cores"),
    }
}

pub(super) fn rcu_expedited(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("only where code asks for it"),
        _ => Finding::new(WorseThanDefault, "each grace period interrupts every core").want("0"),
    }
}

pub(super) fn rcu_normal(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("no grace period interrupts cores"),
        _ => Finding::ok(
            "code that asks for speed may interrupt cores; 1 (rcupdate.rcu_normal_after_boot=1) ends \
                that",
        ),
    }
}

pub(super) fn clock_source(case: &Case<'_>) -> Finding {
    match case.value {
        "tsc" | "arch_sys_counter" => Finding::ok("read without a system call"),
        "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" => Finding::ok("read through a page of the host's"),
        other => {
            Finding::new(WorseThanDefault, format!("{other}: a system call and about a microsecond for each reading"))
                .want("tsc")
        }
    }
}

/// Those against which something is done or nothing is, each group once.
pub(super) fn vulnerabilities(evidence: &Evidence) -> Vec<Reading> {
    let folder = format!("{CPU}/vulnerabilities");
    let read = |name: &&str| {
        let text = evidence.get(&format!("{folder}/{name}"))?;
        let state = ["Not affected", "Mitigation", "Vulnerable"].into_iter().find(|state| text.starts_with(state));
        Some((state.unwrap_or("Unknown").to_owned(), (*name).to_owned()))
    };
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (state, name) in evidence.names(&folder).iter().filter_map(read) {
        match groups.iter_mut().find(|(known, _)| *known == state) {
            Some((_, names)) => names.push(name),
            None => groups.push((state, vec![name])),
        }
    }
    let reading = |(state, names): (String, Vec<String>)| Reading { subject: names.join(" "), value: Ok(state) };
    groups.into_iter().map(reading).collect()
}

pub(super) fn mitigation(case: &Case<'_>) -> Finding {
    let off = case.argument("mitigations") == Some("off");
    match case.value {
        "Not affected" => Finding::ok("the processor has none of these"),
        "Mitigation" => Finding::ok("something is done"),
        "Vulnerable" if off => {
            Finding::new(Verdict::Dangerous, "mitigations=off: programs and guests can read each other's memory")
        }
        "Vulnerable" => Finding::new(Improvable, "nothing is done: look for microcode, or for the host's part"),
        _ => Finding::ok("the kernel cannot tell"),
    }
}

pub(super) fn virtual_machine(case: &Case<'_>) -> Finding {
    match case.value {
        "true" => Finding::ok("a virtual machine: compare within one run, and claim no absolute latency"),
        _ => Finding::ok("no virtual machine"),
    }
}

/// Share of the time of all cores since boot that the host took.
pub(super) fn steal(evidence: &Evidence) -> Option<f64> {
    let line = evidence.get("proc/stat")?.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // The guests' time at the end is in user's already.
    let total: u64 = fields.iter().take(8).sum();
    (total > 0).then(|| *fields.get(7).unwrap_or(&0) as f64 / total as f64)
}

pub(super) fn stolen(case: &Case<'_>) -> Finding {
    match case.value.parse::<f64>() {
        Ok(share) if share >= 1.0 => Finding::new(
            Improvable,
            format!("{share} % of the time: the host's cores are shared, and figures with them"),
        ),
        Ok(share) => Finding::ok(format!("{share} % of the time since boot")),
        Err(_) => Finding::new(Verdict::Unreadable, "is no share"),
    }
}

pub(super) fn domains(case: &Case<'_>) -> Finding {
    let cores = case.evidence.cores();
    let package = |core: &u32| case.evidence.get(&format!("{CPU}/cpu{core}/topology/physical_package_id"));
    let mut packages: Vec<&str> = cores.iter().filter_map(package).collect();
    packages.sort_unstable();
    packages.dedup();
    match case.number() {
        Some(1) => Finding::ok("one: everything is near"),
        Some(count) if packages.len() as u64 == count => Finding::ok("one for each socket"),
        Some(count) => Finding::ok(format!(
            "{count} domains on {} sockets (sub-NUMA clusters, or memory without cores)",
            packages.len()
        )),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

pub(super) fn pressure(case: &Case<'_>) -> Finding {
    crate::catalogue::memory::waited(case, "a core", 25.0)
}

pub(super) fn haltpoll(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) if case.role.polls() => Finding::new(Nothing, "silos poll by themselves"),
        Some(0) => Finding::new(
            Improvable,
            "each wake-up of an idle core goes through the host: tens of \
            microseconds",
        )
        .want("200000"),
        Some(_) if !case.evidence.virtual_machine() => Finding::new(Unnecessary, "this is no guest"),
        Some(value) => Finding::ok(format!("polls for up to {} us before it sleeps", value / 1_000)),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}
