//! What this process may do.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fs;

/// Rights and kernel parts that links need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// CAP_NET_ADMIN.
    pub net_admin: bool,
    /// CAP_NET_RAW.
    pub net_raw: bool,
    /// CAP_BPF, or CAP_SYS_ADMIN, which has it.
    pub bpf: bool,
    /// The kernel has sockets for AF_XDP.
    pub xdp_sockets: bool,
    /// `/dev/net/tun` is there.
    pub tun: bool,
    /// `/dev/net/tun` may be opened.
    pub tun_opens: bool,
}

/// Numbers of capabilities (include/uapi/linux/capability.h).
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;

/// This process's.
pub fn here() -> Rights {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = capabilities(&status);
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let xdp = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
    Rights {
        net_admin: has & 1 << NET_ADMIN != 0,
        net_raw: has & 1 << NET_RAW != 0,
        bpf: has & (1 << BPF | 1 << SYS_ADMIN) != 0,
        // Without the right to, the kernel still tells whether it could.
        xdp_sockets: !matches!(xdp, Err(Errno::AFNOSUPPORT)),
        tun: tun.as_ref().err().is_none_or(|why| why.kind() != std::io::ErrorKind::NotFound),
        tun_opens: tun.is_ok(),
    }
}

/// Effective capabilities, of /proc/PID/status.
fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_their_line() {
        assert_eq!(capabilities("Name:\tx\nCapPrm:\t1\nCapEff:\t0000000000003000\n"), 1 << NET_ADMIN | 1 << NET_RAW);
        assert_eq!(capabilities("Name:\tx\n"), 0);
    }
}
