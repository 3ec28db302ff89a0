//! The control channel: finding a peer, agreeing on memory and rings with it,
//! and noticing that it went.

use crate::config::Config;
use crate::{MemifLink, OpenError};
use ::link::LinkState;
use wire::Time;

/// What the shared memory is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Huge pages.
    Huge,
    /// Ordinary pages.
    Ordinary,
    /// The peer's memory.
    Peer,
}

/// Where the interface stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Whether a peer is connected.
    pub state: LinkState,
    /// What the peer calls itself.
    pub peer: Option<String>,
    /// What the shared memory is made of, while connected.
    pub backing: Option<Backing>,
    /// Queue pairs in use.
    pub queues: u16,
    /// Why the last connection ended or could not be made.
    pub reason: Option<String>,
}

/// The control channel of one interface.
#[derive(Debug)]
pub struct Control {
    config: Config,
}

impl Control {
    pub(crate) fn open(config: Config) -> Result<(Self, Vec<MemifLink>), OpenError> {
        let links = (0..config.queues).map(|_| MemifLink::new(&config)).collect();
        Ok((Self { config }, links))
    }

    /// Greets a new peer, follows the one there is, notices that it went.
    /// Never blocks; call it about once a millisecond.
    pub fn poll(&mut self, now: Time) -> LinkState {
        let _ = now;
        LinkState::Down
    }

    /// Where the interface stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status { state: LinkState::Down, peer: None, backing: None, queues: self.config.queues, reason: None }
    }
}
