//! A parsed request head.

use crate::conditional::Preconditions;
use crate::lines::value_at;
use crate::{Fields, Framing, Method, Values, Version};

/// The form of a request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `/path?query`
    Origin,
    /// `http://authority/path?query`
    Absolute,
    /// `host:port`, for CONNECT only.
    Authority,
    /// `*`, for OPTIONS only.
    Asterisk,
}

/// The fields that are found while the head is parsed; all others are in
/// [`Request::fields`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Known {
    /// Host; in every HTTP/1.1 request, at most once.
    Host,
    /// Range
    Range,
    /// If-Range
    IfRange,
    /// If-Match
    IfMatch,
    /// If-None-Match
    IfNoneMatch,
    /// If-Modified-Since
    IfModifiedSince,
    /// If-Unmodified-Since
    IfUnmodifiedSince,
    /// Accept-Encoding
    AcceptEncoding,
    /// User-Agent
    UserAgent,
    /// Referer
    Referer,
    /// Connection
    Connection,
    /// Content-Length; judged already, see [`Request::framing`].
    ContentLength,
    /// Transfer-Encoding; judged already, see [`Request::framing`].
    TransferEncoding,
    /// Expect; judged already, see [`Request::expect_continue`].
    Expect,
}

impl Known {
    /// How many there are.
    pub(super) const COUNT: usize = 14;

    /// The field's bit in a set of fields.
    #[inline(always)]
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

const _: () = assert!(Known::Expect as usize + 1 == Known::COUNT && Known::COUNT <= 16);

/// The fields that make a response depend on more than the target.
const CONDITIONS: u16 = Known::Range.bit()
    | Known::IfRange.bit()
    | Known::IfMatch.bit()
    | Known::IfNoneMatch.bit()
    | Known::IfModifiedSince.bit()
    | Known::IfUnmodifiedSince.bit();

/// A request head, borrowed from the bytes it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub(super) head: &'a [u8],
    /// Bytes of a body that is not chunked.
    pub(super) length: u64,
    /// Where each known field's value begins, 0 if it is absent.
    pub(super) known: [u16; Known::COUNT],
    // Positions in the head, in this order. The target begins with its path,
    // except in absolute form.
    pub(super) path_start: u16,
    pub(super) path_end: u16,
    pub(super) target_end: u16,
    pub(super) fields_start: u16,
    /// The known fields that appeared.
    pub(super) seen: u16,
    /// Those that appeared more than once.
    pub(super) repeated: u16,
    pub(super) method: Method,
    pub(super) form: Form,
    pub(super) version: Version,
    pub(super) chunked: bool,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
    pub(super) bad_host: bool,
}

impl<'a> Request<'a> {
    /// The method.
    #[inline]
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// The method as sent, also for [`Method::Other`].
    #[must_use]
    pub fn method_name(&self) -> &'a [u8] {
        self.bytes(0, self.target_start() - 1)
    }

    /// The whole request target as sent.
    #[inline]
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        self.bytes(self.target_start(), self.target_end)
    }

    /// The form that the target has.
    #[inline]
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// The target's path as sent, percent-encoding included, without query:
    /// begins with `/` in origin and absolute form, empty in the others.
    #[inline]
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        self.bytes(self.path_start, self.path_end)
    }

    /// The target's query, without the `?`; `None` without a `?`.
    #[inline]
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        if self.path_end < self.target_end { Some(self.bytes(self.path_end + 1, self.target_end)) } else { None }
    }

    /// The host and port asked for: from the target in absolute and authority
    /// form, which overrides Host (RFC 9112 section 3.2.2), else from Host.
    /// Empty if an HTTP/1.0 client named none.
    #[inline]
    #[must_use]
    pub fn authority(&self) -> &'a [u8] {
        match self.form {
            Form::Authority => self.target(),
            Form::Absolute => {
                // After "http://" or "https://".
                let before_path = self.bytes(self.target_start(), self.path_start);
                before_path.splitn(3, |&byte| byte == b'/').nth(2).unwrap_or_default()
            }
            Form::Origin | Form::Asterisk => self.known(Known::Host).unwrap_or_default(),
        }
    }

    /// The request line, without CR LF: what access logs show.
    #[inline]
    #[must_use]
    pub fn line(&self) -> &'a [u8] {
        self.head.get(..usize::from(self.fields_start).saturating_sub(2)).unwrap_or_default()
    }

    /// The version.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Whether the connection goes on after the response (RFC 9112
    /// section 9.3). Where false, the response should carry
    /// `Connection: close`.
    #[inline]
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for `100 Continue` before it sends the body
    /// (RFC 9110 section 10.1.1).
    #[inline]
    #[must_use]
    pub const fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// Whether and how a body follows; never `UntilClose`.
    #[inline]
    #[must_use]
    pub const fn framing(&self) -> Framing {
        match (self.chunked, self.length) {
            (true, _) => Framing::Chunked,
            (false, 0) => Framing::None,
            (false, length) => Framing::Length(length),
        }
    }

    /// The value of a known field's first line; `None` if absent.
    #[inline]
    #[must_use]
    pub fn known(&self, field: Known) -> Option<&'a [u8]> {
        match self.known[field as usize] {
            0 => None,
            start => Some(value_at(self.head, usize::from(start))),
        }
    }

    /// The values of a known field, line by line; none if it is absent.
    #[inline]
    pub(super) fn values(&self, field: Known, name: &'static str) -> Option<Values<'a>> {
        let first = self.known(field)?;
        let repeated = self.repeated & field.bit() != 0;
        Some(if repeated { Values::repeated(self.fields(), name) } else { Values::one(first) })
    }

    /// Whether no Range and no `If-*` field is there: the whole
    /// representation is asked for, whatever its state.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.seen & CONDITIONS == 0
    }

    /// The `If-*` fields, for [`crate::conditional::evaluate`].
    #[must_use]
    pub fn preconditions(&self) -> Preconditions<'a> {
        // A repeated singleton field is invalid, and invalid dates are as if
        // absent; lists go on in further lines (RFC 9110 section 5.3).
        let single = |known: Known| if self.repeated & known.bit() == 0 { self.known(known) } else { None };
        Preconditions {
            if_match: self.values(Known::IfMatch, "if-match"),
            if_none_match: self.values(Known::IfNoneMatch, "if-none-match"),
            if_modified_since: single(Known::IfModifiedSince),
            if_unmodified_since: single(Known::IfUnmodifiedSince),
            // A repeated If-Range matches nothing: the whole representation
            // is sent, which is always correct.
            if_range: self.known(Known::IfRange).map(|_| single(Known::IfRange).unwrap_or_default()),
        }
    }

    /// The Range field. `None` if absent or repeated: a repeated singleton
    /// field is invalid and an invalid Range is ignored (RFC 9110
    /// sections 5.3 and 14.2).
    #[inline]
    #[must_use]
    pub fn range(&self) -> Option<&'a [u8]> {
        if self.repeated & Known::Range.bit() == 0 { self.known(Known::Range) } else { None }
    }

    /// All field lines.
    #[inline]
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.head.get(usize::from(self.fields_start)..).unwrap_or_default())
    }

    /// The whole head as sent, empty line included.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> &'a [u8] {
        self.head
    }

    /// After the method and its space.
    fn target_start(&self) -> u16 {
        match self.form {
            Form::Origin => self.path_start,
            _ => self.head.iter().position(|&byte| byte == b' ').map_or(1, |space| space as u16 + 1),
        }
    }

    #[inline]
    fn bytes(&self, start: u16, end: u16) -> &'a [u8] {
        self.head.get(usize::from(start)..usize::from(end)).unwrap_or_default()
    }
}
