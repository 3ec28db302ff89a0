//! What a segment changed, for whoever handed it in.

use app::Closed;
use wire::tcp::SeqNum;

/// What a segment asks to be sent at once, beside what
/// [`crate::Connection::poll_segment`] gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// Nothing.
    #[default]
    None,
    /// A challenge acknowledgement, within the limit of RFC 5961 section 7.
    Challenge,
    /// A reset with this sequence number: the segment acknowledges what an
    /// opening connection never sent.
    Reset(SeqNum),
}

/// What a segment changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The handshake is complete.
    pub opened: bool,
    /// In-order payload for the application: `payload[skip..skip + len]`.
    pub skip: u32,
    /// Its length; 0 is none.
    pub len: u32,
    /// Held bytes can be read now (see [`crate::Connection::take_held`]).
    pub readable: bool,
    /// The peer sends no more; said once.
    pub finished: bool,
    /// The send queue fell to the low-water mark.
    pub drained: bool,
    /// The connection is over.
    pub closed: Option<Closed>,
    /// What to answer.
    pub answer: Answer,
    /// What came are records of a secured connection: for the stack to say.
    pub sealed: bool,
}

/// What a segment changed on a light connection, beside the data that it
/// brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Light {
    /// It acknowledged something.
    pub progress: bool,
}

impl Outcome {
    pub(crate) const NONE: Self = Self {
        opened: false,
        skip: 0,
        len: 0,
        readable: false,
        finished: false,
        drained: false,
        closed: None,
        answer: Answer::None,
        sealed: false,
    };

    pub(crate) fn closed(why: Closed) -> Self {
        Self { closed: Some(why), ..Self::NONE }
    }

    pub(crate) fn answer(answer: Answer) -> Self {
        Self { answer, ..Self::NONE }
    }
}
