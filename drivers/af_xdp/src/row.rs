//! AF_XDP as one driver of several.

use crate::config::{Config, CopyChoice, ModeChoice, QUEUES_LIMIT, Stamps};
use crate::link::XdpLink;
use crate::port::{self, AfXdp};
use crate::rss;
use crate::stamps;
use crate::umem::Backing;
use ::link::{Reopened, Reopener, Rss, Wanted};
use core::error::Error;
use driver::{
    BadConfig, Claim, Copies, Driver, Kernel, Kind, Open, Opened, Opening, Queue, Role, StampClock, StampedBy,
};
use std::sync::Arc;
use wire::Mac;

const HELP: &str = "af_xdp takes frames from a network interface with its stock kernel driver, before the kernel \
     sees them, and needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; our Ethernet address is the interface's, and what \
     is not for us stays with the kernel. Options: queues=N|auto (auto: all), first-queue=N (0), \
     mode=auto|native|generic (auto), copy=auto|zero-copy|copy (auto), ring=SLOTS (512), frame=2048|4096 (by the \
     MTU), umem=queue|shared (queue), hugepages=on|off (on), busy-poll=TIME (none), budget=FRAMES (64), \
     checksum=auto|verify|trust (auto: verified, but for those that a local kernel left to hardware, on veth).";

/// What the kernel dropped before a socket could have it; of how many queues the
/// frames pass without a copy, and lie in huge pages; what passed between this
/// process and the one that it took over from, and for how long nobody received
/// in between.
const COUNTS: &[&str] = &[
    "link.kernel_too_long",
    "link.kernel_ring_full",
    "link.kernel_no_frame",
    "link.kernel_invalid",
    "link.zero_copy",
    "link.huge_pages",
    "link.relay_passed",
    "link.relay_dropped",
    "link.relay_sent",
    "link.takeover_wait_ns",
];

impl Driver for Config {
    fn kind(&self) -> &'static Kind {
        &Self::KIND
    }

    fn name(&self) -> String {
        format!("af_xdp:{}", self.interface)
    }

    fn most_queues(&self) -> u16 {
        QUEUES_LIMIT
    }

    /// All, because what arrives on the others would stay with the kernel.
    fn must_queues(&self) -> Option<u16> {
        port::queues(&self.interface, self.first_queue)
    }

    fn check_queues(&self, queues: u16) -> Result<(), Box<dyn Error>> {
        Ok(port::check_queues(&Self { queues: Some(queues), ..self.clone() })?)
    }

    fn first_queue(&self) -> u16 {
        self.first_queue
    }

    fn domain(&self) -> Option<u16> {
        port::domain(&self.interface)
    }

    fn kernel(&self) -> Kernel<'_> {
        Kernel::Beside(&self.interface)
    }

    fn mac(&self) -> Option<Mac> {
        port::mac(&self.interface).ok()
    }

    fn spread(&self) -> Result<Rss, String> {
        rss::rss(&self.interface).map_err(|why| why.to_string())
    }

    fn stamps(&self, by: StampedBy) -> Result<StampClock, String> {
        stamps::clock(self, by)
    }

    fn stamp_by(&mut self, by: StampedBy) {
        if by == StampedBy::Nic {
            self.stamps = Stamps { arrivals: true, departures: true, switch_on: true };
            // In copy mode departures have stamps that are none of the NIC.
            (self.mode, self.copy) = (ModeChoice::Native, CopyChoice::ZeroCopy);
        }
    }

    fn open_for_another(&self, queues: u16, claim: &Claim, wanted: Wanted) -> Result<Reopened, Box<dyn Error>> {
        Ok(AfXdp::open_for_another(Self { queues: Some(queues), ..self.clone() }, claim, wanted)?)
    }
}

impl Open for Config {
    const KIND: Kind = Kind {
        copies: Copies::Loops,
        beside_kernel: true,
        counts: COUNTS,
        hands_over: true,
        spreads: true,
        stamps: true,
        ..Kind::new("af_xdp", "af_xdp:INTERFACE", "af_xdp:INTERFACE", HELP)
    };

    type Queue = XdpLink;

    fn read(text: &str, _: Role) -> Result<Self, BadConfig> {
        text.parse()
    }

    fn open(&self, opening: Opening<'_>) -> Result<Opened<XdpLink>, Box<dyn Error>> {
        let Opening { queues, claim, mac, offer } = opening;
        let config = Self { queues: Some(queues), ..self.clone() };
        let mut port = match offer {
            Some(offer) => AfXdp::adopt(config, claim, offer)?,
            None => AfXdp::open(config, claim)?,
        };
        if let Some(mac) = mac {
            port.answer_to(mac)?;
        }
        let (report, handover) = (Some(port.report().to_string()), port.handle());
        Ok(Opened { queues: port.split_queues(), report, handover: Some(Arc::new(handover)) })
    }
}

impl Queue for XdpLink {
    fn counts(&self, take: &mut dyn FnMut(u64)) {
        let drops = self.kernel_drops();
        // What the driver gave shows once the queue is at work.
        let zero_copy = u64::from(self.zero_copy() == Some(true));
        let huge = u64::from(self.backing() == Some(Backing::HugePages));
        let relay = self.relay_counts();
        let dropped = [drops.too_long, drops.ring_full, drops.no_frame, drops.invalid];
        let relayed = [relay.passed, relay.unpassed, relay.sent, relay.waited];
        dropped.into_iter().chain([zero_copy, huge]).chain(relayed).for_each(take);
    }

    fn is_gone(&self) -> Option<bool> {
        Some(Self::is_gone(self))
    }

    fn rss(&self) -> Option<(Rss, u16)> {
        let rss = rss::rss(&self.report().interface).ok()?;
        Some((rss, u16::try_from(self.queue()).ok()?))
    }

    fn set_reopener(&mut self, reopener: Arc<dyn Reopener>) {
        Self::set_reopener(self, reopener);
    }
}
