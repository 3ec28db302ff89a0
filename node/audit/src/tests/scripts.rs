//! What is not known is said to be not known, and no line of a script vanishes.

use super::server;
use crate::advice::{AdviceError, read};
use crate::{Evidence, Report, Role, Row, Verdict, judge_lines};

fn report(evidence: &Evidence, role: Role, file: &str, text: &str) -> Report {
    judge_lines(evidence, role, &read(file, text).expect(file))
}

fn script(text: &str) -> Report {
    report(&server(), Role::Forwarder, "tune.sh", text)
}

fn only(text: &str) -> Row {
    let mut rows = script(text).rows;
    assert_eq!(rows.len(), 1, "{text}: {rows:?}");
    rows.remove(0)
}

#[test]
fn what_no_rule_knows_is_not_called_without_effect() {
    let evidence = server().with("proc/sys/kernel/some_new_thing", "1").with("proc/sys/net/ipv4/some_other", "1");
    let text = "kernel.some_new_thing = 2\nnet.ipv4.some_other = 3\nnet.ipv4.tcp_sack = 1\nnet.ipv4.nowhere = 1\n";
    let report = report(&evidence, Role::WebKernel, "sysctl.conf", text);
    let verdicts: Vec<Verdict> = report.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::Unknown, Verdict::Unknown, Verdict::Unnecessary, Verdict::Removed]);
    assert_eq!(report.count(Verdict::Unknown), 2);
    assert!(report.rows[0].why.starts_with("not known to the catalogue"), "{}", report.rows[0].why);
    assert!(report.rows.iter().all(|row| row.verdict != Verdict::NoEffect));
}

/// Each line of a script is understood, or stands among the rows.
#[test]
fn no_line_of_a_script_vanishes() {
    let lines = [
        ("echo 4 > /proc/irq/24/smp_affinity", "interrupt affinity", "2"),
        ("echo 0-1,3 | sudo tee /proc/irq/24/smp_affinity_list", "interrupt affinity", "0-1,3"),
        ("echo 1 | tee -a /proc/sys/net/ipv4/tcp_sack >/dev/null", "net.ipv4.tcp_sack", "1"),
        ("printf '%s\\n' 1 >> /proc/sys/net/ipv4/tcp_sack", "net.ipv4.tcp_sack", "1"),
        ("echo \"net.ipv4.tcp_sack = 1\" >> /etc/sysctl.conf", "net.ipv4.tcp_sack", "1"),
        ("ulimit -u 4096", "limits.conf nproc", "4096"),
        ("ulimit -HSn 65536", "limits.conf", "65536"),
        ("numactl -N 0 -m 0 ./server", "numactl", "-N 0 -m 0 ./server"),
        ("taskset -c 1 ./server", "taskset", "-c 1 ./server"),
        ("cpupower frequency-set -g performance", "frequency governor", "performance"),
        (
            "for g in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo powersave > $g; done",
            "frequency governor",
            "powersave",
        ),
        ("cpupower idle-set -D 2", "cpupower idle-set", "-D 2"),
        ("dpdk-devbind.py -b vfio-pci 0000:00:03.0", "dpdk-devbind", "-b vfio-pci 0000:00:03.0"),
        ("bash -c 'echo 1 > /proc/sys/net/ipv4/tcp_sack'", "net.ipv4.tcp_sack", "1"),
        (
            "echo 512 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
            "huge pages of a domain",
            "512",
        ),
    ];
    for (line, key, value) in lines {
        let row = only(line);
        assert_eq!((row.key.as_str(), row.value.as_str()), (key, value), "{line}");
        assert_ne!(row.verdict, Verdict::Unknown, "{line}: {}", row.why);
    }
    // Each value of a loop is a setting; of values that nobody knows the lines are not understood.
    let keys = |text: &str| script(text).rows.into_iter().map(|row| (row.key, row.value)).collect::<Vec<_>>();
    let looped = "for x in net.ipv4.tcp_sack net.ipv4.tcp_timestamps; do\n  sysctl -w $x=0\ndone\n";
    let plain = "sysctl -w net.ipv4.tcp_sack=0\nsysctl -w net.ipv4.tcp_timestamps=0\n";
    assert_eq!(keys(looped), keys(plain));
    for text in [
        "while read l; do sysctl -w net.core.somaxconn=$l; done",
        "for l in $(x); do echo 1 > /proc/irq/$l/smp_affinity; done",
    ] {
        let report = script(text);
        assert!(
            report.rows.iter().all(|row| row.verdict == Verdict::Unknown) && report.rows.len() == 2,
            "{text}: {report:?}"
        );
    }
    for line in [
        "modprobe vfio-pci",
        "tc qdisc add dev eth0 root fq",
        "for i in 24 25 26; do",
        "sysctl -p /etc/other.conf",
        "ip link set eth0 mtu 9000",
        "mount -t hugetlbfs none /mnt/huge",
        "dd if=/dev/zero of=/dev/sda",
        "echo x > /etc/some/file",
        "make -j8",
        "ethtool -X eth0 equal 4",
    ] {
        let row = only(line);
        assert_eq!((row.verdict, row.set_by.as_str()), (Verdict::Unknown, "tune.sh:1"), "{line}: {row:?}");
        assert!(row.why.starts_with("not understood"), "{line}: {}", row.why);
    }
    for line in ["#!/bin/sh", "# x", "set -e", "cd /tmp", "sleep 1", "echo done", "IRQ=24", "true; exit 0", ""] {
        assert_eq!(script(line).rows, [], "{line}");
    }
}

/// Linux takes a list of which a core is on line, whatever else it names.
#[test]
fn interrupts_may_name_cores_off_line_beside_one_on_line() {
    let of = |line: &str| only(line).verdict;
    assert_eq!(of("echo 3ffff > /proc/irq/24/smp_affinity"), Verdict::Ok);
    assert_eq!(of("echo 30000 > /proc/irq/24/smp_affinity"), Verdict::Refused);
    assert_eq!(of("echo 0 > /proc/irq/24/smp_affinity"), Verdict::Refused);
    assert_eq!(of("echo 15-40 > /proc/irq/24/smp_affinity_list"), Verdict::Ok);
}

/// Interrupts are held against the cores that there are, and against the device's domain.
#[test]
fn interrupts_are_spread_and_near_their_device() {
    let of = |cores: &dyn Fn(u32) -> String| {
        let mut evidence = server().with("sys/class/net/eth0/device/numa_node", "1");
        for number in 0..2 {
            let cores = if number == 0 { "0-7" } else { "8-15" };
            evidence = evidence.with(&format!("sys/devices/system/node/node{number}/cpulist"), cores);
        }
        for irq in 0..8 {
            let (irq, list) = (100 + irq, cores(irq));
            evidence = evidence.with(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix");
            evidence = evidence.with(&format!("proc/irq/{irq}/smp_affinity_list"), &list);
        }
        let rows = crate::machine(&evidence, Role::WebKernel).rows;
        let row = rows.into_iter().find(|row| row.key == "interrupts of interfaces").expect("judged");
        (row.verdict, row.why)
    };
    assert_eq!(of(&|irq| (8 + irq).to_string()).0, Verdict::Ok);
    let (verdict, why) = of(&|irq| (8 + irq % 2).to_string());
    assert_eq!((verdict, why.as_str()), (Verdict::Improvable, "2 cores receive for all, and 8 could"));
    let (verdict, why) = of(&|irq| irq.to_string());
    let told = "8 of 8 cores are in another domain than the device, which is in 1";
    assert_eq!((verdict, why.as_str()), (Verdict::Improvable, told));
    assert_eq!(of(&|_| String::new()).0, Verdict::Unknown);
}

/// Threads and memory bound to what the machine has.
#[test]
fn bindings_are_held_against_the_machine() {
    let node = |evidence: Evidence, number: u32| {
        evidence.with(&format!("sys/devices/system/node/node{number}/cpulist"), if number == 0 { "0-1" } else { "2-3" })
    };
    let one = node(server(), 0);
    let two = node(one.clone(), 1);
    let of = |evidence: &Evidence, line: &str| report(evidence, Role::Forwarder, "x.sh", line).rows.remove(0).verdict;
    assert_eq!(of(&two, "numactl -N 0 -m 1 ./x"), Verdict::WorseThanDefault);
    assert_eq!(of(&two, "numactl -N 1 --membind=1 ./x"), Verdict::Ok);
    assert_eq!(of(&two, "numactl --interleave=all ./x"), Verdict::WorseThanDefault);
    assert_eq!(of(&one, "numactl -N 0 -m 1 ./x"), Verdict::Refused);
    assert_eq!(of(&one, "numactl -N 0 ./x"), Verdict::Unnecessary);
    assert_eq!(of(&two, "numactl --hardware"), Verdict::Unknown);
    // Memory alone is bound: threads run anywhere (numactl(8)).
    assert_eq!(of(&two, "numactl --membind=1 ./x"), Verdict::WorseThanDefault);
    assert_eq!(of(&two, "numactl --preferred=0 ./x"), Verdict::WorseThanDefault);
    assert_eq!(of(&two, "numactl -C 2-3 --membind=1 ./x"), Verdict::Ok);
    assert_eq!(of(&two, "numactl -C 1-2 --membind=1 ./x"), Verdict::WorseThanDefault);
    assert_eq!(of(&two, "numactl -N 0,1 -m 0-1 ./x"), Verdict::Ok);
    assert_eq!(of(&two, "numactl --interleave=0,7 ./x"), Verdict::Refused);
    assert_eq!(of(&one, "numactl --interleave=all ./x"), Verdict::Unnecessary);
    let four = node(node(two.clone(), 2), 3);
    let told = report(&four, Role::Forwarder, "x.sh", "numactl --interleave=all ./x").rows.remove(0).why;
    assert_eq!(told, "3 of 4 pages are another domain's than the core's");
    let told = report(&four, Role::Forwarder, "x.sh", "numactl --membind=1 ./x").rows.remove(0).why;
    assert!(told.starts_with("binds no thread") && told.contains("3 of 4 domains"), "{told}");
    assert_eq!(of(&two, "taskset -c 99 ./x"), Verdict::Refused);
    assert_eq!(of(&two, "taskset 0x3 ./x"), Verdict::Ok);
    assert_eq!(of(&two, "taskset -c x ./x"), Verdict::Refused);
    assert_eq!(of(&two, "dpdk-devbind -b igb_uio 0:3.0"), Verdict::WorseThanDefault);
    let both = script("echo never | tee /sys/kernel/mm/transparent_hugepage/{enabled,defrag}");
    assert_eq!(both.rows.len(), 2, "{both:?}");
}

#[test]
fn here_documents_are_files_with_lines() {
    let text = "cat > /etc/sysctl.d/99-x.conf <<'EOF'\n# x\nnet.ipv4.tcp_sack = 0\nnot a setting\nEOF\n\
                tee /etc/security/limits.conf <<E >/dev/null\n* soft nofile 1\nE\nreboot\n";
    let report = script(text);
    let told: Vec<(&str, &str)> = report.rows.iter().map(|row| (row.key.as_str(), row.set_by.as_str())).collect();
    assert_eq!(
        told,
        [
            ("net.ipv4.tcp_sack", "tune.sh:3"),
            ("not a setting", "tune.sh:4"),
            ("limits.conf", "tune.sh:7"),
            ("reboot", "tune.sh:9")
        ]
    );
    // One that is no file of settings is told as a command.
    assert_eq!(only("cat > /etc/motd <<E\nhello\nE").verdict, Verdict::Unknown);
}

#[test]
fn an_affinity_against_irqbalance_is_a_contradiction() {
    let line = "echo 1 > /proc/irq/24/smp_affinity";
    let with = |text: &str| script(&format!("{line}\n{text}\n")).rows.remove(0);
    assert_eq!(only(line).verdict, Verdict::Ok);
    let row = with("systemctl start irqbalance");
    assert!(row.verdict == Verdict::Conflicts && row.why.contains("tune.sh:2"), "{row:?}");
    assert_eq!(with("systemctl stop irqbalance").verdict, Verdict::Ok);
    assert_eq!(with("systemctl start irqbalance; systemctl disable --now irqbalance").verdict, Verdict::Ok);
    let running = server().with("proc/9/comm", "irqbalance").with("proc/irq/24/smp_affinity_list", "0-3");
    let of = |text: &str| report(&running, Role::Forwarder, "tune.sh", text).rows.remove(0);
    assert_eq!(of(line).verdict, Verdict::Conflicts);
    assert_eq!(of(&format!("{line}\nsystemctl stop irqbalance")).verdict, Verdict::Ok);
    assert_eq!(of("echo 1 > /proc/irq/99/smp_affinity").verdict, Verdict::Removed);
    assert_eq!(of("echo xyz > /proc/irq/24/smp_affinity").verdict, Verdict::Refused);
}

#[test]
fn huge_pages_by_domain_are_held_against_its_memory() {
    let evidence = server()
        .with("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       67108864 kB")
        .with("sys/devices/system/node/node0/cpulist", "0-3");
    let of = |pages: &str, node: &str, size: &str| {
        let line = format!("echo {pages} > /sys/devices/system/node/{node}/hugepages/hugepages-{size}/nr_hugepages");
        report(&evidence, Role::Forwarder, "tune.sh", &line).rows.remove(0)
    };
    let row = of("40960", "node0", "2048kB");
    assert!(row.verdict == Verdict::Dangerous && row.why.contains("80.0 GiB of the 64.0 GiB"), "{row:?}");
    assert_eq!(of("1024", "node0", "2048kB").verdict, Verdict::Ok);
    assert_eq!(of("8", "node0", "1048576kB").verdict, Verdict::Improvable);
    assert_eq!(of("1", "node7", "2048kB").verdict, Verdict::Removed);
    assert_eq!(of("many", "node0", "2048kB").verdict, Verdict::Refused);
}

#[test]
fn counters_and_what_was_missing_from_the_catalogue() {
    let text = "fs.file-nr = 1 2 3\nnet.ipv4.conf.all.forwarding = 0\nvm.nr_hugepages_mempolicy = 99999999\n";
    let evidence = ["fs/file-nr", "net/ipv4/conf/all/forwarding", "vm/nr_hugepages_mempolicy"]
        .iter()
        .fold(server(), |evidence, path| evidence.with(&format!("proc/sys/{path}"), "0"));
    let rows = report(&evidence, Role::WebKernel, "sysctl.conf", text).rows;
    let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::Refused, Verdict::Dangerous, Verdict::Dangerous], "{rows:?}");
    let tuned = "[main]\nsummary=x\n[scheduler]\ngroup.ksoftirqd=0:f:2:*:ksoftirqd.*\n[sysctl]\nvm.swappiness=1\n";
    let rows = report(&server(), Role::Forwarder, "tuned.conf", tuned).rows;
    assert_eq!((rows[0].key.as_str(), rows[0].verdict), ("tuned [scheduler] group.ksoftirqd", Verdict::Unknown));
    assert_eq!(rows.len(), 2, "{rows:?}");
    let fstack =
        "[dpdk]\nlcore_mask=1\nport_list=0\n[freebsd.boot]\nhz=100\n[freebsd.sysctl]\nkern.ipc.somaxconn=32768\n";
    let why = read("f-stack.conf", fstack).expect_err("it is F-Stack's");
    assert!(matches!(&why, AdviceError::OfOthers { .. }) && why.to_string().contains("nearside import"), "{why}");
}

/// `service` has the unit before what is done with it; `sysctl -p -` reads the lines behind it.
#[test]
fn commands_from_before_systemd_and_sysctls_from_a_here_document_are_understood() {
    for (text, verdict) in
        [("service irqbalance stop", Verdict::Ok), ("sudo service irqbalance stop # off", Verdict::Ok)]
    {
        let row = only(&format!("#!/bin/sh\n{text}\n"));
        assert_eq!(
            (row.key.as_str(), row.value.as_str(), row.verdict),
            ("service irqbalance", "stop", verdict),
            "{text}"
        );
    }
    for command in ["sysctl -p -", "sudo sysctl -p /dev/stdin", "sysctl --load=-"] {
        let rows = script(&format!(
            "#!/bin/sh\n{command} <<EOF\nvm.swappiness = 10 #low\nnet.ipv4.tcp_timestamps = 1#x\nEOF\n"
        ))
        .rows;
        let found: Vec<(&str, &str, bool)> =
            rows.iter().map(|row| (row.key.as_str(), row.set_by.as_str(), row.verdict == Verdict::Refused)).collect();
        let expected = [("vm.swappiness", "tune.sh:3", false), ("net.ipv4.tcp_timestamps", "tune.sh:4", true)];
        assert_eq!(found, expected, "{command}");
    }
}
