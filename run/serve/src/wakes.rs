//! What wakes a worker, or a silo, that sleeps: its helper threads, the main
//! thread, and what the kernel has to tell. One descriptor for all of them.

use core::time::Duration;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How often one that is idle looks up at least: at the wall clock, and to keep
/// its column of the statistics page from being older.
pub const PULSE: Duration = Duration::from_secs(10);

/// The same, while it has connections: what they hold is looked over.
pub const PULSE_WITH_CONNECTIONS: Duration = Duration::from_secs(1);

/// A descriptor that is readable while one of others is.
#[derive(Debug)]
pub struct Wakes(OwnedFd);

impl Wakes {
    /// Of all these.
    ///
    /// # Errors
    /// If the operating system gives none.
    pub fn of<'a>(all: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let together = epoll::create(CreateFlags::CLOEXEC)?;
        for fd in all {
            // The number is nobody's business: whoever owns it looks.
            epoll::add(&together, fd, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self(together))
    }
}

impl AsFd for Wakes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    #[test]
    fn one_is_readable_while_any_is() {
        let [one, other] = [(); 2].map(|()| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let wakes = Wakes::of([one.as_fd(), other.as_fd()]).unwrap();
        let readable = || poll(&mut [PollFd::new(&wakes, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1;
        assert!(!readable());
        for fd in [&one, &other] {
            rustix::io::write(fd, &1_u64.to_ne_bytes()).unwrap();
            assert!(readable() && readable());
            rustix::io::read(fd, &mut [0; 8]).unwrap();
            assert!(!readable());
        }
    }
}
