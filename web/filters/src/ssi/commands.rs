//! Commands are executed.

use super::SsiValues;
use super::include::{Include, split};
use super::text::{Zone, escape_url, time, unquote};
use super::words::Words;
use crate::{Broken, FilterValues};
use formats::markup::escape_html;
use formats::zone::{local_name, local_offset};
use pcre::{Matcher, Regex, RegexOptions};

/// Bytes of a value that others are put into, and values that are set, at most.
const VALUE_MAX: usize = 64 << 10;
const VALUES_MAX: usize = 1024;

/// Bytes of blocks, of all content of a request.
const BLOCKS_MAX: usize = 1 << 20;

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
        }
    }
}

impl Executor {
    /// Content outside of commands.
    pub fn plain(&self, text: &[u8], out: &mut Vec<u8>, values: &mut dyn FilterValues) {
        if self.passes {
            out.extend_from_slice(text);
        } else if self.block {
            add_to_block(text, values);
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
            if self.block {
                add_to_block(&words.written(), values);
            }
            return Ok(Done);
        }
        if needs > 0 && (self.condition == 0 || self.condition > needs) {
            return fails(values, &[b"invalid context of SSI command: \"", name, b"\""]);
        }
        if words.too_many {
            return fails(values, &[b"too many SSI command parameters: \"", name, b"\""]);
        }
        let Some(found) = parameters(words, (name, known), values) else { return Ok(Failed) };
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
            b"block" => {
                let blocks = &mut values.ssi().blocks;
                if blocks.len() >= VALUES_MAX {
                    return Ok(Failed);
                }
                blocks.push((first.to_vec(), Vec::new()));
                (self.passes, self.block) = (false, true);
            }
            b"endblock" => (self.passes, self.block) = (true, false),
            _ => return self.include(found, values),
        }
        Ok(Done)
    }

    /// A variable by its name, in lower case; an error if it cannot be told.
    fn variable(&self, name: &[u8], values: &mut dyn FilterValues) -> Result<Option<Vec<u8>>, Broken> {
        if let [digit @ b'0'..=b'9'] = name
            && let Some(capture) = values.ssi().captures.get(usize::from(digit - b'0'))
        {
            return Ok(Some(capture.clone()));
        }
        if let Some((_, value)) = values.ssi().values.iter().find(|(known, _)| known == name) {
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

    /// `include`: another request within this one.
    fn include(&self, found: [Option<&[u8]>; 5], values: &mut dyn FilterValues) -> Result<Outcome, Broken> {
        let [path, file, wait, set, stub] = found;
        let (target, waits) = match (path, file, wait) {
            (Some(path), Some(file), _) => {
                let parts: [&[u8]; 5] = [b"inclusion may be either virtual=\"", path, b"\" or file=\"", file, b"\""];
                return fails(values, &parts);
            }
            (None, None, _) => return fails(values, &[b"no parameter in \"include\" SSI command"]),
            _ if set.is_some() && stub.is_some() => {
                return fails(values, &[b"\"set\" and \"stub\" cannot be used together in \"include\" SSI command"]);
            }
            (None, Some(file), Some(_)) => {
                return fails(values, &[b"\"wait\" cannot be used with file=\"", file, b"\""]);
            }
            (None, Some(file), None) => (file, true),
            (Some(path), None, None) => (path, false),
            (Some(path), None, Some(wait)) if wait.eq_ignore_ascii_case(b"no") => (path, false),
            (Some(path), None, Some(wait)) if wait.eq_ignore_ascii_case(b"yes") => (path, true),
            (Some(_), None, Some(wait)) => {
                return fails(values, &[b"invalid value \"", wait, b"\" in the \"wait\" parameter"]);
            }
        };
        let Some(mut text) = self.evaluate(target, values)? else { return Ok(Failed) };
        if text.first().map_or(!target.contains(&b'$'), |first| *first != b'/') {
            // Beside what includes it.
            let mut beside = values.path();
            beside.truncate(beside.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1));
            text.splice(0..0, beside);
        }
        let (uri, args) = match split(&text) {
            Ok(parts) => parts,
            Err(path) => return fails(values, &[b"unsafe URI \"", &path, b"\" was detected"]),
        };
        let stub = match stub {
            None => None,
            Some(name) => {
                let block = values.ssi().blocks.iter().find(|(known, _)| known == name).map(|(_, block)| block.clone());
                let Some(block) = block else {
                    return fails(values, &[b"\"stub\"=\"", name, b"\" for \"include\" not found"]);
                };
                Some(block)
            }
        };
        let set = set.map(<[u8]>::to_ascii_lowercase);
        if let Some(name) = &set
            && values.ssi().keep(name, Vec::new(), false) == Failed
        {
            return Ok(Failed);
        }
        let waits = waits || set.is_some();
        Ok(if values.include(Include { uri, args, waits, set, stub }) { Done } else { Failed })
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
        Ok(values.ssi().keep(&name.to_ascii_lowercase(), value, true))
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
                match matches(&pattern, &left, values.ssi()) {
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
}

impl SsiValues {
    /// Sets a variable: or lets it be as it is, if it is there.
    pub(super) fn keep(&mut self, name: &[u8], value: Vec<u8>, replaces: bool) -> Outcome {
        // A group of an expression is not changed.
        if matches!(name, [digit @ b'0'..=b'9'] if usize::from(digit - b'0') < self.captures.len()) {
            return Done;
        }
        let full = self.values.len() >= VALUES_MAX;
        match self.values.iter_mut().find(|(known, _)| known == name) {
            Some(_) if !replaces => {}
            Some((_, known)) => *known = value,
            None if full => return Failed,
            None => self.values.push((name.to_vec(), value)),
        }
        Done
    }

    /// Sets a variable to what was included.
    pub fn set(&mut self, name: &[u8], value: Vec<u8>) {
        let _ = self.keep(name, value, true);
    }
}

/// Some more of the block that is being read.
fn add_to_block(text: &[u8], values: &mut dyn FilterValues) {
    let blocks = &mut values.ssi().blocks;
    let held: usize = blocks.iter().map(|(_, block)| block.len()).sum();
    if held + text.len() > BLOCKS_MAX {
        return tell(values, &[b"too long \"block\" SSI command"]);
    }
    if let Some((_, block)) = blocks.last_mut() {
        block.extend_from_slice(text);
    }
}

/// Whether an expression matches; nothing if it is none, or went astray.
fn matches(pattern: &[u8], subject: &[u8], values: &mut SsiValues) -> Option<bool> {
    let regex = Regex::new(pattern, RegexOptions { caseless: false }).ok()?;
    let mut matcher = Matcher::new()?;
    let Some(found) = matcher.find(&regex, subject).ok()? else { return Some(false) };
    let group = |number: usize| found.get(number).and_then(|range| subject.get(range)).unwrap_or_default().to_vec();
    let last = (0..=regex.groups() as usize).rev().find(|number| found.get(*number).is_some()).unwrap_or(0);
    values.captures = (0..=last).map(group).collect();
    let named: Vec<(Vec<u8>, Vec<u8>)> =
        regex.names().iter().map(|(name, number)| (name.as_bytes().to_vec(), group((*number).into()))).collect();
    for (name, value) in named {
        values.keep(&name.to_ascii_lowercase(), value, true);
    }
    Some(true)
}

/// The values of a command's parameters; nothing if they are not its own, or not all there.
fn parameters<'w>(
    words: &'w Words,
    (name, known): (&[u8], &[(&[u8], bool)]),
    values: &mut dyn FilterValues,
) -> Option<[Option<&'w [u8]>; 5]> {
    let mut found: [Option<&[u8]>; 5] = [None; 5];
    for (word, value) in &words.parameters {
        match known.iter().position(|(known, _)| known == word) {
            Some(at) if found[at].is_none() => found[at] = Some(value),
            at => {
                let what: &[u8] = if at.is_some() { b"duplicate \"" } else { b"invalid parameter name: \"" };
                let place: &[u8] = if at.is_some() { b"\" parameter in \"" } else { b"\" in \"" };
                tell(values, &[what, word, place, name, b"\" SSI command"]);
                return None;
            }
        }
    }
    if let Some(((absent, _), _)) = known.iter().zip(&found).find(|((_, must), found)| *must && found.is_none()) {
        let what: [&[u8]; 5] = [b"mandatory \"", absent, b"\" parameter is absent in \"", name, b"\" SSI command"];
        tell(values, &what);
        return None;
    }
    Some(found)
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
