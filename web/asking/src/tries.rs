//! What became of each server that was asked, and what there is to say of it.

use core::time::Duration;
use std::rc::Rc;
use wire::Time;

/// What became of one server that was asked.
#[derive(Clone, Debug, Default)]
pub struct AskTry {
    /// Who; none stands between the tries of two questions for the same.
    pub peer: Option<Rc<[u8]>>,
    /// The status of its answer, or what a failure comes to; 0, nothing yet.
    pub status: u16,
    /// When it was chosen.
    pub began: Time,
    /// From then until it had the connection.
    pub connect: Option<Duration>,
    /// And until the head of its answer was whole.
    pub header: Option<Duration>,
    /// And until all of it was.
    pub response: Option<Duration>,
    /// Bytes of the body.
    pub length: u64,
    /// Of all that came.
    pub received: u64,
    /// Of what was sent.
    pub sent: u64,
}

/// How severe it is what there is to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteLevel {
    /// Something of this host's.
    Critical,
    /// The question fails at a server.
    Error,
    /// It does not, but something is odd.
    Warning,
    /// What happens every day.
    Info,
}

/// Something to say to people, in nginx's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskNote {
    /// How severe it is.
    pub level: NoteLevel,
    /// What happened.
    pub what: String,
    /// While what was done.
    pub doing: &'static str,
    /// What was asked of whom ([`crate::Ask::url`]) when it happened.
    pub url: Option<Vec<u8>>,
}
