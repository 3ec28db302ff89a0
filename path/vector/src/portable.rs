//! Any processor: byte by byte. It says what the others must find.

use crate::{BLOCK, Blocks, Marks};

/// See the module.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "others are compared with it"))]
pub(crate) struct Portable;

impl Blocks for Portable {
    #[inline(always)]
    fn marks(self, block: &[u8; BLOCK]) -> Marks {
        let other = mask(block, |byte| !byte.is_ascii_alphanumeric() && byte != b'-');
        Marks { other, stop: self.stops(block) }
    }

    #[inline(always)]
    fn stops(self, block: &[u8; BLOCK]) -> u32 {
        mask(block, |byte| !(0x20..0x7f).contains(&byte))
    }

    type Sum = u64;

    #[inline(always)]
    fn nothing(self) -> u64 {
        0
    }

    #[inline(always)]
    fn add(self, sum: u64, block: &[u8; BLOCK]) -> u64 {
        block.as_chunks::<4>().0.iter().fold(sum, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)))
    }

    #[inline(always)]
    fn total(self, sum: u64) -> u64 {
        sum
    }
}

#[inline(always)]
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "others are compared with it"))]
fn mask(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u32 {
    block.iter().enumerate().fold(0, |mask, (at, byte)| mask | u32::from(is(*byte)) << at)
}

/// Whether a token may contain the byte (RFC 9110 section 5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    matches!(byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')
}
