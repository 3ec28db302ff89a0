//! Steering: which silo a frame belongs to, and how it gets there.
//!
//! A [`Mesh`] of bounded rings joins the silos of a process, a [`MeshEnd`] for
//! each. [`Steered`] is a silo's own link with its end of the mesh: a [`link::Link`]
//! that receives what the own queue and the other silos bring, passes on what
//! is theirs, and lends its transmit queue to silos that have none.
//!
//! ```text
//!  queue ─► receive ─┬─ own flow ───────────────► on_frame (in place)
//!                    ├─ another silo's flow ────► its ring (one copy)
//!                    └─ ARP reply, NA, ICMP error ► here, and to whom it helps
//!  rings ─► receive ─── what others passed on ──► on_frame (in place)
//!  rings ─► flush ───── frames of silos without a queue ─► queue
//! ```
//!
//! Nothing here takes a lock. What passes between silos is counted, also when
//! it is dropped because a ring is full.

mod allowance;
mod classify;
mod counters;
mod doorbell;
mod flows;
mod load;
mod mesh;
mod receive;
mod receiving;
mod region;
mod returns;
mod ring;
mod steered;
mod transmit;

pub use allowance::Allowance;
pub use classify::{Hasher, Kind, Tuple, is_plain, kind, plain};
pub use counters::Counters;
pub use flows::FLOWS;
pub use link::Rss;
pub use mesh::{
    FORWARD_RING, MESSAGE_RING, Mesh, MeshConfig, MeshEnd, MeshError, MeshHandle, Policy, SILOS_MAX, SiloSpec, Spread,
};
pub use receive::SteeredRx;
pub use returns::{KEY_LEN, ReturnQueue, Toeplitz};
pub use steered::Steered;
pub use transmit::SteeredTx;

#[cfg(test)]
mod tests;
