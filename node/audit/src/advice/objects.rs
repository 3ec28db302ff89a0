//! What the objects of a manifest say, gathered with its places.

use super::lines::Advice;
use super::setting::{AdviceError, FileForm, Setting};
use crate::yaml::Node;

/// A file's settings under way.
pub(super) struct Manifest<'a> {
    pub file: &'a str,
    pub advice: Advice,
}

impl Manifest<'_> {
    pub(super) fn wrong(&self, node: &Node, why: &str) -> AdviceError {
        AdviceError::Line { file: self.file.to_owned(), line: node.line, why: why.to_owned() }
    }

    pub(super) fn add(&mut self, key: &str, subject: &str, node: &Node, value: impl Into<String>) {
        self.add_at(key, subject, node.line, value);
    }

    pub(super) fn add_at(&mut self, key: &str, subject: &str, line: usize, value: impl Into<String>) {
        self.advice.settings.push(Setting {
            key: key.to_owned(),
            value: value.into(),
            subject: subject.to_owned(),
            file: self.file.to_owned(),
            line,
            form: FileForm::Manifest,
            within: Vec::new(),
        });
    }
}
