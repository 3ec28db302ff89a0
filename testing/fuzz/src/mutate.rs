//! New inputs out of old ones, the same for the same seed.

use random::SplitMix64;

/// What changes are drawn from; every seed gives a good stream.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 to `bound`, excluded; 0 for a bound of 0. By the remainder: what inputs
    /// of the corpus stand for depends on it.
    pub const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.bits() % bound as u64) as usize }
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

/// Numbers at which something often changes.
const EDGES: [u8; 12] = [0, 1, 2, 4, 7, 8, 0x0a, 0x0d, 0x20, 0x7f, 0x80, 0xff];

/// Changes `input` in one to eight places. `other` lends pieces of itself.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], dictionary: &[&[u8]], random: &mut Random) {
    for _ in 0..1 + random.below(3) * random.below(4) {
        change(input, other, dictionary, random);
    }
}

fn change(input: &mut Vec<u8>, other: &[u8], dictionary: &[&[u8]], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(12) {
        0 => flip_bit(input, at, random),
        1 => set(input, at, random.bits() as u8),
        2 => set(input, at, EDGES[random.below(EDGES.len())]),
        3 => {
            // A small step: lengths off by one.
            let step = (random.below(9) as u8).wrapping_sub(4);
            if let Some(byte) = input.get_mut(at) {
                *byte = byte.wrapping_add(step);
            }
        }
        4 => input.insert(at, random.bits() as u8),
        5 => drop(input.drain(at..end(at, input.len(), 8, random))),
        6 => drop(input.drain(at..end(at, input.len(), 256, random))),
        7 => {
            let piece = input[at..end(at, input.len(), 64, random)].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, piece);
        }
        8 => {
            let from = random.below(other.len() + 1);
            let piece = &other[from..end(from, other.len(), 128, random)];
            input.splice(at..at, piece.iter().copied());
        }
        9 => {
            let from = random.below(other.len() + 1);
            let piece = &other[from..end(from, other.len(), 128, random)];
            let to = (at + piece.len()).min(input.len());
            input.splice(at..to, piece.iter().copied());
        }
        10 if !dictionary.is_empty() => {
            let word = random.pick(dictionary);
            input.splice(at..at, word.iter().copied());
        }
        11 if !dictionary.is_empty() => {
            let word = random.pick(dictionary);
            let to = (at + word.len()).min(input.len());
            input.splice(at..to, word.iter().copied());
        }
        _ => input.truncate(at),
    }
}

fn flip_bit(input: &mut [u8], at: usize, random: &mut Random) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

fn set(input: &mut [u8], at: usize, to: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = to;
    }
}

/// The end of a piece that begins at `start`, of at most `most` bytes.
fn end(start: usize, len: usize, most: usize, random: &mut Random) -> usize {
    (start + 1 + random.below(most)).min(len)
}

/// A shorter input that `fails` all the same: pieces are left out, large ones
/// first, as long as one can be.
#[must_use]
pub fn minimise(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut piece = best.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..(at + piece).min(best.len()));
            if fails(&shorter) {
                best = shorter;
            } else {
                at += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    best
}
