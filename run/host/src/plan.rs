//! What one side of a link is to be.

use crate::drivers::LinkSpec;
use crate::silos::Silos;
use crate::values::Cidr;
use core::net::IpAddr;
use core::time::Duration;
use driver::Kernel;
use link::FaultPlan;
use silo::{Idle, Pace};
use std::num::NonZeroU64;
use std::path::PathBuf;
use tcp::congestion::Algorithm;
use wire::Mac;

/// One side's links, addresses and silos: what `serve` and `load` share.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Where frames come from and go to: at least one, all of one kind.
    pub links: Vec<LinkSpec>,
    /// Our addresses, each with its subnet; none: those that the host has on
    /// the interface.
    pub addresses: Vec<Cidr>,
    /// Next hops for what is in no subnet of ours, at most one per family.
    pub gateways: Vec<IpAddr>,
    /// What is done about others who have our addresses.
    pub detection: stack::Detection,
    /// What becomes of the process when its links' interfaces are gone.
    pub on_link_loss: OnLinkLoss,
    /// Our Ethernet address, a unicast one; `None`: a local one made from the
    /// first address.
    pub mac: Option<Mac>,
    /// How many silos there are, and where.
    pub silos: Silos,
    /// How connections are spread over silos.
    pub steer: steer::Policy,
    /// How several links are one.
    pub bond: bond::Setup,
    /// Whether connections are opened here, rather than accepted.
    pub opens: bool,
    /// Whether silos, queues and memory are kept together by NUMA domain.
    pub numa: bool,
    /// Print which silo has which core and queues, and do nothing.
    pub plan_only: bool,
    /// What to do while there is nothing to do.
    pub idle: Idle,
    /// The real-time priority of silos' threads, if they have one.
    pub fifo: Option<u8>,
    /// How long frames to send may be held back; zero: not at all.
    pub tx_delay: Duration,
    /// Leave checksums and segmentation to links that do them.
    pub offload: bool,
    /// Congestion control of new connections.
    pub congestion: Algorithm,
    /// Most bytes per second that each connection sends; `None`: as fast as the
    /// path lets it.
    pub pacing_rate: Option<NonZeroU64>,
    /// How long sent data may go unacknowledged; `None`: as long as it is
    /// sent again.
    pub user_timeout: Option<Duration>,
    /// The most payload of a segment with its options, in bytes; `None`: what
    /// the MTU allows.
    pub mss: Option<u16>,
    /// The most that a receive window opens to, in bytes; `None`: the usual.
    pub receive_limit: Option<u32>,
    /// The most under way beyond what applications queue, in bytes; `None`: the
    /// usual.
    pub send_limit: Option<u32>,
    /// The most connections held at once, by all silos together.
    pub max_connections: u32,
    /// ICMP errors a second to one source, in each silo; `None`: the usual number.
    pub errors_per_source: Option<u32>,
    /// Resets a second to one source that asks for unknown connections, in each silo, and ten
    /// times as many at once; `None`: the usual number.
    pub resets_per_source: Option<u32>,
    /// How many of one client, in each silo; `None`: any number.
    pub per_source: Option<app::SourceRule>,
    /// Write every frame to this pcapng file; a file per silo where there are
    /// several.
    pub capture: Option<PathBuf>,
    /// Harm done to frames on purpose, both ways; `None`: none.
    pub faults: Option<Box<FaultPlan>>,
    /// Where the statistics page lies; `None`: the usual place.
    pub status_page: Option<PathBuf>,
    /// Another process's connections come by the same links.
    pub follows: bool,
    /// What is served opens connections, too: over the links, where they lead there.
    pub dials: bool,
    /// Kernel sockets beside the links of a server.
    pub beside: BesideLinks,
}

/// What a server over links has of the kernel's sockets, in each silo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BesideLinks {
    /// Clients on this host are served, where the host's own addresses are: what
    /// they send there comes by no interface.
    pub local_clients: bool,
    /// Connections are opened, to what only the kernel reaches: loopback, the
    /// host's own addresses, Unix sockets.
    pub connects: bool,
    /// The most connections on them, of all silos together.
    pub connections: u32,
}

impl Default for BesideLinks {
    fn default() -> Self {
        Self { local_clients: true, connects: false, connections: 4_096 }
    }
}

/// What becomes of a process whose links' interfaces are gone, all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum OnLinkLoss {
    /// Wait for interfaces of the same names, and go on
    #[default]
    Wait,
    /// End with a failure, for whoever supervises the process
    End,
}

/// The most connections that may be asked for: ten million, and half as many again
/// for those on their way out.
pub const CONNECTIONS_MAX: u32 = 15_000_000;

/// Room for connections where nobody says how many.
pub const CONNECTIONS: u32 = 100_000;

impl HostPlan {
    /// A server's over these links, on the host's own addresses, with all else
    /// as usual.
    #[must_use]
    pub fn new(links: Vec<LinkSpec>) -> Self {
        Self {
            links,
            addresses: Vec::new(),
            gateways: Vec::new(),
            detection: stack::Detection::default(),
            on_link_loss: OnLinkLoss::default(),
            mac: None,
            silos: Silos::default(),
            steer: steer::Policy::default(),
            bond: bond::Setup::default(),
            opens: false,
            numa: true,
            plan_only: false,
            idle: Idle::default(),
            fifo: None,
            tx_delay: Duration::ZERO,
            offload: true,
            congestion: Algorithm::Cubic,
            pacing_rate: None,
            user_timeout: None,
            mss: None,
            receive_limit: None,
            send_limit: None,
            max_connections: CONNECTIONS,
            per_source: None,
            errors_per_source: None,
            resets_per_source: None,
            capture: None,
            faults: None,
            status_page: None,
            follows: false,
            dials: false,
            beside: BesideLinks::default(),
        }
    }

    /// Whether the addresses are those that the host has on its interface:
    /// where none are given.
    #[must_use]
    pub const fn uses_host_addresses(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The interface whose addresses clients on this host are served at, by kernel
    /// sockets; `None` where they are not.
    #[must_use]
    pub fn local_clients(&self) -> Option<&str> {
        let wanted = self.beside.local_clients && !self.opens && self.uses_host_addresses();
        match self.links.first().filter(|_| wanted)?.driver.kernel() {
            Kernel::Beside(interface) => Some(interface),
            _ => None,
        }
    }

    /// Whether silos have kernel sockets beside their links.
    #[must_use]
    pub fn is_composite(&self) -> bool {
        self.beside.connects || self.local_clients().is_some()
    }

    /// The most connections that a silo has on them: its even part.
    #[must_use]
    pub fn beside_connections(&self, silos: usize) -> usize {
        if self.is_composite() { (self.beside.connections as usize).div_ceil(silos.max(1)) } else { 0 }
    }

    /// Whether connections are opened over the links.
    #[must_use]
    pub const fn opens_any(&self) -> bool {
        self.opens || self.dials
    }

    /// Whether links are aggregated by the control protocol: also one alone.
    #[must_use]
    pub const fn speaks_lacp(&self) -> bool {
        matches!(self.bond.mode, bond::Mode::Lacp(_))
    }

    /// How a silo trades latency for processor time.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        Pace { idle: self.idle, tx_delay: self.tx_delay }
    }
}
