//! Lines to a syslog server, as RFC 3164 has them.

use crate::places::{SyslogPlace, SyslogServer};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

/// What begins each line: `<190>Nov 23 05:08:03 host nginx: `, but for the time.
#[derive(Debug)]
pub(crate) struct SyslogHead {
    priority: Vec<u8>,
    name: Vec<u8>,
}

impl SyslogHead {
    pub fn new(place: &SyslogPlace) -> Self {
        let priority = format!("<{}>", place.priority).into_bytes();
        let mut name = String::from(" ");
        if place.hostname {
            let host = rustix::system::uname();
            name.push_str(&host.nodename().to_string_lossy().to_ascii_lowercase());
            name.push(' ');
        }
        name.push_str(&place.tag);
        name.push_str(": ");
        Self { priority, name: name.into_bytes() }
    }

    /// Writes it.
    pub fn write(&self, time: &[u8; 15], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.priority);
        out.extend_from_slice(time);
        out.extend_from_slice(&self.name);
    }
}

/// A socket to a server: made before the process gives its rights up, if the
/// server is there by then, and again where that is gone and it may.
#[derive(Debug)]
pub(crate) struct SyslogSocket {
    server: SyslogServer,
    socket: Option<OwnedFd>,
}

impl SyslogSocket {
    pub fn new(server: SyslogServer) -> Self {
        let socket = connect(&server).ok();
        Self { server, socket }
    }

    /// Sends a line; one that there is no room for is lost.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        let first = self.try_send(line);
        let Err(why) = &first else { return first };
        // Over UDP it was refused before, and is told now (udp(7)): a server that
        // is there again gets this line. A server at a Unix socket that began anew
        // has another.
        match (&self.server, why.kind()) {
            (_, io::ErrorKind::WouldBlock) => first,
            (SyslogServer::Udp(_), _) if self.socket.is_some() => self.try_send(line),
            _ => {
                self.socket = Some(connect(&self.server)?);
                self.try_send(line)
            }
        }
    }

    /// By write(2): a thread that writes logs needs no more than that.
    fn try_send(&self, line: &[u8]) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(rustix::io::write(socket, line).map(drop)?)
    }
}

fn connect(server: &SyslogServer) -> io::Result<OwnedFd> {
    match server {
        SyslogServer::Udp(server) => {
            let any: SocketAddr = match server {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(server)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
        SyslogServer::Unix(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
    }
}
