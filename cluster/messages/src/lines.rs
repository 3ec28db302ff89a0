//! Bytes of a stream as lines, with a limit.

/// A line that is longer than any message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineTooLong;

impl core::fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a line longer than any message")
    }
}

/// Puts lines together from the bytes of a stream.
#[derive(Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Bytes of lines that were taken.
    taken: usize,
    /// Bytes that were looked at, and hold no end of a line.
    searched: usize,
    limit: usize,
}

impl Lines {
    /// Lines of at most so many bytes, their end not counted.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, searched: 0, limit }
    }

    /// Takes another limit from the next line on.
    pub fn limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes the next bytes; then all lines are to be taken ([`Lines::next`]).
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    ///
    /// # Errors
    /// If it is too long; nothing of use follows.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, LineTooLong> {
        let rest = self.bytes.get(self.searched..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return if self.searched - self.taken > self.limit { Err(LineTooLong) } else { Ok(None) };
        };
        let (from, until) = (self.taken, self.searched + end);
        (self.taken, self.searched) = (until + 1, until + 1);
        if until - from > self.limit { Err(LineTooLong) } else { Ok(self.bytes.get(from..until)) }
    }
}
