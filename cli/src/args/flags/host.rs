//! What `serve` and `load` share over a link: addresses, core, faults.

use super::Switch;
use clap::{Args, ValueEnum, ValueHint};
use driver::{Kernel, Role};
use host::drivers::{self, LinkSpec};
use host::values::{self, BitRate, Cidr, Size};
use host::{BesideLinks, HostPlan, OnLinkLoss, Silos};
use link::{FaultPlan, Impairment, Probability, Rate};
use silo::Idle;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;
use tcp::congestion::Algorithm;
use wire::Mac;

/// What `--link` takes, in a line.
fn link_help() -> String {
    format!("Where frames come from and go to: {}", drivers::forms())
}

/// The same with what each driver says of itself.
fn links_help() -> String {
    let (short, drivers) = (link_help(), drivers::help());
    format!("{short}\n\n{drivers}\n\n{SEVERAL}")
}

const SEVERAL: &str = "With --silos, a port has a queue for each silo unless queues=N says otherwise; a silo without a \
                       queue of its own shares one. Repeat for more ports, all of one kind.";

#[derive(Args)]
#[command(next_help_heading = "Links (with --link)")]
pub(in crate::args) struct HostArgs {
    #[arg(long, value_name = "LINK", value_parser = drivers::known, help = link_help(), long_help = links_help())]
    pub(super) link: Vec<String>,

    /// Our address with its subnet's prefix length; repeat for more
    ///
    /// serve over one af_xdp link needs none: without it the host's own
    /// addresses on the interface are served, of which only TCP to the ports
    /// of --listen is taken, and neighbours and routes are the kernel's. Clients
    /// on the host itself reach those over lo (--local-clients), but not an
    /// address given here: what they send to it leaves by the interface.
    #[arg(long = "addr", value_name = "ADDRESS/PREFIX", requires = "link")]
    addresses: Vec<Cidr>,

    /// Serve clients on this host too, where the host's own addresses are served [default: on]
    ///
    /// Over af_xdp without --addr. What the host's own programs send to the
    /// interface's addresses goes over lo: kernel sockets listen there beside
    /// the link, on the same ports. Each silo has its part of their
    /// connections, at most 4,096 in all, beside those of --max-connections;
    /// they are logged and counted with the others, and as sockets.* of
    /// nearside status. Where they cannot be had it is said, and the link is
    /// served without.
    #[arg(long, value_name = "on|off", requires = "link")]
    local_clients: Option<Switch>,

    /// The next hop for what is in no subnet of ours; one per family
    #[arg(long = "gateway", value_name = "ADDRESS", requires = "link", value_parser = values::ip_address)]
    gateways: Vec<IpAddr>,

    /// Whether our addresses are announced, and others asked whether they have them
    ///
    /// Of the addresses of --addr; those that the host has are the kernel's to
    /// announce. A conflict is told with the time, and counted. An address
    /// that another has is defended once in 10 s and stays in use, but for
    /// those that wait found in use before their first use: they are not
    /// used, and asked for again each minute.
    #[arg(long = "dad", value_enum, value_name = "WHEN", default_value_t = Detect::Announce, requires = "link")]
    detection: Detect,

    /// What to do when the links' interfaces are deleted
    ///
    /// Of tap and af_xdp. It is told with the time either way, and link.lost
    /// of nearside status counts them. With wait, an interface of the same
    /// name is taken up when it is there, and our addresses are announced on
    /// it; of several links only the one that is gone is out meanwhile. A
    /// server of the host's own addresses waits too, and needs a new start
    /// once they are back.
    #[arg(long, value_enum, value_name = "THEN", default_value_t = OnLinkLoss::Wait, requires = "link")]
    on_link_loss: OnLinkLoss,

    /// Our Ethernet address [default: a local one, made from the first address]
    #[arg(long, value_name = "ADDRESS", requires = "link")]
    mac: Option<Mac>,

    /// Serve with several silos: auto, how many as in 4, or on which cores as
    /// in 2-5 or 0,2 [default: one, not pinned]
    ///
    /// A silo is a thread pinned to one core, with a queue, a stack, timers
    /// and memory of its own. A plain number is how many there are, on cores
    /// near the ports; a list, with a dash or a comma, is the cores (3-3 is
    /// core 3 alone); auto is one for each physical core of the domains that
    /// have ports, and no more than a quota of the control group keeps busy.
    /// Limits such as --max-connections are those of all silos together.
    #[arg(long, value_name = "N|CORES|auto", requires = "link", conflicts_with = "core")]
    silos: Option<Silos>,

    /// Which silo a new connection goes to
    ///
    /// With local, and with hash where the link itself spreads flows over a
    /// queue for each silo, no frame passes from one silo to another. Which
    /// way was chosen, and why, is told at the start.
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = Steer::Hash, requires = "link")]
    steer: Steer,

    /// How several links are one: static, or lacp (IEEE 802.1AX)
    ///
    /// lacp takes options, separated by commas: rate=fast|slow (fast),
    /// mode=active|passive (active), priority=N, key=N. With both,
    /// min-links=N has none take part while fewer do, and weights=N:N… spreads
    /// what is sent by these, a number for each link: for equal links in unlike
    /// slots. A flow keeps its link while that takes part, and connections
    /// outlive a link that fails.
    #[arg(long, value_name = "static|lacp[,OPTION…]", default_value = "static", requires = "link")]
    bond: bond::Setup,

    /// Pin the one silo to this core and its memory domain [default: not pinned]
    #[arg(long, value_name = "N", requires = "link")]
    core: Option<u16>,

    /// Keep silos, their queues, memory and content together by NUMA domain [default: on]
    ///
    /// off: silos take cores in the order of their numbers, queues go round
    /// all silos, and memory is interleaved over all domains, as with a server
    /// that knows nothing of domains. What crosses is counted all the same,
    /// and shown by nearside numa: for comparison.
    #[arg(long, value_name = "on|off", requires = "link")]
    numa: Option<Switch>,

    /// Print which silo gets which core, memory domain and queues, and exit
    #[arg(long = "plan", requires = "link")]
    plan_only: bool,

    /// What to do while there is nothing to do: adaptive, adaptive:LATENCY:WAIT, spin, spin:SPIN:WAIT, or sleep:TIME
    ///
    /// spin polls on: the lowest latency, and one core always busy; spin:50us
    /// polls for so long, and then sleeps until something comes, over a link
    /// at most for WAIT (1s). adaptive, which links have by default, learns the
    /// gaps between frames: it polls through those that are shorter than a
    /// sleep costs, and else sleeps at once, which costs a request a wake-up of
    /// some microseconds and leaves the core to others at the loads that
    /// servers have. LATENCY (0us, at most 10ms): sleep for that long by the
    /// clock where the next frame is expected within it, and take what has come
    /// as one burst. sleep:TIME (over a link; 1us to
    /// 1s, a bare number is of microseconds) sleeps for so long after each
    /// look that finds nothing, whatever arrives meanwhile: next to no
    /// processor time under light load, and no interrupts for the peer to
    /// send, but each request waits for half of TIME on average and all of it
    /// at worst, and what does not fit into the link's ring meanwhile is
    /// dropped. Without --link adaptive sleeps at once: the kernel wakes whom
    /// it has work for.
    #[arg(long, value_name = "POLICY")]
    pub(super) idle: Option<Idle>,

    /// Give silos' or workers' threads a real-time priority: fifo:N, N from 1 to 98 [default: ordinary threads]
    ///
    /// For threads that poll (--idle spin) on isolated cores; needs CAP_SYS_NICE.
    /// Refused for cores that are not isolated, for all cores, and where RCU's
    /// threads would not come before (N below rcutree.kthread_prio). What
    /// throttling or the deadline server takes is said at the start.
    #[arg(long = "sched", value_name = "fifo:N", value_parser = fifo)]
    pub(super) fifo: Option<u8>,

    /// Hold frames back for up to this long, so that they leave together [default: 0, not at all]
    ///
    /// A time as in 100us, at most 100ms; a bare number is of microseconds.
    /// Counted from the first frame held; cut short when half of the transmit
    /// ring is in use. Saves notifications of the peer, or system calls of the
    /// driver, where a turn has few frames to send. Each answer comes up to
    /// this much later, and few connections get less throughput, as none asks
    /// again before it has its answer. 0 costs nothing.
    #[arg(long, value_name = "TIME", requires = "link", value_parser = values::micros)]
    tx_delay: Option<Duration>,

    /// Leave checksums and segmentation to links that do them [default: on]
    ///
    /// tap and dpdk ports may; others never do. off: our stack computes every
    /// checksum and cuts every segment to the MTU itself, and a tap takes and
    /// gives frames as a wire would, which costs bulk transfers a system call
    /// for each segment in place of one for some forty of them.
    #[arg(long, value_name = "on|off", requires = "link")]
    offload: Option<Switch>,

    /// Congestion control: with --link cubic or newreno, the usual being
    /// cubic; else one of net.ipv4.tcp_available_congestion_control, the
    /// usual being the system's
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,

    /// Send at most this many bytes per second on each connection, paced
    /// (SO_MAX_PACING_RATE)
    ///
    /// With --link a flow leaves in bursts of what is sent in a millisecond, at
    /// least a segment and at most 64K; without, as the kernel has it. What is
    /// sent again counts; acknowledgements do not.
    #[arg(long, value_name = "SIZE", value_parser = values::pacing_rate)]
    pub(super) max_pacing_rate: Option<NonZeroU64>,

    /// Give a connection up once data that was sent went unacknowledged for
    /// this long (the user timeout of RFC 9293, TCP_USER_TIMEOUT)
    /// [default: after 15 retransmissions, which take a quarter of an hour]
    ///
    /// A probe of a window that the peer has closed counts too; over a link
    /// only while the peer answers none. Idle time does not. Too short, and a
    /// path that fails over within it ends its connections.
    #[arg(long, value_name = "TIME", value_parser = values::nonzero_duration)]
    pub(super) user_timeout: Option<Duration>,

    /// Segments with no more payload than this, options included, in both
    /// directions [default: what the link's MTU allows]
    ///
    /// Where a tunnel on the way takes less and tells nobody, each path is
    /// found out by itself; this saves its first connections the second that
    /// it takes. At least 88.
    #[arg(long, value_name = "BYTES", requires = "link", value_parser = clap::value_parser!(u16).range(88..=65_495))]
    mss: Option<u16>,

    /// The most that a connection's receive window opens to, as its round trip
    /// and rate ask for it [default: 8M]
    ///
    /// Each begins with 1M, or with this if it is less. Throughput is at most
    /// this per round trip; a peer whose data is not taken costs at most this.
    #[arg(long, value_name = "SIZE", requires = "link")]
    receive_limit: Option<Size>,

    /// The most that a connection has under way to its peer beyond what it
    /// queues anyway [default: 4M]
    ///
    /// Throughput is at most this per round trip; a peer that acknowledges
    /// nothing costs at most this.
    #[arg(long, value_name = "SIZE", requires = "link")]
    send_limit: Option<Size>,

    /// Resets a second to one source, an IPv4 address or an IPv6 /64, for
    /// connections that are not there, and ten times as many at once [default: 1000]
    ///
    /// After a restart each kept connection of a front asks once, and learns by
    /// a reset that it is gone; without one it waits for its own timeout. Give
    /// more where a front keeps more than 10,000 connections. A reset is no
    /// larger than what asked for it. 0: none.
    #[arg(long, value_name = "N", requires = "link")]
    resets_per_source: Option<u32>,

    /// ICMP errors a second to one source [default: 50]
    ///
    /// Each quotes the packet that it is about: 50 answer every probe of a
    /// traceroute, and are worth nothing to one who forges sources. 0: none.
    #[arg(long, value_name = "N", requires = "link")]
    errors_per_source: Option<u32>,

    /// Write every frame to this file, in pcapng format
    #[arg(long, value_name = "FILE", requires = "link", value_hint = ValueHint::FilePath)]
    capture: Option<PathBuf>,

    /// Keep the statistics page in this file [default: one per process, where status finds it]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) status_page: Option<PathBuf>,

    #[command(flatten)]
    faults: FaultArgs,
}

/// When others are asked whether they have our addresses (duplicate address
/// detection: RFC 5227, RFC 4862 section 5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Detect {
    /// Announce them at once, and again whenever the link returns; ask beside it
    Announce,
    /// Ask first, for 5 to 7 s, and use what nobody has
    Wait,
    /// Say and ask nothing
    Off,
}

impl From<Detect> for stack::Detection {
    fn from(detect: Detect) -> Self {
        match detect {
            Detect::Announce => Self::Announce,
            Detect::Wait => Self::Wait,
            Detect::Off => Self::Off,
        }
    }
}

/// How connections are spread over silos.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Steer {
    /// By a hash of addresses and ports: the link's own, where it has a queue for each silo, else in software
    Hash,
    /// The silo that receives the first segment
    Local,
    /// The one of the receiving silo's domain with the least to do: for requests of very unlike cost
    Least,
}

impl From<Steer> for steer::Policy {
    fn from(steer: Steer) -> Self {
        match steer {
            Steer::Hash => Self::Hash,
            Steer::Local => Self::Local,
            Steer::Least => Self::Least,
        }
    }
}

/// Harm done to frames, on both directions of this side's link.
#[derive(Args)]
#[command(next_help_heading = "Fault injection (both directions of this side's link)")]
pub(in crate::args) struct FaultArgs {
    /// Lose this share of frames, as in 1%
    #[arg(long, value_name = "PERCENT", requires = "link")]
    loss: Option<Probability>,

    /// Let this share of frames come after their successors
    #[arg(long, value_name = "PERCENT", requires = "link")]
    reorder: Option<Probability>,

    /// Let this share of frames come twice
    #[arg(long, value_name = "PERCENT", requires = "link")]
    duplicate: Option<Probability>,

    /// Flip a bit in this share of frames
    #[arg(long, value_name = "PERCENT", requires = "link")]
    corrupt: Option<Probability>,

    /// Let each frame come this much later, as in 10ms
    #[arg(long, value_name = "TIME", requires = "link", value_parser = values::duration)]
    delay: Option<Duration>,

    /// Pass at most this many bits per second, as in 100M; 100 ms of them may queue
    #[arg(long = "link-rate", value_name = "RATE", requires = "link")]
    link_rate: Option<BitRate>,

    /// Draw faults from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl HostArgs {
    /// How long a worker over kernel sockets polls before it sleeps.
    ///
    /// # Errors
    /// For a policy that only a silo has.
    pub(super) fn spin(&self) -> Result<Duration, String> {
        match self.idle {
            None => Ok(Duration::ZERO),
            Some(Idle::Spin) => Ok(Duration::MAX),
            Some(Idle::SpinFor { spin_for, .. }) => Ok(spin_for),
            Some(Idle::Adaptive { .. }) => Ok(Duration::ZERO),
            Some(idle @ Idle::Sleep(_)) => {
                Err(format!("--idle {idle} needs --link: over kernel sockets the kernel wakes whom it has work for"))
            }
        }
    }

    /// Refuses what is of links, where there is none: clap asks for --link itself, but not beside an
    /// option that stands in its place.
    ///
    /// # Errors
    /// Which option that is.
    pub(super) fn without_link(&self) -> Result<(), String> {
        let given = [
            ("--plan", self.plan_only),
            ("--addr", !self.addresses.is_empty()),
            ("--gateway", !self.gateways.is_empty()),
            ("--mac", self.mac.is_some()),
            ("--silos", self.silos.is_some()),
            ("--core", self.core.is_some()),
            ("--numa", self.numa.is_some()),
            ("--bond", self.bond != bond::Setup::default()),
            ("--local-clients", self.local_clients.is_some()),
            ("--tx-delay", self.tx_delay.is_some()),
            ("--offload", self.offload.is_some()),
            ("--mss", self.mss.is_some()),
            ("--capture", self.capture.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(format!("{option} goes with --link")),
            None => Ok(()),
        }
    }

    /// Whether it says how many silos there are, or where.
    pub(super) const fn names_silos(&self) -> bool {
        self.silos.is_some() || self.core.is_some()
    }

    /// Whether there need not be an address.
    fn may_use_host_addresses(links: &[LinkSpec], role: Role) -> Result<(), String> {
        match (links.iter().all(is_beside_kernel), role, links.len()) {
            (false, ..) => Err("the link needs an address of ours: --addr ADDRESS/PREFIX".to_owned()),
            (true, Role::Client, _) => Err("load needs an address of its own, beside the host's: --addr \
                 ADDRESS/PREFIX (the answers to the host's address are for any of its ports, and stay with the \
                 kernel)"
                .to_owned()),
            (true, Role::Server, 1) => Ok(()),
            (true, Role::Server, _) => {
                Err("several links need an address of ours, which they share: --addr ADDRESS/PREFIX".to_owned())
            }
        }
    }

    /// What is meant over a link.
    ///
    /// # Errors
    /// What makes no sense together, and if no link is named.
    pub(super) fn plan(self, role: Role, max_connections: u32) -> Result<HostPlan, String> {
        let mut links = links(&self.link, role)?;
        values::check_gateways(&self.addresses, &self.gateways)?;
        if self.mac.is_some_and(|mac| !mac.is_unicast()) {
            return Err("--mac must be a unicast address".to_owned());
        }
        if let (Some(_), Some(link)) = (self.mac, links.iter().find(|link| is_beside_kernel(link))) {
            return Err(format!("--mac: over {} our Ethernet address is the interface's", link.kind()));
        }
        if matches!(self.bond.mode, bond::Mode::Lacp(_)) && self.addresses.is_empty() {
            return Err("--bond lacp needs an address of ours: a port on the host's own addresses is the kernel's to \
                        aggregate; give --addr ADDRESS/PREFIX"
                .to_owned());
        }
        if self.addresses.is_empty() {
            Self::may_use_host_addresses(&links, role)?;
        }
        let offload = self.offload.is_none_or(|switch| switch == Switch::On);
        if !offload {
            links.iter_mut().try_for_each(|link| link.driver.without_offload())?;
        }
        Ok(HostPlan {
            addresses: self.addresses,
            gateways: self.gateways,
            detection: self.detection.into(),
            on_link_loss: self.on_link_loss,
            mac: self.mac,
            silos: match (self.silos, self.core) {
                (Some(silos), _) => silos,
                (None, Some(core)) => Silos::Cores(vec![core]),
                (None, None) => Silos::One,
            },
            steer: self.steer.into(),
            bond: self.bond,
            opens: role == Role::Client,
            numa: self.numa != Some(Switch::Off),
            beside: BesideLinks { local_clients: self.local_clients != Some(Switch::Off), ..BesideLinks::default() },
            plan_only: self.plan_only,
            idle: self.idle.unwrap_or_default(),
            fifo: self.fifo,
            tx_delay: self.tx_delay.unwrap_or_default(),
            offload,
            congestion: match self.congestion.as_deref() {
                // RFC 9438, and RFC 5681 with RFC 6582.
                None | Some("cubic") => Algorithm::Cubic,
                Some("newreno") => Algorithm::NewReno,
                Some(other) => return Err(format!("--congestion {other}: over a link there are cubic and newreno")),
            },
            pacing_rate: self.max_pacing_rate,
            user_timeout: self.user_timeout,
            mss: self.mss,
            receive_limit: self.receive_limit.map(window).transpose()?,
            send_limit: self.send_limit.map(window).transpose()?,
            resets_per_source: self.resets_per_source,
            errors_per_source: self.errors_per_source,
            max_connections,
            capture: self.capture,
            faults: self.faults.plan().map(Box::new),
            status_page: self.status_page,
            ..HostPlan::new(links)
        })
    }
}

/// Whether the kernel is on our end, with addresses of its own.
fn is_beside_kernel(link: &LinkSpec) -> bool {
    matches!(link.driver.kernel(), Kernel::Beside(_))
}

/// A window's limit in bytes: what TCP can express (RFC 7323 section 2.3), and
/// no less than goes without its scale.
fn window(size: Size) -> Result<u32, String> {
    let fits = u32::try_from(size.0).ok().filter(|bytes| (1 << 16..=1 << 30).contains(bytes));
    fits.ok_or_else(|| "a window's limit is from 64K to 1G".to_owned())
}

/// `fifo:N`.
pub(super) fn fifo(text: &str) -> Result<u8, String> {
    let priority = text.strip_prefix("fifo:").and_then(|number| number.parse::<u8>().ok());
    // 99 is the kernel's own: migration and watchdogs.
    priority
        .filter(|number| (1..=98).contains(number))
        .ok_or_else(|| "expected fifo:N, as fifo:2; N is 1 to 98".to_owned())
}

/// The links, each another.
pub(super) fn each_once(texts: &[String], role: Role) -> Result<Vec<LinkSpec>, String> {
    let mut links: Vec<LinkSpec> = Vec::new();
    for text in texts {
        let link = LinkSpec::parse(text, role).map_err(|why| format!("--link {text}: {why}"))?;
        if links.iter().any(|other| other.name() == link.name()) {
            return Err(format!("--link {text}: this link is given twice"));
        }
        links.push(link);
    }
    Ok(links)
}

/// The links, which are of one kind, each another.
fn links(texts: &[String], role: Role) -> Result<Vec<LinkSpec>, String> {
    let links = each_once(texts, role)?;
    let Some(first) = links.first().map(LinkSpec::kind) else { return Err("give a link with --link".to_owned()) };
    match links.iter().position(|link| link.kind() != first) {
        Some(other) => Err(format!("--link {}: all links are of one kind, and the first is {first}", texts[other])),
        None => Ok(links),
    }
}

/// What may wait before a bottleneck: as long as a common router's queue.
const QUEUE_TIME: Duration = Duration::from_millis(100);

/// A queue holds at least some frames of full size.
const MIN_QUEUE: u64 = 16 * 1514;

impl FaultArgs {
    fn plan(self) -> Option<FaultPlan> {
        let default = Impairment::default();
        let rate = self.link_rate.map(|BitRate(bits)| {
            let bytes_per_second = bits / 8;
            let queue = bytes_per_second as f64 * QUEUE_TIME.as_secs_f64();
            Rate { bytes_per_second, queue_bytes: (queue as u64).max(MIN_QUEUE) }
        });
        let impairment = Impairment {
            loss: self.loss.unwrap_or_default(),
            reorder: self.reorder.unwrap_or_default(),
            duplicate: self.duplicate.unwrap_or_default(),
            corrupt: self.corrupt.unwrap_or_default(),
            delay: self.delay.unwrap_or_default(),
            rate,
            ..default
        };
        (impairment != default).then(|| FaultPlan::both(impairment, self.seed))
    }
}
