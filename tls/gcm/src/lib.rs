//! AES-GCM (NIST SP 800-38D) for records, by processors with VAES and VPCLMULQDQ of 256
//! bits: Intel from Ice Lake on, AMD from Zen 3 on. Those without AVX-512 get half of what they
//! could from libraries that ask for it.
//!
//! Two things are other than in a library's call. The plaintext may lie in pieces, and is
//! read where it lies. What is sealed is written once and never read: what authenticates it,
//! and its checksum, is taken from registers, so that the sealed bytes may go where a peer
//! can write.
//!
//! Nothing here branches or looks anything up by a secret: AES and the products of GHASH
//! are instructions whose time does not depend on what they are given.

#[cfg(target_arch = "x86_64")]
mod ghash;
#[cfg(target_arch = "x86_64")]
mod key;
#[cfg(target_arch = "x86_64")]
mod registers;
#[cfg(target_arch = "x86_64")]
mod vaes;

#[cfg(not(target_arch = "x86_64"))]
mod absent;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::Absent as Key;
#[cfg(target_arch = "x86_64")]
pub use key::Key;

/// Bytes of a nonce: the only length that records have (RFC 5116 section 5.1).
pub const NONCE_LEN: usize = 12;

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// Bytes of the longest text beside the sealed one that is taken: one block. Records have
/// 5 or 13.
pub const BESIDE_MAX: usize = 16;

/// Bytes of the longest text: far below the 64 GiB at which the counter would come again.
pub const TEXT_MAX: usize = 1 << 30;

/// What was written: for a checksum of it (RFC 1071), which needs no look at it then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summed {
    /// The sum of the sealed text's 32-bit words, in the machine's order, as if zeros followed
    /// the text. Of [`TEXT_MAX`] bytes it is less than 2^60.
    pub words: u64,
    /// The tag, which stands behind the text.
    pub tag: [u8; TAG_LEN],
}

#[cfg(test)]
mod tests;
