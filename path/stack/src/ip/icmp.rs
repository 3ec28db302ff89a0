//! ICMP: messages that arrive, echo replies, of any size (RFC 1122 section
//! 3.2.2.6, RFC 4443 section 4.2), and the errors that we send (RFC 792, RFC
//! 8200 section 4, RFC 4443 section 3), within their limits.

use super::Ip;
use super::ingress::{Trouble, Upward};
use super::output::DEFAULT_TTL;
use super::unreachable;
use crate::config::{Config, Seeds};
use crate::egress::Egress;
use crate::flow::{Envelope, Flow};
use crate::limit::{RateLimit, SourceLimit};
use crate::secret::Secret;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv4::{self, Icmpv4};
use wire::icmpv6::{self, Icmpv6, parameter_problem};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, HeaderError, Ipv6Header, Problem, Upper};
use wire::{Mac, Original, Time, protocol};

/// Bytes of an echo reply that one token of its limit stands for.
const BYTES_PER_TOKEN: usize = 8 * 1024;

/// Fragments are multiples of this many bytes long, but for the last (RFC 791
/// section 2.3, RFC 8200 section 4.5).
const UNIT: usize = 8;

/// What ICMP sends within.
#[derive(Debug)]
pub(super) struct Icmp {
    errors: SourceLimit,
    echoes: RateLimit,
    /// Packets that left in fragments.
    identifications: u32,
    secret: Secret,
}

impl Icmp {
    pub fn new(config: &Config, seeds: &Seeds, now: Time) -> Self {
        let seed = [seeds.secret[1], seeds.table[2]];
        Self {
            errors: SourceLimit::per_second(config.errors_per_source, config.errors_per_second, seed),
            echoes: RateLimit::per_second(config.echo_per_second, now),
            identifications: 0,
            secret: Secret::new(&seeds.secret),
        }
    }
}

impl Ip {
    pub(super) fn on_icmp_v4(&mut self, envelope: &Envelope, payload: &[u8], out: &mut impl Egress) -> Upward<'static> {
        self.counters.icmp_in += 1;
        let message = match Icmpv4::parse(payload) {
            Ok(message) => message,
            Err(error) => {
                self.drop_malformed(error);
                return Upward::Nothing;
            }
        };
        match message {
            Icmpv4::EchoRequest { .. } if self.is_forged(envelope.src) => self.counters.martian += 1,
            Icmpv4::EchoRequest { identifier, sequence, data } => {
                if self.may_echo(data.len()) {
                    let reply = Icmpv4::EchoReply { identifier, sequence, data };
                    self.send_icmp_v4(envelope, &reply, out);
                }
            }
            Icmpv4::FragmentationNeeded { mtu, .. } => {
                return self.error(message.original(), Some(Trouble::TooBig(u32::from(mtu))));
            }
            _ => return self.error(message.original(), unreachable::of_v4(&message).map(Trouble::Unreachable)),
        }
        Upward::Nothing
    }

    pub(super) fn on_icmp_v6(
        &mut self,
        ethernet: &EthernetHeader,
        ip: &Ipv6Header,
        payload: &[u8],
        local: Option<u16>,
        out: &mut impl Egress,
    ) -> Upward<'static> {
        self.counters.icmp_in += 1;
        let message = match Icmpv6::parse(payload, ip.src, ip.dst, ip.hop_limit) {
            Ok(message) => message,
            Err(error) => {
                self.drop_malformed(error);
                return Upward::Nothing;
            }
        };
        match message {
            Icmpv6::EchoRequest { identifier, sequence, data } => {
                let local = local.filter(|_| !self.is_forged(IpAddr::V6(ip.src)));
                if let Some(local) = local
                    && self.may_echo(data.len())
                {
                    let reply = Icmpv6::EchoReply { identifier, sequence, data };
                    let envelope = Envelope { src: IpAddr::V6(ip.src), local, mac: ethernet.src };
                    self.send_echo_v6(self.addresses.v6(local), &envelope, &reply, out);
                }
            }
            Icmpv6::NeighborSolicitation { target, link_layer } => {
                self.on_solicitation(ethernet, ip, target, link_layer, out);
            }
            Icmpv6::NeighborAdvertisement(advertisement) => self.on_advertisement(ethernet, &advertisement, out),
            Icmpv6::PacketTooBig { mtu, .. } => return self.error(message.original(), Some(Trouble::TooBig(mtu))),
            _ => return self.error(message.original(), unreachable::of_v6(&message).map(Trouble::Unreachable)),
        }
        Upward::Nothing
    }

    /// An error, if the message is one: it is for whose packet it quotes.
    fn error(&mut self, original: Option<Original>, trouble: Option<Trouble>) -> Upward<'static> {
        match (original, trouble) {
            (Some(original), Some(trouble)) => Upward::Error(original, trouble),
            (original, trouble) => {
                self.counters.icmp_ignored += u64::from(original.is_some() || trouble.is_some());
                Upward::Nothing
            }
        }
    }

    /// Whether an error may be sent to this source; it is counted if not.
    pub(super) fn may_tell(&mut self, source: IpAddr) -> bool {
        let may = self.icmp.errors.take(source, self.now);
        self.counters.errors_limited += u64::from(!may);
        may
    }

    /// Whether an echo reply with so many bytes may be sent; it is counted if
    /// not.
    fn may_echo(&mut self, bytes: usize) -> bool {
        let may = (0..=bytes / BYTES_PER_TOKEN).all(|_| self.icmp.echoes.take(self.now));
        self.counters.errors_limited += u64::from(!may);
        may
    }

    /// The largest packet on the way to `dst`, in bytes.
    fn largest_to(&self, dst: IpAddr) -> usize {
        usize::from(self.path_mtu(dst))
    }

    /// What groups the fragments of a packet: unlike for others to the same
    /// host in a while, and of no use to predict those to another (RFC 7739
    /// section 5.2).
    fn identification(&mut self, dst: IpAddr, local: u16) -> u32 {
        self.icmp.identifications = self.icmp.identifications.wrapping_add(1);
        self.icmp.secret.port_offset(&Flow::new(dst, 0, local, 0)).wrapping_add(self.icmp.identifications)
    }

    /// Whether there are slots for so many frames; counted if not.
    fn has_slots(&mut self, frames: usize, out: &impl Egress) -> bool {
        let has = out.room() >= frames;
        self.counters.replies_dropped += u64::from(!has);
        has
    }

    /// Sends an ICMP message in as many fragments as it takes.
    #[cold]
    fn send_fragments_v4(
        &mut self,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        envelope: &Envelope,
        message: &[u8],
        out: &mut impl Egress,
    ) {
        let most = (self.largest_to(envelope.src) - ipv4::HEADER_LEN) / UNIT * UNIT;
        if !self.has_slots(message.len().div_ceil(most), out) {
            return;
        }
        let identification = self.identification(envelope.src, envelope.local) as u16;
        for (index, piece) in message.chunks(most).enumerate() {
            let header = Ipv4Header {
                src,
                dst,
                protocol: protocol::ICMP,
                ttl: DEFAULT_TTL,
                dscp_ecn: 0,
                identification,
                dont_fragment: false,
                more_fragments: index * most + piece.len() < message.len(),
                fragment_offset: (index * most) as u16,
                header_len: ipv4::HEADER_LEN as u8,
                payload_len: piece.len() as u16,
            };
            self.emit(out, envelope.mac, ETHER_IPV4, |body| {
                let at = header.emit(body);
                copied(body, at, piece)
            });
        }
    }

    /// The same for ICMPv6, each piece behind a fragment header.
    #[cold]
    fn send_fragments_v6(
        &mut self,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        envelope: &Envelope,
        message: &[u8],
        out: &mut impl Egress,
    ) {
        const HEADERS: usize = ipv6::HEADER_LEN + ipv6::FRAGMENT_HEADER_LEN;
        let most = (self.largest_to(envelope.src) - HEADERS) / UNIT * UNIT;
        if !self.has_slots(message.len().div_ceil(most), out) {
            return;
        }
        let identification = self.identification(envelope.src, envelope.local);
        for (index, piece) in message.chunks(most).enumerate() {
            let more = index * most + piece.len() < message.len();
            let [high, low] = ((index * most) as u16 | u16::from(more)).to_be_bytes();
            let [a, b, c, d] = identification.to_be_bytes();
            let fragment = [protocol::ICMPV6, 0, high, low, a, b, c, d];
            let header = Ipv6Header {
                src,
                dst,
                next_header: ipv6::FRAGMENT,
                hop_limit: DEFAULT_TTL,
                traffic_class: 0,
                flow_label: 0,
                payload_len: (ipv6::FRAGMENT_HEADER_LEN + piece.len()) as u16,
            };
            self.emit(out, envelope.mac, ETHER_IPV6, |body| {
                let at = header.emit(body);
                let at = copied(body, at, &fragment);
                copied(body, at, piece)
            });
        }
    }

    /// Answers an ICMPv6 echo request, whatever its size.
    fn send_echo_v6(&mut self, own: Ipv6Addr, envelope: &Envelope, reply: &Icmpv6<'_>, out: &mut impl Egress) {
        let (IpAddr::V6(dst), Icmpv6::EchoReply { data, .. }) = (envelope.src, reply) else { return };
        let len = icmpv6::HEADER_LEN + data.len();
        if ipv6::HEADER_LEN + len <= self.largest_to(envelope.src) {
            self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, reply, out);
            return;
        }
        let mut message = vec![0; len];
        let len = reply.emit(own, dst, &mut message);
        self.send_fragments_v6((own, dst), envelope, &message[..len], out);
    }

    /// A packet's headers could not be understood (RFC 8200 section 4). Not
    /// all are told, and not of packets to a group but for those that ask for
    /// it (section 4.2; RFC 4443 section 2.4 (e)).
    #[cold]
    pub(super) fn on_bad_headers(
        &mut self,
        ethernet: &EthernetHeader,
        ip: &Ipv6Header,
        packet: &[u8],
        wrong: HeaderError,
        out: &mut impl Egress,
    ) {
        let Some(problem) = wrong.problem else { return };
        let of_group = ethernet.dst.is_multicast() || ip.dst.is_multicast();
        let local = match self.addresses.index_v6(ip.dst) {
            None if self.addresses.is_group_v6(ip.dst) => self.addresses.default_index(true),
            local => local,
        };
        if let Some(local) = local
            && (!of_group || problem.of_groups)
        {
            let envelope = Envelope { src: IpAddr::V6(ip.src), local, mac: ethernet.src };
            self.send_problem(&envelope, problem, packet, out);
        }
    }

    /// Nobody here handles what an upper header says that it is (RFC 8200
    /// section 4, RFC 4443 section 3.4).
    #[cold]
    fn on_unknown_header(&mut self, envelope: &Envelope, upper: &Upper<'_>, packet: &[u8], out: &mut impl Egress) {
        self.counters.not_for_us += 1;
        if upper.protocol != ipv6::NO_NEXT_HEADER {
            let pointer = upper.protocol_at as u32;
            let problem = Problem { code: parameter_problem::NEXT_HEADER, pointer, of_groups: false };
            self.send_problem(envelope, problem, packet, out);
        }
    }

    pub(super) fn send_problem(&mut self, envelope: &Envelope, problem: Problem, packet: &[u8], out: &mut impl Egress) {
        let IpAddr::V6(dst) = envelope.src else { return };
        if self.is_forged(envelope.src) {
            self.counters.martian += 1;
            return;
        }
        if !self.may_tell(envelope.src) {
            return;
        }
        let original = &packet[..self.quotable_v6(packet.len())];
        let message = Icmpv6::ParameterProblem { code: problem.code, pointer: problem.pointer, original };
        let own = self.addresses.v6(envelope.local);
        self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, &message, out);
    }

    /// A datagram of a protocol that we do not speak, or UDP, for which
    /// nobody listens (RFC 1122 section 3.2.2.1).
    pub(super) fn on_other_v4(
        &mut self,
        envelope: &Envelope,
        ip: &Ipv4Header,
        protocol: u8,
        packet: &[u8],
        out: &mut impl Egress,
    ) {
        self.counters.udp_no_port += u64::from(protocol == protocol::UDP);
        self.counters.not_for_us += u64::from(protocol != protocol::UDP);
        if self.is_forged(envelope.src) {
            // RFC 1122 section 3.2.2: no error to a source that is no host.
            self.counters.martian += 1;
            return;
        }
        if !self.may_tell(envelope.src) {
            return;
        }
        // Header and 8 bytes are what RFC 792 asks for; more helps nobody.
        let quoted = (usize::from(ip.header_len) + 8).min(packet.len());
        let code = if protocol == protocol::UDP { icmpv4::unreachable::PORT } else { icmpv4::unreachable::PROTOCOL };
        self.unreachable_v4(envelope, code, &packet[..quoted], out);
    }

    /// A packet for an upper layer that is not here: UDP, for which nobody
    /// listens, or one that nobody handles.
    pub(super) fn on_other_v6(&mut self, envelope: &Envelope, upper: &Upper<'_>, packet: &[u8], out: &mut impl Egress) {
        if upper.protocol != protocol::UDP {
            self.on_unknown_header(envelope, upper, packet, out);
            return;
        }
        self.counters.udp_no_port += 1;
        let IpAddr::V6(dst) = envelope.src else { return };
        if self.is_forged(envelope.src) {
            return;
        }
        if !self.may_tell(envelope.src) {
            return;
        }
        let original = &packet[..self.quotable_v6(packet.len())];
        let message = Icmpv6::DestinationUnreachable { code: icmpv6::unreachable::PORT, original };
        let own = self.addresses.v6(envelope.local);
        self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, &message, out);
    }

    fn unreachable_v4(&mut self, envelope: &Envelope, code: u8, quoted: &[u8], out: &mut impl Egress) {
        let message = Icmpv4::DestinationUnreachable { code, original: quoted };
        self.send_icmp_v4(envelope, &message, out);
    }

    pub(super) fn send_icmp_v4(&mut self, envelope: &Envelope, message: &Icmpv4<'_>, out: &mut impl Egress) {
        let IpAddr::V4(dst) = envelope.src else { return };
        let len = message.emit_len();
        let src = self.addresses.v4(envelope.local);
        if len + ipv4::HEADER_LEN > self.largest_to(envelope.src) {
            let mut bytes = vec![0; len];
            message.emit(&mut bytes);
            self.send_fragments_v4((src, dst), envelope, &bytes, out);
            return;
        }
        let header = Ipv4Header {
            src,
            dst,
            protocol: protocol::ICMP,
            ttl: DEFAULT_TTL,
            dscp_ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            header_len: ipv4::HEADER_LEN as u8,
            payload_len: len as u16,
        };
        self.emit(out, envelope.mac, ETHER_IPV4, |body| {
            let at = header.emit(body);
            at + message.emit(&mut body[at..])
        });
    }

    pub(super) fn send_icmp_v6(
        &mut self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        mac: Mac,
        hop_limit: u8,
        message: &Icmpv6<'_>,
        out: &mut impl Egress,
    ) {
        let mtu = usize::from(self.mtu);
        self.emit(out, mac, ETHER_IPV6, |body| {
            let Some(room) = body.get_mut(ipv6::HEADER_LEN..mtu.min(body.len())) else { return 0 };
            let len = message.emit(src, dst, room);
            if len == 0 {
                return 0;
            }
            let header = Ipv6Header {
                src,
                dst,
                next_header: protocol::ICMPV6,
                hop_limit,
                traffic_class: 0,
                flow_label: 0,
                payload_len: len as u16,
            };
            header.emit(body) + len
        });
    }

    /// How much of a packet of `len` bytes an error quotes: as much as fits
    /// into the minimum MTU (RFC 4443 section 2.4 (c)).
    pub(super) fn quotable_v6(&self, len: usize) -> usize {
        len.min(icmpv6::MAX_ORIGINAL).min(usize::from(self.mtu) - ipv6::HEADER_LEN - icmpv6::HEADER_LEN)
    }
}

/// Copies bytes to `at`; where they end, or 0 without room.
fn copied(body: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    match body.get_mut(at..end) {
        Some(room) => {
            room.copy_from_slice(bytes);
            end
        }
        None => 0,
    }
}
