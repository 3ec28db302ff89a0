//! Keys of interfaces, and numbers below zero.

use super::server;
use crate::advice::read;
use crate::{Report, Role, Verdict, judge_lines};

fn report(file: &str, text: &str) -> Report {
    judge_lines(&server(), Role::WebKernel, &read(file, text).expect(file))
}

/// A VLAN's name has a dot, which is a slash in a key; files of procfs have it as it is.
#[test]
fn an_interface_with_a_dot_in_its_name_is_that_interface() {
    for (name, text) in [
        ("sysctl.conf", "net.ipv4.conf.eth0/100.rp_filter = 1\n"),
        ("sysctl.conf", "net/ipv4/conf/eth0.100/rp_filter = 1\n"),
        ("tmpfiles.conf", "w /proc/sys/net/ipv4/conf/eth0.100/rp_filter - - - - 1\n"),
        ("a.sh", "#!/bin/sh\necho 1 > /proc/sys/net/ipv4/conf/eth0.100/rp_filter\n"),
    ] {
        let rows = report(name, text).rows;
        assert_eq!((rows.len(), rows[0].subject.as_str(), rows[0].value.as_str()), (1, "eth0/100", "1"), "{text}");
        assert_ne!(rows[0].verdict, Verdict::Refused, "{text}: {}", rows[0].why);
    }
    for (key, meant) in [
        ("net.ipv4.conf.eth0.100.rp_filter", "net.ipv4.conf.eth0/100.rp_filter"),
        ("net.ipv6.conf.bond0.7.disable_ipv6", "net.ipv6.conf.bond0/7.disable_ipv6"),
        ("net.ipv4.neigh.eth0.100.base_reachable_time_ms", "net.ipv4.neigh.eth0/100.base_reachable_time_ms"),
    ] {
        let rows = report("sysctl.conf", &format!("{key} = 1\n")).rows;
        assert_eq!(
            (rows[0].key.as_str(), rows[0].verdict, rows[0].want.as_deref()),
            (key, Verdict::Refused, Some(meant))
        );
        assert_eq!(rows[0].subject, "");
    }
}

/// What the kernel takes as a number is not called none, whatever its sign.
#[test]
fn numbers_below_zero_that_the_kernel_takes_are_numbers() {
    for key in [
        "net.ipv4.tcp_max_syn_backlog",
        "net.ipv4.tcp_max_tw_buckets",
        "net.ipv4.tcp_max_orphans",
        "net.ipv4.tcp_fin_timeout",
        "net.core.netdev_max_backlog",
        "net.core.netdev_budget",
    ] {
        let of = |value: &str| {
            let row = report("sysctl.conf", &format!("{key} = {value}\n")).rows.remove(0);
            (row.verdict, row.why)
        };
        let (found, why) = of("-1");
        let bad = matches!(found, Verdict::WorseThanDefault | Verdict::Dangerous);
        assert!(bad && why.contains("below zero"), "{key}: {why}");
        let (found, why) = of("many");
        assert!(found == Verdict::Refused && why.contains("is no number"), "{key}: {why}");
    }
}
