//! What answers in a place.

use crate::proxying::ProxyPass;
use std::sync::Arc;

/// What answers in a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContentRules {
    /// Files: index, autoindex, random_index as they are set.
    #[default]
    Files,
    /// `stub_status`.
    StubStatus,
    /// `empty_gif`.
    EmptyGif,
    /// `proxy_pass`.
    Proxy(Arc<ProxyPass>),
    /// What was sent: as it came, or once it was whole.
    #[cfg(test)]
    Echo(bool),
}

impl ContentRules {
    /// How long the path of the location is that it was set in; nothing where what answers
    /// is not asked for without the slash at its end.
    #[must_use]
    pub fn location(&self) -> Option<usize> {
        match self {
            Self::Proxy(pass) => pass.location(),
            _ => None,
        }
    }

    /// Whether it reads bodies of requests.
    #[must_use]
    pub const fn reads_bodies(&self) -> bool {
        match self {
            Self::Files | Self::StubStatus | Self::EmptyGif => false,
            Self::Proxy(_) => true,
            #[cfg(test)]
            Self::Echo(_) => true,
        }
    }

    /// Whether each request says where it goes.
    #[must_use]
    pub fn computes_upstream(&self) -> bool {
        matches!(self, Self::Proxy(pass) if matches!(**pass, ProxyPass::Computed { .. }))
    }
}
