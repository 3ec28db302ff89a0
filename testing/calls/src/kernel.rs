//! Sockets of the kernel, over loopback.

use crate::call::{Call, HANDLES, Outcome, Place, SETS, World, counted};
use crate::library;
use crate::system::{close, last_error, poll, result, vectors};
use core::ffi::c_void;
use core::mem::{size_of, zeroed};
use core::net::Ipv4Addr;
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering};
use core::time::Duration;

/// The kernel's sockets of both sides. A handle without a descriptor has one that nobody
/// has.
pub struct Kernel {
    sockets: [[i32; HANDLES]; 2],
    sets: [[i32; SETS]; 2],
    /// What the ports of a sequence are counted from.
    base: u16,
    /// The next descriptor: none is used again in a world, so that it is the same in both whose
    /// watch a number names.
    next: i32,
    /// The addresses of both sides.
    local: [Ipv4Addr; 2],
    patience: Duration,
}

/// Threads that had a world. One has one world at a time, and descriptors that no other thread's
/// worlds have, however long it is not let run.
static THREADS: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static THREAD: i32 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// A descriptor beyond any limit.
const NOBODY: i32 = i32::MAX - 1;

impl Kernel {
    /// A world that waits so long for what was sent to arrive. Those with different numbers have
    /// different addresses and ports, below those that the kernel chooses: what lingers of one
    /// does not meet another.
    #[must_use]
    pub fn new(number: u32, patience: Duration) -> Self {
        let base = Self::base(number);
        let (third, fourth) = (1 + (number / 3_600 % 250) as u8, (number % 250) as u8);
        let local = [Ipv4Addr::new(127, third, fourth, 1), Ipv4Addr::new(127, third, fourth, 2)];
        Self::with(local, (base, 1_000), patience)
    }

    /// A world between these addresses, of which a process may have one side alone: it has descriptors
    /// of its own beside a world of [`Kernel::new`].
    #[must_use]
    pub fn between(local: [Ipv4Addr; 2], base: u16, patience: Duration) -> Self {
        Self::with(local, (base, 1_250), patience)
    }

    fn with(local: [Ipv4Addr; 2], (base, first): (u16, i32), patience: Duration) -> Self {
        let next = THREAD.with(|thread| first + thread * 500);
        Self { sockets: [[NOBODY; HANDLES]; 2], sets: [[NOBODY; SETS]; 2], base, next, local, patience }
    }

    /// What the ports of the world of this number are counted from.
    #[must_use]
    pub const fn base(number: u32) -> u16 {
        10_000 + (number % 3_600) as u16 * crate::PORTS
    }

    /// Gives a descriptor a number that this world had not.
    fn renumber(&mut self, fd: i32) -> i32 {
        if fd < 0 {
            return fd;
        }
        self.next += 1;
        // SAFETY: the number is this world's, and in no use.
        let new = unsafe { libc::dup3(fd, self.next, libc::O_CLOEXEC) };
        assert_eq!(new, self.next, "a limit of 10,000 descriptors: {}", std::io::Error::last_os_error());
        close(fd);
        new
    }

    fn fd(&self, side: usize, handle: usize) -> i32 {
        self.sockets[side][handle]
    }

    fn keep(&mut self, side: usize, handle: usize, fd: i32) -> Outcome {
        if fd < 0 {
            return last_error();
        }
        let fd = self.renumber(fd);
        let old = core::mem::replace(&mut self.sockets[side][handle], fd);
        if old != NOBODY {
            close(old);
        }
        Outcome::of(0)
    }

    fn sockaddr(&self, ip: Ipv4Addr, port: Option<u16>) -> libc::sockaddr_in {
        // SAFETY: zeros are a valid `sockaddr_in`.
        let mut address: libc::sockaddr_in = unsafe { zeroed() };
        address.sin_family = libc::AF_INET as u16;
        address.sin_port = port.map_or(0, |port| port + self.base).to_be();
        address.sin_addr.s_addr = ip.to_bits().to_be();
        address
    }

    fn name(&self, address: &libc::sockaddr_in) -> String {
        let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
        let ip = if ip.is_unspecified() { "any" } else { "own" };
        format!("{ip}:{}", crate::port_name(u16::from_be(address.sin_port), self.base))
    }

    fn opening(&mut self, side: usize, call: &Call) -> Outcome {
        let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        match *call {
            Call::Socket { handle } => {
                let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                // SAFETY: no memory is involved.
                let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
                if fd >= 0 {
                    set_number(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
                }
                self.keep(side, handle, fd)
            }
            Call::Bind { handle, place, port } => {
                let ip = match place {
                    Place::Own => self.local[side],
                    Place::Any => Ipv4Addr::UNSPECIFIED,
                    Place::Foreign => Ipv4Addr::new(192, 0, 2, 1),
                };
                let address = self.sockaddr(ip, port);
                // SAFETY: the address is a local of the length that is said.
                result(unsafe { libc::bind(self.fd(side, handle), (&raw const address).cast(), len) })
            }
            // SAFETY: no memory is involved.
            Call::Listen { handle, backlog } => result(unsafe { libc::listen(self.fd(side, handle), backlog) }),
            Call::Accept { handle, new } => {
                let mut address = self.sockaddr(Ipv4Addr::UNSPECIFIED, None);
                let mut room = len;
                let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                let fd = self.fd(side, handle);
                // SAFETY: the address is a local with room for so many bytes.
                let fd = unsafe { libc::accept4(fd, (&raw mut address).cast(), &raw mut room, flags) };
                let outcome = self.keep(side, new, fd);
                if fd < 0 { outcome } else { Outcome { address: self.name(&address), ..outcome } }
            }
            Call::Connect { handle, port } => {
                let address = self.sockaddr(self.local[1 - side], Some(port));
                // SAFETY: as for `bind`.
                result(unsafe { libc::connect(self.fd(side, handle), (&raw const address).cast(), len) })
            }
            Call::Disconnect { handle } => {
                let mut address = self.sockaddr(Ipv4Addr::UNSPECIFIED, None);
                address.sin_family = libc::AF_UNSPEC as u16;
                // SAFETY: as for `bind`.
                result(unsafe { libc::connect(self.fd(side, handle), (&raw const address).cast(), len) })
            }
            // SAFETY: no memory is involved.
            Call::Shutdown { handle, how } => result(unsafe { libc::shutdown(self.fd(side, handle), how) }),
            Call::Close { handle } => {
                let fd = core::mem::replace(&mut self.sockets[side][handle], NOBODY);
                close(fd)
            }
            Call::Dup { handle, new } => {
                // SAFETY: no memory is involved.
                let fd = unsafe { libc::dup(self.fd(side, handle)) };
                self.keep(side, new, fd)
            }
            _ => self.asking(side, call),
        }
    }

    fn asking(&mut self, side: usize, call: &Call) -> Outcome {
        match *call {
            Call::LocalAddress { handle } => self.address_of(self.fd(side, handle), libc::getsockname),
            Call::PeerAddress { handle } => self.address_of(self.fd(side, handle), libc::getpeername),
            Call::Readable { handle } => {
                let mut count = 0i32;
                // SAFETY: the request writes a number, which is a local.
                let done = unsafe { libc::ioctl(self.fd(side, handle), libc::FIONREAD, &raw mut count) };
                if done < 0 { last_error() } else { Outcome::of(count.into()) }
            }
            Call::Option { handle, choice } => {
                let mut value = 0i32;
                let mut len = size_of::<i32>() as libc::socklen_t;
                let (fd, value_at) = (self.fd(side, handle), (&raw mut value).cast());
                // SAFETY: the value is a local with room for so many bytes.
                let done = unsafe { libc::getsockopt(fd, choice.level, choice.name, value_at, &raw mut len) };
                if done < 0 { last_error() } else { Outcome::of(value.into()) }
            }
            Call::SetOption { handle, choice, value } => {
                set_number(self.fd(side, handle), choice.level, choice.name, value)
            }
            Call::Linger { handle, on, seconds } => {
                let value = libc::linger { l_onoff: on, l_linger: seconds };
                let len = size_of::<libc::linger>() as libc::socklen_t;
                let (fd, value) = (self.fd(side, handle), (&raw const value).cast());
                // SAFETY: the value is a local of the length that is said.
                result(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, len) })
            }
            _ => self.moving(side, call),
        }
    }

    fn moving(&mut self, side: usize, call: &Call) -> Outcome {
        match *call {
            Call::Send { handle, first, len, flags } => {
                let bytes = counted(first, len);
                let fd = self.fd(side, handle);
                // SAFETY: so many bytes are there.
                let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), len, flags | libc::MSG_NOSIGNAL) };
                if sent < 0 { last_error() } else { Outcome::of(sent as i64) }
            }
            Call::Writev { handle, first, lens } => {
                let mut bytes = counted(first, lens[0] + lens[1]);
                let mut vectors = vectors(&mut bytes, lens);
                // SAFETY: zeros are a valid header without anything.
                let mut message: libc::msghdr = unsafe { zeroed() };
                message.msg_iov = vectors.as_mut_ptr();
                message.msg_iovlen = vectors.len();
                // SAFETY: the vectors are of memory that lives until the call is over.
                let sent = unsafe { libc::sendmsg(self.fd(side, handle), &raw const message, libc::MSG_NOSIGNAL) };
                if sent < 0 { last_error() } else { Outcome::of(sent as i64) }
            }
            Call::Recv { handle, len, flags } => {
                let mut bytes = vec![0u8; len];
                let fd = self.fd(side, handle);
                // SAFETY: there is room for so many bytes.
                received(unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), len, flags) }, &bytes, flags)
            }
            Call::Readv { handle, lens } => {
                let mut bytes = vec![0u8; lens[0] + lens[1]];
                let vectors = vectors(&mut bytes, lens);
                // SAFETY: the vectors are of memory that lives until the call is over.
                let got = unsafe { libc::readv(self.fd(side, handle), vectors.as_ptr(), 2) };
                received(got, &bytes, 0)
            }
            Call::Poll { handle, events } => poll(self.fd(side, handle), events),
            _ => self.watching(side, call),
        }
    }

    fn watching(&mut self, side: usize, call: &Call) -> Outcome {
        match *call {
            Call::CreateSet { set } => {
                // SAFETY: no memory is involved.
                let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
                let fd = self.renumber(fd);
                let old = core::mem::replace(&mut self.sets[side][set], fd);
                if old != NOBODY {
                    close(old);
                }
                Outcome::of(0)
            }
            Call::CloseSet { set } => close(core::mem::replace(&mut self.sets[side][set], NOBODY)),
            Call::Control { set, op, handle, events } => {
                let mut event = libc::epoll_event { events, u64: handle as u64 };
                let (set, fd) = (self.sets[side][set], self.fd(side, handle));
                // SAFETY: the event is a local.
                result(unsafe { libc::epoll_ctl(set, op, fd, &raw mut event) })
            }
            Call::Wait { set, most } => {
                let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; most];
                // SAFETY: there is room for so many events.
                let count = unsafe { libc::epoll_wait(self.sets[side][set], events.as_mut_ptr(), most as i32, 0) };
                if count < 0 {
                    return last_error();
                }
                let events = events[..count as usize].iter().map(|event| (event.u64, event.events)).collect();
                Outcome { events, ..Outcome::of(count.into()) }
            }
            Call::PollSet { set } => poll(self.sets[side][set], libc::POLLIN),
            Call::Library { handle, what } => library::call(self.fd(side, handle), self.sets[side][0], what),
            _ => unreachable!("the calls that are left"),
        }
    }

    fn address_of(
        &self,
        fd: i32,
        ask: unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32,
    ) -> Outcome {
        let mut address = self.sockaddr(Ipv4Addr::UNSPECIFIED, None);
        let mut room = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: the address is a local with room for so many bytes.
        let done = unsafe { ask(fd, (&raw mut address).cast(), &raw mut room) };
        if done < 0 { last_error() } else { Outcome { address: self.name(&address), ..Outcome::of(0) } }
    }
}

fn set_number(fd: i32, level: i32, name: i32, value: i32) -> Outcome {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is a local of the length that is said.
    result(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast::<c_void>(), len) })
}

fn received(got: isize, bytes: &[u8], flags: i32) -> Outcome {
    let Ok(len) = usize::try_from(got) else { return last_error() };
    let seen = if flags & libc::MSG_TRUNC == 0 { len } else { 0 };
    Outcome { bytes: bytes[..seen].to_vec(), ..Outcome::of(got as i64) }
}

/// Lets this process have as many descriptors as it may.
///
/// # Panics
/// If the system does not say how many.
pub fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is a local.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

impl World for Kernel {
    fn call(&mut self, side: usize, call: &Call) -> Outcome {
        self.opening(side, call)
    }

    fn settle(&mut self) {
        if !self.patience.is_zero() {
            std::thread::sleep(self.patience);
        }
        // SAFETY: waits for nothing, of nobody.
        unsafe { libc::poll(ptr::null_mut(), 0, 0) };
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        for fd in self.sockets.iter().flatten().chain(self.sets.iter().flatten()).filter(|fd| **fd != NOBODY) {
            close(*fd);
        }
    }
}
