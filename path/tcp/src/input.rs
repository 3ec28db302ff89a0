//! A segment that is not the expected one, in the order of RFC 9293 section
//! 3.10.7.

use crate::agreed::agree_on;
use crate::connection::{Connection, segment_len};
use crate::context::{Context, Path};
use crate::flags::Flags;
use crate::outcome::{Answer, Outcome};
use crate::rtt::{RETRANSMITTED_SYN_RTO_MS, SYN_AFTER_RESET_MS};
use crate::state::State;
use app::Closed;
use wire::tcp::{Flags as Bits, SeqNum, TcpHeader};

impl Connection {
    #[inline(never)]
    pub(crate) fn on_unexpected(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        header: &TcpHeader,
        payload: &[u8],
    ) -> Outcome {
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
            // after its timeout; once, so that forged ones make little of it,
            // and never later than it would have.
            let due_in = self.timer_at.wrapping_sub(cx.now_ms) as i32;
            if self.backoff == 0 && self.timer().is_some() && due_in > SYN_AFTER_RESET_MS as i32 {
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
        // The path may carry less than the link: what was known of it when
        // this was opened.
        self.agree(cx.config, path.within(self.mss), &agreed);
        self.last_rx = cx.now_ms;
        self.rcv_nxt = header.seq.plus(1);
        self.rcv_adv = self.rcv_nxt.plus(u32::from(cx.config.opening_window()));
        self.wl1 = header.seq;
        // The window in a SYN is never scaled (RFC 7323 section 2.2).
        self.snd_wnd = u32::from(header.window);
        self.note_first_window(cx.config);
        self.set_cwnd(congestion::initial_window(u32::from(self.mss)));
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
            let _ = self.sample_rtt(cx, header.options.timestamps.as_ref(), None);
        }
        self.flags.clear(Flags::TIMING);
        if retransmitted && !self.rtt.sampled() {
            // RFC 6298 section 5.7: three seconds for the first data. A first
            // sample of a third of that gives it: SRTT + 4 · SRTT / 2.
            self.rtt.on_sample(RETRANSMITTED_SYN_RTO_MS * 1_000 / 3);
        }
        if retransmitted {
            // RFC 6298 section 5.7, RFC 5681 section 3.1: the SYN was lost.
            self.set_cwnd(u32::from(self.mss));
        }
        self.backoff = 0;
        self.state = if self.flags.has(Flags::FINISHED) { State::FinWait1 } else { State::Established };
        self.arm_keepalive(cx);
        self.begin_pacing(cx.config, cx.now);
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
            let mut outcome = self.answer_unacceptable(cx, header, payload);
            if header.seq == self.rcv_nxt && header.flags.contains(Bits::ACK) && payload.len() as u32 > window {
                if self.is_plausible(header.ack) {
                    self.on_ack(cx, header, 1, &mut outcome);
                } else {
                    outcome.answer = refuse_ack(cx);
                }
            }
            return outcome;
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
        // Nothing is taken down before the acknowledgement was found good: a
        // blind segment would otherwise move TS.Recent ahead, and PAWS then
        // refuse the peer's own (RFC 5961 section 5; tcp_rcv_established in
        // Linux), or stand for the peer where that is silent.
        if !self.is_plausible(header.ack) {
            outcome.answer = refuse_ack(cx);
            return outcome;
        }
        self.note_arrival(cx);
        self.on_ack(cx, header, segment_len(header, payload), &mut outcome);
        self.last_rx = cx.now_ms;
        if self.state == State::Closed {
            return outcome;
        }
        if header.seq.at_or_before(self.rcv_nxt) {
            self.note_in_order(cx.now_ms, header.options.timestamps.as_ref());
        }
        self.take_payload(cx, header.seq, payload, &mut outcome);
        self.take_fin(cx, header, payload, &mut outcome);
        outcome
    }

    /// The acknowledgement that an unacceptable segment gets: at once for text
    /// and FIN, which the peer would send again, and for a sound probe. Any
    /// other empty segment may itself be such an answer, from a peer whose
    /// numbers were spoilt as ours were, or anybody's: it gets one within the
    /// limit of challenges, so that two ends which refuse each other do not
    /// answer each other at the speed of the wire (`tcp_oow_rate_limited` in
    /// Linux's net/ipv4/tcp_input.c).
    ///
    /// Nothing but that answer comes of it: whoever sent it need not know the
    /// peer's numbers.
    fn answer_unacceptable(&mut self, cx: &mut Context<'_>, header: &TcpHeader, payload: &[u8]) -> Outcome {
        let len = segment_len(header, payload);
        let probe = header.seq == self.rcv_nxt.minus(1) && header.ack.at_or_before(self.nxt);
        if !probe && len == 0 {
            return Outcome::answer(challenge_ack(cx));
        }
        self.flags.set(Flags::ACK_NOW);
        if header.seq.before(self.rcv_nxt) {
            let old = self.rcv_nxt.forward_from(header.seq);
            self.note_duplicate(cx, header.seq, len.min(old));
            self.note_repeated(cx, header, payload);
        }
        Outcome::NONE
    }

    /// A segment that we have, sent again because our acknowledgement was
    /// lost: the acknowledgement that answers it echoes its timestamp (RFC
    /// 7323 section 4.3), or the peer would take its own retransmission
    /// timeout for the round trip. That one alone: TS.Recent is not moved by
    /// what is not acceptable (section 5.3 R1 before R3), or PAWS would refuse
    /// the peer's own segments after a stranger's.
    #[cold]
    fn note_repeated(&mut self, cx: &Context<'_>, header: &TcpHeader, payload: &[u8]) {
        let end = header.seq.plus(segment_len(header, payload));
        let repeated = end.at_or_before(self.rcv_nxt) && end.after(header.seq);
        let sound = header.flags.contains(Bits::ACK)
            && header.ack.at_or_before(self.nxt)
            && header.ack.at_or_after(self.una.minus(0xffff));
        if let Some(timestamps) = &header.options.timestamps
            && self.flags.has(Flags::TIMESTAMPS)
            && self.timestamp_in_order(Some(timestamps))
            // What came first and is not acknowledged yet is echoed instead.
            && self.unacked == 0
            && repeated
            && sound
        {
            self.cold_mut(cx.config).echo = Some(timestamps.value);
            self.flags.set(Flags::SLOW);
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
        if !self.is_older(ts, cx.now_ms) {
            return Ok(());
        }
        let len = segment_len(header, payload);
        if len == 0 && header.seq == self.rcv_nxt && header.ack.at_or_before(self.una) {
            // An acknowledgement that others overtook: it tells nothing
            // any more, and nothing is wrong (tcp_disordered_ack in
            // Linux's net/ipv4/tcp_input.c).
            return Err(Outcome::NONE);
        }
        cx.counters.paws_rejected += 1;
        if len == 0 {
            // As in `answer_unacceptable`.
            return Err(Outcome::answer(challenge_ack(cx)));
        }
        self.flags.set(Flags::ACK_NOW);
        Err(Outcome::NONE)
    }

    /// Whether an acknowledgement is neither of the future nor of the distant
    /// past (RFC 5961 section 5.2).
    fn is_plausible(&self, ack: SeqNum) -> bool {
        let oldest = self.una.minus(self.snd_wnd.max(0xffff));
        !ack.after(self.nxt) && !ack.before(oldest)
    }

    /// Whether text of this segment may be taken: it is what has to be known
    /// before anything is done for it.
    #[must_use]
    pub fn may_take(&self, now_ms: u32, header: &TcpHeader, payload: &[u8]) -> bool {
        let window = self.rcv_adv.forward_from(self.rcv_nxt);
        let in_time = match &header.options.timestamps {
            _ if !self.flags.has(Flags::TIMESTAMPS) => true,
            Some(ts) => !self.is_older(ts, now_ms),
            None => false,
        };
        let control = header.flags.intersects(Bits::SYN.union(Bits::RST)) || !header.flags.contains(Bits::ACK);
        in_time && !control && self.is_acceptable(header, payload, window) && self.is_plausible(header.ack)
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
}

/// The answer to an acknowledgement that cannot be the peer's.
fn refuse_ack(cx: &mut Context<'_>) -> Answer {
    cx.counters.bad_ack += 1;
    challenge_ack(cx)
}

/// An acknowledgement, within the limit of challenges.
fn challenge_ack(cx: &mut Context<'_>) -> Answer {
    cx.counters.challenge_acks += 1;
    Answer::Challenge
}

#[cfg(test)]
mod tests;
