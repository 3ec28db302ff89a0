//! An interface opened: its program attached, what is needed beside it held.

use crate::config::{Config, FRAME_SIZES, HEADER_ROOM, HEADROOM, ModeChoice, QUEUES_LIMIT, Stamps};
use crate::error::XdpError;
use crate::facts::Facts;
use crate::filter::{Filter, solicited_mac};
use crate::host::{self, HostView};
use crate::interface::Interface;
use crate::orders::{self, Orders};
use crate::shared::Shared;
use crate::socket::Socket;
use crate::terms::Terms;
use core::net::{IpAddr, SocketAddr};
use driver::{Claim, Offer};
use ebpf::{Cause, XdpAttachment, XdpMode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use stamping::Stamping;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock};
use wire::Mac;

/// Groups that an interface is made to receive one by one; with more it
/// receives all of them.
const GROUPS_LIMIT: usize = 32;

impl Shared {
    /// Attaches the program for `claim` to the interface.
    ///
    /// # Errors
    /// [`XdpError`]; nothing is left behind.
    pub fn open(config: Config, claim: &Claim) -> Result<Self, XdpError> {
        let interface = interface_of(&config)?;
        if config.stamps != Stamps::default() && *claim != Claim::Whole {
            return Err(XdpError::Stamps("stamps are for measurements, which take every frame".to_owned()));
        }
        let mac = interface.mac().map_err(unreadable(&config, "read the address of"))?;
        let mtu = interface.mtu().map_err(unreadable(&config, "read the MTU of"))?;
        let queues = count_queues(&config, interface.queues())?;
        let frame = frame_size(&config, mtu)?;
        // A socket is the cheapest way to learn that there are none.
        drop(Socket::new(&Config { ring: 64, busy_poll: None, ..config.clone() }, frame, None)?);
        let own = Own::make(&config, &interface, queues, claim, false)?;
        let (attachment, mode, fallback) = attach(&config, &interface, &own.filter, mtu)?;
        let mtu = mtu.min(u32::from(u16::MAX)) as u16;
        let facts = Facts::new(&config, &interface, (mac, mtu, frame, queues), (mode, fallback));
        let orders = Orders::new(queues);
        Ok(own.shared(config, interface, facts, orders, attachment, claim))
    }

    /// Takes the port of another process over.
    ///
    /// # Errors
    /// [`XdpError`]; the other process has it as before.
    pub fn adopt(config: Config, claim: &Claim, offer: Offer) -> Result<Self, XdpError> {
        let Offer { terms, attachment, queues: given } = offer;
        let terms: Terms = terms.parse()?;
        let interface = interface_of(&config)?;
        let queues = count_queues(&config, interface.queues())?;
        let config = Config { queues: Some(queues), ..config };
        terms.check(&config, interface.index(), claim)?;
        let own = Own::make(&config, &interface, queues, claim, true)?;
        for (ordinal, [socket, ..]) in (0..).zip(&given) {
            own.filter.set_queue(u32::from(config.first_queue) + ordinal, socket.as_fd())?;
        }
        let (orders, attachment) = orders::adopt(&config, &terms, attachment, given)?;
        let Terms { mac, mtu, frame, mode, .. } = terms;
        let facts = Facts::new(&config, &interface, (mac, mtu, frame, queues), (mode, None));
        Ok(own.shared(config, interface, facts, orders, attachment, claim))
    }

    /// Has the interface receive what is sent to this address, beside its own,
    /// while it is open.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn answer_to(&mut self, mac: Mac) -> Result<(), XdpError> {
        let system = |source| XdpError::System { what: "make the interface receive another address", source };
        self.answers = mac;
        if mac == self.facts.mac {
            return Ok(());
        }
        let socket = packet_socket("make the interface receive another address")?;
        // packet(7): it lasts as long as the socket.
        join(&socket, self.interface.index(), libc::PACKET_MR_UNICAST, mac).map_err(system)?;
        self.held.push(socket);
        Ok(())
    }
}

/// What each process that has a port has for itself.
struct Own {
    filter: Filter,
    groups: Option<OwnedFd>,
    view: Option<HostView>,
    held: Vec<OwnedFd>,
    stamping: Option<Stamping>,
}

impl Own {
    /// `follows`: in the place of another process of ours.
    fn make(
        config: &Config,
        interface: &Interface,
        queues: u16,
        claim: &Claim,
        follows: bool,
    ) -> Result<Self, XdpError> {
        let last = u32::from(config.first_queue) + u32::from(queues);
        let filter = match claim {
            Claim::Whole if config.stamps.arrivals => Filter::load_stamped(interface.index(), last)
                .map_err(|why| XdpError::unstamped(&config.interface, why))?,
            _ => Filter::load(claim, None, last)?,
        };
        let stamping = config.stamps.switch_on.then(|| Stamping::begin(&config.interface)).transpose();
        let stamping = stamping.map_err(XdpError::Stamps)?;
        match claim {
            Claim::Own { addresses, aggregated } => {
                let groups = join_groups(interface.index(), addresses, *aggregated)?;
                Ok(Self { filter, groups, view: None, held: Vec::new(), stamping })
            }
            Claim::Whole => {
                let socket = packet_socket("make the interface receive every frame")?;
                let system = |source| XdpError::System { what: "make the interface receive every frame", source };
                join(&socket, interface.index(), libc::PACKET_MR_PROMISC, Mac::ZERO).map_err(system)?;
                Ok(Self { filter, groups: Some(socket), view: None, held: Vec::new(), stamping })
            }
            Claim::Host { ports } => {
                let (view, held) = follow_host(config, &filter, ports, follows)?;
                Ok(Self { filter, groups: None, view: Some(view), held, stamping })
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
        let Self { filter, groups, view, held, stamping } = self;
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
            stamping,
            groups,
            held,
        }
    }
}

pub(crate) fn interface_of(config: &Config) -> Result<Interface, XdpError> {
    Interface::open(&config.interface).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => XdpError::NoInterface(config.interface.clone()),
        _ => unreadable(config, "ask for")(source),
    })
}

fn unreadable(config: &Config, what: &'static str) -> impl Fn(io::Error) -> XdpError {
    let interface = config.interface.clone();
    move |source| XdpError::Interface { interface: interface.clone(), what, source }
}

/// How many queues are taken of an interface that `has` so many.
pub fn count_queues(config: &Config, has: u32) -> Result<u16, XdpError> {
    let first = u32::from(config.first_queue);
    let left = has.saturating_sub(first).min(u32::from(QUEUES_LIMIT));
    let count = config.queues.map_or(left, u32::from);
    if count == 0 || first + count > has {
        return Err(XdpError::NoQueue { interface: config.interface.clone(), queue: first.max(has), has });
    }
    Ok(count.min(u32::from(QUEUES_LIMIT)) as u16)
}

/// The smallest frame that holds the MTU, or the one that was asked for.
fn frame_size(config: &Config, mtu: u32) -> Result<u32, XdpError> {
    let needs = mtu.saturating_add(HEADER_ROOM + HEADROOM);
    let too_large = |frame: u32, limits| XdpError::Mtu {
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
fn follow_host(
    config: &Config,
    filter: &Filter,
    ports: &[u16],
    follows: bool,
) -> Result<(HostView, Vec<OwnedFd>), XdpError> {
    let view = HostView::open(&config.interface).map_err(unreadable(config, "watch"))?;
    let addresses = view.addresses().map_err(unreadable(config, "read the addresses of"))?;
    if addresses.is_empty() {
        return Err(XdpError::NoAddress(config.interface.clone()));
    }
    let mut held = Vec::new();
    for address in addresses.into_iter().map(|address| address.ip) {
        filter.add(address)?;
        for port in ports {
            held.extend(hold(address, *port, follows)?);
        }
    }
    Ok((view, held))
}

/// Holds a port at an address of the host's without listening, so that no
/// other program of the host listens there, or calls from there, and never
/// hears anything. One that `follows` another process of ours finds that listening
/// there, for clients on this host.
fn hold(address: IpAddr, port: u16, follows: bool) -> Result<Option<OwnedFd>, XdpError> {
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
        Err(Errno::ADDRINUSE) if !follows => Err(XdpError::PortTaken { port, source: Errno::ADDRINUSE.into() }),
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
) -> Result<(XdpAttachment, XdpMode, Option<String>), XdpError> {
    let attached = || {
        let id = host::attached_program(interface.index());
        let program = id.map(|id| (id, ebpf::program_name(id).unwrap_or_default()));
        XdpError::Attached { interface: config.interface.clone(), program }
    };
    let attach = |mode| filter.program.attach_xdp(interface.index(), mode);
    let generic = |why| match attach(XdpMode::Generic) {
        Ok(attachment) => Ok((attachment, XdpMode::Generic, why)),
        Err(ebpf::Error { cause: Cause::Attached, .. }) => Err(attached()),
        Err(error) => Err(error.into()),
    };
    if config.mode == ModeChoice::Generic {
        if config.stamps.arrivals {
            return Err(XdpError::Stamps("in generic mode nobody knows when the NIC received a frame".to_owned()));
        }
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
    if config.mode == ModeChoice::Auto && !config.stamps.arrivals {
        return generic(Some(refusal_text(refusal)));
    }
    let interface = config.interface.clone();
    Err(match refusal {
        Errno::RANGE => XdpError::Mtu { interface, mtu, limit: None, limits: "its driver's native mode" },
        source => {
            XdpError::Refused { interface, what: "native mode", source, advice: "write mode=auto or mode=generic" }
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
fn join_groups(interface: u32, addresses: &[IpAddr], aggregated: bool) -> Result<Option<OwnedFd>, XdpError> {
    let system = |source| XdpError::System { what: "join the multicast groups of our addresses", source };
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
fn packet_socket(what: &'static str) -> Result<OwnedFd, XdpError> {
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
    socket.map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => XdpError::NotPermitted { what },
        source => XdpError::System { what, source },
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
