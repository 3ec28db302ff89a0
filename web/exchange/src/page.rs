//! Answers of our own: what a status means, for people.

use crate::{Piece, Reply};
use semantics::Status;

/// What a status means, for people.
#[derive(Debug)]
pub struct Page {
    /// The status.
    pub status: Status,
    fields: Vec<u8>,
    text: Vec<u8>,
}

impl Page {
    /// Bytes of its text.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.text.len() as u64
    }

    /// A page of ours, with these fields more.
    #[must_use]
    pub fn new(status: Status, more: &[u8]) -> Self {
        let fields = [b"Content-Type: text/html; charset=utf-8\r\n", more].concat();
        let (code, reason) = (status.code(), status.reason());
        let text = format!("<!DOCTYPE html>\n<title>{code} {reason}</title>\n<h1>{code} {reason}</h1>\n");
        Self { status, fields, text: text.into_bytes() }
    }

    /// The head of the reply that it is.
    #[must_use]
    pub fn reply(&self) -> Reply<'_> {
        Reply { status: self.status, length: Some(self.text.len() as u64), fields: &self.fields, reason: None }
    }

    /// Its body.
    #[must_use]
    pub const fn body(&self) -> [Piece<'_>; 1] {
        [Piece::Bytes(self.text.as_slice())]
    }
}
