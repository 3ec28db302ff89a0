//! AF_XDP links: frames from and to the queues of an interface with a stock
//! kernel driver.
//!
//! An XDP program of our own chooses the frames ([`Claim`]): TCP to the served
//! ports of the host's own addresses, or everything for addresses of ours
//! beside them. What it does not choose goes on to the kernel as if nobody
//! were here. It is attached by a descriptor: however this process ends, the
//! program and its maps end with it.
//!
//! ```text
//! AfXdp::open(config, &claim) ─► split_queues() ─► XdpLink, one for each queue
//! ```
//!
//! Source for the kernel's side: Documentation/networking/af_xdp.rst,
//! include/uapi/linux/if_xdp.h and net/xdp of Linux.

mod config;
mod error;
mod filter;
mod frames;
mod host;
mod interface;
mod link;
mod port;
mod receive;
mod ring;
mod socket;
mod transmit;
mod umem;

pub use config::{BadConfig, ChecksumChoice, Config, CopyChoice, ModeChoice, QUEUES_LIMIT};
pub use ebpf::XdpMode;
pub use error::OpenError;
pub use filter::{ADDRESSES_LIMIT, Claim};
pub use host::{HostAddress, HostEvent, HostRoute, HostView};
pub use link::{KernelDrops, XdpLink};
pub use port::{AfXdp, Report, domain, mac, queues};
pub use receive::{BURST_LIMIT, XdpRx};
pub use transmit::XdpTx;
pub use umem::Backing;
