//! `limit_req` and `limit_conn`: how many requests and connections a client may
//! have, counted in zones that all silos share.

mod keys;
mod limit;
mod rules;
mod table;
mod zone;

pub use limit::{ConnectionLimit, RequestLimit};
pub use rules::LimitRules;
pub use table::HeldCount;
pub use zone::{Zone, ZoneKind};

use crate::row::{DirectiveRow, VariableRow};
use crate::rule::{Arguments, ValueForm};
use crate::value::Value;
use crate::view::RequestView;
use crate::{Explaining, Feature, FeatureSettings, Reach};
use core::time::Duration;
use rules::{declare, level, limit_conn, limit_req, rules, status};
use table::Excess;

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[
        DirectiveRow::declaring("limit_req", "limit_req_zone", Arguments::exactly(3), |declared, words, compiling| {
            declare(declared, words, ("limit_req_zone", true), compiling)
        }),
        DirectiveRow::new("limit_req", "limit_req", ValueForm::Own, limit_req).taking(Arguments::between(1, 3)).shown(
            "is zone=one
             is zone=one burst=1 nodelay
             is zone=one & zone=two burst=2 nodelay
             ask GET text.txt
             ask GET text.txt
             ask GET text.txt
             seen log",
        ),
        DirectiveRow::new("limit_req", "limit_req_log_level", LEVELS, |settings, words| {
            rules(settings).requests_level = level(words);
            Ok(())
        })
        .shown(
            "is error
             is info
             with limit_req zone=one;
             ask GET text.txt
             ask GET text.txt
             seen errors",
        ),
        DirectiveRow::new("limit_req", "limit_req_status", ValueForm::Number(None), |settings, words| {
            rules(settings).requests_status = status(words)?;
            Ok(())
        })
        .shown(
            "is 429
             is 500
             with limit_req zone=one;
             ask GET text.txt
             ask GET text.txt
             seen status",
        ),
        DirectiveRow::new("limit_req", "limit_req_dry_run", ValueForm::Flag, |settings, words| {
            words.flag(&mut rules(settings).requests_dry_run)
        })
        .shown(
            "is on
             is off
             with limit_req zone=one;
             ask GET text.txt
             ask GET text.txt
             seen status",
        ),
        DirectiveRow::declaring(
            "limit_conn",
            "limit_conn_zone",
            Arguments::exactly(2),
            |declared, words, compiling| declare(declared, words, ("limit_conn_zone", false), compiling),
        ),
        DirectiveRow::new("limit_conn", "limit_conn", ValueForm::Own, limit_conn).taking(Arguments::exactly(2)).shown(
            "is held 1
             is held 100
             ask GET text.txt
             seen status",
        ),
        DirectiveRow::new("limit_conn", "limit_conn_log_level", LEVELS, |settings, words| {
            rules(settings).connections_level = level(words);
            Ok(())
        })
        .shown(
            "is error
             is info
             with limit_conn held 1;
             ask GET text.txt
             seen errors",
        ),
        DirectiveRow::new("limit_conn", "limit_conn_status", ValueForm::Number(None), |settings, words| {
            rules(settings).connections_status = status(words)?;
            Ok(())
        })
        .shown(
            "is 429
             is 500
             with limit_conn held 1;
             ask GET text.txt
             seen status",
        ),
        DirectiveRow::new("limit_conn", "limit_conn_dry_run", ValueForm::Flag, |settings, words| {
            words.flag(&mut rules(settings).connections_dry_run)
        })
        .shown(
            "is on
             is off
             with limit_conn held 1;
             ask GET text.txt
             seen status",
        ),
    ],
    variables: &[
        VariableRow {
            name: "limit_req_status",
            reach: Reach::Request,
            lasts: false,
            write: |_, request, out| put_status(request.parts().limits.said.requests, out),
        },
        VariableRow {
            name: "limit_conn_status",
            reach: Reach::Request,
            lasts: false,
            write: |_, request, out| put_status(request.parts().limits.said.connections, out),
        },
    ],
    keys: keys::KEYS,
    explain: Some(explain),
    ..Feature::NONE
};

/// Of refusals, in the error log.
const LEVELS: ValueForm = ValueForm::OneOf("info,notice,warn,error");

fn put_status(status: Option<LimitStatus>, out: &mut Vec<u8>) -> bool {
    let Some(status) = status else { return false };
    out.extend_from_slice(status.text());
    true
}

fn explain(settings: &FeatureSettings, explaining: &mut dyn Explaining) {
    let limits = &settings.limits;
    for (name, any) in [("limit_req", !limits.requests.is_empty()), ("limit_conn", !limits.connections.is_empty())] {
        if any {
            explaining.keeps_off(name, "each request is counted");
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LimitDecision {
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
struct Limited {
    /// What becomes of it.
    decision: LimitDecision,
    /// What is told; `None`: nothing was counted, and the next place that the
    /// request comes to asks its own limits.
    status: Option<LimitStatus>,
    /// The zone that delays or refuses it, for the error log: a place in [`crate::Declared::zones`].
    zone: Option<u16>,
    /// How many requests it had too many, in thousandths, for the error log.
    excess: u64,
}

impl Limited {
    const NOTHING: Self = Self { decision: LimitDecision::Pass, status: None, zone: None, excess: 0 };

    /// The name of its zone.
    fn name<'z>(&self, zones: &'z [Zone]) -> &'z [u8] {
        self.zone.and_then(|zone| zones.get(usize::from(zone))).map_or(b"", |zone| &zone.name)
    }
}

/// What becomes of a request in a place with limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It goes on.
    Pass,
    /// It comes again after so long.
    Delay(Duration),
    /// It is answered with this status.
    Refuse(u16),
}

/// What is known of a request.
#[derive(Debug, Default)]
pub struct CountedRequest {
    /// What limits said of it: each is asked once, wherever it is redirected to.
    pub said: LimitsSaid,
    /// The connections that it counts as.
    pub held: Vec<HeldCount>,
}

/// What limits said of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitsSaid {
    /// `limit_req`.
    pub requests: Option<LimitStatus>,
    /// `limit_conn`.
    pub connections: Option<LimitStatus>,
}

/// `limiting requests, excess: 1.250 by zone "one"`
fn of_zone(what: &str, comma: &str, limited: &Limited, zones: &[Zone]) -> Vec<u8> {
    let (whole, rest) = (limited.excess / 1_000, limited.excess % 1_000);
    let mut text = format!("{what}, excess: {whole}.{rest:03}{comma} by zone \"").into_bytes();
    text.extend_from_slice(limited.name(zones));
    text.push(b'"');
    text
}

impl LimitRules {
    /// Counts a request where that was not done yet; `now` is in milliseconds, on a clock
    /// that all silos have.
    pub fn admit(&self, zones: &[Zone], request: &mut dyn RequestView, now: u64) -> Admission {
        if request.parts().limits.said.requests.is_none() && !self.requests.is_empty() {
            let limited = self.request(zones, &mut |value, out| request.write(value, out), now);
            request.parts().limits.said.requests = limited.status;
            let told = match limited.decision {
                LimitDecision::Pass => match limited.status {
                    Some(LimitStatus::DelayedDryRun) => Some((true, "delaying request, dry run", ",")),
                    Some(LimitStatus::RejectedDryRun) => Some((false, "limiting requests, dry run", "")),
                    _ => None,
                },
                LimitDecision::Delay(_) => Some((true, "delaying request", ",")),
                LimitDecision::Refuse => Some((false, "limiting requests", "")),
            };
            if let Some((milder, what, comma)) = told {
                let level = if milder { self.requests_level.milder() } else { self.requests_level };
                request.tell(level, &|| of_zone(what, comma, &limited, zones));
            }
            match limited.decision {
                LimitDecision::Pass => {}
                LimitDecision::Delay(time) => return Admission::Delay(time),
                LimitDecision::Refuse => return Admission::Refuse(self.requests_status),
            }
        }
        if request.parts().limits.said.connections.is_none() && !self.connections.is_empty() {
            let mut held = core::mem::take(&mut request.parts().limits.held);
            let limited = self.connection(zones, &mut |value, out| request.write(value, out), &mut held);
            let counted = &mut request.parts().limits;
            (counted.held, counted.said.connections) = (held, limited.status);
            let is_refused = limited.decision == LimitDecision::Refuse;
            if is_refused || limited.status == Some(LimitStatus::RejectedDryRun) {
                let what = if is_refused { "limiting connections" } else { "limiting connections, dry run," };
                request.tell(self.connections_level, &|| {
                    [what.as_bytes(), b" by zone \"", limited.name(zones), b"\""].concat()
                });
            }
            if is_refused {
                return Admission::Refuse(self.connections_status);
            }
        }
        Admission::Pass
    }
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
    fn request(&self, zones: &[Zone], write: &mut dyn FnMut(&Value, &mut Vec<u8>), now: u64) -> Limited {
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
    fn connection(
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
