//! What a silo knows of a group's peers, and which of them is next.

use crate::attempts::{Attempts, BalancingKey, HASHES_MAX, HashWalk, Tried};
use crate::former::Former;
use crate::group::{Balancing, Group, PeerId, Rank};
use core::net::IpAddr;
use std::sync::Arc;

/// A second before all others, from which differences are bounded.
const LONG_AGO: i64 = i64::MIN / 4;

/// What became of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerState {
    /// What it has saved up: who has most is next.
    pub current_weight: i64,
    /// Its weight, or less while it comes back from failures.
    pub effective_weight: i64,
    /// Requests that it is asked by now.
    pub conns: u32,
    fails: u32,
    /// The second of the last failure.
    accessed: i64,
    /// The second of the last failure, or of the try after it.
    checked: i64,
}

/// What is to be told after a peer was released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// It failed too often: nginx says "upstream server temporarily disabled".
    pub disabled: bool,
}

/// A group as a silo knows it.
#[derive(Debug)]
pub struct Balancer {
    pub(crate) group: Arc<Group>,
    pub(crate) peers: Vec<PeerState>,
    /// Groups so far, and those before of which peers are asked still.
    pub(crate) epoch: u32,
    pub(crate) former: Former,
}

impl PeerState {
    pub(crate) fn fresh(weight: u32) -> Self {
        Self {
            current_weight: 0,
            effective_weight: i64::from(weight),
            conns: 0,
            fails: 0,
            accessed: LONG_AGO,
            checked: LONG_AGO,
        }
    }
}

impl Balancer {
    /// A group of which nothing is known yet.
    #[must_use]
    pub fn new(group: Arc<Group>) -> Self {
        let peers = group.peers().iter().map(|peer| PeerState::fresh(peer.weight)).collect();
        Self { group, peers, epoch: 0, former: Former::default() }
    }

    /// The group.
    #[must_use]
    pub const fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Requests that a peer is asked by now.
    #[must_use]
    pub fn connections(&self, peer: PeerId) -> u32 {
        self.peers[peer.place()].conns
    }

    /// Requests that peers are asked by now, of this group or of those before it.
    #[must_use]
    pub fn asked(&self) -> u32 {
        let now: u32 = self.peers.iter().map(|peer| peer.conns).sum();
        now + self.former.gone()
    }

    /// A request that has tried nothing yet.
    pub fn begin(&self, key: BalancingKey<'_>) -> Attempts {
        let (first, backup) = (self.group.rank(false), self.group.rank(true));
        let backup_tries = if self.group.has_backup() { backup.tries } else { 0 };
        Attempts {
            current: None,
            on_backup: false,
            tried: Tried::none((first.end - first.start).max(backup.end - backup.start)),
            left: first.tries + backup_tries,
            hashes: 0,
            walk: self.walk(key),
            epoch: self.epoch,
        }
    }

    fn walk(&self, key: BalancingKey<'_>) -> HashWalk {
        let value = match key {
            BalancingKey::Value(value) => value,
            _ => b"",
        };
        match self.group.balancing() {
            Balancing::ClientAddress => {
                let (mut bytes, mut length) = ([0; 16], 3);
                match key {
                    BalancingKey::Client(Some(IpAddr::V4(address))) => bytes[..4].copy_from_slice(&address.octets()),
                    BalancingKey::Client(Some(IpAddr::V6(address))) => (bytes, length) = (address.octets(), 16),
                    _ => {}
                }
                HashWalk::Address { bytes, length, hash: 89 }
            }
            Balancing::Key => HashWalk::Key { key: value.into(), hash: 0, round: 0 },
            Balancing::ConsistentKey => {
                HashWalk::Point { place: self.group.points.find(value), has_key: !value.is_empty() }
            }
            _ => HashWalk::None,
        }
    }

    /// The next peer to ask; none if there is no live one: "no live upstreams".
    ///
    /// `now` is in seconds of a clock that does not go back, and `random` gives
    /// uniform bits where the group asks for them.
    pub fn choose(&mut self, attempts: &mut Attempts, now: i64, random: &mut impl FnMut() -> u64) -> Option<PeerId> {
        debug_assert!(attempts.current.is_none(), "the one before was released");
        if attempts.epoch != self.epoch {
            self.begin_again(attempts);
        }
        let hashes = attempts.hashes <= HASHES_MAX && !self.group.is_single() && self.group.has_first();
        let found = match self.group.balancing() {
            Balancing::LeastConnections => self.of_ranks(attempts, now, Self::least_connections),
            Balancing::ClientAddress | Balancing::Key if hashes => self.hashed(attempts, now),
            Balancing::ConsistentKey if hashes => self.consistent(attempts, now),
            Balancing::Random if hashes => self.random(attempts, now, random),
            Balancing::RandomOfTwo if hashes => self.random_of_two(attempts, now, random),
            _ => self.in_turn(attempts, now),
        };
        let peer = PeerId(found? as u16);
        attempts.current = Some(peer);
        Some(peer)
    }

    /// The next in turn, of the first rank and then of the backups.
    pub(crate) fn in_turn(&mut self, attempts: &mut Attempts, now: i64) -> Option<usize> {
        self.of_ranks(attempts, now, Self::round_robin)
    }

    fn of_ranks(
        &mut self,
        attempts: &mut Attempts,
        now: i64,
        choose: fn(&mut Self, &Attempts, i64) -> Option<usize>,
    ) -> Option<usize> {
        if self.group.is_single() {
            let peer = &self.group.peers()[0];
            let state = &mut self.peers[0];
            let full = peer.max_conns > 0 && state.conns >= peer.max_conns;
            return (!peer.down && !full).then(|| {
                state.conns += 1;
                0
            });
        }
        loop {
            if let Some(best) = choose(self, attempts, now) {
                return Some(self.take(attempts, best, now));
            }
            if attempts.on_backup || !self.group.has_backup() {
                return None;
            }
            attempts.on_backup = true;
            attempts.tried.clear();
        }
    }

    /// Gives a peer the request.
    pub(crate) fn take(&mut self, attempts: &mut Attempts, place: usize, now: i64) -> usize {
        let rank = self.rank(attempts);
        attempts.tried.add(place - rank.start);
        let timeout = i64::from(self.group.peers()[place].fail_timeout);
        let state = &mut self.peers[place];
        state.conns += 1;
        if now - state.checked > timeout {
            state.checked = now;
        }
        place
    }

    /// The peers that are asked now.
    pub(crate) fn rank(&self, attempts: &Attempts) -> Rank {
        self.group.rank(attempts.on_backup)
    }

    /// Whether a peer may be asked.
    pub(crate) fn is_usable(&self, place: usize, now: i64) -> bool {
        let (peer, state) = (&self.group.peers()[place], &self.peers[place]);
        let failed = peer.max_fails > 0 && state.fails >= peer.max_fails;
        let resting = failed && now - state.checked <= i64::from(peer.fail_timeout);
        let full = peer.max_conns > 0 && state.conns >= peer.max_conns;
        !(peer.down || resting || full)
    }

    /// Those that the request has not tried, and that may be asked.
    pub(crate) fn untried<'b>(&'b self, attempts: &'b Attempts, now: i64) -> impl Iterator<Item = usize> + 'b {
        let rank = self.rank(attempts);
        rank.places().filter(move |place| !attempts.tried.has(*place - rank.start) && self.is_usable(*place, now))
    }

    /// Lets a peer save up its weight, which comes back to what is configured.
    /// Returns what it saved.
    pub(crate) fn save_up(&mut self, place: usize) -> i64 {
        let weight = i64::from(self.group.peers()[place].weight);
        let state = &mut self.peers[place];
        let saved = state.effective_weight;
        state.current_weight += saved;
        state.effective_weight += i64::from(saved < weight);
        saved
    }

    /// Smooth weighted round robin: each saves up its weight, who has most is next
    /// and pays what all have saved in this round.
    fn round_robin(&mut self, attempts: &Attempts, now: i64) -> Option<usize> {
        let rank = self.rank(attempts);
        let (mut best, mut total) = (None::<usize>, 0);
        for place in rank.start..rank.end {
            if attempts.tried.has(place - rank.start) || !self.is_usable(place, now) {
                continue;
            }
            total += self.save_up(place);
            if best.is_none_or(|best| self.peers[place].current_weight > self.peers[best].current_weight) {
                best = Some(place);
            }
        }
        self.peers[best?].current_weight -= total;
        best
    }

    /// The one with the fewest connections for its weight; of several, the next in
    /// turn.
    fn least_connections(&mut self, attempts: &Attempts, now: i64) -> Option<usize> {
        let rank = self.rank(attempts);
        let (mut best, mut many) = (None::<usize>, false);
        for place in self.untried(attempts, now) {
            match best.map(|best| self.compare_load(place, best)) {
                None | Some(core::cmp::Ordering::Less) => (best, many) = (Some(place), false),
                Some(core::cmp::Ordering::Equal) => many = true,
                Some(core::cmp::Ordering::Greater) => {}
            }
        }
        let mut best = best?;
        let mut total = 0;
        if many {
            let first = best;
            for place in first..rank.end {
                let tried = attempts.tried.has(place - rank.start);
                if tried || !self.compare_load(place, best).is_eq() || !self.is_usable(place, now) {
                    continue;
                }
                total += self.save_up(place);
                if self.peers[place].current_weight > self.peers[best].current_weight {
                    best = place;
                }
            }
        }
        self.peers[best].current_weight -= total;
        Some(best)
    }

    /// Connections of two peers, each for its weight.
    pub(crate) fn compare_load(&self, one: usize, other: usize) -> core::cmp::Ordering {
        let load = |place: usize, other: usize| {
            u64::from(self.peers[place].conns) * u64::from(self.group.peers()[other].weight)
        };
        load(one, other).cmp(&load(other, one))
    }

    /// Takes the request from its peer. A failure counts against it: with as many
    /// as `max_fails`, it is left alone for `fail_timeout`, unless it is the only
    /// one.
    pub fn release(&mut self, attempts: &mut Attempts, now: i64, failed: bool) -> Released {
        let Some(peer) = attempts.current.take() else { return Released::default() };
        if attempts.epoch != self.epoch {
            attempts.left = attempts.left.saturating_sub(1);
            let Some(place) = self.former.release(attempts.epoch, peer) else { return Released::default() };
            return self.settle(place, now, failed);
        }
        attempts.left = if self.group.is_single() { 0 } else { attempts.left.saturating_sub(1) };
        self.settle(peer.place(), now, failed)
    }

    /// Gives back a peer that has not processed the request: that counts for nothing, and it may be
    /// chosen again, which may be the only one that is left.
    pub fn release_unprocessed(&mut self, attempts: &mut Attempts, now: i64) -> Released {
        if let Some(peer) = attempts.current.filter(|_| attempts.epoch == self.epoch && !self.group.is_single())
            && let Some(place) = peer.place().checked_sub(self.rank(attempts).start)
        {
            attempts.tried.remove(place);
        }
        let released = self.release(attempts, now, false);
        attempts.again();
        released
    }

    /// The same of one that refuses it: others are asked first, backups too, and it again where there is none.
    pub fn release_refused(&mut self, attempts: &mut Attempts, now: i64) -> Released {
        let mut backups = self.group.rank(true).places();
        let has_backup = self.group.has_backup() && !attempts.on_backup;
        let others = has_backup && backups.any(|place| self.is_usable(place, now));
        let is_known = attempts.epoch == self.epoch && !self.group.is_single();
        if !is_known || !others && self.untried(attempts, now).next().is_none() {
            return self.release_unprocessed(attempts, now);
        }
        let released = self.release(attempts, now, false);
        attempts.again();
        released
    }

    /// A request that a peer was asked is over.
    fn settle(&mut self, place: usize, now: i64, failed: bool) -> Released {
        let settings = &self.group.peers()[place];
        let state = &mut self.peers[place];
        state.conns = state.conns.saturating_sub(1);
        if self.group.is_single() {
            return Released::default();
        }
        let mut disabled = false;
        if failed {
            state.fails = state.fails.saturating_add(1);
            (state.accessed, state.checked) = (now, now);
            if let Some(less) = settings.weight.checked_div(settings.max_fails) {
                state.effective_weight = (state.effective_weight - i64::from(less)).max(0);
                disabled = state.fails >= settings.max_fails;
            }
        } else if state.accessed < state.checked {
            // It was tried again after its last failure.
            state.fails = 0;
        }
        Released { disabled }
    }
}
