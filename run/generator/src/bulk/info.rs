//! What the kernel tells of a connection (tcp(7), `TCP_INFO`).

use super::Transport;
use std::os::fd::{AsRawFd, BorrowedFd};

/// As much of `struct tcp_info` as is read (include/uapi/linux/tcp.h): kernels add at its end, and tell
/// how much they filled.
const SIZE: usize = 232;

// Where its fields are.
const MSS: usize = 16;
const RTT: usize = 68;
const CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
/// Linux 4.1.
const BYTES_ACKED: usize = 120;
/// Linux 5.4.
const OUT_OF_ORDER: usize = 224;

/// Of this socket; none if it is no TCP's.
pub(super) fn of(socket: BorrowedFd<'_>) -> Option<Transport> {
    let mut bytes = [0_u8; SIZE];
    let mut length = SIZE as libc::socklen_t;
    // SAFETY: the kernel writes no more than it is told there is room for, and how much that was.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (done == 0).then(|| parse(&bytes[..SIZE.min(length as usize)]))
}

fn parse(bytes: &[u8]) -> Transport {
    let narrow = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes);
    let wide = |at: usize| bytes.get(at..at + 8).and_then(|all| all.try_into().ok()).map_or(0, u64::from_ne_bytes);
    Transport {
        acknowledged: wide(BYTES_ACKED),
        retransmits: narrow(TOTAL_RETRANS).into(),
        cwnd: u64::from(narrow(CWND)) * u64::from(narrow(MSS)),
        rtt_us: narrow(RTT).into(),
        out_of_order: narrow(OUT_OF_ORDER).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn the_kernel_tells_what_was_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (mut server, _) = listener.accept().expect("a client");
        let before = of(client.as_fd()).expect("TCP");
        client.write_all(&[7; 5_000]).expect("sent");
        server.read_exact(&mut [0; 5_000]).expect("received");
        server.write_all(b"x").expect("sent");
        client.read_exact(&mut [0]).expect("received, with what acknowledges the others");
        let after = of(client.as_fd()).expect("TCP");
        assert_eq!(after.acknowledged - before.acknowledged, 5_000);
        assert!(after.cwnd > 5_000 && after.rtt_us > 0 && after.retransmits == 0, "{after:?}");
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert!(of(file.as_fd()).is_none());
        assert_eq!(parse(&[0xff; 90]).acknowledged, 0, "an old kernel fills less");
    }
}
