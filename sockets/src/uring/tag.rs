//! Which operation a completion is of.

use crate::net::Sockets;
use app::ConnId;

/// What a completion is of: the upper eight bits of its data. Below them are
/// 24 bits of a generation, and a slot or an index.
pub(super) mod kind {
    pub(in crate::uring) const NOTHING: u64 = 0;
    pub(in crate::uring) const RECEIVE: u64 = 1;
    pub(in crate::uring) const SEND: u64 = 2;
    /// Room to send, or the outcome of a connect.
    pub(in crate::uring) const ROOM: u64 = 3;
    /// The end of a connection that is not received from.
    pub(in crate::uring) const END: u64 = 4;
    pub(in crate::uring) const LISTENER: u64 = 5;
    pub(in crate::uring) const ACCEPT: u64 = 6;
    pub(in crate::uring) const WAKE: u64 = 7;
    /// The end of a receive was asked for.
    pub(in crate::uring) const STOP: u64 = 8;
}

#[inline]
pub(super) const fn tag(kind: u64, generation: u32, index: u32) -> u64 {
    kind << 56 | ((generation & 0xff_ffff) as u64) << 32 | index as u64
}

#[inline]
pub(super) const fn tag_of(kind: u64, id: ConnId) -> u64 {
    tag(kind, id.generation(), id.index() as u32)
}

/// The connection that a completion is of, unless it is over.
#[inline]
pub(super) fn connection(net: &Sockets, data: u64) -> Option<ConnId> {
    let id = net.table.id(data as u32)?;
    (u64::from(id.generation() & 0xff_ffff) == data >> 32 & 0xff_ffff).then_some(id)
}
