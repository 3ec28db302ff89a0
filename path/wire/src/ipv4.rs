//! IPv4 packets (RFC 791).

use crate::WireError;
use crate::checksum::{self, Sum, put_words};
use core::net::Ipv4Addr;

/// Header without options: what [`Ipv4Header::emit`] writes.
pub const HEADER_LEN: usize = 20;
/// Largest header: the length field counts fifteen words.
pub const MAX_HEADER_LEN: usize = 60;
/// Every host takes packets of at least this size (RFC 791 section 3.1).
pub const MIN_REASSEMBLY: usize = 576;

/// An IPv4 header, without its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// What the payload is (see [`crate::protocol`]).
    pub protocol: u8,
    /// Hops left.
    pub ttl: u8,
    /// Differentiated services (RFC 2474) and ECN (RFC 3168), as one byte.
    pub dscp_ecn: u8,
    /// Groups the fragments of one packet.
    pub identification: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// It is a fragment, and not the last.
    pub more_fragments: bool,
    /// Where its payload belongs in the whole packet, in bytes.
    pub fragment_offset: u16,
    /// Bytes of header as received, options included; not used by `emit`,
    /// which writes no options.
    pub header_len: u8,
    /// Bytes of payload.
    pub payload_len: u16,
}

impl Ipv4Header {
    /// The header and its payload. Options are passed over, if they may be,
    /// and link padding is cut off by the total length.
    ///
    /// # Errors
    /// `Truncated`, `BadVersion`, `BadHeaderLength` (below 20 bytes),
    /// `BadLength` (total length below the header's), `BadChecksum`,
    /// `BadOption` for options that cannot be and for source routes, and
    /// `BadFragment` if the whole packet would exceed 65,535 bytes.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let Some(head) = packet.first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        let total_len = u16::from_be_bytes([head[2], head[3]]);
        if head[0] != VERSION_AND_LENGTH {
            return parse_with_options(packet, head, total_len);
        }
        if !Sum::of_array(head).is_intact() {
            return Err(WireError::BadChecksum);
        }
        let payload = payload(packet, HEADER_LEN, total_len)?;
        Self::from_fields(head, payload)
    }

    /// Whether it is a piece of a packet rather than a whole one.
    #[inline]
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Writes the header, its checksum included, and returns its length, 20;
    /// 0 if `out` is shorter. A payload length that leaves no room for the
    /// header in 16 bits is cut to the largest that does.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(head) = out.first_chunk_mut::<HEADER_LEN>() else { return 0 };
        let total_len = self.payload_len.saturating_add(HEADER_LEN as u16);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        let fragment = flags | self.fragment_offset >> 3;
        let ttl_protocol = u32::from(u16::from_be_bytes([self.ttl, self.protocol])) << 16;
        let mut words = [
            u32::from(u16::from_be_bytes([VERSION_AND_LENGTH, self.dscp_ecn])) << 16 | u32::from(total_len),
            u32::from(self.identification) << 16 | u32::from(fragment),
            ttl_protocol,
            self.src.to_bits(),
            self.dst.to_bits(),
        ];
        words[2] |= u32::from(Sum::of_words(&words).finish());
        put_words(head, &words);
        HEADER_LEN
    }

    #[inline]
    fn from_fields<'a>(head: &[u8; HEADER_LEN], payload: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let fragment = u16::from_be_bytes([head[6], head[7]]);
        let header = Self {
            src: Ipv4Addr::new(head[12], head[13], head[14], head[15]),
            dst: Ipv4Addr::new(head[16], head[17], head[18], head[19]),
            protocol: head[9],
            ttl: head[8],
            dscp_ecn: head[1],
            identification: u16::from_be_bytes([head[4], head[5]]),
            dont_fragment: fragment & 0x4000 != 0,
            more_fragments: fragment & 0x2000 != 0,
            fragment_offset: (fragment & 0x1fff) << 3,
            header_len: (head[0] & 0x0f) << 2,
            payload_len: payload.len() as u16,
        };
        if header.fragment_offset.checked_add(header.payload_len).is_none() {
            return Err(WireError::BadFragment);
        }
        Ok((header, payload))
    }
}

/// Version 4 and a header of five words.
const VERSION_AND_LENGTH: u8 = 0x45;

/// Everything but a header of exactly twenty bytes: rare, so out of the way.
#[cold]
fn parse_with_options<'a>(
    packet: &'a [u8],
    head: &[u8; HEADER_LEN],
    total_len: u16,
) -> Result<(Ipv4Header, &'a [u8]), WireError> {
    if head[0] >> 4 != 4 {
        return Err(WireError::BadVersion);
    }
    let header_len = usize::from(head[0] & 0x0f) * 4;
    if header_len < HEADER_LEN {
        return Err(WireError::BadHeaderLength);
    }
    let whole = packet.get(..header_len).ok_or(WireError::Truncated)?;
    if !checksum::sum(whole).is_intact() {
        return Err(WireError::BadChecksum);
    }
    check_options(whole.get(HEADER_LEN..).unwrap_or_default())?;
    let payload = payload(packet, header_len, total_len)?;
    Ipv4Header::from_fields(head, payload)
}

/// Options of IPv4 (IANA, IP Option Numbers) whose form is known.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;
const COMMERCIAL_SECURITY: u8 = 134;

/// None of the options has any effect on a host; but a packet whose options
/// cannot be is not taken, as by Linux (`__ip_options_compile` in
/// net/ipv4/ip_options.c), and none that was routed by its source (RFC 7126
/// section 4.3: such are dropped by default).
fn check_options(options: &[u8]) -> Result<(), WireError> {
    let mut seen = [false; 3];
    let mut rest = options;
    while let Some((&kind, after)) = rest.split_first() {
        match kind {
            END => break,
            NO_OPERATION => rest = after,
            _ => {
                let &len = after.first().ok_or(WireError::BadOption)?;
                let (option, after) = rest.split_at_checked(len.into()).ok_or(WireError::BadOption)?;
                if !is_possible(kind, option, &mut seen) {
                    return Err(WireError::BadOption);
                }
                rest = after;
            }
        }
    }
    Ok(())
}

/// Whether an option, kind and length included, is one that may be. Routes and
/// timestamps are recorded once (RFC 791 section 3.1), from a place on that
/// begins behind what says where; what is recorded next fits, or nothing more
/// does and is counted.
fn is_possible(kind: u8, option: &[u8], seen: &mut [bool; 3]) -> bool {
    let byte = |at: usize| usize::from(option.get(at).copied().unwrap_or_default());
    let (place, flags) = (byte(2), byte(3));
    let fits = |entry: usize| place > option.len() || place + entry - 1 <= option.len();
    match kind {
        // Kind and length are of it.
        _ if option.len() < 2 => false,
        RECORD_ROUTE => option.len() >= 3 && place >= 4 && fits(4) && !core::mem::replace(&mut seen[0], true),
        TIMESTAMP => {
            let (form, overflow) = (flags & 0x0f, flags >> 4);
            // With whose timestamp it is, and of those who are named beforehand.
            let entry = if matches!(form, 1 | 3) { 8 } else { 4 };
            let is_over = place > option.len() && form != 3 && overflow == 15;
            let again = core::mem::replace(&mut seen[1], true);
            option.len() >= 4 && place >= 5 && fits(entry) && !is_over && !again
        }
        ROUTER_ALERT => option.len() >= 4,
        // What is labelled, and by whose rules (FIPS 188).
        COMMERCIAL_SECURITY => option.len() >= 8 && !core::mem::replace(&mut seen[2], true),
        LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => false,
        _ => true,
    }
}

#[inline]
fn payload(packet: &[u8], header_len: usize, total_len: u16) -> Result<&[u8], WireError> {
    let total_len = usize::from(total_len);
    if let Some(payload) = packet.get(header_len..total_len) {
        return Ok(payload);
    }
    Err(if total_len < header_len { WireError::BadLength } else { WireError::Truncated })
}
