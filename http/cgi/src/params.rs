//! What a request is told to a program as: names with values.

use core::fmt;

/// The most bytes of names and values together: four times what heads may have here.
pub const PARAMS_MAX: usize = 1 << 20;

/// Why a request cannot be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamError {
    /// Names and values are longer than the protocol, or [`PARAMS_MAX`], lets them be.
    TooLong(usize),
    /// A name or a value has a zero byte, at which SCGI would cut it.
    Zero,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "parameters of {bytes} bytes are too long"),
            Self::Zero => f.write_str("a parameter has a zero byte"),
        }
    }
}

impl core::error::Error for ParamError {}

/// Names with values, in the order in which they are told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Params {
    text: Vec<u8>,
    /// Ends of each name and value in it.
    ends: Vec<(usize, usize)>,
}

impl Params {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one behind the others.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        self.end(value);
    }

    /// Adds a field of the request: `HTTP_`, its name in capitals and with
    /// underscores (RFC 3875 section 4.1.18).
    pub fn add_field(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(b"HTTP_");
        self.text.extend(name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        self.end(value);
    }

    fn end(&mut self, value: &[u8]) {
        let name = self.text.len();
        self.text.extend_from_slice(value);
        self.ends.push((name, self.text.len()));
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Bytes of names and values together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = core::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (name, value))| (&self.text[start..*name], &self.text[*name..*value]))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
