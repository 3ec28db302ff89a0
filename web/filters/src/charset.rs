//! `charset_map`: content of one character set becomes content of another.
//!
//! A table has both ways. What has no character on the other side is `?`, or, out of
//! UTF-8, its number as HTML writes it (`&#1234;`).

use super::FilterStep;
use std::sync::Arc;

/// The character sets of a configuration, by their names, and tables between them.
#[derive(Clone, Debug, Default)]
pub struct Charsets {
    names: Vec<Box<[u8]>>,
    /// From one to the other, by their places in `names`.
    tables: Vec<(usize, usize, Arc<Recoding>)>,
}

/// How bytes of one set become those of another.
#[derive(Debug)]
pub enum Recoding {
    /// Byte for byte.
    Bytes(Box<[u8; 256]>),
    /// Into UTF-8: how many bytes, and these.
    ToUtf8(Box<[(u8, [u8; 3]); 256]>),
    /// Out of UTF-8: by the upper byte of a character's number, and the lower one; 0 is
    /// none.
    FromUtf8(Vec<Option<Box<[u8; 256]>>>),
}

/// What is wrong with a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CharsetError {
    /// It is between a set and itself.
    Same,
    /// There is one already, this way or the other.
    Duplicate,
    /// It is from UTF-8 to another: such a table is written the other way.
    FromUtf8,
}

/// A table that is being read.
#[derive(Debug)]
pub struct CharsetMap {
    from: usize,
    to: usize,
    there: Recoding,
    back: Recoding,
}

const UTF8: &[u8] = b"utf-8";

impl Charsets {
    /// The place of a set by its name, whatever its case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// The same; a new one if it is not known.
    pub fn add(&mut self, name: &[u8]) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    /// The name of the one at a place.
    #[must_use]
    pub fn name(&self, at: usize) -> &[u8] {
        self.names.get(at).map_or(b"", |name| name)
    }

    /// The table from one to another.
    #[must_use]
    pub fn table(&self, from: usize, to: usize) -> Option<&Arc<Recoding>> {
        self.tables.iter().find(|(one, other, _)| (*one, *other) == (from, to)).map(|(_, _, table)| table)
    }

    /// Begins a table between two sets.
    ///
    /// # Errors
    /// There can be none.
    pub fn map(&mut self, from: &[u8], to: &[u8]) -> Result<CharsetMap, CharsetError> {
        let (from, to) = (self.add(from), self.add(to));
        if from == to {
            return Err(CharsetError::Same);
        }
        if self.table(from, to).is_some() {
            return Err(CharsetError::Duplicate);
        }
        if self.name(from).eq_ignore_ascii_case(UTF8) {
            return Err(CharsetError::FromUtf8);
        }
        let ascii = core::array::from_fn(|at| if at < 128 { at as u8 } else { 0 });
        let bytes = Box::new(ascii.map(|byte| if byte == 0 { b'?' } else { byte }));
        let bytes = || {
            let mut bytes = bytes.clone();
            bytes[0] = 0;
            Recoding::Bytes(bytes)
        };
        let (there, back) = if self.name(to).eq_ignore_ascii_case(UTF8) {
            let mut pages = vec![None; 256];
            pages[0] = Some(Box::new(ascii));
            let there = core::array::from_fn(|at| (1, [if at < 128 { at as u8 } else { b'?' }, 0, 0]));
            (Recoding::ToUtf8(Box::new(there)), Recoding::FromUtf8(pages))
        } else {
            (bytes(), bytes())
        };
        Ok(CharsetMap { from, to, there, back })
    }

    /// Takes a table that was read.
    pub fn take(&mut self, map: CharsetMap) {
        self.tables.push((map.from, map.to, Arc::new(map.there)));
        self.tables.push((map.to, map.from, Arc::new(map.back)));
    }
}

impl CharsetMap {
    /// A line: a byte, and what it is in the other set, in hexadecimal digits.
    ///
    /// # Errors
    /// Which of the two words is none.
    pub fn line(&mut self, from: &[u8], to: &[u8]) -> Result<(), usize> {
        let source = hexadecimal(from).ok_or(0_usize)?;
        match (&mut self.there, &mut self.back) {
            (Recoding::ToUtf8(there), Recoding::FromUtf8(back)) => {
                let bytes: Option<Vec<u8>> = to.chunks(2).map(hexadecimal).collect();
                let bytes =
                    bytes.filter(|bytes| matches!(bytes.len(), 1..=3) && to.len() == 2 * bytes.len()).ok_or(1_usize)?;
                let Utf8::Character(number @ ..=0xffff, _) = utf8(&bytes) else { return Err(1) };
                let mut padded = [0; 3];
                padded[..bytes.len()].copy_from_slice(&bytes);
                there[usize::from(source)] = (bytes.len() as u8, padded);
                let page = back[(number >> 8) as usize].get_or_insert_with(|| Box::new([0; 256]));
                page[(number & 0xff) as usize] = source;
            }
            (Recoding::Bytes(there), Recoding::Bytes(back)) => {
                let target = hexadecimal(to).ok_or(1_usize)?;
                there[usize::from(source)] = target;
                back[usize::from(target)] = source;
            }
            _ => {}
        }
        Ok(())
    }
}

/// A byte in hexadecimal digits; leading zeros are none.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u8, |value, digit| {
        let digit = (*digit as char).to_digit(16)?;
        value.checked_mul(16)?.checked_add(digit as u8)
    })
}

/// What stands at the beginning of bytes, the first of which is 0x80 or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Utf8 {
    /// A character, and how many bytes it takes.
    Character(u32, usize),
    /// None, and how many bytes that takes: up to the one that spoils it.
    Invalid(usize),
    /// Too few bytes to tell.
    Incomplete,
}

/// Reads as nginx does: surrogates are characters, and what is longer than it needs to
/// be is none.
fn utf8(bytes: &[u8]) -> Utf8 {
    let Some(&first) = bytes.first() else { return Utf8::Incomplete };
    let (mut number, least, more) = match first {
        0xf0.. => (u32::from(first & 7), 0xffff, 3),
        0xe0.. => (u32::from(first & 15), 0x7ff, 2),
        0xc2.. => (u32::from(first & 31), 0x7f, 1),
        _ => return Utf8::Invalid(1),
    };
    if bytes.len() <= more {
        return Utf8::Incomplete;
    }
    for (at, byte) in bytes[1..=more].iter().enumerate() {
        if *byte < 0x80 {
            return Utf8::Invalid(at + 2);
        }
        number = number << 6 | u32::from(byte & 0x3f);
    }
    if number > least && number <= 0x0010_ffff { Utf8::Character(number, more + 1) } else { Utf8::Invalid(more + 1) }
}

impl Recoding {
    /// Whether as many bytes come out as go in.
    #[must_use]
    pub const fn keeps_length(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

/// One content on its way from one set to another.
#[derive(Debug)]
pub struct Recoder {
    table: Arc<Recoding>,
    /// The beginning of a character.
    held: Vec<u8>,
}

/// Input that is recoded in one step, at most.
const RECODED: usize = 8 << 10;

impl Recoder {
    /// The start of a content that is recoded by a table.
    #[must_use]
    pub const fn new(table: Arc<Recoding>) -> Self {
        Self { table, held: Vec::new() }
    }

    /// As [`super::Filter::take`]. The beginning of a character at the end of all goes.
    pub fn take(&mut self, (input, last): (&[u8], bool), (out, most): (&mut Vec<u8>, usize)) -> FilterStep {
        let bytes = input.len().min(RECODED).min(most.max(64));
        let taken = &input[..bytes];
        match &*self.table {
            Recoding::Bytes(table) => out.extend(taken.iter().map(|byte| table[usize::from(*byte)])),
            Recoding::ToUtf8(table) => {
                for byte in taken {
                    let (length, bytes) = &table[usize::from(*byte)];
                    out.extend_from_slice(&bytes[..usize::from(*length)]);
                }
            }
            Recoding::FromUtf8(pages) => {
                self.held.extend_from_slice(taken);
                let left = from_utf8(pages, &self.held, out);
                self.held.drain(..self.held.len() - left);
            }
        }
        FilterStep { bytes, ended: last && bytes == input.len() }
    }
}

/// Recodes what is complete; how many bytes are left.
fn from_utf8(pages: &[Option<Box<[u8; 256]>>], mut text: &[u8], out: &mut Vec<u8>) -> usize {
    loop {
        let plain = text.iter().position(|byte| *byte >= 0x80).unwrap_or(text.len());
        out.extend_from_slice(&text[..plain]);
        text = &text[plain..];
        match utf8(text) {
            Utf8::Incomplete => return text.len(),
            Utf8::Invalid(length) => {
                out.push(b'?');
                text = &text[length..];
            }
            Utf8::Character(number, length) => {
                let page = pages.get((number >> 8) as usize).and_then(Option::as_ref);
                match page.map_or(0, |page| page[(number & 0xff) as usize]) {
                    0 => out.extend_from_slice(format!("&#{number};").as_bytes()),
                    byte => out.push(byte),
                }
                text = &text[length..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recoded(charsets: &Charsets, (from, to): (&str, &str), text: &[u8], piece: usize) -> Vec<u8> {
        let place = |name: &str| charsets.find(name.as_bytes()).expect("it is there");
        let table = charsets.table(place(from), place(to)).expect("a table");
        let (mut recoder, mut out) = (Recoder::new(Arc::clone(table)), Vec::new());
        for piece in text.chunks(piece) {
            let mut at = 0;
            while at < piece.len() {
                at += recoder.take((&piece[at..], false), (&mut out, 1)).bytes;
            }
        }
        assert!(recoder.take((b"", true), (&mut out, 1)).ended);
        out
    }

    fn charsets() -> Charsets {
        let mut charsets = Charsets::default();
        let mut map = charsets.map(b"koi8-r", b"UTF-8").expect("none yet");
        for (byte, text) in [("C1", "D0B0"), ("c2", "d0b1"), ("80", "E29480"), ("7e", "C2A0")] {
            map.line(byte.as_bytes(), text.as_bytes()).expect("a line");
        }
        charsets.take(map);
        let mut map = charsets.map(b"koi8-r", b"windows-1251").expect("none yet");
        for (byte, other) in [("C1", "E0"), ("C2", "E1"), ("41", "42")] {
            map.line(byte.as_bytes(), other.as_bytes()).expect("a line");
        }
        charsets.take(map);
        charsets
    }

    #[test]
    fn characters_become_those_of_the_other_set() {
        let charsets = charsets();
        let cases: &[(&str, &str, &[u8], &[u8])] = &[
            ("koi8-r", "utf-8", b"a\xc1\xc2\x80~\xff", "a\u{430}\u{431}\u{2500}\u{a0}?".as_bytes()),
            ("UTF-8", "koi8-R", "a\u{430}\u{431}\u{2500}\u{a0}".as_bytes(), b"a\xc1\xc2\x80~"),
            // What the table has not, and what is no character at all.
            ("utf-8", "koi8-r", "\u{e9}\u{20ac}\u{1f600}".as_bytes(), b"&#233;&#8364;&#128512;"),
            ("utf-8", "koi8-r", b"\x80\xc1a\xc3(\xe2(b\xe2\x82(\xc3", b"??a??b?"),
            ("utf-8", "koi8-r", b"\xe0\x80\x80\xf8\x88\x80\x80\xed\xa0\x80x", b"??&#55296;x"),
            ("koi8-r", "windows-1251", b"aA\xc1\xc2\xff\x00", b"aB\xe0\xe1?\x00"),
            ("windows-1251", "koi8-r", b"aAB\xe0\xe1\xff", b"aAA\xc1\xc2?"),
        ];
        for (from, to, text, expected) in cases {
            for piece in [1, 2, 3, 1_000] {
                let out = recoded(&charsets, (from, to), text, piece);
                assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{from} {to} {piece}");
            }
        }
    }

    #[test]
    fn tables_that_are_none_are_refused() {
        let mut charsets = charsets();
        for (from, to, why) in [
            ("a", "A", CharsetError::Same),
            ("utf-8", "KOI8-R", CharsetError::Duplicate),
            ("koi8-r", "windows-1251", CharsetError::Duplicate),
            ("utf-8", "other", CharsetError::FromUtf8),
        ] {
            assert_eq!(charsets.map(from.as_bytes(), to.as_bytes()).err(), Some(why), "{from} {to}");
        }
        let mut map = charsets.map(b"one", b"utf-8").expect("none yet");
        for (byte, text, wrong) in [
            ("100", "D0B0", 0),
            ("x", "D0B0", 0),
            ("", "D0B0", 0),
            ("80", "41", 1),
            ("80", "D0B", 1),
            ("80", "F09F9880", 1),
            ("80", "", 1),
            ("80", "D0", 1),
        ] {
            assert_eq!(map.line(byte.as_bytes(), text.as_bytes()), Err(wrong), "{byte} {text}");
        }
        let mut map = charsets.map(b"one", b"two").expect("none yet");
        assert_eq!((map.line(b"80", b"0100"), map.line(b"080", b"41")), (Err(1), Ok(())));
    }
}
