//! What a service answers.

use core::fmt;
use semantics::Status;

/// Fields that are written anyway, by what is known of the body, the connection and the
/// clock: a second of them would contradict the first.
const OWN: [&str; 5] = ["connection", "content-length", "date", "keep-alive", "transfer-encoding"];

/// A reply: 200 with an empty body, until something else is said.
///
/// Each method returns the reply, so that calls are chained. What cannot be sent as it was
/// told is not sent in part: the client is answered 500 (Internal Server Error) without a
/// body, and [`crate::Service::on_bad_reply`] is told why. Who takes names or values of
/// fields from elsewhere asks [`Reply::check_field`] before.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) status: Status,
    pub(crate) fields: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) bad: Option<BadReply>,
    #[cfg(feature = "compress")]
    pub(crate) compressed: bool,
}

/// Why a reply cannot be sent: the service's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadReply {
    /// A field's name is no token (RFC 9110 section 5.1).
    Name,
    /// A field's value has CR, LF or NUL in it (RFC 9110 section 5.5).
    Value,
    /// A field that is written anyway: `Connection`, `Content-Length`, `Date`, `Keep-Alive`,
    /// `Transfer-Encoding`.
    Own,
    /// A status below 200 is of no final reply (RFC 9110 section 15.2).
    Interim,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "a field's name is no token",
            Self::Value => "a field's value has CR, LF or NUL in it",
            Self::Own => "Connection, Content-Length, Date, Keep-Alive and Transfer-Encoding are written anyway",
            Self::Interim => "a status below 200 is of no final reply",
        })
    }
}

impl core::error::Error for BadReply {}

impl Reply {
    pub(crate) const fn new() -> Self {
        Self {
            status: Status::OK,
            fields: Vec::new(),
            body: Vec::new(),
            bad: None,
            #[cfg(feature = "compress")]
            compressed: false,
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.status, self.bad) = (Status::OK, None);
        self.fields.clear();
        self.body.clear();
        #[cfg(feature = "compress")]
        {
            self.compressed = false;
        }
    }

    /// Answers with this status, 200 or above.
    pub fn status(&mut self, status: Status) -> &mut Self {
        self.status = status;
        if status.is_interim() {
            self.refuse(BadReply::Interim);
        }
        self
    }

    /// Adds a field, behind those that were added before.
    pub fn field(&mut self, name: &str, value: &[u8]) -> &mut Self {
        match Self::check_field(name, value) {
            Ok(()) => self.append(name, value),
            Err(why) => self.refuse(why),
        }
        self
    }

    /// Adds to the body.
    pub fn body(&mut self, bytes: &[u8]) -> &mut Self {
        self.body.extend_from_slice(bytes);
        self
    }

    /// Compresses the body, by Brotli, Zstandard or gzip, whichever the client likes best,
    /// on the thread that answers: if it takes one of them, the body has 256 bytes to 1 MiB,
    /// and it gets shorter by that. The reply says `Vary: Accept-Encoding` in any case.
    ///
    /// Not for bodies that hold a secret beside what a client chose: their lengths tell of it.
    #[cfg(feature = "compress")]
    pub const fn compressed(&mut self) -> &mut Self {
        self.compressed = true;
        self
    }

    /// Whether a reply may have this field.
    ///
    /// # Errors
    /// See [`BadReply`].
    pub fn check_field(name: &str, value: &[u8]) -> Result<(), BadReply> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(BadReply::Name);
        }
        if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(BadReply::Own);
        }
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(BadReply::Value);
        }
        Ok(())
    }

    /// Adds a field that may be there.
    pub(crate) fn append(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(part);
        }
    }

    /// The first fault counts.
    const fn refuse(&mut self, why: BadReply) {
        if self.bad.is_none() {
            self.bad = Some(why);
        }
    }

    /// What is sent in place of a reply that cannot be. What was wrong with it, if anything.
    pub(crate) fn mend(&mut self) -> Option<BadReply> {
        let why = self.bad?;
        self.clear();
        self.status = Status::INTERNAL_SERVER_ERROR;
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_split_or_contradict_the_head_makes_it_an_error() {
        for (name, value, why) in [
            ("Location", &b"/a\r\nSet-Cookie: b=c"[..], BadReply::Value),
            ("Location", b"a\0", BadReply::Value),
            ("X Y", b"1", BadReply::Name),
            ("", b"1", BadReply::Name),
            ("content-length", b"1", BadReply::Own),
            ("Transfer-Encoding", b"chunked", BadReply::Own),
        ] {
            let mut reply = Reply::new();
            reply.field("X-One", b"1").field(name, value).body(b"text").field("X-Two", b"2");
            assert_eq!(reply.mend(), Some(why), "{name}");
            assert_eq!((reply.status, reply.fields.len(), reply.body.len()), (Status::INTERNAL_SERVER_ERROR, 0, 0));
            assert_eq!(reply.mend(), None);
        }
        let mut reply = Reply::new();
        reply.status(Status::CONTINUE);
        assert_eq!(reply.mend(), Some(BadReply::Interim));
        reply.field("X-One", b"1").field("X-Two", b"\xfc, \"2\"");
        assert_eq!(reply.mend(), None);
        assert_eq!(reply.fields, b"X-One: 1\r\nX-Two: \xfc, \"2\"\r\n");
    }
}
