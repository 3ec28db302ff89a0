//! Machines recorded, and read again.

use super::*;
use std::fs;

pub fn fixture(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format!("{name}.txt"));
    Recording::parse(&fs::read_to_string(path).unwrap()).unwrap()
}

pub fn machine(name: &str, allowed: Option<&[u16]>) -> Topology {
    Topology::of(&fixture(name), allowed).unwrap()
}

pub const FIXTURES: [&str; 5] = ["single", "two-sockets", "epyc-nps4", "memoryless", "offline"];

/// Machines with disks, whose links tell how they run.
const MEDIA: [&str; 2] = ["media-two", "media-four"];

/// A folder with a recording's files, gone when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("nearside-topology-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn of(recording: &Recording, name: &str) -> Self {
        let folder = Self::new(name);
        for (path, text) in recording.files() {
            let path = folder.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // A queue is a folder, and so is empty.
            if path.parent().unwrap().ends_with("queues") {
                fs::create_dir_all(&path).unwrap();
            } else {
                fs::write(path, text).unwrap();
            }
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_recording_a_folder_and_a_text_say_the_same() {
    for name in FIXTURES.into_iter().chain(MEDIA) {
        let recording = fixture(name);
        let again = Recording::parse(&recording.to_string()).unwrap();
        assert_eq!(again, recording, "{name}");
        let folder = Folder::of(&recording, name);
        let read = Topology::read(&folder.0, None).unwrap();
        assert_eq!(read, machine(name, None), "{name}");
    }
}

#[test]
fn one_domain() {
    let one = machine("single", None);
    assert_eq!(one.domains.len(), 1);
    assert_eq!((one.cores.len(), one.domains[0].cores.len()), (8, 8));
    assert_eq!((one.domains[0].memory_total, one.domains[0].memory_free), (16 << 30, 9 << 30));
    assert_eq!(one.core(5).unwrap().siblings, [1, 5]);
    assert_eq!(one.core(5).unwrap().cache, [0, 1, 2, 3, 4, 5, 6, 7]);
    let nic = one.interface("enp3s0").unwrap();
    // The firmware says -1, but there is nowhere else.
    assert_eq!((nic.domain, nic.device, nic.rx_queues, nic.tx_queues), (Some(0), true, 4, 4));
    assert_eq!(nic.interrupts[1], (121, vec![1]));
    let veth = one.interface("veth0").unwrap();
    assert_eq!((veth.domain, veth.device, veth.rx_queues), (None, false, 2));
    assert!(one.interface("bonding_masters").is_none());
    assert_eq!(one.describe_core(3), "core 3");
}

#[test]
fn two_sockets_numbered_in_turn() {
    let two = machine("two-sockets", None);
    assert_eq!((two.domain_of(6), two.domain_of(7), two.domain_of(16)), (Some(0), Some(1), None));
    assert_eq!(two.core(3).unwrap().siblings, [3, 11]);
    assert_eq!(two.core(3).unwrap().package, Some(1));
    assert_eq!((two.distance(0, 1), two.distance(1, 1), two.distance(0, 2)), (Some(21), Some(10), None));
    assert_eq!(two.interface("ens2f0").unwrap().domain, Some(1));
    assert_eq!(two.describe_core(3), "core 3 (NUMA domain 1)");
}

#[test]
fn four_domains_in_each_socket() {
    let epyc = machine("epyc-nps4", None);
    assert_eq!(epyc.domains.len(), 8);
    assert_eq!(epyc.nearest(6), [6, 4, 5, 7, 0, 1, 2, 3]);
    assert_eq!((epyc.distance(0, 3), epyc.distance(0, 4)), (Some(12), Some(32)));
    assert_eq!(epyc.core(4).unwrap().cache, [4, 5, 6, 7, 36, 37, 38, 39]);
    assert_eq!(epyc.interface("enp193s0f0np0").unwrap().domain, Some(6));
}

#[test]
fn disks_and_links_have_their_domain() {
    let two = machine("media-two", None);
    let disks: Vec<_> = two.disks.iter().map(|disk| (disk.name.as_str(), disk.domain, disk.is_nvme())).collect();
    let nvme = |name, domain| (name, Some(domain), true);
    assert_eq!(
        disks,
        [nvme("nvme0n1", 0), nvme("nvme1n1", 0), nvme("nvme2n1", 1), nvme("nvme3n1", 1), ("sda", Some(0), false)]
    );
    assert_eq!((two.disks[0].bytes, two.disks[4].rotational), (4_000_787_030_016, true));
    assert_eq!(two.disks[4].pci, None, "a controller in the chipset");
    let faults: Vec<usize> = two.disks.iter().map(|disk| disk.pci.map_or(0, |pci| pci.faults().len())).collect();
    assert_eq!(faults, [0, 0, 1, 1, 0]);
    let nic = two.interface("ens2np0").unwrap();
    assert_eq!((nic.speed, nic.pci.unwrap().now.to_string()), (Some(100_000_000_000), "PCIe 3.0 x16".to_owned()));
    assert_eq!((two.core(3).unwrap().cache_bytes, two.vendor.as_str()), (22 << 20, "GenuineIntel"));
    assert_eq!((two.division(), two.packages()), (None, vec![(0, vec![0]), (1, vec![1])]));
}

/// What somebody recorded is shown on somebody else's terminal.
#[test]
fn names_move_no_cursor() {
    let text = "sys/devices/system/cpu/possible 0\nproc/cpuinfo model name : \u{1b}[31mRED\u{202e}\n\
                sys/class/net/e\u{1b}[2J/queues/rx-0 \nsys/class/net/e\u{1b}[2J/device/numa_node 0\n\
                sys/block/nvme0n1/size 8\nsys/block/nvme0n1/device/numa_node 0\n\
                sys/block/nvme0n1/device/model BAD\u{1b}]0;x\u{7}\n";
    let odd = Topology::of(&Recording::parse(text).unwrap(), None).unwrap();
    assert_eq!(odd.processor, "\\u{1b}[31mRED\\u{202e}");
    assert_eq!(odd.interfaces[0].name, "e\\u{1b}[2J");
    assert_eq!(odd.disks[0].model.as_deref(), Some("BAD\\u{1b}]0;x\\u{7}"));
    let unclear = format!("{text}sys/class/net/x\u{1b}[2J/device/numa_node z\nsys/class/net/x\u{1b}[2J/queues/rx-0 \n");
    let told = Topology::of(&Recording::parse(&unclear).unwrap(), None).unwrap_err().to_string();
    assert!(told.contains("says \"z\"") && !told.contains('\u{1b}'), "{told}");
}

/// What a port's link and slot are, as sysfs and a recording have them.
#[test]
fn links_and_slots_are_recorded() {
    let folder = Folder::new("slots");
    let net = folder.0.join("sys/class/net");
    let cpu = folder.0.join("sys/devices/system/cpu");
    fs::create_dir_all(&cpu).unwrap();
    fs::write(cpu.join("possible"), "0").unwrap();
    for (function, state) in [(0, "up"), (1, "lowerlayerdown")] {
        let device = folder.0.join(format!("sys/devices/pci0000:3a/0000:3b:00.{function}"));
        let port = device.join(format!("net/eth{function}"));
        fs::create_dir_all(port.join("queues/rx-0")).unwrap();
        fs::create_dir_all(&net).unwrap();
        fs::write(device.join("class"), "0x020000").unwrap();
        fs::write(port.join("operstate"), format!("{state}\n")).unwrap();
        std::os::unix::fs::symlink(format!("../../../0000:3b:00.{function}"), port.join("device")).unwrap();
        let target = format!("../../devices/pci0000:3a/0000:3b:00.{function}/net/eth{function}");
        std::os::unix::fs::symlink(target, net.join(format!("eth{function}"))).unwrap();
    }
    let read = Topology::read(&folder.0, None).unwrap();
    let recorded = Recording::parse(&Recording::take(&folder.0).unwrap().to_string()).unwrap();
    assert_eq!(Topology::of(&recorded, None).unwrap(), read);
    let told: Vec<_> = read.interfaces.iter().map(|port| (port.slot.as_deref(), port.running)).collect();
    assert_eq!(told, [(Some("0000:3b:00"), Some(true)), (Some("0000:3b:00"), Some(false))]);
    // In real ones its events name it.
    fs::write(folder.0.join("sys/devices/pci0000:3a/0000:3b:00.0/uevent"), "DRIVER=x\nPCI_SLOT_NAME=0001:02:03.4\n")
        .unwrap();
    let read = Topology::read(&folder.0, None).unwrap();
    assert_eq!(read.interfaces[0].slot.as_deref(), Some("0001:02:03"));
}

#[test]
fn a_socket_of_several_domains_has_its_makers_name() {
    let division = |name: &str| machine(name, None).division();
    assert!(division("media-four").is_some_and(|text| text.contains("NPS4")), "{:?}", division("media-four"));
    // It was recorded before processors were.
    assert_eq!(division("epyc-nps4").as_deref(), Some("4 domains in a socket"));
    let with = |vendor: &str, name: &str| {
        let cpuinfo = format!("proc/cpuinfo vendor_id\\t: {vendor}\\nmodel name\\t: {name}\n").replace("\\t", "\t");
        let text = fixture("epyc-nps4").to_string() + &cpuinfo;
        Topology::of(&Recording::parse(&text).unwrap(), None).unwrap().division().unwrap()
    };
    assert!(with("GenuineIntel", "Intel(R) Xeon(R) Platinum 8592+").contains("SNC4 (sub-NUMA clusters)"));
    assert!(with("AuthenticAMD", "AMD EPYC 7551 32-Core Processor").contains("each die"));
    assert!(with("AuthenticAMD", "AMD EPYC 7543 32-Core Processor").contains("NPS4"));
}

#[test]
fn a_disk_is_where_its_pci_device_is() {
    let folder = Folder::new("disks");
    let file = |path: &str, text: &str| {
        let path = folder.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let lead = |to: &str, from: &str| {
        let from = folder.0.join(from);
        fs::create_dir_all(from.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, from).unwrap();
    };
    file("sys/devices/system/cpu/possible", "0-1");
    for node in [0, 1] {
        file(&format!("sys/devices/system/node/node{node}/cpulist"), &node.to_string());
    }
    let port = "sys/devices/pci0000:80/0000:80:01.0";
    let pci = |at: &str, class: &str, node: &str| {
        for (name, text) in [("class", class), ("numa_node", node), ("current_link_speed", "8.0 GT/s PCIe")] {
            file(&format!("{at}/{name}"), text);
        }
        for (name, text) in [("current_link_width", "4"), ("max_link_speed", "16.0 GT/s PCIe"), ("max_link_width", "4")]
        {
            file(&format!("{at}/{name}"), text);
        }
    };
    pci(port, "0x060400", "1");
    file(&format!("{port}/max_link_speed"), "8.0 GT/s PCIe");
    // NVMe: block device, controller, PCI device, the port above it.
    let nvme = format!("{port}/0000:81:00.0");
    pci(&nvme, "0x010802", "1");
    file(&format!("{nvme}/nvme/nvme0/nvme0n1/size"), "8\n");
    lead("../..", &format!("{nvme}/nvme/nvme0/device"));
    lead("..", &format!("{nvme}/nvme/nvme0/nvme0n1/device"));
    lead("../devices/pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme0/nvme0n1", "sys/block/nvme0n1");
    // A subsystem of several controllers: the namespace is below none of them.
    file("sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1/size", "16\n");
    lead("..", "sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1/device");
    lead(
        "../../../pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme0",
        "sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme0",
    );
    lead("../devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1", "sys/block/nvme1n1");
    // SATA: port, host, target and device are between; virtio: one level.
    let sata = "sys/devices/pci0000:80/0000:80:1f.2";
    pci(sata, "0x010601", "1");
    file(&format!("{sata}/ata1/host0/target0:0:0/0:0:0:0/block/sda/size"), "32\n");
    lead("../..", &format!("{sata}/ata1/host0/target0:0:0/0:0:0:0/block/sda/device"));
    lead("../devices/pci0000:80/0000:80:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda", "sys/block/sda");
    file("sys/devices/virtual/block/loop0/size", "64\n");
    lead("../devices/virtual/block/loop0", "sys/block/loop0");
    let read = Topology::read(&folder.0, None).unwrap();
    let shape: Vec<_> = read.disks.iter().map(|disk| (disk.name.as_str(), disk.domain, disk.bytes)).collect();
    assert_eq!(shape, [("nvme0n1", Some(1), 4_096), ("nvme1n1", Some(1), 8_192), ("sda", Some(1), 16_384)]);
    for disk in &read.disks[..2] {
        let place = disk.pci.unwrap();
        assert_eq!(place.now.to_string(), "PCIe 3.0 x4");
        assert_eq!(place.faults(), ["can PCIe 4.0 x4 in a slot of PCIe 3.0 x4"]);
    }
}

#[test]
fn domains_without_memory_and_without_cores() {
    let odd = machine("memoryless", None);
    let shape: Vec<_> = odd.domains.iter().map(|d| (d.cores.len(), d.memory_total >> 30)).collect();
    assert_eq!(shape, [(2, 8), (2, 0), (0, 32)]);
    assert_eq!(odd.nearest(1), [1, 0, 2]);
}

#[test]
fn cores_off_line_and_isolated() {
    let some = machine("offline", None);
    assert_eq!(some.cores.len(), 12);
    let online: Vec<u16> = some.cores.iter().filter(|core| core.is_usable()).map(|core| core.number).collect();
    assert_eq!(online, [0, 1, 3, 4, 7]);
    assert!(some.core(7).unwrap().isolated);
    assert_eq!(some.domain_of(5), None);
}

#[test]
fn a_container_uses_its_own_cores() {
    let own = machine("two-sockets", Some(&[5, 7, 13, 99]));
    let usable: Vec<u16> = own.cores.iter().filter(|core| core.is_usable()).map(|core| core.number).collect();
    assert_eq!(usable, [5, 7, 13]);
    // What is there, is there.
    assert_eq!(own.domains[0].cores.len(), 8);
}

/// The kernel's own account of a node lags behind where it puts off a part of
/// its memory: 8 GiB of 24 here.
#[test]
fn memory_that_no_node_has_yet_is_the_only_domains() {
    let node = |number, total, free| {
        let says = |what, mib| format!("Node {number} {what}: {} kB", mib << 10);
        let (total, free) = (says("MemTotal", total), says("MemFree", free));
        format!("sys/devices/system/node/node{number}/meminfo {total}\\n{free}\n")
    };
    let machine = |nodes: &str, total: u64| {
        let text = format!(
            "sys/devices/system/cpu/possible 0\n{nodes}proc/meminfo MemTotal: {} kB\\nMemFree: 409600 kB\n",
            total << 10
        );
        Topology::of(&Recording::parse(&text).unwrap(), None).unwrap()
    };
    let shape = |topology: &Topology| {
        let each = topology.domains.iter().map(|domain| (domain.memory_total >> 20, domain.memory_free >> 20));
        (each.collect::<Vec<_>>(), topology.memory_unplaced >> 20)
    };
    assert_eq!(shape(&machine(&node(0, 8_000, 3_000), 24_000)), (vec![(24_000, 19_000)], 0));
    // In a container the machine's may be less than its node's.
    assert_eq!(shape(&machine(&node(0, 8_000, 3_000), 1_000)), (vec![(8_000, 3_000)], 0));
    assert_eq!(shape(&machine("", 1_000)), (vec![(1_000, 400)], 0), "without NUMA");
    let two = [node(0, 8_000, 3_000), node(1, 4_000, 1_000)].concat();
    assert_eq!(shape(&machine(&two, 12_000)), (vec![(8_000, 3_000), (4_000, 1_000)], 0));
    assert_eq!(shape(&machine(&two, 20_000)), (vec![(8_000, 3_000), (4_000, 1_000)], 8_000));
}

#[test]
fn a_kernel_without_numa_is_one_domain() {
    let text: String = fixture("two-sockets").to_string();
    let without: String =
        text.lines().filter(|line| !line.contains("/node/")).map(|line| format!("{line}\n")).collect();
    let one = Topology::of(&Recording::parse(&without).unwrap(), None).unwrap();
    assert_eq!(one.domains.len(), 1);
    assert_eq!((one.domains[0].cores.len(), one.domain_of(15)), (16, Some(0)));
    assert_eq!(one.interface("ens2f0").unwrap().domain, Some(0));
}

#[test]
fn odd_content_is_told_and_never_panics() {
    for name in FIXTURES.into_iter().chain(MEDIA) {
        let text = fixture(name).to_string();
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            // Cores and domains are the other machines' as well.
            if MEDIA.contains(&name) && lines[at].starts_with("sys/devices/") {
                continue;
            }
            let odd = ["", "-1", "99999999999999999999", "0-4095", "65535", "x", "1-", "\\n\\", "0,0,0", "5-2"];
            // Each core has the same files: what one of them is spared, its neighbours get.
            for odd in odd.iter().skip(at % 4).step_by(4) {
                let path = lines[at].split(' ').next().unwrap();
                let changed = format!("{path} {odd}");
                let all: Vec<&str> =
                    lines.iter().enumerate().map(|(i, l)| if i == at { &*changed } else { l }).collect();
                let recording = Recording::parse(&all.join("\n")).unwrap();
                match Topology::of(&recording, None) {
                    // Whatever it is, a plan for it is made or refused.
                    Ok(topology) => {
                        let port = Port { name: "p".into(), domain: Some(1), queues: Queues::Fixed(3) };
                        let _ = plan(&topology, &Ask { ports: vec![port], silos: Silos::Auto, numa: true });
                        assert!(!topology.domains.is_empty());
                    }
                    Err(why) => assert!(why.to_string().contains(path), "{why}"),
                }
            }
        }
    }
}

#[test]
fn what_is_no_machine_is_refused() {
    let nowhere = Topology::read(Path::new("/nowhere/at/all"), None).unwrap_err();
    let text = "no sys/devices/system/cpu/possible: this does not describe a Linux machine";
    assert_eq!(nowhere.to_string(), text);
    assert_eq!(Topology::of(&Recording::default(), None).unwrap_err().to_string(), text);
    let why = Recording::parse("# a comment\nsys/a 1\nnothing\n").unwrap_err();
    assert_eq!(why.to_string(), "not a recorded topology: line 3 has no path and value");
    for wrong in ["/sys/a 1", "sys/../../etc 1", " 1"] {
        assert!(Recording::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn text_on_one_line_is_what_it_was() {
    let recording = Recording::parse("sys/a one\\ntwo\\\\n\\\\\n").unwrap();
    assert_eq!(recording.files().next(), Some(("sys/a", "one\ntwo\\n\\")));
    assert_eq!(recording.to_string(), "sys/a one\\ntwo\\\\n\\\\\n");
}

#[test]
fn this_machine_can_be_read() {
    let here = Topology::read(Path::new("/"), None).unwrap();
    assert!(here.cores.iter().any(Core::is_usable));
    assert!(here.domains.iter().any(|domain| !domain.cores.is_empty()));
    assert!(here.interface("lo").is_some_and(|lo| lo.domain.is_none()));
}
