//! What makes a low-latency node of OpenShift: PerformanceProfile,
//! KubeletConfig, MachineConfig, Tuned, and what articles put beside them.

use crate::advice::{Setting, quantity};
use crate::evidence::cpu_list;
use crate::rule::{Area, Judge, Probe, Rule, Verdict};
use crate::{Case, Finding};

use Judge::By;
use Verdict::{Conflicts, Dangerous, Improvable, NoEffect, Removed, Unnecessary, WorseThanDefault};

const OPERATOR: &str = "OpenShift, Scalability and performance: PerformanceProfile (performance.openshift.io/v2)";
const KUBELET: &str = "Kubernetes, KubeletConfiguration (kubelet.config.k8s.io/v1beta1)";
const IGNITION: &str = "Ignition, Configuration Specification v3.2.0";
const CLUSTER: &str = "OpenShift, operators' configuration (operator.openshift.io/v1, cluster-monitoring-config)";

const fn rule(source: &'static str, key: &'static str, judge: fn(&Case<'_>) -> Finding, explain: &'static str) -> Rule {
    let rule = Rule::sysctl(Area::Services, key, By(judge), explain).source(source).undo("leave it out");
    Rule { probe: Probe::Advice, ..rule }
}

pub(super) const RULES: &[Rule] = &[
    rule(
        OPERATOR,
        "PerformanceProfile cpu.isolated",
        isolated,
        "Cores for pods that get whole cores: no RCU callbacks, no managed interrupts, no tick (nohz_full), and what \
         pods ask for besides. With cpu.reserved they are all cores, none is in both, and siblings are on one side.",
    )
    .gain("no other program on polling cores"),
    rule(
        OPERATOR,
        "PerformanceProfile cpu.reserved",
        reserved,
        "Cores for the kernel, the kubelet, CRI-O and the cluster's own pods; of each domain some, so that \
            interrupts \
         and memory stay near.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile cpu.offlined",
        |_| Finding::ok("switched off altogether"),
        "Cores that \
        are switched off: their siblings have the core for themselves.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile cpu.shared",
        |_| {
            Finding::ok(
                "for what pods ask for by \
        workload.openshift.io/enable-shared-cpus",
            )
        },
        "Cores that pods with whole cores share for their lighter \
        threads; from 4.15 on.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile cpu.balanceIsolated",
        |case| match case.value {
            "false" => Finding::ok(
                "isolcpus=domain: every thread must be pinned by its program, at boot and \
                for good",
            ),
            _ => Finding::ok("balanced, but for pods that ask otherwise by cpu-load-balancing.crio.io"),
        },
        "Whether the scheduler moves threads among isolated cores. false is for the whole node; the annotation \
         cpu-load-balancing.crio.io for a pod.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile globallyDisableIrqLoadBalancing",
        |case| match case.value {
            "true" => Finding::ok(
                "no device interrupts on isolated cores; irq-load-balancing.crio.io has \
                nothing left to do",
            ),
            _ => Finding::ok(
                "isolated cores take interrupts, but for pods that ask otherwise by \
                irq-load-balancing.crio.io",
            ),
        },
        "Whether device interrupts keep off all isolated cores, or off those of pods that ask.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile net.userLevelNetworking",
        |case| match case.value {
            "true" => Finding::ok(
                "as many queues as reserved cores: fewer interrupts, and less for the \
                kernel's own network",
            ),
            _ => Finding::ok("queues as the driver makes them"),
        },
        "Sets each interface's queues to the number of reserved cores.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile hugepages.defaultHugepagesSize",
        |case| match case.value {
            "1G" => Finding::ok(
                "programs that name no size get 1 GB; on kernels as old as 4.18 the pool of 2 \
                MB is then gone",
            ),
            "2M" => Finding::ok("is the kernel's own default on x86"),
            _ => Finding::ok("a size of arm64"),
        },
        "The size that mmap and a mount of hugetlbfs get that name none.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile hugepages.pages",
        pages,
        "Pages set aside at boot, by size, and by \
        domain with node. Without node they are divided evenly among domains.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile realTimeKernel.enabled",
        |case| match case.value {
            "true" => Finding::ok(
                "PREEMPT_RT: bounded wake-ups; throughput over kernel sockets falls, \
                busy_poll is not for it",
            ),
            _ => Finding::ok("the usual kernel: right for a poller that makes no system calls"),
        },
        "Whether nodes get kernel-rt. A poller on isolated cores has little of it; what sleeps and wakes has.",
    )
    .risk("less throughput over kernel sockets"),
    rule(
        OPERATOR,
        "PerformanceProfile numa.topologyPolicy",
        |case| match case.value {
            "single-numa-node" => Finding::ok(
                "cores, pages and devices of a pod are of one domain, or it is \
                not admitted",
            ),
            "restricted" => Finding::ok("what cannot be aligned is not admitted"),
            _ => Finding::new(
                Improvable,
                "a pod may get cores of one domain and a port of \
                another",
            )
            .want("single-numa-node"),
        },
        "What the kubelet's topology manager does with a pod whose resources do not fit one domain.",
    )
    .gain("no memory accesses across domains"),
    rule(
        OPERATOR,
        "PerformanceProfile workloadHints.realTime",
        |case| match case.value {
            "true" => Finding::ok(
                "the operator writes nosoftlockup, nmi_watchdog=0, rcutree.kthread_prio=11 and starts stalld by \
                    itself; it \
                 also writes mce=off, which no later argument takes back: all machine checks are off",
            ),
            _ => Finding::ok("neither those arguments nor stalld"),
        },
        "Arguments and services for real-time threads.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile workloadHints.highPowerConsumption",
        |case| match case.value {
            "true"
                if case.advised(
                    "PerformanceProfile \
                workloadHints.perPodPowerManagement",
                ) == Some("true") =>
            {
                Finding::new(
                    Conflicts,
                    "workloadHints.perPodPowerManagement=true: the operator refuses the two together",
                )
            }
            "true" => Finding::new(
                Improvable,
                "processor.max_cstate=1, and with realTime idle=poll on every core: heat, and no turbo for \
                    polling ones",
            )
            .want("false"),
            _ => Finding::ok("idle cores may sleep; pods ask otherwise by cpu-c-states.crio.io"),
        },
        "Whether no core of the node may sleep.",
    )
    .risk("power; less turbo"),
    rule(
        OPERATOR,
        "PerformanceProfile workloadHints.perPodPowerManagement",
        |case| match case.value {
            "true" => Finding::ok("pods choose by cpu-c-states.crio.io and cpu-freq-governor.crio.io"),
            _ => Finding::ok("one setting for all cores"),
        },
        "Whether pods choose idle states and governor; from 4.12 on.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile nodeSelector",
        |_| {
            Finding::ok(
                "the pool of machines that gets all this; \
        each restarts",
            )
        },
        "Which machines it is for.",
    ),
    rule(
        KUBELET,
        "KubeletConfig cpuManagerPolicy",
        |case| match case.value {
            "static" => by_the_operator(case).unwrap_or_else(|| {
                Finding::ok(
                    "whole cores for Guaranteed pods \
                that ask for whole ones",
                )
            }),
            _ => Finding::new(WorseThanDefault, "no pod gets a core for itself").want("static"),
        },
        "static gives Guaranteed pods with whole cores these for themselves.",
    )
    .gain("no other pod on a poller's core"),
    rule(
        KUBELET,
        "KubeletConfig cpuManagerPolicyOptions.full-pcpus-only",
        |case| match case.value {
            "true" => Finding::ok(
                "both siblings of a core go to one pod; pods with an odd number are not \
                admitted on SMT",
            ),
            _ => Finding::new(Improvable, "another pod's thread may be the sibling").want("true"),
        },
        "Whether pods get whole cores with both siblings.",
    ),
    rule(
        KUBELET,
        "KubeletConfig cpuManagerReconcilePeriod",
        |case| {
            by_the_operator(case).unwrap_or_else(|| {
                Finding::ok(
                    "how soon a cpuset that somebody changed is \
            put right",
                )
            })
        },
        "How often the kubelet writes cpusets anew: 10 s by default; the operator has 5 s.",
    ),
    rule(
        KUBELET,
        "KubeletConfig topologyManagerPolicy",
        |case| match case.value {
            "single-numa-node" | "restricted" => by_the_operator(case).unwrap_or_else(|| {
                Finding::ok(
                    "what \
                cannot be aligned is not admitted",
                )
            }),
            _ => Finding::new(
                Improvable,
                "a pod may get cores of one domain and a port of \
                another",
            )
            .want("single-numa-node"),
        },
        "Whether a pod's cores, memory and devices are of one domain.",
    ),
    rule(
        KUBELET,
        "KubeletConfig memoryManagerPolicy",
        |case| match case.value {
            "Static" if case.others.iter().any(|other| other.key.starts_with("KubeletConfig reservedMemory")) => {
                Finding::ok("memory and huge pages of Guaranteed pods are of their cores' domain")
            }
            "Static" => Finding::new(Conflicts, "without reservedMemory the kubelet does not start with it"),
            _ => Finding::new(Improvable, "pages may come from another domain than the cores").want("Static"),
        },
        "Whether Guaranteed pods' memory is of one domain. Reserved memory must be what kubeReserved, \
            systemReserved and \
         evictionHard add up to.",
    ),
    rule(
        KUBELET,
        "KubeletConfig reservedSystemCPUs",
        |case| match case.advised("PerformanceProfile cpu.reserved") {
            Some(reserved) if cpu_list(reserved) != cpu_list(case.value) => {
                Finding::new(Conflicts, format!("the PerformanceProfile reserves {reserved}"))
            }
            _ => by_the_operator(case).unwrap_or_else(|| {
                Finding::ok(
                    "never given to a pod that asks for whole \
                cores",
                )
            }),
        },
        "Cores that the kubelet gives no pod for itself.",
    ),
    rule(
        KUBELET,
        "KubeletConfig machineConfigPoolSelector",
        |case| match case.advised("PerformanceProfile nodeSelector") {
            Some(role) if case.value.contains(role) => Finding::new(
                Conflicts,
                "the PerformanceProfile of this pool has a KubeletConfig of its own: of two, one overwrites the \
                    other. \
                 Annotate the profile with kubeletconfig.experimental instead",
            ),
            _ => Finding::ok("one KubeletConfig for a pool"),
        },
        "The pool that it is for. A pool takes one KubeletConfig; the PerformanceProfile makes it.",
    ),
    rule(
        IGNITION,
        "MachineConfig filesystem",
        |_| {
            Finding::new(
                Removed,
                "Ignition 3 has no filesystem in a file: under strict validation the whole \
            MachineConfig is refused",
            )
        },
        "The filesystem of a file, by name: of Ignition 2 only.",
    ),
    rule(
        IGNITION,
        "MachineConfig charset",
        |case| match case.value.trim_matches('"').to_ascii_lowercase().as_str() {
            "utf-8" | "us-ascii" => Finding::ok("a registered name; Ignition goes by the bytes anyway"),
            "utf8" => Finding::new(
                Improvable,
                "utf8 is no registered name of a charset (utf-8 is); Ignition \
                goes by the bytes, others refuse it",
            )
            .want("utf-8"),
            _ => Finding::new(
                Improvable,
                "Ignition writes the bytes as they are, whatever charset is \
                named",
            )
            .want("utf-8"),
        },
        "The charset that a data: URL names (RFC 2397; RFC 3629 section 8).",
    ),
    rule(
        IGNITION,
        "MachineConfig mode",
        |case| match case.value {
            "420" | "0644" | "0o644" => Finding::ok("rw-r--r--"),
            "384" | "0600" | "0o600" => Finding::ok("rw-------"),
            "493" | "0755" | "0o755" => Finding::ok("rwxr-xr-x"),
            "644" | "755" | "600" | "700" => Finding::new(
                WorseThanDefault,
                "is taken as a decimal number, and is quite another mode then: 644 is 1204 in octal",
            )
            .want(format!("0{}", case.value)),
            _ => Finding::ok("an unusual mode"),
        },
        "A file's permissions: a decimal number in JSON, or octal with a leading zero in YAML.",
    ),
    rule(
        IGNITION,
        "MachineConfig config.ignition.version",
        |case| match case.value.split('.').next() {
            Some("3") => Finding::ok("the version that MachineConfigs have from 4.6 on"),
            Some("2") => Finding::new(Removed, "of OpenShift before 4.6").want("3.2.0"),
            _ => Finding::new(Removed, "no version that the operator reads").want("3.2.0"),
        },
        "The version of Ignition's configuration.",
    ),
    rule(
        IGNITION,
        "MachineConfig kernelType",
        |case| match (case.value, case.advised("PerformanceProfile realTimeKernel.enabled")) {
            ("realtime", Some("true")) => Finding::new(
                Unnecessary,
                "the PerformanceProfile does it by \
                realTimeKernel.enabled",
            ),
            ("realtime", _) => Finding::ok("PREEMPT_RT"),
            _ => Finding::ok("the usual kernel"),
        },
        "default, or realtime for kernel-rt.",
    ),
    rule(
        OPERATOR,
        "workload partitioning",
        |case| match case.advised("PerformanceProfile cpu.reserved") {
            Some(reserved) if cpu_list(reserved) != cpu_list(case.value) => Finding::new(
                Conflicts,
                format!(
                    "the PerformanceProfile reserves {reserved}: the cluster's own pods would run on other \
                    cores"
                ),
            ),
            _ => Finding::ok(
                "the cluster's own pods are on the reserved cores. From 4.13 on cpuPartitioningMode: AllNodes of the \
                 install configuration writes it, and only at installation",
            ),
        },
        "Keeps the cluster's own pods on reserved cores: CRI-O's workloads and the kubelet's \
            openshift-workload-pinning, \
         which must name the same set.",
    )
    .gain("isolated cores without the platform's pods"),
    rule(
        OPERATOR,
        "OPENSHIFT_MAX_HOUSEKEEPING_INTERVAL_DURATION",
        |_| Finding::ok("the kubelet looks at containers less often"),
        "How seldom the kubelet's housekeeping may run; of containers' statistics, 15 s by default.",
    ),
    rule(
        OPERATOR,
        "OPENSHIFT_EVICTION_MONITORING_PERIOD_DURATION",
        |_| Finding::ok("the kubelet looks for shortages less often; it finds them later, too"),
        "How often the kubelet looks whether memory or disk runs short; 10 s by default.",
    )
    .risk("memory that runs out is found later"),
    rule(
        OPERATOR,
        "kubelet housekeeping-interval",
        |_| Finding::ok("statistics of containers are read less often"),
        "How often the kubelet's cAdvisor reads statistics; 10 s by default.",
    ),
    rule(
        OPERATOR,
        "RuntimeClass handler",
        |case| match case.value {
            "high-performance" => Finding::ok("CRI-O's handler that acts upon the annotations"),
            _ => Finding::ok("another handler: the annotations of low latency do nothing with it"),
        },
        "The handler of CRI-O that pods run under.",
    ),
    rule(
        OPERATOR,
        "tuned cmdline_crash",
        |case| match case.value.contains("nohz_full") {
            true => Finding::new(
                Unnecessary,
                "an old trick, to get nohz_full past an operator that did not write it; it does with realTime, \
                    and for all \
                 from 5.2 on",
            ),
            false => Finding::new(Unnecessary, "a variable of old profiles; additionalKernelArgs is the place"),
        },
        "A variable of tuned's bootloader section by which articles add arguments.",
    ),
    rule(
        OPERATOR,
        "tuned include",
        |case| match case.value.strip_prefix("openshift-node-performance-") {
            Some(_) => Finding::ok(
                "on top of what the operator makes of the PerformanceProfile; its name must \
                be that profile's",
            ),
            None => Finding::ok("on top of that profile"),
        },
        "The profile that this one is on top of.",
    ),
    rule(
        "man 8 tuned-adm",
        "tuned profile",
        |_| Finding::ok("nearside node audit --of its tuned.conf judges what it sets"),
        "The profile that tuned is told to apply.",
    ),
    rule(
        "man 8 chronyd; man 8 ptp4l",
        "service chronyd",
        chronyd,
        "The clock's service. Without it and without \
        PTP the clock drifts by seconds a day: certificates, leases and logs of the cluster depend on it.",
    )
    .risk("the clock drifts"),
    rule(
        "man 8 stalld",
        "service stalld",
        |case| match operator(case) && case.value.starts_with("start") {
            true => Finding::new(Unnecessary, "the operator starts it by itself with workloadHints.realTime"),
            false => Finding::ok("boosts threads that a spinning real-time thread starves"),
        },
        "Gives threads that starve some microseconds; a FIFO thread that spins then cannot stop the machine.",
    ),
    rule(
        "man 1 irqbalance",
        "service irqbalance",
        |case| match case.value.contains("stop") || case.value.contains("disable") || case.value.contains("mask") {
            true => Finding::ok("interrupts stay where they are: somebody must place them"),
            false => Finding::ok("keeps off isolated cores by itself"),
        },
        "Moves interrupts among cores.",
    ),
    rule(
        "man 1 chrt; Linux Documentation/scheduler/sched-rt-group.rst",
        "chrt",
        chrt,
        "A real-time priority \
        for a thread. A poller never gives its core up, so everything else of that core starves.",
    )
    .risk("a core on which nothing else runs any more"),
    rule(
        "Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max",
        "throttling, where it is read",
        |_| {
            Finding::new(
            Removed,
            "a file of cgroup v1; OpenShift has v2 since 4.14, where cpu.max has the quota (max: none) and cpu.stat \
             nr_throttled",
        )
        .want("cat /sys/fs/cgroup/…/cpu.max and cpu.stat")
        },
        "Whether a pod's quota stops it: cpu.cfs_quota_us in cgroup v1, cpu.max in v2.",
    ),
    laboratory(
        "monitoring grafana.enabled",
        |case| off_for_a_laboratory(case.value == "false"),
        "Grafana of the cluster's monitoring; from 4.11 on there is none.",
    ),
    laboratory(
        "monitoring alertmanagerMain.enabled",
        |case| off_for_a_laboratory(case.value == "false"),
        "The service that tells people of alerts.",
    ),
    laboratory(
        "monitoring prometheusK8s.retention",
        |case| off_for_a_laboratory(!case.value.ends_with('d')),
        "How long measurements are kept: 15 days by default.",
    ),
    laboratory(
        "Network disableNetworkDiagnostics",
        |case| off_for_a_laboratory(case.value == "true"),
        "Pods that try connections among nodes all the time.",
    ),
    laboratory(
        "Console managementState",
        |case| off_for_a_laboratory(case.value == "Removed"),
        "The cluster's console: Removed, or Managed.",
    ),
];

/// What articles switch off for a quiet laboratory.
const fn laboratory(key: &'static str, judge: fn(&Case<'_>) -> Finding, explain: &'static str) -> Rule {
    rule(CLUSTER, key, judge, explain).risk("failures that nobody is told of")
}

fn off_for_a_laboratory(off: bool) -> Finding {
    match off {
        true => Finding::new(
            WorseThanDefault,
            "for laboratories: on a cluster that serves, nobody sees or is told of failures; with workload \
                partitioning \
             it takes nothing from isolated cores",
        ),
        false => Finding::ok("as by default, or nearly"),
    }
}

/// Whether the set has a PerformanceProfile, and so the operator's own output.
fn operator(case: &Case<'_>) -> bool {
    case.others.iter().any(|other| other.key.starts_with("PerformanceProfile "))
}

fn by_the_operator(case: &Case<'_>) -> Option<Finding> {
    operator(case).then(|| Finding::new(Unnecessary, "the operator writes it by itself, from the PerformanceProfile"))
}

/// Arguments that the operator writes by itself, and where only for a hint.
const WRITTEN: &[(&str, Option<&str>)] = &[
    ("nohz", None),
    ("rcu_nocbs", None),
    ("isolcpus", None),
    ("nohz_full", None),
    ("skew_tick", None),
    ("iommu", None),
    ("intel_iommu", None),
    ("systemd.cpu_affinity", None),
    ("tuned.non_isolcpus", None),
    ("hugepages", None),
    ("hugepagesz", None),
    ("default_hugepagesz", None),
    ("nosoftlockup", Some("realTime")),
    ("nmi_watchdog", Some("realTime")),
    ("mce", Some("realTime")),
    ("tsc", Some("realTime")),
    ("rcutree.kthread_prio", Some("realTime")),
    ("processor.max_cstate", Some("highPowerConsumption")),
    ("intel_idle.max_cstate", Some("highPowerConsumption")),
    ("idle", Some("highPowerConsumption")),
];

/// What there is to say of a line that repeats what the operator writes.
pub(crate) fn repeated(settings: &[Setting], setting: &Setting) -> Option<String> {
    let off = |key: &str| settings.iter().any(|other| other.key == key && other.value == "false");
    let on = |key: &str| settings.iter().any(|other| other.key == key && other.value == "true");
    if !settings.iter().any(|other| other.key.starts_with("PerformanceProfile ")) {
        return None;
    }
    if setting.key == "kernel.timer_migration" {
        return Some("the operator writes kernel.timer_migration=1 itself".to_owned());
    }
    let name = setting.key.strip_prefix("cmdline ")?;
    let (_, hint) = WRITTEN.iter().find(|(written, _)| *written == name)?;
    let hint = match hint {
        // On unless it is turned off.
        Some("realTime") if off("PerformanceProfile workloadHints.realTime") => return None,
        Some("realTime") => ", unless workloadHints.realTime is false",
        Some(_) if on("PerformanceProfile workloadHints.highPowerConsumption") => "",
        Some(_) => ", where workloadHints.highPowerConsumption is true",
        None => "",
    };
    Some(format!("the operator writes {name} by itself{hint}"))
}

/// Whether cores are this machine's, as far as that can be told.
fn of_this_machine(case: &Case<'_>, cores: &[u32]) -> bool {
    let online = case.evidence.cores();
    !online.is_empty() && cores.iter().all(|core| online.contains(core))
}

/// Memory domains of the machine that a profile is for: this one, if its
/// cores are; else two, which servers of this kind have.
fn domains(case: &Case<'_>) -> u64 {
    let all: Vec<u32> = ["isolated", "reserved"]
        .iter()
        .filter_map(|side| cpu_list(case.advised(&format!("PerformanceProfile cpu.{side}"))?))
        .flatten()
        .collect();
    let nodes = case.evidence.names("sys/devices/system/node");
    let here =
        nodes.iter().filter(|name| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok())).count();
    match all.len() == case.evidence.cores().len() && of_this_machine(case, &all) && here > 0 {
        true => here as u64,
        false => 2,
    }
}

fn isolated(case: &Case<'_>) -> Finding {
    let Some(cores) = cpu_list(case.value) else {
        return Finding::new(Dangerous, "is no list of cores as 2-15,18-31");
    };
    if cores.is_empty() {
        return Finding::new(Improvable, "no core is isolated: then no profile is needed");
    }
    let Some(reserved) = case.of_same("PerformanceProfile cpu.reserved").and_then(cpu_list) else {
        return Finding::new(Conflicts, "cpu.reserved is missing: the operator refuses one without the other");
    };
    if let Some(both) = cores.iter().find(|core| reserved.contains(core)) {
        return Finding::new(Conflicts, format!("core {both} is reserved as well: the operator refuses that"));
    }
    for core in &cores {
        let path = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        let siblings = case.evidence.get(&path).and_then(cpu_list).unwrap_or_default();
        if let Some(other) = siblings.iter().find(|other| of_this_machine(case, &cores) && reserved.contains(other)) {
            return Finding::new(
                Improvable,
                format!(
                    "core {core} and its sibling {other} are on two sides: the kernel's work there slows the poller"
                ),
            );
        }
    }
    match case.evidence.cores().iter().find(|core| !cores.contains(core) && !reserved.contains(core)) {
        Some(none) if of_this_machine(case, &cores) && case.of_same("PerformanceProfile cpu.offlined").is_none() => {
            Finding::new(Improvable, format!("core {none} of this machine is in neither set"))
        }
        _ => Finding::ok(format!("{} cores for pods, {} for everything else", cores.len(), reserved.len())),
    }
}

fn reserved(case: &Case<'_>) -> Finding {
    match cpu_list(case.value) {
        Some(cores) if cores.is_empty() => Finding::new(Dangerous, "no core is left for the kernel and the kubelet"),
        Some(cores) if cores.len() < 2 => {
            Finding::new(Improvable, "one thread for the kernel, the kubelet and CRI-O").want("2 to 4 a domain")
        }
        Some(cores) => Finding::ok(format!("{} cores for everything that is no pod with whole cores", cores.len())),
        None => Finding::new(Dangerous, "is no list of cores as 0-1,16-17"),
    }
}

/// Size, number and domain of `1G:20@0`.
fn parts(value: &str) -> Option<(&str, u64, Option<&str>)> {
    let (size, rest) = value.split_once(':')?;
    let (count, domain) = rest.split_once('@').map_or((rest, None), |(count, domain)| (count, Some(domain)));
    Some((size, count.parse().ok()?, domain))
}

fn pages(case: &Case<'_>) -> Finding {
    let Some((size, count, domain)) = parts(case.value) else {
        return Finding::new(Dangerous, "is no number of pages");
    };
    let domains = domains(case);
    match domain {
        Some(domain) => Finding::ok(format!("{count} pages of {size} on domain {domain}")),
        None if domains > 1 && !count.is_multiple_of(domains) => Finding::new(
            Improvable,
            format!("{count} pages of {size} cannot be divided evenly among {domains} domains: name them by node"),
        ),
        None if domains > 1 => {
            Finding::ok(format!("{count} pages of {size}: {} on each of {domains} domains", count / domains))
        }
        None => Finding::ok(format!("{count} pages of {size}")),
    }
}

/// What a pod may have of a size of pages: in all, and of one domain.
pub(super) fn pages_for(case: &Case<'_>, size: &str) -> Option<(u64, u64)> {
    let domains = domains(case);
    let profile = case.others.iter().filter(|other| other.key == "PerformanceProfile hugepages.pages");
    let of_size =
        profile.filter_map(|other| parts(&other.value)).filter(|(other, ..)| quantity_of_page(other) == quantity(size));
    let (mut all, mut even, mut named) = (0_u64, 0_u64, 0_u64);
    let mut any = false;
    for (_, count, domain) in of_size {
        any = true;
        all = all.saturating_add(count);
        match domain {
            Some(_) => named = named.max(count),
            None => even = even.saturating_add(count / domains),
        }
    }
    any.then_some((all, even.saturating_add(named)))
}

/// Bytes, in thousandths, of `1G` as the operator writes it: powers of two.
fn quantity_of_page(size: &str) -> Option<u64> {
    quantity(&format!("{size}i"))
}

fn chronyd(case: &Case<'_>) -> Finding {
    if !case.value.contains("stop") && !case.value.contains("disable") && !case.value.contains("mask") {
        return Finding::ok("runs: the clock is right");
    }
    let ptp = case.others.iter().any(|other| other.value == "PtpConfig" || other.key.starts_with("service ptp4l"));
    match ptp || case.evidence.runs("ptp4l") {
        true => Finding::ok("PTP disciplines the clock instead"),
        false => {
            Finding::new(WorseThanDefault, "nothing sets the clock any more: no PTP is in its place, so it drifts")
                .want("leave it, or PTP in its place")
        }
    }
}

fn chrt(case: &Case<'_>) -> Finding {
    let Some(priority) = case.value.strip_prefix("fifo:").and_then(|text| text.parse::<u64>().ok()) else {
        return Finding::new(NoEffect, "is no priority");
    };
    let isolated =
        ["PerformanceProfile cpu.isolated", "cmdline isolcpus"].iter().any(|key| case.advised(key).is_some());
    if !isolated && case.evidence.isolated().is_empty() {
        return Finding::new(
            Dangerous,
            format!("a poller at FIFO:{priority} on a core that is not isolated stops everything else there"),
        );
    }
    let rcu = case.argument("rcutree.kthread_prio").and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    if priority >= rcu.max(1) {
        return Finding::new(
            Conflicts,
            format!(
                "RCU's threads are at FIFO:{}: below a poller at {priority} they do not run, and grace periods stall",
                rcu
            ),
        );
    }
    match case.other("kernel.sched_rt_runtime_us") {
        Some("-1") => {
            Finding::ok(format!("below RCU's FIFO:{rcu}; nothing throttles it, so nothing else runs there at all"))
        }
        _ => Finding::new(
            Improvable,
            format!(
                "below RCU's FIFO:{rcu}, on isolated cores; but it is throttled: 50 ms of each second \
                 (sched_rt_runtime_us 950000; from 6.12 on by a deadline server, and only where something else waits)"
            ),
        ),
    }
}
