//! Bodies that were compressed, for clients that do not take that.

use flate2::read::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::Read;

/// Bytes are no gzip file, or a longer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotGzip;

/// A gzip file that comes by the piece, and may have several members.
pub struct Gunzip {
    state: Decompress,
    /// Between two members, or at the end.
    ended: bool,
}

impl core::fmt::Debug for Gunzip {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gunzip").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// What was done with a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// So many bytes were taken.
    pub bytes: usize,
    /// There is more to be told of them: call again, with or without input.
    pub more: bool,
}

impl Default for Gunzip {
    fn default() -> Self {
        Self::new()
    }
}

impl Gunzip {
    /// The start of a file.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Decompress::new_gzip(15), ended: true }
    }

    /// Takes some of `input`, and appends at most `most` bytes to `out`: a
    /// kilobyte may stand for a megabyte.
    ///
    /// # Errors
    /// It is no gzip file; what was made of it before is appended.
    pub fn read(&mut self, input: &[u8], out: &mut Vec<u8>, most: usize) -> Result<Taken, NotGzip> {
        let (mut at, start) = (0, out.len());
        out.reserve(most);
        let mut room = vec![0; most.min(8 << 10)];
        loop {
            let left = most - (out.len() - start);
            if left == 0 {
                return Ok(Taken { bytes: at, more: true });
            }
            if at == input.len() && self.ended {
                return Ok(Taken { bytes: at, more: false });
            }
            let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
            let room_now = room.len().min(left);
            let status = self.state.decompress(&input[at..], &mut room[..room_now], FlushDecompress::None);
            let taken = (self.state.total_in() - before_in) as usize;
            let told = (self.state.total_out() - before_out) as usize;
            at += taken;
            // What was made before it turned out to be none.
            out.extend_from_slice(room.get(..told).unwrap_or_default());
            let status = status.map_err(|_| NotGzip)?;
            self.ended = status == Status::StreamEnd;
            if self.ended {
                // Another member may follow.
                self.state = Decompress::new_gzip(15);
            } else if taken == 0 && told == 0 {
                return Ok(Taken { bytes: at, more: false });
            }
        }
    }

    /// Whether it may end here.
    #[must_use]
    pub const fn may_end(&self) -> bool {
        self.ended
    }
}

/// What the members of a gzip file hold, at most `most` bytes.
///
/// # Errors
/// It is none, or longer.
pub fn members(bytes: &[u8], most: usize) -> Result<Vec<u8>, NotGzip> {
    let mut out = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(most as u64 + 1).read_to_end(&mut out);
    if read.is_ok() && out.len() <= most { Ok(out) } else { Err(NotGzip) }
}
