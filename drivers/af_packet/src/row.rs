//! Packet sockets as one driver of several.

use crate::{Config, PacketLink};
use core::error::Error;
use driver::{BadConfig, Claim, Driver, Kernel, Kind, Open, Opened, Opening, Queue, Role, StampClock, StampedBy};

const HELP: &str = "af_packet is an interface by a packet socket, beside the kernel, with a system call for each \
     frame. It is for measurements (nearside packet load and latency) with stamps of the kernel or of a NIC (--clock), \
     and needs CAP_NET_RAW; stamps of a NIC need CAP_NET_ADMIN.";

impl Driver for Config {
    fn kind(&self) -> &'static Kind {
        &Self::KIND
    }

    fn name(&self) -> String {
        format!("af_packet:{}", self.name)
    }

    fn most_queues(&self) -> u16 {
        1
    }

    fn kernel(&self) -> Kernel<'_> {
        Kernel::Beside(&self.name)
    }

    fn stamps(&self, by: StampedBy) -> Result<StampClock, String> {
        match by {
            StampedBy::Kernel => {
                stamping::kernel_stamps(&self.name).map(|()| StampClock { ptp: None, only_ptp: false })
            }
            StampedBy::Nic => {
                let clock = stamping::nic_clock(&self.name)?;
                Ok(StampClock { ptp: Some(clock.ptp), only_ptp: clock.only_ptp })
            }
        }
    }

    fn stamp_by(&mut self, by: StampedBy) {
        self.stamped_by = Some(by);
    }
}

impl Open for Config {
    const KIND: Kind =
        Kind { stamps: true, ..Kind::new("af_packet", "af_packet:INTERFACE", "af_packet:INTERFACE", HELP) };

    type Queue = PacketLink;

    fn read(text: &str, _: Role) -> Result<Self, BadConfig> {
        text.parse()
    }

    fn open(&self, opening: Opening<'_>) -> Result<Opened<PacketLink>, Box<dyn Error>> {
        // The kernel would answer every peer, too: to a TCP segment that is none of its own, with a reset.
        if *opening.claim != Claim::Whole {
            return Err("af_packet is for measurements: the kernel has the interface, too; use af_xdp".into());
        }
        if opening.queues != 1 {
            return Err("a packet socket has one queue".into());
        }
        Ok(vec![PacketLink::open(self)?].into())
    }
}

impl Queue for PacketLink {}
