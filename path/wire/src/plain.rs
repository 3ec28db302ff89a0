//! The layout that nearly every frame of a busy server has, read and written
//! in one go: untagged Ethernet, IPv4 without options or fragments, TCP with
//! timestamps or no options at all.
//!
//! Nothing here decides differently from [`crate::ethernet`], [`crate::ipv4`]
//! and [`crate::tcp`]: [`Plain::parse`] takes only what all three of them
//! take, and says `None` to anything else, which is then for them to read or
//! to refuse. What is saved is the way between the layers: the header is one
//! array with one length check, the addresses are summed once.

use crate::checksum::{self, LinkVouched, Sum};
use crate::ethernet::{self, ETHER_IPV4, Mac};
use crate::tcp::{ALIGNED_TIMESTAMPS, Established, Flags, Opening, SeqNum, TcpHeader, TcpOptions, Timestamps};
use crate::{ipv4, protocol, tcp};
use core::net::Ipv4Addr;

/// Ethernet, IPv4 and TCP headers without options.
pub const HEADERS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::HEADER_LEN;
/// The same with TCP timestamps.
pub const HEADERS_TIMESTAMPS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::ESTABLISHED_HEADER_LEN;

/// The same with all options of a SYN.
pub const HEADERS_OPENING_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::OPENING_HEADER_LEN;

const IP: usize = ethernet::HEADER_LEN;
const TCP: usize = IP + ipv4::HEADER_LEN;

/// Whose plain frames are read: an Ethernet address as the number that a
/// frame's first bytes are, so that one comparison tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Station(u64);

impl Station {
    /// No frame is for it.
    pub const NOBODY: Self = Self(1);

    /// The one of this address.
    #[must_use]
    pub const fn of(mac: Mac) -> Self {
        let [a, b, c, d, e, f] = mac.0;
        Self(u64::from_le_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Whether a frame that begins with these bytes is sent to it.
    #[inline(always)]
    const fn is_meant(self, head: [u8; 8]) -> bool {
        u64::from_le_bytes(head) << 16 == self.0
    }
}

/// A plain frame's segment. Checksums are verified; whether the addresses make
/// sense is the caller's to judge.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'f> {
    /// IPv4 source address.
    pub src: Ipv4Addr,
    /// IPv4 destination address.
    pub dst: Ipv4Addr,
    /// The TCP header, with any control bits.
    pub header: Established,
    /// Urgent pointer; of no meaning without URG.
    pub urgent: u16,
    /// The TCP payload.
    pub payload: &'f [u8],
}

impl<'f> Plain<'f> {
    /// The segment in `frame`, if the frame is of the plain layout, whole and
    /// sent to `own` by a unicast address. `verified` says that the link
    /// vouches for the TCP checksum.
    #[inline(always)]
    #[must_use]
    pub fn parse(frame: &'f [u8], own: Station, verified: bool) -> Option<Self> {
        let (head, segment) = segment_of(frame, own)?;
        let (timestamps, payload) = match head[TCP + 12] >> 4 {
            8 => {
                let (head, payload) = segment.split_first_chunk::<{ tcp::ESTABLISHED_HEADER_LEN }>()?;
                if head[tcp::HEADER_LEN..][..4] != ALIGNED_TIMESTAMPS {
                    return None;
                }
                let value = be32(head, tcp::HEADER_LEN + 4);
                (Some(Timestamps { value, echo: be32(head, tcp::HEADER_LEN + 8) }), payload)
            }
            5 => (None, segment.get(tcp::HEADER_LEN..)?),
            _ => return None,
        };
        let (src, dst) = addresses(head);
        if !verified && !is_intact(src, dst, segment) {
            return None;
        }
        let header = Established {
            src_port: be16(head, TCP),
            dst_port: be16(head, TCP + 2),
            seq: SeqNum(be32(head, TCP + 4)),
            ack: SeqNum(be32(head, TCP + 8)),
            flags: Flags(head[TCP + 13]),
            window: be16(head, TCP + 14),
            timestamps,
        };
        Some(Self { src, dst, header, urgent: be16(head, TCP + 18), payload })
    }

    /// The whole TCP header.
    #[inline(always)]
    #[must_use]
    pub fn tcp_header(&self) -> TcpHeader {
        let Established { src_port, dst_port, seq, ack, flags, window, timestamps } = self.header;
        let options = TcpOptions { timestamps, ..TcpOptions::NONE };
        TcpHeader { src_port, dst_port, seq, ack, flags, window, urgent: self.urgent, options }
    }
}

/// A frame that is plain but for its TCP options, as that of a SYN: source,
/// destination, TCP header and payload. What [`Plain::parse`] does not take,
/// this may.
#[inline]
#[must_use]
pub fn parse_with_options(
    frame: &[u8],
    own: Station,
    verified: bool,
) -> Option<(Ipv4Addr, Ipv4Addr, TcpHeader, &[u8])> {
    let (head, segment) = segment_of(frame, own)?;
    let (src, dst) = addresses(head);
    let parsed = if verified {
        TcpHeader::parse_trusted(segment, LinkVouched::new())
    } else {
        TcpHeader::parse(segment, checksum::pseudo_v4(src, dst, protocol::TCP, segment.len() as u16))
    };
    let (header, payload, _) = parsed.ok()?;
    Some((src, dst, header, payload))
}

/// The TCP segment in a frame for `own`, with the frame's headers: untagged
/// Ethernet from a unicast address, IPv4 without options or fragments.
#[inline(always)]
fn segment_of(frame: &[u8], own: Station) -> Option<(&[u8; HEADERS_LEN], &[u8])> {
    let head = frame.first_chunk::<HEADERS_LEN>()?;
    let ours = own.is_meant(*head.first_chunk()?);
    let from_group = head[6] & 1 != 0;
    // Type, version and header length.
    let kind = head[12..14] == ETHER_IPV4.to_be_bytes() && head[IP] == 0x45;
    let fragment = be16(head, IP + 6) & 0xbfff != 0;
    if !ours || from_group || !kind || fragment || head[IP + 9] != protocol::TCP {
        return None;
    }
    let ip: &[u8; ipv4::HEADER_LEN] = head[IP..].first_chunk()?;
    if !Sum::of_array(ip).is_intact() {
        return None;
    }
    let total = usize::from(be16(head, IP + 2));
    let segment = frame.get(TCP..IP + total)?;
    Some((head, segment))
}

/// IPv4 source and destination.
#[inline(always)]
fn addresses(head: &[u8; HEADERS_LEN]) -> (Ipv4Addr, Ipv4Addr) {
    (Ipv4Addr::from_bits(be32(head, IP + 12)), Ipv4Addr::from_bits(be32(head, IP + 16)))
}

#[inline(always)]
fn is_intact(src: Ipv4Addr, dst: Ipv4Addr, segment: &[u8]) -> bool {
    let pseudo = checksum::pseudo_v4(src, dst, protocol::TCP, segment.len() as u16);
    pseudo.add(checksum::sum(segment)).is_intact()
}

/// Where a plain frame comes from and goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Destination hardware address.
    pub to: Mac,
    /// Source hardware address.
    pub from: Mac,
    /// IPv4 source address.
    pub src: Ipv4Addr,
    /// IPv4 destination address.
    pub dst: Ipv4Addr,
    /// Time to live.
    pub ttl: u8,
}

/// Writes the headers of a plain frame, checksums included, in front of
/// `payload_len` bytes whose sum is `payload`, and returns their length; 0 if
/// `out` is shorter. The packet is not to be fragmented, and as such needs no
/// identification (RFC 6864 section 4).
#[inline(always)]
pub fn emit(out: &mut [u8], ends: &Ends, header: &Established, payload_len: usize, payload: Sum) -> usize {
    let ports = u32::from(header.src_port) << 16 | u32::from(header.dst_port);
    let control = u32::from(header.flags.0) << 16 | u32::from(header.window);
    let (seq, ack) = (header.seq.0, header.ack.0);
    match header.timestamps {
        Some(Timestamps { value, echo }) => {
            const LEN: u32 = (tcp::ESTABLISHED_HEADER_LEN as u32 / 4) << 28;
            let aligned = u32::from_be_bytes(ALIGNED_TIMESTAMPS);
            let words = [ports, seq, ack, LEN | control, 0, aligned, value, echo];
            emit_words::<HEADERS_TIMESTAMPS_LEN, _>(out, ends, words, payload_len, payload)
        }
        // Of its own, so that the other case does not keep `ends` in memory.
        None => emit_bare(out, *ends, [ports, seq, ack, control, 0], payload_len, payload),
    }
}

/// As [`emit`], for a SYN with all of its options; 0 for one with fewer, which
/// is left to [`Opening::emit`].
#[inline]
pub fn emit_opening(out: &mut [u8], ends: &Ends, opening: &Opening) -> usize {
    match opening.words() {
        Some(words) => emit_words::<HEADERS_OPENING_LEN, _>(out, ends, words, 0, Sum::ZERO),
        None => 0,
    }
}

/// Out of the way of the other case: merged with it, both are slower.
#[inline(never)]
fn emit_bare(out: &mut [u8], ends: Ends, mut words: [u32; 5], payload_len: usize, payload: Sum) -> usize {
    words[3] |= (tcp::HEADER_LEN as u32 / 4) << 28;
    emit_words::<HEADERS_LEN, _>(out, &ends, words, payload_len, payload)
}

/// Each word is summed as it is written, so that none has to be kept. The
/// checksums come last, into their own two bytes.
#[inline(always)]
fn emit_words<const LEN: usize, const WORDS: usize>(
    out: &mut [u8],
    ends: &Ends,
    words: [u32; WORDS],
    payload_len: usize,
    payload: Sum,
) -> usize {
    const { assert!(LEN == TCP + WORDS * 4) };
    const VERSION: u32 = 0x4500 << 16;
    const DONT_FRAGMENT: u32 = 0x4000;
    let Some(head) = out.first_chunk_mut::<LEN>() else { return 0 };
    head[..6].copy_from_slice(&ends.to.0);
    head[6..12].copy_from_slice(&ends.from.0);
    head[12..IP].copy_from_slice(&ETHER_IPV4.to_be_bytes());
    let (src, dst) = (ends.src.to_bits(), ends.dst.to_bits());
    let segment = (WORDS * 4 + payload_len) as u32;
    let carries = u32::from(ends.ttl) << 24 | u32::from(protocol::TCP) << 16;
    let addresses = put(head, IP + 12, &[src, dst]);
    let ip = put(head, IP, &[VERSION | (ipv4::HEADER_LEN as u32 + segment), DONT_FRAGMENT, carries]);
    let [a, b] = Sum::of_total(addresses + ip).finish().to_be_bytes();
    [head[IP + 10], head[IP + 11]] = [a, b];
    let pseudo = u64::from((u32::from(protocol::TCP) << 16 | segment).to_be());
    let sum = Sum::of_total(put(head, TCP, &words) + addresses + pseudo).add(payload);
    let [a, b] = sum.finish().to_be_bytes();
    [head[TCP + 16], head[TCP + 17]] = [a, b];
    LEN
}

/// Writes words from `at` on and adds them up, in the machine's order. A
/// header's are too few for a carry, so that totals are added as numbers are.
#[inline(always)]
fn put<const WORDS: usize>(out: &mut [u8], at: usize, words: &[u32; WORDS]) -> u64 {
    let mut total = 0;
    for (index, word) in words.iter().enumerate() {
        out[at + index * 4..][..4].copy_from_slice(&word.to_be_bytes());
        total += u64::from(word.to_be());
    }
    total
}

#[inline(always)]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
