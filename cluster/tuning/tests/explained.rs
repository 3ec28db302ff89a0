//! Manifests of the Node Tuning Operator's form, explained and held against audits of nodes.

use serde_json::{Value, json};
use tuning::{FleetPlan, InForce, Line, NodeFacts, explain};

const TUNED: &str = "\
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: openshift-node-performance-low}
spec:
  profile:
  - name: openshift-node-performance-low
    data: |
      [main]
      # a comment
      include=openshift-node,cpu-partitioning
          openshift-node-performance-x-low
      [variables]
      isolated_cores=2-3
      [vm]
      transparent_hugepages=never
      [sysctl]
      vm.swappiness=10
      kernel.shiny=1
      net.core.rps_default_mask=${not_isolated_cpumask}
      [bootloader]
      cmdline_cpu_part=+nohz=on rcu_nocbs=${isolated_cores} systemd.cpu_affinity=${not_isolated_cores_expanded}
      cmdline_realtime=+nosoftlockup isolcpus=managed_irq,${isolated_cores} shiny=1
      cmdline_hugepages=+ default_hugepagesz=1G   hugepagesz=2M hugepages=128
      cmdline_pstate=intel_pstate=${f:intel_recommended_pstate}
      cmdline_iommu=
  - name: openshift-node-performance-amd-x86-low
    data: |
      [bootloader]
      cmdline_iommu_amd=iommu=pt
  - name: openshift-node-performance-rt-low
    data: |
      [sysctl]
      kernel.numa_balancing=0
  recommend:
  - {priority: 20, profile: openshift-node-performance-low}
";

fn row(key: &str, subject: &str, value: &str) -> Value {
    json!({ "key": key, "subject": subject, "value": value, "verdict": "ok" })
}

/// A node of four cores, with these rows beside.
fn node(name: &str, processor: &str, kernel: &str, rows: &[Value]) -> NodeFacts {
    let environment = json!({ "kernel": kernel, "processor": processor, "cores": [0, 1, 2, 3] });
    let audit = json!({ "kind": "audit", "schema": 1, "environment": environment, "rows": rows });
    NodeFacts::read(name, &audit).expect("an audit")
}

fn of<'a>(lines: &'a [Line], place: &str, value: &str) -> &'a Line {
    let found = lines.iter().find(|line| line.place.ends_with(place) && line.value == value);
    found.unwrap_or_else(|| panic!("{place} = {value}: {lines:#?}"))
}

#[test]
fn each_argument_and_option_of_a_profile_is_a_line_with_its_place_and_what_it_comes_of() {
    let lines = explain("tuned.yaml", TUNED).expect("YAML");
    let nohz = of(&lines, "[bootloader] cmdline_cpu_part", "nohz=on");
    assert_eq!(
        (nohz.line, nohz.object.as_str()),
        (
            21,
            "Tuned openshift-node-performance-low, profile \
        openshift-node-performance-low"
        )
    );
    assert_eq!(of(&lines, "cmdline_cpu_part", "rcu_nocbs=${isolated_cores}").input, "cpu.isolated");
    assert!(of(&lines, "[main] include", "openshift-node-performance-x-low").what.is_some(), "a line that goes on");
    assert!(of(&lines, "cmdline_iommu", "").what.is_some(), "an empty one");
    assert!(!lines.iter().any(|line| line.value.contains("comment")));
    // What is not known stands there as such, and nothing else does.
    let unknown: Vec<&str> = lines.iter().filter(|line| line.what.is_none()).map(|line| line.value.as_str()).collect();
    assert_eq!(unknown, ["1", "shiny=1"], "kernel.shiny and an argument");
}

#[test]
fn what_is_in_force_is_told_by_the_nodes_own_audit_and_what_cannot_be_seen_with_the_reason() {
    let lines = explain("tuned.yaml", TUNED).expect("YAML");
    let rows = [
        row("vm.swappiness", "", "60"),
        row("transparent_hugepage/enabled", "", "always madvise [never]"),
        row("net.core.rps_default_mask", "", "00000003"),
        row("cmdline rcu_nocbs", "", "2,3"),
        row("cmdline systemd.cpu_affinity", "", "0,1"),
        row("cmdline isolcpus", "", "managed_irq,2-3"),
        row("cmdline nosoftlockup", "", ""),
        row("cmdline iommu", "", "pt"),
        row("huge pages by domain", "node0", "4 of 1048576kB, 100 of 2048kB"),
        row("huge pages by domain", "node1", "0 of 1048576kB, 28 of 2048kB"),
        row("tuned", "tuned", "openshift-node-performance-low, runs"),
        row("kernel.numa_balancing", "", "1"),
    ];
    let one = node("a", "AMD EPYC 7551", "5.14.0-427.el9.x86_64", &rows);
    let on = |place: &str, value: &str| of(&lines, place, value).in_force(&one);
    let yes = |words: &str| InForce::Yes(words.to_owned());
    let no = |words: &str| InForce::No(words.to_owned());
    assert_eq!(on("vm.swappiness", "10"), no("60"));
    assert_eq!(on("transparent_hugepages", "never"), yes("always madvise [never]"));
    assert_eq!(on("net.core.rps_default_mask", "${not_isolated_cpumask}"), yes("00000003"));
    assert_eq!(on("cmdline_cpu_part", "rcu_nocbs=${isolated_cores}"), yes("2,3"));
    assert_eq!(on("cmdline_cpu_part", "systemd.cpu_affinity=${not_isolated_cores_expanded}"), yes("0,1"));
    assert_eq!(on("cmdline_realtime", "isolcpus=managed_irq,${isolated_cores}"), yes("managed_irq,2-3"));
    assert_eq!(on("cmdline_realtime", "nosoftlockup"), no("not given"));
    assert_eq!(on("cmdline_hugepages", "hugepages=128"), yes("128 of 2048 KiB"), "of both domains together");
    assert_eq!(
        on("recommend[].profile", "openshift-node-performance-low"),
        yes("openshift-node-performance-low, runs (tuned)")
    );
    // No row says it, or tuned alone knows.
    assert!(matches!(on("cmdline_cpu_part", "nohz=on"), InForce::Unseen(why) if why.contains("cmdline nohz")));
    let pstate = on("cmdline_pstate", "intel_pstate=${f:intel_recommended_pstate}");
    assert!(matches!(pstate, InForce::Unseen(why) if why.contains("on the node itself")));
    assert!(matches!(on("cmdline_realtime", "shiny=1"), InForce::Unseen(_)));
    // A profile of another processor, or for another kernel, is not meant.
    assert_eq!(on("cmdline_iommu_amd", "iommu=pt"), yes("pt"));
    let intel = node("b", "Intel(R) Xeon(R)", "5.14.0-427.13.1.el9_4.x86_64+rt", &rows);
    let strange = node("c", "", "", &rows);
    assert_eq!(of(&lines, "cmdline_iommu_amd", "iommu=pt").in_force(&intel), InForce::NotMeant);
    assert!(matches!(of(&lines, "cmdline_iommu_amd", "iommu=pt").in_force(&strange), InForce::Unseen(_)));
    assert_eq!(on("kernel.numa_balancing", "0"), InForce::NotMeant);
    assert_eq!(of(&lines, "kernel.numa_balancing", "0").in_force(&intel), no("1"));
}

#[test]
fn files_and_units_of_a_machine_config_are_read_to_their_last_line() {
    let text = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 50-performance-low, labels: {machineconfiguration.openshift.io/role: low}}
spec:
  kernelType: realtime
  config:
    ignition: {version: 3.2.0}
    storage:
      files:
      - path: /etc/crio/crio.conf.d/99-runtimes.conf
        mode: 420
        contents: {source: 'data:,%5Bcrio.runtime%5D%0Ainfra_ctr_cpuset = \"0-1\"%0Ashiny = 1%0A'}
      - path: /etc/sysctl.d/99-default-rps-mask.conf
        contents: {source: 'data:text/plain;charset=utf-8;base64,bmV0LmNvcmUucnBzX2RlZmF1bHRfbWFzayA9IDAwMDAwMDAzCg=='}
      - path: /usr/local/bin/set-cpus-offline.sh
        contents: {source: 'data:,%23!/bin/bash%0Aecho 0 > \"${online_cpu_file}\"%0Arm -rf /%0A'}
    systemd:
      units:
      - name: hugepages-allocation-1048576kB-NUMA1.service
        enabled: true
        contents: |
          [Service]
          Environment=HUGEPAGES_COUNT=20
          Environment=HUGEPAGES_SIZE=1048576
          Environment=NUMA_NODE=1
          ExecStart=/usr/local/bin/hugepages-allocation.sh
      - name: set-cpus-offline.service
        contents: |
          [Service]
          Environment=OFFLINE_CPUS=6,7
          ExecStart=/usr/local/bin/set-cpus-offline.sh \\
            --shiny
";
    let lines = explain("mc.yaml", text).expect("YAML");
    let unknown: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line.what.is_none())
        .map(|line| (line.place.as_str(), line.value.as_str()))
        .collect();
    assert_eq!(
        unknown,
        [
            ("/etc/crio/crio.conf.d/99-runtimes.conf: [crio.runtime] shiny", "1"),
            ("/usr/local/bin/set-cpus-offline.sh: line 3", "rm -rf /"),
            ("set-cpus-offline.service: [Service] ExecStart", "/usr/local/bin/set-cpus-offline.sh --shiny"),
        ]
    );
    let rows = [
        row("net.core.rps_default_mask", "", "00000001"),
        row("huge pages by domain", "node0", "20 of 1048576kB"),
        row("huge pages by domain", "node1", "12 of 1048576kB"),
        row("cores off line", "", "6-7,9"),
    ];
    let one = node("a", "AMD EPYC", "6.12.0-55.9.1.rt14.el10.x86_64", &rows);
    let on = |place: &str, value: &str| of(&lines, place, value).in_force(&one);
    assert_eq!(on("net.core.rps_default_mask", "00000003"), InForce::No("00000001".to_owned()));
    assert_eq!(on("Environment", "HUGEPAGES_COUNT=20"), InForce::No("12 of 1048576 KiB on domain 1".to_owned()));
    assert_eq!(on("Environment", "OFFLINE_CPUS=6,7"), InForce::Yes("6-7,9".to_owned()));
    assert_eq!(on("kernelType", "realtime"), InForce::Yes("6.12.0-55.9.1.rt14.el10.x86_64".to_owned()));
    let other = node("b", "AMD EPYC", "6.12.0-55.el10.x86_64", &rows);
    assert!(matches!(of(&lines, "kernelType", "realtime").in_force(&other), InForce::No(_)));
}

#[test]
fn fields_of_a_performance_profile_say_what_becomes_of_them_and_what_is_in_force() {
    let text = "\
apiVersion: performance.openshift.io/v2
kind: PerformanceProfile
metadata: {name: low}
spec:
  cpu: {isolated: 2-3, reserved: 0-1}
  additionalKernelArgs: [audit=0, shiny]
  hugepages:
    defaultHugepagesSize: 1G
    pages: [{size: 1G, count: 4, node: 0}]
  realTimeKernel: {enabled: false}
  workloadHints: {realTime: true, highPowerConsumption: false}
  shiny: 1
---
apiVersion: v1
kind: List
items: [{apiVersion: machineconfiguration.openshift.io/v1, kind: KubeletConfig, metadata: {name: p}, \
  spec: {kubeletConfig: {cpuManagerPolicy: static, shiny: 1}}}]
";
    let lines = explain("pp.yaml", text).expect("YAML");
    let unknown: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line.what.is_none())
        .map(|line| (line.place.as_str(), line.value.as_str()))
        .collect();
    assert_eq!(unknown, [("additionalKernelArgs[]", "shiny"), ("shiny", "1"), ("shiny", "1")]);
    let rows = [
        row("cores without ticks", "", "3"),
        row("cmdline audit", "", "0"),
        row("cmdline rcutree.kthread_prio", "", "11"),
        row("huge pages by domain", "node0", "4 of 1048576kB"),
    ];
    let one = node("a", "AMD EPYC", "5.14.0", &rows);
    let on = |place: &str, value: &str| of(&lines, place, value).in_force(&one);
    assert_eq!(on("cpu.isolated", "2-3"), InForce::No("3".to_owned()));
    assert_eq!(on("additionalKernelArgs[]", "audit=0"), InForce::Yes("0".to_owned()));
    assert_eq!(on("hugepages.pages[].count", "4"), InForce::Yes("4 of 1048576 KiB on domain 0".to_owned()));
    assert_eq!(on("workloadHints.realTime", "true"), InForce::Yes("11".to_owned()));
    assert_eq!(on("workloadHints.highPowerConsumption", "false"), InForce::NotMeant, "nothing is asked for");
    assert!(matches!(on("cpuManagerPolicy", "static"), InForce::Unseen(_)));
    assert_eq!(on("realTimeKernel.enabled", "false"), InForce::Yes("5.14.0".to_owned()));
}

#[test]
fn what_could_not_be_read_on_a_node_is_not_told_as_something_else() {
    let lines = explain("tuned.yaml", TUNED).expect("YAML");
    let unread = json!({ "key": "vm.swappiness", "subject": "", "value": "", "verdict": "unreadable" });
    let one = node("a", "AMD EPYC", "5.14.0", &[unread]);
    assert!(matches!(of(&lines, "vm.swappiness", "10").in_force(&one), InForce::Unseen(_)));
    for none in [
        json!({}),
        json!({ "kind": "load", "schema": 1, "rows": [] }),
        json!({ "kind": "audit", "schema": 2, "rows": [] }),
    ] {
        assert!(NodeFacts::read("a", &none).is_err(), "{none}");
    }
    // Whatever a file is, it is explained or refused.
    for text in [
        "",
        "a: [",
        "- 1\n",
        "kind: Tuned\nspec: 3\n",
        "kind: MachineConfig\nspec: {config: {storage: {files: [1]}}}\n",
    ] {
        let _ = explain("x", text);
    }
}

fn wants(key: &str, value: &str, want: &str) -> Value {
    json!({
        "key": key, "subject": "", "value": value, "verdict": "improvable", "want": want, "why": "because\nof it",
        "risk": "none",
    })
}

#[test]
fn what_all_nodes_of_a_pool_would_have_changed_is_one_manifest_that_explain_finds_in_force_afterwards() {
    let tuned = row("tuned", "tuned", "openshift-node-performance-low, does not run");
    let rows = |somaxconn: Value, gc: &str| {
        let gc = wants("net.ipv4.neigh.default.gc_thresh3", "1024", gc);
        let ulp = wants("net.ipv4.tcp_available_ulp", "mptcp", "modprobe tls");
        let cmdline = wants("cmdline skew_tick", "", "1");
        let forward = wants("net.ipv4.ip_forward", "1", "0");
        [somaxconn, gc, ulp, cmdline, forward, row("vm.swappiness", "", "60"), tuned.clone()]
    };
    let first = node("a", "AMD EPYC", "5.14.0", &rows(wants("net.core.somaxconn", "4096", "16384"), "8192"));
    let second = node("b", "AMD EPYC", "5.14.0", &rows(row("net.core.somaxconn", "", "16384"), "16384"));
    let plan = FleetPlan::of(&[first.clone(), second.clone()]).expect("one profile");
    let keys: Vec<&str> = plan.steps.iter().map(|step| step.key.as_str()).collect();
    assert_eq!(keys, ["cmdline skew_tick", "net.core.somaxconn"]);
    let left: Vec<(&str, &str)> = plan.left.iter().map(|one| (one.key.as_str(), one.why.as_str())).collect();
    assert_eq!(
        left,
        [
            ("net.ipv4.ip_forward", "0 would be better, and is written by name alone"),
            ("net.ipv4.neigh.default.gc_thresh3", "nodes want different values: 8192, but 16384 on b"),
            ("net.ipv4.tcp_available_ulp", "modprobe tls: no line of a profile of tuned does that"),
        ]
    );
    assert!(plan.restarts_nodes());
    let manifest = plan.manifest("nearside-fleet", "worker-low");
    let data = manifest["spec"]["profile"][0]["data"].as_str().expect("text");
    assert_eq!(
        data,
        "[main]\nsummary=What audits of nodes would have changed\ninclude=openshift-node-performance-low\n\n[sysctl]\n\
         # because of it\nnet.core.somaxconn=16384\n\n[bootloader]\ncmdline_nearside_fleet=+skew_tick=1\n"
    );
    // The same as JSON is YAML: each line is known, and in force where a node has it.
    let lines = explain("plan.yaml", &manifest.to_string()).expect("YAML");
    assert!(lines.iter().all(|line| line.what.is_some()), "{lines:#?}");
    let somaxconn = of(&lines, "net.core.somaxconn", "16384");
    assert_eq!(somaxconn.in_force(&second), InForce::Yes("16384".to_owned()));
    assert_eq!(somaxconn.in_force(&first), InForce::No("4096".to_owned()));
}

#[test]
fn a_value_that_is_right_on_a_node_is_not_taken_from_it_nor_a_profile_of_tuned() {
    let first = node("a", "AMD EPYC", "5.14.0", &[wants("net.core.somaxconn", "4096", "16384")]);
    let second = node("b", "AMD EPYC", "5.14.0", &[row("net.core.somaxconn", "", "65535")]);
    let plan = FleetPlan::of(&[first.clone(), second]).expect("none");
    assert_eq!((plan.steps.len(), plan.include.as_str()), (0, "openshift-node"));
    assert_eq!(plan.left[0].why, "16384 would be better elsewhere, but this is right: 65535 on b");
    assert!(!plan.restarts_nodes());
    let of_profile = |name: &str| node(name, "", "", &[row("tuned", "tuned", &format!("{name}, runs"))]);
    let why = FleetPlan::of(&[of_profile("p"), of_profile("q"), first]).expect_err("two of them");
    assert_eq!(why, "nodes have different profiles of tuned: p; q");
}
