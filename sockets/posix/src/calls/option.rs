//! Socket options: tcp(7), ip(7), ipv6(7) and socket(7) of Linux.
//!
//! What changes packets, or who may read them, and is not done here is refused; what only
//! tells the kernel how to work is accepted, told again where it was set, and counted
//! ([`SocketFigures::options_ignored`](crate::SocketFigures)).

use super::{Calls, inert};
use crate::errno::{self, Errno, Result};
use crate::info::{self, Received};
use crate::options::Options;
use crate::socket::{Kind, Socket};
use app::{ConnId, Net};
use core::time::Duration;

/// Smallest send and receive buffers (Linux: `SOCK_MIN_SNDBUF`, `SOCK_MIN_RCVBUF`,
/// about).
const LEAST_SEND_LIMIT: usize = 4608;
const LEAST_RECEIVE_LIMIT: u32 = 2304;
/// What Linux tells where nothing limits the MSS yet (`TCP_MSS_DEFAULT`).
const DEFAULT_MSS: u16 = 536;
/// Linux: `TCP_MIN_MSS` and `MAX_TCP_WINDOW`, include/net/tcp.h.
const MSS_RANGE: core::ops::RangeInclusive<i32> = 88..=32_767;
/// Linux: `MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`, `MAX_TCP_KEEPCNT`.
const MOST_KEEP: [i32; 3] = [32_767, 32_767, 127];

/// Where one of [`Options::keep`] stands.
const fn keep(name: i32) -> Option<usize> {
    match name {
        libc::TCP_KEEPIDLE => Some(0),
        libc::TCP_KEEPINTVL => Some(1),
        libc::TCP_KEEPCNT => Some(2),
        _ => None,
    }
}

impl Calls<'_> {
    /// `getsockopt`: the value, to be cut to the caller's room of `room` bytes.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for options that are not here, `EOPNOTSUPP` for levels.
    pub fn option(&mut self, fd: i32, level: i32, name: i32, room: usize) -> Result<Vec<u8>> {
        let socket = self.socket_of(fd)?;
        let options = socket.options;
        let number = match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_INFO) => return Ok(self.info(fd)?.to_vec()),
            // As from an algorithm that reports nothing, such as Linux's CUBIC.
            (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => return Ok(Vec::new()),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => return Ok(b"cubic\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => return self.memory(fd),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => i32::from(options.no_delay),
            (libc::IPPROTO_TCP, libc::TCP_CORK) => i32::from(options.cork),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => i32::from(self.mss(socket)),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => options.user_timeout.cast_signed(),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => options.not_sent_low_water.cast_signed(),
            (libc::IPPROTO_TCP, libc::TCP_INQ) => i32::from(options.tell_left),
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => 1,
            (libc::IPPROTO_TCP, libc::TCP_ULP) => return Ok(Vec::new()),
            (libc::IPPROTO_TCP, name) if let Some(at) = keep(name) => options.keep[at].cast_signed(),
            (libc::SOL_SOCKET, libc::SO_PASSCRED) => return Err(Errno(libc::EOPNOTSUPP)),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => return Ok(Vec::new()),
            (libc::IPPROTO_IPV6, _) if !socket.v6 => return Err(Errno(libc::EOPNOTSUPP)),
            (level, name) if let Some(value) = inert::told(&options, (level, name)) => value,
            (libc::IPPROTO_TCP, libc::TCP_TIMESTAMP) => self.stack.now().as_millis() as i32,
            (libc::IPPROTO_IP, libc::IP_TOS) => options.tos.into(),
            (libc::IPPROTO_IP, libc::IP_MTU) if socket.stream().is_some() => self.stack.config().mtu.into(),
            (libc::IPPROTO_IP, libc::IP_MTU) => return Err(Errno(libc::ENOTCONN)),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => i32::from(options.traffic_class),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if socket.v6 => i32::from(options.v6_only),
            (libc::SOL_SOCKET, _) => return self.socket_option(fd, name),
            (libc::IPPROTO_TCP | libc::IPPROTO_IP, _) => return Err(Errno(libc::ENOPROTOOPT)),
            (libc::IPPROTO_IPV6, _) if socket.v6 => return Err(Errno(libc::ENOPROTOOPT)),
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        };
        // Linux: `do_ip_getsockopt` in net/ipv4/ip_sockglue.c.
        match u8::try_from(number) {
            Ok(byte) if level == libc::IPPROTO_IP && (1..size_of::<i32>()).contains(&room) => Ok(vec![byte]),
            _ => Ok(number.to_ne_bytes().to_vec()),
        }
    }

    fn socket_option(&mut self, fd: i32, name: i32) -> Result<Vec<u8>> {
        let socket = self.socket_of(fd)?;
        let options = socket.options;
        let number = match name {
            libc::SO_ERROR => self.take_error(fd)?,
            libc::SO_TYPE => libc::SOCK_STREAM,
            libc::SO_PROTOCOL => libc::IPPROTO_TCP,
            libc::SO_DOMAIN if socket.v6 => libc::AF_INET6,
            libc::SO_DOMAIN => libc::AF_INET,
            libc::SO_ACCEPTCONN => i32::from(matches!(socket.kind, Kind::Listener(_))),
            libc::SO_REUSEADDR => i32::from(options.reuse_address),
            libc::SO_REUSEPORT => i32::from(options.reuse_port),
            libc::SO_KEEPALIVE => i32::from(options.keepalive),
            libc::SO_RCVLOWAT => options.receive_low_water.cast_signed(),
            libc::SO_SNDLOWAT => 1,
            libc::SO_SNDBUF => i32::try_from(options.send_limit).unwrap_or(i32::MAX),
            libc::SO_RCVBUF if options.receive_limit > 0 => options.receive_limit.cast_signed(),
            libc::SO_RCVBUF => i32::try_from(self.stack.config().tcp.receive_limit).unwrap_or(i32::MAX),
            libc::SO_LINGER => {
                let seconds = options.linger.unwrap_or(0).to_ne_bytes();
                return Ok([i32::from(options.linger.is_some()).to_ne_bytes(), seconds].concat());
            }
            libc::SO_RCVTIMEO => return Ok(timeval(options.receive_timeout)),
            libc::SO_SNDTIMEO => return Ok(timeval(options.send_timeout)),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        Ok(number.to_ne_bytes().to_vec())
    }

    /// `setsockopt`.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for options that are not here, `EINVAL` for values that they cannot
    /// have, or that are too short.
    pub fn set_option(&mut self, fd: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        self.socket_of(fd)?;
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
            let wanted = value.split(|byte| *byte == 0).next().unwrap_or_default();
            return if wanted == b"cubic" { Ok(()) } else { Err(Errno(libc::ENOENT)) };
        }
        if (level, name) == (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) {
            // None is what it has.
            return if value.first().is_none_or(|byte| *byte == 0) { Ok(()) } else { Err(Errno(libc::ENOPROTOOPT)) };
        }
        let number = number((level, name), value)?;
        if self.set_inert(fd, (level, name), number)? {
            return Ok(());
        }
        match level {
            libc::IPPROTO_TCP => self.set_tcp_option(fd, name, number),
            libc::IPPROTO_IP | libc::IPPROTO_IPV6 => self.set_ip_option(fd, level, name, number),
            libc::SOL_SOCKET => self.set_socket_option(fd, name, number, value),
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    /// Linux: `do_tcp_setsockopt` in net/ipv4/tcp.c.
    fn set_tcp_option(&mut self, fd: i32, name: i32, number: i32) -> Result<()> {
        let socket = self.socket_mut(fd)?;
        let options = &mut socket.options;
        match name {
            libc::TCP_NODELAY => options.no_delay = number != 0,
            libc::TCP_CORK => options.cork = number != 0,
            libc::TCP_NOTSENT_LOWAT => options.not_sent_low_water = number.cast_unsigned(),
            libc::TCP_USER_TIMEOUT if number >= 0 => options.user_timeout = number.cast_unsigned(),
            libc::TCP_MAXSEG if number == 0 || MSS_RANGE.contains(&number) => options.max_segment = number as u16,
            libc::TCP_INQ if matches!(number, 0 | 1) => options.tell_left = number != 0,
            libc::TCP_USER_TIMEOUT | libc::TCP_MAXSEG | libc::TCP_INQ => return Err(Errno(libc::EINVAL)),
            name if let Some(at) = keep(name) => {
                if !(1..=MOST_KEEP[at]).contains(&number) {
                    return Err(Errno(libc::EINVAL));
                }
                options.keep[at] = number.cast_unsigned();
                self.table.note_without_effect(libc::IPPROTO_TCP, name);
                return Ok(());
            }
            libc::TCP_TIMESTAMP => return Err(Errno(libc::EPERM)),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        if let Some(id) = socket.stream().map(|stream| stream.id) {
            match name {
                libc::TCP_NODELAY => self.stack.set_nagle(id, number == 0),
                libc::TCP_CORK => self.stack.set_cork(id, number != 0),
                _ => {}
            }
        }
        self.tell_stack(fd, matches!(name, libc::TCP_MAXSEG | libc::TCP_USER_TIMEOUT))
    }

    /// Linux: `do_ip_setsockopt` in net/ipv4/ip_sockglue.c, and
    /// `do_ipv6_setsockopt` in net/ipv6/ipv6_sockglue.c.
    fn set_ip_option(&mut self, fd: i32, level: i32, name: i32, number: i32) -> Result<()> {
        let socket = self.socket_mut(fd)?;
        match (level, name) {
            // The lower two bits are ECN's, and the stack's own.
            (libc::IPPROTO_IP, libc::IP_TOS) => socket.options.tos = number as u8 & !3,
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if socket.v6 => match u8::try_from(number) {
                Ok(class) => socket.options.traffic_class = class & !3,
                Err(_) if number == -1 => socket.options.traffic_class = 0,
                Err(_) => return Err(Errno(libc::EINVAL)),
            },
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) if socket.v6 => {
                if socket.bound.is_some() {
                    return Err(Errno(libc::EINVAL));
                }
                socket.options.v6_only = number != 0;
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        self.tell_stack(fd, true)
    }

    fn set_socket_option(&mut self, fd: i32, name: i32, number: i32, value: &[u8]) -> Result<()> {
        let options = &mut self.socket_mut(fd)?.options;
        match name {
            libc::SO_REUSEADDR => options.reuse_address = number != 0,
            libc::SO_REUSEPORT => options.reuse_port = number != 0,
            libc::SO_KEEPALIVE => {
                options.keepalive = number != 0;
                self.table.note_without_effect(libc::SOL_SOCKET, name);
            }
            // Doubled, as in Linux, for bookkeeping that the kernel counts too.
            libc::SO_SNDBUF => {
                let limit = usize::try_from(number).unwrap_or(0).saturating_mul(2);
                options.send_limit = limit.clamp(LEAST_SEND_LIMIT, MOST_SEND_LIMIT);
            }
            libc::SO_RCVBUF => {
                let limit = u32::try_from(number).unwrap_or(0).saturating_mul(2);
                options.receive_limit = limit.max(LEAST_RECEIVE_LIMIT);
                self.table.note_without_effect(libc::SOL_SOCKET, name);
            }
            // Linux: `tcp_set_rcvlowat`; no more than half of what there is room for.
            libc::SO_RCVLOWAT => {
                let most = (crate::socket::INBOX / 2) as i32;
                let asked = if number < 0 { i32::MAX } else { number };
                options.receive_low_water = asked.clamp(1, most).cast_unsigned();
            }
            libc::SO_LINGER => {
                let seconds: Option<[u8; 4]> = value.get(4..8).and_then(<[u8]>::first_chunk).copied();
                let seconds = i32::from_ne_bytes(seconds.ok_or(Errno(libc::EINVAL))?);
                options.linger = (number != 0).then_some(seconds.max(0).cast_unsigned());
            }
            libc::SO_RCVTIMEO => options.receive_timeout = timeout(value)?,
            libc::SO_SNDTIMEO => options.send_timeout = timeout(value)?,
            libc::SO_PASSCRED => return Err(Errno(libc::EOPNOTSUPP)),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    /// Makes the stack's options of a connection or listener what the socket's are, where
    /// `changed` says that they are of those that it has.
    fn tell_stack(&mut self, fd: i32, changed: bool) -> Result<()> {
        if !changed {
            return Ok(());
        }
        let socket = self.socket_of(fd)?;
        let options = socket.options;
        match &socket.kind {
            Kind::Stream(stream) => self.hand_options(stream.id, &options),
            Kind::Listener(_) => self.tell_listeners(),
            Kind::Fresh(_) => {}
        }
        Ok(())
    }

    /// Gives a connection the options of its socket.
    fn hand_options(&mut self, id: ConnId, options: &Options) {
        let v4 = self.stack.peer(id).is_some_and(|peer| peer.is_ipv4());
        self.stack.set_options(id, options.of_stack(v4));
    }

    /// How long a call that receives waits (`SO_RCVTIMEO`); `None`: for ever.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn receive_timeout(&self, fd: i32) -> Result<Option<Duration>> {
        let micros = self.socket_of(fd)?.options.receive_timeout;
        Ok((micros > 0).then(|| Duration::from_micros(micros)))
    }

    /// How long a call that sends or connects waits (`SO_SNDTIMEO`).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn send_timeout(&self, fd: i32) -> Result<Option<Duration>> {
        let micros = self.socket_of(fd)?.options.send_timeout;
        Ok((micros > 0).then(|| Duration::from_micros(micros)))
    }

    fn info(&self, fd: i32) -> Result<[u8; info::LEN]> {
        let mtu = self.stack.config().mtu;
        let Socket { kind, options, .. } = self.socket_of(fd)?;
        let most = options.max_segment;
        let stream = match kind {
            Kind::Stream(stream) => stream,
            Kind::Listener(_) => return Ok(info::without_connection(info::LISTENING)),
            Kind::Fresh(_) => return Ok(info::without_connection(info::CLOSED)),
        };
        let Some(found) = self.stack.info(stream.id) else {
            return Ok(info::without_connection(info::CLOSED));
        };
        let v6 = stream.peer.is_some_and(|peer| peer.is_ipv6());
        let announced = tcp::Path { mtu, v6 }.announced_mss();
        let announced = if most > 0 { announced.min(most) } else { announced };
        let quiet = self.stack.now().since(stream.last_data);
        let received = Received {
            mss: stream.segments.mss(announced),
            last_data_ms: u32::try_from(quiet.as_millis()).unwrap_or(u32::MAX),
            announced_mss: announced.into(),
        };
        Ok(info::of(&found, mtu.into(), &received))
    }

    /// `SO_MEMINFO`: nine numbers (`SK_MEMINFO_*`, include/uapi/linux/sock_diag.h).
    fn memory(&self, fd: i32) -> Result<Vec<u8>> {
        let socket = self.socket_of(fd)?;
        let mut numbers = [0u32; 9];
        numbers[1] = self.stack.config().tcp.receive_limit;
        numbers[3] = u32::try_from(socket.options.send_limit).unwrap_or(u32::MAX);
        if let Some(stream) = socket.stream() {
            let queued = u32::try_from(self.stack.unsent(stream.id)).unwrap_or(u32::MAX);
            numbers[0] = u32::try_from(stream.readable()).unwrap_or(u32::MAX);
            numbers[2] = queued;
            numbers[5] = queued;
        }
        Ok(numbers.iter().flat_map(|number| number.to_ne_bytes()).collect())
    }

    fn mss(&self, socket: &Socket) -> u16 {
        match socket.stream() {
            Some(stream) => self.stack.info(stream.id).map_or(DEFAULT_MSS, |info| info.mss),
            None if socket.options.max_segment > 0 => socket.options.max_segment,
            None => DEFAULT_MSS,
        }
    }

    /// The error of a socket that was not told yet, which it then is (Linux: `sock_error` in
    /// include/net/sock.h).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn take_error_of(&mut self, fd: i32) -> Result<Option<Errno>> {
        Ok(match &mut self.socket_mut(fd)?.kind {
            Kind::Stream(stream) => stream.error.take(),
            Kind::Fresh(past) => past.error.take(),
            Kind::Listener(listener) => listener.past.error.take(),
        })
    }

    /// The error of a socket, or else what the network said of its peer and
    /// did not end it (Linux: `sk_err_soft`).
    fn take_error(&mut self, fd: i32) -> Result<i32> {
        let stream = match &mut self.socket_mut(fd)?.kind {
            Kind::Stream(stream) => stream,
            Kind::Fresh(past) => return Ok(past.error.take().map_or(0, |error| error.0)),
            Kind::Listener(listener) => return Ok(listener.past.error.take().map_or(0, |error| error.0)),
        };
        let (id, error) = (stream.id, stream.error.take());
        let error = error.or_else(|| self.stack.take_unreachable(id).map(errno::of_unreachable));
        Ok(error.map_or(0, |error| error.0))
    }
}

/// Largest send buffer, of which a rope holds several.
const MOST_SEND_LIMIT: usize = 64 << 20;

/// The value of an option: a number. Of IPv4's one byte is enough, and nothing is 0 but for some.
fn number((level, name): (i32, i32), value: &[u8]) -> Result<i32> {
    match (value.first_chunk(), value.first()) {
        (Some(bytes), _) => Ok(i32::from_ne_bytes(*bytes)),
        (None, Some(byte)) if level == libc::IPPROTO_IP => Ok((*byte).into()),
        (None, None) if level == libc::IPPROTO_IP && !is_at_least_a_byte(name) => Ok(0),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Options of IPv4 that are not set to nothing (Linux: `do_ip_setsockopt` in
/// net/ipv4/ip_sockglue.c).
const fn is_at_least_a_byte(name: i32) -> bool {
    matches!(name, libc::IP_TTL | libc::IP_FREEBIND | libc::IP_TRANSPARENT)
}

/// Whether an option's level is none that a socket has: nothing else is looked at then (Linux:
/// `tcp_setsockopt` and what it calls).
#[must_use]
pub const fn has_no_level(v6: bool, level: i32) -> bool {
    let is_known = matches!(level, libc::SOL_SOCKET | libc::IPPROTO_TCP | libc::IPPROTO_IP);
    !(is_known || v6 && level == libc::IPPROTO_IPV6)
}

/// A time of [`timeout`] for who does not wait at all.
const NO_TIME: u64 = 1;

/// A `struct timeval` of so many microseconds.
fn timeval(micros: u64) -> Vec<u8> {
    let micros = if micros == NO_TIME { 0 } else { micros };
    let words = [(micros / 1_000_000).cast_signed(), (micros % 1_000_000).cast_signed()];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Microseconds of a `struct timeval` (Linux: `sock_set_timeout` in net/core/sock.c).
fn timeout(value: &[u8]) -> Result<u64> {
    let word = |at: usize| value.get(at..at + 8)?.first_chunk().map(|word| i64::from_ne_bytes(*word));
    let (Some(seconds), Some(micros)) = (word(0), word(8)) else { return Err(Errno(libc::EINVAL)) };
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno(libc::EDOM));
    }
    // Less than nothing is nothing, which Linux has as "do not wait": the least there is.
    if seconds < 0 {
        return Ok(NO_TIME);
    }
    Ok(seconds.cast_unsigned().saturating_mul(1_000_000).saturating_add(micros.cast_unsigned()))
}
