//! UDP datagrams (RFC 768).

use crate::WireError;
use crate::checksum::{self, LinkVouched, Sum, Verified};

/// The header.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: u16 = 6;

/// A UDP header, without length and checksum, which follow from the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpHeader {
    /// Source port; zero if no answer is expected.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl UdpHeader {
    /// The header and the payload. `pseudo` is the pseudo-header's sum over
    /// the length of `datagram`.
    ///
    /// A checksum of zero means none, which is allowed over IPv4 only
    /// (RFC 768; RFC 8200 section 8.1): pass `None` for `pseudo` if, and only
    /// if, the datagram came over IPv4 and [`has_checksum`] says no.
    ///
    /// # Errors
    /// `Truncated`, `BadLength`, `BadChecksum`, and `BadAddress` for
    /// destination port zero.
    pub fn parse(datagram: &[u8], pseudo: Option<Sum>) -> Result<(Self, &[u8], Verified), WireError> {
        let (header, payload) = Self::fields(datagram)?;
        match pseudo {
            Some(pseudo) if !has_checksum(datagram) || !pseudo.add(checksum::sum(datagram)).is_intact() => {
                Err(WireError::BadChecksum)
            }
            None if has_checksum(datagram) => Err(WireError::BadChecksum),
            _ => Ok((header, payload, Verified(()))),
        }
    }

    /// As [`UdpHeader::parse`], for a frame whose checksum the link verified.
    ///
    /// # Errors
    /// As [`UdpHeader::parse`], without `BadChecksum`.
    pub fn parse_trusted(datagram: &[u8], link: LinkVouched) -> Result<(Self, &[u8], Verified), WireError> {
        let _ = link;
        let (header, payload) = Self::fields(datagram)?;
        Ok((header, payload, Verified(())))
    }

    /// Writes the header in front of a payload of `payload_sum` and
    /// `payload_len` bytes, checksum included, and returns its length, 8; 0
    /// if `out` is shorter or the payload longer than UDP carries. `pseudo`
    /// covers the header and the payload.
    pub fn emit(&self, out: &mut [u8], payload_len: usize, payload_sum: Sum, pseudo: Sum) -> usize {
        let Some(head) = out.first_chunk_mut::<HEADER_LEN>() else { return 0 };
        let Ok(len) = u16::try_from(payload_len + HEADER_LEN) else { return 0 };
        let sum = pseudo.add(payload_sum).add_u16(self.src_port).add_u16(self.dst_port).add_u16(len);
        // RFC 768: a computed checksum of zero is sent as all ones.
        let checksum = match sum.finish() {
            0 => 0xffff,
            checksum => checksum,
        };
        head[..2].copy_from_slice(&self.src_port.to_be_bytes());
        head[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        head[4..6].copy_from_slice(&len.to_be_bytes());
        head[6..].copy_from_slice(&checksum.to_be_bytes());
        HEADER_LEN
    }

    fn fields(datagram: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let Some(head) = datagram.first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
        // RFC 1122 section 4.1.3: the length must agree with IP's. Shorter
        // would leave bytes that the checksum covers and nobody reads.
        if len != datagram.len() {
            return Err(WireError::BadLength);
        }
        let header =
            Self { src_port: u16::from_be_bytes([head[0], head[1]]), dst_port: u16::from_be_bytes([head[2], head[3]]) };
        if header.dst_port == 0 {
            return Err(WireError::BadAddress);
        }
        Ok((header, &datagram[HEADER_LEN..]))
    }
}

/// Whether the sender of a datagram computed a checksum.
#[must_use]
pub fn has_checksum(datagram: &[u8]) -> bool {
    datagram.get(6..8).is_some_and(|field| field != [0, 0])
}
