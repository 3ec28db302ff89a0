//! Links opened, wrapped as asked, and dealt out to the silos.

use super::Layout;
use crate::aggregation;
use crate::any::{AnyLink, CaptureFile, Wrapped};
use crate::plan::HostPlan;
use crate::port::{BOND, steer_names};
use crate::published::Take;
use bond::Member;
use core::net::IpAddr;
use core::time::Duration;
use cpu::Clock;
use driver::Claim;
use link::{Capture, CaptureConfig, FaultPlan, Faults, Impairment, Reopened, Wanted};
use say::Failure;
use std::fs::File;
use std::path::{Path, PathBuf};
use topology::Queue;

/// The names of what the links of a layout count, in their order.
pub fn names(host: &HostPlan, layout: &Layout, take: Take<'_>) {
    let wrapped = is_wrapped(host);
    let kind = host.links.first().map(|link| link.driver.kind());
    if !layout.is_single() {
        steer_names().for_each(|name| take(name, 0));
        if !layout.is_plain() {
            aggregation::names(&host.bond, layout.ports.len(), take);
            BOND.into_iter().for_each(|name| take(name, 0));
        }
    }
    if !wrapped {
        kind.into_iter().flat_map(|kind| kind.counts).for_each(|name| take(name, 0));
    }
}

/// The queues of one kind of driver, by port.
pub type Opened<L> = Vec<Vec<L>>;

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
    link.driver.open_for_another(queues, &claim(host, Vec::new(), Vec::new()), wanted)
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
                link = AnyLink::new(wrap(host, layout, *queue, number, link)?);
            }
            number += 1;
            mine.push(Member { port, link });
        }
        all.push(mine);
    }
    Ok(all)
}

/// Whether frames are captured, or harmed.
pub const fn is_wrapped(host: &HostPlan) -> bool {
    host.capture.is_some() || host.faults.is_some()
}

/// Wraps the link of a queue, the `number`th of all.
fn wrap(host: &HostPlan, layout: &Layout, queue: Queue, number: usize, link: AnyLink) -> Result<Wrapped, Failure> {
    let mut faults = host.faults.as_deref().copied().unwrap_or_else(|| FaultPlan::both(Impairment::default(), 0));
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
