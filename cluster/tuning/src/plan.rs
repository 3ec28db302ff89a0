//! What audits of a pool's nodes would have changed, as one manifest of the operator.

use crate::facts::{FoundRow, NodeFacts};
use audit::Probe;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Names of nodes in a sentence.
const NAMES_TOLD: usize = 5;

/// What comes by the operator before a profile of its own, which has 20 to 40: the lower number wins.
const PRIORITY: u32 = 15;

/// Where the operator looks for profiles.
const NAMESPACE: &str = "openshift-cluster-node-tuning-operator";

/// What a pool's nodes have where no profile of tuned is known to be in force.
const USUAL: &str = "openshift-node";

/// Values that no plan has, whatever is better: they are written by name alone, as for one node.
const BY_NAME_ONLY: [&str; 4] =
    ["net.ipv4.ip_forward", "vm.drop_caches", "vm.nr_hugepages", "kernel.sched_rt_runtime_us"];

/// A setting that is to be another on all nodes of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FleetStep {
    /// The sysctl, or an argument of the kernel's command line behind `cmdline `.
    pub key: String,
    /// What it is to be.
    pub want: String,
    /// What it is, on how many nodes.
    pub found: BTreeMap<String, usize>,
    /// Why.
    pub why: String,
    /// What it risks.
    pub risk: String,
}

/// A setting that stays as it is, though something else would be better on some node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// The rule's name.
    pub key: String,
    /// Why it stays.
    pub why: String,
}

/// What a pool's nodes are to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FleetPlan {
    /// What is changed, by its name.
    pub steps: Vec<FleetStep>,
    /// What is not, and why.
    pub left: Vec<LeftOut>,
    /// The profile of tuned that stays in force where this one says nothing.
    pub include: String,
}

impl FleetPlan {
    /// What audits of these nodes, which are to be of one pool, would have changed. One value is for all of them: where
    /// nodes want different ones, or one has another that is right there, it stays as it is.
    ///
    /// # Errors
    /// If nodes have different profiles of tuned: one manifest would take one of them away.
    pub fn of(nodes: &[NodeFacts]) -> Result<Self, String> {
        let mut profiles: Vec<&str> = nodes.iter().filter_map(NodeFacts::profile).collect();
        profiles.sort_unstable();
        profiles.dedup();
        let include = match profiles.as_slice() {
            [] => USUAL.to_owned(),
            [one] => one.split_whitespace().collect::<Vec<&str>>().join(","),
            more => return Err(format!("nodes have different profiles of tuned: {}", more.join("; "))),
        };
        let mut rows: BTreeMap<&str, Vec<(&str, &FoundRow)>> = BTreeMap::new();
        for node in nodes {
            for (key, row) in node.single_rows() {
                rows.entry(key).or_default().push((&node.node, row));
            }
        }
        let (mut steps, mut left) = (Vec::new(), Vec::new());
        for (key, rows) in rows {
            let better = rows.iter().find_map(|(_, row)| row.better.as_ref());
            let Some([want, why, risk]) = better else { continue };
            match objection(key, want, &rows) {
                Some(why) => left.push(LeftOut { key: key.to_owned(), why }),
                None => {
                    let mut found = BTreeMap::new();
                    for value in rows.iter().filter_map(|(_, row)| row.value.clone()) {
                        *found.entry(value).or_insert(0) += 1;
                    }
                    let (key, want, why, risk) = (key.to_owned(), want.clone(), why.clone(), risk.clone());
                    steps.push(FleetStep { key, want, found, why, risk });
                }
            }
        }
        Ok(Self { steps, left, include })
    }

    /// The Tuned that has it done on the nodes of a pool.
    #[must_use]
    pub fn manifest(&self, name: &str, pool: &str) -> Value {
        let (mut sysctls, mut arguments) = (String::new(), Vec::new());
        for step in &self.steps {
            match step.key.strip_prefix("cmdline ") {
                Some(argument) => arguments.push(format!("{argument}={}", step.want)),
                None => {
                    let _ = writeln!(sysctls, "# {}\n{}={}", one_line(&step.why), step.key, step.want);
                }
            }
        }
        let mut data = format!("[main]\nsummary=What audits of nodes would have changed\ninclude={}\n", self.include);
        if !sysctls.is_empty() {
            let _ = write!(data, "\n[sysctl]\n{sysctls}");
        }
        if !arguments.is_empty() {
            let _ =
                write!(data, "\n[bootloader]\ncmdline_{}=+{}\n", name.replace(['-', '.'], "_"), arguments.join(" "));
        }
        json!({
            "apiVersion": "tuned.openshift.io/v1",
            "kind": "Tuned",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": {
                "profile": [{ "name": name, "data": data }],
                "recommend": [{
                    "machineConfigLabels": { "machineconfiguration.openshift.io/role": pool },
                    "priority": PRIORITY,
                    "profile": name,
                }],
            },
        })
    }

    /// Whether nodes start anew for it: the command line is one.
    #[must_use]
    pub fn restarts_nodes(&self) -> bool {
        self.steps.iter().any(|step| step.key.starts_with("cmdline "))
    }
}

/// Why a setting stays as it is, if it does.
fn objection(key: &str, want: &str, rows: &[(&str, &FoundRow)]) -> Option<String> {
    let Some(rule) = audit::find(key) else { return Some(format!("{want}: no rule is known of it here")) };
    let is_argument = key.strip_prefix("cmdline ").is_some_and(|name| is_word(name) && is_word(want));
    let is_sysctl = matches!(rule.probe, Probe::Sysctl) && is_word(key) && want.split(' ').all(is_value);
    if BY_NAME_ONLY.contains(&key) {
        return Some(format!("{want} would be better, and is written by name alone"));
    }
    if !is_argument && !is_sysctl {
        return Some(format!("{want}: no line of a profile of tuned does that"));
    }
    let told = |fits: &dyn Fn(&FoundRow) -> Option<String>| {
        let all: Vec<String> =
            rows.iter().filter_map(|(node, row)| Some(format!("{} on {node}", fits(row)?))).collect();
        let more = all.len().saturating_sub(NAMES_TOLD);
        let shown = all.get(..all.len() - more).unwrap_or_default().join(", ");
        (!all.is_empty()).then(|| if more > 0 { format!("{shown} and {more} more") } else { shown })
    };
    let another = |row: &FoundRow| row.better.as_ref().map(|[other, ..]| other.clone()).filter(|other| other != want);
    if let Some(others) = told(&another) {
        return Some(format!("nodes want different values: {want}, but {others}"));
    }
    // What is right as it is would become another with the rest.
    let right = |row: &FoundRow| row.value.clone().filter(|value| row.better.is_none() && value != want);
    told(&right).map(|others| format!("{want} would be better elsewhere, but this is right: {others}"))
}

/// Whether it is a name, or a value, of the letters that those have.
fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-,:/".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// Whether it is a number, or the name of an algorithm: in a word, and no command.
fn is_value(text: &str) -> bool {
    is_word(text) && text != "modprobe"
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
