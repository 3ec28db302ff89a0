//! Packet sockets: every frame of an interface, stamped as it comes and leaves.
//!
//! A system call for each frame, so that this is no link for speed. What it has
//! and the faster ones have not is SO_TIMESTAMPING: the kernel's stamps with
//! every driver, and the NIC's where it has a PTP clock. It is for measurements,
//! beside the kernel, which sees the same frames.
//!
//! Source: Linux `Documentation/networking/timestamping.rst`,
//! `include/uapi/linux/{net_tstamp,if_packet,errqueue,ethtool}.h`.

mod config;
mod control;
mod row;
mod socket;

pub use config::Config;

use core::time::Duration;
use driver::StampedBy;
use link::{Capabilities, Counters, Link, LinkState, Receive, Transmit};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use socket::{Queue, Socket};
use stamping::{InterfaceControl, Stamping};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::{Offload, Time};

/// Largest burst.
const BURST_LIMIT: usize = 64;

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// Room before a received frame for the VLAN tag that the kernel took out.
const TAG: usize = 4;

/// Most stamps taken in a look: a peer cannot keep a turn busy with them.
const STAMPS_LIMIT: usize = 64;

/// The interface's flags are asked for this often.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

/// Why a link could not be opened: a sentence for the user.
#[derive(Debug)]
pub struct PacketError(String);

impl core::fmt::Display for PacketError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PacketError {}

/// An interface by a packet socket.
pub struct PacketLink {
    interface: InterfaceControl,
    socket: Arc<Socket>,
    capabilities: Capabilities,
    rx: PacketRx,
    tx: PacketTx,
    state: LinkState,
    asked: Option<Time>,
    disconnects: u64,
    /// The NIC's stamps are off again with this value, if they were before.
    _stamping: Option<Stamping>,
}

impl PacketLink {
    /// Opens the interface, promiscuously.
    ///
    /// # Errors
    /// What is missing, for the user.
    pub fn open(config: &Config) -> Result<Self, PacketError> {
        let name = &config.name;
        let fail = |what: &str, why: io::Error| {
            let hint = match why.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "; this needs CAP_NET_RAW, and stamps of a NIC CAP_NET_ADMIN",
                _ => "",
            };
            PacketError(format!("cannot {what} {name}: {why}{hint}"))
        };
        let interface = InterfaceControl::new(name).map_err(|why| fail("ask for", why))?;
        let mtu = interface.mtu().map_err(|why| fail("read the MTU of", why))?;
        let index = interface.index().map_err(|why| fail("find", why))?;
        let socket = Socket::open(index).map_err(|why| fail("open a packet socket on", why))?;
        let mut stamping = None;
        if let Some(by) = config.stamped_by {
            if by == StampedBy::Nic {
                stamping = Some(Stamping::begin(name).map_err(PacketError)?);
            }
            socket.report_stamps(by).map_err(|why| fail("have stamps of frames from", why))?;
        }
        let socket = Arc::new(socket);
        let frame = usize::from(mtu) + HEADER_ROOM;
        Ok(Self {
            interface,
            capabilities: Capabilities {
                mtu,
                receive_checksum: false,
                transmit_checksum: false,
                segmentation: None,
                queues: 1,
                shared_frames: false,
            },
            rx: PacketRx::new(Arc::clone(&socket), frame, config.stamped_by),
            tx: PacketTx::new(Arc::clone(&socket), frame, config.stamped_by),
            socket,
            state: LinkState::Down,
            asked: None,
            disconnects: 0,
            _stamping: stamping,
        })
    }
}

impl Link for PacketLink {
    type Rx<'a> = &'a mut PacketRx;
    type Tx<'a> = &'a mut PacketTx;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn split(&mut self) -> (&mut PacketRx, &mut PacketTx) {
        (&mut self.rx, &mut self.tx)
    }

    /// Down while the interface is, or is not there.
    fn poll_control(&mut self, now: Time) -> LinkState {
        if self.asked.is_none_or(|asked| now.since(asked) >= STATE_INTERVAL) {
            self.asked = Some(now);
            // What found no room in the socket's buffer since the last time.
            self.rx.counters.rx_dropped += self.socket.dropped();
            let state = if self.interface.is_up() { LinkState::Up } else { LinkState::Down };
            if self.state == LinkState::Up && state == LinkState::Down {
                self.disconnects += 1;
            }
            self.state = state;
        }
        self.state
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let mut fds = [
            PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(wake.unwrap_or(self.socket.as_fd()), PollFlags::IN),
        ];
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    fn counters(&self) -> Counters {
        let Counters { rx_frames, rx_bytes, rx_dropped, .. } = self.rx.counters;
        Counters { rx_frames, rx_bytes, rx_dropped, disconnects: self.disconnects, ..self.tx.counters }
    }
}

/// The receive half of a [`PacketLink`].
pub struct PacketRx {
    socket: Arc<Socket>,
    stamped_by: Option<StampedBy>,
    slots: Box<[u8]>,
    stride: usize,
    burst: [Place; BURST_LIMIT],
    taken: usize,
    counters: Counters,
}

/// A frame received: where it is in its slot, and its stamp.
#[derive(Clone, Copy, Default)]
struct Place {
    start: u32,
    end: u32,
    stamp: Option<u64>,
}

impl PacketRx {
    fn new(socket: Arc<Socket>, frame: usize, stamped_by: Option<StampedBy>) -> Self {
        let stride = (TAG + frame).next_multiple_of(64);
        Self {
            socket,
            stamped_by,
            slots: vec![0; stride * BURST_LIMIT].into_boxed_slice(),
            stride,
            burst: [Place::default(); BURST_LIMIT],
            taken: 0,
            counters: Counters::default(),
        }
    }
}

impl Receive for PacketRx {
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        self.taken = 0;
        // So many looks, whatever comes of them: frames that are dropped could go on for ever.
        for _ in 0..max.min(BURST_LIMIT) {
            let at = self.taken * self.stride;
            let slot = &mut self.slots[at..at + self.stride];
            let received = match self.socket.receive(&mut slot[TAG..], Queue::Frames) {
                Ok(received) => received,
                Err(Errno::INTR) => continue,
                // ENETDOWN is told once, when the interface goes down.
                Err(_) => break,
            };
            if received.is_cut || received.len < 14 {
                self.counters.rx_dropped += 1;
                continue;
            }
            let mut place = Place { start: TAG as u32, end: (TAG + received.len) as u32, stamp: None };
            if let Some((kind, tag)) = received.said.tag {
                slot.copy_within(TAG..TAG + 12, 0);
                slot[12..14].copy_from_slice(&kind.to_be_bytes());
                slot[14..16].copy_from_slice(&tag.to_be_bytes());
                place.start = 0;
            }
            place.stamp = received.said.stamp(self.stamped_by);
            self.burst[self.taken] = place;
            self.taken += 1;
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += u64::from(place.end - place.start);
        }
        self.taken
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        let place = self.burst[..self.taken][index];
        let at = index * self.stride;
        &self.slots[at + place.start as usize..at + place.end as usize]
    }

    #[inline]
    fn stamp(&self, index: usize) -> Option<u64> {
        self.burst[..self.taken][index].stamp
    }

    #[inline]
    fn release(&mut self) {
        self.taken = 0;
    }
}

/// The transmit half of a [`PacketLink`].
pub struct PacketTx {
    socket: Arc<Socket>,
    stamped_by: Option<StampedBy>,
    slot: Box<[u8]>,
    /// A frame that the socket had no room for, and whether it is to be stamped.
    waiting: Option<(usize, bool)>,
    offered: bool,
    stamp_next: bool,
    /// Frames that left, as the kernel gives them back.
    back: Box<[u8]>,
    counters: Counters,
}

impl PacketTx {
    fn new(socket: Arc<Socket>, frame: usize, stamped_by: Option<StampedBy>) -> Self {
        Self {
            socket,
            stamped_by,
            slot: vec![0; frame].into_boxed_slice(),
            waiting: None,
            offered: false,
            stamp_next: false,
            back: vec![0; frame].into_boxed_slice(),
            counters: Counters::default(),
        }
    }

    /// Hands a frame to the kernel. Whether there was room for it.
    fn send(&mut self, len: usize, stamped: bool) -> bool {
        let by = self.stamped_by.filter(|_| stamped);
        let sent = loop {
            match self.socket.send(&self.slot[..len], by) {
                Err(Errno::INTR) => {}
                sent => break sent,
            }
        };
        match sent {
            Ok(()) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
            }
            Err(Errno::AGAIN) => return false,
            // The queue before the driver is full, or the interface is down.
            Err(_) => self.counters.tx_dropped += 1,
        }
        true
    }

    fn send_waiting(&mut self) {
        if let Some((len, stamped)) = self.waiting
            && self.send(len, stamped)
        {
            self.waiting = None;
        }
    }
}

impl Transmit for PacketTx {
    fn room(&self) -> usize {
        if self.waiting.is_some() { 0 } else { BURST_LIMIT }
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.send_waiting();
        if self.waiting.is_some() {
            self.counters.tx_full += 1;
            return None;
        }
        self.offered = true;
        Some(&mut self.slot)
    }

    /// A frame leaves at once, so that what waits for the next is not measured.
    fn commit(&mut self, len: usize, _offload: Offload) {
        let stamped = core::mem::take(&mut self.stamp_next);
        if core::mem::take(&mut self.offered) {
            let len = len.min(self.slot.len());
            if !self.send(len, stamped) {
                self.waiting = Some((len, stamped));
            }
        }
    }

    fn flush(&mut self, _now: Time) {
        self.send_waiting();
    }

    fn stamp_next(&mut self) {
        self.stamp_next = true;
    }

    fn departed(&mut self, each: &mut dyn FnMut(&[u8], u64)) {
        // Where a frame goes on to another interface of this kernel (a bridge), that stamps it as well: the first stamp
        // of several is that of its departure here.
        for _ in 0..STAMPS_LIMIT {
            match self.socket.receive(&mut self.back, Queue::Departed) {
                Ok(received) => {
                    let Some(stamp) = received.said.stamp(self.stamped_by).filter(|_| received.said.departed) else {
                        continue;
                    };
                    each(&self.back[..received.len.min(self.back.len())], stamp);
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
