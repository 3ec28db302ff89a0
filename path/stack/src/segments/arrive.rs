//! A segment arrives: whose it is, the short ways of nearly every one, and the
//! general way of a connection's.

use super::Tcp;
use super::build::Reply;
use super::flows::{Keyed, Owner};
use crate::egress::{Egress, Watched};
use crate::flow::{Envelope, Flow};
use crate::ip::{Ip, Packet, is_martian_v4};
use crate::shadow::Way;
use app::ConnId;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr};
use tcp::{Answer, Context, Outcome};
use wire::plain::Plain;
use wire::tcp::{Established, TcpHeader};
use wire::{LinkVouched, Mac, Sum, protocol};

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

/// What a first look at a frame found: whose it probably is.
#[derive(Clone, Copy, Debug)]
pub struct Glance {
    hash: u64,
    /// It has bytes for an application.
    carries: bool,
}

/// What a frame means for an application, as it is told.
#[derive(Debug)]
pub enum Arrived<'f> {
    /// Nothing.
    Nothing,
    /// In-order bytes, and nothing else. [`crate::Stack::settle`] is to be
    /// called when the application has had them.
    Data(ConnId, &'f [u8]),
    /// In-order records of a secured connection, or parts of them, and nothing else.
    /// [`crate::Stack::settle_sealed`] is to be called when the application has had what
    /// they carry.
    Records(ConnId, &'f [u8]),
    /// More than that.
    Segment(Arrival<'f>),
    /// A segment of a flow that is not known here and may be another silo's,
    /// where [`crate::Config::steered`] says that there are such.
    /// [`crate::Stack::refuse`] is to be called if it is nobody's.
    Stray,
    /// It completes a handshake, and all connections are in use. If one makes
    /// room ([`crate::Stack::find_idle`], [`crate::Stack::displace`]), the
    /// frame is to be taken again; if not, the peer sends again.
    Full,
}

/// What came of a segment of a light connection.
#[derive(Clone, Copy, Debug)]
pub struct LightArrival {
    /// The connection.
    pub id: ConnId,
    /// [`crate::Stack::settle`] is to be called when the application has had its bytes.
    pub is_unsettled: bool,
}

impl LightArrival {
    /// As it is told, with the bytes that came; of a `sealed` connection these are records.
    #[inline(always)]
    pub fn with(self, data: &[u8], sealed: bool) -> Arrived<'_> {
        let Self { id, is_unsettled } = self;
        if is_unsettled {
            return if sealed { Arrived::Records(id, data) } else { Arrived::Data(id, data) };
        }
        cold_path();
        let outcome = Outcome { len: data.len() as u32, sealed, ..Outcome::default() };
        Arrived::Segment(Arrival { id, outcome, data, accepted: false })
    }
}

impl<'f> From<Option<Arrival<'f>>> for Arrived<'f> {
    fn from(arrival: Option<Arrival<'f>>) -> Self {
        arrival.map_or(Self::Nothing, Self::Segment)
    }
}

impl Tcp {
    /// See [`crate::Stack::glance`].
    #[inline]
    pub fn glance(&self, ip: &Ip, frame: &[u8], fetch: impl FnOnce(*const u8)) -> Option<Glance> {
        const SEGMENT: usize = wire::ethernet::HEADER_LEN + wire::ipv4::HEADER_LEN;
        let head = frame.first_chunk::<{ SEGMENT + 13 }>()?;
        // IPv4 without options, TCP.
        if head[12..15] != [0x08, 0x00, 0x45] || head[23] != protocol::TCP {
            return None;
        }
        let src = Ipv4Addr::new(head[26], head[27], head[28], head[29]);
        let dst = Ipv4Addr::new(head[30], head[31], head[32], head[33]);
        let local = ip.addresses.index_v4(dst)?;
        let remote_port = u16::from_be_bytes([head[SEGMENT], head[SEGMENT + 1]]);
        let local_port = u16::from_be_bytes([head[SEGMENT + 2], head[SEGMENT + 3]]);
        let hash = self.flows.hash(&Flow::v4(src, remote_port, local, local_port));
        fetch(core::ptr::from_ref(self.flows.home_of(hash)).cast());
        let total = u16::from_be_bytes([head[16], head[17]]);
        let headers = wire::ipv4::HEADER_LEN as u16 + u16::from(head[SEGMENT + 12] >> 4) * 4;
        Some(Glance { hash, carries: total > headers })
    }

    /// See [`crate::Stack::second_glance`].
    #[inline]
    pub fn second_glance(&self, glance: Glance, mut fetch: impl FnMut(*const u8)) -> Option<u32> {
        let index = self.flows.likely(glance.hash)?;
        self.slots.at(index).lines().into_iter().for_each(&mut fetch);
        glance.carries.then_some(index)
    }

    /// The hash of a plain segment's flow, and the connection that it most
    /// likely belongs to, if it does.
    #[inline(always)]
    pub fn look_up(&self, flow: &Flow) -> (u64, Option<u32>) {
        let hash = self.flows.hash(flow);
        (hash, self.flows.likely(hash).filter(|slot| self.slots.at(*slot).is(flow)))
    }

    /// A plain segment of a connection that is not light, or not the one that
    /// was expected.
    #[inline(never)]
    pub fn on_plain_of<'f>(&mut self, ip: &mut Ip, slot: u32, plain: Plain<'f>, out: &mut impl Egress) -> Arrived<'f> {
        let flow = self.slots.at(slot).flow();
        let way = match &self.slots.at(slot).tcp {
            tcp if tcp.is_sealed() => Way::LightSealed,
            tcp if tcp.has_cold() => Way::Steady,
            _ => Way::Orderly,
        };
        let taken = if out.watched().by_anybody() {
            self.compare_arrival(ip, way, slot, &plain.tcp_header(), plain.payload, out)
        } else if way == Way::LightSealed {
            let light = self.on_light_sealed(ip, slot, &flow, &plain.header, plain.payload);
            light.map(|light| light.with(plain.payload, true))
        } else if way == Way::Steady {
            self.on_steady(ip, slot, &flow, &plain.header, plain.payload).map(Arrived::Segment)
        } else {
            self.on_orderly(ip, slot, &flow, &plain.header, plain.payload).map(Arrived::Segment)
        };
        match taken {
            Some(arrived) => arrived,
            None => self.on_connection(ip, slot, &plain.tcp_header(), plain.payload, out).into(),
        }
    }

    /// A plain segment of which it is not clear that it belongs to a
    /// connection.
    #[inline(never)]
    pub fn on_plain_unsorted<'f>(
        &mut self,
        ip: &mut Ip,
        (flow, hash): (Flow, u64),
        frame: &'f [u8],
        plain: Plain<'f>,
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if is_martian_v4(plain.src) {
            ip.drop_martian();
            return None;
        }
        let mac = Mac::sender_of(frame);
        let envelope = Envelope { src: IpAddr::V4(plain.src), local: flow.local, mac };
        self.on_flow(ip, Keyed { flow, hash }, &envelope, &plain.tcp_header(), plain.payload, out)
    }

    /// A segment of ours whose headers were read in one go, options and all:
    /// nearly plain, as one is that opens a connection.
    #[inline]
    pub fn on_nearly_plain<'f>(
        &mut self,
        ip: &mut Ip,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let flow = Flow::new(envelope.src, header.src_port, envelope.local, header.dst_port);
        let hash = self.flows.hash(&flow);
        self.on_flow(ip, Keyed { flow, hash }, envelope, header, payload, out)
    }

    /// A packet of ours that IP hands on.
    #[inline]
    pub fn on_packet<'f>(&mut self, ip: &mut Ip, packet: &Packet<'f>, out: &mut impl Egress) -> Option<Arrival<'f>> {
        self.on_segment(ip, &packet.envelope, packet.bytes, packet.pseudo, out)
    }

    /// A segment put together from fragments. Its bytes live only in this
    /// call, so what is for an application is held.
    pub fn on_whole(
        &mut self,
        ip: &mut Ip,
        envelope: &Envelope,
        segment: &[u8],
        pseudo: Sum,
        out: &mut impl Egress,
    ) -> Option<Arrival<'static>> {
        if self.refusals.is_steered() && !self.knows_segment(envelope, segment) {
            // Every silo was shown the pieces: who knows the flow takes the
            // segment, and nobody else answers.
            ip.count_foreign();
            return None;
        }
        let arrival = self.on_segment(ip, envelope, segment, Some(pseudo), out)?;
        let Arrival { id, mut outcome, data, accepted } = arrival;
        self.hold(id, data);
        outcome.readable |= outcome.len > 0;
        outcome.len = 0;
        Some(Arrival { id, outcome, data: &[], accepted })
    }

    /// A segment to one of our addresses. `pseudo` is the pseudo-header's sum,
    /// or `None` where the checksum was verified below.
    #[inline]
    fn on_segment<'f>(
        &mut self,
        ip: &mut Ip,
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
            Err(error) => {
                ip.drop_malformed(error);
                return None;
            }
        };
        self.on_nearly_plain(ip, envelope, &header, payload, out)
    }

    /// A segment of `flow`, whatever that belongs to.
    #[inline(never)]
    fn on_flow<'f>(
        &mut self,
        ip: &mut Ip,
        key: Keyed,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if let Watched::Rehearsal(aside) = out.watched()
            && aside.take(&key.flow, envelope, header, payload)
        {
            return None;
        }
        match self.find(key.hash, &key.flow) {
            Some(Owner::Connection(slot)) => self.on_connection(ip, slot, header, payload, out),
            Some(Owner::Syn(entry)) => self.on_half_open(ip, entry, envelope, header, payload, out),
            Some(Owner::TimeWait(record)) => self.on_time_wait(ip, record, envelope, header, payload, out),
            None => self.on_unknown(ip, key, envelope, header, payload, out),
        }
    }

    /// A segment of a light connection (see [`tcp::Connection::on_light`]), if
    /// it is the one that was expected.
    #[inline(always)]
    pub fn on_light(
        &mut self,
        ip: &mut Ip,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &[u8],
    ) -> Option<LightArrival> {
        self.on_light_as::<false>(ip, index, flow, header, payload)
    }

    /// The same of a secured connection.
    #[inline(always)]
    pub fn on_light_sealed(
        &mut self,
        ip: &mut Ip,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &[u8],
    ) -> Option<LightArrival> {
        self.on_light_as::<true>(ip, index, flow, header, payload)
    }

    #[inline(always)]
    fn on_light_as<const SEALED: bool>(
        &mut self,
        ip: &mut Ip,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &[u8],
    ) -> Option<LightArrival> {
        let slot = self.slots.at_mut(index);
        let common = &mut self.common;
        let mut cx = Context {
            now: common.now,
            now_ms: common.now_ms,
            ts_offset: 0,
            receive_full: false,
            config: &common.config,
            counters: &mut common.counters,
        };
        let offsets = &common.offsets;
        let ts_offset = || offsets.of(flow);
        let light = match SEALED {
            false => slot.tcp.on_light(&mut cx, ts_offset, header, payload),
            true => slot.tcp.on_light_sealed(&mut cx, ts_offset, header, payload),
        };
        if light?.progress {
            // Forward progress: the neighbour is there (RFC 4861 section 7.3.1).
            ip.neighbours.confirm(slot.neighbour, self.common.now);
        }
        let id = slot.id(index);
        if slot.tcp.wants_poll() && !slot.tcp.is_ready() {
            // Its deadline is entered after its turn to send, and that comes
            // with what the application answers.
            slot.tcp.set_ready(true);
            return Some(LightArrival { id, is_unsettled: true });
        }
        cold_path();
        self.timers.enter_deadline(index, slot);
        Some(LightArrival { id, is_unsettled: false })
    }

    /// A segment that ends a light connection (see
    /// [`tcp::Connection::on_orderly`]), if it is the one that was expected.
    #[inline(never)]
    pub(super) fn on_orderly<'f>(
        &mut self,
        ip: &mut Ip,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &'f [u8],
    ) -> Option<Arrival<'f>> {
        let slot = self.slots.at_mut(index);
        let una = slot.tcp.unacked_from();
        let mut cx = self.common.context(flow);
        let outcome = slot.tcp.on_orderly(&mut cx, header, payload)?;
        if header.ack != una {
            ip.neighbours.confirm(slot.neighbour, self.common.now);
        }
        let id = slot.id(index);
        if let Some(why) = outcome.closed
            && slot.set_over()
        {
            self.events.over.push_back((id, why));
        }
        if !slot.tcp.wants_poll() {
            self.timers.enter_deadline(index, slot);
        } else if !slot.tcp.is_ready() {
            slot.tcp.set_ready(true);
            self.outbox.ready.push(index);
        }
        Some(Arrival { id, outcome, data: payload, accepted: false })
    }

    /// An acknowledgement on a steady connection (see [`tcp::Connection::on_steady`]).
    #[inline]
    pub(super) fn on_steady<'f>(
        &mut self,
        ip: &mut Ip,
        index: u32,
        flow: &Flow,
        header: &Established,
        payload: &[u8],
    ) -> Option<Arrival<'f>> {
        let slot = self.slots.at_mut(index);
        let mut cx = self.common.context(flow);
        let outcome = slot.tcp.on_steady(&mut cx, header, payload)?;
        ip.neighbours.confirm(slot.neighbour, self.common.now);
        let id = slot.id(index);
        let wants = slot.tcp.wants_poll();
        self.timers.enter_deadline(index, slot);
        self.update_room(index);
        if wants {
            self.make_ready(index);
        }
        Some(Arrival { id, outcome, data: &[], accepted: false })
    }

    /// A segment of a connection.
    #[inline(never)]
    pub(super) fn on_connection<'f>(
        &mut self,
        ip: &mut Ip,
        slot: u32,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let full = self.common.budget.is_beyond(payload.len()) && !payload.is_empty();
        if full
            && !out.watched().in_rehearsal()
            && self.slots.at(slot).tcp.may_take(self.common.now_ms, header, payload)
        {
            self.make_room(slot, header.seq, payload.len());
        }
        let before = self.slots.at(slot).tcp.buffered();
        let flight = self.slots.at(slot).tcp.in_flight();
        let mut outcome = match out.watched() {
            Watched::No => self.with(ip, slot, |tcp, cx, path| tcp.on_segment(cx, path, header, payload)),
            Watched::By(_) => self.compare_expected(ip, slot, header, payload, out),
            Watched::Rehearsal(_) => {
                self.with(ip, slot, |tcp, cx, path| tcp.on_segment_in_full(cx, path, header, payload))
            }
        };
        let id = self.slots.id(slot);
        if let Some(mtu) = self.slots.at_mut(slot).tcp.take_path_mtu() {
            ip.on_path_found(self.slots.at(slot).flow().remote(), mtu);
        }
        if let Some(widened) = self.slots.at_mut(slot).tcp.take_reordering() {
            ip.on_reordering(self.slots.at(slot).flow().remote(), widened);
        }
        if self.slots.at(slot).tcp.in_flight() < flight {
            ip.neighbours.confirm(self.slots.at(slot).neighbour, self.common.now);
        }
        self.account(slot, before);
        self.update_room(slot);
        if outcome.answer != Answer::None {
            self.answer(ip, slot, outcome.answer, out);
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
        outcome.sealed = self.slots.at(slot).tcp.is_sealed();
        self.schedule(slot);
        let data = &payload[outcome.skip as usize..(outcome.skip + outcome.len) as usize];
        Some(Arrival { id, outcome, data, accepted: false })
    }

    fn answer(&mut self, ip: &mut Ip, slot: u32, answer: Answer, out: &mut impl Egress) {
        match answer {
            Answer::None => {}
            Answer::Challenge => {
                if self.challenges.may_send(slot, self.common.now, self.common.now_ms) {
                    self.with(ip, slot, |tcp, _, _| tcp.ask_ack());
                } else {
                    self.counters.challenges_limited += 1;
                }
            }
            Answer::Reset(seq) => {
                let (flow, neighbour) = (self.slots.at(slot).flow(), self.slots.at(slot).neighbour);
                if let Some(mac) = ip.neighbours.mac(neighbour) {
                    self.send_reset(ip, &flow, mac, &Reply::reset(seq, None), out);
                }
            }
        }
    }
}
