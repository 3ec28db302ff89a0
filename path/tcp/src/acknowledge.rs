//! What is acknowledged: the send queue, the round trip, the congestion window
//! outside recovery (RFC 9293 section 3.10.7.4, step five).

use crate::cold::{Cold, Recovery};
use crate::connection::Connection;
use crate::context::Context;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::recovery::Acknowledged;
use crate::state::State;
use app::Closed;
use congestion::Delivery;
use wire::tcp::{SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};

/// A timestamp echo older than this is taken for garbage, not for a round
/// trip.
const MAX_ECHO_MS: u32 = 600_000;

impl Connection {
    /// Something is newly acknowledged. Returns whether the send queue fell to the
    /// low-water mark.
    #[inline]
    pub(crate) fn on_acked(
        &mut self,
        cx: &mut Context<'_>,
        timestamps: Option<&Timestamps>,
        progress: Progress,
    ) -> bool {
        let Progress { una, acked, fin, first, .. } = progress;
        let in_flight = self.in_flight();
        self.rope.release(u64::from(acked - u32::from(fin)));
        self.una = una;
        let rtt_us = self.sample_rtt(cx, timestamps, first);
        if self.flags.has(Flags::CWND_LIMITED) || self.cold.is_some() || self.fills_window(in_flight) {
            self.on_progress(cx, &progress, in_flight, rtt_us);
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
        self.takes_more()
    }

    /// Whether what is unsent has fallen to the low-water mark since it was
    /// above: told once.
    #[inline]
    pub(crate) fn takes_more(&mut self) -> bool {
        let falls = self.flags.has(Flags::ABOVE_LOW_WATER) && self.unsent() as usize <= app::SEND_LOW_WATER;
        if falls {
            self.flags.clear(Flags::ABOVE_LOW_WATER);
        }
        falls
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
    pub(crate) fn sample_rtt(
        &mut self,
        cx: &Context<'_>,
        timestamps: Option<&Timestamps>,
        first: Option<SeqNum>,
    ) -> Option<u32> {
        if self.cold.is_some()
            && let Some(us) = self.sample_departure(cx, first)
        {
            return Some(us);
        }
        let ms = self.round_trip(cx.now_ms, || cx.ts_offset, timestamps)?;
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

    /// New data is acknowledged, of a connection that has a cold part or is to have one.
    #[cold]
    fn on_progress(&mut self, cx: &mut Context<'_>, progress: &Progress, in_flight: u32, rtt_us: Option<u32>) {
        let (una, window, now) = (self.una, self.snd_wnd, cx.now);
        let (unclocked, srtt_us) = (una == self.nxt, self.rtt.srtt_us());
        let acked = progress.acked;
        let cold = self.cold_mut(cx.config);
        cold.note_delivered(now, progress.delivered, progress.highest.latest(una));
        cold.unclocked = unclocked;
        cold.acked_to += u64::from(acked);
        cold.rack.on_acked(una);
        cold.unreachable = None;
        cold.unanswered_since = None;
        cold.most_window = cold.most_window.map(|most| most.max(window));
        self.grow(cx, (acked, progress.delivered), in_flight, rtt_us);
        if self.cold.as_ref().is_some_and(|cold| cold.rate_is_over()) {
            self.end_rate(cx.config);
        }
        let Some(cold) = &self.cold else { return };
        if cold.pacing.is_some() || cold.own_rate(cx.config, srtt_us).is_some() {
            self.steer_pacing(cx.config, now);
        }
    }

    /// Lets the congestion window grow, outside recovery, by what is `arrived`: bytes
    /// acknowledged, and those delivered.
    pub(crate) fn grow(&mut self, cx: &mut Context<'_>, arrived: (u32, u32), in_flight: u32, rtt_us: Option<u32>) {
        let (una, nxt) = (self.una, self.nxt);
        let window_limited = self.flags.has(Flags::CWND_LIMITED);
        let Some(cold) = self.tell_congestion(cx, arrived, in_flight, rtt_us) else { return };
        // A window that was not filled tells nothing (RFC 7661 section 4.3),
        // but that it may be larger: the window itself says that.
        cold.learned |= window_limited || !cold.congestion.in_slow_start();
        let cwnd = cold.congestion.window();
        if window_limited {
            // Once all that left under the limit is acknowledged, what follows
            // has to meet it again.
            let until = *cold.limited_until.get_or_insert(nxt);
            if una.at_or_after(until) {
                cold.limited_until = None;
                self.flags.clear(Flags::CWND_LIMITED);
            }
        }
        self.cwnd = cwnd;
    }

    /// Congestion control learns of a delivery, outside fast recovery.
    fn tell_congestion(
        &mut self,
        cx: &Context<'_>,
        (acked, delivered): (u32, u32),
        in_flight: u32,
        rtt_us: Option<u32>,
    ) -> Option<&mut Cold> {
        let (under_way, srtt_us) = (self.in_flight(), self.rtt.srtt_us());
        let window_limited = self.flags.has(Flags::CWND_LIMITED);
        let cold = self.cold_mut(cx.config);
        if matches!(cold.recovery, Recovery::Fast(_)) {
            return None;
        }
        let (acked_to, sent_to) = (cold.acked_to, cold.acked_to + u64::from(under_way));
        let (now, paced, reordered) = (cx.now, cold.pacing.is_some(), cold.rack.is_reordered());
        let delivery = Delivery {
            now,
            acked,
            delivered,
            in_flight,
            rtt_us,
            srtt_us,
            acked_to,
            sent_to,
            paced,
            reordered,
            window_limited,
        };
        cold.congestion.on_ack(&delivery);
        Some(cold)
    }

    /// So many bytes arrived ahead of a gap, by this round trip.
    #[cold]
    pub(crate) fn measure_path(&mut self, cx: &Context<'_>, delivered: u32, rtt_us: Option<u32>) {
        let in_flight = self.in_flight();
        self.tell_congestion(cx, (0, delivered), in_flight, rtt_us);
    }

    #[inline]
    pub(crate) fn arm_keepalive(&mut self, cx: &Context<'_>) {
        if cx.config.keepalive_idle > 0 {
            self.arm(cx, cx.config.keepalive_idle);
        }
    }

    /// Step five, the ACK, which was found plausible. What the segment says
    /// beside it counts unless the connection is over.
    pub(crate) fn on_ack(&mut self, cx: &mut Context<'_>, header: &TcpHeader, len: u32, outcome: &mut Outcome) {
        if header.ack.before(self.una) {
            if self.flags.has(Flags::SACK) && !header.options.sack.is_empty() {
                self.on_overtaken_ack(cx, header, outcome);
            }
            return;
        }
        let acked = header.ack.forward_from(self.una);
        let fin = acked > 0 && self.flags.has(Flags::FIN_SENT) && header.ack == self.nxt;
        let window = u32::from(header.window) << self.peer_shift();
        let duplicate = acked == 0 && len == 0 && self.in_flight() > 0 && window == self.snd_wnd;
        self.on_ack_loss(cx, header, Acknowledged { acked, fin, duplicate }, outcome);
        if self.cold.as_ref().is_some_and(|cold| cold.sizes.is_some()) {
            self.on_sizes(cx);
        }
        if self.wl1.at_or_before(header.seq) {
            self.note_window(header.seq, window);
        }
        if self.in_flight() == 0 && !self.waits_to_send() {
            // The peer is there: keepalive's probes are answered.
            self.backoff = 0;
        }
        if fin {
            self.on_fin_acked(cx, outcome);
        }
    }

    /// The peer's window, by a segment from `seq` on that none overtook.
    #[inline]
    pub(crate) fn note_window(&mut self, seq: SeqNum, window: u32) {
        if window > 0 && self.snd_wnd == 0 && self.in_flight() == 0 && self.waits_to_send() {
            // The window has opened: no more probes.
            self.backoff = 0;
            self.flags.clear(Flags::TIMER | Flags::PROBE);
        }
        self.snd_wnd = window;
        self.wl1 = seq;
    }

    /// An acknowledgement that another overtook still says what the peer holds: the scoreboard
    /// learns of it with any acknowledgement (RFC 6675 section 5). What lies below SND.UNA
    /// by now is no news; what lay below its own acknowledgement was received twice (RFC
    /// 2883 section 4.1) and stays.
    #[cold]
    fn on_overtaken_ack(&mut self, cx: &mut Context<'_>, header: &TcpHeader, outcome: &mut Outcome) {
        let mut sack = SackBlocks::EMPTY;
        for &(start, end) in header.options.sack.as_slice() {
            if end.at_or_before(header.ack) || start.after(self.una) {
                sack.push(start, end);
            }
        }
        if !sack.is_empty() {
            let options = TcpOptions { sack, ..header.options };
            let now = TcpHeader { ack: self.una, options, ..*header };
            self.on_ack_loss(cx, &now, Acknowledged { acked: 0, fin: false, duplicate: false }, outcome);
        }
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
}
