//! ICMP that takes more than one packet, or is about headers: echo replies in
//! fragments (RFC 1122 section 3.2.2.6, RFC 4443 section 4.2), and Parameter
//! Problem (RFC 8200 section 4, RFC 4443 section 3.4).

use crate::egress::DEFAULT_TTL;
use crate::flow::Flow;
use crate::ingress::Envelope;
use crate::{Egress, Stack};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::icmpv6::{self, Icmpv6, parameter_problem};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, HeaderError, Ipv6Header, Problem, Upper};
use wire::protocol;

/// Bytes of an echo reply that one token of its limit stands for.
const BYTES_PER_TOKEN: usize = 8 * 1024;

/// Fragments are multiples of this many bytes long, but for the last (RFC 791
/// section 2.3, RFC 8200 section 4.5).
const UNIT: usize = 8;

impl Stack {
    /// Whether an echo reply with so many bytes may be sent; it is counted if
    /// not.
    pub(crate) fn may_echo(&mut self, bytes: usize) -> bool {
        let may = (0..=bytes / BYTES_PER_TOKEN).all(|_| self.echoes.take(self.now));
        self.counters.errors_limited += u64::from(!may);
        may
    }

    /// The largest packet on the way to `dst`.
    pub(crate) fn largest_to(&self, dst: IpAddr) -> usize {
        let own = self.config.mtu;
        usize::from(self.path_mtus.get(dst, self.now).map_or(own, |path| path.min(own)))
    }

    /// What groups the fragments of a packet: unlike for others to the same
    /// host in a while, and of no use to predict those to another (RFC 7739
    /// section 5.2).
    fn identification(&mut self, dst: IpAddr, local: u16) -> u32 {
        self.identifications = self.identifications.wrapping_add(1);
        self.secret.port_offset(&Flow::new(dst, 0, local, 0)).wrapping_add(self.identifications)
    }

    /// Whether there are slots for so many frames; counted if not.
    fn has_slots(&mut self, frames: usize, out: &impl Egress) -> bool {
        let has = out.room() >= frames;
        self.counters.replies_dropped += u64::from(!has);
        has
    }

    /// Sends an ICMP message in as many fragments as it takes.
    #[cold]
    pub(crate) fn send_fragments_v4(
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
    pub(crate) fn send_fragments_v6(
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
    pub(crate) fn send_echo_v6(
        &mut self,
        own: Ipv6Addr,
        envelope: &Envelope,
        reply: &Icmpv6<'_>,
        out: &mut impl Egress,
    ) {
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
    pub(crate) fn on_bad_headers(
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
    pub(crate) fn on_unknown_header(
        &mut self,
        envelope: &Envelope,
        upper: &Upper<'_>,
        packet: &[u8],
        out: &mut impl Egress,
    ) {
        self.counters.not_for_us += 1;
        if upper.protocol != ipv6::NO_NEXT_HEADER {
            let pointer = upper.protocol_at as u32;
            let problem = Problem { code: parameter_problem::NEXT_HEADER, pointer, of_groups: false };
            self.send_problem(envelope, problem, packet, out);
        }
    }

    fn send_problem(&mut self, envelope: &Envelope, problem: Problem, packet: &[u8], out: &mut impl Egress) {
        let IpAddr::V6(dst) = envelope.src else { return };
        if self.is_forged(envelope.src) {
            self.counters.martian += 1;
            return;
        }
        if !self.errors.take(envelope.src, self.now) {
            self.counters.errors_limited += 1;
            return;
        }
        let original = &packet[..self.quotable_v6(packet.len())];
        let message = Icmpv6::ParameterProblem { code: problem.code, pointer: problem.pointer, original };
        let own = self.addresses.v6(envelope.local);
        self.send_icmp_v6(own, dst, envelope.mac, DEFAULT_TTL, &message, out);
    }

    /// How much of a packet of `len` bytes an error quotes: as much as fits
    /// into the minimum MTU (RFC 4443 section 2.4 (c)).
    pub(crate) fn quotable_v6(&self, len: usize) -> usize {
        len.min(icmpv6::MAX_ORIGINAL).min(usize::from(self.config.mtu) - ipv6::HEADER_LEN - icmpv6::HEADER_LEN)
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

#[cfg(test)]
mod tests;
