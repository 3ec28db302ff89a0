//! The program that is measured: a small server, which knows sockets and nothing of us.

use crate::BenchError;
use core::ffi::c_int;
use std::io::{Error, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;

/// Its port.
pub(super) const PORT: u16 = 80;

/// Descriptors that it is told of at once.
const MOST_EVENTS: usize = 64;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: posix\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\n";
const BODY: &[u8] = b"Hello, World!";

struct Program {
    listener: TcpListener,
    set: c_int,
    room: [u8; 4096],
    requests: u64,
    waits: u64,
}

/// Answers requests, tells how many were counted, and goes on until it is killed.
pub(super) fn run(warm_up: u64, counted: u64) -> Result<(), BenchError> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    listener.set_nonblocking(true)?;
    // SAFETY: takes a number only.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut program = Program { listener, set, room: [0; 4096], requests: 0, waits: 0 };
    program.watch(program.listener.as_raw_fd())?;
    program.answer(warm_up)?;
    let (requests, waits) = (program.requests, program.waits);
    program.counted_requests(counted)?;
    println!("requests {}\nwaits {}", program.requests - requests, program.waits - waits);
    std::io::stdout().flush()?;
    program.answer(u64::MAX)
}

impl Program {
    fn watch(&self, fd: c_int) -> Result<(), BenchError> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: the event is a local.
        let added = unsafe { libc::epoll_ctl(self.set, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if added == 0 { Ok(()) } else { Err(Error::last_os_error().into()) }
    }

    /// In a function of its own that a profiler finds by name.
    #[inline(never)]
    fn counted_requests(&mut self, count: u64) -> Result<(), BenchError> {
        self.answer(count)
    }

    /// Answers so many requests at least: those that it is told of together with the last as well.
    fn answer(&mut self, count: u64) -> Result<(), BenchError> {
        let end = self.requests.saturating_add(count);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST_EVENTS];
        while self.requests < end {
            // SAFETY: there is room for as many events as are asked for.
            let ready = unsafe { libc::epoll_wait(self.set, events.as_mut_ptr(), MOST_EVENTS as c_int, -1) };
            let ready = usize::try_from(ready).map_err(|_| Error::last_os_error())?;
            self.waits += 1;
            for event in &events[..ready] {
                let fd = event.u64 as c_int;
                if fd == self.listener.as_raw_fd() { self.accept()? } else { self.serve(fd)? }
            }
        }
        Ok(())
    }

    fn accept(&self) -> Result<(), BenchError> {
        // SAFETY: it is to tell no address.
        let fd = unsafe {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            libc::accept4(self.listener.as_raw_fd(), core::ptr::null_mut(), core::ptr::null_mut(), flags)
        };
        // Whoever was there may have gone.
        if fd < 0 { Ok(()) } else { self.watch(fd) }
    }

    fn serve(&mut self, fd: c_int) -> Result<(), BenchError> {
        // SAFETY: the room is as large as is said.
        let got = unsafe { libc::recv(fd, self.room.as_mut_ptr().cast(), self.room.len(), 0) };
        let request = usize::try_from(got).ok().and_then(|got| self.room.get(..got)).unwrap_or_default();
        if !request.ends_with(b"\r\n\r\n") {
            // SAFETY: it is this program's own, and used no more.
            unsafe { libc::close(fd) };
            return if request.is_empty() { Ok(()) } else { Err("a request came in pieces".into()) };
        }
        let parts =
            [HEAD, BODY].map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        // SAFETY: the parts are constants, which the call only reads.
        let put = unsafe { libc::writev(fd, parts.as_ptr(), parts.len() as c_int) };
        if usize::try_from(put).ok() != Some(HEAD.len() + BODY.len()) {
            return Err(format!("an answer was not taken: {}", Error::last_os_error()).into());
        }
        self.requests += 1;
        Ok(())
    }
}
