//! The web server: one application for both data paths.

mod clock;
mod config;
mod counters;

pub use clock::WallClock;
pub use config::RESPOND_SIZE_MAX;
pub use config::{AccessLog, Config, ConfigError, Content, Directory, Limits, ReaderKind, Respond, Symlinks, Timeouts};
pub use counters::Counters;
