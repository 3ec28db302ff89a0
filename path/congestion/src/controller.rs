//! The one of several algorithms that a connection has.

use crate::cubic::Cubic;
use crate::delivery::Delivery;
use crate::newreno::NewReno;
use crate::signal::Signal;
use crate::window::Window;

/// Which algorithm avoids congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681 with RFC 6582.
    NewReno,
}

/// A connection's congestion control: an enum, because its transport clones it
/// to take a reduction back.
#[derive(Clone, Debug)]
pub enum Controller {
    /// RFC 5681.
    NewReno(NewReno),
    /// RFC 9438.
    Cubic(Cubic),
}

impl Controller {
    /// In the first slow start, with this window; sizes in bytes.
    #[must_use]
    pub fn new(algorithm: Algorithm, segment: u32, window: u32) -> Self {
        let window = Window::new(segment, window);
        match algorithm {
            Algorithm::NewReno => Self::NewReno(NewReno::new(window)),
            Algorithm::Cubic => Self::Cubic(Cubic::new(window)),
        }
    }

    const fn base(&self) -> &Window {
        match self {
            Self::NewReno(reno) => &reno.window,
            Self::Cubic(cubic) => &cubic.window,
        }
    }

    const fn base_mut(&mut self) -> &mut Window {
        match self {
            Self::NewReno(reno) => &mut reno.window,
            Self::Cubic(cubic) => &mut cubic.window,
        }
    }

    /// How many bytes may be under way.
    #[inline]
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.base().bytes
    }

    /// The window is another: the transport's recovery steered it, or a new
    /// connection begins with it.
    pub fn set_window(&mut self, window: u32) {
        self.base_mut().bytes = window;
    }

    /// Above this, congestion is avoided; `u32::MAX` until the first loss or
    /// until HyStart ended slow start.
    #[inline]
    #[must_use]
    pub const fn ssthresh(&self) -> u32 {
        self.base().ssthresh
    }

    /// Whether the window is in slow start.
    #[inline]
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.base().in_slow_start()
    }

    /// The rate, in bytes per second, at which what the window lets go is to
    /// leave, by a round trip smoothed to `srtt_us`; `None` is at once. Paced are
    /// slow start beyond the initial window and, beyond that too, a flight that
    /// starts with the path empty (`unclocked`): where no acknowledgements come in
    /// the rhythm of the path, the window would stand in its queue as a whole.
    #[must_use]
    pub fn pacing_rate(&self, srtt_us: u32, unclocked: bool) -> Option<u64> {
        self.base().pacing_rate(srtt_us, unclocked)
    }

    /// The segment size changed (path MTU).
    pub fn set_segment(&mut self, segment: u32) {
        self.base_mut().segment = segment.max(1);
    }

    /// An acknowledgement of new data, outside fast recovery. The window grows
    /// or stays. One that only tells of what arrived ahead of a gap has its round
    /// trip measured: where much is reordered, it would be long before others end
    /// slow start.
    pub fn on_ack(&mut self, delivery: &Delivery) {
        if delivery.acked == 0 {
            return self.base_mut().measure(delivery);
        }
        match self {
            Self::NewReno(reno) => reno.on_ack(delivery),
            Self::Cubic(cubic) => cubic.on_ack(delivery),
        }
    }

    /// The path is congested, with `in_flight` bytes outstanding (FlightSize).
    /// Sets ssthresh. After a loss the window is the transport's to steer,
    /// after a timeout it is one segment.
    pub fn on_congestion(&mut self, signal: Signal, in_flight: u32) {
        match self {
            Self::NewReno(reno) => reno.on_congestion(signal, in_flight),
            Self::Cubic(cubic) => cubic.on_congestion(signal, in_flight),
        }
    }

    /// The recovery point was acknowledged (RFC 9937 section 6).
    pub fn on_recovery_end(&mut self) {
        self.base_mut().on_recovery_end();
        if let Self::Cubic(cubic) = self {
            cubic.restart();
        }
    }

    /// Nothing was sent for longer than the retransmission timeout: the window
    /// is no longer known to fit the path, and starts again from at most the
    /// initial one, by slow start up to where it was (RFC 5681 section 4.1; RFC
    /// 7661 section 4.4 for ssthresh).
    pub fn on_idle(&mut self) {
        self.base_mut().on_idle();
        if let Self::Cubic(cubic) = self {
            cubic.restart();
        }
    }
}
