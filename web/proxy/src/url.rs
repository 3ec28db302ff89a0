//! Where `proxy_pass` leads.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

/// `http://host:port/uri` or `http://unix:/path:/uri`, taken apart; with `https` as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyUrl<'a> {
    /// Over TLS.
    pub secured: bool,
    /// Where it is.
    pub place: UpstreamPlace<'a>,
    /// What is asked for there: from the first `/` or `?` on; empty if there is none.
    pub uri: &'a [u8],
}

/// Where an upstream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpstreamPlace<'a> {
    /// At a host.
    Host {
        /// Its name or address, with the brackets of one of version 6.
        name: &'a [u8],
        /// The port, as it is written; none is that of the scheme.
        port: Option<&'a [u8]>,
    },
    /// At a Unix socket.
    Unix {
        /// The socket's path.
        path: &'a [u8],
    },
}

/// What is wrong with one, in nginx's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrlError {
    /// It begins neither with `http://` nor with `https://`.
    Prefix,
    /// There is no host.
    NoHost,
    /// A host that is none.
    Host,
    /// A port that is none.
    Port,
    /// No path of a socket.
    Path,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "invalid URL prefix",
            Self::NoHost => "no host",
            Self::Host => "invalid host",
            Self::Port => "invalid port",
            Self::Path => "no path in the unix domain socket",
        })
    }
}

impl core::error::Error for UrlError {}

impl<'a> ProxyUrl<'a> {
    /// Takes one apart.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &'a [u8]) -> Result<Self, UrlError> {
        let starts = |with: &[u8]| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        // With nothing behind it, it is none for nginx.
        if starts(b"https://") && text.len() > 8 {
            return Ok(Self { secured: true, ..Self::parse_rest(&text[8..])? });
        }
        if !starts(b"http://") || text.len() == 7 {
            return Err(UrlError::Prefix);
        }
        Self::parse_rest(&text[7..])
    }

    /// The same for gRPC, whose scheme may be left out, and which has no path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_grpc(text: &'a [u8]) -> Result<Self, UrlError> {
        let starts = |with: &[u8]| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
        let (rest, secured) = match () {
            () if starts(b"grpcs://") => (&text[8..], true),
            () if starts(b"grpc://") => (&text[7..], false),
            () => (text, false),
        };
        let parsed = match rest.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"unix:")) {
            true if rest.len() == 5 => return Err(UrlError::Path),
            true => Self { secured: false, place: UpstreamPlace::Unix { path: &rest[5..] }, uri: b"" },
            false => Self::parse_rest(rest)?,
        };
        if parsed.uri.is_empty() { Ok(Self { secured, ..parsed }) } else { Err(UrlError::Host) }
    }

    /// The port of hosts that name none.
    #[must_use]
    pub const fn usual_port(&self) -> u16 {
        if self.secured { 443 } else { 80 }
    }

    /// What follows the scheme.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_rest(rest: &'a [u8]) -> Result<Self, UrlError> {
        if rest.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"unix:")) {
            let path = &rest[5..];
            let end = path.iter().position(|byte| *byte == b':');
            let (path, uri) = end.map_or((path, &b""[..]), |end| (&path[..end], &path[end + 1..]));
            return if path.is_empty() {
                Err(UrlError::Path)
            } else {
                Ok(Self { secured: false, place: UpstreamPlace::Unix { path }, uri })
            };
        }
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        let (authority, uri) = rest.split_at(end);
        let (name, port) = host_and_port(authority)?;
        Ok(Self { secured: false, place: UpstreamPlace::Host { name, port }, uri })
    }
}

/// A host, and the port behind it.
fn host_and_port(authority: &[u8]) -> Result<(&[u8], Option<&[u8]>), UrlError> {
    let end = match authority.first() {
        None => return Err(UrlError::NoHost),
        Some(b'[') => authority.iter().position(|byte| *byte == b']').ok_or(UrlError::Host)? + 1,
        Some(_) => authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len()),
    };
    let (name, behind) = authority.split_at(end);
    if name.is_empty() || name == b"[]" {
        return Err(UrlError::NoHost);
    }
    match behind {
        [] => Ok((name, None)),
        [b':', port @ ..] if parse_port(port).is_some() => Ok((name, Some(port))),
        [b':', ..] => Err(UrlError::Port),
        _ => Err(UrlError::Host),
    }
}

/// A port that something can listen on.
#[must_use]
pub fn parse_port(text: &[u8]) -> Option<u16> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(text).ok()?.parse().ok().filter(|port| *port > 0)
}

impl<'a> UpstreamPlace<'a> {
    /// The port, where it is at a host; `usual` is that of hosts that name none.
    #[must_use]
    pub fn port(&self, usual: u16) -> u16 {
        match self {
            Self::Host { port: Some(port), .. } => parse_port(port).unwrap_or(usual),
            Self::Host { port: None, .. } | Self::Unix { .. } => usual,
        }
    }

    /// The host as it is written, or the path of a socket.
    #[must_use]
    pub const fn name(&self) -> &'a [u8] {
        match self {
            Self::Host { name, .. } => name,
            Self::Unix { path } => path,
        }
    }

    /// The address, where it is written as one.
    #[must_use]
    pub fn literal(&self, usual: u16) -> Option<SocketAddr> {
        let Self::Host { name, .. } = self else { return None };
        let text = core::str::from_utf8(name).ok()?;
        let ip = match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => IpAddr::V6(Ipv6Addr::from_str(inner).ok()?),
            None => IpAddr::V4(text.parse().ok()?),
        };
        Some(SocketAddr::new(ip, self.port(usual)))
    }

    /// What `$proxy_host` stands for: the host, and the port where it is written and not
    /// that of the scheme.
    pub fn write_host(&self, usual: u16, out: &mut Vec<u8>) {
        match self {
            Self::Unix { .. } => out.extend_from_slice(b"localhost"),
            Self::Host { name, port } => {
                out.extend_from_slice(name);
                if let Some(port) = port.filter(|_| self.port(usual) != usual) {
                    out.push(b':');
                    out.extend_from_slice(port);
                }
            }
        }
    }

    /// What `$proxy_port` stands for; nothing at a socket.
    #[must_use]
    pub fn port_text(&self, usual: u16) -> Option<Vec<u8>> {
        match self {
            Self::Unix { .. } => None,
            Self::Host { port: Some(port), .. } if self.port(usual) != usual => Some(port.to_vec()),
            Self::Host { .. } => Some(usual.to_string().into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> String {
        let url = ProxyUrl::parse(text.as_bytes()).expect(text);
        let mut out = Vec::new();
        url.place.write_host(url.usual_port(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn urls_are_taken_apart() {
        let of = |text: &'static str| ProxyUrl::parse(text.as_bytes());
        let url = of("http://127.0.0.1:8080/a/b?c").unwrap();
        assert_eq!(url.place.literal(url.usual_port()), Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(url.uri, b"/a/b?c");
        let url = of("HTTP://[::1]:81").unwrap();
        assert_eq!((url.place.literal(url.usual_port()), url.uri), (Some("[::1]:81".parse().unwrap()), &b""[..]));
        let url = of("http://backend?a=1").unwrap();
        assert_eq!((url.place.literal(url.usual_port()), url.uri), (None, &b"?a=1"[..]));
        let url = of("http://unix:/run/a.sock:/uri").unwrap();
        assert_eq!((url.place, url.uri), (UpstreamPlace::Unix { path: b"/run/a.sock" }, &b"/uri"[..]));
        assert_eq!(of("http://unix:/run/a.sock").unwrap().uri, b"");
        for (text, why) in [
            ("ftp://a", UrlError::Prefix),
            ("", UrlError::Prefix),
            ("https:/a", UrlError::Prefix),
            ("https://", UrlError::Prefix),
            ("http://", UrlError::Prefix),
            ("http:///a", UrlError::NoHost),
            ("http://:80", UrlError::NoHost),
            ("http://a:", UrlError::Port),
            ("http://a:0", UrlError::Port),
            ("http://a:65536", UrlError::Port),
            ("http://a:+1", UrlError::Port),
            ("http://[::1", UrlError::Host),
            ("http://[::1]a", UrlError::Host),
            ("http://unix:", UrlError::Path),
            ("http://unix::/a", UrlError::Path),
        ] {
            assert_eq!(of(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_host_is_told_as_nginx_tells_it() {
        for (text, told, port) in [
            ("http://a", "a", Some("80")),
            ("http://a:80", "a", Some("80")),
            ("http://a:8080/x", "a:8080", Some("8080")),
            ("http://[::1]:81", "[::1]:81", Some("81")),
            ("https://a", "a", Some("443")),
            ("HTTPS://a:443/x", "a", Some("443")),
            ("https://a:80", "a:80", Some("80")),
            ("http://unix:/a.sock:/", "localhost", None),
        ] {
            assert_eq!(host(text), told, "{text}");
            let url = ProxyUrl::parse(text.as_bytes()).unwrap();
            let told = url.place.port_text(url.usual_port());
            assert_eq!(told.as_deref(), port.map(str::as_bytes), "{text}");
        }
    }
}
