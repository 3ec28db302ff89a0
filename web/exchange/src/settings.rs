//! What a handler leaves with an exchange that is not over.

use core::net::IpAddr;

/// What a handler leaves with an exchange, for its carrier to give back or to mind. All of it is
/// left at a time ([`crate::Replies::set`]), and takes the place of what was left before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExchangeSettings {
    /// A number of the handler's own, which comes back with what is told of the exchange.
    pub mark: Option<u32>,
    /// The series that its latency is counted with, by the board of its silo; none: its host's.
    pub series: Option<u16>,
    /// The number of the terms of exchanges that it has, of those that the carrier was told: how
    /// long its client may take for what follows. None: those of its connection, which goes on
    /// with what the last exchange had.
    pub terms: Option<u8>,
    /// What answers has time limits of its own: the exchange is not over because nothing is queued
    /// for a while. Nor does it wait for the client: of its answer some may be queued that the
    /// client does not take now ([`crate::ReplyFlow::ahead`]).
    pub patient: bool,
    /// The reply to come is the last on its connection. Once it was said, it stays so.
    pub last: bool,
    /// Whom it is with, where somebody who is believed told of another than its connection's peer.
    pub client: Option<IpAddr>,
    /// What requests behind it will need may be fetched while it waits: they are told by
    /// [`crate::Handler::look_ahead`].
    pub looks_ahead: bool,
}

impl ExchangeSettings {
    /// Those of an exchange that has this number, and waits.
    #[must_use]
    pub fn marked(mark: u32) -> Self {
        Self { mark: Some(mark), ..Self::default() }
    }
}
