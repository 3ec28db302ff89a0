//! A parsed request head.

use crate::conditional::Preconditions;
use crate::{Fields, Framing, Method, Version};

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
}

/// Where some bytes of the head lie. A start of 0 means absent: no field and
/// no part of a target begins with the head's first byte.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Span {
    pub start: u16,
    pub end: u16,
}

/// A request head, borrowed from the bytes it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub(super) head: &'a [u8],
    pub(super) framing: Framing,
    pub(super) known: [Span; 10],
    pub(super) authority: Span,
    pub(super) path: Span,
    pub(super) target: Span,
    pub(super) fields_start: u16,
    /// Bit n: the field with `Known` n appeared.
    pub(super) seen: u16,
    /// Bit n: it appeared more than once.
    pub(super) repeated: u16,
    pub(super) method: Method,
    pub(super) form: Form,
    pub(super) version: Version,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
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
        self.head.split(|&byte| byte == b' ').next().unwrap_or_default()
    }

    /// The whole request target as sent.
    #[inline]
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        self.bytes(self.target)
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
        self.bytes(self.path)
    }

    /// The target's query, without the `?`; `None` without a `?`.
    #[inline]
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        None
    }

    /// The host and port asked for: from the target in absolute and authority
    /// form, which overrides Host (RFC 9112 section 3.2.2), else from Host.
    /// Empty if an HTTP/1.0 client named none.
    #[inline]
    #[must_use]
    pub fn authority(&self) -> &'a [u8] {
        self.bytes(self.authority)
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
        self.framing
    }

    /// The value of a known field's first line; `None` if absent.
    #[inline]
    #[must_use]
    pub fn known(&self, field: Known) -> Option<&'a [u8]> {
        let span = *self.known.get(field as usize)?;
        if span.start == 0 { None } else { Some(self.bytes(span)) }
    }

    /// Whether no Range and no `If-*` field is there: the whole
    /// representation is asked for, whatever its state.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        true
    }

    /// The `If-*` fields, for [`crate::conditional::evaluate`].
    #[must_use]
    pub fn preconditions(&self) -> Preconditions<'a> {
        Preconditions::default()
    }

    /// The Range field. `None` if absent or repeated: a repeated singleton
    /// field is invalid and an invalid Range is ignored (RFC 9110
    /// sections 5.3 and 14.2).
    #[inline]
    #[must_use]
    pub fn range(&self) -> Option<&'a [u8]> {
        if self.repeated & (1 << Known::Range as u16) == 0 { self.known(Known::Range) } else { None }
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

    #[inline]
    fn bytes(&self, span: Span) -> &'a [u8] {
        self.head.get(usize::from(span.start)..usize::from(span.end)).unwrap_or_default()
    }
}
