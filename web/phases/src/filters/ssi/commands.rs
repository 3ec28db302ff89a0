//! Commands are executed.

use super::text::{Zone, escape_url, time, unquote};
use super::words::Words;
use crate::filters::{Broken, FilterValues};
use crate::markup::escape_html;
use crate::zone::{local_name, local_offset};
use pcre::{Matcher, Regex, RegexOptions};

/// Bytes of a value that others are put into, and values that are set, at most.
const VALUE_MAX: usize = 64 << 10;
const VALUES_MAX: usize = 1024;

/// What came of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Done,
    /// A text says so, unless errors are silent.
    Failed,
}

use Outcome::{Done, Failed};

/// How what is told is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Encoding {
    None,
    Url,
    #[default]
    Entity,
}

/// What a command is, and which parameters it has; those with `true` must be there.
type Command = (&'static [u8], &'static [(&'static [u8], bool)]);

const COMMANDS: [Command; 10] = [
    (b"include", &[(b"virtual", false), (b"file", false), (b"wait", false), (b"set", false), (b"stub", false)]),
    (b"echo", &[(b"var", true), (b"default", false), (b"encoding", false)]),
    (b"config", &[(b"errmsg", false), (b"timefmt", false)]),
    (b"set", &[(b"var", true), (b"value", true)]),
    (b"if", &[(b"expr", true)]),
    (b"elif", &[(b"expr", true)]),
    (b"else", &[]),
    (b"endif", &[]),
    (b"block", &[(b"name", true)]),
    (b"endblock", &[]),
];

/// What commands have said so far.
#[derive(Debug)]
pub(super) struct Executor {
    /// Content passes.
    passes: bool,
    /// One branch of the condition has passed, or does.
    chosen: bool,
    /// In a condition: 1, and behind its `else` 2.
    condition: u8,
    /// In a block: what is there is for `include` alone.
    block: bool,
    encoding: Encoding,
    error: Vec<u8>,
    time: Vec<u8>,
    /// Names and values that were set.
    values: Vec<(Vec<u8>, Vec<u8>)>,
    /// Groups of the expression that matched last.
    captures: Vec<Vec<u8>>,
}

impl Default for Executor {
    fn default() -> Self {
        Self {
            passes: true,
            chosen: false,
            condition: 0,
            block: false,
            encoding: Encoding::Entity,
            error: b"[an error occurred while processing the directive]".to_vec(),
            time: b"%A, %d-%b-%Y %H:%M:%S %Z".to_vec(),
            values: Vec::new(),
            captures: Vec::new(),
        }
    }
}

impl Executor {
    /// Content outside of commands.
    pub fn plain(&self, text: &[u8], out: &mut Vec<u8>) {
        if self.passes {
            out.extend_from_slice(text);
        }
    }

    /// What stands in place of a command that failed.
    pub fn error_text(&self) -> &[u8] {
        &self.error
    }

    /// Executes a command.
    ///
    /// # Errors
    /// See [`super::Ssi::take`].
    pub fn execute(
        &mut self,
        words: &Words,
        out: &mut Vec<u8>,
        values: &mut dyn FilterValues,
    ) -> Result<Outcome, Broken> {
        let Some((name, known)) = COMMANDS.iter().find(|(name, _)| *name == words.name) else {
            if !self.passes {
                return Ok(Done);
            }
            return fails(values, &[b"invalid SSI command: \"", &words.name, b"\""]);
        };
        // The conditions that it may stand in.
        let needs = match *name {
            b"elif" | b"else" => 1,
            b"endif" => 2,
            _ => 0,
        };
        if !self.passes && *name != b"endblock" && (self.block || needs == 0) {
            return Ok(Done);
        }
        if needs > 0 && (self.condition == 0 || self.condition > needs) {
            return fails(values, &[b"invalid context of SSI command: \"", name, b"\""]);
        }
        if words.too_many {
            return fails(values, &[b"too many SSI command parameters: \"", name, b"\""]);
        }
        let mut found: [Option<&[u8]>; 5] = [None; 5];
        for (word, value) in &words.parameters {
            match known.iter().position(|(known, _)| known == word) {
                Some(at) if found[at].is_none() => found[at] = Some(value),
                at => {
                    let what: &[u8] = if at.is_some() { b"duplicate \"" } else { b"invalid parameter name: \"" };
                    let place: &[u8] = if at.is_some() { b"\" parameter in \"" } else { b"\" in \"" };
                    return fails(values, &[what, word, place, name, b"\" SSI command"]);
                }
            }
        }
        if let Some(((absent, _), _)) = known.iter().zip(&found).find(|((_, must), found)| *must && found.is_none()) {
            let what: [&[u8]; 5] = [b"mandatory \"", absent, b"\" parameter is absent in \"", name, b"\" SSI command"];
            return fails(values, &what);
        }
        let first = found[0].unwrap_or_default();
        match *name {
            b"echo" => return Ok(self.echo(first, (found[1], found[2]), out, values)),
            b"config" => {
                let set =
                    |to: &mut Vec<u8>, value: Option<&[u8]>| value.into_iter().for_each(|value| *to = value.into());
                set(&mut self.error, found[0]);
                set(&mut self.time, found[1]);
            }
            b"set" => return self.set(first, found[1].unwrap_or_default(), values),
            b"if" | b"elif" => return self.condition(*name == b"if", first, values),
            b"else" => (self.passes, self.condition) = (!self.chosen, 2),
            b"endif" => (self.passes, self.chosen, self.condition) = (true, false, 0),
            b"block" => (self.passes, self.block) = (false, true),
            b"endblock" => (self.passes, self.block) = (true, false),
            // What it includes would be another request within this one.
            _ => return Ok(Failed),
        }
        Ok(Done)
    }

    /// A variable by its name, in lower case; an error if it cannot be told.
    fn variable(&self, name: &[u8], values: &mut dyn FilterValues) -> Result<Option<Vec<u8>>, Broken> {
        if let [digit @ b'0'..=b'9'] = name
            && let Some(capture) = self.captures.get(usize::from(digit - b'0'))
        {
            return Ok(Some(capture.clone()));
        }
        if let Some((_, value)) = self.values.iter().find(|(known, _)| known == name) {
            return Ok(Some(value.clone()));
        }
        let local;
        let zone = match name {
            b"date_gmt" => Zone { name: "GMT", offset: 0 },
            b"date_local" => {
                let second = values.second();
                local = local_name(second);
                Zone { name: &local, offset: local_offset(second) }
            }
            _ => return Ok(values.named(name)),
        };
        time(values.second(), zone, &self.time).map(Some).ok_or(Broken)
    }

    fn keep(&mut self, name: &[u8], value: Vec<u8>) -> Outcome {
        // A group of an expression is not changed.
        if matches!(name, [digit @ b'0'..=b'9'] if usize::from(digit - b'0') < self.captures.len()) {
            return Done;
        }
        let full = self.values.len() >= VALUES_MAX;
        match self.values.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None if full => return Failed,
            None => self.values.push((name.to_vec(), value)),
        }
        Done
    }

    fn echo(
        &mut self,
        name: &[u8],
        (default, encoding): (Option<&[u8]>, Option<&[u8]>),
        out: &mut Vec<u8>,
        values: &mut dyn FilterValues,
    ) -> Outcome {
        let Ok(value) = self.variable(&name.to_ascii_lowercase(), values) else { return Failed };
        let value = value.unwrap_or_else(|| default.unwrap_or(b"(none)").to_vec());
        if value.is_empty() {
            return Done;
        }
        match encoding {
            Some(b"none") => self.encoding = Encoding::None,
            Some(b"url") => self.encoding = Encoding::Url,
            Some(b"entity") => self.encoding = Encoding::Entity,
            Some(other) => tell(values, &[b"unknown encoding \"", other, b"\" in the \"echo\" command"]),
            None => {}
        }
        match self.encoding {
            Encoding::None => out.extend_from_slice(&value),
            Encoding::Url => escape_url(&value, out),
            Encoding::Entity => escape_html(&value, out),
        }
        Done
    }

    fn set(&mut self, name: &[u8], value: &[u8], values: &mut dyn FilterValues) -> Result<Outcome, Broken> {
        let Some(value) = self.evaluate(value, values)? else { return Ok(Failed) };
        Ok(self.keep(&name.to_ascii_lowercase(), value))
    }

    /// A text with its variables; nothing if it is none.
    fn evaluate(&self, text: &[u8], values: &mut dyn FilterValues) -> Result<Option<Vec<u8>>, Broken> {
        let mut out = Vec::new();
        let mut rest = text;
        let stops = text.contains(&b'$');
        while let Some((&byte, after)) = rest.split_first() {
            if out.len() > VALUE_MAX {
                return Ok(None);
            }
            if byte != b'$' || !stops {
                let length = unquote(rest, stops, &mut out);
                rest = &rest[length..];
                continue;
            }
            let bracket = after.first() == Some(&b'{');
            let start = if bracket { &after[1..] } else { after };
            let end = start.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
            let (name, behind) = start.split_at(end.unwrap_or(start.len()));
            rest = behind;
            if bracket {
                let [b'}', behind @ ..] = behind else {
                    tell(values, &[b"the closing bracket in \"", name, b"\" variable is missing"]);
                    return Ok(None);
                };
                rest = behind;
            }
            if name.is_empty() {
                tell(values, &[b"invalid variable name in \"", text, b"\""]);
                return Ok(None);
            }
            if let Some(value) = self.variable(&name.to_ascii_lowercase(), values)? {
                out.extend_from_slice(&value);
            }
        }
        Ok(Some(out).filter(|out| out.len() <= VALUE_MAX))
    }

    /// `if` and `elif`.
    fn condition(&mut self, begins: bool, text: &[u8], values: &mut dyn FilterValues) -> Result<Outcome, Broken> {
        if begins && self.condition > 0 {
            return fails(values, &[b"the \"if\" command inside the \"if\" command"]);
        }
        if self.chosen {
            self.passes = false;
            return Ok(Done);
        }
        let is_left = |byte: &u8| byte.is_ascii_alphanumeric() || b"${}_\"'".contains(byte);
        let length = text.iter().position(|byte| !is_left(byte)).unwrap_or(text.len());
        let (left, rest) = text.split_at(length);
        let rest = skip_blanks(rest);
        let Some(left) = self.evaluate(&left.to_ascii_lowercase(), values)? else { return Ok(Failed) };
        let (negated, right) = match rest {
            [] => (false, None),
            [b'=', right @ ..] => (false, Some(skip_blanks(right))),
            [b'!', b'=', right @ ..] => (true, Some(skip_blanks(right))),
            _ => return fails(values, &[b"invalid expression in \"", text, b"\""]),
        };
        let holds = match right {
            None => !left.is_empty(),
            Some([b'/', pattern @ .., b'/']) => {
                let Some(pattern) = self.evaluate(pattern, values)? else { return Ok(Failed) };
                match self.matches(&pattern, &left) {
                    Some(matches) => matches != negated,
                    None => return Ok(Failed),
                }
            }
            Some([b'/', _, ..]) => return fails(values, &[b"invalid expression in \"", text, b"\""]),
            Some(right) => {
                let right = right.strip_prefix(b"\\").filter(|rest| rest.first() == Some(&b'/')).unwrap_or(right);
                let Some(right) = self.evaluate(right, values)? else { return Ok(Failed) };
                (left == right) != negated
            }
        };
        (self.passes, self.chosen, self.condition) = (holds, holds, 1);
        Ok(Done)
    }

    /// Whether an expression matches; nothing if it is none, or went astray.
    fn matches(&mut self, pattern: &[u8], subject: &[u8]) -> Option<bool> {
        let regex = Regex::new(pattern, RegexOptions { caseless: false }).ok()?;
        let mut matcher = Matcher::new()?;
        let Some(found) = matcher.find(&regex, subject).ok()? else { return Some(false) };
        let group = |number: usize| found.get(number).and_then(|range| subject.get(range)).unwrap_or_default().to_vec();
        let last = (0..=regex.groups() as usize).rev().find(|number| found.get(*number).is_some()).unwrap_or(0);
        self.captures = (0..=last).map(group).collect();
        let named: Vec<(Vec<u8>, Vec<u8>)> =
            regex.names().iter().map(|(name, number)| (name.as_bytes().to_vec(), group((*number).into()))).collect();
        for (name, value) in named {
            self.keep(&name.to_ascii_lowercase(), value);
        }
        Some(true)
    }
}

/// The error log is told.
fn tell(values: &mut dyn FilterValues, parts: &[&[u8]]) {
    values.tell(&|| parts.concat());
}

/// The same of a command that fails.
fn fails(values: &mut dyn FilterValues, parts: &[&[u8]]) -> Result<Outcome, Broken> {
    tell(values, parts);
    Ok(Failed)
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[start..]
}
