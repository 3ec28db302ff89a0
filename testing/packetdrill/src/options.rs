//! Socket options.

use crate::errno::{Errno, Result};
use crate::host::Host;
use crate::info;
use crate::sockets::{Kind, Socket};
use app::Net;

/// Smallest send buffer (Linux: `SOCK_MIN_SNDBUF`, about).
const LEAST_SEND_LIMIT: usize = 4608;
/// What Linux reports where nothing limits the MSS yet (`TCP_MSS_DEFAULT`).
const DEFAULT_MSS: u16 = 536;

impl Host {
    /// `getsockopt`: the value, to be cut to the caller's room.
    ///
    /// # Errors
    /// [`libc::ENOPROTOOPT`] for options that the stack does not have.
    pub fn option(&mut self, fd: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        let socket = self.silo.app.socket(fd)?;
        let options = socket.options;
        let number = match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_INFO) => return Ok(self.info(fd)?.to_vec()),
            // As from an algorithm that reports nothing, such as Linux's CUBIC.
            (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => return Ok(Vec::new()),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => return self.memory(fd),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => i32::from(options.no_delay),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => i32::from(self.mss(socket)),
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.take_error(fd)?,
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => {
                if socket.v6 {
                    libc::AF_INET6
                } else {
                    libc::AF_INET
                }
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => i32::from(matches!(socket.kind, Kind::Listener { .. })),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => i32::from(options.reuse_address),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => i32::try_from(options.send_limit).unwrap_or(i32::MAX),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                i32::try_from(self.silo.stack.config().tcp.receive_limit).unwrap_or(i32::MAX)
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let on = i32::from(options.reset_on_close).to_ne_bytes();
                return Ok([on, [0; 4]].concat());
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        Ok(number.to_ne_bytes().to_vec())
    }

    /// `setsockopt`.
    ///
    /// # Errors
    /// [`libc::ENOPROTOOPT`] for options that the stack does not have.
    pub fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let socket = self.silo.app.socket_mut(fd)?;
        let first: Option<[u8; 4]> = value.first_chunk().copied();
        let number = i32::from_ne_bytes(first.ok_or(Errno(libc::EINVAL))?);
        match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                socket.options.no_delay = number != 0;
                if let Kind::Stream(id) = socket.kind {
                    self.silo.stack.set_nagle(id, number == 0);
                    self.rest();
                }
            }
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => socket.options.reuse_address = number != 0,
            // Doubled, as in Linux, for bookkeeping that the kernel counts too.
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                let limit = usize::try_from(number).unwrap_or(0).saturating_mul(2);
                socket.options.send_limit = limit.max(LEAST_SEND_LIMIT);
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds: Option<[u8; 4]> = value.get(4..8).and_then(<[u8]>::first_chunk).copied();
                let seconds = i32::from_ne_bytes(seconds.ok_or(Errno(libc::EINVAL))?);
                if number != 0 && seconds != 0 {
                    // A close that waits is not offered.
                    return Err(Errno(libc::ENOPROTOOPT));
                }
                socket.options.reset_on_close = number != 0;
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    fn info(&mut self, fd: i32) -> Result<[u8; info::LEN]> {
        let mtu = u32::from(self.silo.stack.config().mtu);
        Ok(match self.silo.app.socket(fd)?.kind {
            Kind::Stream(id) => match self.silo.stack.info(id) {
                Some(found) => info::of(&found, mtu),
                None => info::without_connection(info::CLOSED),
            },
            Kind::Listener { .. } => info::without_connection(info::LISTENING),
            Kind::Fresh => info::without_connection(info::CLOSED),
            Kind::Epoll(_) => return Err(Errno(libc::ENOTSOCK)),
        })
    }

    /// `SO_MEMINFO`: nine numbers (`SK_MEMINFO_*`, include/uapi/linux/sock_diag.h).
    fn memory(&mut self, fd: i32) -> Result<Vec<u8>> {
        let socket = self.silo.app.socket(fd)?;
        let receive_limit = self.silo.stack.config().tcp.receive_limit;
        let mut numbers = [0u32; 9];
        numbers[1] = receive_limit;
        numbers[3] = u32::try_from(socket.options.send_limit).unwrap_or(u32::MAX);
        if let Kind::Stream(id) = socket.kind {
            let queued = u32::try_from(self.silo.stack.unsent(id)).unwrap_or(u32::MAX);
            numbers[0] = u32::try_from(self.readable(fd)?).unwrap_or(u32::MAX);
            numbers[2] = queued;
            numbers[5] = queued;
        }
        Ok(numbers.iter().flat_map(|number| number.to_ne_bytes()).collect())
    }

    fn mss(&self, socket: &Socket) -> u16 {
        match socket.kind {
            Kind::Stream(id) => self.silo.stack.info(id).map_or(DEFAULT_MSS, |info| info.mss),
            _ => DEFAULT_MSS,
        }
    }

    fn take_error(&mut self, fd: i32) -> Result<i32> {
        let Kind::Stream(id) = self.silo.app.socket(fd)?.kind else { return Ok(0) };
        Ok(self.silo.app.connection(id).error.take().map_or(0, |error| error.0))
    }
}
