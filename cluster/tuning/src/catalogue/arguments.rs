//! Arguments of the kernel's command line.

use super::{Known, See, known};
use See::{Nothing, Row};

const REAL_TIME: &str = "workloadHints.realTime";
const ISOLATED: &str = "cpu.isolated";
const POWER: &str = "workloadHints.highPowerConsumption";

/// By their names.
pub(crate) const ARGUMENTS: &[Known] = &[
    known("nohz", "the kernel may leave out ticks of idle cores", "", Row("cmdline nohz")),
    known("nohz_full", "isolated cores have no tick while one thread runs there", ISOLATED, Row("cmdline nohz_full")),
    known("rcu_nocbs", "callbacks of RCU of isolated cores run on other cores", ISOLATED, Row("cmdline rcu_nocbs")),
    known(
        "tuned.non_isolcpus",
        "a mask of the other cores, that tuned reads again at boot; the kernel does nothing with it",
        ISOLATED,
        Row("cmdline tuned.non_isolcpus"),
    ),
    known(
        "systemd.cpu_affinity",
        "systemd, and what it starts, stays on the other cores",
        ISOLATED,
        Row("cmdline systemd.cpu_affinity"),
    ),
    known(
        "isolcpus",
        "managed_irq keeps interrupts of managed queues off isolated cores; domain, which comes of \
         cpu.balanceIsolated: \
         false, also the scheduler's balancing",
        ISOLATED,
        Row("cmdline isolcpus"),
    ),
    known("irqaffinity", "interrupts begin on these cores", "cpu.ovsDpdk", Row("cmdline irqaffinity")),
    known("skew_tick", "ticks of cores come one after another, for less contention", "", Row("cmdline skew_tick")),
    known("nosoftlockup", "the watchdog of threads that never yield is off", REAL_TIME, Row("cmdline nosoftlockup")),
    known("nowatchdog", "both watchdogs of the kernel are off", "additionalKernelArgs", Row("cmdline nowatchdog")),
    known(
        "rcutree.kthread_prio",
        "RCU's threads rank above pollers at FIFO:10 and below, which could stall it",
        REAL_TIME,
        Row("cmdline rcutree.kthread_prio"),
    ),
    known(
        "tsc",
        "the processor's counter is the clock, and is not checked against another",
        REAL_TIME,
        Row("cmdline tsc"),
    ),
    known("nmi_watchdog", "no interrupt of the watchdog of hardware", REAL_TIME, Row("cmdline nmi_watchdog")),
    known("mce", "off: ALL machine checks are off, and memory goes bad in silence", REAL_TIME, Row("cmdline mce")),
    known("intel_iommu", "devices have an IOMMU, as vfio needs it", "", Row("cmdline intel_iommu")),
    known("iommu", "pt: devices of the kernel's own drivers pass it by", "", Row("cmdline iommu")),
    known("iommu.passthrough", "devices of the kernel's own drivers pass the IOMMU by", "", See::Unseen(NO_RULE)),
    known(
        "intel_pstate",
        "who sets frequencies: passive leaves them to the kernel's governors \
         (workloadHints.perPodPowerManagement), active \
         to the processor within bounds (hardwareTuning)",
        "workloadHints.perPodPowerManagement",
        Row("cmdline intel_pstate"),
    ),
    known(
        "amd_pstate",
        "who sets frequencies: guided lets the processor choose within bounds of the kernel, passive leaves \
         them to its \
         governors (workloadHints.perPodPowerManagement), active to the processor (hardwareTuning)",
        "workloadHints.perPodPowerManagement",
        Row("cmdline amd_pstate"),
    ),
    known("processor.max_cstate", "no idle state deeper than this", POWER, Row("cmdline processor.max_cstate")),
    known(
        "intel_idle.max_cstate",
        "0: the driver intel_idle is off, and acpi_idle in its place",
        POWER,
        Row("cmdline intel_idle.max_cstate"),
    ),
    known("idle", "poll: no core ever sleeps: heat, and no turbo", POWER, Row("cmdline idle")),
    known(
        "default_hugepagesz",
        "the size of huge pages that programs get which name none",
        "hugepages.defaultHugepagesSize",
        Row("cmdline default_hugepagesz"),
    ),
    known("hugepagesz", "the size of the huge pages that the next word counts", "hugepages.pages[].size", Nothing),
    // Counted on the node, by size.
    known("hugepages", "huge pages set aside at boot, of all domains together", "hugepages.pages[].count", Nothing),
];

const NO_RULE: &str = "no rule of the audit reads it";

/// Any other that a rule of the audit knows: somebody asked for it.
pub(crate) const OTHER_ARGUMENT: Known =
    known("*", "somebody asked for it; nearside node explain says what is true of it", "additionalKernelArgs", Nothing);
