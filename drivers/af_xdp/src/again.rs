//! An interface that was deleted, opened again when there is one of its name: by
//! this process, or for one that may not.

use crate::config::Config;
use crate::error::XdpError;
use crate::facts::Facts;
use crate::open::interface_of;
use crate::orders::Orders;
use crate::shared::Shared;
use crate::socket;
use crate::terms::Terms;
use ::link::{Reopened, Wanted};
use driver::Claim;
use ebpf::XdpAttachment;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use wire::Mac;

impl Shared {
    /// See [`crate::AfXdp::open_for_another`].
    ///
    /// # Errors
    /// [`XdpError`]; nothing is left behind.
    pub fn open_for_another(config: Config, claim: &Claim, wanted: Wanted) -> Result<Reopened, XdpError> {
        let mut shared = Self::open_like(config, claim, wanted.mtu)?;
        shared.answer_to(Mac(wanted.mac))?;
        let mut sockets = Vec::new();
        for ordinal in 0..shared.facts.queues {
            let socket = socket::privileged(&shared.config)?;
            if let Some(filter) = &shared.filter {
                filter.set_queue(u32::from(shared.config.first_queue) + u32::from(ordinal), socket.as_fd())?;
            }
            sockets.push(socket);
        }
        let terms = shared.terms();
        let attachment = shared.attachment.into_inner().unwrap_or_else(PoisonError::into_inner);
        let held: Vec<OwnedFd> = shared.groups.into_iter().chain(shared.held).collect();
        let text = format!("{} {terms}", held.len());
        let attachment = attachment.map(XdpAttachment::into_fd);
        Ok(Reopened { text, descriptors: attachment.into_iter().chain(held).chain(sockets).collect() })
    }

    /// Opens an interface in the place of one that was deleted, for packets that
    /// are at least as long.
    fn open_like(config: Config, claim: &Claim, mtu: u16) -> Result<Self, XdpError> {
        interface_of(&config)?;
        if matches!(claim, Claim::Host { .. }) {
            return Err(XdpError::NoInterface(config.interface));
        }
        let name = config.interface.clone();
        let port = Self::open(config, claim)?;
        let has = port.facts.mtu;
        if has < mtu {
            let limits = "the interface that was there before";
            return Err(XdpError::Mtu { interface: name, mtu: has.into(), limit: Some(mtu.into()), limits });
        }
        Ok(port)
    }

    /// Opens the interface of this name anew, after this one was deleted: with
    /// as many queues, for packets that are at least as long, and received
    /// under the address that our stacks have. Only for addresses of our own:
    /// with the host's a new interface has another Ethernet address, which
    /// neighbours are told.
    ///
    /// # Errors
    /// Those of [`Shared::open`].
    pub fn open_again(&self) -> Result<Arc<Self>, XdpError> {
        let config = Config { queues: Some(self.facts.queues), ..self.config.clone() };
        let mut port = Self::open_like(config, &self.claim, self.facts.mtu)?;
        port.answer_to(self.answers)?;
        Ok(Arc::new(port))
    }

    /// Whether there is another interface of the name.
    pub fn is_replaced(&self) -> bool {
        self.interface.again().is_ok_and(|interface| interface.index() != self.interface.index())
    }

    /// The port that another process has opened in the place of this one
    /// ([`AfXdp::open_for_another`]); `None` if it is none.
    pub fn take_given(&self, given: Reopened) -> Option<Arc<Self>> {
        let (held, terms) = given.text.split_once(' ')?;
        let (held, terms): (usize, Terms) = (held.parse().ok()?, terms.parse().ok()?);
        let config = Config { queues: Some(self.facts.queues), ..self.config.clone() };
        let interface = self.interface.again().ok()?;
        terms.check(&config, interface.index(), &self.claim).ok()?;
        let mut descriptors = given.descriptors;
        if descriptors.len() != 1 + held + usize::from(self.facts.queues) || terms.mtu < self.facts.mtu {
            return None;
        }
        let sockets = descriptors.split_off(1 + held);
        let held = descriptors.split_off(1);
        let attachment = XdpAttachment::from_fd(descriptors.pop()?);
        let Terms { mac, mtu, frame, mode, .. } = terms;
        let facts = Facts { mac, mtu, frame, mode, ..self.facts.clone() };
        Some(Arc::new(Self {
            config,
            interface,
            filter: None,
            given: Mutex::new(sockets.into_iter().map(Some).collect()),
            orders: Orders::new(facts.queues),
            facts,
            umem: Mutex::new(None),
            view: Mutex::new(None),
            attachment: Mutex::new(Some(attachment)),
            renewed: OnceLock::new(),
            answers: self.answers,
            claim: self.claim.clone(),
            stamping: None,
            groups: None,
            held,
        }))
    }
}
