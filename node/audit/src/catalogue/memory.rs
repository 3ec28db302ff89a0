//! Memory: reclaim, huge pages, placement.

use crate::rule::{Area, Counter, Judge, Reading, Role, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use super::tcp_limits::bytes;
use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

const VM: &str = "Linux Documentation/admin-guide/sysctl/vm.rst";
const THP: &str = "Linux Documentation/admin-guide/mm/transhuge.rst";
const HUGETLB: &str = "Linux Documentation/admin-guide/mm/hugetlbpage.rst";
const KSM: &str = "Linux Documentation/admin-guide/mm/ksm.rst";

const fn rule(key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule::sysctl(Area::Memory, key, judge, explain).source(VM)
}

pub(super) const RULES: &[Rule] = &[
    rule(
        "vm.swappiness",
        By(swappiness),
        "How ready the kernel is to swap memory of programs out, compared with dropping cached files: 0 to 200, \
            60 by \
         default. With no swap it does nothing.",
    )
    .counters(&[Counter::Mem("SwapTotal"), Counter::Vm("pswpin"), Counter::Vm("pswpout")])
    .gain("no pause for a page of the server's that was swapped out")
    .risk("0 lets the kernel kill programs before it swaps"),
    rule(
        "vm.zone_reclaim_mode",
        Only(
            "0",
            WorseThanDefault,
            "memory of the own domain is reclaimed, files dropped, before another \
            domain's is taken",
        ),
        "Whether a full NUMA domain reclaims before it takes memory of another; 0 by default.",
    )
    .counters(&[Counter::Vm("zone_reclaim_success"), Counter::Vm("zone_reclaim_failed")])
    .gain("no stalls when a domain is full"),
    rule(
        "vm.overcommit_memory",
        By(overcommit),
        "0 refuses obvious excess, 1 refuses nothing, 2 refuses what is not backed. Servers map much and touch \
            little.",
    )
    .counters(&[Counter::Mem("Committed_AS"), Counter::Mem("CommitLimit")]),
    rule(
        "vm.overcommit_ratio",
        NoEffect("it counts only with vm.overcommit_memory=2"),
        "Share of memory that may be promised.",
    ),
    rule(
        "vm.min_free_kbytes",
        By(min_free),
        "Memory that is kept free for allocations that cannot wait, such as packets in an interrupt.",
    )
    .counters(&[Counter::Vm("allocstall_normal"), Counter::Vm("pgscan_direct")])
    .gain("no failed allocations of the driver in bursts, if allocstall rises")
    .risk("too large: the kernel reclaims for ever, or kills"),
    rule(
        "vm.watermark_scale_factor",
        By(watermark_scale),
        "Distance between the marks at which the kernel begins and ends reclaiming, in 10,000ths of memory: 10.",
    )
    .counters(&[Counter::Vm("allocstall_normal"), Counter::Vm("kswapd_low_wmark_hit_quickly")])
    .gain("fewer stalls of programs that allocate in bursts, if allocstall rises"),
    rule(
        "vm.watermark_boost_factor",
        NoEffect("it acts when blocks of pages of other kinds were broken up; a server allocates at its start"),
        "How much is reclaimed after fragmentation.",
    ),
    rule(
        "vm.dirty_ratio",
        By(dirty_ratio),
        "Share of memory that may wait to be written before writers wait themselves: 20 %. An access log meets it \
            when \
         the disk is slow.",
    )
    .counters(&[Counter::Mem("Dirty"), Counter::Mem("Writeback")])
    .risk("large: seconds of writing at once; 0 with dirty_bytes unset stops writers"),
    rule(
        "vm.dirty_background_ratio",
        By(dirty_background),
        "Share of memory from which on it is written in the background: 10 %.",
    )
    .counters(&[Counter::Mem("Dirty")]),
    rule(
        "vm.dirty_expire_centisecs",
        NoEffect("an access log is some megabytes a second; when it is written does not matter to answers"),
        "Age at which data is written: 30 s.",
    ),
    rule(
        "vm.dirty_writeback_centisecs",
        NoEffect("the flusher's wake-up takes no time of isolated cores if its workqueue's mask leaves them out"),
        "How often the flusher wakes up: 5 s; 0 turns it off.",
    ),
    rule(
        "vm.stat_interval",
        By(stat_interval),
        "Seconds between updates of the memory statistics of each core: 1. The update is a work item on each core \
            that \
         changed something.",
    )
    .roles(Roles::POLLING)
    .gain("one interruption of some microseconds less each second and core")
    .risk("/proc/vmstat is older"),
    rule(
        "vm.max_map_count",
        AtLeast(65_530, WorseThanDefault, "lower than the default: programs with many mappings fail"),
        "Mappings of a process: 65,530 by default. Some databases want more; a web server has hundreds.",
    ),
    rule(
        "vm.vfs_cache_pressure",
        By(cache_pressure),
        "How ready the kernel is to drop names and inodes, compared with file contents: 100.",
    )
    .counters(&[Counter::File("proc/sys/fs/dentry-state")])
    .risk("0 never drops them: memory fills with names"),
    rule(
        "vm.nr_hugepages",
        By(nr_hugepages),
        "Pages of 2 MB (or of the default size) that are set aside, over all domains. They serve only what maps \
            them: \
         DPDK, AF_XDP memory, memif regions. No other program can have that memory.",
    )
    .counters(&[Counter::Mem("HugePages_Total"), Counter::Mem("HugePages_Free")])
    .gain("fewer TLB misses in rings and packet buffers")
    .risk("memory that nothing else can use; late, the kernel finds fewer than asked")
    .undo("write the number back; pages in use stay, pages that were split do not join again by themselves")
    .source(HUGETLB),
    rule(
        "vm.nr_overcommit_hugepages",
        NoEffect(
            "huge pages are then made when asked for, if memory is not fragmented by then: set aside what is \
            needed",
        ),
        "Huge pages beyond those set aside.",
    )
    .source(HUGETLB),
    rule(
        "vm.compaction_proactiveness",
        By(compaction),
        "How eagerly memory is compacted in the background: 20. Moving pages stops whoever touches them.",
    )
    .since(5, 9)
    .counters(&[Counter::Vm("compact_daemon_wake"), Counter::Vm("compact_migrate_scanned")])
    .gain("no page moves under a polling thread"),
    rule(
        "vm.compact_unevictable_allowed",
        By(compact_unevictable),
        "Whether compaction may move locked pages: 1, and 0 on real-time kernels. A page that moves costs its \
            reader a \
         fault.",
    )
    .roles(Roles::POLLING)
    .gain("locked memory never moves"),
    rule(
        "vm.page-cluster",
        NoEffect("it is for reading ahead from swap; 0 fits swap in memory"),
        "Pages read from swap at once, as a power of two.",
    ),
    rule(
        "vm.numa_stat",
        By(numa_stat),
        "Whether allocations by domain are counted: 1. The counters cost a few instructions for each page, and \
            tell what \
         crosses.",
    )
    .since(4, 15)
    .counters(&[Counter::Vm("numa_hit"), Counter::Vm("numa_miss"), Counter::Vm("numa_foreign")]),
    rule(
        "vm.laptop_mode",
        Only("0", WorseThanDefault, "writes are collected to let disks sleep: long pauses, then bursts"),
        "Whether disks are let sleep.",
    ),
    rule(
        "vm.panic_on_oom",
        By(panic_on_oom),
        "Whether the machine stops when memory is short, rather than a \
        program.",
    ),
    rule(
        "vm.oom_kill_allocating_task",
        Only("0", WorseThanDefault, "whoever happens to ask is killed, which is as often the server as the culprit"),
        "Whether the program that asked is killed, rather than the largest.",
    ),
    rule(
        "vm.percpu_pagelist_high_fraction",
        NoEffect("the kernel sizes the per-core lists itself; a server allocates at its start"),
        "Size of the lists of free pages of each core.",
    ),
    rule(
        "vm.drop_caches",
        By(drop_caches),
        "Writing it throws cached files away once. It is no setting: in a file of settings it empties the cache \
            at each \
         boot and each sysctl --system.",
    )
    .risk("every file is read from disk again"),
    rule(
        "vm.hugetlb_optimize_vmemmap",
        NoEffect("it saves 1.6 % of the memory in huge pages, and costs time when they are made"),
        "Whether descriptions of huge pages are given back.",
    )
    .since(5, 19)
    .source(HUGETLB),
    rule(
        "vm.unprivileged_userfaultfd",
        Only(
            "0",
            Dangerous,
            "lets local users stop kernel code in the middle: it makes other faults easy to \
            exploit",
        ),
        "Whether users without rights may handle page faults, the kernel's included.",
    )
    .since(5, 2),
    Rule::file(
        Area::Memory,
        "transparent_hugepage/enabled",
        "sys/kernel/mm/transparent_hugepage/enabled",
        By(thp),
        "Whether memory becomes huge pages by itself: always, where asked (madvise), or never. Programs that know \
            ask; \
         with always every process may stall while pages are made, and its memory grows.",
    )
    .counters(&[Counter::Vm("thp_fault_alloc"), Counter::Vm("thp_collapse_alloc"), Counter::Mem("AnonHugePages")])
    .gain("fewer TLB misses for tables of connections (madvise); no stalls (never)")
    .risk("never takes huge pages from programs that ask for them; split pages do not join again at once")
    .source(THP),
    Rule::file(
        Area::Memory,
        "transparent_hugepage/defrag",
        "sys/kernel/mm/transparent_hugepage/defrag",
        By(thp_defrag),
        "What a fault does when no huge page is free: wait for compaction (always), only where asked (madvise), \
            leave it \
         to the background (defer), or take small pages.",
    )
    .counters(&[Counter::Vm("compact_stall"), Counter::Vm("thp_fault_fallback")])
    .gain("no stalls of milliseconds in page faults")
    .source(THP),
    Rule::file(
        Area::Memory,
        "transparent_hugepage/khugepaged/defrag",
        "sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        By(khugepaged),
        "Whether the thread that joins pages may compact memory. It runs on housekeeping cores, but a page that it \
         joins faults once for its user.",
    )
    .roles(Roles::POLLING)
    .counters(&[Counter::Vm("thp_collapse_alloc")])
    .source(THP),
    Rule::file(
        Area::Memory,
        "transparent_hugepage/shmem_enabled",
        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
        NoEffect("memory shared by memif is on hugetlbfs or asks for huge pages itself"),
        "The same for shared memory.",
    )
    .source(THP),
    Rule::file(
        Area::Memory,
        "ksm/run",
        "sys/kernel/mm/ksm/run",
        By(ksm),
        "Whether equal pages of programs that asked for it are joined. A write to such a page faults, and its \
            time tells \
         others what was in it.",
    )
    .counters(&[Counter::File("sys/kernel/mm/ksm/pages_sharing")])
    .gain("no faults on joined pages")
    .risk("memory of virtual machines grows when it is turned off (2 splits all)")
    .source(KSM),
    Rule::file(
        Area::Memory,
        "lru_gen/enabled",
        "sys/kernel/mm/lru_gen/enabled",
        NoEffect("both ways of ageing pages serve a machine that is not short of memory"),
        "Whether the multi-generational LRU is used.",
    )
    .since(6, 1)
    .source("Linux Documentation/admin-guide/mm/multigen_lru.rst"),
    Rule::file(
        Area::Memory,
        "numa/demotion_enabled",
        "sys/kernel/mm/numa/demotion_enabled",
        By(demotion),
        "Whether pages move to slower memory (CXL, persistent) before they are dropped.",
    )
    .since(5, 15)
    .source("Linux Documentation/ABI/testing/sysfs-kernel-mm-numa"),
    Rule::each(
        Area::Memory,
        "huge pages by domain",
        hugepages_by_domain,
        By(domain_hugepages),
        "vm.nr_hugepages spreads pages evenly over domains; what a silo maps should come from its own. Per-domain \
            files \
         set them aside where they are needed.",
    )
    .gain("packet buffers in the silo's own domain")
    .source(HUGETLB),
    Rule::each(
        Area::Memory,
        "huge pages of 1 GB",
        gigantic,
        By(gigantic_pages),
        "Pages of 1 GB are found reliably only at boot (hugepagesz=1G hugepages=N).",
    )
    .gain("one TLB entry for a whole pool of packet buffers")
    .source(HUGETLB),
    Rule::each(Area::Memory, "swap in use", swap, By(swap_used), "Whether memory of programs lies on disk now.")
        .counters(&[Counter::Vm("pswpin"), Counter::Vm("pswpout")])
        .gain("no pause of milliseconds when it is touched")
        .source("man 5 proc, /proc/meminfo"),
    Rule::each(
        Area::Memory,
        "allocations across domains",
        |evidence| one("all", evidence.vmstat("numa_miss").map(|misses| misses.to_string())),
        By(numa_misses),
        "Pages that were wanted in one domain and came from another.",
    )
    .counters(&[Counter::Vm("numa_hit"), Counter::Vm("numa_miss"), Counter::Vm("numa_foreign")])
    .gain("a third to a half of the latency of a miss to memory")
    .source("Linux Documentation/admin-guide/numastat.rst"),
    Rule::each(
        Area::Memory,
        "memory pressure",
        |evidence| one("all", evidence.get("proc/pressure/memory").map(str::to_owned)),
        By(pressure),
        "Share of time in which something waited for memory (PSI).",
    )
    .source("Linux Documentation/accounting/psi.rst"),
];

/// A reading of the only thing there is, if it could be read.
pub(super) fn one(subject: &str, value: Option<String>) -> Vec<Reading> {
    value.map(|value| Reading { subject: subject.to_owned(), value: Ok(value) }).into_iter().collect()
}

/// The word in brackets of `always [madvise] never`, or the value itself, as
/// advice has it.
pub(super) fn chosen(value: &str) -> &str {
    value.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(value, |(word, _)| word)
}

fn swappiness(case: &Case<'_>) -> Finding {
    let swap = case.evidence.meminfo("SwapTotal").unwrap_or(0);
    match case.number() {
        None => Finding::new(WorseThanDefault, "is no number"),
        Some(_) if swap == 0 => Finding::new(Nothing, "there is no swap"),
        Some(0) => Finding::new(WorseThanDefault, "the kernel kills programs before it swaps; 1 is the careful value")
            .want("1"),
        Some(value) if value > 60 => Finding::new(WorseThanDefault, "swaps more readily than by default").want("10"),
        Some(value) if value > 10 => {
            Finding::new(Improvable, "a server's pages should stay while files are cached").want("10")
        }
        Some(_) => Finding::ok("swaps late"),
    }
}

fn overcommit(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("the default"),
        "1" => Finding::new(
            Unnecessary,
            "for programs that fork with much memory, such as Redis; web servers need \
                it not",
        ),
        "2" => {
            Finding::new(WorseThanDefault, "programs that map much and touch little are refused memory that is free")
                .want("0")
        }
        _ => Finding::new(WorseThanDefault, "0, 1 and 2 are all there is").want("0"),
    }
}

fn min_free(case: &Case<'_>) -> Finding {
    let stalls = case.evidence.vmstat("allocstall_normal").unwrap_or(0);
    let memory = case.evidence.memory().unwrap_or(u64::MAX);
    match case.number().map(|kib| kib.saturating_mul(1_024)) {
        None => Finding::new(WorseThanDefault, "is no number"),
        Some(free) if free > memory / 20 => Finding::new(
            Dangerous,
            format!(
                "more than a twentieth of memory ({}) is never used, and the kernel may kill to keep it",
                bytes(free)
            ),
        ),
        Some(free) if free < 16 << 20 && memory > 4 << 30 => {
            Finding::new(WorseThanDefault, "a burst of packets finds no memory").want("65536")
        }
        Some(free) if stalls > 1_000 && !case.advised => Finding::new(
            Improvable,
            format!("{stalls} allocations had to wait for reclaim since boot, with {} kept free", bytes(free)),
        ),
        Some(free) => Finding::ok(format!("{} kept free; {stalls} allocations waited since boot", bytes(free))),
    }
}

fn watermark_scale(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(10) => Finding::ok("the default"),
        Some(value) if (1..=3_000).contains(&value) && value > 10 => {
            Finding::new(Unnecessary, "reclaim begins earlier: of use only where allocstall rises")
        }
        _ => Finding::new(WorseThanDefault, "reclaim begins later than by default").want("10"),
    }
}

fn dirty_ratio(case: &Case<'_>) -> Finding {
    let memory = case.evidence.memory().unwrap_or(0);
    match case.number() {
        // 0 means that dirty_bytes is set.
        Some(0) if case.other("vm.dirty_bytes").is_some_and(|bytes| bytes != "0") => Finding::ok(
            "dirty_bytes \
            counts",
        ),
        Some(0) => Finding::new(WorseThanDefault, "every writer waits for the disk").want("20"),
        Some(value) if value > 40 => Finding::new(
            WorseThanDefault,
            format!("up to {} wait to be written, at once when it comes to that", bytes(memory / 100 * value)),
        )
        .want("20"),
        Some(_) => Finding::ok("writers wait for the disk beyond that share"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn dirty_background(case: &Case<'_>) -> Finding {
    let most = case.other("vm.dirty_ratio").and_then(|value| value.parse::<u64>().ok()).unwrap_or(20);
    match case.number() {
        Some(value) if most > 0 && value >= most => Finding::new(
            Verdict::Conflicts,
            "not below vm.dirty_ratio: the kernel takes half of that instead (mm/page-writeback.c)",
        )
        .want((most / 2).to_string()),
        Some(_) => Finding::ok("writing begins in the background there"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn stat_interval(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) | None => Finding::new(WorseThanDefault, "is no number of seconds").want("10"),
        Some(value) if value < 10 && !case.evidence.isolated().is_empty() => {
            Finding::new(Improvable, "isolated cores are interrupted each second that they touched memory's counters")
                .want("10")
        }
        Some(_) => Finding::ok("it interrupts a polling core this often at most"),
    }
}

fn cache_pressure(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(Dangerous, "names and inodes are never dropped: memory fills with them").want("100"),
        Some(value) if value > 200 => {
            Finding::new(WorseThanDefault, "names are looked up on disk again and again").want("100")
        }
        Some(_) => Finding::ok("names of files stay long enough"),
        None => Finding::new(WorseThanDefault, "is no number"),
    }
}

fn nr_hugepages(case: &Case<'_>) -> Finding {
    let Some(number) = case.number() else { return Finding::new(WorseThanDefault, "is no number") };
    let size = case.evidence.meminfo("Hugepagesize").unwrap_or(2 << 20);
    let memory = case.evidence.memory().unwrap_or(u64::MAX);
    let taken = number.saturating_mul(size);
    let free = case.evidence.meminfo("HugePages_Free").unwrap_or(0) / 1_024;
    if taken > memory / 10 * 9 {
        return Finding::new(
            Dangerous,
            format!("{} of a memory of {}: nothing is left to run in", bytes(taken), bytes(memory)),
        );
    }
    match number {
        0 if case.role.polls() => Finding::new(
            Improvable,
            "rings and packet buffers lie in small pages, unless the kernel joins them: 256 MB suffice for a silo",
        )
        .want("128 for each silo"),
        0 => Finding::ok("none set aside; kernel sockets use none"),
        _ if !case.role.polls() && case.role != Role::Mixed => Finding::new(
            WorseThanDefault,
            format!(
                "{} that no server on kernel sockets \
                uses",
                bytes(taken)
            ),
        )
        .want("0"),
        _ if !case.advised && free == number && number > 1_024 => {
            Finding::new(Improvable, format!("{} set aside, and nobody uses any of it", bytes(taken)))
        }
        _ if taken > memory / 2 => Finding::new(
            WorseThanDefault,
            format!("{} of {}: files have the rest for a cache", bytes(taken), bytes(memory)),
        ),
        _ => Finding::ok(format!("{} set aside", bytes(taken))),
    }
}

fn compaction(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("memory is compacted only when a large page is asked for"),
        Some(value) if value <= 100 && case.role.polls() => {
            Finding::new(Improvable, "pages move in the background, and whoever reads one meanwhile waits").want("0")
        }
        Some(value) if value <= 100 => Finding::ok("memory is compacted in the background"),
        _ => Finding::new(WorseThanDefault, "is no per cent").want("20"),
    }
}

fn compact_unevictable(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("locked pages do not move"),
        _ if case.evidence.realtime() => {
            Finding::new(WorseThanDefault, "0 is the default of real-time kernels").want("0")
        }
        _ => Finding::new(Improvable, "compaction may move locked pages, and their reader faults").want("0"),
    }
}

fn numa_stat(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("allocations by domain are counted"),
        _ => Finding::new(
            WorseThanDefault,
            "what crosses between domains cannot be seen; some 1 % of an allocation is saved",
        )
        .want("1"),
    }
}

fn panic_on_oom(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("a program is killed, and the machine goes on"),
        _ => Finding::new(WorseThanDefault, "one leak in one program ends the machine").want("0"),
    }
}

fn drop_caches(case: &Case<'_>) -> Finding {
    if case.advised {
        return Finding::new(
            WorseThanDefault,
            "no setting: an order that empties the cache of files each time it is read",
        );
    }
    match case.value {
        "0" => Finding::ok("not used since boot"),
        _ => Finding::new(Unnecessary, "somebody emptied the cache of files since boot"),
    }
}

fn thp(case: &Case<'_>) -> Finding {
    match chosen(case.value) {
        "madvise" => Finding::ok("where programs ask: right for every role"),
        "always" if case.role.polls() => {
            Finding::new(Improvable, "the kernel joins and splits pages of all programs: stalls under load")
                .want("madvise")
        }
        "always" => Finding::new(Improvable, "every program's faults may wait for a huge page").want("madvise"),
        "never" => Finding::new(
            Improvable,
            "tables of connections, which ask for huge pages, do not get them: a TLB miss for each connection",
        )
        .want("madvise"),
        other => Finding::new(WorseThanDefault, format!("{other} is no choice of it")).want("madvise"),
    }
}

fn thp_defrag(case: &Case<'_>) -> Finding {
    match chosen(case.value) {
        "always" => {
            Finding::new(WorseThanDefault, "every fault may wait for compaction: milliseconds").want("defer+madvise")
        }
        "madvise" | "defer+madvise" | "defer" | "never" => {
            Finding::ok("faults of programs that did not ask do not wait")
        }
        other => Finding::new(WorseThanDefault, format!("{other} is no choice of it")).want("madvise"),
    }
}

fn khugepaged(case: &Case<'_>) -> Finding {
    let enabled = case.evidence.get("sys/kernel/mm/transparent_hugepage/enabled").map(chosen);
    match case.value {
        "0" => Finding::ok("pages are joined only where whole blocks are free"),
        _ if enabled == Some("never") => {
            Finding::new(Nothing, "no pages are joined: transparent_hugepage/enabled is never")
        }
        _ => Finding::ok("joins pages of programs that asked, in the background"),
    }
}

fn ksm(case: &Case<'_>) -> Finding {
    match case.value {
        "1" if case.role == Role::Mixed => {
            Finding::new(Improvable, "guests' pages are joined: a write to one faults").want("2")
        }
        "1" => Finding::new(WorseThanDefault, "a thread compares pages, and writes to joined ones fault").want("2"),
        _ => Finding::ok("pages are not joined"),
    }
}

fn demotion(case: &Case<'_>) -> Finding {
    match case.value {
        "true" | "1" => Finding::new(Improvable, "pages of a server may move to slower memory").want("false"),
        _ => Finding::ok("pages stay in their kind of memory"),
    }
}

fn hugepages_by_domain(evidence: &Evidence) -> Vec<Reading> {
    let nodes = evidence.names("sys/devices/system/node");
    let nodes = nodes.iter().filter(|name| name.starts_with("node"));
    nodes
        .flat_map(|node| {
            let folder = format!("sys/devices/system/node/{node}/hugepages");
            let sizes = evidence.names(&folder);
            let texts = sizes.iter().filter_map(|size| {
                let number = evidence.get(&format!("{folder}/{size}/nr_hugepages"))?;
                Some(format!("{number} of {}", size.trim_start_matches("hugepages-")))
            });
            one(node, Some(texts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()))
        })
        .collect()
}

fn domain_hugepages(case: &Case<'_>) -> Finding {
    let nodes = case.evidence.names("sys/devices/system/node");
    let domains = nodes.iter().filter(|name| name.starts_with("node")).count();
    let none = case.value.split(", ").all(|part| part.starts_with("0 of"));
    let total = case.evidence.sysctl_number("vm.nr_hugepages").unwrap_or(0);
    if none && total > 0 && domains > 1 {
        return Finding::new(Improvable, "pages are set aside, but none in this domain")
            .want("as many as its silos need");
    }
    if none && case.role.polls() {
        return Finding::ok("none, as nowhere on this machine");
    }
    Finding::ok(if domains > 1 { "set aside in this domain" } else { "there is one domain only" })
}

fn gigantic(evidence: &Evidence) -> Vec<Reading> {
    let number = evidence.get("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages");
    one("1 GB", number.map(str::to_owned))
}

fn gigantic_pages(case: &Case<'_>) -> Finding {
    let at_boot = case.argument("hugepagesz").is_some_and(|size| size.eq_ignore_ascii_case("1G"))
        || case.argument("default_hugepagesz").is_some_and(|size| size.eq_ignore_ascii_case("1G"));
    match case.number() {
        Some(0) if at_boot => Finding::new(Improvable, "asked for at boot, and none was found"),
        Some(0) => Finding::ok("none, which pages of 2 MB make up for unless a pool is of gigabytes"),
        Some(number) => Finding::ok(format!("{number} GB set aside")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn swap(evidence: &Evidence) -> Vec<Reading> {
    let total = evidence.meminfo("SwapTotal");
    let used = total.and_then(|total| Some(total - evidence.meminfo("SwapFree")?.min(total)));
    one("all", used.map(|used| used.to_string()))
}

fn swap_used(case: &Case<'_>) -> Finding {
    match (case.evidence.meminfo("SwapTotal"), case.number()) {
        (Some(0), _) => Finding::ok("there is no swap"),
        (_, Some(0)) => Finding::ok("nothing is swapped out"),
        (_, Some(used)) => Finding::new(Improvable, format!("{} of programs' memory is on disk", bytes(used)))
            .want("0: swapoff, or MemorySwapMax=0 for the server's unit"),
        _ => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn numa_misses(case: &Case<'_>) -> Finding {
    let hits = case.evidence.vmstat("numa_hit").unwrap_or(0);
    match case.number() {
        Some(0) => Finding::ok("every page came from the domain where it was wanted"),
        Some(misses) if misses.saturating_mul(100) < hits => {
            Finding::ok(format!("{misses} of {} pages came from another domain", misses + hits))
        }
        Some(misses) => Finding::new(
            Improvable,
            format!(
                "{misses} of {} pages came from another domain than they were wanted in",
                misses.saturating_add(hits)
            ),
        ),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn pressure(case: &Case<'_>) -> Finding {
    waited(case, "memory", 1.0)
}

/// What a file of PSI tells of the last five minutes; from a share of `most`
/// per cent on, something is to be done.
pub(super) fn waited(case: &Case<'_>, what: &str, most: f64) -> Finding {
    let some = case.value.lines().find(|line| line.starts_with("some"));
    let average = some.and_then(|line| line.split_whitespace().find_map(|field| field.strip_prefix("avg300=")));
    let Some(share) = average.and_then(|text| text.parse::<f64>().ok()) else {
        return Finding::new(Verdict::Unreadable, "has no line that begins with some and tells avg300");
    };
    let why = format!("something waited for {what} in {share} % of the last five minutes");
    if share >= most { Finding::new(Improvable, why) } else { Finding::ok(why) }
}
