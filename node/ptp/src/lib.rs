//! Hardware clocks of NICs (`/dev/ptpN`), read beside a counter of ours: how
//! far the two are apart, within which bound, and whether one of them steps,
//! stands still, or runs at another rate.
//!
//! Source: Linux `include/uapi/linux/ptp_clock.h` and
//! `Documentation/driver-api/ptp.rst`.

mod course;
mod device;

pub use course::{ClockReading, Course, Difference, Doubt, RATE_LIMIT};
pub use device::ClockSource;
