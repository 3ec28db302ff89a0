//! The head and the body of a question, on their way.

use crate::ask::{Ask, AskStage, AskStep, AskTurn};
use crate::link::AskLink;
use crate::question::ZEROS;
use crate::shared::{Opening, StreamId};
use bodies::BodyContent;
use exchange::{Piece, UpstreamId, Upstreams};
use semantics::Method;

/// Bytes of a body that goes on as it comes, or of a tunnel, that wait for a server, at most.
pub const SEND_MAX: usize = app::SEND_LOW_WATER + (16 << 10);

/// Bytes of a body that are one record of FastCGI.
const STDIN_PIECE: u32 = cgi::fastcgi::STDIN_PIECE as u32;

impl Ask {
    /// Whether the body is sent in records.
    fn has_records(&self) -> bool {
        self.reading.program().is_some_and(crate::ProgramAnswer::has_records)
    }

    fn count_sent(&mut self, bytes: u64) {
        if let Some(last) = self.tries.last_mut() {
            last.sent += bytes;
        }
    }

    /// The connection is there: the question is sent.
    pub(crate) fn send_head(&mut self, turn: &mut AskTurn<'_>) -> AskStep {
        let Some(link) = self.link else { return AskStep::Waits };
        let link = match link {
            AskLink::Own(id) => id,
            AskLink::Shared(id) => return self.open_stream(turn, id),
        };
        (self.stage, self.sending.begun) = (AskStage::Head, true);
        turn.io.send_upstream(link, Piece::Bytes(&self.sending.head));
        if let Some(last) = self.tries.last_mut() {
            last.connect.get_or_insert(turn.now.since(last.began));
            last.sent += self.sending.head.len() as u64;
        }
        if self.sending.stream.is_some_and(|stream| stream.ended) {
            self.end_stream(turn);
        }
        self.send_body(turn)
    }

    /// The question is opened on its stream.
    pub(crate) fn open_stream(&mut self, turn: &mut AskTurn<'_>, id: StreamId) -> AskStep {
        let ends = self.sending.has_no_body();
        let opening = Opening {
            head: self.sending.head(),
            is_secured: self.seeks.is_some(),
            ends,
            is_head: self.asked == Method::Head,
            head_max: self.rules.head_max,
            waits: self.reading.waits,
        };
        let is_open = turn.kept.shared.open_stream(id, &opening);
        if !is_open {
            // Which is told as what happens to its stream.
            return AskStep::Waits;
        }
        self.stage = AskStage::Head;
        self.sending.begin(ends);
        let head = self.sending.head().len() as u64;
        if let Some(last) = self.tries.last_mut() {
            last.connect.get_or_insert(turn.now.since(last.began));
            last.sent += head;
        }
        // What an earlier server has not processed.
        let kept = core::mem::take(&mut self.sending.kept);
        if !kept.is_empty() {
            turn.kept.shared.send(turn.io, id, Piece::Bytes(&kept));
            self.sending.at = kept.len() as u64;
            self.count_sent(kept.len() as u64);
        }
        self.sending.kept = kept;
        if self.sending.stream.is_some_and(|stream| stream.ended) {
            self.end_stream(turn);
        }
        self.send_body(turn)
    }

    /// Queues the body, or some more of it.
    pub fn send_body(&mut self, turn: &mut AskTurn<'_>) -> AskStep {
        let Some(link) = self.link else { return AskStep::Waits };
        if self.sending.stream.is_some() {
            self.watch_stream(turn);
            return AskStep::WantsBody;
        }
        let records = self.has_records();
        let sending = &mut self.sending;
        let (before, mut framing, mut step) = (sending.at, 0, AskStep::Waits);
        match &sending.body {
            _ if sending.done => {}
            None => sending.done = true,
            Some(BodyContent::Memory(body)) if records => {
                let AskLink::Own(link) = link else { return AskStep::Waits };
                framing = send_records(turn.io, link, body);
                (sending.at, sending.done) = (body.len().into(), true);
            }
            Some(BodyContent::Memory(body)) => {
                turn.send(link, Piece::Body(body, (0, body.len())));
                (sending.at, sending.done) = (body.len().into(), true);
            }
            Some(BodyContent::File(file)) if file.length == 0 => sending.done = true,
            Some(BodyContent::File(file)) => {
                let whole = before == 0 && !records;
                let goes = match link {
                    AskLink::Own(id) if whole => turn.io.send_upstream(id, Piece::File(&file.file, (0, file.length))),
                    _ => false,
                };
                if goes {
                    (sending.at, sending.done) = (file.length, true);
                } else if sending.piece_at.is_none() && turn.unsent(link) <= app::SEND_LOW_WATER {
                    step = AskStep::WantsPiece(before);
                }
            }
        }
        let more = sending.at - before + framing;
        if let (AskLink::Shared(id), true) = (link, sending.done) {
            turn.kept.shared.finish(turn.io, id);
        }
        let busy = turn.unsent(link) > app::SEND_LOW_WATER;
        let span = if busy { self.rules.send } else { self.rules.read };
        turn.set_timer(link, Some(turn.now + span));
        self.count_sent(more);
        step
    }

    /// The piece of its body is being read back that it wants ([`AskStep::WantsPiece`]).
    pub const fn reads_piece(&mut self, at: u64) {
        self.sending.piece_at = Some(at);
    }

    /// A piece of the body was read back; nothing if it cannot be. Whether it is of use is seen
    /// here: it may have been for another server, which is gone.
    pub fn on_piece(&mut self, turn: &mut AskTurn<'_>, piece: Option<&[u8]>) -> AskStep {
        let at = self.sending.piece_at.take();
        let is_wanted = self.sending.begun && !self.sending.done;
        let Some(link) = self.link.filter(|_| is_wanted) else { return AskStep::Waits };
        let Some(bytes) = piece.filter(|bytes| !bytes.is_empty()) else { return AskStep::NoBody };
        if at != Some(self.sending.at) {
            return self.send_body(turn);
        }
        let records = self.has_records();
        let sending = &mut self.sending;
        sending.at += bytes.len() as u64;
        let length = sending.body.as_ref().map_or(0, BodyContent::length);
        sending.done = sending.at >= length;
        let mut framed = Vec::new();
        let sent = if records {
            framed.reserve(bytes.len() + 64);
            cgi::fastcgi::stdin(bytes, &mut framed);
            if sending.done {
                cgi::fastcgi::end_stdin(&mut framed);
            }
            &framed
        } else {
            bytes
        };
        turn.send(link, Piece::Bytes(sent));
        self.count_sent(sent.len() as u64);
        self.send_body(turn)
    }

    /// Bytes of a body that goes on as it comes. How many were taken: the others are offered
    /// again after [`AskStep::WantsBody`].
    pub fn stream(&mut self, turn: &mut AskTurn<'_>, bytes: &[u8]) -> usize {
        let (Some(link), Some(stream), true) = (self.link, self.sending.stream, self.sending.begun) else { return 0 };
        if let AskLink::Shared(id) = link {
            return self.send_on_stream(turn, id, bytes);
        }
        let room = SEND_MAX.saturating_sub(turn.unsent(link));
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let (mut framing, mut line) = (0, Vec::new());
        for part in bytes.chunks(stream.part_max()) {
            line.clear();
            let end = stream.frame(part.len(), &mut line);
            for piece in [&line, part, end] {
                turn.send(link, Piece::Bytes(piece));
            }
            framing += line.len() + end.len();
        }
        self.sending.at += bytes.len() as u64;
        self.count_sent((bytes.len() + framing) as u64);
        self.watch_stream(turn);
        bytes.len()
    }

    /// The same, on a stream, whose frames have their lengths. What leaves some behind waits for room.
    fn send_on_stream(&mut self, turn: &mut AskTurn<'_>, id: StreamId, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            // Some of what is queued may have gone meanwhile.
            let room = SEND_MAX.saturating_sub(turn.kept.shared.unsent(id)).min(bytes.len() - at);
            if room == 0 {
                break;
            }
            let piece = bytes.get(at..at + room).unwrap_or_default();
            turn.kept.shared.send(turn.io, id, Piece::Bytes(piece));
            self.sending.keep(piece);
            at += room;
        }
        self.count_sent(at as u64);
        self.watch_stream(turn);
        at
    }

    /// The server is waited for while it takes none of the body, or has all of it; not while
    /// whoever sends that is waited for.
    fn watch_stream(&self, turn: &mut AskTurn<'_>) {
        let Some(link) = self.link.filter(|_| self.stage == AskStage::Head) else { return };
        let busy = turn.unsent(link) > app::SEND_LOW_WATER;
        let at = match (busy, self.sending.done) {
            (true, _) => Some(turn.now + self.rules.send),
            (false, true) => Some(turn.now + self.rules.read),
            (false, false) => None,
        };
        turn.set_timer(link, at);
    }

    /// All of a body that goes on as it comes was offered.
    pub fn end_stream(&mut self, turn: &mut AskTurn<'_>) {
        let Some(stream) = &mut self.sending.stream else { return };
        stream.ended = true;
        let stream = *stream;
        let Some(link) = self.link.filter(|_| self.sending.begun) else { return };
        if core::mem::replace(&mut self.sending.done, true) {
            return;
        }
        let mut last = Vec::new();
        match link {
            AskLink::Own(_) => stream.end(&mut last),
            AskLink::Shared(id) => turn.kept.shared.finish(turn.io, id),
        }
        if !last.is_empty() {
            turn.send(link, Piece::Bytes(&last));
            self.count_sent(last.len() as u64);
        }
        self.watch_stream(turn);
    }
}

/// Queues a body in records, and their end. What of it is shared is not copied. Returns
/// how many bytes are not of the body.
fn send_records(io: &mut dyn Upstreams, link: UpstreamId, body: &app::Body) -> u64 {
    let (mut at, length, mut framing) = (0, body.len(), 0);
    while at < length {
        let end = length.min(at + STDIN_PIECE);
        let mut head = Vec::new();
        let padding = cgi::fastcgi::stdin_head((end - at) as usize, &mut head);
        io.send_upstream(link, Piece::Bytes(&head));
        io.send_upstream(link, Piece::Body(body, (at, end)));
        io.send_upstream(link, Piece::Bytes(ZEROS.get(..padding).unwrap_or_default()));
        framing += head.len() + padding;
        at = end;
    }
    let mut end = Vec::new();
    cgi::fastcgi::end_stdin(&mut end);
    io.send_upstream(link, Piece::Bytes(&end));
    (framing + end.len()) as u64
}
