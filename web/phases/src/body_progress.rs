//! How far the body of a request has come.

#![cfg_attr(not(test), allow(dead_code, reason = "what reads bodies comes with upstreams"))]

use bodies::{BodyContent, ReceivedBody};
use exchange::RequestBody;
use features::ErrorLevel;

/// The body of a request under way.
#[derive(Debug)]
pub(super) struct BodyProgress {
    /// Its bytes, if they were told.
    pub length: Option<u64>,
    /// Of one in chunks: its bytes, if all of it came along with the head.
    pub at_hand: Option<u64>,
    /// What came along with the head are no chunks.
    pub is_malformed: bool,
    pub state: BodyState,
    /// All of it came.
    pub ended: bool,
    /// Bytes that were read, with what chunks add to them, once it has ended.
    pub wire: u64,
    /// Bytes that it may have.
    pub most: u64,
    pub failure: Option<BodyFailure>,
    /// The error log knows of its file.
    pub is_told: bool,
    /// Of one that is handed on as it comes: what came of it, for `$request_body` and for who
    /// is asked after the first, as long as that is no more than memory has room for.
    pub copy: Option<BodyCopy>,
}

/// What came of a body that is handed on.
#[derive(Debug, Default)]
pub(super) struct BodyCopy {
    pub bytes: Vec<u8>,
    /// Bytes that there is room for.
    pub most: usize,
}

#[derive(Debug)]
pub(super) enum BodyState {
    /// Nobody reads it.
    Left,
    /// It is kept as it comes.
    Kept(Box<ReceivedBody>),
    /// It is handed on as it comes: so many bytes of it were.
    Streamed(u64),
    /// It will not be whole.
    Broken,
}

/// Why a body is not whole.
#[derive(Debug)]
pub(super) enum BodyFailure {
    /// Its request ends with this status.
    Status(u16),
    /// The same; and the error log says this.
    Told(ErrorLevel, u16, String),
    /// Its client is gone.
    Gone,
}

impl BodyProgress {
    /// What follows a request's head.
    pub fn of(body: RequestBody) -> Option<Box<Self>> {
        let (length, at_hand) = match body {
            RequestBody::None => return None,
            RequestBody::Length(length) => (Some(length), None),
            RequestBody::AtHand(length) => (None, Some(length)),
            RequestBody::Unknown | RequestBody::Malformed => (None, None),
        };
        let is_malformed = body == RequestBody::Malformed;
        let (state, failure) = (BodyState::Left, None);
        Some(Box::new(Self {
            length,
            at_hand,
            is_malformed,
            state,
            ended: false,
            wire: 0,
            most: u64::MAX,
            failure,
            is_told: false,
            copy: None,
        }))
    }

    /// All of it, if all of it was read.
    pub fn content(&self) -> Option<&BodyContent> {
        match &self.state {
            BodyState::Kept(received) => received.content(),
            _ => None,
        }
    }

    /// The same body, for a request within the one that it came with; none before all of
    /// it was read.
    pub fn share(&self) -> Option<Box<Self>> {
        let BodyState::Kept(received) = &self.state else { return None };
        let state = BodyState::Kept(Box::new(received.share()?));
        let (length, most) = (self.length, self.most);
        Some(Box::new(Self {
            length,
            at_hand: None,
            is_malformed: false,
            state,
            ended: true,
            wire: 0,
            most,
            failure: None,
            is_told: true,
            copy: None,
        }))
    }

    /// So many bytes of it were handed on.
    pub fn on_streamed(&mut self, bytes: &[u8]) {
        let BodyState::Streamed(all) = &mut self.state else { return };
        *all += bytes.len() as u64;
        match &mut self.copy {
            Some(copy) if copy.bytes.len() + bytes.len() <= copy.most => copy.bytes.extend_from_slice(bytes),
            copy => *copy = None,
        }
    }

    /// Its reader waits by this.
    pub const fn set_ticket(&mut self, ticket: u64) {
        if let BodyState::Kept(received) = &mut self.state {
            received.set_ticket(ticket);
        }
    }

    /// Whether it is read, or was.
    pub const fn is_read(&self) -> bool {
        matches!(self.state, BodyState::Kept(_) | BodyState::Streamed(_))
    }

    /// The path of its file, if it has one.
    pub fn path(&self) -> Option<&[u8]> {
        match &self.state {
            BodyState::Kept(received) => received.path(),
            _ => None,
        }
    }

    /// Bytes of it that were read, once it has ended; or that are known to follow.
    pub fn read(&self) -> Option<u64> {
        match &self.state {
            BodyState::Kept(received) => self.ended.then(|| received.received()),
            BodyState::Streamed(bytes) => self.ended.then_some(*bytes).or(self.at_hand),
            _ => None,
        }
    }

    /// Asks for so many bytes from `offset` of a body that is in a file, less at its end:
    /// [`BodyNews::Piece`] has them. Whether it does; one piece is read at a time.
    pub fn read_back(&mut self, offset: u64, most: usize) -> bool {
        match &mut self.state {
            BodyState::Kept(received) => received.read(offset, most),
            _ => false,
        }
    }

    pub fn is_of(&self, ticket: u64) -> bool {
        matches!(&self.state, BodyState::Kept(received) if received.ticket() == ticket)
    }
}
