//! Groups of servers that requests are passed on to: which of them is asked,
//! which is left alone for a while, and which connections are kept.
//!
//! ```text
//!  Group (of the configuration, shared) ──► Balancer (of a silo)
//!     begin(key) ─► Attempts ─► choose ─► a peer ─► … ─► release(how it went)
//!                                 ▲                          │
//!                                 └───── the next peer ◄─────┘
//!  IdlePool (of a silo): take a connection to that peer, put it back
//! ```
//!
//! Where servers are known by names, a group changes while it serves
//! ([`NamedServers`], [`Balancer::change`]): what is known of a peer that stays, stays.
//!
//! The choices are those of nginx, peer by peer: for the same requests and
//! failures in the same seconds, the same sequence. Time and randomness are
//! arguments. Nothing here is shared between silos: each counts failures and
//! connections for itself, as nginx's workers do without a `zone`.
#![forbid(unsafe_code)]

mod attempts;
mod balancer;
mod change;
mod checksum;
mod former;
mod group;
mod hashed;
mod idle;
mod named;
mod points;
#[cfg(test)]
mod tests;

pub use attempts::{Attempts, BalancingKey};
pub use balancer::{Balancer, Released};
pub use group::{Balancing, Group, GroupError, GroupServer, PeerAddress, PeerId, UpstreamPeer};
pub use idle::{IdleId, IdlePool, IdleRules, KeptConnection, PutBack};
pub use named::{FoundPeer, NamedServer, NamedServers};
