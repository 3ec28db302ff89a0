//! The file of a test, or of an audit: read, or refused field by field.

use crate::local::SpecFolder;
use say::eprintln;
use spec::{FieldError, LoadTest};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code where a test's file makes no sense.
const NO_SENSE: u8 = 2;

/// The namespace where none is said, as everywhere in Kubernetes.
pub const NAMESPACE: &str = "default";

/// A test's file.
pub struct Opened {
    path: PathBuf,
    /// What it holds.
    pub text: String,
    /// Where what it names lies.
    pub files: SpecFolder,
}

impl Opened {
    /// Opens a test's file, with the folder of its secrets.
    ///
    /// # Errors
    /// If it cannot be read, in words for the user.
    pub fn open(path: &Path, secrets: Option<&Path>) -> Result<Self, String> {
        let (files, text) = SpecFolder::open(path, secrets)?;
        Ok(Self { path: path.to_owned(), text, files })
    }

    /// Whether it is an audit of nodes, and no test.
    pub fn is_audit(&self) -> bool {
        spec::kind(&self.text).as_deref() == Some("NodeAudit")
    }

    /// Its name, for people.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The test.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(&self) -> Result<LoadTest, Vec<FieldError>> {
        LoadTest::read(&self.text)
    }

    /// Says what is wrong, and answers the exit code.
    pub fn refuse(&self, wrong: &[FieldError]) -> ExitCode {
        wrong.iter().for_each(|one| eprintln!("nearside: {}: {one}", self.path.display()));
        ExitCode::from(NO_SENSE)
    }
}
