//! PAWS (RFC 7323 section 5), where segments are late.
//!
//! TS.Recent is the timestamp of what came last in order. If that is a retransmission that
//! fills a gap, it is later than those of segments which left before it and are still on
//! their way: by section 5.3 R1 each of them is refused, and has to be sent again, and each
//! retransmission of those has more refused. So for as long as segments of that time may
//! come, timestamps are compared with what TS.Recent was when RCV.NXT stood where the
//! window began into which they were sent. Nothing of the peer's is older than that: it
//! left when that much was acknowledged. What is of the last turn of the sequence numbers
//! left earlier, because a window is a fourth of them at most.

use crate::connection::Connection;
use wire::tcp::Timestamps;

/// After this long without a segment, TS.Recent is no longer compared
/// (RFC 7323 section 5.5): 24 days in milliseconds.
const TS_RECENT_VALID_MS: u32 = 24 * 24 * 3600 * 1000;

impl Connection {
    /// Whether PAWS refuses a segment with these (RFC 7323 section 5.3 R1).
    pub(crate) fn is_older(&self, ts: &Timestamps, now_ms: u32) -> bool {
        let late = self.cold.as_ref().and_then(|cold| cold.late).filter(|late| !late.is_over(now_ms));
        let recent = late.map_or(self.ts_recent, |late| late.oldest());
        (ts.value.wrapping_sub(recent) as i32) < 0 && now_ms.wrapping_sub(self.last_rx) < TS_RECENT_VALID_MS
    }
}
