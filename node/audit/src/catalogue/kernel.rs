//! The scheduler, timers, watchdogs, and limits that are the kernel's own.

use crate::rule::{Area, Counter, Judge, Role, Roles, Rule, Verdict};
use crate::{Case, Finding};

use super::tcp_limits::bytes;
use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

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

fn file_max(case: &Case<'_>) -> Finding {
    let Some(number) = case.number() else { return Finding::new(WorseThanDefault, "is no number") };
    // One for each 10 kB of memory (fs/file_table.c, files_maxfiles_init).
    let default = case.evidence.memory().map_or(0, |memory| memory / 10_240);
    let in_force = case.evidence.sysctl_number("fs.file-max").unwrap_or(default);
    let at_least = if case.advised { in_force.max(default) } else { default };
    // The kernel's own is some per cent below, by what it keeps for itself.
    if number < at_least - at_least / 8 {
        return Finding::new(WorseThanDefault, format!("LOWERS the limit: it is {at_least} by itself"))
            .want(at_least.to_string());
    }
    if case.advised {
        return Finding::new(
            Unnecessary,
            "the machine's limit is no server's limit: LimitNOFILE of the unit is, up to fs.nr_open",
        );
    }
    Finding::ok("as the kernel made it, or higher")
}

fn inotify_instances(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(number) if number < 128 => Finding::new(WorseThanDefault, "lower than the default").want("128"),
        Some(128) if case.role == Role::Mixed => {
            Finding::new(Improvable, "a node with many pods runs out").want("8192")
        }
        Some(_) => Finding::ok("enough"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn epoll_watches(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(number) if number < 1 << 18 => {
            Finding::new(WorseThanDefault, "fewer than a quarter of a million connections")
                .want("the kernel's own: a 25th of memory")
        }
        Some(number) => Finding::ok(format!("up to {} for one user", bytes(number.saturating_mul(160)))),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn suid_dumpable(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::new(
            Dangerous,
            "any user can read the memory of programs that changed their \
            rights",
        )
        .want("0"),
        "0" | "2" => Finding::ok("no cores, or such that root alone reads"),
        _ => Finding::new(WorseThanDefault, "0, 1 and 2 are all there is").want("0"),
    }
}

fn rt_runtime(case: &Case<'_>) -> Finding {
    let isolated = !case.evidence.isolated().is_empty();
    match case.value.parse::<i64>() {
        Ok(-1) => Finding::new(
            Dangerous,
            "a real-time thread that spins stops everything else on its core, the kernel's threads included; only \
                by name, and \
             for isolated cores",
        )
        .want("950000"),
        Ok(0) => Finding::new(WorseThanDefault, "no real-time thread runs at all").want("950000"),
        Ok(950_000) if case.kernel_from(6, 12) => Finding::ok(
            "a deadline server gives others their share, and \
            only when they wait",
        ),
        Ok(950_000) if isolated => Finding::ok(
            "a FIFO thread loses 50 ms a second if anything else waits on its \
            core",
        ),
        Ok(950_000) => Finding::ok("the default"),
        Ok(value) if value > 0 => Finding::new(
            Unnecessary,
            format!(
                "{value} us of each second, where 950,000 is \
            the default"
            ),
        ),
        _ => Finding::new(WorseThanDefault, "is no share of the period").want("950000"),
    }
}

fn timer_migration(case: &Case<'_>) -> Finding {
    let nohz =
        case.evidence.get("sys/devices/system/cpu/nohz_full").is_some_and(|list| !list.is_empty() && list != "(null)");
    match case.value {
        "1" => Finding::ok(if nohz { "timers leave the cores without ticks" } else { "the default" }),
        "0" if nohz => Finding::new(
            WorseThanDefault,
            "with nohz_full cores, timers armed there stay \
            there",
        )
        .want("1"),
        "0" => Finding::ok("timers stay where they were armed, as tuned's cpu-partitioning has it"),
        _ => Finding::new(WorseThanDefault, "0 and 1 are all there is").want("1"),
    }
}

fn numa_balancing(case: &Case<'_>) -> Finding {
    let nodes = case.evidence.names("sys/devices/system/node");
    let domains = nodes.iter().filter(|name| name.starts_with("node")).count();
    match case.value {
        "0" => Finding::ok("pages stay where they were put"),
        _ if domains < 2 => Finding::new(Nothing, "there is one domain only"),
        _ if case.role.polls() => {
            Finding::new(Improvable, "faults for pages that are where they should be, on the packet path").want("0")
        }
        _ => Finding::ok("helps programs that nobody placed; nearside places its own"),
    }
}

fn nmi_watchdog(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("off"),
        _ if case.evidence.virtual_machine() => {
            Finding::new(Nothing, "virtual machines seldom have the counter that it needs")
        }
        _ => Finding::new(
            Improvable,
            "an interrupt on each core now and then, and a counter less for \
            perf",
        )
        .want("0"),
    }
}

fn watchdog(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("off: nothing interrupts, and nothing finds a core that hangs"),
        _ => Finding::ok("on: leave polling cores out by watchdog_cpumask rather than turning it off"),
    }
}

fn watchdog_mask(case: &Case<'_>) -> Finding {
    let isolated = case.evidence.isolated();
    let watched = crate::evidence::cpu_list(case.value).unwrap_or_default();
    let both: Vec<&u32> = isolated.iter().filter(|core| watched.contains(core)).collect();
    if both.is_empty() {
        return Finding::ok(if isolated.is_empty() {
            "no core is isolated"
        } else {
            "isolated cores are not \
            watched"
        });
    }
    Finding::new(
        Improvable,
        format!("{} isolated cores are watched, each by a thread of the highest priority", both.len()),
    )
    .want("the housekeeping cores")
}

fn watchdog_thresh(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value > 60 => Finding::new(WorseThanDefault, "the kernel takes 60 at most").want("10"),
        Some(value) if value < 10 && value > 0 => Finding::new(Unnecessary, "more frequent looks than by default"),
        Some(_) => Finding::ok("as by default, or more seldom"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn panic_of_a_hang(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("a hang is told of, and the machine goes on"),
        _ if case.role.polls() => {
            Finding::new(Improvable, "a polling thread at FIFO can look like a hang, and the machine restarts")
                .want("0")
        }
        _ => Finding::ok("the machine restarts, for clusters that would rather lose a node than wait for it"),
    }
}

fn bandwidth_slice(case: &Case<'_>) -> Finding {
    let throttled = super::services::throttled(case.evidence).unwrap_or(0);
    match case.number() {
        Some(5_000) if throttled > 0 => Finding::new(
            Improvable,
            format!("{throttled} periods were throttled; smaller slices leave less of a quota on other cores"),
        )
        .want("3000"),
        Some(value) if value > 5_000 => {
            Finding::new(WorseThanDefault, "more of a quota is stranded on cores").want("5000")
        }
        Some(_) => Finding::ok("no cgroup that was looked at is throttled, or slices are small"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn schedstats(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("not counted"),
        _ => Finding::new(Improvable, "costs something at each task switch: for while one looks, not for always")
            .want("0"),
    }
}

fn bpf_stats(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("not taken"),
        _ => Finding::new(WorseThanDefault, "two clock readings for each run of each program").want("0"),
    }
}

fn perf_paranoid(case: &Case<'_>) -> Finding {
    match case.value.parse::<i64>() {
        Ok(value) if value >= 2 => Finding::ok("users count their own programs at most; profiling needs CAP_PERFMON"),
        Ok(value) if value >= 0 => {
            Finding::new(Improvable, "users see the kernel's side too: put it back after profiling").want("2")
        }
        _ => Finding::new(Dangerous, "any user may trace everything").want("2"),
    }
}

fn perf_share(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0 | 100) => Finding::new(WorseThanDefault, "sampling may then take a whole core").want("25"),
        Some(value) if value <= 25 => Finding::ok("sampling is held back there"),
        _ => Finding::new(Unnecessary, "more than by default for sampling"),
    }
}

fn kptr(case: &Case<'_>) -> Finding {
    let paranoid = case.other("kernel.perf_event_paranoid").and_then(|value| value.parse::<i64>().ok()).unwrap_or(2);
    match case.value {
        "0" if paranoid < 2 => Finding::new(
            Improvable,
            "with perf_event_paranoid below 2 users learn where the kernel is: put both back after profiling",
        )
        .want("1"),
        "0" => Finding::ok("addresses are hashed when printed; those with rights see them"),
        _ => Finding::ok("addresses are hidden"),
    }
}

fn unprivileged_bpf(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::new(Improvable, "a way into the kernel that no web server needs").want("2"),
        _ => Finding::ok("users without rights load no programs; CAP_BPF does"),
    }
}

fn io_uring(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("programs may use it"),
        "1" => Finding::ok("a group may use it (kernel.io_uring_group)"),
        _ => Finding::ok("nobody may: --engine io_uring is refused, epoll serves as well"),
    }
}

fn threads_max(case: &Case<'_>) -> Finding {
    let in_force = case.evidence.sysctl_number("kernel.threads-max");
    match (case.number(), in_force) {
        (Some(number), Some(now)) if case.advised && number < now => {
            Finding::new(WorseThanDefault, format!("lowers it from {now}")).want(now.to_string())
        }
        (Some(number), _) if number < 4_096 => {
            Finding::new(WorseThanDefault, "few threads for a machine").want("32768")
        }
        (Some(_), _) if case.advised => Finding::new(Unnecessary, "kernel.pid_max and pids.max are met first"),
        (Some(_), _) => Finding::ok("computed from memory; kernel.pid_max and pids.max are met first"),
        (None, _) => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn shm(case: &Case<'_>) -> Finding {
    // ULONG_MAX - (1 << 24) is the default of both.
    const DEFAULT: u64 = u64::MAX - (1 << 24);
    match case.number() {
        Some(DEFAULT) => Finding::ok("the default, practically without limit"),
        Some(number) if number < DEFAULT => Finding::new(
            WorseThanDefault,
            "LOWERS a limit that is practically none; and web servers use no System V segments",
        )
        .want(DEFAULT.to_string()),
        _ => Finding::ok("without limit"),
    }
}

fn printk(case: &Case<'_>) -> Finding {
    let serial = case.argument("console").is_some_and(|console| console.starts_with("ttyS"));
    match case.numbers().first() {
        Some(level) if *level > 4 && serial => {
            Finding::new(Improvable, "warnings and below go out of a serial line, character by character")
                .want("4 4 1 7")
        }
        Some(_) => Finding::ok("little goes to the console"),
        None => Finding::new(WorseThanDefault, "is four numbers").want("4 4 1 7"),
    }
}
