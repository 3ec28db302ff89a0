//! Streams that send from blocks of large files ([`crate::blocks`]).
//!
//! ```text
//!  stream ─► block there ──────────────► queued, as it lies there
//!         ─► block being read ─► waits, is told
//!         ─► absent ─► read ──► all who wait are told
//!         ─► no block may go ──► a piece is read for this stream alone
//! ```
//!
//! While a stream sends from a block, the next one is read: one block ahead of each, if it takes
//! what it is sent.

use crate::Files;
use crate::blocks::{BLOCK, Blocks, Found};
use crate::ids::{BlockId, WorkId};
use crate::reader::{Job, ReadFor};
use crate::stream::Queued;
use crate::work::Work;
use crate::worker::{ReadOutcome, Source};
use exchange::{Piece, Replies};
use std::sync::Arc;

impl Files {
    /// Sends at most `length` bytes of what comes next from its block, or waits for that. Whether
    /// it does either: else they are to be read for this stream alone.
    pub(crate) fn send_of_block<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, length: usize) -> bool {
        let Self { blocks: Some(blocks), works, reader, counters, second, .. } = self else { return false };
        let Some(Work { stream: Some(stream), .. }) = works.get(work) else { return false };
        let Some(range) = stream.next_content() else { return false };
        // What may change and be called the same is for its asker alone.
        if stream.source.identity().is_racy(*second) {
            return false;
        }
        let at = stream.layout.in_file(range.start);
        let (number, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
        let anew = stream.block != Some(number);
        stream.block = Some(number);
        match blocks.find(stream.source.identity(), number, anew) {
            Found::Ready(body, from) => {
                counters.block_hits += u64::from(anew);
                let length = length.min(BLOCK - within).min((body.len() - from) as usize - within);
                let start = from + within as u32;
                // The next of the same answer.
                let ahead = (number + 1) * BLOCK as u64;
                if anew && stream.moves && stream.layout.in_file(range.end) > ahead {
                    let job = read_ahead(blocks, &stream.source, number + 1);
                    counters.block_reads += u64::from(job.is_some());
                    job.into_iter().for_each(|job| reader.submit(job));
                }
                self.send_slice(replies, work, (&body, start, start + length as u32));
                return true;
            }
            Found::Reading(block) => blocks.wait(block, work),
            Found::Absent => {
                let Some((block, job)) = read(blocks, &stream.source, number) else {
                    stream.block = None;
                    counters.block_misses += 1;
                    return false;
                };
                counters.block_reads += 1;
                blocks.wait(block, work);
                reader.submit(job);
            }
        }
        stream.asked = true;
        self.working += 1;
        true
    }

    /// Queues some of a block, and goes on.
    fn send_slice<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        work: WorkId,
        (body, start, end): (&app::Body, u32, u32),
    ) {
        self.begin_reply(replies, work);
        let Some((id, stream)) = self.stream(work) else { return };
        replies.body(id, Piece::Body(body, (start, end)));
        let length = (end - start) as usize;
        stream.queued.push_back(Queued::OfBlock(length));
        if let Some(rate) = &mut stream.rate {
            rate.queued += length as u64;
        }
        stream.advance(replies, id, length as u64);
        self.counters.stream_chunks += 1;
        self.pump(replies, work);
    }

    /// A block was read, or could not be: who waits for it goes on.
    pub(crate) fn on_block<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        block: BlockId,
        (memory, from): (Vec<u8>, usize),
        outcome: ReadOutcome,
    ) {
        let Some(blocks) = &mut self.blocks else { return };
        let waiting = match outcome {
            ReadOutcome::Intact => blocks.filled(block, memory, from),
            ReadOutcome::Changed | ReadOutcome::Failed => blocks.failed(block, memory),
        };
        for work in waiting {
            if self.take_outcome(replies, work, outcome) {
                self.pump(replies, work);
            }
        }
    }
}

/// Has a block read that is absent; none where all are being sent or read.
fn read(blocks: &mut Blocks, source: &Arc<Source>, number: u64) -> Option<(BlockId, Job)> {
    let (block, buffer) = blocks.begin(source.identity(), number)?;
    let (whom, source) = (ReadFor::Block(block), Arc::clone(source));
    Some((block, Job::Read { whom, source, offset: number * BLOCK as u64, length: BLOCK, buffer }))
}

/// The same for one that nobody waits for yet, unless it is there or being read.
fn read_ahead(blocks: &mut Blocks, source: &Arc<Source>, number: u64) -> Option<Job> {
    match blocks.find(source.identity(), number, false) {
        Found::Absent => read(blocks, source, number).map(|(_, job)| job),
        Found::Ready(..) | Found::Reading(_) => None,
    }
}
