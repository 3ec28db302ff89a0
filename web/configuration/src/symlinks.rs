//! Which symbolic links are followed.

use features::Value;

/// `disable_symlinks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymlinkRules {
    /// Which are not followed.
    pub kind: SymlinkKind,
    /// Those in this beginning of a path are (`from=`).
    pub from: Option<Value>,
}

/// Which symbolic links are not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SymlinkKind {
    /// All are.
    #[default]
    Followed,
    /// None is.
    Refused,
    /// None but those of the owner of what it leads to.
    OfOwner,
}
