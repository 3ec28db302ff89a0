//! A connection's flags.

/// Connection flags, as bits of one word.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(pub u16);

impl Flags {
    /// SACK was agreed.
    pub const SACK: u16 = 1;
    /// Timestamps were agreed.
    pub const TIMESTAMPS: u16 = 1 << 1;
    /// Recovery, reassembly or held data: not for the fast path.
    pub const SLOW: u16 = 1 << 2;
    /// Our FIN has been sent at least once; it counts in `nxt`.
    pub const FIN_SENT: u16 = 1 << 3;
    /// The application finished.
    pub const FINISHED: u16 = 1 << 4;
    /// An acknowledgement must be sent at the next poll.
    pub const ACK_NOW: u16 = 1 << 5;
    /// The stack holds a delayed-acknowledgement entry for this connection.
    pub const DELAYED_ACK: u16 = 1 << 6;
    /// `timer_at` is valid.
    pub const TIMER: u16 = 1 << 7;
    /// Sending stopped at the congestion window, not at the application.
    pub const CWND_LIMITED: u16 = 1 << 8;
    /// Send a window or keepalive probe at the next poll.
    pub const PROBE: u16 = 1 << 9;
    /// Retransmit the SYN. Set only while the connection opens.
    pub const RETRANSMIT: u16 = 1 << 10;
    /// What is sent are records. Set only once the connection is open, so that both share a
    /// bit: whatever looks for either takes none of the short ways.
    pub const SEALED: u16 = Self::RETRANSMIT;
    /// A flight is being timed without timestamps (`ts_recent` holds when it
    /// was sent).
    pub const TIMING: u16 = 1 << 11;
    /// The stack has this connection on its ready list.
    pub const READY: u16 = 1 << 12;
    /// IPv6; the MSS follows from it.
    pub const V6: u16 = 1 << 13;
    /// Small segments wait for acknowledgements (Nagle).
    pub const NAGLE: u16 = 1 << 14;
    /// The queue was above the low-water mark.
    pub const ABOVE_LOW_WATER: u16 = 1 << 15;

    #[inline]
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }
    #[inline]
    pub const fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }
    #[inline]
    pub const fn clear(&mut self, bits: u16) {
        self.0 &= !bits;
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
