//! Memory that a call needs and no connection keeps.

use crate::heads::KnownBlocks;
use core::cell::RefCell;
use h2::HeadMemory;

/// What is used within one call.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    /// Heads of requests.
    pub memory: HeadMemory,
    /// What is sent next.
    pub out: Vec<u8>,
    /// A block of fields.
    pub block: Vec<u8>,
    /// Of what is ready.
    pub known: KnownBlocks,
    /// Streams that have something to send.
    pub ready: Vec<Turn>,
}

/// Whose turn it is: the most urgent, of these first who is useful as a whole, in the order in which
/// they were asked for, then those who are useful in parts, who waited longest (RFC 9218 section 10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Turn {
    pub urgency: u8,
    pub served: u32,
    pub stream: u32,
}

thread_local! {
    static SCRATCH: RefCell<Option<Box<Scratch>>> = const { RefCell::new(None) };
}

/// Bytes that are kept of each.
const KEPT: usize = 64 << 10;

/// Has `work` use it.
pub(crate) fn with<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let done = work(&mut scratch);
    scratch.out.clear();
    scratch.out.shrink_to(KEPT);
    scratch.block.shrink_to(KEPT);
    SCRATCH.replace(Some(scratch));
    done
}
