//! What a configuration came to: its servers, locations and blocks, and what their directives say of a request.
//!
//! A configuration is compiled to a [`Program`], which all silos share and
//! nothing changes. It answers questions (which location a path has, what a map or a
//! script says, how a line of the log looks), and knows no request of its own: the
//! engine in `phases` asks them in nginx's order.
#![forbid(unsafe_code)]

pub mod access;
pub mod addresses;
pub mod autoindex;
mod browsers;
mod content_rules;
mod defaults;
pub mod gateways;
mod groups;
mod ids;
mod locations;
pub mod logging;
pub mod maps;
pub mod program;
pub mod proxying;
mod reach;
mod reached;
mod referers;
pub mod script;
mod servers;
pub mod silos;
pub mod small;
pub mod subrequests;
mod symlinks;
mod terms;
pub mod tlv;
pub mod types;
pub mod variables;

pub use browsers::KeepAliveDisabled;
pub use exchange::{Http2Terms, NameError, Names};
pub use locations::{Location, LocationError, Locations, Pattern};
pub use program::{
    Block, BlockId, CertificatesByValue, ListenerRules, Program, ProgramSummary, ServerId, UpstreamGroupId,
    VirtualServer,
};
pub use terms::{ProgramTerms, TooManyTerms};

/// The nginx whose answers these are: `$nginx_version`.
pub const NGINX_VERSION: &str = "1.31.5";
