//! From a request target's path to a name below the root.
//!
//! A [`Key`] is the one way in to the file system: only what
//! [`semantics::path::normalise`] wrote becomes one, so nothing that could leave the
//! root is ever opened.

use std::sync::Arc;

/// A normalised path: relative, no empty or dot segment, no NUL. It ends with
/// `/` if the target did; empty is the root.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key(Arc<[u8]>);

impl Key {
    /// The path, as it is opened.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a directory was asked for.
    pub fn is_directory(&self) -> bool {
        self.0.last().is_none_or(|&byte| byte == b'/')
    }

    /// The key for bytes that `normalise` wrote.
    pub(super) fn of(normalised: &[u8]) -> Self {
        Self(normalised.into())
    }
}

impl core::borrow::Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}
