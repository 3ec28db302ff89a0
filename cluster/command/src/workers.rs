//! The workers of a test, wherever they are.

use crate::cluster::Pods;
use crate::local::Processes;
use control::Gone;
use std::ffi::OsString;

/// Workers, wherever they are.
pub enum Workers {
    /// Processes of this machine, with each one's command line.
    Here(Processes, Vec<Vec<OsString>>),
    /// Pods, which their Job starts.
    Pods(Pods),
}

impl Workers {
    /// Starts a worker, if nobody else does.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn launch(&mut self, worker: u32) -> std::io::Result<()> {
        match self {
            Self::Here(processes, arguments) => match arguments.get(worker as usize) {
                Some(arguments) => processes.launch(worker, arguments),
                None => Ok(()),
            },
            Self::Pods(_) => Ok(()),
        }
    }

    /// Workers that ended since the last look, and how.
    pub fn ended(&mut self) -> Vec<(u32, Gone)> {
        match self {
            Self::Here(processes, _) => processes.ended(),
            Self::Pods(pods) => pods.ended(),
        }
    }

    /// Whether another test has the target.
    pub fn is_displaced(&self) -> bool {
        matches!(self, Self::Pods(pods) if pods.is_displaced())
    }

    /// Ends a worker at once, where it is this process's.
    pub fn kill(&mut self, worker: u32) {
        match self {
            Self::Here(processes, _) => processes.kill(worker),
            // They go with their Job, all at the end.
            Self::Pods(_) => {}
        }
    }

    /// The last words of a worker, or of who knows how it ended.
    pub fn words(&self, worker: u32) -> String {
        match self {
            Self::Here(processes, _) => processes.words(worker),
            Self::Pods(pods) => pods.words(worker),
        }
    }

    /// Nothing of them is left.
    pub fn finish(&mut self) {
        match self {
            Self::Here(processes, _) => processes.finish(),
            Self::Pods(pods) => pods.finish(),
        }
    }
}
