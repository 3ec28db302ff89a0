//! What a program that runs on our stack and the keeper of its link say to each other.
//!
//! The program's processes inherit one end of a channel ([`CHANNEL`]), and are told by their
//! environment what is theirs ([`TERMS`]). Whoever of them wants frames asks for a seat, and gets
//! the link's descriptors and those of what all seats share; whoever listens gives the keeper a share in the listening
//! socket; and what is to be said to the operator goes the same way, for a program's own
//! descriptors are not ours to write to.
#![forbid(unsafe_code)]

mod channel;
mod terms;

pub use channel::{
    Ask, Asked, Seat, ask, ask_for_link, ask_for_seat, give_seat, pair, receive, refuse_seat, take_over_seat,
};
pub use terms::{BadTerms, Subnet, Terms};

/// What a worker tells of itself on the keeper's statistics page, beside what its stack, its link and
/// its sockets count: names, and whether it is a gauge.
pub const WORKER_VALUES: [(&str, bool); 6] = [
    // Which process has the seat; 0: none.
    ("program.pid", true),
    // Calls of the program that concerned connections and sets of ours.
    ("program.calls", false),
    // Between two turns while the program computed: the longest time, and how often it was over 1 ms.
    ("program.longest_gap_ns", true),
    ("program.gaps_over_1ms", false),
    ("silo.turns", false),
    ("link.up", true),
];

/// The variable that has the number of the channel's descriptor.
pub const CHANNEL: &str = "NEARSIDE_CHANNEL";
/// The variable that has the [`Terms`].
pub const TERMS: &str = "NEARSIDE_TERMS";
/// The variable that a process has which is to end what connections a killed one left, and nothing else.
pub const ENDS_LOST: &str = "NEARSIDE_ENDS_LOST";

/// The symbol by which the library is known.
pub const LIBRARY_SYMBOL: &str = "nearside_preload_version";
/// What stands there, before the version: both end with a zero.
pub const LIBRARY_WORDS: &str = "nearside's library to preload, version ";
/// The version of what is in this crate, which the keeper and the library must have in common.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
