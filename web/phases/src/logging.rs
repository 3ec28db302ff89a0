//! What is logged of requests: formats, places, conditions.

use crate::value::Value;
use std::path::PathBuf;

/// Where lines go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTarget {
    /// Appended to this file.
    File(PathBuf),
}

/// What a line says: `log_format`.
#[derive(Clone, Debug)]
pub struct LogFormat {
    /// Its name.
    pub name: Box<[u8]>,
    /// The text, with variables.
    pub text: Value,
    /// How what variables stand for is written.
    pub escape: LogEscape,
}

/// How what a variable stands for is written in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogEscape {
    /// What is not printable ASCII, `"` and `\` as `\xXX`; nothing as `-`.
    #[default]
    Default,
    /// As in a JSON string; nothing as nothing.
    Json,
    /// As it is.
    None,
}

/// `access_log`: one line of each request.
#[derive(Clone, Debug)]
pub struct LogUse {
    /// The place's number in [`crate::Program::logs`].
    pub log: u16,
    /// The format's number in [`crate::Program::formats`].
    pub format: u16,
    /// `if=`: not where this is empty or `0`.
    pub condition: Option<Value>,
}
