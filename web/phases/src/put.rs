//! Answers are queued: at once, as files are read, or as they are made.

use super::filtered_body::{AnswerLength, Made, Making};
use super::limit_rate;
use super::limit_rate::RatedBody;
use super::lookup::FileAt;
use super::request_state::{Depends, RequestStage};
use super::runner::{Flow, Runner};
use app::Body;
use core::ops::Range;
use exchange::{Composed, FieldLines, Part, Piece, Reply, ReplyEnd, Stop};
use files::{Excerpt, Rate, RateKept, Streamed};
use semantics::Status;
use std::rc::Rc;

/// How an answer's body is sent.
pub(super) enum Pieces {
    /// Nothing is.
    None,
    /// Bytes that are at hand.
    Bytes(Vec<u8>),
    /// All of a body.
    Memory(Body),
    /// Parts of a file, and what stands between them.
    File(FileAt, Vec<Part>),
    /// Parts of what is sent in place of a file.
    Excerpt(FileAt, Box<Excerpt>, Vec<Part>),
    /// It comes from an upstream.
    Upstream,
    /// The same by slices: the first, if all of it came.
    Slices(Option<Vec<u8>>),
}

impl Pieces {
    /// Parts of these, of which the content is counted from the start of the body.
    pub fn cut(self, parts: Vec<Part>) -> Self {
        let whole: &[u8] = match &self {
            Self::File(..) | Self::Excerpt(..) => &[],
            Self::Bytes(text) => text,
            Self::Memory(body) => body.as_slice(),
            Self::None | Self::Upstream | Self::Slices(_) => return self,
        };
        match self {
            Self::File(file, _) => return Self::File(file, parts),
            Self::Excerpt(file, excerpt, _) => return Self::Excerpt(file, excerpt, parts),
            _ => {}
        }
        let mut out = Vec::new();
        for part in &parts {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Content(range) => {
                    out.extend_from_slice(whole.get(range.start as usize..range.end as usize).unwrap_or_default());
                }
            }
        }
        Self::Bytes(out)
    }
}

/// Parts of a file that is not in memory, or of what is sent in its place.
type OnDisk = (FileAt, Vec<Part>, Option<Excerpt>);

/// A status, bytes of the body where these are told, and fields.
type Head = (u16, Option<u64>, Vec<u8>);

impl Runner<'_> {
    /// How fast this answer of so many bytes may be sent, if that is limited.
    fn rate(&mut self, length: u64) -> Option<Rate> {
        if self.is_sub() {
            // It is part of what is sent at the rate of another.
            return None;
        }
        let loaded = Rc::clone(&self.loaded);
        let block = loaded.program.block(self.state.route.block)?;
        limit_rate::rate_of(block, self.state.reply.limit_rate, &mut self.scope(), length)
    }

    /// Begins to send a body in memory at a rate.
    fn begin_rated(&mut self, reply: &Reply<'_>, content: (Body, u32), parts: Vec<Part>, rate: Rate) -> Flow {
        let rate = RateKept::begin(rate, self.replies, self.state.id);
        self.state.sent.head = self.replies.begin(self.state.id, self.request, reply, ReplyEnd::Length);
        self.state.reply.rated = Some(RatedBody::new(rate, content, parts));
        self.state.wait.stage = RequestStage::Sends;
        Flow::Done
    }

    /// Queues an answer as it is.
    pub(super) fn put(&mut self, (status, length, fields): Head, pieces: Pieces) -> Flow {
        // Of an interim status its client would wait for another.
        let Some(told) = Status::from_code(status).filter(|_| status >= 200) else { return Flow::HangUp };
        self.state.sent.length = length;
        let bytes = if matches!(pieces, Pieces::None) { 0 } else { length.unwrap_or(0) };
        let pace = if bytes > 0 { self.rate(bytes) } else { None };
        let reason = self.state.sent.reason_of(status);
        let reason = reason.as_deref();
        let pieces = match pieces {
            Pieces::Bytes(text) if pace.is_none() && !(status == 200 && self.is_shared()) => {
                let reply = Reply { status: told, length, fields: &fields, reason };
                self.state.sent.head = self.replies.reply(self.state.id, self.request, &reply, &[Piece::Bytes(&text)]);
                self.rest.spare.give_bytes(text);
                self.is_put(fields, bytes);
                return Flow::Done;
            }
            pieces => pieces,
        };
        let file = if let Pieces::File(file, _) = &pieces { Some(file.id) } else { None };
        let (source, mut parts) = match pieces {
            Pieces::None | Pieces::Upstream | Pieces::Slices(_) => (None, Vec::new()),
            Pieces::Memory(body) => (Some((body, 0)), vec![Part::Content(0..bytes)]),
            Pieces::Bytes(text) if pace.is_some() => (Some((Body::new(text), 0)), vec![Part::Content(0..bytes)]),
            Pieces::Bytes(text) => (None, vec![Part::Bytes(text)]),
            Pieces::File(file, parts) => match self.files.in_memory(file.id) {
                Some(memory) => (Some((memory.body.clone(), memory.start)), parts),
                None => {
                    self.state.sent.fields = fields;
                    return self.stream((file, parts, None), (told, length), pace);
                }
            },
            Pieces::Excerpt(file, excerpt, parts) => match self.files.in_memory(file.id) {
                Some(memory) => (Some((memory.body.clone(), memory.start)), excerpt.parts(parts)),
                None => {
                    self.state.sent.fields = fields;
                    return self.stream((file, parts, Some(*excerpt)), (told, length), pace);
                }
            },
        };
        let reply = Reply { status: told, length, fields: &fields, reason };
        if let (Some(pace), Some(source)) = (pace, &source) {
            let flow = self.begin_rated(&reply, source.clone(), parts, pace);
            self.state.sent.fields = fields;
            return flow;
        }
        let pieces: Vec<Piece<'_>> = parts.iter().filter_map(|part| piece(part, source.as_ref())).collect();
        self.state.sent.head = self.replies.reply(self.state.id, self.request, &reply, &pieces);
        self.is_put(fields, bytes);
        if status == 200 && self.is_shared() {
            match (source, parts.as_mut_slice()) {
                (Some(source), [Part::Content(_)]) => match file {
                    Some(file) => self.remember_file(file, source, bytes),
                    None => self.remember(source, bytes),
                },
                (None, [Part::Bytes(text)]) => {
                    if !self.state.sent.is_text {
                        // A list of files, say, or what was put into a page.
                        self.state.reuse.depends.on(Depends::SECOND);
                    }
                    self.remember((Body::new(core::mem::take(text)), 0), bytes);
                }
                _ => {}
            }
        }
        Flow::Done
    }

    /// All of an answer is queued, with so many bytes of a body.
    fn is_put(&mut self, fields: Vec<u8>, bytes: u64) {
        self.state.sent.fields = fields;
        self.state.sent.body = bytes;
        self.state.sent.complete = true;
        self.state.wait.stage = RequestStage::Over;
    }

    /// Queues an answer whose content passes filters, or has fields behind it.
    pub(super) fn put_made(&mut self, (status, length, mut fields): Head, pieces: Pieces, making: Making) -> Flow {
        let Some(told) = Status::from_code(status) else { return Flow::HangUp };
        // By HTTP/1.1 only chunks have fields behind them.
        let trails = self.expects_trailers() && !self.state.about.http2;
        let chunked = self.chunks();
        let is_open = making.is_open || trails && chunked && !self.state.about.http10;
        let answer_length = match length {
            Some(length) if !is_open => AnswerLength::Known(length),
            _ => AnswerLength::Open { chunked },
        };
        self.state.sent.length = length.filter(|_| !is_open);
        let pace = self.rate(if making.is_open { u64::MAX } else { length.unwrap_or(u64::MAX) });
        let comes = matches!(pieces, Pieces::Upstream | Pieces::Slices(None));
        let (content, file) = match self.content_of(pieces) {
            Ok(content) => (content, None),
            Err(on_disk) => (Vec::new(), Some(on_disk)),
        };
        let (filtering, first) = match self.make(making, (answer_length, pace), content, (file.is_some(), comes)) {
            Made::Whole(out) => {
                let length = out.len() as u64;
                if let Some((_, packed)) = &mut self.state.features.compression.lengths {
                    *packed = length;
                }
                return self.put((status, Some(length), fields), Pieces::Bytes(out));
            }
            Made::Broken => {
                self.state.wait.stage = RequestStage::Over;
                self.replies.stop(self.state.id, Stop::Reset);
                return Flow::Done;
            }
            Made::Begun(filtering, first) => (filtering, first),
        };
        if is_open && (!chunked || self.state.about.http10) {
            // Its end is that of the connection.
            self.set_last();
            take_line(&mut fields, b"Keep-Alive: ");
        }
        if let Some(on_disk) = file {
            self.state.sent.fields = fields;
            self.state.reply.filtering = Some(Box::new(filtering));
            return self.stream(on_disk, (told, length), None);
        }
        let reason = self.state.sent.reason_of(status);
        let length = self.state.sent.length;
        let reply = Reply { status: told, length, fields: &fields, reason: reason.as_deref() };
        let flow = self.begin_made(filtering, first.as_ref(), &reply);
        self.state.sent.fields = fields;
        flow
    }

    /// Whether answers without a length may be chunked here.
    fn chunks(&self) -> bool {
        self.loaded.program.block(self.state.route.block).is_some_and(|block| block.fields.chunked)
    }

    /// The bytes of an answer; or the file that has them, if it is not in memory.
    fn content_of(&mut self, pieces: Pieces) -> Result<Vec<(Body, Range<u32>)>, OnDisk> {
        Ok(match pieces {
            Pieces::None | Pieces::Upstream | Pieces::Slices(None) => Vec::new(),
            Pieces::Bytes(text) | Pieces::Slices(Some(text)) => vec![whole(Body::new(text))],
            Pieces::Memory(body) => vec![whole(body)],
            Pieces::File(file, parts) => match self.files.in_memory(file.id) {
                None => return Err((file, parts, None)),
                Some(memory) => bodies(parts, (memory.body, memory.start)),
            },
            Pieces::Excerpt(file, excerpt, parts) => match self.files.in_memory(file.id) {
                None => return Err((file, parts, Some(*excerpt))),
                Some(memory) => bodies(excerpt.parts(parts), (memory.body, memory.start)),
            },
        })
    }

    /// A file that is not in memory is streamed.
    fn stream(
        &mut self,
        (file, parts, excerpt): OnDisk,
        (status, length): (Status, Option<u64>),
        rate: Option<Rate>,
    ) -> Flow {
        let fields = FieldLines::of(self.state.sent.fields.clone());
        let composed = Composed { status, length, fields, parts: parts.into() };
        let is_read = self.state.reply.filtering.is_some();
        self.rest.stream = Some((file.id, Streamed { composed, excerpt, rate, is_read }));
        self.state.wait.stage = RequestStage::Sends;
        Flow::Done
    }
}

/// All of a body.
fn whole(body: Body) -> (Body, Range<u32>) {
    let length = body.len();
    (body, 0..length)
}

/// Parts of content in memory, which begins there in a body, as bodies.
fn bodies(parts: Vec<Part>, (body, start): (&Body, u32)) -> Vec<(Body, Range<u32>)> {
    let content = |part: Part| match part {
        Part::Bytes(bytes) => whole(Body::new(bytes)),
        // Content in memory is below 4 GiB.
        Part::Content(range) => (body.clone(), start + range.start as u32..start + range.end as u32),
    };
    parts.into_iter().map(content).collect()
}

fn piece<'a>(part: &'a Part, source: Option<&'a (Body, u32)>) -> Option<Piece<'a>> {
    match (part, source) {
        (Part::Bytes(bytes), _) => Some(Piece::Bytes(bytes)),
        // Content in memory is below 4 GiB.
        (Part::Content(range), Some((body, start))) => {
            Some(Piece::Body(body, (start + range.start as u32, start + range.end as u32)))
        }
        (Part::Content(_), None) => None,
    }
}

/// Takes the lines that begin so out of `fields`.
pub(super) fn take_line(fields: &mut Vec<u8>, start: &[u8]) {
    take_lines(fields, start, usize::MAX);
}

/// The same of the first so many of them.
#[inline]
pub(super) fn take_lines(fields: &mut Vec<u8>, start: &[u8], most: usize) {
    if most > 0 {
        take_some(fields, start, most);
    }
}

fn take_some(fields: &mut Vec<u8>, start: &[u8], mut most: usize) {
    let lines = fields.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        let is_taken = most > 0 && begins(line, start);
        most -= usize::from(is_taken);
        !is_taken
    });
    *fields = lines.collect::<Vec<_>>().concat();
}

/// How many lines of `fields` begin so.
pub(super) fn count_lines(fields: &[u8], start: &[u8]) -> usize {
    fields.split_inclusive(|byte| *byte == b'\n').filter(|line| begins(line, start)).count()
}

fn begins(line: &[u8], start: &[u8]) -> bool {
    line.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}
