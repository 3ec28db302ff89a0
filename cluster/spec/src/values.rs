//! What stands in a field.

use crate::test::{Span, TargetSpec};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;

/// The longest time that is taken.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The longest URL: what is written on a command line.
const URL_LIMIT: usize = 8_000;

/// A whole number above zero, `4k` and `2M` among them.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let wrong = || "write a whole number above 0, as in 64, 10k or 2M".to_owned();
    let number = rate(text).map_err(|_| wrong())?;
    let whole = number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number);
    if whole { Ok(number as u32) } else { Err(wrong()) }
}

/// A whole number.
pub(crate) fn count_or_zero(text: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| "write a whole number".to_owned())
}

/// Requests per second: a number above zero, with k or M behind it or not.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let wrong = || "write a number above 0, as in 500, 10k or 1.5M".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..) {
        Some("") => 1.0,
        Some("k" | "K") => 1e3,
        Some("M") => 1e6,
        _ => return Err(wrong()),
    };
    let number = plain(digits).map(|number| number * factor).filter(|number| *number > 0.0 && *number <= 1e9);
    number.ok_or_else(wrong)
}

/// A time above zero.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    match span_or_zero(text) {
        Ok(span) if span.time.is_zero() => Err("this is to be longer than zero".to_owned()),
        other => other,
    }
}

/// A time.
pub(crate) fn span_or_zero(text: &str) -> Result<Span, String> {
    const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let seconds = UNITS.iter().find_map(|(unit, seconds)| Some(plain(text.strip_suffix(unit)?)? * seconds));
    seconds
        .filter(|seconds| *seconds <= LONGEST.as_secs_f64())
        .map(|seconds| Span { text: text.to_owned(), time: Duration::from_secs_f64(seconds) })
        .ok_or_else(|| "write a time with its unit, as in 30s, 500ms or 2m, of a week at most".to_owned())
}

/// Digits, and perhaps a point among them.
fn plain(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if digits && text.len() <= 24 { text.parse().ok() } else { None }
}

/// A truth.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// Reads a name as objects of Kubernetes have it (RFC 1123 section 2.1).
///
/// # Errors
/// If it is none, with what to write.
pub fn name(text: &str) -> Result<String, String> {
    let letters = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let ends = text.starts_with('-') || text.ends_with('-') || text.is_empty();
    match letters && !ends && text.len() <= 63 {
        true => Ok(text.to_owned()),
        false => Err("a name has 1 to 63 small letters, digits and hyphens, none of these at its ends".to_owned()),
    }
}

/// A file beside the spec, by its name: none elsewhere.
pub(crate) fn file(text: &str) -> Result<String, String> {
    let outside = text.starts_with('/') || text.split('/').any(|name| name == "..");
    match outside || text.is_empty() || text.chars().any(char::is_control) {
        true => Err("write the path of a file in the spec's own folder, or below it".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A URL.
pub(crate) fn target(text: &str) -> Result<TargetSpec, String> {
    let wrong = |why: &str| format!("{why}; write it as in http://10.0.0.2:8080/ or http://shop.example/cart?n=1");
    if text.starts_with("https://") {
        return Err(wrong("a load on many machines speaks http:// alone so far"));
    }
    if text.len() > URL_LIMIT {
        return Err(wrong(&format!("a URL has {URL_LIMIT} letters at most")));
    }
    let rest = text.strip_prefix("http://").ok_or_else(|| wrong("this is no URL of http://"))?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("a URL has no blanks, and what is not ASCII is percent-encoded"));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    if authority.contains('@') {
        return Err(wrong("a user's name is not sent: use a header"));
    }
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse::<u16>().ok().filter(|port| digits && *port > 0);
        port.ok_or_else(|| wrong("a port is from 1 to 65535"))
    };
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("a bracket is open"))?;
        host.parse::<Ipv6Addr>().map_err(|_| wrong("what is in brackets is no IPv6 address"))?;
        (host, rest.strip_prefix(':').map_or(if rest.is_empty() { Ok(80) } else { Err(wrong("no port")) }, port)?)
    } else {
        let (host, rest) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        (host, rest.map_or(Ok(80), port)?)
    };
    if !authority.starts_with('[') && !is_host(host) {
        return Err(wrong("the host is neither an address nor a name"));
    }
    if path.contains(['[', ']']) {
        return Err(wrong("brackets stand for many paths, which a test of many machines has not: write %5B and %5D"));
    }
    let (url, authority, host) = (text.to_owned(), authority.to_owned(), host.to_owned());
    Ok(TargetSpec { url, authority, host, port, path })
}

/// Whether it is an address of IPv4, or a name (RFC 952, RFC 1123 section 2.1, and the underscore that resolvers
/// take).
fn is_host(host: &str) -> bool {
    // A number with dots that is no address is a mistyped one.
    let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let label = |label: &str| {
        let letters = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        letters && !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-')
    };
    let named = !numeric && host.len() <= 253 && host.trim_end_matches('.').split('.').all(label);
    named && !host.is_empty() || host.parse::<Ipv4Addr>().is_ok()
}
