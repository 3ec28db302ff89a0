//! What runs an application on this machine: one side of a link made from its
//! plan, with silos on their cores, their links, their stacks; places of workers
//! over kernel sockets; and what both publish.
//!
//! | module | for |
//! | --- | --- |
//! | `plan`, `values` | what is to be, and the values that say so |
//! | `silos`, `cores`, `machine` | how many silos and workers, on which cores, within which limits |
//! | `layout` | which silo has which core, memory domain and queues; shown |
//! | `drivers` | the table of drivers, and a link by its text |
//! | `port`, `any`, `silo_link` | a silo's link; a queue of whatever driver; what a silo has of them |
//! | `ports` | links opened, wrapped, and dealt out to the silos |
//! | `own` | addresses that the host has, and our stack cannot have |
//! | `notices` | what an operator is to hear of links and addresses |
//! | `neighbourhood` | what the kernel tells of an interface, for a stack on it |
//! | `sched` | whether polling threads may have a real-time priority |
//! | `quota` | how much processor time there is for it |
//! | `spread` | how ports spread flows over their queues |
//! | `fleet` | a thread for each silo |
//! | `figures`, `published`, `help` | the statistics page, and what its values mean |
//! | `near`, `arrivals` | where memory, content and packets are, by NUMA domain |
//! | `work` | what a request is to cost, for experiments |
//! | `aggregation` | what a bond counts, by port |
//! | `unlike` | ports of one bond that are not alike |

pub mod aggregation;
mod any;
pub mod arrivals;
mod cores;
pub mod drivers;
pub mod figures;
pub mod fleet;
pub mod help;
pub mod layout;
pub mod machine;
pub mod near;
mod neighbourhood;
mod notices;
pub mod own;
mod plan;
mod port;
mod ports;
mod published;
pub mod quota;
pub mod sched;
mod silo_link;
mod silos;
mod spread;
mod unlike;
pub mod values;
mod work;

pub use any::AnyLink;
pub use cores::{Cores, Workers};
pub use fleet::{Finish, SiloWork};
pub use layout::{Layout, SiloPlace};
pub use neighbourhood::Neighbourhood;
pub use notices::{Losses, Notices};
pub use plan::{BesideLinks, CONNECTIONS_MAX, HostPlan, OnLinkLoss};
pub use port::Port;
pub use ports::{names, open_for_another};
pub use published::Take;
pub use silo_link::SiloLink;
pub use silos::{SILOS_MAX, Silos};
pub use work::{WORK_SPANS, burn};

use core::net::IpAddr;
use cpu::Clock;
use say::Failure;
use stack::{Address, Detection, LinkOffload, Seeds, Stack};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use wire::Mac;

/// The plan's stack for the `index`th of `silos`, over a link with these capabilities,
/// with `more` addresses beside the plan's own. It listens nowhere yet.
///
/// # Errors
/// If the operating system gives no random bits.
pub fn stack(
    plan: &HostPlan,
    (index, silos): (usize, usize),
    capabilities: &link::Capabilities,
    more: impl Iterator<Item = IpAddr>,
) -> Result<Stack, Failure> {
    let mut config = stack::Config::new(mac(plan), capabilities.mtu);
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
    config.shared_frames = capabilities.shared_frames;
    config.gateways.clone_from(&plan.gateways);
    if let Some(neighbourhood) = Neighbourhood::of(plan)? {
        neighbourhood.configure(&mut config)?;
    }
    // A successor has its predecessor's addresses, with the predecessor's
    // leave.
    config.detection =
        if plan.follows && plan.detection == Detection::Wait { Detection::Announce } else { plan.detection };
    // One speaks for all: they have the same addresses.
    config.announces = index == 0;
    config.tcp.congestion = plan.congestion;
    config.tcp.max_pacing_rate = plan.pacing_rate.map(NonZeroU64::get);
    // A time beyond 24 days is none.
    let user_timeout = plan.user_timeout.and_then(|time| i32::try_from(time.as_millis()).ok());
    config.tcp.user_timeout = user_timeout.map_or(0, |ms| ms.max(1).unsigned_abs());
    config.tcp.max_segment = plan.mss;
    config.tcp.receive_limit = plan.receive_limit.unwrap_or(config.tcp.receive_limit);
    config.tcp.send_limit = plan.send_limit.unwrap_or(config.tcp.send_limit);
    config.max_connections = plan.max_connections as usize;
    config.per_source.clone_from(&plan.per_source);
    if let Some(rate) = plan.errors_per_source {
        config.errors_per_source = rate;
    }
    if let Some(rate) = plan.resets_per_source {
        ask_resets(&mut config, rate);
    }
    config.steered = silos > 1 || plan.follows;
    share(&mut config, silos);
    let offload = LinkOffload {
        checksum: plan.offload && capabilities.transmit_checksum,
        segmentation: capabilities.segmentation.filter(|_| plan.offload),
    };
    Ok(Stack::new(config, offload, &seeds()?, Clock.now()))
}

/// Each silo's part of what is asked for, or usual for, all of them. Rounded
/// up: all together hold at least that.
fn share(config: &mut stack::Config, silos: usize) {
    for limit in [
        &mut config.max_connections,
        &mut config.max_half_open,
        &mut config.max_time_wait,
        &mut config.receive_memory,
        &mut config.send_memory,
    ] {
        *limit = limit.div_ceil(silos);
    }
    let silos = u32::try_from(silos).unwrap_or(u32::MAX);
    for rate in [
        &mut config.challenge_acks_per_second,
        &mut config.errors_per_second,
        &mut config.echo_per_second,
        &mut config.resets.per_second,
        &mut config.resets.depth,
    ] {
        *rate = rate.div_ceil(silos);
    }
    // All of a front's connections may be one silo's (`--steer`), and no source is given more
    // than half of what there is for all.
    let least = config.resets_per_source.depth.saturating_mul(5) / 2;
    config.resets.depth = config.resets.depth.max(least);
}

/// A source is given so many resets a second, and ten times as many at once; all of them
/// together at least twice that.
fn ask_resets(config: &mut stack::Config, per_second: u32) {
    let own = stack::ResetRate { per_second, depth: per_second.saturating_mul(10) };
    config.resets_per_source = own;
    config.resets.per_second = config.resets.per_second.max(own.per_second.saturating_mul(2));
    config.resets.depth = config.resets.depth.max(own.depth.saturating_mul(2));
}

fn seeds() -> Result<Seeds, Failure> {
    Ok(Seeds { table: random()?, secret: random()?, timestamps: timestamps(BOOT_ID)? })
}

/// What this boot of the machine is called: random, and the same for all
/// programs (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Keys for the offsets of timestamps: a later run's timestamps then go on
/// where an earlier one's ended, and a peer's TIME-WAIT does not refuse them.
/// No peer knows them; programs on this machine may. Where there is no /proc,
/// they are random.
///
/// # Errors
/// If the operating system gives no random bits.
fn timestamps(boot_id: &str) -> Result<[u64; 2], Failure> {
    let Ok(text) = std::fs::read_to_string(boot_id) else { return random() };
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let halves = digits.split_at_checked(16).unwrap_or_default();
    match (u64::from_str_radix(halves.0, 16), u64::from_str_radix(halves.1, 16)) {
        (Ok(high), Ok(low)) => Ok([high, low]),
        _ => random(),
    }
}

/// Random bits.
///
/// # Errors
/// If the operating system gives none.
fn random<const N: usize>() -> Result<[u64; N], Failure> {
    let mut words = [0_u64; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|why| format!("no random bits from the operating system: {why}"))?;
        }
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}

/// Our Ethernet address, once links are open.
fn mac(plan: &HostPlan) -> Mac {
    given_mac(plan).unwrap_or_else(|| default_mac(plan.addresses.first().map(|cidr| cidr.address)))
}

/// Our Ethernet address, where it is given: by the user, or by the first port,
/// which drops what is for others.
fn given_mac(plan: &HostPlan) -> Option<Mac> {
    plan.mac.or_else(|| plan.links.first()?.driver.mac())
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

/// Counts hang-ups, too: a terminal that is closed ends what was begun at it, and what was measured by then is not
/// lost. But not where they are ignored (nohup), for it was asked for that.
///
/// # Errors
/// As [`stop_signals`].
pub fn count_hangups(count: &Arc<AtomicUsize>) -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    // The lowest bit is that of signal 1.
    if u64::from_str_radix(ignored.trim(), 16).unwrap_or(0) & 1 == 1 {
        return Ok(());
    }
    let seen = Arc::clone(count);
    let note = move || {
        seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    // SAFETY: the handler only adds to an atomic, which is
    // async-signal-safe.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGHUP, note) }?;
    Ok(())
}

/// Counts these signals.
///
/// # Errors
/// As [`stop_signals`].
pub fn count_signals(signals: &[i32]) -> io::Result<Arc<AtomicUsize>> {
    let once: Vec<(i32, usize)> = signals.iter().map(|signal| (*signal, 1)).collect();
    count_signals_as(&once)
}

/// The same, of signals that count as often as each says.
///
/// # Errors
/// If the operating system refuses.
pub fn count_signals_as(signals: &[(i32, usize)]) -> io::Result<Arc<AtomicUsize>> {
    let count = Arc::new(AtomicUsize::new(0));
    for &(signal, times) in signals {
        let seen = Arc::clone(&count);
        let note = move || {
            seen.fetch_add(times, std::sync::atomic::Ordering::Relaxed);
        };
        // SAFETY: the handler only adds to an atomic, which is
        // async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, note) }?;
    }
    Ok(count)
}
