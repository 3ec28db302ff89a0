//! What answers in a place.

use crate::gateways::{GatewayPass, GatewayTarget};
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
    /// `grpc_pass`.
    Grpc(Arc<ProxyPass>),
    /// `fastcgi_pass`, `uwsgi_pass`, `scgi_pass`.
    Gateway(Arc<GatewayPass>),
}

impl ContentRules {
    /// How long the path of the location is that it was set in; nothing where what answers
    /// is not asked for without the slash at its end.
    #[must_use]
    pub fn location(&self) -> Option<usize> {
        match self {
            Self::Proxy(pass) | Self::Grpc(pass) => pass.location(),
            Self::Gateway(pass) => pass.location,
            _ => None,
        }
    }

    /// Whether requests are passed on.
    #[must_use]
    pub const fn passes_on(&self) -> bool {
        matches!(self, Self::Proxy(_) | Self::Grpc(_) | Self::Gateway(_))
    }

    /// Whether it reads bodies of requests.
    #[must_use]
    pub const fn reads_bodies(&self) -> bool {
        match self {
            Self::Files | Self::StubStatus | Self::EmptyGif => false,
            Self::Proxy(_) | Self::Grpc(_) | Self::Gateway(_) => true,
        }
    }

    /// Whether each request says where it goes.
    #[must_use]
    pub fn computes_upstream(&self) -> bool {
        match self {
            Self::Proxy(pass) | Self::Grpc(pass) => matches!(**pass, ProxyPass::Computed { .. }),
            Self::Gateway(pass) => matches!(pass.to, GatewayTarget::Computed(_)),
            _ => false,
        }
    }
}
