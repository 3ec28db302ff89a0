//! What the stack counts, by its parts.

/// The counters of the parts, and those of the whole: each is written once,
/// with the part that counts it.
macro_rules! parts {
    ($($(#[$outer:meta])* $part:ident: $name:ident { $($(#[doc = $doc:literal])* $field:ident),* $(,)? })*) => {
        $(app::counters! { $(#[$outer])* pub(crate) $name { $($(#[doc = $doc])* $field),* } })*

        app::counters! {
            /// Events of a stack, beside TCP's own.
            pub Counters { $($($(#[doc = $doc])* $field),*),* }
        }

        impl Counters {
            /// Of all parts.
            pub(crate) fn of($($part: &$name),*) -> Self {
                Self { $($($field: $part.$field),*),* }
            }
        }
    };
}

parts! {
    /// Events of IP, and of what belongs to it.
    ip: IpCounters {
        /// Frames taken in.
        frames_in,
        /// Frames that were not for us: address, VLAN or protocol.
        not_for_us,
        /// Frames, packets or segments that were malformed.
        malformed,
        /// Packets with a wrong checksum.
        bad_checksum,
        /// Packets from addresses that cannot be a sender (RFC 1122 section
        /// 3.2.1.3, RFC 4291 section 2.7).
        martian,
        /// ARP and neighbour discovery messages taken in.
        neighbour_in,
        /// ARP and neighbour discovery messages in which another host claims
        /// an address of ours.
        address_conflicts,
        /// Addresses announced, each time.
        announcements,
        /// ICMP messages taken in.
        icmp_in,
        /// ICMP errors that quote nothing of ours.
        icmp_ignored,
        /// Fragments taken in.
        fragments_in,
        /// Datagrams put together again.
        reassembled,
        /// Reassembled segments of flows that are, if anybody's, another
        /// silo's.
        reassembled_foreign,
        /// UDP datagrams for which nobody listens.
        udp_no_port,
        /// Resets and ICMP errors not sent because of their limit.
        errors_limited,
        /// Replies dropped because no transmit slot was free.
        replies_dropped,
    }
    /// Events of TCP beside those of single connections.
    segments: SegmentCounters {
        /// SYNs for a port on which nobody listens.
        refused,
        /// Segments for a port that accepts connections which neither open one
        /// nor belong to one: no SYN, ACK or RST, or both SYN and FIN.
        listen_dropped,
        /// Segments of unknown flows of which it was asked whether they are
        /// another silo's.
        strays,
        /// Handshakes begun by peers.
        handshakes,
        /// SYN cookies sent.
        cookies_sent,
        /// Handshakes completed by a cookie.
        cookies_accepted,
        /// Acknowledgements that looked like a cookie's and were not.
        cookies_failed,
        /// SYNs dropped at the connection limit, where no connection was idle.
        syn_dropped,
        /// Handshakes that could not be accepted yet at the connection limit.
        accept_deferred,
        /// Idle connections ended at the connection limit, to make room.
        idle_displaced,
        /// SYNs and handshakes refused, because their client has as many
        /// connections as it may have.
        source_limited,
        /// Handshakes given up after all retransmissions.
        half_open_expired,
        /// Handshakes ended because there is no way to the peer.
        half_open_unreachable,
        /// Connections accepted.
        accepted,
        /// Connections that another stack had accepted and nobody had spoken on.
        immigrated,
        /// Connections that were left to another stack.
        emigrated,
        /// Connections that we opened.
        connected,
        /// Connections over.
        closed,
        /// TIME-WAIT records replaced by a new connection of the same flow.
        time_wait_reused,
        /// TIME-WAIT records dropped before their time, at the limit.
        time_wait_dropped,
        /// Resets sent.
        resets_out,
        /// Challenge acknowledgements not sent because of their limit.
        challenges_limited,
        /// Times that a transmit slot was wanted and none was free.
        no_slot,
        /// Replies sent in a later turn because no transmit slot was free.
        replies_delayed,
        /// Connections ended because their send queue overflowed.
        send_queue_overflow,
        /// Times that a connection had to forget what it held ahead of a gap,
        /// for want of memory.
        early_shed,
        /// Connections ended for want of memory, whose applications had waited
        /// longest for more.
        held_ended,
        /// Secured connections ended because something could not be opened.
        records_failed,
        /// Secured connections ended because a record could not be sealed, or
        /// far more had to be sealed than was sent.
        sealing_ended,
    }
}
