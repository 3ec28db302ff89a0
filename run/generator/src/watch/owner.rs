//! Whose processes are the server, if it runs on this machine.

use crate::plan::Place;
use cpu::process_stat::parent_of;
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// Where the server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// These processes of this machine.
    Processes(Vec<u32>),
    /// On this machine, and its processes may not be looked at.
    Hidden,
    /// Elsewhere: what disturbs it is not seen here.
    Elsewhere,
}

impl Whereabouts {
    /// Who listens where connections go to: all processes that have the
    /// listening socket, for each of them may accept.
    pub fn find(targets: &[SocketAddr], place: Option<&Place>) -> Self {
        let inodes: HashSet<String> = match place {
            Some(Place::Unix(path)) => unix_inodes(path),
            _ if targets.iter().any(|target| is_local(target.ip())) => {
                targets.iter().flat_map(|target| tcp_inodes(*target)).collect()
            }
            _ => return Self::Elsewhere,
        };
        let sockets: HashSet<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
        let owners = owners(&sockets);
        if owners.is_empty() { Self::Hidden } else { Self::Processes(owners) }
    }

    /// This process and those below it.
    pub fn below(root: u32) -> Self {
        let all: Vec<(u32, u32)> = numbers("/proc").filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
        let mut found = vec![root];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            found.extend(all.iter().filter(|(child, parent)| *parent == pid && *child != pid).map(|(child, _)| *child));
            next += 1;
        }
        Self::Processes(found)
    }

    /// Its processes, as far as they are known.
    pub fn processes(&self) -> &[u32] {
        if let Self::Processes(processes) = self { processes } else { &[] }
    }
}

/// The names in a folder of /proc that are numbers.
pub fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether the kernel would send from the very address that it sends to.
fn is_local(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let own = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 9))?;
        Ok(socket.local_addr()?.ip())
    };
    ip.is_loopback() || own().is_ok_and(|own| own == ip)
}

/// Listening sockets that take connections to this address (proc_net(5)).
fn tcp_inodes(target: SocketAddr) -> Vec<String> {
    let of = |file: &str| -> Vec<String> {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().skip(1).filter_map(|line| listening(line, target)).collect()
    };
    let mut all = of("/proc/self/net/tcp");
    all.extend(of("/proc/self/net/tcp6"));
    all
}

/// The inode of a line's socket, if it listens for `target`.
fn listening(line: &str, target: SocketAddr) -> Option<String> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of the address as the machine has them.
    let words: Option<Vec<u8>> = (0..address.len() / 8)
        .map(|word| u32::from_str_radix(address.get(8 * word..8 * word + 8)?, 16).ok())
        .collect::<Option<Vec<u32>>>()
        .map(|words| words.into_iter().flat_map(u32::to_ne_bytes).collect());
    let words = words?;
    let address: IpAddr = match (<[u8; 4]>::try_from(words.as_slice()), <[u8; 16]>::try_from(words.as_slice())) {
        (Ok(four), _) => four.into(),
        (_, Ok(sixteen)) => Ipv6Addr::from(sixteen).to_canonical(),
        _ => return None,
    };
    let takes = address == target.ip() || address.is_unspecified();
    (state == LISTEN && port == target.port() && takes).then(|| inode.to_owned())
}

/// Sockets at this path, or of this abstract name.
fn unix_inodes(path: &Path) -> HashSet<String> {
    let text = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let path = path.to_string_lossy();
    let inode = |line: &str| {
        let mut fields = line.split_whitespace();
        let inode = fields.nth(6)?;
        (fields.next()? == path).then(|| inode.to_owned())
    };
    text.lines().skip(1).filter_map(inode).collect()
}

/// The processes that have one of these sockets.
fn owners(sockets: &HashSet<String>) -> Vec<u32> {
    let has = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        targets.any(|target| target.to_str().is_some_and(|target| sockets.contains(target)))
    };
    let own = std::process::id();
    if sockets.is_empty() { Vec::new() } else { numbers("/proc").filter(|pid| *pid != own).filter(has).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_listens_is_found_in_the_kernels_list() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 31337 1 0 100 0";
        let target: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        assert_eq!(listening(line, target).as_deref(), Some("31337"));
        assert_eq!(listening(line, "127.0.0.2:8080".parse().expect("an address")), None);
        assert_eq!(listening(line, "127.0.0.1:8081".parse().expect("an address")), None);
        assert_eq!(listening(&line.replace(" 0A ", " 01 "), target), None);
        assert_eq!(listening(&line.replace("0100007F", "00000000"), target).as_deref(), Some("31337"));
        let six = line.replace("0100007F:", "00000000000000000000000000000000:");
        assert_eq!(listening(&six, target).as_deref(), Some("31337"));
        for bad in ["", "sl local", &line.replace("0100007F", "zz"), &line.replace(":1F90", "")] {
            assert_eq!(listening(bad, target), None);
        }
    }

    #[test]
    fn a_listener_of_this_machine_has_an_inode_and_one_elsewhere_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        assert_eq!(tcp_inodes(address).len(), 1);
        // It is this very process, which is the generator.
        assert_eq!(Whereabouts::find(&[address], None), Whereabouts::Hidden);
        assert_eq!(Whereabouts::find(&["192.0.2.1:80".parse().expect("an address")], None), Whereabouts::Elsewhere);
        let me = std::process::id();
        assert_eq!(Whereabouts::below(me).processes().first(), Some(&me));
    }
}
