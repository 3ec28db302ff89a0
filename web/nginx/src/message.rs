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
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warn => "warn",
            Self::Emerg => "emerg",
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
    /// The reason.
    pub message: Message,
    /// What was said before it.
    pub warnings: Vec<Message>,
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl std::error::Error for ConfError {}
