//! Bodies of requests.

/// What of a request's body follows its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestBody {
    /// Nothing that is for the handler.
    None,
    /// So many bytes, at least one.
    Length(u64),
    /// Bytes up to an end that its carrier will see.
    Unknown,
    /// The same, of which all came along with the head: so many bytes, or none. Told where
    /// [`crate::Handler::asks_for_bodies`].
    AtHand(u64),
    /// By what came along with the head there is no such end: nothing of it is offered, and
    /// the answer is the connection's last. Told where [`crate::Handler::asks_for_bodies`].
    Malformed,
}

/// Why a body that a handler reads will not be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyCut {
    /// It has more bytes than it may ([`crate::Replies::read_body`]).
    TooLong,
    /// Its client did not send any of it for as long as clients may take.
    Late,
    /// Its chunks are none.
    Malformed,
    /// Its client sends no more.
    Ended,
}
