//! An answer, before its fields are known.

use super::lookup::FileAt;
use app::Body;
use files::Excerpt;
use gzip::Coding;

/// An answer, before its fields are known.
#[derive(Default)]
pub(super) struct Answer {
    pub status: u16,
    pub media_type: Option<Vec<u8>>,
    pub body: AnswerBody,
    /// Unix seconds, and the entity tag.
    pub modified: Option<u64>,
    pub etag: Option<String>,
    /// How the site writes when it was modified, in place of that date.
    pub modified_text: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    pub takes_ranges: bool,
    /// It takes one alone.
    pub takes_one_range: bool,
    /// What an upstream says of ranges does not hold any more.
    pub is_unranged: bool,
    /// The coding that the body is in.
    pub coding: Option<Coding>,
    /// Others might get it in another.
    pub vary: bool,
    /// nginx does not know its length, and so compresses it however short it is.
    pub unmeasured: bool,
    /// An upstream gave it: it has looked at conditions. Its content is in a coding that
    /// nothing is known of.
    pub of_upstream: bool,
    pub is_coded: bool,
}

/// Where a body comes from.
#[derive(Default)]
pub(super) enum AnswerBody {
    #[default]
    None,
    Bytes(Vec<u8>),
    Memory(Body),
    /// It is not sent, and its length not known.
    Unknown,
    File(FileAt),
    /// The same, of which this is sent in its place.
    Excerpt(FileAt, Box<Excerpt>),
    /// It comes from an upstream; its length, if that is known.
    Upstream(Option<u64>),
    /// The same by slices, of a whole of so many bytes; the first, if all of it came.
    Sliced(u64, Option<Vec<u8>>),
}

impl AnswerBody {
    /// Bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::None | Self::Unknown => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Memory(body) => body.len() as u64,
            Self::File(file) => file.size,
            Self::Excerpt(_, excerpt) => excerpt.length(),
            Self::Upstream(length) => length.unwrap_or(0),
            Self::Sliced(length, _) => *length,
        }
    }
}

impl Answer {
    /// Its bytes become others: there are no ranges of them, and its tag names what it
    /// was made of. One without quotes is none, and cannot be made weak.
    pub fn changes(&mut self) {
        (self.takes_ranges, self.is_unranged) = (false, true);
        self.etag.take_if(|etag| !etag.starts_with("W/") && !etag.starts_with('"'));
        if let Some(etag) = self.etag.as_mut().filter(|etag| !etag.starts_with("W/")) {
            etag.insert_str(0, "W/");
        }
    }

    /// Nothing tells its content from another any more.
    pub fn clear_validators(&mut self) {
        (self.modified, self.modified_text, self.etag) = (None, None, None);
    }

    /// What an upstream says of when its content was changed, where nobody can read that.
    #[cold]
    pub fn set_modified_text(&mut self, text: &[u8]) {
        self.modified_text = Some(text.to_vec());
    }

    pub fn new(status: u16, body: AnswerBody) -> Self {
        Self { status, body, ..Self::default() }
    }
}
