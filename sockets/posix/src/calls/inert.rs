//! Options that nothing here acts on: what is told of them, and which values they take.
//!
//! Those that are harmless are accepted, told again as they were set, and counted
//! ([`SocketFigures::options_ignored`](crate::SocketFigures)). Those that would change packets, or who
//! may read them, have the value that they have on a new socket of Linux, and no other is taken.

use super::Calls;
use crate::errno::{Errno, Result};
use crate::options::Options;
use crate::socket::Kind;

/// An option by its level and its number.
type Name = (i32, i32);

/// Numbers that are told as they were set: [`Options::kept`].
const KEPT: [Name; 8] = [
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_INCOMING_CPU),
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
];

/// Flags that are told as they were set: the bits of [`Options::flags`].
const FLAGS: [Name; 16] = [
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL),
    (libc::SOL_SOCKET, libc::SO_WIFI_STATUS),
    (libc::SOL_SOCKET, libc::SO_NOFCS),
    (libc::SOL_SOCKET, libc::SO_LOCK_FILTER),
    (libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IP, libc::IP_PKTINFO),
    (libc::IPPROTO_IP, libc::IP_FREEBIND),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
];

/// What has one value, and takes no other.
const FIXED: [(Name, i32); 10] = [
    ((libc::SOL_SOCKET, libc::SO_MARK), 0),
    ((libc::SOL_SOCKET, libc::SO_PEEK_OFF), -1),
    ((libc::SOL_SOCKET, libc::SO_ZEROCOPY), 0),
    ((libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK), 0),
    ((libc::IPPROTO_TCP, libc::TCP_REPAIR), 0),
    ((libc::IPPROTO_TCP, libc::TCP_FASTOPEN), 0),
    ((libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT), 0),
    ((libc::IPPROTO_TCP, libc::TCP_SAVE_SYN), 0),
    ((libc::IPPROTO_IP, libc::IP_TTL), 64),
    ((libc::IPPROTO_IP, libc::IP_TRANSPARENT), 0),
];

/// Linux: `TCP_FIN_TIMEOUT_MAX` of include/net/tcp.h and `net.ipv4.tcp_fin_timeout`, in seconds.
const MOST_LINGER2: i32 = 120;
const USUAL_LINGER2: i32 = 60;

/// Linux: `MAX_TCP_SYNCNT`.
const MOST_SYNCNT: i32 = 127;

fn position(names: &[Name], name: Name) -> Option<usize> {
    names.iter().position(|known| *known == name)
}

/// What is told of an option, if it is one of these.
pub(super) fn told(options: &Options, name: Name) -> Option<i32> {
    if let Some(at) = position(&KEPT, name) {
        return Some(match options.kept[at] {
            0 if name == (libc::IPPROTO_TCP, libc::TCP_LINGER2) => USUAL_LINGER2,
            value => value,
        });
    }
    if let Some(at) = position(&FLAGS, name) {
        return Some(i32::from(options.flags >> at & 1 != 0));
    }
    FIXED.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

impl Calls<'_> {
    /// Sets an option, if it is one of these. Whether it is.
    ///
    /// # Errors
    /// Linux': `do_tcp_setsockopt` in net/ipv4/tcp.c, `sk_setsockopt` in net/core/sock.c and
    /// `do_ip_setsockopt` in net/ipv4/ip_sockglue.c. `ENOPROTOOPT` for what is refused here.
    pub(super) fn set_inert(&mut self, fd: i32, name: Name, number: i32) -> Result<bool> {
        let socket = self.socket_mut(fd)?;
        let is_stream = matches!(socket.kind, Kind::Stream(_));
        let options = &mut socket.options;
        if let Some(at) = position(&KEPT, name) {
            options.kept[at] = kept(name, number)?;
        } else if let Some(at) = position(&FLAGS, name) {
            let on = flag(options, name, number)?;
            options.flags = (options.flags & !(1 << at)) | u32::from(on) << at;
        } else if let Some((_, value)) = FIXED.iter().find(|(known, _)| *known == name) {
            if takes(name, number, is_stream)? != *value {
                return Err(Errno(libc::ENOPROTOOPT));
            }
            // To take data with SYNs is harmless: none of ours has any.
            if name != (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) {
                return Ok(true);
            }
        } else if name != (libc::IPPROTO_TCP, libc::TCP_QUICKACK) {
            return Ok(false);
        }
        self.table.note_without_effect(name.0, name.1);
        Ok(true)
    }
}

/// The value that is kept.
fn kept((level, name): Name, number: i32) -> Result<i32> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) if !(1..=MOST_SYNCNT).contains(&number) => Err(Errno(libc::EINVAL)),
        (libc::IPPROTO_TCP, libc::TCP_LINGER2) => Ok(number.clamp(-1, MOST_LINGER2)),
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => Ok(deferred(number)),
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) => match number {
            libc::IP_PMTUDISC_WANT | libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE => Ok(number),
            // Packets of ours are not fragmented on their way.
            libc::IP_PMTUDISC_DONT | libc::IP_PMTUDISC_INTERFACE | libc::IP_PMTUDISC_OMIT => {
                Err(Errno(libc::ENOPROTOOPT))
            }
            _ => Err(Errno(libc::EINVAL)),
        },
        (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) | (libc::SOL_SOCKET, libc::SO_BUSY_POLL) => Ok(number.max(0)),
        _ => Ok(number),
    }
}

/// Seconds as Linux tells them that keeps retransmissions (`secs_to_retrans` and `retrans_to_secs` in
/// net/ipv4/tcp.c): each doubles the time, from a second to two minutes.
fn deferred(seconds: i32) -> i32 {
    let (mut all, mut timeout) = (0, 1);
    for _ in 0..u8::MAX {
        if all >= seconds {
            break;
        }
        all += timeout;
        timeout = (timeout * 2).min(120);
    }
    all
}

/// Whether a flag is set from now on.
fn flag(options: &Options, name: Name, number: i32) -> Result<bool> {
    let is_set = told(options, name) == Some(1);
    match name {
        (libc::IPPROTO_TCP, _) if !matches!(number, 0 | 1) => Err(Errno(libc::EINVAL)),
        // Who has locked it does not open it again.
        (libc::SOL_SOCKET, libc::SO_LOCK_FILTER) if is_set && number == 0 => Err(Errno(libc::EPERM)),
        _ => Ok(number != 0),
    }
}

/// What a number means for an option that takes one value alone, where Linux takes the number.
fn takes((level, name): Name, number: i32, is_stream: bool) -> Result<i32> {
    let invalid = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) | (libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK) => !matches!(number, 0 | 1),
        (libc::IPPROTO_TCP, libc::TCP_REPAIR) => !matches!(number, -1..=1),
        (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN) => !matches!(number, 0..=2),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT) => is_stream,
        (libc::IPPROTO_IP, libc::IP_TTL) => number != -1 && !matches!(number, 1..=255),
        _ => false,
    };
    if invalid {
        return Err(Errno(libc::EINVAL));
    }
    Ok(match (level, name) {
        // The first has no effect in Linux either.
        (libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK | libc::TCP_FASTOPEN) => 0,
        (libc::IPPROTO_TCP, libc::TCP_REPAIR) if number == -1 => 0,
        (libc::IPPROTO_IP, libc::IP_TTL) if number == -1 => 64,
        _ => number,
    })
}
