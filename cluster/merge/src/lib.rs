//! What the workers of one load measured, as one: counts are added up bucket by bucket, and percentiles, objectives,
//! rates, Little's law and the verdict are of the sum. Nothing is computed from percentiles. Without I/O.
//!
//! | module | for |
//! | --- | --- |
//! | `whole` | the figures of all workers, and the report on them |
//! | `part` | one worker's figures: whether there can be such, and what speaks against them |
//! | `timeline` | the same interval of all workers, as one |
#![forbid(unsafe_code)]

mod part;
mod timeline;
mod whole;

pub use part::{WorkerFigures, WorkerMessage, faults, read};
pub use timeline::Timeline;
pub use whole::Whole;
