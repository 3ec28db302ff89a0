//! Cores: frequencies, idle states, siblings, isolation, clocks.

use crate::evidence::{cpu_list, cpu_mask};
use crate::rule::{Area, Counter, Judge, Reading, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use super::memory::one;
use Judge::{By, NoEffect};
use Verdict::{Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

const CPU: &str = "sys/devices/system/cpu";
const CPUFREQ: &str = "Linux Documentation/admin-guide/pm/cpufreq.rst";
const CPUIDLE: &str = "Linux Documentation/admin-guide/pm/cpuidle.rst";
const ISOLATION: &str = "Linux Documentation/timers/no_hz.rst; Documentation/admin-guide/cgroup-v2.rst, section \
    Cpuset";

const fn each(key: &'static str, probe: fn(&Evidence) -> Vec<Reading>, judge: Judge, explain: &'static str) -> Rule {
    Rule::each(Area::Processor, key, probe, judge, explain)
}

pub(super) const RULES: &[Rule] = &[
    each(
        "frequency governor",
        |evidence| policies(evidence, "scaling_governor"),
        By(governor),
        "Who chooses a core's frequency. performance stays at the top; powersave of intel_pstate and amd_pstate \
            chooses by \
         load and is not slow; schedutil goes by the scheduler's load.",
    )
    .gain("no ramp of 10 us to 10 ms after idle times")
    .risk("power; less turbo for others")
    .source(CPUFREQ),
    each(
        "frequency driver",
        |evidence| policies(evidence, "scaling_driver"),
        By(frequency_driver),
        "intel_pstate and amd_pstate know the processor's own ranges; acpi-cpufreq knows a few steps.",
    )
    .source("Linux Documentation/admin-guide/pm/intel_pstate.rst"),
    each(
        "energy preference",
        |evidence| policies(evidence, "energy_performance_preference"),
        By(energy_preference),
        "What the processor prefers when it chooses a frequency itself (HWP).",
    )
    .gain("higher frequencies sooner")
    .source("Linux Documentation/admin-guide/pm/intel_pstate.rst"),
    each(
        "energy bias",
        |evidence| per_core(evidence, "power/energy_perf_bias"),
        By(energy_bias),
        "A hint of 0 (performance) to 15 (power saving) for older processors and their uncore.",
    )
    .source("Linux Documentation/admin-guide/pm/intel_epb.rst"),
    Rule::file(
        Area::Processor,
        "turbo off",
        "sys/devices/system/cpu/intel_pstate/no_turbo",
        By(no_turbo),
        "Whether frequencies above the nominal one are left out: steadier figures, slower requests.",
    )
    .gain("a third more frequency, where heat allows")
    .risk("figures that depend on heat and neighbours: benchmarks may want it off")
    .source("Linux Documentation/admin-guide/pm/intel_pstate.rst"),
    Rule::file(
        Area::Processor,
        "frequency boost",
        "sys/devices/system/cpu/cpufreq/boost",
        By(boost),
        "The same for other drivers: 1 is on.",
    )
    .source(CPUFREQ),
    each(
        "uncore frequency",
        |evidence| {
            let folder = format!("{CPU}/intel_uncore_frequency");
            let least = |package: &str| evidence.get(&format!("{folder}/{package}/min_freq_khz"));
            let of = |package: &str| one(package, least(package).map(str::to_owned));
            evidence.names(&folder).into_iter().flat_map(of).collect()
        },
        By(uncore),
        "The frequency of caches and memory controllers: a low one adds to each miss. min_freq_khz equal to \
            max_freq_khz \
         keeps it up.",
    )
    .gain("tens of nanoseconds for each miss to memory")
    .risk("some watts for each socket, and less for cores")
    .source("Linux Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst"),
    each(
        "deepest idle state",
        deepest,
        By(idle_state),
        "Idle states that take long to leave: C6 takes 100 to 200 us. A polling core never sleeps; one that \
            serves by \
         interrupts pays at each quiet moment. /dev/cpu_dma_latency or pm_qos_resume_latency_us bound it for as \
         long as \
         a program asks.",
    )
    .roles(Roles::ALL)
    .gain("50 to 200 us less for the first request after a pause")
    .risk("heat, and less turbo for the other cores")
    .source(CPUIDLE),
    each(
        "resume latency bound",
        |evidence| {
            let all = per_core(evidence, "power/pm_qos_resume_latency_us");
            all.into_iter().filter(|reading| reading.value.as_deref() != Ok("0")).take(16).collect()
        },
        By(resume_latency),
        "Microseconds that a core may take to wake up, as asked through sysfs: 0 is no bound, n/a none at all of \
            sleep.",
    )
    .source("Linux Documentation/ABI/testing/sysfs-devices-power"),
    Rule::file(
        Area::Processor,
        "idle governor",
        "sys/devices/system/cpu/cpuidle/current_governor",
        By(idle_governor),
        "Who chooses idle states: menu, teo, or haltpoll in guests.",
    )
    .source(CPUIDLE),
    Rule::file(
        Area::Processor,
        "idle driver",
        "sys/devices/system/cpu/cpuidle/current_driver",
        By(idle_driver),
        "Where idle states are known from: intel_idle from the processor, acpi_idle from the firmware.",
    )
    .source(CPUIDLE),
    Rule::file(
        Area::Processor,
        "SMT",
        "sys/devices/system/cpu/smt/active",
        By(smt),
        "Whether cores are threads of shared cores: two polling threads on one get some 60 % each of what one has \
            alone.",
    )
    .gain("a core to itself for each silo, and no sibling's stalls")
    .risk("fewer cores for everything else")
    .source("Linux Documentation/ABI/testing/sysfs-devices-system-cpu"),
    each(
        "siblings of isolated cores",
        siblings,
        By(split_siblings),
        "A core whose sibling is not isolated shares caches and units with whatever runs there.",
    )
    .roles(Roles::POLLING)
    .gain("no neighbour inside the core")
    .source("Linux Documentation/admin-guide/cgroup-v2.rst, section Cpuset"),
    Rule::file(
        Area::Processor,
        "isolated cores",
        "sys/devices/system/cpu/isolated",
        By(isolated),
        "Cores that the scheduler leaves alone (isolcpus=domain, or cpuset.cpus.partition=isolated).",
    )
    .roles(Roles::POLLING)
    .gain("no other program on a polling core")
    .risk("what is started there and not pinned stays on one core")
    .source(ISOLATION),
    Rule::file(
        Area::Processor,
        "cores without ticks",
        "sys/devices/system/cpu/nohz_full",
        By(nohz_full),
        "Cores that have no tick while one thread runs on them; the boot core cannot be one. Each system call \
            costs more \
         there, so it is for polling threads only.",
    )
    .gain("250 to 1,000 interruptions a second less")
    .risk("some hundred nanoseconds more for each system call on these cores")
    .source("Linux Documentation/timers/no_hz.rst"),
    each(
        "housekeeping cores",
        |evidence| one("all", Some(housekeeping(evidence).len().to_string()).filter(|_| !evidence.cores().is_empty())),
        By(housekeeping_cores),
        "Cores that are left for the kernel's threads, interrupts and other programs.",
    )
    .source(ISOLATION),
    Rule::file(
        Area::Processor,
        "cores off line",
        "sys/devices/system/cpu/offline",
        By(offline),
        "Cores that are there and not used; possible but absent ones count too.",
    )
    .source("Linux Documentation/core-api/cpu_hotplug.rst"),
    Rule::file(
        Area::Processor,
        "workqueue cores",
        "sys/devices/virtual/workqueue/cpumask",
        By(workqueues),
        "Cores on which the kernel's unbound work items run.",
    )
    .roles(Roles::POLLING)
    .gain("no work items on polling cores")
    .source("Linux Documentation/core-api/workqueue.rst"),
    Rule::file(
        Area::Processor,
        "expedited RCU",
        "sys/kernel/rcu_expedited",
        By(rcu_expedited),
        "Whether all grace periods interrupt every core to be sooner: 0 after boot.",
    )
    .roles(Roles::POLLING)
    .source("Linux Documentation/RCU/Design; kernel/rcu/update.c"),
    Rule::file(
        Area::Processor,
        "normal RCU",
        "sys/kernel/rcu_normal",
        By(rcu_normal),
        "Whether no grace period interrupts cores, also where code asks for speed: 1 after \
            rcupdate.rcu_normal_after_boot=1.",
    )
    .roles(Roles::POLLING)
    .source("Linux Documentation/admin-guide/kernel-parameters.txt, rcupdate.rcu_normal"),
    Rule::file(
        Area::Processor,
        "clock source",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        By(clock_source),
        "Where the time comes from. tsc is read in 20 ns without a system call; hpet and acpi_pm take a \
            microsecond and a \
         system call for each reading; kvm-clock and hyperv reach tsc through a page.",
    )
    .counters(&[Counter::File("sys/devices/system/clocksource/clocksource0/available_clocksource")])
    .gain("1 us for each reading of the clock")
    .risk("tsc where the kernel found it unstable gives times that jump")
    .source("Linux Documentation/timers/timekeeping.rst"),
    each(
        "mitigations",
        vulnerabilities,
        By(mitigation),
        "What is done against faults of the processor. It costs system calls and switches; a polling silo makes few.",
    )
    .risk("off: programs read each other's memory")
    .source("Linux Documentation/admin-guide/hw-vuln/index.rst"),
    each(
        "virtual machine",
        |evidence| {
            let known = evidence.get("proc/cpuinfo").is_some();
            one("this machine", known.then(|| evidence.virtual_machine().to_string()))
        },
        By(virtual_machine),
        "In a virtual machine the host decides when cores run: no claim of absolute latency holds.",
    )
    .source("Intel SDM, CPUID leaf 1, ECX bit 31"),
    each(
        "time taken by the host",
        |evidence| one("all cores", steal(evidence).map(|share| format!("{:.3}", share * 100.0))),
        By(stolen),
        "Share of time since boot, in per cent, in which a core of this machine was ready and the host ran \
            something else.",
    )
    .counters(&[Counter::File("proc/loadavg")])
    .source("man 5 proc, /proc/stat, steal"),
    each(
        "cache allocation",
        |evidence| {
            let found = evidence.names("sys/fs/resctrl/info");
            one("resctrl", Some(found.join(" ")).filter(|text| !text.is_empty()))
        },
        NoEffect(
            "resctrl is mounted: caches can be divided between silos and the rest, which pays where \
            neighbours are noisy",
        ),
        "Whether parts of the last-level cache are set aside (Intel CAT, AMD QoS).",
    )
    .source("Linux Documentation/filesystems/resctrl.rst"),
    each(
        "NUMA domains",
        |evidence| {
            let nodes = evidence.names("sys/devices/system/node");
            let count = nodes.iter().filter(|name| name.starts_with("node")).count();
            one("this machine", (count > 0).then(|| count.to_string()))
        },
        By(domains),
        "Domains of memory. Several within one socket mean sub-NUMA clustering: more, smaller domains with \
            shorter ways.",
    )
    .source("Linux Documentation/admin-guide/mm/numaperf.rst"),
    each(
        "processor pressure",
        |evidence| one("all", evidence.get("proc/pressure/cpu").map(str::to_owned)),
        By(pressure),
        "Share of time in which something waited for a core (PSI).",
    )
    .source("Linux Documentation/accounting/psi.rst"),
    each(
        "polling guests",
        |evidence| {
            let nanos = evidence.get("sys/module/haltpoll/parameters/guest_halt_poll_ns");
            one("haltpoll", nanos.map(str::to_owned))
        },
        By(haltpoll),
        "Nanoseconds that an idle core of a guest polls before it asks the host to sleep.",
    )
    .source("Linux Documentation/virt/guest-halt-polling.rst"),
];

/// The same file of every frequency policy, those with one value as one.
fn policies(evidence: &Evidence, name: &str) -> Vec<Reading> {
    let folder = format!("{CPU}/cpufreq");
    let read =
        |policy: &&str| Some(((*policy).to_owned(), evidence.get(&format!("{folder}/{policy}/{name}"))?.to_owned()));
    grouped(evidence.names(&folder).iter().filter(|policy| policy.starts_with("policy")).filter_map(read))
}

/// The same file of every core, those with one value as one.
fn per_core(evidence: &Evidence, name: &str) -> Vec<Reading> {
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

fn governor(case: &Case<'_>) -> Finding {
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

fn frequency_driver(case: &Case<'_>) -> Finding {
    match case.value {
        "acpi-cpufreq" | "pcc-cpufreq" => Finding::new(
            Improvable,
            "knows few steps; see whether intel_pstate or amd_pstate is disabled on the command line",
        ),
        other => Finding::ok(format!("{other} knows the processor's ranges")),
    }
}

fn energy_preference(case: &Case<'_>) -> Finding {
    match case.value {
        "performance" | "0" => Finding::ok("performance"),
        "balance_performance" | "default" => {
            Finding::new(Improvable, "the processor saves power when load is low").want("performance")
        }
        _ => Finding::new(WorseThanDefault, "the processor saves power before it serves").want("performance"),
    }
}

fn energy_bias(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0..=4) => Finding::ok("performance"),
        Some(5..=6) => Finding::new(Improvable, "the balanced hint").want("0"),
        _ => Finding::new(WorseThanDefault, "the hint is to save power").want("0"),
    }
}

fn no_turbo(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("turbo is used"),
        _ => Finding::new(Improvable, "turbo is off: steady figures at the price of speed").want("0"),
    }
}

fn boost(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("boost is used"),
        _ => Finding::new(Improvable, "boost is off: steady figures at the price of speed").want("1"),
    }
}

fn uncore(case: &Case<'_>) -> Finding {
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
fn deepest(evidence: &Evidence) -> Vec<Reading> {
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

fn idle_state(case: &Case<'_>) -> Finding {
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

fn resume_latency(case: &Case<'_>) -> Finding {
    match case.value {
        "n/a" => Finding::ok("may not sleep at all: for polling cores that is nothing, for others heat"),
        other => Finding::ok(format!("wakes up within {other} us")),
    }
}

fn idle_governor(case: &Case<'_>) -> Finding {
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

fn idle_driver(case: &Case<'_>) -> Finding {
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

fn smt(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("each core is a core"),
        _ if case.role.polls() => Finding::ok(
            "on: give a silo a core's both threads, or leave the other idle; nearside serve --plan says what it does",
        ),
        _ => Finding::ok("on: more requests in all, and each a little slower"),
    }
}

fn siblings(evidence: &Evidence) -> Vec<Reading> {
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

fn split_siblings(case: &Case<'_>) -> Finding {
    match case.value {
        "none isolated" => Finding::ok("no core is isolated"),
        "together" => Finding::ok("siblings are isolated together"),
        cores => Finding::new(
            Improvable,
            format!("cores {cores} share a core with what the scheduler puts on their siblings"),
        ),
    }
}

fn isolated(case: &Case<'_>) -> Finding {
    let count = case.evidence.cores().len();
    match case.value {
        "" if count <= 2 => Finding::ok("none, on a machine with too few cores for it"),
        "" => Finding::new(Improvable, "other programs may run on polling cores")
            .want("cpuset.cpus.partition=isolated, or isolcpus=managed_irq,domain,…"),
        list => Finding::ok(format!("{list} are left alone")),
    }
}

fn nohz_full(case: &Case<'_>) -> Finding {
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
fn housekeeping(evidence: &Evidence) -> Vec<u32> {
    let isolated = evidence.isolated();
    evidence.cores().into_iter().filter(|core| !isolated.contains(core)).collect()
}

fn housekeeping_cores(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(Verdict::Dangerous, "every core is isolated: nothing is left for the kernel")
            .want("at least one for each domain"),
        Some(1) if case.evidence.cores().len() >= 8 => {
            Finding::new(Improvable, "one core for the interrupts and threads of many").want("2")
        }
        _ => Finding::ok("some are left for the kernel and others"),
    }
}

fn offline(case: &Case<'_>) -> Finding {
    match case.value {
        "" => Finding::ok("all cores that are possible are on line"),
        list => Finding::ok(format!("{list} are off line, or could be added")),
    }
}

fn workqueues(case: &Case<'_>) -> Finding {
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

fn rcu_expedited(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("only where code asks for it"),
        _ => Finding::new(WorseThanDefault, "each grace period interrupts every core").want("0"),
    }
}

fn rcu_normal(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("no grace period interrupts cores"),
        _ => Finding::ok(
            "code that asks for speed may interrupt cores; 1 (rcupdate.rcu_normal_after_boot=1) ends \
                that",
        ),
    }
}

fn clock_source(case: &Case<'_>) -> Finding {
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
fn vulnerabilities(evidence: &Evidence) -> Vec<Reading> {
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

fn mitigation(case: &Case<'_>) -> Finding {
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

fn virtual_machine(case: &Case<'_>) -> Finding {
    match case.value {
        "true" => Finding::ok("a virtual machine: compare within one run, and claim no absolute latency"),
        _ => Finding::ok("no virtual machine"),
    }
}

/// Share of the time of all cores since boot that the host took.
fn steal(evidence: &Evidence) -> Option<f64> {
    let line = evidence.get("proc/stat")?.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // The guests' time at the end is in user's already.
    let total: u64 = fields.iter().take(8).sum();
    (total > 0).then(|| *fields.get(7).unwrap_or(&0) as f64 / total as f64)
}

fn stolen(case: &Case<'_>) -> Finding {
    match case.value.parse::<f64>() {
        Ok(share) if share >= 1.0 => Finding::new(
            Improvable,
            format!("{share} % of the time: the host's cores are shared, and figures with them"),
        ),
        Ok(share) => Finding::ok(format!("{share} % of the time since boot")),
        Err(_) => Finding::new(Verdict::Unreadable, "is no share"),
    }
}

fn domains(case: &Case<'_>) -> Finding {
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

fn pressure(case: &Case<'_>) -> Finding {
    super::memory::waited(case, "a core", 25.0)
}

fn haltpoll(case: &Case<'_>) -> Finding {
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
