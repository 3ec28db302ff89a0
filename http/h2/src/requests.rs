//! Field sections: requests, and what follows a body.

use crate::connection::{COMPRESSION, Done, HEADS_MAX, PROTOCOL, Section, ServerConnection, ServerEvent, Wrong};
use crate::error::ErrorCode;
use crate::flood::Flood;
use crate::frame;
use crate::head::{FoundHead, HeadFacts, HeadFault, HeadMemory, HeadReader, is_of_connection, is_plain_value};
use crate::priority::StreamPriority;
use crate::stream::{Closed, FIRST_WINDOW, Stream, Window};
use core::ops::ControlFlow;
use hpack::HeaderField;
use semantics::scan::is_lower_token;

impl<T: Default> ServerConnection<T> {
    /// A field section is complete: a request's, or what follows a body.
    pub(crate) fn on_section<'a>(
        &mut self,
        section: &Section,
        block: &[u8],
        memory: &'a mut HeadMemory,
        out: &mut Vec<u8>,
    ) -> Done<'a, T> {
        let number = section.stream;
        if let Some(at) = self.streams.find(number) {
            let trailers = self.trailers(block, memory);
            let stream = &mut self.streams.all[at];
            if stream.malformed {
                return trailers.map(|_| ServerEvent::Nothing);
            }
            if core::mem::replace(&mut stream.remote_ended, true) {
                return trailers.and(Err(Wrong::Stream(number, ErrorCode::STREAM_CLOSED)));
            }
            let whole = stream.left.is_none_or(|left| left == 0) && section.ends_stream;
            if stream.dropping.is_some() && whole {
                self.take(number, false);
                return trailers.map(|_| ServerEvent::Nothing);
            }
            return match trailers {
                Ok(true) if whole => Ok(ServerEvent::Trailers { stream: number, lines: &memory.parts.lines }),
                Ok(_) if stream.dropping.is_some() => Err(Wrong::Stream(number, ErrorCode::PROTOCOL_ERROR)),
                Ok(_) => Err(Wrong::Malformed(stream.spoil())),
                Err(wrong) => Err(wrong),
            };
        }
        if number <= self.last {
            self.trailers(block, memory)?;
            return match self.streams.closed(number) {
                Closed::ByUs => Ok(ServerEvent::Nothing),
                Closed::ByPeer => Err(Wrong::Connection(ErrorCode::STREAM_CLOSED)),
                Closed::LongAgo => Err(PROTOCOL),
            };
        }
        if number.is_multiple_of(2) {
            return Err(PROTOCOL);
        }
        self.last = number;
        if section.priority.is_some_and(|priority| priority.depends_on == number) {
            self.trailers(block, memory)?;
            return Err(Wrong::Stream(number, ErrorCode::PROTOCOL_ERROR));
        }
        self.on_request(section, block, memory, out)
    }

    /// Decodes a block of plain fields into lines; whether they may be so. The table has to follow,
    /// whoever wants them.
    fn trailers(&mut self, block: &[u8], memory: &mut HeadMemory) -> Result<bool, Wrong> {
        self.check_block(block)?;
        let (lines, most) = (&mut memory.parts.lines, usize::from(self.settings.head.bytes));
        lines.clear();
        let decoded = self.decoder.decode(block, &mut memory.scratch, |HeaderField { name, value, .. }| {
            let fits = lines.len() + name.len() + value.len() + 4 <= most;
            if !fits || !is_lower_token(name) || !is_plain_value(value) || is_of_connection(name) {
                return ControlFlow::Break(());
            }
            [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
            ControlFlow::Continue(())
        });
        Ok(!decoded.map_err(|_| COMPRESSION)?.refused)
    }

    /// A block that begins with a new size of the table is counted.
    fn check_block(&mut self, block: &[u8]) -> Result<(), Wrong> {
        if block.first().is_some_and(|first| first & 0xe0 == 0x20) {
            self.budgets.spend(Flood::Table)?;
        }
        Ok(())
    }

    fn on_request<'a>(
        &mut self,
        section: &Section,
        block: &[u8],
        memory: &'a mut HeadMemory,
        out: &mut Vec<u8>,
    ) -> Done<'a, T> {
        let (stream, ends) = (section.stream, section.ends_stream);
        self.check_block(block)?;
        let HeadMemory { scratch, parts } = memory;
        let mut reader = HeadReader::new(parts, self.settings.head);
        self.decoder.decode(block, scratch, |field| reader.field(field)).map_err(|_| COMPRESSION)?;
        let found = reader.finish();
        let head = found.map_or(0, |found| found.bytes as u32);
        // What was sent of it was paid for.
        let head = head.saturating_sub(2 * block.len() as u32);
        let early = self.early.iter().position(|(number, _)| *number == stream);
        let early = early.map(|at| self.early.swap_remove(at).1);
        // Who does not know yet that a window is smaller than at first may send more than fits into it, and is
        // to do so again (RFC 9113 section 6.9.3).
        let is_misled = !self.is_known && !ends && self.settings.window < FIRST_WINDOW;
        let is_full = self.streams.all.len() >= self.settings.streams as usize;
        // Nobody gives way to one that is refused all the same.
        if is_misled || stream >= self.refuses_from || (is_full && !self.make_way(out)) {
            return self.refuse(stream, out);
        }
        if self.heads.saturating_add(head) > HEADS_MAX.saturating_add(self.heads_lent) {
            self.budgets.spend(Flood::Heads)?;
            return self.refuse(stream, out);
        }
        // RFC 9113 section 8.1.1: where nothing follows, no length says otherwise.
        let is_whole = |found: &FoundHead| !ends || found.facts.length.unwrap_or(0) == 0;
        let found = match found.and_then(|found| if is_whole(&found) { Ok(found) } else { Err(HeadFault::BAD) }) {
            Ok(found) => found,
            Err(fault) => {
                self.budgets.spend(Flood::MadeReset)?;
                self.open(section, HeadFacts { length: None, priority: None }, (0, early));
                return Ok(ServerEvent::Refused { stream, status: fault.status, line: parts.line() });
            }
        };
        let facts = found.facts;
        self.budgets.earn();
        self.open(section, facts, (head, early));
        Ok(ServerEvent::Request { stream, request: parts.request(found), length: facts.length, ends })
    }

    fn open(&mut self, section: &Section, facts: HeadFacts, (head, early): (u32, Option<StreamPriority>)) {
        let weight = section.priority.map(|priority| StreamPriority::of_weight(priority.weight));
        self.heads += head;
        self.streams.all.push_back(Stream {
            number: section.stream,
            data: T::default(),
            // RFC 9218 section 7: an update overrides the field.
            priority: early.or(facts.priority).or(weight).unwrap_or_default(),
            served: 0,
            send: Window::new(self.first_window),
            receive: Window::new(self.settings.window),
            target: self.settings.window,
            owed: 0,
            left: facts.length.filter(|_| !section.ends_stream),
            head,
            remote_ended: section.ends_stream,
            malformed: false,
            dropping: None,
        });
    }

    /// Nothing is done for it.
    fn refuse<'a>(&mut self, stream: u32, out: &mut Vec<u8>) -> Done<'a, T> {
        self.streams.note_closed(stream, true);
        frame::write_reset(out, stream, ErrorCode::REFUSED_STREAM);
        Ok(ServerEvent::Nothing)
    }
}
