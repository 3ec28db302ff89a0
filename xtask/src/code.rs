//! What can be told of Rust from its tokens, without types: functions with their
//! parameters, types with their fields, and who calls whom.

mod calls;
mod items;
mod tokens;

pub use calls::{CallGraph, File};
pub use items::{Items, Place, Public};
pub use tokens::Token;

use tokens::Tokens;

/// A source's product code.
#[derive(Debug)]
pub struct Code {
    tokens: Tokens,
    /// What it declares.
    pub items: Items,
}

impl Code {
    /// That of these lines.
    #[must_use]
    pub fn read(lines: &[String]) -> Self {
        let tokens = Tokens::new(lines);
        let items = Items::read(&tokens.all());
        Self { tokens, items }
    }

    /// Its tokens, but for those of tests.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token<'_>> {
        self.tokens.all()
    }
}
