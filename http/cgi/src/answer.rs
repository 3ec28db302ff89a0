//! A program's answer: its head, its body and its end, however it is carried.
//!
//! The end is told apart from one that came too early: by the length that is told, by
//! records, or by the connection's end where nothing else tells of it.

use crate::fastcgi::{RecordError, RecordEvent, RecordReader};
use crate::head::{Head, HeadError, HeadReader, HeadRules};
use core::fmt;

/// How a program's answer is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CgiProtocol {
    /// In records, whose end is told.
    FastCgi,
    /// As it is, up to the end of the connection: uwsgi and SCGI.
    Plain,
}

/// What is taken of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnswerRules {
    /// How it is carried.
    pub protocol: CgiProtocol,
    /// What is taken of its head.
    pub head: HeadRules,
    /// The request was one that is answered without a body (HEAD).
    pub bodyless: bool,
    /// The answer is whole when the request is said to have ended, or the connection has,
    /// so that the connection can be kept: the last byte of a body that has a length is
    /// told then.
    pub waits_for_end: bool,
}

/// How the end of an answer's body is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerBody {
    /// There is none, whatever is sent: to HEAD, and with some statuses.
    None,
    /// So many bytes.
    Length(u64),
    /// It ends where the program says so.
    Open,
}

/// What takes an answer, in order: a head, its body in pieces, its end.
pub trait AnswerSink {
    /// The head is whole.
    fn head(&mut self, head: Head, body: AnswerBody);

    /// Some of the body; never empty.
    fn body(&mut self, bytes: &[u8]);

    /// All of it was told.
    fn end(&mut self);
}

/// The most that is kept of what a program says of errors in one record.
pub const STDERR_MAX: usize = 2_048;

/// What a program says of errors, in one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StderrLine {
    /// Its first [`STDERR_MAX`] bytes.
    pub text: Vec<u8>,
    /// It was said before the answer's head was whole.
    pub in_head: bool,
}

/// What says that an answer has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerEnd {
    /// The connection's end.
    Connection,
    /// That of the records with the answer.
    Stdout,
    /// That of the request.
    Request,
}

/// Why an answer is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerError {
    /// Its records are none.
    Record(RecordError),
    /// Its head is none.
    Head(HeadError),
    /// It ended within its head.
    EndInHead(AnswerEnd),
    /// It ended before the length that it told.
    EndInBody(AnswerEnd),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(why) => why.fmt(f),
            Self::Head(why) => why.fmt(f),
            Self::EndInHead(AnswerEnd::Request) => f.write_str("upstream sent unexpected FastCGI record: 3"),
            Self::EndInHead(end) | Self::EndInBody(end) => f.write_str(match end {
                AnswerEnd::Connection => "upstream prematurely closed connection",
                AnswerEnd::Stdout => "upstream prematurely closed FastCGI stdout",
                AnswerEnd::Request => "upstream prematurely closed FastCGI request",
            }),
        }
    }
}

impl core::error::Error for AnswerError {}

impl From<RecordError> for AnswerError {
    fn from(why: RecordError) -> Self {
        Self::Record(why)
    }
}

impl From<HeadError> for AnswerError {
    fn from(why: HeadError) -> Self {
        Self::Head(why)
    }
}

/// Where the answer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AnswerStage {
    Head,
    /// So many bytes are to come.
    Counted(u64),
    Open,
    /// What comes is not passed on.
    Bodyless,
    /// All was passed on.
    Over,
}

/// Reads a program's answer, in any pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerReader {
    records: Option<RecordReader>,
    fields: HeadReader,
    bodyless: bool,
    waits_for_end: bool,
    /// Nothing more of the answer comes; its last byte, where it has a length and waits.
    stdout_over: bool,
    last: Option<u8>,
    stage: AnswerStage,
    /// Bytes that were read, and how many of them there were at the end of the head.
    read: u64,
    head: Option<u64>,
    /// Something came that does not belong to it.
    surplus: bool,
    /// What was said of errors: records that are whole, and the one that is not.
    errors: Vec<StderrLine>,
    error: Vec<u8>,
}

impl AnswerReader {
    /// One at the start of an answer.
    #[must_use]
    pub fn new(rules: AnswerRules) -> Self {
        let records = (rules.protocol == CgiProtocol::FastCgi).then(RecordReader::new);
        Self {
            records,
            fields: HeadReader::new(rules.head),
            bodyless: rules.bodyless,
            waits_for_end: rules.waits_for_end && rules.protocol == CgiProtocol::FastCgi,
            stdout_over: false,
            last: None,
            stage: AnswerStage::Head,
            read: 0,
            head: None,
            surplus: false,
            errors: Vec::new(),
            error: Vec::new(),
        }
    }

    /// Reads all of `data`, and tells `out` what it comes to: no more bytes of a body than
    /// it has.
    ///
    /// # Errors
    /// It is no answer.
    pub fn read(&mut self, data: &[u8], out: &mut impl AnswerSink) -> Result<(), AnswerError> {
        let Some(mut records) = self.records.take() else {
            self.read += data.len() as u64;
            return self.stdout(data, out);
        };
        let read = self.records(&mut records, data, out);
        self.records = Some(records);
        read
    }

    fn records(
        &mut self,
        records: &mut RecordReader,
        data: &[u8],
        out: &mut impl AnswerSink,
    ) -> Result<(), AnswerError> {
        let mut rest = data;
        loop {
            let (read, event) = records.read(rest)?;
            rest = &rest[read..];
            self.read += read as u64;
            match event {
                RecordEvent::Nothing => return Ok(()),
                RecordEvent::Stdout(bytes) => self.stdout(bytes, out)?,
                RecordEvent::StdoutEnd if self.waits_for_end && self.is_all() => self.stdout_over = true,
                RecordEvent::StdoutEnd => self.finish(AnswerEnd::Stdout, out)?,
                RecordEvent::End { .. } => self.finish(AnswerEnd::Request, out)?,
                RecordEvent::Stderr(bytes) => self.stderr(bytes, records.record_is_whole()),
            }
        }
    }

    /// A piece of what is said of errors; with `is_last` the record is whole.
    fn stderr(&mut self, bytes: &[u8], is_last: bool) {
        let room = STDERR_MAX.saturating_sub(self.error.len());
        self.error.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if is_last {
            let in_head = self.stage == AnswerStage::Head;
            self.errors.push(StderrLine { text: core::mem::take(&mut self.error), in_head });
        }
    }

    /// The connection ended.
    ///
    /// # Errors
    /// The answer has not.
    pub fn end(&mut self, out: &mut impl AnswerSink) -> Result<(), AnswerError> {
        match (self.stage, &self.records) {
            // Their end is told.
            (AnswerStage::Open | AnswerStage::Bodyless, Some(_)) if !self.stdout_over => {
                Err(AnswerError::EndInBody(AnswerEnd::Connection))
            }
            _ => self.finish(AnswerEnd::Connection, out),
        }
    }

    /// Whether no byte is missing, should the program have nothing more to say.
    const fn is_all(&self) -> bool {
        !matches!(self.stage, AnswerStage::Head | AnswerStage::Counted(1..))
    }

    /// Whether the answer is whole: nothing more is told.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.stage == AnswerStage::Over
    }

    /// Whether the connection is free for the next request.
    #[must_use]
    pub fn may_be_kept(&self) -> bool {
        !self.surplus && self.is_whole() && self.records.as_ref().is_some_and(RecordReader::is_over)
    }

    /// What the program said of errors since this was asked last.
    pub fn take_errors(&mut self) -> Vec<StderrLine> {
        core::mem::take(&mut self.errors)
    }

    /// Whether more came than the answer's length.
    #[must_use]
    pub const fn has_surplus(&self) -> bool {
        self.surplus
    }

    /// Bytes that were read, records' heads among them.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read
    }

    /// How many of these came behind the head, once it is whole.
    #[must_use]
    pub fn body_bytes(&self) -> Option<u64> {
        self.head.map(|head| self.read - head)
    }

    fn stdout(&mut self, mut bytes: &[u8], out: &mut impl AnswerSink) -> Result<(), AnswerError> {
        if self.stage == AnswerStage::Head {
            let (read, head) = self.fields.read(bytes)?;
            let Some(head) = head else { return Ok(()) };
            bytes = &bytes[read..];
            self.head = Some(self.read - bytes.len() as u64);
            self.begin(head, out);
        }
        match &mut self.stage {
            AnswerStage::Counted(left) => {
                let count = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.surplus |= count < bytes.len();
                *left -= count as u64;
                let mut content = &bytes[..count];
                let mut ends = false;
                if let (0, true, Some((last, others))) = (*left, self.waits_for_end, content.split_last()) {
                    (self.last, content) = (Some(*last), others);
                } else {
                    ends = *left == 0 && self.last.is_none();
                }
                if !content.is_empty() {
                    out.body(content);
                }
                if ends {
                    self.over(out);
                }
            }
            AnswerStage::Open if !bytes.is_empty() => out.body(bytes),
            AnswerStage::Over => self.surplus |= !bytes.is_empty(),
            AnswerStage::Head | AnswerStage::Open | AnswerStage::Bodyless => {}
        }
        Ok(())
    }

    fn begin(&mut self, head: Head, out: &mut impl AnswerSink) {
        let code = head.status.code();
        let body = match head.length {
            _ if self.bodyless || code == 204 || code == 304 => AnswerBody::None,
            Some(length) => AnswerBody::Length(length),
            None => AnswerBody::Open,
        };
        out.head(head, body);
        match body {
            AnswerBody::None => self.stage = AnswerStage::Bodyless,
            AnswerBody::Length(0) => self.over(out),
            AnswerBody::Length(length) => self.stage = AnswerStage::Counted(length),
            AnswerBody::Open => self.stage = AnswerStage::Open,
        }
    }

    fn over(&mut self, out: &mut impl AnswerSink) {
        if self.stage != AnswerStage::Over {
            self.stage = AnswerStage::Over;
            out.end();
        }
    }

    /// The program has nothing more to say.
    fn finish(&mut self, by: AnswerEnd, out: &mut impl AnswerSink) -> Result<(), AnswerError> {
        match self.stage {
            AnswerStage::Head => return Err(AnswerError::EndInHead(by)),
            AnswerStage::Counted(0) => {
                if let Some(last) = self.last.take() {
                    out.body(&[last]);
                }
            }
            AnswerStage::Counted(_) => return Err(AnswerError::EndInBody(by)),
            AnswerStage::Open | AnswerStage::Bodyless | AnswerStage::Over => {}
        }
        self.over(out);
        Ok(())
    }
}
