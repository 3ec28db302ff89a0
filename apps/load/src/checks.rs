//! What answers are held against, beside status and length.

use core::fmt;
use pcre::{Regex, RegexError, RegexOptions};
use serde::{Deserialize, Serialize};

/// Checks of one request.
pub const CHECKS_LIMIT: usize = 32;

/// Content that is held for a check, in bytes. What is longer is not judged.
pub const CONTENT_LIMIT: usize = 1 << 20;

/// The same for all connections of a silo together.
pub const CONTENTS_LIMIT: usize = 256 << 20;

/// Wrong answers that are told of, of a run.
pub const SAMPLES_LIMIT: usize = 8;

/// What is shown of each, in bytes.
pub const EXCERPT_LIMIT: usize = 160;

/// What an answer is to be like.
#[derive(Clone, Debug)]
pub enum Check {
    /// It has this field, with this value where one is said.
    Header {
        /// The name.
        name: Box<str>,
        /// The value, without blanks around it.
        value: Option<Box<[u8]>>,
    },
    /// Its content holds this text.
    Contains(Box<[u8]>),
    /// Its content matches.
    Matches(std::sync::Arc<Pattern>),
    /// The SHA-256 of its content.
    Sha256([u8; 32]),
}

/// A regular expression with what it was written as.
#[derive(Debug)]
pub struct Pattern {
    /// What was written.
    pub text: String,
    pub(crate) regex: Regex,
}

impl Pattern {
    /// Compiles one, with PCRE's meaning.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, RegexError> {
        Ok(Self { text: text.to_owned(), regex: Regex::new(text.as_bytes(), RegexOptions::default())? })
    }
}

impl Check {
    /// Reads `NAME` or `NAME: VALUE`.
    #[must_use]
    pub fn header(text: &str) -> Option<Self> {
        let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value.trim())));
        let name = name.trim();
        let token =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        token.then(|| Self::Header { name: name.into(), value: value.map(|value| value.as_bytes().into()) })
    }

    /// Reads the 64 hexadecimal digits of a SHA-256.
    #[must_use]
    pub fn sha256(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let mut hash = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(text.chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self::Sha256(hash))
    }
}

/// What is wrong with an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wrong {
    /// Its status is another.
    Status,
    /// Its content has another length.
    Length,
    /// A field is not there, or has another value.
    Header,
    /// A text is not in its content.
    Text,
    /// Its content does not match.
    Pattern,
    /// Its content has another hash.
    Hash,
    /// It is no whole message of gRPC.
    Message,
    /// It is said to be compressed, and no `grpc-encoding` says how.
    Encoding,
    /// The flag before it is neither 0 nor 1.
    Flag,
    /// Nobody knows: its content is longer than is held, or the expression went astray in it.
    NotJudged,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "another status",
            Self::Length => "another length",
            Self::Header => "another header",
            Self::Text => "without the text",
            Self::Pattern => "no match",
            Self::Hash => "another hash",
            Self::Message => "no whole message",
            Self::Encoding => "compressed, without a grpc-encoding",
            Self::Flag => "a flag that is neither 0 nor 1",
            Self::NotJudged => "not judged",
        })
    }
}

/// An answer that was not as it was to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// What was asked for.
    pub request: String,
    /// What is wrong.
    pub wrong: Wrong,
    /// Its status.
    pub status: u16,
    /// What came in place of what was to: printable ASCII.
    pub came: String,
}

/// The first of each kind, and as many others as there is room for.
pub(crate) fn keep_sample(samples: &mut Vec<WrongAnswer>, wrong: Wrong, sample: impl FnOnce() -> WrongAnswer) {
    let of_kind = samples.iter().filter(|one| one.wrong == wrong).count();
    // Two of a kind leave room for the others.
    if samples.len() < SAMPLES_LIMIT && of_kind < 2 {
        samples.push(sample());
    }
}

/// The beginning of what a peer sent, as it may be shown on a terminal.
#[must_use]
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes.get(..EXCERPT_LIMIT).unwrap_or(bytes);
    let more = if bytes.len() > shown.len() { "…" } else { "" };
    format!("{}{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_read() {
        assert!(matches!(Check::header("X-A"), Some(Check::Header { value: None, .. })));
        let Some(Check::Header { name, value: Some(value) }) = Check::header("Content-Type:  text/html ") else {
            panic!("a header with a value");
        };
        assert_eq!((&*name, &*value), ("Content-Type", &b"text/html"[..]));
        assert!([": x", "", "a b: c"].into_iter().all(|text| Check::header(text).is_none()));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852B855";
        assert!(matches!(Check::sha256(empty), Some(Check::Sha256([0xe3, 0xb0, .., 0x55]))));
        assert!(["", "e3", &empty.replace('e', "g")].into_iter().all(|text| Check::sha256(text).is_none()));
        assert!(Pattern::new("(").is_err_and(|why| why.to_string().contains("parenthes")));
    }

    #[test]
    fn samples_are_few_and_of_all_kinds() {
        let mut samples = Vec::new();
        for wrong in [Wrong::Status, Wrong::Text, Wrong::Hash] {
            for n in 0..100 {
                let sample = || WrongAnswer { request: n.to_string(), wrong, status: 200, came: String::new() };
                keep_sample(&mut samples, wrong, sample);
            }
        }
        let kinds: Vec<Wrong> = samples.iter().map(|one| one.wrong).collect();
        assert_eq!(kinds, [Wrong::Status, Wrong::Status, Wrong::Text, Wrong::Text, Wrong::Hash, Wrong::Hash]);
        assert_eq!(excerpt(b"a\x1b[2J\r\n\xff"), "a\\x1b[2J\\r\\n\\xff");
        assert_eq!(excerpt(&[b'x'; 500]).chars().count(), EXCERPT_LIMIT + 1);
    }
}
