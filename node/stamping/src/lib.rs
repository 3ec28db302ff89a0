//! What an interface's driver stamps and tells of frames, and a NIC's stamps
//! switched on for as long as they are wanted.
//!
//! Source: Linux `include/uapi/linux/net_tstamp.h`, `ethtool.h` and
//! `Documentation/netlink/specs/netdev.yaml`.

mod interface;
mod nic;
mod xdp;

pub use interface::InterfaceControl;
pub use nic::{DEPARTURE_FLAGS, KERNEL_FLAGS, NIC_FLAGS, NicClock, Stamping, kernel_stamps, nic_clock};
pub use xdp::{Features, features};
