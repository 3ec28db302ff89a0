//! Templates, checks, cookies, redirects and figures by URL, against servers of
//! all kinds.

use crate::world::{Reply, Then, World, assert_accounts, current_request, ms, plan, report, us};
use load::{
    Arrival, Check, Feed, FeedOrder, Figures, Pattern, Plan, Request, Reuse, SAMPLES_LIMIT, Schedule, Source, Stop,
    Trust, Warning, Weighted, Wrong,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A plan of requests that are filled in.
fn filled(request: Request, feed: Option<Feed>) -> Plan {
    let mut plan = plan();
    let mut item = request;
    assert!(item.fill(feed.as_ref()).expect("right"));
    plan.requests = vec![Weighted { weight: 1, item }];
    plan.source = Source { feed: feed.map(Arc::new), ..Source::default() };
    plan.stop = Stop::After(ms(20));
    plan.warm_up = ms(1);
    plan
}

fn target(request: &[u8]) -> String {
    String::from_utf8_lossy(request).split(' ').nth(1).unwrap_or_default().to_owned()
}

fn answer(status: &str, fields: &str, content: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{content}", content.len()).into_bytes()
}

fn errors(figures: &Figures) -> load::Errors {
    let mut errors = figures.before.errors;
    errors.add(&figures.counts.errors);
    errors
}

#[test]
fn each_request_is_filled_in_anew() {
    let feed = Feed::read(b"name\nada\nbob\ncy d\n", FeedOrder::InTurn).expect("right");
    let mut request = Request::get("10.0.0.2", "/{{counter}}?u={{csv:name}}");
    request.method = "PUT".into();
    request.headers = vec![("X-Id".into(), "{{uuid}}".into())];
    request.body = b"{\"n\":{{counter}},\"u\":\"{{csv:name}}\"}".to_vec();
    for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(20_000.0))] {
        let mut plan = filled(request.clone(), Some(feed.clone()));
        plan.arrival = arrival;
        let seen = RefCell::new(Vec::new());
        let mut world = World::new(&plan, |_, _| {
            seen.borrow_mut().push(current_request());
            Reply::ok(us(100), 3)
        });
        let figures = world.run();
        assert_accounts(&figures);
        drop(world);
        let seen = seen.into_inner();
        assert!(seen.len() > 300, "{}", seen.len());
        let (mut ids, mut bytes) = (BTreeSet::new(), 0);
        for (n, request) in (1..).zip(&seen) {
            let name = ["ada", "bob", "cy d"][(n - 1) % 3];
            let text = String::from_utf8(request.clone()).expect("ASCII");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            let path = format!("/{n}?u={}", name.replace(' ', "%20"));
            assert!(head.starts_with(&format!("PUT {path} HTTP/1.1\r\nHost: 10.0.0.2\r\nX-Id: ")), "{head}");
            assert_eq!(body, format!("{{\"n\":{n},\"u\":\"{name}\"}}"));
            assert!(head.ends_with(&format!("\r\nContent-Length: {}", body.len())), "{head}");
            assert!(ids.insert(head.to_owned()), "twice: {head}");
            bytes += request.len() as u64;
        }
        assert_eq!(figures.counts.traffic.sent_bytes + figures.before.traffic.sent_bytes, bytes);
    }
}

#[test]
fn the_last_request_of_a_connection_says_so_when_it_is_written_anew() {
    for (reuse, lasts) in [(Reuse::ServerCloses, 1), (Reuse::ServerClosesAfter(4), 4)] {
        let mut plan = filled(Request::get("10.0.0.2", "/{{counter}}"), None);
        plan.reuse = reuse;
        let said = RefCell::new((0, 0));
        let mut world = World::new(&plan, |_, _| {
            let closes = current_request().ends_with(b"Connection: close\r\n\r\n");
            let mut said = said.borrow_mut();
            *said = (said.0 + 1, said.1 + u64::from(closes));
            if closes {
                Reply::bytes(us(50), answer("200 OK", "Connection: close\r\n", "")).then(Then::Finish)
            } else {
                Reply::ok(us(50), 0)
            }
        });
        assert_accounts(&world.run());
        drop(world);
        let (all, closes) = said.into_inner();
        assert!(all > 100 && closes.abs_diff(all / lasts) <= 4, "{reuse:?}: {closes} of {all}");
    }
}

#[test]
fn answers_are_held_against_checks() {
    let checks = [
        (Check::header("X-A: b").expect("right"), Wrong::Header),
        (Check::Contains(b"needle".as_slice().into()), Wrong::Text),
        (Check::Matches(Arc::new(Pattern::new("^h.y \\d+$").expect("right"))), Wrong::Pattern),
        (Check::sha256(&"0".repeat(64)).expect("right"), Wrong::Hash),
    ];
    let count = |errors: &load::Errors, wrong| match wrong {
        Wrong::Header => errors.wrong_header,
        Wrong::Text => errors.wrong_text,
        Wrong::Pattern => errors.wrong_match,
        _ => errors.wrong_hash,
    };
    for (check, wrong) in checks {
        let mut plan = plan();
        plan.checks = Arc::new([check.clone()]);
        plan.stop = Stop::After(ms(20));
        // In pieces, and in chunks: what is judged is the content.
        let mut world = World::new(&plan, |n, _| {
            let bytes = match n % 4 {
                0 => answer("200 OK", "x-a: b\r\n", "hay 1"),
                1 => answer("200 OK", "X-A: bb\r\nX-A: b\r\n", "a needle"),
                2 => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhay\r\n2\r\n 1\r\n0\r\n\r\n".to_vec(),
                _ => b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nneed\r\n2\r\nle\r\n0\r\n\r\n"
                    .to_vec(),
            };
            let cut = bytes.len() / 2;
            Reply { parts: vec![(us(50), bytes[..cut].to_vec()), (us(60), bytes[cut..].to_vec())], then: Then::Keep }
        });
        let figures = world.run();
        assert_accounts(&figures);
        let errors = errors(&figures);
        let all = figures.counts.traffic.responses + figures.before.traffic.responses;
        let expected = if wrong == Wrong::Hash { all } else { all / 2 };
        assert!(all > 5_000, "{all}");
        assert!(count(&errors, wrong).abs_diff(expected) <= 4, "{wrong:?}: {errors:?} of {all}");
        assert_eq!(errors.wrong_answers(), count(&errors, wrong), "{errors:?}");
        let report = report(&plan, &figures);
        assert_eq!(report.wrong_answers.len(), 2, "{:?}", report.wrong_answers);
        assert!(report.wrong_answers.iter().all(|one| one.wrong == wrong && one.request == "GET /"));
        assert!(report.warnings.iter().any(|one| matches!(one, Warning::WrongAnswers { .. })));
        assert_eq!(report.verdict.trust, Trust::No, "{:?}", report.verdict);
    }
}

#[test]
fn right_answers_are_right() {
    let mut plan = plan();
    plan.stop = Stop::After(ms(20));
    // printf 'hay 1' | sha256sum
    let sum = "0463db74e59f458eb42c256428ca24f51a61a8938668a8ceb0050e186dc1a81f";
    plan.checks = Arc::new([
        Check::header("Content-Length: 5").expect("right"),
        Check::Contains(b"y 1".as_slice().into()),
        Check::Matches(Arc::new(Pattern::new("(?i)HAY").expect("right"))),
        Check::sha256(sum).expect("right"),
    ]);
    plan.requests = ["GET", "HEAD"]
        .map(|method| Weighted { weight: 1, item: Request { method: method.into(), ..Request::get("10.0.0.2", "/") } })
        .into();
    let mut world = World::new(&plan, |_, _| Reply::bytes(us(50), answer("200 OK", "", "hay 1")));
    let figures = world.run();
    assert_accounts(&figures);
    assert_eq!((errors(&figures).total(), figures.wrong_answers.len()), (0, 0), "{:?}", errors(&figures));
    assert!(figures.counts.traffic.responses > 500);
}

/// Nobody can tell what is in a content that is longer than is held, nor where an expression goes astray;
/// what a server sends is shown without its control characters, and not all of it.
#[test]
fn contents_without_end_and_bombs_are_bounded() {
    let mut plan = plan();
    plan.connections = 1;
    plan.stop = Stop::Requests { count: 3, within: ms(60_000) };
    plan.warm_up = us(1);
    let bomb = Pattern::new("^(a+)+$").expect("right");
    plan.checks = Arc::new([Check::Matches(Arc::new(bomb)), Check::Contains(b"b".as_slice().into())]);
    let long = "a".repeat(2 << 20);
    let mut world = World::new(&plan, |n, _| {
        let content = if n % 2 == 0 { long.clone() } else { format!("{}\x1b[2J", "a".repeat(4_000)) };
        Reply::bytes(us(50), answer("200 OK", "", &content))
    });
    let figures = world.run();
    let errors = errors(&figures);
    let all = figures.counts.traffic.responses + figures.before.traffic.responses;
    assert_eq!(errors.not_judged, all, "{errors:?}");
    assert!(errors.wrong_text > 0 && errors.wrong_match == 0, "{errors:?}");
    let samples = &figures.wrong_answers;
    assert!(!samples.is_empty() && samples.len() <= SAMPLES_LIMIT);
    assert!(samples.iter().all(|one| one.came.len() < 1_000 && one.came.chars().all(|char| !char.is_control())));
}

#[test]
fn cookies_go_back_on_their_connection() {
    let mut plan = plan();
    plan.cookies = true;
    plan.reuse = Reuse::ClientClosesAfter(3);
    plan.stop = Stop::After(ms(10));
    plan.requests[0].item.path = "/a/b".into();
    let seen = RefCell::new(BTreeMap::<String, u64>::new());
    let mut world = World::new(&plan, |_, _| {
        let request = String::from_utf8_lossy(&current_request()).into_owned();
        let cookie = request.lines().find_map(|line| line.strip_prefix("Cookie: ")).unwrap_or("none");
        *seen.borrow_mut().entry(cookie.to_owned()).or_default() += 1;
        let fields = if cookie == "none" {
            "Set-Cookie: s=1; Path=/\r\nSet-Cookie: t=2; Path=/c\r\nset-cookie: u=3\r\nSet-Cookie: x=1; Domain=other.org\r\n"
        } else {
            "Set-Cookie: s=; Max-Age=0; Path=/\r\n"
        };
        Reply::bytes(us(50), answer("200 OK", fields, ""))
    });
    let figures = world.run();
    assert_accounts(&figures);
    drop(world);
    let seen = seen.into_inner();
    // Of a path that is longer first, as it was set without one.
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), ["none", "u=3", "u=3; s=1"], "{seen:?}");
    assert!(seen["none"].abs_diff(seen["u=3; s=1"]) <= 4 && seen["none"].abs_diff(seen["u=3"]) <= 4, "{seen:?}");
    let cookies = report(&plan, &figures).cookies.expect("they were asked for");
    assert!(cookies.stored > 0 && cookies.refused.abs_diff(cookies.stored / 3) <= 4, "{cookies:?}");
}

#[test]
fn a_server_that_sets_cookies_without_end_fills_no_memory() {
    let mut plan = plan();
    plan.cookies = true;
    plan.stop = Stop::After(ms(5));
    let longest = RefCell::new(0);
    let mut world = World::new(&plan, |n, _| {
        let mut longest = longest.borrow_mut();
        *longest = current_request().len().max(*longest);
        let fields: String = (0..100).map(|m| format!("Set-Cookie: c{n}x{m}={}\r\n", "v".repeat(200))).collect();
        Reply::bytes(us(50), answer("200 OK", &fields, ""))
    });
    let figures = world.run();
    assert_accounts(&figures);
    drop(world);
    assert_eq!(errors(&figures).total(), 0, "{:?}", errors(&figures));
    assert!((4_000..12_000).contains(&longest.into_inner()), "the jar has an end");
    assert!(figures.before.cookies.displaced + figures.counts.cookies.displaced > 100);
}

#[test]
fn redirects_are_followed_as_one_request() {
    for arrival in [Arrival::Closed, Arrival::Open(Schedule::constant(4_000.0))] {
        let mut plan = plan();
        plan.arrival = arrival;
        (plan.follow, plan.cookies) = (3, true);
        plan.stop = Stop::After(ms(50));
        plan.requests[0].item =
            Request { method: "POST".into(), body: b"form".to_vec(), ..Request::get("10.0.0.2", "/in") };
        plan.requests[0].item.headers = vec![("Content-Type".into(), "text/plain".into()), ("X-A".into(), "b".into())];
        let seen = RefCell::new(BTreeMap::<String, u64>::new());
        let mut world = World::new(&plan, |_, _| {
            let request = String::from_utf8_lossy(&current_request()).into_owned();
            let target = target(request.as_bytes());
            let line = request.lines().next().unwrap_or_default().to_owned();
            *seen.borrow_mut().entry(line).or_default() += 1;
            assert!(request.contains("X-A: b\r\n"), "{request}");
            match &*target {
                "/in" => Reply::bytes(
                    us(100),
                    answer("307 Temporary Redirect", "Location: http://10.0.0.2/step\r\n", "gone"),
                ),
                "/step" => {
                    assert!(request.ends_with("Content-Length: 4\r\n\r\nform"), "{request}");
                    Reply::bytes(us(100), answer("303 See Other", "Location: a/../out?x#y\r\nSet-Cookie: s=1\r\n", ""))
                }
                _ => {
                    assert!(request.contains("Cookie: s=1\r\n") && !request.contains("Content-"), "{request}");
                    Reply::ok(us(100), 7)
                }
            }
        });
        let figures = world.run();
        assert_accounts(&figures);
        drop(world);
        let lines: Vec<String> = seen.into_inner().into_keys().collect();
        assert_eq!(lines, ["GET /out?x HTTP/1.1", "POST /in HTTP/1.1", "POST /step HTTP/1.1"]);
        let report = report(&plan, &figures);
        assert_eq!((report.statuses.success, errors(&figures).total()), (report.traffic.responses, 0));
        // Three times 100 µs is one request's time.
        assert!((300_000..301_000).contains(&report.latency.p50_ns), "{:?}", report.latency);
        let followed = report.redirects.expect("they were asked for").followed;
        assert!(followed.abs_diff(2 * report.traffic.responses) <= 16, "{followed}");
        assert!(report.littles_law.off < 0.001, "{:?}", report.littles_law);
    }
}

#[test]
fn redirects_that_lead_round_away_or_nowhere_are_told() {
    let location = |text: &str| answer("302 Found", &format!("Location: {text}\r\n"), "");
    let cases: [(&str, Vec<u8>); 5] = [
        ("too many", location("/")),
        ("elsewhere", location("https://10.0.0.2/")),
        ("unusable", location("/\u{e4}")),
        ("unusable", answer("301 Moved", "", "")),
        ("closed", answer("302 Found", "Connection: close\r\nLocation: /\r\n", "")),
    ];
    for (what, bytes) in cases {
        let mut plan = plan();
        plan.follow = 5;
        plan.stop = Stop::After(ms(20));
        let closes = what == "closed";
        let mut world = World::new(&plan, |_, _| {
            Reply::bytes(us(50), bytes.clone()).then(if closes { Then::Finish } else { Then::Keep })
        });
        let figures = world.run();
        assert_accounts(&figures);
        let (asked, counts) = (world.asked, figures.counts);
        let redirects = counts.redirects;
        let of = match what {
            "too many" => redirects.too_many,
            "elsewhere" => redirects.elsewhere,
            "unusable" => redirects.unusable,
            _ => redirects.closed,
        };
        assert_eq!(of, counts.traffic.responses, "{what}: {redirects:?}");
        assert_eq!(counts.statuses.redirection, counts.traffic.responses, "it stands as the answer");
        assert!(of > 20, "{what}: {redirects:?}");
        let each = if what == "too many" { 6 } else { 1 };
        let all = figures.before.traffic.sent + counts.traffic.sent;
        assert!(asked.abs_diff(each * all) <= 6 * 4, "{what}: {asked} for {all}");
    }
}

#[test]
fn a_head_without_end_ends_the_connection() {
    let mut plan = plan();
    (plan.follow, plan.cookies) = (1, true);
    plan.stop = Stop::After(ms(5));
    let mut endless = b"HTTP/1.1 302 Found\r\n".to_vec();
    while endless.len() < 100_000 {
        endless.extend_from_slice(b"Set-Cookie: a=b\r\n");
    }
    let mut world = World::new(&plan, |_, _| Reply::bytes(us(50), endless.clone()));
    let figures = world.run();
    assert_accounts(&figures);
    assert!(errors(&figures).malformed > 0 && figures.counts.traffic.responses == 0);
}

#[test]
fn figures_are_kept_for_each_url() {
    let paths: Vec<String> = (0..6).map(|n| format!("/{n}")).collect();
    for reads in [false, true] {
        let mut plan = plan();
        plan.requests = paths.iter().map(|path| Weighted { weight: 1, item: Request::get("10.0.0.2", path) }).collect();
        plan.url_rows = Some(4);
        plan.stop = Stop::After(ms(200));
        plan.timeout = ms(20);
        plan.expect.length = Some(1);
        plan.checks = if reads { Arc::new([Check::Contains(b"x".as_slice().into())]) } else { Arc::new([]) };
        let mut world = World::new(&plan, |_, _| match &*target(&current_request()) {
            "/0" => Reply::ok(us(100), 1),
            "/1" => Reply::ok(us(300), 1_000),
            "/2" => Reply::bytes(us(100), answer("404 Not Found", "", "x")),
            "/3" => Reply::nothing(),
            _ => Reply::ok(us(50), 1),
        });
        let figures = world.run();
        assert_accounts(&figures);
        let report = report(&plan, &figures);
        let names: Vec<Option<&str>> = report.urls.iter().map(|row| row.request.as_deref()).collect();
        assert_eq!(names, [Some("GET /0"), Some("GET /1"), Some("GET /2"), Some("GET /3"), None]);
        let all: u64 = report.urls.iter().map(|row| row.responses).sum();
        assert_eq!(all, report.traffic.responses);
        let failed: u64 = report.urls.iter().map(|row| row.failed).sum();
        assert_eq!((failed, report.urls[3].failed), (report.errors.timeouts, report.errors.timeouts));
        assert!(failed > 5 && report.urls[3].responses == 0);
        let rows = &report.urls;
        assert_eq!((rows[0].success, rows[2].client_error), (rows[0].responses, rows[2].responses));
        assert_eq!(
            (rows[0].latency.p50_ns, rows[1].latency.p50_ns, rows[4].latency.max_ns),
            (100_000, 300_000, 50_000)
        );
        assert_eq!((rows[1].mean_body(), rows[4].mean_body(), rows[4].requests), (1_000.0, 1.0, 2));
        // A kilobyte was not to be; each answer counts once, however it is wrong.
        assert_eq!((rows[1].wrong, rows[0].wrong), (rows[1].responses, 0));
        let bodies: u64 = rows.iter().map(|row| row.body_bytes).sum();
        assert_eq!(bodies, report.traffic.body_bytes);
    }
}
