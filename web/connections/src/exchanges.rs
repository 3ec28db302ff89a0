//! What there is to know of an exchange that is under way, whoever carries it: what its handler
//! left with it, how its request's body stands, what the log will say.
//!
//! That of HTTP/1.1, which has one at a time, is behind its connection, and no entry of any
//! table; those of protocols that carry many are in a table ([`crate::Carried`]).

use crate::pace::BodyPace;
use access_log::OpenLine;
use core::net::IpAddr;
use exchange::ExchangeSettings;
use wire::Time;

/// An exchange that is under way.
#[derive(Debug, Default)]
pub struct Exchange {
    /// What the handler left with it.
    pub mark: Option<u32>,
    /// The handler has left some of a body, which is to be offered again.
    pub left: bool,
    /// The handler reads the body, and nothing is to be waited for but its client.
    pub reads: bool,
    /// Bytes that were taken of the body, framing included.
    pub received: u64,
    /// Its client waits for a word before it sends the body.
    pub expects: bool,
    /// How fast the body comes, from when on it is read.
    pub pace: Option<BodyPace>,
    /// What the log will say.
    pub line: Option<OpenLine>,
    /// Bytes of the reply's body so far.
    pub sent: u64,
    /// Its handler has time limits of its own.
    pub patient: bool,
    /// Its connection has this rate until its end, in bytes a second.
    pub paced: Option<u64>,
    /// Of a reply that was begun, its status.
    pub status: u16,
    /// And bytes of its head.
    pub head: u32,
    /// When the request's head was whole, if it was not answered at once.
    pub began: Option<Time>,
    /// The series that its latency is counted with.
    pub series: Option<u16>,
    /// Whom it is with, if its handler says so.
    pub client: Option<IpAddr>,
    /// What was asked for, while requests are traced.
    pub traced: Option<Box<Traced>>,
}

/// What a request asked for that is traced.
#[derive(Debug)]
pub struct Traced {
    /// The host that was asked for.
    pub host: Box<[u8]>,
    /// The path.
    pub path: Box<[u8]>,
    /// When its head was whole.
    pub began: Time,
}

impl Exchange {
    /// What its handler leaves with it, but for what is its connection's.
    pub const fn set(&mut self, settings: &ExchangeSettings) {
        (self.mark, self.series) = (settings.mark, settings.series);
        (self.patient, self.client) = (settings.patient, settings.client);
    }

    /// What a reply came to: its status, and its bytes.
    #[must_use]
    pub fn outcome(&self) -> (u16, u64) {
        (self.status, u64::from(self.head) + self.sent)
    }
}
