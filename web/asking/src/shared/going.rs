//! What askers send on their streams.

use super::link::{LinkStage, SharedLink};
use super::stream::{OutPiece, Pending, StreamSlot};
use super::{LINK_AHEAD, SharedLinks, StreamId};
use crate::answer::{StreamEnd, UnprocessedBy};
use exchange::{Piece, Upstreams};
use h2::frame::{END_STREAM, FrameHead, HEAD, Kind, PAYLOAD};
use h2::{ErrorCode, Question};
use hpack::{HeaderField, Indexing};

/// Bytes that a stream has queued at most before its asker is told that there is room.
const STREAM_LOW: usize = app::SEND_LOW_WATER / 2;

/// A question as it is opened.
pub(crate) struct Opening<'a> {
    /// A request line, and fields as lines.
    pub head: &'a [u8],
    /// Over TLS.
    pub is_secured: bool,
    /// No body follows.
    pub ends: bool,
    /// It is answered by a head alone.
    pub is_head: bool,
    /// Bytes of that, at most.
    pub head_max: u32,
    /// Its asker takes nothing of a body yet.
    pub waits: bool,
}

impl SharedLinks {
    /// Sends a question. Whether its connection had room for it.
    pub(crate) fn open_stream(&mut self, id: StreamId, opening: &Opening<'_>) -> bool {
        let Some(one) = self.streams.get_mut(id.slot as usize).filter(|one| one.generation == id.generation) else {
            return false;
        };
        let (number, generation) = one.link;
        let link = self.links.get_mut(number as usize).and_then(Option::as_deref_mut);
        let Some(link) = link.filter(|link| link.generation == generation && link.stage == LinkStage::Open) else {
            return false;
        };
        link.waiting.retain(|waiting| *waiting != id);
        let mut lower = self.spare.pop().unwrap_or_default();
        let fields = RequestFields::read(opening, &mut lower);
        let &Opening { ends, is_head, head_max, waits, .. } = opening;
        let question = Question { data: id.slot, ends, is_head, head_max, waits };
        let place = (link.flushes, link.out.len());
        let opened = link.conn.open(question, fields, &mut link.out);
        lower.clear();
        self.spare.push(lower);
        if let Some(opened) = opened {
            (one.number, one.ended, one.last) = (opened, ends, Some(place));
            self.figures.streams += 1;
        }
        if opened.is_none() {
            // There is none any more: another server, or connection, is asked.
            self.end_stream_by(id.slot, StreamEnd::Unprocessed(ErrorCode::REFUSED_STREAM, UnprocessedBy::Us));
        }
        self.mark_dirty(number);
        opened.is_some()
    }

    /// Queues some of a body; what is shared of it is not copied.
    pub(crate) fn send(&mut self, io: &mut dyn Upstreams, id: StreamId, piece: Piece<'_>) {
        let Some(one) = self.stream_mut(id) else { return };
        let piece = match piece {
            Piece::Bytes(bytes) => {
                // What may go at once is copied once.
                let is_next = one.out.is_empty();
                let sent = if is_next { self.send_now(io, id, bytes) } else { 0 };
                OutPiece::Bytes(bytes.get(sent..).unwrap_or_default().to_vec(), 0)
            }
            Piece::Body(body, (start, end)) => OutPiece::Body(body.clone(), start, end),
            // Frames stand between its bytes: they are read.
            Piece::File(..) => return,
        };
        let bytes = piece.rest().len();
        let Some(one) = self.stream_mut(id).filter(|_| bytes > 0) else { return };
        one.out.push_back(piece);
        one.unsent += bytes;
        self.pump(io, id, usize::MAX);
        if let Some(one) = self.stream_mut(id) {
            one.wants_room = one.unsent > STREAM_LOW;
        }
    }

    /// Sends of these bytes what windows and the data path take. How many that is.
    fn send_now(&mut self, io: &mut dyn Upstreams, id: StreamId, bytes: &[u8]) -> usize {
        let Some((one, link)) = self.sender(id) else { return 0 };
        let waits = io.unsent_upstream(link.id);
        let mut at = 0;
        while at < bytes.len() {
            let room = link.conn.data_room(one.number);
            if room == 0 || waits + link.out.len() >= LINK_AHEAD {
                break;
            }
            let rest = bytes.get(at..).unwrap_or_default();
            at += link.write_data(one, rest.get(..room.min(rest.len())).unwrap_or(rest), false);
        }
        let number = link.number;
        self.mark_dirty(number);
        at
    }

    /// A stream that may send, and its connection.
    fn sender(&mut self, id: StreamId) -> Option<(&mut StreamSlot, &mut SharedLink)> {
        let one = self.streams.get_mut(id.slot as usize).filter(|one| one.generation == id.generation)?;
        if one.number == 0 || one.ended || one.is_blocked {
            return None;
        }
        let (number, generation) = one.link;
        let link = self.links.get_mut(number as usize).and_then(Option::as_deref_mut)?;
        let is_fit = link.generation == generation && link.stage == LinkStage::Open;
        is_fit.then_some((one, link))
    }

    /// Behind what is queued it sends no more.
    pub(crate) fn finish(&mut self, io: &mut dyn Upstreams, id: StreamId) {
        if let Some(one) = self.stream_mut(id) {
            one.ends = true;
            self.pump(io, id, usize::MAX);
        }
    }

    /// Bytes of a body that are not sent yet.
    pub(crate) fn unsent(&self, id: StreamId) -> usize {
        self.stream(id).map_or(0, |one| one.unsent)
    }

    /// The asker wants no more of it: what is not over is reset.
    pub fn release(&mut self, id: StreamId) {
        let Some(one) = self.stream(id) else { return };
        let ((number, generation), stream) = (one.link, one.number);
        if let Some(link) = self.link_mut(number).filter(|link| link.generation == generation) {
            link.waiting.retain(|waiting| *waiting != id);
            link.attached = link.attached.saturating_sub(1);
            if stream != 0 {
                link.conn.reset(stream, ErrorCode::CANCEL, &mut link.out);
            }
            self.mark_dirty(number);
        }
        self.free_stream(id);
    }

    /// Sends of a stream's body what windows and the data path take, in so many frames at most.
    pub(super) fn pump(&mut self, io: &mut dyn Upstreams, id: StreamId, frames: usize) {
        let Some((one, link)) = self.sender(id) else { return };
        let waits = io.unsent_upstream(link.id);
        let mut left = frames;
        while let Some(mut piece) = one.out.pop_front() {
            let room = link.conn.data_room(one.number);
            let is_late = room == 0 && !link.conn.is_blocked(one.number);
            if is_late || left == 0 || waits + link.out.len() >= LINK_AHEAD {
                one.is_blocked = true;
                link.blocked.push_back(id);
            }
            // Its own window is the server's to open.
            if one.is_blocked || room == 0 {
                one.out.push_front(piece);
                break;
            }
            left -= 1;
            let rest = piece.rest();
            let some = rest.get(..rest.len().min(room)).unwrap_or(rest);
            let is_last = some.len() == rest.len();
            let ends = is_last && one.ends && one.out.is_empty();
            let bytes = link.write_data(one, some, ends);
            one.unsent -= bytes;
            if !is_last {
                piece.pass(bytes);
                one.out.push_front(piece);
            }
        }
        if one.out.is_empty() && one.ends && !one.ended {
            link.end_stream(one);
        }
        let (number, has_room) = (link.number, one.wants_room && one.unsent <= STREAM_LOW);
        if has_room {
            one.wants_room = false;
            self.tell(id.slot, Pending::ROOM);
        }
        self.mark_dirty(number);
    }

    /// The connection takes more, or its window is open: streams that wait for that take turns, a frame
    /// each.
    pub(super) fn on_room(&mut self, io: &mut dyn Upstreams, number: u32) {
        loop {
            let Some(link) = self.link_mut(number) else { return };
            let before = link.out.len();
            for id in core::mem::take(&mut link.blocked) {
                if let Some(one) = self.stream_mut(id) {
                    one.is_blocked = false;
                }
                self.pump(io, id, 1);
            }
            if self.link_mut(number).is_none_or(|link| link.out.len() == before) {
                return;
            }
        }
    }

    /// Windows of all streams may be others.
    pub(super) fn pump_all(&mut self, io: &mut dyn Upstreams, number: u32) {
        self.on_room(io, number);
        let Some(generation) = self.link_mut(number).map(|link| link.generation) else { return };
        let is_meant = |one: &StreamSlot| one.is_used && one.link == (number, generation) && !one.out.is_empty();
        let all = (0..).zip(&self.streams).filter(|(_, one)| is_meant(one));
        let all: Vec<StreamId> = all.map(|(slot, one)| StreamId { slot, generation: one.generation }).collect();
        for id in all {
            self.pump(io, id, usize::MAX);
        }
    }
}

impl SharedLink {
    /// Writes a frame of a body; how many bytes that has.
    fn write_data(&mut self, one: &mut StreamSlot, bytes: &[u8], ends: bool) -> usize {
        one.ended |= ends;
        let head = self.conn.data(one.number, bytes.len(), ends);
        if !self.extend_last(one, bytes.len(), ends) {
            one.last = Some((self.flushes, self.out.len()));
            self.out.extend_from_slice(&head);
        }
        self.out.extend_from_slice(bytes);
        bytes.len()
    }

    /// Makes a stream's last frame longer, if nothing stands behind it, and it is some of a body.
    fn extend_last(&mut self, one: &StreamSlot, bytes: usize, ends: bool) -> bool {
        let Some((_, at)) = one.last.filter(|(flushes, _)| *flushes == self.flushes) else { return false };
        let end = self.out.len();
        let Some(frame) = self.out.get_mut(at..) else { return false };
        let Some(head) = FrameHead::read(frame) else { return false };
        let length = head.length as usize + bytes;
        if head.kind != Kind::Data || at + HEAD + head.length as usize != end || length > PAYLOAD {
            return false;
        }
        let flags = head.flags | if ends { END_STREAM } else { 0 };
        let longer = FrameHead { length: length as u32, flags, ..head };
        frame.get_mut(..HEAD).unwrap_or_default().copy_from_slice(&longer.bytes());
        true
    }

    /// A stream ends: with its last frame, if that has not gone.
    fn end_stream(&mut self, one: &mut StreamSlot) {
        one.ended = true;
        let end = self.conn.data(one.number, 0, true);
        let waits = one.last.filter(|(flushes, _)| *flushes == self.flushes);
        match waits.and_then(|(_, at)| self.out.get_mut(at + FLAGS_AT)) {
            Some(flags) => *flags |= END_STREAM,
            None => self.out.extend_from_slice(&end),
        }
    }
}

/// Where in a frame's head its flags stand (RFC 9113 section 4.1).
const FLAGS_AT: usize = 4;

/// The fields of a request, from its head as HTTP/1.1 would have it.
struct RequestFields<'a> {
    first: [Option<HeaderField<'a>>; 4],
    at: usize,
    lines: &'a [u8],
}

impl<'a> RequestFields<'a> {
    /// Those of a head, whose names are written in small letters into memory that is lent.
    fn read(opening: &Opening<'_>, lower: &'a mut Vec<u8>) -> Self {
        lower.extend_from_slice(opening.head);
        let start = lower.iter().position(|byte| *byte == b'\n').map_or(lower.len(), |end| end + 1);
        for line in lower.get_mut(start..).unwrap_or_default().split_mut(|byte| *byte == b'\n') {
            let end = line.iter().position(|byte| *byte == b':').unwrap_or(0);
            line.get_mut(..end).unwrap_or_default().make_ascii_lowercase();
        }
        let (line, lines) = lower.split_at(start);
        let line = line.strip_suffix(b" HTTP/2.0\r\n").unwrap_or(line);
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (method, path) = (line.get(..space).unwrap_or_default(), line.get(space + 1..).unwrap_or_default());
        let scheme: &[u8] = if opening.is_secured { b"https" } else { b"http" };
        let host = Fields(lines).find(|(name, _)| *name == b"host").map(|(_, value)| value);
        let first = [
            Some(HeaderField::new(b":method", method)),
            Some(HeaderField::new(b":scheme", scheme)),
            Some(HeaderField::new(b":path", path)),
            host.map(|host| HeaderField::new(b":authority", host)),
        ];
        Self { first, at: 0, lines }
    }
}

/// Lines of `name: value`.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let (line, rest) = (self.0.get(..end)?, self.0.get(end + 1..)?);
            self.0 = rest;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
            return Some((name, value.trim_ascii()));
        }
    }
}

/// Whether a field is of one connection alone (RFC 9113 section 8.2.2), or stands elsewhere.
fn is_left_out(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"te" => !value.eq_ignore_ascii_case(b"trailers"),
        b"host" | b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => true,
        name => name.is_empty(),
    }
}

/// What differs from question to question is not kept, nor are secrets, which others on the connection
/// could guess at by its length (RFC 7541 section 7.1).
fn indexing(field: HeaderField<'_>) -> Indexing {
    match field.name {
        b"authorization" | b"proxy-authorization" | b"cookie" => Indexing::Never,
        b":path" | b"content-length" | b"date" | b"etag" | b"if-none-match" | b"if-modified-since" | b"referer"
        | b"x-request-id" | b"traceparent" | b"x-forwarded-for" | b"x-real-ip" | b"grpc-timeout" | b"range" => {
            Indexing::Without
        }
        name if name.len() + field.value.len() > 128 => Indexing::Without,
        b":method"
        | b":scheme"
        | b":authority"
        | b"te"
        | b"content-type"
        | b"user-agent"
        | b"accept"
        | b"accept-encoding"
        | b"accept-language"
        | b"grpc-encoding"
        | b"grpc-accept-encoding"
        | b"x-forwarded-proto"
        | b"x-forwarded-host"
        | b"x-forwarded-port" => Indexing::Incremental,
        _ => Indexing::Without,
    }
}

impl<'a> Iterator for RequestFields<'a> {
    type Item = (HeaderField<'a>, Indexing);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(place) = self.first.get_mut(self.at) {
            self.at += 1;
            if let Some(field) = place.take() {
                return Some((field, indexing(field)));
            }
        }
        let mut fields = Fields(self.lines);
        let found = fields.by_ref().find(|(name, value)| !is_left_out(name, value));
        self.lines = fields.0;
        let (name, value) = found?;
        let field = HeaderField::new(name, value);
        Some((field, indexing(field)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_becomes_fields_of_which_none_is_of_a_connection() {
        let head = b"POST /a?b HTTP/2.0\r\nX-One: 1 \r\nHost: example.org\r\nConnection: close\r\nTE: gzip\r\nTe: trailers\r\nUpgrade: h2c\r\nCookie: a=b\r\n\r\n";
        let opening = Opening { head, is_secured: true, ends: true, is_head: false, head_max: 0, waits: false };
        let mut lower = Vec::new();
        let fields: Vec<_> = RequestFields::read(&opening, &mut lower)
            .map(|(field, indexing)| {
                (String::from_utf8_lossy(&[field.name, b"=", field.value].concat()).into_owned(), indexing)
            })
            .collect();
        let expected = [
            (":method=POST", Indexing::Incremental),
            (":scheme=https", Indexing::Incremental),
            (":path=/a?b", Indexing::Without),
            (":authority=example.org", Indexing::Incremental),
            ("x-one=1", Indexing::Without),
            ("te=trailers", Indexing::Incremental),
            ("cookie=a=b", Indexing::Never),
        ];
        assert_eq!(fields, expected.map(|(field, indexing)| (field.to_owned(), indexing)));
    }
}
