//! What an experiment does.

use crate::Failure;
use crate::runs::{ArmResults, Check, Figure, FigureCurve, Run};
use demo::child::Interrupt;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// One side of the comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arm {
    /// Its name in tables and results.
    pub name: String,
    /// What must be alike for a comparison to mean something: connections,
    /// size of the response, link.
    pub conditions: BTreeMap<String, String>,
    /// Why it cannot be measured here, if so.
    pub left_out: Option<String>,
}

/// An experiment's own part.
pub trait Procedure {
    /// What is compared, in the order of tables; at least one.
    fn arms(&self) -> Vec<Arm>;

    /// What each run measures, in the order of tables.
    fn figures(&self) -> Vec<Figure>;

    /// Which of them are drawn as curves.
    fn curves(&self) -> Vec<FigureCurve> {
        Vec::new()
    }

    /// Programs and libraries measured or used, with their versions.
    fn tools(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// What a reader of the figures should know.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs one arm once.
    ///
    /// # Errors
    /// If there is no figure to be had; ends the experiment.
    fn run(&mut self, arm: usize, setting: &Setting) -> Result<Run, Failure>;

    /// Whether the shapes that are expected came out; all arms but the
    /// control.
    fn checks(&self, arms: &[ArmResults]) -> Vec<Check> {
        let _ = arms;
        Vec::new()
    }
}

/// What a run is given.
#[derive(Debug)]
pub struct Setting<'a> {
    /// Of its own for every run.
    pub seed: u64,
    /// Looked at wherever a run waits.
    pub interrupt: &'a Interrupt,
    /// Where it says how far it is.
    pub progress: &'a Progress,
}

/// What a file's table says of a procedure.
pub trait ProcedureSettings {
    /// The procedure with these settings.
    ///
    /// # Errors
    /// If they make no sense, or the machine lacks what all arms need.
    fn procedure(&self) -> Result<Box<dyn Procedure>, Failure>;
}

/// A line on the terminal that says how far a run is; nothing elsewhere, for
/// there each run has its own line.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    next: Cell<Instant>,
}

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(500);

impl Default for Progress {
    fn default() -> Self {
        Self { shown: std::io::stderr().is_terminal(), next: Cell::new(demo::machine::now() + PERIOD) }
    }
}

impl Progress {
    /// Says `done` of `all`, at most twice a second.
    pub fn tell(&self, done: u64, all: u64) {
        let now = demo::machine::now();
        if self.shown && now >= self.next.get() {
            self.next.set(now + PERIOD);
            eprint!("\x1b[s{:3} %\x1b[u", done.saturating_mul(100) / all.max(1));
            let _ = std::io::stderr().flush();
        }
    }

    /// Ends the line's changes: what follows is the run's figures.
    pub(crate) fn clear(&self) {
        if self.shown {
            eprint!("\x1b[K");
        }
        self.next.set(demo::machine::now() + PERIOD);
    }
}
