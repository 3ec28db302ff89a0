//! Workers as processes of this machine.

mod files;
mod fits;
mod processes;

pub use files::{SpecFolder, TestFolder, read_at_most};
pub use fits::{Machine, Need};
pub use processes::Processes;
