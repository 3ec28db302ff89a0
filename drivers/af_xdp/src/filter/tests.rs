//! The programs, in this kernel, on frames made by hand: what is taken and
//! what is not, however hostile. Without the right to load programs the tests
//! say so and pass, unless `CI` or `NEARSIDE_REQUIRE_TOOLS` says that they
//! must run.

use super::*;

/// In place of XDP_PASS for what would be taken: there is no socket here.
const TAKEN: u32 = 1;
const PASSED: u32 = 2;

const OURS4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OURS6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456);
const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const SERVED: [u16; 4] = [80, 8_080, 65_535, 7];

fn filter(claim: &Claim, vlan: Option<u16>) -> Option<Filter> {
    match Filter::load_with(claim, vlan, 4, i64::from(TAKEN)) {
        Ok(filter) => Some(filter),
        Err(error) if error.is_permission() => {
            let required = |name| std::env::var_os(name).is_some();
            assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "{error}; run as root");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn host(vlan: Option<u16>) -> Option<Filter> {
    let filter = filter(&Claim::Host { ports: SERVED.to_vec() }, vlan)?;
    filter.add(OURS4.into()).unwrap();
    filter.add(OURS6.into()).unwrap();
    Some(filter)
}

fn own() -> Option<Filter> {
    own_in(None, false)
}

fn own_in(vlan: Option<u16>, aggregated: bool) -> Option<Filter> {
    filter(&Claim::Own { addresses: vec![OURS4.into(), OURS6.into()], aggregated }, vlan)
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 6][..], &[4; 6], &ether_type.to_be_bytes(), payload].concat()
}

fn tagged(vlan: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(0x8100, &[&vlan.to_be_bytes()[..], &ether_type.to_be_bytes(), payload].concat())
}

/// An IPv4 packet with `options` words of options.
fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, fragment: u16, options: u8, payload: &[u8]) -> Vec<u8> {
    let len = (20 + 4 * u16::from(options) + payload.len() as u16).to_be_bytes();
    let fragment = fragment.to_be_bytes();
    let head = [0x45 + options, 0, len[0], len[1], 0, 0, fragment[0], fragment[1], 64, protocol, 0, 0];
    [&head[..], &src.octets(), &dst.octets(), &vec![1; 4 * usize::from(options)], payload].concat()
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    [&[0x60, 0, 0, 0, len[0], len[1], next, 64][..], &src.octets(), &dst.octets(), payload].concat()
}

fn tcp(from: u16, to: u16) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 8], &[0x50, 0x10, 1, 0, 0, 0, 0, 0]].concat()
}

fn icmp(kind: u8, code: u8, original: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0, 0, 0, 0, 0][..], original].concat()
}

fn tcp4(to: u16) -> Vec<u8> {
    ethernet(0x0800, &ipv4(PEER4, OURS4, 6, 0x4000, 0, &tcp(50_000, to)))
}

fn tcp6(to: u16) -> Vec<u8> {
    ethernet(0x86dd, &ipv6(PEER6, OURS6, 6, &tcp(50_000, to)))
}

#[track_caller]
fn expect(filter: &Filter, frame: &[u8], verdict: u32, what: &str) {
    assert_eq!(filter.program.run(frame).unwrap(), verdict, "{what}");
}

/// Every frame that is cut short stays with the kernel, up to the length at
/// which it says all that decides.
#[track_caller]
fn expect_from(filter: &Filter, frame: &[u8], decided: usize, what: &str) {
    for len in 14..=frame.len() {
        let verdict = if len < decided { PASSED } else { TAKEN };
        expect(filter, &frame[..len], verdict, &format!("{what}: {len} bytes"));
    }
}

#[test]
fn served_ports_of_the_host_are_taken_and_nothing_else() {
    let Some(filter) = host(None) else { return };
    for port in SERVED {
        expect(&filter, &tcp4(port), TAKEN, &format!("port {port}"));
        expect(&filter, &tcp6(port), TAKEN, &format!("port {port}"));
    }
    for port in [22, 0, 79, 81, 8_081, 65_534, 6, 8] {
        expect(&filter, &tcp4(port), PASSED, &format!("port {port}"));
        expect(&filter, &tcp6(port), PASSED, &format!("port {port}"));
    }
    let others = [
        ("another's address", ethernet(0x0800, &ipv4(PEER4, PEER4, 6, 0, 0, &tcp(1, 80)))),
        ("another's address", ethernet(0x86dd, &ipv6(PEER6, PEER6, 6, &tcp(1, 80)))),
        ("UDP", ethernet(0x0800, &ipv4(PEER4, OURS4, 17, 0, 0, &tcp(1, 80)))),
        ("UDP", ethernet(0x86dd, &ipv6(PEER6, OURS6, 17, &tcp(1, 80)))),
        ("ARP", ethernet(0x0806, &arp(PEER4, OURS4))),
        ("echo", ethernet(0x0800, &ipv4(PEER4, OURS4, 1, 0, 0, &icmp(8, 0, &[0; 56])))),
        ("neighbour discovery", ethernet(0x86dd, &ipv6(PEER6, OURS6, 58, &icmp(135, 0, &[0; 56])))),
        ("a spanning tree", ethernet(0x0026, &[0x42; 60])),
        ("version 5", ethernet(0x0800, &[0x55; 60])),
        ("version 5", ethernet(0x86dd, &[0x55; 60])),
        ("a header of 16 bytes", {
            let mut packet = ipv4(PEER4, OURS4, 6, 0, 0, &tcp(1, 80));
            packet[0] = 0x44;
            ethernet(0x0800, &packet)
        }),
    ];
    for (what, frame) in &others {
        expect(&filter, frame, PASSED, what);
    }
}

#[test]
fn headers_are_measured_before_they_are_read() {
    let Some(filter) = host(None) else { return };
    expect_from(&filter, &tcp4(80), 14 + 20 + 4, "IPv4");
    expect_from(&filter, &tcp6(80), 14 + 40 + 4, "IPv6");
    for options in 1..=10 {
        let frame = ethernet(0x0800, &ipv4(PEER4, OURS4, 6, 0, options, &tcp(1, 80)));
        expect_from(&filter, &frame, 14 + 20 + 4 * usize::from(options) + 4, "IPv4 with options");
    }
    // The longest header, claimed by a packet that ends before.
    let mut short = tcp4(80);
    short[14] = 0x4f;
    expect(&filter, &short, PASSED, "a header of 60 bytes in a packet of 40");
}

/// The kernel has the other fragments, and only the first has ports.
#[test]
fn fragments_stay_with_the_kernel() {
    let Some(filter) = host(None) else { return };
    for fragment in [0x2000, 0x0001, 0x1fff, 0x3fff, 0x2001] {
        let frame = ethernet(0x0800, &ipv4(PEER4, OURS4, 6, fragment, 0, &tcp(1, 80)));
        expect(&filter, &frame, PASSED, &format!("{fragment:x}"));
    }
    // Do not fragment, and the reserved bit, are no fragments.
    for fragment in [0x4000, 0x8000] {
        let frame = ethernet(0x0800, &ipv4(PEER4, OURS4, 6, fragment, 0, &tcp(1, 80)));
        expect(&filter, &frame, TAKEN, &format!("{fragment:x}"));
    }
    let frame = ethernet(0x86dd, &ipv6(PEER6, OURS6, 44, &[&[6, 0, 0, 1, 0, 0, 0, 0][..], &tcp(1, 80)].concat()));
    expect(&filter, &frame, PASSED, "IPv6");
}

/// RFC 792, RFC 1191, RFC 4443: errors about what we sent are ours.
#[test]
fn errors_about_served_ports_are_taken() {
    let Some(filter) = host(None) else { return };
    let quoted = |from: u16, options| ipv4(OURS4, PEER4, 6, 0x4000, options, &tcp(from, 50_000)[..8]);
    let error =
        |kind, code, original: &[u8]| ethernet(0x0800, &ipv4(PEER4, OURS4, 1, 0, 0, &icmp(kind, code, original)));
    for code in [0, 1, 3, 4, 13] {
        expect(&filter, &error(3, code, &quoted(80, 0)), TAKEN, "unreachable");
    }
    expect(&filter, &error(3, 4, &quoted(22, 0)), PASSED, "about SSH");
    expect(&filter, &error(3, 4, &ipv4(PEER4, OURS4, 6, 0, 0, &tcp(80, 1))), PASSED, "about another's packet");
    expect(&filter, &error(3, 3, &ipv4(OURS4, PEER4, 17, 0, 0, &tcp(80, 1))), PASSED, "about UDP");
    expect(&filter, &error(3, 4, &ipv4(OURS4, PEER4, 6, 0x0001, 0, &tcp(80, 1))), PASSED, "about a later fragment");
    expect(&filter, &error(11, 0, &quoted(80, 0)), PASSED, "time exceeded");
    expect_from(&filter, &error(3, 4, &quoted(80, 0)), 14 + 20 + 8 + 20 + 2, "quoted");
    expect_from(&filter, &error(3, 4, &quoted(80, 10)), 14 + 20 + 8 + 60 + 2, "quoted with options");

    let quoted = |from: u16| ipv6(OURS6, PEER6, 6, &tcp(from, 50_000));
    let error = |kind, original: &[u8]| ethernet(0x86dd, &ipv6(PEER6, OURS6, 58, &icmp(kind, 0, original)));
    expect(&filter, &error(1, &quoted(80)), TAKEN, "unreachable");
    expect_from(&filter, &error(2, &quoted(8_080)), 14 + 40 + 8 + 40 + 2, "too big");
    expect(&filter, &error(2, &quoted(22)), PASSED, "about SSH");
    expect(&filter, &error(3, &quoted(80)), PASSED, "time exceeded");
    expect(&filter, &error(2, &ipv6(PEER6, OURS6, 6, &tcp(80, 1))), PASSED, "about another's packet");
    expect(&filter, &error(2, &ipv6(OURS6, PEER6, 17, &tcp(80, 1))), PASSED, "about UDP");
}

/// A VLAN is another interface of the kernel's, with other addresses.
#[test]
fn a_vlan_is_taken_only_where_it_is_meant() {
    let packet = ipv4(PEER4, OURS4, 6, 0, 0, &tcp(1, 80));
    let Some(filter) = host(None) else { return };
    expect(&filter, &tagged(5, 0x0800, &packet), PASSED, "a tag");
    expect(&filter, &tagged(0, 0x0800, &packet), PASSED, "a priority tag");
    let Some(filter) = host(Some(5)) else { return };
    expect_from(&filter, &tagged(0x2005, 0x0800, &packet), 18 + 20 + 4, "the tag, with a priority");
    expect(&filter, &tagged(6, 0x0800, &packet), PASSED, "another tag");
    expect(&filter, &ethernet(0x0800, &packet), PASSED, "no tag");
    expect(&filter, &tagged(5, 0x8100, &tagged(5, 0x0800, &packet)[14..]), PASSED, "two tags");
}

#[test]
fn addresses_come_and_go() {
    let Some(filter) = host(None) else { return };
    filter.remove(OURS4.into()).unwrap();
    expect(&filter, &tcp4(80), PASSED, "an address that went");
    expect(&filter, &tcp6(80), TAKEN, "the other one");
    filter.remove(OURS4.into()).unwrap();
    filter.add(OURS4.into()).unwrap();
    expect(&filter, &tcp4(80), TAKEN, "an address that came back");
}

fn arp(from: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    [&head[..], &[4; 6], &from.octets(), &[0; 6], &target.octets()].concat()
}

#[test]
fn own_addresses_are_taken_with_all_that_belongs_to_them() {
    let Some(filter) = own() else { return };
    expect_from(&filter, &ethernet(0x0800, &ipv4(PEER4, OURS4, 6, 0, 0, &tcp(1, 22))), 14 + 20, "TCP");
    expect(&filter, &ethernet(0x0800, &ipv4(PEER4, OURS4, 17, 0x2000, 0, &tcp(1, 53))), TAKEN, "a fragment of UDP");
    expect_from(&filter, &ethernet(0x86dd, &ipv6(PEER6, OURS6, 58, &icmp(128, 0, &[0; 8]))), 14 + 40, "echo");
    expect_from(&filter, &ethernet(0x0806, &arp(PEER4, OURS4)), 14 + 28, "ARP");
    // RFC 4291 section 2.7.1.
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff12, 0x3456);
    expect(&filter, &ethernet(0x86dd, &ipv6(PEER6, group, 58, &icmp(135, 0, &[0; 24]))), TAKEN, "solicitation");
    // RFC 5227 section 2.4, RFC 4862 section 5.4.4: somebody else has one of
    // them.
    let nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let told = |kind: u8, of: Ipv6Addr| ethernet(0x86dd, &ipv6(of, nodes, 58, &icmp(kind, 0, &of.octets())));
    expect_from(&filter, &ethernet(0x0806, &arp(OURS4, PEER4)), 14 + 28, "ARP of whoever has it too");
    expect_from(&filter, &told(136, OURS6), 14 + 40 + 24, "an advertisement of whoever has it too");
    let others = [
        ("another's ARP", ethernet(0x0806, &arp(PEER4, PEER4))),
        ("another's advertisement", told(136, PEER6)),
        ("a router's", told(134, OURS6)),
        ("ARP for another network", ethernet(0x0806, &[&[0, 6][..], &arp(PEER4, OURS4)[2..]].concat())),
        ("ARP of other lengths", ethernet(0x0806, &[&[0, 1, 8, 0, 8, 4][..], &arp(PEER4, OURS4)[6..]].concat())),
        ("another's IPv4", ethernet(0x0800, &ipv4(OURS4, PEER4, 6, 0, 0, &tcp(1, 80)))),
        ("broadcast", ethernet(0x0800, &ipv4(PEER4, Ipv4Addr::BROADCAST, 17, 0, 0, &tcp(68, 67)))),
        ("another's IPv6", ethernet(0x86dd, &ipv6(OURS6, PEER6, 6, &tcp(1, 80)))),
        ("all nodes", ethernet(0x86dd, &ipv6(PEER6, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 58, &[0; 24]))),
        ("a tag", tagged(5, 0x0800, &ipv4(PEER4, OURS4, 6, 0, 0, &tcp(1, 80)))),
    ];
    for (what, frame) in &others {
        expect(&filter, frame, PASSED, what);
    }
}

/// A frame of a slow protocol (IEEE 802.3 annex 57A).
fn slow(to: [u8; 6], subtype: u8) -> Vec<u8> {
    let mut frame = ethernet(0x8809, &[0; 110]);
    frame[..6].copy_from_slice(&to);
    frame[14] = subtype;
    frame
}

/// IEEE 802.1AX-2014 clauses 6.4.2.3 and 6.5.3.3: control frames and markers
/// are of the port, and so outside of all VLANs.
#[test]
fn control_of_link_aggregation_is_taken_where_it_is_wanted() {
    let group = wire::lacp::DESTINATION.0;
    for vlan in [None, Some(5)] {
        let (Some(alone), Some(joined)) = (own_in(vlan, false), own_in(vlan, true)) else { return };
        for subtype in [1, 2] {
            expect(&alone, &slow(group, subtype), PASSED, "not aggregated");
            expect_from(&joined, &slow(group, subtype), 15, "aggregated");
            let mut tagged = tagged(5, 0x8809, &slow(group, subtype)[14..]);
            tagged[..6].copy_from_slice(&group);
            expect(&joined, &tagged, PASSED, "with a tag");
        }
        // 3: Ethernet OAM (IEEE 802.3 clause 57); 10: organisations' own, as
        // synchronisation (ITU-T G.8264).
        for subtype in [0, 3, 10, 255] {
            expect(&joined, &slow(group, subtype), PASSED, "another slow protocol");
        }
        for (at, bit) in (0..6).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit))) {
            let mut other = group;
            other[at] ^= bit;
            expect(&joined, &slow(other, 1), PASSED, "to another address");
        }
        expect(&joined, &ethernet(0x8808, &slow(group, 1)[14..]), PASSED, "pause");
    }
}

/// Whatever bytes come, the program ends with one of its two answers.
#[test]
fn any_bytes_are_answered() {
    let (Some(host), Some(own)) = (host(None), own_in(None, true)) else { return };
    let mut state = 1_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    for _ in 0..2_000 {
        let mut frame = match random() % 3 {
            0 => tcp4(80),
            1 => tcp6(80),
            _ => slow(wire::lacp::DESTINATION.0, 1),
        };
        for _ in 0..1 + random() % 6 {
            let at = random() as usize % frame.len();
            frame[at] = random() as u8;
        }
        frame.truncate((14 + random() as usize % 64).min(frame.len()));
        for filter in [&host, &own] {
            let verdict = filter.program.run(&frame).unwrap();
            assert!([TAKEN, PASSED].contains(&verdict), "{verdict} for {frame:x?}");
        }
    }
}
