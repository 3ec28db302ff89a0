//! HPACK, without I/O: RFC 7541, the compression of HTTP/2's header blocks.
//!
//! A [`Decoder`] takes a whole header block and gives its fields one by one, as
//! slices of the block, of its table or of the caller's [`Scratch`]. An
//! [`Encoder`] appends fields to a block. What is prepared once for many
//! connections is written by [`put_static`], which touches no table.
//!
//! | module | for |
//! | --- | --- |
//! | `decoder` | blocks in: [`Decoder`], [`Decoded`] |
//! | `error` | [`Error`] |
//! | `encoder` | blocks out: [`Encoder`], [`Indexing`], [`put_static`], [`put_status`] |
//! | `table` | the dynamic table (section 2.3.2) |
//! | `statics` | the static table (Appendix A) |
//! | `huffman`, `integer` | strings and numbers (section 5) |
//!
//! # Bounds
//!
//! A table keeps at most its limit in bytes of names and values, and eight bytes
//! for each entry, of which there are at most limit ÷ 32; memory is taken when the
//! first entry comes and grows with what is kept. A field's strings expand to at
//! most 8 ÷ 5 of what they have in the block (the shortest Huffman code has five
//! bits). A field that refers to the table costs one byte in the block and may
//! be as long as the table: the sink of [`Decoder::decode`] is where that is
//! bounded, and [`Decoded`] tells how much was given.
#![forbid(unsafe_code)]

mod decoder;
mod encoder;
mod error;
mod huffman;
mod integer;
mod statics;
mod table;

pub use decoder::{Decoded, Decoder, Scratch};
pub use encoder::{Encoder, Indexing, put_static, put_status};
pub use error::Error;

/// The size of a table before the peer's SETTINGS_HEADER_TABLE_SIZE says
/// otherwise (RFC 9113 section 6.5.2), in bytes.
pub const TABLE_DEFAULT: u32 = 4_096;

/// The largest table that a [`Decoder`] or [`Encoder`] keeps, in bytes; a larger
/// limit means this one.
pub const TABLE_MOST: u32 = 65_536;

/// What an entry counts beyond its name and value (section 4.1).
pub const ENTRY_OVERHEAD: u32 = 32;

/// A field of a header block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderField<'a> {
    /// The name as sent, which may be empty; that it is in lower case is the
    /// caller's to see to (RFC 9113 section 8.2).
    pub name: &'a [u8],
    /// The value as sent, of any bytes.
    pub value: &'a [u8],
    /// Never to be indexed, nor by who passes it on (section 6.2.3).
    pub sensitive: bool,
}

impl<'a> HeaderField<'a> {
    /// A field that may be indexed.
    #[must_use]
    pub const fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, sensitive: false }
    }
}

#[cfg(test)]
mod tests;
