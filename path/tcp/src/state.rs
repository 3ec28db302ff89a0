//! The states of a connection.

/// The states of RFC 9293 section 3.3.2 in which a full connection exists.
/// LISTEN is a listener, a passive SYN-RECEIVED an entry of the SYN queue and
/// TIME-WAIT a small record: each has a type of its own in the stack.
///
/// ```text
///          connect                         final ACK (SYN queue, cookie)
///             │                                        │
///             ▼        SYN+ACK                         ▼
///         SYN-SENT ───────────────────────────► ESTABLISHED
///             │ SYN             ACK of our SYN    │      │
///             ▼ (simultaneous)        ┌───────────┘      │
///       SYN-RECEIVED ─────────────────┘    finish │      │ FIN
///             │ finish                            ▼      ▼
///             └───────────────────────► FIN-WAIT-1    CLOSE-WAIT
///                        ACK of our FIN  │  │ FIN        │ finish
///                                        ▼  ▼            ▼
///                               FIN-WAIT-2  CLOSING   LAST-ACK
///                                     │ FIN    │ ACK     │ ACK
///                                     ▼        ▼         ▼
///                                   TIME-WAIT record   closed
/// ```
///
/// A FIN is counted as sent when the application finishes, although it may
/// have to wait behind a full window: FIN-WAIT-1 and LAST-ACK are entered at
/// that moment, so that no half-close is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Active open: SYN sent.
    SynSent,
    /// Simultaneous open: SYN sent and received.
    SynReceived,
    /// Data flows both ways.
    Established,
    /// We finished, our FIN is not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged, the peer may still send.
    FinWait2,
    /// The peer finished, we may still send.
    CloseWait,
    /// Both finished at once, our FIN is not acknowledged.
    Closing,
    /// The peer finished, then we; our FIN is not acknowledged.
    LastAck,
    /// Both directions done; the stack turns it into a TIME-WAIT record.
    TimeWait,
    /// Gone; the slot waits for the application to hear of it.
    Closed,
}

impl State {
    /// Whether the peer may still send data that we take.
    #[inline]
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether queued data may be sent or retransmitted.
    #[inline]
    #[must_use]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait | Self::FinWait1 | Self::Closing | Self::LastAck)
    }

    /// Whether the handshake is not complete.
    #[inline]
    #[must_use]
    pub const fn opening(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived)
    }
}
