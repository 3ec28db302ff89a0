//! What the packet path costs: experiments that print figures, and the
//! verdict where a bound was promised.
//!
//! | module | for |
//! | --- | --- |
//! | [`rig`] | the real server and the real load generator over a pair in memory |
//! | [`cost`] | instructions per request, and where they go |

mod callgrind;
pub mod cost;
pub mod rig;

/// What ends an experiment: a sentence for the user.
pub type Failure = Box<dyn std::error::Error>;
