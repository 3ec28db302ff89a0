//! Lines to a syslog server, as RFC 3164 has them.

use crate::places::{SyslogPlace, SyslogServer};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use rustix::net::SocketAddrUnix;
use semantics::date::HttpDate;
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

/// What begins each line: `<190>Nov 23 05:08:03 host nginx: `, but for the time.
#[derive(Debug)]
pub(crate) struct SyslogHead {
    /// By the severity of a line (RFC 3164 section 4.1.1).
    priorities: [Vec<u8>; 8],
    /// That of lines that have none of their own.
    usual: usize,
    name: Vec<u8>,
}

impl SyslogHead {
    pub fn new(place: &SyslogPlace) -> Self {
        let of = |severity: u8| format!("<{}>", u32::from(place.facility) * 8 + u32::from(severity)).into_bytes();
        let mut name = String::from(" ");
        if place.hostname {
            let host = rustix::system::uname();
            name.push_str(&host.nodename().to_string_lossy().to_ascii_lowercase());
            name.push(' ');
        }
        name.push_str(&place.tag);
        name.push_str(": ");
        let priorities = [0, 1, 2, 3, 4, 5, 6, 7].map(of);
        Self { priorities, usual: usize::from(place.severity.min(7)), name: name.into_bytes() }
    }

    /// Writes it, for a line as severe as this, or as usual.
    pub fn write(&self, severity: Option<u8>, time: &[u8; 15], out: &mut Vec<u8>) {
        let at = severity.map_or(self.usual, |severity| usize::from(severity.min(7)));
        out.extend_from_slice(&self.priorities[at]);
        out.extend_from_slice(time);
        out.extend_from_slice(&self.name);
    }
}

/// `Nov  3 05:08:03` (RFC 3164 section 4.1.2): `date` is local time, as if it were that
/// of Greenwich.
pub(crate) fn time_of(date: &HttpDate) -> [u8; 15] {
    // From `Sun, 06 Nov 1994 08:49:37 GMT`.
    let (date, mut time) = (date.as_bytes(), *b"Jan  1 00:00:00");
    time[..3].copy_from_slice(&date[8..11]);
    time[4..6].copy_from_slice(&date[5..7]);
    if time[4] == b'0' {
        time[4] = b' ';
    }
    time[7..].copy_from_slice(&date[17..25]);
    time
}

/// Lines to a syslog server that are written by whoever has them, one after the other.
#[derive(Debug)]
pub struct SyslogLines {
    head: SyslogHead,
    socket: SyslogSocket,
}

impl SyslogLines {
    /// Lines to the server at `place`, which may not be there yet.
    #[must_use]
    pub fn new(place: &SyslogPlace) -> Self {
        Self { head: SyslogHead::new(place), socket: SyslogSocket::new(place.server.clone()) }
    }

    /// Sends a line as severe as this: a datagram. `date` is local time, as if it were
    /// that of Greenwich. One that there is no room for, or nobody to take, is lost.
    pub fn send(&mut self, severity: u8, date: &HttpDate, line: &str) {
        let mut datagram = Vec::with_capacity(64 + line.len());
        self.head.write(Some(severity), &time_of(date), &mut datagram);
        datagram.extend_from_slice(line.as_bytes());
        let _ = self.socket.send(&datagram);
    }
}

/// A socket to a server: made before the process gives its rights up, which it may not
/// afterwards. It may have it find its server again.
#[derive(Debug)]
pub(crate) struct SyslogSocket {
    server: SyslogServer,
    socket: Option<OwnedFd>,
    /// Whether it has found one: the server at a Unix socket that began anew is another.
    joined: bool,
}

impl SyslogSocket {
    pub fn new(server: SyslogServer) -> Self {
        let mut made = Self { server, socket: None, joined: false };
        // A server that is not there yet is looked for with the first line.
        let _ = made.join();
        made
    }

    /// Sends a line; one that there is no room for is lost.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        if !self.joined {
            self.join()?;
            return self.try_send(line);
        }
        match self.try_send(line) {
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => {}
            sent => return sent,
        }
        // Over UDP it was refused before, and is told now (udp(7)): a server that is
        // there again gets this line.
        if matches!(self.server, SyslogServer::Unix(_)) {
            self.joined = false;
            self.join()?;
        }
        self.try_send(line)
    }

    /// By write(2): a thread that writes logs needs no more than that.
    fn try_send(&self, line: &[u8]) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(rustix::io::write(socket, line).map(drop)?)
    }

    fn join(&mut self) -> io::Result<()> {
        if self.socket.is_none() {
            self.socket = Some(make(&self.server)?);
        }
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        match &self.server {
            SyslogServer::Udp(server) => rustix::net::connect(socket, server)?,
            SyslogServer::Unix(path) => rustix::net::connect(socket, &SocketAddrUnix::new(path)?)?,
        }
        self.joined = true;
        Ok(())
    }
}

fn make(server: &SyslogServer) -> io::Result<OwnedFd> {
    match server {
        SyslogServer::Udp(server) => {
            let any: SocketAddr = match server {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
        SyslogServer::Unix(_) => {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
    }
}
