//! The catalogue as a whole, and what it says of published sets.

mod below;
mod container;
mod inputs;
mod keys;
mod published;
mod scripts;
mod strange;
mod values;

use crate::advice::{self, parse};
use crate::judge;
use crate::{Evidence, Probe, Role, Verdict, find, machine, rules};

/// A server with sixteen cores, 64 GB and Debian's kernel, all as it comes.
fn server() -> Evidence {
    Evidence::of(&[
        ("proc/sys/kernel/osrelease", "6.12.41+deb13-amd64"),
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet"),
        ("proc/meminfo", "MemTotal: 65000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugepagesize: 2048 kB"),
        ("proc/sys/fs/file-max", "9223372036854775807"),
        ("proc/sys/net/ipv4/tcp_timestamps", "1"),
        ("proc/sys/net/ipv4/tcp_tw_reuse", "2"),
        ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic"),
        ("proc/net/netstat", "TcpExt: ListenOverflows TW\nTcpExt: 0 9"),
        ("proc/net/softnet_stat", "00001000 00000000 00000000"),
        ("sys/devices/system/cpu/online", "0-15"),
        ("sys/devices/system/cpu/isolated", ""),
    ])
}

/// A setting of a sysctl.conf, or of what its key says.
fn setting(key: &str, value: &str) -> advice::Setting {
    advice::Setting {
        key: key.to_owned(),
        value: value.to_owned(),
        subject: String::new(),
        file: "x".to_owned(),
        line: 1,
        form: advice::FileForm::Sysctl,
        within: Vec::new(),
    }
}

fn verdicts(text: &str) -> Vec<(String, Verdict, String)> {
    let settings = parse("sysctl.conf", text).expect("a file of settings");
    let report = judge(&server(), Role::WebKernel, &settings);
    report.rows.into_iter().map(|row| (row.key, row.verdict, row.why)).collect()
}

fn verdict(line: &str) -> Verdict {
    verdicts(line)[0].1
}

#[test]
fn every_rule_has_its_texts_and_a_name_of_its_own() {
    let mut names: Vec<&str> = rules().map(|rule| rule.key).collect();
    let count = names.len();
    for rule in rules() {
        for (what, text) in [
            ("source", rule.source),
            ("explanation", rule.explain),
            ("gain", rule.gain),
            ("risk", rule.risk),
            ("undo", rule.undo),
        ] {
            assert!(!text.trim().is_empty(), "{}: no {what}", rule.key);
        }
        assert!(rule.explain.ends_with('.'), "{}", rule.key);
        assert_eq!(find(rule.key).map(|found| found.key), Some(rule.key));
        if matches!(rule.probe, Probe::Sysctl) {
            assert!(rule.key.contains('.') && !rule.key.contains(' '), "{}", rule.key);
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 150, "{count} rules");
}

/// Whatever stands in the place of a value, each rule says something and none
/// panics.
#[test]
fn no_value_is_too_strange() {
    let values = [
        "",
        "0",
        "-1",
        "18446744073709551616",
        "a b c",
        "1 2 3",
        "\u{1b}[31mred",
        "0-",
        "ffffffff,",
        "9 9 99999999999999999",
        "[x",
        "1e999",
        "NaN",
    ];
    for evidence in [server(), Evidence::default()] {
        for rule in rules() {
            for value in values {
                for role in Role::ALL {
                    for advised in [false, true] {
                        let case = crate::Case { value, subject: "x", advised, role, evidence: &evidence, others: &[] };
                        assert!(!rule.judge(&case).why.is_empty(), "{}", rule.key);
                    }
                }
            }
        }
        for role in Role::ALL {
            assert!(!machine(&evidence, role).rows.is_empty());
        }
    }
}

/// Values with the terminal's own language in them are shown without it.
#[test]
fn a_hostile_value_does_not_reach_the_terminal() {
    let evidence = server().with("proc/sys/net/core/default_qdisc", "fq\u{1b}[2J");
    let report = machine(&evidence, Role::WebKernel);
    assert!(report.rows.iter().all(|row| !row.value.contains('\u{1b}')));
}

/// What an article of 2016 advises, line by line.
#[test]
fn a_published_set_has_a_verdict_for_every_key() {
    let set = "fs.file-max = 2097152\nnet.core.somaxconn = 40960\nnet.core.netdev_max_backlog = 40960\n\
               net.core.rmem_default = 8388608\nnet.ipv4.tcp_rmem = 4096 87380 4194304\nnet.ipv4.tcp_wmem = \
               4096 16384 4194304\n\
               net.ipv4.tcp_mem = 94500000 915000000 927000000\nnet.ipv4.tcp_max_tw_buckets = 6000\n\
               net.ipv4.tcp_timestamps = 0\nnet.ipv4.tcp_tw_recycle = 1\nnet.ipv4.tcp_tw_reuse = 1\n\
               net.ipv4.tcp_fin_timeout = 1\nnet.ipv4.tcp_synack_retries = 1\nnet.ipv4.tcp_max_orphans = 3276800\n\
               kernel.shmmax = 68719476736\nkernel.msgmax = 65536\nnet.ipv4.ip_forward = 0\nvm.drop_caches = 3\n\
               net.ipv4.tcp_slow_start_after_idle = 0\nno.such.key = 1\n";
    let expected = [
        Verdict::WorseThanDefault,
        Verdict::Unnecessary,
        Verdict::Unnecessary,
        Verdict::WorseThanDefault,
        Verdict::WorseThanDefault,
        Verdict::NoEffect,
        Verdict::Dangerous,
        Verdict::WorseThanDefault,
        Verdict::Conflicts,
        Verdict::Removed,
        Verdict::Conflicts,
        Verdict::WorseThanDefault,
        Verdict::WorseThanDefault,
        Verdict::WorseThanDefault,
        Verdict::WorseThanDefault,
        Verdict::NoEffect,
        Verdict::Dangerous,
        Verdict::WorseThanDefault,
        Verdict::Ok,
        Verdict::Removed,
    ];
    let found = verdicts(set);
    for ((key, verdict, why), expected) in found.iter().zip(expected) {
        assert_eq!(*verdict, expected, "{key}: {why}");
    }
    assert_eq!(found.len(), expected.len());
}

/// The unit is pages: the published value is 3.8 TB.
#[test]
fn the_unit_of_tcp_mem_is_pages() {
    let found = verdicts("net.ipv4.tcp_mem = 94500000 915000000 927000000");
    assert!(found[0].2.contains("3.8 TB"), "{}", found[0].2);
    // Linux's own for this memory.
    assert_eq!(verdict("net.ipv4.tcp_mem = 764000 1018000 1528000"), Verdict::Ok);
}

#[test]
fn a_key_set_twice_names_the_other_place() {
    let found = verdicts("vm.swappiness = 1\nnet.ipv4.tcp_sack = 1\nvm.swappiness = 10");
    assert_eq!(found[0].1, Verdict::Conflicts);
    assert!(found[0].2.contains("sysctl.conf:3"), "{}", found[0].2);
}

#[test]
fn interfaces_keys_find_their_rule() {
    assert_eq!(find("net.ipv4.conf.eth0.rp_filter").map(|rule| rule.key), Some("net.ipv4.conf.*.rp_filter"));
    assert_eq!(find("net/ipv4/tcp_sack").map(|rule| rule.key), Some("net.ipv4.tcp_sack"));
    assert_eq!(find("net.ipv4.tcp_sac").map(|rule| rule.key), None);
}

#[test]
fn slips_of_a_published_command_line() {
    let line = "isolcpus=2-15 nohz_full=2-15 rcu_nocbs=2-15 idle=poll processor.max_cstate=1 \
        intel_idle.max_cstate=0 mce=off \
                rcutree.kthread_prio=11 rcupdate.rcu_normal_after_boot=0 mitigations=off audit=0";
    let settings = parse("cmdline", line).expect("a command line");
    let report = judge(&server(), Role::Forwarder, &settings);
    let of = |key: &str| report.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!(of("cmdline mce").verdict, Verdict::Dangerous);
    assert_eq!(of("cmdline mitigations").verdict, Verdict::Dangerous);
    assert_eq!(of("cmdline audit").verdict, Verdict::Dangerous);
    assert_eq!(of("cmdline rcu_nocbs").verdict, Verdict::Unnecessary);
    assert_eq!(of("cmdline processor.max_cstate").verdict, Verdict::Unnecessary);
    assert_eq!(of("cmdline intel_idle.max_cstate").verdict, Verdict::Unnecessary);
    assert!(of("cmdline intel_idle.max_cstate").why.contains("intel_pstate"));
    assert_eq!(of("cmdline idle").verdict, Verdict::WorseThanDefault);
    assert_eq!(of("cmdline rcutree.kthread_prio").verdict, Verdict::Ok);
    assert_eq!(of("cmdline isolcpus").verdict, Verdict::Improvable);
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    let why = parse("sysctl.conf", "vm.swappiness = 1\nnonsense here\n").expect_err("no setting");
    assert_eq!(why.to_string(), "sysctl.conf:2: is no setting: key = value");
    assert!(matches!(parse("x", "what is this"), Err(advice::AdviceError::UnknownForm { .. })));
    assert!(matches!(parse("sysctl.conf", &"a".repeat(2 << 20)), Err(advice::AdviceError::TooLong(_))));
}

#[test]
fn a_tuned_profile_and_limits() {
    let profile = "[main]\nsummary=x\n[sysctl]\nkernel.timer_migration=0\n[vm]\ntransparent_hugepages=always\n[cpu]\n\
                   governor=performance\n[bootloader]\ncmdline_x=+nosmap quiet\n";
    let report = judge(&server(), Role::Web, &parse("tuned.conf", profile).expect("a profile"));
    let verdicts: Vec<(&str, Verdict)> = report.rows.iter().map(|row| (row.key.as_str(), row.verdict)).collect();
    assert_eq!(
        verdicts[..4],
        [
            ("kernel.timer_migration", Verdict::Ok),
            ("transparent_hugepage/enabled", Verdict::Improvable),
            ("frequency governor", Verdict::Ok),
            ("cmdline nosmap", Verdict::Dangerous),
        ]
    );
    let limits = judge(&server(), Role::WebKernel, &parse("limits.conf", "* soft nofile 655350\n").expect("limits"));
    assert_eq!(limits.rows[0].verdict, Verdict::NoEffect);
}
