//! Choices that begin at a number: of the client's address, of a key, of chance.

use crate::attempts::{Attempts, HASHES_MAX, HashWalk};
use crate::balancer::Balancer;
use crate::checksum::Crc32;

/// What hashes of addresses are bounded by.
const ADDRESS_HASH: u32 = 6_271;

impl Balancer {
    /// The peer that the client's address or the key leads to, or where their
    /// number leads when it is hashed again.
    pub(crate) fn hashed(&mut self, attempts: &mut Attempts, now: i64) -> Option<usize> {
        if matches!(&attempts.walk, HashWalk::Key { key, .. } if key.is_empty()) {
            return self.in_turn(attempts, now);
        }
        loop {
            let number = next_number(&mut attempts.walk);
            let place = self.by_weight(attempts, u64::from(number));
            if self.is_untried(attempts, place, now) {
                return Some(self.take(attempts, place, now));
            }
            attempts.hashes += 1;
            if attempts.hashes > HASHES_MAX {
                return self.in_turn(attempts, now);
            }
        }
    }

    /// The server at the key's point of the circle or at the next points, and of
    /// its addresses the next in turn.
    pub(crate) fn consistent(&mut self, attempts: &mut Attempts, now: i64) -> Option<usize> {
        loop {
            let HashWalk::Point { place, has_key: true } = attempts.walk else {
                return self.in_turn(attempts, now);
            };
            let server = self.group.points.server(place)?;
            let (mut best, mut total) = (None::<usize>, 0);
            let rank = self.rank(attempts);
            for peer in rank.start..rank.end {
                let other = self.group.peers()[peer].server;
                let named = other == server || self.group.server_name(other) == self.group.server_name(server);
                if !named || !self.is_untried(attempts, peer, now) {
                    continue;
                }
                total += self.save_up(peer);
                if best.is_none_or(|best| self.peers[peer].current_weight > self.peers[best].current_weight) {
                    best = Some(peer);
                }
            }
            if let Some(best) = best {
                self.peers[best].current_weight -= total;
                return Some(self.take(attempts, best, now));
            }
            attempts.walk = HashWalk::Point { place: place.wrapping_add(1), has_key: true };
            attempts.hashes += 1;
            if attempts.hashes > HASHES_MAX {
                return self.in_turn(attempts, now);
            }
        }
    }

    /// Any, by weight.
    pub(crate) fn random(
        &mut self,
        attempts: &mut Attempts,
        now: i64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<usize> {
        loop {
            let place = self.by_weight(attempts, random());
            if self.is_untried(attempts, place, now) {
                return Some(self.take(attempts, place, now));
            }
            attempts.hashes += 1;
            if attempts.hashes > HASHES_MAX {
                return self.in_turn(attempts, now);
            }
        }
    }

    /// Of any two by weight, the one with fewer connections.
    pub(crate) fn random_of_two(
        &mut self,
        attempts: &mut Attempts,
        now: i64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<usize> {
        let mut first = None;
        loop {
            let place = self.by_weight(attempts, random());
            if first != Some(place) && self.is_untried(attempts, place, now) {
                match first {
                    None => {
                        first = Some(place);
                        continue;
                    }
                    Some(first) => {
                        let better = if self.compare_load(place, first).is_gt() { first } else { place };
                        return Some(self.take(attempts, better, now));
                    }
                }
            }
            attempts.hashes += 1;
            if attempts.hashes > HASHES_MAX {
                return self.in_turn(attempts, now);
            }
        }
    }

    fn is_untried(&self, attempts: &Attempts, place: usize, now: i64) -> bool {
        !attempts.tried.has(place - self.rank(attempts).start) && self.is_usable(place, now)
    }

    /// The peer that a number falls to, each having as many as its weight.
    fn by_weight(&self, attempts: &Attempts, number: u64) -> usize {
        let rank = self.rank(attempts);
        let mut rest = number % rank.weight;
        for (place, peer) in self.group.peers().iter().enumerate().take(rank.end).skip(rank.start) {
            let weight = u64::from(peer.weight);
            if rest < weight {
                return place;
            }
            rest -= weight;
        }
        unreachable!("weights add up to the rank's")
    }
}

/// The number that comes next for an address or a key.
fn next_number(walk: &mut HashWalk) -> u32 {
    match walk {
        HashWalk::Address { bytes, length, hash } => {
            let step = |hash: u32, byte: &u8| (hash * 113 + u32::from(*byte)) % ADDRESS_HASH;
            *hash = bytes[..usize::from(*length)].iter().fold(*hash, step);
            *hash
        }
        HashWalk::Key { key, hash, round } => {
            // As memcached's clients have it: the round's number stands before the
            // key, from the second on.
            let sum = if *round > 0 { Crc32::new().with(round.to_string().as_bytes()) } else { Crc32::new() };
            *hash = hash.wrapping_add(sum.with(key).finish() >> 16 & 0x7fff);
            *round += 1;
            *hash
        }
        HashWalk::None | HashWalk::Point { .. } => 0,
    }
}
