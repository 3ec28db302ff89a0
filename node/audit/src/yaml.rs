//! YAML, as a tree that knows its lines.
//!
//! Manifests come from elsewhere, so what a parser would do for convenience is
//! refused: aliases (ten lines of which can stand for gigabytes), keys that
//! are there twice (of which other readers take the first, or the last), and
//! everything past a size or depth that no manifest has.

use core::fmt;
use granit_parser::{Event, Parser};

/// A place in a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The line where it begins, from 1.
    pub line: usize,
    /// What stands there.
    pub value: Value,
}

/// What stands at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A text, a number, a truth: as it was written. What is not there at all,
    /// `~` and `null` are empty.
    Scalar(String),
    /// A text whose lines stand as they are, behind a `|`: the place is that
    /// of the first.
    Block(String),
    /// A list.
    List(Vec<Node>),
    /// Keys in their order.
    Map(Vec<(String, Node)>),
}

/// Why a text is no YAML, or not any that is read here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct YamlError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for YamlError {}

/// Deeper nesting is no manifest; a pod's deepest field is at 12.
const DEEPEST: usize = 48;
/// The most places of a file. A file of the size allowed, a letter a line,
/// has ten times as many.
const MOST_NODES: usize = 100_000;
/// The most keys of one map: each new one is compared with them all.
const MOST_KEYS: usize = 2_000;

/// The documents of a text, in their order; empty ones are left out.
///
/// # Errors
/// [`YamlError`], with the line.
pub fn documents(text: &str) -> Result<Vec<Node>, YamlError> {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut nodes = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|why| YamlError { line: why.marker().line(), why: plain(&why.to_string()) })?;
        let line = span.start.line();
        let wrong = |why: &str| YamlError { line, why: why.to_owned() };
        let done = match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return Err(wrong("an alias (*name): aliases are not followed; write it out"));
            }
            Event::SequenceStart(..) => {
                open.push(Open { line, of: Of::List(Vec::new()) });
                None
            }
            Event::MappingStart(..) => {
                open.push(Open { line, of: Of::Map(Vec::new(), None) });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(Open::close),
            Event::Scalar(text, style, _, tag) => {
                let absent = tag.is_none()
                    && style == granit_parser::ScalarStyle::Plain
                    && matches!(text.as_ref(), "~" | "null" | "Null" | "NULL");
                let text = if absent { String::new() } else { text.into_owned() };
                let block = style == granit_parser::ScalarStyle::Literal;
                Some(Node { line, value: if block { Value::Block(text) } else { Value::Scalar(text) } })
            }
            _ => None,
        };
        if open.len() > DEEPEST {
            return Err(wrong("nested deeper than any manifest"));
        }
        let Some(node) = done else { continue };
        nodes += 1;
        if nodes > MOST_NODES {
            return Err(wrong("more places than any manifest has"));
        }
        match open.last_mut() {
            Some(parent) => parent.take(node)?,
            None if node.value == Value::Scalar(String::new()) => {}
            None => documents.push(node),
        }
    }
    Ok(documents)
}

/// An error of the parser without the place, which we name ourselves.
fn plain(text: &str) -> String {
    let end = text.find(" at byte ").or_else(|| text.find(" at line ")).unwrap_or(text.len());
    text.get(..end).unwrap_or(text).to_owned()
}

/// A list or map whose end has not come yet.
struct Open {
    line: usize,
    of: Of,
}

enum Of {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<String>),
}

impl Open {
    fn take(&mut self, node: Node) -> Result<(), YamlError> {
        match &mut self.of {
            Of::List(list) => list.push(node),
            Of::Map(map, key) => match key.take() {
                Some(key) => map.push((key, node)),
                None => {
                    let Value::Scalar(name) = node.value else {
                        return Err(YamlError { line: node.line, why: "a key that is no plain text".to_owned() });
                    };
                    if map.len() >= MOST_KEYS {
                        return Err(YamlError { line: node.line, why: "more keys than any manifest has".to_owned() });
                    }
                    if map.iter().any(|(other, _)| *other == name) {
                        return Err(YamlError { line: node.line, why: format!("the key {name} is there twice") });
                    }
                    *key = Some(name);
                }
            },
        }
        Ok(())
    }

    fn close(self) -> Node {
        let value = match self.of {
            Of::List(list) => Value::List(list),
            Of::Map(map, _) => Value::Map(map),
        };
        Node { line: self.line, value }
    }
}

impl Node {
    /// What stands under a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(map) => map.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// What stands under keys with dots between them; no key here has one.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    /// A text as it was written.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) | Value::Block(text) => Some(text),
            _ => None,
        }
    }

    /// The text under keys with dots between them; an empty one is none.
    #[must_use]
    pub fn text_at(&self, path: &str) -> Option<&str> {
        self.at(path)?.text().filter(|text| !text.is_empty())
    }

    /// The places of a list; of anything else none.
    #[must_use]
    pub fn list(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// Keys and what stands under them; of anything else none.
    #[must_use]
    pub fn map(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(map) => map,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_values_are_as_written() {
        let found = documents(
            "---\na: 1\nb:\n  - x\n  - 'y z'\nc: |\n  one\n  two\n---\n---\n{\"d\": \
                null}\n",
        )
        .expect("yaml");
        assert_eq!(found.len(), 2);
        let first = &found[0];
        assert_eq!(first.text_at("a"), Some("1"));
        let list = first.get("b").expect("b");
        assert_eq!((list.list()[1].text(), list.list()[1].line), (Some("y z"), 5));
        let block = first.get("c").expect("c");
        assert_eq!((block.text(), block.line), (Some("one\ntwo\n"), 7));
        assert_eq!(found[1].text_at("d"), None);
    }

    #[test]
    fn what_no_manifest_has_is_refused_with_its_line() {
        let error = |text: &str| documents(text).expect_err("refused");
        let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
        assert_eq!((error(bomb).line, error(bomb).why.contains("alias")), (2, true));
        let twice = error("a: 1\nb: 2\na: 3\n");
        assert_eq!((twice.line, twice.why.as_str()), (3, "the key a is there twice"));
        assert!(error(&format!("{}{}", "[".repeat(60), "]".repeat(60))).why.contains("deeper"));
        assert!(error(&"- ".repeat(100)).why.contains("deeper"));
        assert!(error(&"-\n".repeat(MOST_NODES + 2)).why.contains("more places"));
        assert!(error("a: 1\nb: [1,\n}\n").line >= 2);
        assert_eq!(error("? [1]\n: 2\n").line, 1);
        assert!(documents("a: 'no end").is_err());
        assert_eq!(documents("").expect("nothing"), Vec::new());
    }
}
