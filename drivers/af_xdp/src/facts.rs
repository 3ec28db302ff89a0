//! What an interface was opened as.

use crate::config::{ChecksumChoice, Config};
use crate::interface::Interface;
use core::fmt;
use ebpf::XdpMode;
use wire::Mac;

/// What is known of an interface once it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub driver: String,
    pub mode: XdpMode,
    pub fallback: Option<String>,
    pub mac: Mac,
    pub mtu: u16,
    pub frame: u32,
    pub queues: u16,
    pub interface_queues: u32,
    pub domain: Option<u16>,
    pub checksums: Checksums,
}

/// What becomes of the transport checksums of received segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// All are verified.
    Verified,
    /// Those that the local kernel left for hardware to complete are accepted,
    /// and all others verified.
    Unfinished,
    /// None is verified.
    Trusted,
}

impl Facts {
    pub fn new(
        config: &Config,
        interface: &Interface,
        (mac, mtu, frame, queues): (Mac, u16, u32, u16),
        (mode, fallback): (XdpMode, Option<String>),
    ) -> Self {
        let (driver, _) = interface.driver();
        let checksums = match config.checksum {
            ChecksumChoice::Auto if may_lack_checksums(&driver, mode) => Checksums::Unfinished,
            ChecksumChoice::Auto | ChecksumChoice::Verify => Checksums::Verified,
            ChecksumChoice::Trust => Checksums::Trusted,
        };
        let (interface_queues, domain) = (interface.queues(), interface.domain());
        Self { driver, mode, fallback, mac, mtu, frame, queues, interface_queues, domain, checksums }
    }
}

/// Whether frames come from a kernel on this machine, which leaves checksums
/// to hardware that is not there. virtio_net has the host complete them while
/// a program runs in the driver, and does not for a generic one.
fn may_lack_checksums(driver: &str, mode: XdpMode) -> bool {
    driver == "veth" || (driver == "virtio_net" && mode == XdpMode::Generic)
}

/// What an interface was opened as, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The interface.
    pub interface: String,
    /// Its driver; empty if it does not say.
    pub driver: String,
    /// Where the program runs.
    pub mode: XdpMode,
    /// Why it does not run in the driver, if that was tried.
    pub fallback: Option<String>,
    /// Queues taken.
    pub queues: u16,
    /// Queues that the interface has.
    pub interface_queues: u32,
    /// The NUMA domain of the device, if it is in one.
    pub domain: Option<u16>,
    /// What becomes of received transport checksums.
    pub checksums: Checksums,
    /// Bytes of a frame's room.
    pub frame: u32,
    /// Slots of each ring.
    pub ring: u32,
    /// System calls poll the driver.
    pub busy_poll: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = if self.driver.is_empty() { "unknown" } else { &self.driver };
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        write!(f, "{}: driver {driver}, {mode} mode", self.interface)?;
        if let Some(why) = &self.fallback {
            write!(f, " (the driver refused: {why})")?;
        }
        write!(f, ", queues {} of {}, need-wakeup", self.queues, self.interface_queues)?;
        if self.busy_poll {
            f.write_str(", busy polling")?;
        }
        write!(f, ", rings of {}, frames of {} bytes", self.ring, self.frame)?;
        match self.domain {
            Some(domain) => write!(f, ", domain {domain}")?,
            None => f.write_str(", in no domain")?,
        }
        f.write_str(match self.checksums {
            Checksums::Verified => "",
            Checksums::Unfinished => ", checksums left to hardware accepted",
            Checksums::Trusted => ", checksums of received segments trusted",
        })
    }
}
