//! Arguments of the kernel's command line that articles pass on.

mod findings;

use crate::Finding;
use crate::rule::{Judge, Roles, Rule, Verdict};

use Judge::By;
use Verdict::{Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};
use findings::{
    given, hugepages, idle, intel_idle, intel_pstate, iommu, irqaffinity, isolcpus, kthread_prio, max_cstate, mce,
    mitigations, nohz_full, off_is_dangerous, rcu_nocbs, tsc,
};

const PARAMETERS: &str = "Linux Documentation/admin-guide/kernel-parameters.txt";

const fn rule(key: &'static str, name: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::argument(key, name, judge, explain).source(PARAMETERS)
}

pub(super) const RULES: &[Rule] = &[
    rule(
        "cmdline isolcpus",
        "isolcpus",
        By(isolcpus),
        "Cores that the scheduler does not balance; with managed_irq also without managed interrupts. \
         cpuset.cpus.partition=isolated does the first at run time.",
    )
    .gain("no other program on polling cores")
    .risk("threads that are not pinned all stay on one of them"),
    rule(
        "cmdline nohz_full",
        "nohz_full",
        By(nohz_full),
        "No tick on these cores while one thread runs there; implies rcu_nocbs for them; the boot core is left out. \
         Needs CONFIG_NO_HZ_FULL, and makes system calls there slower.",
    )
    .gain("250 to 1,000 interruptions a second less on a polling core")
    .risk("each system call some hundred nanoseconds longer"),
    rule(
        "cmdline nohz",
        "nohz",
        By(|case| match case.value {
            "off" => Finding::new(
                WorseThanDefault,
                "ticks on idle cores too: heat, and no deep sleep; it does \
                not stop ticks on busy ones",
            ),
            "" => Finding::ok("not given; ticks stop on idle cores by default"),
            _ => Finding::new(Unnecessary, "on is the default"),
        }),
        "Whether idle cores have no tick.",
    ),
    rule(
        "cmdline rcu_nocbs",
        "rcu_nocbs",
        By(rcu_nocbs),
        "Cores whose RCU callbacks run in threads elsewhere. nohz_full implies it.",
    )
    .gain("no callbacks in softirqs of a polling core"),
    rule(
        "cmdline rcu_nocb_poll",
        "rcu_nocb_poll",
        By(|case| {
            given(
                case,
                Unnecessary,
                "seldom needed: spares one wake-up of a thread, and costs a core that \
            looks all the time",
            )
        }),
        "The threads for callbacks look by themselves rather than being woken.",
    ),
    rule("cmdline irqaffinity", "irqaffinity", By(irqaffinity), "Cores of interrupts by default.")
        .gain("interrupts of all devices on housekeeping cores from the start"),
    rule(
        "cmdline idle",
        "idle",
        By(idle),
        "poll keeps every core at full power and never asleep: no turbo for others, and heat. \
            /dev/cpu_dma_latency does the \
         same for as long as a program wants.",
    )
    .risk("less turbo, heat; a sibling thread that waits takes half of its core"),
    rule(
        "cmdline processor.max_cstate",
        "processor.max_cstate",
        By(max_cstate),
        "Deepest idle state of acpi_idle; redundant with idle=poll.",
    ),
    rule(
        "cmdline intel_idle.max_cstate",
        "intel_idle.max_cstate",
        By(intel_idle),
        "0 turns the driver intel_idle off, and acpi_idle takes over with the firmware's states. It does not touch \
         intel_pstate, which is about frequencies.",
    )
    .risk("acpi_idle may use C6 all the same"),
    rule(
        "cmdline intel_pstate",
        "intel_pstate",
        By(intel_pstate),
        "The frequency driver: disable leaves it to acpi-cpufreq, which knows a few steps only.",
    ),
    rule(
        "cmdline amd_pstate",
        "amd_pstate",
        By(|case| match case.value {
            "" | "active" | "guided" | "passive" => Finding::ok(
                "the processor's own ranges are used, where there \
                is one of that kind",
            ),
            "disable" => Finding::new(
                Improvable,
                "leaves frequencies to acpi-cpufreq, which knows \
                three",
            )
            .want("active"),
            _ => Finding::new(Nothing, "is no mode of it"),
        }),
        "The frequency driver of AMD's processors.",
    ),
    rule(
        "cmdline mitigations",
        "mitigations",
        By(mitigations),
        "off takes all guards against faults of the processor away. A polling silo makes few system calls, so gains \
         little; a kernel-socket server gains some per cent.",
    )
    .gain("0 to 10 % with kernel sockets, nothing measurable with a bypass")
    .risk("every program and guest can read others' memory"),
    rule(
        "cmdline mce",
        "mce",
        By(mce),
        "off turns all machine checks off: damaged memory is neither corrected in time nor told of, and the \
            machine goes \
         on with wrong data. ignore_ce leaves out only the looking for corrected errors, which is what interrupts.",
    )
    .risk("data is damaged in silence"),
    rule(
        "cmdline nmi_watchdog",
        "nmi_watchdog",
        By(|case| match case.value {
            "0" => Finding::ok("off: an interrupt now and then less"),
            "" => Finding::ok("not given: kernel.nmi_watchdog says"),
            _ => Finding::ok("on"),
        }),
        "Hardware watchdog of cores; kernel.nmi_watchdog at run time.",
    ),
    rule(
        "cmdline nosoftlockup",
        "nosoftlockup",
        By(|case| given(case, Unnecessary, "the soft watchdog leaves nohz_full cores alone by itself")),
        "No watchdog for cores that do not schedule.",
    ),
    rule(
        "cmdline nowatchdog",
        "nowatchdog",
        By(|case| {
            given(
                case,
                Improvable,
                "no core that hangs is found out; kernel.watchdog_cpumask leaves single \
            cores out",
            )
        }),
        "No watchdogs at all.",
    ),
    rule(
        "cmdline audit",
        "audit",
        By(|case| match case.value {
            "0" | "off" => Finding::new(
                Dangerous,
                "no record of who did what; rules that are absent cost some 50 \
                ns a system call",
            ),
            _ => Finding::ok("audit is there for whoever asks"),
        }),
        "0 turns audit off for good.",
    )
    .gain("some nanoseconds a system call")
    .risk("no audit trail"),
    rule(
        "cmdline selinux",
        "selinux",
        By(|case| match case.value {
            "0" => Finding::new(
                Dangerous,
                "no confinement of services; permissive domains for one are the \
                narrower way",
            ),
            _ => Finding::ok("confinement stays"),
        }),
        "0 turns SELinux off for good.",
    )
    .risk("no confinement"),
    rule(
        "cmdline skew_tick",
        "skew_tick",
        By(|case| match case.value {
            "1" => Finding::ok("ticks of cores come one after another: less contention"),
            _ => Finding::ok("not given; of use on machines with many cores"),
        }),
        "Whether ticks of cores are spread.",
    )
    .gain("less contention at each tick with many cores")
    .risk("some power"),
    rule(
        "cmdline tsc",
        "tsc",
        By(tsc),
        "reliable: the kernel does not check the TSC against another clock; nowatchdog likewise.",
    ),
    rule(
        "cmdline clocksource",
        "clocksource",
        By(|case| match case.value {
            "" | "tsc" => Finding::ok("the best clock is chosen"),
            other => Finding::new(
                WorseThanDefault,
                format!(
                    "{other}: a system call for each \
                reading"
                ),
            )
            .want("nothing, or tsc"),
        }),
        "The clock source by name.",
    ),
    rule(
        "cmdline rcutree.kthread_prio",
        "rcutree.kthread_prio",
        By(kthread_prio),
        "Real-time priority of RCU's threads. They must rank above a FIFO thread that spins, or grace periods \
            stall: 11 is \
         right with workers at FIFO:2. It does not make RCU run after critical work.",
    )
    .gain("no stalled grace periods beside FIFO threads"),
    rule(
        "cmdline rcupdate.rcu_normal_after_boot",
        "rcupdate.rcu_normal_after_boot",
        By(|case| match case.value {
            "0" => Finding::ok(
                "expedited grace periods stay possible after boot; 1 means normal ones only, which \
                interrupt nobody",
            ),
            "1" => Finding::ok("only normal grace periods after boot: no interruption of cores by them"),
            "" => Finding::ok("not given; a real-time kernel without NO_HZ_FULL has 1 by itself"),
            _ => Finding::new(Nothing, "is neither 0 nor 1"),
        }),
        "1: after boot only normal grace periods, which interrupt no core. Published explanations have it the \
            wrong way \
         round. A real-time kernel forces it only without NO_HZ_FULL.",
    ),
    rule(
        "cmdline workqueue.unbound_cpus",
        "workqueue.unbound_cpus",
        By(|case| given(case, Verdict::Ok, "unbound work items run on these cores")),
        "Cores for the kernel's unbound work items, from the start.",
    )
    .since(6, 5),
    rule(
        "cmdline systemd.cpu_affinity",
        "systemd.cpu_affinity",
        By(|case| given(case, Verdict::Ok, "services start on these cores, unless their unit says otherwise")),
        "Cores of all services by default.",
    )
    .gain("no service on polling cores")
    .risk("nearside and others need CPUAffinity= of their own unit")
    .source("man 1 systemd, kernel command line"),
    rule(
        "cmdline iommu",
        "iommu",
        By(iommu),
        "pt: devices that the kernel drives are not translated; a device given to DPDK by vfio still is.",
    )
    .gain("some per cent for drivers of the kernel at high packet rates")
    .risk("a device may write anywhere in memory"),
    rule(
        "cmdline intel_iommu",
        "intel_iommu",
        By(|case| match case.value {
            "off" if case.role.polls() => Finding::new(
                Improvable,
                "vfio needs it: DPDK would run with unsafe \
                no-IOMMU mode",
            )
            .want("on"),
            _ => Finding::ok("as vfio needs it, or as the firmware has it"),
        }),
        "Translation of devices' addresses on Intel's machines.",
    ),
    rule(
        "cmdline transparent_hugepage",
        "transparent_hugepage",
        By(|case| match case.value {
            "" => Finding::ok("not given: transparent_hugepage/enabled says"),
            "madvise" => Finding::ok("where programs ask"),
            "never" => Finding::new(
                Improvable,
                "tables of connections, which ask for huge pages, do not get \
                them",
            )
            .want("madvise"),
            _ => Finding::new(
                Improvable,
                "the kernel joins pages of all programs: stalls under \
                load",
            )
            .want("madvise"),
        }),
        "What transparent_hugepage/enabled is at boot.",
    ),
    rule(
        "cmdline default_hugepagesz",
        "default_hugepagesz",
        By(|case| match case.value {
            "" => Finding::ok("not given: 2 MB"),
            "1G" => Finding::ok("vm.nr_hugepages counts pages of 1 GB then; on Linux 4.18 pages of 2 MB are gone"),
            _ => Finding::ok("as asked"),
        }),
        "Which size vm.nr_hugepages and plain requests mean.",
    ),
    rule(
        "cmdline hugepages",
        "hugepages",
        By(hugepages),
        "Huge pages set aside at boot, of the size before it, spread over domains: 20 on two domains are ten each.",
    )
    .gain("pages of 1 GB, which later cannot be found")
    .risk("memory that nothing else can use"),
    rule(
        "cmdline numa_balancing",
        "numa_balancing",
        By(|case| match case.value {
            "disable" | "" => Finding::ok("off, or as kernel.numa_balancing says"),
            _ => Finding::ok("as kernel.numa_balancing=1"),
        }),
        "What kernel.numa_balancing is at boot.",
    ),
    rule(
        "cmdline nosmt",
        "nosmt",
        By(|case| given(case, Verdict::Ok, "each core has one thread")),
        "Whether second threads of cores are off.",
    ),
    rule(
        "cmdline nosmap",
        "nosmap",
        By(|case| given(case, Dangerous, "faults of the kernel become exploitable; nothing measurable is gained")),
        "No guard against the kernel reading user memory by mistake.",
    ),
    rule("cmdline pti", "pti", By(off_is_dangerous), "Page table isolation (Meltdown)."),
    rule(
        "cmdline nopti",
        "nopti",
        By(|case| given(case, Dangerous, "programs can read the kernel's memory on processors with that fault")),
        "No page table isolation.",
    ),
    rule("cmdline spectre_v2", "spectre_v2", By(off_is_dangerous), "Guards against branch target injection."),
    rule(
        "cmdline nospectre_v2",
        "nospectre_v2",
        By(|case| given(case, Dangerous, "programs can read each other's memory on processors with that fault")),
        "No guards against branch target injection.",
    ),
    rule(
        "cmdline pcie_aspm",
        "pcie_aspm",
        By(|case| match case.value {
            "off" => Finding::ok(
                "the kernel leaves links as the firmware set them, which may be asleep; \
                performance is the policy's word",
            ),
            "force" => Finding::new(WorseThanDefault, "links sleep also where the firmware forbids it"),
            _ => Finding::ok("as the firmware has it"),
        }),
        "off: the kernel does not touch the links' power saving, which is not the same as no power saving.",
    ),
    rule(
        "cmdline kthread_cpus",
        "kthread_cpus",
        By(|case| given(case, Nothing, "not in the mainline kernel: a patch of some distributions")),
        "Cores of kernel threads, with a patch.",
    ),
    rule(
        "cmdline tuned.non_isolcpus",
        "tuned.non_isolcpus",
        By(|case| given(case, Nothing, "the kernel does not know it: tuned notes there what it set")),
        "A note of tuned's.",
    )
    .source("tuned, cpu-partitioning profile"),
    rule(
        "cmdline rcupdate.rcu_expedited",
        "rcupdate.rcu_expedited",
        By(|case| match case.value {
            "1" => Finding::new(WorseThanDefault, "each grace period interrupts every core").want("nothing"),
            _ => Finding::ok("grace periods interrupt cores only where code asks"),
        }),
        "Whether all grace periods are expedited.",
    )
    .roles(Roles::POLLING),
];
