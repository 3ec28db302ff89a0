//! `ssi`: commands in content, `<!--#name parameter="value" -->`, are executed.
//!
//! What is outside of commands passes as it is, unless a condition or a block keeps it
//! back. The beginning of a command that the content ends in goes, as with nginx.

mod commands;
mod include;
mod text;
mod words;

use super::{Broken, FilterStep, FilterValues};
use commands::{Executor, Outcome};
use features::MediaTypes;
pub use include::Include;
use std::sync::Arc;
use words::{Word, Words};

/// `ssi` and what belongs to it.
#[derive(Clone, Debug)]
pub struct SsiRules {
    /// `ssi`
    pub on: bool,
    /// Nothing stands in place of a command that failed (`ssi_silent_errors`).
    pub silent: bool,
    /// `Last-Modified` stays (`ssi_last_modified`).
    pub last_modified: bool,
    /// Bytes of a parameter's value (`ssi_value_length`).
    pub value_length: usize,
    /// In content of these types.
    pub types: MediaTypes,
}

impl Default for SsiRules {
    fn default() -> Self {
        let types = MediaTypes::default();
        Self { on: false, silent: false, last_modified: false, value_length: 255, types }
    }
}

/// What commands have set, for all content of one request and of those within it.
#[derive(Debug, Default)]
pub struct SsiValues {
    /// Names and values.
    pub values: Vec<(Vec<u8>, Vec<u8>)>,
    /// Groups of the expression that matched last.
    pub captures: Vec<Vec<u8>>,
    /// Blocks, by their names.
    pub blocks: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What begins a command.
const BEGIN: &[u8] = b"<!--#";

/// One content whose commands are executed.
#[derive(Debug)]
pub struct Ssi {
    rules: Arc<SsiRules>,
    /// Bytes of [`BEGIN`] that were seen.
    begun: usize,
    /// The command that is being read, once all of [`BEGIN`] was.
    words: Words,
    executor: Executor,
}

impl Ssi {
    /// The start of a content.
    #[must_use]
    pub fn new(rules: Arc<SsiRules>) -> Self {
        Self { words: Words::new(rules.value_length), rules, begun: 0, executor: Executor::default() }
    }

    /// Takes some of `input`, which ends there if `last`, and appends to `out`; once it has
    /// appended `most` bytes it takes no more.
    ///
    /// # Errors
    /// A value could not be had: the answer cannot be sent to its end.
    pub fn take(
        &mut self,
        (input, last): (&[u8], bool),
        (out, most): (&mut Vec<u8>, usize),
        values: &mut dyn FilterValues,
    ) -> Result<FilterStep, Broken> {
        let (start, mut at) = (out.len(), 0);
        while at < input.len() && out.len() - start < most && !values.waits() {
            let rest = &input[at..];
            if self.begun == 0 {
                let room = most.saturating_sub(out.len() - start);
                let plain = rest.iter().take(room).position(|byte| *byte == b'<');
                let length = plain.unwrap_or(rest.len().min(room));
                self.executor.plain(&rest[..length], out, values);
                at += length;
                if plain.is_some() {
                    (self.begun, at) = (1, at + 1);
                }
                continue;
            }
            at += 1;
            if self.begun < BEGIN.len() {
                self.begin(rest[0], out, values);
                continue;
            }
            let word = self.words.take(rest[0]);
            if let Some(fault) = self.words.fault.take() {
                values.tell(&|| fault.clone());
            }
            match word {
                Word::More => {}
                Word::Command => {
                    self.begun = 0;
                    let outcome = self.executor.execute(&self.words, out, values)?;
                    self.told(outcome, out);
                }
                Word::Failed => {
                    self.begun = 0;
                    self.told(Outcome::Failed, out);
                }
            }
        }
        Ok(FilterStep { bytes: at, ended: last && at == input.len() && !values.waits() })
    }

    /// One byte more of what may be the beginning of a command.
    fn begin(&mut self, byte: u8, out: &mut Vec<u8>, values: &mut dyn FilterValues) {
        if byte == BEGIN[self.begun] {
            self.begun += 1;
            if self.begun == BEGIN.len() {
                self.words.clear();
            }
            return;
        }
        self.executor.plain(&BEGIN[..self.begun], out, values);
        self.begun = 0;
        match byte {
            b'<' => self.begun = 1,
            byte => self.executor.plain(&[byte], out, values),
        }
    }

    fn told(&self, outcome: Outcome, out: &mut Vec<u8>) {
        if outcome == Outcome::Failed && !self.rules.silent {
            out.extend_from_slice(self.executor.error_text());
        }
    }
}

#[cfg(test)]
mod tests;
