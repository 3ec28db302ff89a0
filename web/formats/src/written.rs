//! Numbers, addresses and times, as variables write them.

use semantics::date::HttpDate;
use semantics::{Known, Request};
use std::net::{IpAddr, SocketAddr};

/// Writes what has a text of its own; always true, as all that variables are written by.
pub fn put(out: &mut Vec<u8>, number: impl core::fmt::Display) -> bool {
    // Writing to a vector does not fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{number}"));
    true
}

/// Writes a number in decimal digits.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) -> bool {
    let (mut digits, mut at) = ([0_u8; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    true
}

/// An address, without its port; `unix:` where there is none.
pub fn put_address(of: Option<SocketAddr>, out: &mut Vec<u8>) -> bool {
    match of.map(|of| of.ip().to_canonical()) {
        Some(IpAddr::V4(address)) => put_octets(out, address.octets()),
        Some(address) => put(out, address),
        None => put(out, "unix:"),
    }
}

fn put_octets(out: &mut Vec<u8>, octets: [u8; 4]) -> bool {
    let (text, length) = access_log::octets_text(octets);
    // All of it is copied, which takes less than copying any number.
    let end = out.len() + length;
    out.extend_from_slice(&text);
    out.truncate(end);
    true
}

/// Writes the value of a field; whether the request has it.
pub fn put_known(request: &Request<'_>, known: Known, out: &mut Vec<u8>) -> bool {
    let Some(value) = request.known(known) else { return false };
    out.extend_from_slice(value);
    true
}

/// `Sunday, 06-Nov-1994 08:49:37 GMT`, as SSI's default format has it, of a time in a
/// zone of this name.
pub fn put_ssi_date(out: &mut Vec<u8>, date: &HttpDate, zone: &str) {
    const DAYS: [&[u8]; 7] = [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
    let date = date.as_bytes();
    let day = DAYS.iter().find(|day| day.starts_with(&date[..3])).copied().unwrap_or_default();
    for part in [day, b", ", &date[5..7], b"-", &date[8..11], b"-", &date[12..16], b" ", &date[17..26], zone.as_bytes()]
    {
        out.extend_from_slice(part);
    }
}

/// These fields, with their values.
pub fn named_fields<'l>(lines: &'l [u8], name: &[u8]) -> impl Iterator<Item = (&'l [u8], &'l [u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(move |line| {
        let (known, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b": ")?;
        is_named(known, name).then(|| (known, value.strip_suffix(b"\r").unwrap_or(value)))
    })
}

/// Whether a variable's name stands for a field: there are no hyphens and no large letters
/// in it.
fn is_named(field: &[u8], name: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    field.len() == name.len() && field.iter().map(plain).eq(name.iter().copied())
}

/// Writes the values of all fields that a variable of this name stands for; whether
/// there is one.
pub fn put_joined<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    name: &[u8],
    separator: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut found = false;
    for (known, value) in fields {
        if is_named(known, name) {
            if found {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(value);
            found = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_written_as_they_are_read() {
        for number in [0, 9, 10, 2_649, u64::MAX] {
            let mut out = b"x".to_vec();
            put_number(&mut out, number);
            assert_eq!(String::from_utf8(out), Ok(format!("x{number}")));
        }
        for octets in [[0, 0, 0, 0], [9, 10, 99, 100], [255, 1, 20, 101]] {
            let mut out = Vec::new();
            put_octets(&mut out, octets);
            assert_eq!(String::from_utf8(out), Ok(std::net::Ipv4Addr::from(octets).to_string()));
        }
    }
}
