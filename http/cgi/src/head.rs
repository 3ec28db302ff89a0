//! The head of a CGI answer (RFC 3875 section 6): field lines, one of which may be
//! `Status`, and an empty line.
//!
//! Lines may end in LF alone, as programs print them. What comes out of it is
//! canonical: `name: value` lines as HTTP/1.1 has them, with names that are tokens and
//! values without control characters.

use core::fmt;
use semantics::lines::trim;
use semantics::scan::is_token;
use semantics::{Status, number};

/// What is taken of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadRules {
    /// The most bytes of it, its empty line included.
    pub bytes: usize,
    /// It may begin with a status line (`HTTP/1.1 200 OK`), as those of uWSGI and some
    /// of SCGI do.
    pub status_line: bool,
}

/// A head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// What `Status` or the status line says; without either 302 if there is a
    /// `Location`, and 200 if not.
    pub status: Status,
    /// The words behind the status; perhaps none.
    pub reason: Box<[u8]>,
    /// Lines of fields, each with its CR LF; `Status` is among them.
    pub fields: Vec<u8>,
    /// `Content-Length`.
    pub length: Option<u64>,
}

/// Why a head is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// It is longer than the limit: "upstream sent too big header".
    TooBig,
    /// A line is no field: "upstream sent invalid header".
    Malformed {
        /// The line up to what may not stand there, cut for people.
        line: Box<[u8]>,
        /// What may not.
        byte: u8,
    },
    /// `Status` is this, which is none: "upstream sent invalid status".
    Status(Box<[u8]>),
    /// `Content-Length` is none, or there are two fields of what there may be one.
    Length,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = String::from_utf8_lossy;
        match self {
            Self::TooBig => f.write_str("upstream sent too big header"),
            Self::Malformed { line, byte } => {
                write!(f, "upstream sent invalid header: \"{}\\x{byte:02x}...\"", shown(line))
            }
            Self::Status(value) => write!(f, "upstream sent invalid status \"{}\"", shown(value)),
            Self::Length => f.write_str("upstream sent invalid \"Content-Length\""),
        }
    }
}

impl core::error::Error for HeadError {}

/// How much of a line is told.
const TOLD: usize = 200;

impl HeadError {
    /// At `at` of this line something stands that may not; behind it, its end.
    fn malformed(line: &[u8], at: usize) -> Self {
        let start = line.get(..at).unwrap_or(line);
        let line_end = line.get(at).copied().unwrap_or(b'\n');
        Self::Malformed { line: start.get(..TOLD).unwrap_or(start).into(), byte: line_end }
    }
}

/// Reads a head, in any pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeadReader {
    rules: HeadRules,
    /// Bytes read.
    read: usize,
    /// The line that is not whole.
    line: Vec<u8>,
    /// A line was read.
    begun: bool,
    status: Option<(Status, Box<[u8]>)>,
    length: Option<u64>,
    location: bool,
    fields: Vec<u8>,
}

impl HeadReader {
    /// One at the start of an answer.
    #[must_use]
    pub fn new(rules: HeadRules) -> Self {
        let (line, fields) = (Vec::new(), Vec::new());
        Self { rules, read: 0, line, begun: false, status: None, length: None, location: false, fields }
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read == 0
    }

    /// Reads on. Returns how many bytes of `data` were read, and the head if they end
    /// it: what follows is the body.
    ///
    /// # Errors
    /// It is none, or too long.
    pub fn read(&mut self, data: &[u8]) -> Result<(usize, Option<Head>), HeadError> {
        let mut at = 0;
        while at < data.len() {
            let rest = &data[at..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let piece = &rest[..end.map_or(rest.len(), |end| end + 1)];
            self.read += piece.len();
            if self.read > self.rules.bytes {
                return Err(HeadError::TooBig);
            }
            at += piece.len();
            if end.is_none() {
                self.line.extend_from_slice(piece);
                break;
            }
            let mut kept = core::mem::take(&mut self.line);
            let ends = if kept.is_empty() {
                self.line(piece)?
            } else {
                kept.extend_from_slice(piece);
                self.line(&kept)?
            };
            kept.clear();
            self.line = kept;
            if ends {
                return Ok((at, Some(self.finish())));
            }
        }
        Ok((at, None))
    }

    /// Takes a line with its end; whether it is the empty one.
    fn line(&mut self, line: &[u8]) -> Result<bool, HeadError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(true);
        }
        let first = !core::mem::replace(&mut self.begun, true);
        if first && self.rules.status_line && line.starts_with(b"HTTP/") {
            return self.status_line(line).map(|()| false);
        }
        let end = line.iter().position(|byte| !is_token(*byte)).unwrap_or(line.len());
        if end == 0 || line.get(end) != Some(&b':') {
            return Err(HeadError::malformed(line, end));
        }
        if let Some(at) = line.iter().position(|byte| is_control(*byte)) {
            return Err(HeadError::malformed(line, at));
        }
        let (name, value) = (&line[..end], trim(&line[end + 1..]));
        self.field(name, value).map(|()| false)
    }

    /// `HTTP/1.1 200 OK`.
    fn status_line(&mut self, line: &[u8]) -> Result<(), HeadError> {
        let (version, rest) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(line.len()));
        let is_version = matches!(version, [b'H', b'T', b'T', b'P', b'/', a, b'.', b]
            if a.is_ascii_digit() && b.is_ascii_digit());
        if !is_version {
            return Err(HeadError::malformed(line, line.len()));
        }
        self.set_status(trim(rest))
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        match name.len() {
            // That of a status line counts first.
            6 if self.status.is_none() && name.eq_ignore_ascii_case(b"Status") => self.set_status(value)?,
            8 => self.location |= name.eq_ignore_ascii_case(b"Location"),
            14 if name.eq_ignore_ascii_case(b"Content-Length") => {
                let length = number::parse(value).ok_or(HeadError::Length)?;
                if self.length.replace(length).is_some() {
                    return Err(HeadError::Length);
                }
            }
            // Bodies of CGI have no coding: whoever says so passes on what another said.
            17 if name.eq_ignore_ascii_case(b"Transfer-Encoding") => return Ok(()),
            _ => {}
        }
        for part in [name, b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(part);
        }
        Ok(())
    }

    fn set_status(&mut self, value: &[u8]) -> Result<(), HeadError> {
        let refused = || HeadError::Status(value.get(..TOLD).unwrap_or(value).into());
        let [a @ b'2'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9', reason @ ..] = value else {
            return Err(refused());
        };
        let digit = |byte: &u8| u16::from(*byte - b'0');
        let status = Status::from_code(digit(a) * 100 + digit(b) * 10 + digit(c)).ok_or_else(refused)?;
        if reason.iter().any(|byte| is_control(*byte)) {
            return Err(refused());
        }
        self.status = Some((status, trim(reason).into()));
        Ok(())
    }

    fn finish(&mut self) -> Head {
        let usual = || if self.location { Status::FOUND } else { Status::OK };
        let (status, reason) = self.status.take().unwrap_or_else(|| (usual(), Box::default()));
        Head { status, reason, fields: core::mem::take(&mut self.fields), length: self.length }
    }
}

/// What a value may not have.
const fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\t' || byte == 0x7f
}
