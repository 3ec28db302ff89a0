//! Somebody's settings, read from files.

mod machine_config;
mod manifest;
mod nginx;
mod parse;
mod pod;
mod script;

pub use parse::{AdviceError, FileForm, Setting, parse};
pub(crate) use pod::quantity;
