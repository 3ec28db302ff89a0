//! What comes of a connection that is shared, for its streams.

use super::link::LinkStage;
use super::stream::Pending;
use super::{SharedLinks, StreamId};
use crate::answer::{HeadOnStream, StreamEnd, UnprocessedBy};
use crate::clock::seconds;
use exchange::Upstreams;
use h2::{ErrorCode, HeadMemory, Offer, UpstreamFault, UpstreamTold};
use wire::Time;

/// Bytes that answer a server's frames (PING, SETTINGS) and wait for it, at most.
const REPLIES_MAX: usize = 256 << 10;

/// Interim answers of a stream that wait for its asker.
const INTERIM_MAX: usize = 8;

impl SharedLinks {
    /// Bytes of a server's. How many were taken.
    pub(super) fn on_data(&mut self, io: &mut dyn Upstreams, number: u32, bytes: &[u8], now: Time) -> usize {
        self.on_heard(number, now);
        let mut memory = self.memory.take().unwrap_or_else(|| Box::new(HeadMemory::of_answers()));
        let second = u32::try_from(seconds(now)).unwrap_or(u32::MAX);
        let mut at = 0;
        while at < bytes.len() {
            let Some(link) = self.link_mut(number).filter(|link| link.stage == LinkStage::Open) else {
                // Nothing is read of one that is over.
                at = bytes.len();
                break;
            };
            let rest = bytes.get(at..).unwrap_or_default();
            let offer = Offer { bytes: rest, second, memory: &mut memory };
            let before = link.out.len();
            let read = link.conn.on_bytes(offer, &mut link.out);
            link.replies += link.out.len() - before;
            match read {
                Ok((_, UpstreamTold::NeedMore)) => break,
                Ok((taken, told)) => {
                    at += taken;
                    self.on_told(io, number, told);
                }
                Err(fault) => self.on_fault(number, fault),
            }
        }
        self.memory = Some(memory);
        self.bound_replies(io, number);
        self.mark_dirty(number);
        at
    }

    /// Who has us answer and takes none of that is not answered for ever.
    fn bound_replies(&mut self, io: &mut dyn Upstreams, number: u32) {
        let Some(link) = self.link_mut(number) else { return };
        let unsent = io.unsent_upstream(link.id);
        if unsent == 0 {
            link.replies = link.replies.min(link.out.len());
        }
        if link.replies > REPLIES_MAX {
            let told = "upstream takes none of what its frames are answered".into();
            self.on_fault(number, UpstreamFault { code: ErrorCode::ENHANCE_YOUR_CALM, flood: None, told });
        }
    }

    fn on_told(&mut self, io: &mut dyn Upstreams, number: u32, told: UpstreamTold<'_, u32>) {
        match told {
            UpstreamTold::NeedMore | UpstreamTold::Nothing | UpstreamTold::Ponged => {}
            UpstreamTold::Room(Some(slot)) => {
                if let Some(id) = self.id_of(slot) {
                    self.pump(io, id, usize::MAX);
                }
            }
            UpstreamTold::Room(None) => self.on_room(io, number),
            UpstreamTold::Settings => self.pump_all(io, number),
            UpstreamTold::Head { data, status, lines, length, ends, .. } => {
                let head = HeadOnStream { status, lines: lines.to_vec(), length };
                self.on_head(data, head, ends);
            }
            UpstreamTold::Data { data, bytes, ends, .. } => {
                let spare = &mut self.spare;
                let Some(one) = self.streams.get_mut(data as usize) else { return };
                one.inbox.add(bytes, spare);
                if ends {
                    one.end = Some(StreamEnd::Whole(Vec::new()));
                }
                self.tell(data, Pending::CAME);
            }
            UpstreamTold::Trailers { data, lines } => {
                if let Some(one) = self.streams.get_mut(data as usize) {
                    one.end = Some(StreamEnd::Whole(lines.to_vec()));
                }
                self.tell(data, Pending::CAME);
            }
            UpstreamTold::Reset { data, code } => self.on_reset(data, code),
            UpstreamTold::Malformed { data, told } => {
                self.figures.streams_at_fault += 1;
                self.end_stream_by(data, StreamEnd::Fault(told));
            }
            UpstreamTold::GoAway { code } => self.on_go_away(number, code),
        }
    }

    fn on_head(&mut self, slot: u32, head: HeadOnStream, ends: bool) {
        let Some(one) = self.streams.get_mut(slot as usize) else { return };
        one.is_answered = true;
        // What is said beforehand may be left out.
        if one.heads.len() >= INTERIM_MAX {
            one.heads.pop_front();
        }
        one.heads.push_back(head);
        if ends {
            one.end = Some(StreamEnd::Whole(Vec::new()));
        }
        self.tell(slot, Pending::CAME);
    }

    /// The server ends a stream.
    fn on_reset(&mut self, slot: u32, code: ErrorCode) {
        let Some(one) = self.streams.get_mut(slot as usize) else { return };
        let end = match code {
            ErrorCode::REFUSED_STREAM if !one.is_answered => StreamEnd::Unprocessed(code, UnprocessedBy::Reset),
            code => StreamEnd::Reset(code),
        };
        self.end_stream_by(slot, end);
    }

    /// The stream in this place, as it is now.
    pub(super) fn id_of(&self, slot: u32) -> Option<StreamId> {
        self.streams.get(slot as usize).map(|one| StreamId { slot, generation: one.generation })
    }
}
