//! What a connection receives in a round trip.

use wire::Time;
use wire::tcp::SeqNum;

/// What comes, in this round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// The window, and the one that it began with, in bytes.
    pub limit: u32,
    pub first: u32,
    /// The round began here, then.
    pub from: SeqNum,
    pub since: Time,
}

impl Incoming {
    /// Whether nothing was learned.
    pub const fn is_unlearned(&self) -> bool {
        self.limit == self.first
    }
}
