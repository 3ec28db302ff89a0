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
