//! Links opened, wrapped as asked, and dealt out to the silos.

use super::{Layout, spread};
use crate::aggregation;
use crate::plan::HostPlan;
use crate::values::{DriverSpec, LinkSpec};
use af_xdp::{AfXdp, Claim, Offer, XdpLink};
use bond::{Bond, Member};
use core::net::IpAddr;
use core::time::Duration;
use dpdk::{Dpdk, DpdkLink};
use link::{
    Capabilities, Capture, CaptureConfig, Counters, FaultPlan, Faults, Impairment, Link, LinkState, Receive, Reopened,
    Transmit, Wanted,
};
use memif::{Memif, MemifLink};
use say::Failure;
use silo::Clock;
use stack::ReturnPath;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use steer::{ReturnQueue, Rss, Steered};
use tap::Tap;
use topology::Queue;
use wire::Time;

/// A silo's link, and what it counts beyond what every link does.
pub trait Port: Link {
    /// Tells each value with its name.
    fn counts(&self, take: &mut dyn FnMut(&'static str, u64)) {
        let _ = take;
    }

    /// Tells what passed by each port, with the port's index in the layout;
    /// `None`: by the one port that there is.
    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        each(None, self.counters());
    }

    /// Tells whether the interface of each port was deleted, of those that have
    /// one, with the port's index in the layout; `None`: of the one port that
    /// there is.
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        let _ = each;
    }

    /// How its port spreads flows over queues, and which of them this is;
    /// `None`: not as it would tell.
    fn rss(&self) -> Option<(Rss, u16)> {
        None
    }

    /// Which local ports' answers come back to this silo; `None`: all, or the
    /// link's other side sees to it.
    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        let (rss, queue) = self.rss()?;
        Some(Box::new(ReturnQueue::rss(&rss, &[queue])?))
    }
}

impl Port for MemifLink {}
impl Port for Tap {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        each(None, self.is_gone());
    }
}

impl Port for DpdkLink {
    fn rss(&self) -> Option<(Rss, u16)> {
        Some((spread::of_port(self.facts()).ok()?, self.queue()))
    }
}

impl Port for XdpLink {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        each(None, self.is_gone());
    }

    fn rss(&self) -> Option<(Rss, u16)> {
        let rss = spread::of_interface(&self.report().interface).ok()?;
        Some((rss, u16::try_from(self.queue()).ok()?))
    }

    fn counts(&self, take: &mut dyn FnMut(&'static str, u64)) {
        let drops = self.kernel_drops();
        // What the driver gave shows once the queue is at work.
        let zero_copy = u64::from(self.zero_copy() == Some(true));
        let huge = u64::from(self.backing() == Some(af_xdp::Backing::HugePages));
        let relay = self.relay_counts();
        let dropped = [drops.too_long, drops.ring_full, drops.no_frame, drops.invalid];
        let relayed = [relay.passed, relay.unpassed, relay.sent, relay.waited];
        let counts = dropped.into_iter().chain([zero_copy, huge]).chain(relayed);
        XDP.into_iter().zip(counts).for_each(|(name, value)| take(name, value));
    }
}

impl Port for AnyLink {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        match self {
            Self::Tap(link) => link.gone(each),
            Self::AfXdp(link) => link.gone(each),
            Self::Wrapped(link, _) => link.ask_inner(|faults| faults.ask_inner(|link| link.gone(each))),
            Self::Memif(_) | Self::Dpdk(_) => {}
        }
    }

    fn rss(&self) -> Option<(Rss, u16)> {
        match self {
            Self::Memif(_) | Self::Tap(_) => None,
            Self::AfXdp(link) => link.rss(),
            Self::Dpdk(link) => link.rss(),
            Self::Wrapped(_, rss) => rss.clone(),
        }
    }
}

impl<L: Port> Port for Bond<L> {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        self.members().for_each(|member| member.link.gone(&mut |_, gone| each(Some(member.port), gone)));
    }

    fn counts(&self, take: &mut dyn FnMut(&'static str, u64)) {
        aggregation::counts(self, take);
        let counts = self.bond_counters();
        let ports = self.aggregator().distributing().count_ones();
        for (name, value) in
            BOND.into_iter().zip([u64::from(ports), counts.changes, counts.copied, counts.lent, counts.no_member])
        {
            take(name, value);
        }
        // Its members' together.
        let mut sums = [("", 0); MEMBER_COUNTS];
        for member in self.members() {
            let mut sums = sums.iter_mut();
            member.link.counts(&mut |name, value| {
                if let Some(sum) = sums.next() {
                    *sum = (name, sum.1 + value);
                }
            });
        }
        sums.into_iter().filter(|(name, _)| !name.is_empty()).for_each(|(name, value)| take(name, value));
    }

    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        self.members().for_each(|member| each(Some(member.port), member.link.counters()));
    }

    /// For the queues of one port: by which of several ports an answer comes
    /// is for the other side to choose.
    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        let port = self.members().next()?.port;
        if self.members().any(|member| member.port != port) {
            return None;
        }
        let (all, queues): (Vec<Rss>, Vec<u16>) = self.members().filter_map(|member| member.link.rss()).unzip();
        Some(Box::new(ReturnQueue::rss(all.first()?, &queues)?))
    }
}

impl<L: Port> Port for Steered<L> {
    fn gone(&self, each: &mut dyn FnMut(Option<u16>, bool)) {
        self.inner().gone(each);
    }

    fn counts(&self, take: &mut dyn FnMut(&'static str, u64)) {
        for ((_, value), name) in self.steering().iter().zip(steer_names()) {
            take(name, value);
        }
        self.inner().counts(take);
    }

    fn traffic(&self, each: &mut dyn FnMut(Option<u16>, Counters)) {
        self.inner().traffic(each);
    }

    fn return_path(&self) -> Option<Box<dyn ReturnPath>> {
        let software = self.return_queue().map(|queue| Box::new(queue) as Box<dyn ReturnPath>);
        software.or_else(|| self.inner().return_path())
    }
}

/// What the kernel dropped before an AF_XDP socket could have it; of how many
/// queues the frames pass without a copy, and lie in huge pages; what passed
/// between this process and the one that it took over from, and for how long
/// nobody received in between.
const XDP: [&str; 10] = [
    "link.kernel_too_long",
    "link.kernel_ring_full",
    "link.kernel_no_frame",
    "link.kernel_invalid",
    "link.zero_copy",
    "link.huge_pages",
    "link.relay_passed",
    "link.relay_dropped",
    "link.relay_sent",
    "link.takeover_wait_ns",
];

/// The most that one link counts beyond what every link does.
const MEMBER_COUNTS: usize = 10;

const _: () = assert!(XDP.len() <= MEMBER_COUNTS);

/// What a bond counts, and the ports that take part.
const BOND: [&str; 5] = ["bond.ports", "bond.changes", "bond.copied", "bond.lent", "bond.no_member"];

/// What steering counts, named as on the statistics page.
fn steer_names() -> impl Iterator<Item = &'static str> {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    let names = || steer::Counters::default().iter().map(|(name, _)| &*format!("steer.{name}").leak()).collect();
    NAMES.get_or_init(names).iter().copied()
}

/// The names of what the links of a layout count, in their order.
pub fn names(host: &HostPlan, layout: &Layout, take: &mut dyn FnMut(&'static str, u64)) {
    let wrapped = is_wrapped(host);
    if !layout.is_single() {
        steer_names().for_each(|name| take(name, 0));
        let fast = host.links.iter().all(LinkSpec::is_fast);
        if !layout.is_plain() || wrapped || !fast {
            aggregation::names(&host.bond, layout.ports.len(), take);
            BOND.into_iter().for_each(|name| take(name, 0));
        }
    }
    if !wrapped && matches!(host.links.first().map(|link| &link.driver), Some(DriverSpec::AfXdp(_))) {
        XDP.into_iter().for_each(|name| take(name, 0));
    }
}

/// The queues of one kind of driver, by port.
pub type Opened<L> = Vec<Vec<L>>;

/// Opens every port with `open`, with the queues that the layout says.
///
/// # Errors
/// The driver's.
pub fn open<L>(
    host: &HostPlan,
    layout: &Layout,
    open: impl Fn(&LinkSpec, u16) -> Result<Vec<L>, Failure>,
) -> Result<Opened<L>, Failure> {
    host.links.iter().zip(&layout.ports).map(|(link, port)| open(link, port.queues)).collect()
}

/// Opens a port of shared memory.
pub fn memif(link: &LinkSpec, queues: u16) -> Result<Vec<MemifLink>, Failure> {
    let DriverSpec::Memif(config) = &link.driver else { return Err(mixed()) };
    Ok(Memif::open(memif::Config { queues, ..config.clone() })?.split_queues())
}

/// Opens a TAP device.
pub fn tap(link: &LinkSpec, queues: u16) -> Result<Vec<Tap>, Failure> {
    let DriverSpec::Tap(config) = &link.driver else { return Err(mixed()) };
    Ok(Tap::open_queues(&tap::Config { queues, ..config.clone() })?)
}

/// What is taken from network interfaces: for `ports`, and for addresses of ours
/// beside the plan's.
pub fn claim(host: &HostPlan, ports: Vec<u16>, more: Vec<IpAddr>) -> Claim {
    match host.uses_host_addresses() {
        true => Claim::Host { ports },
        false => {
            let addresses = host.addresses.iter().map(|cidr| cidr.address).chain(more).collect();
            Claim::Own { addresses, aggregated: host.speaks_lacp() }
        }
    }
}

/// Opens a link of a server's again, after its interface was deleted, for another
/// process: all its `queues`, or where each asks for itself one of them.
///
/// # Errors
/// The driver's; mostly that there is no such interface yet.
pub fn open_for_another(host: &HostPlan, index: usize, queues: u16, wanted: Wanted) -> Result<Reopened, Failure> {
    let link = host.links.get(index).ok_or("there is no such link")?;
    match &link.driver {
        DriverSpec::Tap(config) => Ok(Tap::open_for_another(&tap::Config { queues, ..config.clone() }, wanted)?),
        DriverSpec::AfXdp(config) => {
            let config = af_xdp::Config { queues: Some(queues), ..config.clone() };
            Ok(AfXdp::open_for_another(config, &claim(host, Vec::new(), Vec::new()), wanted)?)
        }
        _ => Err("only interfaces come back".into()),
    }
}

/// Opens queues of a network interface, or takes those of another process over
/// that offers them in `offer`, and takes from it what `claim` says. It answers to
/// the address that our stacks have, as each port does.
pub fn af_xdp(
    host: &HostPlan,
    link: &LinkSpec,
    queues: u16,
    claim: &Claim,
    offer: Option<Offer>,
) -> Result<AfXdp, Failure> {
    let DriverSpec::AfXdp(config) = &link.driver else { return Err(mixed()) };
    let config = af_xdp::Config { queues: Some(queues), ..config.clone() };
    let mut port = match offer {
        Some(offer) => AfXdp::adopt(config, claim, offer)?,
        None => AfXdp::open(config, claim)?,
    };
    port.answer_to(super::mac(host))?;
    // A generator is a command, whose user looks on.
    if host.opens {
        say::note(port.report())
    } else {
        say::info(port.report())
    }
    Ok(port)
}

/// Opens a port of DPDK. It answers to the address that our stacks have, which
/// is the first port's own, unless one was given.
pub fn dpdk(host: &HostPlan, link: &LinkSpec, queues: u16) -> Result<Vec<DpdkLink>, Failure> {
    let DriverSpec::Dpdk(config) = &link.driver else { return Err(mixed()) };
    let config = dpdk::Config { queues, mac: super::given_mac(host), ..config.clone() };
    Ok(Dpdk::open(&config)?.split_queues())
}

fn mixed() -> Failure {
    "all links are to be of one kind".into()
}

/// Each silo's queues, with their ports.
///
/// # Errors
/// If the layout gives out what was not opened.
pub fn deal<L>(layout: &Layout, opened: Opened<L>) -> Result<Vec<Vec<Member<L>>>, Failure> {
    let mut opened: Vec<Vec<Option<L>>> =
        opened.into_iter().map(|queues| queues.into_iter().map(Some).collect()).collect();
    let mut take = |port: u16, queue: u16| {
        let link = opened.get_mut(usize::from(port))?.get_mut(usize::from(queue))?.take()?;
        Some(Member { port, link })
    };
    let missing = || Failure::from("a port has fewer queues than it said");
    let seats = layout.seats.iter();
    seats
        .map(|seat| seat.queues.iter().map(|queue| take(queue.port, queue.queue).ok_or_else(missing)).collect())
        .collect()
}

/// The same as links of any kind, wrapped as the plan asks.
///
/// # Errors
/// If a capture cannot be written.
pub fn any<L: Into<AnyLink>>(
    host: &HostPlan,
    layout: &Layout,
    dealt: Vec<Vec<Member<L>>>,
) -> Result<Vec<Vec<Member<AnyLink>>>, Failure> {
    let mut number = 0;
    let mut all = Vec::new();
    for (seat, members) in layout.seats.iter().zip(dealt) {
        let mut mine = Vec::new();
        for (queue, Member { port, link }) in seat.queues.iter().zip(members) {
            let mut link = link.into();
            if is_wrapped(host) {
                let rss = link.rss();
                link = AnyLink::Wrapped(Box::new(wrap(host, layout, *queue, number, link)?), rss);
            }
            number += 1;
            mine.push(Member { port, link });
        }
        all.push(mine);
    }
    Ok(all)
}

/// A link of any kind: where a call more for each frame does not matter, and a
/// copy of the whole stack for each kind would.
pub enum AnyLink {
    /// Shared memory.
    Memif(MemifLink),
    /// The local kernel.
    Tap(Tap),
    /// A network interface.
    AfXdp(Box<XdpLink>),
    /// DPDK.
    Dpdk(DpdkLink),
    /// Any of these, captured or harmed, with what its port tells of RSS.
    Wrapped(Box<Capture<Faults<AnyLink>, CaptureFile>>, Option<(Rss, u16)>),
}

impl From<MemifLink> for AnyLink {
    fn from(link: MemifLink) -> Self {
        Self::Memif(link)
    }
}

impl From<Tap> for AnyLink {
    fn from(link: Tap) -> Self {
        Self::Tap(link)
    }
}

impl From<XdpLink> for AnyLink {
    fn from(link: XdpLink) -> Self {
        Self::AfXdp(Box::new(link))
    }
}

impl From<DpdkLink> for AnyLink {
    fn from(link: DpdkLink) -> Self {
        Self::Dpdk(link)
    }
}

/// Calls the same method of whichever link it is.
macro_rules! each {
    ($link:expr, $inner:ident => $call:expr) => {
        match $link {
            AnyLink::Memif($inner) => $call,
            AnyLink::Tap($inner) => $call,
            AnyLink::AfXdp($inner) => $call,
            AnyLink::Dpdk($inner) => $call,
            AnyLink::Wrapped($inner, _) => $call,
        }
    };
}

impl Link for AnyLink {
    type Rx<'a> = &'a mut dyn Receive;
    type Tx<'a> = &'a mut dyn Transmit;

    fn capabilities(&self) -> Capabilities {
        each!(self, link => link.capabilities())
    }

    fn split(&mut self) -> (&mut dyn Receive, &mut dyn Transmit) {
        each!(self, link => {
            let (rx, tx) = link.split();
            (rx, tx)
        })
    }

    fn poll_control(&mut self, now: Time) -> LinkState {
        each!(self, link => link.poll_control(now))
    }

    fn wait(&mut self, wake: Option<BorrowedFd<'_>>, timeout: Duration) -> io::Result<()> {
        each!(self, link => link.wait(wake, timeout))
    }

    fn arm<'l>(&'l mut self, each: &mut dyn FnMut(BorrowedFd<'l>)) -> Duration {
        each!(self, link => link.arm(each))
    }

    fn counters(&self) -> Counters {
        each!(self, link => link.counters())
    }

    fn memory(&self, each: &mut dyn FnMut(Range<usize>)) {
        each!(self, link => link.memory(each));
    }
}

/// Whether frames are captured, or harmed.
pub const fn is_wrapped(host: &HostPlan) -> bool {
    host.capture.is_some() || host.faults.is_some()
}

/// Wraps the link of a queue, the `number`th of all.
fn wrap(
    host: &HostPlan,
    layout: &Layout,
    queue: Queue,
    number: usize,
    link: AnyLink,
) -> Result<Capture<Faults<AnyLink>, CaptureFile>, Failure> {
    let mut faults = host.faults.unwrap_or_else(|| FaultPlan::both(Impairment::default(), 0));
    // Each queue draws for itself.
    faults.seed = faults.seed.wrapping_add(number as u64);
    let file = match &host.capture {
        Some(path) if layout.is_single() => Some(create(path)?),
        Some(path) => Some(create(&numbered(path, number))?),
        None => None,
    };
    let mut name = layout.ports.get(usize::from(queue.port)).map_or_else(String::new, |port| port.name.clone());
    if !layout.is_single() {
        name = format!("{name} queue {}", queue.queue);
    }
    let clock = Clock;
    let epoch = clock.unix().saturating_sub(Duration::from_nanos(clock.now().as_nanos()));
    let config = CaptureConfig { name, epoch, ..CaptureConfig::default() };
    Ok(Capture::new(Faults::new(link, faults), CaptureFile(file), config))
}

/// `frames.pcapng` as `frames.2.pcapng`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|why| format!("cannot write the capture {}: {why}", path.display()).into())
}

/// Where a capture goes, if there is one.
pub struct CaptureFile(Option<File>);

impl Write for CaptureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.flush(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capture_has_a_number_before_its_extension() {
        for (path, numbered_path) in
            [("/tmp/frames.pcapng", "/tmp/frames.3.pcapng"), ("frames", "frames.3"), ("a.b/c.d.e", "a.b/c.d.3.e")]
        {
            assert_eq!(numbered(Path::new(path), 3), Path::new(numbered_path));
        }
    }
}
