//! What became of a node since an earlier audit of it.

use crate::fleet::differences;
use crate::report::{NodeReport, SettingName, SettingState, shown};
use core::fmt;

/// A setting of a node that is not what it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drift {
    /// Which setting.
    pub setting: SettingName,
    /// What it was; none where there was none.
    pub was: Option<SettingState>,
    /// What it is; none where there is none any more.
    pub is: Option<SettingState>,
    /// When it was seen as it was, for the last time, in seconds since 1970.
    pub seen: u64,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: was {}, is {}", self.setting, shown(self.was.as_ref()), shown(self.is.as_ref()))
    }
}

/// What changed between two reports of one node: of each setting what it was when it was seen last before.
#[must_use]
pub fn drift(earlier: &NodeReport, now: &NodeReport) -> Vec<Drift> {
    let changed = differences(now, earlier).into_iter();
    changed.map(|one| Drift { setting: one.setting, was: one.usual, is: one.here, seen: earlier.made }).collect()
}
