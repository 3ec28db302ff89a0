//! Requests that are filled in anew each time: `/item/{{random:1..1000}}`.

use crate::feed::{Feed, FeedOrder};
use crate::random::Random;
use core::fmt;
use core::time::Duration;
use semantics::path::percent_encode;
use std::io::Write;
use std::sync::Arc;
use wire::Time;

/// Words that `{{choice:…}}` may choose from.
const CHOICES_LIMIT: usize = 4_096;

/// Words to be filled in, of one text.
const FILLS_LIMIT: usize = 1_024;

/// What is filled in, for errors.
const KNOWN: &str =
    "counter, counter:FROM, random:FROM..TO, choice:A|B, uuid, csv:COLUMN, time, time:ms, time:us or time:ns";

/// What of a request is written anew each time.
///
/// | word | what stands in its place |
/// | --- | --- |
/// | `{{counter}}`, `{{counter:100}}` | the request's number, from 1 (100) on: no two of a run have the same |
/// | `{{random:1..1000}}` | a whole number, both ends included |
/// | `{{choice:red\|green\|blue}}` | one of these words |
/// | `{{uuid}}` | a random UUID (RFC 9562 section 5.4) |
/// | `{{csv:NAME}}` | the cell of this column, of one row of the feed for each request |
/// | `{{time}}`, `{{time:ms}}`, `{{time:us}}`, `{{time:ns}}` | the time since 1970, in seconds or as said |
/// | `{{{{` | `{{` |
///
/// Counter, row and time are the same all over one request; the others are
/// drawn for each mention. In a path, what comes from a feed is percent-encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    path: Template,
    headers: Vec<(String, Template)>,
    body: Template,
}

/// A text with words to be filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(Box<[u8]>),
    Counter(u64),
    /// The first number, and how many there are beyond it.
    Random(u64, u64),
    Choice(Vec<Box<[u8]>>),
    Uuid,
    Column(usize),
    /// Nanoseconds of its unit.
    Since(u64),
}

/// Why a text is no template: the user's to mend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateError(String);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for TemplateError {}

/// What templates of a plan draw from, beside the seed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// Rows for `{{csv:…}}`.
    pub feed: Option<Arc<Feed>>,
    /// The time since 1970 at which the data path's clock stood at zero.
    pub epoch: Duration,
}

impl Script {
    /// What is to be filled in of a request's path, fields and content, which may come to
    /// `limit` bytes; `None` if it is the same each time.
    ///
    /// # Errors
    /// If a word is not known, its column is not there or has values that could not
    /// stand where they are to, or the request may become longer than it may be.
    pub(crate) fn read(
        (path, headers, body): (&str, &[(String, String)], &[u8]),
        feed: Option<&Feed>,
        limit: usize,
    ) -> Result<Option<Self>, TemplateError> {
        let path = Template::read(path.as_bytes(), feed)?;
        let headers = headers.iter().map(|(name, value)| {
            let template = Template::read(value.as_bytes(), feed)?;
            template.check_field(name, feed)?;
            Ok((name.clone(), template))
        });
        let headers = headers.collect::<Result<Vec<_>, TemplateError>>()?;
        let body = Template::read(body, feed)?;
        let script = Self { path, headers, body };
        if script.templates().all(Template::is_text) {
            return Ok(None);
        }
        let longest = script.templates().map(|one| one.longest(feed)).fold(0, usize::saturating_add);
        // Of a path each byte may become three.
        if longest.saturating_add(2 * script.path.longest(feed)) > limit {
            return Err(TemplateError("the request may become longer than 16 MiB".to_owned()));
        }
        Ok(Some(script))
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        [&self.path, &self.body].into_iter().chain(self.headers.iter().map(|(_, value)| value))
    }
}

impl Template {
    fn read(text: &[u8], feed: Option<&Feed>) -> Result<Self, TemplateError> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), Vec::new(), text);
        while let Some(at) = rest.windows(2).position(|two| two == b"{{") {
            let (before, behind) = rest.split_at(at);
            plain.extend_from_slice(before);
            if let Some(behind) = behind.strip_prefix(b"{{{{") {
                plain.extend_from_slice(b"{{");
                rest = behind;
                continue;
            }
            let behind = behind.get(2..).unwrap_or_default();
            let end = behind.windows(2).position(|two| two == b"}}");
            let end = end.ok_or_else(|| TemplateError("a {{ has no }}; write {{{{ for {{".to_owned()))?;
            let (word, after) = behind.split_at(end);
            if !plain.is_empty() {
                pieces.push(Piece::Text(core::mem::take(&mut plain).into()));
            }
            pieces.push(Piece::read(&String::from_utf8_lossy(word), feed)?);
            if pieces.len() > FILLS_LIMIT {
                return Err(TemplateError("there may be 1,024 words in a text".to_owned()));
            }
            rest = after.get(2..).unwrap_or_default();
        }
        plain.extend_from_slice(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into()));
        }
        Ok(Self(pieces))
    }

    fn is_text(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// The most bytes that it can come to.
    fn longest(&self, feed: Option<&Feed>) -> usize {
        let longest = |piece: &Piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Choice(words) => words.iter().map(|word| word.len()).max().unwrap_or(0),
            Piece::Uuid => UUID,
            Piece::Column(column) => feed.map_or(0, |feed| feed.cells_of(*column).map(<[u8]>::len).max().unwrap_or(0)),
            Piece::Counter(_) | Piece::Random(..) | Piece::Since(_) => 20,
        };
        self.0.iter().map(longest).fold(0, usize::saturating_add)
    }

    /// Whether nothing that may stand in a field breaks out of its line.
    fn check_field(&self, name: &str, feed: Option<&Feed>) -> Result<(), TemplateError> {
        let breaks = |cell: &[u8]| cell.iter().any(|byte| *byte < b' ' && *byte != b'\t' || *byte == 0x7f);
        for piece in &self.0 {
            let Piece::Column(column) = piece else { continue };
            let row = feed.and_then(|feed| feed.cells_of(*column).position(breaks));
            if let Some(row) = row {
                let row = row + 1;
                return Err(TemplateError(format!("{name}: row {row} of the feed has a control character there")));
            }
        }
        Ok(())
    }
}

impl Piece {
    fn read(word: &str, feed: Option<&Feed>) -> Result<Self, TemplateError> {
        let wrong = || TemplateError(format!("{{{{{word}}}}} is not known: there is {KNOWN}"));
        let (name, rest) = word.split_once(':').map_or((word, None), |(name, rest)| (name, Some(rest)));
        Ok(match (name, rest) {
            ("counter", None) => Self::Counter(1),
            ("counter", Some(from)) => Self::Counter(number(from).ok_or_else(wrong)?),
            ("uuid", None) => Self::Uuid,
            ("time", None) => Self::Since(1_000_000_000),
            ("time", Some("ms")) => Self::Since(1_000_000),
            ("time", Some("us")) => Self::Since(1_000),
            ("time", Some("ns")) => Self::Since(1),
            ("random", Some(range)) => {
                let ends = range.split_once("..").and_then(|(from, to)| Some((number(from)?, number(to)?)));
                let (from, to) = ends.filter(|(from, to)| from <= to).ok_or_else(wrong)?;
                Self::Random(from, to - from)
            }
            ("choice", Some(words)) => {
                let words: Vec<Box<[u8]>> = words.split('|').map(|word| word.as_bytes().into()).collect();
                if words.len() > CHOICES_LIMIT {
                    return Err(TemplateError("a choice has 4,096 words at most: use a feed".to_owned()));
                }
                Self::Choice(words)
            }
            ("csv", Some(name)) => {
                let feed = feed.ok_or_else(|| TemplateError(format!("{{{{{word}}}}} needs a feed (CSV)")))?;
                let known = || feed.names().iter().take(16).map(String::as_str).collect::<Vec<_>>().join(", ");
                let column = feed.column(name);
                Self::Column(
                    column.ok_or_else(|| {
                        TemplateError(format!("the feed has no column '{name}': there is {}", known()))
                    })?,
                )
            }
            _ => return Err(wrong()),
        })
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Where a template stands in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spot {
    /// In its target: what does not belong there is percent-encoded.
    Target,
    /// Elsewhere: as it is.
    Plain,
}

/// What is the same all over one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fill {
    counter: u64,
    row: usize,
    /// Nanoseconds since 1970.
    at: u64,
}

/// Fills templates in, for one silo.
#[derive(Debug)]
pub(crate) struct Filler {
    random: Random,
    source: Source,
    next: u64,
    step: u64,
}

impl Filler {
    /// For the silo that is `lane.0` of `lane.1`.
    pub fn new(source: Source, seed: u64, (lane, lanes): (u32, u32)) -> Self {
        // Not the sequences of connections and requests.
        let random = Random::new(seed ^ 0x7465_6d70_0000_0000);
        Self { random, source, next: u64::from(lane), step: u64::from(lanes.max(1)) }
    }

    /// The next request begins.
    pub fn begin(&mut self, now: Time) -> Fill {
        let counter = self.next;
        self.next = self.next.wrapping_add(self.step);
        let rows = self.source.feed.as_ref().map_or(1, |feed| feed.rows().max(1));
        let random = self.source.feed.as_ref().is_some_and(|feed| feed.order() == FeedOrder::Random);
        let row = if random { self.below(rows as u64) } else { counter % rows as u64 };
        let at = (self.source.epoch + Duration::from_nanos(now.as_nanos())).as_nanos();
        Fill { counter, row: row as usize, at: u64::try_from(at).unwrap_or(u64::MAX) }
    }

    pub fn path(&mut self, script: &Script, fill: &Fill, out: &mut Vec<u8>) {
        self.write(&script.path, fill, Spot::Target, out);
    }

    pub fn body(&mut self, script: &Script, fill: &Fill, out: &mut Vec<u8>) {
        self.write(&script.body, fill, Spot::Plain, out);
    }

    /// Its fields, each as a line; those of content where it `carries` any.
    pub fn fields(&mut self, script: &Script, fill: &Fill, carries: bool, out: &mut Vec<u8>) {
        for (name, value) in script.headers.iter().filter(|(name, _)| carries || !is_of_content(name)) {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            self.write(value, fill, Spot::Plain, out);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn write(&mut self, template: &Template, fill: &Fill, spot: Spot, out: &mut Vec<u8>) {
        for piece in &template.0 {
            // Writing to memory does not fail.
            let _ = match piece {
                Piece::Text(text) => out.write_all(text),
                Piece::Counter(from) => write!(out, "{}", from.wrapping_add(fill.counter)),
                Piece::Random(from, beyond) => {
                    let drawn = match beyond.checked_add(1) {
                        Some(span) => self.below(span),
                        None => self.random.bits(),
                    };
                    write!(out, "{}", from + drawn)
                }
                Piece::Choice(words) => {
                    let chosen = self.random.below(words.len() as u32) as usize;
                    out.write_all(words.get(chosen).map_or(&[][..], |word| word))
                }
                Piece::Uuid => out.write_all(&uuid(self.random.bits(), self.random.bits())),
                Piece::Since(unit) => write!(out, "{}", fill.at / unit),
                Piece::Column(column) => {
                    let feed = self.source.feed.as_ref();
                    let cell = feed.map_or(&[][..], |feed| feed.cell(fill.row, *column));
                    match spot {
                        Spot::Target => percent_encode(cell, |byte| !is_unreserved(byte), out),
                        Spot::Plain => out.extend_from_slice(cell),
                    }
                    Ok(())
                }
            };
        }
    }

    /// A number below `span`, each with the same probability to within 2^-64.
    fn below(&mut self, span: u64) -> u64 {
        ((u128::from(self.random.bits()) * u128::from(span)) >> 64) as u64
    }
}

/// Whether a field describes content (RFC 9110 section 8).
pub(crate) fn is_of_content(name: &str) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("Content-"))
}

/// RFC 3986 section 2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The length of a UUID as text.
const UUID: usize = 36;

/// Version 4, variant 10 (RFC 9562 sections 4.1 and 4.2).
fn uuid(high: u64, low: u64) -> [u8; UUID] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bits = u128::from(high) << 64 | u128::from(low);
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut text = [b'-'; UUID];
    let places = (0..UUID).filter(|place| ![8, 13, 18, 23].contains(place));
    for (digit, place) in places.enumerate() {
        text[place] = HEX[(bits >> (124 - 4 * digit)) as usize & 15];
    }
    text
}

#[cfg(test)]
mod tests;
