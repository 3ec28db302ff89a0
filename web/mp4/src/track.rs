//! What is known of a track, and how it is written.

use crate::table::put_u32;
use core::ops::Range;

/// Where something lies within `moov`.
pub type At = Range<usize>;

/// A table: where the content of its box begins, and which of its entries are left.
#[derive(Clone, Debug)]
pub struct SampleTable {
    pub at: usize,
    pub entries: At,
}

/// Where chunks lie in the file.
#[derive(Clone, Debug)]
pub struct Offsets {
    pub table: SampleTable,
    /// Bytes of each: 4 in `stco`, 8 in `co64`.
    pub width: usize,
    /// How many there were.
    pub chunks: u32,
}

/// How long samples are.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// All are alike: the content of the box.
    Uniform(At),
    /// Each is told.
    Each(SampleTable),
}

/// A run of chunks with as many samples, as an entry of `stsc`.
pub type Run = [u8; 12];

/// A track: its boxes, whose content is at a place in `moov`, and what they come to.
#[derive(Clone, Debug, Default)]
pub struct Track {
    pub tkhd: Option<At>,
    pub mdia: bool,
    pub mdhd: Option<At>,
    pub hdlr: Option<At>,
    pub minf: bool,
    pub vmhd: Option<At>,
    pub smhd: Option<At>,
    pub dinf: Option<At>,
    pub stbl: bool,
    pub stsd: Option<At>,
    pub stts: Option<SampleTable>,
    pub stss: Option<SampleTable>,
    pub ctts: Option<SampleTable>,
    pub stsc: Option<SampleTable>,
    /// The first chunk, and the last, where some of their samples are left out.
    pub first_run: Option<Run>,
    pub last_run: Option<Run>,
    pub sizes: Option<Sizes>,
    pub offsets: Option<Offsets>,

    /// Units in a second.
    pub timescale: u32,
    /// In these units, and in those of the film.
    pub duration: u64,
    pub movie_duration: u64,
    /// Units before the time that are sent, for the key frame, and hidden.
    pub prefix: u64,
    /// Samples and chunks, from 0; the ends are behind the last.
    pub start_sample: u64,
    pub end_sample: u64,
    pub start_chunk: u64,
    pub end_chunk: u64,
    /// Samples of the first chunk that are left out, and of the last that are sent; and their
    /// bytes.
    pub start_chunk_samples: u64,
    pub end_chunk_samples: u64,
    pub start_chunk_bytes: u64,
    pub end_chunk_bytes: u64,
    /// Where its media begins in the file, and ends.
    pub start_offset: u64,
    pub end_offset: u64,
}

/// A new head while it is written, from the boxes of `moov`.
#[derive(Debug)]
pub struct Writing<'a> {
    pub moov: &'a [u8],
    pub out: Vec<u8>,
    /// Where offsets of chunks stand in it, and how wide each is.
    pub offsets: Vec<(At, usize)>,
}

impl Writing<'_> {
    /// A box with others within.
    pub fn within(&mut self, name: &[u8; 4], inside: impl FnOnce(&mut Self)) {
        let begins = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(name);
        inside(self);
        let bytes = (self.out.len() - begins) as u64;
        put_u32(&mut self.out, begins, bytes);
    }

    /// A box as it was.
    pub fn leaf(&mut self, name: &[u8; 4], content: Option<&At>) {
        if let Some(content) = content {
            let moov = self.moov;
            self.within(name, |writing| writing.out.extend_from_slice(&moov[content.clone()]));
        }
    }

    /// The head of a table, and how many entries follow.
    fn count(&mut self, at: usize, entries: u32) {
        self.out.extend_from_slice(&self.moov[at..at + 4]);
        self.out.extend_from_slice(&entries.to_be_bytes());
    }

    /// A table of entries of `width` bytes each.
    fn table(&mut self, name: &[u8; 4], (table, width): (&SampleTable, usize)) {
        let moov = self.moov;
        self.within(name, |writing| {
            writing.count(table.at, (table.entries.len() / width) as u32);
            writing.out.extend_from_slice(&moov[table.entries.clone()]);
        });
    }
}

impl Track {
    /// Writes its boxes, in nginx's order.
    pub fn write(&self, writing: &mut Writing<'_>) {
        writing.within(b"trak", |writing| {
            writing.leaf(b"tkhd", self.tkhd.as_ref());
            self.write_edit(writing);
            if self.mdia {
                writing.within(b"mdia", |writing| self.write_media(writing));
            }
        });
    }

    /// An edit list that hides what is before the time, in place of the one that was there.
    fn write_edit(&self, writing: &mut Writing<'_>) {
        if self.prefix == 0 {
            return;
        }
        writing.within(b"edts", |writing| {
            writing.within(b"elst", |writing| {
                let out = &mut writing.out;
                // Version 1; one entry, at rate 1.
                out.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 1]);
                out.extend_from_slice(&self.movie_duration.to_be_bytes());
                out.extend_from_slice(&self.prefix.to_be_bytes());
                out.extend_from_slice(&[0, 1, 0, 0]);
            });
        });
    }

    fn write_media(&self, writing: &mut Writing<'_>) {
        writing.leaf(b"mdhd", self.mdhd.as_ref());
        writing.leaf(b"hdlr", self.hdlr.as_ref());
        if !self.minf {
            return;
        }
        writing.within(b"minf", |writing| {
            writing.leaf(b"vmhd", self.vmhd.as_ref());
            writing.leaf(b"smhd", self.smhd.as_ref());
            writing.leaf(b"dinf", self.dinf.as_ref());
            if self.stbl {
                writing.within(b"stbl", |writing| self.write_samples(writing));
            }
        });
    }

    fn write_samples(&self, writing: &mut Writing<'_>) {
        let moov = writing.moov;
        writing.leaf(b"stsd", self.stsd.as_ref());
        for (name, table, width) in [(b"stts", &self.stts, 8), (b"stss", &self.stss, 4), (b"ctts", &self.ctts, 8)] {
            if let Some(table) = table {
                writing.table(name, (table, width));
            }
        }
        if let Some(table) = &self.stsc {
            writing.within(b"stsc", |writing| {
                let runs = table.entries.len() / size_of::<Run>();
                let more = usize::from(self.first_run.is_some()) + usize::from(self.last_run.is_some());
                writing.count(table.at, (runs + more) as u32);
                writing.out.extend(self.first_run.iter().flatten());
                writing.out.extend_from_slice(&moov[table.entries.clone()]);
                writing.out.extend(self.last_run.iter().flatten());
            });
        }
        match &self.sizes {
            Some(Sizes::Uniform(content)) => writing.leaf(b"stsz", Some(content)),
            Some(Sizes::Each(table)) => writing.within(b"stsz", |writing| {
                writing.out.extend_from_slice(&moov[table.at..table.at + 4]);
                // Not all are alike.
                writing.count(table.at + 4, (table.entries.len() / 4) as u32);
                writing.out.extend_from_slice(&moov[table.entries.clone()]);
            }),
            None => {}
        }
        if let Some(Offsets { table, width, .. }) = &self.offsets {
            let name = if *width == 4 { b"stco" } else { b"co64" };
            writing.table(name, (table, *width));
            let end = writing.out.len();
            writing.offsets.push((end - table.entries.len()..end, *width));
        }
    }
}
