//! What is kept of each stream, and of each connection.

use super::measure::Flow;
use app::ConnId;
use core::time::Duration;
use h1::client::ResponseReader;
use std::collections::VecDeque;
use wire::Time;

/// What a connection is about.
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
    /// HTTP/2 is spoken: each of its streams is about something of its own.
    Shared,
    /// It is to end.
    Ending,
}

/// What carries a stream, or several over HTTP/2: one connection, and another one once that is over.
#[derive(Debug)]
pub struct Carrier {
    /// The connection.
    pub id: Option<ConnId>,
    /// What that is about.
    pub line: Line,
    /// When it was begun.
    pub since: Time,
    /// Whether the last connect failed.
    pub is_unconnected: bool,
    /// Whether the connection can carry another request.
    pub keeps: bool,
    /// Requests that were answered on it.
    pub answers: u32,
    /// The server sends no more, and what it sent is not taken yet.
    pub is_at_end: bool,
    /// How long it waits before it is connected anew, once its connection is gone.
    pub pause: Duration,
    /// Over HTTP/2: streams that ask as soon as the server takes one more, in turn.
    pub waiting: VecDeque<usize>,
}

impl Carrier {
    /// One that was not connected yet, for streams that wait for it.
    pub const fn new(waiting: VecDeque<usize>) -> Self {
        Self {
            id: None,
            line: Line::Closed,
            since: Time::ZERO,
            is_unconnected: false,
            keeps: true,
            answers: 0,
            is_at_end: false,
            pause: Duration::ZERO,
            waiting,
        }
    }

    /// It has a connection, which is being opened.
    pub fn begin_connecting(&mut self, id: ConnId, now: Time) {
        (self.id, self.line, self.keeps) = (Some(id), Line::Connecting, true);
        (self.since, self.answers) = (now, 0);
        (self.is_at_end, self.pause) = (false, Duration::ZERO);
    }
}

/// One stream, over all its connections.
#[derive(Debug)]
pub struct Stream {
    /// Where in an answer of HTTP/1.1 it is.
    pub reader: ResponseReader,
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
    /// What it plays.
    pub flow: Flow,
}

impl Stream {
    /// One that was not started yet, and will ask for what is in turn at `next`.
    pub fn new(flow: Flow, next: usize) -> Self {
        Self {
            reader: ResponseReader::new(),
            number: 0,
            came: false,
            status: 0,
            leads: false,
            wrong: false,
            next,
            paused: None,
            flow,
        }
    }

    /// It asks for one of the plan's requests, the next in turn.
    pub const fn begin_asking(&mut self, number: u16) {
        self.next = self.next.wrapping_add(1);
        (self.number, self.reader) = (number, ResponseReader::new());
        (self.came, self.status, self.leads, self.wrong) = (false, 0, false, false);
    }

    /// It will ask for the same again.
    pub const fn take_back(&mut self) {
        self.next = self.next.wrapping_sub(1);
        self.flow.take_back();
    }
}
