//! DPDK as one driver of several.

use crate::config::{Config, Device};
use crate::facts::{Facts, StampedFrames};
use crate::machine::Machine;
use crate::{Dpdk, DpdkLink};
use ::link::Rss;
use core::error::Error;
use driver::{
    BadConfig, Claim, Copies, Driver, Kind, Open, Opened, Opening, OwnClock, Queue, Role, StampClock, StampedBy,
};
use std::io;
use std::sync::Arc;
use wire::Mac;

const HELP: &str = "dpdk is a port of the distribution's DPDK, in a program that is built with it (make build \
     DPDK=1): a PCI address, as 0000:3b:00.0, or a virtual device, as net_memif0. Options: dev.NAME=VALUE for the \
     device's own driver, as dev.role=client; rxd=N, txd=N (512), mtu=BYTES (1500), rss=symmetric|default|KEY, \
     promiscuous=on|off (off), vlan-strip=on|off (off), checksum=on|off (on), segmentation=on|off (on), \
     interrupts=on|off, domain=N, huge=on|off (on), memory=MB, or of each domain MB/MB, file-prefix=NAME, and last \
     eal=ARGUMENTS. What is missing on this machine, nearside links says.";

impl Driver for Config {
    fn kind(&self) -> &'static Kind {
        &Self::KIND
    }

    fn name(&self) -> String {
        format!("dpdk:{}", self.device)
    }

    fn most_queues(&self) -> u16 {
        Self::most_queues(self)
    }

    fn domain(&self) -> Option<u16> {
        Machine::here().domain(&self.device).and_then(|domain| u16::try_from(domain).ok())
    }

    fn mac(&self) -> Option<Mac> {
        crate::mac(&self.device)
    }

    fn spread(&self) -> Result<Rss, String> {
        crate::facts(&self.device).ok_or("how it spreads flows shows once it is open")?.spread()
    }

    fn stamps(&self, by: StampedBy) -> Result<StampClock, String> {
        match (by, &self.device) {
            (StampedBy::Kernel, _) => {
                Err("frames of dpdk links do not pass the kernel, which could stamp them".to_owned())
            }
            (StampedBy::Nic, Device::Virtual(name)) => {
                Err(format!("{name} is a virtual device of DPDK's: there is no NIC with a clock"))
            }
            (StampedBy::Nic, Device::Pci(_)) => {
                // As it will be opened to be measured through.
                let asked = Self { queues: 1, mac: None, promiscuous: true, stamps: true, ..self.clone() };
                let frames = crate::stamped_frames(&asked)?;
                Ok(StampClock { ptp: None, only_ptp: frames == StampedFrames::OnlyPtp })
            }
        }
    }

    fn stamp_by(&mut self, by: StampedBy) {
        self.stamps = by == StampedBy::Nic;
    }

    fn own_clock(&self) -> Option<Arc<dyn OwnClock>> {
        Some(Arc::new(PortClock(self.device.clone())))
    }
}

/// The clock of an open port.
struct PortClock(Device);

impl OwnClock for PortClock {
    fn nanos(&self) -> io::Result<u64> {
        crate::clock_of(&self.0)
    }
}

impl Open for Config {
    const KIND: Kind = Kind {
        copies: if cfg!(feature = "libdpdk") { Copies::Loops } else { Copies::Shared },
        spreads: true,
        stamps: true,
        as_root: Some("drivers of DPDK open devices and memory while they run"),
        ..Kind::new("dpdk", "dpdk:DEVICE", "dpdk:DEVICE", HELP)
    };

    type Queue = DpdkLink;

    fn read(text: &str, _: Role) -> Result<Self, BadConfig> {
        text.parse()
    }

    fn open(&self, opening: Opening<'_>) -> Result<Opened<DpdkLink>, Box<dyn Error>> {
        let Opening { queues, claim, mac, .. } = opening;
        // What is forwarded is for others.
        let promiscuous = self.promiscuous || *claim == Claim::Whole;
        Ok(Dpdk::open(&Self { queues, mac, promiscuous, ..self.clone() })?.split_queues().into())
    }
}

impl Queue for DpdkLink {
    fn rss(&self) -> Option<(Rss, u16)> {
        Some((self.facts().spread().ok()?, self.queue()))
    }
}

impl Facts {
    /// How the port spreads flows, by a key that is ours.
    ///
    /// # Errors
    /// If that is not known: a reason for the user.
    pub fn spread(&self) -> Result<Rss, String> {
        let rss = self.rss.as_ref().ok_or("its driver does not tell how it spreads flows over queues")?;
        if !rss.ours {
            return Err(
                "it spreads flows by a key of its driver's, which is no secret: rss=symmetric or a key".to_owned()
            );
        }
        let crate::Rss { key, reta, tcp_v4, tcp_v6, .. } = rss.clone();
        Ok(Rss { key, table: reta, ports_v4: tcp_v4, ports_v6: tcp_v6 })
    }
}
