//! What a server counts.

use crate::Server;
use connections::Counters;
use exchange::Handler;

impl<H: Handler> Server<H> {
    /// What was counted, but for what handlers count themselves.
    #[must_use]
    pub const fn counted(&self) -> &Counters {
        &self.h1.connections.counters
    }
}

/// Adds what a server of files counted.
pub(crate) fn add(counters: &mut Counters, files: &files::Counters) {
    let pairs: [(&mut u64, u64); 28] = [
        (&mut counters.cache_hits, files.cache_hits),
        (&mut counters.cache_misses, files.cache_misses),
        (&mut counters.requests_waiting, files.requests_waiting),
        (&mut counters.cache_evictions, files.cache_evictions),
        (&mut counters.cache_looks, files.cache_looks),
        (&mut counters.cache_refreshes, files.cache_refreshes),
        (&mut counters.cache_bytes, files.cache_bytes),
        (&mut counters.cache_common_bytes, files.cache_common_bytes),
        (&mut counters.cache_copy_bytes, files.cache_copy_bytes),
        (&mut counters.far_bytes, files.far_bytes),
        (&mut counters.far_frames, files.far_frames),
        (&mut counters.cache_entries, files.cache_entries),
        (&mut counters.timeouts_file, files.timeouts_file),
        (&mut counters.file_hangs, files.file_hangs),
        (&mut counters.file_silence, files.file_silence),
        (&mut counters.stale, files.stale),
        (&mut counters.overloads, files.overloads),
        (&mut counters.streams, files.streams),
        (&mut counters.streams_open, files.streams_open),
        (&mut counters.stream_chunks, files.stream_chunks),
        (&mut counters.file_pieces, files.file_pieces),
        (&mut counters.stream_bytes_taken_back, files.stream_bytes_taken_back),
        (&mut counters.block_bytes, files.block_bytes),
        (&mut counters.block_reads, files.block_reads),
        (&mut counters.block_hits, files.block_hits),
        (&mut counters.block_misses, files.block_misses),
        (&mut counters.streams_evicted, files.streams_evicted),
        (&mut counters.streams_broken, files.streams_broken),
    ];
    for (sum, count) in pairs {
        *sum += count;
    }
    counters.file_errors += files.file_errors;
}
