//! The scheduler, timers, watchdogs, and limits that are the kernel's own.

mod findings;

use crate::rule::{Area, Counter, Judge, Roles, Rule, Verdict};

use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, WorseThanDefault};
use findings::{
    bandwidth_slice, bpf_stats, epoll_watches, file_max, inotify_instances, io_uring, kptr, nmi_watchdog,
    numa_balancing, panic_of_a_hang, perf_paranoid, perf_share, printk, rt_runtime, schedstats, shm, suid_dumpable,
    threads_max, timer_migration, unprivileged_bpf, watchdog, watchdog_mask, watchdog_thresh,
};

const KERNEL: &str = "Linux Documentation/admin-guide/sysctl/kernel.rst";
const FS: &str = "Linux Documentation/admin-guide/sysctl/fs.rst";
const RT: &str = "Linux Documentation/scheduler/sched-rt-group.rst";

const fn rule(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Kernel, key, judge, explain).source(KERNEL)
}

const fn fs(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Kernel, key, judge, explain).source(FS)
}

pub(super) const RULES: &[Rule] = &[
    fs(
        "fs.file-max",
        By(file_max),
        "The most open files of the whole machine: a tenth of memory's kB or so by default, without limit on \
            systemd's \
         machines. Published values of 500,000 or 2,097,152 lower it. What stops a server is the limit of its \
         process \
         (LimitNOFILE of its unit), and fs.nr_open above that.",
    )
    .counters(&[Counter::File("proc/sys/fs/file-nr")])
    .risk("lowered: accept fails with ENFILE for every program")
    .source("Linux Documentation/admin-guide/sysctl/fs.rst; fs/file_table.c"),
    fs(
        "fs.nr_open",
        AtLeast(1_048_576, WorseThanDefault, "lower than the default: no process can be allowed more"),
        "The most that a process's limit of open files can be: 1,048,576.",
    )
    .gain("more than a million connections in one process, with LimitNOFILE"),
    fs(
        "fs.aio-max-nr",
        AtLeast(65_536, WorseThanDefault, "lower than the default; each nginx worker with aio takes 32"),
        "Asynchronous requests of all processes.",
    )
    .counters(&[Counter::File("proc/sys/fs/aio-nr")]),
    fs(
        "fs.inotify.max_user_watches",
        NoEffect("a server watches a few folders; editors and Kubernetes' agents watch thousands"),
        "Files that a user may watch.",
    ),
    fs(
        "fs.inotify.max_user_instances",
        By(inotify_instances),
        "Watching programs of a user: 128. A node with many pods runs out (\"too many open files\").",
    ),
    fs(
        "fs.epoll.max_user_watches",
        By(epoll_watches),
        "Descriptors in epoll sets of a user: a 25th of low memory by default, at 160 bytes each.",
    ),
    fs(
        "fs.pipe-max-size",
        NoEffect("splice of a proxy uses pipes of 64 KiB, and few"),
        "The largest pipe that a user may ask for.",
    ),
    fs(
        "fs.suid_dumpable",
        By(suid_dumpable),
        "Whether programs that changed their rights leave a core: keys and passwords are in it.",
    ),
    fs(
        "fs.protected_symlinks",
        Only("1", Dangerous, "links in /tmp then lead servers of root to other users' choice of files"),
        "Whether links in shared folders are followed only by their owner.",
    ),
    rule(
        "kernel.sched_rt_runtime_us",
        By(rt_runtime),
        "Microseconds of each sched_rt_period_us (1 s) that real-time threads may have: 950,000. A polling thread at \
         FIFO loses 50 ms in each second by it, unless nothing else wants the core; -1 removes it, and a thread that \
         spins can then stop the machine. Since Linux 6.12 a deadline server does it instead, and only when others \
         wait.",
    )
    .roles(Roles::POLLING)
    .gain("no pause of 50 ms, on isolated cores with FIFO")
    .risk("-1: a spinning thread starves the kernel's own threads on its core")
    .source(RT),
    rule(
        "kernel.sched_rt_period_us",
        Only("1000000", WorseThanDefault, "the share is what matters; another period makes pauses of another length"),
        "The period of sched_rt_runtime_us.",
    )
    .source(RT),
    rule(
        "kernel.timer_migration",
        By(timer_migration),
        "Whether timers of idle cores are run by busy ones: 1. tuned's cpu-partitioning sets 0, OpenShift's \
            operator 1: \
         with nohz_full cores timers leave isolated cores only with 1.",
    )
    .roles(Roles::POLLING)
    .gain("no timers of others on a polling core")
    .source("kernel/time/timer.c, get_nohz_timer_target"),
    rule(
        "kernel.numa_balancing",
        By(numa_balancing),
        "Whether the kernel unmaps pages now and then to see who uses them, and moves them: faults on the packet \
            path. \
         Threads that are pinned and memory that is placed need none of it.",
    )
    .counters(&[Counter::Vm("numa_hint_faults"), Counter::Vm("numa_pages_migrated")])
    .gain("no faults of microseconds to milliseconds under placed threads")
    .risk("programs that are not placed may work across domains"),
    rule(
        "kernel.nmi_watchdog",
        By(nmi_watchdog),
        "A hardware counter per core that finds hard lock-ups: an interrupt in ten seconds or so, and one counter \
            less for \
         perf.",
    )
    .roles(Roles::POLLING)
    .gain("one interruption less in some seconds, one counter more for perf")
    .risk("a core that hangs with interrupts off is not found out"),
    rule(
        "kernel.watchdog",
        By(watchdog),
        "Both watchdogs: hard and soft lock-ups. The soft one wakes a thread of the highest priority on each core.",
    )
    .roles(Roles::POLLING)
    .risk("a core that hangs is not found out"),
    rule(
        "kernel.watchdog_cpumask",
        By(watchdog_mask),
        "Cores that are watched; those of nohz_full are left out by default.",
    )
    .roles(Roles::POLLING)
    .gain("the watchdog's thread does not run on polling cores"),
    rule(
        "kernel.watchdog_thresh",
        By(watchdog_thresh),
        "Seconds after which a core counts as hung: 10; the timer runs at a fifth of twice that.",
    ),
    rule(
        "kernel.softlockup_panic",
        By(panic_of_a_hang),
        "Whether a soft lock-up ends the machine. A polling FIFO thread looks like one.",
    )
    .roles(Roles::POLLING),
    rule(
        "kernel.hung_task_timeout_secs",
        NoEffect("a thread looks through all tasks in two minutes, on a housekeeping core"),
        "Seconds after which a waiting task is told of.",
    ),
    rule(
        "kernel.hung_task_panic",
        By(panic_of_a_hang),
        "Whether a task that waits for a disk for two minutes ends the machine.",
    ),
    rule(
        "kernel.sched_autogroup_enabled",
        NoEffect("it groups tasks by session, which services of systemd, that have cgroups, are not subject to"),
        "Whether each terminal session gets the same share.",
    ),
    rule(
        "kernel.sched_cfs_bandwidth_slice_us",
        By(bandwidth_slice),
        "Microseconds of a cgroup's quota that a core takes at once: 5,000. Smaller ones waste less of a quota.",
    )
    .roles(Roles::KERNEL)
    .source("Linux Documentation/scheduler/sched-bwc.rst"),
    rule(
        "kernel.sched_min_granularity_ns",
        NoEffect("it moved to debugfs in Linux 5.13, and EEVDF (6.6) has base_slice_ns instead"),
        "Once: the least time slice.",
    )
    .until(5, 13)
    .source("kernel/sched/debug.c (Linux 5.13 moved it there)"),
    rule(
        "kernel.sched_wakeup_granularity_ns",
        NoEffect("it moved to debugfs in Linux 5.13, and EEVDF (6.6) has none"),
        "Once: how much sooner a woken task must be due to interrupt another.",
    )
    .until(5, 13)
    .source("kernel/sched/debug.c (Linux 5.13 moved it there)"),
    rule(
        "kernel.sched_migration_cost_ns",
        NoEffect("it moved to debugfs in Linux 5.13; pinned threads do not migrate"),
        "Once: for how long a task counts as warm in its cache.",
    )
    .until(5, 13)
    .source("kernel/sched/debug.c (Linux 5.13 moved it there)"),
    rule(
        "kernel.sched_latency_ns",
        NoEffect("it moved to debugfs in Linux 5.13, and EEVDF (6.6) has none"),
        "Once: the period in which each task runs once.",
    )
    .until(5, 13)
    .source("kernel/sched/debug.c (Linux 5.13 moved it there)"),
    rule(
        "kernel.sched_schedstats",
        By(schedstats),
        "Whether the scheduler counts waiting times: a few per cent of a task switch.",
    ),
    rule("kernel.task_delayacct", By(schedstats), "Whether waiting times of tasks for disks and memory are counted.")
        .since(5, 14),
    rule(
        "kernel.bpf_stats_enabled",
        By(bpf_stats),
        "Whether the run time of each eBPF program is taken: two clock readings for each packet that an XDP \
            program sees.",
    )
    .gain("tens of nanoseconds for each packet"),
    rule(
        "kernel.ftrace_enabled",
        NoEffect("the kernel's functions are patched only while something traces"),
        "Whether functions can be traced at all; live patches need it.",
    ),
    rule(
        "kernel.perf_event_paranoid",
        By(perf_paranoid),
        "Who may use performance counters: 2 lets users count their own programs, -1 everything.",
    )
    .risk("below 1 a local user sees timing of all programs"),
    rule(
        "kernel.perf_cpu_time_max_percent",
        By(perf_share),
        "Share of a core that sampling may take before its rate goes down: 25 %; 0 turns the check off.",
    ),
    rule(
        "kernel.kptr_restrict",
        By(kptr),
        "Whether addresses of the kernel are hidden: 1 from users without rights. Profiles that name kernel \
            functions need 0 \
         or root; put it back afterwards.",
    )
    .risk("0 with perf_event_paranoid below 2 tells attackers where things are"),
    rule(
        "kernel.randomize_va_space",
        Only(
            "2",
            Dangerous,
            "addresses that can be guessed make every overflow exploitable; nothing is faster \
            for it",
        ),
        "Random places for stack, heap and libraries: 2.",
    ),
    rule(
        "kernel.unprivileged_bpf_disabled",
        By(unprivileged_bpf),
        "Whether users without rights may load eBPF programs: 2 (no, can be changed), 1 (no, for good) or 0.",
    ),
    rule(
        "kernel.io_uring_disabled",
        By(io_uring),
        "Who may use io_uring: 0 all, 1 a group, 2 nobody. nearside serve --engine io_uring needs it.",
    )
    .since(6, 6)
    .roles(Roles::KERNEL),
    rule(
        "kernel.split_lock_mitigate",
        NoEffect("it slows programs down that lock across cache lines, which no server does"),
        "Whether such programs are punished.",
    )
    .since(5, 19),
    rule(
        "kernel.pid_max",
        AtLeast(32_768, WorseThanDefault, "fewer processes and threads than by default"),
        "Highest number of a process: 32,768, or 4,194,304 on systemd's 64-bit machines. Threads count.",
    ),
    rule(
        "kernel.threads-max",
        By(threads_max),
        "The most threads of the machine, computed from memory. pid_max and the cgroup's pids.max are met first.",
    ),
    rule(
        "kernel.sysrq",
        NoEffect("keys for emergencies; a matter of who stands at the console"),
        "Which magic keys act.",
    ),
    rule(
        "kernel.core_uses_pid",
        NoEffect("names of cores are core_pattern's matter"),
        "Whether a core's name ends in the number of the process.",
    ),
    rule(
        "kernel.msgmnb",
        NoEffect("System V message queues: no web server has any"),
        "Bytes in a System V message queue.",
    ),
    rule("kernel.msgmax", NoEffect("System V message queues: no web server has any"), "Bytes of a System V message."),
    rule("kernel.msgmni", NoEffect("System V message queues: no web server has any"), "System V message queues."),
    rule("kernel.sem", NoEffect("System V semaphores: for databases"), "System V semaphores."),
    rule(
        "kernel.shmmax",
        By(shm),
        "Largest System V segment: practically without limit since Linux 3.16. Published values of 68 GB lower it.",
    )
    .source("include/uapi/linux/shm.h; Linux Documentation/admin-guide/sysctl/kernel.rst"),
    rule("kernel.shmall", By(shm), "Pages of all System V segments: practically without limit since Linux 3.16.")
        .source("include/uapi/linux/shm.h; Linux Documentation/admin-guide/sysctl/kernel.rst"),
    rule("kernel.shmmni", NoEffect("System V segments: for databases"), "Number of System V segments."),
    rule(
        "kernel.panic",
        NoEffect("what happens after a panic; a machine that nobody watches should start again"),
        "Seconds until the machine starts again after a panic.",
    ),
    rule(
        "kernel.printk",
        By(printk),
        "What the kernel prints on the console. A serial console takes 87 us for each character at 115,200 baud, \
            with \
         interrupts off in older kernels.",
    )
    .gain("no stalls of milliseconds when something is logged"),
];
