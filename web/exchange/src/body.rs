//! Bodies of requests.

use core::time::Duration;
use semantics::{Method, Request, Status};

/// What a handler takes of requests.
#[derive(Clone, Copy, Default, Debug)]
pub struct Intake {
    /// The methods that it answers. A client that waits for a word before it sends the body of
    /// another is refused at once.
    pub methods: MethodRules,
    /// What becomes of bodies.
    pub bodies: Bodies,
}

/// What becomes of bodies of requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Bodies {
    /// Each is read to its end, and dropped, before its request is told of.
    #[default]
    Dropped,
    /// They are the handler's, as they come: [`crate::Handler::on_body`] and
    /// [`crate::Handler::on_body_end`] follow its [`crate::Handler::on_request`].
    Taken,
    /// The same, where the handler says which is read, and how long it may be
    /// ([`crate::Replies::read`]): for which paths may
    /// decide that requests find late. Clients that wait for a word before they send a body
    /// (RFC 9110 section 10.1.1) wait until then: one whose request is answered before that
    /// gets none.
    Asked,
}

/// Which methods are answered.
#[derive(Clone, Copy, Default, Debug)]
pub struct MethodRules {
    /// These; all, if there are none of them.
    pub answered: &'static [Method],
    /// The line of a field that says which these are, told with others' refusal (RFC 9110
    /// section 10.2.1).
    pub allow: &'static [u8],
}

impl MethodRules {
    /// The status and the fields that a method is refused with, if it is.
    #[must_use]
    pub fn refuse(&self, method: Method) -> Option<(Status, &'static [u8])> {
        match method {
            _ if self.answered.is_empty() || self.answered.contains(&method) => None,
            // RFC 9110 section 9.1: unknown anywhere, as against not allowed here.
            Method::Other => Some((Status::NOT_IMPLEMENTED, b"")),
            _ => Some((Status::METHOD_NOT_ALLOWED, self.allow)),
        }
    }
}

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
    /// [`Bodies::Asked`].
    AtHand(u64),
    /// By what came along with the head there is no such end: nothing of it is offered, and
    /// the answer is the connection's last. Told where [`Bodies::Asked`].
    Malformed,
}

/// What a client sent that is no request, or not all of one.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// What its exchange ends with.
    pub status: Status,
    /// What is known of it: its first line, without a target if that is no request's, and the
    /// fields that are.
    pub request: &'a Request<'a>,
    /// The rest of its head will not come, or did not come in time: nobody is answered.
    pub is_cut: bool,
    /// How long it is since its head began to come, where it came in parts.
    pub waited: Duration,
}

/// Why a body that a handler reads will not be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyCut {
    /// It has more bytes than it may ([`crate::Replies::read`]).
    TooLong,
    /// Its client did not send any of it for as long as clients may take.
    Late,
    /// Its chunks are none.
    Malformed,
    /// Its client sends no more.
    Ended,
}
