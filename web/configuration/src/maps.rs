//! Variables that are made of others: `map`, `geo`, `split_clients`. Each is
//! built from the plain lines of its block, one after the other, and refuses
//! what nginx refuses in nginx's words.

mod geo;
mod map;
mod split;

pub use geo::{Geo, GeoBuilder};
pub use map::{Map, MapBuilder};
pub use split::{SplitBuilder, SplitClients};

/// For messages.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests;
