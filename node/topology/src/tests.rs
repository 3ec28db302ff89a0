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
    for name in FIXTURES {
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
    for name in FIXTURES {
        let text = fixture(name).to_string();
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
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
