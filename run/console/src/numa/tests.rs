//! What published figures come to.

use super::machine::{NumaMachine, topology_json};
use super::report::{Amount, Crossed, Flow, Model, Process};
use super::show::{self, NumaAccount};
use reach::Reaches;
use topology::{Recording, Topology};

/// A machine of so many domains with a core each.
fn machine(domains: u16) -> Topology {
    let mut text = format!("sys/devices/system/cpu/possible 0-{domains}\n");
    for domain in 0..domains {
        text.push_str(&format!("sys/devices/system/node/node{domain}/cpulist {domain}\n"));
    }
    Topology::of(&Recording::parse(&text).unwrap(), None).unwrap()
}

const NAMES: [&str; 19] = [
    "silo.pinned",
    "silo.core",
    "silo.domain",
    "silo.pages_local",
    "silo.pages_remote",
    "silo.pages_absent",
    "silo.looks",
    "silo.interleaved",
    "numa.rx_frames.0",
    "numa.rx_bytes.0",
    "numa.tx_frames.0",
    "numa.tx_bytes.0",
    "numa.rx_bytes.1",
    "numa.tx_bytes.1",
    "numa.far_content_frames.1",
    "numa.far_content_bytes.1",
    "steer.crossed_bytes",
    "numa.far_tx_frames.1",
    "numa.far_tx_bytes.1",
];

fn process(silos: &[[u64; 19]]) -> Process {
    let silos: Vec<Vec<u64>> = silos.iter().map(|values| values.to_vec()).collect();
    Process::of(7, "serve memif:@a", &NAMES, &silos).unwrap()
}

#[test]
fn silos_at_their_ports_cross_nothing() {
    let near = process(&[
        [1, 2, 0, 100, 0, 9, 1, 0, 10, 1_000, 20, 9_000, 0, 0, 0, 0, 0, 0, 0],
        [1, 3, 1, 100, 0, 9, 1, 0, 0, 0, 0, 0, 500, 4_000, 0, 0, 0, 0, 0],
    ]);
    assert_eq!(near.crossed, Crossed::default());
    assert_eq!((near.crossed_share(), near.crossings_per_byte_sent()), (0.0, 0.0));
    let flow = Flow { received: Amount { frames: 10, bytes: 1_000 }, sent: Amount { frames: 20, bytes: 9_000 } };
    assert_eq!(near.flows.get(&(Some(0), 0, Some(0))), Some(&flow));
    assert_eq!(near.flows.get(&(Some(1), 1, Some(1))).map(|flow| flow.sent.bytes), Some(4_000));
    assert_eq!((near.flows.len(), near.sent_bytes, near.received_bytes), (2, 13_000, 1_500));
    assert_eq!((near.silos[1].core, near.silos[1].domain), (Some(3), 1));
}

#[test]
fn each_way_of_crossing_is_counted() {
    // Content of domain 1, in half of the frames.
    let content = process(&[[1, 0, 0, 10, 0, 0, 1, 0, 1, 100, 8, 1_000, 0, 0, 4, 500, 0, 0, 0]]);
    assert_eq!(content.crossed.content, 500);
    assert_eq!(content.content.get(&(0, 1)), Some(&Amount { frames: 4, bytes: 500 }));
    assert_eq!((content.crossings_per_byte_sent(), content.crossed_share()), (0.5, 0.0));
    let sent = |memory| content.flows.get(&(Some(0), memory, Some(0))).map(|flow| flow.sent);
    assert_eq!(sent(0), Some(Amount { frames: 4, bytes: 500 }));
    assert_eq!(sent(1), sent(0));
    // A port of the other domain, both ways.
    let port = process(&[[1, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0, 0, 100, 1_000, 0, 0, 0, 0, 0]]);
    assert_eq!((port.crossed.received, port.crossed.sent), (100, 1_000));
    assert_eq!((port.crossings_per_byte_sent(), port.crossed_share()), (1.0, 1.0));
    // Ports of both: what came is not matched with what went.
    let mixed = process(&[[1, 0, 0, 10, 0, 0, 1, 0, 1, 100, 1, 600, 100, 400, 0, 0, 0, 0, 0]]);
    let ways: Vec<_> = mixed.flows.keys().copied().collect();
    assert_eq!(ways, [(None, 0, Some(0)), (None, 0, Some(1)), (Some(0), 0, None), (Some(1), 0, None)]);
    assert_eq!(mixed.crossings_per_byte_sent(), 0.4);
    // Another silo's ring.
    let steered = process(&[[1, 0, 0, 10, 0, 0, 1, 0, 1, 100, 1, 1_000, 0, 0, 0, 0, 250, 0, 0]]);
    assert_eq!(steered.crossings_per_byte_sent(), 0.25);
    // Memory that is spread: some of the frames lie on the other side.
    let spread = process(&[[1, 0, 0, 50, 50, 0, 1, 1, 1, 1_000, 9, 1_000, 0, 0, 0, 0, 0, 5, 600]]);
    assert_eq!((spread.crossed.sent_memory, spread.crossed_share()), (600, 0.3));
    assert_eq!(spread.buffers.get(&(0, 1)).map(|flow| flow.sent), Some(Amount { frames: 5, bytes: 600 }));
    assert_eq!(spread.crossings_per_byte_sent(), 0.6);
}

#[test]
fn the_model_is_what_it_is_said_to_be() {
    let siloed: Vec<f64> = [1, 2, 4, 8].map(|domains| Model::of(domains).siloed).into();
    assert_eq!(siloed, [0.0, 0.5, 0.75, 0.875]);
    assert_eq!((Model::of(2).worst, Model::of(1).worst, Model::of(4).hot_cache), (4.0, 0.0, 0.0));
}

#[test]
fn what_is_shown_has_all_of_it() {
    let two = machine(2);
    let process = process(&[[1, 2, 0, 100, 3, 9, 1, 0, 10, 1_000, 20, 9_000, 0, 0, 2, 90, 0, 1, 60]]);
    let text = NumaAccount { process: &process, topology: &two }.to_string();
    for wanted in [
        "7 serve memif:@a",
        "content of domain 1 sent by silos of domain 0: 2 frames, 90 bytes",
        "frames of silos of domain 0 that lay in domain 1: 0 in, 0 bytes; 1 out, 60 bytes",
        "by the model: 4 at worst",
        "0.50 expected",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let json = show::process_json(&process);
    assert_eq!((&json["flows"][0]["sent_bytes"], &json["flows"][1]["sent_bytes"]), (&8_910.into(), &90.into()));
    assert_eq!(json["silos"][0]["pages"]["remote"], 3);
    assert_eq!(json["crossed"]["content_bytes"], 90);
    let reaches = Reaches::default();
    assert_eq!(topology_json(&two, &reaches)["domains"][1]["cores"][0], 1);
    assert!(NumaMachine { topology: &two, reaches: &reaches }.to_string().contains("domain 1: cores 1;"));
    // In a machine of one there is no way to tell of.
    let one = NumaAccount { process: &process, topology: &machine(1) }.to_string();
    assert!(!one.contains("crossed"), "{one}");
}

#[test]
fn workers_of_kernel_sockets_are_listed_with_where_packets_come_in() {
    let names = [
        "silo.pinned",
        "silo.core",
        "silo.domain",
        "sockets.accepted",
        "sockets.connections",
        "numa.seen.0",
        "numa.seen.1",
    ];
    let workers = [vec![1, 0, 0, 20, 2, 7, 0], vec![1, 1, 1, 10, 1, 3, 5], vec![0, 0, 0, 4, 0, 1, 1]];
    let process = Process::of(9, "serve 3 workers, local", &names, &workers).unwrap();
    let figures: Vec<_> =
        process.workers.iter().map(|worker| (worker.place, worker.accepted, worker.looks())).collect();
    assert_eq!(figures, [(Some((0, 0)), 20, (7, 0)), (Some((1, 1)), 10, (8, 3)), (None, 4, (2, 0))]);
    let text = NumaAccount { process: &process, topology: &machine(2) }.to_string();
    for wanted in ["domain 0: 3, domain 1: 5 (3 of 8 elsewhere)", "Not known of kernel sockets"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let json = show::process_json(&process);
    assert_eq!((&json["workers"][1]["domain"], &json["workers"][2]["core"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(json["workers"][1]["seen"][1]["connections"], 5);
}

#[test]
fn a_process_that_publishes_nothing_of_the_kind_is_passed_over() {
    assert!(Process::of(1, "serve 2 workers", &["silo.turns", "app.requests"], &[vec![1, 2]]).is_none());
}

/// Recorded machines whose names and models mean no good.
fn hostile() -> Topology {
    const NAME: &str = "</text><script>alert(1)</script>";
    let mut text = String::from("sys/devices/system/cpu/possible 0-7\n");
    for domain in 0..2 {
        text.push_str(&format!(
            "sys/devices/system/node/node{domain}/cpulist {}-{}\n\
             sys/devices/system/node/node{domain}/distance {}\n\
             sys/devices/system/node/node{domain}/meminfo Node {domain} MemTotal: 16777216 kB\\nNode {domain} MemFree: \
             9437184 kB\n",
            4 * domain,
            4 * domain + 3,
            ["10 21", "21 10"][domain],
        ));
    }
    // A name of a folder has no slash.
    let name = NAME.replace('/', "|");
    for (at, model) in [NAME, "\u{202e}\u{0}x\" onload=\"alert(1)", "x".repeat(4_000).as_str()].iter().enumerate() {
        let disk = format!("sys/block/nvme{at}{name}");
        text.push_str(&format!(
            "{disk}/size 7814037168\n{disk}/queue/rotational 0\n{disk}/device/model {model}\n\
             {disk}/device/class 0x010802\n{disk}/device/numa_node {}\n{disk}/device/current_link_speed 8.0 GT/s PCIe\n\
             {disk}/device/current_link_width 2\n{disk}/device/max_link_speed 16.0 GT/s PCIe\n\
             {disk}/device/max_link_width 4\n",
            at as i32 - 1
        ));
    }
    Topology::of(&Recording::parse(&text).unwrap(), None).unwrap()
}

/// Whatever names say, the picture has the elements that are drawn and no others, and names as
/// they are, as text.
#[test]
fn names_in_the_picture_are_text() {
    let topology = hostile();
    assert_eq!(topology.disks.len(), 3, "{topology:?}");
    let reach = |from, to| reach::Reach { from, to, nanos: 80.0 + f64::from(from + to), bytes: 4e10 };
    let pairs = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(from, to)| reach(from, to)).to_vec();
    let value = topology_json(&topology, &Reaches { pairs, missing: Vec::new() });
    let drawn = results::topology_svg(&value);
    let known = ["svg", "style", "rect", "text", "path", "line"];
    for tag in drawn.split('<').skip(1) {
        let name = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
        assert!(known.contains(&name), "<{tag}");
    }
    for wanted in [
        "Domain 0",
        "Domain 1",
        "No domain that is known",
        "&lt;script&gt;",
        "PCIe",
        "4 to use of 4",
        "distance 21",
        " ns",
        "GB/s",
        "prefers-color-scheme: dark",
    ] {
        assert!(drawn.contains(wanted), "{wanted}: {drawn}");
    }
    assert!(!drawn.contains('\u{202e}') && !drawn.contains('\0') && drawn.len() < 100_000, "{} bytes", drawn.len());
}

/// A picture of a machine of very many domains ends, and says what is not drawn.
#[test]
fn a_picture_of_many_domains_says_what_it_leaves_out() {
    let value = topology_json(&machine(200), &Reaches::default());
    let drawn = results::topology_svg(&value);
    assert!(drawn.contains("and 168 more, which are not drawn"), "{drawn}");
    assert!(drawn.contains("Domain 31") && !drawn.contains("Domain 32,"), "{}", drawn.len());
    assert!(drawn.len() < 400_000, "{} bytes", drawn.len());
}
