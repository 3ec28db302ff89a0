//! What is sent next: heads and ends at once, bodies by the priorities of their streams, as much as
//! the connection and the client's windows take.

use crate::protocol::{Http2, Source};
use crate::scratch::{Scratch, Turn};
use app::Body;
use connections::{Io, Standing, Unsent};
use exchange::ExchangeId;
use h2::{BlockWriter, ErrorCode, ServerConnection, StreamPriority};
use semantics::Status;

impl Http2 {
    /// Sends what there is, as far as there is room.
    pub(crate) fn send(&mut self, io: &mut dyn Io, scratch: &mut Scratch) {
        let Some(connection) = self.connection.as_deref_mut() else { return };
        scratch.ready.clear();
        let mut standings = Standings::of(connection);
        let mut at = 0;
        // There may be many, of which most have nothing to send: each is looked at where it stands.
        while let Some(stream) = connection.streams().get(at) {
            let (number, priority, exchange) = (stream.number, stream.priority, stream.data.exchange());
            let mut unsent = None;
            if let Some(id) = exchange {
                let (window, is_open) = connection.window_at(at);
                let (freed, waits) = io.look(id, window, Standing { is_open, ..standings.next(priority) });
                if freed > 0 {
                    // Its client may send more of a body.
                    connection.give_back(number, freed, &mut scratch.out);
                }
                if waits.reads {
                    connection.open_window(number, &mut scratch.out);
                }
                unsent = Some(waits);
                if waits.head || waits.stop.is_some() {
                    send_head(connection, io, (number, id), scratch);
                    // A stream that is over is none any more.
                    if connection.streams().get(at).is_none_or(|one| one.number != number) {
                        continue;
                    }
                    unsent = Some(io.unsent(id));
                }
            }
            if let Some(turn) = turn(connection, at, unsent) {
                scratch.ready.push(turn);
            }
            at += 1;
        }
        scratch.ready.sort_unstable_by(|one, other| other.cmp(one));
        self.send_bodies(io, scratch);
        flush(io, &mut scratch.out);
    }

    /// Sends a whole answer that was ready, if it is short and no other stream is there whose turn it could be;
    /// whether it was. Of those that are less urgent than by default others of the same burst may be the more urgent.
    pub(crate) fn send_at_once(
        &mut self,
        io: &dyn Io,
        (number, block): (u32, &[u8]),
        (content, (start, end)): (&Body, (u32, u32)),
        out: &mut Vec<u8>,
    ) -> bool {
        let chunk = self.terms.http2.chunk as usize;
        let Some(connection) = self.connection.as_deref_mut() else { return false };
        let Some(bytes) = content.as_slice().get(start as usize..end as usize) else { return false };
        let most = COPIED.min(chunk).min(connection.payload()).min(connection.room(number));
        let only = connection.streams().front().filter(|_| connection.streams().len() == 1);
        let is_its_turn = only.is_some_and(|stream| stream.priority.urgency <= StreamPriority::default().urgency);
        let fits = bytes.len() <= most.min(io.room().saturating_sub(out.len() + block.len()));
        if bytes.is_empty() || !is_its_turn || !fits {
            return false;
        }
        connection.send_block(number, block, false, out);
        out.extend_from_slice(&connection.data(number, bytes.len(), true));
        out.extend_from_slice(bytes);
        connection.end(number, out);
        true
    }

    /// The one whose turn is next is the last of those that are ready.
    fn send_bodies(&mut self, io: &mut dyn Io, scratch: &mut Scratch) {
        while io.room() > scratch.out.len()
            && let Some(turn) = scratch.ready.pop()
        {
            let Some(connection) = self.connection.as_deref_mut() else { return };
            self.served = self.served.wrapping_add(1).max(1);
            let chunk = self.terms.http2.chunk as usize;
            send_chunk(connection, io, (turn.stream, chunk), &mut scratch.out);
            let Some(stream) = connection.get_mut(turn.stream) else { continue };
            stream.served = self.served;
            let at = connection.streams().partition_point(|one| one.number < turn.stream);
            let unsent = connection.streams().get(at).and_then(|one| one.data.exchange()).map(|id| io.unsent(id));
            if let Some(turn) = self::turn(connection, at, unsent) {
                let place = scratch.ready.partition_point(|other| *other > turn);
                scratch.ready.insert(place, turn);
            }
        }
    }
}

/// How streams stand among each other: the more urgent before others, those that are useful in parts
/// beside each other (RFC 9218 section 10).
struct Standings {
    /// Exchanges of each urgency, and those of them that take turns.
    all: [(u16, u16); 8],
    /// Those of them that do not, and were asked for so far.
    seen: [u16; 8],
}

impl Standings {
    fn of(connection: &ServerConnection<Source>) -> Self {
        let mut all = [(0, 0); 8];
        for stream in connection.streams().iter().filter(|stream| stream.data.exchange().is_some()) {
            if let Some((count, turns)) = all.get_mut(usize::from(stream.priority.urgency)) {
                *count += 1;
                *turns += u16::from(stream.priority.incremental);
            }
        }
        Self { all, seen: [0; 8] }
    }

    /// That of the next, in the order of their numbers.
    fn next(&mut self, priority: StreamPriority) -> Standing {
        let urgency = usize::from(priority.urgency).min(7);
        let (more_urgent, _) = self.all.split_at(urgency);
        let before: u16 = more_urgent.iter().map(|(count, _)| count).sum();
        let (count, turns) = self.all[urgency];
        if priority.incremental {
            // Behind those that are sent as a whole.
            let (before, beside) = ((before + count - turns).into(), turns.max(1).into());
            return Standing { before, beside, ..Standing::ALONE };
        }
        let seen = self.seen[urgency];
        self.seen[urgency] += 1;
        Standing { before: (before + seen).into(), ..Standing::ALONE }
    }
}

/// When the body of the stream at this place is to be sent, if some of it may be: of an exchange's it is known what
/// waits.
fn turn(connection: &ServerConnection<Source>, at: usize, unsent: Option<Unsent>) -> Option<Turn> {
    let stream = connection.streams().get(at)?;
    let (body, ends) = match &stream.data {
        Source::None | Source::Parked(_) => return None,
        Source::Exchange(_) | Source::Refused(..) => unsent.map(|unsent| (unsent.body, unsent.ends && !unsent.head))?,
        Source::Prepared { left: (start, end), .. } => ((end - start) as usize, true),
    };
    let may_send = if body > 0 { connection.window_at(at).0 > 0 } else { ends };
    let served = if stream.priority.incremental { stream.served } else { 0 };
    may_send.then_some(Turn { urgency: stream.priority.urgency, served, stream: stream.number })
}

/// Sends the heads of an answer, its reset, and its end if there is no body.
fn send_head(
    connection: &mut ServerConnection<Source>,
    io: &mut dyn Io,
    (number, id): (u32, ExchangeId),
    scratch: &mut Scratch,
) {
    let out = &mut scratch.out;
    while io.unsent(id).head
        && let Some(head) = io.take_head(id)
    {
        let unsent = io.unsent(id);
        let ends = !unsent.head && unsent.body == 0 && unsent.ends && !unsent.trails && unsent.stop.is_none();
        if head.status == Status::CONTENT_TOO_LARGE
            && let Some(stream) = connection.get_mut(number)
        {
            // Nothing more of the body is wanted, which is said behind the answer.
            stream.data = Source::Refused(id, ErrorCode::NO_ERROR);
        }
        if let Some(value) = &head.priority
            && let Some(stream) = connection.get_mut(number)
        {
            // RFC 9218 section 8: who answers knows better.
            stream.priority = stream.priority.changed_by(value);
        }
        if ends {
            return end(connection, io, (number, id), (out, Some(&head.written)));
        }
        connection.send_block(number, &head.written, false, out);
    }
    let unsent = io.unsent(id);
    if unsent.stop.is_some() {
        let _ = io.end(id);
        let code = match connection.get(number).map(|stream| &stream.data) {
            Some(Source::Refused(_, code)) if *code != ErrorCode::NO_ERROR => *code,
            // As nginx says it.
            _ if unsent.late => ErrorCode::PROTOCOL_ERROR,
            _ => ErrorCode::INTERNAL_ERROR,
        };
        connection.reset(number, code, out);
    }
}

/// Sends some of a body, or what follows it.
fn send_chunk(
    connection: &mut ServerConnection<Source>,
    io: &mut dyn Io,
    (number, chunk): (u32, usize),
    out: &mut Vec<u8>,
) {
    let room = io.room().saturating_sub(out.len());
    let most = connection.room(number).min(chunk).min(connection.payload()).min(room);
    let Some(stream) = connection.get_mut(number) else { return };
    match &mut stream.data {
        Source::None | Source::Parked(_) => {}
        Source::Prepared { content, left: (start, last) } => {
            let some = most.min((*last - *start) as usize);
            let (content, range) = (content.clone(), (*start, *start + some as u32));
            *start = range.1;
            let ends = *start == *last;
            out.extend_from_slice(&connection.data(number, some, ends));
            match content.as_slice().get(range.0 as usize..range.1 as usize) {
                // What is short goes along with what is around it.
                Some(bytes) if some <= COPIED => out.extend_from_slice(bytes),
                _ => {
                    flush(io, out);
                    io.send_body(&content, range);
                }
            }
            if ends {
                connection.end(number, out);
            }
        }
        Source::Exchange(id) | Source::Refused(id, _) => {
            let (id, unsent) = (*id, io.unsent(*id));
            let some = most.min(unsent.body);
            let is_all = some == unsent.body && unsent.ends && unsent.stop.is_none();
            if some > 0 {
                let ends = is_all && !unsent.trails;
                out.extend_from_slice(&connection.data(number, some, ends));
                flush(io, out);
                let _ = io.pass(id, some);
                if ends {
                    let _ = io.end(id);
                    over(connection, number, out);
                }
            } else if is_all {
                end(connection, io, (number, id), (out, None));
            }
        }
    }
}

/// Bytes of a body that are copied beside the frames around them.
const COPIED: usize = 2 << 10;

fn flush(io: &mut dyn Io, out: &mut Vec<u8>) {
    if !out.is_empty() {
        io.send(out);
        out.clear();
    }
}

/// Sends the end of an answer: with its head, if there is nothing else, or with what follows its body.
fn end(
    connection: &mut ServerConnection<Source>,
    io: &mut dyn Io,
    (number, id): (u32, ExchangeId),
    (out, head): (&mut Vec<u8>, Option<&[u8]>),
) {
    let trailers = io.end(id);
    match head {
        Some(block) => connection.write_block(number, block, true, out),
        None if trailers.is_empty() => out.extend_from_slice(&connection.data(number, 0, true)),
        None => {
            let mut block = Vec::new();
            BlockWriter::trailers(&mut block).lines(&trailers);
            connection.write_block(number, &block, true, out);
        }
    }
    over(connection, number, out);
}

/// Its end was sent.
fn over(connection: &mut ServerConnection<Source>, number: u32, out: &mut Vec<u8>) {
    match connection.get(number).map(|stream| &stream.data) {
        // RFC 9113 section 8.1.
        Some(Source::Refused(_, ErrorCode::NO_ERROR)) => connection.end_soon(number),
        Some(Source::Refused(_, code)) => {
            let code = *code;
            connection.reset(number, code, out);
        }
        _ => connection.end(number, out),
    }
}
