//! What is said of a configuration, as nginx says it.

use core::fmt;
use std::path::PathBuf;

/// A file that was read, by the order of reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId(pub u32);

impl SourceId {
    /// The command line (`-g`), which is no file.
    pub const COMMAND_LINE: Self = Self(u32::MAX);
}

/// Where something stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The file.
    pub file: SourceId,
    /// The line, from 1.
    pub line: u32,
}

/// How bad it is, in nginx's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// It is taken, and something else may be meant.
    Warn,
    /// It is refused.
    Emerg,
    /// It is right, and cannot be had.
    Alert,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warn => "warn",
            Self::Emerg => "emerg",
            Self::Alert => "alert",
        })
    }
}

/// One line of what is said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// How bad it is.
    pub level: Level,
    /// What is the matter.
    pub text: String,
    /// The file, and the line in it; none where no file can be named. The
    /// command line has no lines.
    pub place: Option<(Option<PathBuf>, u32)>,
}

impl Message {
    /// What could stand in the place of what it refuses, if that is known.
    #[must_use]
    pub fn instead(&self) -> Option<&'static str> {
        crate::instead::of_message(&self.text)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.level, self.text)?;
        match &self.place {
            Some((Some(path), line)) => write!(f, " in {}:{line}", path.display()),
            Some((None, _)) => f.write_str(" in command line"),
            None => Ok(()),
        }
    }
}

/// Why a configuration is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfError {
    /// The first reason, which nginx would tell.
    pub message: Message,
    /// The other reasons, in the order in which they were found.
    pub others: Vec<Message>,
    /// What was said before it.
    pub warnings: Vec<Message>,
}

/// Reasons that are looked for, at most.
pub(crate) const REASONS_MAX: usize = 1_000;

impl ConfError {
    /// That of these reasons, if there is any.
    pub(crate) fn of(reasons: Vec<Message>, warnings: Vec<Message>) -> Option<Self> {
        let mut reasons = reasons.into_iter();
        let message = reasons.next()?;
        // A line that is wrong in two ways is told of once.
        let mut others: Vec<Message> = Vec::new();
        for other in reasons {
            if other != message && !others.contains(&other) {
                others.push(other);
            }
        }
        Some(Self { message, others, warnings })
    }

    /// All reasons, the first one first.
    pub fn reasons(&self) -> impl Iterator<Item = &Message> {
        core::iter::once(&self.message).chain(&self.others)
    }
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl std::error::Error for ConfError {}
