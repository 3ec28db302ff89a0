//! `log_format`.

use super::LogEscape;
use core::ops::Range;
use features::Variables;
use semantics::Known;

/// The format that each configuration has.
const COMBINED: &[u8] = b"$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
    \"$http_referer\" \"$http_user_agent\"";

/// As many bytes follow the texts of a format.
const STEP: usize = 32;

/// What a line says: `log_format`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFormat {
    /// Its name.
    pub name: Box<[u8]>,
    /// How what variables stand for is written.
    pub escape: LogEscape,
    text: Box<[u8]>,
    parts: Box<[Part]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Range<u32>),
    Variable(u16),
    /// One of [`CLEAN`].
    Clean(u16),
}

/// Variables that never have anything to escape: numbers, times, addresses, and
/// names made of tokens. Nothing else can have their names.
const CLEAN: [&[u8]; 22] = [
    b"body_bytes_sent",
    b"bytes_sent",
    b"connection",
    b"connection_requests",
    b"connection_time",
    b"gzip_ratio",
    b"limit_conn_status",
    b"limit_req_status",
    b"msec",
    b"pid",
    b"pipe",
    b"remote_addr",
    b"remote_port",
    b"request_id",
    b"request_length",
    b"request_time",
    b"server_addr",
    b"server_port",
    b"server_protocol",
    b"status",
    b"time_iso8601",
    b"time_local",
];

impl LogFormat {
    /// The format `combined`; `number` gives the number of a variable by its name.
    ///
    /// # Errors
    /// It does not know one.
    pub fn combined(number: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, String> {
        Self::parse(b"combined", &[COMBINED], number)
    }

    /// A format from what follows its name: perhaps `escape=`, and texts that are
    /// joined.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(name: &[u8], words: &[&[u8]], number: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, String> {
        let (mut words, mut escape) = (words, LogEscape::Default);
        if let [first, behind @ ..] = words
            && let Some(kind) = first.strip_prefix(b"escape=")
        {
            escape = match kind {
                b"default" => LogEscape::Default,
                b"json" => LogEscape::Json,
                b"none" => LogEscape::None,
                _ => return Err(format!("unknown log format escaping \"{}\"", String::from_utf8_lossy(kind))),
            };
            words = behind;
        }
        let (mut text, mut parts) = (Vec::new(), Vec::new());
        for word in words {
            let mut rest = *word;
            while !rest.is_empty() {
                let plain = rest.iter().position(|byte| *byte == b'$').unwrap_or(rest.len());
                if plain > 0 {
                    let from = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    text.extend_from_slice(&rest[..plain]);
                    let to = u32::try_from(text.len()).map_err(|_| "a value is too long")?;
                    match parts.last_mut() {
                        // Words are joined.
                        Some(Part::Text(before)) => before.end = to,
                        _ => parts.push(Part::Text(from..to)),
                    }
                    rest = &rest[plain..];
                    continue;
                }
                let (name, behind) = variable(rest)?;
                let lower = name.to_ascii_lowercase();
                let number =
                    number(&lower).ok_or_else(|| format!("unknown \"{}\" variable", String::from_utf8_lossy(name)))?;
                let clean = CLEAN.contains(&&*lower);
                parts.push(if clean { Part::Clean(number) } else { Part::Variable(number) });
                rest = behind;
            }
        }
        text.extend_from_slice(&[0; STEP]);
        Ok(Self { name: name.into(), escape, text: text.into(), parts: parts.into() })
    }

    /// Numbers of the variables that it names.
    pub fn variables(&self) -> impl Iterator<Item = u16> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(number) | Part::Clean(number) => Some(*number),
            Part::Text(_) => None,
        })
    }

    /// The same format where some variables stand for what they do not change:
    /// `fixed` writes those, and says whether they stand for anything.
    #[must_use]
    pub fn fix(&self, fixed: &mut dyn FnMut(u16, &mut Vec<u8>) -> Option<bool>) -> Self {
        let (mut text, mut parts, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let add = |text: &mut Vec<u8>, parts: &mut Vec<Part>, bytes: &[u8]| {
            let from = text.len() as u32;
            text.extend_from_slice(bytes);
            let to = text.len() as u32;
            match parts.last_mut() {
                Some(Part::Text(before)) if before.end == from => before.end = to,
                _ => parts.push(Part::Text(from..to)),
            }
        };
        for part in &self.parts {
            match part {
                Part::Text(range) => {
                    add(&mut text, &mut parts, &self.text[range.start as usize..range.end as usize]);
                }
                Part::Variable(number) | Part::Clean(number) => {
                    value.clear();
                    match fixed(*number, &mut value) {
                        None => parts.push(part.clone()),
                        Some(true) => {
                            self.escape.apply(&mut value, 0);
                            add(&mut text, &mut parts, &value);
                        }
                        Some(false) if self.escape == LogEscape::Default => add(&mut text, &mut parts, b"-"),
                        Some(false) => {}
                    }
                }
            }
        }
        text.extend_from_slice(&[0; STEP]);
        Self { name: self.name.clone(), escape: self.escape, text: text.into(), parts: parts.into() }
    }

    /// Writes a line, without its end.
    pub fn write(&self, variables: &mut impl Variables, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(range) => put_text(&self.text, range, out),
                Part::Clean(number) => {
                    if !variables.write_variable(*number, out) {
                        self.put_nothing(out);
                    }
                }
                Part::Variable(number) => {
                    let start = out.len();
                    if variables.write_variable(*number, out) {
                        self.escape.apply(out, start);
                    } else {
                        self.put_nothing(out);
                    }
                }
            }
        }
    }
}

/// A line of which nothing is left to be looked up but what stands in plain heads,
/// and who sent them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuickLine {
    escape: LogEscape,
    text: Box<[u8]>,
    parts: Box<[QuickPart]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum QuickPart {
    Text(Range<u32>),
    Head(HeadPart),
}

/// What stands in a plain head, or is known with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadPart {
    /// The client's address.
    Address,
    /// Whoever the client says it is: nobody, in heads that say nothing of it.
    User,
    /// The request line.
    Line,
    /// A field that is there once at most, or of which the first counts.
    Field(Known),
    /// The host that is asked for.
    Host,
}

/// What was put of a part of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutPart {
    /// There is none.
    Nothing,
    /// As it is: some of it may be written otherwise.
    Raw,
    /// Nothing of it is.
    Clean,
}

impl QuickLine {
    /// Writes a line, without its end; `put` writes a part.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, put: impl Fn(HeadPart, &mut Vec<u8>) -> PutPart) {
        for part in &self.parts {
            match part {
                QuickPart::Text(range) => put_text(&self.text, range, out),
                QuickPart::Head(part) => {
                    let start = out.len();
                    match put(*part, out) {
                        PutPart::Clean => {}
                        PutPart::Raw => self.escape.apply(out, start),
                        PutPart::Nothing if self.escape == LogEscape::Default => out.push(b'-'),
                        PutPart::Nothing => {}
                    }
                }
            }
        }
    }
}

impl LogFormat {
    /// The same line, if `of` knows what all that is left in it stands for.
    #[must_use]
    pub fn quick(&self, of: &dyn Fn(u16) -> Option<HeadPart>) -> Option<QuickLine> {
        let part = |part: &Part| match part {
            Part::Text(range) => Some(QuickPart::Text(range.clone())),
            Part::Variable(number) | Part::Clean(number) => of(*number).map(QuickPart::Head),
        };
        let parts = self.parts.iter().map(part).collect::<Option<_>>()?;
        Some(QuickLine { escape: self.escape, text: self.text.clone(), parts })
    }

    fn put_nothing(&self, out: &mut Vec<u8>) {
        if self.escape == LogEscape::Default {
            out.push(b'-');
        }
    }
}

/// Appends a text: up to [`STEP`] bytes as so many, of which those that are too many
/// go again, which takes less than copying any number.
#[inline]
fn put_text(text: &[u8], range: &Range<u32>, out: &mut Vec<u8>) {
    let (from, to) = (range.start as usize, range.end as usize);
    let rest = text.get(from..).unwrap_or_default();
    match rest.first_chunk::<STEP>() {
        Some(step) if to - from <= STEP => {
            let end = out.len() + (to - from);
            out.extend_from_slice(step);
            out.truncate(end);
        }
        _ => out.extend_from_slice(rest.get(..to - from).unwrap_or_default()),
    }
}

/// The name of the variable that `text` begins with, and what stands behind it.
fn variable(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let invalid = || Err(format!("invalid parameter \"{}\"", String::from_utf8_lossy(text)));
    let (braced, rest) = match text {
        [_, b'{', rest @ ..] => (true, rest),
        _ => (false, text.get(1..).unwrap_or_default()),
    };
    if rest.is_empty() {
        return invalid();
    }
    let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    let behind = match (braced, behind) {
        (true, [b'}', behind @ ..]) => behind,
        (true, _) => {
            let name = String::from_utf8_lossy(name);
            return Err(format!("the closing bracket in \"{name}\" variable is missing"));
        }
        (false, behind) => behind,
    };
    if name.is_empty() { invalid() } else { Ok((name, behind)) }
}
