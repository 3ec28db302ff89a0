use super::*;
use std::fs;

fn machine(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
    let root = std::env::temp_dir().join(format!("nearside-environment-{name}-{}", std::process::id()));
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    root
}

#[test]
fn a_machine_is_told_by_its_files() {
    let root = machine(
        "files",
        &[
            ("proc/cpuinfo", "processor : 0\nmodel name\t: A 9000\nmicrocode\t: 0xb1\nflags : fpu hypervisor\n"),
            ("proc/meminfo", "MemTotal:  2048 kB\n"),
            ("proc/self/cgroup", "0::/box\n"),
            ("proc/loadavg", "0.50 0.25 0.10 2/345 678\n"),
            ("proc/irq/41/smp_affinity_list", "1\n"),
            ("proc/irq/42/smp_affinity_list", "2-3\n"),
            ("sys/fs/cgroup/box/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/box/memory.max", "max\n"),
            ("sys/devices/system/cpu/vulnerabilities/a", "Mitigation: some\n"),
            ("sys/devices/system/cpu/vulnerabilities/b", "Not affected\n"),
            ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       4096 kB\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "20\n"),
            ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
            ("sys/class/net/eth0/mtu", "9000\n"),
            ("sys/class/net/eth0/speed", "-1\n"),
            ("sys/class/net/eth0/queues/rx-0/x", ""),
            ("sys/class/net/eth0/device/msi_irqs/41", ""),
            ("sys/class/net/eth0/device/msi_irqs/42", ""),
            ("sys/class/net/veth0/mtu", "1500\n"),
            ("sys/class/net/lo/mtu", "65536\n"),
        ],
    );
    std::os::unix::fs::symlink("../../drivers/e1000e", root.join("sys/class/net/eth0/device/driver")).expect("a link");
    fs::create_dir_all(root.join("sys/class/net/drivers/e1000e")).expect("what it leads to");
    let found = machine::read(&Sysroot::at(&root), vec![0, 1]);
    let ports = interfaces::read(&Sysroot::at(&root), &["veth0"]);
    fs::remove_dir_all(&root).expect("removed");
    assert_eq!((&*found.processor, found.virtual_machine, found.memory_mib), ("A 9000", true, 2));
    let expected = [
        ("memory of domain 0", "4 MiB, 20 pages of 1048576kB"),
        ("microcode", "0xb1"),
        ("mitigations", "a: Mitigation: some"),
        ("neighbours", "load 0.50 in a minute, 0.25 in five; running 2/345"),
        ("processor quota", "50000 100000"),
    ];
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    assert_eq!(found.environment, expected.map(own).into());
    let expected = [
        ("interface eth0", "e1000e, of unknown speed, MTU 9000, 1 receive queues"),
        ("interface eth0 interrupts", "2 on cores 1; 2-3"),
        ("interface veth0", "without a device, of unknown speed, MTU 1500, 0 receive queues"),
    ];
    assert_eq!(ports, expected.map(own).into());
}

/// Files that lie, or lack, are no end.
#[test]
fn a_machine_of_garbage_is_told_as_far_as_it_can_be() {
    let long = "x".repeat(1 << 20);
    let root = machine(
        "garbage",
        &[
            ("proc/cpuinfo", "model name\n::::\n\0"),
            ("proc/meminfo", "MemTotal: 99999999999999999999 kB\n"),
            ("proc/self/cgroup", "0::/../../../../etc\n"),
            ("proc/loadavg", "1"),
            ("sys/devices/system/node/node0/meminfo", "MemTotal:\n"),
            ("sys/devices/system/cpu/isolated", &long),
            ("sys/class/net/e/speed", "fast"),
        ],
    );
    let found = machine::read(&Sysroot::at(&root), Vec::new());
    let ports = interfaces::read(&Sysroot::at(&root), &["e"]);
    fs::remove_dir_all(&root).expect("removed");
    assert_eq!((&*found.processor, found.memory_mib), ("unknown", 0));
    assert_eq!(ports["interface e"], "without a device, of unknown speed, MTU 0, 0 receive queues");
}

#[test]
fn this_machine_is_known_and_is_like_itself() {
    let this = Fingerprint::read_with(&["lo"]);
    assert!(!this.cores.is_empty() && this.memory_mib > 0 && !this.kernel.is_empty());
    assert!(this.environment.contains_key("interface lo"), "{this:?}");
    assert!(this.environment.contains_key("interface lo offloads"), "netlink tells: {this:?}");
    let again = Fingerprint::read_with(&["lo"]);
    assert_eq!(unlike(&this, &again), []);
}

#[test]
fn what_differs_is_told_and_whether_it_matters() {
    let mut before = Fingerprint { processor: "A".into(), kernel: "6.1".into(), ..Fingerprint::default() };
    before.environment.insert("microcode".into(), "1".into());
    before.environment.insert("interface eth0".into(), "ixgbe".into());
    before.environment.insert("interface eth0 rings".into(), "rx 512".into());
    before.environment.insert("neighbours".into(), "load 9".into());
    let mut after = before.clone();
    after.environment.insert("neighbours".into(), "load 0".into());
    assert_eq!(unlike(&before, &after), []);
    after.kernel = "6.2".into();
    after.environment.insert("interface eth0 rings".into(), "rx 4096".into());
    assert!(unlike(&before, &after).iter().all(|one| !one.matters), "what is set may be what it is about");
    after.environment.remove("microcode");
    after.processor = "B".into();
    let found = unlike(&before, &after);
    let words: Vec<(String, bool)> = found.iter().map(|one| (one.to_string(), one.matters)).collect();
    let expected = [
        ("microcode: 1 and not there (microcode changes what instructions cost)", true),
        ("processor: A and B (another processor has another speed)", true),
        ("interface eth0 rings: rx 512 and rx 4096", false),
        ("kernel: 6.1 and 6.2", false),
    ];
    assert_eq!(words, expected.map(|(text, matters)| (text.to_owned(), matters)));
    // Results of earlier versions tell nothing of their surroundings.
    before.environment.clear();
    after.processor = "A".into();
    assert!(unlike(&before, &after).iter().all(|one| !one.matters));
}

/// Two runs of one machine, whose hypervisor plugs memory, are alike; a machine of another
/// size, or the same growth without a hypervisor, is not.
#[test]
fn memory_is_alike_within_what_plugging_makes_of_it() {
    let of = |virtual_machine, mib: u64, domain: &str| {
        let environment = [("memory of domain 0".to_owned(), domain.to_owned())].into();
        Fingerprint { virtual_machine, memory_mib: mib, environment, ..Fingerprint::default() }
    };
    let matter = |before: &Fingerprint, after: &Fingerprint| {
        let all = unlike(before, after);
        (all.len(), all.iter().filter(|one| one.matters).count())
    };
    let guest = of(true, 10_586, "10586 MiB");
    assert_eq!(matter(&guest, &of(true, 10_714, "10714 MiB")), (2, 0), "told, and no reason to refuse");
    assert_eq!(matter(&guest, &of(true, 10_586, "10586 MiB, 4 pages of 2048kB")), (1, 0), "pages are a setting");
    assert_eq!(matter(&guest, &of(true, 64_000, "64000 MiB")), (2, 2), "another machine");
    let host = of(false, 10_586, "10586 MiB");
    assert_eq!(matter(&host, &of(false, 10_486, "10486 MiB")), (2, 0), "firmware keeps a part");
    assert_eq!(matter(&host, &of(false, 16_000, "16000 MiB")), (2, 2));
    assert_eq!(matter(&of(false, 0, "x"), &host), (2, 0), "what nobody knows says nothing");
}

/// An interface that is plugged in between was not what figures were taken over; one whose
/// driver changed may have been.
#[test]
fn interfaces_that_come_and_go_are_told() {
    let with = |name: &str, what: &str| {
        let environment = [("microcode".to_owned(), "1".to_owned()), (name.to_owned(), what.to_owned())].into();
        Fingerprint { environment, ..Fingerprint::default() }
    };
    let before = with("interface eth0", "virtio_net");
    let changed = unlike(&before, &with("interface eth0", "e1000"));
    assert!(changed.len() == 1 && changed[0].matters, "{changed:?}");
    let moved = unlike(&before, &with("interface eth1", "virtio_net"));
    assert!(moved.len() == 2 && moved.iter().all(|one| !one.matters), "{moved:?}");
}
