//! All nodes: those that are alike, and those that differ, by what they differ in.

use crate::compared::{Comparison, are_alike, comparison};
use crate::report::{NodeReport, SettingName, SettingState, shown};
use core::cmp::Reverse;
use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

/// What a setting of a node is, where most nodes have another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    /// Which setting.
    pub setting: SettingName,
    /// What it is there; none where the node has no such setting.
    pub here: Option<SettingState>,
    /// What it is at most nodes; none where they have no such setting.
    pub usual: Option<SettingState>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, here, usual } = self;
        write!(f, "{setting}: {}, elsewhere {}", shown(here.as_ref()), shown(usual.as_ref()))
    }
}

/// Nodes that have the same differences.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kin {
    /// Their names, in order.
    pub nodes: Vec<String>,
    /// In what they differ from most, in order; nothing for those that are most.
    pub differences: Vec<Difference>,
}

/// All nodes that were judged for one role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fleet {
    /// Those that are alike: as many as there are of one kind. Empty where there is no node.
    pub alike: Kin,
    /// Those that differ from these, the many before the few; each node is in one of them.
    pub others: Vec<Kin>,
}

impl Fleet {
    /// Compares the nodes; of two reports of one node the later one counts.
    ///
    /// What is usual is what the most nodes of one kind have, all settings together; of kinds with as many nodes each,
    /// that of the node whose name comes first. Values that the kernel computes from the size of memory may be off by a
    /// fiftieth, and of what was only counted the verdict is compared.
    #[must_use]
    pub fn of<'a>(reports: impl IntoIterator<Item = &'a NodeReport>) -> Self {
        let mut nodes: BTreeMap<&str, &NodeReport> = BTreeMap::new();
        for report in reports {
            let found = nodes.entry(&report.node).or_insert(report);
            if report.made > found.made {
                *found = report;
            }
        }
        let usual = usual(&nodes);
        let mut kinds: BTreeMap<Vec<Difference>, Vec<String>> = BTreeMap::new();
        for (name, node) in &nodes {
            let differences = usual.map(|usual| differences(node, usual)).unwrap_or_default();
            kinds.entry(differences).or_default().push((*name).to_owned());
        }
        let alike = Kin { nodes: kinds.remove(&Vec::new()).unwrap_or_default(), differences: Vec::new() };
        let mut others: Vec<Kin> = kinds.into_iter().map(|(differences, nodes)| Kin { nodes, differences }).collect();
        others.sort_by_key(|kin| (Reverse(kin.nodes.len()), kin.differences.len()));
        Self { alike, others }
    }

    /// How many nodes are not as most are.
    #[must_use]
    pub fn differing(&self) -> usize {
        self.others.iter().map(|kin| kin.nodes.len()).sum()
    }
}

/// The node that stands for most: the first of those that there are the most of, of one kind and with about the same of
/// what is computed from the size of memory.
fn usual<'a>(nodes: &BTreeMap<&str, &'a NodeReport>) -> Option<&'a NodeReport> {
    let mut kinds: BTreeMap<Fingerprint<'a>, Vec<(usize, &'a NodeReport)>> = BTreeMap::new();
    for node in nodes.values() {
        let alike = kinds.entry(fingerprint(node)).or_default();
        match alike.iter_mut().find(|(_, first)| is_near(node, first)) {
            Some((count, _)) => *count += 1,
            None => alike.push((1, node)),
        }
    }
    let most = kinds.into_values().flatten().min_by_key(|(count, node)| (Reverse(*count), &node.node));
    most.map(|(_, node)| node)
}

/// Each setting with its verdict, and with its value where that is compared to the letter.
type Fingerprint<'a> = Vec<(&'a SettingName, &'a str, &'a str)>;

/// What two nodes of one kind have alike.
fn fingerprint(node: &NodeReport) -> Fingerprint<'_> {
    let mut all = Vec::with_capacity(node.settings.len());
    for (setting, state) in &node.settings {
        let is_whole = comparison(&setting.key) == Comparison::Whole;
        all.push((&**setting, state.verdict.as_str(), if is_whole { state.value.as_str() } else { "" }));
    }
    all
}

/// Whether two nodes of one kind have about the same of what is compared so.
fn is_near(one: &NodeReport, other: &NodeReport) -> bool {
    let mut near = one.settings.iter().filter(|(setting, _)| comparison(&setting.key) == Comparison::Near);
    near.all(|(setting, state)| are_alike(&setting.key, Some(state), other.state(setting)))
}

/// In what a node, or a report of it, differs from another.
pub(crate) fn differences(here: &NodeReport, usual: &NodeReport) -> Vec<Difference> {
    let settings: BTreeSet<&SettingName> =
        here.settings.keys().chain(usual.settings.keys()).map(|name| &**name).collect();
    let differs = |setting: &&SettingName| !are_alike(&setting.key, here.state(setting), usual.state(setting));
    let difference = |setting: &SettingName| Difference {
        setting: setting.clone(),
        here: here.state(setting).cloned(),
        usual: usual.state(setting).cloned(),
    };
    settings.into_iter().filter(differs).map(difference).collect()
}
