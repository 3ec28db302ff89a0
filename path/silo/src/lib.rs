//! One pinned core and all it owns: a link queue, a stack, an application.
//!
//! [`Silo::turn`] is the map of a request's walk; it takes the time as an
//! argument, so that the simulator runs the same code. [`run`] is the loop
//! around it on a real clock.

mod hold;
pub mod idle;
pub mod memory;
pub mod placement;
mod run;
mod turn;

pub use hold::Hold;
pub use idle::Idle;
pub use run::{ATTEND_ASLEEP, ATTEND_EVERY, Attendant, Next, Pace, Usage, run};
pub use turn::{BURST, Silo, Turn};
