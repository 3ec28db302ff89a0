//! `log_format`.

use super::LogEscape;
use crate::value::Variables;
use core::ops::Range;

/// The format that each configuration has.
const COMBINED: &[u8] = b"$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
    \"$http_referer\" \"$http_user_agent\"";

/// What a line says: `log_format`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFormat {
    /// Its name.
    pub name: Box<[u8]>,
    /// How what variables stand for is written.
    pub escape: LogEscape,
    text: Box<[u8]>,
    parts: Box<[Part]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Range<u32>),
    Variable(u16),
}

impl LogFormat {
    /// The format `combined`; `number` gives the number of a variable by its name.
    ///
    /// # Errors
    /// It does not know one.
    pub fn combined(number: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, String> {
        Self::parse(b"combined", &[COMBINED], number)
    }

    /// A format from what follows its name: perhaps `escape=`, and texts that are
    /// joined.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn parse(name: &[u8], words: &[&[u8]], number: &mut dyn FnMut(&[u8]) -> Option<u16>) -> Result<Self, String> {
        let (mut words, mut escape) = (words, LogEscape::Default);
        if let [first, behind @ ..] = words
            && let Some(kind) = first.strip_prefix(b"escape=")
        {
            escape = match kind {
                b"default" => LogEscape::Default,
                b"json" => LogEscape::Json,
                b"none" => LogEscape::None,
                _ => return Err(format!("unknown log format escaping \"{}\"", String::from_utf8_lossy(kind))),
            };
            words = behind;
        }
        let (mut text, mut parts) = (Vec::new(), Vec::new());
        for word in words {
            let mut rest = *word;
            while !rest.is_empty() {
                let plain = rest.iter().position(|byte| *byte == b'$').unwrap_or(rest.len());
                if plain > 0 {
                    let from = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    text.extend_from_slice(&rest[..plain]);
                    let to = u32::try_from(text.len()).map_err(|_| "a value is too long")?;
                    match parts.last_mut() {
                        // Words are joined.
                        Some(Part::Text(before)) => before.end = to,
                        _ => parts.push(Part::Text(from..to)),
                    }
                    rest = &rest[plain..];
                    continue;
                }
                let (name, behind) = variable(rest)?;
                let number = number(&name.to_ascii_lowercase())
                    .ok_or_else(|| format!("unknown \"{}\" variable", String::from_utf8_lossy(name)))?;
                parts.push(Part::Variable(number));
                rest = behind;
            }
        }
        Ok(Self { name: name.into(), escape, text: text.into(), parts: parts.into() })
    }

    /// Numbers of the variables that it names.
    pub fn variables(&self) -> impl Iterator<Item = u16> {
        self.parts.iter().filter_map(|part| if let Part::Variable(number) = part { Some(*number) } else { None })
    }

    /// The same format where some variables stand for what they do not change:
    /// `fixed` writes those, and says whether they stand for anything.
    #[must_use]
    pub fn fix(&self, fixed: &mut dyn FnMut(u16, &mut Vec<u8>) -> Option<bool>) -> Self {
        let (mut text, mut parts, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let add = |text: &mut Vec<u8>, parts: &mut Vec<Part>, bytes: &[u8]| {
            let from = text.len() as u32;
            text.extend_from_slice(bytes);
            let to = text.len() as u32;
            match parts.last_mut() {
                Some(Part::Text(before)) if before.end == from => before.end = to,
                _ => parts.push(Part::Text(from..to)),
            }
        };
        for part in &self.parts {
            match part {
                Part::Text(range) => {
                    add(&mut text, &mut parts, &self.text[range.start as usize..range.end as usize]);
                }
                Part::Variable(number) => {
                    value.clear();
                    match fixed(*number, &mut value) {
                        None => parts.push(Part::Variable(*number)),
                        Some(true) => {
                            self.escape.apply(&mut value, 0);
                            add(&mut text, &mut parts, &value);
                        }
                        Some(false) if self.escape == LogEscape::Default => add(&mut text, &mut parts, b"-"),
                        Some(false) => {}
                    }
                }
            }
        }
        Self { name: self.name.clone(), escape: self.escape, text: text.into(), parts: parts.into() }
    }

    /// Writes a line, without its end.
    pub fn write(&self, variables: &mut impl Variables, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(range) => out.extend_from_slice(&self.text[range.start as usize..range.end as usize]),
                Part::Variable(number) => {
                    let start = out.len();
                    if variables.write_variable(*number, out) {
                        self.escape.apply(out, start);
                    } else if self.escape == LogEscape::Default {
                        out.push(b'-');
                    }
                }
            }
        }
    }
}

/// The name of the variable that `text` begins with, and what stands behind it.
fn variable(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let invalid = || Err(format!("invalid parameter \"{}\"", String::from_utf8_lossy(text)));
    let (braced, rest) = match text {
        [_, b'{', rest @ ..] => (true, rest),
        _ => (false, text.get(1..).unwrap_or_default()),
    };
    if rest.is_empty() {
        return invalid();
    }
    let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    let behind = match (braced, behind) {
        (true, [b'}', behind @ ..]) => behind,
        (true, _) => {
            let name = String::from_utf8_lossy(name);
            return Err(format!("the closing bracket in \"{name}\" variable is missing"));
        }
        (false, behind) => behind,
    };
    if name.is_empty() { invalid() } else { Ok((name, behind)) }
}
