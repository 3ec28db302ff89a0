//! An opened interface: program attached, queues not yet at work.

use crate::config::{ChecksumChoice, Config, FRAME_SIZES, HEADER_ROOM, HEADROOM, ModeChoice, QUEUES_LIMIT};
use crate::error::OpenError;
use crate::filter::{Filter, solicited_mac};
use crate::handover::{self, Handle, Orders, Terms};
use crate::host::{self, HostView};
use crate::interface::Interface;
use crate::link::XdpLink;
use crate::socket::Socket;
use crate::umem::Umem;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use driver::{Claim, Offer};
use ebpf::{Cause, XdpAttachment, XdpMode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};
use wire::Mac;

/// Groups that an interface is made to receive one by one; with more it
/// receives all of them.
const GROUPS_LIMIT: usize = 32;

/// An interface that frames are taken from.
#[derive(Debug)]
pub struct AfXdp {
    pub(crate) shared: Arc<Shared>,
}

/// What the queues of an interface share. Dropped with the last of them: the
/// program goes with it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub interface: Interface,
    /// Gone where another process opened the port, which filled it.
    pub filter: Option<Filter>,
    /// Sockets of the queues that another process opened, until they are taken.
    pub given: Mutex<Vec<Option<OwnedFd>>>,
    pub facts: Facts,
    /// The umem that all queues use, and the socket that has it, once the
    /// first queue is at work. Only with [`Config::shared_umem`].
    pub umem: Mutex<Option<(Arc<Umem>, Arc<Socket>)>>,
    /// The host's addresses, followed by the first queue.
    pub view: Mutex<Option<HostView>>,
    /// The program is attached while this is open; gone once another process
    /// has it.
    pub attachment: Mutex<Option<XdpAttachment>>,
    /// What the queues are to do where the port changes hands.
    pub orders: Orders,
    /// The port on an interface of the same name, opened after this one's was
    /// deleted.
    pub renewed: OnceLock<Arc<Shared>>,
    /// The address that our stacks have.
    pub answers: Mac,
    pub claim: Claim,
    /// Groups are received while this is open.
    pub groups: Option<OwnedFd>,
    /// Ports are ours, and another address is received, while these are open.
    pub held: Vec<OwnedFd>,
}

/// What is known of an interface once it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub driver: String,
    pub mode: XdpMode,
    pub fallback: Option<String>,
    pub mac: Mac,
    pub mtu: u16,
    pub frame: u32,
    pub queues: u16,
    pub interface_queues: u32,
    pub domain: Option<u16>,
    pub checksums: Checksums,
}

/// What becomes of the transport checksums of received segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// All are verified.
    Verified,
    /// Those that the local kernel left for hardware to complete are accepted,
    /// and all others verified.
    Unfinished,
    /// None is verified.
    Trusted,
}

/// The Ethernet address of the interface called `name`: ours too, once it is
/// opened.
///
/// # Errors
/// [`OpenError::NoInterface`], [`OpenError::Interface`].
pub fn mac(name: &str) -> Result<Mac, OpenError> {
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => OpenError::NoInterface(name.to_owned()),
        _ => OpenError::Interface { interface: name.to_owned(), what: "read the address of", source },
    };
    Interface::open(name).and_then(|interface| interface.mac()).map_err(fail)
}

/// The NUMA domain of the interface called `name`, if it is in one.
#[must_use]
pub fn domain(name: &str) -> Option<u16> {
    Interface::open(name).ok()?.domain()
}

/// How many queues the interface called `name` has from the one numbered
/// `first` on; `None` if there is no such interface.
#[must_use]
pub fn queues(name: &str, first: u16) -> Option<u16> {
    let left = Interface::open(name).ok()?.queues().saturating_sub(first.into());
    Some(left.min(QUEUES_LIMIT.into()) as u16)
}

impl AfXdp {
    /// Attaches the program for `claim` to the interface. Nothing is taken
    /// before a queue's link is at work.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn open(config: Config, claim: &Claim) -> Result<Self, OpenError> {
        let interface = interface_of(&config)?;
        let mac = interface.mac().map_err(unreadable(&config, "read the address of"))?;
        let mtu = interface.mtu().map_err(unreadable(&config, "read the MTU of"))?;
        let queues = count_queues(&config, interface.queues())?;
        let frame = frame_size(&config, mtu)?;
        // A socket is the cheapest way to learn that there are none.
        drop(Socket::new(&Config { ring: 64, busy_poll: None, ..config.clone() }, frame, None)?);
        let own = Own::make(&config, &interface, queues, claim)?;
        let (attachment, mode, fallback) = attach(&config, &interface, &own.filter, mtu)?;
        let mtu = mtu.min(u32::from(u16::MAX)) as u16;
        let facts = Facts::new(&config, &interface, (mac, mtu, frame, queues), (mode, fallback));
        let orders = Orders::new(queues);
        Ok(Self { shared: Arc::new(own.shared(config, interface, facts, orders, attachment, claim)) })
    }

    /// Takes a port over from another process: `offer` is what it needs for that
    /// ([`Handle::offer`]). Its links wait until [`Handle::take`].
    ///
    /// # Errors
    /// [`OpenError`]; the other process has it as before.
    pub fn adopt(config: Config, claim: &Claim, offer: Offer) -> Result<Self, OpenError> {
        let Offer { terms, attachment, queues: given } = offer;
        let terms: Terms = terms.parse()?;
        let interface = interface_of(&config)?;
        let queues = count_queues(&config, interface.queues())?;
        let config = Config { queues: Some(queues), ..config };
        terms.check(&config, interface.index(), claim)?;
        let own = Own::make(&config, &interface, queues, claim)?;
        for (ordinal, [socket, ..]) in (0..).zip(&given) {
            own.filter.set_queue(u32::from(config.first_queue) + ordinal, socket.as_fd())?;
        }
        let (orders, attachment) = handover::adopt(&config, &terms, attachment, given)?;
        let Terms { mac, mtu, frame, mode, .. } = terms;
        let facts = Facts::new(&config, &interface, (mac, mtu, frame, queues), (mode, None));
        Ok(Self { shared: Arc::new(own.shared(config, interface, facts, orders, attachment, claim)) })
    }

    /// For handing the port to another process, or taking it from one.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// What was opened.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// The interface's Ethernet address, which is ours too.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.shared.facts.mac
    }

    /// Has the interface receive what is sent to this address, beside its own,
    /// while it is open: ports that are aggregated answer to one address
    /// (IEEE Std 802.1AX-2014 clause 6.3.3). Call it before
    /// [`AfXdp::split_queues`].
    ///
    /// # Errors
    /// If the kernel refuses, or a queue is out already.
    pub fn answer_to(&mut self, mac: Mac) -> Result<(), OpenError> {
        let system = |source| OpenError::System { what: "make the interface receive another address", source };
        let (own, index) = (self.mac(), self.shared.interface.index());
        let shared = Arc::get_mut(&mut self.shared).ok_or(system(Errno::BUSY))?;
        shared.answers = mac;
        if mac == own {
            return Ok(());
        }
        let socket = packet_socket("make the interface receive another address")?;
        // packet(7): it lasts as long as the socket.
        join(&socket, index, libc::PACKET_MR_UNICAST, mac).map_err(system)?;
        shared.held.push(socket);
        Ok(())
    }

    /// One link for each queue, in order. A link takes its memory and begins
    /// to receive in its first `poll_control`, or in [`XdpLink::start`], so
    /// that the memory comes from the domain of the thread that calls it.
    #[must_use]
    pub fn split_queues(self) -> Vec<XdpLink> {
        (0..self.shared.facts.queues).map(|ordinal| XdpLink::new(Arc::clone(&self.shared), ordinal)).collect()
    }
}

/// What each process that has a port has for itself.
struct Own {
    filter: Filter,
    groups: Option<OwnedFd>,
    view: Option<HostView>,
    held: Vec<OwnedFd>,
}

impl Own {
    fn make(config: &Config, interface: &Interface, queues: u16, claim: &Claim) -> Result<Self, OpenError> {
        let filter = Filter::load(claim, None, u32::from(config.first_queue) + u32::from(queues))?;
        match claim {
            Claim::Own { addresses, aggregated } => {
                let groups = join_groups(interface.index(), addresses, *aggregated)?;
                Ok(Self { filter, groups, view: None, held: Vec::new() })
            }
            Claim::Whole => {
                let socket = packet_socket("make the interface receive every frame")?;
                let system = |source| OpenError::System { what: "make the interface receive every frame", source };
                join(&socket, interface.index(), libc::PACKET_MR_PROMISC, Mac::ZERO).map_err(system)?;
                Ok(Self { filter, groups: Some(socket), view: None, held: Vec::new() })
            }
            Claim::Host { ports } => {
                let (view, held) = follow_host(config, &filter, ports)?;
                Ok(Self { filter, groups: None, view: Some(view), held })
            }
        }
    }

    fn shared(
        self,
        config: Config,
        interface: Interface,
        facts: Facts,
        orders: Orders,
        attachment: XdpAttachment,
        claim: &Claim,
    ) -> Shared {
        let Self { filter, groups, view, held } = self;
        let (umem, view, attachment) = (Mutex::new(None), Mutex::new(view), Mutex::new(Some(attachment)));
        let (claim, answers, renewed) = (claim.clone(), facts.mac, OnceLock::new());
        Shared {
            config,
            interface,
            filter: Some(filter),
            given: Mutex::default(),
            facts,
            umem,
            view,
            attachment,
            orders,
            renewed,
            answers,
            claim,
            groups,
            held,
        }
    }
}

impl Facts {
    fn new(
        config: &Config,
        interface: &Interface,
        (mac, mtu, frame, queues): (Mac, u16, u32, u16),
        (mode, fallback): (XdpMode, Option<String>),
    ) -> Self {
        let (driver, _) = interface.driver();
        let checksums = match config.checksum {
            ChecksumChoice::Auto if may_lack_checksums(&driver, mode) => Checksums::Unfinished,
            ChecksumChoice::Auto | ChecksumChoice::Verify => Checksums::Verified,
            ChecksumChoice::Trust => Checksums::Trusted,
        };
        let (interface_queues, domain) = (interface.queues(), interface.domain());
        Self { driver, mode, fallback, mac, mtu, frame, queues, interface_queues, domain, checksums }
    }
}

impl Shared {
    /// What a successor must agree on.
    pub fn terms(&self) -> Terms {
        Terms::of(&self.config, self.interface.index(), &self.facts, &self.claim)
    }

    pub fn report(&self) -> Report {
        let Facts { driver, mode, fallback, queues, interface_queues, domain, checksums, frame, .. } =
            self.facts.clone();
        Report {
            interface: self.interface.name().to_owned(),
            driver,
            mode,
            fallback,
            queues,
            interface_queues,
            domain,
            checksums,
            frame,
            ring: self.config.ring,
            busy_poll: self.config.busy_poll.is_some(),
        }
    }
}

/// Whether frames come from a kernel on this machine, which leaves checksums
/// to hardware that is not there. virtio_net has the host complete them while
/// a program runs in the driver, and does not for a generic one.
fn may_lack_checksums(driver: &str, mode: XdpMode) -> bool {
    driver == "veth" || (driver == "virtio_net" && mode == XdpMode::Generic)
}

/// What an interface was opened as, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The interface.
    pub interface: String,
    /// Its driver; empty if it does not say.
    pub driver: String,
    /// Where the program runs.
    pub mode: XdpMode,
    /// Why it does not run in the driver, if that was tried.
    pub fallback: Option<String>,
    /// Queues taken.
    pub queues: u16,
    /// Queues that the interface has.
    pub interface_queues: u32,
    /// The NUMA domain of the device, if it is in one.
    pub domain: Option<u16>,
    /// What becomes of received transport checksums.
    pub checksums: Checksums,
    /// Bytes of a frame's room.
    pub frame: u32,
    /// Slots of each ring.
    pub ring: u32,
    /// System calls poll the driver.
    pub busy_poll: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = if self.driver.is_empty() { "unknown" } else { &self.driver };
        let mode = match self.mode {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        };
        write!(f, "{}: driver {driver}, {mode} mode", self.interface)?;
        if let Some(why) = &self.fallback {
            write!(f, " (the driver refused: {why})")?;
        }
        write!(f, ", queues {} of {}, need-wakeup", self.queues, self.interface_queues)?;
        if self.busy_poll {
            f.write_str(", busy polling")?;
        }
        write!(f, ", rings of {}, frames of {} bytes", self.ring, self.frame)?;
        match self.domain {
            Some(domain) => write!(f, ", domain {domain}")?,
            None => f.write_str(", in no domain")?,
        }
        f.write_str(match self.checksums {
            Checksums::Verified => "",
            Checksums::Unfinished => ", checksums left to hardware accepted",
            Checksums::Trusted => ", checksums of received segments trusted",
        })
    }
}

pub(crate) fn interface_of(config: &Config) -> Result<Interface, OpenError> {
    Interface::open(&config.interface).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OpenError::NoInterface(config.interface.clone()),
        _ => unreadable(config, "ask for")(source),
    })
}

fn unreadable(config: &Config, what: &'static str) -> impl Fn(io::Error) -> OpenError {
    let interface = config.interface.clone();
    move |source| OpenError::Interface { interface: interface.clone(), what, source }
}

/// How many queues are taken of an interface that `has` so many.
fn count_queues(config: &Config, has: u32) -> Result<u16, OpenError> {
    let first = u32::from(config.first_queue);
    let left = has.saturating_sub(first).min(u32::from(QUEUES_LIMIT));
    let count = config.queues.map_or(left, u32::from);
    if count == 0 || first + count > has {
        return Err(OpenError::NoQueue { interface: config.interface.clone(), queue: first.max(has), has });
    }
    Ok(count.min(u32::from(QUEUES_LIMIT)) as u16)
}

/// The smallest frame that holds the MTU, or the one that was asked for.
fn frame_size(config: &Config, mtu: u32) -> Result<u32, OpenError> {
    let needs = mtu.saturating_add(HEADER_ROOM + HEADROOM);
    let too_large = |frame: u32, limits| OpenError::Mtu {
        interface: config.interface.clone(),
        mtu,
        limit: Some(frame - HEADER_ROOM - HEADROOM),
        limits,
    };
    match config.frame {
        Some(frame) if needs > frame => Err(too_large(frame, "frames of this size")),
        Some(frame) => Ok(frame),
        None => {
            let largest = FRAME_SIZES[FRAME_SIZES.len() - 1];
            let fits = FRAME_SIZES.into_iter().find(|frame| needs <= *frame);
            fits.ok_or_else(|| too_large(largest, "an AF_XDP frame, which lies within a page"))
        }
    }
}

/// Takes the host's addresses into the filter, and holds the served ports
/// there.
fn follow_host(config: &Config, filter: &Filter, ports: &[u16]) -> Result<(HostView, Vec<OwnedFd>), OpenError> {
    let view = HostView::open(&config.interface).map_err(unreadable(config, "watch"))?;
    let addresses = view.addresses().map_err(unreadable(config, "read the addresses of"))?;
    if addresses.is_empty() {
        return Err(OpenError::NoAddress(config.interface.clone()));
    }
    let mut held = Vec::new();
    for address in addresses.into_iter().map(|address| address.ip) {
        filter.add(address)?;
        for port in ports {
            held.extend(hold(address, *port)?);
        }
    }
    Ok((view, held))
}

/// Holds a port at an address of the host's without listening, so that no
/// other program of the host listens there, or calls from there, and never
/// hears anything.
fn hold(address: IpAddr, port: u16) -> Result<Option<OwnedFd>, OpenError> {
    use rustix::net::sockopt::set_socket_reuseaddr;
    let at = match address {
        IpAddr::V4(ip) => SocketAddr::from((ip, port)),
        // Such an address needs its interface; no more of these programs.
        IpAddr::V6(ip) if ip.is_unicast_link_local() => return Ok(None),
        IpAddr::V6(ip) => SocketAddr::from((ip, port)),
    };
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let held = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).and_then(|socket| {
        // Beside connections of a process before us that linger.
        set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &at)?;
        Ok(socket)
    });
    match held {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::ADDRINUSE) => Err(OpenError::PortTaken { port, source: Errno::ADDRINUSE.into() }),
        // Without the right to low ports nobody else of this user has it either.
        Err(_) => Ok(None),
    }
}

/// The program at work, where it runs, and why not in the driver.
fn attach(
    config: &Config,
    interface: &Interface,
    filter: &Filter,
    mtu: u32,
) -> Result<(XdpAttachment, XdpMode, Option<String>), OpenError> {
    let attached = || {
        let id = host::attached_program(interface.index());
        let program = id.map(|id| (id, ebpf::program_name(id).unwrap_or_default()));
        OpenError::Attached { interface: config.interface.clone(), program }
    };
    let attach = |mode| filter.program.attach_xdp(interface.index(), mode);
    let generic = |why| match attach(XdpMode::Generic) {
        Ok(attachment) => Ok((attachment, XdpMode::Generic, why)),
        Err(ebpf::Error { cause: Cause::Attached, .. }) => Err(attached()),
        Err(error) => Err(error.into()),
    };
    if config.mode == ModeChoice::Generic {
        return generic(None);
    }
    let error = match attach(XdpMode::Native) {
        Ok(attachment) => return Ok((attachment, XdpMode::Native, None)),
        Err(error) => error,
    };
    let refusal = match error.cause {
        Cause::Attached => return Err(attached()),
        Cause::System(errno) => errno,
        _ => return Err(error.into()),
    };
    if config.mode == ModeChoice::Auto {
        return generic(Some(refusal_text(refusal)));
    }
    let interface = config.interface.clone();
    Err(match refusal {
        Errno::RANGE => OpenError::Mtu { interface, mtu, limit: None, limits: "its driver's native mode" },
        source => {
            OpenError::Refused { interface, what: "native mode", source, advice: "write mode=auto or mode=generic" }
        }
    })
}

/// What drivers mean by refusing native mode.
fn refusal_text(errno: Errno) -> String {
    match errno {
        Errno::OPNOTSUPP => "it has no native mode".to_owned(),
        Errno::RANGE => "the MTU is too large for native mode".to_owned(),
        Errno::NOSPC => "too few queues for native mode".to_owned(),
        other => other.to_string(),
    }
}

/// Makes the interface receive the groups in which neighbours look for our
/// IPv6 addresses, and the one of link aggregation, as long as the descriptor
/// that comes back is open.
fn join_groups(interface: u32, addresses: &[IpAddr], aggregated: bool) -> Result<Option<OwnedFd>, OpenError> {
    let system = |source| OpenError::System { what: "join the multicast groups of our addresses", source };
    let v6 = addresses.iter().filter_map(|address| match address {
        IpAddr::V6(ip) => Some(solicited_mac(*ip)),
        IpAddr::V4(_) => None,
    });
    let mut groups: Vec<Mac> = v6.chain(aggregated.then_some(wire::lacp::DESTINATION)).collect();
    groups.sort_unstable_by_key(|mac| mac.0);
    groups.dedup();
    if groups.is_empty() {
        return Ok(None);
    }
    let socket = packet_socket("make the interface receive a group")?;
    if groups.len() > GROUPS_LIMIT {
        groups.truncate(1);
        join(&socket, interface, libc::PACKET_MR_ALLMULTI, Mac::ZERO).map_err(system)?;
    }
    for group in groups {
        join(&socket, interface, libc::PACKET_MR_MULTICAST, group).map_err(system)?;
    }
    Ok(Some(socket))
}

/// A socket that has the interface receive more, and receives nothing itself:
/// it is of no protocol.
fn packet_socket(what: &'static str) -> Result<OwnedFd, OpenError> {
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
    socket.map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => OpenError::NotPermitted { what },
        source => OpenError::System { what, source },
    })
}

fn join(socket: &OwnedFd, interface: u32, kind: i32, group: Mac) -> Result<(), Errno> {
    let mut request = libc::packet_mreq {
        mr_ifindex: interface as i32,
        mr_type: kind as u16,
        mr_alen: group.0.len() as u16,
        mr_address: [0; 8],
    };
    request.mr_address[..group.0.len()].copy_from_slice(&group.0);
    let len = size_of::<libc::packet_mreq>() as libc::socklen_t;
    // SAFETY: the request is valid for its size, and read only.
    let result = unsafe {
        let value = (&raw const request).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, value, len)
    };
    if result < 0 { Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)) } else { Ok(()) }
}
