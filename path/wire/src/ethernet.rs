//! Ethernet II frames, with one IEEE 802.1Q tag or none.

use crate::WireError;
use core::fmt;
use core::str::FromStr;

/// Header without a tag.
pub const HEADER_LEN: usize = 14;
/// Header with one 802.1Q tag.
pub const HEADER_LEN_VLAN: usize = 18;

/// Ether type of IPv4 (RFC 894).
pub const ETHER_IPV4: u16 = 0x0800;
/// Ether type of ARP (RFC 826).
pub const ETHER_ARP: u16 = 0x0806;
/// Ether type of an 802.1Q tag.
pub const ETHER_VLAN: u16 = 0x8100;
/// Ether type of IPv6 (RFC 2464 section 3).
pub const ETHER_IPV6: u16 = 0x86dd;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No address: what an ARP request carries for the one that it asks about.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether it names a group of stations; broadcast is one.
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether one station can have it: neither a group nor all zeros.
    #[inline]
    #[must_use]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is not a hardware address of the form `02:00:5e:10:00:01`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hardware address is six pairs of hexadecimal digits, separated by colons")
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let mut octets = [0; 6];
        let mut pairs = text.split(':');
        for octet in &mut octets {
            let pair = pairs.next().ok_or(ParseMacError)?;
            // from_str_radix takes a sign, an address does not.
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ParseMacError);
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| ParseMacError)?;
        }
        if pairs.next().is_some() {
            return Err(ParseMacError);
        }
        Ok(Self(octets))
    }
}

impl Mac {
    /// Who sent a frame; [`Mac::ZERO`] if its header is not all there.
    #[inline]
    #[must_use]
    pub fn sender_of(frame: &[u8]) -> Self {
        match frame {
            [_, _, _, _, _, _, s0, s1, s2, s3, s4, s5, _, _, ..] => Self([*s0, *s1, *s2, *s3, *s4, *s5]),
            _ => Self::ZERO,
        }
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetHeader {
    /// The receiver.
    pub dst: Mac,
    /// The sender.
    pub src: Mac,
    /// Tag control information of an 802.1Q tag: priority (3 bits), drop
    /// eligibility (1 bit), VLAN (12 bits).
    pub vlan: Option<u16>,
    /// What the payload is. A second tag appears here, as
    /// [`ETHER_VLAN`]; values below 0x0600 are lengths of IEEE 802.3 frames.
    pub ether_type: u16,
}

impl EthernetHeader {
    /// The header and the payload, link padding included.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the header is not all there.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let Some((head, payload)) = frame.split_first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *head;
        let header = Self {
            dst: Mac([d0, d1, d2, d3, d4, d5]),
            src: Mac([s0, s1, s2, s3, s4, s5]),
            vlan: None,
            ether_type: u16::from_be_bytes([t0, t1]),
        };
        if header.ether_type != ETHER_VLAN {
            return Ok((header, payload));
        }
        let Some((&[c0, c1, t0, t1], payload)) = payload.split_first_chunk::<4>() else {
            return Err(WireError::Truncated);
        };
        let vlan = Some(u16::from_be_bytes([c0, c1]));
        Ok((Self { vlan, ether_type: u16::from_be_bytes([t0, t1]), ..header }, payload))
    }

    /// The VLAN that the frame belongs to, without its priority.
    #[inline]
    #[must_use]
    pub fn vlan_id(&self) -> Option<u16> {
        self.vlan.map(|tag| tag & 0x0fff)
    }

    /// Bytes that [`EthernetHeader::emit`] writes.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        if self.vlan.is_some() { HEADER_LEN_VLAN } else { HEADER_LEN }
    }

    /// Writes the header and returns its length, 14 or 18; 0 if `out` is
    /// shorter.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let len = match self.vlan {
            None => {
                let Some(head) = out.first_chunk_mut::<HEADER_LEN>() else { return 0 };
                head[12..].copy_from_slice(&self.ether_type.to_be_bytes());
                HEADER_LEN
            }
            Some(tag) => {
                let Some(head) = out.first_chunk_mut::<HEADER_LEN_VLAN>() else { return 0 };
                head[12..14].copy_from_slice(&ETHER_VLAN.to_be_bytes());
                head[14..16].copy_from_slice(&tag.to_be_bytes());
                head[16..].copy_from_slice(&self.ether_type.to_be_bytes());
                HEADER_LEN_VLAN
            }
        };
        if let Some(addresses) = out.first_chunk_mut::<12>() {
            addresses[..6].copy_from_slice(&self.dst.0);
            addresses[6..].copy_from_slice(&self.src.0);
        }
        len
    }
}
