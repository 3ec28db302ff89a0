//! One side of a link made from its plan: pinned thread, link, stack.

use crate::args::{HostPlan, LinkSpec};
use core::net::IpAddr;
use link::{Capture, CaptureConfig, FaultPlan, Faults, Impairment, Link};
use memif::MemifLink;
use silo::Clock;
use stack::{Address, LinkOffload, Seeds, Stack};
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tap::Tap;
use wire::Mac;

/// What ends a command: a sentence for the user.
pub type Failure = Box<dyn Error>;

/// What runs over a link, whatever its kind.
pub trait Start {
    /// Runs to the end.
    ///
    /// # Errors
    /// What the user is to know.
    fn start<L: Link>(self, link: L) -> Result<(), Failure>;
}

/// Opens the plan's link, wrapped as asked, and runs `start` over it, on the
/// plan's core.
///
/// # Errors
/// If the core or the link cannot be had, and those of `start`.
pub fn over_link(plan: &HostPlan, start: impl Start) -> Result<(), Failure> {
    // Before any memory is touched: it then comes from the core's domain.
    if let Some(core) = plan.core {
        silo::pin::pin(core)?;
    }
    let wrapped = plan.capture.is_some() || plan.faults.is_some();
    match (&plan.link, wrapped) {
        (LinkSpec::Memif(config), false) => start.start(MemifLink::open(config.clone())?),
        (LinkSpec::Memif(config), true) => start.start(wrap(plan, MemifLink::open(config.clone())?)?),
        (LinkSpec::Tap(config), false) => start.start(Tap::open(config)?),
        (LinkSpec::Tap(config), true) => start.start(wrap(plan, Tap::open(config)?)?),
    }
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

fn wrap<L: Link>(plan: &HostPlan, link: L) -> Result<Capture<Faults<L>, CaptureFile>, Failure> {
    let faults = plan.faults.unwrap_or_else(|| FaultPlan::both(Impairment::default(), 0));
    let file = match &plan.capture {
        Some(path) => Some(create(path)?),
        None => None,
    };
    let clock = Clock;
    let epoch = clock.unix().saturating_sub(core::time::Duration::from_nanos(clock.now().as_nanos()));
    let config = CaptureConfig { name: link_name(&plan.link), epoch, ..CaptureConfig::default() };
    Ok(Capture::new(Faults::new(link, faults), CaptureFile(file), config))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|why| format!("cannot write the capture {}: {why}", path.display()).into())
}

/// The link as a person would name it.
pub fn link_name(link: &LinkSpec) -> String {
    match link {
        LinkSpec::Memif(config) => format!("memif:{}", config.socket),
        LinkSpec::Tap(config) => format!("tap:{}", config.name),
    }
}

/// The plan's stack over a link with these capabilities, listening on
/// `ports`, with `more` addresses beside the plan's own.
///
/// # Errors
/// If the operating system gives no random bits.
pub fn stack(
    plan: &HostPlan,
    capabilities: &link::Capabilities,
    ports: &[u16],
    more: impl Iterator<Item = IpAddr>,
) -> Result<Stack, Failure> {
    let mac = plan.mac.unwrap_or_else(|| default_mac(plan.addresses.first().map(|cidr| cidr.address)));
    let mut config = stack::Config::new(mac, capabilities.mtu);
    let own = plan.addresses.iter().map(|cidr| Address { ip: cidr.address, prefix_len: cidr.prefix });
    config.addresses = own.collect();
    let prefix = |ip: IpAddr| {
        let covering = plan.addresses.iter().filter(|cidr| cidr.contains(ip)).map(|cidr| cidr.prefix).max();
        covering.unwrap_or(if ip.is_ipv4() { 32 } else { 128 })
    };
    config.addresses.extend(more.map(|ip| Address { ip, prefix_len: prefix(ip) }));
    if config.addresses.len() > stack::MAX_ADDRESSES {
        return Err(format!("at most {} addresses can be used", stack::MAX_ADDRESSES).into());
    }
    config.gateways.clone_from(&plan.gateways);
    config.listen = ports.to_vec();
    config.tcp.congestion = plan.congestion;
    config.max_connections = plan.max_connections as usize;
    let offload = LinkOffload {
        checksum: plan.offload && capabilities.transmit_checksum,
        segmentation: capabilities.segmentation.filter(|_| plan.offload),
    };
    Ok(Stack::new(config, offload, &seeds()?, Clock.now()))
}

fn seeds() -> Result<Seeds, Failure> {
    let mut words = [0u64; 8];
    for word in &mut words {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|why| format!("no random bits from the operating system: {why}"))?;
        }
        *word = u64::from_ne_bytes(bytes);
    }
    let [a, b, c, d, e, f, g, h] = words;
    Ok(Seeds { table: [a, b, c, d], secret: [e, f, g, h] })
}

/// A locally administered address made from the IP address, so that it is the
/// same at every start and differs between neighbours.
fn default_mac(ip: Option<IpAddr>) -> Mac {
    let tail = match ip {
        Some(IpAddr::V4(ip)) => ip.octets(),
        Some(IpAddr::V6(ip)) => {
            let octets = ip.octets();
            [octets[12] ^ octets[4], octets[13] ^ octets[5], octets[14], octets[15]]
        }
        None => [0, 0, 0, 1],
    };
    // 02: locally administered, unicast (IEEE 802 section 8.2).
    Mac([0x02, 0x4e, tail[0], tail[1], tail[2], tail[3]])
}

/// Counts the interrupts and terminations that the process was sent.
///
/// # Errors
/// If the operating system refuses the handlers.
pub fn stop_signals() -> io::Result<Arc<AtomicUsize>> {
    count_signals(&[signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])
}

/// Counts the requests to open log files again (as nginx takes SIGUSR1).
///
/// # Errors
/// As [`stop_signals`].
pub fn reopen_signals() -> io::Result<Arc<AtomicUsize>> {
    count_signals(&[signal_hook::consts::SIGUSR1])
}

/// Counts these signals.
///
/// # Errors
/// As [`stop_signals`].
pub fn count_signals(signals: &[i32]) -> io::Result<Arc<AtomicUsize>> {
    let count = Arc::new(AtomicUsize::new(0));
    for &signal in signals {
        let seen = Arc::clone(&count);
        let note = move || {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        // SAFETY: the handler only adds to an atomic, which is
        // async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, note) }?;
    }
    Ok(count)
}
