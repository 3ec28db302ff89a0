//! Links opened for who measures or forwards: every frame, whoever it is for.

use af_xdp::{AfXdp, Claim, XdpLink};
use dpdk::{Dpdk, DpdkLink};
use host::AnyLink;
use host::values::{DriverSpec, LinkSpec};
use memif::{Memif, MemifLink};
use say::Failure;
use tap::Tap;

/// The links of each thread: one, or two. Of one kind, as they are; of two, by
/// a call more for each frame.
pub enum Ends {
    /// Shared memory.
    Memif(Vec<Vec<MemifLink>>),
    /// Network interfaces.
    AfXdp(Vec<Vec<XdpLink>>),
    /// Ports of DPDK.
    Dpdk(Vec<Vec<DpdkLink>>),
    /// Any.
    Any(Vec<Vec<AnyLink>>),
}

impl Ends {
    /// Opens every link with a queue for each of `threads`.
    ///
    /// # Errors
    /// The driver's.
    pub fn open(links: &[LinkSpec], threads: usize) -> Result<Self, Failure> {
        let queues = u16::try_from(threads).map_err(|_| "there are too many threads")?;
        for link in links {
            if link.queues.is_some_and(|asked| asked != queues) {
                return Err(format!("{}: there is one queue for each thread of --cores", link.name()).into());
            }
        }
        let kinds = |kind: &str| links.iter().all(|link| link.kind() == kind);
        if kinds("memif") {
            return Ok(Self::Memif(deal(links, queues, memif)?));
        }
        if kinds("af_xdp") {
            return Ok(Self::AfXdp(deal(links, queues, af_xdp)?));
        }
        // Where DPDK is not built in, nothing opens, and a copy of the loop would be for nothing.
        if kinds("dpdk") && cfg!(feature = "dpdk") {
            return Ok(Self::Dpdk(deal(links, queues, dpdk)?));
        }
        Ok(Self::Any(deal(links, queues, any)?))
    }
}

/// Opens each link and gives every thread a queue of each.
fn deal<L>(
    links: &[LinkSpec],
    queues: u16,
    open: impl Fn(&LinkSpec, u16) -> Result<Vec<L>, Failure>,
) -> Result<Vec<Vec<L>>, Failure> {
    let mut threads: Vec<Vec<L>> = (0..queues).map(|_| Vec::new()).collect();
    for link in links {
        let opened = open(link, queues)?;
        if opened.len() != threads.len() {
            return Err(format!("{} has {} queues, and {queues} are needed", link.name(), opened.len()).into());
        }
        threads.iter_mut().zip(opened).for_each(|(thread, queue)| thread.push(queue));
    }
    Ok(threads)
}

fn other(link: &LinkSpec) -> Failure {
    format!("{} is of another kind", link.name()).into()
}

fn memif(link: &LinkSpec, queues: u16) -> Result<Vec<MemifLink>, Failure> {
    let DriverSpec::Memif(config) = &link.driver else { return Err(other(link)) };
    Ok(Memif::open(memif::Config { queues, ..config.clone() })?.split_queues())
}

fn af_xdp(link: &LinkSpec, queues: u16) -> Result<Vec<XdpLink>, Failure> {
    let DriverSpec::AfXdp(config) = &link.driver else { return Err(other(link)) };
    let config = af_xdp::Config { queues: Some(queues), ..config.clone() };
    Ok(AfXdp::open(config, &Claim::Whole)?.split_queues())
}

fn dpdk(link: &LinkSpec, queues: u16) -> Result<Vec<DpdkLink>, Failure> {
    let DriverSpec::Dpdk(config) = &link.driver else { return Err(other(link)) };
    // What is forwarded is for others.
    let config = dpdk::Config { queues, promiscuous: true, ..config.clone() };
    Ok(Dpdk::open(&config)?.split_queues())
}

fn any(link: &LinkSpec, queues: u16) -> Result<Vec<AnyLink>, Failure> {
    fn into<L: Into<AnyLink>>(links: Vec<L>) -> Vec<AnyLink> {
        links.into_iter().map(Into::into).collect()
    }
    Ok(match &link.driver {
        DriverSpec::Memif(_) => into(memif(link, queues)?),
        DriverSpec::AfXdp(_) => into(af_xdp(link, queues)?),
        DriverSpec::Dpdk(_) => into(dpdk(link, queues)?),
        // Segments larger than a frame are the local kernel's offload, and no frames.
        DriverSpec::Tap(config) => into(Tap::open_queues(&tap::Config { queues, offload: false, ..config.clone() })?),
    })
}
