//! Lines to a syslog server, as RFC 3164 has them.

use crate::places::{SyslogPlace, SyslogServer};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;
use std::net::UdpSocket;
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

/// A socket to a server, made when it is first told something and again when
/// that failed: servers start again, too.
#[derive(Debug)]
pub(crate) struct SyslogSocket {
    server: SyslogServer,
    socket: Option<Socket>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl SyslogSocket {
    pub const fn new(server: SyslogServer) -> Self {
        Self { server, socket: None }
    }

    /// Sends a line; one that there is no room for is lost.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        // What was refused before is told at the next call (udp(7)): a server that
        // is there again gets this line.
        for last in [false, true] {
            let socket = match &self.socket {
                Some(socket) => socket,
                None => self.socket.insert(Socket::connect(&self.server)?),
            };
            match socket.send(line) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Err(why),
                Err(why) => {
                    self.socket = None;
                    if last {
                        return Err(why);
                    }
                }
                Ok(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Socket {
    fn connect(server: &SyslogServer) -> io::Result<Self> {
        match server {
            SyslogServer::Udp(server) => {
                let any: SocketAddr = match server {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(server)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Udp(socket))
            }
            SyslogServer::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Unix(socket))
            }
        }
    }

    fn send(&self, line: &[u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(line),
            Self::Unix(socket) => socket.send(line),
        }
    }
}
