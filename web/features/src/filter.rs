//! What all filters of bodies have in common.

/// Bytes cannot be what they are said to be: their answer cannot be sent to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// What a filter did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterStep {
    /// Bytes of its input that it has no more need of.
    pub bytes: usize,
    /// It was told of the end, and has told all.
    pub ended: bool,
}
