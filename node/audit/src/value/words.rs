//! What everything but a sysctl takes: arguments of the kernel, fields of
//! manifests, directives of nginx, files of sysfs. A text that is no value of
//! them is said to be none, before any rule speaks of it.

/// What a setting takes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Words with commas between them, each beginning with one of these.
    Each(&'static [&'static str]),
    /// An integer.
    Number,
    /// Cores.
    Cores,
    /// The flags of `isolcpus`, and cores.
    FlaggedCores,
    /// Pages: a number, or `DOMAIN:NUMBER` with commas.
    Pages,
    /// Bytes: `2M`, `1G`.
    Size,
    /// A time of Go's: `5s`, `1m30s`.
    Duration,
    /// A time or size of nginx's, or `off`.
    Amount,
    /// A mode: `420`, `0644`, `0o644`.
    Mode,
    /// Names with numbers or on and off behind them, as ethtool takes them.
    Pairs,
    /// An argument that has no value.
    Bare,
    /// What systemctl and tuned do with a service.
    Act,
}

use Kind::{Act, Amount, Bare, Cores, Duration, Each, FlaggedCores, Mode, Number, OneOf, Pages, Pairs, Size};

const TRUTH: Kind = OneOf(&["true", "false"]);
const ON_OFF: Kind = OneOf(&["on", "off"]);
const SWITCH: Kind = OneOf(&["0", "1"]);

const ARGUMENTS: &[(&str, Kind)] = &[
    ("isolcpus", FlaggedCores),
    ("nohz_full", Cores),
    ("rcu_nocbs", Cores),
    ("irqaffinity", Cores),
    ("workqueue.unbound_cpus", Cores),
    ("systemd.cpu_affinity", Cores),
    ("nohz", ON_OFF),
    ("rcu_nocb_poll", Bare),
    ("nosoftlockup", Bare),
    ("mitigations", Each(&["off", "auto", "nosmt", "no_"])),
    (
        "mce",
        Each(&[
            "off",
            "ignore_ce",
            "no_",
            "bootlog",
            "nobootlog",
            "bios_",
            "recovery",
            "print_all",
            "dont_",
            "0",
            "1",
            "2",
            "3",
        ]),
    ),
    ("nmi_watchdog", Each(&["0", "1", "panic", "nopanic", "r"])),
    ("audit", OneOf(&["0", "1", "off", "on"])),
    ("selinux", SWITCH),
    ("skew_tick", SWITCH),
    ("tsc", OneOf(&["reliable", "noirqtime", "unstable", "nowatchdog", "recalibrate", "watchdog"])),
    (
        "iommu",
        Each(&[
            "off",
            "force",
            "noforce",
            "biomerge",
            "panic",
            "nopanic",
            "merge",
            "nomerge",
            "soft",
            "pt",
            "nopt",
            "fullflush",
            "allowdac",
            "nodac",
            "usedac",
            "calgary",
            "group_mf",
            "memaper",
            "noagp",
        ]),
    ),
    (
        "intel_iommu",
        Each(&["on", "off", "igfx_off", "forcedac", "strict", "sp_off", "sm_on", "sm_off", "tboot_noforce"]),
    ),
    ("default_hugepagesz", Size),
    ("hugepagesz", Size),
    ("hugepages", Pages),
    ("numa_balancing", OneOf(&["enable", "disable"])),
    ("nosmt", OneOf(&["nosmt", "force"])),
    ("pti", OneOf(&["on", "off", "auto"])),
    ("spectre_v2", Each(&["on", "off", "auto", "retpoline", "eibrs", "ibrs"])),
    ("pcie_aspm", OneOf(&["off", "force"])),
    ("rcupdate.rcu_expedited", SWITCH),
    ("rcupdate.rcu_normal", SWITCH),
    ("rcupdate.rcu_normal_after_boot", SWITCH),
    ("rcutree.kthread_prio", Number),
    ("processor.max_cstate", Number),
    ("intel_idle.max_cstate", Number),
    ("idle", OneOf(&["poll", "halt", "nomwait"])),
];

const OTHERS: &[(&str, Kind)] = &[
    ("PerformanceProfile cpu.balanceIsolated", TRUTH),
    ("PerformanceProfile globallyDisableIrqLoadBalancing", TRUTH),
    ("PerformanceProfile net.userLevelNetworking", TRUTH),
    ("PerformanceProfile realTimeKernel.enabled", TRUTH),
    ("PerformanceProfile workloadHints.realTime", TRUTH),
    ("PerformanceProfile workloadHints.highPowerConsumption", TRUTH),
    ("PerformanceProfile workloadHints.perPodPowerManagement", TRUTH),
    ("PerformanceProfile cpu.offlined", Cores),
    ("PerformanceProfile cpu.shared", Cores),
    ("PerformanceProfile hugepages.defaultHugepagesSize", Size),
    ("KubeletConfig cpuManagerPolicy", OneOf(&["none", "static"])),
    ("KubeletConfig cpuManagerPolicyOptions.full-pcpus-only", TRUTH),
    ("KubeletConfig cpuManagerReconcilePeriod", Duration),
    ("KubeletConfig topologyManagerPolicy", OneOf(&["none", "best-effort", "restricted", "single-numa-node"])),
    ("KubeletConfig memoryManagerPolicy", OneOf(&["None", "Static"])),
    ("KubeletConfig reservedSystemCPUs", Cores),
    ("MachineConfig mode", Mode),
    ("MachineConfig kernelType", OneOf(&["default", "realtime", "64k-pages", ""])),
    ("workload partitioning", Cores),
    ("OPENSHIFT_MAX_HOUSEKEEPING_INTERVAL_DURATION", Duration),
    ("OPENSHIFT_EVICTION_MONITORING_PERIOD_DURATION", Duration),
    ("kubelet housekeeping-interval", Duration),
    ("monitoring grafana.enabled", TRUTH),
    ("monitoring alertmanagerMain.enabled", TRUTH),
    ("Network disableNetworkDiagnostics", TRUTH),
    ("Console managementState", OneOf(&["Managed", "Removed", "Unmanaged", "Force"])),
    ("ethtool -G", Pairs),
    ("ethtool -C", Pairs),
    ("ethtool -L", Pairs),
    ("ethtool -K", Pairs),
    ("ethtool -A", Pairs),
    ("nginx worker_priority", Number),
    ("nginx multi_accept", ON_OFF),
    ("nginx accept_mutex", ON_OFF),
    ("nginx sendfile", ON_OFF),
    ("nginx tcp_nopush", ON_OFF),
    ("nginx tcp_nodelay", ON_OFF),
    ("nginx pcre_jit", ON_OFF),
    ("nginx reset_timedout_connection", ON_OFF),
    ("nginx aio", Each(&["on", "off", "threads"])),
    ("nginx directio", Amount),
    ("nginx timer_resolution", Amount),
    ("nginx keepalive_timeout", Amount),
    ("nginx keepalive_requests", Number),
    ("nginx worker_connections", Number),
    ("nginx worker_rlimit_nofile", Number),
    ("nginx listen reuseport", ON_OFF),
    ("nginx listen deferred", ON_OFF),
    ("nginx listen fastopen", Number),
    ("nginx listen backlog", Number),
    ("transparent_hugepage/enabled", OneOf(&["always", "madvise", "never"])),
    ("transparent_hugepage/defrag", OneOf(&["always", "defer", "defer+madvise", "madvise", "never"])),
    ("transparent_hugepage/khugepaged/defrag", SWITCH),
    ("ksm/run", OneOf(&["0", "1", "2"])),
    ("numa/demotion_enabled", OneOf(&["0", "1", "true", "false"])),
    ("normal RCU", SWITCH),
    ("SMT", OneOf(&["on", "off", "forceoff"])),
    ("nginx open_file_cache", Each(&["off", "max=", "inactive="])),
    ("nginx listen so_keepalive", Each(&["on", "off", ":", "1", "2", "3", "4", "5", "6", "7", "8", "9"])),
];

/// Why a text is no value of what has this key; `None` where it is one, or
/// where nothing is known of it.
pub(crate) fn no_value(key: &str, text: &str) -> Option<String> {
    let kind = match key.strip_prefix("cmdline ") {
        Some(name) => {
            // An argument without a value is written as its own name.
            let bare = text == name;
            let (_, kind) = ARGUMENTS.iter().find(|(known, _)| *known == name)?;
            match kind {
                Bare if bare => return None,
                Cores | OneOf(_) if bare && matches!(name, "rcu_nocbs" | "nosmt" | "audit") => return None,
                kind => kind,
            }
        }
        None if key.starts_with("service ") => &Act,
        None => &OTHERS.iter().find(|(known, _)| *known == key)?.1,
    };
    let why = || format!("{} is no value of it: {}", super::quoted(text), said(*kind));
    (!takes(*kind, text)).then(why)
}

fn takes(kind: Kind, text: &str) -> bool {
    match kind {
        OneOf(words) => words.contains(&text),
        Each(words) => {
            let known = |part: &str| words.iter().any(|word| part.starts_with(word));
            !text.is_empty() && text.split([',', ' ', ';']).all(|part| known(part.trim()))
        }
        Number => text.parse::<i64>().is_ok(),
        Cores => crate::cpu_list(&text.replace(' ', ",")).is_some() || text == "all",
        FlaggedCores => flagged_cores(text),
        Pages => {
            let number = |text: &str| text.parse::<u64>().is_ok();
            let by_domain = |part: &str| part.split_once(':').is_some_and(|(at, count)| number(at) && number(count));
            text.split(',').all(|part| number(part) || by_domain(part))
        }
        Size => amount(text, &["k", "m", "g", "t", "kb", "mb", "gb"]),
        Duration => duration(text),
        Amount => {
            let units = ["ms", "s", "m", "h", "d", "w", "k", "g"];
            text == "off" || !text.is_empty() && text.split(' ').all(|part| amount(part, &units))
        }
        Mode => {
            let digits = text.trim_start_matches("0o");
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        Pairs => pairs(text),
        Bare => false,
        Act => text.split([',', ' ']).any(|word| ACTS.iter().any(|act| word.trim().starts_with(act))),
    }
}

const ACTS: [&str; 9] = ["start", "stop", "enable", "disable", "mask", "unmask", "restart", "reload", "file:"];

/// What there is to write instead.
fn said(kind: Kind) -> String {
    let text = match kind {
        OneOf(words) => {
            return words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(", ");
        }
        Each(words) => return format!("{} and the like", words.join(", ")),
        Number => "a number",
        Cores => "cores as 2-15,18-31",
        FlaggedCores => "nohz, domain, managed_irq, and cores, with commas",
        Pages => "a number, or DOMAIN:NUMBER with commas",
        Size => "a size as 2M or 1G",
        Duration => "a time as 5s or 1m30s",
        Amount => "a number with its unit, or off",
        Mode => "a mode as 420 or 0644",
        Pairs => "names, each with a number, on or off",
        Bare => "it has none",
        Act => "start, stop, enable, disable, mask",
    };
    text.to_owned()
}

fn flagged_cores(text: &str) -> bool {
    let flag = |part: &&str| matches!(*part, "nohz" | "domain" | "managed_irq");
    let skipped: usize = text.split(',').take_while(flag).map(|flag| flag.len() + 1).sum();
    let rest = text.get(skipped..).unwrap_or_default();
    !rest.is_empty() && (rest == "all" || crate::cpu_list(rest).is_some_and(|cores| !cores.is_empty()))
}

/// Digits, and one of these units, in any case.
fn amount(text: &str, units: &[&str]) -> bool {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    !digits.is_empty() && (unit.is_empty() || units.contains(&unit.to_ascii_lowercase().as_str()))
}

/// `1m30s`, `500ms` (Go's `time.ParseDuration`).
fn duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
        let behind = rest.get(digits..).unwrap_or_default();
        let unit = behind.find(|char: char| char.is_ascii_digit()).unwrap_or(behind.len());
        if digits == 0 || !matches!(&behind[..unit], "ns" | "us" | "µs" | "ms" | "s" | "m" | "h") {
            return text == "0";
        }
        rest = &behind[unit..];
    }
    !text.is_empty()
}

fn pairs(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let value = |word: &str| matches!(word, "on" | "off") || word.parse::<u64>().is_ok();
    !words.is_empty() && words.chunks(2).all(|pair| matches!(pair, [_, word] if value(word)))
}
