//! What happens at a connection that is shared, and what goes out at the end of a turn.

use super::link::LinkStage;
use super::{LINK_AHEAD, SharedLinks};
use crate::answer::StreamEnd;
use crate::groups::ServerGroups;
use crate::marks::{IDLE, SHARED};
use core::time::Duration;
use exchange::{Piece, UpstreamEvent, UpstreamId, Upstreams};
use wire::Time;

impl SharedLinks {
    /// Something happened at a connection that is shared. Of bytes, how many were taken. What it comes to
    /// for streams is told by [`Self::poll_ready`].
    pub(crate) fn on_event(
        &mut self,
        groups: &ServerGroups,
        (io, id, mark): (&mut dyn Upstreams, UpstreamId, u32),
        (event, now): (UpstreamEvent<'_>, Time),
    ) -> usize {
        let all = if let UpstreamEvent::Data(bytes) = event { bytes.len() } else { 0 };
        let number = mark & !(IDLE | SHARED);
        if self.link_mut(number).is_none_or(|link| link.id != id) {
            io.let_go(id, Duration::ZERO);
            return all;
        }
        match event {
            UpstreamEvent::Opened => self.on_opened(io, number, now),
            UpstreamEvent::Shaken(Ok(session)) => self.on_secured(number, session.verdict, now),
            UpstreamEvent::Shaken(Err(why)) => self.on_unsecured(number, why),
            UpstreamEvent::Data(bytes) => return self.on_data(io, number, bytes, now),
            UpstreamEvent::Passed(_) => {}
            UpstreamEvent::Room => self.on_room(io, number),
            UpstreamEvent::Timer => self.on_timer(groups, number, now),
            UpstreamEvent::End { .. } => self.end_link(number, &StreamEnd::Closed(app::Closed::Finished)),
            UpstreamEvent::Closed(why) => {
                self.end_link(number, &StreamEnd::Closed(why));
                if let Some(link) = self.link_mut(number) {
                    link.is_gone = true;
                }
            }
        }
        0
    }

    /// Sends what was gathered, and closes what is over. At the end of each turn, and of each event.
    pub fn flush(&mut self, groups: &ServerGroups, io: &mut dyn Upstreams, now: Time) {
        while let Some(number) = self.dirty.pop() {
            let Some(link) = self.links.get_mut(number as usize).and_then(Option::as_deref_mut) else { continue };
            link.is_dirty = false;
            match link.stage {
                LinkStage::Open if link.is_unused() && !link.is_idle() => self.rest_link(groups, number, now),
                LinkStage::Begins if link.is_unused() => self.close_link(number),
                _ => {}
            }
            let Some(link) = self.links.get_mut(number as usize).and_then(Option::as_deref_mut) else { continue };
            let may_send = matches!(link.stage, LinkStage::Open | LinkStage::Over) && !link.is_gone && link.was_open;
            if may_send && !link.out.is_empty() {
                io.send_upstream(link.id, Piece::Bytes(&link.out));
                link.out.clear();
                link.flushes = link.flushes.wrapping_add(1);
                link.out.shrink_to(LINK_AHEAD);
            }
            if link.stage == LinkStage::Over {
                self.remove_link(groups, io, number);
            } else {
                let due = link.due();
                if link.armed != due {
                    link.armed = due;
                    io.set_upstream_timer(link.id, due);
                }
            }
        }
    }
}
