//! Connections have their turns to send.

use super::build::{Frame, Payload, Queued};
use super::sealed::Single;
use super::{Slot, Tcp};
use crate::egress::{CONTROL_RESERVE, Egress};
use crate::ip::Ip;
use crate::shadow::Way;
use app::ConnId;
use core::hint::cold_path;
use tcp::{Connection, Context, Emit, FEW, Path, State, Steady, Treatment};
use wire::tcp as wire_tcp;
use wire::{Mac, Offload, Time, ipv6};

/// Segments that one connection sends before the next connection's turn.
const SEGMENTS_PER_POLL: usize = 16;
/// Connections that one turn serves; the others wait for the next turn.
const CONNECTIONS_PER_TURN: usize = 1024;

impl Tcp {
    /// Whether nothing waits that a slot would help.
    #[inline(always)]
    pub fn is_silent(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Whether connections have something to send.
    #[inline(always)]
    pub fn has_ready(&self) -> bool {
        !self.outbox.ready.is_empty()
    }

    /// Segments sent so far.
    pub const fn segments_out(&self) -> u64 {
        self.common.counters.segments_out
    }

    /// Those that are ready have their turn. Whether there were slots for
    /// them.
    #[inline(always)]
    pub fn poll_ready(&mut self, ip: &mut Ip, out: &mut impl Egress) -> bool {
        let turn = self.outbox.begin_turn();
        let mut done = 0;
        let mut found = true;
        let untagged = ip.is_untagged();
        for &index in turn.iter().take(CONNECTIONS_PER_TURN) {
            // An entry may outlive its connection; it is then skipped here.
            if self.slots.at(index).tcp.is_ready() {
                let sent = match self.slots.at(index).tcp.state() {
                    _ if !untagged => false,
                    State::Established if self.slots.at(index).tcp.has_cold() => self.transmit_steady(ip, index, out),
                    State::Established if self.slots.at(index).tcp.has_few() => self.transmit_few(ip, index, out),
                    // It was told something, and has not answered.
                    State::Established if !out.watched().by_anybody() && self.leave(index) => true,
                    State::Established => self.transmit_light_apart(ip, index, out),
                    State::SynSent => self.transmit_first(ip, index, out),
                    _ => self.transmit_last(ip, index, out),
                };
                if !sent && !self.transmit(ip, index, out) {
                    self.counters.no_slot += 1;
                    found = false;
                    break;
                }
            }
            done += 1;
        }
        self.outbox.end_turn(turn, done);
        found
    }

    /// A connection that an arrival left unsettled: what the application
    /// answered leaves now, while all that it takes is at hand, or has its turn
    /// with the others. Only plain segments leave a connection unsettled, so
    /// that frames here have no VLAN tag.
    #[inline(always)]
    pub fn settle(&mut self, ip: &mut Ip, id: ConnId, out: &mut impl Egress) {
        self.settle_or_leave(ip, id, out, || false);
    }

    /// The same; where nothing leaves and the application `answers_later`, as [`Tcp::settle_unanswered`].
    #[inline(always)]
    pub fn settle_or_leave(
        &mut self,
        ip: &mut Ip,
        id: ConnId,
        out: &mut impl Egress,
        answers_later: impl FnOnce() -> bool,
    ) {
        let index = id.index() as u32;
        if self.transmit_light(ip, index, out) {
            return;
        }
        let few = self.slots.at(index).tcp.has_few();
        if !few || !self.transmit_few(ip, index, out) {
            cold_path();
            if few || !answers_later() || out.watched().by_anybody() || !self.leave(index) {
                self.outbox.ready.push(index);
            }
        }
    }

    /// The same where the application has not answered. A connection that owes its peer no more
    /// than an acknowledgement which may wait is left as its turn to send would have left it. Where
    /// more segments of it follow in this burst and have it acknowledged at once, the time that was
    /// noted here still ends: what comes then is acknowledged sooner, once.
    #[inline(always)]
    pub fn settle_unanswered(&mut self, ip: &mut Ip, id: ConnId, out: &mut impl Egress) {
        if out.watched().by_anybody() || !self.leave(id.index() as u32) {
            cold_path();
            self.settle(ip, id, out);
        }
    }

    /// Leaves a connection that owes its peer no more than an acknowledgement which may wait as its turn to send
    /// would have left it; whether it is one.
    #[inline(always)]
    fn leave(&mut self, index: u32) -> bool {
        let slot = self.slots.at_mut(index);
        if !slot.tcp.has_nothing_due() {
            return false;
        }
        slot.tcp.set_ready(false);
        self.timers.enter_deadline(index, slot);
        if slot.tcp.take_delayed_ack() {
            self.delay_ack(index);
        }
        true
    }

    /// The same for a secured connection.
    #[inline(never)]
    pub fn settle_sealed(&mut self, ip: &mut Ip, id: ConnId, out: &mut impl Egress) {
        let index = id.index() as u32;
        if !self.transmit_single(ip, index, out) {
            cold_path();
            self.outbox.ready.push(index);
        }
    }

    /// As [`Tcp::transmit_light`], for those that something else than a
    /// segment made ready.
    #[inline(never)]
    fn transmit_light_apart(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if self.slots.at(index).tcp.is_sealed() {
            cold_path();
            return self.transmit_single_apart(ip, index, out);
        }
        self.transmit_light(ip, index, out)
    }

    #[inline(never)]
    fn transmit_single_apart(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        self.transmit_single(ip, index, out)
    }

    /// A connection's turn to send, if one plain segment is all of it.
    #[inline(always)]
    pub(super) fn transmit_light(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(ip, Way::SendLight, index, out);
        }
        self.transmit_one(
            ip,
            index,
            out,
            #[inline(always)]
            |tcp, cx| tcp.poll_light(cx),
        )
    }

    /// The same for a secured connection, if one record in a plain segment is all of it, and
    /// its keys are not to be looked after.
    #[inline(always)]
    pub(super) fn transmit_single(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(ip, Way::SendSealed, index, out);
        }
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else { return false };
        let flow = slot.flow();
        if out.room() <= CONTROL_RESERVE {
            return false;
        }
        let Some((sealing, epoch)) = self.seals.single(index) else { return false };
        let Some(buffer) = out.slot() else { return false };
        let mut cx = self.common.context(&flow);
        let Some((emit, fixed)) = slot.tcp.poll_light_sealed(&mut cx, epoch) else { return false };
        let mut single = Single { sealing, fixed: Some(fixed) };
        let frame = Frame(ip.to(mac, Treatment::default()));
        let len = frame.build_piece_of(buffer, &flow, &emit, &mut slot.tcp, &mut single);
        let failed = single.failed();
        slot.tcp.set_ready(false);
        if let Some(deadline) = slot.tcp.timer() {
            self.timers.enter(index, slot, deadline);
        }
        if failed {
            cold_path();
            self.after_sealing(index, true);
        } else {
            out.commit(len, Offload::NONE);
        }
        true
    }

    /// The same where that is a few plain segments.
    #[inline(never)]
    pub(super) fn transmit_few(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(ip, Way::SendFew, index, out);
        }
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else { return false };
        // All of them leave, or none: the link would take several in one piece.
        if ip.is_cut_by_link() || out.room() < CONTROL_RESERVE + FEW as usize {
            return false;
        }
        let flow = slot.flow();
        let most = u32::from(slot.tcp.mss());
        let mut cx = self.common.context(&flow);
        let Some(emit) = slot.tcp.poll_few(&mut cx) else { return false };
        let frame = Frame(ip.to(mac, Treatment::default()));
        let mut sent = 0;
        while sent < emit.len {
            let Some(buffer) = out.slot() else { break };
            let piece = emit.piece(sent, most);
            let len = frame.build_piece(buffer, &flow, &piece, &mut slot.tcp);
            out.commit(len, Offload::NONE);
            sent += piece.len;
        }
        slot.tcp.set_ready(false);
        if let Some(deadline) = slot.tcp.timer() {
            self.timers.enter(index, slot, deadline);
        }
        true
    }

    /// The same for what the pacer of a steady connection lets go (see
    /// [`tcp::Connection::poll_steady`]).
    #[inline(never)]
    pub(super) fn transmit_steady(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(ip, Way::SendSteady, index, out);
        }
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else { return false };
        // A whole share leaves, if there is so much: slots need not be counted.
        if ip.is_cut_by_link() || out.room() <= CONTROL_RESERVE + SEGMENTS_PER_POLL {
            return false;
        }
        let flow = slot.flow();
        let frame = Frame(ip.to(mac, Treatment::default()));
        let mut cx = self.common.context(&flow);
        let mut done = 0;
        while done < SEGMENTS_PER_POLL {
            let Some(buffer) = out.slot() else { break };
            let until = match slot.tcp.poll_steady(&mut cx) {
                None => break,
                Some(Steady::Wait(at)) => Some(at),
                Some(Steady::Send(emit)) => {
                    let len = frame.build_piece(buffer, &flow, &emit, &mut slot.tcp);
                    out.commit(len, Offload::NONE);
                    done += 1;
                    slot.tcp.wait_steady(&cx)
                }
            };
            if let Some(at) = until {
                slot.tcp.set_ready(false);
                return self.after_turn(index, Sent::Until(at));
            }
        }
        // What else it has to send, or to note, is not for this way.
        done > 0 && self.transmit_from(ip, index, out, done)
    }

    /// The same for the segments that end a connection.
    #[inline(never)]
    pub(super) fn transmit_last(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(ip, Way::SendOrderly, index, out);
        }
        self.transmit_one(ip, index, out, |tcp, cx| tcp.poll_orderly(cx))
    }

    /// The same for the SYN that opens one.
    #[inline(never)]
    pub(super) fn transmit_first(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if out.watched().by_anybody() {
            return self.compare_sent(ip, Way::SendOpening, index, out);
        }
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else { return false };
        let flow = slot.flow();
        let path = Path { mtu: ip.mtu(), v6: !flow.is_v4() };
        let Some(buffer) = out.slot() else { return false };
        let mut cx = self.common.context(&flow);
        let Some(emit) = slot.tcp.poll_opening(&mut cx, path) else { return false };
        let frame = Frame(ip.to(mac, Treatment::default()));
        let len = frame.build_syn(buffer, &flow, &emit);
        out.commit(len, Offload::NONE);
        slot.tcp.set_ready(false);
        self.timers.enter_deadline(index, slot);
        true
    }

    #[inline(always)]
    fn transmit_one(
        &mut self,
        ip: &mut Ip,
        index: u32,
        out: &mut impl Egress,
        poll: impl FnOnce(&mut Connection, &mut Context<'_>) -> Option<Emit>,
    ) -> bool {
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else { return false };
        let flow = slot.flow();
        if out.room() <= CONTROL_RESERVE {
            return false;
        }
        let Some(buffer) = out.slot() else { return false };
        let mut cx = self.common.context(&flow);
        let Some(emit) = poll(&mut slot.tcp, &mut cx) else { return false };
        let frame = Frame(ip.to(mac, Treatment::default()));
        let len = frame.build_plain(buffer, &flow, &emit, &mut slot.tcp);
        out.commit(len, Offload::NONE);
        slot.tcp.set_ready(false);
        // The application's timer did not move.
        if let Some(deadline) = slot.tcp.timer() {
            self.timers.enter(index, slot, deadline);
        }
        true
    }

    /// A connection's turn to send. Returns whether there were slots.
    #[inline(never)]
    pub(super) fn transmit(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        if self.slots.at(index).tcp.is_sealed() {
            cold_path();
            return self.transmit_sealed(ip, index, out);
        }
        self.transmit_from(ip, index, out, 0)
    }

    /// The same for one that is not secured, of whose share so many segments have left.
    #[inline]
    fn transmit_from(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress, done: usize) -> bool {
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else {
            self.transmit_unresolved(ip, index);
            return true;
        };
        let mut cx = self.common.context(&slot.flow());
        let sent = send_segments(slot, &mut cx, ip, mac, (out, done), &mut Queued);
        self.after_turn(index, sent)
    }

    /// The same, for a secured connection: its payload are records.
    #[inline(never)]
    fn transmit_sealed(&mut self, ip: &mut Ip, index: u32, out: &mut impl Egress) -> bool {
        self.tend(index);
        let slot = self.slots.at_mut(index);
        let Some(mac) = ip.neighbours.mac(slot.neighbour) else {
            self.transmit_unresolved(ip, index);
            return true;
        };
        let Some(mut sealing) = self.seals.payload(index) else {
            slot.tcp.set_ready(false);
            return true;
        };
        let mut cx = self.common.context(&slot.flow());
        let sent = send_segments(slot, &mut cx, ip, mac, (out, 0), &mut sealing);
        sealing.end(&mut slot.tcp);
        let failed = sealing.failed;
        let found = self.after_turn(index, sent);
        self.after_sealing(index, failed);
        found
    }

    #[inline(always)]
    fn after_turn(&mut self, index: u32, sent: Sent) -> bool {
        if sent == Sent::Share {
            self.outbox.ready.push(index);
        }
        let slot = self.slots.at_mut(index);
        self.timers.enter_deadline(index, slot);
        if let Sent::Until(at) = sent {
            self.timers.enter_paced(index, slot, at, self.common.now);
        }
        if slot.tcp.take_delayed_ack() {
            self.delay_ack(index);
        }
        sent != Sent::NoSlot
    }

    /// The neighbour is not resolved yet: what would be sent first is kept by
    /// the neighbour table, the rest waits for its retransmission timer.
    #[cold]
    fn transmit_unresolved(&mut self, ip: &mut Ip, index: u32) {
        let mut buffer = vec![0; usize::from(ip.mtu()) + ipv6::HEADER_LEN];
        let slot = self.slots.at_mut(index);
        let neighbour = slot.neighbour;
        if !ip.neighbours.can_hold(neighbour, buffer.len()) {
            // Nothing counts as sent: it goes on when a neighbour answers.
            slot.tcp.set_ready(false);
            self.outbox.await_neighbour(self.slots.id(index));
            return;
        }
        let flow = slot.flow();
        let path = Path { mtu: ip.mtu(), v6: !flow.is_v4() };
        let treatment = slot.tcp.treatment();
        let mut cx = self.common.context(&flow);
        let mut sealing = if slot.tcp.is_sealed() { self.seals.payload(index) } else { None };
        for _ in 0..SEGMENTS_PER_POLL {
            let Some(emit) = slot.tcp.poll_segment(&mut cx, path, 0) else { break };
            let frame = Frame(ip.to(Mac::ZERO, treatment).without_offload());
            let (len, _) = match &mut sealing {
                None => frame.build(&mut buffer, &flow, &emit, &mut slot.tcp, &mut Queued),
                Some(sealing) => frame.build(&mut buffer, &flow, &emit, &mut slot.tcp, sealing),
            };
            if sealing.as_ref().is_some_and(Payload::failed) {
                break;
            }
            ip.neighbours.hold(neighbour, &buffer[..len]);
        }
        if let Some(sealing) = &mut sealing {
            sealing.end(&mut slot.tcp);
        }
        let failed = sealing.is_some_and(|sealing| sealing.failed());
        slot.tcp.set_ready(false);
        if slot.tcp.take_delayed_ack() {
            self.delay_ack(index);
        }
        self.schedule(index);
        if let Some(at) = self.slots.at(index).tcp.paced_until() {
            self.timers.enter_paced(index, self.slots.at_mut(index), at, self.common.now);
        }
        if failed {
            self.after_sealing(index, failed);
        }
    }

    /// A neighbour answered, or will not: whoever waits tries again.
    pub fn retry_unresolved(&mut self) {
        while let Some(id) = self.outbox.pop_unresolved() {
            if self.slots.get(id).is_some() {
                self.make_ready(id.index() as u32);
            }
        }
    }
}

/// What came of a connection's turn to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    /// It has nothing more to say.
    All,
    /// It had its share.
    Share,
    /// There is no slot for the rest.
    NoSlot,
    /// The rest waits for the connection's pacer.
    Until(Time),
}

/// Sends what a connection has to send, as far as its share goes, of which `done` segments have
/// left.
#[inline(always)]
fn send_segments<P: Payload>(
    slot: &mut Slot,
    cx: &mut Context<'_>,
    ip: &Ip,
    mac: Mac,
    (out, done): (&mut impl Egress, usize),
    payload: &mut P,
) -> Sent {
    let flow = slot.flow();
    let path = Path { mtu: ip.mtu(), v6: !flow.is_v4() };
    let frame = Frame(ip.to(mac, slot.tcp.treatment()));
    let burst = frame.0.burst(path.v6, wire_tcp::MAX_HEADER_LEN);
    for count in done..SEGMENTS_PER_POLL + P::MORE {
        if P::MORE > 0 && count >= SEGMENTS_PER_POLL && !payload.is_amid() {
            return Sent::Share;
        }
        // Data leaves a few slots for acknowledgements and handshakes.
        if slot.tcp.has_unsent() && out.room() <= CONTROL_RESERVE {
            return Sent::NoSlot;
        }
        let Some(buffer) = out.slot() else { return Sent::NoSlot };
        let Some(emit) = P::poll(&mut slot.tcp, cx, path, burst) else {
            slot.tcp.set_ready(false);
            return slot.tcp.paced_until().map_or(Sent::All, Sent::Until);
        };
        let (len, offload) = frame.build(buffer, &flow, &emit, &mut slot.tcp, payload);
        if payload.failed() {
            cold_path();
            slot.tcp.set_ready(false);
            return Sent::All;
        }
        if out.watched().at_all() {
            frame.compare_built(out, len, &flow, &emit, &slot.tcp, payload);
        }
        out.commit(len, offload);
        if !slot.tcp.wants_poll() {
            slot.tcp.set_ready(false);
            return Sent::All;
        }
    }
    Sent::Share
}
