//! Messages of D-Bus, as far as calls with texts and their answers go.

use crate::{DESTINATION, MANAGER, ROOT};
use std::io::{self, Read};

/// Longer answers are none of ours.
const LONGEST: usize = 1 << 20;
/// The fixed part of each message.
const FIXED: usize = 16;

const CALL: u8 = 1;
const ERROR: u8 = 3;

/// Fields of a header.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const TO: u8 = 6;
const SIGNATURE: u8 = 8;

/// A method, and its arguments, which are texts.
pub(crate) struct Call<'a> {
    pub destination: &'a str,
    pub path: &'a str,
    pub interface: &'a str,
    pub member: &'a str,
    pub arguments: &'a [&'a str],
}

impl<'a> Call<'a> {
    /// A method of systemd's manager.
    pub fn of_manager(member: &'a str, arguments: &'a [&'a str]) -> Self {
        Self { destination: DESTINATION, path: ROOT, interface: MANAGER, member, arguments }
    }

    pub fn bytes(&self, serial: u32) -> Vec<u8> {
        let mut body = Writer(Vec::new());
        for argument in self.arguments {
            body.text(argument);
        }
        let mut fields = Writer(Vec::new());
        for (field, kind, text) in [
            (PATH, "o", self.path),
            (INTERFACE, "s", self.interface),
            (MEMBER, "s", self.member),
            (TO, "s", self.destination),
        ] {
            fields.align(8);
            fields.0.push(field);
            fields.signature(kind);
            fields.text(text);
        }
        if !self.arguments.is_empty() {
            fields.align(8);
            fields.0.push(SIGNATURE);
            fields.signature("g");
            fields.signature(&"s".repeat(self.arguments.len()));
        }
        let mut whole = Writer(vec![b'l', CALL, 0, 1]);
        whole.number(length(&body.0));
        whole.number(serial);
        whole.number(length(&fields.0));
        // The fields begin at a multiple of eight, so theirs are right.
        whole.0.extend(fields.0);
        whole.align(8);
        whole.0.extend(body.0);
        whole.0
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The call that it answers.
    pub of: Option<u32>,
    little: bool,
    error: Option<String>,
    body: Vec<u8>,
}

impl Reply {
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut fixed = [0; FIXED];
        from.read_exact(&mut fixed)?;
        let little = match fixed[0] {
            b'l' => true,
            b'B' => false,
            _ => return Err(wrong()),
        };
        let number = |at: usize| Reader { bytes: &fixed, at, little }.number().ok_or_else(wrong);
        let (body, fields) = (number(4)? as usize, number(12)? as usize);
        if body > LONGEST || fields > LONGEST {
            return Err(wrong());
        }
        let mut header = vec![0; (FIXED + fields).next_multiple_of(8) - FIXED];
        from.read_exact(&mut header)?;
        let mut content = vec![0; body];
        from.read_exact(&mut content)?;
        header.truncate(fields);
        let (of, name) = answered(&header, little);
        let error = (fixed[1] == ERROR).then(|| name.unwrap_or_else(|| "an error".to_owned()));
        Ok(Self { of, little, error, body: content })
    }

    /// The answer, or the error that it is.
    pub fn good(self) -> io::Result<Self> {
        let Some(name) = &self.error else { return Ok(self) };
        let kind = match name.rsplit('.').next().unwrap_or_default() {
            "AccessDenied" | "AuthFailed" | "InteractiveAuthorizationRequired" => io::ErrorKind::PermissionDenied,
            "NoSuchUnit" | "UnknownObject" => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        let why = self.text().unwrap_or_else(|_| name.clone());
        Err(io::Error::new(kind, why.chars().filter(|char| !char.is_control()).take(300).collect::<String>()))
    }

    /// The first text of the body: an object's path looks the same.
    pub fn text(&self) -> io::Result<String> {
        self.reader().text().ok_or_else(wrong)
    }

    /// The text within a variant.
    pub fn variant(&self) -> io::Result<String> {
        let mut reader = self.reader();
        match reader.signature().as_deref() {
            Some("s" | "o") => reader.text().ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { bytes: &self.body, at: 0, little: self.little }
    }
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that is none of D-Bus, or not of this kind")
}

/// Which call a message answers, and the name of an error.
fn answered(fields: &[u8], little: bool) -> (Option<u32>, Option<String>) {
    let (mut of, mut name) = (None, None);
    let mut reader = Reader { bytes: fields, at: 0, little };
    loop {
        reader.align(8);
        let Some(field) = reader.byte() else { return (of, name) };
        let value = match reader.signature().as_deref() {
            Some("s" | "o") => reader.text().map(|text| (None, Some(text))),
            Some("g") => reader.signature().map(|text| (None, Some(text))),
            Some("u") => reader.number().map(|number| (Some(number), None)),
            _ => None,
        };
        match (field, value) {
            (_, None) => return (of, name),
            (REPLY_SERIAL, Some((number, _))) => of = number,
            (ERROR_NAME, Some((_, text))) => name = text,
            _ => {}
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    little: bool,
}

impl Reader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4);
        let bytes: [u8; 4] = self.bytes.get(self.at..self.at + 4)?.try_into().ok()?;
        self.at += 4;
        Some(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn rest(&mut self, length: usize) -> Option<String> {
        let end = self.at.checked_add(length)?;
        let text = core::str::from_utf8(self.bytes.get(self.at..end)?).ok()?.to_owned();
        // The NUL behind it.
        self.at = end + 1;
        Some(text)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()?;
        self.rest(length as usize)
    }

    fn signature(&mut self) -> Option<String> {
        let length = self.byte()?;
        self.rest(usize::from(length))
    }
}
