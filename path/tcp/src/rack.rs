//! When what was sent, and what of it is lost by that (RACK, RFC 8985).
//!
//! RACK reasons in time: a segment is lost if one that was sent after it has
//! arrived, and by as much earlier as reordering could explain. So it finds a
//! lost retransmission as it finds a lost first transmission, and needs no
//! three duplicates. [`Scoreboard`] knows which bytes arrived; this knows when
//! they left.
//!
//! First transmissions leave in the order of their sequence numbers, so a
//! queue of (end, time) holds their times, and those that are lost are all
//! that lie below one edge. The times of retransmissions are the scoreboard's.
//!
//! [`Scoreboard`]: crate::scoreboard::Scoreboard

#[cfg(test)]
mod tests;

use congestion::SendState;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;
use wire::tcp::SeqNum;

/// Times of departure told apart. At the limit, what is sent next goes by the
/// time of the last: its loss is found as late as the later one's would be.
pub const MAX_SENT: usize = 1024;

/// Times of departure that an idle connection keeps room for.
const KEPT: usize = 32;

/// The least round trip of the last this long counts (RFC 8985 section 6.2
/// step 1 asks for a windowed minimum; Linux's `tcp_min_rtt_wlen` is 300 s).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Recoveries for which a widened reordering window is kept without a
/// further DSACK (RFC 8985 section 6.2 step 4).
const REO_WND_PERSIST: u8 = 16;

/// Up to here from the entry before, at this time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sent {
    end: SeqNum,
    at: Time,
    /// As a tail loss probe, for the second time.
    again: bool,
    /// All of it left then, and for the first time: its round trip tells.
    timed: bool,
    /// What was delivered by then.
    state: SendState,
}

impl Sent {
    const fn new(end: SeqNum, at: Time, state: SendState) -> Self {
        Self { end, at, again: false, timed: true, state }
    }

    /// The time is a guess, or one for several.
    fn untimed(end: SeqNum, at: Time) -> Self {
        Self { timed: false, ..Self::new(end, at, SendState::default()) }
    }
}

/// A transmission: when, and its end. Later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    pub at: Time,
    pub end: SeqNum,
}

impl Departure {
    /// `RACK_sent_after` (RFC 8985 section 6.2 step 2): bursts leave at one
    /// time, in the order of their numbers.
    pub fn is_after(self, other: Self) -> bool {
        self.at > other.at || (self.at == other.at && self.end.after(other.end))
    }
}

/// What is lost now, and how long what may be next has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verdict {
    /// First transmissions below this are lost.
    pub edge: Option<SeqNum>,
    /// After this the verdict may be another.
    pub wait: Option<Duration>,
}

impl Verdict {
    pub fn wait_for(&mut self, wait: Duration) {
        self.wait = Some(self.wait.map_or(wait, |other| other.min(wait)));
    }
}

/// What a judgement of loss starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    newest: Departure,
    /// Age at which what was sent before it is lost.
    age: Duration,
    now: Time,
}

impl Judge {
    /// Whether what left then is lost; otherwise how long until it is, if it
    /// may be by what is known.
    pub fn is_lost(&self, sent: Departure) -> Result<(), Option<Duration>> {
        if !self.newest.is_after(sent) {
            return Err(None);
        }
        match (sent.at + self.age).since(self.now) {
            Duration::ZERO => Ok(()),
            wait => Err(Some(wait)),
        }
    }
}

/// RACK's state of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rack {
    sent: VecDeque<Sent>,
    /// RACK.xmit_ts and RACK.end_seq: the last sent of what arrived.
    newest: Option<Departure>,
    /// RACK.rtt: its round trip.
    rtt: Duration,
    min_rtt: MinRtt,
    /// RACK.reordering_seen
    reordering: bool,
    /// RACK.reo_wnd_mult, less one.
    pub(crate) widened: u8,
    /// RACK.reo_wnd_persist
    persist: u8,
    /// RACK.dsack_round
    dsack_round: Option<SeqNum>,
    /// What others were last told of it.
    told: Option<u8>,
}

impl Rack {
    /// New data up to `end` leaves; `state` is what delivery samples go by.
    pub fn on_sent(&mut self, end: SeqNum, at: Time, state: SendState) {
        let full = self.sent.len() >= MAX_SENT;
        match self.sent.back_mut() {
            Some(last) if last.at == at && last.timed => last.end = end,
            Some(last) if full => *last = Sent::untimed(end, at),
            _ => self.sent.push_back(Sent::new(end, at, state)),
        }
    }

    /// New data from `seq` on is about to leave. What is in flight below it,
    /// from `una` on, left before anybody took notes: at the latest now.
    pub fn begin(&mut self, una: SeqNum, seq: SeqNum, at: Time) {
        if self.sent.is_empty() && seq != una {
            self.sent.push_back(Sent::untimed(seq, at));
        }
    }

    /// Whether nothing in flight has been noted.
    pub fn is_blank(&self) -> bool {
        self.sent.is_empty()
    }

    /// When the byte at `seq` left, if it left once and its time is known
    /// (Karn's algorithm, RFC 6298 section 3).
    pub fn departure(&self, seq: SeqNum) -> Option<Time> {
        self.first_where(|sent| sent.end.after(seq)).filter(|sent| sent.timed).map(|sent| sent.at)
    }

    /// When what ends at `end` left, and what had been delivered by then; nothing
    /// if it left more than once, or unnoticed.
    pub fn send_state(&self, end: SeqNum) -> Option<(Time, SendState)> {
        self.first_where(|sent| sent.end.at_or_after(end)).filter(|sent| sent.timed).map(|sent| (sent.at, sent.state))
    }

    /// The first of which `is_so`, as it is of all behind that. Mostly it is asked for one of the
    /// first two: what is acknowledged in order, with every second segment, stands there.
    #[inline(always)]
    fn first_where(&self, is_so: impl Fn(&Sent) -> bool) -> Option<&Sent> {
        let mut all = self.sent.iter();
        match (all.next()?, all.next()) {
            (first, _) if is_so(first) => Some(first),
            (_, Some(second)) if is_so(second) => Some(second),
            _ => self.sent.get(self.sent.partition_point(|sent| !is_so(sent))),
        }
    }

    /// The least round trip of late; zero before the first.
    pub fn min_rtt(&self) -> Duration {
        self.min_rtt.get()
    }

    /// What is in flight up to `end` left before anybody took notes: at about
    /// this time, by a round trip smoothed to `srtt`.
    pub fn assume(&mut self, end: SeqNum, at: Time, srtt: Duration) {
        if self.sent.is_empty() {
            self.sent.push_back(Sent::untimed(end, at));
        }
        if self.min_rtt.get().is_zero() && !srtt.is_zero() {
            self.min_rtt.on_sample(srtt, at);
        }
    }

    /// All from `seq` to `end`, where new data goes on, leaves again.
    pub fn on_probe(&mut self, seq: SeqNum, end: SeqNum, at: Time) {
        while self.sent.back().is_some_and(|last| last.end.after(seq)) {
            let whole = self.sent.len() < 2 || self.sent[self.sent.len() - 2].end.at_or_after(seq);
            match self.sent.back_mut() {
                Some(last) if !whole => last.end = seq,
                _ => {
                    self.sent.pop_back();
                }
            }
        }
        self.sent.push_back(Sent { again: true, ..Sent::untimed(end, at) });
    }

    /// SND.UNA moved on.
    pub fn on_acked(&mut self, una: SeqNum) {
        while self.sent.front().is_some_and(|first| first.end.at_or_before(una)) {
            self.sent.pop_front();
        }
        if self.sent.is_empty() && self.sent.capacity() > KEPT {
            self.sent = VecDeque::new();
        }
        if self.dsack_round.is_some_and(|round| una.at_or_after(round)) {
            self.dsack_round = None;
        }
    }

    /// A round-trip time, in microseconds.
    pub fn on_rtt(&mut self, us: u32, now: Time) {
        self.min_rtt.on_sample(Duration::from_micros(u64::from(us)), now);
    }

    /// First transmissions up to `end`, the highest of them, have arrived
    /// (RFC 8985 section 6.2 step 2). `echoed`: whether the acknowledgement
    /// may answer a transmission of that time, by its timestamp.
    pub fn on_arrived(&mut self, end: SeqNum, now: Time, echoed: impl Fn(Time) -> bool) {
        let Some(sent) = self.first_where(|sent| sent.end.at_or_after(end)).copied() else { return };
        let departure = Departure { at: sent.at, end };
        if sent.again {
            self.on_arrived_again(departure, now, echoed);
        } else {
            self.note(departure, now, sent.timed);
        }
    }

    /// A retransmission may have arrived, or what it repeats.
    pub fn on_arrived_again(&mut self, sent: Departure, now: Time, echoed: impl Fn(Time) -> bool) {
        // Answered sooner than any answer comes: it was the first one's.
        if echoed(sent.at) && now.since(sent.at) >= self.min_rtt.get() {
            self.note(sent, now, true);
        }
    }

    /// What left before anybody took notes tells of no round trip: by the time that it is taken
    /// to have left it may be none at all, and the window for reordering would be nothing.
    fn note(&mut self, sent: Departure, now: Time, timed: bool) {
        if self.newest.is_none_or(|newest| sent.is_after(newest)) {
            self.newest = Some(sent);
            self.rtt = now.since(sent.at);
            if timed {
                self.min_rtt.on_sample(self.rtt, now);
            }
        }
    }

    /// A first transmission has arrived after what was sent later
    /// (section 6.2 step 3).
    pub fn on_reordered(&mut self) {
        self.reordering = true;
    }

    /// Whether segments are known to overtake each other.
    pub const fn is_reordered(&self) -> bool {
        self.reordering
    }

    /// Others found that segments to this peer overtake each other, and this
    /// window fit: so it is no news here.
    pub fn expect(&mut self, widened: u8) {
        self.reordering = true;
        self.widened = widened;
        self.persist = REO_WND_PERSIST;
        self.told = Some(widened);
    }

    /// The window for reordering, if there is any, and others were told of
    /// another or none: in quarters of the least round trip, less one.
    pub fn news(&mut self) -> Option<u8> {
        let news = self.reordering && self.told != Some(self.widened);
        if !news {
            return None;
        }
        self.told = Some(self.widened);
        self.told
    }

    /// The peer got something twice: the window for reordering was too small,
    /// perhaps (section 6.2 step 4).
    pub fn on_dsack(&mut self, nxt: SeqNum) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(nxt);
            self.widened = self.widened.saturating_add(1);
            self.persist = REO_WND_PERSIST;
        }
    }

    /// A recovery is over.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.widened = 0;
        }
    }

    /// What to judge losses by at `now`; nothing before something arrived.
    /// `dup_thresh`: three segments have arrived above a hole, or the hole
    /// led to a recovery that is under way.
    pub fn judge(&self, now: Time, dup_thresh: bool, srtt_us: u32) -> Option<Judge> {
        let newest = self.newest?;
        Some(Judge { newest, age: self.rtt + self.reo_wnd(dup_thresh, srtt_us), now })
    }

    /// RACK_update_reo_wnd (section 6.2 step 4).
    fn reo_wnd(&self, dup_thresh: bool, srtt_us: u32) -> Duration {
        if dup_thresh && !self.reordering {
            return Duration::ZERO;
        }
        let window = self.min_rtt.get() / 4 * (u32::from(self.widened) + 1);
        window.min(Duration::from_micros(u64::from(srtt_us)))
    }

    /// RACK_detect_loss (section 6.2 step 5), for first transmissions.
    /// `missing`: whether the peer lacks some of the bytes from the first to
    /// the second.
    pub fn verdict(&self, judge: &Judge, una: SeqNum, missing: impl Fn(SeqNum, SeqNum) -> bool) -> Verdict {
        let mut verdict = Verdict::default();
        let mut start = una;
        for sent in &self.sent {
            // Of a burst that left at once, what lies below what arrived.
            let part = sent.at == judge.newest.at && judge.newest.end.at_or_before(sent.end);
            let end = if part { judge.newest.end.minus(1) } else { sent.end };
            if missing(start, end) {
                match judge.is_lost(Departure { at: sent.at, end }) {
                    Ok(()) => verdict.edge = Some(end),
                    Err(wait) => {
                        verdict.wait = wait;
                        break;
                    }
                }
            }
            start = sent.end;
        }
        verdict
    }

    /// What is lost when the retransmission timer runs out: all that is older
    /// than a round trip and the window for reordering (section 6.3).
    pub fn verdict_of_timer(&self, now: Time, srtt_us: u32) -> Option<SeqNum> {
        let rtt = self.rtt.max(Duration::from_micros(u64::from(srtt_us)));
        let age = rtt + self.reo_wnd(false, srtt_us);
        self.sent.iter().take_while(|sent| sent.at + age <= now).last().map(|sent| sent.end)
    }
}

/// The least of the samples of one to two windows.
#[derive(Clone, Copy, Debug, Default)]
struct MinRtt {
    since: Time,
    before: Option<Duration>,
    current: Option<Duration>,
}

impl MinRtt {
    fn on_sample(&mut self, rtt: Duration, now: Time) {
        if now.since(self.since) > MIN_RTT_WINDOW {
            self.since = now;
            self.before = self.current.take();
        }
        self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
    }

    /// Zero before the first sample.
    fn get(&self) -> Duration {
        match (self.before, self.current) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or_default(),
        }
    }
}
