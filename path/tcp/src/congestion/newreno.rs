//! NewReno's congestion avoidance (RFC 5681 section 3.1), by bytes
//! (RFC 3465 section 2.1).

/// Bytes acknowledged since the window last grew.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewReno {
    bytes_acked: u32,
}

impl NewReno {
    /// Grows `cwnd` by one segment for each window acknowledged.
    pub(super) fn on_ack(&mut self, cwnd: &mut u32, acked: u32, mss: u32) {
        self.bytes_acked = self.bytes_acked.saturating_add(acked);
        if self.bytes_acked >= *cwnd {
            self.bytes_acked -= *cwnd;
            // A stretch ACK cannot owe more than one further window.
            self.bytes_acked = self.bytes_acked.min(*cwnd);
            *cwnd = cwnd.saturating_add(mss);
        }
    }

    /// A new stage begins: nothing is owed from before.
    pub(super) fn reset(&mut self) {
        self.bytes_acked = 0;
    }
}
