//! The server over a data path made of memory: every status, every limit.

#[path = "../support/mod.rs"]
mod support;

mod bodies;
mod change;
mod connections;
mod content;
mod crowded;
mod files;
mod handlers;
mod latency;
mod logging;
mod media;
mod paths;
mod proxied;
mod shaken;
mod shared;
mod sharing;
mod streaming;
mod terms;
mod work;
