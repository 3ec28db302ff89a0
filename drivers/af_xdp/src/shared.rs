//! What the queues of an interface have in common.

use crate::config::Config;
use crate::facts::{Facts, Report};
use crate::filter::Filter;
use crate::host::HostView;
use crate::interface::Interface;
use crate::orders::Orders;
use crate::socket::Socket;
use crate::terms::Terms;
use crate::umem::Umem;
use driver::Claim;
use ebpf::XdpAttachment;
use stamping::Stamping;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wire::Mac;

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
    /// The NIC stamps frames while this is held.
    #[expect(dead_code, reason = "switched off again when it is dropped")]
    pub stamping: Option<Stamping>,
    /// Groups are received while this is open.
    pub groups: Option<OwnedFd>,
    /// Ports are ours, and another address is received, while these are open.
    pub held: Vec<OwnedFd>,
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

    /// The socket of a queue that another process opened.
    pub fn given(&self, ordinal: u16) -> Option<OwnedFd> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).get_mut(usize::from(ordinal))?.take()
    }
}
