//! Loops of scripts: what is in one whose values are known, for each of them.

use super::commands::{Command, begins_loop};
use std::collections::BTreeSet;

/// Commands that a script may become by its loops, at most, and bytes of them.
const UNROLLED: usize = 10_000;
const BYTES: usize = 4 << 20;

/// Loops within loops, at most.
const DEEPEST: usize = 16;

/// Variables that are told apart, at most.
const NAMES: usize = 64;

/// Numbers that a sequence may have, at most.
const COUNTED: u64 = 4_096;

/// The commands with those of loops for each value (`for x in A B`, `{0..3}`, `$(seq 0 3)`, `((i=0; i<4; i++))`).
/// Where values are not known, the loop stays, and what names its variable is not understood.
pub(super) fn unrolled(commands: Vec<Command>) -> Vec<Command> {
    let mut left = Left { commands: UNROLLED + commands.len(), bytes: BYTES };
    unroll(&commands, &mut left, 0).unwrap_or_else(|| {
        let mut commands = commands;
        let names = Names(commands.iter().filter_map(variable).collect());
        commands.iter_mut().for_each(|one| one.vague |= names.are_in(one));
        commands
    })
}

/// What loops may still become.
struct Left {
    commands: usize,
    bytes: usize,
}

impl Left {
    /// A command with a variable's value in it, if there is room for it.
    fn take(&mut self, one: &Command, value: &str) -> Option<()> {
        let input = one.input.iter().map(|(_, text)| text);
        let texts = one.words.iter().chain(&one.output).chain(input);
        let each = |text: &String| text.len().saturating_add(text.matches('$').count().saturating_mul(value.len()));
        let bytes = texts.map(each).fold(one.text.len(), usize::saturating_add);
        self.commands = self.commands.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }
}

/// Nothing where they become too many, or lie too deep.
fn unroll(commands: &[Command], left: &mut Left, depth: usize) -> Option<Vec<Command>> {
    if depth > DEEPEST {
        return None;
    }
    let mut out = Vec::new();
    let mut at = 0;
    // What `read` gives a value is known to nobody.
    let mut vague = Names::default();
    while let Some(one) = commands.get(at) {
        at += 1;
        let Some(name) = variable(one) else {
            out.push(Command { vague: one.vague || vague.are_in(one), ..one.clone() });
            continue;
        };
        if one.words.first().is_some_and(|word| word == "read") {
            out.push(one.clone());
            vague.0.insert(name);
            continue;
        }
        let end = at + end_of(commands.get(at..).unwrap_or_default());
        let body = commands.get(at..end).unwrap_or_default();
        at = (end + 1).min(commands.len().max(end));
        // One without an end was cut off.
        let values = one
            .words
            .get(3..)
            .filter(|_| end < commands.len())
            .filter(|_| one.words.get(2).is_some_and(|word| word == "in"));
        if let Some(values) = values.and_then(all_values) {
            for value in values {
                left.commands = left.commands.checked_sub(1)?;
                let with = |one: &Command| left.take(one, &value).map(|()| one.with(&name, &value));
                let body: Vec<Command> = body.iter().map(with).collect::<Option<_>>()?;
                out.extend(unroll(&body, left, depth + 1)?);
            }
        } else {
            out.push(one.clone());
            let of = |one: &Command| Command { vague: one.vague || one.names(&name), ..one.clone() };
            out.extend(unroll(&body.iter().map(of).collect::<Vec<_>>(), left, depth + 1)?);
        }
    }
    Some(out)
}

/// Variables of values that nobody knows.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// Whether a command has one of them; of very many, whether it has any variable.
    fn are_in(&self, one: &Command) -> bool {
        match self.0.len() {
            0..=NAMES => self.0.iter().any(|name| one.names(name)),
            _ => one.words.iter().chain(&one.output).any(|text| text.contains('$')),
        }
    }
}

/// The variable that a command gives one value after the other.
fn variable(one: &Command) -> Option<String> {
    match one.words.as_slice() {
        [word, name, ..] if word == "for" || word == "select" => Some(name.clone()),
        [word, .., name] if word == "read" && !name.starts_with('-') => Some(name.clone()),
        _ => None,
    }
}

/// How many commands a loop has that begins before these: up to its `done`.
fn end_of(commands: &[Command]) -> usize {
    let mut depth = 0_usize;
    for (at, one) in commands.iter().enumerate() {
        match one.words.first().map(String::as_str) {
            Some("done") if depth == 0 => return at,
            Some("done") => depth -= 1,
            Some("for" | "select") => depth += 1,
            _ if begins_loop(&one.text) => depth += 1,
            _ => {}
        }
    }
    commands.len()
}

/// The values of a loop's words.
fn all_values(words: &[String]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        all.extend(values(word)?);
        if all.len() > UNROLLED {
            return None;
        }
    }
    Some(all)
}

/// The values of a loop's word; nothing where a shell alone knows them.
fn values(word: &str) -> Option<Vec<String>> {
    if let Some(inner) = word.strip_prefix("$(seq ").and_then(|rest| rest.strip_suffix(')')) {
        let numbers: Vec<u64> = inner.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        return match numbers[..] {
            [last] => counted(1, last),
            [first, last] => counted(first, last),
            _ => None,
        };
    }
    if word.contains(['$', '`']) {
        return None;
    }
    let Some((before, rest)) = word.split_once('{') else { return Some(vec![word.to_owned()]) };
    let (inner, after) = rest.split_once('}')?;
    let parts = match inner.split_once("..") {
        Some((first, last)) => counted(first.parse().ok()?, last.parse().ok()?)?,
        None => inner.split(',').map(str::to_owned).collect(),
    };
    // What is behind it may have another one.
    let after = values(after).filter(|after| after.len().saturating_mul(parts.len()) <= UNROLLED)?;
    Some(parts.iter().flat_map(|part| after.iter().map(move |after| format!("{before}{part}{after}"))).collect())
}

fn counted(first: u64, last: u64) -> Option<Vec<String>> {
    (last.saturating_sub(first) < COUNTED).then(|| (first..=last).map(|number| number.to_string()).collect())
}

impl Command {
    /// Whether a part of it is the value of this variable.
    fn names(&self, name: &str) -> bool {
        let in_text = |text: &String| replaced(text, name, "").is_some();
        self.words.iter().any(in_text)
            || self.output.as_ref().is_some_and(in_text)
            || self.input.as_ref().is_some_and(|(_, text)| in_text(text))
    }

    /// The same with a variable's value.
    fn with(&self, name: &str, value: &str) -> Self {
        let put = |text: &String| replaced(text, name, value).unwrap_or_else(|| text.clone());
        Self {
            words: self.words.iter().map(put).collect(),
            output: self.output.as_ref().map(put),
            input: self.input.as_ref().map(|(line, text)| (*line, put(text))),
            ..self.clone()
        }
    }
}

/// A text with a variable's value in the place of `$name` and `${name}`; nothing where it has none.
fn replaced(text: &str, name: &str, value: &str) -> Option<String> {
    let (mut out, mut rest, mut any) = (String::new(), text, false);
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let plain = behind.strip_prefix('$').and_then(|rest| rest.strip_prefix(name));
        let plain = plain.filter(|rest| !rest.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_'));
        let braced = || behind.strip_prefix("${")?.strip_prefix(name)?.strip_prefix('}');
        match plain.or_else(braced) {
            Some(next) => {
                out.push_str(value);
                (rest, any) = (next, true);
            }
            None => {
                out.push('$');
                rest = behind.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::super::commands::commands;
    use super::unrolled;

    /// Each command in words; `?` before one that is not understood.
    fn read(text: &str) -> Vec<String> {
        let shown = |one: super::Command| {
            let output = one.output.map(|path| format!(" > {path}")).unwrap_or_default();
            format!("{}{}{output}", if one.vague { "?" } else { "" }, one.words.join(" "))
        };
        unrolled(commands(text)).into_iter().map(shown).collect()
    }

    #[test]
    fn loops_of_known_values_are_their_commands() {
        for (text, expected) in [
            ("for x in a b; do c $x; done; d", vec!["c a", "c b", "d"]),
            ("for x in a b\ndo\n c ${x}y \"$x\"\n e > /f/$x\ndone", vec!["c ay a", "e > /f/a", "c by b", "e > /f/b"]),
            ("x=9; for x in 1 2; do c $x $xy; done", vec!["c 1 $xy", "c 2 $xy"]),
            ("for i in {0..2} 7; do c $i; done", vec!["c 0", "c 1", "c 2", "c 7"]),
            ("for i in e{a,b}{1..2}z; do c $i; done", vec!["c ea1z", "c ea2z", "c eb1z", "c eb2z"]),
            ("for i in $(seq 2 3); do c $i; done", vec!["c 2", "c 3"]),
            ("for ((i=0; i<2; i++)); do c $i; done", vec!["c 0", "c 1"]),
            ("for i in 1 2; do for k in x y; do c $i$k; done; done", vec!["c 1x", "c 1y", "c 2x", "c 2y"]),
            (
                "for i in 1 2; do while true; do c $i; done; d; done",
                vec!["true", "c 1", "done", "d", "true", "c 2", "done", "d"],
            ),
            ("for i in a; do f=/x/$i; c $f; done", vec!["c /x/a"]),
            ("for f in /sys/*/y; do echo 1 > $f; done", vec!["echo 1 > /sys/*/y"]),
            // Of values that nobody knows here.
            ("for i in $(ls /x); do c $i; d; done; e", vec!["for i in $(ls /x)", "?c $i", "d", "e"]),
            ("for i in $MANY; do c $i > /x/$i; done", vec!["for i in $MANY", "?c $i > /x/$i"]),
            ("for ((i=9; i>2; i--)); do c $i; done", vec!["for i in $(count)", "?c $i"]),
            ("while read -r l; do c $l; d; done", vec!["read -r l", "?c $l", "d", "done"]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn loops_that_become_too_much_stay_as_they_are() {
        let nested = "for a in {1..4000}; do for b in {1..4000}; do c $b; done; done";
        assert_eq!(read(nested).len(), 5, "{:?}", read(nested));
        let long = format!("for a in {} b; do c {}; done", "x".repeat(100_000), "$a".repeat(100_000));
        assert!(read(&long).iter().any(|one| one.starts_with("?c ")));
        let deep = format!("{}c $a{}", "for a in x; do ".repeat(5_000), "; done".repeat(5_000));
        assert!(read(&deep).iter().any(|one| one == "?c $a"));
        assert_eq!(read("for a in x; do c $a"), ["for a in x", "?c $a"], "without an end");
        assert!(
            !read("for ((;;)); do c; done").is_empty() && !read("for").is_empty() && !read("done; for x").is_empty()
        );
        assert!(read("for a in {1..99999999999}; do c $a; done").contains(&"?c $a".to_owned()));
    }
}
