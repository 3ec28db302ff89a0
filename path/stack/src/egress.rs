//! Segments into transmit slots.

use crate::addresses::Addresses;
use crate::flow::Flow;
use crate::shadow::Way;
use crate::{CONTROL_RESERVE, Config, Egress, LinkOffload, Stack};
use app::ConnId;
use core::hint::cold_path;
use tcp::{Connection, Context, Emit, EmitOptions, Path, State};
use wire::checksum::{pseudo_v4, pseudo_v6};
use wire::ethernet::{ETHER_IPV4, ETHER_IPV6, EthernetHeader};
use wire::ipv4::{self, Ipv4Header};
use wire::ipv6::{self, Ipv6Header};
use wire::offload::PartialChecksum;
use wire::plain::{self, Ends};
use wire::tcp::{self as wire_tcp, Established, Flags, Opening, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{Mac, Offload, Sum, protocol};

/// Segments that one connection sends before the next connection's turn.
const SEGMENTS_PER_POLL: usize = 16;
/// Connections that one turn serves; the others wait for the next turn.
const CONNECTIONS_PER_TURN: usize = 1024;
/// IPv4 time to live and IPv6 hop limit of what we send (RFC 1700).
pub(crate) const DEFAULT_TTL: u8 = 64;

/// A segment that belongs to no connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub seq: SeqNum,
    pub ack: SeqNum,
    pub flags: Flags,
    pub window: u16,
    pub options: TcpOptions,
}

impl Reply {
    /// A reset; `ack` where it must acknowledge (RFC 9293 section 3.10.7.1).
    pub fn reset(seq: SeqNum, ack: Option<SeqNum>) -> Self {
        let flags = if ack.is_some() { Flags::RST.union(Flags::ACK) } else { Flags::RST };
        Self { seq, ack: ack.unwrap_or(SeqNum(0)), flags, window: 0, options: TcpOptions::default() }
    }
}

/// A reset for a connection that the application aborted, waiting for a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingReset {
    pub flow: Flow,
    pub neighbour: crate::neighbour::NeighbourId,
    pub seq: SeqNum,
    pub ack: SeqNum,
    /// TS.Recent, if timestamps were agreed on.
    pub echo: Option<u32>,
    pub traffic_class: u8,
}

/// Resets waiting for transmit slots; more are not sent, and the peer finds
/// out by its own next segment.
pub(crate) const MAX_PENDING_RESETS: usize = 1024;

impl Stack {
    /// Sends what neighbours, handshakes and connections have to send, as far
    /// as there are slots. Returns whether something is left that there may be
    /// slots for at once; what waits for slots has a deadline.
    #[inline(always)]
    pub fn poll_transmit(&mut self, out: &mut impl Egress) -> bool {
        self.blocked = false;
        // What connections answer to arrivals has left with them: mostly
        // nothing is left to say.
        let silent = self.ready.is_empty()
            && self.pending.is_empty()
            && self.resets.is_empty()
            && !self.presence.is_due(self.now)
            && !self.neighbours.is_due(self.now);
        !silent && self.transmit_all(out)
    }

    #[inline(never)]
    fn transmit_all(&mut self, out: &mut impl Egress) -> bool {
        let sent = self.tcp_counters.segments_out;
        if self.presence.is_due(self.now) {
            cold_path();
            self.poll_presence(out);
        }
        self.poll_link_layer(out);
        if !self.pending.is_empty() {
            self.poll_pending(out);
        }
        if !self.resets.is_empty() {
            self.poll_resets(out);
        }
        if self.ready.is_empty() {
            return false;
        }
        // Those that want more than their share stand behind those that wait.
        let mut turn = core::mem::take(&mut self.turn);
        core::mem::swap(&mut turn, &mut self.ready);
        let mut done = 0;
        let untagged = self.config.vlan.is_none();
        for &index in turn.iter().take(CONNECTIONS_PER_TURN) {
            // An entry may outlive its connection; it is then skipped here.
            if self.slots.at(index).tcp.is_ready() {
                let sent = match self.slots.at(index).tcp.state() {
                    _ if !untagged => false,
                    State::Established => self.transmit_light_apart(index, out),
                    State::SynSent => self.transmit_first(index, out),
                    _ => self.transmit_last(index, out),
                };
                if !sent && !self.transmit(index, out) {
                    self.counters.no_slot += 1;
                    self.blocked = true;
                    break;
                }
            }
            done += 1;
        }
        if done < turn.len() {
            turn.drain(..done);
            turn.append(&mut self.ready);
            core::mem::swap(&mut turn, &mut self.ready);
        }
        turn.clear();
        self.turn = turn;
        // Where some went out, more may go with the next flush.
        self.blocked &= self.tcp_counters.segments_out == sent;
        !self.ready.is_empty() && !self.blocked
    }

    /// A connection that an arrival left unsettled: what the application
    /// answered leaves now, while all that it takes is at hand, or has its turn
    /// with the others. Only plain segments leave a connection unsettled, so
    /// that frames here have no VLAN tag.
    #[inline(always)]
    pub fn settle(&mut self, id: ConnId, out: &mut impl Egress) {
        let index = id.index() as u32;
        if !self.transmit_light(index, out) {
            cold_path();
            self.ready.push(index);
        }
    }

    /// As [`Stack::transmit_light`], for those that something else than a
    /// segment made ready.
    #[inline(never)]
    fn transmit_light_apart(&mut self, index: u32, out: &mut impl Egress) -> bool {
        self.transmit_light(index, out)
    }

    /// A connection's turn to send, if one plain segment is all of it.
    #[inline(always)]
    pub(crate) fn transmit_light(&mut self, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(Way::SendLight, index, out);
        }
        self.transmit_one(
            index,
            out,
            #[inline(always)]
            |tcp, cx| tcp.poll_light(cx),
        )
    }

    /// The same for the segments that end a connection.
    #[inline(never)]
    pub(crate) fn transmit_last(&mut self, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(Way::SendOrderly, index, out);
        }
        self.transmit_one(index, out, |tcp, cx| tcp.poll_orderly(cx))
    }

    /// The same for the SYN that opens one.
    #[inline(never)]
    pub(crate) fn transmit_first(&mut self, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(Way::SendOpening, index, out);
        }
        let slot = self.slots.at_mut(index);
        let Some(mac) = self.neighbours.mac(slot.neighbour) else { return false };
        let flow = slot.flow();
        let path = Path { mtu: self.config.mtu, v6: !flow.is_v4() };
        let Some(buffer) = out.slot() else { return false };
        let mut cx = context!(self, &flow);
        let Some(emit) = slot.tcp.poll_opening(&mut cx, path) else { return false };
        let frame =
            Frame { mac, config: &self.config, addresses: &self.addresses, offload: self.offload, traffic_class: 0 };
        let len = frame.build_syn(buffer, &flow, &emit);
        out.commit(len, Offload::NONE);
        slot.tcp.set_ready(false);
        Self::enter_deadline(&mut self.wheel, index, slot);
        true
    }

    #[inline(always)]
    fn transmit_one(
        &mut self,
        index: u32,
        out: &mut impl Egress,
        poll: impl FnOnce(&mut Connection, &mut Context<'_>) -> Option<Emit>,
    ) -> bool {
        let slot = self.slots.at_mut(index);
        let Some(mac) = self.neighbours.mac(slot.neighbour) else { return false };
        let flow = slot.flow();
        if out.room() <= CONTROL_RESERVE {
            return false;
        }
        let Some(buffer) = out.slot() else { return false };
        let mut cx = context!(self, &flow);
        let Some(emit) = poll(&mut slot.tcp, &mut cx) else { return false };
        let frame =
            Frame { mac, config: &self.config, addresses: &self.addresses, offload: self.offload, traffic_class: 0 };
        let len = frame.build_plain(buffer, &flow, &emit, &mut slot.tcp);
        out.commit(len, Offload::NONE);
        slot.tcp.set_ready(false);
        // The application's timer did not move.
        if let Some(deadline) = slot.tcp.timer() {
            self.wheel.schedule(index, &mut slot.tcp.wheel, deadline);
        }
        true
    }

    /// A connection's turn to send. Returns whether there were slots.
    #[inline(never)]
    pub(crate) fn transmit(&mut self, index: u32, out: &mut impl Egress) -> bool {
        let slot = self.slots.at_mut(index);
        let Some(mac) = self.neighbours.mac(slot.neighbour) else {
            self.transmit_unresolved(index);
            return true;
        };
        let flow = slot.flow();
        let path = Path { mtu: self.config.mtu, v6: !flow.is_v4() };
        let traffic_class = slot.tcp.traffic_class();
        let mut cx = context!(self, &flow);
        let frame =
            Frame { mac, config: &self.config, addresses: &self.addresses, offload: self.offload, traffic_class };
        let burst = frame.burst(path);
        let mut left = SEGMENTS_PER_POLL;
        let found = loop {
            // Data leaves a few slots for acknowledgements and handshakes.
            if slot.tcp.unsent() > 0 && out.room() <= CONTROL_RESERVE {
                break false;
            }
            let Some(buffer) = out.slot() else { break false };
            let Some(emit) = slot.tcp.poll_segment(&mut cx, path, burst) else {
                slot.tcp.set_ready(false);
                break true;
            };
            let (len, offload) = frame.build(buffer, &flow, &emit, &mut slot.tcp);
            if out.watched().at_all() {
                frame.compare_built(out, len, &flow, &emit, &mut slot.tcp);
            }
            out.commit(len, offload);
            if !slot.tcp.wants_poll() {
                slot.tcp.set_ready(false);
                break true;
            }
            left -= 1;
            if left == 0 {
                self.ready.push(index);
                break true;
            }
        };
        Self::enter_deadline(&mut self.wheel, index, slot);
        if slot.tcp.take_delayed_ack() {
            self.delay_ack(index);
        }
        found
    }

    /// The neighbour is not resolved yet: what would be sent first is kept by
    /// the neighbour table, the rest waits for its retransmission timer.
    #[cold]
    fn transmit_unresolved(&mut self, index: u32) {
        let mut buffer = vec![0; usize::from(self.config.mtu) + ipv6::HEADER_LEN];
        let slot = self.slots.at_mut(index);
        if !self.neighbours.can_hold(slot.neighbour, buffer.len()) {
            // Nothing counts as sent: it goes on when a neighbour answers.
            slot.tcp.set_ready(false);
            self.unresolved.push(self.slots.id(index));
            return;
        }
        let flow = slot.flow();
        let path = Path { mtu: self.config.mtu, v6: !flow.is_v4() };
        let traffic_class = slot.tcp.traffic_class();
        let mut cx = context!(self, &flow);
        let none = LinkOffload::default();
        let frame =
            Frame { mac: Mac::ZERO, config: &self.config, addresses: &self.addresses, offload: none, traffic_class };
        for _ in 0..SEGMENTS_PER_POLL {
            let Some(emit) = slot.tcp.poll_segment(&mut cx, path, 0) else { break };
            let (len, _) = frame.build(&mut buffer, &flow, &emit, &mut slot.tcp);
            self.neighbours.hold(slot.neighbour, &buffer[..len]);
        }
        slot.tcp.set_ready(false);
        if slot.tcp.take_delayed_ack() {
            self.delay_ack(index);
        }
        self.schedule(index);
    }

    /// Writes a segment that belongs to no connection, if a slot is free.
    pub(crate) fn reply(&mut self, out: &mut impl Egress, flow: &Flow, mac: Mac, reply: &Reply) {
        self.reply_as(out, flow, mac, reply, 0);
    }

    fn reply_as(&mut self, out: &mut impl Egress, flow: &Flow, mac: Mac, reply: &Reply, traffic_class: u8) {
        let Some(buffer) = out.slot() else {
            self.counters.replies_dropped += 1;
            return;
        };
        let frame =
            Frame { mac, config: &self.config, addresses: &self.addresses, offload: self.offload, traffic_class };
        let len = frame.build_reply(buffer, flow, reply);
        out.commit(len, Offload::NONE);
        self.counters.resets_out += u64::from(reply.flags.contains(Flags::RST));
    }

    #[cold]
    fn poll_resets(&mut self, out: &mut impl Egress) {
        while let Some(reset) = self.resets.front().copied() {
            if out.room() == 0 {
                self.blocked = true;
                return;
            }
            self.resets.pop_front();
            if let Some(mac) = self.neighbours.mac(reset.neighbour) {
                let mut reply = Reply::reset(reset.seq, Some(reset.ack));
                let value = self.stamp(&reset.flow);
                reply.options.timestamps = reset.echo.map(|echo| Timestamps { value, echo });
                self.reply_as(out, &reset.flow, mac, &reply, reset.traffic_class);
            }
        }
    }

    /// Ends a connection at once, with a reset to the peer.
    pub(crate) fn reset_connection(&mut self, id: ConnId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let info = slot.tcp.info();
        let (flow, neighbour) = (slot.flow(), slot.neighbour);
        // RFC 7323 section 3.2: a reset too should carry the timestamps that
        // were agreed on.
        let echo = info.timestamps.then_some(info.ts_recent);
        let traffic_class = slot.tcp.traffic_class();
        let pending = PendingReset { flow, neighbour, seq: info.nxt, ack: info.rcv_nxt, echo, traffic_class };
        let before = slot.tcp.buffered();
        let tell = slot.tcp.abort();
        if tell && self.resets.len() < MAX_PENDING_RESETS {
            self.resets.push_back(pending);
        }
        self.account(id.index() as u32, before);
    }
}

/// What all frames of one connection share.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub mac: Mac,
    pub config: &'a Config,
    pub addresses: &'a Addresses,
    pub offload: LinkOffload,
    /// The DS field's octet; not 0 on the general ways only.
    pub traffic_class: u8,
}

impl Frame<'_> {
    /// Most payload of one hand-over to the link.
    #[inline]
    fn burst(&self, path: Path) -> u32 {
        let headers = if path.v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN } + wire_tcp::MAX_HEADER_LEN;
        match self.offload.segmentation {
            Some(limit) if self.offload.checksum => limit.min(0xffff).saturating_sub(headers as u32),
            _ => 0,
        }
    }

    /// Whether nothing in it is other than in nearly every frame.
    #[inline(always)]
    fn is_usual(&self) -> bool {
        self.config.vlan.is_none() && self.traffic_class == 0
    }

    /// Builds a connection's segment. Returns the frame's length and what the
    /// link is to finish.
    #[inline]
    fn build(&self, out: &mut [u8], flow: &Flow, emit: &Emit, connection: &mut Connection) -> (usize, Offload) {
        let plain = matches!(emit.options, EmitOptions::Plain) && flow.is_v4() && self.is_usual();
        if plain && emit.len <= u32::from(connection.mss()) {
            let len = self.build_plain(out, flow, emit, connection);
            return (len, Offload::NONE);
        }
        if matches!(emit.options, EmitOptions::Syn { .. }) {
            return (self.build_syn(out, flow, emit), Offload::NONE);
        }
        self.build_by_layers(out, flow, emit, connection)
    }

    /// A connection's SYN or SYN,ACK; 0 for any other segment.
    #[inline(always)]
    fn build_syn(&self, out: &mut [u8], flow: &Flow, emit: &Emit) -> usize {
        match opening_of(flow, emit) {
            Some(opening) => self.build_opening(out, flow, &opening),
            None => 0,
        }
    }

    /// Nearly every segment: see [`wire::plain`].
    #[inline(always)]
    fn build_plain(&self, out: &mut [u8], flow: &Flow, emit: &Emit, connection: &mut Connection) -> usize {
        let Some((bytes, sum)) = connection.whole_payload(emit) else {
            cold_path();
            if emit.len == 0 {
                return self.plain_head(out, flow, emit, Sum::ZERO);
            }
            return self.build_summed(out, *flow, *emit, connection);
        };
        let head = self.plain_head(out, flow, emit, sum);
        // Copied last: the header's words are on their way by then.
        let Some(body) = out.get_mut(head..head + bytes.len()) else { return 0 };
        body.copy_from_slice(bytes);
        head + bytes.len()
    }

    /// As [`Frame::build_plain`], where the payload is a piece of a body or of
    /// several. Takes copies, so that the caller need not keep the originals
    /// in memory.
    #[inline(never)]
    fn build_summed(self, out: &mut [u8], flow: Flow, emit: Emit, connection: &mut Connection) -> usize {
        let timestamps =
            if emit.timestamps.is_some() { wire_tcp::ESTABLISHED_HEADER_LEN } else { wire_tcp::HEADER_LEN };
        let at = plain::HEADERS_LEN - wire_tcp::HEADER_LEN + timestamps;
        let len = emit.len as usize;
        let Some(body) = out.get_mut(at..at + len) else { return 0 };
        let sum = if len > 0 { connection.copy_payload(&emit, body) } else { Sum::ZERO };
        self.plain_head(out, &flow, &emit, sum) + len
    }

    #[inline(always)]
    fn plain_head(&self, out: &mut [u8], flow: &Flow, emit: &Emit, sum: Sum) -> usize {
        let timestamps = emit.timestamps.map(|(value, echo)| Timestamps { value, echo });
        plain::emit(out, &self.ends(flow), &established(flow, emit, timestamps), emit.len as usize, sum)
    }

    #[inline(never)]
    pub(crate) fn build_by_layers(
        &self,
        out: &mut [u8],
        flow: &Flow,
        emit: &Emit,
        connection: &mut Connection,
    ) -> (usize, Offload) {
        let timestamps = emit.timestamps.map(|(value, echo)| Timestamps { value, echo });
        let link = self.ethernet(out, flow.is_v4());
        let (header_len, options) = match emit.options {
            EmitOptions::Plain => (if timestamps.is_some() { wire_tcp::ESTABLISHED_HEADER_LEN } else { 20 }, None),
            _ => {
                let options = options_of(emit, timestamps);
                (wire_tcp::HEADER_LEN + options.len(), Some(options))
            }
        };
        let len = emit.len as usize;
        let network = if flow.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let (ip, rest) = out[link..].split_at_mut(network);
        let pseudo = self.network(ip, flow, (header_len + len) as u16);
        let (head, body) = rest.split_at_mut(header_len);
        let text = connection.copy_payload(emit, &mut body[..len]);
        let sum = pseudo.add(text);
        match &options {
            None => {
                established(flow, emit, timestamps).emit(head, sum);
            }
            Some(options) => {
                let header = header_of(flow, emit, *options);
                header.emit(head);
                wire_tcp::set_checksum(head, sum);
            }
        }
        let total = link + network + header_len + len;
        let offload = if self.offload.checksum && len > usize::from(self.config.mtu) - network - header_len {
            let mss = usize::from(self.config.mtu) - network - header_len;
            wire_tcp::set_partial_checksum(head, pseudo);
            let start = (link + network) as u16;
            let checksum = Some(PartialChecksum { start, field: wire_tcp::CHECKSUM_OFFSET });
            Offload { checksum, segment: Some((connection.mss().min(mss as u16)).max(1)) }
        } else {
            Offload::NONE
        };
        (total, offload)
    }

    fn build_reply(&self, out: &mut [u8], flow: &Flow, reply: &Reply) -> usize {
        let link = self.ethernet(out, flow.is_v4());
        let header = TcpHeader {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: reply.seq,
            ack: reply.ack,
            flags: reply.flags,
            window: reply.window,
            urgent: 0,
            options: reply.options,
        };
        let header_len = header.header_len();
        let network = if flow.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let (ip, rest) = out[link..].split_at_mut(network);
        let pseudo = self.network(ip, flow, header_len as u16);
        let head = &mut rest[..header_len];
        header.emit(head);
        wire_tcp::set_checksum(head, pseudo);
        link + network + header_len
    }

    /// Builds a segment that opens a connection.
    #[inline]
    pub(crate) fn build_opening(&self, out: &mut [u8], flow: &Flow, opening: &Opening) -> usize {
        if flow.is_v4() && self.is_usual() {
            let len = plain::emit_opening(out, &self.ends(flow), opening);
            if len > 0 {
                return len;
            }
        }
        self.build_opening_by_layers(out, flow, opening)
    }

    #[inline(never)]
    pub(crate) fn build_opening_by_layers(&self, out: &mut [u8], flow: &Flow, opening: &Opening) -> usize {
        let link = self.ethernet(out, flow.is_v4());
        let header_len = opening.header_len();
        let network = if flow.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let (ip, rest) = out[link..].split_at_mut(network);
        let pseudo = self.network(ip, flow, header_len as u16);
        opening.emit(&mut rest[..header_len], pseudo);
        link + network + header_len
    }

    /// Of a plain frame.
    #[inline(always)]
    fn ends(&self, flow: &Flow) -> Ends {
        Ends {
            to: self.mac,
            from: self.config.mac,
            src: self.addresses.v4(flow.local),
            dst: flow.remote_v4(),
            ttl: DEFAULT_TTL,
        }
    }

    #[inline]
    fn ethernet(&self, out: &mut [u8], v4: bool) -> usize {
        let ether_type = if v4 { ETHER_IPV4 } else { ETHER_IPV6 };
        EthernetHeader { dst: self.mac, src: self.config.mac, vlan: self.config.vlan, ether_type }.emit(out)
    }

    /// Writes the IP header and returns the pseudo-header's sum.
    #[inline]
    fn network(&self, out: &mut [u8], flow: &Flow, payload_len: u16) -> Sum {
        if flow.is_v4() {
            let header = Ipv4Header {
                src: self.addresses.v4(flow.local),
                dst: flow.remote_v4(),
                protocol: protocol::TCP,
                ttl: DEFAULT_TTL,
                dscp_ecn: self.traffic_class,
                // Atomic datagrams need no identification (RFC 6864 section 4).
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                header_len: ipv4::HEADER_LEN as u8,
                payload_len,
            };
            header.emit(out);
            return pseudo_v4(header.src, header.dst, protocol::TCP, payload_len);
        }
        let header = Ipv6Header {
            src: self.addresses.v6(flow.local),
            dst: flow.remote_v6(),
            next_header: protocol::TCP,
            hop_limit: DEFAULT_TTL,
            traffic_class: self.traffic_class,
            flow_label: 0,
            payload_len,
        };
        header.emit(out);
        pseudo_v6(header.src, header.dst, protocol::TCP, u32::from(payload_len))
    }
}

/// What a SYN or SYN,ACK of a connection says; none for any other segment.
#[inline(always)]
pub(crate) fn opening_of(flow: &Flow, emit: &Emit) -> Option<Opening> {
    let EmitOptions::Syn { mss, shift, sack } = emit.options else { return None };
    Some(Opening {
        src_port: flow.local_port,
        dst_port: flow.remote_port,
        seq: emit.seq,
        ack: emit.ack,
        flags: emit.flags,
        window: emit.window,
        mss,
        window_scale: shift,
        sack_permitted: sack,
        timestamps: emit.timestamps.map(|(value, echo)| Timestamps { value, echo }),
    })
}

#[inline]
fn established(flow: &Flow, emit: &Emit, timestamps: Option<Timestamps>) -> Established {
    Established {
        src_port: flow.local_port,
        dst_port: flow.remote_port,
        seq: emit.seq,
        ack: emit.ack,
        flags: emit.flags,
        window: emit.window,
        timestamps,
    }
}

fn options_of(emit: &Emit, timestamps: Option<Timestamps>) -> TcpOptions {
    let mut options = TcpOptions { timestamps, ..TcpOptions::default() };
    match emit.options {
        // A SYN's are written by `build_opening`.
        EmitOptions::Plain | EmitOptions::Syn { .. } => {}
        EmitOptions::Sack(blocks) => options.sack = blocks,
    }
    options
}

fn header_of(flow: &Flow, emit: &Emit, options: TcpOptions) -> TcpHeader {
    TcpHeader {
        src_port: flow.local_port,
        dst_port: flow.remote_port,
        seq: emit.seq,
        ack: emit.ack,
        flags: emit.flags,
        window: emit.window,
        urgent: 0,
        options,
    }
}
