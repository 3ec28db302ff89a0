//! What streams ask for, and how answers are held against what was wanted, in simulated time.

use crate::streaming::{BYTES, met, paced, played, ran, report};
use crate::world::{Reply, current_connection, current_request, ms, response, us};
use load::{Check, Expect, Heads, Pattern, Request, Weighted, Wrong};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn weighted(weight: u32, path: &str) -> Weighted<Request> {
    Weighted { weight, item: Request::get("10.0.0.2", path) }
}

/// A quarter of a second of content, at eight times the rate.
fn segment() -> Reply {
    paced(BYTES / 4, 8 * BYTES, |at| at)
}

/// The path of the request at hand.
fn path() -> String {
    let request = String::from_utf8(current_request()).expect("text");
    request.split(' ').nth(1).expect("a path").to_owned()
}

/// Each is asked for as often as it is there.
#[test]
fn weights_are_heeded() {
    let mut plan = played(5);
    plan.load.requests = vec![weighted(5, "/often"), weighted(1, "/seldom")];
    let mut asked: BTreeMap<(usize, u32), Vec<String>> = BTreeMap::new();
    ran(&plan, |_, _| {
        asked.entry(current_connection()).or_default().push(path());
        segment()
    });
    for asked in asked.values() {
        let seldom = asked.iter().filter(|path| *path == "/seldom").count();
        assert!(asked.len() >= 18 && seldom == (asked.len() + 4) / 6, "{asked:?}");
    }
}

/// Streams begin together, or each with another request, whichever part of the plan has them.
#[test]
fn streams_begin_together_or_spread() {
    let mut plan = played(1);
    plan.load.connections = 7;
    plan.load.requests = (1..=9).map(|number| weighted(1, &format!("/{number}"))).collect();
    let first = |plan: &load::StreamingPlan| {
        let mut first = BTreeMap::new();
        ran(plan, |_, _| {
            first.entry(current_connection()).or_insert_with(path);
            segment()
        });
        first.into_values().collect::<Vec<_>>()
    };
    assert!(first(&plan).len() == 7 && first(&plan).iter().all(|path| path == "/1"));
    plan.spread = true;
    let parts = [0, 1, 2].map(|part| plan.share(part, 3).expect("it has streams"));
    let mut all: Vec<String> = parts.iter().flat_map(first).collect();
    all.sort();
    assert_eq!(all, ["/1", "/2", "/3", "/4", "/5", "/6", "/7"]);
}

/// Lengths, statuses, fields and contents that are not as wanted are counted, each answer once.
#[test]
fn answers_are_held_against_what_is_wanted() {
    let mut plan = played(3);
    plan.load.expect = Expect { length: Some(BYTES / 4), status: Some(200) };
    let pattern = Check::Matches(Arc::new(Pattern::new("^x+$").expect("an expression")));
    let header = Check::header("Content-Length").expect("a header");
    plan.load.checks = Arc::new([header, Check::Contains(b"xxx".as_slice().into()), pattern]);
    let right = ran(&plan, |_, _| segment());
    assert!(right.wrong == 0 && right.answers > 20, "{right:?}");
    let judged = report(&plan, right);
    assert_eq!(met(&judged, &["wrong=0", "wrong<0.1%"]), [true; 2]);
    let long = BYTES as usize / 4;
    let wrong = ran(&plan, |n, _| match n {
        5 => Reply::bytes(us(100), response("200 OK", long - 1)),
        6 => Reply::bytes(us(100), response("206 Partial Content", long)),
        7 => {
            let mut bytes = response("200 OK", long);
            let end = bytes.len();
            bytes[end - long..].fill(b'y');
            Reply::bytes(us(100), bytes)
        }
        // A failure as well.
        8 => Reply::bytes(us(100), response("500 Internal Server Error", 10)),
        _ => segment(),
    });
    let by = &wrong.wrong_by;
    assert_eq!((wrong.wrong, wrong.errors.statuses, wrong.errors.total()), (4, 1, 1), "{wrong:?}");
    assert_eq!((by.wrong_length, by.wrong_status, by.wrong_text, by.wrong_match, by.wrong_header), (1, 2, 1, 1, 0));
    let kinds: BTreeSet<Wrong> = wrong.wrong_answers.iter().map(|one| one.wrong).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [Wrong::Status, Wrong::Length, Wrong::Text, Wrong::Pattern]);
    let judged = report(&plan, wrong);
    assert_eq!(met(&judged, &["wrong=0", "wrong<0.1%", "wrong=4"]), [false, false, true]);
}

/// What one request wants is its own (`want` of a line).
#[test]
fn a_request_may_want_something_else() {
    let mut plan = played(2);
    plan.load.requests = vec![weighted(1, "/a"), weighted(1, "/b")];
    plan.load.requests[1].item.expect = Some(Expect { length: None, status: Some(203) });
    let figures = ran(&plan, |_, _| segment());
    assert!(figures.wrong.abs_diff(figures.answers / 2) <= 4 && figures.wrong == figures.wrong_by.wrong_status);
}

/// Redirects to the same server are followed: what leads on is not played, and its time is part of the first byte's.
#[test]
fn redirects_are_followed() {
    let led = |to: &str| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 9000\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.resize(bytes.len() + 9_000, b'r');
        Reply::bytes(ms(5), bytes)
    };
    let mut plan = played(3);
    plan.load.follow = 2;
    let figures = ran(&plan, |_, _| if path() == "/" { led("/there?x") } else { segment() });
    assert_eq!((figures.errors.total(), figures.under_runs.len()), (0, 0), "{figures:?}");
    assert!(figures.redirects.followed.abs_diff(figures.answers) <= 4 && figures.answers > 20, "{figures:?}");
    assert!(figures.first_byte.min() >= 5_000_000 && figures.first_byte.len().abs_diff(figures.answers) <= 4);
    // A stream's answers alone are content: 4 of 3 seconds and what buffers hold.
    assert!(figures.bytes <= 12 * BYTES + 4 * BYTES, "{}", figures.bytes);
    // More than are followed, and elsewhere: they stand as answers, and are none to play.
    for to in ["/", "http://10.0.0.9/"] {
        let figures = ran(&plan, |_, _| led(to));
        let redirects = figures.redirects;
        assert!(figures.errors.statuses > 8 && figures.answers == 0, "{figures:?}");
        assert!(redirects.too_many > 8 || redirects.elsewhere > 8, "{redirects:?}");
        assert!(figures.failure.is_some_and(|why| why.contains("302")));
    }
    plan.load.follow = 0;
    let figures = ran(&plan, |_, _| led("/there"));
    assert!(figures.errors.statuses > 8 && figures.redirects.followed == 0);
}

/// A connection has fields of its own, where heads are to differ.
#[test]
fn heads_may_differ() {
    let mut plan = played(2);
    plan.load.heads = Heads::Browser;
    let mut heads = BTreeMap::new();
    ran(&plan, |_, _| {
        heads.entry(current_connection()).or_insert_with(BTreeSet::new).insert(current_request());
        segment()
    });
    let all: BTreeSet<&Vec<u8>> = heads.values().flatten().collect();
    assert!(heads.len() == 4 && all.len() == 4 && all.iter().all(|head| head.len() > 300), "{}", all.len());
}
