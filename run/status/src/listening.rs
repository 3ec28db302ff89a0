//! Listening TCP sockets of this network namespace, and how full their queues
//! are, as `ss -ltn` has it; by netlink (sock_diag(7)).

use core::fmt;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use say::Failure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// A listening socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListeningSocket {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections that wait for accept(2).
    pub waiting: u32,
    /// How many may: the backlog, cut to net.core.somaxconn.
    pub room: u32,
    /// The process that has it, as far as it may be seen.
    pub process: Option<String>,
    inode: u32,
}

impl ListeningSocket {
    /// For a program.
    pub fn json(&self) -> Value {
        json!({
            "address": self.address.to_string(), "waiting": self.waiting, "room": self.room, "process": self.process
        })
    }
}

impl fmt::Display for ListeningSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = if self.waiting > self.room { "  FULL" } else { "" };
        let process = self.process.as_deref().unwrap_or("-");
        write!(f, "{:>8} {:>8}  {:<28} {process}{full}", self.waiting, self.room, self.address.to_string())
    }
}

/// What became of connections that found no room, since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Handshakes that ended at a full queue (TcpExt.ListenOverflows).
    pub overflows: u64,
    /// All that listening sockets dropped (TcpExt.ListenDrops).
    pub drops: u64,
}

const HEADER: usize = 16;
/// `struct inet_diag_msg`.
const DIAG: usize = 72;
const BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const TCP: u8 = 6;
/// The bit of the state TCP_LISTEN.
const LISTEN: u32 = 1 << 10;
const BUFFER: usize = 64 << 10;
/// More datagrams than any machine's listening sockets take.
const MOST: usize = 10_000;

/// All listening sockets, by address.
///
/// # Errors
/// If the kernel does not tell.
pub fn listeners() -> Result<Vec<ListeningSocket>, Failure> {
    let mut found = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let raw = u8::try_from(family.as_raw()).unwrap_or_default();
        found.extend(dump(raw).map_err(|why| format!("the kernel does not tell its listening sockets: {why}"))?);
    }
    found.sort_by_key(|one| (one.address, one.inode));
    let owners = owners(&found);
    for one in &mut found {
        one.process = owners.get(&one.inode).cloned();
    }
    Ok(found)
}

fn dump(family: u8) -> io::Result<Vec<ListeningSocket>> {
    let socket: OwnedFd =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    let mut request = Vec::with_capacity(DIAG);
    // struct nlmsghdr, then struct inet_diag_req_v2: family, protocol, what is
    // told besides, padding, states, and an address that a dump does not read.
    request.extend((HEADER as u32 + 56).to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, TCP, 0, 0]);
    request.extend(LISTEN.to_ne_bytes());
    request.extend([0; 48]);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; BUFFER];
    let mut found = Vec::new();
    for _ in 0..MOST {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if parse(buffer.get(..length).unwrap_or_default(), &mut found)? {
            return Ok(found);
        }
    }
    Err(io::Error::other("the list has no end"))
}

/// Takes a datagram's sockets; whether it was the last.
fn parse(mut rest: &[u8], found: &mut Vec<ListeningSocket>) -> io::Result<bool> {
    while let Some(head) = rest.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(message) = rest.get(..length).filter(|message| message.len() >= HEADER) else { return Ok(false) };
        let body = message.get(HEADER..).unwrap_or_default();
        match u16::from_ne_bytes([head[4], head[5]]) {
            DONE => return Ok(true),
            ERROR => {
                let error = body.first_chunk().map_or(-1, |bytes| i32::from_ne_bytes(*bytes));
                return if error == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(error.saturating_neg())) };
            }
            _ => found.extend(body.first_chunk::<DIAG>().and_then(listener)),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn listener(bytes: &[u8; DIAG]) -> Option<ListeningSocket> {
    let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let port = u16::from_be_bytes([bytes[4], bytes[5]]);
    let ip = match i32::from(bytes[0]) {
        family if family == i32::from(AddressFamily::INET.as_raw()) => {
            IpAddr::V4(Ipv4Addr::from(*bytes.get(8..)?.first_chunk::<4>()?))
        }
        _ => IpAddr::V6(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
    };
    // Of a listening socket the queues are those of connections.
    let (waiting, room, inode) = (number(56)?, number(60)?, number(68)?);
    Some(ListeningSocket { address: SocketAddr::new(ip, port), waiting, room, process: None, inode })
}

/// Who has which socket: descriptors of processes that may be looked at.
fn owners(listeners: &[ListeningSocket]) -> BTreeMap<u32, String> {
    let wanted: BTreeMap<String, u32> =
        listeners.iter().map(|one| (format!("socket:[{}]", one.inode), one.inode)).collect();
    let mut owners = BTreeMap::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Processes end while they are looked at, and others' are not ours to see.
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            let Some(inode) = target.to_str().and_then(|target| wanted.get(target)) else { continue };
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().filter(|char| !char.is_control()).collect();
            owners.entry(*inode).or_insert_with(|| format!("{name} ({pid})"));
        }
    }
    owners
}

/// What found no room, of this network namespace since it is.
pub fn lost() -> Lost {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return Lost::default() };
    let value = |name: &str| {
        let at = names.split_whitespace().position(|field| field == name)?;
        values.split_whitespace().nth(at)?.parse().ok()
    };
    Lost { overflows: value("ListenOverflows").unwrap_or(0), drops: value("ListenDrops").unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_of_ours_is_listed_with_what_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let _waits = [TcpStream::connect(address).expect("connected"), TcpStream::connect(address).expect("connected")];
        let found = listeners().expect("told");
        let own = found.iter().find(|one| one.address == address).expect("ours");
        assert_eq!(own.waiting, 2);
        assert!(own.room >= 2, "{own:?}");
        assert!(own.process.as_ref().is_some_and(|process| process.contains(&format!("({})", std::process::id()))));
        let six = TcpListener::bind("[::1]:0").ok().and_then(|listener| Some((listener.local_addr().ok()?, listener)));
        if let Some((address, _listener)) = six {
            assert!(listeners().expect("told").iter().any(|one| one.address == address));
        }
    }

    #[test]
    fn datagrams_that_lie_are_left_out() {
        let mut found = Vec::new();
        for length in [0_u32, 1, 15, 16, 17, 100, u32::MAX] {
            let mut bytes = vec![0; 40];
            bytes[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(!parse(&bytes, &mut found).expect("no error"));
            assert!(!parse(&bytes[..3], &mut found).expect("no error"));
        }
        assert_eq!(found, []);
        let mut error = vec![0; 20];
        error[..4].copy_from_slice(&20_u32.to_ne_bytes());
        error[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        error[16..].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert!(parse(&error, &mut found).is_err());
    }
}
