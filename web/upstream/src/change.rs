//! A group changes while peers of it are asked.
//!
//! What is known of a peer that is there before and behind stays: its weight saved up,
//! its failures, and the requests that it is asked. Requests that were given a peer of the
//! group before keep it; when that fails, they choose from the group as it is then.

use crate::attempts::{Attempts, Tried};
use crate::balancer::{Balancer, PeerState};
use crate::former::FormerPeer;
use crate::group::{Group, PeerId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

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
        for former in self.former.peers() {
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
            self.former.add(self.epoch, asked);
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
