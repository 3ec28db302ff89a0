//! A set of manifests for a low-latency node as they were published, retold
//! as facts: which line says what, and what is not true of it.

use super::server;
use crate::advice::{Advice, parse, read};
use crate::{Report, Role, Verdict};
use crate::{judge, judge_lines};

/// Cores 2-15 and 18-31 of 32 for pollers, with the arguments that the
/// article adds to what the operator writes.
const PROFILE: &str = "\
apiVersion: performance.openshift.io/v2
kind: PerformanceProfile
metadata: {name: fast}
spec:
  additionalKernelArgs:
    - idle=poll
    - processor.max_cstate=1
    - intel_idle.max_cstate=0
    - nohz_full=2-15,18-31
    - nmi_watchdog=0
    - mce=off
    - audit=0
    - rcutree.kthread_prio=11
    - rcupdate.rcu_normal_after_boot=0
  cpu: {isolated: \"2-15,18-31\", reserved: \"0-1,16-17\"}
  globallyDisableIrqLoadBalancing: true
  net: {userLevelNetworking: true}
  hugepages:
    defaultHugepagesSize: 1G
    pages: [{size: 1G, count: 20}]
  realTimeKernel: {enabled: false}
  numa: {topologyPolicy: single-numa-node}
  nodeSelector: {node-role.kubernetes.io/master: \"\"}
";

const TUNED: &str = "\
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: patch, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile:
  - name: patch
    data: |
      [main]
      include=openshift-node-performance-fast
      [bootloader]
      cmdline_crash=nohz_full=2-15,18-31
      [sysctl]
      kernel.timer_migration=1
      [service]
      service.stalld=start,enable
      service.chronyd=stop,disable
";

/// `[crio.runtime.workloads.management]` with the reserved cores, and the
/// kubelet's file, in base64.
const PARTITIONING: &str = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 02-partitioning}
spec:
  config:
    ignition: {version: 3.2.0}
    storage:
      files:
      - contents:
          source: data:text/plain;charset=utf8;base64,W2NyaW8ucnVudGltZS53b3JrbG9hZHMubWFuYWdlbWVudF0KcmVzb3\
          VyY2VzID0geyAiY3B1c2hhcmVzIiA9IDAsICJjcHVzZXQiID0gIjAtMSwxNi0xNyIgfQo=
        filesystem: root
        mode: 420
        path: /etc/crio/crio.conf.d/01-workload-partitioning
      - contents:
          source: data:text/plain;charset=utf8;base64,eyJtYW5hZ2VtZW50IjogeyJjcHVzZXQiOiAiMC0xLDE2LTE3In19Cg==
        filesystem: root
        mode: 420
        path: /etc/kubernetes/openshift-workload-pinning
";

const KUBELET: &str = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: cpumanager}
spec:
  machineConfigPoolSelector:
    matchLabels: {pools.operator.machineconfiguration.openshift.io/master: \"\"}
  kubeletConfig:
    cpuManagerPolicy: static
    cpuManagerReconcilePeriod: 5s
";

const CLUSTER: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-monitoring-config, namespace: openshift-monitoring}
data:
  config.yaml: |
    grafana:
      enabled: false
    alertmanagerMain:
      enabled: false
    prometheusK8s:
      retention: 24h
---
apiVersion: operator.openshift.io/v1
kind: Network
metadata: {name: cluster}
spec: {disableNetworkDiagnostics: true}
---
apiVersion: operator.openshift.io/v1
kind: Console
metadata: {name: cluster}
spec: {managementState: Removed}
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: poller
  annotations:
    cpu-quota.crio.io: disable
    cpu-load-balancing.crio.io: disable
    irq-load-balancing.crio.io: disable
spec:
  containers:
  - name: poller
    image: registry.example/poller
    resources:
      requests: {cpu: 14, memory: 1000Mi, hugepages-1Gi: 12Gi}
      limits: {cpu: 14, memory: 1000Mi, hugepages-1Gi: 12Gi}
";

const COMMANDS: &str = "\
#!/bin/sh
chrt -f -p 2 $WORKER
cat /sys/fs/cgroup/cpu,cpuacct/kubepods.slice/cpu.cfs_quota_us
";

fn set() -> Report {
    let files = [
        ("profile.yaml", PROFILE),
        ("tuned.yaml", TUNED),
        ("partitioning.yaml", PARTITIONING),
        ("kubelet.yaml", KUBELET),
        ("cluster.yaml", CLUSTER),
        ("pod.yaml", POD),
        ("commands.sh", COMMANDS),
    ];
    let settings: Vec<_> = files.iter().flat_map(|(name, text)| parse(name, text).expect(name)).collect();
    judge(&server(), Role::Forwarder, &settings)
}

/// Each slip, by what it stands at: the verdict, and words of the reason.
#[test]
fn every_slip_of_a_published_set_is_explained() {
    let report = set();
    let expected: &[(u8, &str, Verdict, &str)] = &[
        (1, "cmdline intel_idle.max_cstate", Verdict::Unnecessary, "intel_pstate"),
        (4, "cmdline idle", Verdict::WorseThanDefault, "turbo"),
        (4, "cmdline processor.max_cstate", Verdict::Unnecessary, "idle=poll"),
        (5, "cmdline mce", Verdict::Dangerous, "ALL machine checks"),
        (6, "cmdline mce", Verdict::Dangerous, "by itself"),
        (6, "cmdline nmi_watchdog", Verdict::Unnecessary, "by itself"),
        (6, "cmdline nohz_full", Verdict::Unnecessary, "by itself"),
        (6, "cmdline rcutree.kthread_prio", Verdict::Unnecessary, "by itself"),
        (6, "kernel.timer_migration", Verdict::Unnecessary, "writes kernel.timer_migration=1 itself"),
        (6, "service stalld", Verdict::Unnecessary, "by itself"),
        (7, "tuned cmdline_crash", Verdict::Unnecessary, "old trick"),
        (8, "service chronyd", Verdict::WorseThanDefault, "no PTP"),
        (9, "Pod runtimeClassName", Verdict::Conflicts, "annotations do nothing"),
        (9, "Pod cpu-quota.crio.io", Verdict::Conflicts, "runtimeClassName"),
        (9, "Pod irq-load-balancing.crio.io", Verdict::Conflicts, "runtimeClassName"),
        (10, "MachineConfig filesystem", Verdict::Removed, "Ignition 3"),
        (11, "KubeletConfig machineConfigPoolSelector", Verdict::Conflicts, "KubeletConfig of its own"),
        (12, "MachineConfig charset", Verdict::Improvable, "utf-8"),
        (13, "Pod hugepages-1Gi", Verdict::Improvable, "if the node has two domains"),
        (14, "throttling, where it is read", Verdict::Removed, "cpu.max"),
        (15, "monitoring grafana.enabled", Verdict::WorseThanDefault, "laboratories"),
        (15, "monitoring alertmanagerMain.enabled", Verdict::WorseThanDefault, "laboratories"),
        (15, "monitoring prometheusK8s.retention", Verdict::WorseThanDefault, "laboratories"),
        (15, "Network disableNetworkDiagnostics", Verdict::WorseThanDefault, "laboratories"),
        (15, "Console managementState", Verdict::WorseThanDefault, "laboratories"),
        (16, "chrt", Verdict::Improvable, "throttled"),
    ];
    for (slip, key, verdict, words) in expected {
        let rows: Vec<_> = report.rows.iter().filter(|row| row.key == *key).collect();
        assert!(!rows.is_empty(), "slip {slip}: no row on {key}");
        let said = rows.iter().any(|row| row.verdict == *verdict && row.why.contains(words));
        assert!(said, "slip {slip}: {key}: {:?}", rows.iter().map(|row| (row.verdict, &row.why)).collect::<Vec<_>>());
    }
    // 2 and 3 are about what is said of a setting, not about the setting.
    let explained = |key: &str, words: &str| crate::find(key).is_some_and(|rule| rule.explain.contains(words));
    assert!(explained("cmdline rcupdate.rcu_normal_after_boot", "wrong way"));
    assert!(explained("cmdline rcutree.kthread_prio", "does not make RCU run after critical work"));
}

/// What is right in the set is not found fault with, and each line has its
/// place.
#[test]
fn what_is_right_is_let_stand() {
    let report = set();
    let row = |key: &str| report.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}"));
    for key in [
        "PerformanceProfile cpu.isolated",
        "PerformanceProfile cpu.reserved",
        "PerformanceProfile hugepages.pages",
        "PerformanceProfile numa.topologyPolicy",
        "Pod quality of service",
        "Pod cpu",
        "workload partitioning",
        "tuned include",
    ] {
        assert_eq!(row(key).verdict, Verdict::Ok, "{key}: {}", row(key).why);
    }
    assert_eq!(row("cmdline mce").set_by, "profile.yaml:11");
    assert_eq!(row("service chronyd").set_by, "tuned.yaml:16");
    assert_eq!(row("monitoring grafana.enabled").set_by, "cluster.yaml:7");
    assert_eq!(row("workload partitioning").value, "0-1,16-17");
    assert!(report.rows.iter().all(|row| !row.why.is_empty() && !row.source.is_empty()));
}

#[test]
fn contradictions_within_a_set_are_found() {
    let of = |files: &[(&str, &str)], key: &str| {
        let mut advice = Advice::default();
        files.iter().for_each(|(name, text)| advice.extend(read(name, text).expect(name)));
        let report = judge_lines(&server(), Role::Forwarder, &advice);
        let row = report.rows.into_iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}"));
        (row.verdict, row.why)
    };
    let overlap = PROFILE.replace("reserved: \"0-1,16-17\"", "reserved: \"0-2,16-17\"");
    assert!(of(&[("p.yaml", &overlap)], "PerformanceProfile cpu.isolated").1.contains("core 2"));
    let (verdict, why) = of(&[("p.yaml", PROFILE), ("x.sh", "chrt -f -p 50 1\n")], "chrt");
    assert!(verdict == Verdict::Conflicts && why.contains("FIFO:11"), "{why}");
    assert_eq!(of(&[("x.sh", "chrt -f -p 50 1\n")], "chrt").0, Verdict::Dangerous);
    let other = PARTITIONING.replace("MC0xLDE2LTE3In19Cg==", "MC0zIn19Cg==");
    let settings: Vec<_> =
        [PROFILE, &other].iter().flat_map(|text| parse("a.yaml", text).expect("manifests")).collect();
    let report = judge(&server(), Role::Mixed, &settings);
    assert!(report.rows.iter().any(|row| row.key == "workload partitioning" && row.verdict == Verdict::Conflicts));
    let fractions = POD.replace("cpu: 14", "cpu: 1500m");
    assert_eq!(of(&[("pod.yaml", &fractions)], "Pod quality of service").0, Verdict::Conflicts);
    let classed = POD.replace("spec:", "spec:\n  runtimeClassName: performance-fast");
    assert_eq!(of(&[("pod.yaml", &classed)], "Pod cpu-quota.crio.io").0, Verdict::Ok);
}

/// Manifests come from elsewhere: each of these is an error with its place.
#[test]
fn hostile_manifests_are_refused_with_file_and_line() {
    let why = |text: &str| parse("x.yaml", text).expect_err("refused").to_string();
    assert!(why("kind: Pod\nspec: &a [*a]\n").starts_with("x.yaml:2: an alias"));
    assert!(why("kind: Pod\nkind: Pod\n").starts_with("x.yaml:2: the key kind is there twice"));
    assert!(why("- 1\n").starts_with("x.yaml:1: is no manifest"));
    assert!(why("kind: [\n").starts_with("x.yaml:"));
    let file = |source: &str| {
        format!(
            "kind: MachineConfig\nspec:\n  config:\n    storage:\n      files:\n      - path: /etc/x\n        \
                contents:\n          source: {source}\n"
        )
    };
    assert!(why(&format!("kind: Pod\nspec: {}{}", "[".repeat(100), "]".repeat(100))).contains("deeper"));
    // What a file within a file says is judged, with both places.
    let inner =
        parse("x.yaml", &file("data:,net.ipv4.tcp_tw_recycle%20=%201%0A").replace("/etc/x", "/etc/sysctl.d/9.conf"));
    let inner = inner.expect("a sysctl file");
    assert_eq!(
        (inner[0].key.as_str(), inner[0].file.as_str()),
        ("net.ipv4.tcp_tw_recycle", "x.yaml:8 (/etc/sysctl.d/9.conf)")
    );
}

#[test]
fn nginx_is_judged_for_its_machine() {
    let text = "worker_processes 64;\nworker_rlimit_nofile 999999999;\nworker_cpu_affinity 0001 \
        10000000000000000000;\n\
                events { worker_connections 4096; accept_mutex on; use epoll; }\n\
                http { keepalive_timeout 0; tcp_nodelay off; server { listen 80 backlog=65535 fastopen=16; \
                listen 81 rcvbuf=64k; listen 82; } }\n";
    let evidence = server()
        .with("proc/sys/net/core/somaxconn", "4096")
        .with("proc/sys/net/ipv4/tcp_fastopen", "1")
        .with("proc/sys/fs/nr_open", "1048576");
    let report = judge(&evidence, Role::WebKernel, &parse("/etc/nginx/nginx.conf", text).expect("nginx's"));
    let found: Vec<(&str, Verdict)> = report.rows.iter().map(|row| (row.key.as_str(), row.verdict)).collect();
    assert_eq!(
        found,
        [
            ("nginx worker_processes", Verdict::Improvable),
            ("nginx worker_rlimit_nofile", Verdict::Conflicts),
            ("nginx worker_cpu_affinity", Verdict::Conflicts),
            ("nginx worker_connections", Verdict::Ok),
            ("nginx accept_mutex", Verdict::WorseThanDefault),
            ("nginx use", Verdict::Unnecessary),
            ("nginx keepalive_timeout", Verdict::WorseThanDefault),
            ("nginx tcp_nodelay", Verdict::WorseThanDefault),
            ("nginx listen backlog", Verdict::Conflicts),
            ("nginx listen fastopen", Verdict::Conflicts),
            ("nginx listen rcvbuf", Verdict::WorseThanDefault),
            ("nginx listen", Verdict::Ok),
        ]
    );
}

/// Values of two published sets, retold: one for web servers, one for low
/// latency. Each key has a rule of its own, none is only looked up.
#[test]
fn every_key_of_two_published_sets_has_a_rule() {
    let web = "fs.file-max=500000\nkernel.threads-max=120000\nkernel.sysrq=0\nkernel.core_uses_pid=1\n\
               kernel.msgmnb=65536\nkernel.msgmax=65536\nkernel.shmmax=68719476736\nkernel.shmall=4294967296\n\
               net.core.rmem_default=8388608\nnet.core.wmem_default=8388608\nnet.core.rmem_max=16777216\n\
               net.core.wmem_max=16777216\nnet.core.netdev_max_backlog=40960\nnet.core.somaxconn=40960\n\
               net.core.default_qdisc=fq\nnet.ipv4.ip_forward=0\nnet.ipv4.conf.default.rp_filter=1\n\
               net.ipv4.conf.default.accept_source_route=0\nnet.ipv4.tcp_syncookies=1\n\
               net.ipv4.tcp_max_tw_buckets=6000\nnet.ipv4.tcp_sack=1\nnet.ipv4.tcp_window_scaling=1\n\
               net.ipv4.tcp_rmem=4096 87380 4194304\nnet.ipv4.tcp_wmem=4096 16384 4194304\n\
               net.ipv4.tcp_mem=94500000 915000000 927000000\nnet.ipv4.tcp_max_orphans=3276800\n\
               net.ipv4.tcp_max_syn_backlog=40960\nnet.ipv4.tcp_timestamps=0\nnet.ipv4.tcp_synack_retries=1\n\
               net.ipv4.tcp_syn_retries=1\nnet.ipv4.tcp_tw_recycle=1\nnet.ipv4.tcp_tw_reuse=1\n\
               net.ipv4.tcp_fin_timeout=1\nnet.ipv4.tcp_keepalive_time=30\nnet.ipv4.tcp_slow_start_after_idle=0\n\
               net.ipv4.ip_local_port_range=1024 65000\nnet.ipv4.tcp_congestion_control=bbr\n";
    let latency = "kernel.timer_migration=0\nkernel.numa_balancing=0\nkernel.nmi_watchdog=0\n\
                   kernel.sched_rt_runtime_us=-1\nkernel.kptr_restrict=0\nkernel.sched_min_granularity_ns=10000000\n\
                   kernel.sched_migration_cost_ns=5000000\nkernel.hung_task_timeout_secs=600\nvm.stat_interval=10\n\
                   vm.swappiness=10\nvm.zone_reclaim_mode=0\nvm.dirty_ratio=10\nvm.dirty_background_ratio=3\n\
                   net.core.busy_read=50\nnet.core.busy_poll=50\nnet.core.rps_default_mask=3\n\
                   net.ipv4.tcp_fastopen=3\nnet.ipv4.tcp_notsent_lowat=16384\n";
    for (name, set, role) in [("web", web, Role::WebKernel), ("latency", latency, Role::Forwarder)] {
        let settings = parse("sysctl.conf", set).expect("settings");
        assert_eq!(settings.len(), set.lines().count(), "{name}");
        let report = judge(&server(), role, &settings);
        for (setting, row) in settings.iter().zip(&report.rows) {
            assert!(crate::find(&setting.key).is_some(), "{name}: no rule on {}", setting.key);
            let said = !matches!(row.verdict, Verdict::NotApplicable | Verdict::Unreadable) && !row.why.is_empty();
            assert!(said, "{name}: {}: {}", row.key, row.why);
        }
        assert!(report.count(Verdict::Dangerous) > 0, "{name}: the worst of it is not found");
    }
    let found = judge(&server(), Role::WebKernel, &parse("sysctl.conf", web).expect("settings"));
    let reuse = found.rows.iter().find(|row| row.key == "net.ipv4.tcp_tw_reuse").expect("a row");
    assert!(reuse.verdict == Verdict::Conflicts && reuse.why.contains("timestamps"), "{}", reuse.why);
}
