//! Socket options: set, read back where the kernel cuts without a word, and
//! named where it refuses.

use crate::config::{ListenOptions, StreamOptions};
use core::fmt;
use core::time::Duration;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An option that a socket cannot have: the user's, or the machine's, to mend.
#[derive(Debug)]
pub struct OptionError {
    /// Its name in the manual pages.
    pub option: &'static str,
    /// What it was to be.
    pub value: String,
    /// Why it is not.
    pub source: io::Error,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be {}: {}", self.option, self.value, self.source)
    }
}

impl core::error::Error for OptionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.source)
    }
}

type Result = core::result::Result<(), OptionError>;

/// Sets what listening sockets alone have, before they listen.
pub(crate) fn set_listen(fd: BorrowedFd<'_>, options: &ListenOptions) -> Result {
    if let Some(time) = options.defer_accept {
        let seconds = whole_seconds(time);
        set(fd, "TCP_DEFER_ACCEPT", libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)?;
    }
    if let Some(pending) = options.fast_open {
        fast_open_is_allowed(pending)?;
        set(fd, "TCP_FASTOPEN", libc::IPPROTO_TCP, libc::TCP_FASTOPEN, pending)?;
    }
    Ok(())
}

/// Sets the same for a socket that listens already, with how many may wait; what it was
/// set to before and is set to no more stays, but for its deferring.
pub(crate) fn set_listen_again(fd: BorrowedFd<'_>, options: &ListenOptions, unix: bool) -> Result {
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    rustix::net::listen(fd, backlog).map_err(|e| OptionError {
        option: "the backlog",
        value: options.backlog.to_string(),
        source: e.into(),
    })?;
    if unix {
        return Ok(());
    }
    if options.defer_accept.is_none() {
        set(fd, "TCP_DEFER_ACCEPT", libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 0)?;
    }
    set_listen(fd, options)
}

/// Sets what connections have: on a connection, or on a listening socket,
/// from which Linux has each accepted one inherit it.
pub(crate) fn set_stream(fd: BorrowedFd<'_>, options: &StreamOptions, unix: bool) -> Result {
    if let Some(bytes) = options.send_buffer {
        buffer(fd, "SO_SNDBUF", (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF), bytes, "net.core.wmem_max")?;
    }
    if let Some(bytes) = options.receive_buffer {
        buffer(fd, "SO_RCVBUF", (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), bytes, "net.core.rmem_max")?;
    }
    if unix {
        return Ok(());
    }
    let named = |option, value: String| move |e: rustix::io::Errno| OptionError { option, value, source: e.into() };
    sockopt::set_tcp_nodelay(fd, options.no_delay).map_err(named("TCP_NODELAY", options.no_delay.to_string()))?;
    if let Some(name) = &options.congestion {
        sockopt::set_tcp_congestion(fd, name).map_err(named("TCP_CONGESTION", name.clone()))?;
    }
    if options.no_keep_alive {
        sockopt::set_socket_keepalive(fd, false).map_err(named("SO_KEEPALIVE", "off".into()))?;
    }
    if let Some(times) = options.keep_alive {
        sockopt::set_socket_keepalive(fd, true).map_err(named("SO_KEEPALIVE", "on".into()))?;
        for (name, option, value) in [
            ("TCP_KEEPIDLE", libc::TCP_KEEPIDLE, whole_seconds(times.idle)),
            ("TCP_KEEPINTVL", libc::TCP_KEEPINTVL, whole_seconds(times.interval)),
            ("TCP_KEEPCNT", libc::TCP_KEEPCNT, times.probes),
        ] {
            if value > 0 {
                set(fd, name, libc::IPPROTO_TCP, option, value)?;
            }
        }
    }
    if let Some(time) = options.user_timeout {
        // A time beyond 24 days is none.
        let ms = i32::try_from(time.as_millis()).map_or(0, |ms| ms.max(1).unsigned_abs());
        set(fd, "TCP_USER_TIMEOUT", libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms)?;
    }
    if let Some(rate) = options.pacing_rate {
        set_pacing_rate(fd, rate)?;
    }
    if let Some(time) = options.busy_poll {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        set(fd, "SO_BUSY_POLL", libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros)?;
    }
    if let Some(bytes) = options.not_sent_low_water {
        set(fd, "TCP_NOTSENT_LOWAT", libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)?;
    }
    Ok(())
}

/// Has the first bytes of each connection that a listening socket brings be
/// acknowledged with their answer, and not before it: a segment fewer for a
/// connection with one request. Linux has connections inherit it, if it is set
/// after listen(2), which clears it (tcp(7), `TCP_QUICKACK`). Where no answer
/// follows at once, see [`acknowledge_now`]. Best effort: a kernel that refuses
/// acknowledges at once, as it does by default.
pub(crate) fn acknowledge_with_answers(listening: BorrowedFd<'_>) {
    let _ = sockopt::set_tcp_quickack(listening, false);
}

/// Acknowledges what arrived, and for a while what arrives, at once. A client
/// that does not send the rest of its request before (Nagle's algorithm,
/// RFC 9293 §3.7.4) would else wait for 40 ms.
#[cold]
pub(crate) fn acknowledge_now(fd: BorrowedFd<'_>) {
    let _ = sockopt::set_tcp_quickack(fd, true);
}

/// The port is chosen when the connection is made, where it need differ only
/// for the same peer: else 28,232 connections per source address would be all
/// (ip(7), Linux 4.2).
pub(crate) fn bind_without_port(fd: BorrowedFd<'_>) -> Result {
    set(fd, "IP_BIND_ADDRESS_NO_PORT", libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Only what comes by this interface is for the socket (socket(7)). Any process may
/// ask for it once (Linux 5.7); before, CAP_NET_RAW was needed.
pub(crate) fn bind_to_interface(fd: BorrowedFd<'_>, interface: &str) -> rustix::io::Result<()> {
    let len = libc::socklen_t::try_from(interface.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel reads `len` bytes of the name.
    let outcome = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_ptr().cast(), len)
    };
    if outcome == 0 { Ok(()) } else { Err(last_error()) }
}

/// Of what is for the socket, drops what did not pass over lo, before anybody hears of
/// it: whoever sent it sends it again. Linux has connections inherit it (socket(7),
/// `SO_ATTACH_FILTER`; filter.rst of the kernel, "hatype").
pub(crate) fn take_local_alone(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    const HARDWARE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_HATYPE).cast_unsigned();
    const LOOPBACK: u32 = libc::ARPHRD_LOOPBACK as u32;
    let instruction = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut code = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, HARDWARE, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, LOOPBACK, 1),
        instruction(libc::BPF_RET | libc::BPF_K, u32::MAX, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    let len = size_of_val(&program) as libc::socklen_t;
    // SAFETY: the kernel reads a program of this length, and its instructions, which
    // outlive the call.
    let outcome = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), len)
    };
    if outcome == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Kept in seconds by the kernel: rounded up, so that a time is never none.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// The kernel takes TCP_FASTOPEN whether it is switched on or not
/// (ip-sysctl.rst: 0x2 is for servers).
fn fast_open_is_allowed(pending: u32) -> Result {
    const SERVER: u32 = 2;
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    match text.trim().parse::<u32>() {
        Ok(bits) if bits & SERVER == 0 => Err(OptionError {
            option: "TCP_FASTOPEN",
            value: pending.to_string(),
            source: io::Error::other(format!("net.ipv4.tcp_fastopen is {bits}: it needs 2 for servers")),
        }),
        // Where it cannot be read, the kernel has the last word.
        _ => Ok(()),
    }
}

/// Bytes of a segment that the connection sends at this moment (TCP_MAXSEG, tcp(7)).
pub(crate) fn segment(fd: BorrowedFd<'_>) -> Option<u16> {
    let mut segment: libc::c_int = 0;
    let mut len = size_of_val(&segment) as libc::socklen_t;
    // SAFETY: the descriptor is open for the borrow, and the kernel writes at most `len`
    // bytes at `segment`, and how many at `len`; both outlive the call.
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, (&raw mut segment).cast(), &raw mut len)
    };
    (rc == 0 && segment > 0).then(|| u16::try_from(segment).unwrap_or(u16::MAX))
}

/// A buffer's size: beyond the system's limit if we may, else it must be
/// within, because the kernel would cut it without a word (socket(7)).
fn buffer(
    fd: BorrowedFd<'_>,
    name: &'static str,
    (forced, plain): (i32, i32),
    bytes: u32,
    limit: &'static str,
) -> Result {
    if set(fd, name, libc::SOL_SOCKET, forced, bytes).is_ok() {
        return Ok(());
    }
    set(fd, name, libc::SOL_SOCKET, plain, bytes)?;
    let is = match name {
        "SO_SNDBUF" => sockopt::socket_send_buffer_size(fd),
        _ => sockopt::socket_recv_buffer_size(fd),
    };
    // It keeps, and tells, twice the value, for its own book-keeping.
    match is {
        Ok(is) if is / 2 >= bytes as usize => Ok(()),
        Ok(is) => {
            let source = io::Error::other(format!("{limit} allows {}", is / 2));
            Err(OptionError { option: name, value: bytes.to_string(), source })
        }
        Err(e) => Err(OptionError { option: name, value: bytes.to_string(), source: e.into() }),
    }
}

fn set(fd: BorrowedFd<'_>, name: &'static str, level: i32, option: i32, value: u32) -> Result {
    // The kernel takes an int; what does not fit is the most.
    let number = i32::try_from(value).unwrap_or(i32::MAX);
    set_bytes(fd, name, level, option, &number.to_ne_bytes(), &value)
}

/// Most bytes per second that TCP sends, evenly; all bits set is none (socket(7)).
pub(crate) fn set_pacing_rate(fd: BorrowedFd<'_>, rate: u64) -> Result {
    set_bytes(fd, "SO_MAX_PACING_RATE", libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate.to_ne_bytes(), &rate)
}

fn set_bytes(
    fd: BorrowedFd<'_>,
    name: &'static str,
    level: i32,
    option: i32,
    bytes: &[u8],
    value: &dyn fmt::Display,
) -> Result {
    // SAFETY: the descriptor is open for the borrow, and the kernel reads
    // `bytes.len()` bytes at `bytes`, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, bytes.as_ptr().cast(), bytes.len() as libc::socklen_t)
    };
    if rc == 0 {
        return Ok(());
    }
    Err(OptionError { option: name, value: value.to_string(), source: io::Error::last_os_error() })
}
