//! The search for the longest segment that a path carries.

use wire::tcp::SeqNum;

/// The search ends with a size that is so many bytes from one that does not
/// pass, or fewer (RFC 4821 section 7.3).
const NEAR: u16 = 8;

/// Probes of one size that are lost before it is taken not to pass: MAX_PROBES
/// of RFC 8899 section 5.1.2.
const MAX_PROBES: u8 = 3;

/// What is known of the sizes that pass; all of them payload of segments
/// without SACK blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SizeSearch {
    /// What both sides and the link take.
    pub most: u16,
    /// It passes.
    pub low: u16,
    /// What is longer does not; this may.
    pub high: u16,
    /// Probes of the size that is tried, which were lost.
    pub lost: u8,
    /// What the size was when it was last told to the caller.
    pub told: Option<u16>,
    pub step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first segment in flight, from here on, is sent again cut to so many
    /// bytes.
    Cut(SeqNum, u16),
    /// A probe is to be sent.
    Due,
    /// A probe is out: a segment of so many bytes from here on. It was sent
    /// before, in other segments or in one.
    Out { start: SeqNum, len: u16, again: bool },
    /// The size was found, by this time in milliseconds.
    Done(u32),
}

impl SizeSearch {
    /// Whether nothing is being found out.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.step, Step::Done(_))
    }

    /// The size to try next.
    pub const fn candidate(&self) -> u16 {
        // First whether it was size at all.
        if self.high == self.most { self.most } else { self.low + (self.high - self.low).div_ceil(2) }
    }

    /// A segment of this size has arrived, as a probe.
    pub fn passed(&mut self, len: u16, now_ms: u32) {
        self.low = self.low.max(len);
        self.lost = 0;
        self.go_on(now_ms);
    }

    /// A probe was lost.
    pub fn failed(&mut self, len: u16, now_ms: u32) {
        self.lost += 1;
        if self.lost >= MAX_PROBES {
            self.lost = 0;
            self.high = len.saturating_sub(1).max(self.low);
        }
        self.go_on(now_ms);
    }

    pub fn go_on(&mut self, now_ms: u32) {
        let near = self.high < self.most && self.high - self.low < NEAR;
        self.step = if near || self.low >= self.high { Step::Done(now_ms) } else { Step::Due };
    }
}
