//! A site in TOML: the same hosts, locations and rules that an nginx.conf can have,
//! without its language.
//!
//! ```text
//! text ─► tables, with places ─► what each key wants (keys) ─► directives (lower)
//!                                                    └► nginx::compile ─► Program
//! ```
//!
//! | module | for |
//! | --- | --- |
//! | `keys` | every key: where it may stand, what its value is, what it means |
//! | `check` | tables are held against the keys |
//! | `lower` | what is meant, as directives, each with the place that it came from |
//! | `statement` | a directive as text, whatever its words have in them |
//! | `schema` | the keys as JSON Schema |
//!
//! A key that is not known is refused, with the one that may have been meant; what is
//! wrong is told with line and column. From the directives on, all is as with an
//! nginx.conf: there is one meaning, and one compiler.
#![forbid(unsafe_code)]

mod check;
mod keys;
mod lower;
mod schema;
mod statement;
#[cfg(test)]
mod tests;

pub use keys::table;
pub use schema::schema;

use core::fmt;
use features::key::KeyError;
use nginx::{Compiled, ConfFiles, Configuration, Surroundings, compile};
use statement::Statements;
use std::io;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// The longest file that is read.
pub const TEXT_MAX: u64 = 16 << 20;

/// Where something stands in the file, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TextPlace {
    /// The line.
    pub line: u32,
    /// The character in it.
    pub column: u32,
}

/// What is wrong with a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteTomlError {
    /// The file.
    pub path: PathBuf,
    /// Where it stands in it; nothing where all of it is meant.
    pub place: Option<TextPlace>,
    /// What it is.
    pub text: String,
}

impl fmt::Display for SiteTomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(TextPlace { line, column }) => {
                write!(f, "{}:{line}:{column}: {}", self.path.display(), self.text)
            }
            None => write!(f, "{}: {}", self.path.display(), self.text),
        }
    }
}

impl std::error::Error for SiteTomlError {}

/// A site, and what it means.
#[derive(Debug)]
pub struct CompiledSite {
    /// As directives, whose places are lines of the file.
    pub configuration: Configuration,
    /// What it means.
    pub compiled: Compiled,
}

/// What is wrong at a place in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wrong {
    /// The byte.
    at: usize,
    text: String,
}

impl From<KeyError> for Wrong {
    fn from(KeyError { at, text }: KeyError) -> Self {
        Self { at, text }
    }
}

/// Compiles the text of the file at `path`, which lies in the prefix.
///
/// # Errors
/// What is wrong with it.
pub fn compile_site(text: &str, path: &Path, around: Surroundings<'_>) -> Result<CompiledSite, SiteTomlError> {
    let error = |at: Option<usize>, what: String| SiteTomlError {
        path: path.to_owned(),
        place: at.map(|at| place_of(text, at)),
        text: what,
    };
    let statements = lowered(text).map_err(|wrong| error(Some(wrong.at), wrong.text))?;
    let told = |message: &nginx::Message| {
        let from = message.place.as_ref().and_then(|(_, line)| statements.origin(*line));
        match from {
            Some((at, key)) => error(Some(at), format!("{key}: {}", message.text)),
            None => error(None, message.text.clone()),
        }
    };
    // Other files are looked for beside it, wherever this process is.
    let whole = around.prefix.join(path.file_name().unwrap_or_default());
    let mut source = Lowered { path: &whole, text: statements.text() };
    let read = Configuration::read(&mut source, &whole, b"daemon off;");
    let mut configuration = read.map_err(|why| told(&why.message))?;
    let mut compiled = compile(&configuration, around).map_err(|why| told(&why.message))?;
    // From here on places are those of the file.
    let line = |line: u32| statements.origin(line).map_or(0, |(at, _)| place_of(text, at).line);
    for place in compiled.places.iter_mut().flatten() {
        place.line = line(place.line);
    }
    for note in &mut compiled.notes {
        note.place.line = line(note.place.line);
    }
    for message in compiled.warnings.iter_mut().chain(&mut configuration.warnings) {
        if let Some((_, at)) = &mut message.place {
            *at = line(*at);
        }
    }
    for file in &mut configuration.files {
        (file.path, file.text) = (path.to_owned(), text.as_bytes().into());
    }
    Ok(CompiledSite { configuration, compiled })
}

/// The directives that a text comes to, one on each line: for whoever goes on with an
/// nginx.conf.
///
/// # Errors
/// What is wrong with it.
pub fn as_nginx_conf(text: &str, path: &Path) -> Result<String, SiteTomlError> {
    let statements = lowered(text).map_err(|wrong| SiteTomlError {
        path: path.to_owned(),
        place: Some(place_of(text, wrong.at)),
        text: wrong.text,
    })?;
    Ok(statements.text().to_owned())
}

fn lowered(text: &str) -> Result<Statements, Wrong> {
    let table = DeTable::parse(text).map_err(|why| {
        let at = why.span().map_or(0, |span| span.start);
        Wrong { at, text: why.message().trim().replace('\n', "; ") }
    })?;
    check::site(table.get_ref())?;
    lower::site(table.get_ref())
}

fn place_of(text: &str, at: usize) -> TextPlace {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    TextPlace { line: u32::try_from(line).unwrap_or(u32::MAX), column: u32::try_from(column).unwrap_or(u32::MAX) }
}

/// The directives, as the one file that there is.
struct Lowered<'a> {
    path: &'a Path,
    text: &'a str,
}

impl ConfFiles for Lowered<'_> {
    fn read(&mut self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
        if path == self.path { Ok(self.text.as_bytes().to_vec()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn matching(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}
