//! The PROXY protocol, versions 1 and 2 (haproxy.org, doc/proxy-protocol.txt): what
//! a proxy says of its client before the client's bytes.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What stands before the client's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProxyHeader {
    /// There is more to come; no more than [`PROXY_HEADER_MAX`] bytes in all.
    Partial,
    /// So many bytes, which said this; nothing where the proxy tells of none:
    /// of itself, or of a client of another kind.
    Whole(usize, Option<ProxiedAddresses>),
}

/// Who connected to a proxy, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxiedAddresses {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to.
    pub destination: SocketAddr,
    /// What the proxy says beside addresses (section 2.2): each a type, a length of two
    /// bytes and as many bytes. Read by [`tlv`]; none where there is nothing.
    pub tlvs: Option<Arc<[u8]>>,
}

/// The value of the first of these that has this type; none if there is none, or what
/// stands before it is malformed.
#[must_use]
pub fn tlv(mut tlvs: &[u8], wanted: u8) -> Option<&[u8]> {
    while let Some(([kind, high, low], rest)) = tlvs.split_first_chunk() {
        let (value, next) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == wanted {
            return Some(value);
        }
        tlvs = next;
    }
    None
}

/// What the peer sends is no header: it is not to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadProxyHeader;

/// The longest header: addresses, and what a proxy says beside them.
pub const PROXY_HEADER_MAX: usize = 4_096;

/// The longest of version 1 (section 2.1).
const LINE_MAX: usize = 107;

/// What begins version 2 (section 2.2).
pub const PROXY_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

impl ProxyHeader {
    /// Reads the first bytes of a connection.
    ///
    /// # Errors
    /// They begin with no header.
    pub fn read(bytes: &[u8]) -> Result<Self, BadProxyHeader> {
        let begins = |start: &[u8]| {
            let both = bytes.len().min(start.len());
            bytes[..both] == start[..both]
        };
        if begins(PROXY_SIGNATURE) {
            return if bytes.len() < PROXY_SIGNATURE.len() { Ok(Self::Partial) } else { version_2(bytes) };
        }
        if !begins(b"PROXY ") {
            return Err(BadProxyHeader);
        }
        let line = &bytes[..bytes.len().min(LINE_MAX)];
        match line.windows(2).position(|two| two == b"\r\n") {
            Some(end) => Ok(Self::Whole(end + 2, version_1(&line[..end])?)),
            None if bytes.len() < LINE_MAX => Ok(Self::Partial),
            None => Err(BadProxyHeader),
        }
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`
fn version_1(line: &[u8]) -> Result<Option<ProxiedAddresses>, BadProxyHeader> {
    let line = core::str::from_utf8(line).map_err(|_| BadProxyHeader)?;
    let mut words = line.split(' ').skip(1);
    let version_4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        // Whatever follows.
        Some(word) if word.starts_with("UNKNOWN") => return Ok(None),
        _ => return Err(BadProxyHeader),
    };
    let mut address =
        || words.next().and_then(|word| word.parse::<IpAddr>().ok()).filter(|at| at.is_ipv4() == version_4);
    let addresses = (address(), address());
    let mut port = || words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?.parse::<u16>().ok();
    match (addresses, port(), port(), words.next()) {
        ((Some(source), Some(destination)), Some(from), Some(to), None) => Ok(Some(ProxiedAddresses {
            source: SocketAddr::new(source, from),
            destination: SocketAddr::new(destination, to),
            tlvs: None,
        })),
        _ => Err(BadProxyHeader),
    }
}

fn version_2(bytes: &[u8]) -> Result<ProxyHeader, BadProxyHeader> {
    let rest = &bytes[PROXY_SIGNATURE.len()..];
    // What is known to be wrong is not waited for.
    if rest.first().is_some_and(|byte| byte >> 4 != 2) {
        return Err(BadProxyHeader);
    }
    let Some(([version, family, high, low], rest)) = rest.split_first_chunk() else { return Ok(ProxyHeader::Partial) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let whole = PROXY_SIGNATURE.len() + 4 + length;
    if whole > PROXY_HEADER_MAX {
        return Err(BadProxyHeader);
    }
    let Some(body) = rest.get(..length) else { return Ok(ProxyHeader::Partial) };
    let addresses = match (version & 15, family) {
        // Over IPv4, and over IPv6, by streams.
        (1, 0x11) => Some(addresses::<4>(body)?),
        (1, 0x21) => Some(addresses::<16>(body)?),
        // Of the proxy itself, or of another kind.
        _ => None,
    };
    Ok(ProxyHeader::Whole(whole, addresses))
}

/// Both addresses of `N` bytes, and both ports.
fn addresses<const N: usize>(body: &[u8]) -> Result<ProxiedAddresses, BadProxyHeader>
where
    IpAddr: From<[u8; N]>,
{
    let read = |body: &[u8]| {
        let (source, rest) = body.split_first_chunk::<N>()?;
        let (destination, rest) = rest.split_first_chunk::<N>()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (to, tlvs) = rest.split_first_chunk()?;
        Some(ProxiedAddresses {
            source: SocketAddr::new((*source).into(), u16::from_be_bytes(*from)),
            destination: SocketAddr::new((*destination).into(), u16::from_be_bytes(*to)),
            tlvs: (!tlvs.is_empty()).then(|| tlvs.into()),
        })
    };
    read(body).ok_or(BadProxyHeader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: &str, destination: &str) -> Option<ProxiedAddresses> {
        Some(ProxiedAddresses {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            tlvs: None,
        })
    }

    /// Version 2: command and version, family, body.
    fn binary(version: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = PROXY_SIGNATURE.to_vec();
        bytes.extend([version, family]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// Each header, however it is cut.
    #[test]
    fn headers_are_read_from_the_first_byte_to_the_last() {
        let four = told("192.0.2.1:56324", "198.51.100.1:443");
        let six = told("[2001:db8::1]:1", "[2001:db8::2]:65535");
        let body_4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 187];
        let mut body_6 = [0; 36];
        body_6[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        body_6[15] = 1;
        body_6[16..20].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        body_6[31] = 2;
        body_6[33..].copy_from_slice(&[1, 255, 255]);
        // A proxy may say more.
        let more = [&body_4[..], &[1, 0, 2, b'h', b'2']].concat();
        for (header, said) in [
            (b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".to_vec(), four.clone()),
            (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n".to_vec(), six.clone()),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 x y z\r\n".to_vec(), None),
            (binary(0x21, 0x11, &body_4), four.clone()),
            (
                binary(0x21, 0x11, &more),
                four.clone().map(|told| ProxiedAddresses { tlvs: Some(more[12..].into()), ..told }),
            ),
            (binary(0x21, 0x21, &body_6), six.clone()),
            (binary(0x20, 0x11, &body_4), None),
            (binary(0x20, 0, &[]), None),
            (binary(0x21, 0x31, &[0; 216]), None),
            (binary(0x21, 0x12, &body_4), None),
        ] {
            for end in 0..header.len() {
                assert_eq!(ProxyHeader::read(&header[..end]), Ok(ProxyHeader::Partial), "{header:?} {end}");
            }
            let behind = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(ProxyHeader::read(&behind), Ok(ProxyHeader::Whole(header.len(), said)), "{header:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_not_waited_for() {
        let line = |text: &str| ProxyHeader::read(text.as_bytes());
        for text in [
            "GET / HTTP/1.1\r\n",
            "PROXX",
            "PROXY\r\n",
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.256 1 2\r\n",
            "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
            &format!("PROXY UNKNOWN {}\r\n", "x".repeat(100)),
            &format!("PROXY UNKNOWN {}", "x".repeat(100)),
        ] {
            assert_eq!(line(text), Err(BadProxyHeader), "{text}");
        }
        for bytes in [
            binary(0x11, 0x11, &[0; 12]),
            binary(0x21, 0x11, &[0; 11]),
            binary(0x21, 0x21, &[0; 35]),
            binary(0x21, 0x11, &[0; 5_000]),
            PROXY_SIGNATURE[..].iter().copied().chain([0x31]).collect(),
        ] {
            assert_eq!(ProxyHeader::read(&bytes), Err(BadProxyHeader));
        }
    }

    /// What a proxy says beside addresses is kept, and found by its type.
    #[test]
    fn values_beside_addresses_are_found_by_their_types() {
        let addresses = [192, 0, 2, 1, 198, 51, 100, 1, 0, 1, 0, 2];
        let tlvs = [&b"\x01\x00\x02h2\x30\x00\x00\x01\x00\x01x"[..], b"\x02\x00\x09cut"].concat();
        let header = binary(0x21, 0x11, &[&addresses[..], &tlvs].concat());
        let Ok(ProxyHeader::Whole(length, Some(told))) = ProxyHeader::read(&header) else { panic!("{header:?}") };
        assert_eq!(length, header.len());
        let said = told.tlvs.expect("something is said");
        assert_eq!(tlv(&said, 1), Some(&b"h2"[..]));
        assert_eq!(tlv(&said, 0x30), Some(&b""[..]));
        // One that is cut short is none, and what is not there neither.
        assert_eq!((tlv(&said, 2), tlv(&said, 3)), (None, None));
    }
}
