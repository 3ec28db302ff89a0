//! Packets on a veth pair, which receive packet steering hands to one core.

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;

const SENDER: &str = "noise0";
const RECEIVER: &str = "noise1";

/// Frames of a burst: work for tens of microseconds.
const BURST: usize = 48;

/// The pair, in a namespace that is this thread's alone and ends with it.
pub(super) struct Storm {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
    frame: [u8; 128],
}

impl Storm {
    /// Takes the calling thread into a namespace of its own.
    pub(super) fn new(core: u16) -> Result<Self, String> {
        // SAFETY: what this thread shares with others, memory and descriptors,
        // stays shared; it only sees other networks and mounts from here on.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS) }
            .map_err(|why| format!("a network namespace: {why} (needs root)"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(|why| format!("mounts of its own: {why}"))?;
        // The new network's.
        mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None).map_err(|why| format!("sysfs: {why}"))?;
        for words in [
            vec!["link", "add", SENDER, "type", "veth", "peer", "name", RECEIVER],
            vec!["link", "set", SENDER, "up"],
            vec!["link", "set", RECEIVER, "up"],
        ] {
            let done = Command::new("ip").args(&words).output().map_err(|why| format!("ip: {why}"))?;
            if !done.status.success() {
                return Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim()));
            }
        }
        steer(core)?;
        Self::open().map_err(|why| format!("a packet socket: {why}"))
    }

    fn open() -> io::Result<Self> {
        let name = c"noise0";
        // SAFETY: the name ends with a zero, and the call keeps no pointer.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        // SAFETY: the call takes numbers, and gives a descriptor or -1.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if index == 0 || socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: nobody else has this descriptor, which is open.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let to = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0x0800_u16.to_be(),
            sll_ifindex: index.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        };
        // To everybody, from nobody; an IPv4 packet that is none.
        let mut frame = [0_u8; 128];
        frame[..6].fill(0xff);
        frame[6] = 0x02;
        frame[12] = 0x08;
        frame[14] = 0x45;
        Ok(Self { socket, to, frame })
    }

    /// Sends a burst.
    pub(super) fn burst(&self) -> Result<(), String> {
        for _ in 0..BURST {
            // SAFETY: frame and address live through the call, which reads them
            // by the lengths given.
            let sent = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    self.frame.as_ptr().cast(),
                    self.frame.len(),
                    0,
                    (&raw const self.to).cast(),
                    size_of::<libc::sockaddr_ll>() as libc::socklen_t,
                )
            };
            if sent < 0 {
                return Err(format!("send: {}", io::Error::last_os_error()));
            }
        }
        Ok(())
    }
}

/// Has this core handle what the receiving end receives.
fn steer(core: u16) -> Result<(), String> {
    let path = format!("/sys/class/net/{RECEIVER}/queues/rx-0/rps_cpus");
    // Words of 32 bits, the highest first.
    let words = usize::from(core) / 32;
    let mask = format!("{:x}{}", 1_u32 << (core % 32), ",00000000".repeat(words));
    std::fs::write(&path, mask).map_err(|why| format!("{path}: {why}"))
}
