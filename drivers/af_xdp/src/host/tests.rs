//! What this kernel tells, of its loopback and of a veth pair.

use super::*;
use crate::stamps::tests::with_veth;
use std::process::Command;
use std::time::Duration;

#[test]
fn the_loopback_is_known() {
    let view = HostView::open("lo").unwrap();
    // A fresh namespace has its loopback down, and then no address.
    assert!(view.addresses().unwrap().iter().all(|address| address.ip.is_loopback()));
    assert!(view.routes().unwrap().iter().all(|route| route.gateway.is_none()));
    let missing = HostView::open("no-such-nic").unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn hops_that_lie_about_their_lengths_are_left_out() {
    let hop = |length: u16| [&length.to_ne_bytes()[..], &[0; 6]].concat();
    let good = [hop(8), hop(8)].concat();
    assert_eq!(hops(&good).count(), 2);
    for bytes in [&hop(0), &hop(7), &hop(9), &good[..7].to_vec()] {
        assert_eq!(hops(bytes).count(), 0, "{bytes:?}");
    }
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().expect("ip");
    assert!(status.success(), "ip {words}");
}

/// The events until one that is `wanted`.
fn until(view: &mut HostView, wanted: impl Fn(&HostEvent) -> bool) -> HostEvent {
    loop {
        match view.poll() {
            Some(event) if wanted(&event) => return event,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn addresses_routes_and_neighbours_are_what_ip_says() {
    with_veth(|| {
        let mut view = HostView::open("a").expect("an interface");
        let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
        ip("address add 192.0.2.1/24 dev a");
        ip("address add 198.51.100.1 peer 198.51.100.9/32 dev a");
        ip("address add fd07::1/64 dev a nodad");
        let added = until(&mut view, |event| matches!(event, HostEvent::Address(one) if one.ip == parse("192.0.2.1")));
        assert_eq!(added, HostEvent::Address(HostAddress { ip: parse("192.0.2.1"), prefix_len: 24 }));
        let mut addresses = view.addresses().expect("told");
        addresses.retain(|one| one.ip != parse("192.0.2.1") && !one.ip.to_string().starts_with("fe80"));
        let address = |ip, prefix_len| HostAddress { ip: parse(ip), prefix_len };
        // Ours of the two on a link of two.
        assert_eq!(addresses, [address("198.51.100.1", 32), address("fd07::1", 64)]);

        ip("route add 203.0.113.0/24 via 192.0.2.254 dev a metric 7");
        ip("route add default nexthop via 192.0.2.9 dev a nexthop via 192.0.2.8 dev a");
        ip("route add 2001:db8::/32 via fd07::fe dev a metric 9");
        ip("route add blackhole 233.252.0.0/24");
        ip("route add 240.1.0.0/16 dev a table 7");
        let routes = view.routes().expect("told");
        let find = |destination, prefix_len| {
            routes.iter().find(|route| route.destination == parse(destination) && route.prefix_len == prefix_len)
        };
        let seen = |destination, prefix_len| find(destination, prefix_len).map(|route| (route.gateway, route.metric));
        assert_eq!(seen("203.0.113.0", 24), Some((Some(parse("192.0.2.254")), 7)));
        assert_eq!(seen("192.0.2.0", 24), Some((None, 0)));
        assert_eq!(seen("0.0.0.0", 0), Some((Some(parse("192.0.2.9")), 0)), "the first of several");
        assert_eq!(seen("2001:db8::", 32), Some((Some(parse("fd07::fe")), 9)));
        assert_eq!((seen("233.252.0.0", 24), seen("240.1.0.0", 16)), (None, None), "of no use, of another table");
        assert!(routes.is_sorted_by_key(|route| core::cmp::Reverse(route.metric)));
        let told = until(&mut view, |event| matches!(event, HostEvent::Routes(_)));
        assert!(matches!(told, HostEvent::Routes(told) if !told.is_empty()));

        ip("neighbour replace 192.0.2.9 lladdr 02:00:00:00:00:09 dev a nud permanent");
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let known = HostEvent::Neighbour { ip: parse("192.0.2.9"), mac, proven: true };
        until(&mut view, |event| *event == known);
        view.ask(parse("192.0.2.9"));
        until(&mut view, |event| *event == known);
        ip("neighbour replace fd07::9 lladdr 02:00:00:00:00:09 dev a nud stale");
        until(&mut view, |event| *event == HostEvent::Neighbour { ip: parse("fd07::9"), mac, proven: false });
        ip("neighbour del 192.0.2.9 dev a");
        until(&mut view, |event| *event == HostEvent::NeighbourGone(parse("192.0.2.9")));
        // Nobody is there: the kernel asks, and says so.
        view.ask(parse("192.0.2.77"));
        until(&mut view, |event| *event == HostEvent::NeighbourGone(parse("192.0.2.77")));

        ip("link set dev a mtu 1400");
        until(&mut view, |event| *event == HostEvent::Mtu(1400));
        ip("address del 192.0.2.1/24 dev a");
        until(&mut view, |event| *event == HostEvent::AddressGone(parse("192.0.2.1")));
    });
}
