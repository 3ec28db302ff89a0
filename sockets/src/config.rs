//! What can be asked of the kernel data path.

use crate::endpoint::Endpoint;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

/// How workers come by new connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Model {
    /// Workers wait in accept(2) on one shared queue, and serve one
    /// connection at a time. The kernel wakes them first in, first out.
    Blocking,
    /// One shared queue, watched by every worker's epoll, level-triggered:
    /// all that wait are woken for each connection.
    Epoll,
    /// One shared queue with EPOLLEXCLUSIVE (Linux 4.5): one is woken, the
    /// last that went to sleep.
    Exclusive,
    /// One queue per worker (SO_REUSEPORT, Linux 3.9), chosen by the kernel's
    /// hash of addresses and ports.
    #[default]
    Reuseport,
    /// One queue per worker, chosen by an eBPF program (Linux 4.19): the
    /// worker of the core that received the connection, else one of its NUMA
    /// domain, else any.
    Local,
    /// One queue per worker, chosen by an eBPF program (Linux 5.5): the one
    /// with the least outstanding work within the domain.
    Least,
}

impl Model {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Blocking, Self::Epoll, Self::Exclusive, Self::Reuseport, Self::Local, Self::Least];

    /// The name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Epoll => "epoll",
            Self::Exclusive => "exclusive",
            Self::Reuseport => "reuseport",
            Self::Local => "local",
            Self::Least => "least",
        }
    }

    /// Whether all workers take from one queue.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Blocking | Self::Epoll | Self::Exclusive)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        Self::ALL.into_iter().find(|model| model.name() == text).ok_or(ModelError)
    }
}

/// Not a [`Model`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelError;

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write blocking, epoll, exclusive, reuseport, local or least")
    }
}

impl core::error::Error for ModelError {}

/// How a worker learns what its sockets have for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Engine {
    /// The one that is the faster for most: epoll.
    #[default]
    Auto,
    /// Readiness: epoll(7).
    Epoll,
    /// Completions: io_uring(7), Linux 6.1 or later. A tenth of the system
    /// calls; worth it where those are dear, as in some sandboxes and with
    /// mitigations of the processor's faults. Where it cannot be had, epoll:
    /// `Worker::engine` says why.
    IoUring,
}

impl FromStr for Engine {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "io_uring" | "io-uring" => Ok(Self::IoUring),
            _ => Err(EngineError),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        })
    }
}

/// Not an [`Engine`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineError;

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write auto, epoll or io_uring")
    }
}

impl core::error::Error for EngineError {}

/// Options of listening sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted, per queue (listen(2)).
    /// Default 4,096, cut by the kernel to net.core.somaxconn. Too small:
    /// handshakes are dropped in a burst and come again after a second.
    pub backlog: u32,
    /// TCP_DEFER_ACCEPT: a connection is handed over when its first data is
    /// there, or after this time (rounded by the kernel to its SYN-ACK
    /// retries). Default off. For protocols where the client speaks first.
    pub defer_accept: Option<Duration>,
    /// TCP_FASTOPEN (RFC 7413): handshakes with data that may be under way.
    /// Default off.
    pub fast_open: Option<u32>,
    /// IPV6_V6ONLY: `[::]` takes no IPv4. Default no.
    pub v6_only: bool,
    /// Permission bits of a Unix socket's file. Default as the umask says.
    pub unix_mode: Option<u32>,
    /// Only clients on this host, and only at the addresses of this interface: what
    /// they send there passes over lo, and counts as the interface's
    /// (SO_BINDTODEVICE). What comes by the interface itself is dropped without an
    /// answer (SO_ATTACH_FILTER): it is for whoever else takes it there. Default all.
    pub local_at: Option<String>,
    /// Another process listens there with SO_REUSEPORT, and hands over: that is no
    /// reason to be refused. Default no.
    pub follows: bool,
    /// A queue for each worker, chosen by the kernel's hash, whatever the model is
    /// elsewhere (as nginx's `reuseport`). Default no.
    pub hashed: bool,
    /// Addresses that have options of their own, all of them: none of those above
    /// hold there. Default none.
    pub own: Vec<(Endpoint, OwnOptions)>,
}

/// Options of one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnOptions {
    /// Of its sockets.
    pub listen: ListenOptions,
    /// Of connections to it; those that all have, where there are none.
    pub stream: Option<StreamOptions>,
}

impl ListenOptions {
    /// The options of an address.
    #[must_use]
    pub fn at(&self, endpoint: &Endpoint) -> &Self {
        self.own_at(endpoint).map_or(self, |own| &own.listen)
    }

    /// The options of connections to an address, if it has any of its own.
    #[must_use]
    pub fn stream_at(&self, endpoint: &Endpoint) -> Option<&StreamOptions> {
        self.own_at(endpoint)?.stream.as_ref()
    }

    fn own_at(&self, endpoint: &Endpoint) -> Option<&OwnOptions> {
        self.own.iter().find(|(at, _)| at == endpoint).map(|(_, own)| own)
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 4_096,
            defer_accept: None,
            fast_open: None,
            v6_only: false,
            unix_mode: None,
            local_at: None,
            follows: false,
            hashed: false,
            own: Vec::new(),
        }
    }
}

/// Options of each connection. `None` leaves the system's default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamOptions {
    /// TCP_NODELAY: small writes leave at once (RFC 9293 §3.7.4 otherwise
    /// lets them wait for an acknowledgement). Default yes.
    pub no_delay: bool,
    /// A head waits for the file that follows by sendfile, so that both share
    /// segments, and TCP_CORK is set while a long file is under way (nginx's
    /// tcp_nopush). Default yes.
    pub no_push: bool,
    /// SO_KEEPALIVE and its times (RFC 9293 §3.8.4). Default off.
    pub keep_alive: Option<KeepAlive>,
    /// SO_KEEPALIVE is switched off, where a socket that was there before may have it.
    /// Default no.
    pub no_keep_alive: bool,
    /// SO_SNDBUF, bytes; fixes the size, which the kernel else adapts.
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF, bytes; likewise.
    pub receive_buffer: Option<u32>,
    /// SO_MAX_PACING_RATE, bytes per second.
    pub pacing_rate: Option<u64>,
    /// SO_BUSY_POLL: how long a read polls the NIC's queue, µs resolution.
    pub busy_poll: Option<Duration>,
    /// TCP_CONGESTION: the algorithm's name. A route that names one (congctl,
    /// ip-route(8)) has precedence for connections that are accepted.
    pub congestion: Option<String>,
    /// TCP_USER_TIMEOUT, in milliseconds: how long sent data may go
    /// unacknowledged, or a closed window be probed (RFC 9293 §3.9.1.8).
    pub user_timeout: Option<Duration>,
    /// TCP_NOTSENT_LOWAT, bytes: unsent data above which a socket is not
    /// writable.
    pub not_sent_low_water: Option<u32>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            no_delay: true,
            no_push: true,
            keep_alive: None,
            no_keep_alive: false,
            send_buffer: None,
            receive_buffer: None,
            pacing_rate: None,
            busy_poll: None,
            congestion: None,
            user_timeout: None,
            not_sent_low_water: None,
        }
    }
}

/// TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT (tcp(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepAlive {
    /// Silence before the first probe; resolution 1 s. None: as it is.
    pub idle: Duration,
    /// Between probes; resolution 1 s. None: as it is.
    pub interval: Duration,
    /// Unanswered probes that end the connection. None: as it is.
    pub probes: u32,
}

/// What a worker is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How it learns of work.
    pub engine: Engine,
    /// How it comes by connections.
    pub model: Model,
    /// The most connections that it holds; beyond, it stops accepting until
    /// one ends. Default 100,000. Cut to what the limit on descriptors
    /// (RLIMIT_NOFILE) allows.
    pub max_connections: usize,
    /// How many connections each client may have; more are reset and counted.
    /// Default `None`: no limit.
    pub per_source: Option<app::SourceRule>,
    /// Options of each connection.
    pub stream: StreamOptions,
    /// Every [`app::Net::connect`] goes to this Unix socket, whatever the
    /// address that it names.
    pub connect_to: Option<PathBuf>,
    /// Poll without sleeping for this long after the last event. Default
    /// zero: sleep in the kernel at once.
    pub spin: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            engine: Engine::Auto,
            model: Model::default(),
            max_connections: 100_000,
            per_source: None,
            stream: StreamOptions::default(),
            connect_to: None,
            spin: Duration::ZERO,
        }
    }
}
