//! The host and port that a request is for.

use core::net::Ipv6Addr;

/// Whether `value` is `uri-host [ ":" port ]` (RFC 9110 section 4.2.1, which
/// wants the host not to be empty). A port is a number of at most 65,535, or
/// nothing (RFC 3986 section 3.2.3).
#[inline(never)]
#[must_use]
pub fn is_valid(value: &[u8]) -> bool {
    let Some(port) = after_host(value) else { return false };
    match port {
        [] => true,
        [b':', digits @ ..] => is_port(digits),
        _ => false,
    }
}

/// What follows the host (RFC 3986 section 3.2.2).
fn after_host(value: &[u8]) -> Option<&[u8]> {
    if let Some(literal) = value.strip_prefix(b"[") {
        let end = literal.iter().position(|&byte| byte == b']')?;
        let (address, rest) = literal.split_at_checked(end)?;
        return if is_literal(address) { rest.get(1..) } else { None };
    }
    let end = value.iter().position(|&byte| byte == b':').unwrap_or(value.len());
    let (name, rest) = value.split_at_checked(end)?;
    if !name.is_empty() && is_name(name) { Some(rest) } else { None }
}

/// What may stand in brackets: an IPv6 address, or one of a later version.
fn is_literal(address: &[u8]) -> bool {
    if let [b'v' | b'V', future @ ..] = address {
        let mut parts = future.splitn(2, |&byte| byte == b'.');
        let (version, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let of_version = |part: &[u8], fit: fn(u8) -> bool| !part.is_empty() && part.iter().all(|&byte| fit(byte));
        return of_version(version, |byte| byte.is_ascii_hexdigit())
            && of_version(rest, |byte| is_name_byte(byte) || byte == b':');
    }
    core::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// A registered name; IPv4 addresses are among them.
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
            [byte, after @ ..] if is_name_byte(*byte) => after,
            _ => return false,
        }
    }
}

/// `unreserved` and `sub-delims` (RFC 3986 sections 2.2 and 2.3).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

fn is_port(digits: &[u8]) -> bool {
    let mut port = 0_u32;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return false;
        }
        port = (port * 10 + u32::from(digit - b'0')).min(u32::from(u16::MAX) + 1);
    }
    port <= u32::from(u16::MAX)
}
