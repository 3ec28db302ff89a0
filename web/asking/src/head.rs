//! The head of an answer: whether it is one, and whether it is taken.

use crate::ask::{Ask, AskStage, AskStep, AskTurn};
use crate::link::AskLink;
use crate::rules::Protocol;
use crate::tries::NoteLevel;
use cgi::answer::{AnswerBody, AnswerEnd, AnswerError, StderrLine};
use cgi::head::Head;
use h1::Framing;
use h1::client::{Error, ResponseEvent, ResponseLimits};
use proxy::fields::{misframed, misnamed};
use proxy::next::Failure;
use semantics::Status;

/// What of bytes that came before an answer's body was made out.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeadEvent {
    /// The head is not whole: what was not taken is offered again, with more.
    More,
    /// An interim answer was taken; with the lines of its fields where it has hints
    /// (RFC 8297). What is behind it is to be offered at once.
    Interim(Option<Vec<u8>>),
    /// The head is whole, and taken: [`Ask::status`], [`Ask::fields`] and the like tell of
    /// it.
    Head,
    /// It is none, or one after which another server is asked.
    Step(AskStep),
}

/// Bytes of a program's answer that are read at once while its head comes.
const PIECE: usize = 4 << 10;

pub(crate) const LIMITS: ResponseLimits = ResponseLimits {
    head: u16::MAX,
    fields: 1000,
    interim: 8,
    chunk_line: 1024,
    trailers: 16384,
    line_feeds: false,
    skips_bad_trailers: true,
};

impl Ask {
    /// Reads bytes that came before the answer's body. How many were taken, from the front.
    pub fn read_head(&mut self, turn: &mut AskTurn<'_>, bytes: &[u8]) -> (usize, HeadEvent) {
        if self.stage == AskStage::Connects || self.link.is_none() {
            return (0, HeadEvent::More);
        }
        match self.reading.protocol {
            Protocol::Http => {}
            Protocol::Http2(_) => return self.read_stream_head(turn, bytes),
            Protocol::Program(_) => return self.read_program_head(turn, bytes),
        }
        let most = u16::try_from(self.rules.head_max).unwrap_or(u16::MAX);
        let limits = ResponseLimits { head: most, line_feeds: self.rules.line_feeds, ..LIMITS };
        let reading = &mut self.reading;
        // What is decided by the head is read from memory that nobody else writes to.
        reading.head.clear();
        reading.head.extend_from_slice(bytes.get(..bytes.len().min(usize::from(most))).unwrap_or_default());
        // How many bytes longer than what came the head is that is read.
        let mut longer = 0;
        loop {
            match reading.reader.on_bytes_noting(&reading.head, self.asked, &limits, &mut reading.noted) {
                ResponseEvent::NeedMore => return (0, HeadEvent::More),
                ResponseEvent::Interim { status, consumed } => {
                    return self.on_interim(turn, (status, consumed, consumed - longer), bytes);
                }
                ResponseEvent::LineFeeds { consumed } => {
                    let head = h1::canonical(reading.head.get(..consumed).unwrap_or_default());
                    longer = head.len() - consumed;
                    reading.head.splice(..consumed, head);
                }
                ResponseEvent::Failed { error } => return self.refuse_head(turn, &head_fault(error, bytes), bytes),
                ResponseEvent::Response { response, consumed } => {
                    (reading.status, reading.has_x_field) = (response.status.code(), response.has_x_field);
                    reading.keeps = response.keep_alive;
                    reading.length = match response.framing {
                        Framing::Length(length) => Some(length),
                        Framing::None => Some(0),
                        Framing::Chunked | Framing::UntilClose => None,
                    };
                    reading.complete = response.framing == Framing::None;
                    reading.fields_at = response.fields_start();
                    reading.head.truncate(consumed);
                    return self.on_http_head(turn, consumed - longer, bytes);
                }
                ResponseEvent::Body { .. } | ResponseEvent::EndOfBody { .. } => {
                    return self.refuse_head(turn, &head_fault(Error::Malformed, bytes), bytes);
                }
            }
        }
    }

    /// Reads the head of an answer on a stream, of whose body these bytes are there. How many of them were
    /// taken.
    pub(crate) fn read_stream_head(&mut self, turn: &mut AskTurn<'_>, bytes: &[u8]) -> (usize, HeadEvent) {
        let Some(id) = self.stream_id() else { return (0, HeadEvent::More) };
        let Some(head) = turn.kept.shared.take_head(id) else {
            // It is over without one, perhaps.
            return match turn.kept.shared.take_end(id) {
                Some(end) => (bytes.len(), HeadEvent::Step(self.ended_in_head(turn, end))),
                None => (0, HeadEvent::More),
            };
        };
        if let Some(last) = self.tries.last_mut() {
            last.received += head.lines.len() as u64;
        }
        if head.status < 200 {
            let mut hints = None;
            if head.status == Status::EARLY_HINTS.code() {
                self.reading.hints = self.reading.hints.saturating_add(head.lines.len() as u32);
                if self.reading.hints > self.rules.head_max {
                    let told = "upstream sent too big early hints";
                    self.note(crate::NoteLevel::Info, told, "reading response header from upstream");
                } else {
                    hints = Some(head.lines);
                }
            }
            turn.set_timer(AskLink::Shared(id), Some(turn.now + self.rules.read));
            return (0, HeadEvent::Interim(hints));
        }
        let reading = &mut self.reading;
        (reading.status, reading.length, reading.fields_at) = (head.status, head.length, 0);
        reading.head.clear();
        reading.head.extend_from_slice(&head.lines);
        let mut taken = 0;
        if turn.kept.shared.is_whole_at(id) {
            // All of it is there, and nothing follows: it is over.
            let mut body = core::mem::take(&mut reading.memory);
            body.clear();
            body.extend_from_slice(bytes);
            (taken, reading.complete) = (bytes.len(), true);
            reading.length = Some(bytes.len() as u64);
            reading.whole = (taken > 0).then_some(body);
            if let Some(last) = self.tries.last_mut() {
                last.received += taken as u64;
            }
        }
        (taken, self.on_head(turn))
    }

    /// What came is no head: nothing of it is taken for anything else.
    fn refuse_head(&mut self, turn: &mut AskTurn<'_>, told: &str, bytes: &[u8]) -> (usize, HeadEvent) {
        self.note(NoteLevel::Error, told, "reading response header from upstream");
        (bytes.len(), HeadEvent::Step(self.failed(turn, Failure::InvalidHeader)))
    }

    /// An interim answer: its status, how long it is, and how much of what came that was.
    #[cold]
    fn on_interim(
        &mut self,
        turn: &mut AskTurn<'_>,
        (status, length, taken): (Status, usize, usize),
        bytes: &[u8],
    ) -> (usize, HeadEvent) {
        let mut hints = None;
        if status == Status::EARLY_HINTS {
            let head = self.reading.head.get(..length).unwrap_or_default();
            if head.starts_with(b"HTTP/1.0") {
                return self.refuse_head(turn, "upstream sent HTTP/1.0 response with early hints", bytes);
            }
            self.reading.hints = self.reading.hints.saturating_add(u32::try_from(head.len()).unwrap_or(u32::MAX));
            if self.reading.hints > self.rules.head_max {
                let told = "upstream sent too big early hints";
                self.note(NoteLevel::Info, told, "reading response header from upstream");
            } else {
                let fields = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |end| end + 1);
                hints = Some(head.get(fields..).unwrap_or_default().to_vec());
            }
        }
        if let Some(link) = self.link {
            turn.set_timer(link, Some(turn.now + self.rules.read));
        }
        if let Some(last) = self.tries.last_mut() {
            last.received += taken as u64;
        }
        (taken, HeadEvent::Interim(hints))
    }

    /// The head is whole, of which so many bytes came.
    fn on_http_head(&mut self, turn: &mut AskTurn<'_>, head: usize, bytes: &[u8]) -> (usize, HeadEvent) {
        let taken = head + self.take_http_body(bytes.get(head..).unwrap_or_default());
        // Behind 101 the connection is a tunnel.
        let over = self.reading.complete && self.reading.status != 101;
        let surplus = if over { bytes.len() - taken } else { 0 };
        if let Some(last) = self.tries.last_mut() {
            last.received += taken as u64 + surplus as u64;
        }
        self.reading.behind = surplus;
        self.on_surplus(surplus);
        (taken + surplus, self.on_head(turn))
    }

    /// Takes the body, where it has a length and all of it is there. Returns how many
    /// bytes that is.
    fn take_http_body(&mut self, rest: &[u8]) -> usize {
        let reading = &mut self.reading;
        let Some(length) = reading.length.and_then(|length| usize::try_from(length).ok()) else { return 0 };
        if reading.complete || length == 0 || rest.len() < length {
            return 0;
        }
        let mut body = core::mem::take(&mut reading.memory);
        body.clear();
        body.extend_from_slice(rest.get(..length).unwrap_or_default());
        reading.reader.skip(length as u64);
        let _ = reading.reader.on_bytes(b"", self.asked, &LIMITS);
        (reading.whole, reading.complete) = (Some(body), true);
        length
    }

    /// The head of an answer is there, in any protocol: whether it is taken.
    fn on_head(&mut self, turn: &mut AskTurn<'_>) -> HeadEvent {
        let (now, status) = (turn.now, self.reading.status);
        (self.stage, self.reading.since) = (AskStage::Body, now);
        if let Some(last) = self.tries.last_mut() {
            last.status = status;
            last.header = Some(now.since(last.began));
        }
        let failure = Failure::Status(status);
        if status >= 300
            && self.attempts.left() > 1
            && !self.is_late(now)
            && self.rules.next.has(failure, self.unrepeatable)
        {
            return HeadEvent::Step(self.failed(turn, failure));
        }
        self.sending.forget_kept();
        HeadEvent::Head
    }

    /// The server says so many bytes more than was asked for: nothing else is asked of it on
    /// this connection.
    pub(crate) fn on_surplus(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.reading.keeps = false;
        let told = match self.reading.length {
            // Nothing of a body is looked at.
            Some(0) => return,
            Some(_) => SURPLUS,
            None => "upstream sent data after final chunk",
        };
        self.note(NoteLevel::Warning, told, "reading upstream");
    }

    /// The server sends no more, before the head was whole; so many bytes wait.
    pub(crate) fn on_end_in_head(&mut self, turn: &mut AskTurn<'_>, held: usize) -> AskStep {
        if !matches!(self.reading.protocol, Protocol::Program(_)) {
            self.note_fault("upstream prematurely closed connection");
            return self.failed(turn, Failure::Error);
        }
        if held > 0 {
            // What waits comes first.
            self.reading.ended = true;
            if let Some(link) = self.link.filter(|_| !self.reading.held) {
                turn.resume(link);
            }
            return AskStep::Waits;
        }
        self.end_program_head(turn)
    }

    /// The program's connection has ended, and what it said was read: of an answer no head
    /// is whole by that.
    fn end_program_head(&mut self, turn: &mut AskTurn<'_>) -> AskStep {
        let Protocol::Program(program) = &mut self.reading.protocol else { return AskStep::Waits };
        let why = match program.end_in_head() {
            Err(why) => why,
            Ok(_) => AnswerError::EndInHead(AnswerEnd::Connection),
        };
        self.refuse_program_head(turn, &why)
    }

    fn refuse_program_head(&mut self, turn: &mut AskTurn<'_>, why: &AnswerError) -> AskStep {
        let failure = match why {
            AnswerError::EndInHead(AnswerEnd::Connection) | AnswerError::EndInBody(_) => Failure::Error,
            AnswerError::EndInHead(_) | AnswerError::Record(_) | AnswerError::Head(_) => Failure::InvalidHeader,
        };
        self.note_fault(why.to_string());
        self.failed(turn, failure)
    }

    fn read_program_head(&mut self, turn: &mut AskTurn<'_>, bytes: &[u8]) -> (usize, HeadEvent) {
        let most = PIECE.min(self.ahead_max().saturating_sub(1)).max(1);
        let mut at = 0;
        for piece in bytes.chunks(most) {
            let Protocol::Program(program) = &mut self.reading.protocol else { break };
            at += piece.len();
            let read = program.read_head(piece);
            if self.count_program() {
                return (bytes.len(), HeadEvent::Step(self.failed(turn, Failure::InvalidHeader)));
            }
            match read {
                Ok(None) => {}
                Ok(Some((head, body))) => {
                    self.take_program_head(head, body);
                    return (at, self.on_head(turn));
                }
                Err(why) => return (bytes.len(), HeadEvent::Step(self.refuse_program_head(turn, &why))),
            }
        }
        if self.reading.ended {
            return (at, HeadEvent::Step(self.end_program_head(turn)));
        }
        (at, HeadEvent::More)
    }

    fn take_program_head(&mut self, head: Head, body: AnswerBody) {
        let reading = &mut self.reading;
        (reading.status, reading.reason) = (head.status.code(), head.reason);
        (reading.head, reading.fields_at, reading.keeps) = (head.fields, 0, true);
        (reading.length, reading.complete) = match body {
            AnswerBody::None | AnswerBody::Length(0) => (Some(0), true),
            AnswerBody::Length(length) => (Some(length), false),
            AnswerBody::Open => (None, false),
        };
        if let (Protocol::Program(program), AnswerBody::Length(1..)) = (&mut reading.protocol, body)
            && let Some(whole) = program.take_whole()
        {
            (reading.whole, reading.complete) = (Some(whole), true);
        }
    }

    /// Counts what came of a program's answer, and tells of what that says beside it. Whether
    /// what it says of errors makes it one that is none.
    pub(crate) fn count_program(&mut self) -> bool {
        let Protocol::Program(program) = &mut self.reading.protocol else { return false };
        let (errors, caught) = program.take_errors();
        let surplus = program.has_new_surplus();
        if let Some(last) = self.tries.last_mut() {
            (last.received, last.length) = program.counted();
        }
        if !errors.is_empty() || surplus {
            self.note_errors(&errors, surplus);
        }
        caught
    }

    /// A program has something to say of errors, or says more than its answer's length.
    #[cold]
    fn note_errors(&mut self, errors: &[StderrLine], surplus: bool) {
        for line in errors {
            let said = String::from_utf8_lossy(trimmed(&line.text));
            let doing = if line.in_head { "reading response header from upstream" } else { "reading upstream" };
            self.note(NoteLevel::Error, format!("FastCGI sent in stderr: \"{said}\""), doing);
        }
        if surplus {
            self.note(NoteLevel::Warning, SURPLUS, "reading upstream");
        }
    }

    /// Whether some of the body came with its head, and is to be read at once
    /// ([`Ask::read_body`]), whatever else comes.
    #[must_use]
    pub fn has_early_body(&self) -> bool {
        let is_there = match &self.reading.protocol {
            Protocol::Http => false,
            Protocol::Http2(_) => true,
            Protocol::Program(program) => program.has_early(),
        };
        is_there && self.stage == AskStage::Body
    }
}

/// Bytes of a reason phrase that is passed on, at most.
const REASON_MAX: usize = 512;

impl Ask {
    /// The reason phrase of the answer whose head came, where it is another than its status has by
    /// itself (RFC 9112 section 4); none where it has control bytes, or is no phrase but a text.
    #[must_use]
    pub fn reason(&self) -> Option<&[u8]> {
        // What most say, behind `HTTP/1.1 `.
        const USUAL: &[u8] = b"200 OK\r\n";
        if self.reading.head.get(9..9 + USUAL.len()) == Some(USUAL) {
            return None;
        }
        self.unusual_reason()
    }

    #[cold]
    fn unusual_reason(&self) -> Option<&[u8]> {
        let own = match &self.reading.protocol {
            Protocol::Http => {
                // `HTTP/1.1 422`, of which the version was read already.
                let line = self.reading.head.get(..self.reading.fields_at)?.trim_ascii_end();
                let reason = line.get(12..)?;
                reason.strip_prefix(b" ").unwrap_or(reason)
            }
            Protocol::Program(_) => Some(&*self.reading.reason).filter(|reason| !reason.is_empty())?,
            Protocol::Http2(_) => return None,
        };
        let is_clean = own.len() <= REASON_MAX && !own.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
        let usual = Status::from_code(self.reading.status)?.reason();
        (is_clean && own != usual.as_bytes()).then_some(own)
    }
}

const SURPLUS: &str = "upstream sent more data than specified in \"Content-Length\" header";

/// What is said of errors, without the end of its last line, or of its last sentence.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_kept = |byte: &u8| !matches!(byte, b'\n' | b'\r' | b'.' | b' ');
    let end = text.iter().rposition(is_kept).unwrap_or(0);
    text.get(..=end).unwrap_or(text)
}

/// What is wrong with a head, for people; `rest` is what could not be read of it.
fn head_fault(error: Error, rest: &[u8]) -> String {
    match (error, misnamed(rest)) {
        (Error::TooLarge, _) => "upstream sent too big header".to_owned(),
        (_, Some((name, byte))) => {
            format!("upstream sent invalid header: \"{}\\x{byte:02x}...\"", String::from_utf8_lossy(name))
        }
        _ => misframed(rest).unwrap_or_else(|| "upstream sent invalid header".to_owned()),
    }
}
