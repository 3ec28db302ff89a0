//! What is missing, and what to run.

use core::fmt;

/// What is missing on this machine, with the commands that mend it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// What is wrong: a sentence without its full stop.
    pub what: String,
    /// Each of these mends it, or a step of it.
    pub run: Vec<String>,
    /// What else can be done.
    pub otherwise: Option<String>,
}

impl Remedy {
    /// What is wrong.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), run: Vec::new(), otherwise: None }
    }

    /// A command that mends it, or a step of it.
    #[must_use]
    pub fn run(mut self, command: impl Into<String>) -> Self {
        self.run.push(command.into());
        self
    }

    /// What else can be done.
    #[must_use]
    pub fn or(mut self, otherwise: impl Into<String>) -> Self {
        self.otherwise = Some(otherwise.into());
        self
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for command in &self.run {
            write!(f, "\n  run: {command}")?;
        }
        match &self.otherwise {
            Some(otherwise) => write!(f, "\n  or: {otherwise}"),
            None => Ok(()),
        }
    }
}
