//! Which sysctl takes what: by the kernel's tables, as a kernel answered.

use super::Shape;
use crate::{Evidence, Kernel, sysctl_path};

const fn numbers(most: usize, low: i128, high: i128) -> Shape {
    Shape::Integers { most, low, high }
}

const fn range(low: i128, high: i128) -> Shape {
    numbers(1, low, high)
}

const I32: i128 = i32::MAX as i128;
const U64: i128 = u64::MAX as i128;
const I64: i128 = i64::MAX as i128;
/// Whatever 32 bits hold.
const INT: Shape = range(-I32 - 1, I32);
/// The same, not below zero.
const COUNT: Shape = range(0, I32);
const FROM_1: Shape = range(1, I32);
const UNSIGNED: Shape = range(0, u32::MAX as i128);
const LONG: Shape = range(0, U64);
const BYTE: Shape = range(0, 255);
const SWITCH: Shape = range(0, 1);
const THREE: Shape = range(0, 2);
const PER_CENT: Shape = range(0, 100);
/// Seconds that are kept as ticks: with 250 of them a second. Other kernels
/// have other ends, all beyond a hundred days.
const SECONDS: Shape = range(-I32 / 250, I32 / 250);

/// By the end of a name, for those of each interface and of each family.
const OF_INTERFACES: &[&str] =
    &["rp_filter", "accept_redirects", "send_redirects", "accept_source_route", "log_martians", "forwarding"];

const SHAPES: &[(&str, Shape)] = &[
    ("net.core.somaxconn", COUNT),
    ("net.core.netdev_max_backlog", INT),
    ("net.core.netdev_budget", INT),
    ("net.core.netdev_budget_usecs", COUNT),
    ("net.core.dev_weight", FROM_1),
    ("net.core.optmem_max", COUNT),
    ("net.core.rmem_default", range(2_304, I32)),
    ("net.core.wmem_default", range(4_608, I32)),
    ("net.core.rmem_max", range(2_304, I32)),
    ("net.core.wmem_max", range(4_608, I32)),
    ("net.core.default_qdisc", Shape::Name),
    ("net.core.busy_read", COUNT),
    ("net.core.busy_poll", COUNT),
    ("net.core.gro_normal_batch", FROM_1),
    ("net.core.bpf_jit_enable", THREE),
    ("net.core.bpf_jit_harden", THREE),
    ("net.core.netdev_tstamp_prequeue", INT),
    ("net.core.txrehash", SWITCH),
    ("net.core.rps_sock_flow_entries", Shape::Table { most: 1 << 29, is_rounded: true }),
    ("net.core.flow_limit_table_len", Shape::Table { most: I32, is_rounded: false }),
    ("net.core.high_order_alloc_disable", SWITCH),
    ("net.core.rps_default_mask", Shape::Mask),
    ("net.ipv4.ip_forward", INT),
    ("net.ipv4.ip_local_port_range", Shape::Ports(1_024)),
    ("net.ipv4.ip_local_reserved_ports", Shape::Bitmap(65_536)),
    ("net.ipv4.ip_unprivileged_port_start", range(0, 65_535)),
    ("net.ipv4.ip_no_pmtu_disc", BYTE),
    ("net.ipv4.ip_nonlocal_bind", BYTE),
    ("net.ipv4.ip_early_demux", BYTE),
    ("net.ipv4.ip_default_ttl", range(1, 255)),
    ("net.ipv4.icmp_echo_ignore_broadcasts", SWITCH),
    ("net.ipv4.icmp_echo_ignore_all", SWITCH),
    ("net.ipv4.icmp_ignore_bogus_error_responses", SWITCH),
    ("net.ipv4.ipfrag_high_thresh", LONG),
    ("net.ipv4.neigh.default.gc_thresh1", COUNT),
    ("net.ipv4.neigh.default.gc_thresh2", COUNT),
    ("net.ipv4.neigh.default.gc_thresh3", COUNT),
    ("net.ipv6.neigh.default.gc_thresh1", COUNT),
    ("net.ipv6.neigh.default.gc_thresh2", COUNT),
    ("net.ipv6.neigh.default.gc_thresh3", COUNT),
    ("net.ipv4.icmp_ratelimit", Shape::Milliseconds),
    ("net.ipv4.icmp_msgs_per_sec", COUNT),
    ("net.ipv4.fib_multipath_hash_policy", range(0, 3)),
    ("net.ipv4.udp_rmem_min", FROM_1),
    ("net.ipv4.udp_wmem_min", FROM_1),
    ("net.ipv4.udp_mem", numbers(3, 0, U64)),
    ("net.ipv4.route.max_size", INT),
    ("net.unix.max_dgram_qlen", INT),
    ("net.netfilter.nf_conntrack_tcp_timeout_established", SECONDS),
    ("net.netfilter.nf_conntrack_tcp_timeout_time_wait", SECONDS),
    ("net.ipv4.tcp_congestion_control", Shape::Name),
    ("net.ipv4.tcp_sack", BYTE),
    ("net.ipv4.tcp_dsack", BYTE),
    ("net.ipv4.tcp_fack", BYTE),
    ("net.ipv4.tcp_window_scaling", BYTE),
    ("net.ipv4.tcp_timestamps", BYTE),
    ("net.ipv4.tcp_tw_reuse", THREE),
    ("net.ipv4.tcp_tw_recycle", INT),
    ("net.ipv4.tcp_fin_timeout", SECONDS),
    ("net.ipv4.tcp_keepalive_time", SECONDS),
    ("net.ipv4.tcp_keepalive_intvl", SECONDS),
    ("net.ipv4.tcp_keepalive_probes", BYTE),
    ("net.ipv4.tcp_syn_retries", range(1, 127)),
    ("net.ipv4.tcp_synack_retries", BYTE),
    ("net.ipv4.tcp_retries1", BYTE),
    ("net.ipv4.tcp_retries2", BYTE),
    ("net.ipv4.tcp_orphan_retries", BYTE),
    ("net.ipv4.tcp_slow_start_after_idle", BYTE),
    ("net.ipv4.tcp_notsent_lowat", UNSIGNED),
    ("net.ipv4.tcp_fastopen", INT),
    ("net.ipv4.tcp_fastopen_blackhole_timeout_sec", COUNT),
    ("net.ipv4.tcp_mtu_probing", BYTE),
    ("net.ipv4.tcp_base_mss", INT),
    ("net.ipv4.tcp_min_snd_mss", range(48, 65_535)),
    ("net.ipv4.tcp_moderate_rcvbuf", BYTE),
    ("net.ipv4.tcp_adv_win_scale", range(-31, 31)),
    ("net.ipv4.tcp_app_win", range(0, 31)),
    ("net.ipv4.tcp_low_latency", INT),
    ("net.ipv4.tcp_autocorking", SWITCH),
    ("net.ipv4.tcp_limit_output_bytes", INT),
    ("net.ipv4.tcp_no_metrics_save", BYTE),
    ("net.ipv4.tcp_no_ssthresh_metrics_save", SWITCH),
    ("net.ipv4.tcp_ecn", range(0, 5)),
    ("net.ipv4.tcp_ecn_fallback", SWITCH),
    ("net.ipv4.tcp_early_retrans", range(0, 4)),
    ("net.ipv4.tcp_recovery", BYTE),
    ("net.ipv4.tcp_reordering", range(1, 300)),
    ("net.ipv4.tcp_max_reordering", FROM_1),
    ("net.ipv4.tcp_frto", BYTE),
    ("net.ipv4.tcp_rfc1337", BYTE),
    ("net.ipv4.tcp_abort_on_overflow", BYTE),
    ("net.ipv4.tcp_stdurg", BYTE),
    ("net.ipv4.tcp_challenge_ack_limit", INT),
    ("net.ipv4.tcp_invalid_ratelimit", Shape::Milliseconds),
    ("net.ipv4.tcp_min_tso_segs", range(1, 255)),
    ("net.ipv4.tcp_tso_win_divisor", BYTE),
    ("net.ipv4.tcp_pacing_ss_ratio", range(0, 1_000)),
    ("net.ipv4.tcp_pacing_ca_ratio", range(0, 1_000)),
    ("net.ipv4.tcp_thin_linear_timeouts", BYTE),
    ("net.ipv4.tcp_comp_sack_delay_ns", LONG),
    ("net.ipv4.tcp_child_ehash_entries", range(0, 16 << 20)),
    ("net.ipv4.tcp_migrate_req", SWITCH),
    ("net.ipv4.tcp_shrink_window", SWITCH),
    ("net.ipv4.tcp_rto_min_us", FROM_1),
    ("net.ipv4.tcp_early_demux", BYTE),
    ("net.ipv4.tcp_backlog_ack_defer", SWITCH),
    ("net.ipv4.tcp_plb_enabled", SWITCH),
    ("net.ipv4.tcp_workaround_signed_windows", BYTE),
    ("net.ipv4.tcp_retrans_collapse", BYTE),
    ("net.ipv4.tcp_mem", numbers(3, 0, U64)),
    ("net.ipv4.tcp_rmem", numbers(3, 1, I32)),
    ("net.ipv4.tcp_wmem", numbers(3, 1, I32)),
    ("net.ipv4.tcp_max_orphans", INT),
    ("net.ipv4.tcp_max_tw_buckets", INT),
    ("net.ipv4.tcp_max_syn_backlog", INT),
    ("net.ipv4.tcp_syncookies", BYTE),
    ("net.ipv4.tcp_syn_linear_timeouts", range(0, 127)),
    ("vm.swappiness", range(0, 200)),
    ("vm.zone_reclaim_mode", COUNT),
    ("vm.overcommit_memory", THREE),
    ("vm.overcommit_ratio", INT),
    ("vm.min_free_kbytes", COUNT),
    ("vm.watermark_scale_factor", range(1, 3_000)),
    ("vm.watermark_boost_factor", COUNT),
    ("vm.dirty_ratio", PER_CENT),
    ("vm.dirty_background_ratio", PER_CENT),
    ("vm.dirty_expire_centisecs", COUNT),
    ("vm.dirty_writeback_centisecs", INT),
    ("vm.stat_interval", SECONDS),
    ("vm.max_map_count", COUNT),
    ("vm.vfs_cache_pressure", COUNT),
    ("vm.nr_hugepages", LONG),
    ("vm.nr_overcommit_hugepages", LONG),
    ("vm.compaction_proactiveness", PER_CENT),
    ("vm.compact_unevictable_allowed", SWITCH),
    ("vm.page-cluster", range(0, 31)),
    ("vm.numa_stat", SWITCH),
    ("vm.laptop_mode", SECONDS),
    ("vm.panic_on_oom", THREE),
    ("vm.oom_kill_allocating_task", INT),
    ("vm.percpu_pagelist_high_fraction", Shape::ZeroOr(8)),
    ("vm.drop_caches", range(1, 4)),
    ("vm.hugetlb_optimize_vmemmap", SWITCH),
    ("vm.unprivileged_userfaultfd", SWITCH),
    ("fs.file-max", range(0, I64)),
    ("fs.nr_open", range(64, 0x7fff_ffc0)),
    ("fs.aio-max-nr", LONG),
    ("fs.inotify.max_user_watches", COUNT),
    ("fs.inotify.max_user_instances", COUNT),
    ("fs.epoll.max_user_watches", range(0, I64)),
    ("fs.suid_dumpable", THREE),
    ("fs.pipe-max-size", Shape::Pipe),
    ("fs.protected_symlinks", SWITCH),
    ("kernel.sched_rt_runtime_us", range(-1, I32)),
    ("kernel.sched_rt_period_us", FROM_1),
    ("kernel.timer_migration", SWITCH),
    ("kernel.numa_balancing", range(0, 4)),
    ("kernel.nmi_watchdog", SWITCH),
    ("kernel.watchdog", SWITCH),
    ("kernel.watchdog_cpumask", Shape::Cores),
    ("kernel.watchdog_thresh", range(0, 60)),
    ("kernel.softlockup_panic", SWITCH),
    ("kernel.hung_task_timeout_secs", range(0, I64 / 250)),
    ("kernel.hung_task_panic", SWITCH),
    ("kernel.sched_autogroup_enabled", SWITCH),
    ("kernel.sched_cfs_bandwidth_slice_us", FROM_1),
    ("kernel.sched_min_granularity_ns", UNSIGNED),
    ("kernel.sched_wakeup_granularity_ns", UNSIGNED),
    ("kernel.sched_migration_cost_ns", UNSIGNED),
    ("kernel.sched_latency_ns", UNSIGNED),
    ("kernel.sched_schedstats", SWITCH),
    ("kernel.task_delayacct", SWITCH),
    ("kernel.bpf_stats_enabled", SWITCH),
    ("kernel.ftrace_enabled", INT),
    ("kernel.perf_event_paranoid", INT),
    ("kernel.perf_cpu_time_max_percent", PER_CENT),
    ("kernel.kptr_restrict", THREE),
    ("kernel.randomize_va_space", INT),
    ("kernel.unprivileged_bpf_disabled", THREE),
    ("kernel.io_uring_disabled", THREE),
    ("kernel.split_lock_mitigate", SWITCH),
    ("kernel.pid_max", range(301, 4_194_304)),
    ("kernel.threads-max", range(1, 0x3fff_ffff)),
    ("kernel.sysrq", INT),
    ("kernel.core_uses_pid", INT),
    ("kernel.msgmnb", COUNT),
    ("kernel.msgmax", COUNT),
    ("kernel.msgmni", range(0, 32_768)),
    ("kernel.sem", Shape::Semaphores),
    ("kernel.shmmax", LONG),
    ("kernel.shmall", LONG),
    ("kernel.shmmni", range(0, 32_768)),
    ("kernel.panic", INT),
    ("kernel.printk", numbers(4, -I32 - 1, I32)),
];

/// What a sysctl takes: as the catalogue knows it, else as its value in force
/// looks; `None` where neither tells.
pub(crate) fn shape(key: &str, evidence: &Evidence) -> Option<Shape> {
    if let Some((_, shape)) = SHAPES.iter().find(|(name, _)| *name == key) {
        return Some(of_kernel(key, *shape, evidence));
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let of_an_interface = key.starts_with("net.ipv4.conf.") || key.starts_with("net.ipv6.conf.");
    if of_an_interface && (OF_INTERFACES.contains(&last) || last.starts_with("arp_") || last == "disable_ipv6") {
        return Some(INT);
    }
    let words: Vec<&str> = evidence.get(&sysctl_path(key))?.split_whitespace().collect();
    let is_number = |word: &&str| word.parse::<i128>().is_ok();
    (!words.is_empty() && words.iter().all(is_number)).then(|| numbers(words.len(), -I64 - 1, U64))
}

/// What differs from the table: bytes were integers before Linux 5.13, and
/// ports begin where the machine has it.
fn of_kernel(key: &str, shape: Shape, evidence: &Evidence) -> Shape {
    match shape {
        Shape::Integers { most: 1, low: 0.., high: ..=255 }
            if key.starts_with("net.ipv4.") && evidence.kernel().is_some_and(|kernel| kernel < Kernel(5, 13)) =>
        {
            INT
        }
        Shape::Integers { most, high, .. } if key == "net.ipv4.ipfrag_high_thresh" => {
            let low = evidence.sysctl_number("net.ipv4.ipfrag_low_thresh").unwrap_or(0);
            Shape::Integers { most, low: i128::from(low), high }
        }
        // Accurate ECN came with values of its own.
        Shape::Integers { most, low, .. }
            if key == "net.ipv4.tcp_ecn" && evidence.kernel().is_some_and(|kernel| kernel < Kernel(6, 19)) =>
        {
            Shape::Integers { most, low, high: 2 }
        }
        // Of the two the kernel looks at the other one as well.
        Shape::Integers { most, low, .. } if key == "kernel.sched_rt_runtime_us" => {
            let period = evidence.sysctl_number("kernel.sched_rt_period_us").unwrap_or(1_000_000);
            Shape::Integers { most, low, high: i128::from(period) }
        }
        Shape::Integers { most, low, high } if key == "kernel.sched_rt_period_us" => {
            let runtime = evidence.sysctl_number("kernel.sched_rt_runtime_us").map_or(low, i128::from);
            Shape::Integers { most, low: low.max(runtime), high }
        }
        Shape::Ports(lowest) => {
            Shape::Ports(evidence.sysctl_number("net.ipv4.ip_unprivileged_port_start").unwrap_or(lowest))
        }
        shape => shape,
    }
}

/// Every sysctl whose shape the catalogue knows.
#[cfg(test)]
pub(crate) fn known() -> impl Iterator<Item = (&'static str, Shape)> {
    SHAPES.iter().copied()
}
