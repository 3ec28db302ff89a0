//! Nodes of a cluster, as far as an audit asks: which it is to have, and which can answer.

use serde_json::Value;
use spec::{PodsSpec, Toleration};
use std::collections::BTreeMap;

/// Taints of this domain say how a node is at present; others say what it is for.
const OF_STATE: &str = "node.kubernetes.io/";

/// That of a node that is cordoned.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Those of nodes that their condition says as much of.
const OF_CONDITION: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// A taint that keeps pods away.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeenNode {
    labels: BTreeMap<String, String>,
    /// Why it is not ready, if it is not: in a sentence.
    not_ready: Option<String>,
    is_cordoned: bool,
    taints: Vec<Taint>,
}

/// Whether a node can have a pod of an audit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It can.
    Ready,
    /// It is not one of those that the audit is of.
    Other,
    /// It is kept for others: the taint is named.
    LeftOut(String),
    /// It cannot at present: why in a word, and in a sentence.
    Away(&'static str, String),
}

impl SeenNode {
    /// A node's name, and what is known of it; none of what is no node.
    pub fn read(object: &Value) -> Option<(String, Self)> {
        let name = object["metadata"]["name"].as_str()?.to_owned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready");
        let not_ready = match ready {
            Some(one) if one["status"] == "True" => None,
            Some(one) => Some(format!("{}: {}", text(&one["reason"]), text(&one["message"]))),
            None => Some("it has not said so far that it is ready".to_owned()),
        };
        let taints = object["spec"]["taints"].as_array().into_iter().flatten();
        let taints = taints.filter(|one| one["effect"] != "PreferNoSchedule").map(|one| Taint {
            key: text(&one["key"]),
            value: text(&one["value"]),
            effect: text(&one["effect"]),
        });
        let is_cordoned = object["spec"]["unschedulable"] == true;
        Some((name, Self { labels, not_ready, is_cordoned, taints: taints.collect() }))
    }

    /// Whether it can have a pod of these.
    pub fn standing(&self, pods: &PodsSpec) -> Standing {
        let has = |(key, value): &(String, String)| self.labels.get(key) == Some(value);
        if !pods.node_selector.iter().all(has) {
            return Standing::Other;
        }
        let tolerated = |taint: &Taint| pods.tolerations.iter().any(|one| tolerates(one, taint));
        let mut kept_away = self.taints.iter().filter(|taint| !tolerated(taint));
        let mut of_state = None;
        if let Some(taint) = kept_away.find(|taint| {
            let is_of_state = taint.key.starts_with(OF_STATE);
            let is_known = taint.key == CORDONED || OF_CONDITION.contains(&taint.key.as_str());
            if is_of_state && !is_known {
                of_state = of_state.take().or(Some(taint.shown()));
            }
            !is_of_state
        }) {
            return Standing::LeftOut(taint.shown());
        }
        let cordon = Taint { key: CORDONED.to_owned(), value: String::new(), effect: "NoSchedule".to_owned() };
        if self.is_cordoned && !tolerated(&cordon) {
            return Standing::Away("Cordoned", "it takes no pods (kubectl uncordon)".to_owned());
        }
        if let Some(why) = &self.not_ready {
            return Standing::Away("NotReady", why.clone());
        }
        match of_state {
            Some(taint) => Standing::Away("Tainted", format!("the taint {taint} keeps pods away")),
            None => Standing::Ready,
        }
    }
}

impl Taint {
    fn shown(&self) -> String {
        let Self { key, value, effect } = self;
        if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let fits = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    let Toleration { key, value, effect } = toleration;
    fits(key, &taint.key) && fits(value, &taint.value) && fits(effect, &taint.effect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(spec: Value, ready: &str) -> SeenNode {
        let condition = json!({ "type": "Ready", "status": ready, "reason": "KubeletNotReady", "message": "gone" });
        let object = json!({
            "metadata": { "name": "n", "labels": { "pool": "a" } },
            "spec": spec, "status": { "conditions": [{ "type": "MemoryPressure", "status": "True" }, condition] },
        });
        SeenNode::read(&object).expect("a node").1
    }

    fn taint(key: &str) -> Value {
        json!({ "taints": [{ "key": key, "effect": "NoSchedule" }] })
    }

    #[test]
    fn a_node_is_asked_left_out_or_away_for_a_reason_that_is_told() {
        let plain = PodsSpec::default();
        let standing = |spec: Value, ready: &str| node(spec, ready).standing(&plain);
        assert_eq!(standing(json!({}), "True"), Standing::Ready);
        assert_eq!(standing(json!({}), "Unknown"), Standing::Away("NotReady", "KubeletNotReady: gone".to_owned()));
        let cordoned = json!({ "unschedulable": true, "taints": [{ "key": CORDONED, "effect": "NoSchedule" }] });
        assert!(matches!(standing(cordoned.clone(), "True"), Standing::Away("Cordoned", _)));
        assert_eq!(standing(taint("dedicated"), "False"), Standing::LeftOut("dedicated:NoSchedule".to_owned()));
        assert!(matches!(standing(taint("node.kubernetes.io/disk-pressure"), "True"), Standing::Away("Tainted", _)));
        let soft = json!({ "taints": [{ "key": "a", "effect": "PreferNoSchedule" }] });
        assert_eq!(standing(soft, "True"), Standing::Ready);
        let mut chosen = plain.clone();
        chosen.node_selector = vec![("pool".to_owned(), "b".to_owned())];
        assert_eq!(node(json!({}), "True").standing(&chosen), Standing::Other);
        let mut tolerant = plain;
        tolerant.tolerations = vec![Toleration { key: None, value: None, effect: None }];
        assert_eq!(node(cordoned, "True").standing(&tolerant), Standing::Ready);
        assert_eq!(node(taint("dedicated"), "True").standing(&tolerant), Standing::Ready);
        tolerant.tolerations =
            vec![Toleration { key: Some("dedicated".to_owned()), value: Some("x".to_owned()), effect: None }];
        assert!(matches!(node(taint("dedicated"), "True").standing(&tolerant), Standing::LeftOut(_)), "another value");
    }

    #[test]
    fn what_is_no_node_is_none() {
        assert!(SeenNode::read(&json!([])).is_none());
        let (_, bare) = SeenNode::read(&json!({ "metadata": { "name": "n" } })).expect("a node");
        assert!(matches!(bare.standing(&PodsSpec::default()), Standing::Away("NotReady", _)));
    }
}
