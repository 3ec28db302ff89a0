//! Who has an address that we cannot have, as far as this user may see it.

use core::net::{IpAddr, SocketAddr};
use sockets::Endpoint;
use std::fs;

/// Listening, in `/proc/net/tcp` (TCP_LISTEN of the kernel's tcp_states.h).
const LISTENING: &str = "0A";

/// The process that listens on `endpoint`, or on all addresses of its port.
pub fn of(endpoint: &Endpoint) -> Option<String> {
    let Endpoint::Tcp(address) = endpoint else { return None };
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| listening(&fs::read_to_string(table).unwrap_or_default(), *address))
        .collect();
    let (pid, name) = process_with(&inodes)?;
    Some(format!("process {pid} ({name}) does"))
}

/// The inodes of sockets of a table that keep others from `address`.
fn listening(table: &str, address: SocketAddr) -> Vec<u64> {
    let lines = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (ip, port) = fields.get(1)?.split_once(':')?;
        let (state, inode) = (fields.get(3)?, fields.get(9)?.parse().ok()?);
        let port = u16::from_str_radix(port, 16).ok()?;
        let everywhere = ip.bytes().all(|digit| digit == b'0') || address.ip().is_unspecified();
        (*state == LISTENING && port == address.port() && (everywhere || ip == written(address.ip()))).then_some(inode)
    });
    lines.collect()
}

/// An address as the tables have it: its words in this machine's byte order.
fn written(ip: IpAddr) -> String {
    let octets: Vec<u8> = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
}

/// The first process that has one of these sockets open.
fn process_with(inodes: &[u64]) -> Option<(u32, String)> {
    let targets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    if targets.is_empty() {
        return None;
    }
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // Those of other users cannot be looked into.
        let open = fs::read_dir(entry.path().join("fd")).ok()?;
        let mut links = open.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        links.any(|link| targets.iter().any(|target| link.as_os_str() == target.as_str())).then(|| {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            (pid, name.trim_end().to_owned())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_holder_of_a_port_is_found() {
        for bound in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            let Ok(listener) = TcpListener::bind(bound) else { continue };
            let address = listener.local_addr().unwrap();
            let told = of(&Endpoint::Tcp(address)).expect("it is ours");
            assert!(told.contains(&format!("process {} (", std::process::id())), "{told}");
            // Whoever wants all addresses is kept from it by one.
            let all = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), address.port());
            assert!(bound.starts_with('[') || of(&Endpoint::Tcp(all)).is_some());
        }
        assert_eq!(of(&Endpoint::Unix("/x".into())), None);
        assert!(
            listening("head\n1: x\n2: 00000000:0050 00000000:0000 0A\n", SocketAddr::from(([1, 1, 1, 1], 80)))
                .is_empty()
        );
    }
}
