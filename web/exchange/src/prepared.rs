//! What is answered the short way: responses that are ready.

use crate::{Asked, ExchangeId, Ready, Replies};
use core::net::SocketAddr;
use semantics::Request;

/// What was queued of a response that was ready.
#[derive(Clone, Copy, Debug)]
pub struct ReadySent {
    /// The client's address; none on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Bytes of its head, where that is another than the one that is ready.
    pub head: Option<u64>,
    /// Bytes in all.
    pub bytes: u64,
}

/// What a handler has ready: responses that its carrier sends without asking further, and that make
/// no exchange. By default it has none.
pub trait Prepared {
    /// The response to a plain GET for `path`, as it was sent, if it is ready in
    /// this unix second: the short way, which leaves out all the other calls.
    /// What is told in this way depends on the path alone, and on whether `host` may be
    /// one: for those that may not be one a handler has nothing ready.
    #[inline(always)]
    fn ready<'a>(&mut self, path: &[u8], host: impl FnOnce() -> &'a [u8], second: u64) -> Option<&mut Ready> {
        let _ = (path, host, second);
        None
    }

    /// All that is ready, where what is told may depend on more than the path, and on nothing but
    /// what [`Asked`] has: also asked for what [`Prepared::ready`] does not have. By default there
    /// is no more.
    #[inline(always)]
    fn ready_for<A: Asked>(&mut self, asked: &A, second: u64) -> Option<&mut Ready> {
        self.ready(asked.path(), || asked.authority(), second)
    }

    /// Makes the response that is [ready](Prepared::ready) say that the connection
    /// closes; whether there is room in memory for that.
    fn make_closing<A: Asked>(&mut self, asked: &A) -> bool {
        let _ = asked;
        false
    }

    /// The response that was told of last was queued: to a handler that
    /// [notes that](crate::HandlerRules::notes_ready).
    fn on_ready_sent<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, sent: &ReadySent) {
        let _ = (replies, id, request, sent);
    }
}
