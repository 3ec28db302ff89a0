//! Loss recovery: what acknowledgements and the timer tell of losses, and what follows.
//!
//! With SACK losses are found by time, and a lost tail by a probe (RACK-TLP,
//! RFC 8985); without, by duplicate and partial acknowledgements (RFC 5681,
//! RFC 6582). The rate during fast recovery is proportional (RFC 9937). What
//! turns out to have been needless is taken back (RFC 4015).

#[cfg(test)]
mod tests;

use crate::cold::{Recovery, Undo};
use crate::config::Config;
use crate::connection::Connection;
use crate::context::Context;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::prr::Prr;
use crate::scoreboard::{DUP_THRESH, Delivered};
use congestion::Signal;
use core::time::Duration;
use wire::Time;
use wire::tcp::{SeqNum, TcpHeader};

/// Longest that a peer is taken to delay an acknowledgement, in ms (RFC 8985 section 7.2).
const MAX_ACK_DELAY_MS: u32 = 200;

/// Least probe timeout, in milliseconds: a peer that is busy for a moment has lost nothing, and
/// a timer that comes up for each response costs more than it saves. (Linux adds 2 to 20 ms.)
const PROBE_MIN_MS: u32 = 10;

/// An acknowledgement as loss recovery sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    /// Sequence numbers newly acknowledged, our FIN among them or not.
    pub acked: u32,
    pub fin: bool,
    /// It is a duplicate by RFC 5681 section 2.
    pub duplicate: bool,
}

impl Connection {
    /// The acknowledgement's consequences for loss recovery.
    pub(crate) fn on_ack_loss(
        &mut self,
        cx: &mut Context<'_>,
        header: &TcpHeader,
        ack: Acknowledged,
        outcome: &mut Outcome,
    ) {
        if !self.flags.has(Flags::SACK) {
            return self.on_ack_newreno(cx, header, ack, outcome);
        }
        let (una, blocks) = (self.una, header.options.sack.as_slice());
        let timestamps = header.options.timestamps.as_ref();
        let tracked = self.cold.as_ref().is_some_and(|cold| {
            !cold.scoreboard.is_empty() || cold.recovering() || cold.probe.is_some() || cold.reordering_timer
        });
        if blocks.is_empty() && !tracked {
            if ack.acked > 0 {
                let progress = Progress::plain(header.ack, ack.acked, ack.fin, Some(una));
                outcome.drained |= self.on_acked(cx, timestamps, progress);
            }
            return;
        }
        self.flags.set(Flags::SLOW);
        let (sacked_before, reordering) =
            self.cold.as_ref().map_or((0, false), |cold| (cold.scoreboard.sacked_bytes(), cold.reordering_timer));
        let delivered = self.on_arrivals(cx, header);
        if ack.acked > 0 {
            let progress = Progress {
                delivered: delivered.bytes(ack.acked),
                highest: delivered.highest.map_or(header.ack, |highest| highest.latest(header.ack)),
                ..Progress::plain(header.ack, ack.acked, ack.fin, delivered.original)
            };
            outcome.drained |= self.on_acked(cx, timestamps, progress);
        } else {
            // What is only SACKed has its round trip too (tcp_ack_update_rtt in Linux's tcp_input.c).
            let rtt_us = self.sample_departure(cx, delivered.original);
            if delivered.newly_sacked > 0 {
                self.measure_path(cx, delivered.newly_sacked, rtt_us);
            }
            // And lets new data go, which what is queued is to last for.
            outcome.drained |= self.takes_more();
            if let (Some(cold), Some(highest)) = (&mut self.cold, delivered.highest) {
                cold.note_delivered(cx.now, delivered.newly_sacked, highest);
            }
        }
        self.on_probe_acked(cx, header, ack, &delivered);
        self.undo_needless(cx, header, ack, &delivered);
        let news = self.detect_loss(cx);
        self.steer_recovery(cx, header.ack, ack.acked, &delivered, (sacked_before, news));
        self.arm_after_ack(cx, ack.acked > 0 || reordering, sacked_before);
        self.settle();
    }

    /// The scoreboard and RACK learn what arrived (RFC 8985 section 6.2 steps
    /// 1 to 4).
    fn on_arrivals(&mut self, cx: &mut Context<'_>, header: &TcpHeader) -> Delivered {
        let (una, nxt, now, mss) = (self.una, self.nxt, cx.now, u32::from(self.mss).max(1));
        let srtt = Duration::from_micros(u64::from(self.rtt.srtt_us()));
        let echo = if self.flags.has(Flags::TIMESTAMPS) { header.options.timestamps } else { None };
        let ts_offset = cx.ts_offset;
        // Sent no later than what the timestamp echoes.
        let echoed = |at: Time| {
            let stamp = (at.as_millis() as u32).wrapping_add(ts_offset);
            echo.is_none_or(|ts| ts.echo.wrapping_sub(stamp) as i32 >= 0)
        };
        let cold = self.cold_mut(cx.config);
        cold.rack.assume(nxt, before(now, srtt), srtt);
        let mut delivered = cold.scoreboard.on_ack(una, header.ack, nxt, header.options.sack.as_slice());
        if let Some(sent) = delivered.again {
            cold.rack.on_arrived_again(sent, now, echoed);
        }
        // What was SACKed before, in a block that was lost, may be told only now.
        if let Some(sent) = delivered.again_sacked.filter(|sent| now.since(sent.at) >= srtt * 7 / 8) {
            cold.rack.on_arrived_again(sent, now, |_| true);
        }
        if let Some(end) = delivered.highest {
            cold.rack.on_arrived(end, now, echoed);
        }
        if delivered.reordered {
            cold.rack.on_reordered();
            cold.reordering = cold.reordering.max(delivered.overtaken.div_ceil(mss));
            // RACK.reordering_seen is the connection's, not the flight's
            // (RFC 8985 section 6.2 step 3): the next one is not to be taken
            // for lost because it is late in the same way.
            cold.learned = true;
        }
        cx.counters.dsacks_in += u64::from(delivered.duplicate.is_some());
        delivered.duplicate = delivered.duplicate.filter(|report| cold.may_have_come_twice(*report));
        if let Some((start, end)) = delivered.duplicate {
            let segments = end.forward_from(start).div_ceil(mss);
            if let Some(undo) = cold.undo.as_mut().filter(|undo| end.after(undo.from)) {
                undo.again = undo.again.saturating_sub(segments);
            }
            // A probe is sent on suspicion, and tells nothing of reordering.
            if cold.probe.is_none_or(|probe| probe.end != end) {
                cold.rack.on_dsack(nxt);
            }
        }
        delivered
    }

    /// RACK_detect_loss (RFC 8985 section 6.2 step 5). Returns whether
    /// something is newly lost; `reordering_timer` says whether more may be,
    /// after the time that the timer is set to.
    fn detect_loss(&mut self, cx: &Context<'_>) -> bool {
        let (una, srtt_us) = (self.una, self.rtt.srtt_us());
        let Some(cold) = &mut self.cold else { return false };
        cold.reordering_timer = false;
        let dup_thresh = cold.recovering() || cold.scoreboard.dup_thresh();
        let Some(judge) = cold.rack.judge(cx.now, dup_thresh, srtt_us) else { return false };
        let mut verdict = cold.rack.verdict(&judge, una, |start, end| cold.scoreboard.misses(start, end));
        let mut news = cold.scoreboard.lose_again(&judge, &mut verdict) > 0;
        if let Some(edge) = verdict.edge
            && edge.after(una)
        {
            news |= cold.scoreboard.mark_lost(edge);
        }
        if let Some(wait) = verdict.wait
            && self.in_flight() > 0
        {
            self.arm(cx, u32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX).clamp(1, 60_000));
            if let Some(cold) = &mut self.cold {
                cold.reordering_timer = true;
            }
        }
        news
    }

    /// Into recovery, on with it, or out of it.
    fn steer_recovery(
        &mut self,
        cx: &mut Context<'_>,
        una: SeqNum,
        acked: u32,
        delivered: &Delivered,
        (sacked_before, news): (u32, bool),
    ) {
        let recovery = self.cold.as_ref().map_or(Recovery::Open, |cold| cold.recovery);
        match recovery {
            Recovery::Fast(recover) if una.at_or_after(recover) => {
                self.leave_recovery();
                self.grow_after_recovery(cx, delivered.bytes(acked));
            }
            Recovery::Loss(recover) if una.at_or_after(recover) => self.leave_recovery(),
            Recovery::Fast(_) => return self.reduce(acked, delivered, news),
            Recovery::Loss(_) => return,
            Recovery::Open => {}
        }
        // RACK's timer may have told, and nothing been delivered.
        if self.in_flight() > 0 && self.cold.as_ref().is_some_and(|cold| cold.scoreboard.is_lost(una)) {
            if self.takes_lost_probe(cx) {
                return;
            }
            let outstanding = self.in_flight().saturating_add(acked).saturating_sub(sacked_before);
            self.enter_recovery(cx, outstanding);
            if delivered.bytes(acked) > 0 {
                self.reduce(acked, delivered, news);
            }
        }
    }

    /// With the first SACK the retransmission timer takes over from the
    /// probe's (RFC 8985 section 7.2), and it does from RACK's once that waits
    /// for nothing.
    fn arm_after_ack(&mut self, cx: &Context<'_>, anew: bool, sacked_before: u32) {
        let Some(cold) = &self.cold else { return };
        if cold.reordering_timer || self.in_flight() == 0 {
            return;
        }
        let first = sacked_before == 0 && cold.scoreboard.sacked_bytes() > 0;
        if anew || first || !self.flags.has(Flags::TIMER) {
            self.arm_in_flight(cx);
        }
    }

    /// RACK's reordering timer: what is overdue now is lost.
    pub(crate) fn on_reordering_timer(&mut self, cx: &mut Context<'_>) {
        let una = self.una;
        let sacked = self.cold.as_ref().map_or(0, |cold| cold.scoreboard.sacked_bytes());
        let news = self.detect_loss(cx);
        self.steer_recovery(cx, una, 0, &Delivered::default(), (sacked, news));
        // A probe may be what is lost, before it is sent again.
        self.on_sizes(cx);
        if self.cold.as_ref().is_some_and(|cold| !cold.reordering_timer) {
            self.arm(cx, self.rto(cx.config));
        }
        self.settle();
    }
}

/// Tail loss probes (RFC 8985 section 7).
impl Connection {
    /// Whether the timer is the probe's: nothing is known to be missing, and
    /// no probe is out (section 7.2).
    #[inline]
    pub(crate) fn may_probe(&self) -> bool {
        self.flags.has(Flags::SACK)
            && self.backoff == 0
            && self.cold.as_ref().is_none_or(|cold| {
                cold.recovery == Recovery::Open
                    && cold.probe.is_none()
                    && cold.scoreboard.sacked_bytes() == 0
                    && !cold.reordering_timer
            })
    }

    /// New data left while the timer runs: a probe's starts again.
    #[inline(always)]
    pub(crate) fn arm_probe(&mut self, cx: &Context<'_>) {
        // What [`Connection::patience`] is where a round trip takes a
        // millisecond or less: without a division.
        let delay = if self.in_flight() <= u32::from(self.mss) { MAX_ACK_DELAY_MS } else { 0 };
        let short = PROBE_MIN_MS + delay;
        if self.cold.is_none() && self.backoff == 0 && self.rtt.is_short() && short <= cx.config.rto_min {
            if self.flags.has(Flags::SACK) {
                self.arm(cx, short);
            }
            return;
        }
        self.arm_longer_probe(cx);
    }

    #[inline(never)]
    pub(crate) fn arm_longer_probe(&mut self, cx: &Context<'_>) {
        if self.may_probe() {
            self.arm_in_flight(cx);
        }
    }

    /// The same for a FIN; without a probe the retransmission timer goes on,
    /// or starts with what starts a flight.
    pub(crate) fn arm_probe_or(&mut self, cx: &Context<'_>, starts_flight: bool) {
        if starts_flight {
            self.arm_in_flight(cx);
        } else {
            self.arm_probe(cx);
        }
    }

    /// Arms the timer for what is in flight: the probe's or, where none may
    /// be sent, the retransmission timer.
    pub(crate) fn arm_in_flight(&mut self, cx: &Context<'_>) {
        self.arm(cx, self.patience(cx.config));
    }

    /// How long what is in flight waits for an answer before anything is done,
    /// in milliseconds.
    pub(crate) fn patience(&self, config: &Config) -> u32 {
        let probe = if self.may_probe() { self.probe_timeout() } else { u32::MAX };
        // No longer than the retransmission timer, which is at least this.
        if probe <= config.rto_min { probe } else { probe.min(self.rto(config)) }
    }

    /// TLP_calc_PTO (section 7.2), in milliseconds.
    fn probe_timeout(&self) -> u32 {
        if !self.rtt.sampled() {
            return u32::MAX;
        }
        let twice = (2 * self.rtt.srtt_us()).div_ceil(1_000).max(PROBE_MIN_MS);
        // A single segment's acknowledgement may be delayed.
        if self.in_flight() <= u32::from(self.mss) { twice + MAX_ACK_DELAY_MS } else { twice }
    }

    /// The probe's time has come.
    pub(crate) fn on_probe_timeout(&mut self, cx: &mut Context<'_>) {
        let (nxt, now) = (self.nxt, cx.now);
        let srtt = Duration::from_micros(u64::from(self.rtt.srtt_us()));
        let cold = self.cold_mut(cx.config);
        // Twice the round trip ago, at the latest.
        cold.rack.assume(nxt, before(now, 2 * srtt), srtt);
        cold.probe_due = true;
        self.flags.set(Flags::SLOW);
        self.arm_unanswered(cx);
    }

    /// TLP_process_ack (section 7.4.2).
    fn on_probe_acked(&mut self, cx: &mut Context<'_>, header: &TcpHeader, ack: Acknowledged, delivered: &Delivered) {
        let flight = self.in_flight();
        let Some(cold) = &mut self.cold else { return };
        let Some(probe) = cold.probe else { return };
        if header.ack.before(probe.end) {
            return;
        }
        let twice = delivered.duplicate.is_some_and(|(_, end)| end == probe.end);
        if !probe.again || twice || (ack.duplicate && header.options.sack.is_empty()) {
            // New data arrived, or the last segment did twice: nothing was
            // lost.
            cold.probe = None;
        } else if header.ack.after(probe.end) {
            // The probe, and nothing else, filled the hole: a loss like any
            // other, for congestion control.
            cold.probe = None;
            cx.counters.loss_probe_recoveries += 1;
            if cold.recovery == Recovery::Open {
                cold.congestion.on_congestion(Signal::Loss, flight);
                cold.congestion.on_recovery_end();
                cold.learned = true;
                let cwnd = cold.congestion.window();
                self.set_cwnd(cwnd.max(u32::from(self.mss)));
            }
        }
    }
}

/// What is common to all recoveries.
impl Connection {
    /// Fast retransmit (RFC 5681 section 3.2, RFC 6675 section 5 step 4). `outstanding`
    /// bytes were neither acknowledged nor SACKed before the acknowledgement that tells
    /// of the loss: what recovery may deliver (RecoverFS of RFC 9937 section 6).
    fn enter_recovery(&mut self, cx: &mut Context<'_>, outstanding: u32) {
        let (una, nxt, flight) = (self.una, self.nxt, self.in_flight());
        let mss = u32::from(self.mss);
        cx.counters.fast_recoveries += 1;
        let cold = self.cold_mut(cx.config);
        let undo = Undo { congestion: cold.congestion.clone(), again_at: None, again: 0, from: una };
        cold.undo = Some(Box::new(undo));
        cold.congestion.on_congestion(Signal::Loss, flight);
        cold.learned = true;
        cold.recovery = Recovery::Fast(nxt);
        cold.probe = None;
        let prr = Prr::new(outstanding, cold.congestion.ssthresh(), mss);
        cold.prr = Some(prr);
        self.flags.set(Flags::SLOW);
        self.flags.clear(Flags::TIMING);
        // The first retransmission is sent whatever the flight.
        self.cwnd = self.pipe().saturating_add(mss);
        self.steer_pacing(cx.config, cx.now);
    }

    /// The retransmission timer ran out (RFC 6298 section 5.4 to 5.6).
    pub(crate) fn on_retransmission_timeout(&mut self, cx: &mut Context<'_>) {
        cx.counters.timeouts += 1;
        let (una, nxt, flight, mss) = (self.una, self.nxt, self.in_flight(), u32::from(self.mss));
        let (sack, srtt_us) = (self.flags.has(Flags::SACK), self.rtt.srtt_us());
        let cwnd = self.cwnd;
        let signal = if self.backoff == 0 { Signal::Timeout } else { Signal::RepeatedTimeout };
        let now = cx.now;
        let cold = self.cold_mut(cx.config);
        match cold.recovery {
            Recovery::Open => {
                let undo = Undo { congestion: cold.congestion.clone(), again_at: None, again: 0, from: una };
                cold.undo = Some(Box::new(undo));
            }
            // What began it was not the timer.
            Recovery::Fast(_) => cold.undo = None,
            Recovery::Loss(_) => {}
        }
        // It may have been proportional rate reduction's.
        cold.congestion.set_window(cwnd);
        cold.congestion.on_congestion(signal, flight);
        let cwnd = cold.congestion.window();
        cold.learned = true;
        let young = sack.then(|| cold.rack.verdict_of_timer(now, srtt_us)).flatten();
        cold.scoreboard.on_rto(una, nxt, if sack { young.unwrap_or(una) } else { nxt });
        cold.recovery = Recovery::Loss(nxt);
        cold.prr = None;
        cold.probe = None;
        cold.probe_due = false;
        cold.reordering_timer = false;
        self.dupacks = 0;
        // One segment beyond what is too young to be lost (tcp_enter_loss in
        // Linux's net/ipv4/tcp_input.c).
        self.set_cwnd(cwnd.max(self.pipe().saturating_add(mss)));
        self.steer_pacing(cx.config, cx.now);
        self.backoff += 1;
        self.flags.clear(Flags::TIMING);
        self.flags.set(Flags::SLOW);
        self.on_size_timeout(cx);
        self.arm_unanswered(cx);
    }

    /// Bytes believed to be in flight; without SACK each duplicate
    /// acknowledgement stands for a segment that has left the network.
    pub(crate) fn pipe(&self) -> u32 {
        let Some(cold) = &self.cold else { return self.in_flight() };
        let pipe = cold.scoreboard.pipe(self.una, self.nxt);
        if self.flags.has(Flags::SACK) {
            return pipe;
        }
        pipe.saturating_sub(u32::from(self.dupacks) * u32::from(self.mss))
    }

    /// Proportional rate reduction: what this acknowledgement lets be sent.
    fn reduce(&mut self, acked: u32, delivered: &Delivered, news: bool) {
        let mss = u32::from(self.mss);
        let pipe = self.pipe();
        let sack = self.flags.has(Flags::SACK);
        let dupack = self.dupacks > 0;
        let Some(cold) = &mut self.cold else { return };
        let Some(prr) = &mut cold.prr else { return };
        // Without SACK each duplicate stands for one segment delivered
        // (RFC 9937 section 6.2).
        let bytes = match (sack, acked, dupack) {
            (true, ..) => delivered.bytes(acked),
            (false, 0, true) => mss,
            (false, acked, _) => acked,
        };
        let may_send = prr.on_ack(bytes, pipe, acked > 0 && !news);
        self.cwnd = pipe.saturating_add(may_send).max(mss);
    }

    fn leave_recovery(&mut self) {
        let mut cwnd = self.cwnd;
        if let Some(cold) = &mut self.cold {
            if matches!(cold.recovery, Recovery::Fast(_)) {
                cold.congestion.on_recovery_end();
                cwnd = cold.congestion.window();
            }
            cold.recovery = Recovery::Open;
            cold.prr = None;
            cold.rack.on_recovered();
        }
        self.set_cwnd(cwnd.max(u32::from(self.mss)));
        self.dupacks = 0;
    }

    /// What the acknowledgement that ends fast recovery tells to have arrived
    /// left within the reduced window, and counts as in any other
    /// acknowledgement (`tcp_cong_control` in Linux's net/ipv4/tcp_input.c).
    fn grow_after_recovery(&mut self, cx: &mut Context<'_>, bytes: u32) {
        let in_flight = self.in_flight().saturating_add(bytes);
        if bytes > 0 {
            self.grow(cx, (bytes, bytes), in_flight, None);
        }
    }

    /// Everything in flight is to be sent again, without a timeout.
    pub(crate) fn mark_flight_lost(&mut self, cx: &mut Context<'_>) {
        cx.counters.path_mtu_reduced += 1;
        let (una, nxt, mss, cwnd) = (self.una, self.nxt, u32::from(self.mss), self.cwnd);
        let cold = self.cold_mut(cx.config);
        cold.congestion.set_segment(mss);
        // It may have been proportional rate reduction's.
        cold.congestion.set_window(cwnd);
        cold.scoreboard.set_mss(mss);
        cold.scoreboard.on_rto(una, nxt, nxt);
        cold.recovery = Recovery::Loss(nxt);
        cold.prr = None;
        cold.probe = None;
        cold.undo = None;
        self.flags.set(Flags::SLOW);
    }
}

/// What was needless is taken back.
impl Connection {
    /// Whether nothing had been lost, by one of three signs: what is
    /// acknowledged was sent before anything was sent again (Eifel, RFC 3522);
    /// all that was sent again arrived twice (RFC 3708); after a timeout, and
    /// without timestamps, something arrives that was sent only once (F-RTO,
    /// RFC 5682 section 3.1).
    fn undo_needless(&mut self, cx: &mut Context<'_>, header: &TcpHeader, ack: Acknowledged, delivered: &Delivered) {
        let timestamps = self.flags.has(Flags::TIMESTAMPS);
        let Some(cold) = &mut self.cold else { return };
        let Some(undo) = &cold.undo else { return };
        let Some(again_at) = undo.again_at else { return };
        let earlier = match &header.options.timestamps {
            Some(ts) if timestamps => ack.acked > 0 && (ts.echo.wrapping_sub(again_at) as i32) < 0,
            _ => false,
        };
        let twice = undo.again == 0 && delivered.duplicate.is_some_and(|(_, end)| end.after(undo.from));
        let original = match cold.recovery {
            Recovery::Loss(recover) if !timestamps => delivered.original.is_some_and(|seq| seq.before(recover)),
            _ => false,
        };
        if !(earlier || twice || original) {
            return;
        }
        let Some(undo) = cold.undo.take() else { return };
        cx.counters.recoveries_undone += 1;
        if matches!(cold.recovery, Recovery::Fast(_)) {
            // Not lost, only late.
            cold.rack.on_reordered();
        }
        let cwnd = undo.congestion.window();
        cold.congestion = undo.congestion;
        cold.recovery = Recovery::Open;
        cold.prr = None;
        cold.scoreboard.forgive();
        self.set_cwnd(self.cwnd.max(cwnd));
        self.dupacks = 0;
    }
}

/// Without SACK (RFC 5681 section 3.2, RFC 6582).
impl Connection {
    fn on_ack_newreno(&mut self, cx: &mut Context<'_>, header: &TcpHeader, ack: Acknowledged, outcome: &mut Outcome) {
        let (una, nxt) = (self.una, self.nxt);
        let recovery = self.cold.as_ref().map_or(Recovery::Open, |cold| cold.recovery);
        // All was sent once, unless something tells otherwise.
        let mut delivered = Delivered { original: Some(una), ..Delivered::default() };
        if let Some(cold) = &mut self.cold
            && (cold.recovering() || !cold.scoreboard.is_empty())
        {
            delivered = cold.scoreboard.on_ack(una, header.ack, nxt, &[]);
        }
        if ack.acked > 0 {
            let progress = Progress::plain(header.ack, ack.acked, ack.fin, delivered.original);
            outcome.drained |= self.on_acked(cx, header.options.timestamps.as_ref(), progress);
        } else if ack.duplicate {
            self.dupacks = self.dupacks.saturating_add(1);
            // The first two let a new segment go each (RFC 3042): the flight
            // is told by the cold part.
            self.cold_mut(cx.config);
            self.flags.set(Flags::SLOW);
        }
        if recovery != Recovery::Open && ack.acked > 0 {
            self.undo_needless(cx, header, ack, &delivered);
        }
        match self.cold.as_ref().map_or(Recovery::Open, |cold| cold.recovery) {
            Recovery::Open => {
                if u32::from(self.dupacks) >= DUP_THRESH && self.in_flight() > 0 {
                    self.lose_head();
                    if !self.takes_lost_probe(cx) {
                        self.enter_recovery(cx, self.in_flight());
                    }
                }
            }
            Recovery::Fast(recover) if header.ack.at_or_after(recover) => {
                self.leave_recovery();
                // What was delivered before is not known: beyond that point everything is new.
                self.grow_after_recovery(cx, header.ack.forward_from(recover));
            }
            Recovery::Loss(recover) if header.ack.at_or_after(recover) => self.leave_recovery(),
            Recovery::Fast(_) => {
                if ack.acked > 0 {
                    // A partial acknowledgement shows the next loss.
                    self.lose_head();
                }
                self.reduce(ack.acked, &delivered, false);
            }
            Recovery::Loss(_) => {}
        }
        if self.flags.has(Flags::SLOW) {
            self.settle();
        }
    }

    fn lose_head(&mut self) {
        let (una, nxt) = (self.una, self.nxt);
        if let Some(cold) = &mut self.cold {
            cold.scoreboard.mark_head_lost(una, nxt);
        }
    }
}

/// A time before `now`, or the clock's origin.
fn before(now: Time, span: Duration) -> Time {
    Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos() as u64))
}
