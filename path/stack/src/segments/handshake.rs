//! Handshakes that peers begin: a SYN, its answer, and the segment that
//! completes it.

use super::Tcp;
use super::arrive::{Arrival, Arrived};
use super::build::Frame;
use super::flows::{Keyed, Owner};
use super::outbox::Pending;
use super::syn::HalfOpen;
use crate::egress::Egress;
use crate::flow::{Envelope, Flow};
use crate::ip::{Ip, NeighbourId};
use crate::shadow::Way;
use app::ConnId;
use tcp::{Agreed, Connection, Outcome, Path, Treatment, agree_on};
use wire::tcp::{Flags, MAX_HEADER_LEN, Opening, SeqNum, TcpHeader, Timestamps};
use wire::{Mac, Offload, ethernet, ipv6};

/// The longest frame that opens a connection.
const OPENING_FRAME: usize = ethernet::HEADER_LEN_VLAN + ipv6::HEADER_LEN + MAX_HEADER_LEN;

impl Tcp {
    /// A SYN in TIME-WAIT that opens a new connection; `used` is SND.NXT of the
    /// one before.
    #[inline(never)]
    pub(super) fn on_syn_again(
        &mut self,
        ip: &mut Ip,
        key: Keyed,
        envelope: &Envelope,
        header: &TcpHeader,
        used: SeqNum,
        out: &mut impl Egress,
    ) {
        self.on_syn(ip, key, envelope, header, Some(used), out);
    }

    /// A SYN to a listening port (RFC 9293 section 3.10.7.2). `used` is SND.NXT
    /// of the flow's connection before.
    #[inline(always)]
    pub(super) fn on_syn(
        &mut self,
        ip: &mut Ip,
        key: Keyed,
        envelope: &Envelope,
        header: &TcpHeader,
        used: Option<SeqNum>,
        out: &mut impl Egress,
    ) {
        let Keyed { flow, hash } = key;
        if self.is_crowded() {
            self.counters.syn_dropped += 1;
            return;
        }
        if !self.admits(&flow) {
            self.reset_unknown(ip, &flow, envelope.mac, header, &[], out);
            return;
        }
        let irs = header.seq;
        if self.syns.is_full() {
            self.send_cookie(ip, &flow, envelope, header, out);
            return;
        }
        self.listeners.last_source = envelope.src;
        let iss = self.isn_after(&flow, used);
        let agreed = agree_on(&self.common.config, !flow.is_v4(), iss, irs, &header.options);
        let neighbour = ip.neighbour_of(envelope);
        let entry = self.syns.insert(flow, hash, agreed, neighbour, header.window, self.common.now_ms);
        if !self.flows.insert(hash, Owner::Syn(entry)) {
            self.syns.remove(entry);
            self.counters.syn_dropped += 1;
            return;
        }
        ip.neighbours.pin(neighbour);
        self.counters.handshakes += 1;
        self.send_syn_ack(ip, entry, out);
    }

    /// The initial sequence number for a connection, beyond all numbers of the
    /// one before (RFC 1122 section 4.2.2.13 (b)): the clock does not pass a
    /// connection that sent faster than it counts. What was in flight last may
    /// be beyond SND.NXT by a window (Linux: `tcp_timewait_state_process`).
    fn isn_after(&self, flow: &Flow, used: Option<SeqNum>) -> SeqNum {
        const WINDOW: u32 = 0xffff;
        let isn = self.secret.isn(flow, self.common.now);
        match used.map(|nxt| nxt.plus(WINDOW + 2)) {
            Some(least) if isn.before(least) => least,
            _ => isn,
        }
    }

    /// Sends, or sends again, the SYN,ACK of a half-open handshake: when there
    /// is a slot for it, and its neighbour is known.
    pub(super) fn send_syn_ack(&mut self, ip: &mut Ip, entry: u32, out: &mut impl Egress) {
        let HalfOpen { flow, agreed, neighbour, .. } = self.syns.get(entry);
        let timestamps = agreed.timestamps.map(|echo| Timestamps { value: self.common.stamp(flow), echo });
        let opening = self.syn_ack(ip, flow, agreed, timestamps);
        let Some(mac) = ip.neighbours.mac_unused(*neighbour) else { return self.hold_syn_ack(ip, entry, &opening) };
        if !self.send_opening(ip, out, flow, mac, &opening) {
            self.reply_later(ip, Pending::SynAck(entry));
        }
    }

    /// The way back leads through a neighbour that is not resolved yet.
    #[cold]
    fn hold_syn_ack(&mut self, ip: &mut Ip, entry: u32, opening: &Opening) {
        let HalfOpen { flow, neighbour, .. } = self.syns.get(entry);
        let mut buffer = [0; OPENING_FRAME];
        let len = self.opening_frame(ip, flow, Mac::ZERO).build_opening(&mut buffer, flow, opening);
        ip.neighbours.hold(*neighbour, &buffer[..len]);
    }

    /// Writes a SYN,ACK; whether there was a slot for it.
    #[inline(always)]
    pub(super) fn send_opening(
        &self,
        ip: &Ip,
        out: &mut impl Egress,
        flow: &Flow,
        mac: Mac,
        opening: &Opening,
    ) -> bool {
        let Some(buffer) = out.slot() else { return false };
        let frame = self.opening_frame(ip, flow, mac);
        let len = frame.build_opening(buffer, flow, opening);
        if out.watched().by_anybody() {
            frame.compare_opening(out, len, flow, opening);
        }
        out.commit(len, Offload::NONE);
        true
    }

    #[inline(always)]
    fn opening_frame<'a>(&self, ip: &'a Ip, flow: &Flow, mac: Mac) -> Frame<'a> {
        let traffic_class = self.listeners.options(flow.local_port).map_or(0, |options| options.traffic_class);
        Frame(ip.to(mac, Treatment::new(traffic_class, false)))
    }

    #[inline(always)]
    pub(super) fn syn_ack(&self, ip: &Ip, flow: &Flow, agreed: &Agreed, timestamps: Option<Timestamps>) -> Opening {
        let path = Path { mtu: ip.mtu(), v6: !flow.is_v4() };
        let most = self.listeners.options(flow.local_port).and_then(|options| options.max_segment);
        let mss = path.announced_mss();
        Opening {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: agreed.iss,
            ack: agreed.irs.plus(1),
            flags: Flags::SYN.union(Flags::ACK),
            window: self.common.config.opening_window(),
            offer: agreed.offer(&self.common.config, most.map_or(mss, |most| most.min(mss))),
            timestamps,
        }
    }

    /// A segment for a half-open handshake (RFC 9293 section 3.10.7.4 in
    /// SYN-RECEIVED).
    pub(super) fn on_half_open<'f>(
        &mut self,
        ip: &mut Ip,
        entry: u32,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let half_open = *self.syns.get(entry);
        let Agreed { iss, irs, timestamps, .. } = half_open.agreed;
        let expected = header.seq == irs.plus(1);
        if header.flags.contains(Flags::RST) {
            // RFC 5961 section 3.2, for the state with the smallest window.
            if expected {
                self.drop_half_open(ip, entry);
            }
            return None;
        }
        if header.flags.contains(Flags::SYN) {
            // The SYN again: our answer was lost. Another SYN is challenged
            // by the same answer.
            self.send_syn_ack(ip, entry, out);
            return None;
        }
        if !header.flags.contains(Flags::ACK) {
            return None;
        }
        if header.ack != iss.plus(1) {
            // It may answer a cookie that was sent when the queue was full.
            if self.cookies_in_use()
                && self.secret.check_cookie(&half_open.flow, irs, header.ack.minus(1), self.common.now).is_some()
            {
                if self.slots.is_full() {
                    // As `accept_cookie` would: the handshake stays, so that
                    // what the peer sends again finds it.
                    self.want_room();
                    return None;
                }
                self.drop_half_open(ip, entry);
                let HalfOpen { flow, hash, .. } = half_open;
                return self.on_unknown(ip, Keyed { flow, hash }, envelope, header, payload, out);
            }
            // Where flows have moved, another silo may have answered the SYN.
            self.refuse_or_note(ip, &half_open.flow, envelope, header, payload, out);
            return None;
        }
        let old = match (timestamps, &header.options.timestamps) {
            (Some(recent), Some(ts)) => (ts.value.wrapping_sub(recent) as i32) < 0,
            _ => false,
        };
        let in_window = header.seq.forward_from(irs.plus(1)) < u32::from(self.common.config.opening_window());
        if old || !in_window {
            self.send_syn_ack(ip, entry, out);
            return None;
        }
        self.complete(ip, (entry, &half_open), envelope, header, payload, out)
    }

    /// A handshake's last segment: the connection, if it may be and there is
    /// room for it.
    #[inline(always)]
    fn complete<'f>(
        &mut self,
        ip: &mut Ip,
        (entry, half_open): (u32, &HalfOpen),
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if !self.admits(&half_open.flow) {
            self.drop_half_open(ip, entry);
            self.reset_unknown(ip, &half_open.flow, envelope.mac, header, payload, out);
            return None;
        }
        if self.slots.is_full() {
            self.want_room();
            return None;
        }
        let HalfOpen { flow, hash, agreed, neighbour, window, .. } = *half_open;
        let id = self.create(ip, flow, neighbour, &agreed, window);
        if let Some(ms) = half_open.answered_after(self.common.now_ms) {
            self.slots.at_mut(id.index() as u32).tcp.on_handshake_time(ms);
        }
        self.schedule(id.index() as u32);
        self.flows.replace(hash, Owner::Syn(entry), Owner::Connection(id.index() as u32));
        ip.neighbours.confirm(neighbour, self.common.now); // Our SYN,ACK arrived.
        ip.neighbours.unpin(neighbour);
        self.syns.remove(entry);
        self.on_accepted(ip, id, header, payload, out)
    }

    /// The segment that completed the handshake goes to the new connection.
    pub(super) fn on_accepted<'f>(
        &mut self,
        ip: &mut Ip,
        id: ConnId,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        self.counters.accepted += 1;
        let slot = id.index() as u32;
        // Nearly always, a request comes with it.
        let light = if out.watched().by_anybody() {
            self.compare_arrival(ip, Way::Light, slot, header, payload, out)
        } else {
            header.established().and_then(|light| {
                let flow = self.slots.at(slot).flow();
                self.on_light(ip, slot, &flow, &light, payload).map(|light| light.with(payload, false))
            })
        };
        let mut arrival = match light {
            Some(Arrived::Segment(arrival)) => arrival,
            Some(Arrived::Data(id, data)) => {
                // More is to be told of it, so it has its turn with the others.
                self.outbox.ready.push(slot);
                let outcome = Outcome { len: data.len() as u32, ..Outcome::default() };
                Arrival { id, outcome, data, accepted: true }
            }
            Some(Arrived::Records(..) | Arrived::Nothing | Arrived::Stray | Arrived::Full) | None => {
                self.on_connection(ip, slot, header, payload, out)?
            }
        };
        arrival.outcome.opened = true;
        arrival.accepted = true;
        Some(arrival)
    }

    pub(super) fn create(
        &mut self,
        ip: &mut Ip,
        flow: Flow,
        neighbour: NeighbourId,
        agreed: &Agreed,
        window: u16,
    ) -> ConnId {
        let path = Path { mtu: ip.path_mtu(flow.remote()), v6: !flow.is_v4() };
        let mut cx = self.common.context(&flow);
        let mut connection = Connection::accept(&mut cx, path, agreed, window);
        if let Some(options) = self.listeners.options(flow.local_port) {
            connection.inherit(&self.common.config, self.common.now, *options);
        }
        if ip.lets_fragment(flow.remote()) {
            connection.let_fragment(&self.common.config);
        }
        if let Some(widened) = ip.reordering(flow.remote()) {
            connection.expect_reordering(&self.common.config, widened);
        }
        ip.neighbours.pin(neighbour);
        self.note_opened(&flow);
        self.slots.insert(flow, neighbour, connection)
    }

    /// Forgets a half-open handshake.
    pub fn drop_half_open(&mut self, ip: &mut Ip, entry: u32) {
        let HalfOpen { hash, neighbour, .. } = *self.syns.get(entry);
        self.flows.remove(hash, Owner::Syn(entry));
        ip.neighbours.unpin(neighbour);
        self.syns.remove(entry);
    }
}
