//! How far a long run is: a line that changes on a terminal; elsewhere a line
//! now and then, so that nobody has to read hundreds.

use crate::machine::now;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a line is printed where there is no terminal.
const PERIOD: Duration = Duration::from_secs(20);

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
    next: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), next: now() }
    }
}

impl Progress {
    /// Says what is done now.
    pub(crate) fn tell(&mut self, text: &str) {
        if self.terminal {
            // Shorter than most terminals are wide: a line that wraps cannot
            // be taken back.
            let text: String = text.chars().take(78).collect();
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
        } else if now() >= self.next {
            self.next = now() + PERIOD;
            eprintln!("{text}");
        }
    }

    /// Takes the line back.
    pub(crate) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}
