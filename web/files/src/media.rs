//! What comes next of a stream, from blocks of large files ([`crate::blocks`]).
//!
//! ```text
//!  stream ─► block there ──────────────► queued, as it lies there
//!         ─► block being read ─► waits, is told
//!         ─► absent ─► read ──► all who wait are told
//!         ─► no block may go ──► those of streams whose peers stall are taken back
//!                            └─► none: a piece is read for this stream alone
//! ```
//!
//! While a stream sends from a block, the next one is read: one block ahead of each, if it takes
//! what it is sent. A stream has a piece of one until its peer has taken some of it; one that was taken back
//! for its peer had stalled goes on with a small piece of its own, and with blocks again when its peer
//! takes that.

use crate::Counters;
use crate::blocks::{BLOCK, BlockPlace, Blocks, Lookup};
use crate::ids::WorkId;
use crate::reader::{Job, ReadFor, Reader};
use crate::source::Source;
use crate::stream::Stream;
use app::Body;
use std::sync::Arc;

/// What comes next of a stream.
#[derive(Debug)]
pub enum NextSlice {
    /// These bytes of a block.
    OfBlock(Body, u32, u32),
    /// It waits for a block, and is told of that.
    Waits,
    /// What is read for it alone.
    Alone,
    /// There is a place for no block more.
    Full,
}

/// At most `length` bytes of what comes next of the stream of `work`. `second`: the unix second.
pub fn next_slice(
    blocks: &mut Blocks,
    (work, stream): (WorkId, &mut Stream),
    reader: &mut Reader,
    counters: &mut Counters,
    (length, second): (usize, u64),
) -> NextSlice {
    // What may change and be called the same is for its asker alone.
    let is_own = stream.was_taken_back || stream.source.identity().is_racy(second);
    let Some(range) = stream.next_content().filter(|_| !is_own) else {
        return NextSlice::Alone;
    };
    let at = stream.layout.in_file(range.start);
    let (number, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
    let anew = stream.block != Some(number);
    stream.block = Some(number);
    match blocks.find(stream.source.identity(), number, anew) {
        Lookup::Ready(body, from) => {
            counters.block_hits += u64::from(anew);
            // The next of the same answer.
            let ahead = (number + 1) * BLOCK as u64;
            if anew && stream.moves && stream.layout.in_file(range.end) > ahead {
                let job = read_ahead(blocks, &stream.source, number + 1);
                counters.block_reads += u64::from(job.is_some());
                job.into_iter().for_each(|job| reader.submit(job));
            }
            // All that its identity promises is there.
            let there = (body.len() - from) as usize - within;
            let start = from + within as u32;
            return NextSlice::OfBlock(body, start, start + length.min(there).min(BLOCK - within) as u32);
        }
        Lookup::Reading(block) => blocks.wait(block, work),
        Lookup::Absent => {
            let Some((block, job)) = read(blocks, &stream.source, number) else {
                stream.block = None;
                return NextSlice::Full;
            };
            counters.block_reads += 1;
            blocks.wait(block, work);
            reader.submit(job);
        }
    }
    NextSlice::Waits
}

/// Has a block read that is absent; none where all are being sent or read.
fn read(blocks: &mut Blocks, source: &Arc<Source>, number: u64) -> Option<(BlockPlace, Job)> {
    let (block, buffer) = blocks.begin(source.identity(), number)?;
    let (whom, source) = (ReadFor::Block(block), Arc::clone(source));
    Some((block, Job::Read { whom, source, offset: number * BLOCK as u64, length: BLOCK, buffer }))
}

/// The same for one that nobody waits for yet, unless it is there or being read.
fn read_ahead(blocks: &mut Blocks, source: &Arc<Source>, number: u64) -> Option<Job> {
    match blocks.find(source.identity(), number, false) {
        Lookup::Absent => read(blocks, source, number).map(|(_, job)| job),
        Lookup::Ready(..) | Lookup::Reading(_) => None,
    }
}
