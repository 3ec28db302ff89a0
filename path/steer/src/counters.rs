//! What steering counts.

app::counters! {
    /// What passed between one silo and the others.
    pub Counters {
        /// Received frames passed on to the silo that they belong to.
        forwarded_out,
        /// Bytes of these.
        forwarded_out_bytes,
        /// Frames that other silos received and passed on to this one.
        forwarded_in,
        /// Bytes of these.
        forwarded_in_bytes,
        /// Frames sent through another silo's queue.
        lent_out,
        /// Bytes of these.
        lent_out_bytes,
        /// Frames sent for other silos.
        lent_in,
        /// Bytes of these.
        lent_in_bytes,
        /// Bytes passed to a silo of another domain.
        crossed_bytes,
        /// Frames dropped because the ring to their silo was full.
        ring_full,
        /// Frames dropped because their silo is not there, or not yet.
        absent,
        /// Frames dropped because they were longer than the queue takes.
        too_long,
        /// Neighbour messages, ICMP errors and fragments shared with others.
        messages_out,
        /// Those that others shared.
        messages_in,
        /// Those not shared, and strays not passed on, because there were too
        /// many.
        messages_limited,
        /// Segments of unknown flows passed on to silos that may own them.
        strays_passed,
        /// Those that came from others.
        strays_in,
        /// Those that came from others and were not of this silo either.
        strays_dropped,
        /// Those that came from others and were of this silo.
        strays_owned,
        /// Flows whose silo was remembered: chosen when they began, or found
        /// again.
        flows_steered,
        /// Flows that began when no more could be remembered, and stay where
        /// they arrive.
        flows_full,
        /// Flows forgotten, since their silo knows them no more.
        flows_forgotten,
    }
}
