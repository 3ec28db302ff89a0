//! A group changes while peers of it are asked.
//!
//! What is known of a peer that is there before and behind stays: its weight saved up,
//! its failures, and the requests that it is asked. Requests that were given a peer of the
//! group before keep it; when that fails, they choose from the group as it is then.

use crate::attempts::{Attempts, Tried};
use crate::balancer::{Balancer, PeerState};
use crate::group::{Group, PeerId};
use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// A peer of a group that was: requests that it is asked, and its place now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FormerPeer {
    peer: PeerId,
    conns: u32,
    now: Option<usize>,
}

/// Peers of groups that were, which are asked still, by the group's number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Former(HashMap<u32, Vec<FormerPeer>>);

impl Former {
    /// A request that a peer was asked is over: the place of this peer now.
    pub(crate) fn release(&mut self, epoch: u32, peer: PeerId) -> Option<usize> {
        let peers = self.0.get_mut(&epoch)?;
        let at = peers.iter().position(|one| one.peer == peer)?;
        let now = peers[at].now;
        peers[at].conns = peers[at].conns.saturating_sub(1);
        if peers[at].conns == 0 {
            peers.swap_remove(at);
        }
        if peers.is_empty() {
            self.0.remove(&epoch);
        }
        now
    }

    /// Requests that peers are asked which are gone.
    pub(crate) fn gone(&self) -> u32 {
        self.0.values().flatten().filter(|peer| peer.now.is_none()).map(|peer| peer.conns).sum()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Balancer {
    /// Whether what was chosen for a request was chosen from the group as it is.
    #[must_use]
    pub const fn is_current(&self, attempts: &Attempts) -> bool {
        attempts.epoch == self.epoch
    }

    /// Goes on with another group in place of this one.
    pub fn change(&mut self, group: Arc<Group>) {
        let mut places: HashMap<_, VecDeque<usize>> = HashMap::new();
        for place in 0..group.peers().len() {
            places.entry(group.identity(place)).or_default().push_back(place);
        }
        let old = &self.group;
        let steps: Vec<Option<usize>> =
            (0..old.peers().len()).map(|place| places.get_mut(&old.identity(place))?.pop_front()).collect();
        let mut peers: Vec<PeerState> = group.peers().iter().map(|peer| PeerState::fresh(peer.weight)).collect();
        for (state, step) in self.peers.iter().zip(&steps) {
            if let Some(place) = step {
                peers[*place] = state.clone();
            }
        }
        // What is released by another group's number is not by this one's, too.
        let mut elsewhere = vec![0_u32; self.peers.len()];
        for former in self.former.0.values_mut().flatten() {
            if let Some(place) = former.now {
                elsewhere[place] += former.conns;
                former.now = steps[place];
            }
        }
        let asked = |(place, (state, elsewhere)): (usize, (&PeerState, &u32))| {
            let conns = state.conns.saturating_sub(*elsewhere);
            // At most `PEERS_MAX`.
            (conns > 0).then(|| FormerPeer { peer: PeerId(place as u16), conns, now: steps[place] })
        };
        let asked: Vec<FormerPeer> = self.peers.iter().zip(&elsewhere).enumerate().filter_map(asked).collect();
        if !asked.is_empty() {
            self.former.0.insert(self.epoch, asked);
        }
        self.epoch = self.epoch.wrapping_add(1);
        (self.group, self.peers) = (group, peers);
    }

    /// A request goes on to choose from another group than it began with.
    #[cold]
    pub(crate) fn begin_again(&self, attempts: &mut Attempts) {
        let (first, backup) = (self.group.rank(false), self.group.rank(true));
        attempts.tried = Tried::none((first.end - first.start).max(backup.end - backup.start));
        (attempts.on_backup, attempts.epoch) = (false, self.epoch);
    }
}
