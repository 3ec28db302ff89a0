//! What is listened on or connected to.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str::FromStr;
use rustix::net::SocketAddrUnix;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An address to listen on or to connect to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket; a path that begins with `@` names an abstract
    /// one (unix(7)).
    Unix(PathBuf),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Takes `8080` (all addresses of both families), `10.0.0.1:8080`,
    /// `[::1]:8080`, `unix:/run/nearside.sock` and `unix:@name`.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if is_path(Path::new(path)) { Ok(Self::Unix(path.into())) } else { Err(EndpointError::Path) };
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::Tcp(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
        }
        text.parse().map(Self::Tcp).map_err(|_| EndpointError::of(text))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Not an [`Endpoint`]: the user's to mend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointError {
    /// A port that there is not.
    Port,
    /// Before the port stands no address.
    Address,
    /// An IPv6 address without brackets.
    Brackets,
    /// No path, or one that a socket cannot have.
    Path,
    /// Nothing of the kind.
    Form,
}

impl EndpointError {
    /// What is wrong with a text that is neither a port nor an address with
    /// one.
    fn of(text: &str) -> Self {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.rsplit_once(':') {
            None if is_number(text) => Self::Port,
            None => Self::Form,
            Some(_) if text.parse::<Ipv6Addr>().is_ok() => Self::Brackets,
            Some((address, _)) if address.parse::<Ipv6Addr>().is_ok() => Self::Brackets,
            Some((address, port)) if !is_number(port) || address.is_empty() => Self::Form,
            Some((_, port)) if port.parse::<u16>().is_err() => Self::Port,
            Some(_) => Self::Address,
        }
    }
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Port => "the port is from 1 to 65535; ",
            Self::Address => "what stands before the port is no IPv4 or IPv6 address; ",
            Self::Brackets => "an IPv6 address with a port stands in brackets, as in [::1]:80; ",
            Self::Path => "a socket's path has from 1 to 107 bytes; ",
            Self::Form => "",
        };
        write!(f, "{what}write PORT, ADDRESS:PORT, [ADDRESS]:PORT, unix:PATH or unix:@NAME")
    }
}

impl core::error::Error for EndpointError {}

/// Whether this can be a Unix socket's path: `sun_path` holds 108 bytes, its end
/// included (unix(7)).
pub(crate) fn is_path(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    !bytes.is_empty() && bytes != b"@" && bytes.len() <= 107 && !bytes.contains(&0)
}

/// A Unix socket's address; `@` begins an abstract one (unix(7)).
pub(crate) fn unix_address(path: &Path) -> rustix::io::Result<SocketAddrUnix> {
    match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        _ => SocketAddrUnix::new(path),
    }
}

/// The path of a Unix socket that has one.
pub(crate) fn unix_path(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let unix = SocketAddrUnix::try_from(rustix::net::getsockname(fd).ok()?).ok()?;
    let path = match (unix.abstract_name(), unix.path_bytes()) {
        (Some(name), _) => [&b"@"[..], name].concat(),
        (None, Some(path)) => path.to_vec(),
        (None, None) => return None,
    };
    Some(path.strip_suffix(b"\0").map(<[u8]>::to_vec).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_as_they_are_written() {
        for (text, shown) in [
            ("8080", "[::]:8080"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::1]:443", "[::1]:443"),
            ("unix:/run/n.sock", "unix:/run/n.sock"),
            ("unix:@n", "unix:@n"),
        ] {
            assert_eq!(text.parse::<Endpoint>().expect(text).to_string(), shown);
        }
        use EndpointError::{Address, Brackets, Form, Path, Port};
        let long = format!("unix:/{}", "x".repeat(107));
        for (text, why) in [
            ("", Form),
            ("site", Form),
            ("10.0.0.1:", Form),
            (":80", Form),
            ("10.0.0.1:http", Form),
            ("unix:", Path),
            ("unix:@", Path),
            (&long, Path),
            ("70000", Port),
            ("10.0.0.1:70000", Port),
            ("[::1]:65536", Port),
            ("host:80", Address),
            ("10.0.0.256:80", Address),
            ("[::g]:80", Address),
            ("::1:443:", Brackets),
            ("::1:443", Brackets),
            ("fe80::1", Brackets),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(why), "{text}");
        }
    }
}
