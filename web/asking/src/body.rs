//! The body of an answer, as it comes and as whoever asked takes it.

use crate::ask::{Ask, AskStage, AskTurn};
use crate::link::AskLink;
use crate::pace::PACE;
use crate::program::ProgramBody;
use crate::rules::Protocol;
use crate::words::link_fault;
use app::LITTLE;
use exchange::{ExchangeId, UpstreamEvent};
use h1::client::{Error, ResponseEvent, ResponseLimits};
use proxy::fields::misnamed;
use wire::Time;

/// Bytes of framing that stand before some of a body: a chunk's line and trailers are
/// read as a whole.
const FRAMING: usize = 20 << 10;

/// The last bytes of a body that passes by itself are seen here, and with them what a server
/// says that nobody asked for: unread, it would be taken for the answer to the next question
/// on the connection.
const SEEN_LAST: u64 = 4 << 10;

/// What some of a body came to.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyEnd {
    /// More of it is to come.
    Not,
    /// All of it is there, with these trailers.
    Whole(Vec<u8>),
    /// It will not be whole, for this reason.
    Cut(String),
}

/// What something else at the connection came to while the body comes.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyStep {
    /// More is to come.
    Waits,
    /// The server has ended, and all that it said is there: [`Ask::read_body`] of nothing
    /// tells what that comes to.
    Ends,
    /// No more of the body will come, for this reason.
    Cut(String),
}

impl Ask {
    /// Reads bytes of the body, of which `room` are taken: each piece by `take`. How many
    /// bytes were taken from the front, and whether the body is over: what comes behind it is
    /// taken, and what was asked says no more. What is left is offered again with more, or,
    /// where that waits for room, after [`Ask::read_more`]. [`Ask::watch_body`] follows.
    pub fn read_body(&mut self, now: Time, all: &[u8], room: usize, take: &mut dyn FnMut(&[u8])) -> (usize, BodyEnd) {
        let allowed = self.allowed(now);
        let offered = allowed.map_or(0, |allowed| allowed.min(all.len()));
        let bytes = all.get(..offered).unwrap_or(all);
        let is_all = offered == all.len();
        self.reading.held = false;
        let (at, end) = match self.reading.protocol {
            Protocol::Http => self.read_http_body((bytes, is_all), room, take),
            Protocol::Http2(_) => self.read_stream_body((bytes, is_all), room, take),
            Protocol::Program(_) => self.read_program_body((bytes, is_all), room, take),
        };
        let reading = &mut self.reading;
        // Also where what was offered ends within a chunk's line: nothing more may come that
        // would ask for the rest of it.
        reading.paced = !is_all && !reading.held && end == BodyEnd::Not;
        // While who asked is waited for, the server is not.
        reading.due = match () {
            () if reading.paced => Some(now + allowed.err().unwrap_or(PACE)),
            () if reading.held => None,
            () => Some(now + self.rules.read),
        };
        match end {
            BodyEnd::Not => (at, end),
            BodyEnd::Cut(_) => (all.len(), end),
            BodyEnd::Whole(_) => {
                self.reading.complete = true;
                self.on_body_surplus(all.len() - at);
                (all.len(), end)
            }
        }
    }

    /// Sets the server's timer by what was read. While there is no room, nothing is received; and `little` of
    /// what is read ahead of who takes nothing now.
    pub fn watch_body(&mut self, turn: &mut AskTurn<'_>, little: bool) {
        let Some(link) = self.link else { return };
        match self.reading.paced {
            true => turn.set_pace(link, self.reading.due),
            false => turn.set_timer(link, self.reading.due),
        }
        if little {
            self.shrink();
        }
        if self.reading.held {
            self.reading.little = None;
            turn.receive(link, 0);
        } else if little {
            self.receive_little(turn);
        } else if self.reading.little.take() == Some(link) {
            turn.receive(link, usize::MAX);
        }
    }

    /// Whether who asked takes nothing of a body now: a stream that is opened then has little room for one.
    pub const fn set_waits(&mut self, waits: bool) {
        self.reading.waits = waits;
    }

    /// Who asked takes nothing of a body now: of what comes with the answer's head, and ahead of who asked, little is
    /// received.
    pub fn receive_little(&mut self, turn: &mut AskTurn<'_>) {
        let Some(link) = self.link else { return };
        let comes = matches!(self.stage, AskStage::Connects | AskStage::Head | AskStage::Body);
        if comes && !self.reading.held && self.reading.little != Some(link) {
            self.reading.little = Some(link);
            turn.receive(link, LITTLE);
        }
    }

    /// The body waits for who asked, perhaps for long: of memory that was taken for heads, what they need stays.
    #[cold]
    fn shrink(&mut self) {
        if self.stage != AskStage::Body {
            return;
        }
        self.sending.shrink();
        self.reading.head.shrink_to_fit();
        self.reading.memory = Vec::new();
        self.tries.shrink_to_fit();
    }

    fn read_http_body(
        &mut self,
        (bytes, is_all): (&[u8], bool),
        mut room: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, BodyEnd) {
        let limits = self.body_limits();
        let mut at = 0;
        let end = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if room == 0 && !rest.is_empty() {
                // Until some was taken. What is left of a line that is not whole waits for
                // its server.
                self.reading.held = true;
                break BodyEnd::Not;
            }
            let framing = if self.reading.reader.is_within_content() { 0 } else { FRAMING };
            let offered = rest.get(..rest.len().min(room.saturating_add(framing))).unwrap_or(rest);
            match self.reading.reader.on_bytes(offered, self.asked, &limits) {
                ResponseEvent::Body { bytes, consumed } => {
                    at += consumed;
                    room = room.saturating_sub(bytes.len());
                    take(bytes);
                }
                ResponseEvent::EndOfBody { consumed, trailers } => {
                    at += consumed;
                    break BodyEnd::Whole(if self.rules.passes_trailers { trailers.to_vec() } else { Vec::new() });
                }
                ResponseEvent::NeedMore if self.reading.ended && is_all => break self.at_end(bytes.len() - at),
                ResponseEvent::NeedMore => break BodyEnd::Not,
                ResponseEvent::Failed { error } => break BodyEnd::Cut(self.body_fault(error, rest)),
                ResponseEvent::Interim { .. } | ResponseEvent::LineFeeds { .. } | ResponseEvent::Response { .. } => {
                    break BodyEnd::Cut("upstream sent more than was asked for".to_owned());
                }
            }
        };
        if let Some(last) = self.tries.last_mut() {
            last.received += at as u64;
            // As nginx counts it, with what is between chunks.
            last.length += at as u64;
        }
        (at, end)
    }

    fn read_program_body(
        &mut self,
        (bytes, is_all): (&[u8], bool),
        room: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, BodyEnd) {
        let Protocol::Program(program) = &mut self.reading.protocol else { return (0, BodyEnd::Not) };
        let mut came = if program.has_early() { program.read_early(take) } else { ProgramBody::Not };
        let piece = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let mut at = 0;
        if matches!(came, ProgramBody::Not) && !piece.is_empty() {
            at = piece.len();
            came = program.read_body(piece, take);
        }
        let has_room = piece.len() == bytes.len();
        if matches!(came, ProgramBody::Not) && self.reading.ended && is_all && has_room {
            came = program.end(take);
        }
        self.reading.held = !has_room && matches!(came, ProgramBody::Not);
        // Of a body nothing that is said of errors makes it none.
        let _ = self.count_program();
        let end = match came {
            ProgramBody::Not => BodyEnd::Not,
            ProgramBody::Whole => BodyEnd::Whole(Vec::new()),
            ProgramBody::Fault(why) => BodyEnd::Cut(why.to_string()),
        };
        (at, end)
    }

    fn at_end(&mut self, held: usize) -> BodyEnd {
        match self.reading.reader.on_end(held) {
            Ok(Some(_)) => BodyEnd::Whole(Vec::new()),
            Ok(None) | Err(_) => BodyEnd::Cut("upstream prematurely closed connection".to_owned()),
        }
    }

    /// Bytes came behind all of the body: nothing else is read of the connection.
    fn on_body_surplus(&mut self, bytes: usize) {
        if bytes == 0 || self.reading.program().is_some() {
            return;
        }
        self.on_surplus(bytes);
        if let Some(last) = self.tries.last_mut() {
            last.received += bytes as u64;
            last.length += bytes as u64;
        }
    }

    /// Something happened at its connection while its body comes, but that bytes came or
    /// passed, or that there is room. `is_waited_for` says whether the client is to whom the
    /// body passes by itself.
    pub fn on_body_event(&mut self, turn: &mut AskTurn<'_>, event: UpstreamEvent<'_>, is_waited_for: bool) -> BodyStep {
        match event {
            UpstreamEvent::End { held } => {
                self.reading.ended = true;
                if held == 0 {
                    return BodyStep::Ends;
                }
                // What waits comes first.
                if let Some(link) = self.link.filter(|_| !self.reading.held) {
                    turn.resume(link);
                }
                BodyStep::Waits
            }
            UpstreamEvent::Timer if self.reading.passes && is_waited_for => {
                // It has its time anew.
                if let Some(link) = self.link {
                    turn.set_timer(link, Some(turn.now + self.rules.read));
                }
                BodyStep::Waits
            }
            UpstreamEvent::Timer if self.is_its_time(turn) => BodyStep::Waits,
            UpstreamEvent::Timer => BodyStep::Cut("upstream timed out (110: Connection timed out)".to_owned()),
            UpstreamEvent::Closed(why) => BodyStep::Cut(link_fault(why, false)),
            UpstreamEvent::Data(_)
            | UpstreamEvent::Passed(_)
            | UpstreamEvent::Room
            | UpstreamEvent::Opened
            | UpstreamEvent::Shaken(_) => BodyStep::Waits,
        }
    }

    /// What came as all of the body is not what was asked for.
    pub const fn refuse_body(&mut self) {
        self.reading.complete = false;
    }

    /// There is room for this much more of the body: what waits at the data path is asked
    /// for again, where it is enough; `little` of it, where who asked takes nothing now.
    pub fn read_more(&mut self, turn: &mut AskTurn<'_>, room: usize, little: bool) {
        if self.stage == AskStage::Body && self.reading.held && room >= self.ahead_max().div_ceil(2) {
            self.reading.held = false;
            if let Some(link) = self.link {
                turn.set_timer(link, Some(turn.now + self.rules.read));
                turn.resume(link);
            }
            match self.link {
                _ if little => self.receive_little(turn),
                Some(AskLink::Shared(id)) => turn.kept.shared.widen(id),
                _ => {}
            }
        }
    }

    /// What of the body came with its head, and was not taken, is offered again.
    pub fn resume(&self, turn: &mut AskTurn<'_>) {
        if let Some(link) = self.link.filter(|_| self.stage == AskStage::Body) {
            turn.resume(link);
            if self.reading.little == Some(link) {
                turn.receive(link, LITTLE);
            }
        }
    }

    /// A long rest of the body that nothing looks at goes to a client by itself from here on,
    /// if the data path can, and `passes` says of so many bytes that they may.
    pub fn pass_to(&mut self, turn: &mut AskTurn<'_>, client: ExchangeId, passes: impl FnOnce(u64) -> bool) {
        let (Some(AskLink::Own(link)), Protocol::Http) = (self.link, &self.reading.protocol) else { return };
        let Some(left) = self.reading.reader.left() else { return };
        // What is read at a rate is read here.
        let is_plain = self.reading.rate == 0 && !self.reading.held && !self.reading.ended;
        let is_next = is_plain && left > SEEN_LAST && passes(left);
        self.reading.passes = is_next && turn.io.pass_on(link, client, left - SEEN_LAST);
    }

    /// Bytes of the body went so.
    pub fn on_passed(&mut self, turn: &mut AskTurn<'_>, bytes: u64) {
        if let Some(last) = self.tries.last_mut() {
            last.received += bytes;
            last.length += bytes;
        }
        self.reading.reader.skip(bytes);
        if let Some(link) = self.link {
            turn.set_timer(link, Some(turn.now + self.rules.read));
        }
    }

    /// Bytes of the body that came, without what frames them.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        match &self.reading.protocol {
            Protocol::Http => self.reading.reader.body_len(),
            Protocol::Http2(answer) => answer.body,
            Protocol::Program(program) => program.body,
        }
    }

    /// Trailers that go on are no longer than a head may be.
    fn body_limits(&self) -> ResponseLimits {
        let usual = ResponseLimits::default();
        match self.rules.passes_trailers {
            true => ResponseLimits {
                trailers: u16::try_from(self.rules.head_max).unwrap_or(u16::MAX),
                skips_bad_trailers: false,
                ..usual
            },
            false => usual,
        }
    }

    /// What is wrong with a body; `rest` is what could not be read of it.
    fn body_fault(&self, error: Error, rest: &[u8]) -> String {
        match (error, misnamed(from_last_chunk(rest)).filter(|_| self.rules.passes_trailers)) {
            (Error::TooLarge, _) if self.rules.passes_trailers => "upstream sent too big trailers".to_owned(),
            (_, Some((name, byte))) => {
                format!("upstream sent invalid trailer: \"{}\\x{byte:02x}...\"", String::from_utf8_lossy(name))
            }
            _ => "upstream sent invalid chunked response".to_owned(),
        }
    }
}

/// What there is of a body from its last chunk's size on: trailers follow that line.
fn from_last_chunk(rest: &[u8]) -> &[u8] {
    let mut at = 0;
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        let size = line.split(|byte| *byte == b';').next().unwrap_or(line).trim_ascii_end();
        if !size.is_empty() && size.iter().all(|byte| *byte == b'0') {
            return rest.get(at..).unwrap_or_default();
        }
        at += line.len();
    }
    b""
}
