//! What is left of an answer that is sent at a pace.

use app::Body;
use exchange::Part;
use files::Rate;
use std::collections::VecDeque;
use wire::Time;

/// An answer that is sent so, from memory.
#[derive(Debug)]
pub(crate) struct Paced {
    pub pace: Rate,
    pub body: Body,
    /// What is left of it, and what stands between.
    pub parts: VecDeque<Part>,
    /// Where content begins in the body.
    pub start: u32,
    pub began: Time,
    pub sent: u64,
    /// All of it is queued.
    pub finished: bool,
}
