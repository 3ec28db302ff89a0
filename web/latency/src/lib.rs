//! How long requests take, by host and location, for whoever asks from outside.
//!
//! A *series* is a host and a location with its histogram, its bytes and its
//! responses by status. There are at most [`SERIES_MAX`]: what comes later is counted
//! with the first, [`OTHER`]. Each silo adds to words of its own, which a reader
//! may look at at any time: nothing is locked, and nothing is copied.
//!
//! A latency begins with the turn in which a request's head was whole, and is over
//! with the turn in which the last byte of its response was queued: a turn ends by
//! showing its peer what was queued, and over kernel sockets a turn is one event. So
//! the time that a response waits for the peer to take it is in the latency of a
//! long one, which is queued as it is taken, and not in that of a short one.
//!
//! The clock is not asked for this: a turn has its time, and its end is the next
//! one's beginning. What that costs where it is asked for, and where it is not, is in
//! docs/instructions.md.
#![forbid(unsafe_code)]

mod buckets;
mod recorder;
mod series;

pub use buckets::{BUCKETS, Histogram, LONGEST, bucket_of, upper_bound};
pub use recorder::{Pace, Recorder};
pub use series::{
    CLASSES, NAME_MAX, OTHER, SERIES_MAX, Series, SeriesBoard, SeriesHeap, SeriesMemory, SeriesTable, SeriesWords,
    WORDS, series_host, series_location,
};
