//! What an opened port is like.

/// What a port does, of what was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// DPDK's driver: `net_ixgbe`, `net_memif`.
    pub driver: String,
    /// The port's Ethernet address.
    pub mac: wire::Mac,
    /// Queue pairs.
    pub queues: u16,
    /// Descriptors of each receive ring, as rounded into the port's bounds.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit ring.
    pub tx_descriptors: u16,
    /// NUMA domain of its packet memory, where one is known.
    pub domain: Option<u32>,
    /// Received TCP checksums are verified by the port.
    pub receive_checksum: bool,
    /// TCP checksums are completed by the port.
    pub transmit_checksum: bool,
    /// Longest packet that the port cuts into segments.
    pub segmentation: Option<u32>,
    /// VLAN tags are taken off by the port.
    pub vlan_strip: bool,
    /// Frames for others are received too.
    pub promiscuous: bool,
    /// A wait sleeps until the port's interrupt; otherwise it naps.
    pub interrupts: bool,
    /// How the port spreads flows over several queues; `None`: it does not,
    /// or not as it would tell.
    pub rss: Option<Rss>,
    /// Which frames the port stamps, or why none; `None`: it was not asked to.
    pub stamps: Option<Result<StampedFrames, String>>,
}

/// Which frames a port stamps by its own clock. Those that leave are any that it
/// is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StampedFrames {
    /// All that come.
    All,
    /// Event messages of PTP, of those that come.
    OnlyPtp,
}

impl Facts {
    /// Whether received packets lie in memory that another process has mapped
    /// and can write: that of a memif peer, or of a vhost-user backend.
    #[must_use]
    pub fn shares_frames(&self) -> bool {
        ["net_memif", "net_virtio_user"].contains(&self.driver.as_str())
    }
}

/// Receive-side scaling: the queue of a flow is `reta[hash % reta.len()]`,
/// with Toeplitz's hash of addresses and ports under the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rss {
    /// The key.
    pub key: Vec<u8>,
    /// It is one of ours ([`crate::RssKey`]), rather than the driver's own,
    /// which everybody may know.
    pub ours: bool,
    /// Queue by the hash's low bits; empty if the driver does not tell.
    pub reta: Vec<u16>,
    /// TCP ports are part of the hash, over IPv4.
    pub tcp_v4: bool,
    /// TCP ports are part of the hash, over IPv6.
    pub tcp_v6: bool,
}
