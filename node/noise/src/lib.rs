//! What took a busy core's time, gap by gap.
//!
//! A loop on each core reads the processor's clock and does nothing else; when
//! a step takes longer than a threshold, the core was away. Beside it somebody
//! listens to what the kernel tells of that core, and names what it was:
//!
//! ```text
//! spin ──────────────────────► gaps ─┐
//! rings ─► tracepoints ─► events ─► Timeline ─► Attribution ─► Tally ─► NoiseReport
//! counters of steal and SMIs ────────┘
//! ```
//!
//! [`Timeline`] and what follows it have no clock and do no I/O: time stands in
//! the events. [`run()`] is what reads a machine.
#![forbid(unsafe_code)]

mod bound;
mod cause;
mod look;
mod report;
mod run;
mod sources;
mod spin;
mod tally;
mod timeline;
mod tracepoints;
mod witness;

pub use bound::{Bound, BoundError, Figures};
pub use cause::{Cause, Name, Vector};
pub use report::{CauseReport, CoreReport, Cost, GapLine, GapReport, Judged, NoiseReport, RowReport, nanos};
pub use run::{Each, Plan, RunError, run};
pub use sources::{Sight, Source};
pub use tally::{Account, Gap, Named, ROWS, Tally, row};
pub use timeline::{Attribution, Beyond, Event, Frame, Timeline};
pub use witness::Beside;
