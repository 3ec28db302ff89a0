//! `nearside run`: a program that was not made for it runs on our own stack.
//!
//! The program gets a library preloaded (`libnearside_preload.so`), which takes its socket calls.
//! This process is its keeper: it has the link's descriptors, which it gives to whichever of the
//! program's processes first wants frames, resets what connects to the program's listeners by the
//! kernel, and passes on what the library has to say. It never sees a frame.
#![forbid(unsafe_code)]

mod board;
mod elf;
mod held_link;
mod keep;
mod listeners;
mod look;
mod orders;
mod processes;
mod seated;
mod stopped;

pub use look::Refused;

use say::Failure;
use seats::Terms;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunPlan {
    /// What is the program's own.
    pub terms: Terms,
    /// Workers that the program has, at most: there are seats for four times as many.
    pub workers: u8,
    /// The library; beside this program, or where the distribution puts it, if `None`.
    pub library: Option<PathBuf>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Runs the program, and keeps its link until the last of its processes has ended. Its exit status,
/// if the process that was started is the last.
///
/// # Errors
/// Why it cannot run on our stack, or the system's.
pub fn run(plan: &RunPlan) -> Result<ExitCode, Failure> {
    let program = look::find(&plan.program)?;
    look::judge(&program)?;
    let library = look::library(plan.library.as_deref())?;
    keep::keep(plan, &program, &library)
}

/// Tests whose sockets close when they are dropped hold it; who starts a process has it alone: for a moment that
/// process has copies of all of them.
#[cfg(test)]
static STARTS: std::sync::RwLock<()> = std::sync::RwLock::new(());
