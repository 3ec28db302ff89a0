//! `limit_req` and `limit_conn`: how many requests and connections a client may
//! have, counted in zones that all silos share.

mod directive;
mod table;

pub use directive::{ConnectionLimit, LimitRules, RequestLimit, Zone, ZoneKind};
pub use table::HeldCount;

use crate::value::Value;
use core::time::Duration;
use table::Excess;

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitDecision {
    /// It goes on.
    Pass,
    /// It goes on after so long.
    Delay(Duration),
    /// It is answered with the status of its rules.
    Refuse,
}

/// What `$limit_req_status` and `$limit_conn_status` tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitStatus {
    /// `PASSED`
    Passed,
    /// `DELAYED`
    Delayed,
    /// `REJECTED`
    Rejected,
    /// `DELAYED_DRY_RUN`
    DelayedDryRun,
    /// `REJECTED_DRY_RUN`
    RejectedDryRun,
}

impl LimitStatus {
    /// Its text.
    #[must_use]
    pub const fn text(self) -> &'static [u8] {
        match self {
            Self::Passed => b"PASSED",
            Self::Delayed => b"DELAYED",
            Self::Rejected => b"REJECTED",
            Self::DelayedDryRun => b"DELAYED_DRY_RUN",
            Self::RejectedDryRun => b"REJECTED_DRY_RUN",
        }
    }
}

/// What limits said of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limited {
    /// What becomes of it.
    pub decision: LimitDecision,
    /// What is told; `None`: nothing was counted, and the next place that the
    /// request comes to asks its own limits.
    pub status: Option<LimitStatus>,
    /// The zone that delays or refuses it, for the error log: a place in
    /// [`crate::Program::zones`].
    pub zone: Option<u16>,
    /// How many requests it had too many, in thousandths, for the error log.
    pub excess: u64,
}

impl Limited {
    const NOTHING: Self = Self { decision: LimitDecision::Pass, status: None, zone: None, excess: 0 };
}

/// The longest key of a zone of requests, and of one of connections, in bytes:
/// what has a longer one is not counted.
const KEY_MAX: (usize, usize) = (65_535, 255);

impl LimitRules {
    /// Counts a request. `write` writes what the key of a zone stands for; `now`
    /// is in milliseconds, on a clock that all silos have.
    ///
    /// Ask it once for a request: not again where it goes on in another place
    /// after a status was told.
    pub fn request(&self, zones: &[Zone], write: &mut dyn FnMut(&Value, &mut Vec<u8>), now: u64) -> Limited {
        let (mut key, mut counted) = (Vec::new(), Vec::new());
        let mut limited = Limited::NOTHING;
        let last = self.requests.len().saturating_sub(1);
        for (at, limit) in self.requests.iter().enumerate() {
            let Some((zone, rate)) = zones.get(usize::from(limit.zone)).and_then(Zone::rate) else { continue };
            key.clear();
            write(&zone.key, &mut key);
            if key.is_empty() || key.len() > KEY_MAX.0 {
                continue;
            }
            // The last is counted at once, those before it when all have passed.
            match zone.table.request(&key, rate, limit.burst, at == last, now) {
                Excess::Over(excess) => {
                    let status =
                        if self.requests_dry_run { LimitStatus::RejectedDryRun } else { LimitStatus::Rejected };
                    let decision = if self.requests_dry_run { LimitDecision::Pass } else { LimitDecision::Refuse };
                    return Limited { decision, status: Some(status), zone: Some(limit.zone), excess };
                }
                Excess::Within(excess) if at == last => limited = limited.after(limit, rate, excess),
                Excess::Within(_) => counted.push((at, key.clone())),
            }
            limited.status = Some(LimitStatus::Passed);
        }
        for (at, key) in counted.into_iter().rev() {
            let limit = &self.requests[at];
            if let Some((zone, rate)) = zones.get(usize::from(limit.zone)).and_then(Zone::rate)
                && let Excess::Within(excess) = zone.table.request(&key, rate, u64::MAX, true, now)
            {
                limited = limited.after(limit, rate, excess);
            }
        }
        if let LimitDecision::Delay(_) = limited.decision {
            limited.status = Some(LimitStatus::Delayed);
            if self.requests_dry_run {
                limited.status = Some(LimitStatus::DelayedDryRun);
                limited.decision = LimitDecision::Pass;
            }
        }
        limited
    }

    /// Counts a connection, by its request: what is held counts until it is
    /// dropped, at the request's end.
    ///
    /// Ask it once for a request, as [`LimitRules::request`].
    pub fn connection(
        &self,
        zones: &[Zone],
        write: &mut dyn FnMut(&Value, &mut Vec<u8>),
        held: &mut Vec<HeldCount>,
    ) -> Limited {
        let (mut key, mut limited, before) = (Vec::new(), Limited::NOTHING, held.len());
        for limit in &self.connections {
            let Some(zone) = zones.get(usize::from(limit.zone)) else { continue };
            key.clear();
            write(&zone.key, &mut key);
            if key.is_empty() || key.len() > KEY_MAX.1 {
                continue;
            }
            limited.status = Some(LimitStatus::Passed);
            let Some(one) = zone.table.connection(&key, limit.most) else {
                held.truncate(before);
                limited.zone = Some(limit.zone);
                limited.status = Some(LimitStatus::Rejected);
                limited.decision = LimitDecision::Refuse;
                if self.connections_dry_run {
                    limited.status = Some(LimitStatus::RejectedDryRun);
                    limited.decision = LimitDecision::Pass;
                }
                return limited;
            };
            held.push(one);
        }
        limited
    }

    /// Whether nothing is limited.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.connections.is_empty()
    }
}

impl Limited {
    /// What it is if another zone has that much too many: the longest delay
    /// counts.
    fn after(self, limit: &RequestLimit, rate: u64, excess: u64) -> Self {
        let over = excess.saturating_sub(limit.delay);
        let delay = Duration::from_millis(over.saturating_mul(1_000) / rate.max(1));
        let longest = match self.decision {
            LimitDecision::Delay(longest) => longest,
            _ => Duration::ZERO,
        };
        if delay <= longest {
            return self;
        }
        Self { decision: LimitDecision::Delay(delay), zone: Some(limit.zone), excess, ..self }
    }
}

#[cfg(test)]
mod tests;
