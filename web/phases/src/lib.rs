//! What becomes of a request, by a configuration: the phases that nginx has.
//!
//! ```text
//!  host ─► rewrite of the server ─► location ─► rewrite ─► limits ─► access
//!                                      ▲           │                   │
//!                                      └── last ───┘            try_files, content
//!                                      ▲                               │
//!                                      └────────── error_page ─────────┤
//!                                                        fields, log ◄─┘
//! ```
//!
//! A configuration is compiled to a [`Program`], which all silos share and
//! nothing changes.
#![forbid(unsafe_code)]

pub mod access;
pub mod addresses;
pub mod autoindex;
mod browsers;
mod content_rules;
mod defaults;
mod engine;
pub mod filters;
pub mod gateways;
mod groups;
mod ids;
mod locations;
pub mod logging;
pub mod maps;
mod markup;
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
pub mod zone;

pub use browsers::KeepAliveDisabled;
pub use engine::{Engine, EngineParts, NewProgram, PrepareError};
pub use exchange::{Http2Terms, NameError, Names};
pub use locations::{Location, LocationError, Locations, Pattern};
pub use program::{
    Block, BlockId, CertificatesByValue, ListenerRules, Program, ProgramSummary, ServerId, UpstreamGroupId,
    VirtualServer,
};
pub use terms::{ProgramTerms, TooManyTerms};

/// The nginx whose answers these are: `$nginx_version`.
pub const NGINX_VERSION: &str = "1.31.5";
