//! What experiments do.

pub mod allocator;
pub mod command;
