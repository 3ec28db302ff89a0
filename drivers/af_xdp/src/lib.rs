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
//! # What costs, and what to set
//!
//! In copy mode, as on veth, the kernel copies each frame once each way, and
//! sends in our own system call: one for each turn, whatever the number of
//! frames (`XDP_MAX_TX_SKB_BUDGET`, before Linux 6.18 one for every 32). So
//! load makes it cheaper, and the settings of `Config` need no change.
//!
//! Whose core receives: a driver's poll runs where its interrupt is, which
//! should be another core than the silo's, or the same with `busy-poll`. A
//! veth's runs on the core of whoever sends, within its system call: a client
//! that sends pays for what the server receives, and the other way round. It
//! runs behind each frame, whatever a call sends (`__dev_direct_xmit` lets
//! softirqs run after each): 48 frames in one call were 48 polls, and these
//! took twice as long as the sending. On two cores pin the two sides apart
//! (`--core`); where they are to be compared with sockets of the kernel the
//! same holds for these, so that nothing else need be set. `echo 1 >/sys/class/net/IF/threaded` moves that
//! poll into a thread of its own, for which there must be a core.
//!
//! A local kernel at a veth's other end leaves checksums to hardware that is
//! not there. That a checksum is to be completed is lost on the way to an XDP
//! program, but it can be seen: the sum of the pseudo-header stands in its
//! place. Such segments are accepted there, and all others verified
//! ([`ChecksumChoice`]). It does not cut its segments late
//! either: with a program in native mode at one end, Linux takes TSO from the
//! other (`veth_xdp_set`). In generic mode it does not, and frames above a
//! frame's room are dropped and counted ([`KernelDrops::too_long`]): there
//! `ethtool -K PEER tso off gso off` on the client's interface is needed for
//! requests larger than a segment.
//!
//! Source for the kernel's side: Documentation/networking/af_xdp.rst,
//! include/uapi/linux/if_xdp.h and net/xdp of Linux.

mod again;
mod config;
mod error;
mod facts;
mod filter;
mod frames;
mod handover;
mod host;
mod interface;
mod link;
mod netlink;
mod open;
mod orders;
mod port;
mod positions;
mod receive;
mod relay;
mod ring;
mod row;
mod rss;
mod seat;
mod shared;
mod socket;
mod stamps;
mod terms;
mod transmit;
mod umem;

pub use config::{ChecksumChoice, Config, CopyChoice, ModeChoice, QUEUES_LIMIT, Stamps};
pub use driver::{Claim, Handover, Offer};
pub use ebpf::XdpMode;
pub use error::{HandoverError, XdpError};
pub use facts::{Checksums, Report};
pub use filter::ADDRESSES_LIMIT;
pub use handover::Handle;
pub use host::{HostAddress, HostEvent, HostRoute, HostView};
pub use link::{KernelDrops, RelayCounts, XdpLink};
pub use port::{AfXdp, domain, mac, queues};
pub use receive::{BURST_LIMIT, XdpRx};
pub use rss::{NoRss, rss};
pub use seat::{KeptXdp, SeatXdp, XdpSeatRx, XdpSeatTx};
pub use terms::Terms;
pub use transmit::XdpTx;
pub use umem::Backing;
