//! What bodies and logs are compressed with: content codings (RFC 9110 section
//! 8.4.1), by the piece or as a whole.
//!
//! Nothing here reads or waits: input and output are slices and vectors, so that a
//! silo gives a response as many bytes in a turn as it has time for.
#![forbid(unsafe_code)]

mod decoder;
mod encoder;
mod whole;

pub use decoder::{Gunzip, NotGzip, Taken, members};
pub use encoder::{Encoder, Encoders};
pub use whole::{Whole, member};

/// A content coding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Coding {
    /// gzip (RFC 1952)
    Gzip,
    /// Brotli (RFC 7932)
    Brotli,
    /// Zstandard (RFC 8878)
    Zstd,
}

impl Coding {
    /// All of them, in the order in which they are chosen where a client takes
    /// several: the one that makes texts shortest first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Its name in fields.
    #[must_use]
    pub const fn token(self) -> &'static [u8] {
        match self {
            Self::Gzip => b"gzip",
            Self::Brotli => b"br",
            Self::Zstd => b"zstd",
        }
    }

    /// What names of files that were compressed before end with.
    #[must_use]
    pub const fn suffix(self) -> &'static [u8] {
        match self {
            Self::Gzip => b".gz",
            Self::Brotli => b".br",
            Self::Zstd => b".zst",
        }
    }

    /// The levels that there are, and the one where none is told.
    #[must_use]
    pub const fn levels(self) -> (core::ops::RangeInclusive<u8>, u8) {
        match self {
            Self::Gzip => (1..=9, 1),
            Self::Brotli => (0..=11, 6),
            Self::Zstd => (1..=22, 1),
        }
    }
}
