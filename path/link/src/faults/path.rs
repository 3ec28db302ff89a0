//! A path between two links: what networks do between two hosts.

use super::{FaultCounters, FaultPlan, Faults, Impairment};
use crate::{Link, Receive, Transmit};
use core::time::Duration;
use wire::{Offload, Time};

/// Frames taken from an end at a time.
const BURST: usize = 64;

/// Passes frames between two links, as a path with its bottlenecks, delays and
/// faults does: what is received on one is sent on the other, each direction
/// by its own [`Impairment`]. Its ends are those of hosts: TAPs of kernels, or
/// the far ends of pairs whose near ones stacks of ours have.
///
/// Call order: [`EmulatedPath::turn`], again when [`EmulatedPath::next_event`]
/// has come or an end has frames.
pub struct EmulatedPath<A, B> {
    near: Faults<A>,
    far: Faults<B>,
}

impl<A: Link, B: Link> EmulatedPath<A, B> {
    /// A path from `near` to `far`, which treats frames by `there`, and back,
    /// by `back`. Two paths with the same seed and frames do the same.
    #[must_use]
    pub fn new(near: A, far: B, there: Impairment, back: Impairment, seed: u64) -> Self {
        let plan = |transmit, seed| FaultPlan { transmit, seed, ..FaultPlan::default() };
        Self { near: Faults::new(near, plan(back, seed)), far: Faults::new(far, plan(there, seed.rotate_left(32))) }
    }

    /// Passes on what waits at both ends and what is due, and returns how many
    /// frames it took in. Where that is any, more may wait.
    pub fn turn(&mut self, now: Time) -> usize {
        pass(&mut self.far, &mut self.near, now) + pass(&mut self.near, &mut self.far, now)
    }

    /// When the next frame that is held is due; `None` while none is.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        [self.near.next_event(), self.far.next_event()].into_iter().flatten().min()
    }

    /// From now on frames are treated by `there` and `back`; those that are
    /// held stay as they are, and nobody overtakes them.
    pub fn set_impairments(&mut self, there: Impairment, back: Impairment) {
        self.far.set_impairments(Impairment::default(), there);
        self.near.set_impairments(Impairment::default(), back);
    }

    /// The route changes: from now on frames go another way, `there` and
    /// `back`, with queues of its own. Those that are held arrive as they would
    /// have, and may be overtaken.
    pub fn reroute(&mut self, there: Impairment, back: Impairment) {
        self.far.reroute(Impairment::default(), there);
        self.near.reroute(Impairment::default(), back);
    }

    /// What was done to frames on the way there, and back.
    #[must_use]
    pub fn counters(&self) -> [FaultCounters; 2] {
        [self.far.transmit_faults(), self.near.transmit_faults()]
    }

    /// Asks both links.
    pub fn ask<R>(&self, ask: impl FnOnce(&A, &B) -> R) -> R {
        self.near.ask_inner(|near| self.far.ask_inner(|far| ask(near, far)))
    }

    /// Sleeps for `timeout` at most, and no longer than until something is due
    /// or the near link has something; what the far one has may wait that long.
    ///
    /// # Errors
    /// As [`Link::wait`].
    pub fn wait(&mut self, now: Time, timeout: Duration) -> std::io::Result<()> {
        let due = self.next_event().map_or(timeout, |due| due.since(now).min(timeout));
        if due.is_zero() { Ok(()) } else { self.near.wait(None, due) }
    }
}

/// Takes in what waits at `from`; what is due leaves at `to`.
fn pass<A: Link, B: Link>(from: &mut Faults<A>, to: &mut Faults<B>, now: Time) -> usize {
    let (rx, _) = from.split();
    let (_, tx) = to.split();
    let count = rx.receive(now, BURST);
    for index in 0..count {
        let frame = rx.frame(index);
        // A frame that is longer than the other link's slots does not fit its MTU.
        if let Some(place) = tx.slot().and_then(|slot| slot.get_mut(..frame.len())) {
            place.copy_from_slice(frame);
            tx.commit(frame.len(), Offload::NONE);
        }
    }
    rx.release();
    tx.flush(now);
    count
}
