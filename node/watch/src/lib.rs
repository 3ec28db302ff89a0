//! A machine's counters, and what they say happened between two looks.
//!
//! ```text
//! files ─► Reader ─► Sample ─► Change ─► line, tables, JSON
//!             recording ─► ┘    └─► Saturation
//!                          └─► OpenMetrics
//! ```
//!
//! Everything that is shown is a difference of two samples, so that a recording
//! of samples replays as what was seen live. Time comes in as an argument. What
//! cannot be read has a reason in the place of a figure.
#![forbid(unsafe_code)]

mod change;
mod channels;
mod metrics;
mod read;
mod sample;
mod saturation;
pub mod show;
mod tables;
mod text;

pub use change::{
    BypassRow, Change, CoreRow, DomainRow, Figure, MallocRow, PortRow, Presence, ProcessRow, TIMES, grown,
};
pub use channels::ChannelCounter;
pub use metrics::{MEDIA_TYPE, openmetrics};
pub use read::{ReadOptions, Reader, outward};
pub use sample::{
    Bypass, CoreCounters, DomainCounters, LINE_LIMIT, Mallocs, PortCounters, Process, Sample, SampleReader,
};
pub use saturation::Saturation;
