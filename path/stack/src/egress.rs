//! Where frames to send are built, and who looks at them.

use crate::flow::{Envelope, Flow};
use crate::shadow::{Drift, Shadow};
use wire::Offload;
use wire::tcp::TcpHeader;

/// Where frames to send are built: the link's transmit half, as the stack
/// sees it.
pub trait Egress {
    /// Slots that are free now; may understate.
    fn room(&self) -> usize;
    /// The next free slot, the same until it is committed.
    fn slot(&mut self) -> Option<&mut [u8]>;
    /// Completes the slot.
    fn commit(&mut self, len: usize, offload: Offload);
    /// Who holds the short ways of what goes through here against the general
    /// ones: nobody but the simulator.
    #[inline(always)]
    fn watched(&mut self) -> Watched<'_> {
        Watched::No
    }
}

/// What the link does for the frames that the stack hands it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkOffload {
    /// It completes transport checksums.
    pub checksum: bool,
    /// It cuts payloads into segments, of packets up to this many bytes.
    pub segmentation: Option<u32>,
}

impl LinkOffload {
    /// Nothing.
    pub const NONE: Self = Self { checksum: false, segmentation: None };
}

/// Transmit slots that data leaves for control packets, so that handshakes,
/// acknowledgements and neighbour discovery get through when bulk transfers
/// fill the ring.
pub(crate) const CONTROL_RESERVE: usize = 8;

/// Who looks at what goes through an [`Egress`].
pub enum Watched<'a> {
    /// Nobody.
    No,
    /// Short ways are held against the general ones.
    By(&'a mut dyn Shadow),
    /// What comes is of a general way that is taken to compare with.
    Rehearsal(&'a mut Rehearsal),
}

impl Watched<'_> {
    /// Whether short ways are to be held against the general ones.
    #[inline(always)]
    pub(crate) const fn by_anybody(&self) -> bool {
        matches!(self, Self::By(_))
    }

    /// Whether this is a general way that is only tried: nobody else may feel
    /// it.
    #[inline(always)]
    pub(crate) const fn in_rehearsal(&self) -> bool {
        matches!(self, Self::Rehearsal(_))
    }

    /// Whether frames are: those of general ways, too.
    #[inline(always)]
    pub(crate) const fn at_all(&self) -> bool {
        !matches!(self, Self::No)
    }
}

/// Takes the frames of a general way that is only tried.
pub struct Rehearsal {
    buffer: Vec<u8>,
    room: usize,
    pub(crate) frames: Vec<Vec<u8>>,
    /// Segments go no further than to here.
    seeks: bool,
    pub(crate) seen: Option<Seen>,
    /// What differed below what is compared.
    pub(crate) drifts: Vec<Drift>,
}

/// A segment, as the layers below TCP hand it on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Seen {
    pub flow: Flow,
    pub envelope: Envelope,
    pub header: TcpHeader,
    /// Where the payload is, and how long.
    payload: (usize, usize),
}

impl Rehearsal {
    /// Of packets up to `mtu` bytes, in so many slots.
    pub(crate) fn new(mtu: u16, room: usize) -> Self {
        // Room for the longest headers before what the MTU counts.
        let buffer = vec![0; usize::from(mtu) + 64];
        Self { buffer, room, frames: Vec::new(), seeks: false, seen: None, drifts: Vec::new() }
    }

    /// Of what is read of a frame, as far as TCP's segment.
    pub(crate) fn of_reading(mtu: u16) -> Self {
        Self { seeks: true, ..Self::new(mtu, 0) }
    }

    /// Takes a segment, where that is all that is asked for.
    pub(crate) fn take(&mut self, flow: &Flow, envelope: &Envelope, header: &TcpHeader, payload: &[u8]) -> bool {
        if self.seeks {
            self.seen = Some(Seen::new(*flow, *envelope, *header, payload));
        }
        self.seeks
    }
}

impl Egress for Rehearsal {
    fn room(&self) -> usize {
        self.room
    }
    fn slot(&mut self) -> Option<&mut [u8]> {
        (self.room > 0).then_some(&mut self.buffer)
    }
    fn commit(&mut self, len: usize, _offload: Offload) {
        self.room -= 1;
        self.frames.push(self.buffer[..len].to_vec());
    }
    fn watched(&mut self) -> Watched<'_> {
        Watched::Rehearsal(self)
    }
}

impl Seen {
    pub fn new(flow: Flow, envelope: Envelope, header: TcpHeader, payload: &[u8]) -> Self {
        Self { flow, envelope, header, payload: (payload.as_ptr().addr(), payload.len()) }
    }
}
