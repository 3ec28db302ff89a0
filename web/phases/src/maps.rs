//! Variables that are made of others: `map`, `geo`, `split_clients`. Each is
//! built from the plain lines of its block, one after the other, and refuses
//! what nginx refuses in nginx's words.

mod geo;
mod map;
mod split;

pub use geo::{Geo, GeoBuilder};
pub use map::{Map, MapBuilder};
pub use split::{SplitBuilder, SplitClients};

use crate::value::Value;

/// Who compiles what the lines of a block name.
pub trait Compiling {
    /// A text with variables.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    fn value(&mut self, text: &[u8]) -> Result<Value, String>;
    /// An expression: its number in [`crate::Program::expressions`].
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    fn expression(&mut self, pattern: &[u8], caseless: bool) -> Result<u32, String>;
}

/// For messages.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests;
