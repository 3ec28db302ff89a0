//! The link that the keeper holds.

use af_xdp::{HostView, KeptXdp};
use core::net::IpAddr;
use driver::Claim;
use link::Reopened;
use say::Failure;
use seats::Terms;
use std::io;
use tap::Tap;

/// The link, as far as it is this process's affair.
pub(crate) enum Kept {
    /// A queue that all seats share.
    Tap(Box<Tap>),
    /// Queues whose rings all seats map.
    Xdp(Box<KeptXdp>),
    /// Queues whose rings all seats map, of whichever peer there is.
    Memif(Box<memif::KeptMemif>),
}

impl Kept {
    /// Opens it.
    ///
    /// # Errors
    /// Why it carries no programs, or the system's.
    pub fn open(terms: &Terms) -> Result<Self, Failure> {
        let link = &terms.link;
        match link.split(':').next() {
            Some("tap") => {
                let config: tap::Config = link.parse().map_err(|why: driver::BadConfig| why.to_string())?;
                refuse_shared(terms, &config.name, config.addresses.iter().map(|kernels| kernels.address))?;
                let tap = Tap::open(&config).map_err(|why| why.to_string())?;
                Ok(Self::Tap(Box::new(tap)))
            }
            Some("af_xdp") => open_xdp(terms).map(|port| Self::Xdp(Box::new(port))),
            Some("memif") => open_memif(link).map(|port| Self::Memif(Box::new(port))),
            _ => Err(format!("{link}: only tap, af_xdp and memif links carry programs so far").into()),
        }
    }

    /// Its descriptors, for a process of the program.
    ///
    /// # Errors
    /// The system's.
    pub fn share(&self) -> io::Result<Reopened> {
        match self {
            Self::Tap(tap) => tap.share(),
            Self::Xdp(port) => port.share(),
            Self::Memif(port) => port.share(),
        }
    }
}

/// Opens a memif interface: as a server unless its text says otherwise, as `nearside serve` does.
fn open_memif(link: &str) -> Result<memif::KeptMemif, Failure> {
    let config = <memif::Config as driver::Open>::read(link, driver::Role::Server).map_err(|why| why.to_string())?;
    if config.queues > memif::SHARED_QUEUES {
        let (has, most) = (config.queues, memif::SHARED_QUEUES);
        return Err(format!("{link}: {has} queues, and programs share {most} at most over memif").into());
    }
    Ok(memif::KeptMemif::open(config).map_err(|why| why.to_string())?)
}

/// Opens an interface for addresses that are not the kernel's: with its own it would answer, too.
fn open_xdp(terms: &Terms) -> Result<KeptXdp, Failure> {
    let config: af_xdp::Config = terms.link.parse().map_err(|why: driver::BadConfig| why.to_string())?;
    let interface = config.interface.clone();
    let addresses: Vec<IpAddr> = terms.addresses.iter().map(|own| own.address).collect();
    let kernels = HostView::open(&interface).and_then(|view| view.addresses()).unwrap_or_default();
    refuse_shared(terms, &interface, kernels.iter().map(|has| has.ip))?;
    let claim = Claim::Own { addresses, aggregated: false };
    let port = KeptXdp::open(config, &claim).map_err(|why| why.to_string())?;
    if port.queues() > sharing::QUEUES_MAX {
        let (has, most) = (port.queues(), sharing::QUEUES_MAX);
        return Err(format!("{interface} has {has} queues, and programs share {most} at most (ethtool -L)").into());
    }
    Ok(port)
}

/// Addresses of a program that the kernel has on the link's interface, at its other side or beside it, are refused.
fn refuse_shared(terms: &Terms, interface: &str, mut kernels: impl Iterator<Item = IpAddr>) -> Result<(), Failure> {
    match kernels.find(|ip| terms.has(*ip)) {
        Some(both) => {
            Err(format!("{both} is the kernel's on {interface}: a program has an address of its own there").into())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the device is opened, which would give the address to the kernel.
    #[test]
    fn an_address_that_a_device_gives_to_the_kernel_is_refused() {
        let terms = "tap:near0,addr=10.9.0.2/24 10.9.0.2/24".parse().unwrap();
        let why = Kept::open(&terms).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.starts_with("10.9.0.2 is the kernel's on near0"), "{why}");
    }
}
