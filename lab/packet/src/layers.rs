//! Where a frame's headers are, by their lengths alone: for code that changes
//! frames in place. Nothing is verified.

use core::ops::Range;

/// EtherTypes (IEEE 802; 802.1Q clause 9.4).
pub(crate) const ETHER_IPV4: u16 = 0x0800;
pub(crate) const ETHER_IPV6: u16 = 0x86dd;
pub(crate) const ETHER_ARP: u16 = 0x0806;
pub(crate) const ETHER_PTP: u16 = 0x88f7;
const ETHER_TAG: u16 = 0x8100;
const ETHER_SERVICE_TAG: u16 = 0x88a8;

/// Protocol numbers.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Addresses and EtherType.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const TAG: usize = 4;
pub(crate) const IPV4: usize = 20;
pub(crate) const IPV6: usize = 40;

/// The EtherType behind at most two VLAN tags, and where its header begins.
#[inline]
pub(crate) fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = ETHERNET - 2;
    for _ in 0..3 {
        let kind = be16(frame, at)?;
        at += 2;
        if kind != ETHER_TAG && kind != ETHER_SERVICE_TAG {
            return Some((kind, at));
        }
        at += TAG - 2;
    }
    None
}

/// An IP packet in a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    /// IPv4, else IPv6.
    pub v4: bool,
    /// Where its header is.
    pub header: Range<usize>,
    /// What follows the header.
    pub protocol: u8,
    /// The rest of the packet, by its own length field; padding left out.
    pub payload: Range<usize>,
    /// Not the first fragment: no transport header follows.
    pub later_fragment: bool,
    /// A fragment of either kind: its transport checksum covers more than
    /// is here.
    pub fragment: bool,
}

impl Packet {
    /// Finds the packet; `None` where there is none, or lengths disagree.
    /// Extension headers of IPv6 are not followed.
    #[inline]
    pub fn find(frame: &[u8]) -> Option<Self> {
        let (kind, at) = network(frame)?;
        let rest = frame.get(at..)?;
        match kind {
            ETHER_IPV4 => {
                let header = usize::from(rest.first()? & 0x0f) * 4;
                let total = usize::from(be16(rest, 2)?);
                let fragment = be16(rest, 6)?;
                if rest[0] >> 4 != 4 || header < IPV4 || total < header || rest.len() < total {
                    return None;
                }
                Some(Self {
                    v4: true,
                    header: at..at + header,
                    protocol: *rest.get(9)?,
                    payload: at + header..at + total,
                    later_fragment: fragment & 0x1fff != 0,
                    fragment: fragment & 0x3fff != 0,
                })
            }
            ETHER_IPV6 => {
                let len = usize::from(be16(rest, 4)?);
                if rest[0] >> 4 != 6 || rest.len() < IPV6 + len {
                    return None;
                }
                Some(Self {
                    v4: false,
                    header: at..at + IPV6,
                    protocol: *rest.get(6)?,
                    payload: at + IPV6..at + IPV6 + len,
                    later_fragment: false,
                    fragment: false,
                })
            }
            _ => None,
        }
    }

    /// Where both addresses lie, the source first.
    #[inline]
    pub fn addresses(&self) -> (Range<usize>, Range<usize>) {
        let (first, len) = if self.v4 { (self.header.start + 12, 4) } else { (self.header.start + 8, 16) };
        (first..first + len, first + len..first + 2 * len)
    }

    /// Where the transport's checksum lies, if it is TCP or UDP.
    #[inline]
    pub fn checksum(&self) -> Option<usize> {
        let offset = match self.protocol {
            _ if self.later_fragment => return None,
            TCP => 16,
            UDP => 6,
            _ => return None,
        };
        (self.payload.len() >= offset + 2).then_some(self.payload.start + offset)
    }
}

/// Two bytes in network order.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Writes two bytes in network order, where they are.
#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(pair) = bytes.get_mut(at..at + 2) {
        pair.copy_from_slice(&value.to_be_bytes());
    }
}

/// Copies a frame into a slot. Nearly all that is measured with is small, so
/// that a call of a general copy would be most of the work.
#[inline(always)]
pub(crate) fn copy(frame: &[u8], slot: &mut [u8]) -> bool {
    let len = frame.len();
    let Some(out) = slot.get_mut(..len) else { return false };
    if !(32..=64).contains(&len) {
        out.copy_from_slice(frame);
        return true;
    }
    // Two overlapping pieces of fixed size.
    if let (Some(head), Some(tail)) = (frame.first_chunk::<32>(), frame.last_chunk::<32>()) {
        let (head, tail) = (*head, *tail);
        if let Some(at) = out.first_chunk_mut::<32>() {
            *at = head;
        }
        if let Some(at) = out.last_chunk_mut::<32>() {
            *at = tail;
        }
    }
    true
}
