//! Files as people have them: comments, slips, several profiles, several pools.

use super::server;
use crate::advice::{AdviceError, read};
use crate::{Evidence, Report, Role, Verdict, judge_lines};

fn report(evidence: &Evidence, role: Role, file: &str, text: &str) -> Report {
    judge_lines(evidence, role, &read(file, text).expect(file))
}

/// A list as articles have it, of 35 lines.
const LIST: [&str; 35] = [
    "fs.file-max = 2097152",
    "fs.nr_open = 2097152",
    "kernel.pid_max = 65535",
    "kernel.shmmax = 68719476736",
    "kernel.msgmax = 65536",
    "kernel.sched_rt_runtime_us = -1",
    "kernel.numa_balancing = 0",
    "vm.swappiness = 10",
    "vm.overcommit_memory = 1",
    "vm.dirty_ratio = 60",
    "vm.max_map_count = 262144",
    "net.core.somaxconn = 40960",
    "net.core.netdev_max_backlog = 40960",
    "net.core.rmem_default = 8388608",
    "net.core.rmem_max = 16777216",
    "net.core.wmem_max = 16777216",
    "net.core.default_qdisc = fq",
    "net.ipv4.ip_forward = 0",
    "net.ipv4.ip_local_port_range = 1024 65000",
    "net.ipv4.ip_local_reserved_ports = 8080,9000-9010",
    "net.ipv4.conf.all.rp_filter = 1",
    "net.ipv4.tcp_congestion_control = cubic",
    "net.ipv4.tcp_timestamps = 0",
    "net.ipv4.tcp_sack = 1",
    "net.ipv4.tcp_tw_reuse = 1",
    "net.ipv4.tcp_tw_recycle = 1",
    "net.ipv4.tcp_fin_timeout = 1",
    "net.ipv4.tcp_keepalive_time = 30",
    "net.ipv4.tcp_max_tw_buckets = 6000",
    "net.ipv4.tcp_mem = 94500000 915000000 927000000",
    "net.ipv4.tcp_rmem = 4096 87380 4194304",
    "net.ipv4.tcp_wmem = 4096 16384 4194304",
    "net.ipv4.tcp_max_orphans = 3276800",
    "net.ipv4.tcp_syn_retries = 1",
    "net.ipv4.tcp_slow_start_after_idle = 0",
];

/// Names and lists take no comment: there it is the fault.
fn takes_no_comment(line: &str) -> bool {
    ["default_qdisc", "reserved_ports", "congestion_control"].iter().any(|name| line.contains(name))
}

#[test]
fn comments_change_no_verdict_of_a_list() {
    let clean = report(&server(), Role::WebKernel, "sysctl.conf", &LIST.join("\n"));
    assert_eq!(clean.rows.len(), 35);
    let with = |line: &&str| format!("{line} #better than resend");
    let all: Vec<String> =
        LIST.iter().map(|line| if takes_no_comment(line) { (*line).to_owned() } else { with(line) }).collect();
    let commented = report(&server(), Role::WebKernel, "sysctl.conf", &all.join("\n"));
    for ((line, clean), commented) in LIST.iter().zip(&clean.rows).zip(&commented.rows) {
        if takes_no_comment(line) {
            let alone = report(&server(), Role::WebKernel, "sysctl.conf", &with(line)).rows.remove(0);
            assert_eq!(alone.verdict, Verdict::Refused, "{line}: {}", alone.why);
            let value = line.split_once(" = ").map(|(_, value)| value.to_owned());
            assert_eq!(alone.want, value, "{line}");
        }
        let of = |row: &crate::Row| (row.key.clone(), row.value.clone(), row.verdict, row.why.clone());
        assert_eq!(of(commented), of(clean), "{line}");
    }
}

#[test]
fn ten_spoilt_lines_cost_ten_lines() {
    let spoilt = [
        ("net.ipv4.conf.default.rp filter = 1", "net.ipv4.conf.default.rp_filter = 1"),
        ("net.ipv4.tcp_sack 1", "net.ipv4.tcp_sack = 1"),
        ("net.ipv4.tcp_sack: 1", "net.ipv4.tcp_sack = 1"),
        ("net.ipv4.tcp_fin_timeout = 30;", "30"),
        ("net.core.somaxconn = 16k", "16384"),
        ("net.ipv4.tcp_window_scaling = on", "1"),
        ("net.core.rmem_max = 16,777,216", "16777216"),
        ("net.ipv4.tcp_syncookies = l", "1"),
        ("echo 1 > /proc/sys/net/ipv4/tcp_dsack", "net.ipv4.tcp_dsack = 1"),
        ("net.ipv4.tcp_rmem = \"4096 87380 4194304\"", "4096 87380 4194304"),
    ];
    let clean = report(&server(), Role::WebKernel, "sysctl.conf", &LIST.join("\n"));
    let mut lines: Vec<&str> = LIST.to_vec();
    for (at, (line, _)) in spoilt.iter().enumerate() {
        lines.insert(at * 4, line);
    }
    let mixed = report(&server(), Role::WebKernel, "sysctl.conf", &lines.join("\n"));
    assert_eq!(mixed.rows.len(), 45);
    let mut clean = clean.rows.into_iter();
    for (at, row) in mixed.rows.iter().enumerate() {
        let place = format!("sysctl.conf:{}", at + 1);
        assert_eq!(row.set_by, place);
        match spoilt.iter().find(|(line, _)| *line == lines[at]) {
            Some((line, meant)) => {
                assert_eq!(row.verdict, Verdict::Refused, "{line}: {}", row.why);
                assert_eq!(row.want.as_deref(), Some(*meant), "{line}");
            }
            None => {
                let clean = clean.next().expect("a clean line");
                assert_eq!((&row.key, &row.value, row.verdict), (&clean.key, &clean.value, clean.verdict));
            }
        }
    }
}

#[test]
fn a_file_of_no_known_kind_says_what_it_looked_like() {
    // One bad line of four costs one line, whatever the file's name.
    let text = "vm.swappiness = 1\nvm.dirty ratio = 5\nfs.nr_open = 99\nvm.stat_interval = 10\n";
    let rows = report(&server(), Role::Web, "notes.txt", text).rows;
    assert_eq!(rows.iter().filter(|row| row.verdict == Verdict::Refused).count(), 1);
    // A line with = in it is at least meant to be one.
    let two = report(&server(), Role::Web, "notes.txt", "vm.swappiness = 1\nvm.dirty ratio = 5\n").rows;
    assert_eq!(two.iter().map(|row| row.verdict == Verdict::Refused).collect::<Vec<_>>(), [false, true]);
    let text = "vm.swappiness = 1\nthis is prose\nand more of it\n";
    let why = read("notes.txt", text).expect_err("of no kind");
    assert!(matches!(why, AdviceError::UnknownForm { .. }));
    assert!(why.to_string().ends_with("it looks most like a sysctl.conf, but for line 2: \"this is prose\""), "{why}");
}

#[test]
fn each_form_has_its_own_comments() {
    let keys = |file: &str, text: &str| -> Vec<(String, String, String)> {
        let rows = report(&server(), Role::Forwarder, file, text).rows;
        rows.into_iter().map(|row| (row.key, row.value, row.verdict.name().to_owned())).collect()
    };
    let values = |file: &str, text: &str| -> Vec<String> {
        keys(file, text).into_iter().map(|(key, value, _)| format!("{key}={value}")).collect()
    };
    let tuned = "[main]\nsummary=x\n[sysctl] # these\nvm.swappiness=10 # little\n[bootloader]\ncmdline=idle=poll # x\n";
    assert_eq!(values("tuned.conf", tuned), ["vm.swappiness=10", "cmdline idle=poll"]);
    // As in the profiles that come with tuned.
    let quoted = "[main]\nsummary=x\n[sysctl]\nnet.ipv4.tcp_rmem=\"4096 87380 16777216\"\n";
    assert_eq!(values("tuned.conf", quoted), ["net.ipv4.tcp_rmem=4096 87380 16777216"]);
    assert_eq!(values("/etc/sysctl.d/99-x.conf", "# nothing\n"), [""; 0]);
    let grub = "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX='quiet idle=poll' # no sleep\n";
    assert_eq!(values("/etc/default/grub", grub), ["cmdline quiet=quiet", "cmdline idle=poll"]);
    // The shell runs what stands behind the first blank, and the last one counts.
    let slips = "GRUB_CMDLINE_LINUX=quiet idle=poll\nGRUB_CMDLINE_LINUX=\"mce=off\"\n\
                 GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX nohz=on\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"a\"\n\
                 GRUB_CMDLINE_LINUX_DEFAULT=\"idle=halt\"\n";
    let found = keys("/etc/default/grub", slips);
    let refused: Vec<&str> =
        found.iter().filter(|(.., verdict)| verdict == "refused").map(|(key, ..)| key.as_str()).collect();
    assert_eq!(refused, ["GRUB_CMDLINE_LINUX=quiet idle=poll", "GRUB_CMDLINE_LINUX_DEFAULT=\"a\""]);
    let script = "#!/bin/sh\nsystemctl stop irqbalance # off\n\
                  echo never > /sys/kernel/mm/transparent_hugepage/enabled # no THP\n\
                  ethtool -C eth0 rx-usecs 0 # rx-frames 15\n";
    assert_eq!(
        values("x.sh", script),
        ["service irqbalance=stop", "transparent_hugepage/enabled=never", "ethtool -C=rx-usecs 0"]
    );
    // A command line has none, and says so.
    assert_eq!(keys("cmdline", "idle=poll # nohz=on")[1].2, "refused");
}

#[test]
fn soft_and_hard_are_two_limits() {
    let rows = |text: &str| report(&server(), Role::Load, "limits.conf", text).rows;
    let two = rows("* hard nofile 65535\n* soft nofile 1024\n");
    assert!(two.iter().all(|row| row.verdict != Verdict::Conflicts), "{two:?}");
    let both = rows("* soft nofile 1024\n* - nofile 65535\n");
    assert_eq!(both[0].verdict, Verdict::Conflicts, "{}", both[0].why);
    let bad = rows("* soft nofile 65,535\nroot nofile 5\n* soft nofiles 7\n");
    assert_eq!(bad.iter().filter(|row| row.verdict == Verdict::Refused).count(), 3);
    assert_eq!(bad[0].want.as_deref(), Some("* soft nofile 65535"));
}

/// A node of eight cores and two domains, as somebody recorded it.
fn node() -> Evidence {
    let mut node = server().of_named_node().with("sys/devices/system/cpu/online", "0-7");
    for domain in ["0", "1"] {
        node = node.with(&format!("sys/devices/system/node/node{domain}/cpulist"), "0");
    }
    node.with("sys/devices/system/cpu/present", "0-7")
}

const SELECTOR: &str = "  nodeSelector: {node-role.kubernetes.io/worker: \"\"}\n";

fn profile(spec: &str) -> String {
    format!("apiVersion: performance.openshift.io/v2\nkind: PerformanceProfile\nmetadata: {{name: q}}\nspec:\n{spec}")
}

fn verdict(report: &Report, key: &str) -> (Verdict, String) {
    let row = report.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}: {:?}", report.rows));
    (row.verdict, row.why.clone())
}

/// Several profiles of one Tuned: what one sets on top of another that it
/// includes is no contradiction, nor is what two do that never meet.
#[test]
fn profiles_of_one_tuned_are_told_apart() {
    let text = "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata: {name: pair}\nspec:\n  profile:\n\
                \x20   - name: edge\n      data: |\n        [main]\n        include=edge-common\n        [sysctl]\n\
                \x20       vm.swappiness=10\n        kernel.panic=5\n\
                \x20   - name: edge-common\n      data: |\n        [main]\n        summary=x\n        [sysctl]\n\
                \x20       vm.swappiness=20\n        kernel.panic=5\n        net.ipv4.tcp_timestamps=0\n\
                \x20   - name: other\n      data: |\n        [main]\n        summary=x\n        [sysctl]\n\
                \x20       net.ipv4.tcp_tw_reuse=1\n";
    let report = report(&server(), Role::Load, "t.yaml", text);
    let of = |key: &str| report.rows.iter().filter(|row| row.key == key).map(|row| row.verdict).collect::<Vec<_>>();
    assert!(report.rows.iter().all(|row| !row.why.contains("last word") && !row.why.contains("says the same")));
    // Which would contradict each other on one node.
    assert_eq!(
        (of("net.ipv4.tcp_timestamps"), of("net.ipv4.tcp_tw_reuse")),
        (vec![Verdict::WorseThanDefault], vec![Verdict::Ok])
    );
    let one = text.replace("- name: other", "- name: edge-common2").replace("summary=x", "include=edge-common");
    let report = self::report(&server(), Role::Load, "t.yaml", &one);
    assert_eq!(verdict(&report, "net.ipv4.tcp_tw_reuse").0, Verdict::Conflicts);
}

/// Objects of another pool have no say.
#[test]
fn pools_are_told_apart() {
    let profile = profile(&format!("  cpu: {{isolated: \"2-7\", reserved: \"0-1\"}}\n{SELECTOR}"));
    let kubelet = |pool: &str| {
        format!(
            "{profile}---\nkind: KubeletConfig\nmetadata: {{name: k}}\nspec:\n  machineConfigPoolSelector:\n    \
             matchLabels: {{pools.operator.machineconfiguration.openshift.io/{pool}: \"\"}}\n  kubeletConfig:\n    \
             reservedSystemCPUs: \"0-3\"\n"
        )
    };
    let of = |pool: &str| {
        verdict(&report(&server(), Role::Mixed, "k.yaml", &kubelet(pool)), "KubeletConfig reservedSystemCPUs").0
    };
    assert_eq!(of("worker"), Verdict::Conflicts);
    assert_eq!(of("master"), Verdict::Ok);
}

/// Each reason for which the operator's webhook refuses a profile, by the
/// field that it names; and profiles that it takes.
#[test]
fn what_the_operator_refuses_is_refused() {
    let cpu = "  cpu: {isolated: \"2-7\", reserved: \"0-1\"}\n";
    let both = format!("{cpu}{SELECTOR}");
    let refused: Vec<(String, &str)> = vec![
        (SELECTOR.to_owned(), "cpu"),
        (format!("  cpu: {{reserved: \"0-1\"}}\n{SELECTOR}"), "cpu.isolated"),
        (format!("  cpu: {{isolated: \"2-7\"}}\n{SELECTOR}"), "cpu.reserved"),
        (format!("  cpu: {{isolated: \"\", reserved: \"0-1\"}}\n{SELECTOR}"), "cpu.isolated"),
        (format!("  cpu: {{isolated: \"1-7\", reserved: \"\"}}\n{SELECTOR}"), "cpu.reserved"),
        (format!("  cpu: {{isolated: \"1-7\", reserved: \"0-1\"}}\n{SELECTOR}"), "cpu.isolated"),
        (format!("  cpu: {{isolated: \"2-7\", reserved: \"0-1\", offlined: \"1\"}}\n{SELECTOR}"), "cpu.offlined"),
        (format!("  cpu: {{isolated: \"2-7\", reserved: \"0-1\", shared: \"6-7\"}}\n{SELECTOR}"), "cpu.shared"),
        (format!("  cpu: {{isolated: \"a-b\", reserved: \"0-1\"}}\n{SELECTOR}"), "cpu.isolated"),
        (cpu.to_owned(), "nodeSelector"),
        (format!("{cpu}  nodeSelector: {{a.b/a: \"\", a.b/b: \"\"}}\n"), "nodeSelector"),
        (format!("{cpu}  nodeSelector: {{plain: \"\"}}\n"), "nodeSelector"),
        (format!("{both}  machineConfigLabel: {{a: b, c: d}}\n"), "machineConfigLabel"),
        (format!("{both}  machineConfigPoolSelector: {{a: b, c: d}}\n"), "machineConfigPoolSelector"),
        (format!("{both}  hugepages: {{pages: [{{size: 1G, count: 2}}]}}\n"), "hugepages.defaultHugepagesSize"),
        (format!("{both}  hugepages: {{defaultHugepagesSize: 3G}}\n"), "hugepages.defaultHugepagesSize"),
        (
            format!("{both}  hugepages: {{defaultHugepagesSize: 1G, pages: [{{size: 4M, count: 2}}]}}\n"),
            "hugepages.pages",
        ),
        (
            format!(
                "{both}  hugepages: {{defaultHugepagesSize: 1G, pages: [{{size: 1G, count: 4}}, {{size: 1G, count: \
                 6}}]}}\n"
            ),
            "hugepages.pages",
        ),
        (format!("{both}  numa: {{topologyPolicy: nearest}}\n"), "numa.topologyPolicy"),
        (
            format!("{both}  realTimeKernel: {{enabled: true}}\n  workloadHints: {{realTime: false}}\n"),
            "workloadHints.realTime",
        ),
        (
            format!("{both}  workloadHints: {{highPowerConsumption: true, perPodPowerManagement: true}}\n"),
            "workloadHints.highPowerConsumption",
        ),
        (format!("{both}  workloadHints: {{mixedCpus: true}}\n"), "workloadHints.mixedCpus"),
        (format!("{both}  net: {{devices: [{{deviceID: \"0x1\"}}]}}\n"), "net.devices"),
        (format!("{both}  net: {{devices: [{{vendorID: \"123\"}}]}}\n"), "net.devices"),
        (format!("{both}  net: {{devices: [{{interfaceName: \"\"}}]}}\n"), "net.devices"),
        (format!("{both}  hardwareTuning: {{isolatedCpuFreq: 2500000}}\n"), "hardwareTuning"),
        (format!("  cpu: {{isolated: \"2-7\", reserved: \"0-1\", ovsDpdk: \"1\"}}\n{SELECTOR}"), "cpu.ovsDpdk"),
    ];
    refused.iter().for_each(|(spec, field)| is_refused(spec, field));
    let other = profile(&both).replace("name: q", "name: r");
    let rows = report(&server(), Role::Mixed, "p.yaml", &format!("{}---\n{other}", profile(&both))).rows;
    let twice = rows.iter().filter(|row| row.key == "PerformanceProfile nodeSelector");
    assert!(twice.clone().count() == 2 && twice.into_iter().all(|row| row.verdict == Verdict::Refused), "{rows:?}");
}

fn is_refused(spec: &str, field: &str) {
    let rows = report(&server(), Role::Mixed, "p.yaml", &profile(spec)).rows;
    let named = format!("PerformanceProfile q: {field}");
    let found = rows.iter().any(|row| row.verdict == Verdict::Refused && row.key == named);
    assert!(found, "{field}: {spec}\n{rows:?}");
}

#[test]
fn a_profile_of_another_form_than_the_schemas_is_refused() {
    let both = format!("  cpu: {{isolated: \"2-7\", reserved: \"0-1\"}}\n{SELECTOR}");
    let refused = [
        (format!("  cpu: \"2-7\"\n{SELECTOR}"), "cpu"),
        (format!("{both}  hugepages: 1G\n"), "hugepages"),
        (
            format!("{both}  hugepages: {{defaultHugepagesSize: 1G, pages: {{size: 1G, count: 2}}}}\n"),
            "hugepages.pages",
        ),
        (format!("{both}  hugepages: {{defaultHugepagesSize: 1G, pages: [1G]}}\n"), "hugepages.pages"),
        (
            format!("{both}  hugepages: {{defaultHugepagesSize: 1G, pages: [{{size: 1G, count: 1, node: a}}]}}\n"),
            "hugepages.pages",
        ),
        (format!("{both}  additionalKernelArgs: nosmt\n"), "additionalKernelArgs"),
        (format!("{both}  additionalKernelArgs: [{{nosmt: force}}]\n"), "additionalKernelArgs"),
        (format!("{both}  realTimeKernel: true\n"), "realTimeKernel"),
        (format!("{both}  realTimeKernel: {{enabled: maybe}}\n"), "realTimeKernel.enabled"),
        (format!("{both}  net: {{devices: {{interfaceName: ens1}}}}\n"), "net.devices"),
        (format!("{both}  net: {{devices: [ens1]}}\n"), "net.devices"),
    ];
    refused.iter().for_each(|(spec, field)| is_refused(spec, field));
    // A word too few, and all of it is in metadata, or there is nothing.
    let within = profile(&both).replace("metadata: {name: q}\nspec:\n", "metadata:\n  name: q\n");
    for text in [profile("").replace("spec:\n", ""), within, profile("")] {
        let rows = report(&server(), Role::Mixed, "p.yaml", &text).rows;
        let refused =
            rows.iter().any(|row| row.verdict == Verdict::Refused && row.key.starts_with("PerformanceProfile"));
        assert!(refused, "{text}\n{rows:?}");
    }
}

#[test]
fn what_the_operator_takes_is_taken() {
    let cpu = "  cpu: {isolated: \"2-7\", reserved: \"0-1\"}\n";
    let both = format!("{cpu}{SELECTOR}");
    let taken = [
        both.clone(),
        format!(
            "{cpu}  nodeSelector: {{plain: \"\"}}\n  machineConfigLabel: {{a: b}}\n  machineConfigPoolSelector: {{a: b}}\n"
        ),
        format!(
            "{both}  hugepages: {{defaultHugepagesSize: 1G, pages: [{{size: 1G, count: 4, node: 0}}, {{size: 1G, \
             count: 4}}, {{size: 2M, count: 1}}]}}\n"
        ),
        format!("{both}  hugepages:\n  net: {{devices: []}}\n  realTimeKernel: {{enabled: true}}\n  numa: null\n"),
        format!("{both}  kernelPageSize: 64k\n  hugepages: {{defaultHugepagesSize: 512M}}\n"),
        format!("{both}  realTimeKernel: {{enabled: true}}\n  numa: {{topologyPolicy: single-numa-node}}\n"),
        format!(
            "{both}  net: {{devices: [{{interfaceName: \"ens*\"}}, {{vendorID: \"0x8086\", deviceID: \"0x1572\"}}]}}\n"
        ),
    ];
    for spec in taken {
        let rows = report(&server(), Role::Mixed, "p.yaml", &profile(&spec)).rows;
        assert!(rows.iter().all(|row| row.verdict != Verdict::Refused), "{spec}\n{rows:?}");
    }
}

#[test]
fn sets_are_held_against_each_other_and_the_node() {
    let of = |evidence: &Evidence, spec: &str, key: &str| {
        verdict(&report(evidence, Role::Forwarder, "p.yaml", &profile(&format!("{spec}{SELECTOR}"))), key)
    };
    // Cores that the recorded node lacks; of a machine that nobody named, nothing is known.
    let more = "  cpu: {isolated: \"0-8\", reserved: \"9-15\"}\n";
    let (found, why) = of(&node(), more, "PerformanceProfile cpu.isolated");
    assert!(found == Verdict::Dangerous && why.contains("no core 8"), "{why}");
    assert_eq!(of(&node(), more, "PerformanceProfile cpu.reserved").0, Verdict::Dangerous);
    assert_eq!(of(&server(), more, "PerformanceProfile cpu.isolated").0, Verdict::Ok);
    // The kernel's own set beside the profile's.
    let other = "  cpu: {isolated: \"2-7\", reserved: \"0-1\"}\n  additionalKernelArgs: [nohz_full=2-6]\n";
    let (found, why) = of(&server(), other, "cmdline nohz_full");
    assert!(found == Verdict::Conflicts && why.contains("lacks core 7"), "{why}");
    let same = other.replace("2-6", "2-7");
    assert_eq!(of(&server(), &same, "cmdline nohz_full").0, Verdict::Unnecessary);
    // How many domains there are, only the node tells.
    let pages = "  cpu: {isolated: \"2-7\", reserved: \"0-1\"}\n  hugepages: {defaultHugepagesSize: 1G, pages: [{size: 1G, count: 5}]}\n";
    assert!(of(&server(), pages, "PerformanceProfile hugepages.pages").1.contains("if the node has two"));
    assert_eq!(of(&node(), pages, "PerformanceProfile hugepages.pages").0, Verdict::Improvable);
    let away = pages.replace("count: 5", "count: 5, node: 2");
    assert_eq!(of(&node(), &away, "PerformanceProfile hugepages.pages").0, Verdict::Conflicts);
    // A profile of tuned on top of another's.
    let tuned = "---\nkind: Tuned\nmetadata: {name: t}\nspec:\n  profile:\n    - name: t\n      data: |\n        [main]\n\
                 \x20       include=openshift-node-performance-r\n";
    let both = format!("{}{tuned}", profile(&format!("  cpu: {{isolated: \"2-7\", reserved: \"0-1\"}}\n{SELECTOR}")));
    let (found, why) = verdict(&report(&server(), Role::Mixed, "p.yaml", &both), "tuned include");
    assert!(found == Verdict::Conflicts && why.contains("no PerformanceProfile r"), "{why}");
}

#[test]
fn idle_states_are_judged_together() {
    let of = |line: &str| {
        let report = report(&server(), Role::Forwarder, "cmdline", line);
        verdict(&report, "cmdline intel_idle.max_cstate")
    };
    assert_eq!(of("intel_idle.max_cstate=0").0, Verdict::WorseThanDefault);
    assert_eq!(of("intel_idle.max_cstate=0 processor.max_cstate=1").0, Verdict::Ok);
    assert_eq!(of("intel_idle.max_cstate=0 processor.max_cstate=1 idle=poll").0, Verdict::Unnecessary);
}

#[test]
fn versions_decide_what_there_is() {
    let text = "kind: MachineConfig\nmetadata: {name: q, labels: {machineconfiguration.openshift.io/role: master}}\n\
                spec:\n  config:\n    ignition: {version: 2.2.0}\n    storage:\n      files:\n        - {filesystem: root, path: \
                /etc/modules-load.d/q.conf, mode: 420, contents: {source: \"data:,sctp%0A\"}}\n";
    let two = report(&server(), Role::Mixed, "m.yaml", text);
    assert_eq!(verdict(&two, "MachineConfig config.ignition.version").0, Verdict::Ok);
    assert_eq!(verdict(&two, "MachineConfig filesystem").0, Verdict::Ok);
    let without = report(&server(), Role::Mixed, "m.yaml", &text.replace("filesystem: root, ", ""));
    assert_eq!(verdict(&without, "MachineConfig filesystem").0, Verdict::Refused);
    let three = report(&server(), Role::Mixed, "m.yaml", &text.replace("2.2.0", "3.2.0"));
    assert_eq!(verdict(&three, "MachineConfig filesystem").0, Verdict::Removed);
    let monitoring = |retention: &str| {
        format!(
            "kind: ConfigMap\nmetadata: {{name: cluster-monitoring-config}}\ndata:\n  config.yaml: |\n    grafana:\n      \
             enabled: false\n    prometheusK8s:\n      retention: {retention}\n"
        )
    };
    let of = |evidence: &Evidence, retention: &str, key: &str| {
        verdict(&report(evidence, Role::Mixed, "c.yaml", &monitoring(retention)), key).0
    };
    assert_eq!(of(&server().of_cluster(4, 18), "15d", "monitoring grafana.enabled"), Verdict::Removed);
    assert_eq!(of(&server().of_cluster(4, 10), "15d", "monitoring grafana.enabled"), Verdict::WorseThanDefault);
    for (retention, expected) in [
        ("24h", Verdict::WorseThanDefault),
        ("1d", Verdict::WorseThanDefault),
        ("336h", Verdict::Ok),
        ("2w", Verdict::Ok),
        ("lots", Verdict::Refused),
    ] {
        assert_eq!(of(&server(), retention, "monitoring prometheusK8s.retention"), expected, "{retention}");
    }
    // A file for an old kernel is judged for that kernel.
    let line = "net.ipv4.tcp_tw_recycle = 1\n";
    let on = |evidence: &Evidence| {
        verdict(&report(evidence, Role::WebKernel, "sysctl.conf", line), "net.ipv4.tcp_tw_recycle").0
    };
    assert_eq!(on(&server()), Verdict::Removed);
    assert_eq!(on(&server().of_kernel("3.10".parse().expect("a version"))), Verdict::Dangerous);
    assert!("4".parse::<crate::Kernel>().is_err());
}

#[test]
fn two_settings_are_not_one() {
    let rows = |text: &str| report(&server(), Role::Load, "x.sh", &format!("#!/bin/sh\n{text}")).rows;
    let calm = |text: &str| {
        let rows = rows(text);
        assert!(rows.len() > 1 && rows.iter().all(|row| row.verdict < Verdict::Conflicts), "{text}: {rows:?}");
    };
    calm(
        "cat /sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us\ncat /sys/fs/cgroup/cpu,cpuacct/b/cpu.cfs_quota_us\n"
            .replace("cat", "ulimit -n 65535; cat")
            .as_str(),
    );
    calm("ethtool -K eth0 lro off\nethtool -K eth0 rxhash on\n");
    calm("systemctl stop irqbalance\nsystemctl disable irqbalance\n");
    assert!(
        rows("ethtool -K eth0 lro off\nethtool -K eth0 lro on\n").iter().any(|row| row.verdict == Verdict::Conflicts)
    );
    let shell = rows("ulimit -n 65535\n");
    assert_eq!((shell[0].verdict, shell[0].why.contains("what it starts")), (Verdict::Ok, true));
    // all and an interface: the larger counts.
    let filter = report(
        &server(),
        Role::WebKernel,
        "sysctl.conf",
        "net.ipv4.conf.all.rp_filter = 2\nnet.ipv4.conf.eth0.rp_filter = 0\nnet.ipv4.conf.default.rp_filter = 0\n",
    );
    let found: Vec<(&str, Verdict)> = filter.rows.iter().map(|row| (row.subject.as_str(), row.verdict)).collect();
    assert_eq!(found, [("all", Verdict::Ok), ("eth0", Verdict::Conflicts), ("default", Verdict::Ok)]);
}

/// An nginx.conf with fstack_conf is F-Stack's: kqueue and sendfile mean
/// something else there.
#[test]
fn the_configuration_of_f_stacks_nginx_is_known() {
    let text = "worker_processes 2;\nfstack_conf f-stack.conf;\nevents {\n  use kqueue;\n}\nhttp {\n  sendfile off;\n  \
                server {\n    listen 80 backlog=8192;\n  }\n}\n";
    let of = |text: &str, key: &str| verdict(&report(&server(), Role::WebKernel, "nginx.conf", text), key);
    for key in ["nginx use", "nginx sendfile", "nginx listen backlog"] {
        let (found, why) = of(text, key);
        assert!(found == Verdict::NoEffect && why.contains("F-Stack"), "{key}: {why}");
    }
    assert!(of(text, "nginx fstack_conf").1.contains("nearside import"));
    // Without it kqueue is another system's.
    assert_eq!(of(&text.replace("fstack_conf f-stack.conf;", ""), "nginx use").0, Verdict::WorseThanDefault);
}

/// Tuned puts a profile's own variables in; what another file or a function of tuned has for one is not known here,
/// and is not called wrong.
#[test]
fn variables_of_a_profile_are_what_they_stand_for() {
    let text = "[variables]\ncores=2-3\nall=${cores},5\n[sysctl]\nvm.swappiness=${unknown}\n[bootloader]\n\
                cmdline=+isolcpus=managed_irq,${all} nohz_full=${f:calc:1} nosoftlockup\n[cpu]\ngovernor=${g}\n";
    let rows = report(&server(), Role::Forwarder, "tuned.conf", text).rows;
    let of = |key: &str| {
        let row = rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}: {rows:#?}"));
        (row.value.as_str(), row.verdict)
    };
    assert_eq!(of("cmdline isolcpus").0, "managed_irq,2-3,5");
    assert_eq!(of("cmdline nosoftlockup").0, "nosoftlockup");
    assert_eq!(of("tuned [bootloader] cmdline"), ("nohz_full=${f:calc:1}", Verdict::Unknown));
    assert_eq!(of("tuned [sysctl] vm.swappiness"), ("${unknown}", Verdict::Unknown));
    assert_eq!(of("tuned [cpu] governor"), ("${g}", Verdict::Unknown));
    assert!(rows.iter().all(|row| row.verdict != Verdict::Refused), "{rows:#?}");
    // Each doubles the one before: they end where they would fill the memory.
    let doubled: String = (1..64).map(|n| format!("a{n}=${{a{}}}${{a{}}}\n", n - 1, n - 1)).collect();
    let rows = report(&server(), Role::Forwarder, "tuned.conf", &format!("[variables]\na0=x\n{doubled}")).rows;
    assert!(rows.iter().map(|row| row.value.len()).sum::<usize>() < 2 << 20);
}

/// What a machine config names and has not, or has in no form that can be read, costs that file alone.
#[test]
fn one_bad_file_of_a_machine_config_costs_that_file() {
    let file = |path: &str, source: &str| format!("      - path: {path}\n        contents: {{source: \"{source}\"}}\n");
    let good = file("/etc/sysctl.d/9.conf", "data:,vm.swappiness%20%3D%2010%0A");
    let config = |files: &str| format!("kind: MachineConfig\nspec:\n  config:\n    storage:\n      files:\n{files}");
    for (path, source, verdict) in [
        ("/etc/a", "https://example.com/x", None),
        ("/etc/a", "data:;base64,!", Some(Verdict::Refused)),
        ("/etc/a", "data:none", Some(Verdict::Refused)),
        ("/etc/a", "file:///x", Some(Verdict::Refused)),
        ("etc/a", "data:,x", Some(Verdict::Refused)),
        ("/etc/kubernetes/openshift-workload-pinning", "data:,%5B", Some(Verdict::Refused)),
    ] {
        for files in [file(path, source) + &good, good.clone() + &file(path, source)] {
            let rows = report(&server(), Role::Forwarder, "m.yaml", &config(&files)).rows;
            assert!(rows.iter().any(|row| row.key == "vm.swappiness"), "{source}: {rows:#?}");
            let of = |row: &&crate::Row| row.key == path || row.subject == path;
            let row = rows.iter().find(of).unwrap_or_else(|| panic!("{source}: {rows:#?}"));
            assert!(verdict.is_none_or(|verdict| row.verdict == verdict), "{source}: {row:#?}");
        }
    }
    let unit = "kind: MachineConfig\nspec:\n  config:\n    systemd:\n      units:\n      - name: thp.service\n        \
                contents: |\n          [Service]\n          ExecStart=-/bin/sh -c \"echo never > \
                /sys/kernel/mm/transparent_hugepage/enabled\"\n          ExecStart=/usr/sbin/sysctl -w \
                vm.swappiness=1\n";
    let rows = report(&server(), Role::Forwarder, "m.yaml", unit).rows;
    for (key, line) in [("transparent_hugepage/enabled", "m.yaml:9"), ("vm.swappiness", "m.yaml:10")] {
        assert!(rows.iter().any(|row| row.key == key && row.set_by == line), "{key}: {rows:#?}");
    }
}
