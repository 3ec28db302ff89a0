//! Fields of a map, each with its place: which is not known is refused, and which is wrong is named.

use audit::yaml::{Node, Value};
use core::fmt;

/// Why a file is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldError {
    /// The field, as in `spec.rate`; nothing where it is the file as a whole.
    pub field: String,
    /// Its line, from 1; none where that is not known.
    pub line: usize,
    /// What is wrong, and what to write instead.
    pub why: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for FieldError {}

/// A map that is read field by field; what is wrong is gathered.
pub(crate) struct Fields<'a> {
    path: String,
    line: usize,
    map: &'a [(String, Node)],
    asked: Vec<&'static str>,
    wrong: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    /// The fields of what stands at `path`.
    pub fn new(path: &str, node: &'a Node) -> Self {
        let mut wrong = Vec::new();
        let is_map = matches!(node.value, Value::Map(_));
        let is_nothing = node.text().is_some_and(str::is_empty);
        if !is_map && !is_nothing {
            let why = "this is to be a map: fields with a colon, one below the other".to_owned();
            wrong.push(FieldError { field: path.to_owned(), line: node.line, why });
        }
        Self { path: path.to_owned(), line: node.line, map: node.map(), asked: Vec::new(), wrong }
    }

    /// The path of a field.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Where a field stands: its own line, or the map's where it is not there.
    fn line(&self, name: &str) -> usize {
        self.map.iter().find(|(known, _)| known == name).map_or(self.line, |(_, node)| node.line)
    }

    /// What is wrong with a field.
    pub fn refuse(&mut self, name: &str, why: impl Into<String>) {
        let error = FieldError { field: self.path(name), line: self.line(name), why: why.into() };
        self.wrong.push(error);
    }

    /// What is wrong in a field that has fields.
    pub fn take_wrong(&mut self, wrong: Vec<FieldError>) {
        self.wrong.extend(wrong);
    }

    /// What stands in a field, if anything does.
    pub fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        self.asked.push(name);
        let node = self.map.iter().find(|(known, _)| known == name).map(|(_, node)| node)?;
        let is_nothing = matches!(&node.value, Value::Scalar(text) if text.is_empty());
        (!is_nothing).then_some(node)
    }

    /// The text of a field, if it is there.
    pub fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let node = self.node(name)?;
        if node.text().is_none() {
            self.refuse(name, "this is to be one text or number");
        }
        node.text()
    }

    /// A field as `read` reads it, if it is there and can be read.
    pub fn value<T>(&mut self, name: &'static str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(name)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.refuse(name, format!("'{}': {why}", excerpt(text)));
                None
            }
        }
    }

    /// The same of a field that has to be there.
    pub fn needed<T>(&mut self, name: &'static str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if self.node(name).is_none() {
            self.refuse(name, "this is missing");
            return None;
        }
        self.value(name, read)
    }

    /// Fields that are somebody else's: they may be there, and say nothing here.
    pub fn ignore(&mut self, names: &[&'static str]) {
        self.asked.extend(names);
    }

    /// What is wrong, fields that nobody asked for among it.
    pub fn end(mut self) -> Vec<FieldError> {
        let unknown = self.map.iter().filter(|(name, _)| !self.asked.contains(&name.as_str()));
        let mut known = self.asked.clone();
        known.sort_unstable();
        known.dedup();
        let unknown: Vec<FieldError> = unknown
            .map(|(name, node)| {
                let why = format!("there is no such field here; there are {}", known.join(", "));
                FieldError { field: self.path(&excerpt(name)), line: node.line, why }
            })
            .collect();
        self.wrong.extend(unknown);
        self.wrong
    }
}

/// The beginning of a text from a file, as it may be shown.
pub(crate) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut shown: String = text.chars().take(SHOWN).map(|one| if one.is_control() { ' ' } else { one }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
