//! Link aggregation (IEEE 802.1AX): several ports as one link with one
//! hardware address.
//!
//! A [`Bond`] is a silo's share of the aggregation: its own queues of the
//! ports, as one [`link::Link`]. What all silos must agree on, which ports
//! take part, is in one [`Aggregator`] that their bonds share: a pair of
//! atomics that the packet path reads, and the state machines behind a mutex
//! that it never takes but for the one control frame in a second.
//!
//! ```text
//!   silo 0          silo 1          silo 2
//!   Bond            Bond            Bond         hash of the flow → member
//!    ├─ port 0 q 0   ├─ port 0 q 1   (none: receives nothing, has no room)
//!    └─ port 1 q 0   └─ port 1 q 1
//!          └──────────────┴───────────── Aggregator: who collects, who distributes
//! ```
//!
//! The bond has one hardware address, by custom its first port's. Frames to it
//! come in on every port, so each port must accept it: a port's own filter is
//! opened by its driver (on Linux `ip link set eth1 address MAC` before it is
//! opened, or promiscuous mode where the port refuses), not here.
#![forbid(unsafe_code)]

mod aggregator;
mod bond;
mod flow;
mod halves;
pub mod lacp;
mod receive;
mod setup;
mod transmit;
mod unlike;

pub use aggregator::{Aggregator, Config, LacpView, MAX_PORTS, Mode, PortConfig, PortCounters, PortView};
pub use bond::{Bond, BondError, Member, common};
pub use halves::MAX_MEMBERS;
pub use receive::BondRx;
pub use setup::{ParseSetupError, Setup};
pub use transmit::{BondCounters, BondTx};
pub use unlike::{PortRates, judge_ports};
