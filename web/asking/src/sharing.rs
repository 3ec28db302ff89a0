//! Bodies of answers on connections that others share (HTTP/2).

use crate::answer::{StreamAnswer, StreamEnd, UnprocessedBy};
use crate::ask::{Ask, AskTurn};
use crate::body::BodyEnd;
use crate::link::AskLink;
use crate::rules::Protocol;
use crate::shared::StreamId;
use crate::words::link_fault;

impl Ask {
    /// Its stream, where it has one.
    pub(crate) const fn stream_id(&self) -> Option<StreamId> {
        match self.link {
            Some(AskLink::Shared(id)) => Some(id),
            _ => None,
        }
    }

    /// What answers on a stream, if it is asked so.
    pub(crate) const fn answer_on_stream(&mut self) -> Option<&mut StreamAnswer> {
        match &mut self.reading.protocol {
            Protocol::Http2(answer) => Some(answer),
            _ => None,
        }
    }

    /// Reads some of a body. How many bytes were taken, and whether it is over.
    pub(crate) fn read_stream_body(
        &mut self,
        (bytes, is_all): (&[u8], bool),
        room: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, BodyEnd) {
        let piece = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let has_room = piece.len() == bytes.len();
        self.reading.held = !has_room;
        if !piece.is_empty() {
            take(piece);
        }
        if let Some(last) = self.tries.last_mut() {
            last.received += piece.len() as u64;
            last.length += piece.len() as u64;
        }
        let passes_trailers = self.rules.passes_trailers;
        let Some(answer) = self.answer_on_stream() else { return (piece.len(), BodyEnd::Not) };
        answer.body += piece.len() as u64;
        if !(has_room && is_all) {
            return (piece.len(), BodyEnd::Not);
        }
        let end = match answer.end.take() {
            None => BodyEnd::Not,
            Some(StreamEnd::Whole(trailers)) => BodyEnd::Whole(if passes_trailers { trailers } else { Vec::new() }),
            Some(StreamEnd::Reset(code) | StreamEnd::Unprocessed(code, UnprocessedBy::Reset)) => {
                BodyEnd::Cut(format!("upstream rejected request with error {}", code.0))
            }
            Some(StreamEnd::Unprocessed(code, _)) => {
                BodyEnd::Cut(format!("upstream sent goaway with error {}", code.0))
            }
            Some(StreamEnd::Fault(told)) => BodyEnd::Cut(told.into_owned()),
            Some(StreamEnd::Closed(why)) => BodyEnd::Cut(link_fault(why, false)),
        };
        (piece.len(), end)
    }

    /// What came of the body on its stream is about to be read ([`Ask::read_body`]): whether more follows
    /// is known by that.
    pub fn look_at_stream(&mut self, turn: &mut AskTurn<'_>) {
        let Some(id) = self.stream_id() else { return };
        if turn.kept.shared.has_lost_link(id) {
            // All that comes is here, and nobody's clock would ask for the rest of it.
            self.reading.rate = 0;
        }
        if let Some(answer) = self.answer_on_stream()
            && answer.end.is_none()
        {
            answer.end = turn.kept.shared.take_end(id);
        }
    }
}
