//! Listening sockets of the program: what connects to them by the kernel is reset.
//!
//! The program's connections come by its link. The kernel's socket listens so that nobody else
//! gets its port, and whoever connects to it, from this host or by another interface, is to hear
//! that nobody answers there. This process only watches them: an epoll set does not hold what it
//! watches, so that a listener ends when the program closes it. When something comes, the socket is
//! had from a process of the program's (pidfd_getfd(2)).

use rustix::event::epoll;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SocketFlags, acceptfrom_with};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Connections that are reset in a row.
const MOST_AT_ONCE: usize = 1024;

/// The listeners.
pub(crate) struct Listeners {
    set: OwnedFd,
    /// Connections that were reset.
    pub reset: u64,
}

impl Listeners {
    /// None yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self { set: epoll::create(epoll::CreateFlags::CLOEXEC)?, reset: 0 })
    }

    /// Readable when something came.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Watches a listener from now on, for as long as the program has it.
    pub fn watch(&mut self, listener: &OwnedFd) -> io::Result<()> {
        let inode = rustix::fs::fstat(listener)?.st_ino;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        match epoll::add(&self.set, listener, epoll::EventData::new_u64(inode), flags) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(why) => return Err(why.into()),
        }
        // What came before is no edge any more.
        self.reset_waiting(listener);
        Ok(())
    }

    /// Resets what came.
    pub fn on_ready(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(16);
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), Some(&none))?;
        for event in events {
            if let Some(listener) = of_some_process(event.data.u64()) {
                self.reset_waiting(&listener);
            }
        }
        Ok(())
    }

    fn reset_waiting(&mut self, listener: &OwnedFd) {
        for _ in 0..MOST_AT_ONCE {
            let mut ready = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            // Its flag is the program's: an accept may wait.
            if !matches!(rustix::event::poll(&mut ready, Some(&none)), Ok(1)) {
                return;
            }
            let Ok((accepted, _)) = acceptfrom_with(listener, SocketFlags::CLOEXEC) else { return };
            // Closed without lingering, it resets.
            let lingers = set_socket_linger(&accepted, Some(core::time::Duration::ZERO));
            self.reset += u64::from(lingers.is_ok());
        }
    }
}

/// A socket, from a process that has it.
fn of_some_process(inode: u64) -> Option<OwnedFd> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find_map(|process: i32| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let found = descriptors
            .filter_map(Result::ok)
            .find(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str()))?;
        let number = found.file_name().to_str()?.parse().ok()?;
        let process = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
        pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn who_connects_is_reset_and_a_closed_listener_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut listeners = Listeners::new().unwrap();
        listeners.watch(&listener.try_clone().unwrap().into()).unwrap();
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).unwrap();
            listeners.on_ready().unwrap();
            let mut byte = [0];
            assert_eq!(client.read(&mut byte).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
        assert_eq!(listeners.reset, 3);
        drop(listener);
        assert!(TcpStream::connect(address).is_err(), "nobody holds it any more");
    }
}
