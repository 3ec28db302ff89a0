//! Peers of groups that were, which are asked still.

use crate::group::PeerId;
use std::collections::HashMap;

/// A peer of a group that was: requests that it is asked, and its place now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FormerPeer {
    pub peer: PeerId,
    pub conns: u32,
    pub now: Option<usize>,
}

/// Peers of groups that were, which are asked still, by the group's number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Former(HashMap<u32, Vec<FormerPeer>>);

impl Former {
    /// Those of one more group.
    pub(crate) fn add(&mut self, epoch: u32, peers: Vec<FormerPeer>) {
        self.0.insert(epoch, peers);
    }

    pub(crate) fn peers(&mut self) -> impl Iterator<Item = &mut FormerPeer> {
        self.0.values_mut().flatten()
    }

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
