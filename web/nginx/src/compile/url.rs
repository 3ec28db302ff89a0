//! Addresses of upstreams, as they are written: `host`, `host:port`, `unix:path`,
//! with a path behind them where one may follow.

use super::{Resolve, path_of};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use features::units::number;
use std::path::PathBuf;
use upstream::PeerAddress;

/// The longest path of a Unix socket (unix(7)), with the zero at its end.
const SOCKET_PATH_MAX: usize = 108;

/// Whether a path may follow an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    None,
    Path,
}

/// An address, perhaps with a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Url<'t> {
    pub host: UrlHost<'t>,
    /// The host as it is written, in brackets if it is an IPv6 address.
    pub name: &'t [u8],
    /// The port, if one is written.
    pub port: Option<u16>,
    /// What follows the address: a path, with a query perhaps. Nothing, if none may.
    pub path: &'t [u8],
}

/// Whose address it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum UrlHost<'t> {
    Unix(PathBuf),
    Address(IpAddr),
    Name(&'t [u8]),
}

impl<'t> Url<'t> {
    /// Reads one; the error is nginx's word for it.
    pub(super) fn parse(text: &'t [u8], tail: Tail) -> Result<Self, &'static str> {
        if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"unix:")) {
            return Self::unix(&text[5..], tail);
        }
        match text.first() {
            Some(b'[') => Self::bracketed(text, tail),
            _ => Self::plain(text, tail),
        }
    }

    fn unix(text: &'t [u8], tail: Tail) -> Result<Self, &'static str> {
        let end = text.iter().position(|byte| *byte == b':' && tail == Tail::Path);
        let (name, path) = end.map_or((text, &b""[..]), |at| (&text[..at], &text[at + 1..]));
        match name.len() {
            0 => Err("no path in the unix domain socket"),
            length if length >= SOCKET_PATH_MAX => Err("too long path in the unix domain socket"),
            _ => Ok(Self { host: UrlHost::Unix(path_of(name)), name, port: None, path }),
        }
    }

    fn bracketed(text: &'t [u8], tail: Tail) -> Result<Self, &'static str> {
        let close = text.iter().position(|byte| *byte == b']').ok_or("invalid host")?;
        let (name, behind) = text.split_at(close + 1);
        let (port, path) = tail.split(behind, b"/")?;
        let port = match port {
            b"" => None,
            [b':', digits @ ..] => Some(port_of(digits)?),
            _ => return Err("invalid host"),
        };
        let inner = &name[1..close];
        if inner.is_empty() {
            return Err("no host");
        }
        let address = core::str::from_utf8(inner).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
        let address = address.ok_or("invalid IPv6 address")?;
        Ok(Self { host: UrlHost::Address(address.into()), name, port, path })
    }

    fn plain(text: &'t [u8], tail: Tail) -> Result<Self, &'static str> {
        let (address, path) = tail.split(text, b"/?")?;
        let colon = address.iter().position(|byte| *byte == b':');
        let (name, port) = match colon {
            Some(at) => (&address[..at], Some(port_of(&address[at + 1..])?)),
            None => (address, None),
        };
        if name.is_empty() {
            return Err("no host");
        }
        let literal = core::str::from_utf8(name).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
        let host = literal.map_or(UrlHost::Name(name), |address| UrlHost::Address(address.into()));
        Ok(Self { host, name, port, path })
    }

    /// Where it is: each address of a name.
    pub(super) fn addresses(&self, port: u16, resolve: Resolve) -> Result<Vec<PeerAddress>, &'static str> {
        let inet = |address: IpAddr| PeerAddress::Inet(SocketAddr::new(address, self.port.unwrap_or(port)));
        match &self.host {
            UrlHost::Unix(path) => Ok(vec![PeerAddress::Unix(path.clone())]),
            UrlHost::Address(address) => Ok(vec![inet(*address)]),
            UrlHost::Name(name) => {
                let found = core::str::from_utf8(name).map(resolve).unwrap_or_default();
                let found: Vec<_> = found.into_iter().map(inet).collect();
                if found.is_empty() { Err("host not found") } else { Ok(found) }
            }
        }
    }
}

impl Tail {
    /// The address, and what follows it.
    fn split<'t>(self, text: &'t [u8], begins: &[u8]) -> Result<(&'t [u8], &'t [u8]), &'static str> {
        match text.iter().position(|byte| begins.contains(byte)) {
            Some(_) if self == Self::None => Err("invalid host"),
            Some(at) => Ok(text.split_at(at)),
            None => Ok((text, b"")),
        }
    }
}

fn port_of(digits: &[u8]) -> Result<u16, &'static str> {
    match number(digits) {
        Ok(port @ 1..=65_535) => Ok(port as u16),
        _ => Err("invalid port"),
    }
}
