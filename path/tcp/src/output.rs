//! What a connection has to send (RFC 9293 section 3.8).
//!
//! The stack asks for a segment only when it has a transmit slot to build it
//! in: what is returned here counts as sent.

use crate::agreed::offer;
use crate::cold::Probe;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::{Emit, EmitOptions};
use crate::flags::Flags;
use crate::state::State;
use core::hint::cold_path;
use wire::checksum::Sum;
use wire::tcp::{Flags as Bits, SeqNum};

/// Window while all connections together hold too much: a request's head
/// goes on, and what is not taken at once is dropped anyway.
const FULL_WINDOW: u32 = 16 * 1024;

/// The same where a record has to be all there before it is read.
const FULL_WINDOW_SEALED: u32 = FULL_WINDOW + seal::MAX_SEALED as u32;

/// Segments that [`Connection::poll_few`] gives at most.
pub const FEW: u32 = 3;

impl Connection {
    /// The next segment to send, or `None`. `burst` is the most payload that
    /// the link takes in one piece (a segment, or more with segmentation
    /// offload).
    #[inline]
    pub fn poll_segment(&mut self, cx: &mut Context<'_>, path: Path, burst: u32) -> Option<Emit> {
        const DISTURBED: u16 = Flags::SLOW | Flags::RETRANSMIT | Flags::SEALED | Flags::PROBE;
        if self.state != State::Established || self.flags.has(DISTURBED) {
            return self.poll_disturbed(cx, path, burst);
        }
        let in_flight = self.in_flight();
        let waiting = self.rope.len().wrapping_sub(in_flight);
        if waiting > 0
            && let Some(len) = self.sendable(cx, waiting, in_flight, in_flight, burst)
        {
            return Some(self.emit_data(cx, in_flight, len, len == waiting));
        }
        self.poll_ack(cx)
    }

    /// All that waits, if it goes into one segment, nothing is in flight or
    /// stands against it, the addresses are IPv4, and the connection is light
    /// (see [`Connection::on_light`]). What is not taken,
    /// [`Connection::poll_segment`] is asked for; what is taken, that would
    /// have sent alike, and have had nothing to add.
    #[inline(always)]
    pub fn poll_light(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        const DISTURBED: u16 = Flags::SLOW | Flags::RETRANSMIT | Flags::SEALED | Flags::PROBE | Flags::V6;
        let len = self.rope.single()?;
        let undisturbed = self.state == State::Established && !self.flags.has(DISTURBED) && self.cold.is_none();
        let fits = len.wrapping_sub(1) < u32::from(self.mss) && len <= self.snd_wnd.min(self.cwnd);
        if !undisturbed || self.nxt != self.una || !fits {
            return None;
        }
        Some(self.emit_light(cx, len))
    }

    /// All that waits, where it is `len` bytes for one segment, and starts a flight.
    #[inline(always)]
    pub(crate) fn emit_light(&mut self, cx: &mut Context<'_>, len: u32) -> Emit {
        let seq = self.nxt;
        self.nxt = seq.plus(len);
        self.arm(cx, self.rto(cx.config));
        self.start_timing(cx, true);
        self.emit_bare(cx, seq, Bits::ACK.union(Bits::PSH), len)
    }

    /// Whether a turn to send would find nothing to do but to note that an acknowledgement is
    /// due later: on an undisturbed connection without a cold part all that is queued is in flight,
    /// and [`Connection::poll_segment`] would have nothing.
    #[inline(always)]
    #[must_use]
    pub fn has_nothing_due(&self) -> bool {
        const DISTURBED: u16 = Flags::SLOW | Flags::RETRANSMIT | Flags::SEALED | Flags::PROBE | Flags::ACK_NOW;
        self.state == State::Established
            && !self.flags.has(DISTURBED)
            && self.cold.is_none()
            && u32::from(self.unacked) < 2 * u32::from(self.mss)
            && self.rope.len() == self.in_flight()
    }

    /// Whether [`Connection::poll_few`] may have something to send.
    #[inline(always)]
    #[must_use]
    pub fn has_few(&self) -> bool {
        let mss = u32::from(self.mss);
        let few = |len: u32| len > mss && len <= FEW * mss;
        self.nxt == self.una && self.rope.single().is_some_and(few)
    }

    /// As [`Connection::poll_light`], for all that waits in two segments or up
    /// to [`FEW`]: one value for all of them, which [`Emit::piece`] cuts.
    #[inline(always)]
    pub fn poll_few(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        const DISTURBED: u16 =
            Flags::SLOW | Flags::RETRANSMIT | Flags::SEALED | Flags::PROBE | Flags::V6 | Flags::NAGLE;
        let len = self.rope.single()?;
        let mss = u32::from(self.mss);
        let undisturbed = self.state == State::Established && !self.flags.has(DISTURBED) && self.cold.is_none();
        if !undisturbed || !self.has_few() || len > self.snd_wnd.min(self.cwnd) {
            return None;
        }
        let seq = self.nxt;
        self.nxt = seq.plus(len);
        // The first starts the flight, the last its probe.
        self.arm(cx, self.rto(cx.config));
        self.start_timing(cx, true);
        self.arm_probe(cx);
        cx.counters.segments_out += if len > 2 * mss { 2 } else { 1 };
        Some(self.emit_bare(cx, seq, Bits::ACK.union(Bits::PSH), len))
    }

    /// The payload of `emit` with its sum, if that is all of one body.
    #[inline(always)]
    #[must_use]
    pub fn whole_payload(&self, emit: &Emit) -> Option<(&[u8], Sum)> {
        self.rope.whole(emit.offset, emit.len)
    }

    /// Copies the payload of `emit` into `out` and sums it.
    #[inline]
    pub fn copy_payload(&mut self, emit: &Emit, out: &mut [u8]) -> Sum {
        self.rope.copy_out(emit.offset, out)
    }

    /// How much of `waiting` may be sent now, if any: within the peer's and
    /// the congestion window, and avoiding silly windows at the sender
    /// (RFC 9293 section 3.8.6.2.1). `pipe` is what counts against the
    /// congestion window, `in_flight` against the peer's.
    #[inline]
    fn sendable(&mut self, cx: &Context<'_>, waiting: u32, in_flight: u32, pipe: u32, burst: u32) -> Option<u32> {
        let mss = u32::from(self.mss);
        let by_peer = self.snd_wnd.saturating_sub(in_flight);
        let by_path = self.cwnd.saturating_sub(pipe);
        let usable = by_peer.min(by_path);
        if waiting.wrapping_sub(1) < usable && !self.flags.has(Flags::NAGLE) {
            // Nothing stands against all of it, which nearly always is so: as
            // much as goes into one piece, of whole segments unless it is all.
            let most = burst.max(mss);
            let part = if most == mss { mss } else { most - most % mss };
            return Some(if waiting <= most { waiting } else { part });
        }
        let len = waiting.min(usable).min(burst.max(mss));
        let small = !self.flags.has(Flags::NAGLE) || self.may_send_small(in_flight);
        // Only whole segments of a burst, unless it ends the queue.
        let len = if len > mss && (len < waiting || !small) { len - len % mss } else { len };
        let whole = len >= mss || (len == waiting && small);
        if len > 0 && (whole || (in_flight == 0 && len == by_peer && self.is_worth_sending(len))) {
            if waiting > by_path && by_path <= by_peer {
                self.note_cwnd_limited(len);
            }
            return Some(len);
        }
        if by_path < mss.min(waiting) {
            self.note_cwnd_limited(0);
        }
        if in_flight == 0 {
            // Closed window, or one that is not worth a segment: the persist
            // timer (RFC 9293 section 3.8.6.1), which keepalive's must not
            // stand in for.
            let after = self.rto(cx.config);
            let left = self.timer_at.wrapping_sub(cx.now_ms) as i32;
            if !self.flags.has(Flags::TIMER) || left > after as i32 {
                self.arm(cx, after);
            }
        }
        None
    }

    /// The congestion window is what keeps more than `len` bytes from leaving
    /// now. Until all up to there is acknowledged, it counts as used.
    #[inline]
    fn note_cwnd_limited(&mut self, len: u32) {
        self.flags.set(Flags::CWND_LIMITED);
        let until = self.nxt.plus(len);
        if let Some(cold) = &mut self.cold {
            cold.limited_until = Some(until);
        }
    }

    /// Whether `len` bytes, all that the peer's window takes and less than a
    /// segment, may go at once: they are half of the largest window that it
    /// ever offered (RFC 9293 section 3.8.6.2.1, rule 3). Where that is two
    /// segments or more, half of it would have been a segment.
    #[cold]
    fn is_worth_sending(&self, len: u32) -> bool {
        self.cold.as_ref().and_then(|cold| cold.most_window).is_some_and(|most| len >= most.max(self.snd_wnd) / 2)
    }

    /// New data at SND.NXT. `last` says that it empties the queue.
    #[inline]
    pub(crate) fn emit_data(&mut self, cx: &mut Context<'_>, offset: u32, len: u32, last: bool) -> Emit {
        let push = if last { self.ends_write() } else { self.is_push_point(cx, offset, len) };
        let flags = if push { Bits::ACK.union(Bits::PSH) } else { Bits::ACK };
        let seq = self.nxt;
        let starts_flight = self.una == self.nxt;
        self.nxt = self.nxt.plus(len);
        if starts_flight || !self.flags.has(Flags::TIMER) {
            if len > u32::from(self.mss) {
                // A whole flight at once, its last segment with it.
                self.arm_in_flight(cx);
            } else {
                self.arm(cx, self.rto(cx.config));
            }
            self.start_timing(cx, starts_flight);
        } else if last || self.flags.has(Flags::CWND_LIMITED) {
            // RFC 8985 section 7.2: with new data, the last of it here. The
            // first of a flight waits as long as the retransmission timer, for
            // the peer may delay its acknowledgement.
            self.arm_probe(cx);
        }
        if self.cold.is_some() {
            self.time_segment(cx, seq);
            self.note_data_sent(push, last);
            if last {
                self.note_app_limited();
            }
        }
        self.emit(cx, seq, flags, offset, len)
    }

    /// Without timestamps, the flight's first acknowledgement gives a sample.
    #[inline(always)]
    fn start_timing(&mut self, cx: &Context<'_>, starts_flight: bool) {
        if starts_flight && !self.flags.has(Flags::TIMESTAMPS) && !self.flags.has(Flags::SLOW) {
            self.ts_recent = cx.now_ms;
            self.flags.set(Flags::TIMING);
        }
    }

    /// A pure acknowledgement, if one is due now: asked for, or for every
    /// second full-sized segment (RFC 5681 section 4.2). What is left waits
    /// for the delayed-acknowledgement timer.
    #[inline]
    fn poll_ack(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        if !self.flags.has(Flags::ACK_NOW) && u32::from(self.unacked) < 2 * u32::from(self.mss) {
            return None;
        }
        cx.counters.pure_acks += 1;
        self.note_incoming(cx);
        Some(self.emit(cx, self.nxt, Bits::ACK, 0, 0))
    }

    #[inline]
    fn emit(&mut self, cx: &mut Context<'_>, seq: SeqNum, flags: Bits, offset: u32, len: u32) -> Emit {
        let held = self.held().len().min(u32::MAX as usize) as u32;
        let limit = self.receive_limit(cx.config);
        self.emit_beside(cx, (seq, flags), (offset, len), (held, limit))
    }

    /// A segment with the first `len` bytes that are queued, of a connection that has no cold
    /// part: nothing waits for the application, and the window is the first.
    #[inline(always)]
    pub(crate) fn emit_bare(&mut self, cx: &mut Context<'_>, seq: SeqNum, flags: Bits, len: u32) -> Emit {
        let limit = cx.config.first_window();
        self.emit_beside(cx, (seq, flags), (0, len), (0, limit))
    }

    /// A segment, while `held` bytes wait for the application, of at most `limit`.
    #[inline(always)]
    fn emit_beside(
        &mut self,
        cx: &mut Context<'_>,
        (seq, flags): (SeqNum, Bits),
        (offset, len): (u32, u32),
        (held, limit): (u32, u32),
    ) -> Emit {
        cx.counters.segments_out += 1;
        self.flags.clear(Flags::ACK_NOW);
        self.unacked = 0;
        Emit {
            seq,
            ack: self.rcv_nxt,
            flags,
            window: self.advertise(limit, cx.receive_full, held),
            timestamps: self.timestamps(cx),
            options: EmitOptions::Plain,
            offset,
            len,
        }
    }

    #[inline(always)]
    fn timestamps(&self, cx: &Context<'_>) -> Option<(u32, u32)> {
        let value = cx.now_ms.wrapping_add(cx.ts_offset);
        if self.flags.has(Flags::TIMESTAMPS) { Some((value, self.ts_recent)) } else { None }
    }

    /// The window to advertise, of at most `limit`, while `held` bytes wait for the
    /// application. Its right edge never moves back, and moves on only by a segment or half the
    /// buffer (RFC 9293 section 3.8.6.2.2). While all connections together hold
    /// too much, it stays small, but open for those whose applications take
    /// what comes.
    #[inline(always)]
    fn advertise(&mut self, mut limit: u32, full: bool, held: u32) -> u16 {
        if full {
            cold_path();
            limit = limit.min(if self.is_sealed() { FULL_WINDOW_SEALED } else { FULL_WINDOW });
        }
        let open = limit.saturating_sub(held);
        let mut window = self.rcv_adv.forward_from(self.rcv_nxt);
        let gain = open.wrapping_sub(window) as i32;
        // What is no gain is below any segment.
        let least = u32::from(self.mss).min(limit / 2);
        if gain >= least as i32 {
            self.rcv_adv = self.rcv_nxt.plus(open);
            window = open;
        }
        let window = window >> self.own_shift();
        if window > 0xffff {
            cold_path();
            // Without scaling the edge cannot be told further than this.
            self.rcv_adv = self.rcv_nxt.plus(0xffff << self.own_shift());
            return 0xffff;
        }
        window as u16
    }
}

/// Everything but new data and acknowledgements on an undisturbed connection.
impl Connection {
    #[inline(never)]
    pub(crate) fn poll_disturbed(&mut self, cx: &mut Context<'_>, path: Path, burst: u32) -> Option<Emit> {
        match self.state {
            State::Closed | State::TimeWait => return self.poll_last_ack(cx),
            State::SynSent | State::SynReceived => return self.poll_syn(cx, path),
            _ => {}
        }
        if self.cold.is_none() && !self.flags.has(Flags::PROBE) {
            // The end of a connection, mostly.
            return match self.poll_new(cx, burst) {
                None => self.poll_ack(cx),
                emit => emit,
            };
        }
        if let Some(cold) = &mut self.cold {
            cold.forget_wait();
        }
        let emit = self
            .poll_loss_probe(cx)
            .or_else(|| self.poll_again(cx))
            .or_else(|| self.poll_new(cx, burst))
            .or_else(|| self.poll_ack(cx))
            .or_else(|| self.poll_probe(cx))?;
        Some(self.with_report(cx, emit))
    }

    /// In TIME-WAIT the final acknowledgement is still to be sent before the
    /// record takes over.
    fn poll_last_ack(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        if self.state == State::TimeWait && self.flags.has(Flags::ACK_NOW) { self.poll_ack(cx) } else { None }
    }

    #[inline]
    pub(crate) fn poll_syn(&mut self, cx: &mut Context<'_>, path: Path) -> Option<Emit> {
        if !self.flags.has(Flags::RETRANSMIT) {
            return None;
        }
        self.flags.clear(Flags::RETRANSMIT);
        let answers = self.state == State::SynReceived;
        if self.nxt != self.una {
            cx.counters.retransmits += 1;
        } else {
            self.start_timing(cx, true);
        }
        self.nxt = self.una.plus(1);
        self.arm(cx, self.rto(cx.config));
        cx.counters.segments_out += 1;
        let flags = if answers { Bits::SYN.union(Bits::ACK) } else { Bits::SYN };
        let stamp = cx.now_ms.wrapping_add(cx.ts_offset);
        let timestamps = if answers {
            self.timestamps(cx)
        } else if cx.config.timestamps {
            Some((stamp, 0))
        } else {
            None
        };
        let scales = !answers || self.shifts != 0;
        let sack = if answers { self.flags.has(Flags::SACK) } else { cx.config.sack };
        Some(Emit {
            seq: self.una,
            ack: self.rcv_nxt,
            flags,
            window: cx.config.opening_window(),
            timestamps,
            options: EmitOptions::Syn(offer(cx.config, self.announced(path.announced_mss()), scales, sack)),
            offset: 0,
            len: 0,
        })
    }

    /// The tail loss probe (RFC 8985 section 7.3): one segment of new data if
    /// the peer's window takes it, whatever the congestion window; else the
    /// last segment again.
    fn poll_loss_probe(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        if !core::mem::take(&mut self.cold.as_mut()?.probe_due) {
            return None;
        }
        let in_flight = self.in_flight();
        if in_flight == 0 {
            return None;
        }
        cx.counters.loss_probes += 1;
        let mss = u32::from(self.mss);
        let waiting = if self.flags.has(Flags::FIN_SENT) { 0 } else { self.rope.len() - in_flight };
        let len = waiting.min(mss);
        let fits = len > 0 && len <= self.snd_wnd.saturating_sub(in_flight);
        // On a sealed connection what waits may have no record yet: it is under the next keys, which
        // follow the acknowledgement of what is in flight.
        let (len, last) = if fits { self.fix(len, waiting, u32::MAX, 0) } else { (0, false) };
        let again = len == 0;
        let emit = if again {
            let (seq, len) = self.last_segment();
            let nxt = self.nxt;
            if let Some(cold) = &mut self.cold {
                cold.rack.on_probe(seq, nxt, cx.now);
            }
            self.emit_again(cx, seq, len)
        } else if last && self.fin_waits() {
            self.emit_fin(cx, in_flight, len, Bits::ACK.union(Bits::PSH))
        } else {
            self.emit_data(cx, in_flight, len, last)
        };
        let end = self.nxt;
        if let Some(cold) = &mut self.cold {
            cold.probe = Some(Probe { end, again });
        }
        // Section 7.3: after a probe the retransmission timer runs.
        self.arm_unanswered(cx);
        Some(emit)
    }

    /// A retransmission, if recovery has one to make within the windows.
    fn poll_again(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        let recovering = self.cold.as_ref().is_some_and(|cold| cold.recovering());
        if !recovering || self.in_flight() == 0 {
            return None;
        }
        let pipe = self.pipe();
        let mss = u32::from(self.mss);
        if pipe.saturating_add(mss) > self.cwnd && pipe > 0 {
            return None;
        }
        let (una, nxt) = (self.una, self.nxt);
        let (seq, len) = self.cold.as_mut()?.scoreboard.next_segment(una, nxt)?;
        if !self.may_send_again(cx.now, seq) {
            return None;
        }
        let len = self.size_again(seq, len, pipe);
        self.note_again(cx, seq, len);
        Some(self.emit_again(cx, seq, len))
    }

    /// Lost bytes are sent again.
    fn note_again(&mut self, cx: &Context<'_>, seq: SeqNum, len: u32) {
        let stamp = cx.now_ms.wrapping_add(cx.ts_offset);
        let Some(cold) = &mut self.cold else { return };
        cold.scoreboard.on_retransmit(seq, len, cx.now);
        if let Some(prr) = &mut cold.prr {
            prr.on_sent(len);
        }
        if let Some(undo) = &mut cold.undo {
            undo.again_at.get_or_insert(stamp);
            undo.again += 1;
        }
    }

    fn emit_again(&mut self, cx: &mut Context<'_>, seq: SeqNum, len: u32) -> Emit {
        let offset = seq.forward_from(self.una);
        let data = len.min(self.rope.len().saturating_sub(offset));
        let fin = self.flags.has(Flags::FIN_SENT) && offset + len >= self.in_flight();
        cx.counters.retransmits += 1;
        let mut reordering = false;
        if let Some(cold) = &mut self.cold {
            let floor = self.una.minus(self.nxt.forward_from(self.una));
            cold.note_again(floor, seq, len);
            if let Some(pacing) = &mut cold.pacing {
                pacing.pacer.on_sent(cx.now, len);
            }
            reordering = cold.reordering_timer;
        }
        if (seq == self.una && !reordering) || !self.flags.has(Flags::TIMER) {
            self.arm_unanswered(cx);
        }
        self.flags.clear(Flags::TIMING);
        let mut flags = Bits::ACK;
        if fin {
            flags = flags.union(Bits::FIN);
        }
        if data > 0 && (offset + data == self.rope.len() || self.rope.ends_within(offset, data)) {
            flags = flags.union(Bits::PSH);
        }
        self.emit(cx, seq, flags, offset, data)
    }

    /// New data and the FIN, in any state that sends.
    fn poll_new(&mut self, cx: &mut Context<'_>, burst: u32) -> Option<Emit> {
        if !self.state.sends() || self.flags.has(Flags::FIN_SENT) {
            return None;
        }
        let in_flight = self.in_flight();
        let waiting = self.rope.len() - in_flight;
        if waiting == 0 {
            return if self.fin_waits() { Some(self.emit_fin(cx, in_flight, 0, Bits::ACK)) } else { None };
        }
        // What is SACKed, or vouched for by a duplicate acknowledgement, has
        // left the network: limited transmit (RFC 3042).
        let pipe = self.pipe();
        let usable = self.snd_wnd.saturating_sub(in_flight).min(self.cwnd.saturating_sub(pipe));
        if let Some(len) = self.size_probe(waiting, in_flight, pipe) {
            if len == 0 {
                return None;
            }
            // It goes in one piece: what of it no quantum takes is owed for.
            self.paced(cx.now, len, usable)?;
            let (len, last) = self.fix(len, waiting, u32::MAX, 0);
            let start = self.nxt;
            let emit = (len > 0).then(|| self.emit_data(cx, in_flight, len, last));
            self.note_size_probe(cx, start, len);
            return emit;
        }
        let paced = self.paced(cx.now, waiting, usable)?;
        let len = self.sendable(cx, paced, in_flight, pipe, burst)?;
        let (len, last) = self.fix(len, waiting, pipe, burst);
        if len == 0 {
            return None;
        }
        if let Some(prr) = self.cold.as_mut().and_then(|cold| cold.prr.as_mut()) {
            prr.on_sent(len);
        }
        if last && self.fin_waits() {
            return Some(self.emit_fin(cx, in_flight, len, Bits::ACK.union(Bits::PSH)));
        }
        Some(self.emit_data(cx, in_flight, len, last))
    }

    /// The FIN, with the last data before it. It takes a sequence number but
    /// no room in the peer's window (as in Linux and BSD).
    fn emit_fin(&mut self, cx: &mut Context<'_>, offset: u32, len: u32, flags: Bits) -> Emit {
        let seq = self.nxt;
        let starts_flight = self.una == self.nxt || !self.flags.has(Flags::TIMER);
        self.nxt = self.nxt.plus(len + 1);
        self.flags.set(Flags::FIN_SENT);
        if starts_flight && len <= u32::from(self.mss) {
            self.arm(cx, self.rto(cx.config));
        } else {
            // As for new data: a FIN is the last of it. A probe is to repeat
            // it alone, so from here on notes are taken.
            if self.flags.has(Flags::SACK) {
                self.cold_mut(cx.config);
            }
            self.arm_probe_or(cx, starts_flight);
        }
        self.time_segment(cx, seq);
        self.emit(cx, seq, flags.union(Bits::FIN), offset, len)
    }

    /// A probe: an empty segment one before SND.UNA, which the peer must
    /// answer with its acknowledgement and window (as Linux does; RFC 9293
    /// section 3.8.4 describes it for keepalive). Where the window is open,
    /// but was not worth a segment, what it takes goes now: the override
    /// timeout of RFC 9293 section 3.8.6.2.1.
    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Option<Emit> {
        if !self.flags.has(Flags::PROBE) {
            return None;
        }
        self.flags.clear(Flags::PROBE);
        cx.counters.probes += 1;
        let len = self.rope.len().min(self.snd_wnd).min(u32::from(self.mss));
        if len > 0 && self.in_flight() == 0 && self.state.sends() {
            let (len, last) = self.fix(len, self.rope.len(), u32::MAX, 0);
            return if len > 0 { Some(self.emit_data(cx, 0, len, last)) } else { None };
        }
        // Its sequence number is not acceptable, so that the peer looks at
        // nothing else in it (RFC 9293 section 3.10.7.4): an acknowledgement
        // that is owed is still owed.
        let (owed, unacked) = (self.flags.has(Flags::ACK_NOW), self.unacked);
        let emit = self.emit(cx, self.una.minus(1), Bits::ACK, 0, 0);
        self.unacked = unacked;
        if owed {
            self.flags.set(Flags::ACK_NOW);
        }
        Some(emit)
    }
}
