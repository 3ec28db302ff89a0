//! What a memif interface is opened with, and its address syntax.

use ::link::Capabilities;
use core::fmt;
use core::str::FromStr;
use driver::Role;
use std::path::PathBuf;

/// How [`link::Link::wait`] learns of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// While waiting, the peer is asked to raise an eventfd; outside of a wait
    /// it is not, so that a busy silo costs its peer no system calls.
    Interrupt,
    /// The peer is never asked to raise an eventfd: a wait looks at the ring
    /// again after [`POLL_NAP`] at the latest. The peer makes no system calls
    /// on our account, at the price of ours.
    Poll,
}

/// Longest sleep of a wait in [`Mode::Poll`] before the ring is looked at again.
pub const POLL_NAP: core::time::Duration = core::time::Duration::from_micros(50);

/// Where the control socket is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket file.
    Path(PathBuf),
    /// A name in Linux's abstract socket namespace, written `@name`.
    Abstract(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

/// Most queue pairs of one interface; DPDK's limit.
pub const QUEUES_LIMIT: u16 = 255;
/// Fewest descriptors of a ring, as a power of two: a burst of 32 fits twice.
pub const LOG2_RING_SIZE_MIN: u8 = 6;
/// Most descriptors of a ring, as a power of two; DPDK's limit. Indices are
/// 16 bits wide, so a ring must stay below 2^16 entries for full and empty to
/// differ.
pub const LOG2_RING_SIZE_MAX: u8 = 14;
/// Largest buffer: the largest IP packet with its Ethernet header fits.
pub const BUFFER_SIZE_MAX: u32 = 1 << 17;
/// Bytes of an Ethernet header with one VLAN tag.
pub const HEADER_ROOM: u32 = 18;
/// MiB of ordinary pages that a peer may share.
pub const PEER_MEMORY: u32 = 1024;
/// MiB of ordinary pages that a peer may share for each queue: two rings of the
/// most descriptors with buffers of 2 KiB take half of it.
pub const QUEUE_MEMORY: u32 = 128;
/// Longest secret; the field in the protocol is 24 bytes, zero-terminated.
pub const SECRET_LIMIT: usize = 23;
/// Longest interface name; the field in the protocol is 32 bytes, zero-terminated.
pub const NAME_LIMIT: usize = 31;
/// Longest socket path; Linux's `sun_path` is 108 bytes, zero-terminated.
pub const PATH_LIMIT: usize = 107;

/// What a memif interface is opened with.
///
/// Its text form is `memif:PATH[,key=value]…`; see [`Config::parse`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The control socket.
    pub socket: Address,
    /// Which end of the control socket this side is. The client owns the shared
    /// memory and the rings; the server maps what the client shares. Older texts
    /// say "master" for the server and "slave" for the client.
    pub role: Role,
    /// Interface number: a socket may carry several, each with its own.
    pub id: u32,
    /// Queue pairs, 1 to [`QUEUES_LIMIT`], default 1. A client's peer may
    /// offer fewer; the queues beyond stay down.
    pub queues: u16,
    /// Descriptors per ring as a power of two, default 8 (256). Too small
    /// drops bursts, too large spreads the frames over more cache than the
    /// core has. The client's choice; a server takes the peer's.
    pub log2_ring_size: u8,
    /// Bytes per buffer, default 2,048. Memory cost: two rings × ring size ×
    /// this, per queue. The client's choice; a server takes the peer's.
    pub buffer_size: u32,
    /// Largest IP packet, default 1,500. Buffers must hold it and
    /// [`HEADER_ROOM`]; a peer with smaller ones is refused.
    pub mtu: u16,
    /// Whether the client tries huge pages for the shared memory, default
    /// yes. Without any, ordinary memory is taken and [`crate::Status`] says so.
    pub hugepages: bool,
    /// How a wait learns of frames, default [`Mode::Interrupt`].
    pub mode: Mode,
    /// What a client must know to be let in, at most [`SECRET_LIMIT`] bytes.
    pub secret: Option<String>,
    /// Name shown to the peer, at most [`NAME_LIMIT`] bytes, default `nearside`.
    pub name: String,
    /// Whether received frames are copied into private memory before they are
    /// read, default no: for a peer that is not trusted to leave a frame alone
    /// once it is sent.
    pub copy: bool,
    /// Whether a server refuses memory that the peer could still shrink,
    /// default no, because DPDK's zero-copy memory cannot be sealed. What is
    /// taken away ends the connection either way, and no more than that.
    pub require_sealed: bool,
    /// Most MiB of ordinary pages that a peer may share with a server, default
    /// [`PEER_MEMORY`], or [`QUEUE_MEMORY`] for each queue if that is more. Pages that the peer has not touched are
    /// charged to this process's cgroup when frames are put there, so that
    /// this is what a peer can cost. Too little refuses peers with large
    /// rings, or that share all their packet buffers (DPDK's zero-copy=yes
    /// without huge pages). Huge pages do not count: the machine has a fixed number.
    pub memory: Option<u32>,
    /// Permissions of a server's socket file, default 0600: this user and
    /// root. Abstract sockets have none.
    pub socket_mode: u32,
    /// Whose processes may be the peer.
    pub peers: Peers,
}

/// Whose processes may be the other end, by the uid that the kernel tells of
/// the socket (SO_PEERCRED): root's and those of this process's own effective
/// uid always.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peers {
    /// Nobody else's.
    Own,
    /// These users' too.
    Users(Vec<u32>),
    /// Everybody's.
    Any,
}

impl Peers {
    /// Whether a process of `uid` may be the peer of one of `own`.
    #[must_use]
    pub fn admit(&self, uid: u32, own: u32) -> bool {
        uid == 0 || uid == own || matches!(self, Self::Any) || matches!(self, Self::Users(all) if all.contains(&uid))
    }
}

impl Config {
    /// The defaults for a socket and role.
    #[must_use]
    pub fn new(socket: Address, role: Role) -> Self {
        Self {
            socket,
            role,
            id: 0,
            queues: 1,
            log2_ring_size: 8,
            buffer_size: 2048,
            mtu: 1500,
            hugepages: true,
            mode: Mode::Interrupt,
            secret: None,
            name: String::from("nearside"),
            copy: false,
            require_sealed: false,
            memory: None,
            socket_mode: 0o600,
            peers: Peers::Own,
        }
    }

    /// What a link over it can do.
    pub(crate) const fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.mtu,
            receive_checksum: false,
            transmit_checksum: false,
            segmentation: None,
            queues: self.queues,
            shared_frames: !self.copy,
        }
    }

    /// Bytes of ordinary pages that a peer may share.
    pub(crate) fn memory_limit(&self) -> u64 {
        u64::from(self.memory.unwrap_or(PEER_MEMORY.max(QUEUE_MEMORY * u32::from(self.queues)))) << 20
    }

    /// Reads `memif:PATH[,key=value]…`, where PATH may be `@name` for an
    /// abstract socket, and keys are `role` (`server` or `client`), `id`,
    /// `queues`, `ring` (descriptors, a power of two), `buffer` (bytes),
    /// `mtu`, `hugepages` (`on` or `off`), `mode` (`poll` or `interrupt`),
    /// `secret`, `name`, `copy` (`on` or `off`), `sealed` (`required` or
    /// `optional`), `memory` (MiB), `socket-mode` (octal) and `peers` (`own`,
    /// `any`, or uids with a colon between two).
    ///
    /// # Errors
    /// [`ConfigError`], which names the key and what it takes.
    pub fn parse(text: &str, default_role: Role) -> Result<Self, ConfigError> {
        let rest = text.strip_prefix("memif:").ok_or(ConfigError::Scheme)?;
        let mut parts = rest.split(',');
        let socket = parse_socket(parts.next().unwrap_or_default())?;
        let mut config = Self::new(socket, default_role);
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| ConfigError::Malformed(part.to_owned()))?;
            if seen.contains(&key) {
                return Err(ConfigError::Twice(key.to_owned()));
            }
            seen.push(key);
            config.set(key, value)?;
        }
        config.check()?;
        Ok(config)
    }

    /// Whether all fields are within their limits.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let need = u32::from(self.mtu) + HEADER_ROOM;
        let checks = [
            ("queues", (1..=QUEUES_LIMIT).contains(&self.queues), "1 to 255"),
            (
                "ring",
                (LOG2_RING_SIZE_MIN..=LOG2_RING_SIZE_MAX).contains(&self.log2_ring_size),
                "a power of two from 64 to 16384",
            ),
            ("mtu", self.mtu >= 576, "576 to 65535"),
            (
                "buffer",
                (need..=BUFFER_SIZE_MAX).contains(&self.buffer_size) && self.buffer_size.is_multiple_of(64),
                "a multiple of 64, at least the MTU and 18, at most 131072",
            ),
            (
                "queues × ring × buffer",
                self.role == Role::Server
                    || crate::sizes::own_bytes(self.queues, self.log2_ring_size, self.buffer_size).is_some(),
                "less than 2 GiB of buffers each way",
            ),
            ("name", self.name.len() <= NAME_LIMIT && !self.name.contains('\0'), "at most 31 bytes"),
            (
                "secret",
                self.secret.as_ref().is_none_or(|s| !s.is_empty() && s.len() <= SECRET_LIMIT && !s.contains('\0')),
                "1 to 23 bytes",
            ),
        ];
        for (key, good, takes) in checks {
            if !good {
                return Err(ConfigError::Value { key: key.to_owned(), takes });
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let bad = |takes| ConfigError::Value { key: key.to_owned(), takes };
        match key {
            "role" => {
                self.role = match value {
                    "server" => Role::Server,
                    "client" => Role::Client,
                    _ => return Err(bad("server or client")),
                }
            }
            "id" => self.id = value.parse().map_err(|_| bad("a number below 2^32"))?,
            "queues" => self.queues = value.parse().map_err(|_| bad("1 to 255"))?,
            "ring" => {
                let takes = "a power of two from 64 to 16384";
                let size: u32 = value.parse().map_err(|_| bad(takes))?;
                if !size.is_power_of_two() {
                    return Err(bad(takes));
                }
                self.log2_ring_size = u8::try_from(size.ilog2()).map_err(|_| bad(takes))?;
            }
            "buffer" => self.buffer_size = value.parse().map_err(|_| bad("bytes"))?,
            "mtu" => self.mtu = value.parse().map_err(|_| bad("576 to 65535"))?,
            "hugepages" => self.hugepages = switch(value).ok_or_else(|| bad("on or off"))?,
            "copy" => self.copy = switch(value).ok_or_else(|| bad("on or off"))?,
            "mode" => {
                self.mode = match value {
                    "poll" => Mode::Poll,
                    "interrupt" => Mode::Interrupt,
                    _ => return Err(bad("poll or interrupt")),
                }
            }
            "sealed" => {
                self.require_sealed = match value {
                    "required" => true,
                    "optional" => false,
                    _ => return Err(bad("required or optional")),
                }
            }
            "memory" => {
                let takes = "MiB, at least 1";
                self.memory = Some(value.parse().ok().filter(|mib| *mib > 0).ok_or_else(|| bad(takes))?);
            }
            "socket-mode" => {
                let takes = "permissions in octal, as 0660";
                let octal = value.len() <= 4 && value.bytes().all(|digit| digit.is_ascii_digit());
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| octal && *mode <= 0o777);
                self.socket_mode = mode.ok_or_else(|| bad(takes))?;
            }
            "peers" => {
                self.peers = match value {
                    "own" => Peers::Own,
                    "any" => Peers::Any,
                    uids => {
                        let uids: Result<_, _> = uids.split(':').map(str::parse).collect();
                        Peers::Users(uids.map_err(|_| bad("own, any, or uids, as 1000:1001"))?)
                    }
                }
            }
            "secret" => self.secret = Some(value.to_owned()),
            "name" => value.clone_into(&mut self.name),
            _ => return Err(ConfigError::Key(key.to_owned())),
        }
        Ok(())
    }
}

/// The keys that [`Config::parse`] takes.
const KEYS: [&str; 15] = [
    "role",
    "id",
    "queues",
    "ring",
    "buffer",
    "mtu",
    "hugepages",
    "mode",
    "secret",
    "name",
    "copy",
    "sealed",
    "memory",
    "socket-mode",
    "peers",
];

impl FromStr for Config {
    type Err = ConfigError;

    /// As [`Config::parse`], a client unless `role=` says otherwise.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text, Role::Client)
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn parse_socket(text: &str) -> Result<Address, ConfigError> {
    if let Some(name) = text.strip_prefix('@') {
        if name.is_empty() || name.len() > PATH_LIMIT || name.contains('\0') {
            return Err(ConfigError::Path);
        }
        return Ok(Address::Abstract(name.to_owned()));
    }
    if text.is_empty() || text.len() > PATH_LIMIT || text.contains('\0') || text.contains('=') {
        return Err(ConfigError::Path);
    }
    Ok(Address::Path(PathBuf::from(text)))
}

/// What is wrong with an address or configuration: the user's to correct.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// The text does not start with `memif:`.
    Scheme,
    /// The socket is missing or too long.
    Path,
    /// Not of the form `key=value`.
    Malformed(String),
    /// No such key.
    Key(String),
    /// A key was given more than once.
    Twice(String),
    /// A value is outside what its key takes.
    Value {
        /// The key.
        key: String,
        /// What it takes.
        takes: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("a memif address starts with memif:, as in memif:/run/nearside.sock"),
            Self::Path => f.write_str("memif: needs a socket path, or @name, of 1 to 107 bytes"),
            Self::Malformed(part) => write!(f, "memif: `{part}` is not of the form key=value"),
            Self::Key(key) => write!(f, "memif: no key `{key}`; there are {}", KEYS.join(", ")),
            Self::Twice(key) => write!(f, "memif: `{key}` is given twice"),
            Self::Value { key, takes } => write!(f, "memif: `{key}` takes {takes}"),
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
