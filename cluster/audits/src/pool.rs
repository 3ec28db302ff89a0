//! What nodes have in common is in memory once.

use crate::report::{NodeReport, SettingName, SettingState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names and states of settings that were seen: of nodes that are alike most are the same.
#[derive(Debug, Default)]
pub struct Pool {
    names: BTreeSet<Arc<SettingName>>,
    states: BTreeSet<Arc<SettingState>>,
}

impl Pool {
    /// None so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same report, with what others have in common with it.
    #[must_use]
    pub fn share(&mut self, report: NodeReport) -> NodeReport {
        let NodeReport { node, made, role, settings } = report;
        let settings =
            settings.into_iter().map(|(name, state)| (one_of(&mut self.names, name), one_of(&mut self.states, state)));
        let settings = settings.collect();
        NodeReport { node, made, role, settings }
    }

    /// Forgets what no report has any more.
    pub fn trim(&mut self) {
        self.names.retain(|name| Arc::strong_count(name) > 1);
        self.states.retain(|state| Arc::strong_count(state) > 1);
    }
}

/// The same that is there already, or this one from now on.
fn one_of<T: Ord>(seen: &mut BTreeSet<Arc<T>>, found: Arc<T>) -> Arc<T> {
    if let Some(known) = seen.get(&found) {
        return Arc::clone(known);
    }
    seen.insert(Arc::clone(&found));
    found
}
