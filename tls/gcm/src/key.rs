//! A key made ready for its cipher.

use crate::ghash::{self, POWERS, Powers};
use crate::registers::{BLOCK, Instructions};
use crate::vaes::{self, Made, ROUND_KEYS};
use crate::{BESIDE_MAX, NONCE_LEN, Summed, TAG_LEN, TEXT_MAX};
use core::fmt;
use zeroize::Zeroize;

/// A key of AES-128-GCM or AES-256-GCM, made ready: 576 bytes. It is zeroed when it is
/// dropped.
pub struct Key {
    /// Proof that its functions can be run.
    instructions: Instructions,
    made: Made,
}

impl Key {
    /// Makes a key ready, where it stays: a value that moves leaves a copy behind. `None` if
    /// this processor lacks the instructions, or the key has neither 16 bytes nor 32.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Box<Self>> {
        let rounds = match key.len() {
            16 => 10,
            32 => 14,
            _ => return None,
        };
        let mut own = Box::new(Self {
            instructions: Instructions::find()?,
            made: Made {
                rounds,
                round_keys: [[0; BLOCK]; ROUND_KEYS],
                powers: Powers { each: [[0; BLOCK]; POWERS + 1], sums: [[0; BLOCK]; POWERS + 1] },
            },
        });
        let Self { instructions, made } = &mut *own;
        vaes::expand(*instructions, key, &mut made.round_keys);
        let mut hashed = vaes::encrypt(*instructions, made, [0; BLOCK]);
        ghash::powers(*instructions, &hashed, &mut made.powers);
        hashed.zeroize();
        Some(own)
    }

    /// Seals the text that `parts` are, one behind the other, and `extra` behind them, into
    /// `out`, and the tag behind it; `out` is written, never read, so that others may write there meanwhile.
    /// False, and nothing is done, if it is not as long as text and tag, if `beside` is
    /// longer than [`BESIDE_MAX`], or the text longer than [`TEXT_MAX`].
    ///
    /// A nonce must not come twice under one key.
    #[must_use]
    #[inline]
    pub fn seal(&self, nonce: &[u8; NONCE_LEN], beside: &[u8], parts: &[&[u8]], extra: &[u8], out: &mut [u8]) -> bool {
        let fits = fits(beside, parts, extra, out);
        if fits {
            let _ = vaes::seal::<false>(self.instructions, &self.made, nonce, beside, parts, extra, out);
        }
        fits
    }

    /// The same, and sums what it writes; `None` where [`Self::seal`] would be false.
    #[must_use]
    #[inline]
    pub fn seal_summed(
        &self,
        nonce: &[u8; NONCE_LEN],
        beside: &[u8],
        parts: &[&[u8]],
        extra: &[u8],
        out: &mut [u8],
    ) -> Option<Summed> {
        fits(beside, parts, extra, out)
            .then(|| vaes::seal::<true>(self.instructions, &self.made, nonce, beside, parts, extra, out))
    }

    /// Opens what was sealed where it lies. False if the tag is of another text, or a length
    /// is none of those that [`Self::seal`] takes; the text is zeroed then.
    #[must_use]
    #[inline]
    pub fn open(&self, nonce: &[u8; NONCE_LEN], beside: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> bool {
        let good = text.len() <= TEXT_MAX
            && beside.len() <= BESIDE_MAX
            && vaes::open(self.instructions, &self.made, nonce, beside, text, tag);
        if !good {
            text.fill(0);
        }
        good
    }
}

/// Whether all has a length that can be worked with.
#[inline]
fn fits(beside: &[u8], parts: &[&[u8]], extra: &[u8], out: &[u8]) -> bool {
    let len = parts.iter().map(|part| part.len()).sum::<usize>() + extra.len();
    len <= TEXT_MAX && out.len() == len + TAG_LEN && beside.len() <= BESIDE_MAX
}

impl Drop for Key {
    fn drop(&mut self) {
        self.made.round_keys.zeroize();
        self.made.powers.each.zeroize();
        self.made.powers.sums.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("rounds", &self.made.rounds).finish_non_exhaustive()
    }
}
