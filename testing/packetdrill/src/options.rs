//! Socket options: tcp(7), ip(7), ipv6(7) and socket(7) of Linux, as far as
//! the stack has what they switch.

use crate::errno::{Errno, Result};
use crate::host::Host;
use crate::info::{self, Received};
use crate::sockets::{Kind, Socket};
use app::{ConnId, Net};
use tcp::SocketOptions;

/// Smallest send buffer (Linux: `SOCK_MIN_SNDBUF`, about).
const LEAST_SEND_LIMIT: usize = 4608;
/// What Linux reports where nothing limits the MSS yet (`TCP_MSS_DEFAULT`).
const DEFAULT_MSS: u16 = 536;
/// Linux: `TCP_MIN_MSS` and `MAX_TCP_WINDOW`, include/net/tcp.h.
const MSS_RANGE: core::ops::RangeInclusive<i32> = 88..=32_767;

/// Options that a socket hands on to those that it accepts.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Small segments do not wait (`TCP_NODELAY`).
    pub no_delay: bool,
    /// They wait until this is taken back (`TCP_CORK`).
    pub cork: bool,
    /// Addresses may be bound again (`SO_REUSEADDR`).
    pub reuse_address: bool,
    /// Closing resets (`SO_LINGER` with zero seconds).
    pub reset_on_close: bool,
    /// Bytes that may wait to be acknowledged.
    pub send_limit: usize,
    /// Bytes not sent yet from which on the socket takes no more
    /// (`TCP_NOTSENT_LOWAT`); 0 is what the settings say.
    pub not_sent_low_water: u32,
    /// `recvmsg` tells what is left to be read (`TCP_INQ`).
    pub tell_left: bool,
    /// Type of service, of packets over IPv4 (`IP_TOS`).
    pub tos: u8,
    /// Traffic class, of packets over IPv6 (`IPV6_TCLASS`).
    pub traffic_class: u8,
    /// `TCP_MAXSEG`; 0 is none.
    pub max_segment: u16,
    /// `TCP_USER_TIMEOUT` in milliseconds; 0 is what the settings say.
    pub user_timeout: u32,
    /// `SO_MAX_PACING_RATE` in bytes per second; all bits set is none.
    pub pacing_rate: u64,
}

impl Options {
    /// The defaults, with a send buffer.
    pub const fn new(send_limit: usize) -> Self {
        Self {
            no_delay: false,
            cork: false,
            reuse_address: false,
            reset_on_close: false,
            send_limit,
            not_sent_low_water: 0,
            tell_left: false,
            tos: 0,
            traffic_class: 0,
            max_segment: 0,
            user_timeout: 0,
            pacing_rate: u64::MAX,
        }
    }

    /// Those that the stack keeps for a connection or a listener.
    pub fn of_stack(&self, v4: bool) -> SocketOptions {
        SocketOptions {
            max_segment: (self.max_segment > 0).then_some(self.max_segment),
            traffic_class: if v4 { self.tos } else { self.traffic_class },
            user_timeout: (self.user_timeout > 0).then_some(self.user_timeout),
            pacing_rate: (self.pacing_rate < u64::MAX).then_some(self.pacing_rate),
        }
    }
}

impl Host {
    /// `getsockopt`: the value, to be cut to the caller's room of `room` bytes.
    ///
    /// # Errors
    /// [`libc::ENOPROTOOPT`] for options that the stack does not have.
    pub fn option(&mut self, fd: i32, level: i32, name: i32, room: usize) -> Result<Vec<u8>> {
        let socket = self.silo.app.socket(fd)?;
        let options = socket.options;
        let number = match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_INFO) => return Ok(self.info(fd)?.to_vec()),
            // As from an algorithm that reports nothing, such as Linux's CUBIC.
            (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => return Ok(Vec::new()),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => return self.memory(fd),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => i32::from(options.no_delay),
            (libc::IPPROTO_TCP, libc::TCP_CORK) => i32::from(options.cork),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => i32::from(self.mss(socket)),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => options.user_timeout.cast_signed(),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => options.not_sent_low_water.cast_signed(),
            (libc::IPPROTO_TCP, libc::TCP_INQ) => i32::from(options.tell_left),
            (libc::IPPROTO_IP, libc::IP_TOS) => return Ok(short(options.tos, room)),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => i32::from(options.traffic_class),
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
            // Linux: `sk_getsockopt` in net/core/sock.c. As many bytes as there is room for.
            (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) => {
                let short = u32::try_from(options.pacing_rate).unwrap_or(u32::MAX);
                let long = options.pacing_rate.to_ne_bytes();
                return Ok(if room >= long.len() { long.to_vec() } else { short.to_ne_bytes().to_vec() });
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
    /// [`libc::ENOPROTOOPT`] for options that the stack does not have,
    /// [`libc::EINVAL`] for values that they cannot have, or that are too
    /// short.
    pub fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let number = number(level, value)?;
        match level {
            libc::IPPROTO_TCP => self.set_tcp_option(fd, name, number),
            libc::IPPROTO_IP | libc::IPPROTO_IPV6 => self.set_ip_option(fd, level, name, number),
            libc::SOL_SOCKET => self.set_socket_option(fd, name, number, value),
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    /// Linux: `do_tcp_setsockopt` in net/ipv4/tcp.c.
    fn set_tcp_option(&mut self, fd: i32, name: i32, number: i32) -> Result<()> {
        let socket = self.silo.app.socket_mut(fd)?;
        let options = &mut socket.options;
        match name {
            libc::TCP_NODELAY => options.no_delay = number != 0,
            libc::TCP_CORK => options.cork = number != 0,
            libc::TCP_NOTSENT_LOWAT => options.not_sent_low_water = number.cast_unsigned(),
            libc::TCP_USER_TIMEOUT if number >= 0 => options.user_timeout = number.cast_unsigned(),
            libc::TCP_MAXSEG if number == 0 || MSS_RANGE.contains(&number) => options.max_segment = number as u16,
            libc::TCP_INQ if matches!(number, 0 | 1) => options.tell_left = number != 0,
            libc::TCP_USER_TIMEOUT | libc::TCP_MAXSEG | libc::TCP_INQ => return Err(Errno(libc::EINVAL)),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        if let Kind::Stream(id) = socket.kind {
            match name {
                libc::TCP_NODELAY => self.silo.stack.set_nagle(id, number == 0),
                libc::TCP_CORK => self.silo.stack.set_cork(id, number != 0),
                _ => {}
            }
        }
        self.tell_stack(fd)
    }

    /// Linux: `do_ip_setsockopt` in net/ipv4/ip_sockglue.c, and
    /// `do_ipv6_setsockopt` in net/ipv6/ipv6_sockglue.c.
    fn set_ip_option(&mut self, fd: i32, level: i32, name: i32, number: i32) -> Result<()> {
        let options = &mut self.silo.app.socket_mut(fd)?.options;
        match (level, name) {
            // The lower two bits are ECN's, and the stack's own.
            (libc::IPPROTO_IP, libc::IP_TOS) => options.tos = number as u8 & !3,
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => match u8::try_from(number) {
                Ok(class) => options.traffic_class = class & !3,
                Err(_) if number == -1 => options.traffic_class = 0,
                Err(_) => return Err(Errno(libc::EINVAL)),
            },
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        self.tell_stack(fd)
    }

    fn set_socket_option(&mut self, fd: i32, name: i32, number: i32, value: &[u8]) -> Result<()> {
        let options = &mut self.silo.app.socket_mut(fd)?.options;
        match name {
            libc::SO_REUSEADDR => options.reuse_address = number != 0,
            libc::SO_MAX_PACING_RATE => {
                let long = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
                let short = if number == -1 { u64::MAX } else { u64::from(number.cast_unsigned()) };
                options.pacing_rate = long.unwrap_or(short);
                return self.tell_stack(fd);
            }
            // Doubled, as in Linux, for bookkeeping that the kernel counts too.
            libc::SO_SNDBUF => {
                let limit = usize::try_from(number).unwrap_or(0).saturating_mul(2);
                options.send_limit = limit.max(LEAST_SEND_LIMIT);
            }
            libc::SO_LINGER => {
                let seconds: Option<[u8; 4]> = value.get(4..8).and_then(<[u8]>::first_chunk).copied();
                let seconds = i32::from_ne_bytes(seconds.ok_or(Errno(libc::EINVAL))?);
                if number != 0 && seconds != 0 {
                    // A close that waits is not offered.
                    return Err(Errno(libc::ENOPROTOOPT));
                }
                options.reset_on_close = number != 0;
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    /// Makes the stack's options of a connection or listener what the
    /// socket's are.
    fn tell_stack(&mut self, fd: i32) -> Result<()> {
        let Socket { kind, v6, options, .. } = self.silo.app.socket(fd)?;
        match *kind {
            Kind::Stream(id) => {
                let options = *options;
                self.hand_options(id, &options);
            }
            Kind::Listener { port, .. } => self.silo.stack.set_listener_options(port, options.of_stack(!v6)),
            Kind::Fresh | Kind::Epoll(_) => {}
        }
        self.rest();
        Ok(())
    }

    /// Gives a connection the options of its socket.
    pub fn hand_options(&mut self, id: ConnId, options: &Options) {
        let v4 = self.silo.stack.peer(id).is_some_and(|peer| peer.is_ipv4());
        self.silo.stack.set_options(id, options.of_stack(v4));
    }

    fn info(&mut self, fd: i32) -> Result<[u8; info::LEN]> {
        let mtu = self.silo.stack.config().mtu;
        let Socket { kind, options, .. } = self.silo.app.socket(fd)?;
        let most = options.max_segment;
        Ok(match *kind {
            Kind::Stream(id) => match self.silo.stack.info(id) {
                Some(found) => {
                    let v6 = self.silo.stack.peer(id).is_some_and(|peer| peer.is_ipv6());
                    let announced = tcp::Path { mtu, v6 }.announced_mss();
                    let announced = if most > 0 { announced.min(most) } else { announced };
                    let now = self.now();
                    let connection = self.silo.app.connection(id);
                    let received = Received {
                        mss: connection.segments.mss(announced),
                        last_data_ms: u32::try_from(now.since(connection.last_data).as_millis()).unwrap_or(u32::MAX),
                        announced_mss: announced.into(),
                    };
                    info::of(&found, mtu.into(), &received)
                }
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
            _ if socket.options.max_segment > 0 => socket.options.max_segment,
            _ => DEFAULT_MSS,
        }
    }

    /// The error of a socket, or else what the network said of its peer and
    /// did not end it (Linux: `sk_err_soft`).
    fn take_error(&mut self, fd: i32) -> Result<i32> {
        let Kind::Stream(id) = self.silo.app.socket(fd)?.kind else { return Ok(0) };
        let error = self.silo.app.connection(id).error.take();
        let error = error.or_else(|| self.silo.stack.take_unreachable(id).map(crate::errno::of_unreachable));
        Ok(error.map_or(0, |error| error.0))
    }
}

/// The value of an option: a number, of one byte where IPv4's options may
/// have that.
fn number(level: i32, value: &[u8]) -> Result<i32> {
    match (value.first_chunk(), value.first()) {
        (Some(bytes), _) => Ok(i32::from_ne_bytes(*bytes)),
        (None, Some(byte)) if level == libc::IPPROTO_IP => Ok((*byte).into()),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// A value of one byte, where there is no room for a number.
fn short(value: u8, room: usize) -> Vec<u8> {
    if room < size_of::<i32>() { vec![value] } else { i32::from(value).to_ne_bytes().to_vec() }
}
