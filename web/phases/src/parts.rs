//! What an engine is made of, made ready by a thread that may wait.

use super::loaded::Loaded;
use super::named::Names;
use access_log::LogSet;
use bodies::{BodyFolders, BodyLimits, BodyStore, FolderError};
use configuration::program::Program;
use exchange::HeadWriter;
use files::{Directory, Reader};
use resolver::Resolver;
use rustix::fd::OwnedFd;
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
    bodies: Option<BodyFolders>,
    resolver: Option<Resolver>,
}

/// Why a program cannot be taken up.
#[derive(Debug)]
pub enum PrepareError {
    /// A log of it.
    Log(access_log::Error),
    /// A folder for bodies of requests.
    Folder(FolderError),
    /// What resolves names, or asks about certificates.
    Resolver(std::io::Error),
}

impl From<access_log::Error> for PrepareError {
    fn from(why: access_log::Error) -> Self {
        Self::Log(why)
    }
}

/// Bytes of log lines that wait for the writer, at most.
const LOG_BYTES: usize = 16 << 20;

impl NewProgram {
    /// Opens its logs and its folders, and starts what writes there, on `cpus`.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub fn prepare(program: Arc<Program>, cpus: &[usize]) -> Result<Self, PrepareError> {
        let logs = match program.logs.is_empty() {
            true => None,
            false => Some(LogSet::start(&program.open_logs()?, LOG_BYTES, cpus)?),
        };
        // Looked for here: a silo is not to walk all places.
        let _ = program.summary();
        let bodies = match program.summary().reads {
            true => Some(BodyFolders::open(&program.temp_folders, cpus).map_err(PrepareError::Folder)?),
            false => None,
        };
        let resolver = match program.summary().resolves {
            true => Some(Resolver::start(cpus).map_err(PrepareError::Resolver)?),
            false => None,
        };
        if !program.staples.is_empty() {
            stapling::start(cpus).map_err(PrepareError::Resolver)?;
        }
        Ok(Self { program, logs, bodies, resolver })
    }

    pub(super) fn load(self, event: &Arc<OwnedFd>) -> Rc<Loaded> {
        let bodies = self.bodies.map(|folders| BodyStore::new(folders, BodyLimits::default(), event));
        let names = self.resolver.map(|resolver| Names::new(resolver, &self.program, event));
        Rc::new(Loaded::new(self.program, self.logs, bodies, names))
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
