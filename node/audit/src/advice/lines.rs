//! What a file says: its settings, and the lines that say nothing.

use super::setting::Setting;

/// A line that is no setting, in a file that has others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
    /// What it was probably meant to be, if that can be told.
    pub meant: Option<String>,
}

impl Fault {
    /// File and line.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// A file, or several, as they were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Advice {
    /// Settings, in the order in which they act.
    pub settings: Vec<Setting>,
    /// Lines that are none: each with the number of settings before it.
    pub faults: Vec<(usize, Fault)>,
}

impl Advice {
    /// Adds a line that is no setting, behind all that is there.
    pub(crate) fn fault(&mut self, file: &str, line: usize, text: &str, why: &str, meant: Option<String>) {
        let fault = Fault { file: file.to_owned(), line, text: text.to_owned(), why: why.to_owned(), meant };
        self.faults.push((self.settings.len(), fault));
    }

    /// Gives each line another number.
    pub(crate) fn place(&mut self, place: impl Fn(usize) -> usize) {
        self.settings.iter_mut().for_each(|one| one.line = place(one.line));
        self.faults.iter_mut().for_each(|(_, one)| one.line = place(one.line));
    }

    /// Adds another file behind this one.
    pub fn extend(&mut self, other: Self) {
        let before = self.settings.len();
        self.settings.extend(other.settings);
        self.faults.extend(other.faults.into_iter().map(|(at, fault)| (before + at, fault)));
    }
}

impl From<Vec<Setting>> for Advice {
    fn from(settings: Vec<Setting>) -> Self {
        Self { settings, faults: Vec::new() }
    }
}
