//! The socket: frames with what the kernel says of them.

use crate::control::Said;
use core::mem::MaybeUninit;
use driver::StampedBy;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

/// A packet socket on one interface.
pub(crate) struct Socket(OwnedFd);

/// Which of a socket's queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Frames that came.
    Frames,
    /// Frames that left, with their stamps.
    Departed,
}

/// A frame, and what was said of it.
pub(crate) struct Received {
    /// Its bytes in the slot.
    pub len: usize,
    /// The slot was too short for it.
    pub is_cut: bool,
    pub said: Said,
}

/// Room for control messages: stamps take 64 bytes, a tag 36, an error 56.
const CONTROL: usize = 256;

/// Aligned as the kernel aligns what it writes there.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// What waits here is the tester's loss, and not the device's.
const BUFFER: i32 = 16 << 20;

/// What a socket is to report (SO_TIMESTAMPING).
const fn flags_of(by: StampedBy) -> u32 {
    match by {
        StampedBy::Kernel => stamping::KERNEL_FLAGS,
        StampedBy::Nic => stamping::NIC_FLAGS,
    }
}

impl Socket {
    /// Opens one on the interface of this number.
    pub fn open(index: i32) -> io::Result<Self> {
        // Bound before it hears anything: with protocol 0 it takes no frame.
        // SAFETY: takes its arguments by value.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given it to us.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        // A buffer beyond the machine's limit needs CAP_NET_ADMIN: without it the limit counts.
        if socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER).is_err() {
            socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER)?;
        }
        // SAFETY: plain numbers; all zero is valid.
        let mut to: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        to.sll_ifindex = index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: reads `len` bytes of an address that lives during the call.
        checked(unsafe { libc::bind(socket.0.as_raw_fd(), (&raw const to).cast(), len) })?;
        let everything = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &everything)?;
        Ok(socket)
    }

    /// Tells stamps of this kind from now on: of frames that come all, of those
    /// that leave where it is asked for.
    pub fn report_stamps(&self, by: StampedBy) -> io::Result<()> {
        let flags = flags_of(by) & !stamping::DEPARTURE_FLAGS;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
    }

    /// Frames that the socket had no room for since the last time.
    pub fn dropped(&self) -> u64 {
        /// `struct tpacket_stats`.
        #[repr(C)]
        #[derive(Default)]
        struct Stats {
            frames: u32,
            drops: u32,
        }
        let mut stats = Stats::default();
        let mut len = size_of::<Stats>() as libc::socklen_t;
        // SAFETY: writes at most `len` bytes to a structure of that size, and how many to `len`.
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if got == 0 { stats.drops.into() } else { 0 }
    }

    /// The next of a queue.
    pub fn receive(&self, slot: &mut [u8], queue: Queue) -> Result<Received, Errno> {
        let mut control = MaybeUninit::<Control>::uninit();
        let mut bytes = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        // SAFETY: plain numbers and pointers; all zero is valid.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &raw mut bytes;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL;
        let flags = libc::MSG_DONTWAIT | if queue == Queue::Departed { libc::MSG_ERRQUEUE } else { 0 };
        // SAFETY: the kernel writes into `slot` and `control`, no more than the lengths that the message tells, and
        // both live, borrowed by nobody else, until the call is over.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, flags) };
        let Ok(len) = usize::try_from(len) else { return Err(last()) };
        let said = message.msg_controllen.min(CONTROL);
        // SAFETY: the kernel has written `msg_controllen` bytes of control messages, and what it pads them with
        // counts as read only where a message's length says so, which its own bytes do not reach beyond.
        let said = unsafe { core::slice::from_raw_parts(control.as_ptr().cast::<u8>(), said) };
        let is_cut = message.msg_flags & libc::MSG_TRUNC != 0 || len > slot.len();
        Ok(Received { len: len.min(slot.len()), is_cut, said: Said::read(said) })
    }

    /// Hands a frame to the kernel, which is to stamp it in this way as it leaves.
    pub fn send(&self, frame: &[u8], by: Option<StampedBy>) -> Result<(), Errno> {
        let mut bytes = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: plain numbers and pointers; all zero is valid.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &raw mut bytes;
        message.msg_iovlen = 1;
        /// A control message of one word, with what it is padded to.
        #[repr(C, align(8))]
        struct Ask {
            head: libc::cmsghdr,
            flags: u32,
            pad: u32,
        }
        // SAFETY: plain numbers; all zero is valid.
        let mut ask: Ask = unsafe { core::mem::zeroed() };
        if let Some(by) = by {
            ask.head.cmsg_level = libc::SOL_SOCKET;
            ask.head.cmsg_type = libc::SO_TIMESTAMPING;
            ask.head.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<u32>();
            ask.flags = flags_of(by) & stamping::DEPARTURE_FLAGS;
            message.msg_control = (&raw mut ask).cast();
            message.msg_controllen = size_of::<Ask>();
        }
        // SAFETY: the kernel reads the frame and the control message, which live during the call.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(last()) } else { Ok(()) }
    }

    fn set<T>(&self, level: i32, name: i32, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of a value of that size.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, (&raw const *value).cast(), len) })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn last() -> Errno {
    Errno::from_raw_os_error(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
