//! Thirty-two bytes at a time, by the widest instructions that the processor
//! has: it is asked once, and what is written here for any [`Blocks`] is
//! compiled for each kind.
//!
//! Other crates write their loops as [`Work`] and have no unsafe code. The one
//! place where a processor without the instructions could be made to run them
//! is [`run`].

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;

/// Bytes of a block.
pub const BLOCK: usize = 32;

/// What is to be known of a block of a message head (RFC 9112 section 5),
/// byte by byte: the lowest bit is the first byte's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Bytes that a token cannot contain (RFC 9110 section 5.6.2). Letters,
    /// digits and `-` never are among them; of the other fourteen that it can,
    /// those are where it costs something to tell.
    pub other: u32,
    /// Bytes that may end a field value: all below 0x20, 0x7f, and those from
    /// 0x80 on, which do not end it, but are rare enough to be looked at again.
    pub stop: u32,
}

/// One kind of processor's way to look at blocks.
pub trait Blocks: Copy {
    /// Both kinds of marks.
    fn marks(self, block: &[u8; BLOCK]) -> Marks;

    /// [`Marks::stop`] alone.
    fn stops(self, block: &[u8; BLOCK]) -> u32;

    /// What a sum of words is kept in while it grows.
    type Sum: Copy;

    /// The sum of nothing.
    fn nothing(self) -> Self::Sum;

    /// Adds the block's eight words of 32 bits, in the machine's own byte order. Room is for
    /// those of 2³² blocks.
    fn add(self, sum: Self::Sum, block: &[u8; BLOCK]) -> Self::Sum;

    /// The sum as a number.
    fn total(self, sum: Self::Sum) -> u64;
}

/// What is to be done with blocks.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Does it. To be `#[inline(always)]`, with all that it calls for each
    /// block: what is not inlined is compiled for any processor.
    fn run<B: Blocks>(self, blocks: B) -> Self::Output;
}

/// Does the work by the best that this processor has.
#[inline(always)]
pub fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        match avx2::Avx2::find() {
            // SAFETY: there is a value only where the processor has AVX2 and
            // BMI1, which is all that the function is compiled for.
            Some(blocks) => unsafe { avx2::run(blocks, work) },
            None => sse2::run(work),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    work.run(portable::Portable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte at each place, among bytes of another kind.
    fn agree<B: Blocks>(blocks: B) {
        for around in [b'a', b' ', b'\n', 0xe4] {
            for byte in 0..=255 {
                for at in 0..BLOCK {
                    let mut block = [around; BLOCK];
                    block[at] = byte;
                    let (found, wanted) = (blocks.marks(&block), portable::Portable.marks(&block));
                    assert_eq!(found.stop, wanted.stop, "{byte} at {at} among {around}");
                    assert_eq!(blocks.stops(&block), wanted.stop, "{byte} at {at} among {around}");
                    assert_eq!(found.other & !wanted.other, 0, "{byte} at {at} among {around}");
                    for place in (0..BLOCK).filter(|place| found.other >> place & 1 == 0) {
                        assert!(portable::is_token(block[place]), "{byte} at {at} among {around}");
                    }
                }
            }
        }
    }

    /// RFC 9110 section 5.6.2.
    #[test]
    fn a_token_is_what_the_rfc_says() {
        for byte in 0..=255u8 {
            let wanted = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(portable::is_token(byte), wanted, "{byte}");
        }
    }

    #[test]
    fn each_kind_of_processor_finds_the_same() {
        agree(portable::Portable);
        #[cfg(target_arch = "x86_64")]
        {
            agree(sse2::Sse2);
            struct Agree;
            impl Work for Agree {
                type Output = ();
                fn run<B: Blocks>(self, blocks: B) {
                    agree(blocks);
                }
            }
            run(Agree);
        }
    }

    /// Carries go nowhere but into the total.
    fn sums<B: Blocks>(blocks: B) {
        for word in [0, 1, 0x8000_0000, 0x0102_0304, u32::MAX] {
            for at in 0..BLOCK / 4 {
                let mut block = [0; BLOCK];
                block[at * 4..][..4].copy_from_slice(&word.to_ne_bytes());
                let once = blocks.add(blocks.nothing(), &block);
                assert_eq!(blocks.total(once), u64::from(word), "{word:#x} at {at}");
            }
            let mut block = [0; BLOCK];
            block.as_chunks_mut::<4>().0.fill(word.to_ne_bytes());
            let sum = (0..1_000).fold(blocks.nothing(), |sum, _| blocks.add(sum, &block));
            assert_eq!(blocks.total(sum), 8_000 * u64::from(word), "{word:#x}");
        }
    }

    #[test]
    fn each_kind_of_processor_sums_the_same() {
        sums(portable::Portable);
        #[cfg(target_arch = "x86_64")]
        {
            sums(sse2::Sse2);
            struct Sums;
            impl Work for Sums {
                type Output = ();
                fn run<B: Blocks>(self, blocks: B) {
                    sums(blocks);
                }
            }
            run(Sums);
        }
    }

    /// What is chosen once is chosen for all threads.
    #[test]
    fn the_choice_is_the_processors() {
        #[cfg(target_arch = "x86_64")]
        {
            let has = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi1");
            for _ in 0..2 {
                assert_eq!(avx2::Avx2::find().is_some(), has);
            }
        }
    }
}
