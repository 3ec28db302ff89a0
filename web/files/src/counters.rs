//! What a server of files counts.

app::counters! {
    /// Counts since the start, except where marked a gauge.
    pub Counters {
        /// Requests answered from memory at once, the short way apart.
        cache_hits,
        /// Requests that waited for the file reader.
        cache_misses,
        /// Gauge: requests that wait for the file reader now.
        requests_waiting,
        /// Entries taken out of the cache to make room.
        cache_evictions,
        /// Times that the file reader was done with looking for a path.
        cache_looks,
        /// Files found changed, and loaded again.
        cache_refreshes,
        /// Gauge: bytes of content in memory.
        cache_bytes,
        /// Gauge: bytes of content that silos share, told by one of them.
        cache_common_bytes,
        /// Gauge: of these, second and further copies.
        cache_copy_bytes,
        /// Bytes of content in another NUMA domain that went into frames, as
        /// often as they did.
        far_bytes,
        /// Frames that have such bytes.
        far_frames,
        /// Gauge: paths remembered.
        cache_entries,
        /// Requests given up because the file system did not answer.
        timeouts_file,
        /// Times that the file system was found to hang, or some of it.
        file_hangs,
        /// Gauge: whole seconds for which the file system has answered nothing, though it
        /// was asked.
        file_silence,
        /// Requests answered with what is in memory, however old, because the
        /// file system hangs.
        stale,
        /// Requests answered 503 at a limit of waiting requests or streams.
        overloads,
        /// Responses streamed from a file.
        streams,
        /// Gauge: responses being streamed.
        streams_open,
        /// Chunks of files streamed.
        stream_chunks,
        /// Gauge: bytes of memory for blocks of large files that streams share.
        block_bytes,
        /// Blocks that were read.
        block_reads,
        /// Blocks that streams found in memory.
        block_hits,
        /// Pieces that were read for one stream alone, because all blocks were being sent or read.
        block_misses,
        /// Pieces of files that the data path sent by itself.
        file_pieces,
        /// Bytes of files taken back from peers that did not take them, because
        /// others wanted the memory; sent again if they go on.
        stream_bytes_taken_back,
        /// Streams ended by a reset, because others wanted the memory of what
        /// was sent and not acknowledged.
        streams_evicted,
        /// Streams ended by a reset, because the file changed or could not be read.
        streams_broken,
        /// File system look-ups that failed for a reason other than the path.
        file_errors,
    }
}
