//! Fields of replies, as lines.

use semantics::date::HttpDate;

/// The fields of a reply: `name: value` lines, each ended by CR LF. HTTP/1.1
/// sends them as they are; protocols that compress heads read them line by
/// line.
///
/// Names and values are written as they are: they must be free of CR and LF,
/// which values copied from a request head that parsed are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FieldLines(Vec<u8>);

impl FieldLines {
    /// No fields yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Lines that stand already.
    #[must_use]
    pub const fn of(lines: Vec<u8>) -> Self {
        Self(lines)
    }

    /// Into memory that is used again.
    #[must_use]
    pub fn over(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self(memory)
    }

    /// A field.
    pub fn field(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        self.0.extend_from_slice(value);
        self.0.extend_from_slice(b"\r\n");
        self
    }

    /// Lines that were written before.
    pub fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.0.extend_from_slice(lines);
        self
    }

    /// `Last-Modified` (RFC 9110 section 8.8.2).
    pub fn last_modified(&mut self, date: &HttpDate) -> &mut Self {
        self.field("Last-Modified", date.as_bytes())
    }

    /// `Content-Range: bytes first-last/complete` (RFC 9110 section 14.4).
    pub fn content_range(&mut self, range: &core::ops::Range<u64>, complete: u64) -> &mut Self {
        let value = format!("bytes {}-{}/{complete}", range.start, range.end.saturating_sub(1));
        self.field("Content-Range", value.as_bytes())
    }

    /// `Content-Range: bytes */complete`, for 416 (RFC 9110 section 14.4).
    pub fn content_range_unsatisfied(&mut self, complete: u64) -> &mut Self {
        self.field("Content-Range", format!("bytes */{complete}").as_bytes())
    }

    /// The lines.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The memory, to be used again.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 sections 8.8.2 and 14.4.
    #[test]
    fn fields_are_lines() {
        let mut lines = FieldLines::over(b"left over".to_vec());
        lines
            .field("Content-Type", b"text/plain")
            .last_modified(&HttpDate::from_unix(0))
            .content_range(&(500..1000), 1234)
            .content_range_unsatisfied(47);
        let expected = "Content-Type: text/plain\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
            Content-Range: bytes 500-999/1234\r\nContent-Range: bytes */47\r\n";
        assert_eq!(String::from_utf8(lines.into_bytes()).as_deref(), Ok(expected));
    }
}
