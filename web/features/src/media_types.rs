//! Media types that a feature looks after.

use crate::row::{Refusal, Words};

/// Media types, in small letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MediaTypes {
    /// Any.
    All,
    /// These.
    These(Vec<Box<[u8]>>),
}

/// `text/html`, which is in each list.
impl Default for MediaTypes {
    fn default() -> Self {
        Self::These(vec![b"text/html"[..].into()])
    }
}

impl MediaTypes {
    /// Whether this one, which has no parameters, is among them, whatever its case.
    #[must_use]
    pub fn has(&self, media_type: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::These(types) => types.iter().any(|known| known.eq_ignore_ascii_case(media_type)),
        }
    }
}

/// Adds media types, of which `*` is all; the first directive of a block begins anew.
pub(crate) fn add_types(types: &mut MediaTypes, words: &mut Words<'_>) -> Result<(), Refusal> {
    let first = words.is_first();
    let said = types.add(words.words, first);
    said.into_iter().for_each(|text| words.compiling.warn(text));
    Ok(())
}

impl MediaTypes {
    /// Adds some, of which `*` is all; to `text/html` alone if they are the first of a block.
    /// What nginx warns of is returned.
    pub fn add(&mut self, words: &[&[u8]], first: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        if first {
            *self = Self::default();
        }
        for word in words {
            let Self::These(known) = self else { break };
            let lower = word.to_ascii_lowercase();
            if *word == b"*" {
                *self = Self::All;
            } else if known.iter().any(|known| **known == *lower) {
                warnings.push(format!("duplicate MIME type \"{}\"", String::from_utf8_lossy(&lower)));
            } else {
                known.push(lower.into());
            }
        }
        warnings
    }
}
