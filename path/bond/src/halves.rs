//! The halves of the members' links, lent together.

use crate::aggregator::MAX_PORTS;

/// Links of one silo's bond: a queue of each port, or several where a silo
/// looks after several.
pub const MAX_MEMBERS: usize = 16;
const _: () = assert!(MAX_MEMBERS >= MAX_PORTS, "a silo can have a queue of every port");
const _: () = assert!(MAX_MEMBERS <= u32::BITS as usize);

/// Halves of the members' links, by index. One alone has no array round it,
/// which would cost a turn more than all else that a bond does.
pub(crate) enum Halves<T> {
    One(T),
    Several([Option<T>; MAX_MEMBERS], usize),
}

impl<T> Halves<T> {
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self {
            Self::One(only) => (index == 0).then_some(only),
            Self::Several(all, _) => all.get(index)?.as_ref(),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        match self {
            Self::One(only) => (index == 0).then_some(only),
            Self::Several(all, _) => all.get_mut(index)?.as_mut(),
        }
    }

    /// Those of several members; none of one alone.
    #[inline]
    pub fn several(&self) -> &[Option<T>] {
        match self {
            Self::One(_) => &[],
            Self::Several(all, count) => &all[..*count],
        }
    }

    #[inline]
    pub fn several_mut(&mut self) -> &mut [Option<T>] {
        match self {
            Self::One(_) => &mut [],
            Self::Several(all, count) => &mut all[..*count],
        }
    }
}
