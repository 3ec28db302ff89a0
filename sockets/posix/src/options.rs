//! What a socket's options are.

use tcp::SocketOptions;

/// Options that are accepted and change nothing here: their levels, numbers and names.
pub(crate) const WITHOUT_EFFECT: [(i32, i32, &str); 31] = [
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT"),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, "TCP_LINGER2"),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, "TCP_KEEPIDLE"),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, "TCP_KEEPINTVL"),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, "TCP_KEEPCNT"),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, "TCP_QUICKACK"),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS"),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, "TCP_FASTOPEN"),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, "IP_BIND_ADDRESS_NO_PORT"),
    (libc::IPPROTO_IP, libc::IP_RECVERR, "IP_RECVERR"),
    (libc::IPPROTO_IP, libc::IP_PKTINFO, "IP_PKTINFO"),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, "IPV6_RECVERR"),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO"),
    (libc::SOL_SOCKET, libc::SO_PRIORITY, "SO_PRIORITY"),
    (libc::SOL_SOCKET, libc::SO_INCOMING_CPU, "SO_INCOMING_CPU"),
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL, "SO_BUSY_POLL"),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE, "SO_DONTROUTE"),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, "SO_OOBINLINE"),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, "SO_TIMESTAMP"),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, "SO_BROADCAST"),
    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, "SO_RXQ_OVFL"),
    (libc::SOL_SOCKET, libc::SO_WIFI_STATUS, "SO_WIFI_STATUS"),
    (libc::SOL_SOCKET, libc::SO_NOFCS, "SO_NOFCS"),
    (libc::SOL_SOCKET, libc::SO_LOCK_FILTER, "SO_LOCK_FILTER"),
    (libc::SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, "SO_SELECT_ERR_QUEUE"),
    (libc::IPPROTO_IP, libc::IP_FREEBIND, "IP_FREEBIND"),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, "IP_MTU_DISCOVER"),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF"),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, "SO_KEEPALIVE"),
];

/// Options that a socket hands on to those that it accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Small segments do not wait (`TCP_NODELAY`).
    pub no_delay: bool,
    /// They wait until this is taken back (`TCP_CORK`).
    pub cork: bool,
    /// More follows what was queued last (`MSG_MORE`).
    pub more: bool,
    /// Addresses may be bound again (`SO_REUSEADDR`).
    pub reuse_address: bool,
    /// Several may listen (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Nothing over IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Silent peers are asked for (`SO_KEEPALIVE`): the stack does so for all
    /// connections or none.
    pub keepalive: bool,
    /// Seconds that closing waits for (`SO_LINGER`); with 0 it resets.
    pub linger: Option<u32>,
    /// Bytes that may wait to be acknowledged (`SO_SNDBUF`).
    pub send_limit: usize,
    /// What `SO_RCVBUF` was set to, doubled; 0: nothing.
    pub receive_limit: u32,
    /// Bytes that make a socket readable (`SO_RCVLOWAT`).
    pub receive_low_water: u32,
    /// Bytes not sent yet from which on the socket takes no more
    /// (`TCP_NOTSENT_LOWAT`); 0 is the table's default.
    pub not_sent_low_water: u32,
    /// `recvmsg` tells what is left to be read (`TCP_INQ`).
    pub tell_left: bool,
    /// Type of service, of packets over IPv4 (`IP_TOS`).
    pub tos: u8,
    /// Traffic class, of packets over IPv6 (`IPV6_TCLASS`).
    pub traffic_class: u8,
    /// `TCP_MAXSEG`; 0 is none.
    pub max_segment: u16,
    /// `TCP_USER_TIMEOUT` in milliseconds; 0 is the stack's.
    pub user_timeout: u32,
    /// How long calls wait (`SO_RCVTIMEO`, `SO_SNDTIMEO`), in microseconds; 0:
    /// for ever.
    pub receive_timeout: u64,
    pub send_timeout: u64,
    /// `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`: what was set is told.
    pub keep: [u32; 3],
    /// `TCP_DEFER_ACCEPT`, `TCP_LINGER2`, `TCP_SYNCNT`, `TCP_WINDOW_CLAMP`, `SO_PRIORITY`,
    /// `SO_INCOMING_CPU`, `SO_BUSY_POLL` and `IP_MTU_DISCOVER`: likewise.
    pub kept: [i32; 8],
    /// Flags that change nothing, a bit for each: likewise.
    pub flags: u32,
}

impl Options {
    /// The defaults, with a send buffer.
    pub const fn new(send_limit: usize) -> Self {
        Self {
            no_delay: false,
            cork: false,
            more: false,
            reuse_address: false,
            reuse_port: false,
            v6_only: false,
            keepalive: false,
            linger: None,
            send_limit,
            receive_limit: 0,
            receive_low_water: 1,
            not_sent_low_water: 0,
            tell_left: false,
            tos: 0,
            traffic_class: 0,
            max_segment: 0,
            user_timeout: 0,
            receive_timeout: 0,
            send_timeout: 0,
            // Linux: `net.ipv4.tcp_keepalive_time`, `_intvl` and `_probes`.
            keep: [7200, 75, 9],
            kept: [0, 0, 6, 0, 0, 0, 0, libc::IP_PMTUDISC_WANT],
            flags: 0,
        }
    }

    /// Those that the stack keeps for a connection or a listener.
    pub fn of_stack(&self, v4: bool) -> SocketOptions {
        SocketOptions {
            max_segment: (self.max_segment > 0).then_some(self.max_segment),
            traffic_class: if v4 { self.tos } else { self.traffic_class },
            user_timeout: (self.user_timeout > 0).then_some(self.user_timeout),
            pacing_rate: None,
        }
    }
}
