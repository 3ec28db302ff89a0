//! What the server counts.

app::counters! {
    /// Counts since the start, except where marked a gauge.
    pub Counters {
        /// Request heads accepted.
        requests,
        /// Responses with a 1xx status.
        responses_1xx,
        /// Responses with a 2xx status.
        responses_2xx,
        /// Responses with a 3xx status.
        responses_3xx,
        /// Responses with a 4xx status.
        responses_4xx,
        /// Responses with a 5xx status.
        responses_5xx,
        /// Response bytes queued, heads included.
        bytes_queued,
        /// Requests answered from memory at once.
        cache_hits,
        /// Requests that waited for the file reader.
        cache_misses,
        /// Gauge: requests that wait for the file reader now: what `least`
        /// steering goes by before the number of connections.
        requests_waiting,
        /// Entries taken out of the cache to make room.
        cache_evictions,
        /// Times that the file reader was done with looking for a path.
        cache_looks,
        /// Files found changed, and loaded again.
        cache_refreshes,
        /// Times that the content was to be looked for again.
        reloads,
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
        /// Requests that broke the HTTP grammar or a limit of it.
        parse_errors,
        /// Request bodies above the limit.
        bodies_refused,
        /// Connections ended for a request head that did not come.
        timeouts_header,
        /// Connections ended for a request body that stopped coming.
        timeouts_body,
        /// Keep-alive connections ended for want of a next request.
        timeouts_keep_alive,
        /// Connections ended because the peer stopped taking the response.
        timeouts_send,
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
        /// Connections ended because the peer never closed its side.
        timeouts_linger,
        /// Handshakes ended because nearly all places were taken, and they took long.
        gave_way_handshakes,
        /// Of heads that did not come, those that were given less time for that reason.
        gave_way_heads,
        /// Of bodies that stopped coming, those that came too slowly then.
        gave_way_bodies,
        /// Tunnels ended then, because their client had more than a quarter of all places.
        gave_way_tunnels,
        /// Requests that waited for an upstream, and answers that nobody took, ended for
        /// the same reason.
        gave_way_requests,
        /// Connections opened.
        connections,
        /// Gauge: connections open.
        connections_open,
        /// Connections refused at the limit, or while draining.
        connections_refused,
        /// Handshakes of TLS begun.
        handshakes,
        /// Those that secured their connections.
        handshakes_done,
        /// Of these, those that went on with a session from before.
        handshakes_resumed,
        /// Handshakes that came to nothing.
        handshakes_failed,
        /// Times that one waited for a place at a limit.
        handshakes_delayed,
        /// Connections of HTTP/2 ended for requests that were reset before they were answered.
        flood_rapid_reset,
        /// The same, for what has us reset streams.
        flood_made_reset,
        /// The same, for heads in pieces without end.
        flood_continuation,
        /// The same, for settings.
        flood_settings,
        /// The same, for pings.
        flood_ping,
        /// The same, for priorities.
        flood_priority,
        /// The same, for frames that have nothing.
        flood_empty,
        /// The same, for windows that open by a few bytes.
        flood_window,
        /// The same, for padding.
        flood_padding,
        /// The same, for changes of the size of their table of fields.
        flood_table,
        /// The same, for heads that are more than they are on the wire, and wait.
        flood_heads,
        /// The same, for framing of much more than it frames.
        flood_overhead,
        /// Times that a peer's next request waited for its responses to be taken.
        back_pressure,
        /// Requests answered 503 at a limit of waiting requests or streams.
        overloads,
        /// Responses streamed from a file.
        streams,
        /// Gauge: responses being streamed.
        streams_open,
        /// Chunks of files streamed.
        stream_chunks,
        /// Pieces of files that the data path sent by itself.
        file_pieces,
        /// Gauge: bytes of memory for blocks of large files, which streams share.
        block_bytes,
        /// Blocks of large files that were read.
        block_reads,
        /// Blocks that streams found in memory.
        block_hits,
        /// Pieces read for one stream alone, because all blocks were being sent or read.
        block_misses,
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
        /// Log lines dropped: the writer was behind, or could not write.
        log_drops,
    }
}
