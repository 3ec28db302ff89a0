//! The processor that a thread runs on: its clocks, which core it is bound to, and
//! how the kernel schedules it.

pub mod between;
mod clock;
pub mod pin;
pub mod process_stat;
pub mod sched;
pub mod tsc;

pub use clock::{Clock, thread_time};
pub use tsc::{TickSource, Ticks};
