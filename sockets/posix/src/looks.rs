//! What the last look for ready descriptors found, and whether the program has dealt with it.

use crate::socket::Stream;

/// Looks for what is ready, by number.
#[derive(Debug)]
pub(crate) struct Looks {
    /// The last one's, from 1.
    last: u32,
    /// Connections that it found, and that were not dealt with since.
    unanswered: u32,
}

impl Default for Looks {
    fn default() -> Self {
        Self { last: 1, unanswered: 0 }
    }
}

impl Looks {
    /// Somebody looks: what the look before found is over.
    #[inline]
    pub fn begin(&mut self) {
        self.last = self.last.wrapping_add(1).max(1);
        self.unanswered = 0;
    }

    /// The look found a connection ready, and tells.
    #[inline]
    pub fn found(&mut self, stream: &mut Stream) {
        if core::mem::replace(&mut stream.look, self.last) != self.last {
            self.unanswered += 1;
        }
    }

    /// A connection has been dealt with.
    #[inline]
    pub fn answered(&mut self, stream: &mut Stream) {
        if core::mem::replace(&mut stream.look, 0) == self.last {
            self.unanswered -= 1;
        }
    }

    /// Whether all that were found have been.
    #[inline]
    pub const fn is_all_answered(&self) -> bool {
        self.unanswered == 0
    }
}
