//! What a rate costs a machine, and what of it fills first.
//!
//! Content goes from a disk into memory, is read and written by a cipher, and read by a NIC: up to
//! four passes over memory for each byte sent, each of which may cross from one NUMA domain to
//! another. A [`BudgetMachine`] says where disks, cores, memory and ports are and what each of them
//! carries in a second; [`budget`] adds up what a rate asks of each.
//!
//! ```text
//! topology, what was measured ─► BudgetMachine ─┐
//! published figures           ─►                ├─► budget ─► Budget: passes, loads, the first limit
//!                         rate, TLS, disk, silos ┘
//! ```
//!
//! | module | for |
//! | --- | --- |
//! | `machine` | what there is, and where each figure is from |
//! | `published` | machines written down from published tables |
//! | `passes` | the ways that content is sent, and their passes |
//! | `ask`, `siloing`, `framing` | what is asked, and what is sent beside content |
//! | `carriers` | which ports and disks carry content |
//! | `fabric` | what is between two domains |
//! | `shares` | which part of the content is where |
//! | `cost` | passes into loads, loads into limits |
#![forbid(unsafe_code)]

mod ask;
mod carriers;
mod cost;
mod fabric;
mod framing;
mod machine;
mod passes;
mod published;
mod shares;
mod siloing;

pub use ask::{BudgetAsk, RING_SLOTS};
pub use carriers::CarrierChoice;
pub use cost::{Budget, BudgetError, Crossings, Load, LoadKind, WayCost, budget};
pub use machine::{
    BudgetDisk, BudgetDomain, BudgetMachine, BudgetPort, CpuCost, FabricWay, FigureSource, PerSecond, SeenShare,
};
pub use passes::{ContentWay, MemoryPass};
pub use published::{PUBLISHED, PublishedError};
pub use siloing::{PortSplit, Siloing};

#[cfg(test)]
mod tests;
