//! TCP segments (RFC 9293 section 3.1).

mod header;
mod opening;
mod options;
mod seq;

pub use header::{
    CHECKSUM_OFFSET, ESTABLISHED_HEADER_LEN, Established, Flags, HEADER_LEN, MAX_HEADER_LEN, TcpHeader, set_checksum,
    set_partial_checksum,
};
pub use opening::{OPENING_HEADER_LEN, Offer, Opening};
pub(crate) use options::ALIGNED_TIMESTAMPS;
pub use options::{MAX_SACK_BLOCKS, MAX_WINDOW_SCALE, SackBlocks, TcpOptions, Timestamps};
pub use seq::SeqNum;
