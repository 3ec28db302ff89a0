//! Recordings that somebody cut, mixed up or wrote to do harm, and folders
//! that are no machine: a row says that something cannot be read, and nothing
//! ends.

use super::server;
use crate::{Evidence, Role, Verdict, machine, origin};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// What stands in the place of a file's text.
const ODD: [&str; 14] = [
    "",
    "\u{0}\u{1b}[2J",
    "-",
    "0-",
    "18446744073709551616",
    "-9223372036854775809",
    "ffffffff,ffffffff,ffffffff,ffffffff",
    "4294967295",
    "0-4294967295",
    "a=b=c [",
    "NaN inf",
    "]]]] [[[[",
    "0::/../../../x.service",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
];

/// Sebastiano Vigna's SplitMix64: the same machines in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ (bits >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }
}

/// This machine, and one with sockets, domains and siblings.
fn machines() -> [Evidence; 2] {
    let other = include_str!("../../../topology/fixtures/two-sockets.txt");
    [Evidence::take(Path::new("/")).expect("a machine"), Evidence::parse(other).expect("a recording")]
}

fn judged(evidence: &Evidence) {
    // What is read is read for each role; judging for two is enough.
    for role in [Role::Web, Role::Mixed] {
        let report = machine(evidence, role);
        assert!(report.rows.iter().all(|row| !row.why.is_empty()));
        // Nothing that a terminal would obey comes through.
        let plain = |text: &str| text.chars().all(|char| !char.is_control());
        assert!(report.rows.iter().all(|row| plain(&row.value)), "a control character in a value");
    }
}

#[test]
fn recordings_that_were_cut_or_mixed_up_are_judged_all_the_same() {
    let mut dice = Dice(16);
    for whole in machines() {
        let text = whole.to_string();
        // As text, cut anywhere: the line it was cut in may be none.
        for _ in 0..3 {
            let part = text.get(..dice.below(text.len()));
            if let Some(Ok(evidence)) = part.map(Evidence::parse) {
                judged(&evidence);
            }
        }
        // File by file: garbage, halves, and others' texts.
        let paths: Vec<String> = whole.files().map(|(path, _)| path.to_owned()).collect();
        for _ in 0..3 {
            let mut evidence = server();
            for path in &paths {
                let own = whole.get(path).unwrap_or_default();
                let odd = match dice.below(6) {
                    0 => ODD[dice.below(ODD.len())].to_owned(),
                    1 => own.get(..dice.below(own.len() + 1)).unwrap_or_default().to_owned(),
                    2 => whole.get(&paths[dice.below(paths.len())]).unwrap_or_default().to_owned(),
                    _ => own.to_owned(),
                };
                evidence = evidence.with(path, &odd);
            }
            judged(&evidence);
        }
    }
}

/// Every file that a rule reads, with each odd text alone.
#[test]
fn each_sysctl_and_file_of_a_rule_may_say_anything() {
    let [base, _] = machines();
    let names = ["cmdline", "meminfo", "vmstat", "stat", "interrupts", "softirqs", "mounts", "net/softnet_stat"];
    // Neighbours have another one each time, so that each meets each.
    for shift in 0..ODD.len() {
        let odd = |at: usize| ODD[(at + shift) % ODD.len()];
        let mut evidence = base.clone();
        for (at, rule) in crate::rules().enumerate() {
            match rule.probe {
                crate::Probe::Sysctl => evidence = evidence.with(&crate::sysctl_path(rule.key), odd(at)),
                crate::Probe::File(path) => evidence = evidence.with(path, odd(at)),
                _ => {}
            }
        }
        for (at, name) in names.iter().enumerate() {
            evidence = evidence.with(&format!("proc/{name}"), odd(at));
        }
        let role = Role::ALL[shift % Role::ALL.len()];
        assert!(machine(&evidence, role).rows.iter().all(|row| !row.why.is_empty()));
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Folders, pipes, loops, rights that are missing, bytes that are no text: in
/// the place of files.
#[test]
fn a_folder_that_is_no_machine_is_read_as_far_as_it_goes() {
    let folder = Folder(std::env::temp_dir().join(format!("nearside-audit-strange-{}", std::process::id())));
    let _ = fs::remove_dir_all(&folder.0);
    let put = |path: &str, bytes: &[u8]| {
        let path = folder.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    };
    put("proc/sys/vm/swappiness", b"\xff\xfe\x00");
    put("proc/sys/net/core/somaxconn", &vec![b'9'; 1 << 20]);
    put("proc/meminfo", b"MemTotal:");
    put("proc/77/comm", b"nginx\n");
    put("proc/77/limits", b"Limit\nMax open files");
    put("sys/class/net/eth0/mtu", b"1500\n");
    fs::create_dir_all(folder.0.join("proc/cmdline")).expect("a folder");
    fs::create_dir_all(folder.0.join("sys/kernel/mm/ksm/run")).expect("a folder");
    symlink("loop", folder.0.join("sys/kernel/mm/transparent_hugepage")).expect("a link");
    symlink("loop", folder.0.join("sys/kernel/mm/loop")).expect("a link");
    symlink("eth0", folder.0.join("sys/class/net/eth1")).expect("a link");
    // Reading it would wait for whoever writes.
    let pipe = std::process::Command::new("mkfifo").arg(folder.0.join("proc/sys/vm/dirty_ratio")).status();
    assert!(pipe.is_ok_and(|status| status.success()), "mkfifo");
    put("proc/sys/vm/laptop_mode", b"0");
    fs::set_permissions(folder.0.join("proc/sys/vm/laptop_mode"), fs::Permissions::from_mode(0o200)).expect("our own");
    let evidence = Evidence::take(&folder.0).expect("something of a machine");
    judged(&evidence);
    let report = machine(&evidence, Role::WebKernel);
    let row = |key: &str| report.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(row("vm.dirty_ratio").verdict, Verdict::NotApplicable);
    assert_eq!(row("ksm/run").verdict, Verdict::NotApplicable);
    assert_eq!(row("open files of servers").verdict, Verdict::Unreadable);
    let again = Evidence::parse(&evidence.to_string()).expect("a recording");
    assert_eq!(machine(&again, Role::WebKernel), report);
}

/// Links of a folder that end in the machine that reads it.
#[test]
fn nothing_of_this_machine_is_taken_for_the_folders() {
    let folder = Folder(std::env::temp_dir().join(format!("nearside-audit-links-{}", std::process::id())));
    let _ = fs::remove_dir_all(&folder.0);
    let host = folder.0.join("host");
    let root = folder.0.join("root");
    fs::create_dir_all(host.join("net")).expect("a folder");
    for path in ["secret", "comm", "mtu"] {
        fs::write(host.join(path), "secret of the host\n").expect("a file");
    }
    for path in ["proc/sys/vm", "proc/7", "sys/class/net/eth0", "etc/sysctl.d"] {
        fs::create_dir_all(root.join(path)).expect("a folder");
    }
    let links = [
        ("proc/sys/vm/swappiness", "secret"),
        ("proc/meminfo", "secret"),
        ("proc/7/comm", "comm"),
        ("proc/sys/net", ""),
        ("sys/class/net/eth0/mtu", "mtu"),
        ("etc/sysctl.d/90.conf", "secret"),
    ];
    for (path, target) in links {
        let path = root.join(path);
        let up = "../".repeat(path.strip_prefix(&folder.0).expect("below it").components().count() - 1);
        symlink(if target == "mtu" { format!("{up}host/{target}").into() } else { host.join(target) }, path)
            .expect("a link");
    }
    let evidence = Evidence::take(&root).expect("something of a machine");
    assert!(!evidence.to_string().contains("secret"), "{evidence}");
}

/// Profiles that include each other by the thousand, and a unit's name that
/// leads elsewhere.
#[test]
fn whom_a_value_is_from_is_asked_in_bounded_time() {
    let many = format!("[main]\n{}", "include=a,b,a,b,a,b,a,b\n".repeat(500));
    let evidence = Evidence::of(&[
        ("proc/7/comm", "tuned"),
        ("proc/9/cgroup", "0::/../../etc/x.service"),
        ("etc/tuned/active_profile", "a b a b"),
        ("etc/tuned/a/tuned.conf", &many),
        ("etc/tuned/b/tuned.conf", &many),
    ]);
    assert_eq!(origin::of_sysctl(&evidence, "vm.swappiness", "1").overruled, []);
    assert!(!origin::of_limit(&evidence, "9", "LimitNOFILE", "9").by.is_empty());
}

/// Files of every form, of which bytes were changed, doubled, left out: each is
/// read and judged, or refused with a line, and nothing ends.
#[test]
fn files_that_were_spoilt_anywhere_are_judged_all_the_same() {
    const FILES: [(&str, &str); 8] = [
        (
            "sysctl.conf",
            "net.ipv4.tcp_rmem = 4096 87380 4194304 #rx\n-net.ipv4.conf.*.rp_filter = 2\nvm.swappiness=1\n",
        ),
        (
            "tuned.conf",
            "[main]\ninclude=a,b\n[sysctl] # x\nvm.swappiness=>10\n[bootloader]\ncmdline_a=+idle=poll\n  b=2\n",
        ),
        ("limits.conf", "* soft nofile 65535 # x\n* - nofile 5\n@a hard nproc unlimited\n"),
        (
            "grub",
            "export GRUB_CMDLINE_LINUX+=\"$A isolcpus=managed_irq,2-7 x='y'\" # z\nGRUB_CMDLINE_LINUX='a' \\\nb\n",
        ),
        ("a.conf", "w /proc/sys/net/ipv4/tcp_sack - - - - 0 #x\nw /sys/kernel/mm/ksm/run - - - - 1\n"),
        ("x.sh", "#!/bin/sh\necho 'a # b' > /proc/sys/vm/swappiness; ethtool -C eth0 rx-usecs 0 # c\nulimit -n 9\n"),
        (
            "t.yaml",
            "kind: Tuned\nmetadata: {name: a}\nspec:\n  profile:\n  - name: a\n    data: |\n      [main]\n      \
             include=openshift-node-performance-q\n      [sysctl]\n      kernel.sem=1 2 3 4\n  recommend:\n  - \
             {machineConfigLabels: {machineconfiguration.openshift.io/role: w}, priority: 1, profile: a}\n",
        ),
        (
            "p.yaml",
            "kind: PerformanceProfile\nmetadata: {name: q}\nspec:\n  cpu: {isolated: 2-7, reserved: 0-1, shared: \"\"}\n  \
             hugepages: {defaultHugepagesSize: 1G, pages: [{size: 1G, count: 4, node: 0}]}\n  nodeSelector: {a.b/c: \"\"}\n",
        ),
    ];
    let mut dice = Dice(38);
    let odd = [
        "#",
        "=",
        "\"",
        "'",
        "\\",
        "\u{a0}",
        "\u{0}",
        "ß",
        "[",
        "]",
        "\n",
        " ",
        "-",
        ",",
        "0x",
        "99999999999999999999",
    ];
    for (name, text) in FILES {
        for _ in 0..200 {
            let mut spoilt: Vec<char> = text.chars().collect();
            for _ in 0..=dice.below(4) {
                let at = dice.below(spoilt.len());
                match dice.below(3) {
                    0 => drop(spoilt.remove(at)),
                    1 => drop(spoilt.splice(at..at, odd[dice.below(odd.len())].chars())),
                    _ => spoilt.truncate(at.max(1)),
                }
            }
            let spoilt: String = spoilt.into_iter().collect();
            if let Ok(advice) = crate::advice::read(name, &spoilt) {
                let report = crate::judge_lines(&server(), Role::Mixed, &advice);
                assert_eq!(report.rows.len(), advice.settings.len() + advice.faults.len());
                assert!(report.rows.iter().all(|row| !row.why.is_empty() && !row.set_by.is_empty()), "{spoilt}");
            }
        }
    }
}
