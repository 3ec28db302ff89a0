//! Where the samples of a span lie: `stsc` says how many a chunk has, `stsz` how long they are,
//! `stco` and `co64` where chunks begin (ISO/IEC 14496-12 sections 8.7.3 to 8.7.5).

use crate::Span;
use crate::error::Error;
use crate::table::{put_u32, put_u64, u32_at, u64_at};
use crate::track::{Offsets, Run, SampleTable, Sizes, Track};

/// Bytes of an entry of `stsc`: the first chunk, samples of each, what describes them.
const RUN: usize = size_of::<Run>();

/// Bytes of an entry of `stsz`.
const SIZE: usize = 4;

/// Which end is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// Cuts all three of a track, in a file of so many bytes whose media ends at `media_end`.
pub fn cut(track: &mut Track, moov: &mut [u8], span: &Span, file: (u64, u64)) -> Result<(), Error> {
    cut_runs(track, moov, span)?;
    cut_sizes(track, moov, span, file.0)?;
    cut_offsets(track, moov, span, file)
}

/// `stsc`.
fn cut_runs(track: &mut Track, moov: &mut [u8], span: &Span) -> Result<(), Error> {
    let entries = track.stsc.as_ref().map(|table| table.entries.clone()).ok_or(Error::None("stsc"))?;
    if entries.is_empty() {
        return Err(Error::Table("zero number of entries in stsc atom"));
    }
    cut_run(track, moov, End::First, track.start_sample as u32)?;
    if span.length.is_some() {
        let mut samples = track.end_sample.wrapping_sub(track.start_sample) as u32;
        if let Some(run) = &mut track.first_run {
            let first = u32_at(run, 4).min(samples);
            put_u32(run, 4, u64::from(first));
            samples -= first;
        }
        cut_run(track, moov, End::Last, samples)?;
    }
    let Some(table) = &track.stsc else { return Ok(()) };
    for at in table.entries.clone().step_by(RUN) {
        let chunk = u64::from(u32_at(moov, at)).wrapping_sub(track.start_chunk);
        put_u32(moov, at, chunk);
    }
    Ok(())
}

/// The run of chunks that a sample lies in.
struct Found {
    /// Where its entry stands; the first chunk, and the one behind it.
    at: usize,
    chunk: u32,
    next: u32,
    /// Samples of each chunk, and of the chunks of the run before.
    samples: u32,
    samples_before: u32,
    /// The sample, counted from the run's first.
    sample: u32,
}

fn find(table: &SampleTable, chunks: u32, moov: &[u8], mut sample: u32, end: End) -> Result<Found, Error> {
    const UNORDERED: Error = Error::Table("unordered mp4 stsc chunks");
    let mut samples_before = 0;
    for at in table.entries.clone().step_by(RUN) {
        let (chunk, samples) = (u32_at(moov, at), u32_at(moov, at + 4));
        let is_last = at + RUN >= table.entries.end;
        let next = if is_last { chunks.wrapping_add(1) } else { u32_at(moov, at + RUN) };
        let runs = next.checked_sub(chunk).ok_or(UNORDERED)?;
        let all = u64::from(runs) * u64::from(samples);
        if is_last && u64::from(sample) > all {
            return Err(Error::Table(match end {
                End::First => "start time is out mp4 stsc chunks",
                End::Last => "end time is out mp4 stsc chunks",
            }));
        }
        if is_last || u64::from(sample) < all {
            return Ok(Found { at, chunk, next, samples, samples_before, sample });
        }
        sample -= all as u32;
        if runs > 0 {
            samples_before = samples;
        }
    }
    Err(Error::Table("zero number of entries in stsc atom"))
}

fn cut_run(track: &mut Track, moov: &mut [u8], end: End, sample: u32) -> Result<(), Error> {
    let chunks = track.offsets.as_ref().map_or(0, |offsets| offsets.chunks);
    let Some(table) = &mut track.stsc else { return Ok(()) };
    let found = find(table, chunks, moov, sample, end)?;
    if found.samples == 0 {
        return Err(Error::Table("zero number of samples"));
    }
    let first_chunk = found.chunk.checked_sub(1).ok_or(Error::Table("zero chunk"))?;
    let described = u32_at(moov, found.at + 8);
    let chunk = u64::from(first_chunk) + u64::from(found.sample / found.samples);
    let of_chunk = found.sample % found.samples;
    let run = |chunk: u64, samples: u32| {
        let mut run = Run::default();
        put_u32(&mut run, 0, chunk);
        put_u32(&mut run, 4, u64::from(samples));
        put_u32(&mut run, 8, u64::from(described));
        run
    };
    let (samples, next) = match end {
        End::First => {
            table.entries.start = found.at;
            (track.start_chunk, track.start_chunk_samples) = (chunk, u64::from(of_chunk));
            put_u32(moov, found.at, chunk + 1);
            (found.samples - of_chunk, found.next)
        }
        End::Last => {
            let whole = if found.sample > 0 { found.samples } else { found.samples_before };
            table.entries.end = if found.sample > 0 { found.at + RUN } else { found.at };
            track.end_chunk = if of_chunk > 0 { chunk + 1 } else { chunk };
            track.end_chunk_samples = u64::from(if of_chunk > 0 { of_chunk } else { whole });
            (of_chunk, found.chunk.wrapping_add(1))
        }
    };
    if of_chunk == 0 {
        return Ok(());
    }
    // It has the run to itself, or is put before the others of it, or behind them.
    if u64::from(next).wrapping_sub(chunk) == 2 {
        put_u32(moov, found.at + 4, u64::from(samples));
    } else if end == End::First {
        track.first_run = Some(run(1, samples));
        put_u32(moov, found.at, chunk + 2);
    } else {
        track.last_run = Some(run(track.end_chunk.wrapping_sub(track.start_chunk), samples));
    }
    Ok(())
}

/// `stsz`; of samples that are all alike nothing is left out, as with nginx.
fn cut_sizes(track: &mut Track, moov: &[u8], span: &Span, file: u64) -> Result<(), Error> {
    let Some(Sizes::Each(table)) = &mut track.sizes else { return Ok(()) };
    let all = table.entries.clone();
    let count = (all.len() / SIZE) as u64;
    if track.start_sample >= count {
        return Err(Error::Table("start time is out mp4 stsz samples"));
    }
    let place = |sample: u64| all.start + sample as usize * SIZE;
    // Those of so many samples before one.
    let bytes_before = |sample: u64, samples: u64| {
        let first = sample.checked_sub(samples)?;
        Some((place(first)..place(sample)).step_by(SIZE).map(|at| u64::from(u32_at(moov, at))).sum::<u64>())
    };
    let large = |bytes: Option<u64>, text| bytes.filter(|bytes| *bytes <= file).ok_or(Error::Table(text));
    track.start_chunk_bytes =
        large(bytes_before(track.start_sample, track.start_chunk_samples), "too large mp4 start samples size")?;
    table.entries.start = place(track.start_sample);
    if span.length.is_some() {
        if track.end_sample > count {
            return Err(Error::Table("end time is out mp4 stsz samples"));
        }
        table.entries.end = place(track.end_sample.max(track.start_sample));
        track.end_chunk_bytes =
            large(bytes_before(track.end_sample, track.end_chunk_samples), "too large mp4 end samples size")?;
    }
    Ok(())
}

/// `stco` and `co64`: where the media begins and ends.
fn cut_offsets(track: &mut Track, moov: &mut [u8], span: &Span, (file, media_end): (u64, u64)) -> Result<(), Error> {
    const LARGE: Error = Error::Table("too large chunk offset");
    let Some(Offsets { table, width, chunks }) = &mut track.offsets else { return Err(Error::None("stco")) };
    let (wide, chunks) = (*width == 8, u64::from(*chunks));
    let text = |narrow, broad| Error::Table(if wide { broad } else { narrow });
    if track.start_chunk >= chunks {
        return Err(text("start time is out mp4 stco chunks", "start time is out mp4 co64 chunks"));
    }
    let all = table.entries.clone();
    let place = |chunk: u64| all.start + chunk as usize * *width;
    let behind = |moov: &[u8], at: usize, bytes: u64| {
        let offset = if wide { u64_at(moov, at) } else { u64::from(u32_at(moov, at)) };
        let behind = offset.checked_add(bytes).filter(|behind| *behind <= file).ok_or(LARGE)?;
        if wide || u32::try_from(behind).is_ok() { Ok(behind) } else { Err(LARGE) }
    };
    let first = place(track.start_chunk);
    track.start_offset = behind(moov, first, track.start_chunk_bytes)?;
    match wide {
        true => put_u64(moov, first, track.start_offset),
        false => put_u32(moov, first, track.start_offset),
    }
    table.entries.start = first;
    track.end_offset = media_end;
    if span.length.is_some() {
        if track.end_chunk > chunks || track.end_chunk < track.start_chunk {
            return Err(text("end time is out mp4 stco chunks", "end time is out mp4 co64 chunks"));
        }
        table.entries.end = place(track.end_chunk);
        if track.end_chunk > track.start_chunk {
            track.end_offset = behind(moov, place(track.end_chunk - 1), track.end_chunk_bytes)?;
        }
    }
    if table.entries.is_empty() {
        (track.start_offset, track.end_offset) = (file, 0);
    }
    Ok(())
}
