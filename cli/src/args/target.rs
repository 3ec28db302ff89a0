//! What is to be loaded: a URL.

use generator::Place;
use host::values::BadValue;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest path of a Unix socket, in bytes (unix(7)).
const UNIX_PATH_LIMIT: usize = 107;

/// What is asked for, and of whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Where the server is.
    pub place: Place,
    /// Whether it is asked over TLS.
    pub secured: bool,
    /// The `Host` header's value: the authority as written.
    pub host: String,
    /// The request target: path and query.
    pub path: String,
}

impl FromStr for Target {
    type Err = BadValue;

    /// Takes `http://10.0.0.2/a`, `http://[fd00::2]:8080/`,
    /// `http://localhost:8080/`, `https://example.com/`, `unix:/run/site.sock`,
    /// `unix:/run/site.sock:/a` and `http+unix://%2Frun%2Fsite.sock/a`.
    fn from_str(text: &str) -> Result<Self, BadValue> {
        if let Some(rest) = text.strip_prefix("unix:") {
            let (socket, path) = rest.split_once(":/").map_or((rest, ""), |(socket, path)| (socket, path));
            return Ok(Self {
                place: unix(socket)?,
                secured: false,
                host: "localhost".to_owned(),
                path: request_target(path)?,
            });
        }
        if let Some(rest) = text.strip_prefix("http+unix://") {
            let (socket, path) = split(rest);
            let socket = decoded(socket).ok_or_else(|| bad("the socket's path is not percent-encoded right"))?;
            return Ok(Self {
                place: unix(&socket)?,
                secured: false,
                host: "localhost".to_owned(),
                path: request_target(path)?,
            });
        }
        let (rest, secured) = match text.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("http://").ok_or_else(|| bad("only http:// and https:// are spoken"))?, false),
        };
        let (host, path) = split(rest);
        // RFC 9110 section 4.2.
        let place = place(host, if secured { 443 } else { 80 })?;
        Ok(Self { place, secured, host: host.to_owned(), path: request_target(path)? })
    }
}

fn bad(why: &str) -> BadValue {
    BadValue::new(format!(
        "{why}; write it as in http://10.0.0.2/, https://localhost:8443/a, http://[fd00::2]/ or unix:/run/site.sock:/a"
    ))
}

/// Authority, and the rest from its first slash or question mark on.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()))
}

/// The path as asked for: an empty one is "/" (RFC 9112 §3.2.1), and a
/// fragment stays with the client (RFC 9110 §7.1).
pub fn request_target(text: &str) -> Result<String, BadValue> {
    let path = text.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    if path.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(path);
    }
    Err(bad("the path holds a blank or a character outside ASCII: write it percent-encoded"))
}

/// Reads an authority: address or name, and port (RFC 3986 §3.2), which may be left out.
fn place(host: &str, usual: u16) -> Result<Place, BadValue> {
    if host.contains('@') {
        return Err(bad("a user's name is not sent; use --header 'Authorization: …'"));
    }
    // An address whose port is out of range is no name.
    if let Some((before, port)) = host.rsplit_once(':')
        && bare_address(before).is_some()
    {
        port_of(port)?;
    }
    if let Some(address) = host.parse().ok().or_else(|| Some(SocketAddr::new(bare_address(host)?, usual))) {
        return if address.port() == 0 { Err(bad("the port is from 1 to 65535")) } else { Ok(Place::Address(address)) };
    }
    let (name, port) = match host.split_once(':') {
        None => (host, usual),
        Some((name, port)) => (name, port_of(port)?),
    };
    // RFC 952, RFC 1123 §2.1, and the underscore that resolvers take.
    let label = |label: &str| {
        let letters = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        letters && !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-')
    };
    // A number with dots that is no address is a mistyped one.
    let numeric = name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if name.is_empty() || name.len() > 253 || numeric || !name.trim_end_matches('.').split('.').all(label) {
        return Err(bad(&format!("'{host}' is neither an address nor a name")));
    }
    Ok(Place::Name(name.to_owned(), port))
}

fn port_of(text: &str) -> Result<u16, BadValue> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port > 0);
    port.ok_or_else(|| bad(&format!("the port is from 1 to 65535, not '{text}'")))
}

/// An address without port, IPv6 in brackets (RFC 3986 §3.2.2).
fn bare_address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// A Unix socket by path, or by abstract name after `@`.
pub fn unix(path: &str) -> Result<Place, BadValue> {
    if path.is_empty() || path == "@" || path.len() > UNIX_PATH_LIMIT || path.contains('\0') {
        return Err(bad(&format!("a Unix socket's path has from 1 to {UNIX_PATH_LIMIT} bytes")));
    }
    Ok(Place::Unix(path.into()))
}

/// Without percent-encoding (RFC 3986 §2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2)?;
        let digits = core::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().expect(text)
    }

    #[test]
    fn a_target_is_an_address_a_name_or_a_socket() {
        let address = |text: &str| Place::Address(text.parse().expect("an address"));
        assert_eq!(target("http://[fd00::2]").place, address("[fd00::2]:80"));
        assert_eq!(target("http://10.0.0.2:8080/a?b").place, address("10.0.0.2:8080"));
        assert_eq!(target("http://example.com").place, Place::Name("example.com".into(), 80));
        let named = target("http://my_host-1.local:81?q#f");
        assert_eq!((named.place, named.path.as_str()), (Place::Name("my_host-1.local".into(), 81), "/?q"));
        assert_eq!(named.host, "my_host-1.local:81");
        assert!(!named.secured);
        for (text, place) in [
            ("https://10.0.0.2/a", address("10.0.0.2:443")),
            ("https://[fd00::2]", address("[fd00::2]:443")),
            ("https://a.example", Place::Name("a.example".into(), 443)),
            ("https://a.example:8443/", Place::Name("a.example".into(), 8443)),
        ] {
            assert_eq!((target(text).place, target(text).secured), (place, true), "{text}");
        }
        for (text, socket, path) in [
            ("unix:/run/n.sock", "/run/n.sock", "/"),
            ("unix:/run/n.sock:/a?b", "/run/n.sock", "/a?b"),
            ("unix:@name:/a", "@name", "/a"),
            ("http+unix://%2Frun%2Fn.sock/a", "/run/n.sock", "/a"),
            ("http+unix://%2frun%2fn.sock", "/run/n.sock", "/"),
        ] {
            let target = target(text);
            assert_eq!((target.place, target.path.as_str()), (Place::Unix(socket.into()), path), "{text}");
            assert_eq!(target.host, "localhost");
        }
    }

    #[test]
    fn what_is_no_target_says_why() {
        for (text, reason) in [
            ("https://10.0.0.256/", "neither an address nor a name"),
            ("https:/10.0.0.2/", "only http:// and https://"),
            ("ftp://10.0.0.2/", "only http:// and https://"),
            ("http://10.0.0.2/ö", "percent-encoded"),
            ("http:///", "neither an address nor a name"),
            ("http://10.0.0.2:0/", "port"),
            ("http://a:0/", "port"),
            ("http://a:65536/", "from 1 to 65535, not '65536'"),
            ("http://10.0.0.2:70000/", "from 1 to 65535, not '70000'"),
            ("http://[fd00::2]:+80/", "from 1 to 65535, not '+80'"),
            ("http://a:b/", "port"),
            ("http://10.0.0.256/", "neither an address nor a name"),
            ("http://-a/", "neither an address nor a name"),
            ("http://a..b/", "neither an address nor a name"),
            ("http://me:word@a/", "Authorization"),
            ("http://fd00::2/", "port"),
            ("unix:", "path"),
            ("http+unix://%2/", "percent-encoded"),
            ("http+unix://%+1/", "percent-encoded"),
            ("", "only http://"),
        ] {
            let told = text.parse::<Target>().expect_err(text).to_string();
            assert!(told.contains(reason), "{text}: {told}");
        }
        assert!(format!("unix:/{}", "x".repeat(107)).parse::<Target>().is_err());
    }
}
