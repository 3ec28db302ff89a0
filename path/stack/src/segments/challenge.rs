//! The limit of challenge acknowledgements (RFC 5961 section 7).

use crate::config::{Config, Seeds};
use crate::limit::SecretLimit;
use wire::Time;

/// A connection is not challenged again within this time.
pub(super) const INTERVAL_MS: u32 = 500;

/// Who was challenged, and how many may be.
#[derive(Debug)]
pub(super) struct Challenges {
    all: SecretLimit,
    /// When the connection in each slot was last challenged, in milliseconds;
    /// 0 is never.
    last: Vec<u32>,
}

impl Challenges {
    /// For so many slots.
    pub fn new(config: &Config, seeds: &Seeds, slots: usize) -> Self {
        let seed = seeds.secret[0] ^ seeds.table[3];
        Self { all: SecretLimit::per_second(config.challenge_acks_per_second, seed), last: vec![0; slots] }
    }

    /// Whether one more may be sent by all together.
    pub fn take(&mut self, now: Time) -> bool {
        self.all.take(now)
    }

    /// Whether a connection may send one: one in half a second, as Linux has
    /// it (`tcp_oow_rate_limited` with its `tcp_invalid_ratelimit`), so that
    /// what one is sent says nothing of another.
    pub fn may_send(&mut self, slot: u32, now: Time, now_ms: u32) -> bool {
        let Some(last) = self.last.get_mut(slot as usize) else { return false };
        if *last != 0 && now_ms.wrapping_sub(*last) < INTERVAL_MS || !self.all.take(now) {
            return false;
        }
        *last = now_ms.max(1);
        true
    }
}
