//! Messages that lie, and the kernel's own on veth.

use crate::message::{Attributes, Builder, GENERIC, HEADER, Kind};
use crate::socket::messages;
use crate::{TlsOffloads, get, set, settings, tls_of, tls_offloads};
use std::process::Command;

#[test]
fn what_is_built_is_read_again() {
    let mut request = Builder::request(1, "eth0");
    request.number(6, 512);
    request.switch(11, true);
    let mut message = vec![0; HEADER + GENERIC];
    message.extend(&request.attributes);
    let attributes = Attributes::of_reply(&message).expect("attributes");
    assert_eq!(attributes.value(6, Kind::Number).as_deref(), Some("512"));
    assert_eq!(attributes.value(11, Kind::Switch).as_deref(), Some("on"));
    assert_eq!(attributes.value(7, Kind::Number), None);
    let mut request = Builder::new(12);
    request.feature("rx-gro", true);
    request.feature("rx-lro", false);
    let mut message = vec![0; HEADER + GENERIC];
    message.extend(&request.attributes);
    let attributes = Attributes::of_reply(&message).expect("attributes");
    assert_eq!(attributes.bits(3), ["rx-gro"]);
}

/// What the kernel answers where a driver counts pause frames: 7 sent, 9
/// received.
#[test]
fn counts_of_pause_frames_are_read() {
    let (mut counts, mut answer) = (Builder::new(0), Builder::new(0));
    counts.put(2, &7_u64.to_ne_bytes());
    counts.put(3, &9_u64.to_ne_bytes());
    answer.switch(3, true);
    answer.put(5, &counts.attributes);
    let mut message = vec![0; HEADER + GENERIC];
    message.extend(&answer.attributes);
    assert_eq!(crate::paused(&message), Some((7, 9)));
    (0..message.len()).for_each(|cut| assert_eq!(crate::paused(&message[..cut]), None));
    // Flags behind the name, within the same attribute.
    let asked = Builder::counting(21, "eth0").attributes;
    assert!(asked.ends_with(&[8, 0, 3, 0, 4, 0, 0, 0]), "{asked:?}");
    assert_eq!(usize::from(u16::from_ne_bytes([asked[0], asked[1]])), asked.len());
}

/// As the kernel answers of a card that seals what is sent, and could open what arrives.
#[test]
fn what_cards_do_of_tls_is_read() {
    // A request names what is wanted (3), an answer what can be (2) and what is (4).
    let bits = |kind: u8, name: &str| {
        let mut set = Builder::new(12);
        set.feature(name, true);
        set.attributes[2] = kind;
        set.attributes
    };
    let answer = |can: &str, has: &str| [vec![0; HEADER + GENERIC], bits(2, can), bits(4, has)].concat();
    let card = answer("tls-hw-rx-offload", "tls-hw-tx-offload");
    let expected = TlsOffloads { transmit: Some(true), receive: Some(false), record: None };
    assert_eq!(tls_of(&card), expected);
    assert_eq!(tls_of(&answer("rx-gro", "rx-gro")), TlsOffloads::default());
    (0..card.len()).for_each(|cut| assert!(tls_of(&card[..cut]) != expected));
    assert!(tls_offloads("no-such-one").is_err());
}

/// Every length that can be wrong, and every cut: nothing panics, nothing goes
/// on for ever.
#[test]
fn messages_that_lie_about_lengths_are_left_out() {
    let mut request = Builder::request(1, "eth0");
    request.feature("rx-gro", true);
    let mut whole = vec![0; HEADER + GENERIC];
    whole.extend(&request.attributes);
    let length = u32::try_from(whole.len()).expect("short");
    whole[..4].copy_from_slice(&length.to_ne_bytes());
    for at in 0..whole.len() {
        for wrong in [0, 1, 3, 4, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = wrong;
            for message in messages(&bytes) {
                let Some(attributes) = Attributes::of_reply(message.bytes) else { continue };
                assert!(attributes.each().count() <= bytes.len());
                let _ = (attributes.bits(3), attributes.value(1, Kind::Number), attributes.value(1, Kind::Switch));
            }
        }
        assert!(messages(&whole[..at]).next().is_none());
    }
}

/// The child, in a namespace with a pair of its own.
#[test]
fn child_that_changes_a_veth() {
    if std::env::var("NEARSIDE_TEST_ETHTOOL").is_err() {
        return;
    }
    let made = Command::new("ip")
        .args(["link", "add", "nse0", "numrxqueues", "2", "numtxqueues", "2", "type", "veth", "peer", "name", "nse1"])
        .status();
    assert!(made.is_ok_and(|status| status.success()), "a veth pair");
    let all = settings("nse0").expect("netlink");
    let value = |name: &str| all.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    // What veth has: channels, and offloads. Rings and coalescing it has not.
    assert!(value("channels/rx").is_some() && value("offloads/rx-gro").is_some(), "{all:?}");
    assert_eq!(value("rings/rx"), None);
    assert_eq!(get("nse0", "rings/rx").expect_err("none").kind(), std::io::ErrorKind::NotFound);
    let before = get("nse0", "offloads/rx-gro").expect("a value");
    let other = if before == "on" { "off" } else { "on" };
    set("nse0", "offloads/rx-gro", other).expect("changed");
    assert_eq!(get("nse0", "offloads/rx-gro").expect("a value"), other);
    set("nse0", "offloads/rx-gro", &before).expect("changed back");
    assert_eq!(get("nse0", "offloads/rx-gro").expect("a value"), before);
    set("nse0", "channels/rx", "1").expect("changed");
    assert_eq!(get("nse0", "channels/rx").expect("a value"), "1");
    set("nse0", "channels/rx", "2").expect("changed back");
    assert!(set("nse0", "channels/rx", "4096").is_err());
    assert!(set("nse0", "rings/rx", "64").is_err());
    assert!(set("nse0", "offloads/rx-gro", "maybe").is_err());
    assert!(get("none0", "channels/rx").is_err());
    println!("all of it inside");
}

/// Needs root, unshare(1) and ip(8); says so where they are missing.
#[test]
fn a_veth_is_told_and_tells() {
    if std::env::var("NEARSIDE_TEST_ETHTOOL").is_ok() {
        return;
    }
    let able = |program: &str, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    if !able("unshare", &["-n", "true"]) || !able("ip", &["-V"]) {
        println!("left out: needs root, unshare(1) and ip(8)");
        return;
    }
    let mut child = Command::new("unshare");
    child.arg("-n").arg(std::env::current_exe().expect("a test's program"));
    child.args(["--exact", "tests::child_that_changes_a_veth", "--nocapture"]).env("NEARSIDE_TEST_ETHTOOL", "1");
    let output = child.output().expect("a child");
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("all of it inside"),
        "{output:?}"
    );
}
