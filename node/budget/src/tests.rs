//! The reasoning of the published document, number by number, and machines that are odd.

mod carried;
mod fabric;

use super::*;
use topology::{Recording, Topology};

const GBIT: f64 = 1e9;
const GB: f64 = 1e9;

fn published(name: &str) -> BudgetMachine {
    let (_, text) = PUBLISHED.into_iter().find(|(known, _)| *known == name).unwrap();
    BudgetMachine::published(text).unwrap()
}

fn recorded(name: &str) -> BudgetMachine {
    let path = format!("{}/../topology/fixtures/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let recording = Recording::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let machine = BudgetMachine::of(&Topology::of(&recording, None).unwrap(), &[]);
    machine.carrying(&CarrierChoice::default()).unwrap()
}

fn ask(bits: f64, siloing: Siloing) -> BudgetAsk {
    BudgetAsk { tls: true, disk: true, siloing, ..BudgetAsk::new(bits) }
}

fn way(budget: &Budget, way: ContentWay) -> &WayCost {
    budget.ways.iter().find(|cost| cost.way == way).unwrap()
}

fn near(value: f64, wanted: f64) {
    assert!((value - wanted).abs() < 1e-6 * wanted.abs().max(1.0), "{value} is not {wanted}");
}

/// 200 Gbit/s are 25 GB/s, and each of its bytes passes memory four times.
#[test]
fn four_passes_of_25_gigabytes() {
    let ask = BudgetAsk { ring: 256, ..ask(200.0 * GBIT, Siloing::Network) };
    let made = budget(&published("cascade-lake"), &ask).unwrap();
    let kernel = way(&made, ContentWay::KernelTls);
    let passes: Vec<_> = kernel.passes.iter().map(|(pass, bytes, _)| (pass.name(true), bytes / GB)).collect();
    assert_eq!(passes, [("disk write", 25.0), ("cipher read", 25.0), ("cipher write", 25.0), ("NIC read", 25.0)]);
    near(kernel.reads + kernel.writes, 100.0 * GB);
    near(kernel.reads, 50.0 * GB);
    // Sealed into slots that stay in the cache, or by the NIC: two of them.
    let slot = way(&made, ContentWay::IntoSlot);
    assert_eq!((slot.reads, slot.writes), (25.0 * GB, 25.0 * GB));
    let nic = way(&made, ContentWay::Sendfile);
    assert_eq!((nic.reads, nic.writes, nic.passes.len()), (25.0 * GB, 25.0 * GB, 2));
}

/// The document's own numbers: at worst four crossings, one, none; by chance a half and three quarters.
#[test]
fn crossings_are_those_of_the_document() {
    let of = |name: &str| budget(&published(name), &ask(200.0 * GBIT, Siloing::Network)).unwrap().crossings;
    let (two, four) = (of("cascade-lake"), of("rome"));
    let crossings = |worst, expected| Crossings { worst, expected };
    assert_eq!(
        two,
        [
            (Siloing::No, crossings(4.0, 2.0)),
            (Siloing::Network, crossings(1.0, 0.5)),
            (Siloing::Disk, crossings(0.0, 0.0))
        ]
    );
    assert_eq!(
        four,
        [
            (Siloing::No, crossings(4.0, 3.0)),
            (Siloing::Network, crossings(1.0, 0.75)),
            (Siloing::Disk, crossings(0.0, 0.0))
        ]
    );
    assert!(Siloing::Disk.why_not().is_some() && Siloing::Network.why_not().is_none());
}

/// 12.5 GB/s of 100 are another domain's when siloed, where 13 % were seen; 50 unsiloed, where 40 were.
#[test]
fn remote_shares_stand_beside_those_that_were_seen() {
    let machine = published("cascade-lake");
    for (siloing, crossing, share, seen) in [(Siloing::Network, 12.5, 0.125, 0.13), (Siloing::No, 50.0, 0.5, 0.4)] {
        let made = budget(&machine, &ask(200.0 * GBIT, siloing)).unwrap();
        let kernel = way(&made, ContentWay::KernelTls);
        near(kernel.crossing, crossing * GB);
        near(kernel.remote_share(), share);
        let found = machine.seen.iter().find(|one| one.siloing == siloing).unwrap();
        near(found.share, seen);
    }
    let naples = budget(&published("naples"), &ask(200.0 * GBIT, Siloing::Network)).unwrap();
    near(way(&naples, ContentWay::KernelTls).crossing, 18.75 * GB);
}

#[test]
fn what_is_full_first_is_told_with_its_rate() {
    let at = |name: &str, siloing, tls| {
        let ask = BudgetAsk { tls, ..ask(190.0 * GBIT, siloing) };
        let made = budget(&published(name), &ask).unwrap();
        let limit = made.ways[0].first_limit().unwrap();
        (limit.kind, limit.name.clone(), (limit.full_at.unwrap() / GBIT).round())
    };
    // 4 passes over 2 x 115.2 GB/s; a half of 4 passes over 2 ways of 38.4; of 12.5 GB/s of each
    // port 94.1 % are records, and 99.9 % of these content.
    assert_eq!(at("cascade-lake", Siloing::Network, true), (LoadKind::Port, "nic0".to_owned(), 188.0));
    // Each way has a half of the two crossings of each byte.
    assert_eq!(at("cascade-lake", Siloing::No, true).2, 188.0);
    // 4 passes over 4 x 42.6 GB/s are 341; of three crossings a twelfth goes each way: 681.
    assert_eq!(at("naples", Siloing::No, true), (LoadKind::Memory, "0".to_owned(), 341.0));
    assert_eq!(at("naples", Siloing::Network, false).0, LoadKind::Port);
    let cpu = BudgetAsk { cpu: Some(CpuCost::parse("95%@190G").unwrap()), ..ask(100.0 * GBIT, Siloing::Network) };
    let made = budget(&published("cascade-lake"), &cpu).unwrap();
    near(made.cpu.unwrap().percent_per_gbit(), 0.5);
    let load = made.ways[0].loads.iter().find(|load| load.kind == LoadKind::Cpu).unwrap();
    assert_eq!((load.asked, load.full_at.map(|bits| bits / GBIT)), (50.0, Some(200.0)));
}

#[test]
fn fabric_is_full_first_where_little_joins_domains() {
    let text = "name a\nfrom b\ndomain 0 cores=8 memory=100GB/s\ndomain 1 cores=8 memory=100GB/s\nfabric 0 1 10GB/s\n\
                port p domain=0 rate=400Gbit/s\nport q domain=1 rate=400Gbit/s\n";
    let machine = BudgetMachine::published(text).unwrap();
    let first = |siloing| {
        let made = budget(&machine, &ask(100.0 * GBIT, siloing)).unwrap();
        let load = made.ways[0].first_limit().unwrap().clone();
        (load.kind, (load.full_at.unwrap() / GBIT).round())
    };
    // Each of two ways has one crossing of the two that each byte has; siloed a quarter.
    assert_eq!(first(Siloing::No), (LoadKind::Fabric, 80.0));
    assert_eq!(first(Siloing::Network), (LoadKind::Fabric, 320.0));
    assert_eq!(first(Siloing::Disk), (LoadKind::Memory, 400.0));
}

#[test]
fn rings_stay_in_the_cache_up_to_a_size() {
    let slots = |name: &str| budget(&published(name), &ask(GBIT, Siloing::Network)).unwrap().ring_slots;
    // A core's share of the cache, by twice what a full frame touches of a slot.
    assert_eq!(slots("cascade-lake"), Some((22 << 20) / (16 * 2 * 1_536)));
    assert_eq!((slots("naples"), slots("rome")), (Some(682), Some(1_365)));
}

#[test]
fn a_recorded_machine_has_its_own_shares_and_links() {
    let two = recorded("media-two");
    // The disk of SATA beside them holds no content.
    assert_eq!((two.domains.len(), two.ports.len(), two.disks.len()), (2, 2, 4));
    let made = budget(&two, &ask(100.0 * GBIT, Siloing::Network)).unwrap();
    // Drives are asked by what their links carry: 2 x 3.94 GB/s beside 1.97 and 1.
    near(made.crossings[1].1.expected, 0.5);
    let kernel = way(&made, ContentWay::KernelTls);
    let limit = kernel.first_limit().unwrap();
    assert_eq!((limit.kind, (limit.full_at.unwrap() / GBIT).round()), (LoadKind::DiskPci, 79.0));
    let memory = kernel.loads.iter().find(|load| load.kind == LoadKind::Memory).unwrap();
    assert_eq!((memory.carries, memory.full_at), (None, None), "no file of the machine's tells");
    // Ports on two domains of four, a drive on each.
    let four = budget(&recorded("media-four"), &ask(100.0 * GBIT, Siloing::Network)).unwrap();
    near(four.crossings[1].1.expected, 0.75);
    // In disk-centric siloing what has no port in its domain crosses to one.
    near(four.crossings[2].1.expected, 0.5);
}

#[test]
fn what_was_measured_is_a_limit() {
    let path = format!("{}/../topology/fixtures/media-two.txt", env!("CARGO_MANIFEST_DIR"));
    let recording = Recording::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let topology = Topology::of(&recording, None).unwrap();
    let measured = [(0, 0, 80e9), (1, 1, 80e9), (0, 1, 30e9), (1, 0, 31e9), (7, 9, 1e9), (0, 9, f64::NAN)];
    let machine = BudgetMachine::of(&topology, &measured);
    assert_eq!(machine.domains[1].memory, PerSecond::new(80e9, FigureSource::Measured));
    // What domain 0 reads of domain 1 goes from 1 to 0.
    let way = machine.fabric.iter().find(|way| (way.from, way.to) == (1, 0)).unwrap();
    assert_eq!(way.rate.bytes, 30e9);
}

#[test]
fn one_domain_crosses_nothing() {
    let made = budget(&recorded("single"), &ask(10.0 * GBIT, Siloing::No)).unwrap();
    assert!(made.crossings.iter().all(|(_, crossings)| crossings.worst == 0.0 && crossings.expected == 0.0));
    assert!(made.crossings.iter().all(|(_, crossings)| crossings.expected.is_sign_positive()));
    assert!(made.ways.iter().all(|way| way.crossing == 0.0 && way.remote_share() == 0.0));
}

#[test]
fn content_in_memory_and_without_tls_has_fewer_passes() {
    let ask = BudgetAsk { tls: false, disk: false, ..ask(80.0 * GBIT, Siloing::Network) };
    let made = budget(&published("rome"), &ask).unwrap();
    let names: Vec<_> = made.ways.iter().map(|cost| cost.way.name(false)).collect();
    assert_eq!(names, ["copied into the slot", "sendfile"]);
    assert_eq!((made.ways[0].reads, made.ways[0].writes), (10.0 * GB, 0.0));
    assert!(made.ways[0].loads.iter().all(|load| load.kind != LoadKind::Disk));
}

#[test]
fn what_is_no_rate_and_no_machine_is_refused() {
    let machine = published("naples");
    for bits in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e18] {
        let error = budget(&machine, &ask(bits, Siloing::No)).unwrap_err();
        assert!(error.to_string().contains("is no rate"), "{error}");
    }
    let empty = BudgetMachine::default();
    assert_eq!(budget(&empty, &ask(1.0, Siloing::No)), Err(BudgetError::NoDomain));
    let coreless = BudgetMachine::published("name a\nfrom b\ndomain 0 memory=1GB/s\n").unwrap();
    assert_eq!(budget(&coreless, &ask(1.0, Siloing::No)), Err(BudgetError::NoDomain));
    for (percent, bits) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, 0.0)] {
        let cost = CpuCost { percent, bits, way: None };
        let ask = BudgetAsk { cpu: Some(cost), ..ask(1.0, Siloing::No) };
        assert_eq!(budget(&machine, &ask), Err(BudgetError::Cpu));
    }
    for text in
        ["", "62", "62%", "0%@1G", "101%@1G", "5%@0", "5%@1X", "nan%@1G", "1e3@1G", "62%@190", "5%@1G:disk", "5%@1G:"]
    {
        assert!(CpuCost::parse(text).is_err(), "{text}");
    }
}

/// Domains of memory alone, of cores alone, and distances of 255: shares stay shares.
#[test]
fn odd_machines_have_a_safe_budget() {
    for name in ["memoryless", "offline", "two-sockets", "epyc-nps4", "single"] {
        for siloing in Siloing::ALL {
            let made = budget(&recorded(name), &ask(40.0 * GBIT, siloing)).unwrap();
            for cost in &made.ways {
                let all = [cost.reads, cost.writes, cost.crossing, cost.remote_share()];
                assert!(all.into_iter().all(|value| value.is_finite() && value >= 0.0), "{name}: {cost:?}");
                assert!(cost.crossing <= 4.0 * 5.0 * GB + 1.0, "{name}");
                let memory = cost.loads.iter().filter(|load| load.kind == LoadKind::Memory);
                near(memory.map(|load| load.asked).sum::<f64>(), cost.reads + cost.writes);
            }
        }
    }
    let notes = budget(&recorded("memoryless"), &ask(GBIT, Siloing::Network)).unwrap().notes;
    assert!(notes.iter().any(|note| note.starts_with("no core in domain 2")), "{notes:?}");
}

#[test]
fn files_of_figures_are_read_or_refused_with_a_line() {
    let good = "name a\nfrom b\ndomain 0 cores=8 memory=100GB/s cache=8M/4\n";
    for (more, why) in [
        ("domain 0 cores=1", "line 4: domain 0 stands there twice"),
        ("domain x", "line 4: a domain has a number"),
        ("domain 1 cores=-1", "cores are a number"),
        ("domain 1 memory=0GB/s", "is no rate"),
        ("domain 1 memory=1e99GB/s", "is no rate"),
        ("domain 1 cache=8M/0", "a cache is its bytes and its cores"),
        ("domain 1 core=8", "\"core=8\" is none of socket=, cores="),
        ("fabric 0 0 1GB/s", "fabric joins two domains"),
        ("fabric 0 1 1GB/s", "there is no domain 1"),
        ("port p rate=1Gbit/s", "it has no domain=NUMBER"),
        ("port p domain=9 rate=1Gbit/s", "there is no domain 9"),
        ("port domain=0", "it has no name"),
        ("port p domain=0\nport p domain=0", "line 5: p stands there twice"),
        ("disk d domain=0\ndisk d domain=0", "line 5: d stands there twice"),
        ("cpu 5%@1G\ncpu 5%@1G", "processor time stands there twice"),
        ("cpu 62%@190", "at a rate of 1M or more"),
        (
            "domain 1 cores=1\nfabric 0 1 9GB/s\nfabric 1 0 5GB/s",
            "line 6: fabric of domains 1 and 0 stands there twice",
        ),
        ("domain 1 socket=x", "a socket has a number"),
        ("disk d domain=0 pci=3.0x3", "is no link of PCI Express"),
        ("nic\u{1b}[2J 0", "\"nic\\u{1b}[2J\" is none of name"),
        ("name \u{202e}x", "a name has 1 to"),
        ("disk d domain=0 pci=9.0x16", "is no link of PCI Express"),
        ("disk d domain=0 pci=3.0x0", "is no link of PCI Express"),
        ("cpu 101%@1G", "percent of all cores"),
        ("seen maybe 12 x", "what was seen is"),
        ("seen no 101 x", "what was seen is"),
        ("nic 0", "is none of name"),
        ("word", "it has one word"),
    ] {
        let told = BudgetMachine::published(&format!("{good}{more}\n")).unwrap_err().to_string();
        assert!(told.contains(why), "{more}: {told}");
    }
    for text in ["", "name a\nfrom b\n", "domain 0 cores=1 memory=1GB/s\n"] {
        assert_eq!(BudgetMachine::published(text).unwrap_err().line, 0, "{text}");
    }
    let long = format!("{good}# {}\n", "x".repeat(1 << 17));
    assert!(BudgetMachine::published(&long).is_err());
    let many: String = (1..2_000).map(|number| format!("domain {number} cores=1\n")).collect();
    assert!(BudgetMachine::published(&format!("{good}{many}")).unwrap_err().to_string().contains("too many"));
    for (name, _) in PUBLISHED {
        let machine = published(name);
        assert!(!machine.from.is_empty(), "{name}: where its figures are from is told");
        assert!(machine.ports.iter().all(|port| port.rate.unwrap().source == FigureSource::Assumed), "{name}");
    }
}
