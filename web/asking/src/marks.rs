//! By which marks connections are known that belong to no question.

/// Marks of connections that belong to no question have this bit.
pub const IDLE: u32 = 1 << 31;

/// Marks of connections that are shared have this bit, beside [`IDLE`].
pub const SHARED: u32 = 1 << 30;

/// Ways of connections that are shared have this bit: no other question is asked on them.
pub(crate) const SHARED_WAY: u32 = 1 << 31;
