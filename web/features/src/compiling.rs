//! What compiles a configuration, as the directives of features see it.

use crate::value::Value;

/// Compiles what words name.
pub trait Compiling {
    /// A text with variables.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    fn value(&mut self, text: &[u8]) -> Result<Value, String>;
    /// An expression: its number among those of the program.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    fn expression(&mut self, pattern: &[u8], caseless: bool) -> Result<u32, String>;
}

/// The same for directives of a block, which is one of several within each other.
pub trait BlockCompiling: Compiling {
    /// Notes that the block has a directive of this name; whether it is the first.
    fn is_first(&mut self, name: &'static str) -> bool;
    /// Whether the block has had a directive of this name.
    fn has(&self, name: &'static str) -> bool;
    /// A path: in the folder of the configuration unless it is absolute.
    fn path(&self, text: &[u8]) -> Vec<u8>;
    /// The place of a zone among those of the program, by its name; of one that counts
    /// requests, or connections.
    fn zone(&self, name: &[u8], of_requests: bool) -> Option<u16>;
    /// The number of a level of the error log, by its word.
    fn level(&self, word: &[u8]) -> Option<u8>;
    /// Warns, at the directive's place.
    fn warn(&mut self, text: String);
}
