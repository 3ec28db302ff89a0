use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn prefixes_read_as_written() {
    for (prefix, inside, outside) in [
        ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
        ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
        ("192.0.2.9/0", "8.8.8.8", "::1"),
        ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
        ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
    ] {
        let read: Prefix = prefix.parse().unwrap();
        assert!(read.contains(ip(inside)), "{inside} in {prefix}");
        assert!(!read.contains(ip(outside)), "{outside} in {prefix}");
    }
    for bad in ["", "192.0.2.0/33", "2001:db8::/129", "192.0.2.0/", "host", "1.2.3.4/-1", "1.2.3.4/999"] {
        assert_eq!(bad.parse::<Prefix>(), Err(PrefixError), "{bad}");
    }
}

/// An IPv4 address, mapped or not, and an IPv6 /64 are one client each;
/// proxies have any number.
#[test]
fn clients_are_counted() {
    let rule = SourceRule { limit: 2, exempt: vec!["10.9.0.0/16".parse().unwrap()] };
    let mut sources = Sources::new(Some(rule));
    for (one, same, other) in [
        ("10.0.0.1", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.3", "::ffff:10.0.0.3", "10.0.0.4"),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", "2001:db8:0:2::1"),
    ] {
        sources.opened(ip(one));
        assert!(sources.admits(ip(same)));
        sources.opened(ip(same));
        assert!(!sources.admits(ip(one)) && !sources.admits(ip(same)), "{one}");
        assert!(sources.admits(ip(other)));
        sources.closed(ip(same));
        assert!(sources.admits(ip(one)));
        sources.closed(ip(one));
    }
    for _ in 0..100 {
        assert!(sources.admits(ip("10.9.1.1")));
        sources.opened(ip("10.9.1.1"));
    }
    assert_eq!(sources.len(), 1);
    (0..100).for_each(|_| sources.closed(ip("10.9.1.1")));
    assert!(sources.is_empty(), "nothing is kept of those that are gone");
    let mut off = Sources::new(None);
    (0..100).for_each(|_| off.opened(ip("10.0.0.1")));
    assert!(off.admits(ip("10.0.0.1")) && off.is_empty());
}
