//! How far a run of streams is.

use wire::Time;

/// How far a run is, with when that ends at the latest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StreamingPhase {
    /// It has not begun.
    Waiting,
    /// Connections are opened.
    Opening { since: Time },
    /// All streams are under way.
    WarmUp { until: Time },
    /// The window is open.
    Measuring,
    /// The window is over; what disturbed its end may not be known yet.
    Lingering { until: Time },
    /// Nothing counts any more.
    Over,
}

impl StreamingPhase {
    /// Whether streams are started, or started anew.
    pub const fn starts(self) -> bool {
        matches!(self, Self::Opening { .. } | Self::WarmUp { .. } | Self::Measuring)
    }
}
