//! Calls whose making is the C library's affair, or that of a library that is preloaded.

use crate::call::{LibraryCall, Outcome, StrayAddress, StrayCall, counted};
use crate::system::{close, last_error, result, vectors};
use core::ffi::{c_int, c_ulong, c_void};
use core::mem::{size_of, zeroed};
use core::ptr;
use core::time::Duration;

/// Linux: include/uapi/asm-generic/sockios.h.
const SIOCATMARK: c_ulong = 0x8905;
/// A request that nobody has.
const UNKNOWN: c_ulong = 0x4711;
/// Descriptors of copies are these or above: no world's.
const COPIES_FROM: c_int = 9_000;

unsafe extern "C" {
    fn dprintf(fd: c_int, format: *const libc::c_char, ...) -> c_int;
}

/// Makes a call on a descriptor; a set is beside it.
pub fn call(fd: c_int, set: c_int, what: LibraryCall) -> Outcome {
    match what {
        LibraryCall::CloseOnExec { on } => {
            let request = if on { libc::FIOCLEX } else { libc::FIONCLEX };
            // SAFETY: the request has no argument.
            then(unsafe { libc::ioctl(fd, request) }, || fcntl(fd, libc::F_GETFD, 0))
        }
        LibraryCall::Nonblocking => then(ioctl(fd, libc::FIONBIO, 1).0, || flags(fd)),
        LibraryCall::SetFlags => then(fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), || flags(fd)),
        LibraryCall::AtMark => number(ioctl(fd, SIOCATMARK, 7)),
        LibraryCall::UnknownControl => number(ioctl(fd, UNKNOWN, 7)),
        LibraryCall::Double { close_on_exec } => {
            let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
            let new = fcntl(fd, command, COPIES_FROM);
            let outcome = then(new.min(0), || fcntl(new, libc::F_GETFD, 0));
            if new >= 0 {
                close(new);
            }
            outcome
        }
        LibraryCall::State => {
            let mut state = [0u8; 8];
            let mut len = state.len() as libc::socklen_t;
            let at = state.as_mut_ptr().cast();
            // SAFETY: there is room for so many bytes.
            let done = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut len) };
            then(done, || c_int::from(state[0]))
        }
        LibraryCall::Kind => {
            // SAFETY: zeros are a valid value, which the call fills.
            let mut found: libc::stat = unsafe { zeroed() };
            // SAFETY: as above.
            let done = unsafe { libc::fstat(fd, &raw mut found) };
            then(done, || (found.st_mode & libc::S_IFMT) as c_int)
        }
        // SAFETY: the format has the two arguments that follow.
        LibraryCall::Print { number } => result(unsafe { dprintf(fd, c"%d %.1f\n".as_ptr(), number, 0.5f64) }),
        LibraryCall::PutLine { number } => put_line(fd, number),
        LibraryCall::ReceiveMany { lens, flags } => receive_many(fd, lens, flags),
        LibraryCall::SendMany { first, lens } => send_many(fd, first, lens),
        LibraryCall::Stray { call, at } => stray(fd, set, call, address(at)),
        LibraryCall::Interrupted { restarts } => interrupted(fd, restarts),
    }
}

/// What comes of a call that went well, or why it did not.
fn then(done: c_int, next: impl FnOnce() -> c_int) -> Outcome {
    if done < 0 { last_error() } else { result(next()) }
}

fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
    // SAFETY: the commands that are called have a number for an argument.
    unsafe { libc::fcntl(fd, command, argument) }
}

fn flags(fd: c_int) -> c_int {
    fcntl(fd, libc::F_GETFL, 0) & (libc::O_ACCMODE | libc::O_NONBLOCK)
}

fn ioctl(fd: c_int, request: c_ulong, value: c_int) -> (c_int, c_int) {
    let mut value = value;
    // SAFETY: the requests that are called read or write a number.
    (unsafe { libc::ioctl(fd, request, &raw mut value) }, value)
}

fn number((done, value): (c_int, c_int)) -> Outcome {
    then(done, || value)
}

fn put_line(fd: c_int, number: i32) -> Outcome {
    let copy = fcntl(fd, libc::F_DUPFD_CLOEXEC, COPIES_FROM);
    if copy < 0 {
        return last_error();
    }
    // SAFETY: the descriptor and the mode are this function's.
    let stream = unsafe { libc::fdopen(copy, c"r+".as_ptr()) };
    if stream.is_null() {
        let outcome = last_error();
        close(copy);
        return outcome;
    }
    let line = std::ffi::CString::new(format!("line {number}\n")).expect("no zero in it");
    // SAFETY: the stream is open, and the line a string; it is closed once.
    unsafe {
        let put = libc::fputs(line.as_ptr(), stream);
        let closed = libc::fclose(stream);
        if put < 0 || closed < 0 { last_error() } else { Outcome::of(i64::from(put > 0)) }
    }
}

/// Two messages of one vector each.
fn messages(vectors: &mut [libc::iovec; 2]) -> [libc::mmsghdr; 2] {
    vectors.each_mut().map(|vector| {
        // SAFETY: zeros are a valid header without anything.
        let mut message: libc::mmsghdr = unsafe { zeroed() };
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        message
    })
}

fn receive_many(fd: c_int, lens: [usize; 2], flags: i32) -> Outcome {
    let mut bytes = vec![0u8; lens[0] + lens[1]];
    let mut vectors = vectors(&mut bytes, lens);
    let mut messages = messages(&mut vectors);
    // SAFETY: the messages are of memory that lives until the call is over.
    let got = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), 2, flags, ptr::null_mut()) };
    if got < 0 {
        return last_error();
    }
    let told = messages.iter().take(got as usize).map(|message| (u64::from(message.msg_len), 0));
    let events = told.collect();
    Outcome { bytes, events, ..Outcome::of(got.into()) }
}

fn send_many(fd: c_int, first: u8, lens: [usize; 2]) -> Outcome {
    let mut bytes = counted(first, lens[0] + lens[1]);
    let mut vectors = vectors(&mut bytes, lens);
    let mut messages = messages(&mut vectors);
    // SAFETY: as above.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), 2, libc::MSG_NOSIGNAL) };
    if sent < 0 {
        return last_error();
    }
    let told = messages.iter().take(sent as usize).map(|message| (u64::from(message.msg_len), 0));
    Outcome { events: told.collect(), ..Outcome::of(sent.into()) }
}

/// Bytes of the page that is given back.
const PAGE: usize = 4096;

fn address(of: StrayAddress) -> *mut c_void {
    match of {
        StrayAddress::Null => ptr::null_mut(),
        StrayAddress::Low => ptr::without_provenance_mut(8),
        StrayAddress::NotCanonical => ptr::without_provenance_mut(0x8000_0000_0000_0008),
        StrayAddress::Unmapped => {
            let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a mapping of its own, that nobody refers to, and its end.
            unsafe {
                let page = libc::mmap(ptr::null_mut(), PAGE, protection, flags, -1, 0);
                libc::munmap(page, PAGE);
                page
            }
        }
    }
}

/// A call with an address of no memory.
fn stray(fd: c_int, set: c_int, call: StrayCall, at: *mut c_void) -> Outcome {
    let mut len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: zeros are a valid value of each.
    let (mut header, mut name): (libc::msghdr, libc::sockaddr_storage) = unsafe { zeroed() };
    let vector = libc::iovec { iov_base: at, iov_len: 4 };
    header.msg_iov = (&raw const vector).cast_mut();
    header.msg_iovlen = 1;
    let (short, level, option) = (4, libc::SOL_SOCKET, libc::SO_REUSEADDR);
    // SAFETY: the kernel looks at what it is given, and finds no memory at the one address; at all
    // others there are locals.
    let done = unsafe {
        match call {
            StrayCall::Recv => libc::recv(fd, at, 4, 0) as c_int,
            StrayCall::Send => libc::send(fd, at, 4, libc::MSG_NOSIGNAL) as c_int,
            StrayCall::Readv => libc::readv(fd, at.cast(), 1) as c_int,
            StrayCall::Writev => libc::writev(fd, at.cast(), 1) as c_int,
            StrayCall::RecvmsgHeader => libc::recvmsg(fd, at.cast(), 0) as c_int,
            StrayCall::RecvmsgVectors => libc::recvmsg(fd, &raw mut header, 0) as c_int,
            StrayCall::SendmsgHeader => libc::sendmsg(fd, at.cast(), libc::MSG_NOSIGNAL) as c_int,
            StrayCall::Recvmmsg => libc::recvmmsg(fd, at.cast(), 1, 0, ptr::null_mut()),
            StrayCall::Getsockname => libc::getsockname(fd, at.cast(), &raw mut len),
            StrayCall::GetsocknameLength => libc::getsockname(fd, (&raw mut name).cast(), at.cast()),
            StrayCall::Getpeername => libc::getpeername(fd, at.cast(), &raw mut len),
            StrayCall::Connect => libc::connect(fd, at.cast(), len),
            StrayCall::Setsockopt => libc::setsockopt(fd, level, option, at, short),
            StrayCall::Getsockopt => libc::getsockopt(fd, level, option, at, &raw mut len),
            StrayCall::GetsockoptLength => libc::getsockopt(fd, level, option, (&raw mut name).cast(), at.cast()),
            StrayCall::SetNonblocking => libc::ioctl(fd, libc::FIONBIO, at),
            StrayCall::Readable => libc::ioctl(fd, libc::FIONREAD, at),
            StrayCall::Accept => {
                let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
                let new = libc::accept4(fd, at.cast(), &raw mut len, flags);
                if new >= 0 {
                    close(new);
                }
                new.min(0)
            }
            StrayCall::Control => libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, at.cast()),
            StrayCall::Wait => libc::epoll_wait(set, at.cast(), 8, 0),
            StrayCall::Poll => libc::poll(at.cast(), 1, 0),
            StrayCall::Sendto => {
                let byte = [0u8];
                libc::sendto(fd, byte.as_ptr().cast(), 1, libc::MSG_NOSIGNAL, at.cast(), len) as c_int
            }
        }
    };
    result(done)
}

extern "C" fn on_alarm(_signal: c_int) {}

/// Waits for a byte, with a limit, and with a signal before that is reached.
fn interrupted(fd: c_int, restarts: bool) -> Outcome {
    let was = fcntl(fd, libc::F_GETFL, 0);
    if was < 0 {
        return last_error();
    }
    let limit = libc::timeval { tv_sec: 0, tv_usec: 40_000 };
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let len = size_of::<libc::timeval>() as libc::socklen_t;
    let set_limit = |limit: &libc::timeval| {
        // SAFETY: the value is a local of the length that is said.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, ptr::from_ref(limit).cast(), len) }
    };
    if set_limit(&limit) < 0 {
        return last_error();
    }
    fcntl(fd, libc::F_SETFL, was & !libc::O_NONBLOCK);
    // SAFETY: the handler does nothing; the action is a local.
    let (thread, set) = unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = on_alarm as extern "C" fn(c_int) as usize;
        action.sa_flags = if restarts { libc::SA_RESTART } else { 0 };
        (libc::pthread_self(), libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()))
    };
    assert_eq!(set, 0, "a handler may be set");
    let alarm = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        // SAFETY: the thread waits for this one below.
        unsafe { libc::pthread_kill(thread, libc::SIGALRM) }
    });
    let mut byte = 0u8;
    // SAFETY: there is room for a byte.
    let got = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) };
    let outcome = if got < 0 { last_error() } else { Outcome::of(got as i64) };
    assert_eq!(alarm.join().ok(), Some(0), "the thread is there");
    fcntl(fd, libc::F_SETFL, was);
    set_limit(&none);
    outcome
}
