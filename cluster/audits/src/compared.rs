//! What of a setting is compared: its value, its verdict, or nothing.

use crate::report::SettingState;

/// What was counted or seen, and is no setting: no two nodes have the same, so the verdict alone is compared.
const SEEN: [&str; 19] = [
    "allocations across domains",
    "dropped before sending",
    "fs.file-nr",
    "interrupts of interfaces",
    "jobs of cron",
    "link changes",
    "memory pressure",
    "one core's share of softirqs",
    "processes of the cgroup",
    "processor pressure",
    "received and dropped",
    "received errors",
    "received without room",
    "sent with errors",
    "services beside the server",
    "swap in use",
    "throttled periods",
    "time taken by the host",
    "timers",
];

/// What the kernel computes from the memory that it found: alike where no number of it is off by more than a fiftieth,
/// as firmware takes some memory from each node, and not from each the same.
const FROM_MEMORY: [&str; 8] = [
    "fs.epoll.max_user_watches",
    "fs.file-max",
    "fs.inotify.max_user_watches",
    "kernel.threads-max",
    "net.ipv4.tcp_mem",
    "net.ipv4.udp_mem",
    "vm.min_free_kbytes",
    "vm.user_reserve_kbytes",
];

/// Which part of a number may be off: one of these.
const TOLERATED_PART: u64 = 50;

/// How two nodes are compared in a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    /// By what it is, and how good that is.
    Whole,
    /// By how good it is.
    Verdict,
    /// By how good it is, and what it is about.
    Near,
}

pub(crate) fn comparison(key: &str) -> Comparison {
    if SEEN.contains(&key) {
        Comparison::Verdict
    } else if FROM_MEMORY.contains(&key) {
        Comparison::Near
    } else {
        Comparison::Whole
    }
}

/// Whether two nodes have the same, as far as it is compared.
pub(crate) fn are_alike(key: &str, one: Option<&SettingState>, other: Option<&SettingState>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    one.verdict == other.verdict
        && match comparison(key) {
            Comparison::Whole => one.value == other.value,
            Comparison::Verdict => true,
            Comparison::Near => are_near(&one.value, &other.value),
        }
}

/// Whether two values are the same numbers, or about the same.
fn are_near(one: &str, other: &str) -> bool {
    let numbers = |text: &str| text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>();
    match (numbers(one), numbers(other)) {
        (Some(ones), Some(others)) => {
            let near = |(one, other): (&u64, &u64)| one.abs_diff(*other) <= *one.max(other) / TOLERATED_PART;
            ones.len() == others.len() && ones.iter().zip(&others).all(near)
        }
        _ => one == other,
    }
}
