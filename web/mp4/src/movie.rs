//! `moov`: what is known of a film, and the new head (ISO/IEC 14496-12 section 8.2).

use crate::error::Error;
use crate::table::{BOX_HEAD, TABLE_HEAD, entries, put_u32, put_u64, u32_at, u64_at};
use crate::track::{At, Offsets, SampleTable, Sizes, Track, Writing};
use crate::{Cut, Rules, Span, chunks, samples};
use core::ops::Range;

/// Tracks of a film, at most.
const TRACKS_MAX: usize = 256;

/// Bytes of boxes' content, but for what may follow: version 0, and version 1 with its longer
/// times.
const MVHD: (usize, usize) = (100, 112);
const TKHD: (usize, usize) = (84, 96);
const MDHD: (usize, usize) = (24, 36);

/// Where a duration stands in the content of `mvhd` and `mdhd`, and in that of `tkhd`.
const DURATION: (usize, usize) = (16, 24);
const TKHD_DURATION: (usize, usize) = (20, 28);

/// A box that has others within.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Movie,
    Track,
    Media,
    Information,
    Samples,
}

/// What follows the boxes of a level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    On,
    /// The track is over by the time: it is left out.
    Skip,
}

/// A film, while its boxes are read.
#[derive(Debug)]
pub struct Movie {
    /// The content of `moov`, and some bytes that follow it.
    bytes: Vec<u8>,
    /// Where the file ends, counted from the first of these.
    file_end: u64,
    /// How far it was read.
    pub at: usize,
    span: Span,
    mvhd: Option<At>,
    timescale: u32,
    tracks: Vec<Track>,
}

impl Movie {
    /// Reads the boxes of `moov`, whose content are the first `length` of these bytes.
    pub fn read(bytes: Vec<u8>, length: usize, file_end: u64, span: Span) -> Result<Self, Error> {
        let mut movie = Self { bytes, file_end, at: 0, span, mvhd: None, timescale: 0, tracks: Vec::new() };
        movie.boxes(Level::Movie, length)?;
        Ok(movie)
    }

    /// Whether it has tracks.
    pub fn has_tracks(&self) -> bool {
        !self.tracks.is_empty()
    }

    /// Reads the boxes up to `end`. They nest no deeper than there are levels.
    fn boxes(&mut self, level: Level, end: usize) -> Result<Read, Error> {
        while self.at < end {
            self.reach(4)?;
            let mut size = u64::from(u32_at(&self.bytes, self.at));
            let mut head = BOX_HEAD;
            match size {
                // What follows is no box. So it is for those that this one is in, too.
                0 => return Ok(Read::On),
                1 => {
                    self.reach(2 * BOX_HEAD)?;
                    size = u64_at(&self.bytes, self.at + BOX_HEAD);
                    head = 2 * BOX_HEAD;
                }
                _ => {}
            }
            if size < head as u64 {
                return Err(Error::SmallBox(size));
            }
            self.reach(BOX_HEAD)?;
            if size > (end - self.at) as u64 {
                return Err(Error::LargeBox(size));
            }
            let name: [u8; 4] = self.bytes[self.at + 4..self.at + 8].try_into().unwrap_or_default();
            let content = self.at + head..self.at + size as usize;
            self.at = content.start;
            if self.one(level, name, content.clone())? == Read::Skip {
                return Ok(Read::Skip);
            }
        }
        Ok(Read::On)
    }

    /// The file has so many more bytes.
    fn reach(&self, bytes: usize) -> Result<(), Error> {
        match self.file_end >= (self.at + bytes) as u64 && self.bytes.len() >= self.at + bytes {
            true => Ok(()),
            false => Err(Error::Truncated),
        }
    }

    /// Reads one box.
    fn one(&mut self, level: Level, name: [u8; 4], content: At) -> Result<Read, Error> {
        let end = content.end;
        match (level, &name) {
            (Level::Movie, b"mvhd") => self.movie_header(content)?,
            (Level::Movie, b"trak") => return self.track(end),
            (Level::Movie, b"cmov") => return Err(Error::Compressed),
            (Level::Track, b"tkhd") => return self.track_header(content),
            (Level::Media, b"mdhd") => return self.media_header(content),
            (Level::Track, b"mdia") => return self.inside((|track| &mut track.mdia, "mdia"), Level::Media, end),
            (Level::Media, b"minf") => return self.inside((|track| &mut track.minf, "minf"), Level::Information, end),
            (Level::Information, b"stbl") => {
                return self.inside((|track| &mut track.stbl, "stbl"), Level::Samples, end);
            }
            (Level::Media, b"hdlr") => self.leaf(|track| &mut track.hdlr, "hdlr", content)?,
            (Level::Information, b"vmhd" | b"smhd") => self.kind_header(name, content)?,
            (Level::Information, b"dinf") => self.leaf(|track| &mut track.dinf, "dinf", content)?,
            (Level::Samples, _) => self.of_samples(name, content)?,
            _ => {}
        }
        self.at = end;
        Ok(Read::On)
    }

    fn track(&mut self, end: usize) -> Result<Read, Error> {
        if self.tracks.len() >= TRACKS_MAX {
            return Err(Error::TooMany("trak atoms"));
        }
        self.tracks.push(Track::default());
        if self.boxes(Level::Track, end)? == Read::Skip {
            self.tracks.pop();
            self.at = end;
        }
        Ok(Read::On)
    }

    /// The track whose boxes are read.
    fn last(&mut self) -> Option<&mut Track> {
        self.tracks.last_mut()
    }

    /// A box with others within, of which a track has one.
    fn inside(
        &mut self,
        (seen, name): (fn(&mut Track) -> &mut bool, &'static str),
        level: Level,
        end: usize,
    ) -> Result<Read, Error> {
        if self.last().is_some_and(|track| core::mem::replace(seen(track), true)) {
            return Err(Error::Duplicate(name));
        }
        self.boxes(level, end)
    }

    /// A box that is sent as it is, of which a track has one.
    fn leaf(&mut self, place: fn(&mut Track) -> &mut Option<At>, name: &'static str, content: At) -> Result<(), Error> {
        let Some(track) = self.last() else { return Ok(()) };
        match place(track).replace(content) {
            None => Ok(()),
            Some(_) => Err(Error::Duplicate(name)),
        }
    }

    /// `vmhd` and `smhd`, of which a track has one.
    fn kind_header(&mut self, name: [u8; 4], content: At) -> Result<(), Error> {
        let Some(track) = self.last() else { return Ok(()) };
        if track.vmhd.is_some() || track.smhd.is_some() {
            return Err(Error::Duplicate("vmhd/smhd"));
        }
        let place = if &name == b"vmhd" { &mut track.vmhd } else { &mut track.smhd };
        *place = Some(content);
        Ok(())
    }

    /// Whether a box with times has those of version 1; it has all that its version has.
    fn is_wide(&self, content: &At, least: (usize, usize), name: &'static str) -> Result<bool, Error> {
        let wide = content.len() >= least.0 && self.bytes[content.start] != 0;
        let least = if wide { least.1 } else { least.0 };
        if content.len() < least { Err(Error::Short(name)) } else { Ok(wide) }
    }

    /// A duration in a box, and where it stands.
    fn duration(&self, content: &At, wide: bool, at: (usize, usize)) -> u64 {
        match wide {
            true => u64_at(&self.bytes, content.start + at.1),
            false => u64::from(u32_at(&self.bytes, content.start + at.0)),
        }
    }

    fn put_duration(&mut self, content: &At, wide: bool, at: (usize, usize), duration: u64) {
        match wide {
            true => put_u64(&mut self.bytes, content.start + at.1, duration),
            false => put_u32(&mut self.bytes, content.start + at.0, duration),
        }
    }

    /// The units in a second stand before the duration.
    fn timescale(&self, content: &At, wide: bool) -> u32 {
        u32_at(&self.bytes, content.start + if wide { DURATION.1 } else { DURATION.0 } - 4)
    }

    fn movie_header(&mut self, content: At) -> Result<(), Error> {
        if self.mvhd.is_some() {
            return Err(Error::Duplicate("mvhd"));
        }
        let wide = self.is_wide(&content, MVHD, "mvhd")?;
        self.timescale = self.timescale(&content, wide);
        let duration = self.duration(&content, wide, DURATION);
        let left = self.span.left_of(duration, self.timescale).ok_or(Error::StartsTooLate)?;
        self.put_duration(&content, wide, DURATION, left);
        self.mvhd = Some(content);
        Ok(())
    }

    fn track_header(&mut self, content: At) -> Result<Read, Error> {
        let wide = self.is_wide(&content, TKHD, "tkhd")?;
        let duration = self.duration(&content, wide, TKHD_DURATION);
        let start = self.span.start_in(self.timescale);
        let Some(left) = self.span.left_of(duration, self.timescale).filter(|_| duration > start) else {
            return Ok(Read::Skip);
        };
        self.put_duration(&content, wide, TKHD_DURATION, left);
        if let Some(track) = self.last() {
            track.movie_duration = left;
        }
        self.at = content.end;
        self.leaf(|track| &mut track.tkhd, "tkhd", content)?;
        Ok(Read::On)
    }

    fn media_header(&mut self, content: At) -> Result<Read, Error> {
        let wide = self.is_wide(&content, MDHD, "mdhd")?;
        let timescale = self.timescale(&content, wide);
        let duration = self.duration(&content, wide, DURATION);
        let start = self.span.start_in(timescale);
        let Some(left) = self.span.left_of(duration, timescale).filter(|_| duration > start) else {
            return Ok(Read::Skip);
        };
        if let Some(track) = self.last() {
            (track.timescale, track.duration) = (timescale, left);
        }
        self.at = content.end;
        self.leaf(|track| &mut track.mdhd, "mdhd", content)?;
        Ok(Read::On)
    }

    /// The boxes of `stbl`.
    fn of_samples(&mut self, name: [u8; 4], content: At) -> Result<(), Error> {
        match &name {
            b"stsd" if content.len() < 16 => Err(Error::Short("stsd")),
            b"stsd" => self.leaf(|track| &mut track.stsd, "stsd", content),
            b"stts" => self.table(|track| &mut track.stts, ("stts", 8), content),
            b"stss" => self.table(|track| &mut track.stss, ("stss", 4), content),
            b"ctts" => self.table(|track| &mut track.ctts, ("ctts", 8), content),
            b"stsc" => self.table(|track| &mut track.stsc, ("stsc", 12), content),
            b"stsz" => self.sizes(content),
            b"stco" => self.offsets(("stco", 4), content),
            b"co64" => self.offsets(("co64", 8), content),
            _ => Ok(()),
        }
    }

    /// A table of entries of `width` bytes each.
    fn entries(&self, (name, width): (&'static str, usize), content: &At) -> Result<(SampleTable, u32), Error> {
        let short = Error::Short(name);
        let at = content.start;
        let first = at + TABLE_HEAD - BOX_HEAD;
        if first > content.end {
            return Err(short);
        }
        let count = u32_at(&self.bytes, at + 4);
        let entries = entries(first, count, width, content.end).ok_or(short)?;
        Ok((SampleTable { at, entries }, count))
    }

    fn table(
        &mut self,
        place: fn(&mut Track) -> &mut Option<SampleTable>,
        (name, width): (&'static str, usize),
        content: At,
    ) -> Result<(), Error> {
        let (table, _) = self.entries((name, width), &content)?;
        let Some(track) = self.last() else { return Ok(()) };
        match place(track).replace(table) {
            None => Ok(()),
            Some(_) => Err(Error::Duplicate(name)),
        }
    }

    fn sizes(&mut self, content: At) -> Result<(), Error> {
        if content.len() < 12 {
            return Err(Error::Short("stsz"));
        }
        let sizes = match u32_at(&self.bytes, content.start + 4) {
            0 => {
                let count = u32_at(&self.bytes, content.start + 8);
                let entries = entries(content.start + 12, count, 4, content.end).ok_or(Error::Short("stsz"))?;
                Sizes::Each(SampleTable { at: content.start, entries })
            }
            _ => Sizes::Uniform(content),
        };
        match self.last().and_then(|track| track.sizes.replace(sizes)) {
            None => Ok(()),
            Some(_) => Err(Error::Duplicate("stsz")),
        }
    }

    fn offsets(&mut self, (name, width): (&'static str, usize), content: At) -> Result<(), Error> {
        let (table, chunks) = self.entries((name, width), &content)?;
        match self.last().and_then(|track| track.offsets.replace(Offsets { table, width, chunks })) {
            None => Ok(()),
            Some(_) => Err(Error::Duplicate("stco/co64")),
        }
    }

    /// What is sent of a film, whose media is at `media` in a file of `file` bytes.
    pub fn cut(mut self, rules: &Rules, ftyp: &[u8], media: &Range<u64>, file: u64) -> Result<Cut, Error> {
        let span = self.span;
        let (mut start, mut end) = (file, 0);
        for track in &mut self.tracks {
            samples::cut(track, &mut self.bytes, rules, &span)?;
            chunks::cut(track, &mut self.bytes, &span, (file, media.end))?;
            start = start.min(track.start_offset);
            end = end.max(track.end_offset);
        }
        let durations = self.tracks.iter().map(|track| (track.mdhd.clone(), track.duration));
        for (content, duration) in durations.collect::<Vec<_>>() {
            if let Some(content) = content {
                let wide = self.bytes[content.start] != 0;
                self.put_duration(&content, wide, DURATION, duration);
            }
        }
        if end <= start {
            return Err(Error::Table("no data between start time and end time"));
        }
        if start >= media.end {
            return Err(Error::Table("start time is out mp4 mdat atom"));
        }
        Ok(self.write(ftyp, start..end))
    }

    /// Writes the new head, behind `ftyp`.
    fn write(&self, ftyp: &[u8], media: Range<u64>) -> Cut {
        let out = Vec::with_capacity(ftyp.len() + self.bytes.len() + 64);
        let mut writing = Writing { moov: &self.bytes, out, offsets: Vec::new() };
        writing.out.extend_from_slice(ftyp);
        writing.within(b"moov", |writing| {
            writing.leaf(b"mvhd", self.mvhd.as_ref());
            self.tracks.iter().for_each(|track| track.write(writing));
        });
        let Writing { mut out, offsets, .. } = writing;
        let bytes = media.end - media.start;
        if bytes > u64::from(u32::MAX) - BOX_HEAD as u64 {
            out.extend_from_slice(b"\0\0\0\x01mdat");
            out.extend_from_slice(&(bytes + 2 * BOX_HEAD as u64).to_be_bytes());
        } else {
            out.extend_from_slice(&(bytes as u32 + BOX_HEAD as u32).to_be_bytes());
            out.extend_from_slice(b"mdat");
        }
        // Chunks are as far from the media's beginning as they were.
        let moved = (out.len() as u64).wrapping_sub(media.start);
        for (table, width) in offsets {
            for at in table.step_by(width) {
                match width {
                    8 => {
                        let offset = u64_at(&out, at).wrapping_add(moved);
                        put_u64(&mut out, at, offset);
                    }
                    _ => {
                        let offset = u64::from(u32_at(&out, at)).wrapping_add(moved);
                        put_u32(&mut out, at, offset);
                    }
                }
            }
        }
        Cut { head: out, media }
    }
}
