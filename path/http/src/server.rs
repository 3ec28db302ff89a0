//! The server's engine: requests in.
//!
//! ```text
//!            Request            Body*           EndOfBody
//!  (head) ───────────► (body) ─────────► … ────────────────► (head)
//!     │                   │
//!     └── Reject ──► (closed): whatever follows is Ignored
//! ```
//!
//! The caller loops: offer the bytes there are, act on the event, drop
//! `consumed` bytes from the front, and again until `NeedMore`.

mod limits;
mod request;

pub use limits::{Limits, Timeouts, Waiting};
pub use request::{Form, Known, Request};

use crate::Status;

/// What the offered bytes mean. `consumed` bytes are to be dropped from the
/// front before the next call.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Nothing complete; offer the same bytes again when more arrived.
    NeedMore,
    /// A request's head. If [`Request::framing`] is not `None`, `Body` events
    /// follow and end with `EndOfBody`.
    Request {
        /// The parsed head.
        request: Request<'a>,
        /// The length of the head.
        consumed: usize,
    },
    /// Some of the body, in order. Never empty.
    Body {
        /// Body bytes, transfer coding removed.
        bytes: &'a [u8],
        /// Their length and that of the framing before them.
        consumed: usize,
    },
    /// The body is complete. May come for an empty slice.
    EndOfBody {
        /// The length of the framing at the end.
        consumed: usize,
    },
    /// The request cannot be served: answer with `status` and close, because
    /// where the next request begins is not known (RFC 9112 section 9.3).
    /// Comes once, then `Ignored`.
    Reject {
        /// What to answer.
        status: Status,
        /// All that was offered.
        consumed: usize,
    },
    /// Bytes after the last request that this connection serves: drop them
    /// (RFC 9112 section 9.6). Never empty.
    Ignored {
        /// All that was offered.
        consumed: usize,
    },
}

/// The receiving half of one server connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Engine {
    /// Bytes left of the body or the chunk.
    remaining: u64,
    /// Bytes that the body may still have (chunked).
    allowance: u64,
    resume: u16,
    closed: bool,
}

// A million idle connections each hold one.
const _: () = assert!(size_of::<Engine>() <= 32);

impl Engine {
    /// A new connection's engine.
    #[must_use]
    pub const fn new() -> Self {
        Self { remaining: 0, allowance: 0, resume: 0, closed: false }
    }

    /// Takes a look at the bytes offered.
    pub fn on_bytes<'a>(&mut self, data: &'a [u8], limits: &Limits) -> Event<'a> {
        let _ = (data, limits);
        Event::NeedMore
    }

    /// Serves no request after the one under way: what follows it is
    /// [`Event::Ignored`]. The engine does this itself where the client asked
    /// for it ([`Request::keep_alive`] is false) and after a `Reject`; call it
    /// when the server decides so (drain, request limit).
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// What the engine waits for, to choose a deadline
    /// ([`Timeouts::after`]).
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        Waiting::FirstHead
    }
}
