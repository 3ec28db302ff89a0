//! What is served, as one value.
//!
//! Flags and the settings file make a [`Config`]; its [`Content`] makes what requests are
//! answered by ([`SiteHandler`]). For a reload a thread that may wait makes what changes it
//! ready ([`HandlerChange`]), and each silo takes it up between two turns. An exchange that
//! has begun is ended by the rules that it began with.
#![forbid(unsafe_code)]

mod config;
mod fixed;
mod handler;
mod program;
mod work;

pub use app::Prefix;
pub use config::{Config, ConfigError, Content, RESPOND_SIZE_MAX, RequestWork, Respond};
pub use connections::{ConnectionNumbers, ExchangeTerms, HeadTerms, Limits, Timeouts, WallClock};
pub use exchange::{EXCHANGE_TERMS_MAX, HEAD_TERMS_MAX};
pub use fixed::Fixed;
pub use handler::{HandlerChange, Making, SiteHandler};
pub use program::Engine;
pub use work::Worked;
