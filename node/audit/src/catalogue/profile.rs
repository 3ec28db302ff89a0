//! What makes a low-latency node of OpenShift: PerformanceProfile,
//! KubeletConfig, MachineConfig, Tuned, and what articles put beside them.

mod findings;

pub(super) use findings::pages_for;
pub(crate) use findings::repeated;

use crate::evidence::cpu_list;
use crate::rule::{Area, Judge, Probe, Rule, Verdict};
use crate::{Case, Finding};

use Judge::By;
use Verdict::{Conflicts, Improvable, Removed, Unnecessary, WorseThanDefault};
use findings::{
    by_the_operator, chronyd, chrt, filesystem, include, isolated, not_there, off_for_a_laboratory, operator, pages,
    reserved, retention, selector, set_of_cores, since,
};

const OPERATOR: &str = "OpenShift, Scalability and performance: PerformanceProfile (performance.openshift.io/v2)";
const KUBELET: &str = "Kubernetes, KubeletConfiguration (kubelet.config.k8s.io/v1beta1)";
const IGNITION: &str = "Ignition, Configuration Specification v3.2.0";
const CLUSTER: &str = "OpenShift, operators' configuration (operator.openshift.io/v1, cluster-monitoring-config)";

const fn rule(source: &'static str, key: &'static str, judge: fn(&Case<'_>) -> Finding, explain: &'static str) -> Rule {
    let rule = Rule::sysctl(Area::Services, key, By(judge), explain).source(source).undo("leave it out");
    Rule { probe: Probe::Advice, ..rule }
}

/// What articles switch off for a quiet laboratory.
const fn laboratory(key: &'static str, judge: fn(&Case<'_>) -> Finding, explain: &'static str) -> Rule {
    rule(CLUSTER, key, judge, explain).risk("failures that nobody is told of")
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
        |case| set_of_cores(case, "switched off altogether"),
        "Cores that \
        are switched off: their siblings have the core for themselves.",
    ),
    rule(
        OPERATOR,
        "PerformanceProfile cpu.shared",
        |case| {
            since(case, (4, 15)).unwrap_or_else(|| {
                set_of_cores(case, "for what pods ask for by workload.openshift.io/enable-shared-cpus")
            })
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
            "true" => since(case, (4, 12))
                .unwrap_or_else(|| Finding::ok("pods choose by cpu-c-states.crio.io and cpu-freq-governor.crio.io")),
            _ => Finding::ok("one setting for all cores"),
        },
        "Whether pods choose idle states and governor; from 4.12 on.",
    ),
    rule(OPERATOR, "PerformanceProfile nodeSelector", selector, "Which machines it is for."),
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
            _ if cpu_list(case.value).and_then(|cores| not_there(case, &cores)).is_some() => set_of_cores(case, ""),
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
    rule(IGNITION, "MachineConfig filesystem", filesystem, "The filesystem of a file, by name: of Ignition 2 only."),
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
            Some("2") if matches!(case.value, "2.0.0" | "2.1.0" | "2.2.0") => match case.evidence.cluster() {
                Some(version) if version < (4, 6) => Finding::ok("the version that MachineConfigs have before 4.6"),
                _ => Finding::ok("the machine-config operator reads it, and converts it to version 3"),
            },
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
    rule(OPERATOR, "tuned include", include, "The profile that this one is on top of."),
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
        |case| {
            match case.evidence.cluster() {
            Some(version) if version < (4, 14) => Finding::ok("the file of cgroup v1, which that version has"),
            _ => Finding::new(
            Removed,
            "a file of cgroup v1; OpenShift has v2 since 4.14, where cpu.max has the quota (max: none) and cpu.stat \
             nr_throttled",
        )
        .want("cat /sys/fs/cgroup/…/cpu.max and cpu.stat"),
        }
        },
        "Whether a pod's quota stops it: cpu.cfs_quota_us in cgroup v1, cpu.max in v2.",
    ),
    laboratory(
        "monitoring grafana.enabled",
        |case| match (case.value, case.evidence.cluster()) {
            (_, Some(version)) if version >= (4, 11) => {
                Finding::new(Removed, "there is no Grafana from 4.11 on: the key does nothing")
            }
            ("false", None) => {
                let finding = off_for_a_laboratory(true);
                Finding { why: format!("{}; from 4.11 on there is none to switch off", finding.why), ..finding }
            }
            (value, _) => off_for_a_laboratory(value == "false"),
        },
        "Grafana of the cluster's monitoring; from 4.11 on there is none.",
    ),
    laboratory(
        "monitoring alertmanagerMain.enabled",
        |case| off_for_a_laboratory(case.value == "false"),
        "The service that tells people of alerts.",
    ),
    laboratory("monitoring prometheusK8s.retention", retention, "How long measurements are kept: 15 days by default."),
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
