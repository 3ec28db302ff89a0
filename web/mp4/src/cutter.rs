//! The boxes of a file, one after the other (ISO/IEC 14496-12 section 4.2): `ftyp`, `moov`,
//! `mdat`.

use crate::error::Error;
use crate::movie::Movie;
use crate::table::{BOX_HEAD, put_u32, u32_at, u64_at};
use crate::{Cut, Rules, Span};
use core::ops::Range;

/// Bytes that are read for the head of a box, and for `ftyp`.
const LOOK: u64 = 4 << 10;

/// The largest content of `ftyp`.
const FTYP_MAX: u64 = 1 << 10;

/// Boxes that are passed, at most: each may cost a read.
const BOXES_MAX: u32 = 1 << 12;

/// The largest `moov` that is cut, whatever was asked for.
const MOOV_MAX: u64 = 1 << 30;

/// How many bytes behind `moov` the head of a box may reach that begins in it.
const BEHIND: u64 = 2 * BOX_HEAD as u64;

/// What nginx goes on with behind a `moov` of which no more lies in its buffer.
const EXCESS: u64 = 4 << 10;

/// What follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// These bytes of the file are wanted: [`Cutter::on_read`].
    Read(Range<u64>),
    /// The file is sent as it is.
    Whole,
    /// This is sent.
    Cut(Cut),
}

/// A file that is being cut. [`Cutter::poll`] says what it needs, [`Cutter::on_read`] gives it
/// that; so many times as there are boxes, 4,096 at most.
#[derive(Debug)]
pub struct Cutter {
    rules: Rules,
    span: Span,
    /// Bytes of the file, and how far it was looked at.
    size: u64,
    at: u64,
    /// Up to where nginx would have it in memory, and how much it reads at once: what does not
    /// lie there is too large, or not there.
    in_memory: u64,
    buffer: u64,
    /// What was read last, and from where on.
    bytes: Vec<u8>,
    from: u64,
    boxes: u32,
    ftyp: Option<Vec<u8>>,
    movie: Option<Movie>,
    media: Option<Range<u64>>,
}

/// A box: its name, bytes of its head, and of all of it.
#[derive(Clone, Copy)]
struct BoxAt {
    name: [u8; 4],
    head: u64,
    size: u64,
}

/// What comes next in a file.
enum Next {
    Box(BoxAt),
    /// No box: what follows is none.
    Nothing,
    /// That is not known before this was read.
    Wanted(Step),
}

impl Cutter {
    /// One of a file of `size` bytes.
    #[must_use]
    pub fn new(rules: Rules, span: Span, size: u64) -> Self {
        let rules = Rules { largest_moov: rules.largest_moov.min(MOOV_MAX), ..rules };
        Self {
            rules,
            span,
            size,
            at: 0,
            in_memory: 0,
            buffer: rules.buffer,
            bytes: Vec::new(),
            from: 0,
            boxes: 0,
            ftyp: None,
            movie: None,
            media: None,
        }
    }

    /// Takes the bytes that were wanted.
    pub fn on_read(&mut self, bytes: Vec<u8>) {
        (self.bytes, self.from) = (bytes, self.at);
    }

    /// Goes on.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn poll(&mut self) -> Result<Step, Error> {
        while self.at < self.size {
            let found = match self.next_box()? {
                Next::Box(found) => found,
                Next::Nothing => break,
                Next::Wanted(step) => return Ok(step),
            };
            let content = found.size - found.head;
            let next = self.at + found.size;
            match &found.name {
                b"ftyp" => {
                    if content > FTYP_MAX || next > self.in_memory {
                        return Err(Error::LargeFtyp(content));
                    }
                    let Some(bytes) = self.have(found.size) else { return Ok(self.wanted(found.size)) };
                    let mut ftyp = bytes[found.head as usize - BOX_HEAD..].to_vec();
                    put_u32(&mut ftyp, 0, content + BOX_HEAD as u64);
                    ftyp[4..BOX_HEAD].copy_from_slice(b"ftyp");
                    if self.ftyp.replace(ftyp).is_some() {
                        return Err(Error::Duplicate("ftyp"));
                    }
                    self.at = next;
                }
                b"moov" => {
                    if let Some(step) = self.movie(found)? {
                        return Ok(step);
                    }
                }
                b"mdat" => {
                    if self.media.replace(self.at + found.head..next).is_some() {
                        return Err(Error::Duplicate("mdat"));
                    }
                    let is_last = self.movie.as_ref().is_some_and(Movie::has_tracks);
                    self.at = if is_last { self.size } else { next };
                }
                _ => self.at = next,
            }
            self.boxes += 1;
            // And `moov`.
            if self.boxes > BOXES_MAX + 1 {
                return Err(Error::TooMany("atoms"));
            }
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<Step, Error> {
        let movie = self.movie.take().filter(Movie::has_tracks).ok_or(Error::None("trak"))?;
        let media = self.media.take().ok_or(Error::NoMedia)?;
        let ftyp = self.ftyp.take().unwrap_or_default();
        Ok(Step::Cut(movie.cut(&self.rules, &ftyp, &media, self.size)?))
    }

    /// The box that comes next.
    fn next_box(&mut self) -> Result<Next, Error> {
        self.reach(4)?;
        let head = (self.size - self.at).min(2 * BOX_HEAD as u64);
        let Some(bytes) = self.have(head) else { return Ok(Next::Wanted(self.wanted(head))) };
        let (short, long) = (u64::from(u32_at(bytes, 0)), u64_at(bytes, BOX_HEAD));
        let name = bytes.get(4..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
        let (size, head) = match short {
            0 => return Ok(Next::Nothing),
            1 => {
                self.reach(2 * BOX_HEAD as u64)?;
                (long, 2 * BOX_HEAD as u64)
            }
            size => (size, BOX_HEAD as u64),
        };
        if size < head {
            return Err(Error::SmallBox(size));
        }
        self.reach(BOX_HEAD as u64)?;
        if size > self.size - self.at {
            return Err(Error::LargeBox(size));
        }
        Ok(Next::Box(BoxAt { name, head, size }))
    }

    /// `moov`. What is to be done before that, or in place of it.
    fn movie(&mut self, found: BoxAt) -> Result<Option<Step>, Error> {
        let content = found.size - found.head;
        let is_first = self.media.is_none();
        if is_first && self.span.is_whole() {
            return Ok(Some(Step::Whole));
        }
        if self.movie.is_some() {
            return Err(Error::Duplicate("moov"));
        }
        // One that fits into the buffer is cut whatever the largest is.
        let fits = content <= self.buffer;
        if !fits && content > self.rules.largest_moov || content > MOOV_MAX {
            return Err(Error::LargeMoov(content));
        }
        let all = (self.at + found.size + BEHIND).min(self.size) - self.at;
        if self.have(all).is_none() {
            return Ok(Some(self.wanted(all)));
        }
        let begin = self.at + found.head;
        let mut bytes = core::mem::take(&mut self.bytes);
        bytes.truncate((self.at + all - self.from) as usize);
        bytes.drain(..(begin - self.from) as usize);
        self.at = begin;
        if !fits {
            (self.in_memory, self.buffer) = (begin, content + if is_first { EXCESS } else { 0 });
        }
        self.reach(content)?;
        let movie = Movie::read(bytes, content as usize, self.size - begin, self.span)?;
        self.at = if is_first { begin + movie.at as u64 } else { self.size };
        if self.in_memory.saturating_sub(self.at) < EXCESS {
            self.in_memory = self.at;
        }
        self.buffer = EXCESS;
        self.movie = Some(movie);
        Ok(None)
    }

    /// The file has so many more bytes, and nginx would have them in memory.
    fn reach(&mut self, bytes: u64) -> Result<(), Error> {
        if self.in_memory.saturating_sub(self.at) >= bytes {
            return Ok(());
        }
        self.buffer = self.buffer.min(self.size - self.at);
        if self.buffer < bytes {
            return Err(Error::Truncated);
        }
        self.in_memory = self.at + self.buffer;
        Ok(())
    }

    /// So many bytes from here on, if they were read.
    fn have(&self, bytes: u64) -> Option<&[u8]> {
        let from = usize::try_from(self.at.checked_sub(self.from)?).ok()?;
        self.bytes.get(from..)?.get(..usize::try_from(bytes).ok()?)
    }

    fn wanted(&self, bytes: u64) -> Step {
        Step::Read(self.at..(self.at + bytes.max(LOOK)).min(self.size))
    }
}
