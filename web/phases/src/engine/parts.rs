//! What an engine is made of, made ready by a thread that may wait.

use super::course::Loaded;
use crate::program::Program;
use access_log::LogSet;
use exchange::HeadWriter;
use files::{Directory, Reader};
use std::rc::Rc;
use std::sync::Arc;

/// What an engine is made of, made ready by a thread that may wait.
#[derive(Debug)]
pub struct EngineParts {
    pub(super) program: NewProgram,
    pub(super) directory: Directory,
    pub(super) reader: Reader,
    pub(super) cpus: Vec<usize>,
}

/// A program, and what writes its logs, made ready by a thread that may wait.
#[derive(Debug)]
pub struct NewProgram {
    program: Arc<Program>,
    logs: Option<LogSet>,
}

/// Bytes of log lines that wait for the writer, at most.
const LOG_BYTES: usize = 16 << 20;

impl NewProgram {
    /// Opens its logs, and starts what writes them, on `cpus`.
    ///
    /// # Errors
    /// See [`access_log::Error`].
    pub fn prepare(program: Arc<Program>, cpus: &[usize]) -> Result<Self, access_log::Error> {
        let logs = match program.logs.is_empty() {
            true => None,
            false => Some(LogSet::start(&program.open_logs()?, LOG_BYTES, cpus)?),
        };
        // Looked for here: a silo is not to walk all places.
        let _ = program.summary();
        Ok(Self { program, logs })
    }

    pub(super) fn load(self) -> Rc<Loaded> {
        Rc::new(Loaded::new(self.program, self.logs))
    }
}

impl EngineParts {
    /// Starts what reads files, on `cpus`.
    ///
    /// # Errors
    /// See [`files::Error`].
    pub fn new(program: NewProgram, directory: &Directory, cpus: &[usize]) -> Result<Self, files::Error> {
        let reader = Reader::open(directory, HeadWriter::nothing(), cpus)?;
        Ok(Self { program, directory: directory.clone(), reader, cpus: cpus.to_vec() })
    }
}
