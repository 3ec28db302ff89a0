//! A port whose queues several processes have: one opens it and keeps it, the others map what it
//! shares.

use crate::config::{Config, HEADROOM};
use crate::error::XdpError;
use crate::facts::{Checksums, Facts};
use crate::interface::{Interface, Presence};
use crate::link::XdpLink;
use crate::port::AfXdp;
use crate::positions::{CommonRings, CommonRooms};
use crate::socket::Socket;
use crate::terms::Terms;
use crate::umem::{Umem, first_frame};
use ::link::{Capabilities, LinkState, Reopened};
use core::error::Error;
use core::ops::Range;
use core::time::Duration;
use driver::Claim;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::{Mac, Time, lacks_checksum};

/// Frames of one burst, at most: whoever takes them keeps others from it.
const MOST_TAKEN: usize = 64;

/// System calls that one flush makes, at most.
const MOST_CALLS: usize = 4;

/// The interface is looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A port that is open for others: its program is attached and its queues receive, and whoever keeps
/// it never sees a frame.
#[derive(Debug)]
pub struct KeptXdp {
    links: Vec<XdpLink>,
    terms: Terms,
    attachment: OwnedFd,
}

impl KeptXdp {
    /// Opens the port, and puts all its queues to work.
    ///
    /// # Errors
    /// [`XdpError`], or the system's; nothing is left behind.
    pub fn open(config: Config, claim: &Claim) -> Result<Self, Box<dyn Error>> {
        let port = AfXdp::open(config, claim)?;
        let shared = Arc::clone(&port.shared);
        // Whom the program is for is told to it, and to nobody else.
        let terms = Terms { claim: Claim::Whole, ..shared.terms() };
        let mut links = port.split_queues();
        links.iter_mut().try_for_each(XdpLink::start)?;
        let attachment = shared.attachment.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let attachment = attachment.as_ref().map(|attachment| attachment.as_fd().try_clone_to_owned());
        let attachment = attachment.ok_or("the program is not attached")??;
        Ok(Self { links, terms, attachment })
    }

    /// Its queues.
    #[must_use]
    pub const fn queues(&self) -> usize {
        self.links.len()
    }

    /// All of it, for another process ([`SeatXdp::given`]).
    ///
    /// # Errors
    /// The system's, where it gives no descriptor.
    pub fn share(&self) -> io::Result<Reopened> {
        let mut descriptors = vec![self.attachment.try_clone()?];
        for at_work in self.links.iter().filter_map(|link| link.at_work.as_ref()) {
            descriptors.push(at_work.socket.as_fd().try_clone_to_owned()?);
            descriptors.push(at_work.umem.file().try_clone_to_owned()?);
        }
        Ok(Reopened { text: self.terms.to_string(), descriptors })
    }
}

/// A port that another process keeps.
#[derive(Debug)]
pub struct SeatXdp {
    /// Its queues, in order.
    pub queues: Vec<(XdpSeatRx, XdpSeatTx)>,
    /// What they can do.
    pub capabilities: Capabilities,
    /// The interface's Ethernet address, which is ours too.
    pub mac: Mac,
}

impl SeatXdp {
    /// What another process shares ([`KeptXdp::share`]). Needs no right.
    ///
    /// # Errors
    /// [`XdpError`]: mostly that what is shared is no such port.
    pub fn given(shared: Reopened) -> Result<Self, XdpError> {
        let terms: Terms = shared.text.parse()?;
        let Terms { config, mac, mtu, frame, mode, .. } = terms;
        let queues = config.queues.unwrap_or(1);
        let interface = crate::open::interface_of(&config)?;
        let facts = Facts::new(&config, &interface, (mac, mtu, frame, queues), (mode, None));
        let mut given = shared.descriptors.into_iter();
        let none = || XdpError::System { what: "use the queues that were given", source: rustix::io::Errno::BADF };
        // However whoever keeps the port ends, the program stays as long as anybody has this.
        let held = Arc::new((given.next().ok_or_else(none)?, interface));
        let mut all = Vec::new();
        for ordinal in 0..u32::from(queues) {
            let (socket, file) = (given.next().ok_or_else(none)?, given.next().ok_or_else(none)?);
            all.push(map(&config, ordinal, &facts, (socket, file), &held)?);
        }
        let capabilities = Capabilities {
            mtu,
            receive_checksum: facts.checksums != Checksums::Verified,
            transmit_checksum: false,
            segmentation: None,
            queues,
            shared_frames: false,
        };
        Ok(Self { queues: all, capabilities, mac })
    }
}

/// Maps a queue's rings and its memory.
fn map(
    config: &Config,
    ordinal: u32,
    facts: &Facts,
    (socket, file): (OwnedFd, OwnedFd),
    held: &Arc<(OwnedFd, Interface)>,
) -> Result<(XdpSeatRx, XdpSeatTx), XdpError> {
    let (queues, share) = if config.shared_umem { (facts.queues, ordinal) } else { (1, 0) };
    let frame = facts.frame;
    let (socket, rings) = Socket::adopt(socket, config)?;
    let system = |source| XdpError::System { what: "map the memory of a queue that was given", source };
    let umem = Umem::adopt(file, config, frame, queues.into()).map_err(system)?;
    let memory = Arc::new((socket, umem));
    let len = memory.1.len() as u64;
    let first = first_frame(config.ring, frame, share);
    let rooms = CommonRooms { first, frame, len };
    let receiving = CommonRings { frames: rings.receive, returns: rings.fill, rooms };
    let rooms = CommonRooms { first: first + u64::from(config.ring) * u64::from(frame), frame, len };
    let sending = CommonRings { frames: rings.transmit, returns: rings.completion, rooms };
    let rx = XdpSeatRx {
        rings: receiving,
        checksums: facts.checksums,
        memory: Arc::clone(&memory),
        held: Arc::clone(held),
        presence: Presence::Up(facts.mtu.into()),
        looked: None,
        dropped: 0,
    };
    Ok((rx, XdpSeatTx { rings: sending, memory, longest: frame - HEADROOM, unsent: false }))
}

/// The receiving side of a queue that other processes have as well.
#[derive(Debug)]
pub struct XdpSeatRx {
    rings: CommonRings,
    checksums: Checksums,
    /// The queue's socket, whose rings those are, and the memory of its frames.
    memory: Arc<(Socket, Umem)>,
    /// The program's attachment, and the interface.
    held: Arc<(OwnedFd, Interface)>,
    presence: Presence,
    looked: Option<Time>,
    dropped: u64,
}

// SAFETY: the rings' addresses are those of the socket, which is held beside them; what is behind them is reached by
// one process at a time, and there by one thread.
unsafe impl Send for XdpSeatRx {}

impl XdpSeatRx {
    /// A descriptor that was opened here, and not given: by which the kernel is asked how the interface
    /// is.
    #[must_use]
    pub fn control(&self) -> BorrowedFd<'_> {
        self.held.1.as_fd()
    }

    /// Whether frames wait.
    #[inline]
    #[must_use]
    pub fn has_frames(&self) -> bool {
        // SAFETY: mapped as long as the socket is held.
        unsafe { self.rings.waiting() > 0 }
    }

    /// Takes up to `max` frames: copies each behind what `into` holds, and tells where and whether its
    /// transport checksum is vouched for. One process at a time calls this.
    pub fn take(&mut self, max: usize, into: &mut Vec<u8>, each: &mut dyn FnMut(Range<usize>, bool)) {
        let (socket, umem) = &*self.memory;
        // SAFETY: mapped as long as the socket is held; one process at a time, as the caller sees to.
        let mut taking = unsafe { self.rings.begin_taking() };
        for _ in 0..max.min(MOST_TAKEN) {
            let Some(found) = taking.next() else { break };
            let Some((address, len)) = found else {
                self.dropped += 1;
                continue;
            };
            let (start, len) = (into.len(), len as usize);
            into.reserve(len);
            // SAFETY: `next` found these bytes within the memory, which is mapped; room for them was just reserved. The
            // kernel does not write there before the room goes back; another process that does breaks the protocol,
            // and then the copy is a mixture.
            unsafe {
                let from = umem.start().as_ptr().add(address as usize);
                core::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(start), len);
                into.set_len(start + len);
            }
            let verified = match self.checksums {
                Checksums::Verified => false,
                Checksums::Unfinished => lacks_checksum(&into[start..]),
                Checksums::Trusted => true,
            };
            each(start..start + len, verified);
        }
        if taking.end() {
            // The driver had run out of frames and waits to be told.
            let _ = rustix::net::recv(socket, &mut [0_u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Looks whether the interface is up.
    pub fn poll_control(&mut self, now: Time) -> LinkState {
        if self.looked.is_none_or(|looked| now.since(looked) >= LOOK_INTERVAL) {
            self.looked = Some(now);
            // What is gone stays gone: another interface of this name is another.
            if self.presence != Presence::Gone {
                self.presence = self.held.1.look();
            }
        }
        if matches!(self.presence, Presence::Up(_)) { LinkState::Up } else { LinkState::Down }
    }

    /// The queue's socket, which becomes readable when frames come; `None` without its interface,
    /// when it has nothing more to say.
    #[must_use]
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        (self.presence != Presence::Gone).then(|| self.memory.0.as_fd())
    }

    /// For how long a sleep can rely on that descriptor: nothing tells that the interface has come up.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        if matches!(self.presence, Presence::Down) { LOOK_INTERVAL } else { Duration::MAX }
    }

    /// Frames that were none.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The sending side.
#[derive(Debug)]
pub struct XdpSeatTx {
    rings: CommonRings,
    memory: Arc<(Socket, Umem)>,
    /// The longest frame, in bytes.
    longest: u32,
    /// The kernel did not take all.
    unsent: bool,
}

// SAFETY: as for `XdpSeatRx`.
unsafe impl Send for XdpSeatTx {}

impl XdpSeatTx {
    /// The longest frame, in bytes.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest as usize
    }

    /// Sends as many of the frames as there is room for, the first first, and returns how many. One
    /// process at a time calls this.
    pub fn put(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> usize {
        // SAFETY: mapped as long as the socket is held; one process at a time, as the caller sees to.
        let mut putting = unsafe { self.rings.begin_putting() };
        let mut count = 0;
        for frame in frames {
            let len = frame.len().min(self.longest as usize);
            let Some(address) = putting.push(len as u32) else { break };
            // SAFETY: `push` gave a place with `longest` bytes to the end of its room, within the memory, which is
            // mapped; the kernel has not got it yet, and no other process is here.
            unsafe {
                let to = self.memory.1.start().as_ptr().add(address as usize);
                core::ptr::copy_nonoverlapping(frame.as_ptr(), to, len);
            }
            count += 1;
        }
        putting.end();
        count
    }

    /// Makes the kernel send, which it does within this call in copy mode. Whether it took all.
    pub fn kick(&mut self) -> bool {
        // SAFETY: mapped as long as the socket is held.
        let (wanted, before) = unsafe { (self.rings.needs_wakeup(), self.rings.pending()) };
        if before == 0 || !(wanted || self.unsent) {
            self.unsent = false;
            return true;
        }
        for _ in 0..MOST_CALLS {
            use rustix::io::Errno;
            match rustix::net::send(&self.memory.0, &[], SendFlags::DONTWAIT) {
                // EBUSY: the interface's queue refused a frame, which is gone.
                Err(Errno::INTR | Errno::BUSY) => {}
                // It sent as many as it sends in one call, or the device's ring is full.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {}
                // ENETDOWN, ENXIO: what it has waits in its ring.
                Ok(_) | Err(_) => {
                    self.unsent = false;
                    return true;
                }
            }
        }
        self.unsent = true;
        false
    }
}
