//! How long requests wait at a server's interface: from the frame that brings one to the first
//! that answers it, both as the kernel stamps them there.
//!
//! What a client's machine has its own answers wait is no part of it, and whoever reads the
//! stamps may be late. The stamp of a frame that comes is of the moment when its sender's side
//! has handed it over, before this side's core is told; of one that leaves, when it goes to the
//! interface.

use crate::BenchError;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Some seconds of the frames that are asked for.
const BUFFER: i32 = 64 << 20;

/// Ethernet, IPv4 and TCP with all their options.
const HEADERS: usize = 14 + 60 + 60;

/// What is seen of an interface, until it is asked for.
pub(super) struct Waits {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Passed>, String>>,
}

/// A segment with content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Passed {
    /// In nanoseconds of the time of day.
    at: u64,
    /// The client's address and port.
    client: (u32, u16),
    /// To the server.
    asks: bool,
}

impl Waits {
    /// Watches a port of the namespace's only interface but loopback.
    pub(super) fn begin(namespace: &str, device: &str, port: u16) -> Result<Self, BenchError> {
        let (namespace, device) = (File::open(Path::new("/run/netns").join(namespace))?, device.to_owned());
        let over = Arc::new(AtomicBool::new(false));
        let (told, ready) = (Arc::clone(&over), std::sync::mpsc::sync_channel(1));
        let thread = std::thread::spawn(move || {
            let opened = open(&namespace, &device, port).map_err(|why| format!("a packet socket on {device}: {why}"));
            let _ = ready.0.send(());
            let socket = opened?;
            read(&socket, port, &told).map_err(|why| format!("packets of {device}: {why}"))
        });
        let _ = ready.1.recv();
        Ok(Self { over, thread })
    }

    /// How long each request waited, in nanoseconds, of those that came in `span` from `after`
    /// the first on.
    pub(super) fn end(self, after: Duration, span: Duration) -> Result<Vec<u64>, BenchError> {
        self.over.store(true, Ordering::Relaxed);
        let passed = self.thread.join().map_err(|_| "a thread panicked")??;
        let Some(first) = passed.first() else { return Err("no request passed the interface".into()) };
        let from = first.at + after.as_nanos() as u64;
        Ok(waits(&passed, from..from + span.as_nanos() as u64))
    }
}

/// Of requests that came in `span`, from first byte to first byte. Those that came while one
/// of the same client was not answered count with that.
fn waits(passed: &[Passed], span: core::ops::Range<u64>) -> Vec<u64> {
    let mut asked = HashMap::new();
    let mut waits = Vec::new();
    for one in passed {
        if one.asks {
            asked.entry(one.client).or_insert(one.at);
        } else if let Some(at) = asked.remove(&one.client)
            && span.contains(&at)
        {
            waits.push(one.at.saturating_sub(at));
        }
    }
    waits
}

fn open(namespace: &File, device: &str, port: u16) -> io::Result<OwnedFd> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(rustix::thread::LinkNameSpaceType::Network))?;
    // SAFETY: takes its arguments by value.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut program = filter(port);
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(&socket, libc::SO_ATTACH_FILTER, &program)?;
    set(&socket, libc::SO_TIMESTAMPNS, &1_i32)?;
    set(&socket, libc::SO_RCVBUFFORCE, &BUFFER)?;
    // A look now and then at whether it is over.
    set(&socket, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: 50_000 })?;
    // SAFETY: plain numbers; all zero is valid.
    let mut to: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    to.sll_ifindex = rustix::net::netdevice::name_to_index(&socket, device)?.cast_signed();
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: reads `len` bytes of an address that lives during the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const to).cast(), len) };
    if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: reads `len` bytes of a value that lives during the call; what a filter points to does, too.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const *value).cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Headers of TCP over IPv4 from and to a port, of packets that are not cut (`linux/filter.h`): handshakes are not
/// copied.
fn filter(port: u16) -> [libc::sock_filter; 13] {
    let (half, byte) = (libc::BPF_LD | libc::BPF_H, libc::BPF_LD | libc::BPF_B);
    let (equal, any) = (libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_JMP | libc::BPF_JSET);
    let port = u32::from(port);
    let program = [
        (half | libc::BPF_ABS, 0, 0, 12),
        (equal, 0, 10, libc::ETH_P_IP as u32),
        (byte | libc::BPF_ABS, 0, 0, 23),
        (equal, 0, 8, libc::IPPROTO_TCP as u32),
        (half | libc::BPF_ABS, 0, 0, 20),
        (any, 6, 0, 0x1fff),
        (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 14),
        (half | libc::BPF_IND, 0, 0, 14),
        (equal, 2, 0, port),
        (half | libc::BPF_IND, 0, 0, 16),
        (equal, 0, 1, port),
        (libc::BPF_RET, 0, 0, HEADERS as u32),
        (libc::BPF_RET, 0, 0, 0),
    ];
    program.map(|(code, jt, jf, k)| libc::sock_filter { code: code as u16, jt, jf, k })
}

/// Reads until it is over, and what is there then.
fn read(socket: &OwnedFd, port: u16, over: &AtomicBool) -> io::Result<Vec<Passed>> {
    let mut passed = Vec::new();
    let mut frame = [0; HEADERS];
    loop {
        match receive(socket, &mut frame) {
            Ok((len, at)) => {
                passed.extend(segment(&frame[..len], port).map(|(client, asks)| Passed { at, client, asks }))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && over.load(Ordering::Relaxed) => break,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(e),
        }
    }
    let dropped = dropped(socket)?;
    if dropped == 0 { Ok(passed) } else { Err(io::Error::other(format!("{dropped} were not seen"))) }
}

/// The next frame, and its stamp.
fn receive(socket: &OwnedFd, frame: &mut [u8]) -> io::Result<(usize, u64)> {
    /// Aligned as the kernel aligns what it writes there.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut bytes = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: plain numbers and pointers; all zero is valid.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: the kernel writes into `frame` and `control`, no more than the lengths that the message tells, and both
    // live, borrowed by nobody else, until the call is over.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    stamp(&control.0).map(|at| (len.min(frame.len()), at)).ok_or_else(|| io::Error::other("a frame has no stamp"))
}

/// Of the only control message that was asked for: a header, and seconds and nanoseconds.
fn stamp(control: &[u8; 64]) -> Option<u64> {
    let half = |at: usize| i32::from_ne_bytes(control[at..at + 4].try_into().unwrap_or_default());
    let word = |at: usize| u64::from_ne_bytes(control[at..at + 8].try_into().unwrap_or_default());
    let told = (half(8), half(12)) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
    told.then(|| word(16) * 1_000_000_000 + word(24))
}

/// Frames that there was no room for.
fn dropped(socket: &OwnedFd) -> io::Result<u32> {
    // `struct tpacket_stats`: frames, and those that were dropped.
    let mut stats = [0_u32; 2];
    let mut len = size_of_val(&stats) as libc::socklen_t;
    let (into, level) = (stats.as_mut_ptr().cast(), libc::SOL_PACKET);
    // SAFETY: writes at most `len` bytes to an array of that size, and how many to `len`.
    let got = unsafe { libc::getsockopt(socket.as_raw_fd(), level, libc::PACKET_STATISTICS, into, &raw mut len) };
    if got == 0 { Ok(stats[1]) } else { Err(io::Error::last_os_error()) }
}

/// Of a frame that the filter let pass: its client, and whether that sent it; none without content.
fn segment(frame: &[u8], port: u16) -> Option<((u32, u16), bool)> {
    let packet = frame.get(14..)?;
    let half = |bytes: &[u8], at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let header = usize::from(packet.first()? & 15) * 4;
    let segment = packet.get(header..)?;
    let content = usize::from(half(packet, 2)?).checked_sub(header + usize::from(segment.get(12)? >> 4) * 4)?;
    if content == 0 {
        return None;
    }
    let asks = half(segment, 2)? == port;
    let (address, from) = if asks { (12, 0) } else { (16, 2) };
    let address = u32::from_be_bytes(packet.get(address..address + 4)?.try_into().ok()?);
    Some(((address, half(segment, from)?), asks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(at: u64, client: u16, asks: bool) -> Passed {
        Passed { at, client: (1, client), asks }
    }

    #[test]
    fn a_wait_is_from_the_first_byte_of_a_request_to_that_of_its_answer() {
        let all = [
            passed(5, 1, true),
            passed(10, 2, true),
            passed(11, 2, true),
            passed(12, 1, false),
            passed(13, 1, false),
            passed(110, 2, false),
            passed(120, 1, true),
            passed(125, 1, false),
        ];
        assert_eq!(waits(&all, 0..120), [7, 100], "one came later");
        assert_eq!(waits(&all, 10..121), [100, 5]);
    }

    #[test]
    fn a_segment_without_content_is_none() {
        let mut frame = [0; 54];
        frame[14] = 0x45;
        frame[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        (frame[17], frame[35], frame[37], frame[46]) = (40, 9, 80, 0x50);
        assert_eq!(segment(&frame, 80), None);
        frame[17] = 41;
        assert_eq!(segment(&frame, 80), Some(((0x0a00_0002, 9), true)));
        (frame[35], frame[37]) = (80, 9);
        assert_eq!(segment(&frame, 80), Some(((0x0a00_0001, 9), false)));
        assert_eq!(segment(&frame[..40], 80), None, "cut");
    }

    /// Over loopback, where this machine lets a packet socket be opened.
    #[test]
    fn the_kernel_stamps_what_passes() {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = File::open("/proc/thread-self/ns/net").unwrap();
        let socket = match open(&here, "lo", port) {
            Ok(socket) => socket,
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => return,
            Err(e) => panic!("{e}"),
        };
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut server = listener.accept().unwrap().0;
        for _ in 0..3 {
            client.write_all(b"ask").unwrap();
            server.read_exact(&mut [0; 3]).unwrap();
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
        }
        let passed = read(&socket, port, &AtomicBool::new(true)).unwrap();
        let asked = passed.iter().filter(|one| one.asks).count();
        // Each is seen as it leaves and as it comes.
        assert_eq!((passed.len(), asked), (12, 6), "{passed:?}");
        assert_eq!(waits(&passed, 0..u64::MAX).len(), 3);
    }
}
