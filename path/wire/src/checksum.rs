//! The Internet checksum (RFC 1071), over borrowed bytes.
//!
//! Sums are kept in the machine's own byte order: the ones'-complement sum does
//! not depend on byte order (RFC 1071 section 2(B)), so one swap in
//! [`Sum::finish`] replaces one per word.

use core::net::{Ipv4Addr, Ipv6Addr};
use vector::{Blocks, Work};

/// A partial ones'-complement sum. The width does not matter to the result,
/// because 2¹⁶, 2³² and 2⁶⁴ are all 1 modulo 2¹⁶ − 1: carries are added back in
/// at the end (RFC 1071 section 2(C)).
///
/// The same bytes may have sums that are kept as different numbers: two are compared by
/// [`Sum::finish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// Adds a 16-bit field at an even offset.
    #[inline]
    #[must_use]
    pub const fn add_u16(self, value: u16) -> Self {
        Self(add(self.0, value.to_be() as u64))
    }

    /// Adds a 32-bit field at an even offset.
    #[inline]
    #[must_use]
    pub const fn add_u32(self, value: u32) -> Self {
        Self(add(self.0, value.to_be() as u64))
    }

    /// Adds the sum of bytes that start at an even offset. For bytes that
    /// may start at an odd one, see [`Sum::append`].
    #[inline]
    #[must_use]
    pub const fn add(self, other: Self) -> Self {
        Self(add(self.0, other.0))
    }

    /// Takes the sum of bytes that are no longer covered back out
    /// (RFC 1624 section 3: subtraction is adding the complement).
    #[inline]
    #[must_use]
    pub const fn subtract(self, other: Self) -> Self {
        Self(add(self.0, !other.0))
    }

    /// The sum of two pieces that follow each other, each summed as if it
    /// started at an even offset. After an odd number of bytes the second
    /// piece's bytes change places (RFC 1071 section 2(B)).
    #[inline]
    #[must_use]
    pub const fn append(self, next: Self, self_len_is_odd: bool) -> Self {
        let turn = (self_len_is_odd as u32) * 8;
        Self(add(self.0, next.0.rotate_left(turn)))
    }

    /// The sum of 32-bit words in the machine's order that somebody else has added up, without
    /// a carry on the way.
    #[inline]
    #[must_use]
    pub const fn of_total(total: u64) -> Self {
        Self(total)
    }

    /// The sum of 32-bit fields. Without a carry on the way, because 2³² of
    /// them would be needed for one.
    #[inline]
    #[must_use]
    pub const fn of_words<const N: usize>(words: &[u32; N]) -> Self {
        let mut total = 0;
        let mut at = 0;
        while at < N {
            total += words[at].to_be() as u64;
            at += 1;
        }
        Self(total)
    }

    /// The sum of a header of fixed size.
    #[inline]
    #[must_use]
    pub fn of_array<const N: usize>(bytes: &[u8; N]) -> Self {
        Self(add_chunk(0, bytes))
    }

    /// Whether [`Sum::finish`] is zero, as it is over data that includes its own
    /// correct checksum: the sum is none of nothing but zeros, and a multiple of
    /// 2¹⁶ − 1. Of an odd divisor, a product with its inverse modulo 2⁶⁴ tells
    /// that: it is the quotient of its multiples, and beyond the largest
    /// quotient of all others.
    #[inline]
    #[must_use]
    pub const fn is_intact(self) -> bool {
        const DIVISOR: u64 = 0xffff;
        const LARGEST: u64 = u64::MAX / DIVISOR;
        // (2¹⁶ − 1) (2¹⁶ + 1) (2³² + 1) is 2⁶⁴ − 1, which is −1.
        const INVERSE: u64 = LARGEST.wrapping_neg();
        const { assert!(DIVISOR.wrapping_mul(INVERSE) == 1) };
        self.0.wrapping_mul(INVERSE).wrapping_sub(1) < LARGEST
    }

    /// The checksum: folded to 16 bits and complemented. Stored with
    /// `to_be_bytes`. Over data that includes its own correct checksum it
    /// is zero.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        !self.folded()
    }

    /// The sum folded to 16 bits, not complemented: what a link that
    /// completes the checksum expects in the field for the pseudo-header.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        // Adding a word to itself with halves exchanged leaves the sum of the
        // halves, end-around carry included, in the upper half.
        let wide = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        let narrow = (wide.wrapping_add(wide.rotate_left(16)) >> 16) as u16;
        u16::from_be(narrow)
    }
}

/// Proof that a checksum was verified, or that the link vouched for it: only
/// the parsers make it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verified(pub(crate) ());

/// The link's word that it verified the transport checksum of a frame. Make
/// one only where the link says so for that very frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkVouched(());

impl LinkVouched {
    /// States that the link verified the transport checksum of the frame.
    #[inline]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a claim is made by name, never by default")]
    pub const fn new() -> Self {
        Self(())
    }
}

/// The sum of `bytes`, the first of which stands at an even offset. An odd
/// last byte counts as if a zero followed it.
#[inline(always)]
#[must_use]
pub fn sum(bytes: &[u8]) -> Sum {
    let (mut rest, mut total) = (bytes, 0);
    if bytes.len() >= WIDE_SUM {
        let (blocks, after) = bytes.as_chunks::<STRIDE>();
        (rest, total) = (after, sum_wide(blocks));
    }
    while sum_chunk::<BLOCK>(&mut rest, &mut total) {}
    sum_chunk::<64>(&mut rest, &mut total);
    sum_chunk::<32>(&mut rest, &mut total);
    sum_chunk::<16>(&mut rest, &mut total);
    sum_chunk::<8>(&mut rest, &mut total);
    if rest.is_empty() {
        return Sum(total);
    }
    // The word that ends with the last bytes, less what was summed before:
    // no branch for each of the seven sizes.
    if let Some(last) = bytes.last_chunk::<8>() {
        return Sum(add(total, trailing(last, rest.len())));
    }
    sum_chunk::<4>(&mut rest, &mut total);
    sum_chunk::<2>(&mut rest, &mut total);
    sum_chunk::<1>(&mut rest, &mut total);
    Sum(total)
}

/// Copies `src` to `dst` and sums it on the way. Where the lengths differ,
/// the shorter one counts and the rest is neither copied nor summed.
///
/// The sum is that of the bytes read from `src`: `dst` may lie in memory
/// that a peer can write.
#[inline(always)]
#[must_use]
pub fn copy_and_sum(dst: &mut [u8], src: &[u8]) -> Sum {
    let len = dst.len().min(src.len());
    let (Some(dst), Some(src)) = (dst.get_mut(..len), src.get(..len)) else {
        return Sum::ZERO;
    };
    let (mut out, mut rest, mut total) = (&mut *dst, src, 0);
    if len >= WIDE {
        let (to, out_after) = out.as_chunks_mut::<STRIDE>();
        let (blocks, after) = rest.as_chunks::<STRIDE>();
        total = copy_wide(to, blocks);
        (out, rest) = (out_after, after);
    }
    while copy_chunk::<BLOCK>(&mut out, &mut rest, &mut total) {}
    copy_chunk::<64>(&mut out, &mut rest, &mut total);
    copy_chunk::<32>(&mut out, &mut rest, &mut total);
    copy_chunk::<16>(&mut out, &mut rest, &mut total);
    copy_chunk::<8>(&mut out, &mut rest, &mut total);
    if rest.is_empty() {
        return Sum(total);
    }
    if let Some(last) = src.last_chunk::<8>() {
        if let Some(to) = dst.last_chunk_mut::<8>() {
            *to = *last;
        }
        return Sum(add(total, trailing(last, rest.len())));
    }
    copy_chunk::<4>(&mut out, &mut rest, &mut total);
    copy_chunk::<2>(&mut out, &mut rest, &mut total);
    copy_chunk::<1>(&mut out, &mut rest, &mut total);
    Sum(total)
}

/// The pseudo-header of IPv4 (RFC 9293 section 3.1). `len` covers the
/// transport header and its payload.
#[inline]
#[must_use]
pub const fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    // Four fields are too few for a carry.
    let addresses = u32::from_ne_bytes(src.octets()) as u64 + u32::from_ne_bytes(dst.octets()) as u64;
    Sum(addresses + (protocol as u16).to_be() as u64 + len.to_be() as u64)
}

/// The pseudo-header of IPv6 (RFC 8200 section 8.1). `len` covers the upper
/// layer's header and payload.
#[inline]
#[must_use]
pub const fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, len: u32) -> Sum {
    let src = u128::from_ne_bytes(src.octets());
    let dst = u128::from_ne_bytes(dst.octets());
    let low = add(src as u64, dst as u64);
    let high = add((src >> 64) as u64, (dst >> 64) as u64);
    Sum(add(low, high)).add_u16(next_header as u16).add_u32(len)
}

/// The checksum after one 16-bit field that it covers changed
/// (RFC 1624 section 3, equation 3).
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.add_u16(!checksum).add_u16(!old).add_u16(new).finish()
}

/// Writes 32-bit fields one behind the other. Fields that were summed as
/// words before are written without reading them back in another width, which
/// would stall.
#[inline]
pub(crate) fn put_words<const BYTES: usize, const WORDS: usize>(out: &mut [u8; BYTES], words: &[u32; WORDS]) {
    const { assert!(BYTES == WORDS * 4) };
    let (slots, _) = out.as_chunks_mut::<4>();
    for (slot, word) in slots.iter_mut().zip(words) {
        *slot = word.to_be_bytes();
    }
}

/// From so many bytes on it pays to go to another function, which has the processor's widest
/// instructions: a copy that sums costs what a copy does there, and one carry chain three times
/// that, as long as the bytes are in caches.
const WIDE: usize = 384;

/// A sum alone takes one instruction for eight bytes in a carry chain, and gains later.
const WIDE_SUM: usize = 1_024;

/// Bytes of a step there: two sums grow beside each other.
const STRIDE: usize = 2 * vector::BLOCK;

/// To be summed.
struct Summing<'a>(&'a [[u8; STRIDE]]);

impl Work for Summing<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> u64 {
        let mut sums = [blocks.nothing(); 2];
        for stride in self.0 {
            add_stride(blocks, &mut sums, stride);
        }
        end(blocks, sums)
    }
}

/// To be copied from the second to the first, and summed.
struct Copying<'a>(&'a mut [[u8; STRIDE]], &'a [[u8; STRIDE]]);

impl Work for Copying<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<B: Blocks>(self, blocks: B) -> u64 {
        let mut sums = [blocks.nothing(); 2];
        for (to, stride) in self.0.iter_mut().zip(self.1) {
            // What is summed is what was read, whatever a peer does to the copy.
            add_stride(blocks, &mut sums, stride);
            *to = *stride;
        }
        end(blocks, sums)
    }
}

#[inline(always)]
fn add_stride<B: Blocks>(blocks: B, sums: &mut [B::Sum; 2], stride: &[u8; STRIDE]) {
    let (halves, _) = stride.as_chunks::<{ vector::BLOCK }>();
    for (sum, half) in sums.iter_mut().zip(halves) {
        *sum = blocks.add(*sum, half);
    }
}

#[inline(always)]
fn end<B: Blocks>(blocks: B, [one, other]: [B::Sum; 2]) -> u64 {
    add(blocks.total(one), blocks.total(other))
}

#[inline(never)]
fn sum_wide(strides: &[[u8; STRIDE]]) -> u64 {
    vector::run(Summing(strides))
}

#[inline(never)]
fn copy_wide(to: &mut [[u8; STRIDE]], strides: &[[u8; STRIDE]]) -> u64 {
    vector::run(Copying(to, strides))
}

/// Bytes per step: enough words in one carry chain to make the step's own
/// cost small.
const BLOCK: usize = 128;

/// Adds with end-around carry.
#[inline]
const fn add(a: u64, b: u64) -> u64 {
    let (total, carry) = a.overflowing_add(b);
    // After a carry the total is at most 2⁶⁴ − 2.
    total.wrapping_add(carry as u64)
}

/// Sums the first `N` bytes of `rest` and takes them off; whether there were
/// as many.
#[inline(always)]
fn sum_chunk<const N: usize>(rest: &mut &[u8], total: &mut u64) -> bool {
    let Some((chunk, after)) = rest.split_first_chunk::<N>() else {
        return false;
    };
    *total = add_chunk(*total, chunk);
    *rest = after;
    true
}

/// As [`sum_chunk`], and copies the bytes to `out`.
#[inline(always)]
fn copy_chunk<const N: usize>(out: &mut &mut [u8], rest: &mut &[u8], total: &mut u64) -> bool {
    let Some((chunk, after)) = rest.split_first_chunk::<N>() else {
        return false;
    };
    let Some((to, out_after)) = core::mem::take(out).split_first_chunk_mut::<N>() else {
        return false;
    };
    *to = *chunk;
    *total = add_chunk(*total, chunk);
    (*out, *rest) = (out_after, after);
    true
}

/// Adds whole words in one carry chain, one instruction a word, and what is
/// left as a word of its own.
#[inline(always)]
fn add_chunk<const N: usize>(total: u64, chunk: &[u8; N]) -> u64 {
    let (words, rest) = chunk.as_chunks::<8>();
    let mut total = total;
    let mut carry = false;
    for word in words {
        (total, carry) = total.carrying_add(u64::from_ne_bytes(*word), carry);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        (total, carry) = total.carrying_add(u64::from_ne_bytes(word), carry);
    }
    // As in `add`: no step of the chain leaves all ones and a carry, because
    // two words and a carry that came with less than all ones are less.
    total.wrapping_add(u64::from(carry))
}

/// The last `len` bytes of `last`, 1 to 7, as they count when the first of
/// them stands at an even offset. Reading the word that ends with them, and
/// shifting out what was summed before, avoids a branch for each size.
#[inline]
fn trailing(last: &[u8; 8], len: usize) -> u64 {
    let unwanted = 64_u32.wrapping_sub(len as u32 * 8) % 64;
    let word = u64::from_ne_bytes(*last);
    if cfg!(target_endian = "little") { word >> unwanted } else { word << unwanted }
}
