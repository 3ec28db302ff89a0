//! Memory: reclaim, huge pages, placement.

mod findings;

pub(super) use findings::{chosen, one, waited};

use crate::rule::{Area, Counter, Judge, Roles, Rule, Verdict};

use Judge::{AtLeast, By, NoEffect, Only};
use Verdict::{Dangerous, WorseThanDefault};
use findings::{
    cache_pressure, compact_unevictable, compaction, demotion, dirty_background, dirty_ratio, domain_hugepages,
    drop_caches, gigantic, gigantic_pages, hugepages_by_domain, khugepaged, ksm, min_free, nr_hugepages, numa_misses,
    numa_stat, overcommit, panic_on_oom, pressure, stat_interval, swap, swap_used, swappiness, thp, thp_defrag,
    watermark_scale,
};

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

/// What is said of a number of huge pages.
pub(super) fn pages(case: &crate::Case<'_>) -> crate::Finding {
    nr_hugepages(case)
}
