//! What a list of pods says of workers: each one's end once.

use core::time::Duration;
use kubernetes::{Fate, fate, worker_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wire::Time;

/// Why a pod does not begin may pass for so long: another test's pods go, a registry answers at the second try.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the pods of a test.
#[derive(Debug)]
pub(crate) struct Watch {
    workers: u32,
    /// Workers whose pods were seen.
    seen: BTreeSet<u32>,
    /// Those that cannot begin so far, and since when.
    blocked: BTreeMap<u32, Time>,
    /// Those whose end is told.
    told: BTreeSet<u32>,
}

impl Watch {
    pub fn new(workers: u32) -> Self {
        Self { workers, seen: BTreeSet::new(), blocked: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// The ends that are not told yet, by the list of all pods that there are.
    pub fn look(&mut self, pods: &[Value], now: Time) -> Vec<Fate> {
        let here: BTreeSet<u32> = pods.iter().filter_map(worker_of).filter(|worker| *worker < self.workers).collect();
        let mut fates: Vec<Fate> = pods.iter().filter_map(fate).collect();
        let blocked: BTreeSet<u32> = fates.iter().filter(|one| one.may_pass).map(|one| one.worker).collect();
        self.blocked.retain(|worker, _| blocked.contains(worker));
        fates.retain(|one| !one.may_pass || now >= *self.blocked.entry(one.worker).or_insert(now) + BLOCKED_PATIENCE);
        fates.extend(self.seen.difference(&here).map(|worker| Fate::vanished(*worker)));
        self.seen.extend(here);
        fates.retain(|one| one.worker < self.workers && self.told.insert(one.worker));
        fates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(worker: u32, status: Value) -> Value {
        let annotations = json!({ "batch.kubernetes.io/job-completion-index": worker.to_string() });
        json!({ "metadata": { "annotations": annotations }, "status": status })
    }

    fn unschedulable() -> Value {
        let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
        json!({ "phase": "Pending", "conditions": [condition] })
    }

    fn words(fates: &[Fate]) -> Vec<(u32, &str)> {
        fates.iter().map(|one| (one.worker, one.words.as_str())).collect()
    }

    #[test]
    fn each_end_is_told_once_and_a_pod_that_is_gone_is_one() {
        let running = || json!({ "phase": "Running" });
        let mut watch = Watch::new(2);
        let at = Time::from_millis;
        assert!(watch.look(&[], at(0)).is_empty(), "they are yet to come");
        assert!(watch.look(&[pod(0, running()), pod(1, running()), pod(2, running())], at(1)).is_empty());
        let ended = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" });
        let fates = watch.look(&[pod(0, ended.clone()), pod(1, running())], at(2));
        assert_eq!(words(&fates), [(0, "Evicted: low on memory")]);
        assert!(watch.look(&[pod(0, ended), pod(1, running())], at(3)).is_empty());
        assert_eq!(words(&watch.look(&[], at(4))), [(1, "its pod is gone")], "and of the other it is known");
        // No worker of this test.
        let mut watch = Watch::new(1);
        assert!(watch.look(&[pod(7, json!({ "phase": "Succeeded" }))], at(0)).is_empty());
        assert!(watch.look(&[], at(1)).is_empty());
    }

    #[test]
    fn a_pod_that_cannot_begin_is_given_time_and_begins_anew_when_it_could() {
        let mut watch = Watch::new(1);
        let at = Time::from_millis;
        assert!(watch.look(&[pod(0, unschedulable())], at(0)).is_empty());
        assert!(watch.look(&[pod(0, unschedulable())], at(4_999)).is_empty());
        assert!(watch.look(&[pod(0, json!({ "phase": "Pending" }))], at(5_000)).is_empty(), "it has room");
        assert!(watch.look(&[pod(0, unschedulable())], at(5_001)).is_empty());
        assert!(watch.look(&[pod(0, unschedulable())], at(10_000)).is_empty());
        assert_eq!(words(&watch.look(&[pod(0, unschedulable())], at(10_001))), [(0, "Unschedulable")]);
    }
}
