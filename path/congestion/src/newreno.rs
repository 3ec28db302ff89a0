//! NewReno's congestion avoidance (RFC 5681 section 3.1), by bytes
//! (RFC 3465 section 2.1).

use crate::delivery::Delivery;
use crate::signal::Signal;
use crate::window::{Beta, Window};

/// RFC 5681 equation 4.
const BETA: Beta = Beta { num: 1, den: 2 };

/// A window that grows by a segment in each round trip.
#[derive(Clone, Debug)]
pub struct NewReno {
    pub(crate) window: Window,
    /// Bytes acknowledged since the window last grew.
    bytes_acked: u32,
}

impl NewReno {
    pub(crate) const fn new(window: Window) -> Self {
        Self { window, bytes_acked: 0 }
    }

    pub(crate) fn on_ack(&mut self, delivery: &Delivery) {
        // RFC 7661 section 4.3: a window that was not used is not known to fit
        // the path.
        if let Some(acked) = self.window.on_ack(delivery)
            && delivery.window_limited
        {
            self.avoid(acked);
        }
    }

    /// Grows by one segment for each window acknowledged.
    fn avoid(&mut self, acked: u32) {
        let window = self.window.bytes;
        self.bytes_acked = self.bytes_acked.saturating_add(acked);
        if self.bytes_acked >= window {
            self.bytes_acked -= window;
            // A stretch ACK cannot owe more than one further window.
            self.bytes_acked = self.bytes_acked.min(window);
            self.window.grow_to(window.saturating_add(self.window.segment));
        }
    }

    pub(crate) fn on_congestion(&mut self, signal: Signal, in_flight: u32) {
        if signal != Signal::RepeatedTimeout {
            self.window.reduce(in_flight, BETA);
            // A new stage begins: nothing is owed from before.
            self.bytes_acked = 0;
        }
        self.window.on_signal(signal);
    }
}
