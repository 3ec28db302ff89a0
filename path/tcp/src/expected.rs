//! A segment arrives: header prediction takes the one that is expected next on
//! an undisturbed ESTABLISHED connection; everything else takes the order of
//! the RFC (`input.rs`).

use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::flags::Flags;
use crate::late::LateSegments;
use crate::outcome::{Light, Outcome};
use crate::progress::Progress;
use crate::state::State;
use wire::tcp::{Established, Flags as Bits, SeqNum, TcpHeader, Timestamps};

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
        self.on_light_as::<false>(cx, ts_offset, header, payload)
    }

    /// The same for a connection that is sealed: it is light where it would be without that.
    /// The data are records.
    #[inline(always)]
    pub fn on_light_sealed(
        &mut self,
        cx: &mut Context<'_>,
        ts_offset: impl FnOnce() -> u32,
        header: &Established,
        payload: &[u8],
    ) -> Option<Light> {
        self.on_light_as::<true>(cx, ts_offset, header, payload)
    }

    #[inline(always)]
    fn on_light_as<const SEALED: bool>(
        &mut self,
        cx: &mut Context<'_>,
        ts_offset: impl FnOnce() -> u32,
        header: &Established,
        payload: &[u8],
    ) -> Option<Light> {
        const HEAVY: u16 = Flags::SLOW | Flags::CWND_LIMITED | Flags::ABOVE_LOW_WATER;
        let light = self.cold.is_none() && !self.flags.has(if SEALED { HEAVY } else { HEAVY | Flags::SEALED });
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
            match SEALED {
                false => self.rope.release(u64::from(acked)),
                true => self.rope.release_single(acked),
            }
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
            let progress = Progress::plain(header.ack, acked, false, Some(self.una));
            outcome.drained = self.on_acked(cx, header.options.timestamps.as_ref(), progress);
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
    pub(crate) fn note_arrival(&mut self, cx: &mut Context<'_>) {
        let idle = cx.now_ms.wrapping_sub(self.last_rx);
        let rested = self.has_rested(cx);
        if let Some(cold) = &mut self.cold {
            cold.pass_late((self.rcv_nxt, self.rcv_adv), self.ts_recent, cx.now_ms);
            self.on_peer_heard();
            self.try_longer(cx.now_ms);
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
        match &mut self.cold {
            Some(cold) => {
                cold.congestion.on_idle();
                self.cwnd = cold.congestion.window();
            }
            None => self.cwnd = self.cwnd.min(congestion::initial_window(u32::from(self.mss))),
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

    /// What came begins at RCV.NXT or before. TS.Recent follows it, but never back (RFC 7323
    /// section 5.3 R3).
    pub(crate) fn note_in_order(&mut self, now_ms: u32, timestamps: Option<&Timestamps>) {
        if !self.timestamp_in_order(timestamps) {
            return;
        }
        let recent = self.ts_recent;
        self.note_timestamp(timestamps);
        if self.ts_recent != recent
            && let Some(cold) = &mut self.cold
            && cold.receive.has_gap()
        {
            let first = LateSegments::new(recent, self.rcv_adv, now_ms);
            cold.late.get_or_insert(first).on_filled(now_ms);
        }
    }

    #[inline]
    pub(crate) fn take_in_order(&mut self, len: u32) {
        self.rcv_nxt = self.rcv_nxt.plus(len);
        self.unacked = (u32::from(self.unacked) + len).min(0xffff) as u16;
    }
}
