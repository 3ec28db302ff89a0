//! ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861).

pub use crate::ipv6::parameter_problem;

use crate::checksum;
use crate::{Mac, Original, WireError, ipv6, protocol};
use core::net::Ipv6Addr;

/// Type, code, checksum and the four bytes that each type uses its own way.
pub const HEADER_LEN: usize = 8;

/// Bytes of the original packet that an error carries at most, so that the
/// whole passes every link (RFC 4443 section 2.4(c)).
pub const MAX_ORIGINAL: usize = ipv6::MIN_MTU - ipv6::HEADER_LEN - HEADER_LEN;

/// Neighbour discovery is sent, and taken, with this hop limit only: no router
/// can have passed it on (RFC 4861 section 3.1).
pub const NEIGHBOR_HOP_LIMIT: u8 = 255;

/// Prefixes of one router advertisement that are read; more are passed over.
pub const MAX_PREFIXES: usize = 4;

/// Codes of [`Icmpv6::DestinationUnreachable`] (RFC 4443 section 3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited.
    pub const PROHIBITED: u8 = 1;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// Nobody listens on the port.
    pub const PORT: u8 = 4;
}

/// Codes of [`Icmpv6::TimeExceeded`] (RFC 4443 section 3.3).
pub mod time_exceeded {
    /// The packet ran out of hops.
    pub const HOPS: u8 = 0;
    /// Fragments stayed out.
    pub const REASSEMBLY: u8 = 1;
}

/// An ICMPv6 message. `original` is the start of the packet that an error is
/// about: see [`Icmpv6::original`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv6<'a> {
    /// The packet could not be delivered, for the reason in [`unreachable`].
    DestinationUnreachable {
        /// The code, which says which kind of it.
        code: u8,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// The packet exceeded the next link's MTU.
    PacketTooBig {
        /// The MTU of the link that it did not fit.
        mtu: u32,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// Time ran out, in one of the ways of [`time_exceeded`].
    TimeExceeded {
        /// The code, which says which kind of it.
        code: u8,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// The packet's byte at `pointer` is wrong, in one of the ways of
    /// [`parameter_problem`].
    ParameterProblem {
        /// The code, which says which kind of it.
        code: u8,
        /// The offset of the byte that was not understood.
        pointer: u32,
        /// The packet that it is about, as far as it fits.
        original: &'a [u8],
    },
    /// Asks for an [`Icmpv6::EchoReply`] with the same fields.
    EchoRequest {
        /// Whose echo it is.
        identifier: u16,
        /// Which of them.
        sequence: u16,
        /// What comes back as it was sent.
        data: &'a [u8],
    },
    /// Answers an echo request.
    EchoReply {
        /// Whose echo it is.
        identifier: u16,
        /// Which of them.
        sequence: u16,
        /// What comes back as it was sent.
        data: &'a [u8],
    },
    /// Asks routers to advertise themselves (RFC 4861 section 4.1).
    RouterSolicitation {
        /// The sender's Ethernet address, if it says so.
        link_layer: Option<Mac>,
    },
    /// A router advertises itself (RFC 4861 section 4.2).
    RouterAdvertisement(RouterAdvertisement),
    /// Who has `target` (RFC 4861 section 4.3)? `link_layer` is the asker's.
    NeighborSolicitation {
        /// Whose Ethernet address is asked for.
        target: Ipv6Addr,
        /// The sender's Ethernet address, if it says so.
        link_layer: Option<Mac>,
    },
    /// Somebody has `target` (RFC 4861 section 4.4).
    NeighborAdvertisement(NeighborAdvertisement),
}

/// A neighbour advertisement (RFC 4861 section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighborAdvertisement {
    /// The address that the sender has.
    pub target: Ipv6Addr,
    /// The sender is a router.
    pub router: bool,
    /// It answers a solicitation, so the path works both ways.
    pub solicited: bool,
    /// It replaces the hardware address that the receiver may know.
    pub replace: bool,
    /// The target's hardware address.
    pub link_layer: Option<Mac>,
}

/// A router advertisement (RFC 4861 section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterAdvertisement {
    /// Hop limit to send with; zero leaves it to the host.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other settings are to be had by DHCPv6.
    pub other: bool,
    /// Seconds that the router may be used as a default router; zero: not at all.
    pub router_lifetime: u16,
    /// Milliseconds that a neighbour counts as reachable; zero leaves it to the host.
    pub reachable_time: u32,
    /// Milliseconds between solicitations; zero leaves it to the host.
    pub retransmit_timer: u32,
    /// The router's hardware address.
    pub link_layer: Option<Mac>,
    /// MTU of the link, at least [`ipv6::MIN_MTU`] (RFC 4861 section 6.3.4).
    pub mtu: Option<u32>,
    /// Prefixes on the link: the `Some` ones, from the front.
    pub prefixes: [Option<PrefixInformation>; MAX_PREFIXES],
}

/// A prefix information option (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefixInformation {
    /// The prefix; bits behind `len` are of no meaning.
    pub prefix: Ipv6Addr,
    /// Its length in bits, at most 128.
    pub len: u8,
    /// Its addresses are on this link.
    pub on_link: bool,
    /// Hosts may make themselves an address from it (RFC 4862).
    pub autonomous: bool,
    /// Seconds that the prefix is valid; all ones: for ever.
    pub valid: u32,
    /// Seconds that addresses made from it are preferred.
    pub preferred: u32,
}

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Neighbour discovery options (RFC 4861 section 4.6).
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const PREFIX_INFORMATION: u8 = 3;
const MTU: u8 = 5;

impl<'a> Icmpv6<'a> {
    /// The message of a packet with these addresses and hop limit.
    ///
    /// # Errors
    /// `Truncated`, `BadChecksum`, `Unsupported` for other types, and for
    /// messages of neighbour discovery that RFC 4861 (sections 6.1 and 7.1)
    /// tells to discard: `BadHopLimit`, `BadAddress` for an address that
    /// cannot be there, `BadOption` for an option of length zero.
    pub fn parse(message: &'a [u8], src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8) -> Result<Self, WireError> {
        let Some((head, rest)) = message.split_first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Truncated);
        };
        let len = u32::try_from(message.len()).map_err(|_| WireError::BadLength)?;
        let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, len);
        if !pseudo.add(checksum::sum(message)).is_intact() {
            return Err(WireError::BadChecksum);
        }
        let [kind, code, _, _, own @ ..] = *head;
        let word = u32::from_be_bytes(own);
        let (first, second) = ((word >> 16) as u16, word as u16);
        Ok(match kind {
            DESTINATION_UNREACHABLE => Self::DestinationUnreachable { code, original: rest },
            // RFC 8201 section 4: what says less than every link carries is
            // discarded.
            PACKET_TOO_BIG if (word as usize) < ipv6::MIN_MTU => return Err(WireError::BadLength),
            PACKET_TOO_BIG => Self::PacketTooBig { mtu: word, original: rest },
            TIME_EXCEEDED => Self::TimeExceeded { code, original: rest },
            PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: word, original: rest },
            ECHO_REQUEST => Self::EchoRequest { identifier: first, sequence: second, data: rest },
            ECHO_REPLY => Self::EchoReply { identifier: first, sequence: second, data: rest },
            ROUTER_SOLICITATION..=NEIGHBOR_ADVERTISEMENT => {
                // Nothing from behind a router is believed.
                if hop_limit != NEIGHBOR_HOP_LIMIT {
                    return Err(WireError::BadHopLimit);
                }
                if code != 0 {
                    return Err(WireError::Unsupported);
                }
                match kind {
                    ROUTER_SOLICITATION => router_solicitation(rest, src)?,
                    ROUTER_ADVERTISEMENT => router_advertisement(own, rest, src)?,
                    NEIGHBOR_SOLICITATION => neighbor_solicitation(rest, src, dst)?,
                    _ => neighbor_advertisement(own, rest, dst)?,
                }
            }
            _ => return Err(WireError::Unsupported),
        })
    }

    /// What an error tells of the packet that caused it; `None` for other
    /// messages and where too little of the packet came back.
    #[must_use]
    pub fn original(&self) -> Option<Original> {
        match *self {
            Self::DestinationUnreachable { original, .. }
            | Self::PacketTooBig { original, .. }
            | Self::TimeExceeded { original, .. }
            | Self::ParameterProblem { original, .. } => Original::parse_v6(original),
            _ => None,
        }
    }

    /// Writes the message, checksum included, for a packet with these
    /// addresses, and returns its length; 0 if `out` is shorter. An error's
    /// original is cut to [`MAX_ORIGINAL`].
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, out: &mut [u8]) -> usize {
        let mut writer = Writer { out, len: 0 };
        if self.write(&mut writer).is_none() {
            return 0;
        }
        let Writer { out, len } = writer;
        let Some(message) = out.get_mut(..len) else { return 0 };
        let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, len as u32);
        let sum = pseudo.add(checksum::sum(message)).finish();
        if let Some(head) = message.first_chunk_mut::<HEADER_LEN>() {
            [head[2], head[3]] = sum.to_be_bytes();
        }
        len
    }

    /// Writes all but the checksum; `None` if there is no room.
    fn write(&self, writer: &mut Writer<'_>) -> Option<()> {
        let cut = |original: &'a [u8]| original.get(..MAX_ORIGINAL).unwrap_or(original);
        let pair = |a: u16, b: u16| u32::from(a) << 16 | u32::from(b);
        match *self {
            Self::DestinationUnreachable { code, original } => {
                writer.head(DESTINATION_UNREACHABLE, code, 0)?;
                writer.put(cut(original))
            }
            Self::PacketTooBig { mtu, original } => {
                writer.head(PACKET_TOO_BIG, 0, mtu)?;
                writer.put(cut(original))
            }
            Self::TimeExceeded { code, original } => {
                writer.head(TIME_EXCEEDED, code, 0)?;
                writer.put(cut(original))
            }
            Self::ParameterProblem { code, pointer, original } => {
                writer.head(PARAMETER_PROBLEM, code, pointer)?;
                writer.put(cut(original))
            }
            Self::EchoRequest { identifier, sequence, data } => {
                writer.head(ECHO_REQUEST, 0, pair(identifier, sequence))?;
                writer.put(data)
            }
            Self::EchoReply { identifier, sequence, data } => {
                writer.head(ECHO_REPLY, 0, pair(identifier, sequence))?;
                writer.put(data)
            }
            Self::RouterSolicitation { link_layer } => {
                writer.head(ROUTER_SOLICITATION, 0, 0)?;
                writer.link_layer(SOURCE_LINK_LAYER, link_layer)
            }
            Self::RouterAdvertisement(ref advertisement) => writer.router_advertisement(advertisement),
            Self::NeighborSolicitation { target, link_layer } => {
                writer.head(NEIGHBOR_SOLICITATION, 0, 0)?;
                writer.put(&target.octets())?;
                writer.link_layer(SOURCE_LINK_LAYER, link_layer)
            }
            Self::NeighborAdvertisement(NeighborAdvertisement { target, router, solicited, replace, link_layer }) => {
                let flags = u32::from(router) << 31 | u32::from(solicited) << 30 | u32::from(replace) << 29;
                writer.head(NEIGHBOR_ADVERTISEMENT, 0, flags)?;
                writer.put(&target.octets())?;
                writer.link_layer(TARGET_LINK_LAYER, link_layer)
            }
        }
    }
}

/// RFC 4861 section 6.1.1.
fn router_solicitation<'a>(rest: &[u8], src: Ipv6Addr) -> Result<Icmpv6<'a>, WireError> {
    let options = Options::parse(rest)?;
    if src.is_unspecified() && options.source.is_some() {
        return Err(WireError::BadAddress);
    }
    Ok(Icmpv6::RouterSolicitation { link_layer: options.source })
}

/// RFC 4861 section 6.1.2.
fn router_advertisement<'a>(own: [u8; 4], rest: &[u8], src: Ipv6Addr) -> Result<Icmpv6<'a>, WireError> {
    let Some((&[r0, r1, r2, r3, t0, t1, t2, t3], rest)) = rest.split_first_chunk::<8>() else {
        return Err(WireError::Truncated);
    };
    if !src.is_unicast_link_local() {
        return Err(WireError::BadAddress);
    }
    let options = Options::parse(rest)?;
    let [hop_limit, flags, l0, l1] = own;
    Ok(Icmpv6::RouterAdvertisement(RouterAdvertisement {
        hop_limit,
        managed: flags & 0x80 != 0,
        other: flags & 0x40 != 0,
        router_lifetime: u16::from_be_bytes([l0, l1]),
        reachable_time: u32::from_be_bytes([r0, r1, r2, r3]),
        retransmit_timer: u32::from_be_bytes([t0, t1, t2, t3]),
        link_layer: options.source,
        mtu: options.mtu,
        prefixes: options.prefixes,
    }))
}

/// RFC 4861 section 7.1.1.
fn neighbor_solicitation<'a>(rest: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Icmpv6<'a>, WireError> {
    let (target, options) = target_and_options(rest)?;
    // A probe for a duplicate address (RFC 4862 section 5.4) comes from
    // nowhere, to the group, and can name no one to answer to.
    let probe_is_wrong = dst != ipv6::solicited_node(target) || options.source.is_some();
    if src.is_unspecified() && probe_is_wrong {
        return Err(WireError::BadAddress);
    }
    Ok(Icmpv6::NeighborSolicitation { target, link_layer: options.source })
}

/// RFC 4861 section 7.1.2.
fn neighbor_advertisement<'a>(own: [u8; 4], rest: &[u8], dst: Ipv6Addr) -> Result<Icmpv6<'a>, WireError> {
    let (target, options) = target_and_options(rest)?;
    let flags = own[0];
    let solicited = flags & 0x40 != 0;
    if dst.is_multicast() && solicited {
        return Err(WireError::BadAddress);
    }
    Ok(Icmpv6::NeighborAdvertisement(NeighborAdvertisement {
        target,
        router: flags & 0x80 != 0,
        solicited,
        replace: flags & 0x20 != 0,
        link_layer: options.target,
    }))
}

fn target_and_options(rest: &[u8]) -> Result<(Ipv6Addr, Options), WireError> {
    let Some((target, rest)) = rest.split_first_chunk::<16>() else {
        return Err(WireError::Truncated);
    };
    let target = Ipv6Addr::from(*target);
    if target.is_multicast() {
        return Err(WireError::BadAddress);
    }
    Ok((target, Options::parse(rest)?))
}

/// The options of neighbour discovery that we understand; others are passed
/// over (RFC 4861 section 4.6).
#[derive(Default)]
struct Options {
    source: Option<Mac>,
    target: Option<Mac>,
    mtu: Option<u32>,
    prefixes: [Option<PrefixInformation>; MAX_PREFIXES],
}

impl Options {
    /// Each round takes at least eight bytes.
    fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut options = Self::default();
        let mut rest = bytes;
        while let Some(&[kind, words, ..]) = rest.first_chunk::<2>() {
            if words == 0 {
                // RFC 4861 section 4.6: the packet must be discarded.
                return Err(WireError::BadOption);
            }
            let Some((option, after)) = rest.split_at_checked(usize::from(words) * 8) else {
                return Err(WireError::Truncated);
            };
            options.take(kind, option);
            rest = after;
        }
        if rest.is_empty() { Ok(options) } else { Err(WireError::Truncated) }
    }

    /// Options of an unexpected length, and values that cannot be, are passed
    /// over like unknown ones.
    fn take(&mut self, kind: u8, option: &[u8]) {
        if let Some(&[_, _, a, b, c, d, e, f]) = option.as_array::<8>() {
            let mac = Mac([a, b, c, d, e, f]);
            match kind {
                SOURCE_LINK_LAYER if mac.is_unicast() => self.source = Some(mac),
                TARGET_LINK_LAYER if mac.is_unicast() => self.target = Some(mac),
                MTU => {
                    let mtu = u32::from_be_bytes([c, d, e, f]);
                    self.mtu = (mtu as usize >= ipv6::MIN_MTU).then_some(mtu);
                }
                _ => {}
            }
        } else if let (PREFIX_INFORMATION, Some(option)) = (kind, option.as_array::<32>()) {
            let prefix = PrefixInformation::read(option);
            if let Some(slot) = self.prefixes.iter_mut().find(|slot| slot.is_none()) {
                *slot = prefix;
            }
        }
    }
}

impl PrefixInformation {
    fn read(option: &[u8; 32]) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes([option[at], option[at + 1], option[at + 2], option[at + 3]]);
        let (_, prefix) = option.split_last_chunk::<16>()?;
        Some(Self {
            prefix: Ipv6Addr::from(*prefix),
            len: option[2],
            on_link: option[3] & 0x80 != 0,
            autonomous: option[3] & 0x40 != 0,
            valid: word(4),
            preferred: word(8),
        })
        .filter(|prefix| prefix.len <= 128)
    }
}

/// Writes a message piece by piece; `None` where a piece does not fit.
struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.out.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    fn head(&mut self, kind: u8, code: u8, word: u32) -> Option<()> {
        self.put(&[kind, code, 0, 0])?;
        self.put(&word.to_be_bytes())
    }

    fn link_layer(&mut self, kind: u8, mac: Option<Mac>) -> Option<()> {
        let Some(Mac(mac)) = mac else { return Some(()) };
        self.put(&[kind, 1])?;
        self.put(&mac)
    }

    fn router_advertisement(&mut self, advertisement: &RouterAdvertisement) -> Option<()> {
        let &RouterAdvertisement { hop_limit, managed, other, router_lifetime, .. } = advertisement;
        let flags = u8::from(managed) << 7 | u8::from(other) << 6;
        let [l0, l1] = router_lifetime.to_be_bytes();
        self.head(ROUTER_ADVERTISEMENT, 0, u32::from_be_bytes([hop_limit, flags, l0, l1]))?;
        self.put(&advertisement.reachable_time.to_be_bytes())?;
        self.put(&advertisement.retransmit_timer.to_be_bytes())?;
        self.link_layer(SOURCE_LINK_LAYER, advertisement.link_layer)?;
        if let Some(mtu) = advertisement.mtu {
            self.put(&[MTU, 1, 0, 0])?;
            self.put(&mtu.to_be_bytes())?;
        }
        for prefix in advertisement.prefixes.iter().flatten() {
            let flags = u8::from(prefix.on_link) << 7 | u8::from(prefix.autonomous) << 6;
            self.put(&[PREFIX_INFORMATION, 4, prefix.len, flags])?;
            self.put(&prefix.valid.to_be_bytes())?;
            self.put(&prefix.preferred.to_be_bytes())?;
            self.put(&[0; 4])?;
            self.put(&prefix.prefix.octets())?;
        }
        Some(())
    }
}
