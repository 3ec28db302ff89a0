//! A segment arrives (RFC 9293 section 3.10.7).
//!
//! The fast path takes the segment that is expected next on an undisturbed
//! ESTABLISHED connection; everything else takes the order of the RFC.

use crate::cold::Recovery;
use crate::congestion::{self, Ack};
use crate::connection::{Connection, Context, Flags, HOLDS_MUCH, Path, agree_on, segment_len};
use crate::receive::Inserted;
use crate::recovery::Acknowledged;
use crate::rtt::{RETRANSMITTED_SYN_RTO_MS, SYN_AFTER_RESET_MS};
use crate::state::State;
use app::Closed;
use wire::tcp::{Established, Flags as Bits, SeqNum, TcpHeader, Timestamps};

/// What a segment asks to be sent at once, beside what
/// [`Connection::poll_segment`] gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// Nothing.
    #[default]
    None,
    /// A challenge acknowledgement, within the limit of RFC 5961 section 7.
    Challenge,
    /// A reset with this sequence number: the segment acknowledges what an
    /// opening connection never sent.
    Reset(SeqNum),
}

/// What a segment changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The handshake is complete.
    pub opened: bool,
    /// In-order payload for the application: `payload[skip..skip + len]`.
    pub skip: u32,
    /// Its length; 0 is none.
    pub len: u32,
    /// Held bytes can be read now (see [`Connection::take_held`]).
    pub readable: bool,
    /// The peer sends no more; said once.
    pub finished: bool,
    /// The send queue fell to the low-water mark.
    pub drained: bool,
    /// The connection is over.
    pub closed: Option<Closed>,
    /// What to answer.
    pub answer: Answer,
}

/// What a segment changed on a light connection, beside the data that it
/// brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Light {
    /// It acknowledged something.
    pub progress: bool,
}

impl Outcome {
    pub(crate) const NONE: Self = Self {
        opened: false,
        skip: 0,
        len: 0,
        readable: false,
        finished: false,
        drained: false,
        closed: None,
        answer: Answer::None,
    };

    fn closed(why: Closed) -> Self {
        Self { closed: Some(why), ..Self::NONE }
    }

    fn answer(answer: Answer) -> Self {
        Self { answer, ..Self::NONE }
    }
}

/// After this long without a segment, TS.Recent is no longer compared
/// (RFC 7323 section 5.5): 24 days in milliseconds.
const TS_RECENT_VALID_MS: u32 = 24 * 24 * 3600 * 1000;

/// A timestamp echo older than this is taken for garbage, not for a round
/// trip.
const MAX_ECHO_MS: u32 = 600_000;

impl Connection {
    /// Takes a segment whose checksum and addresses were verified.
    #[inline]
    pub fn on_segment(&mut self, cx: &mut Context<'_>, path: Path, header: &TcpHeader, payload: &[u8]) -> Outcome {
        cx.counters.segments_in += 1;
        if header.options.sack.is_empty()
            && self.is_expected(header.flags, header.seq, header.ack, payload)
            && self.timestamp_in_order(header.options.timestamps.as_ref())
        {
            return self.on_expected(cx, header, payload);
        }
        self.on_unexpected(cx, path, header, payload)
    }

    /// [`Connection::on_segment`] without header prediction, in the order of
    /// RFC 9293: what all short ways must agree with.
    pub fn on_segment_in_full(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        header: &TcpHeader,
        payload: &[u8],
    ) -> Outcome {
        cx.counters.segments_in += 1;
        self.on_unexpected(cx, path, header, payload)
    }

    /// Takes a segment if it is the one expected next, acknowledges all that
    /// is in flight, and the connection is light: it has no cold part, no more
    /// than half of its congestion window was in flight, and it did not rest
    /// for so long that this window is in doubt.
    /// Nothing comes of it then but data, all of it in order, and progress.
    /// What is not taken is for [`Connection::on_segment`], which would have
    /// done the same.
    ///
    /// `ts_offset` is made only when it is needed: `cx` need not have it.
    #[inline(always)]
    pub fn on_light(
        &mut self,
        cx: &mut Context<'_>,
        ts_offset: impl FnOnce() -> u32,
        header: &Established,
        payload: &[u8],
    ) -> Option<Light> {
        const HEAVY: u16 = Flags::SLOW | Flags::CWND_LIMITED | Flags::ABOVE_LOW_WATER;
        let light = self.cold.is_none() && !self.flags.has(HEAVY);
        let timestamps = header.timestamps;
        if !light
            || header.ack != self.nxt
            || self.fills_window(self.in_flight())
            || self.has_rested(cx)
            || !self.is_expected(header.flags, header.seq, header.ack, payload)
            || !self.timestamp_in_order(timestamps.as_ref())
        {
            return None;
        }
        cx.counters.segments_in += 1;
        cx.counters.fast_path += 1;
        self.note_timestamp(timestamps.as_ref());
        let acked = header.ack.forward_from(self.una);
        if acked > 0 {
            self.rope.release(u64::from(acked));
            self.una = header.ack;
            if let Some(ms) = self.round_trip(cx.now_ms, ts_offset, timestamps.as_ref()) {
                self.take_sample(ms);
            }
            self.end_flight(cx);
        }
        self.last_rx = cx.now_ms;
        self.snd_wnd = u32::from(header.window) << self.peer_shift();
        self.wl1 = header.seq;
        self.take_in_order(payload.len() as u32);
        Some(Light { progress: acked > 0 })
    }

    /// Header prediction: the next segment in order, with an acknowledgement
    /// of what is in flight, and no reason to look closer but options.
    #[inline(always)]
    fn is_expected(&self, flags: Bits, seq: SeqNum, ack: SeqNum, payload: &[u8]) -> bool {
        const LOOK: u8 = Bits::FIN.0 | Bits::SYN.0 | Bits::RST.0 | Bits::ACK.0 | Bits::URG.0;
        let acked = ack.forward_from(self.una);
        self.state == State::Established
            && !self.flags.has(Flags::SLOW)
            && flags.0 & LOOK == Bits::ACK.0
            && seq == self.rcv_nxt
            // A segment that overtook this one may have told a later window
            // (RFC 9293 section 3.10.7.4, SND.WL1).
            && self.wl1.at_or_before(seq)
            && acked <= self.in_flight()
            && (acked > 0 || (!payload.is_empty() && self.is_at_ease()))
            && payload.len() as u32 <= self.rcv_adv.forward_from(self.rcv_nxt)
    }

    /// Whether it is no news that the peer is there: neither a probe of ours
    /// was unanswered, nor its window closed.
    #[inline(always)]
    pub(crate) fn is_at_ease(&self) -> bool {
        self.una != self.nxt || (self.backoff == 0 && self.snd_wnd > 0)
    }

    /// RFC 7323 section 5.3 R1, for the fast path: anything unusual is no.
    #[inline(always)]
    pub(crate) fn timestamp_in_order(&self, timestamps: Option<&Timestamps>) -> bool {
        match timestamps {
            Some(ts) => !self.flags.has(Flags::TIMESTAMPS) || (ts.value.wrapping_sub(self.ts_recent) as i32) >= 0,
            None => !self.flags.has(Flags::TIMESTAMPS),
        }
    }

    #[inline]
    fn on_expected(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8]) -> Outcome {
        cx.counters.fast_path += 1;
        let mut outcome = Outcome::NONE;
        self.note_arrival(cx);
        self.note_timestamp(header.options.timestamps.as_ref());
        let acked = header.ack.forward_from(self.una);
        if acked > 0 {
            outcome.drained = self.on_acked(cx, header, acked, false, Some(self.una));
        }
        self.last_rx = cx.now_ms;
        self.snd_wnd = u32::from(header.window) << self.peer_shift();
        self.wl1 = header.seq;
        let len = payload.len() as u32;
        if len > 0 {
            self.take_in_order(len);
            outcome.len = len;
        }
        outcome
    }

    /// The congestion window is no longer known to fit the path after an idle
    /// retransmission timeout (RFC 7661 section 4.4, RFC 5681 section 4.1).
    /// Judged on arrival, because a server hears a request just before it
    /// sends. `last_rx` is left to the caller: the round trip is judged by it.
    #[inline]
    fn note_arrival(&mut self, cx: &mut Context<'_>) {
        let idle = cx.now_ms.wrapping_sub(self.last_rx);
        let rested = self.has_rested(cx);
        if self.cold.is_some() {
            self.on_peer_heard();
        }
        if rested {
            self.restart_after_idle(cx, idle);
        }
    }

    /// Whether a connection that has learned something of its path, if only
    /// that a larger window than the first fits, was idle for long enough that
    /// this may not hold any more.
    #[inline(always)]
    pub(crate) fn has_rested(&self, cx: &Context<'_>) -> bool {
        cx.now_ms.wrapping_sub(self.last_rx) >= cx.config.rto_min
            && self.una == self.nxt
            && (self.cold.is_some() || self.cwnd > congestion::initial_window(u32::from(self.mss)))
    }

    #[cold]
    fn restart_after_idle(&mut self, cx: &mut Context<'_>, idle: u32) {
        if idle <= self.rto(cx.config) {
            return;
        }
        let initial = congestion::initial_window(u32::from(self.mss));
        match &mut self.cold {
            Some(cold) => cold.congestion.on_idle_restart(&mut self.cwnd, initial),
            None => self.cwnd = self.cwnd.min(initial),
        }
    }

    /// RFC 7323 section 4.3: TS.Recent follows the earliest segment that is
    /// not acknowledged yet, so that a delayed acknowledgement counts in the
    /// peer's round trip.
    #[inline(always)]
    pub(crate) fn note_timestamp(&mut self, timestamps: Option<&Timestamps>) {
        if self.flags.has(Flags::TIMESTAMPS)
            && self.unacked == 0
            && let Some(ts) = timestamps
        {
            self.ts_recent = ts.value;
        }
    }

    /// A segment that we have, sent again because our acknowledgement was
    /// lost: its timestamp must be echoed (RFC 7323 section 4.3), or the peer
    /// would take its own retransmission timeout for the round trip. Only
    /// with an acknowledgement that can be: see RFC 5961 section 5.
    #[cold]
    fn note_repeated(&mut self, header: &TcpHeader, payload: &[u8]) {
        let end = header.seq.plus(segment_len(header, payload));
        let repeated = header.seq.before(self.rcv_nxt) && end.at_or_before(self.rcv_nxt) && end.after(header.seq);
        let sound = header.flags.contains(Bits::ACK)
            && header.ack.at_or_before(self.nxt)
            && header.ack.at_or_after(self.una.minus(0xffff));
        let timestamps = header.options.timestamps.as_ref();
        let newer = self.timestamp_in_order(timestamps);
        if repeated && sound && newer {
            self.note_timestamp(timestamps);
        }
    }

    #[inline]
    pub(crate) fn take_in_order(&mut self, len: u32) {
        self.rcv_nxt = self.rcv_nxt.plus(len);
        self.unacked = (u32::from(self.unacked) + len).min(0xffff) as u16;
    }

    /// `acked` sequence numbers are newly acknowledged; `first` is the first
    /// byte that was sent once and is known to have arrived only now. Returns
    /// whether the send queue fell to the low-water mark.
    #[inline]
    pub(crate) fn on_acked(
        &mut self,
        cx: &mut Context<'_>,
        header: &TcpHeader,
        acked: u32,
        fin: bool,
        first: Option<SeqNum>,
    ) -> bool {
        let in_flight = self.in_flight();
        self.rope.release(u64::from(acked - u32::from(fin)));
        self.una = header.ack;
        let rtt_us = self.sample_rtt(cx, header, first);
        if self.flags.has(Flags::CWND_LIMITED) || self.cold.is_some() || self.fills_window(in_flight) {
            self.grow(cx, acked, in_flight, rtt_us);
        }
        if self.una == self.nxt {
            self.end_flight(cx);
            if self.cold.is_some() {
                // Nothing is under way: what was needed for it may go.
                self.settle();
            }
        } else {
            self.backoff = 0;
            self.dupacks = 0;
            // RFC 6298 section 5.3, RFC 8985 section 7.2.
            self.arm_in_flight(cx);
        }
        if self.flags.has(Flags::ABOVE_LOW_WATER) && self.rope.len() as usize <= app::SEND_LOW_WATER {
            self.flags.clear(Flags::ABOVE_LOW_WATER);
            return true;
        }
        false
    }

    /// Whether a flight uses enough of the congestion window to validate it in
    /// slow start, more than half (RFC 7661 section 4.3). A connection without
    /// a cold part has met nothing that would have ended slow start.
    #[inline(always)]
    pub(crate) const fn fills_window(&self, in_flight: u32) -> bool {
        in_flight > self.cwnd / 2
    }

    /// A round-trip sample: to the microsecond where it was taken down when
    /// `first` left, otherwise in milliseconds. Of all that an acknowledgement
    /// covers the first counts, as it does in a timestamp's echo.
    #[inline]
    fn sample_rtt(&mut self, cx: &Context<'_>, header: &TcpHeader, first: Option<SeqNum>) -> Option<u32> {
        if self.cold.is_some()
            && let Some(us) = self.sample_departure(cx, first)
        {
            return Some(us);
        }
        let ms = self.round_trip(cx.now_ms, || cx.ts_offset, header.options.timestamps.as_ref())?;
        Some(self.take_sample(ms))
    }

    /// Takes a round trip in milliseconds; none is shorter than half of one.
    /// Returns the sample in microseconds.
    #[inline(always)]
    pub(crate) fn take_sample(&mut self, ms: u32) -> u32 {
        let us = (ms * 1_000).max(500);
        self.rtt.on_sample(us);
        us
    }

    /// All that was in flight is acknowledged.
    #[inline(always)]
    pub(crate) fn end_flight(&mut self, cx: &Context<'_>) {
        self.backoff = 0;
        self.dupacks = 0;
        self.flags.clear(Flags::TIMER | Flags::TIMING);
        // What waits is sent, or has the persist timer started.
        if cx.config.keepalive_idle > 0 && self.rope.is_empty() {
            self.arm(cx, cx.config.keepalive_idle);
        }
    }

    /// A round trip in milliseconds that is worth a sample: from the
    /// timestamp's echo (RFC 7323 section 4.1), or from the flight's first
    /// acknowledgement without timestamps.
    #[inline(always)]
    pub(crate) fn round_trip(
        &mut self,
        now_ms: u32,
        ts_offset: impl FnOnce() -> u32,
        timestamps: Option<&Timestamps>,
    ) -> Option<u32> {
        let ms = if self.flags.has(Flags::TIMESTAMPS) {
            // What was sent after another segment of this millisecond was not
            // long under way either: the stamp need not be looked at.
            if self.last_rx == now_ms && self.rtt.is_short() {
                return None;
            }
            now_ms.wrapping_add(ts_offset()).wrapping_sub(timestamps?.echo)
        } else if self.flags.has(Flags::TIMING) {
            self.flags.clear(Flags::TIMING);
            now_ms.wrapping_sub(self.ts_recent)
        } else {
            return None;
        };
        // Below the clock's resolution a further sample tells nothing new.
        if ms > MAX_ECHO_MS || (ms == 0 && self.rtt.sampled() && self.rtt.srtt_us() <= 1_000) {
            return None;
        }
        Some(ms)
    }

    /// Takes the round trip of the byte at `first`, where it is known when
    /// that left.
    #[cold]
    pub(crate) fn sample_departure(&mut self, cx: &Context<'_>, first: Option<SeqNum>) -> Option<u32> {
        let cold = self.cold.as_mut()?;
        let sent = cold.rack.departure(first?)?;
        let us = u32::try_from(cx.now.since(sent).as_micros()).unwrap_or(u32::MAX);
        cold.rack.on_rtt(us, cx.now);
        self.flags.clear(Flags::TIMING);
        self.rtt.on_sample(us);
        Some(us)
    }

    /// Lets the congestion window grow, outside recovery.
    #[cold]
    pub(crate) fn grow(&mut self, cx: &mut Context<'_>, acked: u32, in_flight: u32, rtt_us: Option<u32>) {
        let ack = Ack {
            now: cx.now,
            acked,
            in_flight,
            rtt_us,
            srtt_us: self.rtt.srtt_us(),
            snd_una: self.una,
            snd_nxt: self.nxt,
            cwnd_limited: self.flags.has(Flags::CWND_LIMITED),
        };
        let (mut cwnd, window) = (self.cwnd, self.snd_wnd);
        let cold = self.cold_mut(cx.config);
        cold.rack.on_acked(ack.snd_una);
        cold.unreachable = None;
        cold.unanswered_since = None;
        cold.most_window = cold.most_window.map(|most| most.max(window));
        match cold.recovery {
            Recovery::Fast(_) => return,
            Recovery::Open | Recovery::Loss(_) => cold.congestion.on_ack(&mut cwnd, &ack),
        }
        // A window that was not filled tells nothing (RFC 7661 section 4.3),
        // but that it may be larger: the window itself says that.
        cold.learned |= ack.cwnd_limited || !cold.congestion.in_slow_start(cwnd);
        if ack.cwnd_limited {
            // Once all that left under the limit is acknowledged, what follows
            // has to meet it again.
            let until = *cold.limited_until.get_or_insert(ack.snd_nxt);
            if ack.snd_una.at_or_after(until) {
                cold.limited_until = None;
                self.flags.clear(Flags::CWND_LIMITED);
            }
        }
        self.cwnd = cwnd;
    }

    #[inline]
    pub(crate) fn arm_keepalive(&mut self, cx: &Context<'_>) {
        if cx.config.keepalive_idle > 0 {
            self.arm(cx, cx.config.keepalive_idle);
        }
    }
}

/// Everything but the expected segment.
impl Connection {
    #[inline(never)]
    fn on_unexpected(&mut self, cx: &mut Context<'_>, path: Path, header: &TcpHeader, payload: &[u8]) -> Outcome {
        match self.state {
            State::Closed | State::TimeWait => Outcome::NONE,
            State::SynSent => self.on_syn_sent(cx, path, header, payload),
            _ => self.on_synchronized(cx, header, payload),
        }
    }

    /// RFC 9293 section 3.10.7.3.
    fn on_syn_sent(&mut self, cx: &mut Context<'_>, path: Path, header: &TcpHeader, payload: &[u8]) -> Outcome {
        let acks = header.flags.contains(Bits::ACK);
        // Our SYN may not have left yet: then nothing can be acknowledged.
        let acceptable = acks && header.ack.after(self.una) && header.ack.at_or_before(self.nxt);
        if acks && !acceptable {
            cx.counters.bad_ack += 1;
            if header.flags.contains(Bits::RST) {
                return Outcome::NONE;
            }
            // The peer still has an earlier connection of this flow, as in
            // TIME-WAIT. The reset ends that, and the SYN goes again soon, not
            // after its timeout; once, so that forged ones make little of it.
            if self.backoff == 0 {
                self.arm(cx, SYN_AFTER_RESET_MS);
            }
            return Outcome::answer(Answer::Reset(header.ack));
        }
        if header.flags.contains(Bits::RST) {
            if !acceptable {
                return Outcome::NONE;
            }
            cx.counters.resets_in += 1;
            self.close();
            return Outcome::closed(Closed::Refused);
        }
        if !header.flags.contains(Bits::SYN) {
            return Outcome::NONE;
        }
        let agreed = agree_on(cx.config, path.v6, self.una, header.seq, &header.options);
        self.agree(cx.config, path, &agreed);
        self.last_rx = cx.now_ms;
        self.rcv_nxt = header.seq.plus(1);
        self.rcv_adv = self.rcv_nxt.plus(cx.config.receive_limit.min(0xffff));
        self.wl1 = header.seq;
        // The window in a SYN is never scaled (RFC 7323 section 2.2).
        self.snd_wnd = u32::from(header.window);
        self.note_first_window(cx.config);
        self.cwnd = congestion::initial_window(u32::from(self.mss));
        self.flags.set(Flags::ACK_NOW);
        if !acks {
            // Simultaneous open: SYN,ACK answers (section 3.5, figure 8).
            self.state = State::SynReceived;
            self.flags.clear(Flags::ACK_NOW);
            self.flags.set(Flags::RETRANSMIT);
            return Outcome::NONE;
        }
        self.finish_opening(cx, header);
        // Data that came with the SYN,ACK is taken as any other.
        let mut outcome = Outcome { opened: true, ..Outcome::NONE };
        self.take_payload(cx, header.seq.plus(1), payload, &mut outcome);
        self.take_fin(cx, header, payload, &mut outcome);
        outcome
    }

    /// Our SYN is acknowledged.
    fn finish_opening(&mut self, cx: &mut Context<'_>, header: &TcpHeader) {
        self.flags.clear(Flags::RETRANSMIT | Flags::TIMER);
        let retransmitted = self.backoff > 0;
        self.una = header.ack;
        if self.flags.has(Flags::TIMESTAMPS) || !retransmitted {
            // Karn: without timestamps a SYN sent twice gives no sample.
            let _ = self.sample_rtt(cx, header, None);
        }
        self.flags.clear(Flags::TIMING);
        if retransmitted && !self.rtt.sampled() {
            // RFC 6298 section 5.7: three seconds for the first data. A first
            // sample of a third of that gives it: SRTT + 4 · SRTT / 2.
            self.rtt.on_sample(RETRANSMITTED_SYN_RTO_MS * 1_000 / 3);
        }
        if retransmitted {
            // RFC 6298 section 5.7, RFC 5681 section 3.1: the SYN was lost.
            self.cwnd = u32::from(self.mss);
        }
        self.backoff = 0;
        self.state = if self.flags.has(Flags::FINISHED) { State::FinWait1 } else { State::Established };
        self.arm_keepalive(cx);
    }

    /// RFC 9293 section 3.10.7.4, steps in its order.
    fn on_synchronized(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8]) -> Outcome {
        if let Err(outcome) = self.check_timestamp(cx, header, payload) {
            return outcome;
        }
        if self.state == State::SynReceived && header.flags.contains(Bits::SYN) {
            return self.on_syn_again(cx, header);
        }
        let window = self.rcv_adv.forward_from(self.rcv_nxt);
        if header.flags.contains(Bits::RST) {
            return self.on_reset(cx, header, window);
        }
        // RFC 5961 section 4: a SYN in any synchronized state is challenged.
        if header.flags.contains(Bits::SYN) {
            cx.counters.syns_challenged += 1;
            cx.counters.challenge_acks += 1;
            return Outcome::answer(Answer::Challenge);
        }
        if !self.is_acceptable(header, payload, window) {
            cx.counters.out_of_window += 1;
            // A probe must always elicit an answer (RFC 9293 section 3.8.6.1);
            // and the peer's acknowledgement is still good, or two sides with
            // closed windows would never hear of each other's progress.
            self.answer_unacceptable(cx, header, payload);
            self.note_repeated(header, payload);
            if header.seq == self.rcv_nxt && header.flags.contains(Bits::ACK) && payload.len() as u32 > window {
                let mut outcome = Outcome::NONE;
                self.on_ack(cx, header, 1, &mut outcome);
                return outcome;
            }
            return Outcome::NONE;
        }
        if !header.flags.contains(Bits::ACK) {
            return Outcome::NONE;
        }
        let mut outcome = Outcome::NONE;
        if self.state == State::SynReceived {
            if !(header.ack.after(self.una) && header.ack.at_or_before(self.nxt)) {
                cx.counters.bad_ack += 1;
                return Outcome::answer(Answer::Reset(header.ack));
            }
            self.finish_opening(cx, header);
            self.snd_wnd = u32::from(header.window) << self.peer_shift();
            self.wl1 = header.seq;
            outcome.opened = true;
        }
        self.note_arrival(cx);
        let counts = self.on_ack(cx, header, segment_len(header, payload), &mut outcome);
        self.last_rx = cx.now_ms;
        if !counts {
            return outcome;
        }
        // Not before the acknowledgement was found good: a blind segment
        // would otherwise move TS.Recent ahead, and PAWS then refuse the
        // peer's own (RFC 5961 section 5; tcp_rcv_established in Linux).
        if header.seq.at_or_before(self.rcv_nxt) {
            self.note_timestamp(header.options.timestamps.as_ref());
        }
        self.take_payload(cx, header.seq, payload, &mut outcome);
        self.take_fin(cx, header, payload, &mut outcome);
        outcome
    }

    /// The acknowledgement that an unacceptable segment gets: at once for text
    /// and FIN, which the peer would send again, and for a sound probe. Any
    /// other empty segment may itself be such an answer, from a peer whose
    /// numbers were spoilt as ours were: it gets the next delayed
    /// acknowledgement, so that two ends which refuse each other do not
    /// answer each other at the speed of the wire.
    fn answer_unacceptable(&mut self, cx: &Context<'_>, header: &TcpHeader, payload: &[u8]) {
        let probe = header.seq == self.rcv_nxt.minus(1) && header.ack.at_or_before(self.nxt);
        if probe || segment_len(header, payload) > 0 {
            self.flags.set(Flags::ACK_NOW);
            if header.seq.before(self.rcv_nxt) {
                let old = self.rcv_nxt.forward_from(header.seq);
                self.note_duplicate(cx, header.seq, segment_len(header, payload).min(old));
            }
        } else {
            self.unacked = self.unacked.max(1);
        }
    }

    /// These came twice: the next acknowledgement reports it (RFC 2883
    /// section 4).
    #[cold]
    fn note_duplicate(&mut self, cx: &Context<'_>, start: SeqNum, len: u32) {
        if len > 0 && self.flags.has(Flags::SACK) && self.state.receives() {
            self.cold_mut(cx.config).dsack = Some((start, start.plus(len)));
            self.flags.set(Flags::SLOW);
        }
    }

    /// Of `len` bytes from `seq` on, which is not below RCV.NXT, the first that
    /// came before came twice (RFC 2883 section 4.2).
    fn note_held(&mut self, cx: &Context<'_>, seq: SeqNum, len: u32) {
        let offset = seq.forward_from(self.rcv_nxt);
        let held = self.cold.as_ref().and_then(|cold| cold.receive.first_early(offset, len));
        if let Some((start, len)) = held {
            self.note_duplicate(cx, self.rcv_nxt.plus(start), len);
        }
    }

    /// PAWS (RFC 7323 section 5.3).
    fn check_timestamp(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8]) -> Result<(), Outcome> {
        if !self.flags.has(Flags::TIMESTAMPS) || header.flags.contains(Bits::RST) {
            return Ok(());
        }
        let Some(ts) = &header.options.timestamps else {
            // Section 3.2: a segment without the option SHOULD be dropped. A
            // SYN is left to the challenge that it gets anyway.
            if header.flags.contains(Bits::SYN) {
                return Ok(());
            }
            cx.counters.timestamp_missing += 1;
            return Err(Outcome::NONE);
        };
        let old = (ts.value.wrapping_sub(self.ts_recent) as i32) < 0;
        if old && cx.now_ms.wrapping_sub(self.last_rx) < TS_RECENT_VALID_MS {
            if segment_len(header, payload) == 0 && header.seq == self.rcv_nxt && header.ack.at_or_before(self.una) {
                // An acknowledgement that others overtook: it tells nothing
                // any more, and nothing is wrong (tcp_disordered_ack in
                // Linux's net/ipv4/tcp_input.c).
                return Err(Outcome::NONE);
            }
            cx.counters.paws_rejected += 1;
            if segment_len(header, payload) > 0 {
                self.flags.set(Flags::ACK_NOW);
            } else {
                // As in `answer_unacceptable`.
                self.unacked = self.unacked.max(1);
            }
            return Err(Outcome::NONE);
        }
        Ok(())
    }

    /// A SYN in SYN-RECEIVED after a simultaneous open: the peer's SYN again,
    /// or its SYN,ACK that completes the handshake.
    fn on_syn_again(&mut self, cx: &mut Context<'_>, header: &TcpHeader) -> Outcome {
        if header.seq.plus(1) != self.rcv_nxt {
            cx.counters.syns_challenged += 1;
            cx.counters.challenge_acks += 1;
            return Outcome::answer(Answer::Challenge);
        }
        if header.flags.contains(Bits::ACK) && header.ack.after(self.una) && header.ack.at_or_before(self.nxt) {
            self.finish_opening(cx, header);
            self.snd_wnd = u32::from(header.window);
            self.wl1 = header.seq;
            self.flags.set(Flags::ACK_NOW);
            return Outcome { opened: true, ..Outcome::NONE };
        }
        self.flags.set(Flags::RETRANSMIT);
        Outcome::NONE
    }

    /// RFC 5961 section 3.2: only a reset at exactly RCV.NXT counts.
    fn on_reset(&mut self, cx: &mut Context<'_>, header: &TcpHeader, window: u32) -> Outcome {
        if header.seq == self.rcv_nxt {
            cx.counters.resets_in += 1;
            let why = match self.state {
                State::SynReceived => Closed::Refused,
                // RFC 9293 section 3.10.7.4: in CLOSING and LAST-ACK the user
                // is told nothing but the end. All that was sent is
                // acknowledged, only the FIN is not: the peer has left
                // TIME-WAIT already.
                State::Closing | State::LastAck if self.rope.is_empty() => {
                    self.close_finished();
                    return Outcome::closed(Closed::Finished);
                }
                _ => Closed::Reset,
            };
            self.close();
            return Outcome::closed(why);
        }
        if header.seq.within(self.rcv_nxt, window) {
            cx.counters.resets_challenged += 1;
            cx.counters.challenge_acks += 1;
            return Outcome::answer(Answer::Challenge);
        }
        cx.counters.out_of_window += 1;
        Outcome::NONE
    }

    /// The four cases of RFC 9293 section 3.4, table 6. A segment of which a
    /// part lies in the window is acceptable, and cut later.
    fn is_acceptable(&self, header: &TcpHeader, payload: &[u8], window: u32) -> bool {
        let len = segment_len(header, payload);
        if len == 0 {
            return header.seq == self.rcv_nxt || header.seq.within(self.rcv_nxt, window);
        }
        if window == 0 {
            return false;
        }
        let last = header.seq.plus(len - 1);
        header.seq.within(self.rcv_nxt, window)
            || last.within(self.rcv_nxt, window)
            || (header.seq.before(self.rcv_nxt) && last.after(self.rcv_nxt))
    }

    /// Step five, the ACK. Returns whether the segment's text counts.
    fn on_ack(&mut self, cx: &mut Context<'_>, header: &TcpHeader, len: u32, outcome: &mut Outcome) -> bool {
        // RFC 5961 section 5.2: neither the future nor the distant past.
        let oldest = self.una.minus(self.snd_wnd.max(0xffff));
        if header.ack.after(self.nxt) || header.ack.before(oldest) {
            cx.counters.bad_ack += 1;
            cx.counters.challenge_acks += 1;
            outcome.answer = Answer::Challenge;
            return false;
        }
        if header.ack.before(self.una) {
            return true;
        }
        let acked = header.ack.forward_from(self.una);
        let fin = acked > 0 && self.flags.has(Flags::FIN_SENT) && header.ack == self.nxt;
        let window = u32::from(header.window) << self.peer_shift();
        let duplicate = acked == 0 && len == 0 && self.in_flight() > 0 && window == self.snd_wnd;
        self.on_ack_loss(cx, header, Acknowledged { acked, fin, duplicate }, outcome);
        if self.wl1.at_or_before(header.seq) {
            if window > 0 && self.snd_wnd == 0 && self.in_flight() == 0 && self.waits_to_send() {
                // The window has opened: no more probes.
                self.backoff = 0;
                self.flags.clear(Flags::TIMER | Flags::PROBE);
            }
            self.snd_wnd = window;
            self.wl1 = header.seq;
        }
        if self.in_flight() == 0 && !self.waits_to_send() {
            // The peer is there: keepalive's probes are answered.
            self.backoff = 0;
        }
        if fin {
            self.on_fin_acked(cx, outcome);
        }
        self.state != State::Closed
    }

    pub(crate) fn on_fin_acked(&mut self, cx: &mut Context<'_>, outcome: &mut Outcome) {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.arm(cx, cx.config.fin_wait2);
            }
            State::Closing => {
                self.state = State::TimeWait;
                outcome.closed = Some(Closed::Finished);
            }
            State::LastAck => {
                self.close_finished();
                outcome.closed = Some(Closed::Finished);
            }
            _ => {}
        }
    }

    /// Step seven, the segment text.
    fn take_payload(&mut self, cx: &mut Context<'_>, seq: SeqNum, payload: &[u8], outcome: &mut Outcome) {
        if payload.is_empty() {
            return;
        }
        if !self.state.receives() {
            // After the peer's FIN there is no more text (RFC 9293 section
            // 3.10.7.4): a duplicate, which is acknowledged again.
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let skip = if seq.before(self.rcv_nxt) { self.rcv_nxt.forward_from(seq) } else { 0 };
        if skip > 0 {
            self.note_duplicate(cx, seq, skip.min(payload.len() as u32));
        } else {
            self.note_held(cx, seq, payload.len() as u32);
        }
        if skip as usize >= payload.len() {
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let ahead = if seq.after(self.rcv_nxt) { seq.forward_from(self.rcv_nxt) } else { 0 };
        let window = self.rcv_adv.forward_from(self.rcv_nxt);
        let len = (payload.len() as u32 - skip).min(window.saturating_sub(ahead));
        if len == 0 {
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let bytes = &payload[skip as usize..(skip + len) as usize];
        if ahead == 0 {
            self.take_next(cx, skip, bytes, outcome);
        } else {
            self.take_ahead(cx, ahead, bytes);
        }
    }

    /// In-order text, on a connection that may hold some already or that may
    /// wait for just this.
    fn take_next(&mut self, cx: &mut Context<'_>, skip: u32, bytes: &[u8], outcome: &mut Outcome) {
        let len = bytes.len() as u32;
        let disturbed = self.cold.as_ref().is_some_and(|cold| !cold.receive.is_empty());
        if !disturbed {
            self.take_in_order(len);
            outcome.skip = skip;
            outcome.len = len;
            self.reach_fin(outcome);
            return;
        }
        if cx.receive_full && !self.held().is_empty() && self.would_hold_much(bytes) {
            // All connections together hold too much, and this one's
            // application waits for more before it takes any: not now.
            cx.counters.receive_full_dropped += u64::from(len);
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let cold = self.cold_mut(cx.config);
        cold.receive.hold(bytes);
        let filled = cold.receive.advance();
        self.take_in_order(len + filled);
        outcome.readable = true;
        // RFC 5681 section 4.2: what fills a gap is acknowledged at once.
        self.flags.set(Flags::ACK_NOW | Flags::SLOW);
        self.reach_fin(outcome);
    }

    /// Whether the connection holds much once it holds these.
    fn would_hold_much(&self, bytes: &[u8]) -> bool {
        self.buffered() + bytes.len() >= HOLDS_MUCH
    }

    fn take_ahead(&mut self, cx: &mut Context<'_>, ahead: u32, bytes: &[u8]) {
        cx.counters.out_of_order += 1;
        if cx.receive_full && self.would_hold_much(bytes) {
            cx.counters.out_of_order_dropped += bytes.len() as u64;
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let limit = cx.config.receive_limit as usize;
        let cold = self.cold_mut(cx.config);
        let inserted = cold.receive.insert(ahead, bytes, limit);
        match inserted {
            Inserted::NoRange | Inserted::NoSpace => cx.counters.out_of_order_dropped += bytes.len() as u64,
            Inserted::Duplicate | Inserted::Stored(_) => {}
        }
        // RFC 5681 section 4.2: a segment out of order is answered at once.
        self.flags.set(Flags::ACK_NOW | Flags::SLOW);
    }

    /// Step eight, the FIN: taken now, or noted until what precedes it came.
    fn take_fin(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8], outcome: &mut Outcome) {
        if !header.flags.contains(Bits::FIN) || self.state == State::Closed {
            return;
        }
        if !self.state.receives() {
            self.flags.set(Flags::ACK_NOW);
            return;
        }
        let syn = u32::from(header.flags.contains(Bits::SYN));
        let at = header.seq.plus(payload.len() as u32 + syn);
        if at.distance_from(self.rcv_nxt) > self.rcv_adv.distance_from(self.rcv_nxt) {
            return;
        }
        if at == self.rcv_nxt {
            self.on_fin(outcome);
        } else if at.after(self.rcv_nxt) {
            self.cold_mut(cx.config).fin_at = Some(at);
            self.flags.set(Flags::ACK_NOW | Flags::SLOW);
        }
    }

    /// The gap before a FIN that came early may now be filled.
    fn reach_fin(&mut self, outcome: &mut Outcome) {
        let rcv_nxt = self.rcv_nxt;
        if let Some(cold) = &mut self.cold
            && cold.fin_at == Some(rcv_nxt)
        {
            cold.fin_at = None;
            self.on_fin(outcome);
        }
    }

    pub(crate) fn on_fin(&mut self, outcome: &mut Outcome) {
        self.rcv_nxt = self.rcv_nxt.plus(1);
        self.rcv_adv = self.rcv_adv.latest(self.rcv_nxt);
        self.flags.set(Flags::ACK_NOW);
        outcome.finished = true;
        if self.cold.is_some() {
            self.forget_beyond_end();
        }
        match self.state {
            State::Established => self.state = State::CloseWait,
            // Our FIN is not acknowledged, or this segment would have moved
            // us to FIN-WAIT-2 before.
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => {
                self.state = State::TimeWait;
                self.flags.clear(Flags::TIMER);
                outcome.closed = Some(Closed::Finished);
            }
            _ => {}
        }
    }

    /// Nothing comes after the end.
    #[cold]
    fn forget_beyond_end(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.receive.forget_early();
        }
    }
}
