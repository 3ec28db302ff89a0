//! What a request has tried.

use crate::group::PeerId;
use core::net::IpAddr;

/// What a request is known by, where that decides which peer it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalancingKey<'k> {
    /// Nothing: the group does not ask.
    None,
    /// The client's address; none for a client of a Unix socket.
    Client(Option<IpAddr>),
    /// The value of the key.
    Value(&'k [u8]),
}

/// The most times that a request's number is hashed again, before the next in
/// turn is taken.
pub(crate) const HASHES_MAX: u32 = 20;

/// What a request has tried of a group.
///
/// What was chosen is released, whatever becomes of the request: else its peer
/// counts a connection for good.
#[must_use = "a chosen peer has to be released"]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempts {
    /// The peer that is asked.
    pub(crate) current: Option<PeerId>,
    /// The first of the group that could be asked were tried in vain.
    pub(crate) on_backup: bool,
    pub(crate) tried: Tried,
    pub(crate) left: u32,
    /// How often the number was hashed again in vain.
    pub(crate) hashes: u32,
    pub(crate) walk: HashWalk,
    /// Which of the groups that a balancer had it was chosen from.
    pub(crate) epoch: u32,
}

/// Where the search by a key stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HashWalk {
    None,
    Address { bytes: [u8; 16], length: u8, hash: u32 },
    Key { key: Box<[u8]>, hash: u32, round: u32 },
    Point { place: u32, has_key: bool },
}

impl Attempts {
    /// Of a request of which nobody knows yet whom it goes to.
    pub const fn none() -> Self {
        Self {
            current: None,
            on_backup: false,
            tried: Tried::Few(0),
            left: 0,
            hashes: 0,
            walk: HashWalk::None,
            epoch: 0,
        }
    }

    /// The peer that is asked, from [`crate::Balancer::choose`] to
    /// [`crate::Balancer::release`].
    #[must_use]
    pub const fn current(&self) -> Option<PeerId> {
        self.current
    }

    /// How many more peers may be asked after the current one failed.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The peer that failed counts for nothing: what was closed was a connection that was
    /// kept too long.
    pub const fn again(&mut self) {
        self.left = self.left.saturating_add(1);
    }

    /// Asks no more than so many (`proxy_next_upstream_tries`); 0 is any number.
    pub fn limit(&mut self, most: u32) {
        if most > 0 {
            self.left = self.left.min(most);
        }
    }
}

/// Which peers of a rank were tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tried {
    /// Of up to 64.
    Few(u64),
    Many(Box<[u64]>),
}

impl Tried {
    pub(crate) fn none(peers: usize) -> Self {
        if peers <= 64 { Self::Few(0) } else { Self::Many(vec![0; peers.div_ceil(64)].into()) }
    }

    pub(crate) fn has(&self, place: usize) -> bool {
        let word = match self {
            Self::Few(word) => *word,
            Self::Many(words) => words[place / 64],
        };
        word >> (place % 64) & 1 == 1
    }

    pub(crate) fn add(&mut self, place: usize) {
        let word = match self {
            Self::Few(word) => word,
            Self::Many(words) => &mut words[place / 64],
        };
        *word |= 1 << (place % 64);
    }

    pub(crate) fn remove(&mut self, place: usize) {
        let word = match self {
            Self::Few(word) => word,
            Self::Many(words) => &mut words[place / 64],
        };
        *word &= !(1 << (place % 64));
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::Few(word) => *word = 0,
            Self::Many(words) => words.fill(0),
        }
    }
}
