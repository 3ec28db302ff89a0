//! Descriptors that a call sleeps for.

use crate::kernel::{self, call};
use core::ffi::c_int;
use core::time::Duration;
use libc::{pollfd, sigset_t, timespec};
use posix::{Errno, Result};

/// So many take no memory.
const FEW: usize = 8;

/// The caller's, and those of the link behind them.
pub struct Waited {
    few: [pollfd; FEW],
    many: Vec<pollfd>,
    count: usize,
    of_caller: usize,
}

/// One to be waited for until it can be read.
pub const fn readable(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

impl Waited {
    pub fn new(of_caller: &[pollfd]) -> Self {
        let mut this = Self { few: [readable(-1); FEW], many: Vec::new(), count: 0, of_caller: of_caller.len() };
        of_caller.iter().for_each(|entry| this.push(*entry));
        this
    }

    /// One of the link's.
    pub fn add(&mut self, fd: c_int) {
        self.push(readable(fd));
    }

    fn push(&mut self, entry: pollfd) {
        match self.few.get_mut(self.count) {
            Some(place) if self.many.is_empty() => *place = entry,
            _ => {
                if self.many.is_empty() {
                    self.many.extend_from_slice(&self.few);
                }
                self.many.push(entry);
            }
        }
        self.count += 1;
    }

    /// Sleeps until one is ready, or for so long; the mask counts meanwhile. Whether one of the
    /// caller's is ready.
    ///
    /// # Errors
    /// The kernel's: `EINTR`, and `EFAULT` for the mask.
    pub fn wait(&mut self, timeout: Duration, mask: *const sigset_t) -> Result<bool> {
        let fds = if self.many.is_empty() { &mut self.few[..self.count] } else { &mut self.many[..] };
        let time = timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
        // The kernel's own set has 8 bytes; it writes what is left of the time, which is a local.
        let found = call!(SYS_ppoll, fds.as_mut_ptr(), fds.len(), &raw const time, mask, 8usize);
        if found < 0 {
            return Err(Errno(kernel::errno()));
        }
        Ok(found > 0 && fds[..self.of_caller].iter().any(|fd| fd.revents != 0))
    }
}

/// How long a call on a descriptor may wait.
pub fn patience(nonblocking: bool, timeout: Option<Duration>) -> Option<Duration> {
    if nonblocking { Some(Duration::ZERO) } else { timeout }
}
