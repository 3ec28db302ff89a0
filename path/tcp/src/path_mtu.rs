//! What size of segments the path carries, found by what arrives
//! (packetization layer path MTU discovery: RFC 4821, RFC 8899), where nobody
//! says so: a black hole.
//!
//! Nothing is probed for while segments arrive. A segment that is not heard of
//! after two timeouts is sent again cut to a size that nearly all paths carry
//! (RFC 8899 section 4.3). If that arrives where nothing longer did, segments
//! are cut to it, and at once one of the old length is sent among them as a
//! probe: if it arrives, what had been lost was lost to something else, and
//! all is as before. Otherwise the size that passes is searched for, by probes
//! that carry data and whose loss tells nothing of congestion (RFC 4821
//! section 7.6.2, RFC 8899 section 3 item 7).
//!
//! ```text
//!            two timeouts             it arrives, nothing longer did
//! (nothing) ─────────────► Cut ─────────────────────────────────────► Due
//!     ▲                     │ longer ones arrive              send it │ ▲ another
//!     │◄────────────────────┘                                         ▼ │
//!     │◄──────────────────────────── the longest arrives ──────────── Out ─► Done
//! ```

#[cfg(test)]
mod tests;

use crate::cold::Recovery;
use crate::connection::Connection;
use crate::context::{Context, TIMESTAMPS_LEN, headers_len};
use crate::flags::Flags;
use crate::sizes::{SizeSearch, Step};
use wire::tcp::SeqNum;

/// A packet that nearly all paths carry: BASE_PLPMTU of RFC 8899 section 5.1.2.
const BASE_PACKET: u16 = 1_200;

/// A packet that all are taken to carry over IPv4, as it is where routers tell
/// of less; over IPv6 it is the base (RFC 8200 section 5 promises more).
const LEAST_PACKET: u16 = 552;

/// Timeouts in a row after which a segment is sent again in the size of each.
const SUSPECTED_AFTER: u8 = 2;
const SUSPECTED_MORE_AFTER: u8 = 4;

/// After this long a longer size is tried again: PMTU_RAISE_TIMER of RFC 8899
/// section 5.1.1, in milliseconds.
const RAISE_AFTER_MS: u32 = 600_000;

/// Full segments that have to wait behind a probe, so that its loss is found by
/// what follows it, not by a timeout (RFC 4821 section 7.2).
const BEHIND_PROBE: u32 = 3;

impl Connection {
    /// Payload of a segment in a packet of `packet` bytes.
    fn payload_of(&self, packet: u16) -> u16 {
        let options = if self.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        packet.saturating_sub(headers_len(self.flags.has(Flags::V6)) + options)
    }

    /// Bytes of a packet with a segment of `payload` bytes.
    fn packet_of(&self, payload: u16) -> u16 {
        let options = if self.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        payload.saturating_add(headers_len(self.flags.has(Flags::V6)) + options)
    }

    /// The retransmission timer ran out again: what is in flight may be too
    /// long to arrive (RFC 8899 section 4.3), and a probe that was is lost.
    pub(crate) fn on_size_timeout(&mut self, cx: &mut Context<'_>) {
        if let Some(Step::Out { len, .. }) = self.size_step() {
            self.fail_probe(cx, len);
        }
        let flight = self.nxt.forward_from(self.una);
        if self.backoff < SUSPECTED_AFTER || self.cold.as_ref().is_none_or(|cold| cold.fragmented) {
            return;
        }
        let least =
            if self.backoff < SUSPECTED_MORE_AFTER || self.flags.has(Flags::V6) { BASE_PACKET } else { LEAST_PACKET };
        let (start, len, most) = (self.una, self.payload_of(least), self.mss);
        // What is that short was sent so already.
        if len == 0 || most <= len || flight <= u32::from(len) {
            return;
        }
        cx.counters.path_mtu_suspected += 1;
        let fresh = SizeSearch { most, low: len, high: most, lost: 0, told: None, step: Step::Due };
        let Some(cold) = &mut self.cold else { return };
        let search = cold.sizes.get_or_insert_with(|| Box::new(fresh));
        search.low = search.low.min(len);
        search.step = Step::Cut(start, len);
    }

    /// The most that is to be sent again from `seq` on in one segment, of what
    /// was lost there, `len` bytes, with `pipe` under way: a segment, or what is
    /// to be found out with it.
    pub(crate) fn size_again(&mut self, seq: SeqNum, len: u32, pipe: u32) -> u32 {
        let mss = u32::from(self.mss);
        let room = self.cwnd.saturating_sub(pipe);
        let rest = self.nxt.forward_from(seq);
        let Some(cold) = &mut self.cold else { return len.min(mss) };
        // What is SACKed from then on was sent after the probe.
        let bare = cold.scoreboard.sacked_bytes() == 0;
        let Some(search) = &mut cold.sizes else { return len.min(mss) };
        match search.step {
            Step::Cut(start, cut) if start == seq => len.min(u32::from(cut)),
            Step::Due if len >= u32::from(search.candidate()) && search.candidate() > self.mss => {
                let probe = search.candidate();
                let behind = u32::from(probe) + BEHIND_PROBE * mss;
                // Alone it would be missed by a timeout only.
                if !bare || room < behind || rest < behind {
                    return len.min(mss);
                }
                search.step = Step::Out { start: seq, len: probe, again: true };
                u32::from(probe)
            }
            _ => len.min(mss),
        }
    }

    /// Whether new data is to be sent as a probe next, of `waiting` bytes, with
    /// `pipe` of them against the congestion window and `in_flight` against the
    /// peer's; and its length, or 0 while that has to wait for room in the
    /// windows (RFC 4821 section 7.6.1).
    pub(crate) fn size_probe(&self, waiting: u32, in_flight: u32, pipe: u32) -> Option<u32> {
        let cold = self.cold.as_ref()?;
        let search = cold.sizes.as_ref().filter(|search| search.step == Step::Due)?;
        let probe = u32::from(search.candidate());
        let behind = probe + BEHIND_PROBE * u32::from(self.mss);
        let calm = cold.recovery == Recovery::Open && cold.scoreboard.is_empty() && cold.probe.is_none();
        let fits = self.snd_wnd.min(self.cwnd) >= behind && waiting >= behind && probe > u32::from(self.mss);
        let usable = self.snd_wnd.saturating_sub(in_flight).min(self.cwnd.saturating_sub(pipe));
        match () {
            () if !calm || !fits => None,
            () if usable >= probe => Some(probe),
            () if pipe > 0 => Some(0),
            () => None,
        }
    }

    /// New data from `start` on left as a probe of `len` bytes.
    pub(crate) fn note_size_probe(&mut self, cx: &mut Context<'_>, start: SeqNum, len: u32) {
        if len <= u32::from(self.mss) {
            return; // Records may end before.
        }
        cx.counters.path_mtu_probes += 1;
        if let Some(search) = self.cold.as_mut().and_then(|cold| cold.sizes.as_mut()) {
            search.step = Step::Out { start, len: u16::try_from(len).unwrap_or(u16::MAX), again: false };
        }
    }

    /// Something was acknowledged: what that tells of sizes.
    pub(crate) fn on_sizes(&mut self, cx: &mut Context<'_>) {
        let Some(cold) = &self.cold else { return };
        let Some(search) = &cold.sizes else { return };
        let una = self.una;
        match search.step {
            Step::Cut(start, len) => {
                let longer = start.plus(u32::from(self.mss));
                if una.at_or_after(longer) || cold.scoreboard.is_sacked(start, longer) {
                    self.on_long_arrived(cx);
                } else if una.at_or_after(start.plus(u32::from(len))) {
                    self.on_cut_arrived(cx, len);
                }
            }
            Step::Out { start, len, again } => {
                let end = start.plus(u32::from(len));
                if una.at_or_after(end) || cold.scoreboard.is_sacked(start, end) {
                    self.pass_probe(cx, len);
                } else if again && una.at_or_before(start) {
                    // Three segments that were sent after it have arrived, or time has told.
                    if cold.scoreboard.dup_thresh() || !cold.scoreboard.is_resent(start) {
                        self.fail_probe(cx, len);
                        if let Some(cold) = &mut self.cold {
                            cold.scoreboard.lose_again_from(start, end);
                        }
                    }
                }
            }
            Step::Due | Step::Done(_) => {}
        }
    }

    /// A segment of the peer has come: whether the path has been left alone
    /// for long enough to see whether it has become another one. Then the
    /// connection is no longer for the fast path.
    pub(crate) fn try_longer(&mut self, now_ms: u32) {
        let Some(search) = self.cold.as_mut().and_then(|cold| cold.sizes.as_mut()) else { return };
        if let Step::Done(since) = search.step
            && now_ms.wrapping_sub(since) >= RAISE_AFTER_MS
        {
            search.high = search.most;
            search.lost = 0;
            search.step = Step::Due;
            self.flags.set(Flags::SLOW);
        }
    }

    /// Whether the probe, and nothing else, was found lost: that is no sign of
    /// congestion (RFC 8899 section 3 item 7). It is noted then, and what it
    /// carried is sent again in shorter segments, within the same window.
    pub(crate) fn takes_lost_probe(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(cold) = &self.cold else { return false };
        let Some(Step::Out { start, len, again: false }) = cold.sizes.as_ref().map(|search| search.step) else {
            return false;
        };
        if !cold.scoreboard.is_lost(start) {
            return false;
        }
        let alone = self.una == start && cold.scoreboard.lost_bytes(start) <= u32::from(len);
        self.fail_probe(cx, len);
        if alone {
            let nxt = self.nxt;
            if let Some(cold) = &mut self.cold {
                cold.scoreboard.mark_lost(start.plus(u32::from(len)));
                cold.recovery = Recovery::Loss(nxt);
                cold.prr = None;
                cold.probe = None;
                cold.undo = None;
            }
        }
        alone
    }

    /// What segments of this path carry by what was found since this was last
    /// asked: bytes of a packet.
    pub fn take_path_mtu(&mut self) -> Option<u16> {
        let search = self.cold.as_ref()?.sizes.as_ref()?;
        // As long as it is only suspected, nobody else is to hear of it.
        let sure = search.high < search.most || search.low >= search.most;
        let news = (sure && search.told != Some(self.mss)).then(|| self.packet_of(self.mss))?;
        let (mss, over) = (self.mss, search.low >= search.most);
        if let Some(cold) = &mut self.cold {
            match &mut cold.sizes {
                Some(search) if !over => search.told = Some(mss),
                sizes => *sizes = None,
            }
        }
        Some(news)
    }

    fn size_step(&self) -> Option<Step> {
        self.cold.as_ref()?.sizes.as_ref().map(|search| search.step)
    }

    /// Nothing is amiss with long segments: of what was known before, nothing
    /// changes.
    fn on_long_arrived(&mut self, cx: &Context<'_>) {
        let Some(cold) = &mut self.cold else { return };
        let Some(search) = &mut cold.sizes else { return };
        if self.mss >= search.most {
            cold.sizes = None;
        } else {
            search.low = search.low.max(self.mss);
            search.go_on(cx.now_ms);
        }
    }

    /// The cut segment arrived, and nothing that was longer: segments are that
    /// short until it is known whether it was their size.
    fn on_cut_arrived(&mut self, cx: &Context<'_>, len: u16) {
        if let Some(search) = self.cold.as_mut().and_then(|cold| cold.sizes.as_mut()) {
            search.low = len;
            search.lost = 0;
            search.go_on(cx.now_ms);
        }
        self.set_mss(len);
        if let Some(cold) = &mut self.cold {
            // What was lost in long segments goes again in one, as the probe.
            let most = cold.sizes.as_ref().map_or(len, |search| search.most);
            cold.scoreboard.set_mss(u32::from(most));
        }
    }

    fn pass_probe(&mut self, cx: &mut Context<'_>, len: u16) {
        if let Some(search) = self.cold.as_mut().and_then(|cold| cold.sizes.as_mut()) {
            search.passed(len, cx.now_ms);
        }
        cx.counters.path_mtu_raised += 1;
        self.set_mss(self.mss.max(len));
        // Where it never was the size, nothing needs to be remembered but that
        // others may have been told of it.
        if let Some(cold) = &mut self.cold
            && cold.sizes.as_ref().is_some_and(|search| search.low >= search.most && search.told.is_none())
        {
            cold.sizes = None;
        }
    }

    fn fail_probe(&mut self, cx: &mut Context<'_>, len: u16) {
        let mss = u32::from(self.mss);
        let Some(cold) = &mut self.cold else { return };
        cold.scoreboard.set_mss(mss);
        if let Some(search) = &mut cold.sizes {
            let before = search.high;
            search.failed(len, cx.now_ms);
            if before == search.most && search.high < before {
                cx.counters.path_mtu_black_holes += 1;
            }
        }
    }

    /// Segments carry so many bytes from now on.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.mss = mss;
        self.rope.set_segment(mss);
        if let Some(cold) = &mut self.cold {
            cold.congestion.set_segment(u32::from(mss));
            cold.scoreboard.set_mss(u32::from(mss));
        }
    }
}
