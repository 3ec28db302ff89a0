//! Where a directive may stand, how many arguments it takes, and of what form they are.

use core::ops::BitOr;

/// Where a directive may stand: one of these, or several in a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context(u16);

impl Context {
    /// No block.
    pub const MAIN: Self = Self(1);
    /// `events`.
    pub const EVENTS: Self = Self(1 << 1);
    /// `http`.
    pub const HTTP: Self = Self(1 << 2);
    /// `server`.
    pub const SERVER: Self = Self(1 << 3);
    /// `upstream`.
    pub const UPSTREAM: Self = Self(1 << 4);
    /// `location`.
    pub const LOCATION: Self = Self(1 << 5);
    /// `if` in a server.
    pub const IF_IN_SERVER: Self = Self(1 << 6);
    /// `if` in a location.
    pub const IF_IN_LOCATION: Self = Self(1 << 7);
    /// `limit_except`.
    pub const LIMIT_EXCEPT: Self = Self(1 << 8);
    /// All of them.
    const ALL: Self = Self((1 << 9) - 1);
    /// `http`, `server` and `location`.
    pub const PLACES: Self = Self::HTTP.and(Self::SERVER).and(Self::LOCATION);
    /// The same, and `if` in a location.
    pub const PLACES_AND_IF: Self = Self::PLACES.and(Self::IF_IN_LOCATION);

    /// Their letters in a line of text.
    const LETTERS: [(char, Self); 10] = [
        ('m', Self::MAIN),
        ('e', Self::EVENTS),
        ('h', Self::HTTP),
        ('s', Self::SERVER),
        ('u', Self::UPSTREAM),
        ('l', Self::LOCATION),
        ('S', Self::IF_IN_SERVER),
        ('L', Self::IF_IN_LOCATION),
        ('x', Self::LIMIT_EXCEPT),
        ('*', Self::ALL),
    ];

    /// By their letters; none if one is unknown.
    #[must_use]
    pub fn read(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self(0), |all, letter| Some(all | Self::of(letter)?))
    }

    /// By its letter.
    #[must_use]
    pub fn of(letter: char) -> Option<Self> {
        Self::LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, context)| *context)
    }

    /// These, and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has what `other` has.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Context {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

/// How many arguments a directive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// One bit for each number up to 7.
    numbers: u8,
    /// More than that are taken, too.
    more: bool,
}

impl Arguments {
    /// Whether so many are taken.
    #[must_use]
    pub const fn takes(self, count: usize) -> bool {
        if count < 8 { self.numbers & 1 << count != 0 } else { self.more }
    }

    /// So many.
    ///
    /// # Panics
    /// It is more than 7, at compile time.
    #[must_use]
    pub const fn exactly(count: u8) -> Self {
        Self::between(count, count)
    }

    /// From so many to so many.
    ///
    /// # Panics
    /// It is none, or one is more than 7, at compile time.
    #[must_use]
    pub const fn between(least: u8, most: u8) -> Self {
        assert!(least <= most && most < 8, "at most seven arguments are counted");
        Self { numbers: (u8::MAX >> (7 - most)) & (u8::MAX << least), more: false }
    }

    /// So many, or more.
    ///
    /// # Panics
    /// It is more than 7, at compile time.
    #[must_use]
    pub const fn at_least(least: u8) -> Self {
        assert!(least < 8, "at most seven arguments are counted");
        Self { numbers: u8::MAX << least, more: true }
    }

    /// From text: `1`, `1-3`, `0,2`, or `2+`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        if let Some(least) = text.strip_suffix('+') {
            let least: u8 = least.parse().ok().filter(|least| *least < 8)?;
            return Some(Self::at_least(least));
        }
        let numbers = text.split(',').try_fold(0, |numbers, part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (u8, u8) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to && to < 8).then(|| (from..=to).fold(numbers, |numbers, number| numbers | 1 << number))
        })?;
        Some(Self { numbers, more: false })
    }
}

/// What form the value of a directive has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueForm {
    /// `on` or `off`.
    Flag,
    /// A number, perhaps within bounds.
    Number(Option<(u64, u64)>),
    /// Bytes in memory ([`crate::units::size`]).
    Size,
    /// Bytes of a file ([`crate::units::offset`]).
    Offset,
    /// A time ([`crate::units::time`]).
    Time,
    /// A time in whole seconds.
    Seconds,
    /// Any text, once.
    Text,
    /// Text with variables, once.
    Value,
    /// Bytes in memory, or variables that give them; once.
    SizeValue,
    /// Conditions, once.
    Predicate,
    /// A number of buffers and their size.
    Buffers,
    /// Who may read and write: `user:rw` and the like.
    Access,
    /// A folder, with numbers for its levels.
    Path,
    /// One of these words, which have commas between them.
    OneOf(&'static str),
    /// Some of these words, likewise.
    SomeOf(&'static str),
    /// Text, as often as it is wanted.
    Texts,
    /// A name and a value, as often as they are wanted.
    Pair,
    /// Media types.
    MediaTypes,
    /// What the directive's own meaning says.
    Own,
    /// The same, once.
    OwnOnce,
}

impl ValueForm {
    /// From text: `flag`, `number:1-9`, `one-of:on,off`.
    #[must_use]
    pub fn read(text: &'static str) -> Option<Self> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        Some(match name {
            "flag" => Self::Flag,
            "number" if rest.is_empty() => Self::Number(None),
            "number" => {
                let (from, to) = rest.split_once('-')?;
                Self::Number(Some((from.parse().ok()?, to.parse().ok()?)))
            }
            "size" => Self::Size,
            "offset" => Self::Offset,
            "time" => Self::Time,
            "seconds" => Self::Seconds,
            "text" => Self::Text,
            "value" => Self::Value,
            "value-size" => Self::SizeValue,
            "predicate" => Self::Predicate,
            "buffers" => Self::Buffers,
            "access" => Self::Access,
            "path" => Self::Path,
            "one-of" => Self::OneOf(rest),
            "some-of" => Self::SomeOf(rest),
            "texts" => Self::Texts,
            "pair" => Self::Pair,
            "media-types" => Self::MediaTypes,
            "own" => Self::Own,
            "own-once" => Self::OwnOnce,
            _ => return None,
        })
    }

    /// Whether a second directive of the name in one block is refused by its
    /// form; directives of their own form decide that themselves.
    #[must_use]
    pub const fn stands_once(&self) -> bool {
        !matches!(self, Self::Own | Self::Texts | Self::Pair | Self::SomeOf(_) | Self::MediaTypes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_counted() {
        let takes = |text: &str| {
            let arguments = Arguments::read(text).expect(text);
            (0..12).filter(|count| arguments.takes(*count)).collect::<Vec<_>>()
        };
        assert_eq!(takes("1"), [1]);
        assert_eq!(takes("1-3"), [1, 2, 3]);
        assert_eq!(takes("0,2"), [0, 2]);
        assert_eq!(takes("2+"), (2..12).collect::<Vec<_>>());
        assert!(Arguments::read("3-1").is_none() && Arguments::read("").is_none() && Arguments::read("9").is_none());
    }

    #[test]
    fn rows_count_as_text_does() {
        for (row, text) in [
            (Arguments::exactly(0), "0"),
            (Arguments::exactly(7), "7"),
            (Arguments::between(1, 3), "1-3"),
            (Arguments::between(0, 7), "0-7"),
            (Arguments::at_least(2), "2+"),
        ] {
            assert_eq!(Arguments::read(text), Some(row), "{text}");
        }
        assert_eq!(Context::read("hsl"), Some(Context::PLACES));
        assert_eq!(Context::read("hslL"), Some(Context::PLACES_AND_IF));
        assert_eq!(Context::read("hsz"), None);
    }
}
