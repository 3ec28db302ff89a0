//! What is found of each setting of the kernel's own.

use crate::rule::{Role, Verdict};
use crate::{Case, Finding};

use crate::catalogue::tcp_limits::bytes;
use Verdict::{Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

pub(super) fn file_max(case: &Case<'_>) -> Finding {
    let Some(number) = case.number() else { return case.no_number() };
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

pub(super) fn inotify_instances(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(number) if number < 128 => Finding::new(WorseThanDefault, "lower than the default").want("128"),
        Some(128) if case.role == Role::Mixed => {
            Finding::new(Improvable, "a node with many pods runs out").want("8192")
        }
        Some(_) => Finding::ok("enough"),
        None => case.no_number(),
    }
}

pub(super) fn epoll_watches(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(number) if number < 1 << 18 => {
            Finding::new(WorseThanDefault, "fewer than a quarter of a million connections")
                .want("the kernel's own: a 25th of memory")
        }
        Some(number) => Finding::ok(format!("up to {} for one user", bytes(number.saturating_mul(160)))),
        None => case.no_number(),
    }
}

pub(super) fn suid_dumpable(case: &Case<'_>) -> Finding {
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

pub(super) fn rt_runtime(case: &Case<'_>) -> Finding {
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

pub(super) fn timer_migration(case: &Case<'_>) -> Finding {
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

pub(super) fn numa_balancing(case: &Case<'_>) -> Finding {
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

pub(super) fn nmi_watchdog(case: &Case<'_>) -> Finding {
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

pub(super) fn watchdog(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("off: nothing interrupts, and nothing finds a core that hangs"),
        _ => Finding::ok("on: leave polling cores out by watchdog_cpumask rather than turning it off"),
    }
}

pub(super) fn watchdog_mask(case: &Case<'_>) -> Finding {
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

pub(super) fn watchdog_thresh(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(value) if value > 60 => Finding::new(WorseThanDefault, "the kernel takes 60 at most").want("10"),
        Some(value) if value < 10 && value > 0 => Finding::new(Unnecessary, "more frequent looks than by default"),
        Some(_) => Finding::ok("as by default, or more seldom"),
        None => case.no_number(),
    }
}

pub(super) fn panic_of_a_hang(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("a hang is told of, and the machine goes on"),
        _ if case.role.polls() => {
            Finding::new(Improvable, "a polling thread at FIFO can look like a hang, and the machine restarts")
                .want("0")
        }
        _ => Finding::ok("the machine restarts, for clusters that would rather lose a node than wait for it"),
    }
}

pub(super) fn bandwidth_slice(case: &Case<'_>) -> Finding {
    let throttled = crate::catalogue::groups::throttled(case.evidence);
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
        None => case.no_number(),
    }
}

pub(super) fn schedstats(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("not counted"),
        _ => Finding::new(Improvable, "costs something at each task switch: for while one looks, not for always")
            .want("0"),
    }
}

pub(super) fn bpf_stats(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("not taken"),
        _ => Finding::new(WorseThanDefault, "two clock readings for each run of each program").want("0"),
    }
}

pub(super) fn perf_paranoid(case: &Case<'_>) -> Finding {
    match case.value.parse::<i64>() {
        Ok(value) if value >= 2 => Finding::ok("users count their own programs at most; profiling needs CAP_PERFMON"),
        Ok(value) if value >= 0 => {
            Finding::new(Improvable, "users see the kernel's side too: put it back after profiling").want("2")
        }
        _ => Finding::new(Dangerous, "any user may trace everything").want("2"),
    }
}

pub(super) fn perf_share(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0 | 100) => Finding::new(WorseThanDefault, "sampling may then take a whole core").want("25"),
        Some(value) if value <= 25 => Finding::ok("sampling is held back there"),
        _ => Finding::new(Unnecessary, "more than by default for sampling"),
    }
}

pub(super) fn kptr(case: &Case<'_>) -> Finding {
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

pub(super) fn unprivileged_bpf(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::new(Improvable, "a way into the kernel that no web server needs").want("2"),
        _ => Finding::ok("users without rights load no programs; CAP_BPF does"),
    }
}

pub(super) fn io_uring(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("programs may use it"),
        "1" => Finding::ok("a group may use it (kernel.io_uring_group)"),
        _ => Finding::ok("nobody may: --engine io_uring is refused, epoll serves as well"),
    }
}

pub(super) fn threads_max(case: &Case<'_>) -> Finding {
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
        (None, _) => case.no_number(),
    }
}

pub(super) fn shm(case: &Case<'_>) -> Finding {
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

pub(super) fn printk(case: &Case<'_>) -> Finding {
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
