//! Segments without a connection: new handshakes, half-open ones, cookies,
//! TIME-WAIT, and the rest.

use crate::egress::{Frame, Reply};
use crate::flow::{Flow, Owner};
use crate::ingress::{Arrival, Arrived, CHALLENGE_INTERVAL_MS, Envelope};
use crate::neighbour::NeighbourId;
use crate::replies::Pending;
use crate::secret::STAMP_BITS;
use crate::shadow::Way;
use crate::syn::HalfOpen;
use crate::{Egress, Stack};
use app::ConnId;
use core::time::Duration;
use tcp::{Agreed, Connection, Outcome, Path, SocketOptions, agree_on};
use wire::tcp::{Flags, MAX_HEADER_LEN, Opening, SeqNum, TcpHeader, TcpOptions, Timestamps};
use wire::{Mac, Offload, ethernet, ipv6};

/// Cookies are looked for this long after the last was sent: what the peer's
/// last retransmission may take.
const COOKIE_LIFETIME: Duration = Duration::from_secs(192);

/// In a cookie's timestamp: no window scaling.
const NO_SHIFT: u32 = 15;
const SACK_BIT: u32 = 1 << 4;

/// The longest frame that opens a connection.
const OPENING_FRAME: usize = ethernet::HEADER_LEN_VLAN + ipv6::HEADER_LEN + MAX_HEADER_LEN;

const _: () = assert!(SACK_BIT | NO_SHIFT == (1 << STAMP_BITS) - 1);

/// What an acknowledgement is, where cookies are in use.
enum Cookie {
    /// It proves a cookie of ours: here is the connection.
    Accepted(ConnId),
    /// It proves one, and there is no room for the connection yet.
    Deferred,
    /// It proves one, and the client has as many connections as it may have.
    Refused,
    /// It proves none.
    Wrong,
}

impl Stack {
    /// No connection, handshake or record has this flow.
    pub(crate) fn on_unknown<'f>(
        &mut self,
        flow: Flow,
        hash: u64,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if envelope.src != self.last_source && self.is_forged(envelope.src) {
            // RFC 9293 section 3.9.2.3 (MUST-57), RFC 1122 section 4.2.3.10;
            // an address of our own would have us talk to ourselves.
            self.counters.martian += 1;
            return None;
        }
        let listening = self.config.listen.contains(&flow.local_port) && flow.remote_port != 0;
        const KIND: Flags = Flags(Flags::SYN.0 | Flags::ACK.0 | Flags::RST.0);
        let kind = header.flags.0 & KIND.0;
        if listening && kind == Flags::SYN.0 && !header.flags.contains(Flags::FIN) {
            self.on_syn(flow, hash, envelope, header, None, out);
            return None;
        }
        if listening && kind == Flags::ACK.0 && self.cookies_in_use() {
            match self.accept_cookie(flow, hash, envelope, header) {
                Cookie::Accepted(id) => return self.on_accepted(id, header, payload, out),
                // The peer sends again, and by then there may be room.
                Cookie::Deferred => return None,
                Cookie::Refused => {
                    self.reset_unknown(&flow, envelope.mac, header, payload, out);
                    return None;
                }
                // It may be a cookie's second segment, whose first was lost or
                // overtaken: the proof comes with the first, if it is let. A
                // reset would end a connection that the peer holds for open.
                Cookie::Wrong => {
                    self.counters.cookies_failed += 1;
                    self.note_stray(&flow, envelope, None);
                    return None;
                }
            }
        }
        if listening && kind & (Flags::ACK.0 | Flags::RST.0) == 0 {
            // RFC 9293 section 3.10.7.2, fourth: what carries neither RST, ACK
            // nor SYN is dropped; and so is a SYN that would end what it
            // begins, which only port scanners send.
            self.counters.listen_dropped += 1;
            return None;
        }
        self.counters.refused += u64::from(kind == Flags::SYN.0);
        if kind == Flags::SYN.0 {
            self.reset_unknown(&flow, envelope.mac, header, payload, out);
        } else {
            self.refuse_or_note(&flow, envelope, header, payload, out);
        }
        None
    }

    /// A SYN in TIME-WAIT that opens a new connection; `used` is SND.NXT of the
    /// one before.
    #[inline(never)]
    fn on_syn_again(
        &mut self,
        flow: Flow,
        hash: u64,
        envelope: &Envelope,
        header: &TcpHeader,
        used: SeqNum,
        out: &mut impl Egress,
    ) {
        self.on_syn(flow, hash, envelope, header, Some(used), out);
    }

    /// A SYN to a listening port (RFC 9293 section 3.10.7.2). `used` is SND.NXT
    /// of the flow's connection before.
    #[inline(always)]
    fn on_syn(
        &mut self,
        flow: Flow,
        hash: u64,
        envelope: &Envelope,
        header: &TcpHeader,
        used: Option<SeqNum>,
        out: &mut impl Egress,
    ) {
        if self.is_crowded() {
            self.counters.syn_dropped += 1;
            return;
        }
        if !self.admits(&flow) {
            self.reset_unknown(&flow, envelope.mac, header, &[], out);
            return;
        }
        let irs = header.seq;
        if self.syns.is_full() {
            self.send_cookie(&flow, envelope, header, out);
            return;
        }
        self.last_source = envelope.src;
        let iss = self.isn_after(&flow, used);
        let agreed = agree_on(&self.config.tcp, !flow.is_v4(), iss, irs, &header.options);
        let neighbour = self.neighbour_of(envelope);
        let entry = self.syns.insert(flow, hash, agreed, neighbour, header.window, self.now_ms);
        if !self.table.insert(hash, Owner::Syn(entry)) {
            self.syns.remove(entry);
            self.counters.syn_dropped += 1;
            return;
        }
        self.neighbours.pin(neighbour);
        self.counters.handshakes += 1;
        self.send_syn_ack(entry, out);
    }

    /// The initial sequence number for a connection, beyond all numbers of the
    /// one before (RFC 1122 section 4.2.2.13 (b)): the clock does not pass a
    /// connection that sent faster than it counts. What was in flight last may
    /// be beyond SND.NXT by a window (Linux: `tcp_timewait_state_process`).
    fn isn_after(&self, flow: &Flow, used: Option<SeqNum>) -> SeqNum {
        const WINDOW: u32 = 0xffff;
        let isn = self.secret.isn(flow, self.now);
        match used.map(|nxt| nxt.plus(WINDOW + 2)) {
            Some(least) if isn.before(least) => least,
            _ => isn,
        }
    }

    /// Sends, or sends again, the SYN,ACK of a half-open handshake: when there
    /// is a slot for it, and its neighbour is known.
    pub(crate) fn send_syn_ack(&mut self, entry: u32, out: &mut impl Egress) {
        let HalfOpen { flow, agreed, neighbour, .. } = self.syns.get(entry);
        let timestamps = agreed.timestamps.map(|echo| Timestamps { value: self.stamp(flow), echo });
        let opening = self.syn_ack(flow, agreed, timestamps);
        let Some(mac) = self.neighbours.mac_unused(*neighbour) else { return self.hold_syn_ack(entry, &opening) };
        if !self.send_opening(out, flow, mac, &opening) {
            self.reply_later(Pending::SynAck(entry));
        }
    }

    /// The way back leads through a neighbour that is not resolved yet.
    #[cold]
    fn hold_syn_ack(&mut self, entry: u32, opening: &Opening) {
        let HalfOpen { flow, neighbour, .. } = self.syns.get(entry);
        let mut buffer = [0; OPENING_FRAME];
        let frame = self.opening_frame(flow, Mac::ZERO);
        let len = frame.build_opening(&mut buffer, flow, opening);
        self.neighbours.hold(*neighbour, &buffer[..len]);
    }

    /// Writes a SYN,ACK; whether there was a slot for it.
    #[inline(always)]
    fn send_opening(&self, out: &mut impl Egress, flow: &Flow, mac: Mac, opening: &Opening) -> bool {
        let Some(buffer) = out.slot() else { return false };
        let frame = self.opening_frame(flow, mac);
        let len = frame.build_opening(buffer, flow, opening);
        if out.watched().by_anybody() {
            frame.compare_opening(out, len, flow, opening);
        }
        out.commit(len, Offload::NONE);
        true
    }

    #[inline(always)]
    fn opening_frame(&self, flow: &Flow, mac: Mac) -> Frame<'_> {
        let traffic_class = self.listener_options(flow.local_port).map_or(0, |options| options.traffic_class);
        Frame { mac, config: &self.config, addresses: &self.addresses, offload: self.offload, traffic_class }
    }

    /// The options of the listener on a port, if it has any.
    #[inline(always)]
    fn listener_options(&self, port: u16) -> Option<&SocketOptions> {
        if self.listener_options.is_empty() {
            return None;
        }
        self.find_listener_options(port)
    }

    #[cold]
    fn find_listener_options(&self, port: u16) -> Option<&SocketOptions> {
        self.listener_options.iter().find(|(of, _)| *of == port).map(|(_, options)| options)
    }

    /// A client has one connection more, if anybody counts.
    #[inline(always)]
    pub(crate) fn note_opened(&mut self, flow: &Flow) {
        if self.sources.is_on() {
            self.sources.opened(flow.remote());
        }
    }

    /// A client has one connection less, if anybody counts.
    #[inline(always)]
    pub(crate) fn note_closed(&mut self, flow: &Flow) {
        if self.sources.is_on() {
            self.sources.closed(flow.remote());
        }
    }

    #[inline(always)]
    fn syn_ack(&self, flow: &Flow, agreed: &Agreed, timestamps: Option<Timestamps>) -> Opening {
        let path = Path { mtu: self.config.mtu, v6: !flow.is_v4() };
        let most = self.listener_options(flow.local_port).and_then(|options| options.max_segment);
        Opening {
            src_port: flow.local_port,
            dst_port: flow.remote_port,
            seq: agreed.iss,
            ack: agreed.irs.plus(1),
            flags: Flags::SYN.union(Flags::ACK),
            window: self.config.tcp.receive_limit.min(0xffff) as u16,
            mss: most.map_or(path.announced_mss(), |most| most.min(path.announced_mss())),
            window_scale: agreed.peer_shift.map(|_| self.config.tcp.window_shift()),
            sack_permitted: agreed.sack,
            timestamps,
        }
    }

    /// Our timestamp clock for a flow.
    pub(crate) fn stamp(&self, flow: &Flow) -> u32 {
        self.now_ms.wrapping_add(self.hasher.timestamp_offset(flow))
    }

    /// Answers a SYN without keeping anything (RFC 4987 section 3.6).
    #[cold]
    fn send_cookie(&mut self, flow: &Flow, envelope: &Envelope, header: &TcpHeader, out: &mut impl Egress) {
        let mut agreed = agree_on(&self.config.tcp, !flow.is_v4(), SeqNum(0), header.seq, &header.options);
        agreed.iss = self.secret.cookie(flow, header.seq, agreed.peer_mss, self.now);
        let timestamps = agreed.timestamps.map(|echo| {
            // What the cookie has no room for goes into our timestamp's low
            // bits; it is moved back, never ahead of the clock.
            let shift = agreed.peer_shift.map_or(NO_SHIFT, u32::from);
            let bits = shift | if agreed.sack { SACK_BIT } else { 0 };
            let mask = (1 << STAMP_BITS) - 1;
            let clock = self.now_ms;
            let mut coded = (clock & !mask) | bits;
            if coded > clock {
                coded = coded.wrapping_sub(1 << STAMP_BITS);
            }
            Timestamps { value: coded.wrapping_add(self.hasher.timestamp_offset(flow)), echo }
        });
        if timestamps.is_none() {
            agreed.peer_shift = None;
            agreed.sack = false;
        }
        self.last_cookie = Some(self.now);
        self.counters.cookies_sent += 1;
        let opening = self.syn_ack(flow, &agreed, timestamps);
        // Nothing is kept of it, so nothing can be sent later: the peer's SYN
        // comes again.
        let sent = self.send_opening(out, flow, envelope.mac, &opening);
        self.counters.replies_dropped += u64::from(!sent);
    }

    fn cookies_in_use(&self) -> bool {
        self.last_cookie.is_some_and(|last| self.now.since(last) < COOKIE_LIFETIME)
    }

    /// Whether a flow's client may have one more connection; counted if not.
    #[inline(always)]
    fn admits(&mut self, flow: &Flow) -> bool {
        !self.sources.is_on() || self.has_room_for(flow)
    }

    #[cold]
    fn has_room_for(&mut self, flow: &Flow) -> bool {
        let admits = self.sources.admits(flow.remote());
        self.counters.source_limited += u64::from(!admits);
        admits
    }

    /// A connection from an acknowledgement that proves our cookie.
    #[cold]
    fn accept_cookie(&mut self, flow: Flow, hash: u64, envelope: &Envelope, header: &TcpHeader) -> Cookie {
        let irs = header.seq.minus(1);
        let iss = header.ack.minus(1);
        let Some(peer_mss) = self.secret.check_cookie(&flow, irs, iss, self.now) else { return Cookie::Wrong };
        if !self.admits(&flow) {
            return Cookie::Refused;
        }
        if self.slots.is_full() {
            self.want_room();
            return Cookie::Deferred;
        }
        let mut agreed = Agreed { iss, irs, peer_mss, peer_shift: None, sack: false, timestamps: None };
        if let Some(ts) = header.options.timestamps.filter(|_| self.config.tcp.timestamps) {
            let bits = ts.echo.wrapping_sub(self.hasher.timestamp_offset(&flow));
            let shift = bits & NO_SHIFT;
            agreed.peer_shift = (shift != NO_SHIFT).then_some(shift as u8);
            agreed.sack = bits & SACK_BIT != 0;
            agreed.timestamps = Some(ts.value);
        }
        let neighbour = self.neighbour_of(envelope);
        let window = u32::from(header.window) << agreed.peer_shift.unwrap_or(0).min(tcp::config::MAX_WINDOW_SHIFT);
        let id = self.create(flow, neighbour, &agreed, window.min(0xffff) as u16);
        if !self.table.insert(hash, Owner::Connection(id.index() as u32)) {
            self.neighbours.unpin(neighbour);
            self.sources.closed(flow.remote());
            self.slots.remove(id.index() as u32);
            return Cookie::Deferred;
        }
        self.counters.cookies_accepted += 1;
        Cookie::Accepted(id)
    }

    /// A segment for a half-open handshake (RFC 9293 section 3.10.7.4 in
    /// SYN-RECEIVED).
    pub(crate) fn on_half_open<'f>(
        &mut self,
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
                self.drop_half_open(entry);
            }
            return None;
        }
        if header.flags.contains(Flags::SYN) {
            // The SYN again: our answer was lost. Another SYN is challenged
            // by the same answer.
            self.send_syn_ack(entry, out);
            return None;
        }
        if !header.flags.contains(Flags::ACK) {
            return None;
        }
        if header.ack != iss.plus(1) {
            // It may answer a cookie that was sent when the queue was full.
            if self.cookies_in_use()
                && self.secret.check_cookie(&half_open.flow, irs, header.ack.minus(1), self.now).is_some()
            {
                if self.slots.is_full() {
                    // As `accept_cookie` would: the handshake stays, so that
                    // what the peer sends again finds it.
                    self.want_room();
                    return None;
                }
                self.drop_half_open(entry);
                return self.on_unknown(half_open.flow, half_open.hash, envelope, header, payload, out);
            }
            // Where flows have moved, another silo may have answered the SYN.
            self.refuse_or_note(&half_open.flow, envelope, header, payload, out);
            return None;
        }
        let old = match (timestamps, &header.options.timestamps) {
            (Some(recent), Some(ts)) => (ts.value.wrapping_sub(recent) as i32) < 0,
            _ => false,
        };
        let in_window = header.seq.forward_from(irs.plus(1)) < self.config.tcp.receive_limit.min(0xffff);
        if old || !in_window {
            self.send_syn_ack(entry, out);
            return None;
        }
        self.complete(entry, &half_open, envelope, header, payload, out)
    }

    /// A handshake's last segment: the connection, if it may be and there is
    /// room for it.
    #[inline(always)]
    fn complete<'f>(
        &mut self,
        entry: u32,
        half_open: &HalfOpen,
        envelope: &Envelope,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        if !self.admits(&half_open.flow) {
            self.drop_half_open(entry);
            self.reset_unknown(&half_open.flow, envelope.mac, header, payload, out);
            return None;
        }
        if self.slots.is_full() {
            self.want_room();
            return None;
        }
        let HalfOpen { flow, hash, agreed, neighbour, window, .. } = *half_open;
        let id = self.create(flow, neighbour, &agreed, window);
        if let Some(ms) = half_open.answered_after(self.now_ms) {
            self.slots.at_mut(id.index() as u32).tcp.on_handshake_time(ms);
        }
        self.schedule(id.index() as u32);
        self.table.replace(hash, Owner::Syn(entry), Owner::Connection(id.index() as u32));
        self.neighbours.confirm(neighbour, self.now); // Our SYN,ACK arrived.
        self.neighbours.unpin(neighbour);
        self.syns.remove(entry);
        self.on_accepted(id, header, payload, out)
    }

    /// The segment that completed the handshake goes to the new connection.
    fn on_accepted<'f>(
        &mut self,
        id: ConnId,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        self.counters.accepted += 1;
        let slot = id.index() as u32;
        // Nearly always, a request comes with it.
        let light = if out.watched().by_anybody() {
            self.compare_arrival(Way::Light, slot, header, payload, out)
        } else {
            header.established().and_then(|light| {
                let flow = self.slots.at(slot).flow();
                self.on_light(slot, &flow, &light, payload)
            })
        };
        let mut arrival = match light {
            Some(Arrived::Segment(arrival)) => arrival,
            Some(Arrived::Data(id, data)) => {
                // More is to be told of it, so it has its turn with the others.
                self.ready.push(slot);
                let outcome = Outcome { len: data.len() as u32, ..Outcome::default() };
                Arrival { id, outcome, data, accepted: true }
            }
            Some(Arrived::Nothing | Arrived::Stray | Arrived::Full) | None => {
                self.on_connection(slot, header, payload, out)?
            }
        };
        arrival.outcome.opened = true;
        arrival.accepted = true;
        Some(arrival)
    }

    fn create(&mut self, flow: Flow, neighbour: NeighbourId, agreed: &Agreed, window: u16) -> ConnId {
        let mtu = self.path_mtus.get(flow.remote(), self.now).unwrap_or(self.config.mtu).min(self.config.mtu);
        let path = Path { mtu, v6: !flow.is_v4() };
        let mut cx = context!(self, &flow);
        let mut connection = Connection::accept(&mut cx, path, agreed, window);
        if let Some(options) = self.listener_options(flow.local_port) {
            connection.inherit(&self.config.tcp, *options);
        }
        self.neighbours.pin(neighbour);
        self.note_opened(&flow);
        self.slots.insert(flow, neighbour, connection)
    }

    pub(crate) fn drop_half_open(&mut self, entry: u32) {
        let HalfOpen { hash, neighbour, .. } = *self.syns.get(entry);
        self.table.remove(hash, Owner::Syn(entry));
        self.neighbours.unpin(neighbour);
        self.syns.remove(entry);
    }

    /// A segment for a connection in TIME-WAIT (RFC 9293 section 3.10.7.4).
    pub(crate) fn on_time_wait<'f>(
        &mut self,
        record: u32,
        envelope: &Envelope,
        hash: u64,
        header: &TcpHeader,
        payload: &'f [u8],
        out: &mut impl Egress,
    ) -> Option<Arrival<'f>> {
        let waiting = *self.waits.get(record);
        if header.flags.contains(Flags::RST) {
            // RFC 1337: TIME-WAIT is not to be assassinated.
            return None;
        }
        if !header.flags.intersects(Flags::ACK.union(Flags::SYN)) {
            // RFC 9293 section 3.10.7.4, fifth: without ACK it is dropped.
            return None;
        }
        let fresh = header.seq.after(waiting.rcv_nxt);
        let newer = match (waiting.ts_recent, &header.options.timestamps) {
            // RFC 6191 section 2.
            (Some(recent), Some(ts)) => (ts.value.wrapping_sub(recent) as i32) > 0 || (ts.value == recent && fresh),
            (Some(_), None) | (None, _) => fresh,
        };
        let syn = header.flags.contains(Flags::SYN) && !header.flags.intersects(Flags::ACK.union(Flags::FIN));
        if syn && newer && self.config.listen.contains(&waiting.flow.local_port) {
            if self.syns.is_full() && waiting.ts_recent.is_none() {
                // A cookie has no room for a number beyond the old ones, and
                // nothing else would tell the two connections' segments apart.
                self.counters.syn_dropped += 1;
                return None;
            }
            self.counters.time_wait_reused += 1;
            self.drop_time_wait(record);
            self.on_syn_again(waiting.flow, hash, envelope, header, waiting.snd_nxt, out);
            return None;
        }
        let bare = payload.is_empty() && !header.flags.intersects(Flags::SYN.union(Flags::FIN));
        if bare && header.seq == waiting.rcv_nxt {
            return None;
        }
        let end = header.seq.plus(tcp::connection::segment_len(header, payload));
        let fin_again = header.flags.contains(Flags::FIN) && end == waiting.rcv_nxt;
        let may = fin_again || self.waits.may_answer(record, CHALLENGE_INTERVAL_MS, self.now_ms);
        if !may || !self.challenges.take(self.now) {
            // The segment may be anybody's, and any number of them; a peer
            // that did not hear of its FIN sends it again.
            self.counters.challenges_limited += 1;
            return None;
        }
        let mut record = record;
        if fin_again && let Some(moved) = self.waits.restart(record, self.now_ms) {
            // The peer's FIN again: it did not hear of our acknowledgement,
            // and the wait is as long again (RFC 9293 section 3.10.7.4).
            self.table.replace(hash, Owner::TimeWait(record), Owner::TimeWait(moved));
            record = moved;
        }
        self.send_time_wait(record, envelope.mac, out);
        None
    }

    /// Acknowledges the peer's FIN once more.
    pub(crate) fn send_time_wait(&mut self, record: u32, mac: Mac, out: &mut impl Egress) {
        if out.slot().is_none() {
            self.reply_later(Pending::TimeWait(record, mac));
            return;
        }
        let waiting = *self.waits.get(record);
        let stamp = self.stamp(&waiting.flow);
        let timestamps = waiting.ts_recent.map(|echo| Timestamps { value: stamp, echo });
        let reply = Reply {
            seq: waiting.snd_nxt,
            ack: waiting.rcv_nxt,
            flags: Flags::ACK,
            window: 0,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
        };
        self.reply(out, &waiting.flow, mac, &reply);
    }

    pub(crate) fn drop_time_wait(&mut self, record: u32) {
        let hash = self.waits.get(record).hash;
        self.table.remove(hash, Owner::TimeWait(record));
        self.waits.remove(record);
    }
}
