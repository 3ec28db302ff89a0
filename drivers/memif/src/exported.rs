//! What several processes need that have a connection's queues, as a line of text and descriptors.

use crate::memory::{OwnMemory, RingRef};
use crate::ring::RING_ALIGN;
use ::link::Reopened;
use core::fmt;
use core::str::FromStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Regions of a connection that is shared, at most: each is a descriptor for each process.
pub(crate) const SHARED_REGIONS: usize = 16;

/// Queues of one, at most: their description is one message.
pub const SHARED_QUEUES: u16 = 8;

/// What every process needs that has a connection's queues.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    regions: Vec<(OwnedFd, u64)>,
    /// Of each queue: the ring that is received from and the one that is sent to.
    rings: Vec<[(ExportedRing, Arc<OwnedFd>); 2]>,
}

/// Where a ring is, and its buffers if they are of its owner's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExportedRing {
    pub region: u16,
    pub offset: u32,
    pub log2_size: u8,
    /// Of our own memory: where the first buffer is, from one to the next, and bytes of each.
    pub buffers: Option<[u32; 3]>,
}

impl ExportedRing {
    fn new(lies: &RingRef, buffers: Option<[u32; 3]>) -> Self {
        let (region, place) = lies.place();
        let log2_size = lies.get().size().trailing_zeros() as u8;
        Self { region, offset: place.start as u32, log2_size, buffers }
    }
}

impl fmt::Display for ExportedRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.region, self.offset, self.log2_size)?;
        self.buffers.iter().flatten().try_for_each(|number| write!(f, ":{number}"))
    }
}

impl FromStr for ExportedRing {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let numbers: Vec<u32> = text.split(':').map(number).collect::<io::Result<_>>()?;
        let (place, buffers) = match numbers[..] {
            [region, offset, log2_size] => ([region, offset, log2_size], None),
            [region, offset, log2_size, first, stride, size] => {
                ([region, offset, log2_size], Some([first, stride, size]))
            }
            _ => return Err(wrong()),
        };
        let [region, offset, log2_size] = place;
        let (region, log2_size) = (region.try_into().ok(), log2_size.try_into().ok());
        let (Some(region), Some(log2_size)) = (region, log2_size) else { return Err(wrong()) };
        let possible = (offset as usize).is_multiple_of(RING_ALIGN) && log2_size <= crate::LOG2_RING_SIZE_MAX;
        possible.then_some(Self { region, offset, log2_size, buffers }).ok_or_else(wrong)
    }
}

pub(crate) fn number<T: FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| wrong())
}

pub(crate) fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is no description of memif queues")
}

impl Exported {
    /// Of a connection to a client, whose memory is these regions. `queues` are the ring that is
    /// received from and the one that is sent to of each, with their eventfds.
    pub fn of_peer(regions: Vec<(OwnedFd, u64)>, queues: &[[(RingRef, Arc<OwnedFd>); 2]]) -> Self {
        let ring = |(lies, event): &(RingRef, Arc<OwnedFd>)| (ExportedRing::new(lies, None), Arc::clone(event));
        let rings = queues.iter().map(|[rx, tx]| [ring(rx), ring(tx)]).collect();
        Self { regions, rings }
    }

    /// Of a connection to a server, in memory of our own. `queues` with the numbers of their rings.
    pub fn of_own(own: &OwnMemory, queues: &[[(RingRef, u32, Arc<OwnedFd>); 2]]) -> io::Result<Self> {
        let ring = |(lies, ring, event): &(RingRef, u32, Arc<OwnedFd>)| {
            let buffers = [own.buffers.of_ring(*ring), own.buffers.stride, own.buffers.size];
            (ExportedRing::new(lies, Some(buffers)), Arc::clone(event))
        };
        let rings = queues.iter().map(|[rx, tx]| [ring(rx), ring(tx)]).collect();
        Ok(Self { regions: vec![(own.file.try_clone()?, own.layout.size)], rings })
    }

    /// Whether it can be told in one message.
    pub fn is_small(&self) -> bool {
        self.regions.len() <= SHARED_REGIONS && self.rings.len() <= usize::from(SHARED_QUEUES)
    }

    /// Its description, and its descriptors: the regions', then the rings' eventfds.
    pub fn share(&self) -> io::Result<Reopened> {
        let sizes: Vec<String> = self.regions.iter().map(|(_, size)| size.to_string()).collect();
        let rings = self.rings.iter().flatten();
        let text: Vec<String> = rings.clone().map(|(ring, _)| ring.to_string()).collect();
        let regions = self.regions.iter().map(|(file, _)| file.as_fd());
        let all = regions.chain(rings.map(|(_, event)| event.as_fd()));
        let descriptors = all.map(|fd| fd.try_clone_to_owned()).collect::<io::Result<_>>()?;
        Ok(Reopened { text: format!("{} {}", sizes.join(","), text.join(",")), descriptors })
    }
}
