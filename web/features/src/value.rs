//! Values with variables: text, compiled to parts that are written one after the
//! other.

use core::fmt;
use core::ops::Range;

/// A value, in the language of nginx.conf: text in which `$name`, `${name}` and
/// `$1` to `$9` stand for something else.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Value {
    text: Box<[u8]>,
    parts: Box<[Part]>,
}

/// A part of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Range<u32>),
    Variable(u16),
    /// A group of the expression that matched last.
    Capture(u8),
}

/// A part of a value, for who writes it in a way of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValuePart<'a> {
    /// Text as it is.
    Text(&'a [u8]),
    /// A variable, by its number.
    Variable(u16),
    /// A group of the expression that matched last.
    Capture(u8),
}

/// A value that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// A `$` without a name.
    Name,
    /// `${` without its bracket behind this name.
    Bracket(Vec<u8>),
    /// There is no variable of this name.
    Unknown(Vec<u8>),
    /// It is longer than 4 GiB.
    Length,
}

/// In nginx's words.
impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("invalid variable name"),
            Self::Bracket(name) => {
                write!(f, "the closing bracket in \"{}\" variable is missing", String::from_utf8_lossy(name))
            }
            Self::Unknown(name) => write!(f, "unknown \"{}\" variable", String::from_utf8_lossy(name)),
            Self::Length => f.write_str("a value is too long"),
        }
    }
}

impl std::error::Error for ValueError {}

/// What variables stand for.
pub trait Variables {
    /// Writes what a variable stands for now, by the caller's number for it.
    /// Whether it stands for anything, be it empty: a field that was not sent does
    /// not.
    fn write_variable(&mut self, variable: u16, out: &mut Vec<u8>) -> bool;
    /// Writes a group of the expression that matched last.
    fn write_capture(&mut self, group: u8, out: &mut Vec<u8>);
}

impl Value {
    /// Compiles a value; `number` gives the number of a variable by its name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(source: &[u8], number: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, ValueError> {
        let (mut text, mut parts, mut rest) = (Vec::new(), Vec::new(), source);
        // Told when the rest is known to be right, as nginx does.
        let mut unknown = None;
        let mut variable = |name: &[u8]| match number(name) {
            _ if name.is_empty() => Err(ValueError::Name),
            Some(number) => Ok(Part::Variable(number)),
            None => {
                unknown.get_or_insert_with(|| name.to_vec());
                Ok(Part::Variable(0))
            }
        };
        if u32::try_from(source.len()).is_err() {
            return Err(ValueError::Length);
        }
        loop {
            let plain = rest.iter().position(|byte| *byte == b'$').unwrap_or(rest.len());
            if plain > 0 {
                let from = text.len() as u32;
                text.extend_from_slice(&rest[..plain]);
                parts.push(Part::Text(from..text.len() as u32));
            }
            rest = match &rest[plain..] {
                [] => break,
                [_, digit @ b'1'..=b'9', behind @ ..] => {
                    parts.push(Part::Capture(digit - b'0'));
                    behind
                }
                [_, b'{', behind @ ..] => {
                    let (name, behind) = split_name(behind);
                    let behind = behind.strip_prefix(b"}");
                    // nginx asks for something behind the bracket first.
                    let behind = behind.ok_or_else(|| match (name, rest.len() - plain) {
                        (_, 2) => ValueError::Name,
                        _ => ValueError::Bracket(name.to_vec()),
                    })?;
                    parts.push(variable(name)?);
                    behind
                }
                [_, behind @ ..] => {
                    let (name, behind) = split_name(behind);
                    parts.push(variable(name)?);
                    behind
                }
            };
        }
        match unknown {
            Some(name) => Err(ValueError::Unknown(name)),
            None => Ok(Self { text: text.into(), parts: parts.into() }),
        }
    }

    /// This text, whatever is in it.
    #[must_use]
    pub fn literal(text: &[u8]) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let text: Box<[u8]> = text[..length as usize].into();
        Self { parts: (length > 0).then_some(Part::Text(0..length)).into_iter().collect(), text }
    }

    /// What it is, where no variable decides that.
    #[must_use]
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] | [Part::Text(_)] => Some(&self.text),
            _ => None,
        }
    }

    /// The number of the variable that is all of it, if one is.
    #[inline]
    #[must_use]
    pub fn sole_variable(&self) -> Option<u16> {
        if let [Part::Variable(number)] = &*self.parts { Some(*number) } else { None }
    }

    /// Numbers of the variables that it names.
    pub fn variables(&self) -> impl Iterator<Item = u16> {
        self.parts.iter().filter_map(|part| if let Part::Variable(number) = part { Some(*number) } else { None })
    }

    /// Whether it names groups of an expression.
    #[must_use]
    pub fn has_captures(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Capture(_)))
    }

    /// Its parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = ValuePart<'_>> {
        self.parts.iter().map(|part| match part {
            Part::Text(range) => ValuePart::Text(&self.text[range.start as usize..range.end as usize]),
            Part::Variable(number) => ValuePart::Variable(*number),
            Part::Capture(group) => ValuePart::Capture(*group),
        })
    }

    /// Writes what it is now.
    pub fn write(&self, variables: &mut impl Variables, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(range) => out.extend_from_slice(&self.text[range.start as usize..range.end as usize]),
                Part::Variable(number) => _ = variables.write_variable(*number, out),
                Part::Capture(group) => variables.write_capture(*group, out),
            }
        }
    }
}

/// A name at the start, and what stands behind it.
fn split_name(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named;

    impl Variables for Named {
        fn write_variable(&mut self, variable: u16, out: &mut Vec<u8>) -> bool {
            out.extend_from_slice(format!("<{variable}>").as_bytes());
            true
        }

        fn write_capture(&mut self, group: u8, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("({group})").as_bytes());
        }
    }

    /// Variables a and b_2 are 1 and 2.
    fn parse(text: &str) -> Result<Value, ValueError> {
        Value::parse(text.as_bytes(), &mut |name| match name {
            b"a" => Some(1),
            b"b_2" => Some(2),
            _ => None,
        })
    }

    #[test]
    fn variables_stand_in_text() {
        for (text, written) in [
            ("", ""),
            ("plain }{", "plain }{"),
            ("$a", "<1>"),
            ("x${a}y$b_2-$a", "x<1>y<2>-<1>"),
            ("$1$23", "(1)(2)3"),
            ("${a}{$a}", "<1>{<1>}"),
        ] {
            let mut out = Vec::new();
            let value = parse(text).expect(text);
            value.write(&mut Named, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), written, "{text}");
        }
        assert_eq!(parse("plain").unwrap().constant(), Some(&b"plain"[..]));
        let value = parse("$a$1$b_2").unwrap();
        assert_eq!((value.constant(), value.has_captures()), (None, true));
        let sole = ["$a", "${b_2}", "$a$a", "x$a", "$1", "x", ""].map(|text| parse(text).unwrap().sole_variable());
        assert_eq!(sole, [Some(1), Some(2), None, None, None, None, None]);
        assert_eq!(value.variables().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_wrong_is_said_in_nginxs_words() {
        for (text, said) in [
            ("$", "invalid variable name"),
            ("a$-", "invalid variable name"),
            ("${", "invalid variable name"),
            ("${}", "invalid variable name"),
            ("${a", "the closing bracket in \"a\" variable is missing"),
            ("${a b}", "the closing bracket in \"a\" variable is missing"),
            ("$c", "unknown \"c\" variable"),
            ("$0", "unknown \"0\" variable"),
            ("${1}", "unknown \"1\" variable"),
        ] {
            assert_eq!(parse(text).expect_err(text).to_string(), said, "{text}");
        }
    }
}
