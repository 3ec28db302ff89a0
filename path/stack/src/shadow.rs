//! The general way beside each short one.
//!
//! Nearly every segment takes a short way: its headers are read and written in
//! one go ([`wire::plain`]), and a connection that is undisturbed takes and
//! gives it with the checks left out that cannot fail
//! ([`tcp::Connection::on_light`], [`tcp::Connection::poll_light`], those of
//! secured connections and those of the connection's end), or that is paced and nothing else
//! ([`tcp::Connection::on_steady`], [`tcp::Connection::poll_steady`]). Each promises to do what the
//! general way would have done. Where frames go through an [`Egress`](crate::Egress) that is watched, this is held
//! against it: the stack goes back to what it was before the short way, takes
//! the general one, and what both left is compared: what the application is
//! told, the connection field by field, frames byte by byte, counters, and what
//! the connection is listed for. Then it goes on with what the short way left,
//! so that a run is the same with and without.
//!
//! Only the simulator watches: the default of [`Egress::watched`](crate::Egress::watched) is nobody,
//! and the compiler leaves out what would ask further.

use core::fmt;
use core::net::SocketAddr;
use tcp::{Connection, Outcome};

/// Who hears of what short ways did.
pub trait Shadow {
    /// A short way was taken, and left what the general one leaves, or else.
    fn on_compared(&mut self, way: Way, drift: Option<Drift>);

    /// A copy of what a short way left, before it is compared: whoever changes
    /// it sees that this is noticed.
    fn tamper(&mut self, _way: Way, _left: &mut Left<'_>) {}
}

/// A short way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// A frame's headers, read in one go.
    Parse,
    /// A segment of a light connection.
    Light,
    /// The same of a light connection that is secured: its data are records.
    LightSealed,
    /// The segment that is expected next, of any connection.
    Expected,
    /// A segment that ends one.
    Orderly,
    /// An acknowledgement on a steady connection.
    Steady,
    /// All that a light connection has to send.
    SendLight,
    /// The same of one that is secured: one record.
    SendSealed,
    /// All that a light connection has to send, where that is a few segments.
    SendFew,
    /// What a steady connection has to send: as much as its pacer lets go.
    SendSteady,
    /// What ends it.
    SendOrderly,
    /// The SYN that opens one.
    SendOpening,
    /// A frame's headers, written in one go.
    Build,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Parse,
        Self::Light,
        Self::LightSealed,
        Self::Expected,
        Self::Orderly,
        Self::Steady,
        Self::SendLight,
        Self::SendSealed,
        Self::SendFew,
        Self::SendSteady,
        Self::SendOrderly,
        Self::SendOpening,
        Self::Build,
    ];
}

/// What a short way left, as far as it may be changed.
pub struct Left<'a> {
    /// The connection.
    pub tcp: Option<&'a mut Connection>,
    /// What the application is told.
    pub outcome: Option<&'a mut Outcome>,
    /// What TCP counted.
    pub counters: Option<&'a mut tcp::Counters>,
    /// The frames sent.
    pub frames: &'a mut [Vec<u8>],
}

/// A short way did not do what the general one does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drift {
    /// Which.
    pub way: Way,
    /// Our end of the connection, if it was known by then.
    pub local: Option<SocketAddr>,
    /// The peer's.
    pub remote: Option<SocketAddr>,
    /// What differs, short and general.
    pub what: Vec<String>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} drifts from the general way", self.way)?;
        if let (Some(local), Some(remote)) = (self.local, self.remote) {
            write!(f, " on {local} with {remote}")?;
        }
        write!(f, " (short / general): {}", self.what.join("; "))
    }
}
