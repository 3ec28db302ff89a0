//! Upstreams that answer wrongly to who asks by slices: what is whole is what was asked for.

use super::{Client, Outcome, Random, ask_with, engine};
use crate::Engine;
use configuration::program::{Block, FieldRules, FilterSet};
use configuration::proxying::ProxyRules;
use configuration::subrequests::SubrequestRules;
use core::ops::Range;
use features::Value;
use std::sync::Arc;

/// Bytes of a slice.
const SIZE: usize = 3_000;

/// All of what a request is for.
fn document(tag: u32) -> Vec<u8> {
    let length = 1 + tag as usize * 7_919 % 20_000;
    format!("<{tag}>").bytes().cycle().take(length).collect()
}

/// The bytes that a request asks for.
fn range_of(tag: u32) -> (usize, usize) {
    let length = document(tag).len();
    let start = tag as usize * 104_729 % length;
    (start, length.min(start + 1 + tag as usize * 31 % 9_000))
}

/// An answer to a request for a slice, well or not so well made, and whether the connection
/// ends behind it; none if it is for no slice.
pub(super) fn answer(random: &mut Random, request: &str) -> Option<(Vec<u8>, bool)> {
    let field = |name: &str| request.split_once(name).and_then(|(_, rest)| rest.split("\r\n").next());
    let tag: u32 = field("X-Tag: ")?.parse().ok()?;
    let (start, last) = field("Range: bytes=")?.split_once('-')?;
    let (start, last): (usize, usize) = (start.parse().ok()?, last.parse().ok()?);
    let whole = document(tag);
    let length = whole.len();
    if start >= length {
        return Some((b"HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n".to_vec(), false));
    }
    let end = length.min(last + 1);
    // Most slices are well made: an answer has several.
    let fault = random.below(80);
    let (first, behind) = match fault {
        0 => (start + 1, end),
        1 => (start, end - 1),
        2 => (start, length),
        _ => (start, end),
    };
    let body = whole.get(first..behind).unwrap_or_default();
    let etag = if fault == 3 { "other" } else { "e" };
    // What the first says of the whole is believed, and more than that is asked for.
    let told = if matches!(fault, 4 | 5) { length + 1 } else { length };
    let range = match fault {
        6 => String::new(),
        7 => format!("Content-Range: bytes {start}-{}/*\r\n", end - 1),
        8 => "Content-Range: bytes 7-5/6\r\n".to_owned(),
        _ => format!("Content-Range: bytes {first}-{}/{told}\r\n", behind.max(1) - 1),
    };
    let head = format!("HTTP/1.1 206 Partial Content\r\n{range}ETag: \"{etag}\"\r\n");
    let sent = match fault {
        9 => body.len() + 7,
        10 => body.len().saturating_sub(1),
        _ => body.len(),
    };
    let mut out = head.into_bytes();
    match fault {
        11 => return Some((b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), false)),
        12 => {
            out = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
            out.extend_from_slice(&whole);
        }
        13 => return Some((Vec::new(), true)),
        14 => return Some((b"garbage\r\n\r\n".to_vec(), true)),
        15..30 => {
            out.extend_from_slice(format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len().max(1)).as_bytes());
            out.extend_from_slice(if body.is_empty() { b"x" } else { body });
            // Or the end is missing, or it is another's.
            out.extend_from_slice(if fault == 15 { b"\r\n" } else { b"\r\n0\r\nX: y\r\n\r\n" });
        }
        16.. | 0..=10 => {
            out.extend_from_slice(format!("Content-Length: {sent}\r\n\r\n").as_bytes());
            out.extend_from_slice(body);
            if fault == 30 {
                out.truncate(out.len() - body.len() / 2);
            }
        }
    }
    Some((out, fault <= 15 || fault == 30 || random.below(3) == 0))
}

/// One that asks by slices.
fn by_slices(change: impl FnOnce(&mut Block)) -> Engine {
    engine(true, |block| {
        let mut rules = ProxyRules::clone(&block.proxy);
        let range = Value::parse(b"$slice_range", &mut |_| Some(0)).expect("a variable");
        rules.set_fields.push((b"Range"[..].into(), range));
        rules.prepare();
        block.proxy = Arc::new(rules);
        block.subrequests = Arc::new(SubrequestRules { slice: SIZE as u64, ..SubrequestRules::default() });
        change(block);
        block.filters = FilterSet::of(block);
    })
}

/// Shows that what is whole is what was asked for, and what is not a part of it; how many
/// were whole, of which statuses, and how many were not.
fn nobody_is_harmed(mut engine: Engine, asks_for: fn(u32) -> String) -> (usize, usize, usize) {
    let (mut all, mut parts, mut cut) = (0, 0, 0);
    ask_with(&mut engine, (0x511c_e5ed, 1_000), asks_for, |client: &Client| {
        let tag = client.tag;
        let expected: Range<usize> = match client.status {
            200 => 0..document(tag).len(),
            206 => range_of(tag).0..range_of(tag).1,
            _ => return,
        };
        let whole = client.outcome == Outcome::Whole;
        let document = &document(tag)[expected];
        assert!(document.starts_with(&client.body), "{tag}: {}", client.body.len());
        assert!(!whole || document == client.body, "{tag}: {} of {}", client.body.len(), document.len());
        all += usize::from(whole && client.status == 200);
        parts += usize::from(whole && client.status == 206);
        cut += usize::from(client.outcome == Outcome::Cut);
    });
    assert!(engine.rest.subs.is_idle() && engine.rest.subs.results.is_empty(), "{:?}", engine.rest.subs);
    assert_eq!(engine.rest.subs.alive, 0);
    (all, parts, cut)
}

fn asks_for_range(tag: u32) -> String {
    let (start, end) = range_of(tag);
    format!("Range: bytes={start}-{}\r\n", end - 1)
}

#[test]
fn a_thousand_faulty_slices_harm_nobody() {
    let (all, parts, cut) = nobody_is_harmed(by_slices(|_| {}), |_| String::new());
    assert!(all > 200 && parts == 0 && cut > 50, "{all} {parts} {cut}");
}

#[test]
fn parts_of_what_comes_by_slices_harm_nobody() {
    let (all, parts, cut) = nobody_is_harmed(by_slices(|_| {}), asks_for_range);
    assert!(parts > 200 && cut > 50, "{all} {parts} {cut}");
}

/// Where no ranges are given, all of it comes, wherever it was begun.
#[test]
fn what_was_begun_late_is_begun_anew() {
    let engine = by_slices(|block| {
        let fields = FieldRules { max_ranges: Some(0), ..FieldRules::clone(&block.fields) };
        block.fields = Arc::new(fields);
    });
    let (all, parts, cut) = nobody_is_harmed(engine, asks_for_range);
    assert!(all > 150 && parts == 0 && cut > 50, "{all} {parts} {cut}");
}
