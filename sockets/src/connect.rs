//! Opening connections.

use crate::endpoint::{is_path, unix_address};
use crate::net::Sockets;
use crate::option;
use crate::table::Flags;
use app::{Closed, ConnId, ConnectError, Unreachable};
use core::net::{IpAddr, SocketAddr};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

impl Sockets {
    pub(crate) fn open(&mut self, from: Option<IpAddr>, to: SocketAddr) -> Result<ConnId, ConnectError> {
        if self.table.is_full() {
            return Err(ConnectError::Full);
        }
        let (fd, peer, unix, outcome) = match &self.connect_to {
            None => {
                let fd = self.tcp_socket(from, to)?;
                let outcome = connect(&fd, &to);
                (fd, Some(to), 0, outcome)
            }
            Some(path) => {
                let fd = unix_socket()?;
                let outcome = connect_unix(fd.as_fd(), path);
                (fd, None, Flags::UNIX, outcome)
            }
        };
        let again = outcome == Err(Errno::AGAIN);
        let id = self.begin((fd, peer, unix), if again { Ok(()) } else { outcome }, again)?;
        if again {
            self.unanswered.push(id);
        }
        Ok(id)
    }

    /// Whoever asks for one path of many has others to turn to: where its queue
    /// is full, nobody waits.
    pub(crate) fn open_unix(&mut self, path: &Path) -> Result<ConnId, ConnectError> {
        if self.table.is_full() {
            return Err(ConnectError::Full);
        }
        let address = is_path(path).then(|| unix_address(path).ok()).flatten().ok_or(ConnectError::Path)?;
        let fd = unix_socket()?;
        match connect(&fd, &address) {
            Err(Errno::AGAIN) => Err(ConnectError::Busy),
            Err(Errno::CONNREFUSED) => Err(ConnectError::Refused),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Err(ConnectError::Missing),
            Err(Errno::ACCESS | Errno::PERM) => Err(ConnectError::Denied),
            outcome => self.begin((fd, None, Flags::UNIX), outcome, false),
        }
    }

    /// Enters what connect(2) was called for. What failed already is told as what
    /// fails later is.
    fn begin(
        &mut self,
        (fd, peer, unix): (OwnedFd, Option<SocketAddr>, u32),
        outcome: Result<(), Errno>,
        waits: bool,
    ) -> Result<ConnId, ConnectError> {
        let refused = match outcome {
            Ok(()) | Err(Errno::INPROGRESS) => None,
            Err(Errno::ADDRNOTAVAIL) => return Err(ConnectError::NoPort),
            Err(Errno::NETUNREACH | Errno::AFNOSUPPORT) => return Err(ConnectError::NoRoute),
            Err(Errno::NOBUFS | Errno::NOMEM) => return Err(ConnectError::Full),
            Err(e) => Some(reason(e)),
        };
        let id = self.table.insert(fd, peer, unix | Flags::CONNECTING).ok_or(ConnectError::Full)?;
        match refused {
            Some(why) => {
                self.counters.connects_failed += 1;
                self.end(id, why);
            }
            None if waits => {}
            None => self.fresh.push(id),
        }
        Ok(id)
    }

    fn tcp_socket(&self, from: Option<IpAddr>, to: SocketAddr) -> Result<OwnedFd, ConnectError> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let fd = socket_with(family, SocketType::STREAM, FLAGS, None).map_err(local_fault)?;
        // Each was tried when the worker began: what fails now is for want of
        // memory, as a socket would be.
        option::set_stream(fd.as_fd(), &self.stream, false).map_err(|_| ConnectError::Full)?;
        if let Some(from) = from {
            // Where the kernel does not know it, ports are fewer, and all
            // else is the same.
            let _ = option::bind_without_port(fd.as_fd());
            bind(&fd, &SocketAddr::new(from, 0)).map_err(|e| match e {
                Errno::ADDRINUSE => ConnectError::NoPort,
                _ => ConnectError::NoRoute,
            })?;
        }
        Ok(fd)
    }

    /// Tries again what found a queue full: a Unix socket tells no one when
    /// there is room (connect(2), EAGAIN).
    #[cold]
    pub(crate) fn connect_again(&mut self) {
        let Some(path) = self.connect_to.clone() else { return };
        let mut waiting = core::mem::take(&mut self.unanswered);
        waiting.retain(|&id| {
            let Some(fd) = self.table.get(id).and_then(|conn| conn.fd()) else { return false };
            self.counters.connects_again += 1;
            match connect_unix(fd, &path) {
                Err(Errno::AGAIN) => return true,
                Ok(()) | Err(Errno::INPROGRESS) => self.fresh.push(id),
                Err(e) => {
                    self.counters.connects_failed += 1;
                    self.end(id, reason(e));
                }
            }
            false
        });
        self.unanswered.append(&mut waiting);
    }
}

fn unix_socket() -> Result<OwnedFd, ConnectError> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None).map_err(local_fault)
}

fn connect_unix(fd: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<()> {
    connect(fd, &unix_address(path)?)
}

fn local_fault(e: Errno) -> ConnectError {
    match e {
        Errno::AFNOSUPPORT => ConnectError::NoRoute,
        _ => ConnectError::Full,
    }
}

/// What an error of a connection means to an application.
#[cold]
pub(crate) fn reason(e: Errno) -> Closed {
    match e {
        // A Unix socket's path that does not lead to one, or nobody listens on.
        Errno::CONNREFUSED | Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Closed::Refused,
        Errno::TIMEDOUT => Closed::TimedOut,
        // What the kernel makes of ICMP errors (icmp_err_convert in
        // net/ipv4/icmp.c); a Unix socket of another type, too.
        Errno::HOSTUNREACH => Closed::Unreachable(Unreachable::Host),
        Errno::HOSTDOWN => Closed::Unreachable(Unreachable::NoHost),
        Errno::NETUNREACH | Errno::NETDOWN => Closed::Unreachable(Unreachable::Network),
        Errno::NOPROTOOPT | Errno::PROTOTYPE => Closed::Unreachable(Unreachable::Protocol),
        Errno::OPNOTSUPP => Closed::Unreachable(Unreachable::SourceRoute),
        Errno::NONET => Closed::Unreachable(Unreachable::Isolated),
        Errno::PROTO => Closed::Unreachable(Unreachable::Header),
        Errno::ACCESS | Errno::PERM => Closed::Unreachable(Unreachable::Prohibited),
        _ => Closed::Reset,
    }
}

/// Tries every option on sockets of our own, so that one that cannot be had
/// is told at the start, not per connection.
pub(crate) fn try_options(net: &Sockets) -> Result<(), option::OptionError> {
    let unix = net.connect_to.is_some();
    let family = if unix { AddressFamily::UNIX } else { AddressFamily::INET };
    let made = socket_with(family, SocketType::STREAM, FLAGS, None);
    let fd = match made {
        Err(Errno::AFNOSUPPORT) => socket_with(AddressFamily::INET6, SocketType::STREAM, FLAGS, None),
        made => made,
    };
    let fd =
        fd.map_err(|e| option::OptionError { option: "socket", value: "made".into(), source: io::Error::from(e) })?;
    option::set_stream(fd.as_fd(), &net.stream, unix)
}
