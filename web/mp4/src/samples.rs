//! Which samples are in a span: `stts` says how long they last, `stss` which of them need no
//! other, `ctts` when they are shown (ISO/IEC 14496-12 sections 8.6.1 and 8.6.2).

use crate::error::Error;
use crate::table::{put_u32, u32_at};
use crate::track::Track;
use crate::{Rules, Span};

/// Bytes of an entry of `stts` and `ctts`: how many samples, and what holds for each.
const RUN: usize = 8;

/// Bytes of an entry of `stss`.
const SYNC: usize = 4;

/// The run of samples that a time lies in, or a sample.
struct Found {
    /// Where its entry stands.
    at: usize,
    /// Its samples before it.
    before: u32,
    count: u32,
    duration: u32,
}

/// Cuts all three of a track.
pub fn cut(track: &mut Track, moov: &mut [u8], rules: &Rules, span: &Span) -> Result<(), Error> {
    if track.stts.is_none() {
        return Err(Error::None("stts"));
    }
    cut_start(track, moov, rules, span)?;
    cut_end(track, moov, span);
    cut_syncs(track, moov, span);
    cut_shown(track, moov, span);
    Ok(())
}

/// The samples before a time are left out of `stts`.
fn cut_start(track: &mut Track, moov: &mut [u8], rules: &Rules, span: &Span) -> Result<(), Error> {
    let time = span.start_in(track.timescale).wrapping_add(track.prefix);
    let (sample, found) = find(track, moov, time);
    let mut found = found.ok_or(Error::Table("start time is out mp4 stts samples"))?;
    let mut back = if rules.start_key_frame { to_key_frame(track, moov, sample as u32)? } else { 0 };
    let start_sample = sample.checked_sub(u64::from(back)).ok_or(Error::Table("zero sync sample"))?;
    let Some(table) = &mut track.stts else { return Ok(()) };
    // The key frame may be in a run before it.
    while found.before < back {
        track.prefix = track.prefix.wrapping_add(u64::from(found.before.wrapping_mul(found.duration)));
        back -= found.before;
        let at = found.at.checked_sub(RUN).filter(|at| *at >= table.entries.start);
        let at = at.ok_or(Error::Table("zero sync sample"))?;
        let (count, duration) = (u32_at(moov, at), u32_at(moov, at + 4));
        found = Found { at, before: count, count, duration };
    }
    track.prefix = track.prefix.wrapping_add(u64::from(back.wrapping_mul(found.duration)));
    track.duration = track.duration.wrapping_add(track.prefix);
    put_u32(moov, found.at, u64::from(found.count - (found.before - back)));
    table.entries.start = found.at;
    track.start_sample = start_sample;
    Ok(())
}

/// And those behind its end.
fn cut_end(track: &mut Track, moov: &mut [u8], span: &Span) {
    let Some(length) = span.length_in(track.timescale) else { return };
    let (sample, found) = find(track, moov, length.wrapping_add(track.prefix));
    track.end_sample = track.start_sample.wrapping_add(sample);
    if let (Some(found), Some(table)) = (found, &mut track.stts) {
        put_u32(moov, found.at, u64::from(found.before));
        table.entries.end = found.at + RUN;
    }
}

/// How many samples there are before a time, and the run that it lies in, if it lies in one.
fn find(track: &Track, moov: &[u8], mut time: u64) -> (u64, Option<Found>) {
    let mut samples = 0_u64;
    let entries = track.stts.as_ref().map_or(0..0, |table| table.entries.clone());
    for at in entries.step_by(RUN) {
        let (count, duration) = (u32_at(moov, at), u32_at(moov, at + 4));
        let lasts = u64::from(count) * u64::from(duration);
        if time < lasts {
            let before = time / u64::from(duration);
            return (samples + before, Some(Found { at, before: before as u32, count, duration }));
        }
        samples += u64::from(count);
        time -= lasts;
    }
    (samples, None)
}

/// How many samples before this one, which is counted from 0, the last is that needs no other.
fn to_key_frame(track: &Track, moov: &[u8], sample: u32) -> Result<u32, Error> {
    let Some(table) = &track.stss else { return Ok(0) };
    // In the table they are counted from 1.
    let sample = sample.wrapping_add(1);
    let mut back = 0;
    for at in table.entries.clone().step_by(SYNC) {
        let key = u32_at(moov, at);
        if key == 0 {
            return Err(Error::Table("zero sync sample"));
        }
        if key > sample {
            break;
        }
        back = sample - key;
    }
    Ok(back)
}

/// `stss`: those within, counted anew.
fn cut_syncs(track: &mut Track, moov: &mut [u8], span: &Span) {
    let (start, end) = (track.start_sample as u32, track.end_sample as u32);
    let Some(table) = &mut track.stss else { return };
    let first_from = |entries: core::ops::Range<usize>, from: u32| {
        let found = entries.clone().step_by(SYNC).find(|at| u32_at(moov, *at) >= from.wrapping_add(1));
        found.unwrap_or(entries.end)
    };
    table.entries.start = first_from(table.entries.clone(), start);
    if span.length.is_some() {
        table.entries.end = first_from(table.entries.clone(), end);
    }
    for at in table.entries.clone().step_by(SYNC) {
        let sample = u32_at(moov, at).wrapping_sub(start);
        put_u32(moov, at, u64::from(sample));
    }
}

/// `ctts`, of which nothing is left where all are outside.
fn cut_shown(track: &mut Track, moov: &mut [u8], span: &Span) {
    let Some(table) = &mut track.ctts else { return };
    let run_of = |moov: &[u8], table: &crate::track::SampleTable, mut sample: u32| {
        for at in table.entries.clone().step_by(RUN) {
            let count = u32_at(moov, at);
            if sample <= count {
                return Some((at, count, sample.wrapping_sub(1)));
            }
            sample = sample.wrapping_sub(count);
        }
        None
    };
    match run_of(moov, table, (track.start_sample as u32).wrapping_add(1)) {
        Some((at, count, before)) => {
            put_u32(moov, at, u64::from(count.wrapping_sub(before)));
            table.entries.start = at;
        }
        None => table.entries.start = table.entries.end,
    }
    if span.length.is_some() {
        let samples = track.end_sample.wrapping_sub(track.start_sample) as u32;
        if let Some((at, _, before)) = run_of(moov, table, samples.wrapping_add(1)) {
            put_u32(moov, at, u64::from(before));
            table.entries.end = at + RUN;
        }
    }
    if table.entries.is_empty() {
        track.ctts = None;
    }
}
