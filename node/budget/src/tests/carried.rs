//! What carries content, and how much of it: ports, slots, drives, rings, processor time.

use super::*;

/// Two domains with a NIC of 100 Gbit/s and four drives each, and more of somebody's.
fn looked_at(more: &str) -> BudgetMachine {
    of_text(more).carrying(&CarrierChoice::default()).unwrap()
}

fn of_text(more: &str) -> BudgetMachine {
    let mut text = String::from("sys/devices/system/cpu/possible 0-1\n");
    for domain in 0..2 {
        let node = format!("sys/devices/system/node/node{domain}");
        let cpu = format!("sys/devices/system/cpu/cpu{domain}");
        text += &format!("{node}/cpulist {domain}\n{node}/meminfo Node {domain} MemTotal: 100 kB\n");
        text += &format!("{node}/distance {}\n", if domain == 0 { "10 21" } else { "21 10" });
        text += &format!("{cpu}/topology/physical_package_id {domain}\n");
        text += &port(&format!("eth{domain}"), domain, 100_000, "up");
        for drive in 0..4 {
            text += &disk(&format!("nvme{}n1", domain * 4 + drive), domain);
        }
    }
    let recording = Recording::parse(&(text + more)).unwrap();
    BudgetMachine::of(&Topology::of(&recording, None).unwrap(), &[])
}

fn link(device: &str, width: u8) -> String {
    format!("{device}/current_link_speed 8.0 GT/s PCIe\n{device}/current_link_width {width}\n")
}

fn port(name: &str, domain: i32, speed: i64, state: &str) -> String {
    let folder = format!("sys/class/net/{name}");
    let device = format!("{folder}/device/numa_node {domain}\n{}", link(&format!("{folder}/device"), 16));
    format!("{folder}/speed {speed}\n{folder}/operstate {state}\n{folder}/queues/rx-0 \n{device}")
}

fn disk(name: &str, domain: i32) -> String {
    let device = format!("sys/block/{name}/device");
    format!("sys/block/{name}/size 8\n{device}/numa_node {domain}\n{}", link(&device, 4))
}

fn names(machine: &BudgetMachine) -> Vec<&str> {
    machine.ports.iter().map(|port| port.name.as_str()).collect()
}

fn load<'a>(made: &'a Budget, kind: LoadKind, name: &str) -> &'a Load {
    made.ways[0].loads.iter().find(|load| load.kind == kind && load.name == name).unwrap()
}

fn full_at(load: &Load) -> f64 {
    (load.full_at.unwrap() / GBIT * 10.0).round() / 10.0
}

/// A port without a link, one that manages, and one of which nothing is known carry nothing, and
/// take no share of those that do.
#[test]
fn ports_that_carry_are_up_and_of_a_known_rate() {
    let usual = budget(&looked_at(""), &ask(100.0 * GBIT, Siloing::Network)).unwrap();
    for (more, why) in [
        (port("eno1", 0, -1, "down"), "port eno1 is left out: it has no link (--ports)"),
        (port("eno1", 0, 1_000, "up"), "port eno1 is left out: it is much slower than the fastest (--ports)"),
        (port("eno1", 0, -1, "unknown"), "port eno1 is left out: the rate of its link is not known (--ports)"),
        (port("eno1", 0, 100_000, "down"), "port eno1 is left out: it has no link (--ports)"),
    ] {
        let machine = looked_at(&more);
        assert_eq!(names(&machine), ["eth0", "eth1"], "{more}");
        assert!(machine.notes.iter().any(|note| note == why), "{:?}", machine.notes);
        let made = budget(&machine, &ask(100.0 * GBIT, Siloing::Network)).unwrap();
        assert_eq!(made.ways, usual.ways, "{more}");
    }
    // Where none has a link, nobody says which are for content.
    let dark = of_text(&port("eth0", 0, -1, "down")).carrying(&CarrierChoice::default()).unwrap();
    assert_eq!(names(&dark), ["eth1"]);
    let dark = of_text(&(port("eth0", 0, -1, "down") + &port("eth1", 1, -1, "down")));
    let dark = dark.carrying(&CarrierChoice::default()).unwrap();
    assert_eq!(names(&dark), ["eth0", "eth1"]);
    assert!(dark.notes.iter().any(|note| note.starts_with("no port has a link")), "{:?}", dark.notes);
}

#[test]
fn what_is_chosen_carries() {
    let choose = |ports: &[&str], disks: &[&str]| CarrierChoice {
        ports: Some(ports.iter().map(|name| (*name).to_owned()).collect()),
        disks: Some(disks.iter().map(|name| (*name).to_owned()).collect()),
    };
    let more = port("eno1", 0, 1_000, "up") + "sys/block/sda/size 8\nsys/block/sda/device/numa_node 0\n";
    let machine = of_text(&more).carrying(&choose(&["eno1"], &["sda"])).unwrap();
    assert_eq!((names(&machine), machine.disks.len()), (vec!["eno1"], 1));
    assert!(looked_at(&more).notes.iter().any(|note| note.starts_with("disk sda is left out")));
    for wrong in [choose(&["eth9"], &[]), choose(&["eth0"], &["sdz"])] {
        let told = of_text(&more).carrying(&wrong).unwrap_err().to_string();
        assert!(told.contains("among its ports or disks"), "{told}");
    }
}

/// One rate that is not known leaves the others' as they are.
#[test]
fn known_rates_keep_their_shares() {
    let text = "name a\nfrom b\ndomain 0 cores=8 memory=100GB/s\ndisk a domain=0 reads=9GB/s\n\
                disk b domain=0 reads=3GB/s\ndisk c domain=0\n";
    let made = budget(&BudgetMachine::published(text).unwrap(), &ask(144.0 * GBIT, Siloing::Network)).unwrap();
    let asked = |name| load(&made, LoadKind::Disk, name).asked / GB;
    near(asked("a"), 9.0);
    near(asked("b"), 3.0);
    near(asked("c"), 6.0);
    assert!(made.notes.iter().any(|note| note.starts_with("the rate of disk c is not known")), "{:?}", made.notes);
}

/// Two functions of a card have its slot once, and two namespaces their controller.
#[test]
fn a_slot_carries_once() {
    let slot = |name: &str, address: &str| format!("sys/class/net/{name}/device/pci_slot_name {address}\n");
    let card = slot("eth0", "0000:3b:00.0") + &slot("eth1", "0000:3b:00.1");
    let made = budget(&looked_at(&card), &ask(100.0 * GBIT, Siloing::Network)).unwrap();
    let both = load(&made, LoadKind::PortPci, "eth0 and eth1");
    // 12.5 GB/s of content, by 1514 for 1448 and 16406 for 16384, and 276 for 256.
    near(both.asked, 12.5 * GB * 1514.0 / 1448.0 * 16406.0 / 16384.0 * 276.0 / 256.0);
    let apart = budget(
        &looked_at(&(slot("eth0", "0000:3b:00.0") + &slot("eth1", "0000:3c:00.0"))),
        &ask(100.0 * GBIT, Siloing::Network),
    );
    near(load(&apart.unwrap(), LoadKind::PortPci, "eth0").asked * 2.0, both.asked);
    let made = budget(&looked_at(&disk("nvme0n2", 0)), &ask(80.0 * GBIT, Siloing::Network)).unwrap();
    let controller = load(&made, LoadKind::DiskPci, "nvme0n1 and nvme0n2");
    let other = load(&made, LoadKind::DiskPci, "nvme1n1");
    near(controller.asked, other.asked);
    near(other.asked, 10.0 * GB / 8.0 * 280.0 / 256.0);
}

/// At an MTU of 1500 1448 of 1538 bytes are content; with records of TLS less 22 of each 16 KiB.
#[test]
fn a_port_carries_frames() {
    let text = "name a\nfrom b\ndomain 0 cores=8 memory=1000GB/s\nport p domain=0 rate=100Gbit/s\n";
    let machine = BudgetMachine::published(text).unwrap();
    let at = |ask: BudgetAsk| load(&budget(&machine, &ask).unwrap(), LoadKind::Port, "p").full_at.unwrap() / GBIT;
    let plain = BudgetAsk::new(50.0 * GBIT);
    near(at(plain), 100.0 * 1448.0 / 1538.0);
    near(at(BudgetAsk { tls: true, ..plain }), 100.0 * 1448.0 / 1538.0 * 16384.0 / 16406.0);
    near(at(BudgetAsk { mtu: 9_000, ..plain }), 100.0 * 8948.0 / 9038.0);
    assert!(at(BudgetAsk { mtu: 0, ..plain }) > 0.0);
}

/// What nobody knows is named: it may be full earlier.
#[test]
fn what_is_not_known_is_listed() {
    let made = budget(&looked_at(""), &ask(10.0 * GBIT, Siloing::Network)).unwrap();
    let unknown: Vec<_> = made.ways[0].unknown().map(|load| (load.kind, load.name.as_str())).collect();
    assert_eq!(
        unknown,
        [(LoadKind::Memory, "0"), (LoadKind::Memory, "1"), (LoadKind::Fabric, "0 to 1"), (LoadKind::Fabric, "1 to 0"),]
    );
    let bare = BudgetMachine::published("name a\nfrom b\ndomain 0 cores=8 memory=100GB/s\n").unwrap();
    let made = budget(&bare, &ask(10.0 * GBIT, Siloing::Network)).unwrap();
    let unknown: Vec<_> = made.ways[0].unknown().map(|load| load.kind).collect();
    assert_eq!(unknown, [LoadKind::Port, LoadKind::Disk]);
}

/// Flows are hashed evenly: of 100 and 25 Gbit/s the second is full at 50, of which 94 % is content.
#[test]
fn unequal_ports_are_split_evenly_unless_said() {
    let text = "name a\nfrom b\ndomain 0 cores=8 memory=900GB/s\nport p domain=0 rate=100Gbit/s\n\
                port q domain=0 rate=25Gbit/s\n";
    let machine = BudgetMachine::published(text).unwrap();
    let even = budget(&machine, &BudgetAsk::new(10.0 * GBIT)).unwrap();
    assert_eq!(full_at(even.ways[0].first_limit().unwrap()), 47.1);
    assert!(even.notes.iter().any(|note| note.starts_with("traffic is split evenly")), "{:?}", even.notes);
    let rate = budget(&machine, &BudgetAsk { split: PortSplit::Rate, ..BudgetAsk::new(10.0 * GBIT) }).unwrap();
    assert_eq!(full_at(rate.ways[0].first_limit().unwrap()), 117.7);
    let names: Vec<_> = rate.ways[0].first_limits().iter().map(|load| load.name.as_str()).collect();
    assert_eq!(names, ["p", "q"], "both are full at once");
    assert!(!rate.notes.iter().any(|note| note.starts_with("traffic is split")), "{:?}", rate.notes);
}

/// A port and a drive whose domain nobody tells still carry no more than their links do.
#[test]
fn devices_of_no_known_domain_count() {
    let more = port("eth1", -1, 100_000, "up") + &disk("nvme7n1", -1);
    let made = budget(&looked_at(&more), &ask(100.0 * GBIT, Siloing::Network)).unwrap();
    near(load(&made, LoadKind::Port, "eth1").asked, load(&made, LoadKind::Port, "eth0").asked);
    near(load(&made, LoadKind::DiskPci, "nvme7n1").asked, load(&made, LoadKind::DiskPci, "nvme0n1").asked);
    for what in ["port eth1", "disk nvme7n1"] {
        assert!(made.notes.iter().any(|note| note.starts_with(&format!("the domain of {what}"))), "{:?}", made.notes);
    }
}

/// A page of content lies once: half of what a silo reads is another domain's, unless it has copies.
#[test]
fn content_in_memory_lies_once() {
    let of = |copies| {
        let ask = BudgetAsk { copies, ..BudgetAsk::new(100.0 * GBIT) };
        budget(&published("cascade-lake"), &ask).unwrap()
    };
    let (once, copied) = (of(false), of(true));
    assert_eq!(once.crossings[1].1, Crossings { worst: 1.0, expected: 0.5 });
    assert_eq!(copied.crossings[1].1, Crossings { worst: 0.0, expected: 0.0 });
    near(way(&once, ContentWay::Sendfile).crossing, 6.25 * GB);
    near(way(&copied, ContentWay::Sendfile).crossing, 0.0);
}

/// What was seen of one way is not charged to the others.
#[test]
fn processor_time_is_of_the_way_that_it_was_seen_of() {
    let of = |text: &str| {
        let cpu = Some(CpuCost::parse(text).unwrap());
        budget(&published("cascade-lake"), &BudgetAsk { cpu, ..ask(100.0 * GBIT, Siloing::Network) }).unwrap()
    };
    let has = |made: &Budget| made.ways.iter().map(WayCost::has_cpu).collect::<Vec<_>>();
    assert_eq!(has(&of("62%@190G")), [true, true, true]);
    assert_eq!(has(&of("62%@190G:kernel")), [true, false, false]);
    assert_eq!(has(&of("62%@190G:nic")), [false, false, true]);
}

/// The default ring of 512 slots is larger than what stays in this cache: 469.
#[test]
fn a_ring_that_is_larger_than_the_cache_has_four_passes() {
    let of = |ring| {
        let ask = BudgetAsk { ring, ..ask(200.0 * GBIT, Siloing::Network) };
        let made = budget(&published("cascade-lake"), &ask).unwrap();
        let slot = way(&made, ContentWay::IntoSlot);
        (slot.reads / GB, slot.writes / GB)
    };
    assert_eq!((of(RING_SLOTS), of(469), of(470)), ((50.0, 50.0), (25.0, 25.0), (50.0, 50.0)));
}
