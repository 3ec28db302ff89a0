//! Finding the bytes that matter, eight or thirty-two at a time.
//!
//! Words are little-endian, so that the lowest set bit of a mask stands for
//! the first byte.

use vector::{BLOCK, Blocks, Marks, Work};

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// The first eight bytes, zero bytes after the last one. Of fewer than four,
/// none.
#[inline(always)]
fn word(rest: &[u8]) -> u64 {
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_le_bytes(*bytes);
    }
    match (rest.first_chunk(), rest.last_chunk()) {
        // The two overlap unless there are eight.
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (rest.len() & 3))
        }
        _ => 0,
    }
}

/// The place of the first mark.
#[inline(always)]
const fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Marks the bytes that may end a field value: below 0x20, or 0x7f. The
/// lowest mark may be a false one after a byte 0xff; look at the byte.
#[inline(always)]
const fn value_stops(word: u64) -> u64 {
    (word.wrapping_sub(ONES * 0x20) | word.wrapping_add(ONES)) & !word & HIGH
}

/// Marks the bytes that may end a path: below 0x24 (controls, space, `!`,
/// `"`, `#`), `?` and 0x7f. May be a false mark, as above.
#[inline(always)]
const fn target_stops(word: u64) -> u64 {
    // `?` and 0x7f differ in one bit.
    (word.wrapping_sub(ONES * 0x24) | (word | (ONES * 0x40)).wrapping_add(ONES)) & !word & HIGH
}

/// Marks the bytes of a word that are this one, each by its highest bit. The lowest mark is such a byte's; behind
/// it there may be false ones.
#[inline(always)]
#[must_use]
pub const fn marks_of(word: u64, byte: u8) -> u64 {
    let apart = word ^ (ONES * byte as u64);
    apart.wrapping_sub(ONES) & !apart & HIGH
}

/// Whether a field value may have all of these bytes (RFC 9110 section 5.5).
#[inline]
pub fn are_field_bytes(value: &[u8]) -> bool {
    let one_by_one = |bytes: &[u8]| bytes.iter().all(|byte| is_field_byte(*byte));
    // The last eight overlap those before them.
    let Some(last) = value.last_chunk::<8>() else { return one_by_one(value) };
    let stops = |bytes: &[u8; 8]| value_stops(u64::from_le_bytes(*bytes));
    let (words, _) = value.as_chunks::<8>();
    words.iter().fold(stops(last), |all, word| all | stops(word)) == 0 || one_by_one(value)
}

/// Whether a field may have this name in HTTP/2 (RFC 9113 section 8.2.1): a token without large letters.
#[inline]
pub fn is_lower_token(name: &[u8]) -> bool {
    let plain = |bytes: &[u8; 8]| plain_bytes(u64::from_le_bytes(*bytes));
    let all = match name.last_chunk::<8>() {
        Some(last) => name.as_chunks::<8>().0.iter().fold(plain(last), |all, word| all & plain(word)),
        None => match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => {
                plain_bytes(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32)
            }
            _ => 0,
        },
    };
    let one_by_one = || name.iter().all(|byte| is_token(*byte) && !byte.is_ascii_uppercase());
    all == HIGH || (!name.is_empty() && one_by_one())
}

/// Marks small letters, digits and hyphens, of which nearly all names are made.
#[inline(always)]
const fn plain_bytes(word: u64) -> u64 {
    // No sum of what is below 0x80 carries from one byte to the next.
    let low = word & !HIGH;
    let letters = low.wrapping_add(ONES * (0x80 - b'a' as u64)) & !low.wrapping_add(ONES * (0x7f - b'z' as u64));
    let digits = low.wrapping_add(ONES * (0x80 - b'0' as u64)) & !low.wrapping_add(ONES * (0x7f - b'9' as u64));
    let hyphens = !(low ^ (ONES * b'-' as u64)).wrapping_add(HIGH - ONES);
    (letters | digits | hyphens) & !word & HIGH
}

/// Splits at the CR LF that ends the value that `rest` begins with: the value
/// with the blanks around it, and what follows the CR LF. `None` if something
/// else ends the value (RFC 9110 section 5.5), or nothing does.
#[inline(always)]
pub fn split_value(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    // Most values are short.
    let marks = value_stops(word(rest));
    if marks != 0 {
        return split_at_line_end(rest, first(marks));
    }
    let marks = value_stops(word(rest.get(8..)?));
    if marks != 0 { split_at_line_end(rest, 8 + first(marks)) } else { split_any_value(rest) }
}

#[inline(always)]
fn split_at_line_end(rest: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    let (value, end) = rest.split_at_checked(at)?;
    match end.split_first_chunk::<2>() {
        Some((b"\r\n", after)) => Some((value, after)),
        _ => split_any_value(rest),
    }
}

/// [`split_value`] for any value.
#[inline(never)]
fn split_any_value(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    vector::run(Value(rest))
}

/// A field value and what follows it.
struct Value<'a>(&'a [u8]);

impl<'a> Work for Value<'a> {
    type Output = Option<(&'a [u8], &'a [u8])>;

    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> Self::Output {
        let Self(rest) = self;
        let mut left = rest;
        loop {
            left = match left.first_chunk::<BLOCK>() {
                Some(block) => match blocks.stops(block) {
                    0 => {
                        left = left.get(BLOCK..)?;
                        continue;
                    }
                    stops => left.get(stops.trailing_zeros() as usize..)?,
                },
                None => left.get(left.iter().position(|&byte| !(0x20..0x7f).contains(&byte))?..)?,
            };
            match left {
                [b'\r', b'\n', after @ ..] => return Some((rest.get(..rest.len() - left.len())?, after)),
                // HTAB, or what is no ASCII.
                [byte, next @ ..] if is_field_byte(*byte) => left = next,
                _ => return None,
            }
        }
    }
}

/// A field line, `name ":" OWS value OWS CR LF`; what follows it.
pub struct Line<'a>(pub &'a [u8]);

impl<'a> Work for Line<'a> {
    type Output = Option<&'a [u8]>;

    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> Self::Output {
        let Self(rest) = self;
        let Marks { other, stop } = blocks.marks(rest.first_chunk::<BLOCK>()?);
        let mut name = other.trailing_zeros() as usize;
        if rest.get(name) != Some(&b':') {
            // A name that is longer, or has what only a closer look tells from
            // its end.
            name = token_len(rest);
        }
        let Some([b':', value @ ..]) = rest.get(name..) else { return None };
        if name == 0 {
            return None;
        }
        if stop != 0
            && let Some([b'\r', b'\n', after @ ..]) = rest.get(stop.trailing_zeros() as usize..)
        {
            return Some(after);
        }
        Value(value).run(blocks).map(|(_, after)| after)
    }
}

/// A field line, `name ":" OWS value OWS CR LF`, in its parts.
pub struct NamedLine<'a>(pub &'a [u8]);

/// Its name, its value with the blanks around it, and what follows it.
type LineParts<'a> = (&'a [u8], &'a [u8], &'a [u8]);

impl<'a> Work for NamedLine<'a> {
    type Output = Option<LineParts<'a>>;

    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> Self::Output {
        let Self(rest) = self;
        let Marks { other, stop } = match rest.first_chunk::<BLOCK>() {
            Some(block) => blocks.marks(block),
            None => {
                // The zeros behind it end whatever does not end before.
                let mut block = [0; BLOCK];
                block.get_mut(..rest.len())?.copy_from_slice(rest);
                blocks.marks(&block)
            }
        };
        let mut end = other.trailing_zeros() as usize;
        if rest.get(end) != Some(&b':') {
            end = token_len(rest);
        }
        let (name, colon) = rest.split_at_checked(end)?;
        let (_, value) = colon.split_first().filter(|(colon, _)| **colon == b':')?;
        if stop != 0 {
            let (line, after) = rest.split_at_checked(stop.trailing_zeros() as usize)?;
            if let ([b'\r', b'\n', after @ ..], Some(value)) = (after, line.get(end..).and_then(|line| line.get(1..))) {
                return Some((name, value, after));
            }
        }
        Value(value).run(blocks).map(|(value, after)| (name, value, after))
    }
}

/// What follows the value that `rest` begins with and its CR LF; `None` as
/// for [`split_value`].
#[inline(always)]
pub fn skip_value(rest: &[u8]) -> Option<&[u8]> {
    split_value(rest).map(|(_, after)| after)
}

/// The end of `rest` after its path, or after the part of a query up to the
/// next `?`, and the byte that it begins with: one that no path contains.
#[inline(always)]
pub fn split_target(rest: &[u8]) -> Option<(&[u8], u8)> {
    let mut left = rest;
    while let Some((chunk, next)) = left.split_first_chunk::<8>() {
        let marks = target_stops(u64::from_le_bytes(*chunk));
        if marks == 0 {
            left = next;
            continue;
        }
        let end = left.get(first(marks)..)?;
        match end.first() {
            Some(&stop @ (b' ' | b'?')) => return Some((end, stop)),
            _ => break,
        }
    }
    split_any_target(rest)
}

/// [`split_target`] for any target. A whole head has at least eight bytes
/// after its target, so that the end of the data is a rare case, too.
#[cold]
#[inline(never)]
fn split_any_target(rest: &[u8]) -> Option<(&[u8], u8)> {
    let len = rest.iter().position(|byte| matches!(byte, 0..=b' ' | b'#' | b'?' | 0x7f))?;
    let end = rest.get(len..)?;
    Some((end, *end.first()?))
}

/// How many bytes at the start of `rest` a token may contain (RFC 9110
/// section 5.6.2).
#[inline]
pub fn token_len(rest: &[u8]) -> usize {
    let of = |byte: u8| CLASSES[byte as usize] & TOKEN;
    let mut left = rest;
    // Four look-ups and one branch cost less than a branch for each.
    while let Some((&[a, b, c, d], next)) = left.split_first_chunk::<4>()
        && of(a) & of(b) & of(c) & of(d) != 0
    {
        left = next;
    }
    while let [byte, next @ ..] = left
        && of(*byte) != 0
    {
        left = next;
    }
    rest.len() - left.len()
}

/// The first `byte` from `at` on.
#[inline]
pub fn find(data: &[u8], at: usize, byte: u8) -> Option<usize> {
    Some(at + memchr::memchr(byte, data.get(at..)?)?)
}

/// Whether a field value may contain the byte: HTAB, SP, VCHAR, obs-text
/// (RFC 9110 section 5.5).
#[inline(always)]
pub const fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || byte >= 0x20 && byte != 0x7f
}

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const PLAIN_HOST: u8 = 4;

/// Classes of bytes.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        if c.is_ascii_alphanumeric() {
            classes[byte] = TOKEN | HOST | PLAIN_HOST;
        }
        byte += 1;
    }
    let mut i = 0;
    let token = b"!#$%&'*+-.^_`|~";
    while i < token.len() {
        classes[token[i] as usize] |= TOKEN;
        i += 1;
    }
    i = 0;
    let host = b"-._~%!$&'()*+,;=:[]";
    while i < host.len() {
        classes[host[i] as usize] |= HOST;
        i += 1;
    }
    i = 0;
    let plain = b"-._";
    while i < plain.len() {
        classes[plain[i] as usize] |= PLAIN_HOST;
        i += 1;
    }
    classes
};

/// Whether a token may contain the byte (RFC 9110 section 5.6.2).
#[inline(always)]
pub fn is_token(byte: u8) -> bool {
    CLASSES[byte as usize] & TOKEN != 0
}

/// How many bytes at the start of `rest` a host and port may contain
/// (RFC 3986 sections 3.2.2 and 3.2.3).
#[inline(always)]
pub fn host_len(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| CLASSES[byte as usize] & HOST == 0).unwrap_or(rest.len())
}

/// How many bytes at the start of `rest` are of a name or an IPv4 address, of
/// any that is sent in practice: nothing in them has to be looked at again.
#[inline(always)]
pub fn plain_host_len(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| CLASSES[byte as usize] & PLAIN_HOST == 0).unwrap_or(rest.len())
}

/// Marks the bytes that are none of a letter, a digit, `-` and `.`. There may
/// be false marks after a byte from 0x80 on, which is marked itself.
#[inline(always)]
const fn host_stops(word: u64) -> u64 {
    // The highest bit of each byte of `at_least(w, b)` says whether the byte of
    // `w` is at least `b`, for bytes below 0x80.
    const fn at_least(word: u64, byte: u8) -> u64 {
        word.wrapping_add(ONES * (0x80 - byte as u64))
    }
    let lower = word | (ONES * 0x20);
    let letters = at_least(lower, b'a') ^ at_least(lower, b'z' + 1);
    let others = at_least(word, b'-') ^ at_least(word, b'9' + 1);
    let no_slash = (word ^ (ONES * b'/' as u64)).wrapping_add(ONES * 0x7f);
    (!(letters | others & no_slash) | word) & HIGH
}

/// The end of `rest` after what is certainly of a name or an IPv4 address (see
/// [`plain_host_len`], but a `_` may end it, too).
#[inline(always)]
pub fn skip_plain_host(rest: &[u8]) -> Option<&[u8]> {
    let mut left = rest;
    while let Some((chunk, next)) = left.split_first_chunk::<8>() {
        let marks = host_stops(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return left.get(first(marks)..);
        }
        left = next;
    }
    left.get(plain_host_len(left)..)
}

/// Text to be found by a few comparisons of words.
#[derive(Clone, Copy)]
pub struct Name<const N: usize> {
    text: [u8; N],
    case: [u8; N],
}

impl<const N: usize> Name<N> {
    /// Text that is compared as it is.
    pub const fn exact(text: &[u8; N]) -> Self {
        assert!(N >= 4 && N <= 24);
        Self { text: *text, case: [0; N] }
    }

    /// Lower-case text to be found whatever the case it is sent in: letters
    /// are compared without their case bit, all other characters exactly.
    pub const fn new(text: &[u8; N]) -> Self {
        assert!(N >= 4 && N <= 24);
        let mut case = [0; N];
        let mut i = 0;
        while i < N {
            if text[i].is_ascii_lowercase() {
                case[i] = 0x20;
            }
            i += 1;
        }
        Self { text: *text, case }
    }

    /// What follows the name, if `rest` begins with it.
    #[inline(always)]
    pub fn strip<'a>(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        let (sent, rest) = rest.split_first_chunk::<N>()?;
        if self.equals(sent) { Some(rest) } else { None }
    }

    /// Whether it is this text.
    #[inline(always)]
    pub fn equals(&self, sent: &[u8; N]) -> bool {
        // Words that overlap where the length is no multiple of theirs.
        if N < 8 {
            self.equal4(sent, 0) && (N == 4 || self.equal4(sent, N - 4))
        } else {
            self.equal8(sent, 0) && (N <= 16 || self.equal8(sent, 8)) && (N == 8 || self.equal8(sent, N - 8))
        }
    }

    #[inline(always)]
    fn equal4(&self, sent: &[u8; N], at: usize) -> bool {
        word4(sent, at) | word4(&self.case, at) == word4(&self.text, at)
    }

    #[inline(always)]
    fn equal8(&self, sent: &[u8; N], at: usize) -> bool {
        word8(sent, at) | word8(&self.case, at) == word8(&self.text, at)
    }
}

#[inline(always)]
fn word4<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

#[inline(always)]
fn word8<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte at each place of names and values of all lengths that matter.
    #[test]
    fn many_bytes_at_once_are_judged_like_each_alone() {
        for length in 0..20 {
            for at in 0..length.max(1) {
                for byte in 0..=u8::MAX {
                    let (mut name, mut value) = (vec![b'x'; length], vec![0xff; length]);
                    if let (Some(of_name), Some(of_value)) = (name.get_mut(at), value.get_mut(at)) {
                        (*of_name, *of_value) = (byte, byte);
                    }
                    let is_name = length > 0 && is_token(byte) && !byte.is_ascii_uppercase();
                    assert_eq!(is_lower_token(&name), is_name, "{byte:#x} at {at} of {length}");
                    let is_value = length == 0 || is_field_byte(byte);
                    assert_eq!(are_field_bytes(&value), is_value, "{byte:#x} at {at} of {length}");
                }
            }
        }
    }
}
