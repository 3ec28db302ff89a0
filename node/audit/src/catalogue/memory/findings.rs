//! How memory is read, and what is found of its settings.

use crate::rule::{Reading, Role, Verdict};
use crate::{Case, Evidence, Finding};

use crate::catalogue::tcp_limits::bytes;
use Verdict::{Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

/// A reading of the only thing there is, if it could be read.
pub(in crate::catalogue) fn one(subject: &str, value: Option<String>) -> Vec<Reading> {
    value.map(|value| Reading { subject: subject.to_owned(), value: Ok(value) }).into_iter().collect()
}

/// The word in brackets of `always [madvise] never`, or the value itself, as
/// advice has it.
pub(in crate::catalogue) fn chosen(value: &str) -> &str {
    value.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(value, |(word, _)| word)
}

pub(super) fn swappiness(case: &Case<'_>) -> Finding {
    let swap = case.evidence.meminfo("SwapTotal").unwrap_or(0);
    match case.number() {
        None => case.no_number(),
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

pub(super) fn overcommit(case: &Case<'_>) -> Finding {
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

pub(super) fn min_free(case: &Case<'_>) -> Finding {
    let stalls = case.evidence.vmstat("allocstall_normal").unwrap_or(0);
    let memory = case.evidence.memory().unwrap_or(u64::MAX);
    match case.number().map(|kib| kib.saturating_mul(1_024)) {
        None => case.no_number(),
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

pub(super) fn watermark_scale(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(10) => Finding::ok("the default"),
        Some(value) if (1..=3_000).contains(&value) && value > 10 => {
            Finding::new(Unnecessary, "reclaim begins earlier: of use only where allocstall rises")
        }
        _ => Finding::new(WorseThanDefault, "reclaim begins later than by default").want("10"),
    }
}

pub(super) fn dirty_ratio(case: &Case<'_>) -> Finding {
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
        None => case.no_number(),
    }
}

pub(super) fn dirty_background(case: &Case<'_>) -> Finding {
    let most = case.other("vm.dirty_ratio").and_then(|value| value.parse::<u64>().ok()).unwrap_or(20);
    match case.number() {
        Some(value) if most > 0 && value >= most => Finding::new(
            Verdict::Conflicts,
            "not below vm.dirty_ratio: the kernel takes half of that instead (mm/page-writeback.c)",
        )
        .want((most / 2).to_string()),
        Some(_) => Finding::ok("writing begins in the background there"),
        None => case.no_number(),
    }
}

pub(super) fn stat_interval(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) | None => Finding::new(WorseThanDefault, "is no number of seconds").want("10"),
        Some(value) if value < 10 && !case.evidence.isolated().is_empty() => {
            Finding::new(Improvable, "isolated cores are interrupted each second that they touched memory's counters")
                .want("10")
        }
        Some(_) => Finding::ok("it interrupts a polling core this often at most"),
    }
}

pub(super) fn cache_pressure(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::new(Dangerous, "names and inodes are never dropped: memory fills with them").want("100"),
        Some(value) if value > 200 => {
            Finding::new(WorseThanDefault, "names are looked up on disk again and again").want("100")
        }
        Some(_) => Finding::ok("names of files stay long enough"),
        None => case.no_number(),
    }
}

pub(super) fn nr_hugepages(case: &Case<'_>) -> Finding {
    let Some(number) = case.number() else { return case.no_number() };
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

pub(super) fn compaction(case: &Case<'_>) -> Finding {
    match case.number() {
        Some(0) => Finding::ok("memory is compacted only when a large page is asked for"),
        Some(value) if value <= 100 && case.role.polls() => {
            Finding::new(Improvable, "pages move in the background, and whoever reads one meanwhile waits").want("0")
        }
        Some(value) if value <= 100 => Finding::ok("memory is compacted in the background"),
        _ => Finding::new(WorseThanDefault, "is no per cent").want("20"),
    }
}

pub(super) fn compact_unevictable(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("locked pages do not move"),
        _ if case.evidence.realtime() => {
            Finding::new(WorseThanDefault, "0 is the default of real-time kernels").want("0")
        }
        _ => Finding::new(Improvable, "compaction may move locked pages, and their reader faults").want("0"),
    }
}

pub(super) fn numa_stat(case: &Case<'_>) -> Finding {
    match case.value {
        "1" => Finding::ok("allocations by domain are counted"),
        _ => Finding::new(
            WorseThanDefault,
            "what crosses between domains cannot be seen; some 1 % of an allocation is saved",
        )
        .want("1"),
    }
}

pub(super) fn panic_on_oom(case: &Case<'_>) -> Finding {
    match case.value {
        "0" => Finding::ok("a program is killed, and the machine goes on"),
        _ => Finding::new(WorseThanDefault, "one leak in one program ends the machine").want("0"),
    }
}

pub(super) fn drop_caches(case: &Case<'_>) -> Finding {
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

pub(super) fn thp(case: &Case<'_>) -> Finding {
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

pub(super) fn thp_defrag(case: &Case<'_>) -> Finding {
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

pub(super) fn khugepaged(case: &Case<'_>) -> Finding {
    let enabled = case.evidence.get("sys/kernel/mm/transparent_hugepage/enabled").map(chosen);
    match case.value {
        "0" => Finding::ok("pages are joined only where whole blocks are free"),
        _ if enabled == Some("never") => {
            Finding::new(Nothing, "no pages are joined: transparent_hugepage/enabled is never")
        }
        _ => Finding::ok("joins pages of programs that asked, in the background"),
    }
}

pub(super) fn ksm(case: &Case<'_>) -> Finding {
    match case.value {
        "1" if case.role == Role::Mixed => {
            Finding::new(Improvable, "guests' pages are joined: a write to one faults").want("2")
        }
        "1" => Finding::new(WorseThanDefault, "a thread compares pages, and writes to joined ones fault").want("2"),
        _ => Finding::ok("pages are not joined"),
    }
}

pub(super) fn demotion(case: &Case<'_>) -> Finding {
    match case.value {
        "true" | "1" => Finding::new(Improvable, "pages of a server may move to slower memory").want("false"),
        _ => Finding::ok("pages stay in their kind of memory"),
    }
}

pub(super) fn hugepages_by_domain(evidence: &Evidence) -> Vec<Reading> {
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

pub(super) fn domain_hugepages(case: &Case<'_>) -> Finding {
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

pub(super) fn gigantic(evidence: &Evidence) -> Vec<Reading> {
    let number = evidence.get("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages");
    one("1 GB", number.map(str::to_owned))
}

pub(super) fn gigantic_pages(case: &Case<'_>) -> Finding {
    let at_boot = case.argument("hugepagesz").is_some_and(|size| size.eq_ignore_ascii_case("1G"))
        || case.argument("default_hugepagesz").is_some_and(|size| size.eq_ignore_ascii_case("1G"));
    match case.number() {
        Some(0) if at_boot => Finding::new(Improvable, "asked for at boot, and none was found"),
        Some(0) => Finding::ok("none, which pages of 2 MB make up for unless a pool is of gigabytes"),
        Some(number) => Finding::ok(format!("{number} GB set aside")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

pub(super) fn swap(evidence: &Evidence) -> Vec<Reading> {
    let total = evidence.meminfo("SwapTotal");
    let used = total.and_then(|total| Some(total - evidence.meminfo("SwapFree")?.min(total)));
    one("all", used.map(|used| used.to_string()))
}

pub(super) fn swap_used(case: &Case<'_>) -> Finding {
    match (case.evidence.meminfo("SwapTotal"), case.number()) {
        (Some(0), _) => Finding::ok("there is no swap"),
        (_, Some(0)) => Finding::ok("nothing is swapped out"),
        (_, Some(used)) => Finding::new(Improvable, format!("{} of programs' memory is on disk", bytes(used)))
            .want("0: swapoff, or MemorySwapMax=0 for the server's unit"),
        _ => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

pub(super) fn numa_misses(case: &Case<'_>) -> Finding {
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

pub(super) fn pressure(case: &Case<'_>) -> Finding {
    waited(case, "memory", 1.0)
}

/// What a file of PSI tells of the last five minutes; from a share of `most`
/// per cent on, something is to be done.
pub(in crate::catalogue) fn waited(case: &Case<'_>, what: &str, most: f64) -> Finding {
    let some = case.value.lines().find(|line| line.starts_with("some"));
    let average = some.and_then(|line| line.split_whitespace().find_map(|field| field.strip_prefix("avg300=")));
    let Some(share) = average.and_then(|text| text.parse::<f64>().ok()) else {
        return Finding::new(Verdict::Unreadable, "has no line that begins with some and tells avg300");
    };
    let why = format!("something waited for {what} in {share} % of the last five minutes");
    if share >= most { Finding::new(Improvable, why) } else { Finding::ok(why) }
}
