//! An answer on a stream of a connection that is shared: what its asker knows of it.

use app::Closed;
use h2::ErrorCode;
use std::borrow::Cow;

/// An answer on a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamAnswer {
    /// It is asked by gRPC, for people.
    pub is_grpc: bool,
    /// Why no more comes, and whether all that came is here.
    pub(crate) end: Option<StreamEnd>,
    /// How often it was asked anew.
    pub(crate) repeats: u8,
    /// Bytes of the body so far.
    pub(crate) body: u64,
}

impl StreamAnswer {
    /// One that nothing has come of.
    #[must_use]
    pub const fn new(is_grpc: bool) -> Self {
        Self { is_grpc, end: None, repeats: 0, body: 0 }
    }

    /// Forgets what one server said before another is asked.
    pub(crate) fn begin_again(&mut self) {
        (self.end, self.body) = (None, 0);
    }
}

/// Why no more comes on a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamEnd {
    /// The answer is whole, with these trailers.
    Whole(Vec<u8>),
    /// The server has not processed the question, and said so by this code: it may be asked again
    /// elsewhere, whatever it asks for (RFC 9113 section 8.7).
    Unprocessed(ErrorCode, UnprocessedBy),
    /// The server has ended the stream before its end.
    Reset(ErrorCode),
    /// What came is no answer.
    Fault(Cow<'static, str>),
    /// The connection is gone.
    Closed(Closed),
}

/// How a server says that it has not processed a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnprocessedBy {
    /// RST_STREAM.
    Reset,
    /// GOAWAY.
    GoAway,
    /// Nothing of it was sent.
    Us,
}

/// The head of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeadOnStream {
    /// Its status: less than 200 where the answer itself follows.
    pub status: u16,
    /// Its fields, as lines.
    pub lines: Vec<u8>,
    /// Bytes of its body, if that is told.
    pub length: Option<u64>,
}
