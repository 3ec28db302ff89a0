//! Numbers of what a program is made of.

/// A block's number in [`crate::Program::blocks`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockId(pub u32);

/// A server's number in [`crate::Program::servers`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ServerId(pub u16);

/// An upstream's number in [`crate::Program::upstreams`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct UpstreamGroupId(pub u16);
