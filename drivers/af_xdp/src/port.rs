//! An opened interface: program attached, queues not yet at work.

use crate::config::{Config, QUEUES_LIMIT};
use crate::error::XdpError;
use crate::facts::Report;
use crate::handover::Handle;
use crate::interface::Interface;
use crate::link::XdpLink;
use crate::open::count_queues;
use crate::shared::Shared;
use ::link::{Reopened, Wanted};
use driver::{Claim, Offer};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use wire::Mac;

/// An interface that frames are taken from.
#[derive(Debug)]
pub struct AfXdp {
    pub(crate) shared: Arc<Shared>,
}

/// The Ethernet address of the interface called `name`: ours too, once it is
/// opened.
///
/// # Errors
/// [`XdpError::NoInterface`], [`XdpError::Interface`].
pub fn mac(name: &str) -> Result<Mac, XdpError> {
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => XdpError::NoInterface(name.to_owned()),
        _ => XdpError::Interface { interface: name.to_owned(), what: "read the address of", source },
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

/// Whether its interface has the queues that are asked for: what opening it looks at first. One that is
/// not there is told when it is opened.
///
/// # Errors
/// [`XdpError::NoQueue`].
pub fn check_queues(config: &Config) -> Result<(), XdpError> {
    match Interface::open(&config.interface) {
        Ok(interface) => count_queues(config, interface.queues()).map(drop),
        Err(_) => Ok(()),
    }
}

impl AfXdp {
    fn of(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Attaches the program for `claim` to the interface. Nothing is taken
    /// before a queue's link is at work.
    ///
    /// # Errors
    /// [`XdpError`]; nothing is left behind.
    pub fn open(config: Config, claim: &Claim) -> Result<Self, XdpError> {
        Shared::open(config, claim).map(Self::of)
    }

    /// Takes a port over from another process: `offer` is what it needs for that
    /// ([`Handle::offer`]). Its links wait until [`Handle::take`].
    ///
    /// # Errors
    /// [`XdpError`]; the other process has it as before.
    pub fn adopt(config: Config, claim: &Claim, offer: Offer) -> Result<Self, XdpError> {
        Shared::adopt(config, claim, offer).map(Self::of)
    }

    /// Opens a port for another process, whose own was deleted, and which may not
    /// open one itself: its links take it up ([`XdpLink::set_reopener`]). Only for
    /// addresses of their own, as [`Claim::Own`] has them.
    ///
    /// # Errors
    /// [`XdpError`]; nothing is left behind.
    pub fn open_for_another(config: Config, claim: &Claim, wanted: Wanted) -> Result<Reopened, XdpError> {
        Shared::open_for_another(config, claim, wanted)
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
    pub fn answer_to(&mut self, mac: Mac) -> Result<(), XdpError> {
        let busy = XdpError::System { what: "make the interface receive another address", source: Errno::BUSY };
        Arc::get_mut(&mut self.shared).ok_or(busy)?.answer_to(mac)
    }

    /// One link for each queue, in order. A link takes its memory and begins
    /// to receive in its first `poll_control`, or in [`XdpLink::start`], so
    /// that the memory comes from the domain of the thread that calls it.
    #[must_use]
    pub fn split_queues(self) -> Vec<XdpLink> {
        (0..self.shared.facts.queues).map(|ordinal| XdpLink::new(Arc::clone(&self.shared), ordinal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a plan is told is what opening would say: the loopback has one queue.
    #[test]
    fn more_queues_than_an_interface_has_are_refused_before_it_is_opened() {
        let check = |text: &str| check_queues(&text.parse::<Config>().unwrap());
        assert!(check("af_xdp:lo,queues=1").is_ok());
        for text in ["af_xdp:lo,queues=4", "af_xdp:lo,queues=1,first-queue=1"] {
            let told = check(text).unwrap_err().to_string();
            assert!(told.starts_with("lo has no queue 1: it has 1"), "{text}: {told}");
        }
        assert!(check("af_xdp:nobody-has-this,queues=4").is_ok(), "it is told when it is opened");
    }
}
