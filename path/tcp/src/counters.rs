//! What TCP counts.

app::counters! {
    /// Events of all connections of a stack.
    pub Counters {
        /// Segments received for a connection.
        segments_in,
        /// Of these, taken by the fast path.
        fast_path,
        /// Segments sent, retransmissions included.
        segments_out,
        /// Segments retransmitted.
        retransmits,
        /// Retransmission timeouts.
        timeouts,
        /// Fast recoveries entered.
        fast_recoveries,
        /// Tail loss probes sent (RFC 8985 section 7).
        loss_probes,
        /// Losses that such a probe repaired.
        loss_probe_recoveries,
        /// Recoveries taken back, because nothing had been lost (RFC 4015).
        recoveries_undone,
        /// Segments that the peer reported to have got twice (RFC 2883).
        dsacks_in,
        /// The same reported to peers.
        dsacks_out,
        /// Segments that arrived ahead of a gap.
        out_of_order,
        /// Bytes ahead of a gap that were dropped at the buffer's limit.
        out_of_order_dropped,
        /// Bytes in order that were dropped because all connections together
        /// hold too much, and this one held some already.
        receive_full_dropped,
        /// Segments wholly outside the window.
        out_of_window,
        /// Segments refused by PAWS (RFC 7323 section 5).
        paws_rejected,
        /// Segments without the timestamps agreed on (RFC 7323 section 3.2).
        timestamp_missing,
        /// Segments that acknowledged what was never sent, or long ago.
        bad_ack,
        /// Challenge acknowledgements asked for (RFC 5961).
        challenge_acks,
        /// Resets in the window but not at its edge (RFC 5961 section 3).
        resets_challenged,
        /// SYNs on a synchronized connection (RFC 5961 section 4).
        syns_challenged,
        /// Connections reset by the peer.
        resets_in,
        /// Window and keepalive probes sent.
        probes,
        /// Connections given up for lack of an answer.
        given_up,
        /// Acknowledgements sent alone.
        pure_acks,
        /// Segments cut because of a smaller path MTU.
        path_mtu_reduced,
        /// Times that a segment was sent again cut short, because nothing had been
        /// heard of it after several timeouts (RFC 8899 section 4.3).
        path_mtu_suspected,
        /// Paths found not to carry what both sides take, without telling.
        path_mtu_black_holes,
        /// Longer segments sent to see whether they pass (RFC 8899 section 5).
        path_mtu_probes,
        /// Times that one did.
        path_mtu_raised,
    }
}
