//! One link for the processes of a program: whose a frame is, and how it gets there.
//!
//! Each worker of such a program has a stack of its own, all of them the same addresses. They
//! have a [`SharedMemory`], in which stands who is there, where each listens, and a ring of frames
//! from each to each. A [`SeatedLink`] is a worker's link: it receives what is its own, and passes
//! on what is another's.
//!
//! ```text
//!  link ─► who reads ─┬─ own flow ────────────────────► on_frame
//!                     ├─ another seat's flow ─► ring ─► on_frame ─┬─ known
//!                     └─ ARP reply, NA, ICMP error ─► all         └─ a stray ─► the next seat, …
//! ```
//!
//! Whoever is awake reads the link, one at a time, so that no flow's frames overtake each other.
//! Where a link is queues whose rings all have mapped, that holds for each of them ([`QueueSet`]).
//! A connection is the seat's that accepted it. Where that is, a table of hints says; a hint may
//! be wrong or missing, and then the frame passes from seat to seat, the newest first, until one
//! knows its flow. The last of them answers as RFC 9293 section 3.10.7.1 says.
//!
//! All processes may write all of the memory, and one that somebody broke into may write anything:
//! each word is an atomic that is copied once and checked, and each frame is copied out of its ring
//! before anybody looks at it. So the worst is a lost or foreign frame, as from any network.

mod flows;
mod link;
mod memory;
mod passing;
mod queues;
mod ring;

pub use link::SeatedLink;
pub use memory::{QUEUES_MAX, SEATS_MAX, SharedMemory};
pub use passing::{LONGEST_PARKED, PassingCounters, seat_of_port};
pub use queues::{CommonReceive, CommonTransmit, Held, QueueSet};

#[cfg(test)]
mod tests;
