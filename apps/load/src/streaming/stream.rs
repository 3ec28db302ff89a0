//! What is kept of each stream.

use super::measure::Flow;
use app::ConnId;
use core::time::Duration;
use h1::client::ResponseReader;
use wire::Time;

/// What a stream's connection is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// There is none.
    Closed,
    /// It is being opened.
    Connecting,
    /// A handshake of TLS is under way.
    Securing,
    /// Nothing is asked for: the player has no room.
    Idle,
    /// An answer is under way.
    Asked,
    /// It is to end.
    Ending,
}

/// One stream, over all its connections.
#[derive(Debug)]
pub struct Stream {
    /// Its connection.
    pub id: Option<ConnId>,
    /// What that is about.
    pub line: Line,
    /// Where in an answer it is.
    pub reader: ResponseReader,
    /// When the connection was begun.
    pub since: Time,
    /// Whether the last connect failed.
    pub is_unconnected: bool,
    /// Whether the connection can carry another request.
    pub keeps: bool,
    /// Requests that were answered on it.
    pub answers: u32,
    /// Which of the plan's requests was asked for last.
    pub number: u16,
    /// Whether anything came since.
    pub came: bool,
    /// The status of its answer.
    pub status: u16,
    /// It is a redirect, which may be followed: nothing of it is played.
    pub leads: bool,
    /// It is not as it was to be.
    pub wrong: bool,
    /// The place of its next request, among those in turn.
    pub next: usize,
    /// Until when the player takes nothing.
    pub paused: Option<Time>,
    /// The server sends no more, and what it sent is not taken yet.
    pub is_at_end: bool,
    /// How long it waits before it is started anew, once its connection is gone.
    pub pause: Duration,
    /// What it plays.
    pub flow: Flow,
}

impl Stream {
    /// One that was not started yet, and will ask for what is in turn at `next`.
    pub fn new(flow: Flow, next: usize) -> Self {
        Self {
            id: None,
            line: Line::Closed,
            reader: ResponseReader::new(),
            since: Time::ZERO,
            is_unconnected: false,
            keeps: true,
            answers: 0,
            number: 0,
            came: false,
            status: 0,
            leads: false,
            wrong: false,
            next,
            paused: None,
            is_at_end: false,
            pause: Duration::ZERO,
            flow,
        }
    }

    /// It has a connection, which is being opened.
    pub fn begin_connecting(&mut self, id: ConnId, now: Time) {
        (self.id, self.line, self.keeps) = (Some(id), Line::Connecting, true);
        (self.since, self.answers) = (now, 0);
        (self.paused, self.is_at_end, self.pause) = (None, false, Duration::ZERO);
        self.reader = ResponseReader::new();
    }

    /// It asks for one of the plan's requests, the next in turn.
    pub const fn begin_asking(&mut self, number: u16) {
        self.next = self.next.wrapping_add(1);
        (self.line, self.number, self.reader) = (Line::Asked, number, ResponseReader::new());
        (self.came, self.status, self.leads, self.wrong) = (false, 0, false, false);
    }
}
