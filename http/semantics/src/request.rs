//! A request's head.

use crate::conditional::Preconditions;
use crate::lines::value_at;
use crate::{Fields, Method, Values};

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
    /// Content-Length; the engine has judged it.
    ContentLength,
    /// Transfer-Encoding; the engine has judged it.
    TransferEncoding,
    /// Expect; the engine has judged it.
    Expect,
    /// Via
    Via,
    /// Authorization
    Authorization,
    /// Content-Range; of a request it has no meaning (RFC 9110 section 14.4).
    ContentRange,
}

impl Known {
    /// How many there are.
    const COUNT: usize = 17;

    /// The field with this name, in lower case.
    #[must_use]
    pub const fn of_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"host" => Self::Host,
            b"range" => Self::Range,
            b"if-range" => Self::IfRange,
            b"if-match" => Self::IfMatch,
            b"if-none-match" => Self::IfNoneMatch,
            b"if-modified-since" => Self::IfModifiedSince,
            b"if-unmodified-since" => Self::IfUnmodifiedSince,
            b"accept-encoding" => Self::AcceptEncoding,
            b"user-agent" => Self::UserAgent,
            b"referer" => Self::Referer,
            b"connection" => Self::Connection,
            b"content-length" => Self::ContentLength,
            b"transfer-encoding" => Self::TransferEncoding,
            b"expect" => Self::Expect,
            b"via" => Self::Via,
            b"authorization" => Self::Authorization,
            b"content-range" => Self::ContentRange,
            _ => return None,
        })
    }

    /// The set of those of which a request has one line at most, whatever carries it. Whoever reads
    /// the first of two answers another request than whoever reads the last, or both joined: a proxy
    /// that lets one user in, and a server behind it that sees another. `If-Match` and
    /// `If-None-Match` may be lists (RFC 9110 section 13.1), but no client sends them in two lines,
    /// and nginx takes none that does.
    pub const UNIQUE: u32 = Self::ContentLength.bit()
        | Self::Authorization.bit()
        | Self::IfMatch.bit()
        | Self::IfNoneMatch.bit()
        | Self::IfModifiedSince.bit()
        | Self::IfUnmodifiedSince.bit()
        | Self::IfRange.bit()
        | Self::ContentRange.bit();

    /// The field's bit in a set of fields.
    #[inline(always)]
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

const _: () = assert!(Known::ContentRange as usize + 1 == Known::COUNT && Known::COUNT <= 32);

/// The fields that make a response depend on more than the target.
const CONDITIONS: u32 = Known::Range.bit()
    | Known::IfRange.bit()
    | Known::IfMatch.bit()
    | Known::IfNoneMatch.bit()
    | Known::IfModifiedSince.bit()
    | Known::IfUnmodifiedSince.bit();

/// Where in its image the parts of a request's head are.
///
/// Made by the engine that read or wrote the image. Whatever they say, no
/// accessor of [`Request`] leaves the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offsets {
    /// Where each known field's value begins, 0 if it is absent.
    known: [u16; Known::COUNT],
    /// The target's path, which is its beginning except in absolute form.
    pub path_start: u16,
    /// The end of the path.
    pub path_end: u16,
    /// The end of the target.
    pub target_end: u16,
    /// Behind the request line and its CR LF.
    pub fields_start: u16,
    /// The known fields that appeared.
    seen: u32,
    /// Those that appeared more than once.
    repeated: u32,
    /// The method.
    pub method: Method,
    /// The target's form.
    pub form: Form,
}

impl Offsets {
    /// Where an engine begins.
    pub const NONE: Self = Self {
        known: [0; Known::COUNT],
        path_start: 0,
        path_end: 0,
        target_end: 0,
        fields_start: 0,
        seen: 0,
        repeated: 0,
        method: Method::Other,
        form: Form::Origin,
    };

    /// Of what is no request: its line alone, which has no target that is known.
    #[must_use]
    pub fn of_line(line: &[u8]) -> Self {
        let fields_start = u16::try_from(line.len() + 2).unwrap_or(u16::MAX);
        // What is answered to HEAD has no body, whatever else is wrong with it.
        let method = if line.starts_with(b"HEAD ") { Method::Head } else { Method::Other };
        Self { fields_start, method, ..Self::NONE }
    }

    /// Notes where a known field's value begins; of a repeated one, the
    /// first.
    #[inline(always)]
    pub fn note(&mut self, known: Known, start: u16) {
        let bit = known.bit();
        if self.seen & bit == 0 {
            self.seen |= bit;
            self.known[known as usize] = start;
        } else {
            self.repeated |= bit;
        }
    }

    /// Whether the field appeared.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, known: Known) -> bool {
        self.seen & known.bit() != 0
    }

    /// Whether one of the fields appeared of which `set` has the bits
    /// ([`Known::bit`]).
    #[inline(always)]
    #[must_use]
    pub const fn has_any(&self, set: u32) -> bool {
        self.seen & set != 0
    }

    /// Whether one of the fields of `set` appeared more than once.
    #[inline(always)]
    #[must_use]
    pub const fn repeats_any(&self, set: u32) -> bool {
        self.repeated & set != 0
    }

    /// Whether the field appeared more than once.
    #[inline(always)]
    #[must_use]
    pub const fn repeats(&self, known: Known) -> bool {
        self.repeated & known.bit() != 0
    }
}

/// A request's head, borrowed from its image: the request line, field lines
/// `name: value`, and the empty line, each ended by CR LF.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    image: &'a [u8],
    at: Offsets,
}

/// A request that waits: its head, kept once, and never parsed again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedRequest {
    image: Vec<u8>,
    at: Offsets,
}

impl OwnedRequest {
    /// The request.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Request<'_> {
        Request { image: &self.image, at: self.at }
    }

    /// A request that waits, in `memory` that something else had.
    #[must_use]
    pub fn within(mut memory: Vec<u8>, request: Request<'_>) -> Self {
        memory.clear();
        memory.extend_from_slice(request.image);
        Self { image: memory, at: request.at }
    }

    /// Its memory, once it waits no more.
    #[must_use]
    pub fn into_memory(self) -> Vec<u8> {
        self.image
    }
}

impl From<Request<'_>> for OwnedRequest {
    fn from(request: Request<'_>) -> Self {
        Self::within(Vec::new(), request)
    }
}

impl<'a> Request<'a> {
    /// No request: where an engine begins.
    pub const NONE: Self = Self { image: &[], at: Offsets::NONE };

    /// The request whose head is `image`, with its parts at `at`.
    #[inline(always)]
    #[must_use]
    pub const fn new(image: &'a [u8], at: Offsets) -> Self {
        Self { image, at }
    }

    /// The offsets, for the engine that fills them in.
    #[inline(always)]
    pub const fn offsets(&mut self) -> &mut Offsets {
        &mut self.at
    }

    /// Gives the request its image, when all of it is there.
    #[inline(always)]
    pub const fn set_image(&mut self, image: &'a [u8]) {
        self.image = image;
    }

    /// Where the parts are.
    #[inline(always)]
    #[must_use]
    pub const fn at(&self) -> &Offsets {
        &self.at
    }

    /// The method.
    #[inline]
    #[must_use]
    pub const fn method(&self) -> Method {
        self.at.method
    }

    /// The method as sent, also for [`Method::Other`].
    #[must_use]
    pub fn method_name(&self) -> &'a [u8] {
        self.bytes(0, self.target_start().saturating_sub(1))
    }

    /// The whole request target as sent.
    #[inline]
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        self.bytes(self.target_start(), self.at.target_end)
    }

    /// The form that the target has.
    #[inline]
    #[must_use]
    pub const fn form(&self) -> Form {
        self.at.form
    }

    /// The target's path as sent, percent-encoding included, without query:
    /// begins with `/` in origin and absolute form, empty in the others.
    #[inline]
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        self.bytes(self.at.path_start, self.at.path_end)
    }

    /// The target's query, without the `?`; `None` without a `?`.
    #[inline]
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        if self.at.path_end < self.at.target_end {
            Some(self.bytes(self.at.path_end + 1, self.at.target_end))
        } else {
            None
        }
    }

    /// The host and port asked for: from the target in absolute and authority
    /// form, which overrides Host (RFC 9112 section 3.2.2), else from Host.
    /// Empty if an HTTP/1.0 client named none.
    #[inline]
    #[must_use]
    pub fn authority(&self) -> &'a [u8] {
        match self.at.form {
            Form::Authority => self.target(),
            Form::Absolute => {
                // After "http://" or "https://".
                let before_path = self.bytes(self.target_start(), self.at.path_start);
                before_path.splitn(3, |&byte| byte == b'/').nth(2).unwrap_or_default()
            }
            Form::Origin | Form::Asterisk => self.known(Known::Host).unwrap_or_default(),
        }
    }

    /// Whether Host has this value, as nearly all write it: behind one blank at most, and with
    /// none after it. Whether a target names another is not looked at.
    #[inline]
    #[must_use]
    pub fn is_host(&self, value: &[u8]) -> bool {
        let start = usize::from(self.at.known[Known::Host as usize]);
        let behind = self.image.get(start..).filter(|_| start > 0).unwrap_or_default();
        let behind = behind.strip_prefix(b" ").unwrap_or(behind).split_at_checked(value.len());
        behind.is_some_and(|(name, end)| name == value && end.starts_with(b"\r\n"))
    }

    /// The request line, without CR LF: what access logs show.
    #[inline]
    #[must_use]
    pub fn line(&self) -> &'a [u8] {
        self.image.get(..usize::from(self.at.fields_start).saturating_sub(2)).unwrap_or_default()
    }

    /// The value of a known field's first line; `None` if absent.
    #[inline]
    #[must_use]
    pub fn known(&self, field: Known) -> Option<&'a [u8]> {
        match self.at.known[field as usize] {
            0 => None,
            start => Some(value_at(self.image, usize::from(start))),
        }
    }

    /// The values of a known field, line by line; none if it is absent.
    #[inline]
    pub fn values(&self, field: Known, name: &'static str) -> Option<Values<'a>> {
        let first = self.known(field)?;
        let repeated = self.at.repeated & field.bit() != 0;
        Some(if repeated { Values::repeated(self.fields(), name) } else { Values::one(first) })
    }

    /// Whether no Range and no `If-*` field is there: the whole
    /// representation is asked for, whatever its state.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.at.seen & CONDITIONS == 0
    }

    /// The `If-*` fields, for [`crate::conditional::evaluate`].
    #[must_use]
    pub fn preconditions(&self) -> Preconditions<'a> {
        // A repeated singleton field is invalid, and invalid dates are as if
        // absent; lists go on in further lines (RFC 9110 section 5.3).
        let single = |known: Known| if self.at.repeated & known.bit() == 0 { self.known(known) } else { None };
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
        if self.at.repeated & Known::Range.bit() == 0 { self.known(Known::Range) } else { None }
    }

    /// All field lines.
    #[inline]
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        Fields::new(self.image.get(usize::from(self.at.fields_start)..).unwrap_or_default())
    }

    /// The whole head as sent, empty line included.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> &'a [u8] {
        self.image
    }

    /// After the method and its space.
    fn target_start(&self) -> u16 {
        match self.at.form {
            Form::Origin => self.at.path_start,
            _ => self.image.iter().position(|&byte| byte == b' ').map_or(1, |space| space as u16 + 1),
        }
    }

    #[inline]
    fn bytes(&self, start: u16, end: u16) -> &'a [u8] {
        self.image.get(usize::from(start)..usize::from(end)).unwrap_or_default()
    }
}
