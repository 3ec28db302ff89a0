//! What can keep the demo from running.

use std::fmt;
use std::io;
use std::process::ExitStatus;

/// Why the demo ended early.
#[derive(Debug)]
pub enum Error {
    /// The user asked to stop. Nothing is left behind.
    Interrupted,
    /// The machine lacks something that the whole demo needs.
    Machine(String),
    /// The operating system refused something.
    Io {
        /// What was tried.
        tried: String,
        /// Its answer.
        source: io::Error,
    },
    /// A program that was started ended with an error.
    Program {
        /// Its name.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote to standard error.
        said: String,
    },
    /// A program's output is not what it is known to print.
    Output {
        /// Its name.
        name: String,
        /// What was looked for.
        missing: String,
    },
}

impl Error {
    /// Puts what was tried in front of an I/O error.
    pub fn io(tried: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let tried = tried.into();
        move |source| Self::Io { tried, source }
    }

    /// A program printed something else than was expected.
    pub fn output(name: &str, missing: impl Into<String>) -> Self {
        Self::Output { name: name.to_owned(), missing: missing.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Machine(why) => f.write_str(why),
            Self::Io { tried, source } => write!(f, "{tried}: {source}"),
            Self::Program { name, status, said } if said.is_empty() => write!(f, "{name} ended with {status}"),
            Self::Program { name, status, said } => write!(f, "{name} ended with {status} and said:\n{said}"),
            Self::Output { name, missing } => write!(f, "{name} printed no {missing}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
