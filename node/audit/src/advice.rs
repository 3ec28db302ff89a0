//! Somebody's settings, read from files.

mod commands;
mod form;
mod grub;
mod keys;
mod lines;
mod loops;
mod machine_config;
mod manifest;
mod nginx;
mod objects;
mod parse;
mod plain;
mod pod;
mod script;
mod setting;
mod shell;
mod tuned;
mod webhook;

pub(crate) use keys::interface;
pub use keys::{AFFINITY, DOMAIN_PAGES};
pub use lines::{Advice, Fault};
pub(crate) use manifest::OF_THE_OPERATOR;
pub use parse::{parse, read};
pub(crate) use pod::quantity;
pub use setting::{AdviceError, FileForm, OtherLine, Setting};
