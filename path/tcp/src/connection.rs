//! One connection: its state, and what applications and the stack ask of it.
//!
//! Call order, per connection:
//!
//! ```text
//! open | accept ─► (on_segment | on_timer | send | finish | hold | consume)*
//!                  ─► poll_segment until None, whenever `wants_poll`
//! ```

use crate::agreed::Agreed;
use crate::cold::Cold;
use crate::config::{Config, DEFAULT_MSS_V4, MAX_WINDOW_SHIFT, MIN_MSS};
use crate::context::{Context, Narrowed, Path, TIMESTAMPS_LEN};
use crate::flags::Flags;
use crate::rtt::Rtt;
use crate::state::State;
use app::{Body, Unreachable};
use rope::{QueueFull, Rope};
use wheel::WheelMark;
use wire::Time;
use wire::tcp::{SeqNum, TcpHeader};

/// The hot part of a connection. With the stack's key and handle beside it, it
/// fills two cache lines, and a request on an undisturbed connection touches
/// nothing else of it. A copy shares the bodies that are queued: it is for
/// seeing what another way would have done with it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// SND.UNA
    pub(crate) una: SeqNum,
    /// SND.NXT; never moves back: what to retransmit is the scoreboard's word.
    pub(crate) nxt: SeqNum,
    /// RCV.NXT
    pub(crate) rcv_nxt: SeqNum,
    /// Right edge of the receive window that the peer was told.
    pub(crate) rcv_adv: SeqNum,
    /// SND.WL1. SND.WL2 is not kept: among segments with SEG.SEQ = SND.WL1
    /// only those whose SEG.ACK is not old get as far as the window.
    pub(crate) wl1: SeqNum,
    /// SND.WND, in bytes.
    pub(crate) snd_wnd: u32,
    /// Congestion window, in bytes.
    pub(crate) cwnd: u32,
    /// TS.Recent; without timestamps, when the timed flight was sent.
    pub(crate) ts_recent: u32,
    /// When a segment last arrived, in milliseconds.
    pub(crate) last_rx: u32,
    /// When the one TCP timer runs out, in milliseconds; valid with `TIMER`.
    pub(crate) timer_at: u32,
    pub(crate) rtt: Rtt,
    /// The timer wheel's own mark; see the stack.
    pub wheel: WheelMark,
    /// Most payload per segment without SACK blocks, timestamps accounted for.
    pub(crate) mss: u16,
    pub(crate) flags: Flags,
    /// Bytes received since the last acknowledgement was sent, saturating.
    pub(crate) unacked: u16,
    /// Window shifts: ours in the high nibble, the peer's in the low one.
    pub(crate) shifts: u8,
    pub(crate) state: State,
    /// Times that the TCP timer ran out in a row.
    pub(crate) backoff: u8,
    pub(crate) dupacks: u8,
    pub(crate) rope: Rope,
    pub(crate) cold: Option<Box<Cold>>,
}

const _: () = assert!(size_of::<Connection>() <= 96, "key, handle and timer must fit beside it in 128 bytes");

/// What TIME-WAIT needs of a connection that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastWord {
    /// SND.NXT
    pub nxt: SeqNum,
    /// RCV.NXT
    pub rcv_nxt: SeqNum,
    /// TS.Recent, if timestamps were agreed on.
    pub ts_recent: Option<u32>,
    /// The peer's FIN is still to be acknowledged.
    pub owes_ack: bool,
}

impl Connection {
    /// An active open: poll it for the SYN.
    #[must_use]
    pub fn open(cx: &mut Context<'_>, path: Path, iss: SeqNum) -> Self {
        let mut connection = Self::blank(cx, path, iss, SeqNum(0));
        connection.state = State::SynSent;
        connection.mss = path.announced_mss();
        connection.flags.set(Flags::RETRANSMIT);
        connection.nxt = iss;
        // The window in a SYN is never scaled.
        connection.rcv_adv = SeqNum(0);
        connection
    }

    /// A passive open whose handshake is complete. `window` is the window
    /// field of the peer's SYN, which is never scaled.
    #[must_use]
    pub fn accept(cx: &mut Context<'_>, path: Path, agreed: &Agreed, window: u16) -> Self {
        let mut connection = Self::blank(cx, path, agreed.iss.plus(1), agreed.irs.plus(1));
        connection.state = State::Established;
        connection.agree(cx.config, path, agreed);
        connection.rcv_adv = connection.rcv_nxt.plus(u32::from(cx.config.opening_window()));
        connection.set_cwnd(congestion::initial_window(u32::from(connection.mss)));
        connection.snd_wnd = u32::from(window);
        connection.note_first_window(cx.config);
        connection.arm_keepalive(cx);
        connection.begin_pacing(cx.config, cx.now);
        connection
    }

    /// The peer's first window. One of less than two segments is remembered,
    /// because half of it may then be worth a segment (RFC 9293 section
    /// 3.8.6.2.1); not the largest that a SYN can tell, whatever the segments.
    pub(crate) fn note_first_window(&mut self, config: &Config) {
        if self.snd_wnd < 0xffff.min(2 * u32::from(self.mss)) {
            self.cold_mut(config).most_window = Some(self.snd_wnd);
        }
    }

    /// The handshake of an accepted connection took `ms`, from our only
    /// SYN,ACK to its acknowledgement: the first round-trip sample (RFC 6298
    /// section 2.2).
    pub fn on_handshake_time(&mut self, ms: u32) {
        self.rtt.on_sample(ms.saturating_mul(1_000).max(500));
    }

    #[inline(always)]
    fn blank(cx: &Context<'_>, path: Path, una: SeqNum, rcv_nxt: SeqNum) -> Self {
        let mut flags = Flags(0);
        if path.v6 {
            flags.set(Flags::V6);
        }
        if cx.config.nagle {
            flags.set(Flags::NAGLE);
        }
        Self {
            una,
            nxt: una,
            rcv_nxt,
            rcv_adv: rcv_nxt,
            wl1: rcv_nxt,
            snd_wnd: 0,
            cwnd: 0,
            ts_recent: 0,
            last_rx: cx.now_ms,
            timer_at: 0,
            rtt: Rtt::default(),
            wheel: WheelMark::default(),
            mss: DEFAULT_MSS_V4,
            flags,
            unacked: 0,
            shifts: 0,
            state: State::Closed,
            backoff: 0,
            dupacks: 0,
            rope: Rope::default(),
            cold: None,
        }
    }

    /// Takes over what a handshake agreed on.
    pub(crate) fn agree(&mut self, config: &Config, path: Path, agreed: &Agreed) {
        if agreed.sack {
            self.flags.set(Flags::SACK);
        }
        if let Some(recent) = agreed.timestamps {
            self.flags.set(Flags::TIMESTAMPS);
            self.ts_recent = recent;
        }
        if let Some(peer_shift) = agreed.peer_shift {
            self.shifts = (config.window_shift() << 4) | peer_shift.min(MAX_WINDOW_SHIFT);
        }
        let options = if agreed.timestamps.is_some() { TIMESTAMPS_LEN } else { 0 };
        let mss = config.clamp(agreed.peer_mss.max(MIN_MSS).min(path.announced_mss()));
        self.mss = mss.saturating_sub(options).max(1);
        self.clamp_segments();
    }

    /// The state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether anything is queued that is not acknowledged.
    #[inline]
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.rope.is_empty()
    }

    /// Most payload of a segment.
    #[inline]
    #[must_use]
    pub const fn mss(&self) -> u16 {
        self.mss
    }

    /// Sequence numbers sent and not acknowledged, SYN and FIN included.
    #[inline]
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.nxt.forward_from(self.una)
    }

    /// SND.UNA: the oldest sequence number that is not acknowledged.
    #[inline]
    #[must_use]
    pub const fn unacked_from(&self) -> SeqNum {
        self.una
    }

    /// Whether it is established, or has our FIN acknowledged and waits for the peer's, and
    /// nothing is queued, held or under way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait2)
            && self.rope.is_empty()
            && self.una == self.nxt
            && self.buffered() == 0
    }

    /// Whether nothing keeps header prediction from taking the next segment.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        self.state == State::Established && !self.flags.has(Flags::SLOW)
    }

    /// Whether the connection keeps a cold part.
    #[inline]
    #[must_use]
    pub const fn has_cold(&self) -> bool {
        self.cold.is_some()
    }

    /// When the TCP timer runs out, if it is set.
    #[inline]
    #[must_use]
    pub const fn timer(&self) -> Option<u32> {
        if self.flags.has(Flags::TIMER) { Some(self.timer_at) } else { None }
    }

    /// Whether the application may queue data.
    #[inline]
    #[must_use]
    pub const fn can_send(&self) -> bool {
        matches!(self.state, State::Established | State::CloseWait | State::SynSent | State::SynReceived)
            && !self.flags.has(Flags::FINISHED)
    }

    /// Queues part of a shared body. Ignored once finished.
    ///
    /// # Errors
    /// [`QueueFull`].
    #[inline(always)]
    pub fn send_body(&mut self, body: &Body, start: u32, len: u32) -> Result<(), QueueFull> {
        if !self.can_send() {
            return Ok(());
        }
        self.rope.push(body, start, len)?;
        self.note_queue();
        Ok(())
    }

    /// Queues a copy of `bytes`. Ignored once finished.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), QueueFull> {
        if !self.can_send() {
            return Ok(());
        }
        self.rope.push_bytes(bytes)?;
        self.note_queue();
        Ok(())
    }

    /// Queues what `fill` appends to what it is given, `len` bytes or about as many, if nothing is
    /// queued and that is not too much for one go ([`rope::FILLED_MAX`]). Whether it is queued.
    #[inline(always)]
    pub fn send_first(&mut self, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        // So little is no more than the low-water mark.
        const { assert!(rope::FILLED_MAX <= app::SEND_LOW_WATER) };
        self.can_send() && self.rope.push_first(len, fill)
    }

    /// Takes back at most `most` bytes of what is queued, from the end on, as
    /// far as they were never sent. Returns how many that was; none before the
    /// handshake is over, and none once finished, because the FIN has its
    /// place behind them.
    pub fn take_back(&mut self, most: u32) -> u32 {
        let sends = matches!(self.state, State::Established | State::CloseWait) && self.can_send();
        if sends && self.is_sealed() {
            // What no record has: the others have begun to leave.
            return self.rope.take_back(most);
        }
        if sends { self.rope.truncate(self.in_flight().max(self.rope.len().saturating_sub(most))) } else { 0 }
    }

    #[inline]
    fn note_queue(&mut self) {
        if self.unsent_reaches(app::SEND_LOW_WATER + 1) {
            self.flags.set(Flags::ABOVE_LOW_WATER);
        }
    }

    /// The application sends no more: FIN follows what is queued.
    pub fn finish(&mut self) {
        if self.flags.has(Flags::FINISHED) {
            return;
        }
        if self.is_sealed() {
            self.rope.end(rope::Message::CloseNotify);
        }
        self.flags.set(Flags::FINISHED);
        // RFC 9293 section 3.10.4: in SYN-RECEIVED and SYN-SENT the FIN waits
        // for the handshake; `become_established` then moves on.
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    /// Ends the connection at once. Returns whether the peer must be told by
    /// a reset (RFC 9293 section 3.10.5).
    pub fn abort(&mut self) -> bool {
        let tell = !matches!(self.state, State::SynSent | State::TimeWait | State::Closed);
        self.close();
        tell
    }

    /// Gives up all memory; the slot is free.
    pub fn discard(&mut self) {
        self.close();
    }

    /// Both sides have finished. What the application has not read yet stays.
    pub(crate) fn close_finished(&mut self) {
        let cold = self.cold.take().filter(|cold| !cold.receive.contiguous().is_empty());
        self.close();
        self.cold = cold;
    }

    /// The network is done with the connection, the application is not: it
    /// reads what is held, and nothing is sent any more.
    pub fn linger(&mut self) {
        self.close_finished();
        self.state = State::TimeWait;
    }

    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
        self.rope.clear();
        self.cold = None;
        self.flags
            .clear(Flags::TIMER | Flags::ACK_NOW | Flags::PROBE | Flags::RETRANSMIT | Flags::SEALED | Flags::SLOW);
    }

    /// Gives up the cold part and the slow path once nothing needs them.
    pub(crate) fn settle(&mut self) {
        match &self.cold {
            None => self.flags.clear(Flags::SLOW),
            Some(cold) if cold.undisturbed() && self.dupacks == 0 => {
                self.flags.clear(Flags::SLOW);
                if cold.disposable() {
                    self.cold = None;
                }
            }
            Some(_) => self.flags.set(Flags::SLOW),
        }
    }

    #[inline]
    pub(crate) fn cold_mut(&mut self, config: &Config) -> &mut Cold {
        let (mss, cwnd) = (u32::from(self.mss), self.cwnd);
        self.cold.get_or_insert_with(|| Box::new(Cold::new(config, mss, cwnd)))
    }

    /// A connection begins; perhaps all are paced.
    #[inline]
    pub(crate) fn begin_pacing(&mut self, config: &Config, now: Time) {
        if config.max_pacing_rate.is_some() {
            self.cold_mut(config);
        }
        if self.cold.is_some() {
            self.steer_pacing(config, now);
        }
    }

    /// The congestion window, as something else than an acknowledgement sets it.
    pub(crate) fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
        if let Some(cold) = &mut self.cold {
            cold.congestion.set_window(cwnd);
        }
    }

    /// The smaller path MTU that the network told (RFC 1191, RFC 8201). The
    /// caller has checked that the report quotes a segment in flight. Returns
    /// whether segments shrink.
    pub fn on_path_mtu(&mut self, cx: &mut Context<'_>, narrowed: Narrowed) -> bool {
        let options = if self.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        let mss = narrowed.path.announced_mss().saturating_sub(options).max(MIN_MSS);
        let fragmented = narrowed.below_least && !self.may_be_fragmented();
        if mss >= self.mss && !fragmented {
            return false;
        }
        if fragmented {
            self.let_fragment(cx.config);
        }
        if mss < self.mss {
            self.mss = mss;
            self.rope.set_segment(mss);
            if let Some(cold) = &mut self.cold {
                // Somebody says so: there is nothing to be found out.
                cold.sizes = None;
            }
        }
        if self.in_flight() > 0 && !self.state.opening() {
            // What is in flight was too long to arrive: it is lost, but not to
            // congestion, so the window stays (RFC 1191 section 6.4).
            self.mark_flight_lost(cx);
        }
        true
    }

    /// Routers may fragment its packets: the path takes less than the least
    /// that is believed of one (`dst_metric_locked` in Linux's
    /// include/net/ip.h).
    pub fn let_fragment(&mut self, config: &Config) {
        self.cold_mut(config).fragmented = true;
    }

    /// Whether they may.
    #[inline]
    #[must_use]
    pub fn may_be_fragmented(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.fragmented)
    }

    /// Whether `seq` lies in what is in flight: an ICMP error that quotes
    /// anything else is forged or stale (RFC 5927 section 4.1).
    #[must_use]
    pub fn quotes_flight(&self, seq: SeqNum) -> bool {
        seq.within(self.una, self.in_flight())
    }

    /// The network said that the peer cannot be reached, and quoted what is in
    /// flight. A connection that is being opened ends; an established one
    /// outlives a routing change, and takes it for the reason if it gets no
    /// answer until it is given up (RFC 1122 section 4.2.3.9, RFC 5461
    /// section 2; `tcp_v4_err` in Linux's net/ipv4/tcp_ipv4.c). Returns whether
    /// it ended.
    pub fn on_unreachable(&mut self, config: &Config, why: Unreachable) -> bool {
        if self.state.opening() {
            self.close();
            return true;
        }
        self.cold_mut(config).unreachable = Some(why);
        false
    }

    /// What [`Connection::on_unreachable`] noted; said once.
    pub fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.cold.as_mut()?.unreachable.take()
    }

    #[inline]
    pub(crate) const fn peer_shift(&self) -> u8 {
        self.shifts & 0xf
    }

    #[inline]
    pub(crate) const fn own_shift(&self) -> u8 {
        self.shifts >> 4
    }

    /// Whether [`Connection::poll_segment`] may have something to say.
    #[inline(always)]
    #[must_use]
    pub fn wants_poll(&self) -> bool {
        const URGENT: u16 = Flags::ACK_NOW | Flags::PROBE | Flags::SLOW;
        if self.flags.has(URGENT) {
            return !self.waits_for_pacer();
        }
        self.unacked > 0
            || self.rope.len() > self.in_flight()
            || (self.flags.has(Flags::FINISHED) && !self.flags.has(Flags::FIN_SENT))
            || (self.flags.has(Flags::RETRANSMIT) && self.state.opening())
    }

    /// Whether the stack has the connection on its ready list.
    #[inline]
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.flags.has(Flags::READY)
    }

    /// Notes that the stack put the connection on its ready list, or took it
    /// off.
    #[inline]
    pub const fn set_ready(&mut self, ready: bool) {
        if ready { self.flags.set(Flags::READY) } else { self.flags.clear(Flags::READY) }
    }

    /// Whether a delayed acknowledgement is due that the stack has no entry
    /// for yet; notes that it has one now.
    #[inline]
    #[must_use]
    pub fn take_delayed_ack(&mut self) -> bool {
        if self.unacked == 0 || self.flags.has(Flags::DELAYED_ACK) {
            return false;
        }
        self.flags.set(Flags::DELAYED_ACK);
        true
    }

    /// What is to be remembered of a connection in TIME-WAIT; `None` in any
    /// other state.
    #[inline]
    #[must_use]
    pub fn last_word(&self) -> Option<LastWord> {
        (self.state == State::TimeWait).then(|| LastWord {
            nxt: self.nxt,
            rcv_nxt: self.rcv_nxt,
            ts_recent: self.flags.has(Flags::TIMESTAMPS).then_some(self.ts_recent),
            owes_ack: self.flags.has(Flags::ACK_NOW),
        })
    }

    /// Has an acknowledgement sent at the next poll.
    pub fn ask_ack(&mut self) {
        self.flags.set(Flags::ACK_NOW);
    }

    /// The delayed-acknowledgement time ran out.
    pub fn on_delayed_ack(&mut self) {
        self.flags.clear(Flags::DELAYED_ACK);
        if self.unacked > 0 {
            self.flags.set(Flags::ACK_NOW);
        }
    }

    #[inline]
    pub(crate) fn arm(&mut self, cx: &Context<'_>, after_ms: u32) {
        self.timer_at = cx.now_ms.wrapping_add(after_ms);
        self.flags.set(Flags::TIMER);
    }

    /// The retransmission timeout with its back-off (RFC 6298 section 5.5).
    #[inline(always)]
    pub(crate) fn rto(&self, config: &Config) -> u32 {
        let base = self.rtt.rto_ms(config.rto_min, config.rto_max);
        if self.backoff == 0 {
            return base;
        }
        base.checked_shl(u32::from(self.backoff).min(20)).unwrap_or(u32::MAX).min(config.rto_max).max(base)
    }
}

/// The length of a segment in sequence numbers: SYN and FIN count one each.
#[inline]
#[must_use]
pub fn segment_len(header: &TcpHeader, payload: &[u8]) -> u32 {
    payload.len() as u32
        + u32::from(header.flags.contains(wire::tcp::Flags::SYN))
        + u32::from(header.flags.contains(wire::tcp::Flags::FIN))
}
