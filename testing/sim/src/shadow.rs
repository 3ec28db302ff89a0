//! Who holds the short ways of a host's stacks against the general ones (see
//! [`stack::shadow`]), and what can be done to them on purpose.

use stack::Stack;
use stack::shadow::{Drift, Left, Shadow, Way};
use std::collections::BTreeMap;

/// Drifts told of one host: the first is what matters.
const MOST_DRIFTS: usize = 4;

/// Something done on purpose to what a short way left, from so many on: that a
/// comparison notices it shows that it compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant {
    /// Which way.
    pub way: Way,
    /// What is done.
    pub what: Tampering,
    /// So many are left as they are.
    pub after: u64,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tampering {
    /// Another retransmission timeout: a round trip of 7 ms is added.
    RoundTrip,
    /// An acknowledgement too many.
    Acknowledgement,
    /// A switch of the application's is moved.
    Nagle,
    /// The application is told of a byte less.
    Told,
    /// It is told that its queue has drained.
    Sent,
    /// It hears that the peer has finished.
    Finished,
    /// An event is counted twice.
    Counted,
    /// A bit of the frame's window field is another.
    Window,
    /// The frame is a byte shorter.
    Cut,
}

/// The window field of a TCP header in an untagged IPv4 frame.
const WINDOW_AT: usize = 14 + 20 + 14;

/// Looks at all that the short ways of one host do.
#[derive(Debug, Default)]
pub struct Watcher {
    /// Short ways that were compared.
    pub compared: BTreeMap<Way, u64>,
    /// What was found, in words; the first few.
    pub drifts: Vec<String>,
    plant: Option<Plant>,
}

impl Watcher {
    /// One that does what `plant` says.
    #[must_use]
    pub fn new(plant: Option<Plant>) -> Self {
        Self { plant, ..Self::default() }
    }

    /// After a turn: whoever waits for a timer must stand on the wheel.
    pub fn audit(&mut self, stack: &Stack) {
        for (local, remote) in stack.off_the_wheel() {
            self.note(format!("{local} with {remote} waits for a timer and is on no list"));
        }
    }

    fn note(&mut self, what: String) {
        if self.drifts.len() < MOST_DRIFTS {
            self.drifts.push(what);
        }
    }
}

impl Shadow for Watcher {
    fn on_compared(&mut self, way: Way, drift: Option<Drift>) {
        *self.compared.entry(way).or_default() += 1;
        if let Some(drift) = drift {
            self.note(drift.to_string());
        }
    }

    fn tamper(&mut self, way: Way, left: &mut Left<'_>) {
        let Some(plant) = self.plant.filter(|plant| plant.way == way) else { return };
        if self.compared.get(&way).copied().unwrap_or(0) >= plant.after {
            plant.what.apply(left);
        }
    }
}

impl Tampering {
    fn apply(self, left: &mut Left<'_>) {
        let Left { tcp, outcome, counters, frames } = left;
        let frame = frames.first_mut();
        match (self, tcp, outcome, counters, frame) {
            (Self::RoundTrip, Some(tcp), ..) => tcp.on_handshake_time(7),
            (Self::Acknowledgement, Some(tcp), ..) => tcp.ask_ack(),
            (Self::Nagle, Some(tcp), ..) => tcp.set_nagle(true),
            (Self::Told, _, Some(outcome), ..) => outcome.len = outcome.len.saturating_sub(1),
            (Self::Sent, _, Some(outcome), ..) => outcome.drained = true,
            (Self::Finished, _, Some(outcome), ..) => outcome.finished = true,
            (Self::Counted, _, _, Some(counters), _) => counters.segments_in += 1,
            (Self::Window, .., Some(frame)) => frame[WINDOW_AT] ^= 1,
            (Self::Cut, .., Some(frame)) => _ = frame.pop(),
            (what, ..) => panic!("{what:?} cannot be done here"),
        }
    }
}
