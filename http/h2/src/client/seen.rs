//! Blocks of fields, and what a client wants to know of them.

use crate::error::ErrorCode;
use hpack::{Decoder, Scratch};
use std::ops::ControlFlow;

/// The longest block that is kept to be known again.
const KEPT: usize = 512;

/// The block that was decoded last, and what it said. Answers of one kind have the same, but for
/// the second in which their date changes.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Empty where none is kept.
    block: Vec<u8>,
    /// The decoder's count of changes, before it and behind it.
    changes: u64,
    seen: Seen,
}

impl Known {
    /// What a block says. One that was decoded before is not decoded again, if it left the
    /// decoder's table as it was, and nothing has changed that since: then it would say the same,
    /// and leave the table as it is.
    #[inline]
    pub fn decode(&mut self, decoder: &mut Decoder, block: &[u8], scratch: &mut Scratch) -> Result<Seen, ErrorCode> {
        if self.changes == decoder.changes() && self.block == block && !block.is_empty() {
            return Ok(self.seen);
        }
        self.decode_anew(decoder, block, scratch)
    }

    fn decode_anew(&mut self, decoder: &mut Decoder, block: &[u8], scratch: &mut Scratch) -> Result<Seen, ErrorCode> {
        let before = decoder.changes();
        let mut seen = Seen::default();
        let decoded = decoder.decode(block, scratch, |field| {
            seen.field(field.name, field.value);
            ControlFlow::Continue(())
        });
        decoded.map_err(|_| ErrorCode::COMPRESSION_ERROR)?;
        self.block.clear();
        if decoder.changes() == before && block.len() <= KEPT {
            self.block.extend_from_slice(block);
            (self.changes, self.seen) = (before, seen);
        }
        Ok(seen)
    }
}

/// What a block says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub status: Option<u16>,
    pub length: Option<u64>,
    pub grpc_status: Option<u16>,
    pub grpc_encoding: bool,
    pub fields: bool,
    pub wrong: bool,
}

impl Seen {
    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => {
                // Once, before all fields, of three digits (RFC 9113 sections 8.3 and 8.3.2).
                self.wrong |= self.status.is_some() || self.fields || value.len() != 3;
                self.status = Some(number(value).map_or(0, |status| status as u16));
            }
            b"content-length" => {
                let length = number(value);
                self.wrong |= length.is_none() || self.length.is_some_and(|known| Some(known) != length);
                self.length = length;
                self.fields = true;
            }
            b"grpc-status" => {
                let status = number(value).and_then(|status| u16::try_from(status).ok());
                self.grpc_status = Some(status.unwrap_or(u16::MAX));
                self.fields = true;
            }
            b"grpc-encoding" => {
                self.grpc_encoding = value != b"identity";
                self.fields = true;
            }
            [b':', ..] => self.wrong = true,
            _ => self.fields = true,
        }
    }
}

/// Digits alone.
#[inline]
fn number(digits: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        if digit > 9 {
            return None;
        }
    }
    (!digits.is_empty()).then_some(value)
}
