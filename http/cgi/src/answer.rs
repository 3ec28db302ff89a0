//! A program's answer as one of HTTP/1.1: whoever reads those reads this.
//!
//! Its head is made canonical, and a body whose length is not told is chunked, so that
//! its end is told apart from an end that came too early.

use crate::fastcgi::{RecordError, RecordEvent, RecordReader};
use crate::head::{Head, HeadError, HeadReader, HeadRules};
use core::fmt;
use std::io::Write;

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
}

/// The most that is kept of what a program says of errors, until it is taken.
pub const ERRORS_MAX: usize = 4_096;

/// Why an answer is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerError {
    /// Its records are none.
    Record(RecordError),
    /// Its head is none.
    Head(HeadError),
    /// It ended within its head.
    EndInHead,
    /// It ended before the length that it told.
    EndInBody,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(why) => why.fmt(f),
            Self::Head(why) => why.fmt(f),
            Self::EndInHead => f.write_str("upstream prematurely closed FastCGI stdout or its connection"),
            Self::EndInBody => f.write_str("upstream prematurely closed connection"),
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
    Chunked,
    /// What comes is not passed on.
    Bodyless,
    /// All was passed on.
    Over,
}

/// Makes an answer of HTTP/1.1 of a program's, in any pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnswerReader {
    records: Option<RecordReader>,
    head: HeadReader,
    bodyless: bool,
    stage: AnswerStage,
    /// Something came that does not belong to it.
    surplus: bool,
    errors: Vec<u8>,
}

impl AnswerReader {
    /// One at the start of an answer.
    #[must_use]
    pub fn new(rules: AnswerRules) -> Self {
        let records = (rules.protocol == CgiProtocol::FastCgi).then(RecordReader::new);
        let (head, stage) = (HeadReader::new(rules.head), AnswerStage::Head);
        Self { records, head, bodyless: rules.bodyless, stage, surplus: false, errors: Vec::new() }
    }

    /// Reads all of `data`, and writes what it comes to behind `out`: at most as much
    /// again, and a head.
    ///
    /// # Errors
    /// It is no answer.
    pub fn read(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), AnswerError> {
        let Some(mut records) = self.records.take() else { return self.stdout(data, out) };
        let read = self.records(&mut records, data, out);
        self.records = Some(records);
        read
    }

    fn records(&mut self, records: &mut RecordReader, data: &[u8], out: &mut Vec<u8>) -> Result<(), AnswerError> {
        let mut rest = data;
        loop {
            let (read, event) = records.read(rest)?;
            rest = &rest[read..];
            match event {
                RecordEvent::Nothing => return Ok(()),
                RecordEvent::Stdout(bytes) => self.stdout(bytes, out)?,
                RecordEvent::StdoutEnd | RecordEvent::End { .. } => self.finish(out)?,
                RecordEvent::Stderr(bytes) => {
                    let room = ERRORS_MAX.saturating_sub(self.errors.len());
                    self.errors.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
            }
        }
    }

    /// The connection ended.
    ///
    /// # Errors
    /// The answer has not.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), AnswerError> {
        match (self.stage, &self.records) {
            // Their end is told.
            (AnswerStage::Chunked | AnswerStage::Bodyless, Some(_)) => Err(AnswerError::EndInBody),
            _ => self.finish(out),
        }
    }

    /// Whether the answer is whole: nothing more is written.
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
    pub fn take_errors(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.errors)
    }

    fn stdout(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), AnswerError> {
        if self.stage == AnswerStage::Head {
            let (read, head) = self.head.read(bytes)?;
            let Some(head) = head else { return Ok(()) };
            bytes = &bytes[read..];
            self.begin(&head, out);
        }
        match &mut self.stage {
            AnswerStage::Counted(left) => {
                let count = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.surplus |= count < bytes.len();
                *left -= count as u64;
                out.extend_from_slice(&bytes[..count]);
                if *left == 0 {
                    self.stage = AnswerStage::Over;
                }
            }
            AnswerStage::Chunked if !bytes.is_empty() => {
                // Writing to memory does not fail.
                let _ = write!(out, "{:x}\r\n", bytes.len());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            AnswerStage::Over => self.surplus |= !bytes.is_empty(),
            AnswerStage::Head | AnswerStage::Chunked | AnswerStage::Bodyless => {}
        }
        Ok(())
    }

    fn begin(&mut self, head: &Head, out: &mut Vec<u8>) {
        let code = head.status.code();
        let _ = write!(out, "HTTP/1.1 {code} ");
        match &*head.reason {
            b"" => out.extend_from_slice(head.status.reason().as_bytes()),
            reason => out.extend_from_slice(reason),
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&head.fields);
        self.stage = match head.length {
            _ if self.bodyless || code == 204 || code == 304 => AnswerStage::Bodyless,
            Some(0) => AnswerStage::Over,
            Some(length) => AnswerStage::Counted(length),
            None => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                AnswerStage::Chunked
            }
        };
        out.extend_from_slice(b"\r\n");
    }

    /// The program has nothing more to say.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), AnswerError> {
        match self.stage {
            AnswerStage::Head => return Err(AnswerError::EndInHead),
            AnswerStage::Counted(_) => return Err(AnswerError::EndInBody),
            AnswerStage::Chunked => out.extend_from_slice(b"0\r\n\r\n"),
            AnswerStage::Bodyless | AnswerStage::Over => {}
        }
        self.stage = AnswerStage::Over;
        Ok(())
    }
}
