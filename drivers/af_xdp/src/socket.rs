//! An AF_XDP socket: options, rings, and its place at a queue.
//!
//! `include/uapi/linux/if_xdp.h`, `net/xdp/xsk.c`.

use crate::config::{Config, CopyChoice};
use crate::error::XdpError;
use crate::ring::{Consumer, Descriptor, Parts, Producer};
use crate::stamps::BEFORE_DEPARTURE;
use crate::umem::Umem;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::time::Duration;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Most frames that one system call sends (`XDP_MAX_TX_SKB_BUDGET`, Linux
/// 6.18); 32 where it cannot be set.
const MAX_TX_BUDGET: i32 = 9;

/// `SO_PREFER_BUSY_POLL` and `SO_BUSY_POLL_BUDGET` (`asm-generic/socket.h`).
const PREFER_BUSY_POLL: i32 = 69;
const BUSY_POLL_BUDGET: i32 = 70;

/// The socket, not yet at its queue, with its rings.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    rings: [Mapping; 4],
}

/// The four rings, in the order of `Socket::rings`.
#[derive(Debug)]
pub(crate) struct Rings {
    pub receive: Parts<Descriptor>,
    pub transmit: Parts<Descriptor>,
    pub fill: Parts<u64>,
    pub completion: Parts<u64>,
}

// SAFETY: plain addresses; whoever uses them holds the socket.
unsafe impl Send for Rings {}

impl Rings {
    /// Frames to send that wait in the two rings, at most: the kernel moves
    /// them from the one to the other meanwhile, and none is counted twice.
    ///
    /// # Safety
    /// The socket is held, so that the rings are mapped.
    pub unsafe fn sent(&self) -> u32 {
        // SAFETY: as the caller promises; nothing is written.
        unsafe {
            let done = Consumer::new(self.completion).available();
            done + Producer::new(self.transmit).pending().min(self.transmit.size)
        }
    }
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mappings are not bound to a thread, and only their addresses are used here.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; the rings that reach into it are
        // dropped before the socket that holds it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn system(what: &'static str) -> impl Fn(Errno) -> XdpError {
    move |source| XdpError::System { what, source }
}

/// A socket as far as it takes rights: what is left to do, everybody may.
pub(crate) fn privileged(config: &Config) -> Result<OwnedFd, XdpError> {
    let fd = open()?;
    if let Some(time) = config.busy_poll {
        let micros = time.as_micros() as i32;
        for (option, value) in
            [(PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, micros), (BUSY_POLL_BUDGET, i32::from(config.budget))]
        {
            set(fd.as_fd(), libc::SOL_SOCKET, option, &value)
                .map_err(system("make an AF_XDP socket poll its driver (busy-poll needs Linux 5.11)"))?;
        }
    }
    Ok(fd)
}

impl Socket {
    /// A socket with rings as configured. With `umem`, which it then pins, or
    /// without, to share that of another.
    pub fn new(config: &Config, frame: u32, umem: Option<&Umem>) -> Result<(Self, Rings), XdpError> {
        Self::over(privileged(config)?, config, frame, umem)
    }

    /// The same, over what [`privileged`] made, perhaps in another process.
    pub fn over(fd: OwnedFd, config: &Config, frame: u32, umem: Option<&Umem>) -> Result<(Self, Rings), XdpError> {
        if let Some(umem) = umem {
            register(fd.as_fd(), umem, frame, config.stamps.departures)?;
        }
        let size = config.ring as i32;
        for option in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            set(fd.as_fd(), libc::SOL_XDP, option, &size).map_err(system("size a ring of an AF_XDP socket"))?;
        }
        // Without it a call sends 32 frames, and is repeated.
        let _ = set(fd.as_fd(), libc::SOL_XDP, MAX_TX_BUDGET, &size);
        Self::with_rings(fd, config)
    }

    /// The socket that another process has at a queue, with the same rings:
    /// what they hold, and how far they were read, stands in them.
    pub fn adopt(fd: OwnedFd, config: &Config) -> Result<(Self, Rings), XdpError> {
        let mut options = libc::xdp_options { flags: 0 };
        // Another kind of socket does not know the option.
        get(fd.as_fd(), libc::XDP_OPTIONS, &mut options).map_err(system("use what was given as an AF_XDP socket"))?;
        Self::with_rings(fd, config).map_err(|error| match error {
            XdpError::System { source: Errno::BUSY | Errno::INVAL, .. } => XdpError::System {
                what: "map the rings of a socket that is in use (it needs Linux 6.4)",
                source: Errno::BUSY,
            },
            other => other,
        })
    }

    fn with_rings(fd: OwnedFd, config: &Config) -> Result<(Self, Rings), XdpError> {
        let offsets = offsets(fd.as_fd()).map_err(system("ask where the rings of an AF_XDP socket lie"))?;
        let map = |at: u64, offset: &libc::xdp_ring_offset, slot: usize| {
            let len = offset.desc as usize + slot * config.ring as usize;
            Mapping::of(fd.as_fd(), at, len).map_err(system("map a ring of an AF_XDP socket"))
        };
        let rings = [
            map(libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, size_of::<Descriptor>())?,
            map(libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, size_of::<Descriptor>())?,
            map(libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, size_of::<u64>())?,
            map(libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, size_of::<u64>())?,
        ];
        let parts = Rings {
            receive: rings[0].parts(&offsets.rx, config.ring),
            transmit: rings[1].parts(&offsets.tx, config.ring),
            fill: rings[2].parts(&offsets.fr, config.ring),
            completion: rings[3].parts(&offsets.cr, config.ring),
        };
        Ok((Self { fd, rings }, parts))
    }

    /// Puts the socket at the interface's queue; `shared` is the one whose
    /// umem it uses.
    pub fn bind(
        &self,
        config: &Config,
        interface: u32,
        queue: u32,
        shared: Option<BorrowedFd<'_>>,
    ) -> Result<(), XdpError> {
        let flags = match (shared, config.copy) {
            // The one that is shared with has decided.
            (Some(_), _) => libc::XDP_SHARED_UMEM,
            (None, CopyChoice::Auto) => libc::XDP_USE_NEED_WAKEUP,
            (None, CopyChoice::ZeroCopy) => libc::XDP_USE_NEED_WAKEUP | libc::XDP_ZEROCOPY,
            (None, CopyChoice::Copy) => libc::XDP_USE_NEED_WAKEUP | libc::XDP_COPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: shared.map_or(0, |fd| fd.as_raw_fd() as u32),
        };
        let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the address is valid for its size, and read only.
        let bound = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
        if bound < 0 {
            let errno = last_errno();
            return Err(match errno {
                Errno::BUSY => XdpError::QueueBusy { interface: config.interface.clone(), queue },
                Errno::PERM | Errno::ACCESS => {
                    XdpError::NotPermitted { what: "put an AF_XDP socket at an interface's queue" }
                }
                Errno::OPNOTSUPP | Errno::NOTSUP if config.copy == CopyChoice::ZeroCopy => XdpError::Refused {
                    interface: config.interface.clone(),
                    what: "frames without a copy",
                    source: errno,
                    advice: match config.stamps.departures {
                        true => "the NIC stamps no others as they leave: measure with --clock tsc, or over af_packet",
                        false => "write copy=auto",
                    },
                },
                errno => XdpError::System { what: "put an AF_XDP socket at an interface's queue", source: errno },
            });
        }
        Ok(())
    }

    /// Whether frames pass without a copy; known once it is at its queue.
    pub fn is_zero_copy(&self) -> bool {
        let mut options = libc::xdp_options { flags: 0 };
        let asked = get(self.fd.as_fd(), libc::XDP_OPTIONS, &mut options);
        asked.is_ok() && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
    }

    /// The addresses of the rings' memory.
    pub fn memory(&self) -> impl Iterator<Item = Range<usize>> {
        self.rings.iter().map(|ring| {
            let start = ring.start.as_ptr() as usize;
            start..start + ring.len
        })
    }

    /// What the kernel dropped.
    pub fn statistics(&self) -> libc::xdp_statistics {
        let mut statistics = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        // An old kernel fills the first three.
        let _ = get(self.fd.as_fd(), libc::XDP_STATISTICS, &mut statistics);
        statistics
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Mapping {
    fn of(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, protection, flags, fd, offset) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, len })
    }

    fn parts<T>(&self, offset: &libc::xdp_ring_offset, size: u32) -> Parts<T> {
        let at = |offset: u64| {
            debug_assert!((offset as usize) < self.len);
            // SAFETY: the kernel gives offsets within what it maps.
            unsafe { self.start.add(offset as usize) }
        };
        Parts {
            producer: at(offset.producer).cast::<AtomicU32>(),
            consumer: at(offset.consumer).cast::<AtomicU32>(),
            flags: at(offset.flags).cast::<AtomicU32>(),
            slots: at(offset.desc).cast(),
            size,
        }
    }
}

fn open() -> Result<OwnedFd, XdpError> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(match last_errno() {
            Errno::PERM | Errno::ACCESS => XdpError::NotPermitted { what: "make an AF_XDP socket" },
            Errno::AFNOSUPPORT => XdpError::Absent,
            source => XdpError::System { what: "make an AF_XDP socket", source },
        });
    }
    // SAFETY: socket(2) returned it as new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives the kernel the memory, which it pins: untouched pages come from the
/// domain of this thread.
fn register(fd: BorrowedFd<'_>, umem: &Umem, frame: u32, stamped: bool) -> Result<(), XdpError> {
    let request = |flags| libc::xdp_umem_reg {
        addr: umem.start().as_ptr() as u64,
        len: umem.len() as u64,
        chunk_size: frame,
        headroom: 0,
        flags,
        tx_metadata_len: if stamped { BEFORE_DEPARTURE as u32 } else { 0 },
    };
    let plain = request(0);
    let pin = || match stamped {
        false => set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &plain),
        // The flag came with Linux 6.11; before, the length alone said it.
        true => match set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &request(libc::XDP_UMEM_TX_METADATA_LEN)) {
            Err(Errno::INVAL) => set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &plain),
            done => done,
        },
    };
    let pause = |failed: Errno, pause: Duration| {
        eprintln!("warning: the kernel did not pin the memory of an AF_XDP socket: {failed}; trying again");
        std::thread::sleep(pause);
        // Pages that went in between are to be there again. Why they are not,
        // the next try says.
        let _ = umem.populate();
    };
    insist(pin, pause).map_err(|errno| match errno {
        Errno::NOBUFS | Errno::NOMEM | Errno::PERM => XdpError::LockedMemory { bytes: umem.len() },
        source => XdpError::System { what: "give the kernel an AF_XDP socket's memory", source },
    })
}

/// Tries to have memory pinned, a third of a second in all.
const PIN_TRIES: u32 = 6;
/// The pause after the first, which doubles.
const PIN_PAUSE: Duration = Duration::from_millis(10);

/// Pins memory, again where that may help. The kernel fetches page by page, and
/// what it cannot have at that moment is an error of the whole call: EFAULT if
/// it is the first page, ENOMEM if it is a later one (`xdp_umem_pin_pages`),
/// where a limit is told by ENOBUFS. Meanwhile it also moves pages: to other
/// domains, into huge pages, and away from where nothing may be pinned for long
/// (FOLL_LONGTERM).
fn insist(mut pin: impl FnMut() -> Result<(), Errno>, mut pause: impl FnMut(Errno, Duration)) -> Result<(), Errno> {
    for tried in 0..PIN_TRIES - 1 {
        match pin() {
            Err(failed @ (Errno::FAULT | Errno::NOMEM | Errno::AGAIN | Errno::BUSY | Errno::INTR)) => {
                pause(failed, PIN_PAUSE * (1 << tried));
            }
            done => return done,
        }
    }
    pin()
}

fn offsets(fd: BorrowedFd<'_>) -> Result<libc::xdp_mmap_offsets, Errno> {
    let ring = || libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut offsets = libc::xdp_mmap_offsets { rx: ring(), tx: ring(), fr: ring(), cr: ring() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok(offsets)
}

/// `value` is plain data of the option's own type.
fn set<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for its size, and read only.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, core::ptr::from_ref(value).cast(), len) };
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

/// `value` is plain data of the option's own type, valid for any bytes.
fn get<T>(fd: BorrowedFd<'_>, option: i32, value: &mut T) -> Result<(), Errno> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for writes of its size.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, core::ptr::from_mut(value).cast(), &raw mut len)
    };
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel that answers so leads to: the outcome, and the pauses.
    fn insisted(answers: &[Result<(), Errno>]) -> (Result<(), Errno>, Vec<u128>) {
        let mut left = answers.iter().copied();
        let mut pauses = Vec::new();
        let outcome = insist(|| left.next().expect("no more tries"), |_, pause| pauses.push(pause.as_millis()));
        assert_eq!(left.next(), None, "tried as often as that");
        (outcome, pauses)
    }

    #[test]
    fn memory_that_cannot_be_pinned_now_is_pinned_later() {
        let (fault, none) = (Err(Errno::FAULT), Err(Errno::NOMEM));
        assert_eq!(insisted(&[Ok(())]), (Ok(()), vec![]));
        assert_eq!(insisted(&[fault, none, Ok(())]), (Ok(()), vec![10, 20]));
        let all = [fault, fault, fault, fault, fault, fault];
        assert_eq!(insisted(&all), (fault, vec![10, 20, 40, 80, 160]), "not for ever");
        // A limit is a limit.
        for never in [Errno::NOBUFS, Errno::PERM, Errno::INVAL] {
            assert_eq!(insisted(&[Err(never)]), (Err(never), vec![]));
        }
    }
}
