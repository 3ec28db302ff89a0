//! What carries a question.

use crate::shared::StreamId;
use exchange::UpstreamId;

/// What carries a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskLink {
    /// A connection of its own.
    Own(UpstreamId),
    /// A stream of a connection that others share.
    Shared(StreamId),
}
