//! DPDK links: Ethernet frames by the poll-mode drivers of the distribution's
//! DPDK, on physical ports and virtual devices.
//!
//! [`DpdkLink::open`] makes one of `dpdk:net_memif0,dev.socket=/run/x.sock`.
//!
//! Built with the feature `libdpdk` it needs Debian's `libdpdk-dev`; without,
//! opening a link fails with a message that says so, and all else is the same:
//! configuration, and what the machine has for DPDK ([`Machine`]).
//!
//! DPDK is started once in a process, by the first port, and given devices one
//! by one. Its main thread is the one that opened; packets are moved by the
//! threads that own the links.

#[cfg(not(feature = "libdpdk"))]
mod absent;
mod config;
#[cfg(feature = "libdpdk")]
mod eal;
mod error;
mod facts;
#[cfg(feature = "libdpdk")]
mod ffi;
#[cfg(feature = "libdpdk")]
mod kept;
#[cfg(feature = "libdpdk")]
mod link;
#[cfg(feature = "libdpdk")]
mod log;
mod machine;
#[cfg(feature = "libdpdk")]
mod port;
#[cfg(feature = "libdpdk")]
mod receive;
mod remedy;
mod row;
#[cfg(feature = "libdpdk")]
mod stamping;
#[cfg(feature = "libdpdk")]
mod transmit;

#[cfg(not(feature = "libdpdk"))]
pub use absent::{Dpdk, DpdkLink, DpdkRx, DpdkTx, facts, mac, version};
pub use config::{Config, Device, EalOptions, QUEUES_LIMIT, RssKey};
#[cfg(feature = "libdpdk")]
pub use eal::version;
pub use error::DpdkError;
pub use facts::{Facts, Rss, StampedFrames};
#[cfg(feature = "libdpdk")]
pub use link::{Dpdk, DpdkLink};
pub use machine::{HugePages, Iommu, Machine, PciDevice};
#[cfg(feature = "libdpdk")]
pub use port::{facts, mac};
#[cfg(feature = "libdpdk")]
pub use receive::DpdkRx;
pub use remedy::Remedy;
#[cfg(feature = "libdpdk")]
pub use transmit::DpdkTx;

#[cfg(not(feature = "libdpdk"))]
use absent::{clock_of, stamped_frames};
#[cfg(feature = "libdpdk")]
use kept::{clock_of, stamped_frames};

/// Bytes of an Ethernet header with one VLAN tag.
#[cfg(feature = "libdpdk")]
const HEADER_ROOM: u32 = 18;
