//! Somebody's settings, read from files.

mod form;
mod machine_config;
mod manifest;
mod nginx;
mod objects;
mod parse;
mod plain;
mod pod;
mod script;
mod setting;

pub use parse::parse;
pub(crate) use pod::quantity;
pub use setting::{AdviceError, FileForm, Setting};
