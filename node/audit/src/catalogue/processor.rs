//! Cores: frequencies, idle states, siblings, isolation, clocks.

mod findings;

use crate::Evidence;
use crate::rule::{Area, Counter, Judge, Reading, Roles, Rule};

use super::memory::one;
use Judge::{By, NoEffect};
use findings::{
    boost, clock_source, deepest, domains, energy_bias, energy_preference, frequency_driver, governor, haltpoll,
    housekeeping, housekeeping_cores, idle_driver, idle_governor, idle_state, isolated, mitigation, no_turbo,
    nohz_full, offline, per_core, policies, pressure, rcu_expedited, rcu_normal, resume_latency, siblings, smt,
    split_siblings, steal, stolen, uncore, virtual_machine, vulnerabilities, workqueues,
};

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
