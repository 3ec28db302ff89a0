//! Proportional rate reduction (RFC 9937): how much may be sent for each ACK
//! during fast recovery, so that the flight ends at the new ssthresh without
//! a burst and without a pause.
//!
//! Call order: `new` on entering recovery, then for each ACK `on_ack`, and
//! `on_sent` for whatever was sent in answer. On leaving, cwnd is ssthresh.

#[cfg(test)]
mod tests;

/// The state of one recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prr {
    /// Bytes in flight when recovery began: RecoverFS.
    recover_fs: u32,
    /// The flight that recovery aims at.
    ssthresh: u32,
    mss: u32,
    /// Bytes delivered to the peer during this recovery.
    delivered: u32,
    /// Bytes sent during this recovery, new or again.
    out: u32,
}

impl Prr {
    /// Begins a recovery (RFC 9937 section 6). `recover_fs` is
    /// SND.NXT - SND.UNA, less the bytes SACKed before the ACK that began it
    /// (that ACK itself counts in [`Prr::on_ack`]); `ssthresh` is what
    /// congestion control has just chosen.
    #[must_use]
    pub fn new(recover_fs: u32, ssthresh: u32, mss: u32) -> Self {
        Self { recover_fs: recover_fs.max(1), ssthresh, mss, delivered: 0, out: 0 }
    }

    /// An ACK that delivered `delivered` bytes, cumulatively or selectively,
    /// and left `pipe` bytes in flight (RFC 6675). `safe`: SND.UNA advanced
    /// and no further loss was found. Returns SndCnt, the bytes that may be
    /// sent now; cwnd is `pipe` plus that (RFC 9937 section 6).
    #[must_use]
    pub fn on_ack(&mut self, delivered: u32, pipe: u32, safe: bool) -> u32 {
        if delivered == 0 {
            return 0;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let send = if pipe > self.ssthresh {
            // The proportional part: spread the reduction over the recovery.
            let share = u64::from(self.delivered) * u64::from(self.ssthresh);
            let target = share.div_ceil(u64::from(self.recover_fs));
            u32::try_from(target).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            // The flight is too small already: as much as was delivered
            // (conservative bound), and a segment more while recovery goes
            // well (slow-start bound), up to ssthresh.
            let bound = self.delivered.saturating_sub(self.out).max(delivered);
            let bound = if safe { bound.saturating_add(self.mss) } else { bound };
            bound.min(self.ssthresh - pipe)
        };
        if self.out == 0 {
            // The first retransmission is never held back.
            return send.max(self.mss);
        }
        send
    }

    /// `bytes` were sent, new or again (RFC 9937 section 6).
    #[inline]
    pub fn on_sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }
}
