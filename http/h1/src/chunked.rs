//! The chunked transfer coding, inwards (RFC 9112 section 7.1).

use crate::lines::{LineEnds, Section, section};
use semantics::scan::find;

/// Bounds on the framing of chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub chunk_line: u16,
    pub trailers: u16,
    pub trailer_fields: u16,
    /// Lines behind the last chunk that are no field lines are passed over, and what stands
    /// with them.
    pub skips_bad_trailers: bool,
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
    let (size, digits_end) = match size(data, at, bounds.chunk_line) {
        Ok(size) => size,
        Err(boundary) => return boundary,
    };
    let line = data.get(digits_end..).unwrap_or_default();
    let next = match line {
        [b'\r', b'\n', ..] => digits_end + 2,
        _ => match extensions_end(data, at, digits_end, bounds.chunk_line) {
            Ok(next) => next,
            Err(boundary) => return boundary,
        },
    };
    if size > 0 { Boundary::Chunk { size, skip: next } } else { trailers(data, next, bounds) }
}

/// The chunk size at `at`, and where its digits end: behind zeros at most 16, which a u64
/// holds, and with these no more than a line may have.
#[inline]
fn size(data: &[u8], at: usize, chunk_line: u16) -> Result<(u64, usize), Boundary> {
    let (mut size, mut end) = (0_u64, at);
    loop {
        let digit = match data.get(end) {
            None => return Err(Boundary::Incomplete),
            Some(&byte @ b'0'..=b'9') => byte - b'0',
            Some(&byte @ b'a'..=b'f') => byte - b'a' + 10,
            Some(&byte @ b'A'..=b'F') => byte - b'A' + 10,
            Some(_) if end == at => return Err(Boundary::Malformed),
            Some(_) => return Ok((size, end)),
        };
        if size >> 60 != 0 || end - at >= usize::from(chunk_line) {
            return Err(Boundary::Malformed);
        }
        size = size << 4 | u64::from(digit);
        end += 1;
    }
}

/// Skips what follows the size: blanks, which some servers fill their lines with, and chunk
/// extensions, which are ignored (RFC 9112 section 7.1.1). Whatever else stands there is
/// refused: blanks change nothing of the size, but others might read on in it.
#[cold]
fn extensions_end(data: &[u8], start: usize, at: usize, chunk_line: u16) -> Result<usize, Boundary> {
    let most = usize::from(chunk_line);
    let end = find(data, at, b'\n');
    if end.unwrap_or(data.len()) - start > most + 1 {
        return Err(Boundary::Malformed);
    }
    let Some(end) = end else { return Err(Boundary::Incomplete) };
    let valid = data[at..end].strip_suffix(b"\r").is_some_and(|extensions| {
        matches!(semantics::lines::trim(extensions), [] | [b';', ..])
            && extensions.iter().all(|&byte| semantics::scan::is_field_byte(byte))
    });
    if valid { Ok(end + 1) } else { Err(Boundary::Malformed) }
}

/// The trailer section, which is checked (RFC 9112 section 7.1.2): no trailer field may
/// change what the head said. Of one with other lines nothing is told, where it may be.
fn trailers(data: &[u8], at: usize, bounds: Bounds) -> Boundary {
    let end = data.len().min(at + usize::from(bounds.trailers));
    let window = data.get(..end).unwrap_or_default();
    match section(window, at, 0, bounds.trailer_fields, LineEnds::CrLf) {
        Section::Complete(skip) => Boundary::Last { skip, trailers: at },
        Section::Malformed if bounds.skips_bad_trailers => bad_trailers(window, at, bounds),
        Section::Malformed => Boundary::Malformed,
        Section::TooMany => Boundary::TooLarge,
        Section::Incomplete(..) if end - at == usize::from(bounds.trailers) => Boundary::TooLarge,
        Section::Incomplete(..) => Boundary::Incomplete,
    }
}

/// A trailer section some line of which is no field line: where the empty line ends it.
#[cold]
fn bad_trailers(window: &[u8], start: usize, bounds: Bounds) -> Boundary {
    let (mut at, mut lines) = (start, 0);
    while let Some(end) = find(window, at, b'\n') {
        let line = window.get(at..end).unwrap_or_default().strip_suffix(b"\r");
        let Some(line) = line.filter(|line| !line.contains(&b'\r')) else { return Boundary::Malformed };
        if line.is_empty() {
            return Boundary::Last { skip: end + 1, trailers: end - 1 };
        }
        lines += 1;
        if lines > bounds.trailer_fields {
            return Boundary::TooLarge;
        }
        at = end + 1;
    }
    if window.len() - start == usize::from(bounds.trailers) { Boundary::TooLarge } else { Boundary::Incomplete }
}
