//! What a silo knows of the servers that are asked.

use crate::rules::Servers;
use core::cell::{Cell, RefCell};
use core::time::Duration;
use exchange::UpstreamId;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use upstream::{Attempts, Balancer, BalancingKey, Group, IdlePool, IdleRules, PeerAddress};

/// A group of servers as the configuration has it.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// The servers, and how one of them is chosen.
    pub group: Arc<Group>,
    /// How connections to them are kept; none are not.
    pub idle: Option<IdleRules>,
    /// Names of some of them are found out while they serve: there may be none at first.
    pub is_named: bool,
}

/// An idle connection: it, and its mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeptLink {
    pub id: UpstreamId,
    pub mark: u32,
    /// How it is secured ([`crate::KeptLinks`]).
    pub way: u32,
}

/// A group as one silo has it.
#[derive(Debug)]
pub struct SiloGroup {
    /// Whose turn it is.
    pub balancer: Balancer,
    /// Connections that are kept.
    pub(crate) idle: Option<IdlePool<KeptLink>>,
    /// How long one is kept idle.
    pub(crate) kept_for: Duration,
    /// Those that are shared, idle or not: their numbers and generations.
    pub(crate) shared: Vec<(u32, u32)>,
    /// Those that are to be closed: their peers are gone.
    pub(crate) gone: Vec<KeptLink>,
    /// Peers, as logs name them.
    pub(crate) texts: Vec<Rc<[u8]>>,
    /// Its names are being found out: where it has no peers by now, it may soon.
    pub is_pending: bool,
}

impl SiloGroup {
    fn of(spec: &GroupSpec) -> Self {
        Self {
            balancer: Balancer::new(Arc::clone(&spec.group)),
            idle: spec.idle.map(|rules| IdlePool::new(rules, Arc::clone(&spec.group))),
            kept_for: spec.idle.map_or(Duration::ZERO, |rules| rules.timeout),
            shared: Vec::new(),
            gone: Vec::new(),
            texts: texts_of(&spec.group),
            is_pending: spec.is_named,
        }
    }

    /// Goes on with other peers. Connections to those that are gone are closed by
    /// [`crate::KeptLinks::close_gone`].
    pub fn change(&mut self, group: Group) {
        if group.peers() == self.balancer.group().peers() {
            return;
        }
        let group = Arc::new(group);
        self.texts = texts_of(&group);
        if let Some(idle) = &mut self.idle {
            self.gone.extend(idle.change(Arc::clone(&group)));
        }
        self.balancer.change(group);
    }

    /// Whether it has nobody to ask, and may soon.
    pub(crate) fn waits_for_names(&self) -> bool {
        self.is_pending && self.balancer.group().peers().is_empty()
    }
}

fn texts_of(group: &Group) -> Vec<Rc<[u8]>> {
    group.peers().iter().map(|peer| peer_text(&peer.address)).collect()
}

/// A peer as logs name it.
pub(crate) fn peer_text(address: &PeerAddress) -> Rc<[u8]> {
    Rc::from(address.to_string().into_bytes())
}

/// The groups of a configuration, as one silo has them.
#[derive(Debug)]
pub struct ServerGroups {
    /// By their numbers.
    pub list: RefCell<Vec<SiloGroup>>,
    /// Others are in their place: no connection is kept any more.
    pub(crate) is_replaced: Cell<bool>,
    secret: RandomState,
}

impl ServerGroups {
    /// Those of a configuration.
    #[must_use]
    pub fn new(specs: impl IntoIterator<Item = GroupSpec>) -> Self {
        let list = specs.into_iter().map(|spec| SiloGroup::of(&spec)).collect();
        Self { list: RefCell::new(list), is_replaced: Cell::new(false), secret: RandomState::new() }
    }

    /// A number that nobody can guess.
    pub(crate) fn chance(&self, of: u64) -> u64 {
        self.secret.hash_one(of)
    }

    /// Questions that servers are asked by now.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.list.borrow().iter().map(|group| group.balancer.asked() as usize).sum()
    }

    /// Begins to choose among servers.
    pub(crate) fn begin(&self, servers: &Servers, key: BalancingKey<'_>) -> Attempts {
        match servers {
            Servers::Group(number) => match self.list.borrow().get(usize::from(*number)) {
                Some(group) => group.balancer.begin(key),
                None => Attempts::none(),
            },
            Servers::Own(balancer) => balancer.begin(BalancingKey::None),
            Servers::Named(_) => Attempts::none(),
        }
    }
}
