//! IPv6 packets and their extension headers (RFC 8200).

use crate::{Mac, WireError};
use core::net::Ipv6Addr;

/// What is wrong with a packet's headers, as ICMPv6's Parameter Problem says it
/// (RFC 4443 section 3.4).
pub mod parameter_problem {
    /// A header field is wrong.
    pub const FIELD: u8 = 0;
    /// Nobody handles the next header.
    pub const NEXT_HEADER: u8 = 1;
    /// An option is not known.
    pub const OPTION: u8 = 2;
    /// The first piece of a packet does not have all headers (RFC 7112 section 6).
    pub const FIRST_FRAGMENT: u8 = 3;
}

/// The fixed header.
pub const HEADER_LEN: usize = 40;
/// Every link carries packets of at least this size (RFC 8200 section 5).
pub const MIN_MTU: usize = 1280;
/// The fragment header (RFC 8200 section 4.5).
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// Extension headers that are walked before a packet is refused. Each kind
/// may stand once (destination options twice, RFC 8200 section 4.1), which
/// makes five of the kinds walked here.
pub const MAX_EXTENSION_HEADERS: usize = 5;

/// Options within one hop-by-hop or destination options header that are
/// walked before a packet is refused (RFC 8504 section 5.3).
pub const MAX_OPTIONS: usize = 8;

/// The fixed IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6Header {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// What the payload starts with: an extension header or the upper layer.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Differentiated services and ECN.
    pub traffic_class: u8,
    /// Flow label (RFC 6437), 20 bits.
    pub flow_label: u32,
    /// Bytes that follow the fixed header.
    pub payload_len: u16,
}

impl Ipv6Header {
    /// The header and its payload; link padding is cut off by the payload
    /// length. Jumbograms (RFC 2675) are not supported: a payload length of
    /// zero means no payload.
    ///
    /// # Errors
    /// `Truncated`, `BadVersion`, and `BadAddress` if the source is a group
    /// (RFC 4291 section 2.7).
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let Some((head, rest)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        if first >> 28 != 6 {
            return Err(WireError::BadVersion);
        }
        let payload_len = u16::from_be_bytes([head[4], head[5]]);
        let Some(payload) = rest.get(..usize::from(payload_len)) else {
            return Err(WireError::Truncated);
        };
        let header = Self {
            src: address(head, 8),
            dst: address(head, 24),
            next_header: head[6],
            hop_limit: head[7],
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL_MASK,
            payload_len,
        };
        if header.src.is_multicast() {
            return Err(WireError::BadAddress);
        }
        Ok((header, payload))
    }

    /// Writes the header and returns its length, 40; 0 if `out` is shorter.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let Some(head) = out.first_chunk_mut::<HEADER_LEN>() else { return 0 };
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MASK;
        head[..4].copy_from_slice(&first.to_be_bytes());
        head[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        head[6] = self.next_header;
        head[7] = self.hop_limit;
        head[8..24].copy_from_slice(&self.src.octets());
        head[24..].copy_from_slice(&self.dst.octets());
        HEADER_LEN
    }
}

/// The group that `address` is solicited through (RFC 4291 section 2.7.1).
#[must_use]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0x00ff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// The Ethernet group that carries the IPv6 group `address`
/// (RFC 2464 section 7).
#[must_use]
pub const fn multicast_mac(address: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = address.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// What stands behind the extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upper<'a> {
    /// The upper layer's protocol (see [`crate::protocol`]). Of a fragment:
    /// the first header of its fragmentable part.
    pub protocol: u8,
    /// The upper layer's bytes. Of a fragment: its piece of the fragmentable
    /// part.
    pub payload: &'a [u8],
    /// Set for a piece of a packet. A fragment header on a whole packet
    /// (RFC 6946) is passed over.
    pub fragment: Option<FragmentInfo>,
    /// Where `payload` starts, counted from the end of the fixed header.
    pub offset: usize,
    /// Where `protocol` stands in the packet, for those who report it.
    pub protocol_at: usize,
}

/// Why extension headers were not walked, and what their sender is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderError {
    /// What is wrong.
    pub error: WireError,
    /// What RFC 8200 has us tell of it; `None`: nothing.
    pub problem: Option<Problem>,
}

/// What a Parameter Problem message says (RFC 4443 section 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Problem {
    /// See [`parameter_problem`].
    pub code: u8,
    /// The offending byte, counted from the start of the packet.
    pub pointer: u32,
    /// It is told to the sender of a packet to a group, too (RFC 4443 section
    /// 2.4 (e.3)).
    pub of_groups: bool,
}

impl From<WireError> for HeaderError {
    fn from(error: WireError) -> Self {
        Self { error, problem: None }
    }
}

/// A fragment header (RFC 8200 section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentInfo {
    /// Groups the fragments of one packet.
    pub identification: u32,
    /// Where the piece belongs in the fragmentable part, in bytes.
    pub offset: u16,
    /// It is not the last piece.
    pub more: bool,
}

/// Walks the extension headers to the upper layer, or to the first fragment
/// header of a packet that is in pieces.
///
/// # Errors
/// `Truncated`; `TooManyHeaders` and `BadOption` past the limits, for a
/// hop-by-hop header anywhere but first, for a routing header with segments
/// left (type 0: RFC 5095; others: RFC 8200 section 4.4) and for an unknown
/// option that asks for the packet to be dropped; `BadFragment` for a piece
/// that no packet can have.
#[inline]
pub fn walk_extensions(next_header: u8, payload: &[u8]) -> Result<Upper<'_>, WireError> {
    examine_extensions(next_header, payload).map_err(|wrong| wrong.error)
}

/// As [`walk_extensions`], behind a fragment header: there is no second one, and
/// no hop-by-hop header.
///
/// # Errors
/// As [`walk_extensions`], and `BadFragment` for a fragment header.
pub fn walk_fragmented(next_header: u8, payload: &[u8]) -> Result<Upper<'_>, WireError> {
    walk(next_header, payload, true).map_err(|wrong| wrong.error)
}

/// As [`walk_extensions`], with what the sender is to be told.
///
/// # Errors
/// As [`walk_extensions`].
#[inline]
pub fn examine_extensions(next_header: u8, payload: &[u8]) -> Result<Upper<'_>, HeaderError> {
    match next_header {
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION => walk(next_header, payload, false),
        protocol => Ok(Upper { protocol, payload, fragment: None, offset: 0, protocol_at: NEXT_HEADER_AT }),
    }
}

/// IPv6 extension headers (IANA, IPv6 Extension Header Types). The security
/// headers (50, 51) are not walked: they reach the caller as upper layers
/// that nobody handles.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
/// The fragment header, for those who write one.
pub const FRAGMENT: u8 = 44;
/// No next header: the packet ends here (RFC 8200 section 4.7).
pub const NO_NEXT_HEADER: u8 = 59;
const DESTINATION: u8 = 60;

const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// Where the fixed header has its payload length and its next header.
const PAYLOAD_LEN_AT: u32 = 4;
const NEXT_HEADER_AT: usize = 6;
/// Where a fragment header has its offset.
const FRAGMENT_OFFSET_AT: u32 = 2;
/// Where a routing header has its type.
const ROUTING_TYPE_AT: u32 = 2;

#[cold]
fn walk(next_header: u8, whole: &[u8], behind_fragment: bool) -> Result<Upper<'_>, HeaderError> {
    let mut fragmented = behind_fragment;
    let mut protocol = next_header;
    let mut protocol_at = NEXT_HEADER_AT;
    let mut payload = whole;
    for walked in 0..=MAX_EXTENSION_HEADERS {
        let is_extension = matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION);
        let offset = whole.len() - payload.len();
        let at = (HEADER_LEN + offset) as u32;
        if !is_extension {
            return Ok(Upper { protocol, payload, fragment: None, offset, protocol_at });
        }
        // RFC 8200 section 4.1: hop-by-hop options stand first or not at all;
        // elsewhere their number is that of no header (section 4).
        if protocol == HOP_BY_HOP && (walked != 0 || behind_fragment) {
            return Err(bad(WireError::BadOption, parameter_problem::NEXT_HEADER, protocol_at as u32));
        }
        let Some((head, _)) = payload.split_first_chunk::<8>() else {
            return Err(WireError::Truncated.into());
        };
        let kind = protocol;
        (protocol, protocol_at) = (head[0], at as usize);
        if kind == FRAGMENT {
            // A packet has one at most (RFC 8200 section 4.1), even where that
            // says that it is whole: a fragment within a fragment is none.
            if core::mem::replace(&mut fragmented, true) {
                return Err(WireError::BadFragment.into());
            }
            let rest = &payload[FRAGMENT_HEADER_LEN..];
            if let Some(fragment) = fragment(head, rest.len(), at)? {
                let offset = offset + FRAGMENT_HEADER_LEN;
                return Ok(Upper { protocol, payload: rest, fragment: Some(fragment), offset, protocol_at });
            }
            payload = rest;
            continue;
        }
        let len = 8 + usize::from(head[1]) * 8;
        let Some((header, rest)) = payload.split_at_checked(len) else {
            return Err(WireError::Truncated.into());
        };
        match kind {
            // RFC 8200 section 4.4.
            ROUTING if head[3] != 0 => {
                return Err(bad(WireError::BadOption, parameter_problem::FIELD, at + ROUTING_TYPE_AT));
            }
            ROUTING => {}
            _ => check_options(&header[2..], at + 2)?,
        }
        payload = rest;
    }
    Err(WireError::TooManyHeaders.into())
}

const fn bad(error: WireError, code: u8, pointer: u32) -> HeaderError {
    HeaderError { error, problem: Some(Problem { code, pointer, of_groups: false }) }
}

/// `None` for a whole packet that carries a fragment header all the same
/// (RFC 6946 section 4). `at` is where the header stands.
fn fragment(head: &[u8; 8], len: usize, at: u32) -> Result<Option<FragmentInfo>, HeaderError> {
    let field = u16::from_be_bytes([head[2], head[3]]);
    let offset = field & 0xfff8;
    let more = field & 1 != 0;
    if offset == 0 && !more {
        return Ok(None);
    }
    // RFC 8200 section 4.5: all but the last are multiples of eight bytes
    // long, and the whole fits a packet.
    if more && (len == 0 || !len.is_multiple_of(8)) {
        return Err(bad(WireError::BadFragment, parameter_problem::FIELD, PAYLOAD_LEN_AT));
    }
    if usize::from(offset) + len > usize::from(u16::MAX) {
        return Err(bad(WireError::BadFragment, parameter_problem::FIELD, at + FRAGMENT_OFFSET_AT));
    }
    let identification = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    Ok(Some(FragmentInfo { identification, offset, more }))
}

/// Walks the options of a hop-by-hop or destination options header, which
/// begin `at` this byte of the packet. We know none but padding; the two high
/// bits of an unknown one say whether it may be passed over, and who is to be
/// told (RFC 8200 section 4.2).
fn check_options(options: &[u8], at: u32) -> Result<(), HeaderError> {
    const PAD1: u8 = 0;
    const PADN: u8 = 1;
    let mut rest = options;
    let mut walked = 0;
    while let Some((&kind, after)) = rest.split_first() {
        let pointer = at + (options.len() - rest.len()) as u32;
        if kind == PAD1 {
            rest = after;
            continue;
        }
        let Some((&len, after)) = after.split_first() else {
            return Err(WireError::Truncated.into());
        };
        rest = after.get(usize::from(len)..).ok_or(WireError::Truncated)?;
        walked += 1;
        if walked > MAX_OPTIONS {
            return Err(WireError::BadOption.into());
        }
        // 00: pass over; 01: drop; 10: drop and tell; 11: drop and tell, but
        // not of a packet to a group.
        match if kind == PADN { 0 } else { kind >> 6 } {
            0 => {}
            1 => return Err(WireError::BadOption.into()),
            action => {
                let problem = Problem { code: parameter_problem::OPTION, pointer, of_groups: action == 2 };
                return Err(HeaderError { error: WireError::BadOption, problem: Some(problem) });
            }
        }
    }
    Ok(())
}

#[inline]
fn address(head: &[u8; HEADER_LEN], at: usize) -> Ipv6Addr {
    let octets = head[at..].first_chunk::<16>().copied();
    Ipv6Addr::from(octets.unwrap_or_default())
}
