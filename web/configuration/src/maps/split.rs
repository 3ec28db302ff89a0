//! `split_clients`: parts of all clients, by a hash.

use super::text;
use features::Value;

/// A `split_clients`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitClients {
    /// What is hashed.
    pub source: Value,
    /// Hashes below this have that value, unless an earlier part has them;
    /// `None`: all that are left.
    parts: Vec<(Option<u32>, Box<[u8]>)>,
}

impl SplitClients {
    /// The value for what `source` is.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> &[u8] {
        let hash = murmur2(key);
        let part = self.parts.iter().find(|(below, _)| below.is_none_or(|below| hash < below));
        part.map_or(b"", |(_, value)| value)
    }
}

/// A `split_clients` whose lines are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitBuilder {
    source: Value,
    /// Hundredths of a percent; `None` for `*`.
    parts: Vec<(Option<u64>, Box<[u8]>)>,
}

impl SplitBuilder {
    /// One without lines: everything is nothing.
    #[must_use]
    pub const fn new(source: Value) -> Self {
        Self { source, parts: Vec::new() }
    }

    /// Adds a line of the block.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn add(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let &[percent, value, ..] = words else {
            return Err("invalid number of the split_clients parameters".into());
        };
        let part = match percent {
            b"*" => None,
            [digits @ .., b'%'] if hundredths(digits).is_some_and(|part| part > 0) => hundredths(digits),
            _ => return Err(format!("invalid percent value \"{}\"", text(percent))),
        };
        self.parts.push((part, value.into()));
        Ok(())
    }

    /// The end of the block.
    ///
    /// # Errors
    /// There are more than all, in nginx's words.
    pub fn finish(self) -> Result<SplitClients, String> {
        let (mut sum, mut last, mut parts) = (0, 0, Vec::new());
        for (part, value) in self.parts {
            sum = part.map_or(10_000, |part| part.saturating_add(sum));
            if sum > 10_000 {
                return Err("percent total is greater than 100%".into());
            }
            let below = part.filter(|_| sum < 10_000).map(|part| {
                last += (part * u64::from(u32::MAX) / 10_000) as u32;
                last
            });
            parts.push((below, value));
        }
        Ok(SplitClients { source: self.source, parts })
    }
}

/// A number with up to two digits behind its dot, times a hundred.
fn hundredths(text: &[u8]) -> Option<u64> {
    let (mut value, mut places) = (0_u64, None);
    for byte in text {
        match (byte, places) {
            (_, Some(2)) => return None,
            (b'.', None) => places = Some(0),
            (b'0'..=b'9', _) => {
                value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                places = places.map(|places| places + 1);
            }
            _ => return None,
        }
    }
    let missing = 2 - places.unwrap_or(0);
    (!text.is_empty()).then(|| value.checked_mul(10_u64.pow(missing)))?
}

/// MurmurHash2 of 32 bits (Austin Appleby), with the seed 0.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}
