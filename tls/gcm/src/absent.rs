//! Processors of another kind: there is no key, so that nobody can come further.

use crate::{NONCE_LEN, Summed, TAG_LEN};

/// A key made ready; none can be.
#[derive(Debug)]
pub enum Absent {}

impl Absent {
    /// `None`: this processor has none of the instructions.
    #[must_use]
    pub fn new(_key: &[u8]) -> Option<Box<Self>> {
        None
    }

    /// Seals.
    #[must_use]
    pub fn seal(&self, _: &[u8; NONCE_LEN], _: &[u8], _: &[&[u8]], _: &[u8], _: &mut [u8]) -> bool {
        match *self {}
    }

    /// Seals and sums.
    #[must_use]
    pub fn seal_summed(&self, _: &[u8; NONCE_LEN], _: &[u8], _: &[&[u8]], _: &[u8], _: &mut [u8]) -> Option<Summed> {
        match *self {}
    }

    /// Opens.
    #[must_use]
    pub fn open(&self, _: &[u8; NONCE_LEN], _: &[u8], _: &mut [u8], _: &[u8; TAG_LEN]) -> bool {
        match *self {}
    }
}
