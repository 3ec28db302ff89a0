//! The kernel's view of an interface, fed into a stack that works on it.

use crate::plan::HostPlan;
use af_xdp::{HostEvent, HostRoute, HostView};
use driver::Kernel;
use say::Failure;
use stack::{Address, Route, Stack};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// News and questions handled in one look; more wait for the next.
const BOUND: usize = 64;

/// What a silo on a network interface follows.
pub struct Neighbourhood {
    view: HostView,
    /// The stack is on the host's own addresses.
    host: bool,
}

impl Neighbourhood {
    /// The interface of the plan's link; `None` if that has none.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn of(plan: &HostPlan) -> Result<Option<Self>, Failure> {
        let Some(Kernel::Beside(interface)) = plan.links.first().map(|link| link.driver.kernel()) else {
            return Ok(None);
        };
        let view = HostView::open(interface).map_err(|why| format!("cannot watch the interface {interface}: {why}"))?;
        Ok(Some(Self { view, host: plan.uses_host_addresses() }))
    }

    /// Makes a stack's settings those of the host, where it is to be on the
    /// host's own addresses.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn configure(&self, config: &mut stack::Config) -> Result<(), Failure> {
        if !self.host {
            return Ok(());
        }
        config.host_neighbours = true;
        config.addresses = self.addresses()?.map(alone).collect();
        config.routes = routes(&self.view.routes()?);
        Ok(())
    }

    /// The host's addresses.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn addresses(&self) -> Result<impl Iterator<Item = IpAddr> + use<>, Failure> {
        Ok(self.view.addresses()?.into_iter().map(|address| address.ip))
    }

    /// Readable when the kernel has news.
    pub fn news(&self) -> BorrowedFd<'_> {
        self.view.as_fd()
    }

    /// Takes what is new to the stack, and its questions to the kernel; `asked` is
    /// told of each, for whoever may ask where this process may not.
    pub fn attend(&mut self, stack: &mut Stack, asked: impl Fn(IpAddr)) {
        for _ in 0..BOUND {
            match self.view.poll() {
                None => break,
                Some(HostEvent::Mtu(mtu)) => stack.set_mtu(mtu.min(u32::from(u16::MAX)) as u16),
                Some(_) if !self.host => {}
                Some(HostEvent::Neighbour { ip, mac, proven }) => stack.learn_neighbour(ip, mac, proven),
                Some(HostEvent::NeighbourGone(ip)) => stack.forget_neighbour(ip),
                Some(HostEvent::Address(address)) => stack.add_address(alone(address.ip)),
                // The link takes no more frames for it.
                Some(HostEvent::AddressGone(_)) => {}
                Some(HostEvent::Routes(all)) => stack.set_routes(&routes(&all)),
            }
        }
        for _ in 0..BOUND {
            let Some(ip) = stack.poll_neighbour_wanted() else { return };
            self.view.ask(ip);
            asked(ip);
        }
    }
}

/// An address without its network: which networks are on the link is a matter
/// of the host's routes.
const fn alone(ip: IpAddr) -> Address {
    Address { ip, prefix_len: if ip.is_ipv4() { 32 } else { 128 } }
}

fn routes(all: &[HostRoute]) -> Vec<Route> {
    all.iter()
        .map(|route| Route { destination: route.destination, prefix_len: route.prefix_len, gateway: route.gateway })
        .collect()
}
