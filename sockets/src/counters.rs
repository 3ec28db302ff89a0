//! What a worker counts.

app::counters! {
    /// What a worker counted since it began.
    pub Counters {
        /// Connections taken from listening sockets.
        accepted,
        /// Accepts that found the queue empty: another worker was faster, or
        /// the last of a batch.
        accepts_empty,
        /// Connections that were gone before they were accepted
        /// (ECONNABORTED and the network's errors that accept(2) passes on).
        accepts_aborted,
        /// Accepts refused for want of descriptors (EMFILE, ENFILE).
        accepts_no_descriptors,
        /// Accepts refused for want of memory (ENOBUFS, ENOMEM).
        accepts_no_memory,
        /// Accepts refused for another reason, as a security module's.
        accepts_refused,
        /// Times that listening sockets were left alone for a while, because
        /// an accept could not have succeeded.
        accept_pauses,
        /// Times that accepting stopped at the limit on connections, where none
        /// was idle.
        accept_limits,
        /// Idle connections ended at the limit on connections, to make room.
        idle_displaced,
        /// Connections refused, because their client has as many as it may have.
        source_limited,
        /// Connections that we began to open.
        connects,
        /// Of these, those that were answered.
        connected,
        /// Of these, those that were not, or with a refusal.
        connects_failed,
        /// Connects that could not start.
        connects_refused,
        /// Connects to a Unix socket whose queue was full, tried again.
        connects_again,
        /// Connections open or opening now.
        connections,
        /// Connections closed.
        closed,
        /// Of these, those that the peer reset.
        resets_received,
        /// Of these, those that we reset.
        resets_sent,
        /// Bytes received.
        received_bytes,
        /// Calls that received something.
        receives,
        /// Calls that found nothing to receive.
        receives_empty,
        /// Receives of a ring that found no buffer free, and were asked for
        /// again.
        receives_no_buffer,
        /// Bytes that the kernel took.
        sent_bytes,
        /// Of these, those that went from files by sendfile(2).
        sent_file_bytes,
        /// Of these, those that went from one connection to another by splice(2).
        passed_bytes,
        /// Calls to send.
        sends,
        /// Of these, those that a ring sent without a copy.
        sends_zero_copy,
        /// Sends of which the kernel took not all: its buffer is full.
        sends_short,
        /// Bytes for applications that were in records of secured connections.
        opened_bytes,
        /// Secured connections whose records the kernel began to seal (kTLS), for a file
        /// by sendfile(2).
        kernel_tls,
        /// Of these, those that are open.
        kernel_tls_open,
        /// Secured connections ended because their peer sent what could not be
        /// opened, or must not be sent.
        records_refused,
        /// Of these, those whose peers were given time to read the alert that says why.
        farewells,
        /// Of these, those that were closed before their peers ended.
        farewells_cut,
        /// Secured connections ended because nothing more could be sealed.
        records_unsealed,
        /// Files that were shorter than what was to be sent of them, or could
        /// not be read.
        files_truncated,
        /// Connections ended because their queue exceeded its limit.
        send_queue_overflow,
        /// Bytes left unconsumed by the application, copied and kept.
        held_bytes,
        /// Times that receiving stopped, because the application left too
        /// much unconsumed.
        receive_stops,
        /// Returns of the kernel's wait.
        waits,
        /// Of these, those with something to do.
        wakes,
        /// Of these, those that brought nothing: the connection that all
        /// waiting workers were woken for was taken by another.
        wakes_empty,
        /// Events of connections.
        events,
        /// Events of connections that were already gone.
        events_stale,
        /// Connections that the kernel would not watch.
        watch_errors,
        /// Application timers that ran out.
        timers,
    }
}
