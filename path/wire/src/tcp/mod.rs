//! TCP segments (RFC 9293 section 3.1).

mod seq;

pub use seq::SeqNum;
