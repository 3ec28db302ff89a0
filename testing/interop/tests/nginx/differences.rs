//! What differs on purpose: docs/differences.md says why.

use crate::answer::Answer;
use crate::theirs::{self, Version};
use crate::twins::SIDES;
use core::ops::Range;
use memchr::memmem::find;

/// Answers that differ to requests of a kind.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The name that requests give it.
    name: &'static str,
    /// nginx's status; `None`: the connection ends, or there is no head.
    nginx: Option<u16>,
    /// Ours.
    ours: Option<u16>,
    /// The versions of nginx that differ, the last not among them; with others answers
    /// are equal.
    versions: Range<Version>,
}

/// All of them.
const ALL: Range<Version> = Version(0, 0, 0)..Version(u32::MAX, 0, 0);

const fn before(version: Version) -> Range<Version> {
    ALL.start..version
}

/// Ranges are given of files that were compressed beforehand.
const RANGES_OF_PACKED: Version = Version(1, 23, 4);

/// `Host` is held against RFC 3986.
const STRICT_HOST: Version = Version(1, 29, 4);

/// Requests that are answered with another status.
const DIFFERENCES: &[Difference] = &[
    // A request of HTTP/1.1 without Host is the first server's.
    Difference { name: "no-host", nginx: Some(400), ours: Some(400), versions: ALL },
    // A status that no class of statuses has.
    Difference { name: "no-class", nginx: Some(999), ours: None, versions: ALL },
    // Controls in a value; a Host that is none.
    Difference { name: "strict", nginx: Some(200), ours: Some(400), versions: ALL },
    Difference { name: "host", nginx: Some(200), ours: Some(400), versions: before(STRICT_HOST) },
    Difference { name: "host-401", nginx: Some(401), ours: Some(400), versions: before(STRICT_HOST) },
    // CONNECT names a host and port, which newer ones read and refuse by the method.
    Difference { name: "connect", nginx: Some(400), ours: Some(405), versions: before(Version(1, 29, 4)) },
    // Ranges of a file that was compressed beforehand.
    Difference { name: "packed", nginx: Some(200), ours: Some(206), versions: before(RANGES_OF_PACKED) },
    // The length of a body that came in chunks, and is not read.
    Difference { name: "chunks", nginx: Some(200), ours: Some(200), versions: ALL },
    // The target of a redirect that an error page answers stays in nginx's answer.
    Difference { name: "no-location", nginx: Some(200), ours: Some(200), versions: ALL },
    // A length in a 304 is that of a 200.
    Difference { name: "no-length", nginx: Some(304), ours: Some(304), versions: ALL },
    // Answers of upstreams whose end is not clear are none; from which version on nginx
    // has it so, too.
    Difference { name: "unclear", nginx: Some(200), ours: Some(502), versions: before(Version(1, 23, 0)) },
    // An interim answer of an upstream was taken for the answer.
    Difference { name: "hints", nginx: Some(200), ours: Some(200), versions: before(Version(1, 29, 0)) },
    // A protocol that nobody asked for.
    Difference { name: "unasked", nginx: Some(101), ours: Some(502), versions: ALL },
    // What came before the upstream was silent is passed on.
    Difference { name: "part", nginx: Some(200), ours: Some(200), versions: ALL },
    // A field that programs take for something of their own is not told.
    Difference { name: "told-proxy", nginx: Some(200), ours: Some(200), versions: ALL },
    // A program whose connection ends before it has said that its answer is whole.
    Difference { name: "cut-program", nginx: Some(200), ours: Some(200), versions: ALL },
    // Fields of one name are joined, as by nginx since 1.23.
    Difference { name: "joined", nginx: Some(200), ours: Some(200), versions: before(Version(1, 23, 0)) },
];

/// Bytes of what `empty_gif` sends.
const EMPTY_GIF: usize = 43;

/// The rows of this name.
pub(crate) fn rows(name: &str) -> impl Iterator<Item = &'static Difference> {
    DIFFERENCES.iter().filter(move |row| row.name == name)
}

impl Difference {
    /// Whether it holds beside the nginx that is at hand.
    pub(crate) fn holds(&self) -> bool {
        self.versions.contains(&theirs::version())
    }

    /// Whether these answers differ as the row says. A row that says nothing any more
    /// is a failure, too.
    pub(crate) fn is_kept(&self, nginx: &Answer, ours: &Answer) -> bool {
        (self.nginx, self.ours) == (nginx.status(), ours.status()) && !differing(nginx, ours, b"GET").is_empty()
    }
}

/// In what answers to a request of this method differ, but for this:
///
/// - `Server`, and its text at the end of pages: who serves is told truthfully.
/// - Its address, in redirects that have no other name.
/// - `Date`, and `Expires` as far as it follows from it; or `max-age`, where both end at one
///   time of day, and were asked for in different seconds.
/// - `Connection`, where a length keeps it that nginx does not tell.
/// - How the end of a body is told.
/// - The text behind the status, and interim responses.
/// - The boundary of several ranges: a number that counts up.
/// - The bytes of a picture of nothing.
/// - Fields behind a body that something is added to, which nginx writes twice.
/// - Bytes that have no character in the charset, which nginx leaves in some places.
/// - The order of fields with different names, and how texts were compressed.
/// - That ranges are given of what is compressed, which older ones do not.
pub(crate) fn differing(nginx: &Answer, ours: &Answer, method: &[u8]) -> Vec<String> {
    let token = |answer: &Answer| answer.field("server").map_or(0, str::len);
    let (shorter, longer) = (token(nginx), token(ours));
    let same_expiry = nginx.field("expires") == ours.field("expires");
    let by_time_of_day = same_expiry && lasts_until_expiry(nginx) && lasts_until_expiry(ours);
    let (mut nginx, mut ours) = (comparable(nginx, !same_expiry), comparable(ours, !same_expiry));
    if by_time_of_day {
        for answer in [&mut nginx, &mut ours] {
            answer.fields.iter_mut().filter(|(name, _)| name == "cache-control").for_each(|(_, value)| {
                *value = without_age(value);
            });
        }
    }
    // HEAD tells the length of a page without the page.
    if method == b"HEAD" && nginx.status().is_some_and(|status| status >= 300) {
        let told = |answer: &Answer| answer.field("content-length").and_then(|value| value.parse::<usize>().ok());
        if let (Some(theirs), Some(here)) = (told(&nginx), told(&ours))
            && theirs + longer == here + shorter
            && let Some((_, value)) = ours.fields.iter_mut().find(|(name, _)| name == "content-length")
        {
            *value = theirs.to_string();
        }
    }
    if theirs::version() < RANGES_OF_PACKED && ours.field("content-encoding").is_some() {
        for answer in [&mut nginx, &mut ours] {
            answer.fields.retain(|(name, _)| name != "accept-ranges");
        }
    }
    // What has no length with nginx may have one here, and then ends without the end of
    // its connection.
    let unmeasured = nginx.field("content-length").is_none() && nginx.status().is_some();
    if unmeasured && (ours.field("content-length").is_some() || method == b"HEAD") {
        ours.fields.retain(|(name, _)| name != "content-length");
        if nginx.field("transfer-encoding").is_none() {
            ours.lives = nginx.lives;
            for answer in [&mut nginx, &mut ours] {
                answer.fields.retain(|(name, _)| name != "keep-alive" && name != "connection");
            }
        }
        nginx.fields.retain(|(name, _)| name != "transfer-encoding");
    }
    let named = |answer: &Answer, name: &str| -> Vec<String> {
        answer.fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    };
    let mut out: Vec<String> = nginx.fields.iter().chain(&ours.fields).map(|(name, _)| name.clone()).collect();
    out.sort();
    out.dedup();
    out.retain(|name| named(&nginx, name) != named(&ours, name));
    let twice = [&*ours.trailers, &*ours.trailers].concat();
    let others = [
        ("status", nginx.status() != ours.status()),
        ("body", nginx.body != ours.body && !differs_in_unknown(&nginx.body, &ours.body)),
        ("fields behind the body", nginx.trailers != ours.trailers && nginx.trailers != twice),
        ("what becomes of the connection", nginx.lives != ours.lives),
    ];
    out.extend(others.iter().filter(|(_, differ)| *differ).map(|(what, _)| (*what).to_owned()));
    out
}

/// Whether bodies differ in bytes alone that have no character in what `charset` makes of
/// them: nginx leaves those where nothing else in its buffer becomes longer.
fn differs_in_unknown(nginx: &[u8], ours: &[u8]) -> bool {
    let is_left = |(theirs, here): (&u8, &u8)| theirs == here || *here == b'?' && !theirs.is_ascii();
    nginx.len() == ours.len() && nginx.iter().zip(ours).all(is_left)
}

/// Whether an answer's `max-age` says the same as its `Expires`, seen from its `Date`.
fn lasts_until_expiry(answer: &Answer) -> bool {
    let time = |name: &str| answer.field(name).and_then(seconds);
    let age = answer.field("cache-control").and_then(max_age).map(|(_, age)| age);
    matches!((time("date"), age, time("expires")), (Some(date), Some(age), Some(end)) if date.checked_add(age) == Some(end))
}

/// Where the number of seconds of the first `max-age` in `text` stands, and that number.
fn max_age(text: &str) -> Option<(core::ops::Range<usize>, u64)> {
    const NAME: &str = "max-age=";
    let start = text.find(NAME)? + NAME.len();
    let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
    let place = start..start + digits;
    let age = text[place.clone()].parse().ok()?;
    Some((place, age))
}

/// `text` without the seconds of its first `max-age`.
pub(crate) fn without_age(text: &str) -> String {
    let mut out = text.to_owned();
    if let Some((place, _)) = max_age(text) {
        out.replace_range(place, "");
    }
    out
}

/// What stands in the place of addresses, which differ.
const ADDRESS: &str = "an address.";

/// `answer` without what differs in every one.
fn comparable(answer: &Answer, relative_expiry: bool) -> Answer {
    let mut out = answer.clone();
    out.body = answer.plain_body();
    let date = answer.field("date").and_then(seconds);
    let boundary = answer.field("content-type").and_then(|value| value.split_once("boundary="));
    let boundary = boundary.map(|(_, boundary)| boundary.to_owned());
    let token = token_in_page(&mut out.body);
    for (name, value) in &mut out.fields {
        match (&**name, date, seconds(value)) {
            ("server", ..) => "a server".clone_into(value),
            ("date", ..) => "now".clone_into(value),
            ("expires", Some(date), Some(time)) if relative_expiry => *value = relative(time, date),
            // The length without the server's name.
            ("content-length", ..) if token > 0 => {
                let length: usize = value.parse().unwrap_or_default();
                *value = format!("{} and a server", length - token);
            }
            _ => {}
        }
        *value = SIDES.iter().fold(core::mem::take(value), |value, side| value.replace(side.address, ADDRESS));
        if let Some(boundary) = &boundary {
            *value = value.replace(boundary, &"0".repeat(boundary.len()));
        }
    }
    SIDES.iter().for_each(|side| replace(&mut out.body, side.address.as_bytes(), ADDRESS.as_bytes()));
    if let Some(boundary) = &boundary {
        replace(&mut out.body, boundary.as_bytes(), "0".repeat(boundary.len()).as_bytes());
    }
    // More may stand behind it (`add_after_body`).
    if answer.field("content-type") == Some("image/gif")
        && out.body.len() >= EMPTY_GIF
        && out.body.starts_with(b"GIF89a")
    {
        out.body.drain(..EMPTY_GIF);
    }
    // Equal names keep their order.
    out.fields.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// Takes the server's name out of pages of nginx's, of which one may have several; returns
/// its length, 0 without.
fn token_in_page(body: &mut Vec<u8>) -> usize {
    let (before, after) = (&b"<hr><center>"[..], &b"</center>"[..]);
    let (mut from, mut all) = (0, 0);
    while let Some(at) = find(&body[from..], before) {
        from += at + before.len();
        let Some(length) = find(&body[from..], after) else { break };
        body.drain(from..from + length);
        all += length;
    }
    all
}

fn replace(body: &mut Vec<u8>, what: &[u8], with: &[u8]) {
    let mut at = 0;
    while let Some(found) = find(&body[at..], what) {
        body.splice(at + found..at + found + what.len(), with.iter().copied());
        at += found + with.len();
    }
}

fn seconds(value: &str) -> Option<u64> {
    semantics::date::parse(value.as_bytes(), 0)
}

fn relative(time: u64, date: u64) -> String {
    format!("now {:+}", time.cast_signed() - date.cast_signed())
}

#[test]
fn a_time_of_day_is_as_far_as_it_is_from_each_second() {
    let asked = |second: u64, age: u64| {
        let field = |name: &str, value: String| (name.to_owned(), value);
        Answer {
            line: "HTTP/1.1 200 OK".to_owned(),
            fields: vec![
                field("date", format!("Tue, 01 Dec 2026 10:00:{second:02} GMT")),
                field("expires", "Tue, 01 Dec 2026 15:30:00 GMT".to_owned()),
                field("cache-control", format!("max-age={age}")),
            ],
            ..Answer::default()
        }
    };
    assert_eq!(differing(&asked(0, 19_800), &asked(1, 19_799), b"GET"), Vec::<String>::new());
    // Seconds that do not end then are as wrong as they were.
    assert_eq!(differing(&asked(0, 19_800), &asked(1, 19_798), b"GET"), ["cache-control"]);
    assert_eq!(differing(&asked(0, 19_800), &asked(0, u64::MAX), b"GET"), ["cache-control"]);
    assert_eq!(without_age("{\"c\":\"max-age=19800\"}"), "{\"c\":\"max-age=\"}");
}
