//! The queue of a target, as a function of what its Lease says: one test has it at a time.
//!
//! Clocks of two machines are not compared: a holder counts up while it is there, and whoever waits goes by what it
//! sees of that, by its own clock.

use core::time::Duration;
use serde_json::{Value, json};
use wire::Time;

/// The annotation that a holder counts up.
const RENEWALS: &str = "nearside.dev/renewals";

/// How long a holder that does not count is waited for, at most, whatever the Lease says.
const LONGEST: Duration = Duration::from_secs(60);

/// What is to be done about a Lease.
#[derive(Clone, PartialEq, Debug)]
pub enum LeaseStep {
    /// Another has it.
    Wait {
        /// Who.
        holder: String,
    },
    /// Put this in its place.
    Take(Value),
}

/// What was seen of another holder.
#[derive(Debug, Default)]
pub struct LeaseWaiting {
    /// What it said, and since when.
    seen: Option<(String, Time)>,
}

impl LeaseWaiting {
    /// What is to be done about the Lease that was found, by one who is to hold it.
    pub fn step(&mut self, found: &Value, holder: &str, now: Time) -> LeaseStep {
        let theirs = found["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if theirs.is_empty() || theirs == holder {
            return LeaseStep::Take(held(found, holder));
        }
        let mark = format!("{theirs} {}", renewals(found));
        let since = match &self.seen {
            Some((seen, since)) if *seen == mark => *since,
            _ => now,
        };
        self.seen = Some((mark, since));
        let seconds = found["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(0);
        if now >= since + Duration::from_secs(seconds).min(LONGEST) {
            return LeaseStep::Take(held(found, holder));
        }
        LeaseStep::Wait { holder: theirs.to_owned() }
    }
}

fn renewals(found: &Value) -> u64 {
    let text = found["metadata"]["annotations"][RENEWALS].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The same Lease, held, and counted up. It keeps its version, so that of two who take it one is refused.
fn held(found: &Value, holder: &str) -> Value {
    let mut lease = found.clone();
    *within(within(&mut lease, "spec"), "holderIdentity") = json!(holder);
    let renewals = renewals(found).wrapping_add(1).to_string();
    *within(within(within(&mut lease, "metadata"), "annotations"), RENEWALS) = json!(renewals);
    lease
}

/// The place of a field; what it stands in is an object from now on, whatever it was.
fn within<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    &mut object[field]
}

/// The Lease that was found, renewed; none if another has it.
#[must_use]
pub fn renewed(found: &Value, holder: &str) -> Option<Value> {
    (found["spec"]["holderIdentity"] == holder).then(|| held(found, holder))
}

/// The Lease that was found, left; none if another has it.
#[must_use]
pub fn left(found: &Value, holder: &str) -> Option<Value> {
    (found["spec"]["holderIdentity"] == holder).then(|| held(found, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, renewals: &str) -> Value {
        json!({
            "metadata": { "name": "t", "resourceVersion": "7", "annotations": { RENEWALS: renewals } },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
        })
    }

    #[test]
    fn one_has_a_target_and_another_waits_until_it_is_left_or_says_nothing() {
        let at = Time::from_millis;
        let mut waiting = LeaseWaiting::default();
        let wait = LeaseStep::Wait { holder: "a".to_owned() };
        assert_eq!(waiting.step(&lease("a", "1"), "b", at(0)), wait);
        assert_eq!(waiting.step(&lease("a", "1"), "b", at(14_999)), wait);
        assert_eq!(waiting.step(&lease("a", "2"), "b", at(15_001)), wait, "it counts");
        let LeaseStep::Take(taken) = waiting.step(&lease("a", "2"), "b", at(30_001)) else { panic!("it says nothing") };
        assert_eq!(taken, lease("b", "3"), "by the version that was read");
        assert_eq!(LeaseWaiting::default().step(&lease("", "4"), "b", at(0)), LeaseStep::Take(lease("b", "5")));
        assert_eq!(LeaseWaiting::default().step(&lease("b", "4"), "b", at(0)), LeaseStep::Take(lease("b", "5")));
        assert_eq!((renewed(&lease("b", "9"), "b"), renewed(&lease("a", "9"), "b")), (Some(lease("b", "10")), None));
        assert_eq!((left(&lease("b", "9"), "b"), left(&lease("a", "9"), "b")), (Some(lease("", "10")), None));
    }

    #[test]
    fn a_lease_of_nonsense_keeps_nobody_for_ever() {
        let mut nonsense = lease("a", "x");
        nonsense["spec"]["leaseDurationSeconds"] = json!(1_u64 << 40);
        let mut waiting = LeaseWaiting::default();
        assert!(matches!(waiting.step(&nonsense, "b", Time::from_millis(0)), LeaseStep::Wait { .. }));
        assert!(matches!(waiting.step(&nonsense, "b", Time::from_millis(60_000)), LeaseStep::Take(_)));
        assert!(matches!(LeaseWaiting::default().step(&Value::Null, "b", Time::from_millis(0)), LeaseStep::Take(_)));
        for nonsense in [json!({ "spec": 7, "metadata": { "annotations": [] } }), json!([]), json!("x")] {
            assert!(matches!(LeaseWaiting::default().step(&nonsense, "b", Time::ZERO), LeaseStep::Take(_)));
        }
    }
}
