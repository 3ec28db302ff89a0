//! The fields (headers) of a message head, one by one.

use crate::lines::trim;
use crate::scan::{NamedLine, marks_of};

/// One field line: `name: value`, value without surrounding whitespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// The name as sent; compare with [`Field::is`].
    pub name: &'a [u8],
    /// The value, optional whitespace around it removed.
    pub value: &'a [u8],
}

impl<'a> Field<'a> {
    /// The field of a line that was already found valid, its CR LF included.
    #[inline]
    #[must_use]
    pub fn of_line(line: &'a [u8]) -> Option<Self> {
        let (name, value) = line.split_at_checked(colon(line)?)?;
        let value = value.get(1..value.len().saturating_sub(2))?;
        Some(Self { name, value: trim(value) })
    }

    /// Whether the field has this name; field names are case-insensitive
    /// (RFC 9110 section 5.1).
    #[inline]
    #[must_use]
    pub const fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Where the first colon is: eight bytes at a time.
#[inline]
fn colon(line: &[u8]) -> Option<usize> {
    let (words, rest) = line.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let marks = marks_of(u64::from_le_bytes(*word), b':');
        if marks != 0 {
            return Some(8 * at + marks.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| *byte == b':')?;
    Some(8 * words.len() + at)
}

/// The fields of a head that was already found valid, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    lines: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Over `lines`: the field lines of a valid head, each ended by CR LF.
    /// An empty line, or anything that is no field line, ends the iteration.
    #[inline]
    #[must_use]
    pub const fn new(lines: &'a [u8]) -> Self {
        Self { lines }
    }

    /// Whether there may be a field whose name begins with this letter, whatever its case:
    /// looked for by blocks, for fields that most heads have not.
    #[must_use]
    pub fn may_have(&self, letter: u8) -> bool {
        let begins = |at: usize| at.checked_sub(1).is_none_or(|before| self.lines.get(before) == Some(&b'\n'));
        let (small, large) = (letter.to_ascii_lowercase(), letter.to_ascii_uppercase());
        memchr::memchr2_iter(small, large, self.lines).any(begins)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if matches!(self.lines, [] | [b'\r', ..]) {
            return None;
        }
        let (name, value, after) = vector::run(NamedLine(self.lines))?;
        self.lines = after;
        Some(Field { name, value: trim(value) })
    }
}

/// The values of one field, by line. Several lines are one list (RFC 9110
/// section 5.3).
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// The only line.
    one: Option<&'a [u8]>,
    /// All of the head's fields, where the field is repeated.
    all: Option<(Fields<'a>, &'static str)>,
}

impl<'a> Values<'a> {
    /// A field sent in one line.
    #[inline]
    #[must_use]
    pub const fn one(value: &'a [u8]) -> Self {
        Self { one: Some(value), all: None }
    }

    /// A field of this name, sent in several lines.
    #[inline]
    #[must_use]
    pub const fn repeated(fields: Fields<'a>, name: &'static str) -> Self {
        Self { one: None, all: Some((fields, name)) }
    }

    /// The members of the list, empty ones included, without whitespace
    /// around them. For lists whose members hold no quoted strings.
    pub fn members(self) -> impl Iterator<Item = &'a [u8]> {
        self.flat_map(|value| value.split(|&byte| byte == b',')).map(trim)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(value) = self.one.take() {
            return Some(value);
        }
        let (fields, name) = self.all.as_mut()?;
        fields.find(|field| field.is(name)).map(|field| field.value)
    }
}
