//! What experiments do.

pub mod accept_order;
pub mod accept_queue;
pub mod allocator;
pub mod bypass;
pub mod command;
mod crew;
pub mod internet;
pub mod media;
mod models;
pub mod offload;
pub mod pace;
pub mod scaling;
mod sides;
pub mod steer_queue;
