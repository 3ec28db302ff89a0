//! FastCGI: one request on a connection at a time, as its responder.
//!
//! A record is a head of eight bytes (version, type, request, length, padding), up to
//! 65,535 bytes, and padding. Parameters and both directions' bytes are streams over
//! records, each ended by an empty one (FastCGI specification 1.0, sections 3.3 to 6.2).

use crate::params::{PARAMS_MAX, ParamError, Params};
use core::fmt;

/// Bytes of a record's head.
pub const HEAD: usize = 8;
/// The most bytes of a record's content; a multiple of 8, so that none is padded.
const CONTENT_MAX: usize = 65_528;

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// The request's number, of which there is one for each connection.
const REQUEST: u8 = 1;
const RESPONDER: u8 = 1;

/// Writes the head of a record with so many bytes; returns how many bytes of padding
/// belong behind them.
fn record(kind: u8, length: usize, out: &mut Vec<u8>) -> usize {
    let padding = length.next_multiple_of(8) - length;
    let [high, low] = (length as u16).to_be_bytes();
    out.extend([VERSION, kind, 0, REQUEST, high, low, padding as u8, 0]);
    padding
}

/// Writes what begins a request: its role, its parameters, and their end. Its body
/// follows ([`stdin`]).
///
/// # Errors
/// Parameters are longer than [`PARAMS_MAX`].
pub fn begin(params: &Params, keep: bool, out: &mut Vec<u8>) -> Result<(), ParamError> {
    if params.bytes() > PARAMS_MAX {
        return Err(ParamError::TooLong(params.bytes()));
    }
    record(BEGIN_REQUEST, 8, out);
    out.extend([0, RESPONDER, u8::from(keep), 0, 0, 0, 0, 0]);
    let mut stream = Vec::with_capacity(params.bytes() + 8 * params.len());
    for (name, value) in params.iter() {
        length(name.len(), &mut stream);
        length(value.len(), &mut stream);
        stream.extend_from_slice(name);
        stream.extend_from_slice(value);
    }
    for piece in stream.chunks(CONTENT_MAX) {
        content(PARAMS, piece, out);
    }
    record(PARAMS, 0, out);
    Ok(())
}

/// A length: one byte up to 127, else four with the highest bit set.
fn length(bytes: usize, out: &mut Vec<u8>) {
    match u8::try_from(bytes) {
        Ok(short @ 0..=127) => out.push(short),
        _ => out.extend((bytes as u32 | 1 << 31).to_be_bytes()),
    }
}

fn content(kind: u8, piece: &[u8], out: &mut Vec<u8>) {
    let padding = record(kind, piece.len(), out);
    out.extend_from_slice(piece);
    out.extend_from_slice(&[0; 8][..padding]);
}

/// Writes a piece of the request's body, as records.
pub fn stdin(piece: &[u8], out: &mut Vec<u8>) {
    piece.chunks(CONTENT_MAX).for_each(|piece| content(STDIN, piece, out));
}

/// The longest piece that one record takes without padding behind it: for bodies that
/// are not copied, and whose pieces but the last have this length.
pub const STDIN_PIECE: usize = CONTENT_MAX;

/// Writes the head of a record whose content follows uncopied, `bytes` of it, at most
/// [`STDIN_PIECE`]; returns how many bytes of padding, zeros, follow that.
pub fn stdin_head(bytes: usize, out: &mut Vec<u8>) -> usize {
    record(STDIN, bytes.min(CONTENT_MAX), out)
}

/// Writes the end of the request's body.
pub fn end_stdin(out: &mut Vec<u8>) {
    record(STDIN, 0, out);
}

/// What of an answer comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordEvent<'a> {
    /// More bytes are needed.
    Nothing,
    /// A piece of the answer.
    Stdout(&'a [u8]),
    /// The answer is whole: without a kept connection there may be nothing more.
    StdoutEnd,
    /// A piece of what the program has to say of errors.
    Stderr(&'a [u8]),
    /// The end of the request.
    End {
        /// The program's own status.
        app: u32,
        /// 0 if the request was complete, 1 to 3 if it was refused (section 5.5).
        protocol: u8,
    },
}

/// Why an answer cannot be read any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// A version other than 1.
    Version(u8),
    /// A type that an answer has not.
    Kind(u8),
    /// Another request than ours.
    Request(u16),
    /// Something behind the end.
    BehindEnd,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "upstream sent unsupported FastCGI protocol version: {version}"),
            Self::Kind(kind) => write!(f, "upstream sent invalid FastCGI record type: {kind}"),
            Self::Request(number) if *number > 255 => {
                write!(f, "upstream sent unexpected FastCGI request id high byte: {}", number >> 8)
            }
            Self::Request(number) => write!(f, "upstream sent unexpected FastCGI request id low byte: {number}"),
            Self::BehindEnd => f.write_str("upstream sent data behind the end of a FastCGI request"),
        }
    }
}

impl core::error::Error for RecordError {}

/// Reads the records of an answer, in any pieces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordReader {
    /// The head, as much of it as there is; or the beginning of what ends a request.
    gathered: [u8; HEAD],
    have: u8,
    kind: u8,
    /// Bytes of content and of padding that are still to come.
    content: u16,
    padding: u8,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    #[default]
    Head,
    Content,
    Padding,
    /// All is read.
    Over,
}

impl RecordReader {
    /// One at the start of an answer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the end of the request was read, with its padding: a kept connection is
    /// free for the next.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether all of the record is read whose piece was told last.
    #[must_use]
    pub fn record_is_whole(&self) -> bool {
        self.content == 0
    }

    /// Reads on. Returns how many bytes of `data` were read, and what they say; to be
    /// asked again with the rest until there is [`RecordEvent::Nothing`].
    ///
    /// # Errors
    /// It is no answer to our request.
    pub fn read<'a>(&mut self, data: &'a [u8]) -> Result<(usize, RecordEvent<'a>), RecordError> {
        let mut at = 0;
        loop {
            let rest = &data[at..];
            match self.stage {
                Stage::Head => {
                    at += self.gather(rest, HEAD);
                    if usize::from(self.have) < HEAD {
                        return Ok((at, RecordEvent::Nothing));
                    }
                    self.begin_record()?;
                    if self.kind == STDOUT && self.content == 0 {
                        return Ok((at, RecordEvent::StdoutEnd));
                    }
                }
                Stage::Content if self.content == 0 => {
                    self.stage = Stage::Padding;
                    if self.kind == END_REQUEST {
                        return Ok((at, self.end()));
                    }
                }
                Stage::Content if rest.is_empty() => return Ok((at, RecordEvent::Nothing)),
                Stage::Content if self.kind == END_REQUEST => {
                    // What follows the first eight bytes means nothing.
                    let piece = rest.len().min(usize::from(self.content));
                    self.gather(&rest[..piece], HEAD);
                    self.content -= piece as u16;
                    at += piece;
                }
                Stage::Content => {
                    let piece = rest.len().min(usize::from(self.content));
                    self.content -= piece as u16;
                    let bytes = &rest[..piece];
                    let event =
                        if self.kind == STDOUT { RecordEvent::Stdout(bytes) } else { RecordEvent::Stderr(bytes) };
                    return Ok((at + piece, event));
                }
                Stage::Padding => {
                    let piece = rest.len().min(usize::from(self.padding));
                    self.padding -= piece as u8;
                    at += piece;
                    if self.padding > 0 {
                        return Ok((at, RecordEvent::Nothing));
                    }
                    self.have = 0;
                    self.stage = if self.kind == END_REQUEST { Stage::Over } else { Stage::Head };
                }
                Stage::Over if rest.is_empty() => return Ok((at, RecordEvent::Nothing)),
                Stage::Over => return Err(RecordError::BehindEnd),
            }
        }
    }

    /// Gathers up to `most` bytes; returns how many of `data` were taken.
    fn gather(&mut self, data: &[u8], most: usize) -> usize {
        let have = usize::from(self.have);
        let count = data.len().min(most - have);
        self.gathered[have..have + count].copy_from_slice(&data[..count]);
        self.have += count as u8;
        count
    }

    fn begin_record(&mut self) -> Result<(), RecordError> {
        let [version, kind, high, low, length_high, length_low, padding, _] = self.gathered;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        if ![STDOUT, STDERR, END_REQUEST].contains(&kind) {
            return Err(RecordError::Kind(kind));
        }
        let request = u16::from_be_bytes([high, low]);
        if request != u16::from(REQUEST) {
            return Err(RecordError::Request(request));
        }
        (self.kind, self.padding) = (kind, padding);
        self.content = u16::from_be_bytes([length_high, length_low]);
        self.stage = Stage::Content;
        (self.gathered, self.have) = ([0; HEAD], 0);
        Ok(())
    }

    fn end(&self) -> RecordEvent<'static> {
        let [a, b, c, d, protocol, ..] = self.gathered;
        RecordEvent::End { app: u32::from_be_bytes([a, b, c, d]), protocol }
    }
}
