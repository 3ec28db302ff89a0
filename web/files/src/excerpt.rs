//! What is sent in place of a file: bytes in memory, and behind them some of the file.

use app::Body;
use core::ops::Range;
use exchange::Part;

/// What is sent in place of a file.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// Bytes that come first.
    pub before: Body,
    /// Which of the file's follow.
    pub content: Range<u64>,
}

impl Excerpt {
    /// Bytes of all.
    #[must_use]
    pub fn length(&self) -> u64 {
        u64::from(self.before.len()) + (self.content.end - self.content.start)
    }

    /// Parts of it, as bytes and parts of the file.
    pub fn parts(&self, parts: Vec<Part>) -> Vec<Part> {
        let memory = u64::from(self.before.len());
        let mut out = Vec::with_capacity(parts.len() + 1);
        for part in parts {
            let Part::Content(range) = part else {
                out.push(part);
                continue;
            };
            if let Some(bytes) = self.before.as_slice().get(range.start as usize..range.end.min(memory) as usize)
                && !bytes.is_empty()
            {
                out.push(Part::Bytes(bytes.to_vec()));
            }
            let of_file = |at: u64| at.max(memory) - memory + self.content.start;
            if range.end > memory {
                out.push(Part::Content(of_file(range.start)..of_file(range.end)));
            }
        }
        out
    }
}
