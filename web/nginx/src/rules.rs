//! What each directive takes, and where it may stand: one table of text.

use core::ops::BitOr;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The table.
const TABLE: &str = include_str!("directives.txt");

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

    /// The letters of the table.
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

    /// Whether it has what `other` has.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Context {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
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

    fn read(text: &str) -> Option<Self> {
        if let Some(least) = text.strip_suffix('+') {
            let least: u8 = least.parse().ok().filter(|least| *least < 8)?;
            return Some(Self { numbers: u8::MAX << least, more: true });
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueForm {
    /// `on` or `off`.
    Flag,
    /// A number, perhaps within bounds.
    Number(Option<(u64, u64)>),
    /// Bytes in memory ([`crate::size`]).
    Size,
    /// Bytes of a file ([`crate::offset`]).
    Offset,
    /// A time ([`crate::time`]).
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
    /// One of these words.
    OneOf(Vec<&'static str>),
    /// Some of these words.
    SomeOf(Vec<&'static str>),
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
    fn read(text: &'static str) -> Option<Self> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let words = || rest.split(',').collect();
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
            "one-of" => Self::OneOf(words()),
            "some-of" => Self::SomeOf(words()),
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

/// One row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The directive's name.
    pub name: &'static str,
    /// The module that has it, by nginx's name for it.
    pub module: &'static str,
    /// Where it may stand.
    pub contexts: Context,
    /// How many arguments it takes.
    pub arguments: Arguments,
    /// Whether a block follows.
    pub block: bool,
    /// The form of the value.
    pub form: ValueForm,
}

/// All rules by name: several where one name has more than one meaning.
pub fn rules() -> &'static HashMap<&'static [u8], Vec<Rule>> {
    static RULES: OnceLock<HashMap<&'static [u8], Vec<Rule>>> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut rules: HashMap<&'static [u8], Vec<Rule>> = HashMap::new();
        let mut module = "";
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => module = name,
                // A line that is none is found by a test.
                None => {
                    if let Some(rule) = rule(module, line) {
                        rules.entry(rule.name.as_bytes()).or_default().push(rule);
                    }
                }
            }
        }
        rules
    })
}

fn rule(module: &'static str, line: &'static str) -> Option<Rule> {
    let mut words = line.split(' ');
    let (name, letters, arguments, form) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let context = |letter| Context::LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, context)| *context);
    let contexts = letters.chars().try_fold(Context(0), |all, letter| Some(all | context(letter)?))?;
    let (counts, block) = arguments.strip_suffix('{').map_or((arguments, false), |counts| (counts, true));
    let arguments = Arguments::read(counts)?;
    words.next().is_none().then_some(Rule { name, module, contexts, arguments, block, form: ValueForm::read(form)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_rule() {
        let mut module = None;
        let mut count = 0;
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with('[') {
                module = Some(line);
            } else {
                assert!(module.is_some() && rule("m", line).is_some(), "{line}");
                count += 1;
            }
        }
        assert_eq!(rules().values().map(Vec::len).sum::<usize>(), count);
        assert!(count > 600, "{count}");
    }

    #[test]
    fn rules_of_one_name_stand_apart() {
        for (name, rules) in rules() {
            for (at, rule) in rules.iter().enumerate() {
                let others = rules[at + 1..].iter().filter(|other| rule.contexts.0 & other.contexts.0 != 0);
                assert_eq!(others.count(), 0, "{}", String::from_utf8_lossy(name));
            }
        }
    }

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
}
