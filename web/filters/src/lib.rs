//! What bodies pass on their way to clients, one filter behind the other, as a
//! location has them: each is a state machine that is given bytes and a bound.
//!
//! ```text
//!  content ─► gunzip ─► sub_filter ─► charset ─► ssi ─► compression ─► client
//! ```
//!
//! No filter holds a body: each takes as much as its output has room for, and keeps
//! what it cannot decide on yet, which its rules bound.
#![forbid(unsafe_code)]

mod charset;
mod pipeline;
mod ssi;

pub use charset::{CharsetError, CharsetMap, Charsets, Recoder, Recoding};
pub use pipeline::{FilterValues, Pipeline, Ran};
pub use ssi::{Include, Ssi, SsiRules, SsiValues};

use features::sub_filter::Substitution;
use features::{Broken, FilterStep};
use gzip::{Coding, Encoder, Gunzip};

/// One filter.
#[derive(Debug)]
pub enum Filter {
    /// Out of gzip (`gunzip`).
    Gunzip(Box<Gunzip>),
    /// Other texts in place of some (`sub_filter`).
    Substitute(Box<Substitution>),
    /// Of another character set (`charset_map`).
    Recode(Recoder),
    /// With its commands executed (`ssi`).
    Ssi(Box<Ssi>),
    /// A part of it alone: so many bytes are left out, so many follow (`proxy_force_ranges`).
    Part {
        /// What is left out yet, in bytes.
        before: u64,
        /// What follows then, in bytes.
        left: u64,
    },
    /// Into a coding, at a level; so many bytes so far.
    Encode(Box<Encoder>, (Coding, u8), u64),
}

/// What an encoder takes in one step, at most.
const ENCODED: usize = 8 << 10;

impl Filter {
    /// What a byte of input costs, in about nanoseconds: so that those who share a
    /// turn share its time.
    const fn cost(&self) -> u64 {
        match self {
            Self::Part { .. } => 1,
            Self::Gunzip(_) => 4,
            Self::Substitute(_) | Self::Recode(_) => 2,
            Self::Ssi(_) => 4,
            Self::Encode(_, (coding, level), _) => match (coding, *level) {
                (Coding::Gzip, 0..=4) => 8,
                (Coding::Gzip, 5..=6) => 20,
                (Coding::Gzip, _) => 40,
                (Coding::Brotli, 0..=4) => 12,
                (Coding::Brotli, 5..=8) => 40,
                (Coding::Brotli, _) => 500,
                (Coding::Zstd, 0..=5) => 6,
                (Coding::Zstd, 6..=9) => 20,
                (Coding::Zstd, _) => 200,
            },
        }
    }

    /// Takes some of `input`, which ends there if `last`, and appends to `out`; once it
    /// has appended `most` bytes it takes no more.
    fn take(
        &mut self,
        (input, last): (&[u8], bool),
        (out, most): (&mut Vec<u8>, usize),
        values: &mut dyn FilterValues,
    ) -> Result<FilterStep, Broken> {
        match self {
            Self::Gunzip(state) => {
                let Ok(read) = state.read(input, out, most) else {
                    values.tell(&|| b"inflate() failed: 0, -3".to_vec());
                    return Err(Broken);
                };
                let ended = last && read.bytes == input.len() && !read.more;
                if ended && !state.may_end() {
                    values.tell(&|| b"inflate() returned -5 on response end".to_vec());
                    return Err(Broken);
                }
                Ok(FilterStep { bytes: read.bytes, ended })
            }
            Self::Substitute(filter) => filter.take((input, last), (out, most), values),
            Self::Recode(filter) => Ok(filter.take((input, last), (out, most))),
            Self::Ssi(filter) => filter.take((input, last), (out, most), values),
            Self::Part { before, left } => Ok(take_part((before, left), (input, last), (out, most))),
            Self::Encode(encoder, _, encoded) => {
                let bytes = input.len().min(ENCODED);
                *encoded += bytes as u64;
                encoder.write(&input[..bytes], out);
                let ended = last && bytes == input.len();
                if ended {
                    encoder.finish(out);
                }
                Ok(FilterStep { bytes, ended })
            }
        }
    }
}

/// Passes what of `input` is in a part. What is behind it is read, too: its upstream is asked
/// for other things then.
fn take_part(
    (before, left): (&mut u64, &mut u64),
    (input, last): (&[u8], bool),
    (out, most): (&mut Vec<u8>, usize),
) -> FilterStep {
    let skipped = usize::try_from(*before).unwrap_or(usize::MAX).min(input.len());
    *before -= skipped as u64;
    let rest = &input[skipped..];
    let wanted = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
    let passed = wanted.min(most);
    *left -= passed as u64;
    out.extend_from_slice(&rest[..passed]);
    let bytes = if *left == 0 { input.len() } else { skipped + passed };
    FilterStep { bytes, ended: last && bytes == input.len() }
}

#[cfg(test)]
mod tests;
