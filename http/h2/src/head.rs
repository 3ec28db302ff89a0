//! A request's head, from the fields that were decoded to the image that all protocols have: what
//! may stand in one (RFC 9113 sections 8.1 to 8.3).

use crate::priority::StreamPriority;
use core::ops::ControlFlow;
use hpack::{HeaderField, Scratch};
use semantics::scan::{are_field_bytes, is_lower_token, is_token, split_target};
use semantics::{Form, Known, Method, Offsets, Request, Status, authority, number};

/// How much a head may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadLimits {
    /// Bytes of the request line, beyond: 414; and of a crumb of cookies, beyond: 431.
    pub line: u16,
    /// Bytes of the image. Beyond: 431.
    pub bytes: u16,
    /// Fields, crumbs of cookies each by itself. Beyond: 431.
    pub fields: u16,
}

/// Memory that heads are decoded into, one after the other: one for all connections of a thread.
#[derive(Default, Debug)]
pub struct HeadMemory {
    pub(crate) scratch: Scratch,
    pub(crate) parts: HeadParts,
}

impl HeadMemory {
    /// For answers of upstreams: as nginx takes them, with strings that are padded by a byte more than they
    /// may be.
    #[must_use]
    pub fn of_answers() -> Self {
        Self { scratch: Scratch::taking_long_padding(), parts: HeadParts::default() }
    }
}

/// The parts of a head, as they come.
#[derive(Default, Debug)]
pub(crate) struct HeadParts {
    image: Vec<u8>,
    pseudo: Vec<u8>,
    cookies: Vec<u8>,
    /// Fields behind a body.
    pub lines: Vec<u8>,
    /// The authority that was found valid last: most requests of a silo name the same.
    authority: Vec<u8>,
}

/// Bytes of an authority that is remembered.
const AUTHORITY_MAX: usize = 255;

/// What a head says beside what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadFacts {
    /// Bytes of the body, if they are told.
    pub length: Option<u64>,
    /// How urgent it is, if a field says so.
    pub priority: Option<StreamPriority>,
}

/// A head that none may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadFault {
    /// What it is answered with.
    pub status: Status,
}

const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;

/// Takes the fields of a head, one by one.
#[derive(Debug)]
pub(crate) struct HeadReader<'a> {
    memory: &'a mut HeadParts,
    limits: HeadLimits,
    at: Offsets,
    /// Where those that begin with a colon are.
    pseudo: [Option<(usize, usize)>; 4],
    fields: u16,
    /// The request line is written.
    has_line: bool,
    /// Host came beside `:authority`: once, as with nginx.
    has_host_beside: bool,
    fault: Option<HeadFault>,
    facts: HeadFacts,
}

impl HeadFault {
    /// It is malformed.
    pub(crate) const BAD: Self = Self { status: Status::BAD_REQUEST };
}

const BAD: HeadFault = HeadFault::BAD;
const TOO_LARGE: HeadFault = HeadFault { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE };

impl<'a> HeadReader<'a> {
    pub fn new(memory: &'a mut HeadParts, limits: HeadLimits) -> Self {
        memory.image.clear();
        memory.pseudo.clear();
        memory.cookies.clear();
        Self {
            memory,
            limits,
            at: Offsets::NONE,
            pseudo: [None; 4],
            fields: 0,
            has_line: false,
            has_host_beside: false,
            fault: None,
            facts: HeadFacts { length: None, priority: None },
        }
    }

    /// The next field. What follows one that may not be is not looked at.
    pub fn field(&mut self, field: HeaderField<'_>) -> ControlFlow<()> {
        let taken = match field.name {
            [b':', name @ ..] => self.pseudo_field(name, field.value),
            name if self.has_line => self.plain_field(name, field.value),
            name => self.line().and_then(|()| self.plain_field(name, field.value)),
        };
        self.fault = taken.err();
        if self.fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// RFC 9113 section 8.3: each once at most, before all others. A method is written where it belongs, and a target
    /// that comes behind it.
    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        let place = match name {
            b"method" => METHOD,
            b"scheme" => SCHEME,
            b"authority" => AUTHORITY,
            b"path" => PATH,
            _ => return Err(BAD),
        };
        if self.has_line || self.pseudo[place].is_some() {
            return Err(BAD);
        }
        let HeadParts { image, pseudo, .. } = &mut *self.memory;
        if image.len() + pseudo.len() + value.len() > usize::from(self.limits.bytes) {
            return Err(if place == PATH { HeadFault { status: Status::URI_TOO_LONG } } else { TOO_LARGE });
        }
        let start = match place {
            METHOD => {
                self.at.method = Method::from_name(value);
                let is_known = self.at.method != Method::Other;
                if !is_known && (value.is_empty() || !value.iter().all(|byte| is_token(*byte))) {
                    return Err(BAD);
                }
                image.extend_from_slice(value);
                image.push(b' ');
                0
            }
            // Nothing is said of it but that it is one.
            SCHEME if is_scheme(value) => 0,
            SCHEME => return Err(BAD),
            _ if !are_field_bytes(value) => return Err(BAD),
            PATH if self.pseudo[METHOD].is_some() => {
                let start = image.len();
                image.extend_from_slice(value);
                start
            }
            _ => {
                let start = pseudo.len();
                pseudo.extend_from_slice(value);
                start
            }
        };
        self.pseudo[place] = Some((start, start + value.len()));
        Ok(())
    }

    /// Writes the request line, and Host, once the fields that they are made of are over.
    fn line(&mut self) -> Result<(), HeadFault> {
        if core::mem::replace(&mut self.has_line, true) {
            return Ok(());
        }
        let HeadParts { image, pseudo, authority, .. } = &mut *self.memory;
        let [method, scheme, host, path] = self.pseudo;
        let start = method.ok_or(BAD)?.1 + 1;
        let host = host.and_then(|(start, end)| pseudo.get(start..end));
        // RFC 9113 section 8.5: CONNECT has neither scheme nor path.
        match (self.at.method, scheme, path) {
            (Method::Connect, None, None) => image.extend_from_slice(host.ok_or(BAD)?),
            (Method::Connect, ..) => return Err(BAD),
            // It came before the method.
            (_, Some(_), Some((at, end))) if image.len() == start => {
                image.extend_from_slice(pseudo.get(at..end).unwrap_or_default());
            }
            (_, Some(_), Some(_)) => {}
            _ => return Err(BAD),
        }
        let end = image.len();
        image.extend_from_slice(b" HTTP/2.0\r\n");
        if image.len() - 2 > usize::from(self.limits.line) {
            return Err(HeadFault { status: Status::URI_TOO_LONG });
        }
        self.at.fields_start = image.len() as u16;
        target_form(&mut self.at, image, start, end).ok_or(BAD)?;
        if let Some(host) = host {
            if !host.is_empty() && host != authority.as_slice() {
                if !authority::is_valid(host) {
                    return Err(BAD);
                }
                if host.len() <= AUTHORITY_MAX {
                    authority.clear();
                    authority.extend_from_slice(host);
                }
            }
            image.extend_from_slice(b"host: ");
            self.at.note(Known::Host, image.len() as u16);
            image.extend_from_slice(host);
            image.extend_from_slice(b"\r\n");
        }
        self.check_bytes()
    }

    fn plain_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        if !is_lower_token(name) || !is_plain_value(value) {
            return Err(BAD);
        }
        self.fields += 1;
        if self.fields > self.limits.fields {
            return Err(TOO_LARGE);
        }
        match name {
            b"cookie" => return self.cookie(value),
            b"host" => return self.host(value),
            b"te" if value != b"trailers" => return Err(BAD),
            b"content-length" => {
                self.facts.length = Some(number::parse(value).ok_or(BAD)?);
            }
            b"priority" => self.facts.priority = Some(StreamPriority::of_field(value)),
            name if is_of_connection(name) => return Err(BAD),
            _ => {}
        }
        self.write(name, value)
    }

    fn write(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadFault> {
        let image = &mut self.memory.image;
        if image.len() + name.len() + value.len() + 4 > usize::from(self.limits.bytes) {
            return Err(TOO_LARGE);
        }
        image.extend_from_slice(name);
        image.extend_from_slice(b": ");
        if let Some(known) = Known::of_name(name) {
            self.at.note(known, image.len() as u16);
        }
        image.extend_from_slice(value);
        image.extend_from_slice(b"\r\n");
        if self.at.repeats_any(Known::UNIQUE) { Err(BAD) } else { Ok(()) }
    }

    /// RFC 9113 section 8.3.1: the same as `:authority`, where both are there.
    fn host(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if !self.at.has(Known::Host) {
            if !value.is_empty() && !authority::is_valid(value) {
                return Err(BAD);
            }
            return self.write(b"host", value);
        }
        let (start, end) = self.pseudo[AUTHORITY].ok_or(BAD)?;
        if core::mem::replace(&mut self.has_host_beside, true) {
            return Err(BAD);
        }
        let same = self.memory.pseudo.get(start..end).is_some_and(|told| told.eq_ignore_ascii_case(value));
        if same { Ok(()) } else { Err(BAD) }
    }

    /// RFC 9113 section 8.2.3: crumbs are one field.
    fn cookie(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        let HeadParts { image, cookies, .. } = &mut *self.memory;
        // Together they may be longer than a field may.
        if b"cookie: ".len() + value.len() + 2 > usize::from(self.limits.line) {
            return Err(TOO_LARGE);
        }
        if image.len() + cookies.len() + value.len() + 12 > usize::from(self.limits.bytes) {
            return Err(TOO_LARGE);
        }
        if value.is_empty() {
            return Ok(());
        }
        if !cookies.is_empty() {
            cookies.extend_from_slice(b"; ");
        }
        cookies.extend_from_slice(value);
        Ok(())
    }

    fn check_bytes(&self) -> Result<(), HeadFault> {
        if self.memory.image.len() > usize::from(self.limits.bytes) { Err(TOO_LARGE) } else { Ok(()) }
    }

    /// The whole head.
    ///
    /// # Errors
    /// None may be so. What of its request line was read is with the memory.
    pub fn finish(mut self) -> Result<FoundHead, HeadFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.line()?;
        // Every request names its host, as one of HTTP/1.1 does.
        if !self.at.has(Known::Host) {
            return Err(BAD);
        }
        let HeadParts { image, cookies, .. } = self.memory;
        if !cookies.is_empty() {
            image.extend_from_slice(b"cookie: ");
            image.extend_from_slice(cookies);
            image.extend_from_slice(b"\r\n");
        }
        image.extend_from_slice(b"\r\n");
        if image.len() > usize::from(self.limits.bytes) {
            return Err(TOO_LARGE);
        }
        Ok(FoundHead { at: self.at, facts: self.facts, bytes: image.len() })
    }
}

/// A head that was found in its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundHead {
    at: Offsets,
    pub facts: HeadFacts,
    /// Bytes of its image.
    pub bytes: usize,
}

impl HeadParts {
    /// The request whose head was found here.
    pub fn request(&self, found: FoundHead) -> Request<'_> {
        Request::new(&self.image, found.at)
    }

    /// The request line of a head that was decoded last, as far as it came: for the log of one that
    /// may not be.
    pub fn line(&self) -> &[u8] {
        let end = self.image.iter().position(|byte| *byte == b'\r').unwrap_or(0);
        self.image.get(..end).unwrap_or_default()
    }
}

/// Finds the parts of a target (RFC 9113 section 8.3.1).
fn target_form(at: &mut Offsets, image: &[u8], start: usize, end: usize) -> Option<()> {
    let target = image.get(start..end)?;
    (at.path_start, at.path_end, at.target_end) = (start as u16, end as u16, end as u16);
    match (at.method, target) {
        (Method::Connect, _) => {
            at.form = Form::Authority;
            (at.path_start, at.path_end) = (end as u16, end as u16);
            authority::is_valid(target).then_some(())
        }
        (Method::Options, b"*") => {
            at.form = Form::Asterisk;
            (at.path_start, at.path_end) = (end as u16, end as u16);
            Some(())
        }
        (_, [b'/', ..]) => {
            let (mut rest, mut stop) = split_target(image.get(start..)?)?;
            at.path_end = (image.len() - rest.len()) as u16;
            while stop == b'?' {
                (rest, stop) = split_target(rest.get(1..)?)?;
            }
            (stop == b' ' && image.len() - rest.len() == end).then_some(())
        }
        _ => None,
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    matches!(scheme, b"https" | b"http")
        || scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// RFC 9113 section 8.2.1: no line ends, no NUL, no blanks around it; nor other control bytes
/// (RFC 9110 section 5.5).
pub(crate) fn is_plain_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    are_field_bytes(value) && !is_blank(value.first()) && !is_blank(value.last())
}

/// RFC 9113 section 8.2.2: what is said of a connection is said by none of these.
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade")
}
