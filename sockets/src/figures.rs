//! How the kernel's TCP has found a connection's path (tcp(7), `TCP_INFO`).

use app::PathFigures;
use std::os::fd::{AsRawFd, BorrowedFd};

// Where the fields are in `struct tcp_info` (include/uapi/linux/tcp.h), each of four bytes.
const RTT: usize = 68;
const RTTVAR: usize = 72;
const CWND: usize = 80;
const RECEIVE_SPACE: usize = 96;
/// As much of it as is read.
const SIZE: usize = RECEIVE_SPACE + 4;

/// Those of this socket; none if it is no TCP's.
pub fn of(socket: BorrowedFd<'_>) -> Option<PathFigures> {
    let mut bytes = [0_u8; SIZE];
    let mut length = SIZE as libc::socklen_t;
    // SAFETY: the descriptor is open for the borrow, and the kernel writes no more than it is
    // told there is room for.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done != 0 || (length as usize) < SIZE {
        return None;
    }
    let at = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    Some(PathFigures { rtt_us: at(RTT)?, rttvar_us: at(RTTVAR)?, cwnd: at(CWND)?, receive_space: at(RECEIVE_SPACE)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    /// The fields are where libc's own structure has them.
    #[test]
    fn the_kernel_tells_figures_of_tcp_alone() {
        use core::mem::offset_of;
        assert_eq!(
            [RTT, RTTVAR, CWND, RECEIVE_SPACE],
            [
                offset_of!(libc::tcp_info, tcpi_rtt),
                offset_of!(libc::tcp_info, tcpi_rttvar),
                offset_of!(libc::tcp_info, tcpi_snd_cwnd),
                offset_of!(libc::tcp_info, tcpi_rcv_space),
            ]
        );
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (mut server, _) = listener.accept().expect("a client");
        client.write_all(b"x").expect("sent");
        server.read_exact(&mut [0]).expect("received");
        let found = of(client.as_fd()).expect("TCP");
        assert!(found.rtt_us > 0 && found.cwnd > 0 && found.receive_space > 0, "{found:?}");
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert_eq!(of(one.as_fd()), None);
    }
}
