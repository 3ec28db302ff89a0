//! Domains without cores or memory, and links that pairs of domains share.

use super::*;

fn machine(text: &str) -> BudgetMachine {
    BudgetMachine::published(&format!("name a\nfrom b\n{text}")).unwrap()
}

fn network(text: &str, bits: f64) -> Budget {
    budget(&machine(text), &ask(bits, Siloing::Network)).unwrap()
}

fn load<'a>(made: &'a Budget, kind: LoadKind, name: &str) -> &'a Load {
    let loads = &made.ways[0].loads;
    loads.iter().find(|load| load.kind == kind && load.name == name).unwrap_or_else(|| panic!("{name} of {loads:?}"))
}

/// The cipher runs where cores are: what comes from a domain of none and leaves by it crosses twice.
#[test]
fn a_domain_without_cores_is_crossed_twice() {
    let text = "domain 0 cores=16 memory=100GB/s\ndomain 1 cores=0 memory=100GB/s\nfabric 0 1 38.4GB/s\n\
                port p domain=1 rate=100Gbit/s\ndisk d domain=1 reads=20GB/s\n";
    let made = network(text, 80.0 * GBIT);
    assert_eq!(made.crossings[1].1, Crossings { worst: 2.0, expected: 2.0 });
    near(made.ways[0].crossing, 20.0 * GB);
    near(load(&made, LoadKind::Memory, "0").asked, 40.0 * GB);
    near(load(&made, LoadKind::Fabric, "0 to 1").asked, 10.0 * GB);
    assert!(!made.ways[0].loads.iter().any(|load| load.kind == LoadKind::Memory && load.name == "1"));
}

/// Buffers lie where memory is: a byte that leaves by a domain of none crosses up to four times.
#[test]
fn a_domain_without_memory_has_its_buffers_elsewhere() {
    let text = "domain 0 cores=16 memory=100GB/s\ndomain 1 cores=16\nfabric 0 1 38.4GB/s\n\
                port p domain=0 rate=100Gbit/s\nport q domain=1 rate=100Gbit/s\n\
                disk d domain=0 reads=20GB/s\ndisk e domain=1 reads=20GB/s\n";
    let made = network(text, 100.0 * GBIT);
    assert_eq!(made.crossings[1].1, Crossings { worst: 4.0, expected: 2.0 });
    near(load(&made, LoadKind::Memory, "0").asked, 50.0 * GB);
    let odd = budget(&recorded("memoryless"), &ask(GBIT, Siloing::Network)).unwrap();
    let bare = |load: &&Load| load.kind == LoadKind::Memory && load.name == "1";
    assert_eq!(odd.ways[0].loads.iter().find(bare), None, "it has none");
}

/// Two sockets of two domains: each pair is stated with the same links, which all of them share.
#[test]
fn pairs_of_two_sockets_share_their_links() {
    let mut text = String::new();
    for (domain, socket) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        text += &format!("domain {domain} socket={socket} cores=8 memory=57.6GB/s\n");
    }
    text += "fabric 0 2 38.4GB/s\nfabric 0 3 38.4GB/s\nfabric 1 2 38.4GB/s\nfabric 1 3 38.4GB/s\n\
             port p domain=0 rate=200Gbit/s\nport q domain=2 rate=200Gbit/s\n\
             disk d domain=0 reads=40GB/s\ndisk e domain=2 reads=40GB/s\n";
    let made = budget(&machine(&text), &ask(190.0 * GBIT, Siloing::No)).unwrap();
    let links = load(&made, LoadKind::Fabric, "0-1 to 2-3");
    near(links.asked, 23.75 * GB);
    near(links.full_at.unwrap(), 307.2 * GBIT);
    assert_eq!(links.carries.map(|carries| carries.bytes), Some(38.4 * GB));
    assert!(made.notes.iter().any(|note| note.starts_with("domains of a socket share")), "{:?}", made.notes);
    // Within a socket nothing is stated, and nothing goes round by the other one.
    assert_eq!(load(&made, LoadKind::Fabric, "0 to 1").carries, None);
    // One pair that is stated is the sockets' link for those that are not.
    let once = text.replace("fabric 0 3 38.4GB/s\nfabric 1 2 38.4GB/s\nfabric 1 3 38.4GB/s\n", "");
    let made = budget(&machine(&once), &ask(190.0 * GBIT, Siloing::No)).unwrap();
    near(load(&made, LoadKind::Fabric, "0-1 to 2-3").asked, 23.75 * GB);
}

/// In a chain what goes from one end to the other goes over the middle.
#[test]
fn pairs_that_nothing_joins_go_over_others() {
    let mut text: String = (0..4).map(|domain| format!("domain {domain} cores=8 memory=90GB/s\n")).collect();
    text += "fabric 0 1 20GB/s\nfabric 1 2 20GB/s\nfabric 2 3 20GB/s\nport p domain=3 rate=400Gbit/s\n\
             disk d domain=0 reads=40GB/s\n";
    let made = network(&text, 80.0 * GBIT);
    for part in ["0 to 1", "1 to 2", "2 to 3"] {
        near(load(&made, LoadKind::Fabric, part).asked, 10.0 * GB);
    }
    assert_eq!(made.ways[0].loads.iter().filter(|load| load.kind == LoadKind::Fabric).count(), 3);
    let told = "nothing joins domains 0 and 3: it goes over 0 to 1, 1 to 2, 2 to 3";
    assert!(made.notes.iter().any(|note| note == told), "{:?}", made.notes);
    // What nothing joins at all is not known, and said so.
    let apart = text.replace("fabric 1 2 20GB/s\n", "");
    assert_eq!(load(&network(&apart, GBIT), LoadKind::Fabric, "0 to 3").carries, None);
}
