//! Answers of programs, which speak FastCGI, uwsgi or SCGI.

use cgi::answer::{AnswerBody, AnswerError, AnswerReader, AnswerRules, AnswerSink, CgiProtocol, StderrLine};
use cgi::head::{Head, HeadRules};
use cgi::{ParamError, Params, fastcgi, scgi, uwsgi};
use std::sync::Arc;

/// What a program speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramProtocol {
    /// Records (FastCGI specification 1.0).
    FastCgi,
    /// The packet of uWSGI.
    Uwsgi,
    /// The netstring of SCGI.
    Scgi,
}

/// How a program is asked, and what is taken for its answer.
#[derive(Clone, Debug)]
pub struct ProgramRules {
    /// What it speaks.
    pub protocol: ProgramProtocol,
    /// The most bytes of an answer's head.
    pub head_max: u32,
    /// The connection may carry another question (`fastcgi_keep_conn`).
    pub keeps: bool,
    /// What, said of errors before the head is whole, makes the answer one that is none
    /// (`fastcgi_catch_stderr`).
    pub catches: Arc<[Box<[u8]>]>,
    /// `uwsgi_modifier1`, `uwsgi_modifier2`.
    pub modifiers: (u8, u8),
}

impl ProgramRules {
    /// What is sent before a body of this length; one whose length nobody knows goes in
    /// records.
    ///
    /// # Errors
    /// The parameters are more than the protocol has room for.
    pub fn head(&self, params: &Params, length: Option<u64>) -> Result<Vec<u8>, ParamError> {
        let mut head = Vec::with_capacity(params.bytes() + 256);
        match self.protocol {
            ProgramProtocol::FastCgi => {
                fastcgi::begin(params, self.keeps, &mut head)?;
                // Behind a body its end follows.
                if length == Some(0) {
                    fastcgi::end_stdin(&mut head);
                }
            }
            ProgramProtocol::Uwsgi => uwsgi::packet(params, self.modifiers, &mut head)?,
            ProgramProtocol::Scgi => scgi::netstring(params, length.unwrap_or(0), &mut head)?,
        }
        Ok(head)
    }
}

/// A program's answer on its way.
#[derive(Debug)]
pub struct ProgramAnswer {
    rules: ProgramRules,
    /// The question was one that is answered without a body (HEAD).
    bodyless: bool,
    reader: AnswerReader,
    /// What came with the head of what is behind it, and was told to nobody.
    early: Early,
    /// Bytes of the body so far.
    pub(crate) body: u64,
    /// What says too much was told of.
    surplus_told: bool,
}

/// What came in one piece with the end of a head.
#[derive(Debug, Default)]
struct Early {
    body: Vec<u8>,
    /// All of the answer came.
    over: bool,
    fault: Option<AnswerError>,
}

/// What is taken of an answer until its head is whole.
#[derive(Default)]
struct HeadSink {
    head: Option<(Head, AnswerBody)>,
    early: Early,
}

impl AnswerSink for HeadSink {
    fn head(&mut self, head: Head, body: AnswerBody) {
        self.head = Some((head, body));
    }

    fn body(&mut self, bytes: &[u8]) {
        self.early.body.extend_from_slice(bytes);
    }

    fn end(&mut self) {
        self.early.over = true;
    }
}

/// What is taken of it then.
struct BodySink<'a> {
    take: &'a mut dyn FnMut(&[u8]),
    bytes: u64,
    over: bool,
}

impl AnswerSink for BodySink<'_> {
    fn head(&mut self, _: Head, _: AnswerBody) {}

    fn body(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        (self.take)(bytes);
    }

    fn end(&mut self) {
        self.over = true;
    }
}

/// What some of a body came to.
pub(crate) enum ProgramBody {
    /// More is to come.
    Not,
    /// All of it is there.
    Whole,
    /// It will not be whole.
    Fault(AnswerError),
}

impl ProgramAnswer {
    /// One at its start, to a question that is answered without a body if it is `bodyless`.
    #[must_use]
    pub fn new(rules: ProgramRules, bodyless: bool) -> Self {
        let reader = AnswerReader::new(answer_rules(&rules, bodyless));
        Self { rules, bodyless, reader, early: Early::default(), body: 0, surplus_told: false }
    }

    /// Forgets what one program said before another is asked.
    pub(crate) fn begin_again(&mut self) {
        self.reader = AnswerReader::new(answer_rules(&self.rules, self.bodyless));
        (self.early, self.body, self.surplus_told) = (Early::default(), 0, false);
    }

    /// What it speaks.
    #[must_use]
    pub const fn protocol(&self) -> ProgramProtocol {
        self.rules.protocol
    }

    /// Whether the question's body is sent in records.
    #[must_use]
    pub const fn has_records(&self) -> bool {
        matches!(self.rules.protocol, ProgramProtocol::FastCgi)
    }

    /// Whether a complaint makes the answer one that is none.
    fn catches(&self, line: &StderrLine) -> bool {
        let has = |part: &[u8]| part.is_empty() || line.text.windows(part.len()).any(|text| text == part);
        line.in_head && self.rules.catches.iter().any(|part| has(part))
    }

    /// How many bytes came, and how many of them behind the head, as nginx counts them.
    pub(crate) fn counted(&self) -> (u64, u64) {
        let body = if self.bodyless { None } else { self.reader.body_bytes() };
        (self.reader.bytes(), body.unwrap_or(0))
    }

    /// Whether the connection may carry another question.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.rules.keeps && self.reader.may_be_kept()
    }

    /// What it said of errors since this was asked last; and whether one of these makes the
    /// answer one that is none: what follows is of no answer.
    pub(crate) fn take_errors(&mut self) -> (Vec<StderrLine>, bool) {
        let mut errors = self.reader.take_errors();
        let caught = errors.iter().position(|line| self.catches(line));
        errors.truncate(caught.map_or(errors.len(), |at| at + 1));
        (errors, caught.is_some())
    }

    /// Whether it says more than the length that it told, and nobody was told of that.
    pub(crate) const fn has_new_surplus(&mut self) -> bool {
        let is_new = self.reader.has_surplus() && !self.surplus_told;
        self.surplus_told |= is_new;
        is_new
    }

    /// Reads all of a piece, before the head is whole: that, once it is.
    pub(crate) fn read_head(&mut self, piece: &[u8]) -> Result<Option<(Head, AnswerBody)>, AnswerError> {
        let mut sink = HeadSink::default();
        let read = self.reader.read(piece, &mut sink);
        self.take_head(sink, read)
    }

    /// The connection has ended before it is.
    pub(crate) fn end_in_head(&mut self) -> Result<Option<(Head, AnswerBody)>, AnswerError> {
        let mut sink = HeadSink::default();
        let ended = self.reader.end(&mut sink);
        self.take_head(sink, ended)
    }

    /// What stands before a fault counts.
    fn take_head(
        &mut self,
        sink: HeadSink,
        read: Result<(), AnswerError>,
    ) -> Result<Option<(Head, AnswerBody)>, AnswerError> {
        match sink.head {
            Some(head) => {
                self.body += sink.early.body.len() as u64;
                self.early = Early { fault: read.err(), ..sink.early };
                Ok(Some(head))
            }
            None => read.map(|()| None),
        }
    }

    /// The body, if all of it came with its head, and it has a length.
    pub(crate) fn take_whole(&mut self) -> Option<Vec<u8>> {
        let whole = self.early.over && !self.early.body.is_empty();
        whole.then(|| core::mem::take(&mut self.early.body))
    }

    /// Whether something came with the head that is to be read.
    pub(crate) const fn has_early(&self) -> bool {
        !self.early.body.is_empty() || self.early.over || self.early.fault.is_some()
    }

    /// What came with the head of the body.
    pub(crate) fn read_early(&mut self, take: &mut dyn FnMut(&[u8])) -> ProgramBody {
        let Early { body, over, fault } = core::mem::take(&mut self.early);
        if !body.is_empty() {
            take(&body);
        }
        match (over, fault) {
            (true, _) => ProgramBody::Whole,
            (false, Some(why)) => ProgramBody::Fault(why),
            (false, None) => ProgramBody::Not,
        }
    }

    /// Reads all of a piece of the body.
    pub(crate) fn read_body(&mut self, piece: &[u8], take: &mut dyn FnMut(&[u8])) -> ProgramBody {
        let mut sink = BodySink { take, bytes: 0, over: false };
        let read = self.reader.read(piece, &mut sink);
        let (bytes, over) = (sink.bytes, sink.over);
        self.came(bytes, over, read)
    }

    /// The connection has ended.
    pub(crate) fn end(&mut self, take: &mut dyn FnMut(&[u8])) -> ProgramBody {
        let mut sink = BodySink { take, bytes: 0, over: false };
        let ended = self.reader.end(&mut sink);
        let (bytes, over) = (sink.bytes, sink.over);
        self.came(bytes, over, ended)
    }

    fn came(&mut self, bytes: u64, over: bool, read: Result<(), AnswerError>) -> ProgramBody {
        self.body += bytes;
        match read {
            // What stands before a fault counts.
            _ if over => ProgramBody::Whole,
            Ok(()) => ProgramBody::Not,
            Err(why) => ProgramBody::Fault(why),
        }
    }
}

fn answer_rules(rules: &ProgramRules, bodyless: bool) -> AnswerRules {
    let is_fastcgi = rules.protocol == ProgramProtocol::FastCgi;
    AnswerRules {
        protocol: if is_fastcgi { CgiProtocol::FastCgi } else { CgiProtocol::Plain },
        head: HeadRules { bytes: rules.head_max as usize, status_line: !is_fastcgi },
        bodyless,
        waits_for_end: rules.keeps,
    }
}
