//! Settings of a stack.

pub use crate::reset_limit::ResetRate;
use core::net::IpAddr;
use wire::Mac;

/// An address of ours with the prefix that is on-link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Length of the on-link prefix, in bits.
    pub prefix_len: u8,
}

/// Where packets for a network go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// An address of the network.
    pub destination: IpAddr,
    /// Length of its prefix, in bits.
    pub prefix_len: u8,
    /// The router; `None` for a network that the link is on.
    pub gateway: Option<IpAddr>,
}

/// What is done about others who have our addresses (RFC 5227, RFC 4862
/// section 5.4), once the link is up and from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detection {
    /// Nothing is said or asked; conflicts are counted.
    #[default]
    Off,
    /// The addresses are announced and used at once, as a host does that takes
    /// them over from another; beside it others are asked for (as RFC 4429
    /// does it). Unlike there, an address that another has is defended
    /// (RFC 5227 section 2.4 (c)): ours were given to us by somebody who can be
    /// told of the conflict.
    Announce,
    /// An address is used once nobody has claimed it for 5 to 7 s. One that
    /// somebody has is asked for again each minute. Then as
    /// [`Detection::Announce`].
    Wait,
}

/// Settings of a stack: one per silo.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our Ethernet address.
    pub mac: Mac,
    /// 802.1Q VLAN that all frames carry; none by default.
    pub vlan: Option<u16>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Received frames lie where another process can still write
    /// (`link::Capabilities::shared_frames`): applications are told. Off by
    /// default.
    pub shared_frames: bool,
    /// Our addresses; the first of each family is the default source. At most
    /// [`MAX_ADDRESSES`].
    pub addresses: Vec<Address>,
    /// Where packets for other networks go.
    pub gateways: Vec<IpAddr>,
    /// Where packets for particular networks go; a later route to the same
    /// network takes the place of an earlier one. None by default.
    pub routes: Vec<Route>,
    /// Neighbours are those of the host whose addresses are used: no ARP and
    /// no neighbour solicitation is sent. Instead
    /// [`crate::Stack::poll_neighbour_wanted`] says who is wanted, and
    /// [`crate::Stack::learn_neighbour`] and
    /// [`crate::Stack::forget_neighbour`] take what the host knows. Off by
    /// default.
    pub host_neighbours: bool,
    /// What is done about others who have our addresses. Off by default: the
    /// caller knows whether they are the host's.
    pub detection: Detection,
    /// This stack announces and asks for the others that have the same
    /// addresses, too. On by default.
    pub announces: bool,
    /// Ports that accept connections.
    pub listen: Vec<u16>,
    /// TCP settings.
    pub tcp: tcp::Config,
    /// Established connections; more SYNs are dropped and counted. 65,536 by
    /// default; the table takes 16 to 32 bytes for each at start, a connection
    /// 128 bytes once it exists.
    pub max_connections: usize,
    /// How many connections each client may have; more are reset and counted.
    /// `None` by default: no limit.
    pub per_source: Option<app::SourceRule>,
    /// Half-open handshakes; beyond, SYN cookies answer. 4,096 by default,
    /// about 100 bytes each.
    pub max_half_open: usize,
    /// SYN,ACK retransmissions; 5 by default.
    pub syn_ack_retries: u8,
    /// TIME-WAIT records; beyond, the oldest gives way, and a very late
    /// segment of its connection is answered by a reset. 65,536 by default,
    /// 72 bytes each.
    pub max_time_wait: usize,
    /// Bytes of all connections together that may wait for applications or
    /// gaps. From three quarters on windows stop opening, and connections that
    /// hold 2 KiB or more make room or wait; the rest is for those that hold
    /// less. Early bytes give way first, then connections whose requests have
    /// been incomplete for longest. 256 MiB by default.
    pub receive_memory: usize,
    /// Bytes of all connections together that may be under way without counting
    /// as what their applications have queued ([`tcp::Config::send_limit`]).
    /// From then on a connection keeps the room that it has, and gets no more.
    /// 256 MiB by default.
    pub send_memory: usize,
    /// Challenge acknowledgements per second of all connections together (RFC
    /// 5961 section 7), on average: their number in each second is secret. Each
    /// connection sends at most two. 10,000 by default.
    pub challenge_acks_per_second: u32,
    /// ICMP errors per second, on average: their number in each second is
    /// secret. 10,000 by default.
    pub errors_per_second: u32,
    /// The same for one source, an IPv4 address or an IPv6 /64. 50 by default,
    /// which answers each probe of a traceroute.
    pub errors_per_source: u32,
    /// Resets for unknown connections. 10,000 a second, and 100,000 at once, by
    /// default: what ten fronts ask for, and a small part of a link.
    pub resets: ResetRate,
    /// The same for one source, an IPv4 address or an IPv6 /64. 1,000 a second,
    /// and 10,000 at once, by default: as many kept connections as a front has,
    /// all of which ask when the server has been started anew. Too few, and the
    /// others wait for their own timeouts; too many take more of the processor
    /// where sources are forged. Never more than half of those for all.
    pub resets_per_source: ResetRate,
    /// ICMP echo replies per second; 10,000 by default.
    pub echo_per_second: u32,
    /// Other silos have the same addresses, and connections of their own: a
    /// segment of an unknown flow is told ([`crate::Arrived::Stray`]) before
    /// it is answered, and fragments of unknown flows are passed over. Off by
    /// default.
    pub steered: bool,
}

/// Most addresses of one stack: their index is kept in 16 bits.
pub const MAX_ADDRESSES: usize = 1 << 16;

impl Config {
    /// The defaults, for an interface with this Ethernet address.
    #[must_use]
    pub fn new(mac: Mac, mtu: u16) -> Self {
        Self {
            mac,
            vlan: None,
            mtu,
            shared_frames: false,
            addresses: Vec::new(),
            gateways: Vec::new(),
            routes: Vec::new(),
            host_neighbours: false,
            detection: Detection::Off,
            announces: true,
            listen: Vec::new(),
            tcp: tcp::Config::default(),
            max_connections: 65_536,
            per_source: None,
            max_half_open: 4_096,
            syn_ack_retries: 5,
            max_time_wait: 65_536,
            receive_memory: 256 << 20,
            send_memory: 256 << 20,
            challenge_acks_per_second: 10_000,
            errors_per_second: 10_000,
            errors_per_source: 50,
            resets: ResetRate { per_second: 10_000, depth: 100_000 },
            resets_per_source: ResetRate { per_second: 1_000, depth: 10_000 },
            echo_per_second: 10_000,
            steered: false,
        }
    }
}

/// Random bits that a stack is seeded with, from the operating system in
/// production and from the seed in the simulator.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// Keys of the flow table.
    pub table: [u64; 4],
    /// Keys of sequence numbers and cookies.
    pub secret: [u64; 4],
    /// Keys of the offsets of timestamps. Best the same for all stacks of a
    /// host, one after another too: a peer with a TIME-WAIT of an earlier one
    /// takes a SYN whose timestamp is later, and refuses an earlier one (PAWS,
    /// RFC 6191).
    pub timestamps: [u64; 2],
}
