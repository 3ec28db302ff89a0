//! The chunked transfer coding, inwards (RFC 9112 section 7.1).

use crate::lines::{LineEnds, Section, section};
use semantics::scan::find;

/// Bounds on the framing of chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub chunk_line: u16,
    pub trailers: u16,
    pub trailer_fields: u16,
}

/// What stands between two chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Boundary {
    /// The line, or the trailer section, is not complete.
    Incomplete,
    /// A chunk of `size` bytes begins after `skip` bytes.
    Chunk { size: u64, skip: usize },
    /// The last chunk and the trailer section, which begins at `trailers`, end after
    /// `skip` bytes.
    Last { skip: usize, trailers: usize },
    /// Malformed.
    Malformed,
    /// The trailer section is too large.
    TooLarge,
}

/// Reads what is between chunks: the CR LF that ends one (unless `first`),
/// the next one's line, and after the last one the trailer section.
#[inline]
pub(crate) fn boundary(data: &[u8], first: bool, bounds: Bounds) -> Boundary {
    let mut at = 0;
    if !first {
        match data {
            [b'\r', b'\n', ..] => at = 2,
            [] | [b'\r'] => return Boundary::Incomplete,
            _ => return Boundary::Malformed,
        }
    }
    let (size, digits_end) = match size(data, at) {
        Ok(size) => size,
        Err(boundary) => return boundary,
    };
    let line = data.get(digits_end..).unwrap_or_default();
    let next = match line {
        [b'\r', b'\n', ..] if digits_end - at <= usize::from(bounds.chunk_line) => digits_end + 2,
        _ => match extensions_end(data, at, digits_end, bounds.chunk_line) {
            Ok(next) => next,
            Err(boundary) => return boundary,
        },
    };
    if size > 0 { Boundary::Chunk { size, skip: next } } else { trailers(data, next, bounds) }
}

/// The chunk size at `at`, and where its digits end: at most 16, which a u64
/// holds.
#[inline]
fn size(data: &[u8], at: usize) -> Result<(u64, usize), Boundary> {
    let mut size = 0;
    for end in at..at + 17 {
        let digit = match data.get(end) {
            None => return Err(Boundary::Incomplete),
            Some(&byte @ b'0'..=b'9') => byte - b'0',
            Some(&byte @ b'a'..=b'f') => byte - b'a' + 10,
            Some(&byte @ b'A'..=b'F') => byte - b'A' + 10,
            Some(_) if end == at => return Err(Boundary::Malformed),
            Some(_) => return Ok((size, end)),
        };
        if end < at + 16 {
            size = size << 4 | u64::from(digit);
        }
    }
    Err(Boundary::Malformed)
}

/// Skips chunk extensions, which are ignored (RFC 9112 section 7.1.1). Only a
/// semicolon may follow the size, blanks before it aside: `5 \r\n` is
/// refused, because others read it in other ways.
#[cold]
fn extensions_end(data: &[u8], start: usize, at: usize, chunk_line: u16) -> Result<usize, Boundary> {
    let most = usize::from(chunk_line);
    let end = find(data, at, b'\n');
    if end.unwrap_or(data.len()) - start > most + 1 {
        return Err(Boundary::Malformed);
    }
    let Some(end) = end else { return Err(Boundary::Incomplete) };
    let valid = data[at..end].strip_suffix(b"\r").is_some_and(|extensions| {
        semantics::lines::trim(extensions).starts_with(b";")
            && extensions.iter().all(|&byte| semantics::scan::is_field_byte(byte))
    });
    if valid { Ok(end + 1) } else { Err(Boundary::Malformed) }
}

/// The trailer section, which is checked (RFC 9112 section 7.1.2): no trailer field may
/// change what the head said.
fn trailers(data: &[u8], at: usize, bounds: Bounds) -> Boundary {
    let end = data.len().min(at + usize::from(bounds.trailers));
    let window = data.get(..end).unwrap_or_default();
    match section(window, at, 0, bounds.trailer_fields, LineEnds::CrLf) {
        Section::Complete(skip) => Boundary::Last { skip, trailers: at },
        Section::Malformed => Boundary::Malformed,
        Section::TooMany => Boundary::TooLarge,
        Section::Incomplete(..) if end - at == usize::from(bounds.trailers) => Boundary::TooLarge,
        Section::Incomplete(..) => Boundary::Incomplete,
    }
}
