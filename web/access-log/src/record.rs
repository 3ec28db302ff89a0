//! What a silo hands to the writer: records, each lines of one log.

/// Bytes before what a record holds: the log, the lengths of path, root and
/// lines.
pub(crate) const HEAD: usize = 2 + 3 * 4;

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    pub log: u16,
    /// The file, where each line has its own.
    pub path: &'a [u8],
    /// What is to be there before a file is opened.
    pub root: &'a [u8],
    pub lines: &'a [u8],
}

impl<'a> Record<'a> {
    /// Begins one at the end of `out`.
    pub fn begin(out: &mut Vec<u8>, log: u16, path: &[u8], root: &[u8]) {
        out.extend_from_slice(&log.to_le_bytes());
        // A request's path is shorter.
        for length in [path.len(), root.len(), 0] {
            out.extend_from_slice(&(length as u32).to_le_bytes());
        }
        out.extend_from_slice(path);
        out.extend_from_slice(root);
    }

    /// Ends the one that began at `at`: what follows is another's.
    pub fn end(out: &mut [u8], at: usize) {
        let word = |from: usize| {
            out.get(at + from..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word))
        };
        let before = word(2).unwrap_or(0) as usize + word(6).unwrap_or(0) as usize + HEAD;
        let lines = out.len().saturating_sub(at + before) as u32;
        if let Some(length) = out.get_mut(at + 10..at + 14) {
            length.copy_from_slice(&lines.to_le_bytes());
        }
    }

    /// The first of `bytes`, and what follows it.
    pub fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (log, rest) = bytes.split_first_chunk()?;
        let (path, rest) = rest.split_first_chunk()?;
        let (root, rest) = rest.split_first_chunk()?;
        let (lines, rest) = rest.split_first_chunk()?;
        let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*path) as usize)?;
        let (root, rest) = rest.split_at_checked(u32::from_le_bytes(*root) as usize)?;
        let (lines, rest) = rest.split_at_checked(u32::from_le_bytes(*lines) as usize)?;
        Some((Self { log: u16::from_le_bytes(*log), path, root, lines }, rest))
    }

    /// How many lines it has.
    pub fn count(&self) -> u64 {
        (self.lines.iter().filter(|byte| **byte == b'\n').count() as u64).max(1)
    }
}
