//! A frame arrives: Ethernet, IP, and the segment's owner.

use crate::egress::Reply;
use crate::flow::{Flow, Owner};
use crate::shadow::{Watched, Way};
use crate::{Egress, Stack};
use app::ConnId;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcp::{Answer, Outcome};
use wire::checksum::{pseudo_v4, pseudo_v6};
use wire::ethernet::{ETHER_ARP, ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::ipv4::Ipv4Header;
use wire::ipv6::{Ipv6Header, examine_extensions};
use wire::plain::{self, Plain};
use wire::tcp::{Established, Flags, TcpHeader};
use wire::{LinkVouched, Mac, Sum, WireError, icmpv4, protocol};

/// A connection is not challenged again within this time.
pub(crate) const CHALLENGE_INTERVAL_MS: u32 = 500;

/// What a frame means for an application.
#[derive(Debug)]
pub struct Arrival<'f> {
    /// The connection.
    pub id: ConnId,
    /// What changed.
    pub outcome: Outcome,
    /// New in-order bytes, in the frame.
    pub data: &'f [u8],
    /// The connection was opened by the peer, with this segment.
    pub accepted: bool,
}

/// What a frame means for an application, as it is told.
#[derive(Debug)]
pub enum Arrived<'f> {
    /// Nothing.
    Nothing,
    /// In-order bytes, and nothing else. [`Stack::settle`] is to be called
    /// when the application has had them.
    Data(ConnId, &'f [u8]),
    /// More than that.
    Segment(Arrival<'f>),
    /// A segment of a flow that is not known here and may be another silo's,
    /// where [`crate::Config::steered`] says that there are such.
    /// [`Stack::refuse`] is to be called if it is nobody's.
    Stray,
    /// It completes a handshake, and all connections are in use. If one makes
    /// room ([`Stack::find_idle`], [`Stack::displace`]), the frame is to be
    /// taken again; if not, the peer sends again.
    Full,
}

impl<'f> From<Option<Arrival<'f>>> for Arrived<'f> {
    fn from(arrival: Option<Arrival<'f>>) -> Self {
        arrival.map_or(Self::Nothing, Self::Segment)
    }
}

/// A segment's addresses and what the frame around it said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    pub src: IpAddr,
    /// Index of the destination among our addresses.
    pub local: u16,
    /// Where the frame came from: replies without a connection go there.
    pub mac: Mac,
}

impl Stack {
    /// A first look at a frame that will be taken soon: the hash of its flow,
    /// with the table's bucket touched; 0 if it is no plain TCP over IPv4.
    /// Done for a whole burst first, the cache misses of its frames overlap.
    #[inline]
    #[must_use]
    pub fn touch_flow(&self, frame: &[u8]) -> u64 {
        const PORTS: usize = wire::ethernet::HEADER_LEN + wire::ipv4::HEADER_LEN;
        let Some(head) = frame.first_chunk::<{ PORTS + 4 }>() else { return 0 };
        // IPv4 without options, TCP.
        if head[12..15] != [0x08, 0x00, 0x45] || head[23] != protocol::TCP {
            return 0;
        }
        let src = Ipv4Addr::new(head[26], head[27], head[28], head[29]);
        let dst = Ipv4Addr::new(head[30], head[31], head[32], head[33]);
        let Some(local) = self.addresses.index_v4(dst) else { return 0 };
        let remote_port = u16::from_be_bytes([head[PORTS], head[PORTS + 1]]);
        let local_port = u16::from_be_bytes([head[PORTS + 2], head[PORTS + 3]]);
        let hash = self.hasher.hash(&Flow::v4(src, remote_port, local, local_port));
        core::hint::black_box(self.table.touch(hash));
        hash
    }

    /// A second look: the connection that a hash from [`Stack::touch_flow`]
    /// probably belongs to, with both of its cache lines touched.
    #[inline]
    #[must_use]
    pub fn touch_connection(&self, hash: u64) -> Option<ConnId> {
        match self.table.find(hash, |_| true)? {
            Owner::Connection(slot) => {
                core::hint::black_box(self.slots.at(slot).tcp.is_ready());
                Some(self.slots.id(slot))
            }
            _ => None,
        }
    }

    /// Takes a frame. `verified` says that the link vouches for its transport
    /// checksum. Replies that belong to no connection are written at once.
    #[inline(never)]
    pub fn on_frame<'f>(&mut self, frame: &'f [u8], verified: bool, out: &mut impl Egress) -> Arrived<'f> {
        self.counters.frames_in += 1;
        if out.watched().by_anybody() {
            self.compare_parsed(frame, verified, out);
        }
        if let Some(plain) = Plain::parse(frame, &self.config.mac, verified)
            && self.config.vlan.is_none()
            && let Some(local) = self.addresses.index_v4(plain.dst)
        {
            let header = &plain.header;
            let flow = Flow::v4(plain.src, header.src_port, local, header.dst_port);
            let hash = self.hasher.hash(&flow);
            if let Some(slot) = self.table.likely(hash)
                && self.slots.at(slot).is(&flow)
            {
                let light = if out.watched().by_anybody() {
                    self.compare_arrival(Way::Light, slot, &plain.tcp_header(), plain.payload, out)
                } else {
                    self.on_light(slot, &flow, header, plain.payload)
                };
                return match light {
                    Some(arrived) => arrived,
                    None => {
                        cold_path();
                        self.on_plain_of(slot, plain, out).into()
                    }
                };
            }
            cold_path();
            let arrival = self.on_plain(flow, hash, frame, plain, out);
            return self.or_stray(arrival);
        }
        cold_path();
        let arrival = self.on_other_frame(frame, verified, out);
        self.or_stray(arrival)
    }

    /// A plain segment of a connection that is not light, or not the one that
    /// was expected.
    #[inline(never)]
    fn on_plain_of<'f>(&mut self, slot: u32, plain: Plain<'f>, out: &mut impl Egress) -> Option<Arrival<'f>> {
        let flow = self.slots.at(slot).flow();
        if out.watched().by_anybody() {
            let header = plain.tcp_header();
            return match self.compare_arrival(Way::Orderly, slot, &header, plain.payload, out) {
                Some(Arrived::Segment(arrival)) => Some(arrival),
                _ => self.on_connection(slot, &header, plain.payload, out),
            };
        }
        match self.on_orderly(slot, &flow, &plain.header, plain.payload) {
            Some(arrival) => Some(arrival),
            None => self.on_connection(slot, &plain.tcp_header(), plain.payload, out),
        }
    }

    /// A plain segment of which it is not clear that it belongs to a
    /// connection.
    #[inline(never)]
    fn on_plain<'f>(
        &mut self,
        flow: Flow,
        hash: u64,
        frame: &'f [u8],
        plain: Plain<'f>,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if is_martian_v4(plain.src) {
            self.counters.martian += 1;
            return None;
        }
        let mac = EthernetHeader::parse(frame).map_or(Mac::ZERO, |(ethernet, _)| ethernet.src);
        let envelope = Envelope { src: IpAddr::V4(plain.src), local: flow.local, mac };
        self.on_flow(flow, hash, &envelope, &plain.tcp_header(), plain.payload, out)
    }

    /// A frame that is not plain: nearly, where it opens a connection.
    #[inline(never)]
    fn on_other_frame<'f>(&mut self, frame: &'f [u8], verified: bool, out: &mut impl Egress) -> Option<Arrival<'f>> {
        if self.config.vlan.is_none()
            && let Some((src, dst, header, payload)) = plain::parse_with_options(frame, &self.config.mac, verified)
            && !is_martian_v4(src)
            && let Some(local) = self.addresses.index_v4(dst)
        {
            let flow = Flow::v4(src, header.src_port, local, header.dst_port);
            let hash = self.hasher.hash(&flow);
            let mac = EthernetHeader::parse(frame).map_or(Mac::ZERO, |(ethernet, _)| ethernet.src);
            let envelope = Envelope { src: IpAddr::V4(src), local, mac };
            return self.on_flow(flow, hash, &envelope, &header, payload, out);
        }
        self.on_frame_by_layers(frame, verified, out)
    }

    /// Everything but a plain segment of a connection. [`Plain::parse`] says
    /// nothing of what is wrong with what it does not take.
    #[inline(never)]
    pub(crate) fn on_frame_by_layers<'f>(
        &mut self,
        frame: &'f [u8],
        verified: bool,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let (ethernet, packet) = match EthernetHeader::parse(frame) {
            Ok(parsed) => parsed,
            Err(error) => return self.drop_malformed(error),
        };
        if ethernet.vlan_id() != self.config.vlan || (ethernet.dst != self.config.mac && !ethernet.dst.is_multicast()) {
            self.counters.not_for_us += 1;
            return None;
        }
        if ethernet.src.is_multicast() {
            // An answer would go to everybody (IEEE 802.3 section 3.2.3).
            self.counters.martian += 1;
            return None;
        }
        match ethernet.ether_type {
            ETHER_IPV4 => self.on_ipv4(&ethernet, packet, verified, out),
            ETHER_IPV6 => self.on_ipv6(&ethernet, packet, verified, out),
            ETHER_ARP => {
                self.on_arp(packet, out);
                None
            }
            _ => {
                self.counters.not_for_us += 1;
                None
            }
        }
    }

    #[inline]
    fn on_ipv4<'f>(
        &mut self,
        ethernet: &EthernetHeader,
        packet: &'f [u8],
        verified: bool,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let (ip, payload) = match Ipv4Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return self.drop_malformed(error),
        };
        let Some(local) = self.addresses.index_v4(ip.dst) else {
            self.counters.not_for_us += 1;
            return None;
        };
        // Our addresses are unicast; what was broadcast to one of them is
        // forged or a misconfiguration (RFC 1122 section 3.3.6).
        if ethernet.dst.is_multicast() || is_martian_v4(ip.src) {
            self.counters.martian += 1;
            return None;
        }
        if ip.is_fragment() {
            return self.on_fragment_v4(ethernet, &ip, packet, local, out);
        }
        let envelope = Envelope { src: IpAddr::V4(ip.src), local, mac: ethernet.src };
        match ip.protocol {
            protocol::TCP => {
                let pseudo =
                    if verified { None } else { Some(pseudo_v4(ip.src, ip.dst, protocol::TCP, payload.len() as u16)) };
                self.on_tcp(&envelope, payload, pseudo, out)
            }
            protocol::ICMP => {
                self.on_icmp_v4(&envelope, payload, out);
                None
            }
            other => {
                self.on_other_v4(&envelope, &ip, other, packet, out);
                None
            }
        }
    }

    fn on_ipv6<'f>(
        &mut self,
        ethernet: &EthernetHeader,
        packet: &'f [u8],
        verified: bool,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let (ip, payload) = match Ipv6Header::parse(packet) {
            Ok(parsed) => parsed,
            Err(error) => return self.drop_malformed(error),
        };
        let local = self.addresses.index_v6(ip.dst);
        if is_martian_v6(ip.src) {
            self.counters.martian += 1;
            return None;
        }
        let upper = match examine_extensions(ip.next_header, payload) {
            Ok(upper) => upper,
            Err(wrong) => {
                self.on_bad_headers(ethernet, &ip, packet, wrong, out);
                return self.drop_malformed(wrong.error);
            }
        };
        if upper.protocol == protocol::ICMPV6 && upper.fragment.is_none() {
            if local.is_some() || self.addresses.is_group_v6(ip.dst) || self.presence.awaits_group(ip.dst) {
                self.on_icmp_v6(ethernet, &ip, upper.payload, local, out);
            } else {
                self.counters.not_for_us += 1;
            }
            return None;
        }
        let Some(local) = local.filter(|_| !ethernet.dst.is_multicast()) else {
            self.counters.not_for_us += 1;
            return None;
        };
        let envelope = Envelope { src: IpAddr::V6(ip.src), local, mac: ethernet.src };
        if let Some(fragment) = upper.fragment {
            return self.on_fragment_v6(&envelope, &ip, packet, &upper, fragment, out);
        }
        match upper.protocol {
            protocol::TCP => {
                let pseudo = (!verified).then(|| pseudo_v6(ip.src, ip.dst, protocol::TCP, upper.payload.len() as u32));
                self.on_tcp(&envelope, upper.payload, pseudo, out)
            }
            _ => {
                self.on_other_v6(&envelope, &upper, packet, out);
                None
            }
        }
    }

    /// A TCP segment to one of our addresses. `pseudo` is the pseudo-header's
    /// sum, or `None` where the checksum was verified below.
    #[inline]
    pub(crate) fn on_tcp<'f>(
        &mut self,
        envelope: &Envelope,
        segment: &'f [u8],
        pseudo: Option<Sum>,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let parsed = match pseudo {
            Some(pseudo) => TcpHeader::parse(segment, pseudo),
            None => TcpHeader::parse_trusted(segment, LinkVouched::new()),
        };
        let (header, payload, _verified) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return self.drop_malformed(error),
        };
        let flow = Flow::new(envelope.src, header.src_port, envelope.local, header.dst_port);
        let hash = self.hasher.hash(&flow);
        self.on_flow(flow, hash, envelope, &header, payload, out)
    }

    /// A segment of `flow`, whatever that belongs to.
    #[inline(never)]
    fn on_flow<'f>(
        &mut self,
        flow: Flow,
        hash: u64,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if let Watched::Rehearsal(aside) = out.watched()
            && aside.take(&flow, envelope, header, payload)
        {
            return None;
        }
        match self.find(hash, &flow) {
            Some(Owner::Connection(slot)) => self.on_connection(slot, header, payload, out),
            Some(Owner::Syn(entry)) => self.on_half_open(entry, envelope, header, payload, out),
            Some(Owner::TimeWait(record)) => self.on_time_wait(record, envelope, hash, header, payload, out),
            None => self.on_unknown(flow, hash, envelope, header, payload, out),
        }
    }

    /// What `flow` belongs to.
    #[inline]
    pub(crate) fn find(&self, hash: u64, flow: &Flow) -> Option<Owner> {
        self.table.find(hash, |owner| match owner {
            Owner::Connection(slot) => self.slots.at(slot).flow() == *flow,
            Owner::Syn(entry) => self.syns.get(entry).flow == *flow,
            Owner::TimeWait(record) => self.waits.get(record).flow == *flow,
        })
    }

    /// A segment of a light connection (see [`tcp::Connection::on_light`]), if
    /// it is the one that was expected.
    #[inline(always)]
    pub(crate) fn on_light<'f>(
        &mut self,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &'f [u8],
    ) -> Option<Arrived<'f>> {
        let slot = self.slots.at_mut(index);
        let mut cx = tcp::Context {
            now: self.now,
            now_ms: self.now_ms,
            ts_offset: 0,
            receive_full: false,
            config: &self.config.tcp,
            counters: &mut self.tcp_counters,
        };
        let ts_offset = || self.hasher.timestamp_offset(flow);
        if slot.tcp.on_light(&mut cx, ts_offset, header, payload)?.progress {
            // Forward progress: the neighbour is there (RFC 4861 section 7.3.1).
            self.neighbours.confirm(slot.neighbour, self.now);
        }
        let id = slot.id(index);
        if slot.tcp.wants_poll() && !slot.tcp.is_ready() {
            // Its deadline is entered after its turn to send, and that comes
            // with what the application answers.
            slot.tcp.set_ready(true);
            return Some(Arrived::Data(id, payload));
        }
        cold_path();
        Self::enter_deadline(&mut self.wheel, index, slot);
        let outcome = Outcome { len: payload.len() as u32, ..Outcome::default() };
        Some(Arrived::Segment(Arrival { id, outcome, data: payload, accepted: false }))
    }

    /// A segment that ends a light connection (see
    /// [`tcp::Connection::on_orderly`]), if it is the one that was expected.
    #[inline(never)]
    pub(crate) fn on_orderly<'f>(
        &mut self,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &'f [u8],
    ) -> Option<Arrival<'f>> {
        let slot = self.slots.at_mut(index);
        let una = slot.tcp.unacked_from();
        let mut cx = context!(self, flow);
        let outcome = slot.tcp.on_orderly(&mut cx, header, payload)?;
        if header.ack != una {
            self.neighbours.confirm(slot.neighbour, self.now);
        }
        let id = slot.id(index);
        if let Some(why) = outcome.closed
            && slot.set_over()
        {
            self.over.push_back((id, why));
        }
        if !slot.tcp.wants_poll() {
            Self::enter_deadline(&mut self.wheel, index, slot);
        } else if !slot.tcp.is_ready() {
            slot.tcp.set_ready(true);
            self.ready.push(index);
        }
        Some(Arrival { id, outcome, data: payload, accepted: false })
    }

    /// A segment of a connection.
    #[inline(never)]
    pub(crate) fn on_connection<'f>(
        &mut self,
        slot: u32,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let full = self.budget.total + payload.len() > self.budget.much && !payload.is_empty();
        if full && !out.watched().in_rehearsal() {
            self.make_room(slot, header.seq, payload.len());
        }
        let before = self.slots.at(slot).tcp.buffered();
        let flight = self.slots.at(slot).tcp.in_flight();
        let outcome = match out.watched() {
            Watched::No => self.with(slot, |tcp, cx, path| tcp.on_segment(cx, path, header, payload)),
            Watched::By(_) => self.compare_expected(slot, header, payload, out),
            Watched::Rehearsal(_) => self.with(slot, |tcp, cx, path| tcp.on_segment_in_full(cx, path, header, payload)),
        };
        let id = self.slots.id(slot);
        if self.slots.at(slot).tcp.in_flight() < flight {
            self.neighbours.confirm(self.slots.at(slot).neighbour, self.now);
        }
        self.account(slot, before);
        if outcome.answer != Answer::None {
            self.answer(slot, outcome.answer, out);
        }
        if let Some(why) = outcome.closed {
            self.note_over(id, why);
        }
        if outcome.opened {
            self.counters.connected += 1;
        }
        if self.slots.at(slot).tcp.wants_poll() {
            self.make_ready(slot);
        }
        self.schedule(slot);
        let data = &payload[outcome.skip as usize..(outcome.skip + outcome.len) as usize];
        Some(Arrival { id, outcome, data, accepted: false })
    }

    fn answer(&mut self, slot: u32, answer: Answer, out: &mut impl Egress) {
        match answer {
            Answer::None => {}
            Answer::Challenge => {
                if self.may_challenge(slot) {
                    self.with(slot, |tcp, _, _| tcp.ask_ack());
                } else {
                    self.counters.challenges_limited += 1;
                }
            }
            Answer::Reset(seq) => {
                let (flow, neighbour) = (self.slots.at(slot).flow(), self.slots.at(slot).neighbour);
                if let Some(mac) = self.neighbours.mac(neighbour) {
                    self.send_reset(&flow, mac, &Reply::reset(seq, None), out);
                }
            }
        }
    }

    /// Whether a connection may send a challenge acknowledgement (RFC 5961
    /// section 7): one in half a second, as Linux has it
    /// (`tcp_oow_rate_limited` with its `tcp_invalid_ratelimit`), so that what
    /// one is sent says nothing of another.
    fn may_challenge(&mut self, slot: u32) -> bool {
        let now_ms = self.now_ms;
        let Some(last) = self.challenged.get_mut(slot as usize) else { return false };
        if *last != 0 && now_ms.wrapping_sub(*last) < CHALLENGE_INTERVAL_MS || !self.challenges.take(self.now) {
            return false;
        }
        *last = now_ms.max(1);
        true
    }

    /// Whether a source cannot be a host other than this one: an address of
    /// our own, a broadcast, a group or none (RFC 1122 section 3.2.1.3). Asked
    /// only where something would be opened for it or answered to it.
    pub(crate) fn is_forged(&self, src: IpAddr) -> bool {
        self.addresses.index(src).is_some()
            || match src {
                IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast() || self.routes.is_broadcast(ip),
                IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
            }
    }

    #[cold]
    pub(crate) fn drop_malformed<'f>(&mut self, error: WireError) -> Option<Arrival<'f>> {
        match error {
            WireError::BadChecksum => self.counters.bad_checksum += 1,
            _ => self.counters.malformed += 1,
        }
        None
    }

    /// RFC 9293 section 3.10.7.1: a segment of no connection.
    pub(crate) fn reset_unknown(
        &mut self,
        flow: &Flow,
        mac: Mac,
        header: &TcpHeader,
        payload: &[u8],
        out: &mut impl Egress,
    ) {
        if let Some(reset) = reset_for(header, payload) {
            self.send_reset(flow, mac, &reset, out);
        }
    }

    /// Sends a reset that somebody else's segment may have asked for, as far as
    /// their limit allows.
    pub(crate) fn send_reset(&mut self, flow: &Flow, mac: Mac, reset: &Reply, out: &mut impl Egress) {
        if self.resets_unknown.take(flow.remote(), self.now) {
            self.reply(out, flow, mac, reset);
        } else {
            self.counters.errors_limited += 1;
        }
    }

    /// A datagram of a protocol that we do not speak, or UDP, for which
    /// nobody listens (RFC 1122 section 3.2.2.1).
    fn on_other_v4(
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
        if !self.errors.take(envelope.src, self.now) {
            self.counters.errors_limited += 1;
            return;
        }
        // Header and 8 bytes are what RFC 792 asks for; more helps nobody.
        let quoted = (usize::from(ip.header_len) + 8).min(packet.len());
        let code = if protocol == protocol::UDP { icmpv4::unreachable::PORT } else { icmpv4::unreachable::PROTOCOL };
        self.unreachable_v4(envelope, code, &packet[..quoted], out);
    }
}

/// The answer to a segment of no connection (RFC 9293 section 3.10.7.1): none
/// to a reset.
pub(crate) fn reset_for(header: &TcpHeader, payload: &[u8]) -> Option<Reply> {
    if header.flags.contains(Flags::RST) {
        return None;
    }
    if header.flags.contains(Flags::ACK) {
        return Some(Reply::reset(header.ack, None));
    }
    let end = header.seq.plus(tcp::connection::segment_len(header, payload));
    Some(Reply::reset(wire::tcp::SeqNum(0), Some(end)))
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
