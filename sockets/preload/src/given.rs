//! What the keeper gives a process that is to be a worker, and what follows from it.

use crate::any_link::{AnyLink, memif_queues, xdp_queues};
use core::ffi::c_int;
use core::fmt::Display;
use core::net::{IpAddr, SocketAddr};
use link::{Capabilities, Reopened};
use page::Writer;
use posix::Ledger;
use seats::Terms;
use sharing::{QueueSet, SharedMemory, seat_of_port};
use stack::{Address, Config, LinkOffload, ReturnPath, Seeds, Stack};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use tap::Tap;
use wire::{Mac, Time};

/// What the keeper gave: the seat's number and what its driver says, the memory of all seats, what
/// wakes each of them, and the link's own descriptors.
pub struct Given {
    pub number: usize,
    pub memory: Arc<SharedMemory>,
    pub bells: Vec<OwnedFd>,
    /// Its place on the keeper's statistics page, and the names of the values there.
    pub page: (Writer, Vec<String>),
    pub link: AnyLink,
    pub of_link: Vec<c_int>,
    /// Which of the link's connections that is of.
    pub epoch: u32,
}

impl Given {
    pub fn read(terms: &Terms, text: &str, mut descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the keeper gave no seat");
        let (number, text) = text.split_once(' ').unwrap_or((text, ""));
        let number = number.parse().map_err(|_| wrong())?;
        if descriptors.len() < 2 {
            return Err(wrong());
        }
        let mut rest = descriptors.split_off(2);
        let page = descriptors.pop().ok_or_else(wrong)?;
        let memory = Arc::new(SharedMemory::open(descriptors.pop().ok_or_else(wrong)?)?);
        let page = Writer::given(page, number).map_err(io::Error::other)?;
        if rest.len() < memory.seats() {
            return Err(wrong());
        }
        let descriptors = rest.split_off(memory.seats());
        let of_link = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        // Over memif the description begins with it, and no other link has more than one: a TAP device's
        // begins with another number.
        let epoch = text.split(' ').next().filter(|_| terms.link.starts_with("memif"));
        let epoch = epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        let shared = Reopened { text: text.to_owned(), descriptors };
        let link = open_link(terms, shared, &memory, number)?;
        Ok(Self { number, memory, bells: rest, page, link, of_link, epoch })
    }
}

fn open_link(terms: &Terms, given: Reopened, memory: &Arc<SharedMemory>, seat: usize) -> io::Result<AnyLink> {
    fn other<E: Display>(why: E) -> io::Error {
        io::Error::other(why.to_string())
    }
    match terms.link.split(':').next() {
        Some("tap") => {
            let config: tap::Config = terms.link.parse().map_err(other::<driver::BadConfig>)?;
            Tap::given(&config, given).map(|tap| AnyLink::Tap(Box::new(tap))).map_err(other)
        }
        Some("af_xdp") => {
            let (queues, capabilities, mac) = xdp_queues(given)?;
            let set = QueueSet::new(queues, capabilities, Arc::clone(memory), seat)?;
            Ok(AnyLink::Queues(Box::new(set), Some(mac)))
        }
        Some("memif") => {
            let (queues, capabilities) = memif_queues(terms, given)?;
            let set = QueueSet::new(queues, capabilities, Arc::clone(memory), seat)?;
            Ok(AnyLink::Queues(Box::new(set), None))
        }
        _ => Err(io::Error::other(format!("{}: only tap, af_xdp and memif links carry programs", terms.link))),
    }
}

/// A seat's connections are noted in the memory that all share: should this process be killed,
/// another ends them.
#[derive(Debug)]
pub struct SharedLedger {
    pub memory: Arc<SharedMemory>,
    pub seat: usize,
}

impl Ledger for SharedLedger {
    fn on_established(&mut self, number: usize, remote: SocketAddr, local: SocketAddr) {
        self.memory.note_flow(self.seat, number, remote, local);
    }

    fn on_ended(&mut self, number: usize) {
        self.memory.strike_flow(self.seat, number);
    }
}

/// The local ports of a seat's own connections: answers to them come back to it.
#[derive(Debug)]
pub struct OwnPorts {
    pub seat: usize,
    pub seats: usize,
}

impl ReturnPath for OwnPorts {
    fn returns_here(&self, _remote: SocketAddr, local: SocketAddr) -> bool {
        seat_of_port(local.port(), self.seats) == self.seat
    }
}

/// An Ethernet address of our own making, the same each time for an address.
pub fn mac_of(terms: &Terms) -> Mac {
    let last = match terms.addresses.first().map(|own| own.address) {
        Some(IpAddr::V4(ip)) => ip.octets(),
        Some(IpAddr::V6(ip)) => ip.octets()[12..].try_into().unwrap_or([0; 4]),
        None => [0; 4],
    };
    // Locally administered, of one station (IEEE 802-2014 clause 8.2.2).
    Mac([0x02, 0x4e, last[0], last[1], last[2], last[3]])
}

/// A stack with the addresses of this process, over a link that can do this.
pub fn new_stack(terms: &Terms, (mac, capabilities): (Mac, &Capabilities), seeds: &Seeds, now: Time) -> Stack {
    let mut config = Config::new(mac, capabilities.mtu);
    let own = terms.addresses.iter().map(|own| Address { ip: own.address, prefix_len: own.prefix });
    config.addresses = own.collect();
    config.gateways.clone_from(&terms.gateways);
    config.shared_frames = capabilities.shared_frames;
    config.tcp = tcp::Config { nagle: true, ..tcp::Config::default() };
    config.detection = stack::Detection::Announce;
    config.steered = true;
    let offload = LinkOffload { checksum: capabilities.transmit_checksum, segmentation: capabilities.segmentation };
    Stack::new(config, offload, seeds, now)
}

/// The same for all workers: sequence numbers, timestamps and cookies go on where a connection's
/// address was another worker's before.
pub fn seeds(secrets: &[u64; 10]) -> Seeds {
    let [a, b, c, d, e, f, g, h, i, j] = *secrets;
    Seeds { table: [a, b, c, d], secret: [e, f, g, h], timestamps: [i, j] }
}
