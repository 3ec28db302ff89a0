//! What is answered the short way: responses that are ready.

use crate::{Asked, ExchangeId, Ready, Replies};
use semantics::Request;

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

    /// Whether what it has ready may depend on more than the path: then it is asked
    /// by [`Prepared::ready_for`] for all that [`Prepared::ready`] does not have.
    fn tells_requests_apart(&self) -> bool {
        false
    }

    /// As [`Prepared::ready`], where what is told depends on more than the path,
    /// and on nothing but what [`Asked`] has.
    fn ready_for<A: Asked>(&mut self, asked: &A, second: u64) -> Option<&mut Ready> {
        let _ = (asked, second);
        None
    }

    /// Makes the response that is [ready](Prepared::ready) say that the connection
    /// closes; whether there is room in memory for that.
    fn make_closing<A: Asked>(&mut self, asked: &A) -> bool {
        let _ = asked;
        false
    }

    /// Whether it is told of what was answered the short way
    /// ([`Prepared::on_ready_sent`]).
    fn notes_ready(&self) -> bool {
        false
    }

    /// The response that [`Prepared::ready`] told of last was queued: a head of so
    /// many bytes, or as it was ready, and bytes in all.
    fn on_ready_sent<R: Replies>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        request: &Request<'_>,
        sent: (Option<u64>, u64),
    ) {
        let _ = (replies, id, request, sent);
    }
}
