//! Manifests for a cluster: what its version needs, and no more.

use crate::Rendered;
use crate::cores::list;
use crate::laboratory::laboratory;
use crate::pod::{POWER_BY_POD, pod};
use crate::text::Text;
use crate::wanted::{PageSize, Profile, Version};

/// Since when the cluster's own pods are kept on reserved cores by a line of
/// the install configuration.
const PARTITIONING_BY_INSTALLER: Version = Version(4, 14);
/// Since when the kubelet's mounts can be put in a namespace by a unit that
/// nodes have.
const MOUNT_NAMESPACE: Version = Version(4, 13);
/// Since when the operator writes nohz_full and skew_tick whatever the hints.
const TICKLESS_BY_OPERATOR: Version = Version(4, 23);
/// The version for which the set was published: its operator was another one.
const PUBLISHED: Version = Version(4, 10);

pub(crate) fn manifests(profile: &Profile) -> Vec<Rendered> {
    let wanted = &profile.wanted;
    let mut files = Vec::new();
    let mut add = |path: &str, what: &str, text: String| {
        files.push(Rendered { path: path.to_owned(), what: what.to_owned(), text });
    };
    if !["master", "worker"].contains(&wanted.pool.as_str()) {
        add(
            "00-machine-config-pool.yaml",
            "the pool of machines that gets the rest; label nodes for it",
            pool(profile),
        );
    }
    add(
        "10-performance-profile.yaml",
        "cores, pages, policies: the operator makes most of the rest of it",
        performance_profile(profile),
    );
    match wanted.version < PARTITIONING_BY_INSTALLER {
        true => add(
            "20-workload-partitioning.yaml",
            "the cluster's own pods on reserved cores",
            workload_partitioning(profile),
        ),
        false => add(
            "20-install-config-excerpt.txt",
            "the cluster's own pods on reserved cores: at installation",
            installer(),
        ),
    }
    if let Some(text) = tuned(profile) {
        add("30-tuned.yaml", "what the operator's own Tuned does not say", text);
    }
    add("40-kubelet-housekeeping.yaml", "the kubelet looks around less often", housekeeping(profile));
    if let Some(interface) = &wanted.sriov {
        add("50-sriov.yaml", "virtual functions for pods", sriov(profile, interface));
    }
    if let Some(interface) = &wanted.ptp {
        add("60-ptp.yaml", "the clock, by PTP", ptp(profile, interface));
    }
    add("90-pod-example.yaml", "a pod that gets all this", pod(profile));
    if wanted.laboratory {
        files.extend(laboratory(profile));
    }
    files
}

/// What of a set is no file, and why.
const NO_KUBELET_CONFIG: &str = "The operator makes a KubeletConfig and a RuntimeClass performance-NAME of this: \
    cpuManagerPolicy static with full-pcpus-only, memoryManagerPolicy Static, topology policy, reserved cores. \
    A second \
    KubeletConfig for the pool would be overwritten, or overwrite it.";

fn selector(text: &mut Text, profile: &Profile) {
    text.line("  nodeSelector:").line(format!("    node-role.kubernetes.io/{}: \"\"", profile.wanted.pool));
}

fn pool(profile: &Profile) -> String {
    let pool = &profile.wanted.pool;
    let mut text = Text::new();
    text.line("apiVersion: machineconfiguration.openshift.io/v1")
        .line("kind: MachineConfigPool")
        .line("metadata:")
        .line(format!("  name: {pool}"))
        .because("  labels:", "By this label the operator's own objects find the pool.")
        .line(format!("    machineconfiguration.openshift.io/role: {pool}"))
        .line("spec:")
        .because("  machineConfigSelector:", "What workers have, and what is for this pool.")
        .line("    matchExpressions:")
        .line("      - key: machineconfiguration.openshift.io/role")
        .line("        operator: In")
        .line(format!("        values: [worker, {pool}]"))
        .line("  nodeSelector:")
        .line("    matchLabels:")
        .line(format!("      node-role.kubernetes.io/{pool}: \"\""));
    text.done()
}

fn performance_profile(profile: &Profile) -> String {
    let wanted = &profile.wanted;
    let mut text = Text::new();
    text.comment("", NO_KUBELET_CONFIG)
        .line("apiVersion: performance.openshift.io/v2")
        .line("kind: PerformanceProfile")
        .line("metadata:")
        .line(format!("  name: {}", wanted.name))
        .line("spec:")
        .line("  cpu:")
        .because(
            format!("    isolated: \"{}\"", list(profile.isolated())),
            "For pods with whole cores: no RCU callbacks, managed interrupts or ticks. Siblings are on one side, and \
             with the reserved ones these are all cores.",
        )
        .because(
            format!("    reserved: \"{}\"", list(profile.reserved())),
            "For the kernel, the kubelet, CRI-O, interrupts and the cluster's own pods.",
        )
        .because(
            "  globallyDisableIrqLoadBalancing: false",
            "Interrupts keep off the cores of pods that ask for it by annotation, rather than off all isolated ones: \
             so queues of a busy port still have cores to go to.",
        );
    arguments(&mut text, profile);
    huge_pages(&mut text, profile);
    text.because(
        "  numa:",
        "Cores, pages and devices of a pod are of one domain, or it is not admitted: otherwise it would be slow for \
         reasons that nobody sees.",
    )
    .line("    topologyPolicy: single-numa-node")
    .line("  net:")
    .because(
        "    userLevelNetworking: true",
        "As many queues as reserved cores: no queue's interrupt has to go to an isolated one.",
    )
    .line("  realTimeKernel:")
    .because(
        format!("    enabled: {}", wanted.realtime_kernel),
        match wanted.realtime_kernel {
            true => "Bounded wake-ups for threads that sleep; throughput over kernel sockets falls.",
            false => "A poller never sleeps, so it has nothing of PREEMPT_RT, which costs throughput.",
        },
    );
    hints(&mut text, profile);
    selector(&mut text, profile);
    text.done()
}

/// Arguments that the operator does not write by itself.
fn arguments(text: &mut Text, profile: &Profile) {
    let extra = extra_arguments(profile);
    if extra.is_empty() {
        return;
    }
    text.line("  additionalKernelArgs:");
    for (argument, why) in extra {
        text.because(format!("    - \"{argument}\""), why);
    }
}

pub(crate) fn extra_arguments(profile: &Profile) -> Vec<(String, &'static str)> {
    let wanted = &profile.wanted;
    let mut extra: Vec<(String, &str)> = Vec::new();
    let mut add = |argument: String, why| extra.push((argument, why));
    if wanted.machine_checks {
        if wanted.version < TICKLESS_BY_OPERATOR {
            add(
                format!("nohz_full={}", list(profile.isolated())),
                "No tick where one thread runs alone. The operator writes it with its hint for real time only, which \
                 is off here for the sake of machine checks.",
            );
            add("skew_tick=1".to_owned(), "Ticks of cores one after another: less contention.");
        }
        add(
            "rcutree.kthread_prio=11".to_owned(),
            "RCU's threads rank above pollers at FIFO:2; below them they would not run, and grace periods would \
                stall.",
        );
        add(
            "nmi_watchdog=0".to_owned(),
            "No interrupt of the hardware watchdog; kernel.watchdog finds hangs of reserved cores.",
        );
        if profile.x86() {
            add(
                "mce=ignore_ce".to_owned(),
                "No interruptions for corrected errors; all other machine checks \
                stay on.",
            );
            if profile.shape.tsc == Some(true) {
                add(
                    "tsc=reliable".to_owned(),
                    "The TSC is the clock here, and is not compared with a slower one any more.",
                );
            }
        }
    }
    extra
}

fn huge_pages(text: &mut Text, profile: &Profile) {
    let Some(largest) = profile.sizes().first().copied() else { return };
    text.line("  hugepages:").because(
        format!("    defaultHugepagesSize: \"{}\"", largest.name()),
        match largest {
            PageSize::G1 => {
                "The size that programs get which name none; on kernels as old as 4.18 there are then none of 2 MB."
            }
            PageSize::M2 => "The size that programs get which name none.",
        },
    );
    text.comment(
        "    ",
        "By domain: a pod's pages are of one domain under single-numa-node, so what a domain has is what a pod \
            can have. \
         Those of a domain are set aside by a unit at boot, before the kubelet starts.",
    )
    .line("    pages:");
    for (size, domain, count) in &profile.pages {
        text.line(format!("      - size: \"{}\"", size.name())).line(format!("        count: {count}"));
        // On one domain there is nothing to divide, and the command line is
        // earlier than any unit.
        if profile.shape.domains.len() > 1 {
            text.line(format!("        node: {domain}"));
        }
    }
}

fn hints(text: &mut Text, profile: &Profile) {
    let wanted = &profile.wanted;
    text.line("  workloadHints:").because(
        format!("    realTime: {}", !wanted.machine_checks),
        match wanted.machine_checks {
            true => {
                "Off, because the operator writes mce=off with it, which turns ALL machine checks off: memory goes \
                     bad in silence. What else it stands for is written out above, and in the Tuned."
            }
            false => {
                "The operator then writes nosoftlockup, nmi_watchdog=0, rcutree.kthread_prio=11, tsc=reliable and \
                      starts stalld by itself. It also writes mce=off, which turns ALL machine checks off: \
                      render with \
                      --machine-checks to do without."
            }
        },
    );
    text.because(
        "    highPowerConsumption: false",
        "It would keep every core of the node awake (idle=poll): heat, and less turbo for those that poll.",
    );
    if wanted.version >= POWER_BY_POD {
        text.because(
            "    perPodPowerManagement: true",
            "Pods ask for shallow idle states by cpu-c-states.crio.io; the rest of the node may sleep.",
        );
    }
}

fn machine_config(text: &mut Text, profile: &Profile, name: &str) {
    text.line("apiVersion: machineconfiguration.openshift.io/v1")
        .line("kind: MachineConfig")
        .line("metadata:")
        .line(format!("  name: {name}"))
        .line("  labels:")
        .line(format!("    machineconfiguration.openshift.io/role: {}", profile.wanted.pool))
        .line("spec:")
        .line("  config:")
        .line("    ignition:")
        .line("      version: 3.2.0");
}

/// Two files that must name the same cores: CRI-O's and the kubelet's.
fn workload_partitioning(profile: &Profile) -> String {
    let cores = list(profile.reserved());
    let crio = format!(
        "[crio.runtime.workloads.management]\nactivation_annotation = \"target.workload.openshift.io/management\"\n\
         annotation_prefix = \"resources.workload.openshift.io\"\nresources = {{ \"cpushares\" = 0, \"cpuset\" \
         = \"{cores}\" }}\n"
    );
    let kubelet = format!("{{\n  \"management\": {{\n    \"cpuset\": \"{cores}\"\n  }}\n}}\n");
    let mut text = Text::new();
    text.comment(
        "",
        "Only at installation, of a single-node cluster: the cluster's own pods are admitted with it, or \
            without it for \
         good. The set is that of cpu.reserved, in both files.",
    );
    machine_config(&mut text, profile, &format!("02-{}-workload-partitioning", profile.wanted.pool));
    text.line("    storage:").line("      files:");
    for (path, content, why) in [
        ("/etc/crio/crio.conf.d/01-workload-partitioning", crio, "CRI-O puts pods of the kind \"management\" there."),
        ("/etc/kubernetes/openshift-workload-pinning", kubelet, "The kubelet counts their cores apart."),
    ] {
        text.because(format!("        - path: {path}"), why)
            .line("          overwrite: true")
            .line("          mode: 420");
        text.line("          contents:")
            .line(format!("            source: \"data:text/plain;charset=utf-8,{}\"", escaped(&content)));
    }
    text.done()
}

/// A text as part of a URL (RFC 3986 section 2.1): readable, unlike base64.
pub(crate) fn escaped(text: &str) -> String {
    let mut url = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'=' => {
                url.push(char::from(byte))
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

fn installer() -> String {
    let mut text = Text::new();
    text.comment(
        "",
        "A line of install-config.yaml: the cluster's own pods are kept on the reserved cores of each \
            PerformanceProfile. \
         It cannot be set later, nor taken back.",
    )
    .line("cpuPartitioningMode: AllNodes");
    text.done()
}

/// What the operator's own Tuned leaves open; `None` where that is nothing.
fn tuned(profile: &Profile) -> Option<String> {
    let wanted = &profile.wanted;
    let (mut services, mut sysctls, mut arguments) = (Text::new(), Text::new(), Text::new());
    if wanted.machine_checks {
        services.because(
            "      service.stalld=start,enable",
            "Gives threads that a FIFO poller starves some microseconds; the operator starts it with its hint \
                for real \
             time only.",
        );
        sysctls.because(
            "      vm.stat_interval=10",
            "Counters of memory are folded together every 10 s instead of every second, on each core.",
        );
        sysctls.because(
            "      kernel.hung_task_timeout_secs=600",
            "Threads behind a poller may wait long; the default of 120 s would fill the log.",
        );
    }
    if wanted.ptp.is_some() {
        services.because("      service.chronyd=stop,disable", "PTP sets the clock; two would fight over it.");
    }
    if wanted.version == PUBLISHED {
        sysctls.because(
            "      kernel.timer_migration=1",
            "Timers of idle cores may move to busy ones: pods come and go, and leave none behind.",
        );
        arguments.because(
            format!("      cmdline_crash=nohz_full={}", list(profile.isolated())),
            "No tick on isolated cores: before 4.11 the operator did not write it without a real-time kernel. Later \
             versions do, and need no such trick.",
        );
    }
    let mut body = String::new();
    for (section, lines) in [("service", services), ("sysctl", sysctls), ("bootloader", arguments)] {
        let lines = lines.done();
        if !lines.is_empty() {
            body.push_str(&format!("      [{section}]\n{lines}"));
        }
    }
    if body.is_empty() {
        return None;
    }
    let mut text = Text::new();
    let name = format!("performance-patch-{}", wanted.name);
    text.line("apiVersion: tuned.openshift.io/v1")
        .line("kind: Tuned")
        .line("metadata:")
        .line(format!("  name: {name}"))
        .line("  namespace: openshift-cluster-node-tuning-operator")
        .line("spec:")
        .line("  profile:")
        .line(format!("  - name: {name}"))
        .line("    data: |")
        .line("      [main]")
        .line("      summary=What the profile of low latency leaves open")
        .because(
            format!("      include=openshift-node-performance-{}", wanted.name),
            "On top of what the operator makes of the PerformanceProfile.",
        )
        .line(body.trim_end())
        .line("  recommend:")
        .line("  - machineConfigLabels:")
        .line(format!("      machineconfiguration.openshift.io/role: {}", wanted.pool))
        .because("    priority: 19", "Before the operator's own, which has 20: the lower number wins.")
        .line(format!("    profile: {name}"));
    Some(text.done())
}

fn housekeeping(profile: &Profile) -> String {
    let version = profile.wanted.version;
    let mut text = Text::new();
    if version < MOUNT_NAMESPACE {
        text.comment(
            "",
            "Before 4.13 nodes have no unit for a mount namespace of the kubelet: systemd goes through its \
                mounts again and \
             again, which costs reserved cores some per cent. What needs no script is here.",
        );
    }
    machine_config(&mut text, profile, &format!("99-{}-kubelet-housekeeping", profile.wanted.pool));
    text.line("    systemd:").line("      units:");
    if version >= MOUNT_NAMESPACE {
        text.because(
            "        - name: kubens.service",
            "The mounts of kubelet and CRI-O in a namespace of their own: systemd does not go through all of \
                them each \
             time a pod comes or goes.",
        )
        .line("          enabled: true");
    }
    text.line("        - name: kubelet.service")
        .line("          dropins:")
        .line("            - name: 30-housekeeping.conf")
        .line("              contents: |")
        .line("                [Service]")
        .because(
            "                Environment=\"OPENSHIFT_MAX_HOUSEKEEPING_INTERVAL_DURATION=60s\"",
            "Statistics of containers every 60 s at the latest, instead of 15 s.",
        )
        .because(
            "                Environment=\"OPENSHIFT_EVICTION_MONITORING_PERIOD_DURATION=30s\"",
            "Shortages are looked for every 30 s instead of 10 s; memory that runs out is found later, too.",
        );
    text.done()
}

fn sriov(profile: &Profile, interface: &str) -> String {
    let mut text = Text::new();
    text.line("apiVersion: sriovnetwork.openshift.io/v1")
        .line("kind: SriovNetworkNodePolicy")
        .line("metadata:")
        .line(format!("  name: {}", profile.wanted.name))
        .line("  namespace: openshift-sriov-network-operator")
        .line("spec:")
        .because("  resourceName: low_latency", "Pods ask for openshift.io/low_latency: 1.")
        .because("  numVfs: 8", "One for each pod, and some to spare: changing it restarts the interface.")
        .line("  nicSelector:")
        .line(format!("    pfNames: [\"{interface}\"]"))
        .because(
            "  deviceType: vfio-pci",
            "For pollers in user space; netdevice for the kernel's sockets (and for Mellanox's in both cases).",
        )
        .because("  isRdma: false", "Mellanox's virtual functions need true, with netdevice.");
    selector(&mut text, profile);
    text.line("---")
        .line("apiVersion: sriovnetwork.openshift.io/v1")
        .line("kind: SriovNetwork")
        .line("metadata:")
        .line(format!("  name: {}", profile.wanted.name))
        .line("  namespace: openshift-sriov-network-operator")
        .line("spec:")
        .line("  resourceName: low_latency")
        .because("  networkNamespace: default", "Where pods of this network are.")
        .because("  trust: \"on\"", "Needed for addresses of the pod's own choice.");
    text.done()
}

fn ptp(profile: &Profile, interface: &str) -> String {
    let pool = &profile.wanted.pool;
    let mut text = Text::new();
    text.line("apiVersion: ptp.openshift.io/v1")
        .line("kind: PtpConfig")
        .line("metadata:")
        .line(format!("  name: {}", profile.wanted.name))
        .line("  namespace: openshift-ptp")
        .line("spec:")
        .line("  profile:")
        .line("  - name: follower")
        .line(format!("    interface: {interface}"))
        .because("    ptp4lOpts: \"-2 -s\"", "Frames of Ethernet (IEEE 1588 annex F), and never the leader.")
        .because("    phc2sysOpts: \"-a -r\"", "The system's clock follows the interface's.")
        .because("    ptpSchedulingPolicy: SCHED_FIFO", "On reserved cores: a late follower is a wrong clock.")
        .because("    ptpSchedulingPriority: 10", "Below RCU's threads.")
        .line("  recommend:")
        .line("  - profile: follower")
        .line("    priority: 10")
        .line("    match:")
        .line(format!("    - nodeLabel: node-role.kubernetes.io/{pool}"));
    text.done()
}
