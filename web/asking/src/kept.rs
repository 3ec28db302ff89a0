//! Connections that are kept for questions to come.

use crate::groups::{KeptLink, ServerGroups};
use crate::link::AskLink;
use crate::marks::{IDLE, SHARED};
use crate::shared::SharedLinks;
use core::time::Duration;
use exchange::{LINGER, UpstreamEvent, UpstreamId, Upstreams};
use handshake::Sought;
use std::sync::Arc;
use upstream::IdleId;
use wire::Time;

/// What kept connections were secured for: none serves whom it was not verified for.
#[derive(Debug, Default)]
struct SecuredWays(Vec<Sought>);

/// More than so many are not told apart, and their connections not kept.
const WAYS_MAX: usize = 1_024;

impl SecuredWays {
    /// The number of this one; 0 is that of connections that are not secured.
    fn number(&mut self, seeks: Option<&Sought>) -> Option<u32> {
        let Some(seeks) = seeks else { return Some(0) };
        let shows = |sought: &Sought| sought.shows.as_ref().map(|shows| shows.files.clone());
        let shown = shows(seeks);
        let is_same = |one: &Sought| {
            let are_names = one.name == seeks.name && one.told == seeks.told;
            Arc::ptr_eq(&one.tls, &seeks.tls) && are_names && shows(one) == shown
        };
        let at = self.0.iter().position(is_same);
        if at.is_none() && self.0.len() >= WAYS_MAX {
            return None;
        }
        let at = at.unwrap_or_else(|| {
            self.0.push(Sought { peer: Box::default(), ..seeks.clone() });
            self.0.len() - 1
        });
        Some(at as u32 + 1)
    }
}

/// The connections of a silo that are kept, by the marks that they have, and those that are
/// to be closed.
#[derive(Debug, Default)]
pub struct KeptLinks {
    places: Vec<Option<(u16, IdleId)>>,
    free: Vec<u32>,
    ways: SecuredWays,
    /// Those that carry many questions, idle or not.
    pub shared: SharedLinks,
    hangups: Vec<UpstreamId>,
}

impl KeptLinks {
    /// A mark that nothing has.
    pub(crate) fn reserve(&mut self) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        place | IDLE
    }

    /// How many connections are kept.
    #[must_use]
    pub fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn set(&mut self, mark: u32, group: u16, id: IdleId) {
        if let Some(place) = self.places.get_mut((mark & !IDLE) as usize) {
            *place = Some((group, id));
        }
    }

    /// What has this mark, which is free from now on.
    pub(crate) fn take(&mut self, mark: u32) -> Option<(u16, IdleId)> {
        let found = self.places.get_mut((mark & !IDLE) as usize)?.take();
        self.free.push(mark & !IDLE);
        found
    }

    /// The number of what connections are secured for; none where too many are told apart.
    pub(crate) fn way(&mut self, seeks: Option<&Sought>) -> Option<u32> {
        self.ways.number(seeks)
    }

    /// Something happened at an idle connection: it is kept no more.
    /// Of one that is shared, it is read what that means for its streams. Of bytes, how many were taken.
    pub fn on_event(
        &mut self,
        groups: &ServerGroups,
        (io, id, mark): (&mut dyn Upstreams, UpstreamId, u32),
        (event, now): (UpstreamEvent<'_>, Time),
    ) -> usize {
        if mark & SHARED != 0 {
            return self.shared.on_event(groups, (io, id, mark), (event, now));
        }
        if let Some((group, place)) = self.take(mark)
            && let Some(idle) = groups.list.borrow_mut().get_mut(usize::from(group)).and_then(|one| one.idle.as_mut())
        {
            let _ = idle.remove(place);
        }
        io.let_go(id, LINGER);
        if let UpstreamEvent::Data(bytes) = event { bytes.len() } else { 0 }
    }

    /// Sends what was gathered for connections that are shared, and closes those that are over.
    pub fn flush(&mut self, groups: &ServerGroups, io: &mut dyn Upstreams, now: Time) {
        self.shared.flush(groups, io, now);
        for link in core::mem::take(&mut self.shared.others) {
            let _ = self.take(link.mark);
            io.let_go(link.id, LINGER);
        }
    }

    /// One that gives way, is not kept for anything any more, or whose peer is gone.
    pub(crate) fn close(&mut self, io: &mut dyn Upstreams, link: KeptLink) {
        if link.mark & SHARED != 0 {
            return self.shared.close_kept(link.mark);
        }
        let _ = self.take(link.mark);
        io.let_go(link.id, LINGER);
    }

    /// Others are in the place of these groups: what is kept for them is closed soon, and
    /// nothing more is kept.
    pub fn replace(&mut self, groups: &ServerGroups) {
        groups.is_replaced.set(true);
        for group in groups.list.borrow_mut().iter_mut() {
            while let Some(link) = group.idle.as_mut().and_then(|idle| idle.poll_any()) {
                if link.mark & SHARED != 0 {
                    self.shared.close_kept(link.mark);
                    continue;
                }
                let _ = self.take(link.mark);
                self.hangups.push(link.id);
            }
        }
        self.shared.retire();
        self.ways = SecuredWays::default();
    }

    /// Closes what is kept for peers that are gone.
    pub fn close_gone(&mut self, groups: &ServerGroups, io: &mut dyn Upstreams) {
        for group in groups.list.borrow_mut().iter_mut() {
            for link in group.gone.drain(..) {
                self.close(io, link);
            }
        }
    }

    /// A connection is to be cut, by who cannot now.
    pub fn hang_up(&mut self, link: AskLink) {
        match link {
            AskLink::Own(id) => self.hangups.push(id),
            AskLink::Shared(id) => self.shared.release(id),
        }
    }

    /// How many are to be.
    #[must_use]
    pub fn hangups(&self) -> usize {
        self.hangups.len()
    }

    /// Cuts them.
    pub fn cut_all(&mut self, io: &mut dyn Upstreams) {
        if self.hangups.is_empty() {
            return;
        }
        for id in core::mem::take(&mut self.hangups) {
            io.let_go(id, Duration::ZERO);
        }
    }
}
