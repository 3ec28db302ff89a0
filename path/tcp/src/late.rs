//! What timestamps are compared with, while segments may be late.

use wire::tcp::SeqNum;

/// Nothing is late for longer than this, in milliseconds: what is by then is refused.
const LATE_MS: u32 = 500;

/// What timestamps are compared with, while segments may be late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LateSegments {
    /// TS.Recent of a window ago, or of before that.
    oldest: u32,
    /// TS.Recent when the window reached as far as `edge`.
    since: u32,
    /// Up to here may have been sent by then.
    edge: SeqNum,
    /// Whether a gap was filled since, and when the last was, in milliseconds.
    filled: bool,
    filled_at: u32,
}

impl LateSegments {
    /// With TS.Recent as it was before a gap was filled, and the window's edge.
    pub const fn new(ts_recent: u32, edge: SeqNum, now_ms: u32) -> Self {
        Self { oldest: ts_recent, since: ts_recent, edge, filled: true, filled_at: now_ms }
    }

    /// What timestamps are compared with.
    pub const fn oldest(&self) -> u32 {
        self.oldest
    }

    /// A gap is filled.
    pub const fn on_filled(&mut self, now_ms: u32) {
        (self.filled, self.filled_at) = (true, now_ms);
    }

    /// RCV.NXT is now here, and the window's edge there. Returns whether nothing is late any
    /// more: all has passed that may have been sent when a gap was last filled.
    pub fn pass(&mut self, rcv_nxt: SeqNum, edge: SeqNum, ts_recent: u32) -> bool {
        if rcv_nxt.before(self.edge) {
            return false;
        }
        let over = !self.filled;
        *self = Self { oldest: self.since, since: ts_recent, edge, filled: false, ..*self };
        over
    }

    /// Whether nothing comes any more that a gap's end overtook.
    pub const fn is_over(&self, now_ms: u32) -> bool {
        now_ms.wrapping_sub(self.filled_at) > LATE_MS
    }
}
