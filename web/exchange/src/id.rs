//! Names of exchanges.

use app::ConnId;

/// The top bits of a slot say whose it is.
const SHIFT: u32 = 30;
const CONNECTION: u32 = 0;
const CARRIED: u32 = 1;
const WITHIN: u32 = 2;
const NOBODY: u32 = 3;

/// Slots of each kind: the index of a connection that carries exchanges is below.
pub const EXCHANGE_SLOTS_MAX: u32 = 1 << SHIFT;

/// 2^32 divided by the golden ratio.
const SPREAD: u32 = 0x9E37_79B9;

/// An exchange, by slot and generation, which is new for each: a handle kept past the
/// exchange's end names nothing, neither the next of its connection nor the slot's next owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExchangeId {
    slot: u32,
    generation: u32,
}

/// Where an exchange is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExchangePlace {
    /// With the connection of this index, which has one at a time.
    Connection(usize),
    /// In its carrier's table: one of several that a connection has.
    Carried(usize),
    /// With whoever answers: it is within another, and has no client of its own.
    Within(usize),
    /// Nowhere.
    Nobody,
}

impl ExchangeId {
    /// Of no exchange.
    pub const NOBODY: Self = Self { slot: NOBODY << SHIFT, generation: 0 };

    /// The exchange of a connection that has one at a time, and has had so many before.
    ///
    /// Connections that have a slot one after the other begin far from each other, for the
    /// multiples of the golden ratio are spread evenly: where two exchanges have one name, so
    /// many connections were in that slot, and one of them had so many exchanges, that the
    /// product of both numbers is 2^30 at least.
    #[inline]
    #[must_use]
    pub const fn of_connection(conn: ConnId, before: u32) -> Self {
        let generation = conn.generation().wrapping_mul(SPREAD).wrapping_add(before);
        Self { slot: conn.index() as u32 % EXCHANGE_SLOTS_MAX, generation }
    }

    /// Where it is kept.
    #[inline]
    #[must_use]
    pub const fn place(self) -> ExchangePlace {
        let index = (self.slot % EXCHANGE_SLOTS_MAX) as usize;
        match self.slot >> SHIFT {
            CONNECTION => ExchangePlace::Connection(index),
            CARRIED => ExchangePlace::Carried(index),
            WITHIN => ExchangePlace::Within(index),
            _ => ExchangePlace::Nobody,
        }
    }
}

/// Slots for exchanges that are not their connection's only one, each with its generation.
#[derive(Debug)]
pub struct ExchangeSlots {
    kind: u32,
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl ExchangeSlots {
    /// Of a carrier, whose connections have several exchanges at a time.
    #[must_use]
    pub const fn carried() -> Self {
        Self::new(CARRIED)
    }

    /// Of who answers: exchanges within others.
    #[must_use]
    pub const fn within() -> Self {
        Self::new(WITHIN)
    }

    const fn new(kind: u32) -> Self {
        Self { kind, generations: Vec::new(), free: Vec::new() }
    }

    /// One for an exchange that begins; none, if there are 2^30 already.
    pub fn begin(&mut self) -> Option<ExchangeId> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                let at = u32::try_from(self.generations.len()).ok().filter(|at| *at < EXCHANGE_SLOTS_MAX)?;
                self.generations.push(0);
                at
            }
        };
        Some(ExchangeId { slot: self.kind << SHIFT | at, generation: *self.generations.get(at as usize)? })
    }

    /// The place of an exchange that is not over; none of any other.
    #[must_use]
    pub fn find(&self, id: ExchangeId) -> Option<usize> {
        let at = (id.slot % EXCHANGE_SLOTS_MAX) as usize;
        let is_it = id.slot >> SHIFT == self.kind && self.generations.get(at) == Some(&id.generation);
        is_it.then_some(at)
    }

    /// An exchange is over: from now on this names nothing. Whether it named one.
    pub fn end(&mut self, id: ExchangeId) -> bool {
        let Some(at) = self.find(id) else { return false };
        self.generations[at] = id.generation.wrapping_add(1);
        self.free.push(at as u32);
        true
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.generations.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_exchange_of_a_slot_has_a_name_of_its_own() {
        let mut seen = HashSet::new();
        for generation in 0..300 {
            for before in (0..300).chain([100_000, 1_000_000]) {
                let id = ExchangeId::of_connection(ConnId::new(7, generation), before);
                assert_eq!(id.place(), ExchangePlace::Connection(7));
                assert!(seen.insert(id), "{generation} {before}");
            }
        }
    }

    #[test]
    fn a_slot_names_its_next_exchange_anew() {
        let (mut carried, mut within) = (ExchangeSlots::carried(), ExchangeSlots::within());
        let first = carried.begin().expect("a slot");
        let second = carried.begin().expect("a slot");
        assert_eq!((first.place(), second.place()), (ExchangePlace::Carried(0), ExchangePlace::Carried(1)));
        assert!(carried.end(first) && !carried.end(first) && carried.find(first).is_none());
        let third = carried.begin().expect("a slot");
        assert_eq!((third.place(), carried.len()), (first.place(), 2));
        assert!(third != first && carried.find(third) == Some(0) && carried.find(second) == Some(1));
        // Nobody else's names one of these.
        let other = within.begin().expect("a slot");
        assert_eq!(other.place(), ExchangePlace::Within(0));
        assert!(carried.find(other).is_none() && within.find(third).is_none());
        assert!(carried.find(ExchangeId::of_connection(ConnId::new(0, 0), 1)).is_none());
        assert!(carried.end(second) && carried.end(third) && carried.is_empty());
        assert_eq!(ExchangeId::NOBODY.place(), ExchangePlace::Nobody);
    }
}
