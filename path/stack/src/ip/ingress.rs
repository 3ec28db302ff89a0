//! A frame arrives: Ethernet, IP, fragments; what is for a transport is handed
//! on.

use super::Ip;
use super::fragments::{Fragment, Key, TimedOut, Whole};
use super::output::DEFAULT_TTL;
use crate::egress::Egress;
use crate::flow::Envelope;
use app::Unreachable;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::{pseudo_v4, pseudo_v6};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::first_piece::check_first_piece;
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::{self, Icmpv6};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{self, FragmentInfo, Ipv6Header, Upper, examine_extensions, walk_fragmented};
use wire::udp::{self, UdpHeader};
use wire::{LinkVouched, Mac, Original, Sum, WireError, protocol};

/// What a frame brought for a transport.
#[derive(Debug)]
pub(crate) enum Upward<'f> {
    /// Nothing: it was for IP itself, or for nobody.
    Nothing,
    /// A packet of a transport's, in the frame.
    Packet(Packet<'f>),
    /// The same, put together from fragments.
    Whole {
        /// Where the first piece came from.
        envelope: Envelope,
        /// The transport's number.
        protocol: u8,
        /// All behind the IP headers.
        bytes: Vec<u8>,
        /// The pseudo-header's sum.
        pseudo: Sum,
    },
    /// The network has trouble with a packet of ours, which it quotes: whether
    /// that one is under way, the transport knows.
    Error(Original, Trouble),
}

/// A packet of a transport's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'f> {
    /// Where it came from.
    pub envelope: Envelope,
    /// The transport's number.
    pub protocol: u8,
    /// What is behind the IP headers.
    pub bytes: &'f [u8],
    /// The pseudo-header's sum; `None` where the link has verified the
    /// transport's checksum.
    pub pseudo: Option<Sum>,
}

/// What an ICMP error says of a packet of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// It was too long; packets of so many bytes are not.
    TooBig(u32),
    /// There is no way to whom it was for.
    Unreachable(Unreachable),
}

/// The transports whose packets are handed on; to others an error answers.
const fn is_taken(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP)
}

impl Ip {
    /// Takes a frame, whatever it is. `verified` says that the link vouches
    /// for its transport checksum. What is to be answered at once is.
    #[inline]
    pub fn on_frame<'f>(&mut self, frame: &'f [u8], verified: bool, out: &mut impl Egress) -> Upward<'f> {
        let (ethernet, packet) = match EthernetHeader::parse(frame) {
            Ok(parsed) => parsed,
            Err(error) => return self.malformed(error),
        };
        if ethernet.vlan_id() != self.vlan || (ethernet.dst != self.mac && !ethernet.dst.is_multicast()) {
            return self.not_for_us();
        }
        if ethernet.src.is_multicast() {
            // An answer would go to everybody (IEEE 802.3 section 3.2.3).
            return self.martian();
        }
        match ethernet.ether_type {
            ETHER_IPV4 => self.on_ipv4(&ethernet, packet, verified, out),
            ETHER_IPV6 => self.on_ipv6(&ethernet, packet, verified, out),
            ETHER_ARP => {
                self.on_arp(packet, out);
                Upward::Nothing
            }
            _ => self.not_for_us(),
        }
    }

    #[inline]
    fn on_ipv4<'f>(
        &mut self,
        ethernet: &EthernetHeader,
        packet: &'f [u8],
        verified: bool,
        out: &mut impl Egress,
    ) -> Upward<'f> {
        let (ip, payload) = match Ipv4Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return self.malformed(error),
        };
        let Some(local) = self.addresses.index_v4(ip.dst) else { return self.not_for_us() };
        // Our addresses are unicast; what was broadcast to one of them is
        // forged or a misconfiguration (RFC 1122 section 3.3.6).
        if ethernet.dst.is_multicast() || is_martian_v4(ip.src) {
            return self.martian();
        }
        if ip.is_fragment() {
            return self.on_fragment_v4(ethernet, &ip, packet, local, out).unwrap_or(Upward::Nothing);
        }
        let envelope = Envelope { src: IpAddr::V4(ip.src), local, mac: ethernet.src };
        match ip.protocol {
            protocol::ICMP => self.on_icmp_v4(&envelope, payload, out),
            protocol if is_taken(protocol) => {
                let pseudo = (!verified).then(|| pseudo_v4(ip.src, ip.dst, protocol, payload.len() as u16));
                Upward::Packet(Packet { envelope, protocol, bytes: payload, pseudo })
            }
            other => {
                let pseudo = pseudo_v4(ip.src, ip.dst, other, payload.len() as u16);
                if other == protocol::UDP
                    && let Err(error) = check_udp(payload, pseudo, false, verified)
                {
                    return self.malformed(error);
                }
                self.on_other_v4(&envelope, &ip, other, packet, out);
                Upward::Nothing
            }
        }
    }

    #[inline]
    fn on_ipv6<'f>(
        &mut self,
        ethernet: &EthernetHeader,
        packet: &'f [u8],
        verified: bool,
        out: &mut impl Egress,
    ) -> Upward<'f> {
        let (ip, payload) = match Ipv6Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return self.malformed(error),
        };
        let local = self.addresses.index_v6(ip.dst);
        if is_martian_v6(ip.src) {
            return self.martian();
        }
        let upper = match examine_extensions(ip.next_header, payload) {
            Ok(upper) => upper,
            Err(wrong) => {
                self.on_bad_headers(ethernet, &ip, packet, wrong, out);
                return self.malformed(wrong.error);
            }
        };
        if upper.protocol == protocol::ICMPV6 && upper.fragment.is_none() {
            if local.is_some() || self.addresses.is_group_v6(ip.dst) || self.presence.awaits_group(ip.dst) {
                return self.on_icmp_v6(ethernet, &ip, upper.payload, local, out);
            }
            return self.not_for_us();
        }
        let Some(local) = local.filter(|_| !ethernet.dst.is_multicast()) else { return self.not_for_us() };
        let envelope = Envelope { src: IpAddr::V6(ip.src), local, mac: ethernet.src };
        if let Some(fragment) = upper.fragment {
            return self.on_fragment_v6(&envelope, &ip, packet, &upper, fragment, out).unwrap_or(Upward::Nothing);
        }
        if is_taken(upper.protocol) {
            let (protocol, bytes) = (upper.protocol, upper.payload);
            let pseudo = (!verified).then(|| pseudo_v6(ip.src, ip.dst, protocol, bytes.len() as u32));
            return Upward::Packet(Packet { envelope, protocol, bytes, pseudo });
        }
        let pseudo = pseudo_v6(ip.src, ip.dst, upper.protocol, upper.payload.len() as u32);
        if upper.protocol == protocol::UDP
            && let Err(error) = check_udp(upper.payload, pseudo, true, verified)
        {
            return self.malformed(error);
        }
        self.on_other_v6(&envelope, &upper, packet, out);
        Upward::Nothing
    }

    fn on_fragment_v4(
        &mut self,
        ethernet: &EthernetHeader,
        ip: &Ipv4Header,
        packet: &[u8],
        local: u16,
        out: &mut impl Egress,
    ) -> Option<Upward<'static>> {
        self.give_up_fragments(out);
        self.counters.fragments_in += 1;
        let (head, rest) = packet.split_at_checked(ip.header_len.into())?;
        let payload = rest.get(..ip.payload_len.into())?;
        let key = Key {
            src: ip.src.into(),
            dst: ip.dst.into(),
            identification: u32::from(ip.identification),
            protocol: ip.protocol,
        };
        let envelope = Envelope { src: key.src, local, mac: ethernet.src };
        let (offset, more) = (ip.fragment_offset, ip.more_fragments);
        let piece = Fragment { key, protocol: ip.protocol, offset, more, payload, head, envelope };
        let Whole { protocol, payload } = self.reassembly.on_fragment(&piece, self.now)?;
        self.counters.reassembled += 1;
        Some(match protocol {
            protocol::ICMP => self.on_icmp_v4(&envelope, &payload, out),
            protocol if is_taken(protocol) => {
                let pseudo = pseudo_v4(ip.src, ip.dst, protocol, payload.len() as u16);
                Upward::Whole { envelope, protocol, bytes: payload, pseudo }
            }
            _ => self.not_for_us(),
        })
    }

    fn on_fragment_v6(
        &mut self,
        envelope: &Envelope,
        ip: &Ipv6Header,
        packet: &[u8],
        upper: &Upper<'_>,
        info: FragmentInfo,
        out: &mut impl Egress,
    ) -> Option<Upward<'static>> {
        self.give_up_fragments(out);
        self.counters.fragments_in += 1;
        let payload = upper.payload;
        if info.offset == 0
            && let Err(wrong) = check_first_piece(upper.protocol, payload)
        {
            // Where every silo is shown the pieces, each would tell.
            if let Some(problem) = wrong.problem.filter(|_| !self.steered) {
                self.send_problem(envelope, problem, packet, out);
            }
            return Some(self.malformed(wrong.error));
        }
        let head = packet.get(..ipv6::HEADER_LEN + upper.offset)?;
        let key = Key { src: ip.src.into(), dst: ip.dst.into(), identification: info.identification, protocol: 0 };
        let (protocol, envelope) = (upper.protocol, *envelope);
        let piece = Fragment { key, protocol, offset: info.offset, more: info.more, payload, head, envelope };
        let Whole { protocol, payload } = self.reassembly.on_fragment(&piece, self.now)?;
        self.counters.reassembled += 1;
        // What may stand behind the fragment header: destination options
        // (RFC 8200 section 4.1), and no second fragment header.
        let upper = match walk_fragmented(protocol, &payload) {
            Ok(upper) => upper,
            Err(error) => return Some(self.malformed(error)),
        };
        Some(match upper.protocol {
            protocol::ICMPV6 => {
                // RFC 6980 section 5: neighbour discovery is not taken in
                // pieces, as if a router had passed it on.
                let (ip, ethernet) = (Ipv6Header { hop_limit: 0, ..*ip }, self.as_if_from(envelope.mac));
                self.on_icmp_v6(&ethernet, &ip, upper.payload, Some(envelope.local), out)
            }
            protocol if is_taken(protocol) => {
                let pseudo = pseudo_v6(ip.src, ip.dst, protocol, upper.payload.len() as u32);
                Upward::Whole { envelope, protocol, bytes: upper.payload.to_vec(), pseudo }
            }
            _ => self.not_for_us(),
        })
    }

    /// Whether pieces of a packet have waited for the others for too long.
    #[inline]
    pub fn has_late_fragments(&self) -> bool {
        self.reassembly.is_due(self.now)
    }

    /// Gives up packets whose pieces stayed out, and tells their senders (RFC
    /// 792, RFC 1122 section 3.3.2; RFC 8200 section 4.5, RFC 4443 section
    /// 3.3).
    pub fn give_up_fragments(&mut self, out: &mut impl Egress) {
        while let Some(packet) = self.reassembly.poll_timed_out(self.now) {
            let TimedOut { envelope, protocol, head_len, first } = &packet;
            if self.is_forged(envelope.src) || is_icmp_error(*protocol, &first[*head_len..]) {
                continue;
            }
            if self.steered && *protocol == protocol::TCP {
                // Every silo was shown the pieces, and would tell.
                continue;
            }
            if !self.may_tell(envelope.src) {
                continue;
            }
            match envelope.src {
                IpAddr::V4(_) => {
                    let quoted = first.len().min(head_len + 8);
                    let code = icmpv4::time_exceeded::REASSEMBLY;
                    let message = Icmpv4::TimeExceeded { code, original: &first[..quoted] };
                    self.send_icmp_v4(envelope, &message, out);
                }
                IpAddr::V6(dst) => {
                    let quoted = self.quotable_v6(first.len());
                    let code = icmpv6::time_exceeded::REASSEMBLY;
                    let message = Icmpv6::TimeExceeded { code, original: &first[..quoted] };
                    let own = self.addresses.v6(envelope.local);
                    self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, &message, out);
                }
            }
        }
    }

    /// The header of a frame from `mac` to us.
    fn as_if_from(&self, mac: Mac) -> EthernetHeader {
        EthernetHeader { dst: self.mac, src: mac, vlan: self.vlan, ether_type: ETHER_IPV6 }
    }

    #[cold]
    fn malformed<'f>(&mut self, error: WireError) -> Upward<'f> {
        self.drop_malformed(error);
        Upward::Nothing
    }

    fn martian<'f>(&mut self) -> Upward<'f> {
        self.drop_martian();
        Upward::Nothing
    }

    fn not_for_us<'f>(&mut self) -> Upward<'f> {
        self.counters.not_for_us += 1;
        Upward::Nothing
    }
}

/// Whether a datagram for which nobody listens is one at all: only then is its
/// sender told. Over IPv6 none is that has no checksum (RFC 8200 section 8.1),
/// whatever the link says of it.
#[cold]
fn check_udp(datagram: &[u8], pseudo: Sum, v6: bool, verified: bool) -> Result<(), WireError> {
    let parsed = match udp::has_checksum(datagram) {
        true if verified => UdpHeader::parse_trusted(datagram, LinkVouched::new()),
        has => UdpHeader::parse(datagram, (has || v6).then_some(pseudo)),
    };
    parsed.map(|_| ())
}

/// Whether an ICMP message is an error, about which no error is sent (RFC 1122
/// section 3.2.2, RFC 4443 section 2.4(e)).
fn is_icmp_error(protocol: u8, message: &[u8]) -> bool {
    match (protocol, message.first()) {
        (protocol::ICMP, Some(kind)) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (protocol::ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    }
}

/// Sources that cannot be (RFC 1122 section 3.2.1.3, RFC 6890): this network,
/// loopback, multicast, broadcast.
#[inline]
pub(crate) fn is_martian_v4(src: Ipv4Addr) -> bool {
    let first = src.octets()[0];
    first == 0 || first == 127 || first >= 224
}

/// Loopback, multicast and IPv4-mapped sources, which never are on a wire
/// (RFC 4291 section 2.5 and 2.7). The unspecified address is let through for
/// duplicate address detection, and refused by everything else.
#[inline]
fn is_martian_v6(src: Ipv6Addr) -> bool {
    src.is_multicast() || src.is_loopback() || src.to_ipv4_mapped().is_some()
}
