//! Replies in pieces.

use app::Body;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Some of a body.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes that are copied.
    Bytes(&'a [u8]),
    /// Some of a shared body, which is not.
    Body(&'a Body, (u32, u32)),
    /// Some of a file, which is not read ([`app::Net::send_file`]).
    File(&'a Arc<OwnedFd>, (u64, u64)),
}

impl Piece<'_> {
    /// How many bytes it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Body(_, (start, end)) => end.saturating_sub(*start) as u64,
            Self::File(_, (start, end)) => end.saturating_sub(*start),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How the end of a reply's body is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyEnd {
    /// By its length, if it has a body.
    Length,
    /// Within the connection, if the client knows how; else by the end of that. No length is
    /// known.
    Chunk,
    /// By the end of the connection. No length is known.
    Connection,
}

/// How an exchange is over whose reply has no end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The peer is told by a reset.
    Reset,
    /// What is queued is sent, and the connection ends in a way that tells its client that
    /// something is missing.
    Cut,
    /// Nothing was answered, and nothing is.
    HangUp,
}

/// How far the bytes of an exchange have come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReplyFlow {
    /// Bytes queued towards the peer and not yet taken by it.
    pub unsent: usize,
    /// Bytes more that its carrier holds for it now: what reads or makes a body ahead of its client goes
    /// no further, and is told of room later ([`crate::Handler::on_room`]). [`ReplyFlow::UNBOUNDED`]
    /// where each connection has one answer at a time, for which handlers have bounds of their own.
    pub room: usize,
    /// Bytes of that room that its client would not take now: of what an upstream answers some is read ahead
    /// ([`crate::ExchangeSettings::patient`]), for it may be gone when its client takes more.
    pub ahead: u32,
    /// Bytes that the peer has taken so far, modulo 2^32: whether it takes any.
    pub taken: u32,
    /// Bytes of the request's body that were taken so far, with what its chunks add to it.
    pub received: u64,
}

impl ReplyFlow {
    /// What is queued has no other bound than its handler's.
    pub const UNBOUNDED: usize = usize::MAX;

    /// Bytes more that its client would take now.
    #[must_use]
    pub const fn welcome(&self) -> usize {
        self.room.saturating_sub(self.ahead as usize)
    }

    /// Whether its carrier bounds what is queued.
    #[must_use]
    pub const fn is_bounded(&self) -> bool {
        self.room != Self::UNBOUNDED
    }
}
