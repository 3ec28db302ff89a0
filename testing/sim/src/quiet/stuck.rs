//! Peers of a quiet server that stop in the middle: clients that take nothing more, or send
//! nothing more, and upstreams that say nothing more, or take nothing more. Each answer that is
//! not wholly queued has somebody with a timer, so that all of it is over in time.

use super::asker::Asker;
use super::cases::{Case, ECHOED, Expect, Takes, text};
use super::origin::CHAT;
use super::{World, cases};
use crate::quiet::site::Site;
use core::time::Duration;

/// What of an answer is taken by a client that then takes nothing.
const FIRST: usize = 20_000;

/// The same, of one case after the other.
const FIRSTS: [usize; 4] = [FIRST, 0, 130_000, 300];

/// A body that no window has room for.
const LONG: usize = 500_000;

/// What such peers keep of a connection.
pub const WINDOW: u32 = 64 << 10;

/// Every time that nginx gives a peer (`send_timeout`, `client_body_timeout`,
/// `proxy_read_timeout`, `proxy_send_timeout`) is a minute: what waits for two in turn has two,
/// and some seconds for those whose time is over to hear of it.
const LIMIT: Duration = Duration::from_secs(135);

/// Clients that take some of an answer, and then nothing.
fn of_windows() -> Vec<Case> {
    let is_long = |case: &Case| match &case.expect {
        Expect::Content(content) | Expect::Gzip(content) => content.len() >= 100_000,
        Expect::Parts(_) => true,
        Expect::Status(_) | Expect::Lacks => false,
    };
    let all = cases::all().into_iter().filter(|case| case.takes == Takes::All && is_long(case));
    let stops = |(case, first): (Case, &usize)| {
        let name = format!("{}, {first} bytes taken", case.name);
        Case { name, takes: Takes::First(*first), ..case }
    };
    all.zip(FIRSTS.iter().cycle()).map(stops).collect()
}

/// Any end will do.
fn get(path: &str) -> Case {
    Case::get(path, Expect::Status(0))
}

/// Upstreams that say nothing, or a part of an answer.
fn of_silence() -> Vec<Case> {
    let mut cases = Vec::new();
    let places = [
        "plain", "old", "unbuf", "small", "sub", "gzip", "gunzip", "gunsub", "charset", "ssi", "add", "slice", "auth",
        "mirror", "limit", "paced", "pacedf", "head", "err", "named", "fcgi", "fcgiu", "fcgiz", "uwsgi", "uwsgiu",
        "uwsgiz", "scgi", "scgiu", "scgiz", "up", "name",
    ];
    for place in places {
        for name in ["never", "start", "half", "halfgz", "lack"] {
            let case = get(&format!("/{place}/o/{name}"));
            cases.push(if place.ends_with('z') || place == "gzip" { case.with("Accept-Encoding: gzip") } else { case });
        }
    }
    cases.extend(["/fssi/hold.shtml", "/fssi/half.shtml", "/fadd/o/half"].map(get));
    cases
}

/// Bodies of requests that stop, and upstreams that take none of them.
fn of_bodies() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in ["plain", "unbuf", "small", "mirror", "auth", "fcgi", "fcgiu", "uwsgi", "uwsgiu", "scgi", "scgiu"] {
        for is_chunked in [false, true] {
            let mut half = Case::post(&format!("/{place}/o/echo"), is_chunked);
            half.request.truncate(half.request.len() / 2);
            half.name.push_str(", sent in part");
            let mut deaf = Case::post_of(&format!("/{place}/o/deaf"), &text(LONG), is_chunked);
            deaf.name.push_str(", taken in part");
            cases.extend([half, deaf]);
        }
    }
    cases
}

/// Clients that say nothing, half a head, or that a body comes which does not; and one that asks
/// for much and takes little.
fn of_requests() -> Vec<Case> {
    let named = |name: &str, request: Vec<u8>| Case { name: name.to_owned(), request, ..get("/f/big.txt") };
    let asks = b"GET /f/big.txt HTTP/1.1\r\nHost: quiet\r\n\r\n";
    let mut expects = Case::post("/plain/o/echo", false);
    expects.request.truncate(expects.request.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0) + 4);
    let mut greedy = named("asks often", asks.repeat(200));
    greedy.takes = Takes::First(FIRST);
    let expects = expects.with("Expect: 100-continue");
    vec![named("says nothing", Vec::new()), named("half a head", asks[..30].to_vec()), expects, greedy]
}

/// Tunnels of which one side takes nothing, whatever else goes on there.
fn of_tunnels() -> Vec<Case> {
    let tunnel = |name: &str, sent: usize, takes: Takes, chats: Option<Duration>| {
        let mut case = get(&format!("/up/o/{name}")).with("Upgrade: echo");
        (case.then, case.takes, case.chats) = (Some(text(sent)), takes, chats);
        case.name = format!("{name}, {sent} bytes sent, {takes:?} taken, {chats:?}");
        case
    };
    let most = ECHOED;
    vec![
        // Nobody says anything.
        tunnel("wall", 1, Takes::All, None),
        // The client takes nothing; and says something now and then.
        tunnel("flood", 1, Takes::First(FIRST), None),
        tunnel("flood", 1, Takes::First(FIRST), Some(CHAT)),
        // The upstream takes nothing; and says something now and then.
        tunnel("wall", most, Takes::All, None),
        tunnel("chat", most, Takes::All, None),
        // Neither does.
        tunnel("chat", most, Takes::First(200), Some(CHAT)),
    ]
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Case> {
    [of_windows(), of_silence(), of_bodies(), of_requests(), of_tunnels()].concat()
}

/// What is left of these longer than timers allow, in virtual time over our own stack.
#[must_use]
pub fn over_stack(site: &Site, cases: &[Case]) -> Vec<String> {
    let mut objections = Vec::new();
    for case in cases {
        let mut world = World::with_windows(site, Asker::default(), WINDOW);
        let to = world.server_at;
        world.clients().ask(to, case);
        let done = world.run(LIMIT, |asker: &mut Asker| asker.is_done());
        let mut object = |what: String| objections.push(format!("{}: {what}", case.name));
        if !done {
            let came = world.clients().take().arrived.len();
            object(format!("no end, {came} bytes came"));
        }
        // Whoever was waited for within it may have a minute more.
        assert!(!world.run(LIMIT, |_| false));
        world.endless().into_iter().for_each(&mut object);
        let held = world.held();
        if !held.is_empty() {
            object(format!("is held: {held:?}"));
        }
    }
    objections
}
