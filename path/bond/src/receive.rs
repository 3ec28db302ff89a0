//! What a bond receives: the members' bursts in turn.

use crate::aggregator::Aggregator;
use crate::halves::Halves;
use core::hint::cold_path;
use link::{Link, Receive};
use std::sync::Arc;
use wire::Time;
use wire::ethernet::HEADER_LEN;
use wire::lacp::ETHER_SLOW;

/// The receive half of a [`crate::Bond`].
pub struct BondRx<'a, L: Link + 'a> {
    pub(crate) members: Halves<L::Rx<'a>>,
    pub(crate) state: &'a mut RxState,
}

/// What receiving remembers.
#[derive(Debug)]
pub(crate) struct RxState {
    /// Where the control protocol is spoken.
    pub aggregator: Option<Arc<Aggregator>>,
    /// Each member's port.
    pub ports: Box<[u8]>,
    /// The member whose burst is at hand.
    pub current: usize,
    /// The member to be asked first.
    pub next: usize,
}

impl RxState {
    /// Returns how many frames of a member's burst are the silo's: all, those
    /// of slow protocols among them, which a stack passes over as it does all
    /// frames that are not for it; or none where the port does not collect.
    pub fn admit(&self, rx: &impl Receive, member: usize, frames: usize, now: Time) -> usize {
        let Some(aggregator) = &self.aggregator else { return frames };
        let port = usize::from(self.ports[member]);
        let slow = tell(aggregator, port, rx, frames, now);
        if aggregator.collecting() >> port & 1 == 0 {
            cold_path();
            aggregator.on_dropped(port, frames - slow);
            return 0;
        }
        frames
    }
}

/// Tells the aggregation what it must hear of a port's burst, and returns how
/// many frames that were.
pub(crate) fn tell(aggregator: &Aggregator, port: usize, rx: &impl Receive, frames: usize, now: Time) -> usize {
    let mut slow = 0;
    for index in 0..frames {
        if let Some((head, payload)) = rx.frame(index).split_at_checked(HEADER_LEN)
            && head[12..] == ETHER_SLOW.to_be_bytes()
        {
            cold_path();
            aggregator.on_slow(port, payload, now);
            slow += 1;
        }
    }
    slow
}

impl<'a, L: Link + 'a> BondRx<'a, L> {
    #[inline]
    fn current(&self) -> &L::Rx<'a> {
        match &self.members {
            Halves::One(only) => only,
            several => several.get(self.state.current).expect("a burst is a member's"),
        }
    }

    /// As `receive`, with several members: the burst of the first that has
    /// one, from the one after the last on, so that none waits for ever.
    fn receive_from_several(&mut self, now: Time, max: usize) -> usize {
        let members = self.members.several_mut();
        for _ in 0..members.len() {
            let at = if self.state.next < members.len() { self.state.next } else { 0 };
            self.state.next = at + 1;
            self.state.current = at;
            let Some(member) = &mut members[at] else { continue };
            let frames = member.receive(now, max);
            let frames = if frames > 0 { self.state.admit(member, at, frames, now) } else { 0 };
            if frames > 0 {
                return frames;
            }
            member.release();
        }
        0
    }
}

impl<'a, L: Link + 'a> Receive for BondRx<'a, L> {
    #[inline]
    fn receive(&mut self, now: Time, max: usize) -> usize {
        let Halves::One(only) = &mut self.members else { return self.receive_from_several(now, max) };
        let frames = only.receive(now, max);
        if self.state.aggregator.is_some() && frames > 0 {
            return self.state.admit(only, 0, frames, now);
        }
        frames
    }

    #[inline]
    fn frame(&self, index: usize) -> &[u8] {
        self.current().frame(index)
    }

    #[inline]
    fn verified(&self, index: usize) -> bool {
        self.current().verified(index)
    }

    fn stray(&mut self, index: usize) -> bool {
        self.members.get_mut(self.state.current).is_some_and(|member| member.stray(index))
    }

    fn stray_from(&mut self, frame: &[u8]) -> bool {
        match &mut self.members {
            Halves::One(only) => only.stray_from(frame),
            // Any of them reaches whoever may own it.
            several => several.several_mut().iter_mut().flatten().any(|member| member.stray_from(frame)),
        }
    }

    #[inline]
    fn release(&mut self) {
        if let Some(member) = self.members.get_mut(self.state.current) {
            member.release();
        }
    }
}
