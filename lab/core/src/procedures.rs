//! What experiments do.

pub mod accept_order;
pub mod accept_queue;
pub mod allocator;
pub mod command;
mod crew;
mod models;
pub mod offload;
pub mod pace;
mod stand;
