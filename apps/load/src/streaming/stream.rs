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
    /// Whether the connection can carry another request.
    pub keeps: bool,
    /// When the answer under way was asked for, until its first byte is there.
    pub asked: Option<Time>,
    /// The number of its next request.
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
    /// One that was not started yet.
    pub fn new(flow: Flow) -> Self {
        Self {
            id: None,
            line: Line::Closed,
            reader: ResponseReader::new(),
            keeps: true,
            asked: None,
            next: 0,
            paused: None,
            is_at_end: false,
            pause: Duration::ZERO,
            flow,
        }
    }

    /// It has a connection, which is being opened.
    pub fn begin_connecting(&mut self, id: ConnId) {
        (self.id, self.line, self.keeps) = (Some(id), Line::Connecting, true);
        (self.asked, self.paused, self.is_at_end, self.pause) = (None, None, false, Duration::ZERO);
        self.reader = ResponseReader::new();
    }
}
