//! Options of a profile of tuned, by section and name.

use super::{Known, See, known};
use See::{Nothing, Off, Row, Unseen};

const REAL_TIME: &str = "workloadHints.realTime";
const PROCESS: &str = "an audit's pod sees no process of its node";
const NO_RULE: &str = "no rule of the audit reads it";

/// By section and name, with a blank between them.
pub(crate) const TUNED: &[Known] = &[
    known("[main] summary", "a title", "", Nothing),
    known(
        "[main] include",
        "profiles whose settings are in force where this one says nothing else: tuned's own cpu-partitioning, \
         and one for \
         the processor's maker; with a real-time kernel one that takes settings back",
        "",
        Unseen("which of them tuned chose, it finds out on the node"),
    ),
    known("[variables] isolated_cores", "a name for the cores that pods may have alone", "cpu.isolated", Nothing),
    known(
        "[variables] not_isolated_cores_expanded",
        "a name for the other cores, which tuned computes",
        "cpu.isolated",
        Nothing,
    ),
    known("[variables] *", "a name for a value that lines below use", "", Nothing),
    known(
        "[cpu] enabled",
        "false: frequencies and idle states are left to pods' annotations",
        "workloadHints.perPodPowerManagement",
        Nothing,
    ),
    known(
        "[cpu] force_latency",
        "tuned keeps /dev/cpu_dma_latency open: no core sleeps deeper than the state of this number (C1), or of this \
         latency",
        "workloadHints.perPodPowerManagement",
        Unseen("it is held by a process, and an audit's pod sees none of its node"),
    ),
    known(
        "[cpu] governor",
        "the governor of frequencies",
        "workloadHints.perPodPowerManagement",
        Row("frequency governor"),
    ),
    known(
        "[cpu] energy_perf_bias",
        "the processor's own bias between energy and speed",
        "workloadHints.perPodPowerManagement",
        See::Is("energy bias", "0"),
    ),
    known(
        "[cpu] min_perf_pct",
        "the lowest frequency, in percent of the highest (intel_pstate)",
        "workloadHints.perPodPowerManagement",
        Unseen(NO_RULE),
    ),
    known(
        "[service] service.fwupd-refresh.timer",
        "no search for firmware, which can cause interrupts by the firmware (SMI) on isolated cores",
        "",
        Off("timers", "fwupd-refresh.timer"),
    ),
    known(
        "[service] service.stalld",
        "stalld gives threads that a poller starves some microseconds",
        REAL_TIME,
        Unseen(PROCESS),
    ),
    known("[service] service.*", "a service of systemd is started or stopped", "", Unseen(PROCESS)),
    known(
        "[vm] transparent_hugepages",
        "programs get huge pages only if they reserve them",
        "",
        Row("transparent_hugepage/enabled"),
    ),
    known(
        "[irqbalance] enabled",
        "false: tuned does not write irqbalance's list of banned cores, which CRI-O keeps for pods",
        "globallyDisableIrqLoadBalancing",
        Nothing,
    ),
    known(
        "[scheduler] runtime",
        "0: priorities are given once, and not to processes that start later",
        "",
        Unseen(PROCESS),
    ),
    known(
        "[scheduler] group.ksoftirqd",
        "ksoftirqd runs at FIFO:11, above pollers at FIFO:10 and below",
        "",
        Unseen(PROCESS),
    ),
    known("[scheduler] group.rcuc", "RCU's threads of each core run at FIFO:11", "", Unseen(PROCESS)),
    known("[scheduler] group.ktimers", "threads of timers run at FIFO:11", "", Unseen(PROCESS)),
    known("[scheduler] group.*", "threads of this name get a policy and a priority", "", Unseen(PROCESS)),
    known(
        "[scheduler] default_irq_smp_affinity",
        "ignore: tuned leaves it alone where interrupts begin",
        "globallyDisableIrqLoadBalancing",
        Nothing,
    ),
    known(
        "[scheduler] irq_process",
        "false: tuned moves no interrupts; CRI-O does, for pods that ask for it",
        "globallyDisableIrqLoadBalancing",
        Nothing,
    ),
    known(
        "[scheduler] sched_migration_cost_ns",
        "a thread that ran less than this ago is not moved to another core; since Linux 5.13 in debugfs",
        "",
        Row("kernel.sched_migration_cost_ns"),
    ),
    known(
        "[sysctl] kernel.hung_task_timeout_secs",
        "a thread may wait so long until the log has it",
        REAL_TIME,
        Row("kernel.hung_task_timeout_secs"),
    ),
    known(
        "[sysctl] kernel.nmi_watchdog",
        "no interrupt of the watchdog of hardware",
        REAL_TIME,
        Row("kernel.nmi_watchdog"),
    ),
    known(
        "[sysctl] kernel.sched_rt_runtime_us",
        "-1: threads at FIFO may take a core whole, and nothing else runs there",
        REAL_TIME,
        Row("kernel.sched_rt_runtime_us"),
    ),
    known(
        "[sysctl] vm.stat_interval",
        "counters of memory are added up each so many seconds, on each core",
        REAL_TIME,
        Row("vm.stat_interval"),
    ),
    known(
        "[sysctl] net.ipv4.tcp_fastopen",
        "data within a SYN, as client and server",
        "",
        Row("net.ipv4.tcp_fastopen"),
    ),
    known(
        "[sysctl] vm.dirty_ratio",
        "writers wait for the disk beyond this share of memory",
        "",
        Row("vm.dirty_ratio"),
    ),
    known(
        "[sysctl] vm.dirty_background_ratio",
        "the kernel begins to write at this share of memory",
        "",
        Row("vm.dirty_background_ratio"),
    ),
    known("[sysctl] vm.swappiness", "how gladly memory of programs is swapped out", "", Row("vm.swappiness")),
    known(
        "[sysctl] kernel.timer_migration",
        "1: timers of idle cores move to busy ones, so that pods leave none behind",
        "",
        Row("kernel.timer_migration"),
    ),
    known(
        "[sysctl] kernel.numa_balancing",
        "0: pages are not moved to the domain that uses them",
        "",
        Row("kernel.numa_balancing"),
    ),
    known(
        "[sysctl] net.core.busy_read",
        "a read polls its queue for so many microseconds",
        "",
        Row("net.core.busy_read"),
    ),
    known(
        "[sysctl] net.core.busy_poll",
        "poll and select poll queues for so many microseconds",
        "",
        Row("net.core.busy_poll"),
    ),
    known(
        "[sysctl] net.core.rps_default_mask",
        "queues of new interfaces hand frames to the cores that are not isolated",
        "cpu.isolated",
        Row("net.core.rps_default_mask"),
    ),
    known(
        "[sysctl] drop",
        "settings of included profiles that a real-time kernel does not have are left out",
        "realTimeKernel.enabled",
        Nothing,
    ),
    known(
        "[sysfs] /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq",
        "the highest frequency of that core, in kHz",
        "hardwareTuning",
        Unseen(NO_RULE),
    ),
    known("[selinux] avc_cache_threshold", "so many decisions of SELinux are kept", "", Unseen("it is root's alone")),
    known("[net*] type", "the part of tuned that sets interfaces", "net.userLevelNetworking", Nothing),
    known("[net*] devices_udev_regex", "which interfaces it sets", "net.devices", Nothing),
    known(
        "[net*] channels",
        "as many queue pairs as there are reserved cores",
        "net.userLevelNetworking",
        Unseen("which interfaces it is for is not said by their names"),
    ),
    known("[bootloader] initrd_*", "empty: no files of cpu-partitioning are packed into the early system", "", Nothing),
    known("[bootloader] cmdline_iommu", "empty: a place that the profile of the processor's maker fills", "", Nothing),
    known(
        "[bootloader] cmdline_power_performance",
        "empty: a place that the profile of the processor's maker fills",
        "workloadHints.highPowerConsumption",
        Nothing,
    ),
    known(
        "[bootloader] cmdline_idle_poll",
        "empty: a place that the profile of the processor's maker fills",
        "workloadHints.highPowerConsumption",
        Nothing,
    ),
];

/// Any other sysctl that a rule of the audit knows.
pub(crate) const OTHER_SYSCTL: Known =
    known("*", "tuned writes it; nearside node explain says what is true of it", "", Nothing);
