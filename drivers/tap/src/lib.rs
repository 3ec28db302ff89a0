//! TAP links: Ethernet frames to and from the local kernel.
//!
//! The kernel side is an ordinary interface, with its own address, routes and
//! sockets, so that every program of the machine can talk to the stack. Each
//! frame costs a system call (the kernel takes and gives one at a time); the
//! offloads soften that for sending: one call hands over up to 64 KiB of TCP
//! for the kernel to cut, or not to cut at all where it goes to a local
//! socket.
//!
//! Source for the device's behaviour: drivers/net/tun.c and
//! include/uapi/linux/{if_tun,virtio_net}.h of Linux.

mod config;
mod device;
mod header;
mod row;

pub use config::{Config, KernelAddress};
pub use device::TapError;

use core::ops::Range;
use core::time::Duration;
use device::{Control, Device};
use header::Header;
use link::{Capabilities, Counters, Link, LinkState, Receive, Reopened, Reopener, Transmit, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::{Offload, Time};

/// Largest burst: its slots are taken at start.
const BURST_LIMIT: usize = 64;

/// Ethernet header with one VLAN tag: what a slot holds beside the packet.
const HEADER_ROOM: usize = 18;

/// Largest IP packet that the kernel takes for cutting, and gives where large
/// frames are asked for.
const LARGE_PACKET: usize = 65_535;

/// The device's flags are asked for this often: going down is rare, and each
/// question is a system call.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

/// One queue of a TAP device.
///
/// Dropping the last queue removes the device, unless it was made persistent
/// beforehand (`ip tuntap add`). A device that somebody deletes is attached to
/// again when there is one of its name: it is not made again against the will
/// of whoever deleted it.
pub struct Tap {
    config: Config,
    /// Which of the device's queues, from 0.
    ordinal: u16,
    /// Who attaches to a new device, where this process may not.
    reopener: Option<Arc<dyn Reopener>>,
    capabilities: Capabilities,
    control: Arc<Control>,
    rx: TapRx,
    tx: TapTx,
    state: LinkState,
    asked: Option<Time>,
    disconnects: u64,
}

impl Tap {
    /// Opens the device with one queue, whatever the configuration's count
    /// says, and configures the interface.
    ///
    /// # Errors
    /// See [`TapError`].
    pub fn open(config: &Config) -> Result<Self, TapError> {
        let config = Config { queues: 1, ..config.clone() };
        let mut queues = Self::open_queues(&config)?;
        queues.pop().ok_or_else(|| TapError::no_queue(&config))
    }

    /// Opens the device with all of its queues, one link for each silo, and
    /// configures the interface: up, with its MTU and addresses. The kernel
    /// sends a flow to the queue that the flow was last sent from, and a new
    /// flow by its hash (`tun_automq_select_queue`).
    ///
    /// # Errors
    /// See [`TapError`]; nothing is left behind.
    pub fn open_queues(config: &Config) -> Result<Vec<Self>, TapError> {
        let mut devices = Vec::with_capacity(config.queues.into());
        for _ in 0..config.queues {
            devices.push(Arc::new(Device::open(config)?));
        }
        let control = Arc::new(Control::new(config)?);
        control.configure(config)?;
        let mtu = control.mtu()?;
        let queues = (0..).zip(devices);
        Ok(queues.map(|(ordinal, device)| Self::new(config, (ordinal, device), Arc::clone(&control), mtu)).collect())
    }

    /// Attaches to the device that is there, for another process, whose queue
    /// [`Tap::set_reopener`] then gives it to. None is made.
    ///
    /// # Errors
    /// See [`TapError`]: mostly that there is none.
    pub fn open_for_another(config: &Config, wanted: Wanted) -> Result<Reopened, TapError> {
        let config = Config { mtu: Some(wanted.mtu), ..config.clone() };
        let control = Control::new(&config)?;
        if !control.exists() {
            return Err(TapError::no_device(&config));
        }
        let device = Device::open(&config)?;
        control.configure(&config)?;
        Ok(Reopened { text: device.text(), descriptors: vec![device.into_fd()] })
    }

    /// This queue, for another process that receives and sends in place of this one
    /// ([`Tap::given`]).
    ///
    /// # Errors
    /// The system's, where it gives no descriptor.
    pub fn share(&self) -> io::Result<Reopened> {
        let descriptor = self.rx.device.as_fd().try_clone_to_owned()?;
        Ok(Reopened { text: self.rx.device.text(), descriptors: vec![descriptor] })
    }

    /// The queue that another process opened and shares ([`Tap::share`]). Needs no right: the
    /// interface is as it is.
    ///
    /// # Errors
    /// See [`TapError`]; mostly that what is shared is no queue of this driver's.
    pub fn given(config: &Config, mut shared: Reopened) -> Result<Self, TapError> {
        let device = shared.descriptors.pop().and_then(|fd| Device::given(fd, &shared.text));
        let device = Arc::new(device.ok_or_else(|| TapError::no_queue(config))?);
        let control = Arc::new(Control::new(config)?);
        let mtu = control.mtu()?;
        Ok(Self::new(config, (0, device), control, mtu))
    }

    /// A descriptor that was opened here, and not given: by which the kernel is asked how the device is.
    #[must_use]
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// From now on a device that was deleted is attached to again by another
    /// process.
    pub fn set_reopener(&mut self, reopener: Arc<dyn Reopener>) {
        self.reopener = Some(reopener);
    }

    fn new(config: &Config, (ordinal, device): (u16, Arc<Device>), control: Arc<Control>, mtu: u16) -> Self {
        let offload = device.header_len() > 0;
        let large = offload && config.large;
        let received = if large { LARGE_PACKET } else { mtu.into() };
        let sent = if offload { LARGE_PACKET } else { mtu.into() };
        let capabilities = Capabilities {
            mtu,
            receive_checksum: offload,
            transmit_checksum: offload,
            segmentation: offload.then_some(LARGE_PACKET as u32),
            queues: config.queues,
            shared_frames: false,
        };
        Self {
            config: Config { mtu: Some(mtu), ..config.clone() },
            ordinal,
            reopener: None,
            capabilities,
            control,
            rx: TapRx::new(Arc::clone(&device), received + HEADER_ROOM),
            tx: TapTx::new(device, config.ring, sent + HEADER_ROOM),
            state: LinkState::Up,
            asked: None,
            disconnects: 0,
        }
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.control.name()
    }

    /// Whether the device was deleted, and there is none of its name yet that
    /// could be attached to.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        self.rx.gone || self.tx.gone
    }

    /// Attaches to a new device of the same name, if there is one that takes
    /// frames as the old one did. Whether it did.
    #[cold]
    fn attach_again(&mut self, due: bool) -> bool {
        if due && !self.control.exists() {
            return false;
        }
        // A failure may pass: somebody is just setting the device up.
        let Some(device) = self.open_again(due) else { return false };
        if device.header_len() != self.rx.device.header_len() {
            return false;
        }
        let device = Arc::new(device);
        self.rx.attach(Arc::clone(&device));
        self.tx.attach(device);
        true
    }

    /// Another process answers when it does: it is asked when that is `due`, and
    /// has rung when it has answered.
    fn open_again(&self, due: bool) -> Option<Device> {
        let Some(reopener) = &self.reopener else {
            let device = Device::open(&self.config).ok()?;
            return self.control.configure(&self.config).ok().map(|()| device);
        };
        let Some(mut given) = reopener.take(self.ordinal) else {
            if due {
                reopener.ask(self.ordinal, Wanted { mtu: self.capabilities.mtu, mac: [0; 6] });
            }
            return None;
        };
        Device::given(given.descriptors.pop()?, &given.text)
    }

    fn set_state(&mut self, state: LinkState) {
        if self.state == LinkState::Up && state == LinkState::Down {
            self.disconnects += 1;
        }
        self.state = state;
    }
}

impl Link for Tap {
    type Rx<'a>
        = &'a mut TapRx
    where
        Self: 'a;
    type Tx<'a>
        = &'a mut TapTx
    where
        Self: 'a;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn split(&mut self) -> (&mut TapRx, &mut TapTx) {
        (&mut self.rx, &mut self.tx)
    }

    /// Down while the interface is, or is not there.
    fn poll_control(&mut self, now: Time) -> LinkState {
        if self.is_gone() {
            self.set_state(LinkState::Down);
        }
        let given = self.is_gone() && self.reopener.is_some();
        if given || self.asked.is_none_or(|asked| now.since(asked) >= STATE_INTERVAL) {
            let due = self.asked.is_none_or(|asked| now.since(asked) >= STATE_INTERVAL);
            if due {
                self.asked = Some(now);
            }
            if self.is_gone() && !self.attach_again(due) {
                return self.state;
            }
            let up = self.control.is_up();
            self.set_state(if up { LinkState::Up } else { LinkState::Down });
        }
        self.state
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        let gone = self.is_gone();
        let mut events = PollFlags::IN;
        if self.tx.pending() {
            events |= PollFlags::OUT;
        }
        let mut fds = [
            PollFd::from_borrowed_fd(self.rx.device.as_fd(), events),
            PollFd::from_borrowed_fd(wake.unwrap_or(self.rx.device.as_fd()), PollFlags::IN),
        ];
        // A deleted device is always "ready": with an error.
        let fds = if gone { &mut fds[1..] } else { &mut fds[..] };
        let fds = if gone && wake.is_none() { &mut fds[1..] } else { fds };
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match rustix::event::poll(fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        if self.is_gone() {
            // A deleted device is always "ready": with an error.
            return Duration::MAX;
        }
        each(self.rx.device.as_fd());
        if self.tx.pending() { link::NAP } else { Duration::MAX }
    }

    fn counters(&self) -> Counters {
        let Counters { rx_frames, rx_bytes, rx_dropped, .. } = self.rx.counters;
        let disconnects = self.disconnects;
        Counters { rx_frames, rx_bytes, rx_dropped, disconnects, ..self.tx.counters }
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        for slots in [&self.rx.slots, &self.tx.slots] {
            let slots = slots.as_ptr_range();
            each(slots.start.addr()..slots.end.addr());
        }
    }
}

/// The receive half of a [`Tap`].
pub struct TapRx {
    device: Arc<Device>,
    /// Slots of `stride` bytes: the kernel's header, the frame, and a byte
    /// that stays free unless a frame was too long.
    slots: Box<[u8]>,
    stride: usize,
    burst: [Received; BURST_LIMIT],
    taken: usize,
    /// The device was deleted.
    gone: bool,
    counters: Counters,
}

/// A frame received: its end in its slot, and whether it is vouched for.
#[derive(Clone, Copy, Default)]
struct Received {
    end: u32,
    verified: bool,
}

impl TapRx {
    fn new(device: Arc<Device>, frame: usize) -> Self {
        let stride = (device.header_len() + frame + 1).next_multiple_of(64);
        Self {
            device,
            slots: vec![0; stride * BURST_LIMIT].into_boxed_slice(),
            stride,
            burst: [Received::default(); BURST_LIMIT],
            taken: 0,
            gone: false,
            counters: Counters::default(),
        }
    }

    fn attach(&mut self, device: Arc<Device>) {
        (self.device, self.taken, self.gone) = (device, 0, false);
    }
}

impl Receive for TapRx {
    fn receive(&mut self, _now: Time, max: usize) -> usize {
        self.taken = 0;
        let header = self.device.header_len();
        while self.taken < max.min(BURST_LIMIT) {
            let start = self.taken * self.stride;
            let slot = &mut self.slots[start..start + self.stride];
            let len = match rustix::io::read(&*self.device, &mut *slot) {
                Ok(len) => len,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                // EBADFD: the queue was detached from its device.
                Err(_) => {
                    self.gone = true;
                    break;
                }
            };
            // A frame that fills its slot was cut there; one that is shorter
            // than an Ethernet header is none.
            if len == slot.len() || len < header + 14 {
                self.counters.rx_dropped += 1;
                continue;
            }
            let verified = header > 0 && Header::vouches(slot);
            self.burst[self.taken] = Received { end: len as u32, verified };
            self.taken += 1;
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += (len - header) as u64;
        }
        self.taken
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        let end = self.burst[..self.taken][index].end as usize;
        let start = index * self.stride;
        &self.slots[start + self.device.header_len()..start + end]
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        self.burst[..self.taken][index].verified
    }

    #[inline]
    fn release(&mut self) {
        self.taken = 0;
    }
}

/// The transmit half of a [`Tap`].
pub struct TapTx {
    device: Arc<Device>,
    /// Slots of `stride` bytes: the kernel's header and the frame.
    slots: Box<[u8]>,
    stride: usize,
    /// Committed frames, oldest first, are `lens[sent..committed]`.
    lens: Box<[u32]>,
    sent: usize,
    committed: usize,
    offered: bool,
    /// The device was deleted.
    gone: bool,
    counters: Counters,
}

impl TapTx {
    fn new(device: Arc<Device>, ring: usize, frame: usize) -> Self {
        let stride = (device.header_len() + frame).next_multiple_of(64);
        Self {
            device,
            // Zeroed memory from the operating system: a slot costs memory
            // once it is used, and as much of it as is used.
            slots: vec![0; stride * ring].into_boxed_slice(),
            stride,
            lens: vec![0; ring].into_boxed_slice(),
            sent: 0,
            committed: 0,
            offered: false,
            gone: false,
            counters: Counters::default(),
        }
    }

    fn pending(&self) -> bool {
        self.sent < self.committed
    }

    /// What waits is for the old device's peers.
    fn attach(&mut self, device: Arc<Device>) {
        self.counters.tx_dropped += (self.committed - self.sent) as u64;
        (self.device, self.sent, self.committed, self.gone) = (device, 0, 0, false);
    }
}

impl Transmit for TapTx {
    #[inline]
    fn room(&self) -> usize {
        self.lens.len() - self.committed
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut [u8]> {
        if self.committed == self.lens.len() {
            self.counters.tx_full += 1;
            return None;
        }
        self.offered = true;
        let start = self.committed * self.stride;
        Some(&mut self.slots[start + self.device.header_len()..start + self.stride])
    }

    #[inline]
    fn commit(&mut self, len: usize, offload: Offload) {
        if !core::mem::take(&mut self.offered) {
            return;
        }
        let header = self.device.header_len();
        let start = self.committed * self.stride;
        let slot = &mut self.slots[start..start + self.stride];
        let len = len.min(slot.len() - header);
        if header > 0 {
            let (head, frame) = slot.split_at_mut(header);
            Header::for_frame(&frame[..len], offload).write(head);
        }
        self.lens[self.committed] = (header + len) as u32;
        self.committed += 1;
    }

    fn flush(&mut self, _now: Time) {
        let header = self.device.header_len();
        while self.sent < self.committed {
            let start = self.sent * self.stride;
            let len = self.lens[self.sent] as usize;
            match rustix::io::write(&*self.device, &self.slots[start..start + len]) {
                Ok(_) => {
                    self.counters.tx_frames += 1;
                    self.counters.tx_bytes += (len - header) as u64;
                }
                // The kernel's buffers are full: the rest stays queued, in
                // order, until the next flush.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return,
                Err(Errno::INTR) => continue,
                Err(e) => {
                    // EIO: the interface is down. EBADFD: it was deleted.
                    self.gone |= e == Errno::BADFD;
                    self.counters.tx_dropped += 1;
                }
            }
            self.sent += 1;
        }
        // From the first slot again, which is warm.
        self.sent = 0;
        self.committed = 0;
    }
}

#[cfg(test)]
mod tests;
