//! Addresses as configurations and fields of requests have them, in the forms
//! that nginx takes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address and how many bits of it count, as nginx keeps networks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The address, without the bits that do not count.
    pub address: IpAddr,
    /// How many bits count.
    pub len: u8,
    /// Bits were set that do not count: nginx warns of that.
    pub low_bits: bool,
}

/// An address: four numbers with dots between them, or one of version 6.
#[must_use]
pub fn address(text: &[u8]) -> Option<IpAddr> {
    match version_4(text) {
        Some(address) => Some(address.into()),
        None => core::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
    }
}

/// Leading zeros are taken, and 255.255.255.255 is not: that is how nginx tells
/// that there is none.
fn version_4(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut octets, mut at, mut value) = ([0; 4], 0, 0_u16);
    for byte in text {
        match byte {
            b'0'..=b'9' => value = value * 10 + u16::from(byte - b'0'),
            b'.' => {
                *octets.get_mut(at)? = u8::try_from(value).ok()?;
                (at, value) = (at + 1, 0);
            }
            _ => return None,
        }
        if value > 255 {
            return None;
        }
    }
    octets[3] = u8::try_from(value).ok()?;
    (at == 3 && octets != [255; 4]).then(|| octets.into())
}

/// An address, perhaps with a port behind it; the port is 0 where there is none.
#[must_use]
pub fn address_and_port(text: &[u8]) -> Option<SocketAddr> {
    if let Some(address) = address(text) {
        return Some(SocketAddr::new(address, 0));
    }
    let (host, port) = match text {
        [b'[', inner @ ..] => {
            let end = inner.iter().position(|byte| *byte == b']')?;
            match &inner[end + 1..] {
                [] => return address(&inner[..end]).map(|address| SocketAddr::new(address, 0)),
                [b':', port @ ..] => (&inner[..end], port),
                _ => return None,
            }
        }
        _ => {
            let end = text.iter().position(|byte| *byte == b':')?;
            (&text[..end], &text[end + 1..])
        }
    };
    Some(SocketAddr::new(address(host)?, port_of(port)?))
}

/// A port: 1 to 65,535, in digits.
fn port_of(text: &[u8]) -> Option<u16> {
    let add = |sum: u16, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    text.iter().try_fold(0, add).filter(|port| *port > 0)
}

/// A network: `192.0.2.0/24`, `2001:db8::/32`, or an address, which is one of its
/// own.
#[must_use]
pub fn network(text: &[u8]) -> Option<Network> {
    let (whole, len) = match text.iter().position(|byte| *byte == b'/') {
        Some(at) => (address(&text[..at])?, Some(&text[at + 1..])),
        None => (address(text)?, None),
    };
    let most = if whole.is_ipv4() { 32 } else { 128 };
    let len = match len {
        Some([]) => return None,
        Some(digits) => {
            let add = |sum: u32, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0'));
            let sum = digits.iter().try_fold(0, |sum, byte| add(sum, byte).filter(|sum| *sum <= most));
            u8::try_from(sum?).ok()?
        }
        None => most as u8,
    };
    let address = match whole {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    };
    Some(Network { address, len, low_bits: address != whole })
}

/// The client that proxies tell of: `values` are those of the field, in the order
/// of the request, each with addresses and commas between them, the nearest last.
/// A proxy is believed if `trusts` does; with `recursive` what it tells of is
/// asked again, else the last one told is it. `None` is a client at a Unix
/// socket. Gives nothing where `from` is not believed, or tells nothing.
pub fn forwarded<'a>(
    from: Option<IpAddr>,
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
    mut trusts: impl FnMut(Option<IpAddr>) -> bool,
    recursive: bool,
) -> Option<SocketAddr> {
    let (mut at, mut found) = (from, None);
    for value in values.rev() {
        let mut end = value.len();
        loop {
            if !trusts(at.map(|address| address.to_canonical())) {
                return found;
            }
            let Some(told) = last_address(value, &mut end) else { return found };
            (at, found) = (Some(told.ip()), Some(told));
            if !recursive {
                return found;
            }
            if end == 0 {
                break;
            }
        }
    }
    found
}

/// The last address before `end`, which then is where it begins; 0 if it is the
/// first.
fn last_address(value: &[u8], end: &mut usize) -> Option<SocketAddr> {
    let between = |byte: u8| byte == b' ' || byte == b',';
    while *end > 1 && between(value[*end - 1]) {
        *end -= 1;
    }
    // A separator that is the first byte is taken as part of what follows, as
    // nginx does, and is no address then.
    let start = (1..*end).rev().find(|at| between(value[*at])).map_or(0, |at| at + 1);
    let text = value.get(start..*end)?;
    *end = start.saturating_sub(1);
    address_and_port(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_nginx_takes() {
        for (text, taken) in [
            ("192.0.2.7", Some("192.0.2.7:0")),
            ("010.001.2.3", Some("10.1.2.3:0")),
            ("1..2.3", Some("1.0.2.3:0")),
            ("255.255.255.255", None),
            ("256.1.1.1", None),
            ("1.2.3", None),
            ("1.2.3.4.5", None),
            ("", None),
            ("192.0.2.7:80", Some("192.0.2.7:80")),
            ("192.0.2.7:0", None),
            ("192.0.2.7:65536", None),
            ("192.0.2.7:", None),
            ("2001:db8::1", Some("[2001:db8::1]:0")),
            ("[2001:db8::1]", Some("[2001:db8::1]:0")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
            ("[2001:db8::1]443", None),
            ("[2001:db8::1", None),
            ("unknown", None),
        ] {
            assert_eq!(address_and_port(text.as_bytes()), taken.map(|taken| taken.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn networks_lose_the_bits_that_do_not_count() {
        for (text, address, len, low_bits) in [
            ("10.1.2.3/8", "10.0.0.0", 8, true),
            ("10.0.0.0/8", "10.0.0.0", 8, false),
            ("0.0.0.0/0", "0.0.0.0", 0, false),
            ("10.1.2.3", "10.1.2.3", 32, false),
            ("2001:db8::1/32", "2001:db8::", 32, true),
            ("::/0", "::", 0, false),
            ("::1", "::1", 128, false),
        ] {
            let network = network(text.as_bytes()).expect(text);
            assert_eq!(network, Network { address: address.parse().unwrap(), len, low_bits }, "{text}");
        }
        for text in ["10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/255.0.0.0", "10/8", "/8", "99999/1"]
        {
            assert_eq!(network(text.as_bytes()), None, "{text}");
        }
    }

    /// 10.0.0.0/8 and Unix sockets are believed.
    fn told(from: Option<&str>, values: &[&str], recursive: bool) -> Option<String> {
        let trusts = |address: Option<IpAddr>| {
            address.is_none_or(|address| {
                network(b"10.0.0.0/8").is_some_and(
                    |net| matches!((address, net.address), (IpAddr::V4(a), IpAddr::V4(_)) if a.octets()[0] == 10),
                )
            })
        };
        let from = from.map(|from| from.parse().unwrap());
        forwarded(from, values.iter().map(|value| value.as_bytes()), trusts, recursive).map(|told| told.to_string())
    }

    #[test]
    fn the_client_behind_proxies_is_found() {
        let one: &[&str] = &["192.0.2.1, 10.0.0.2,10.0.0.3"];
        assert_eq!(told(Some("10.0.0.1"), one, false).as_deref(), Some("10.0.0.3:0"));
        assert_eq!(told(Some("10.0.0.1"), one, true).as_deref(), Some("192.0.2.1:0"));
        assert_eq!(told(None, one, true).as_deref(), Some("192.0.2.1:0"));
        assert_eq!(told(Some("::ffff:10.0.0.1"), one, true).as_deref(), Some("192.0.2.1:0"));
        assert_eq!(told(Some("192.0.2.9"), one, true), None);
        // Several fields are one list; the first that is not believed ends it.
        let two: &[&str] = &["203.0.113.5, 10.9.9.9", "10.0.0.2:81 , "];
        assert_eq!(told(Some("10.0.0.1"), two, false).as_deref(), Some("10.0.0.2:81"));
        assert_eq!(told(Some("10.0.0.1"), two, true).as_deref(), Some("203.0.113.5:0"));
        // What is no address ends it, too.
        assert_eq!(told(Some("10.0.0.1"), &["x, 10.0.0.4"], true).as_deref(), Some("10.0.0.4:0"));
        assert_eq!(told(Some("10.0.0.1"), &["x"], true), None);
        for value in ["", ",", " ", ",,,", ",10.0.0.4"] {
            assert_eq!(told(Some("10.0.0.1"), &[value], true), None, "{value:?}");
        }
    }
}
