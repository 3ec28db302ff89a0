use super::super::loaded::Loaded;
use super::super::request_state::{Depends, RequestState};
use super::{ENTRIES_MAX, ReadyTable, expires_in};
use app::Body;
use configuration::program::{Program, ServerId};
use exchange::{Asked, CommonFields, ExchangeId, HeadWriter, LocalAddress, Reply};
use files::Stamp;
use semantics::Known;
use semantics::date::HttpDate;
use std::rc::Rc;
use std::sync::Arc;
use wire::Time;

/// A request for a path, without a query.
struct Path<'a>(&'a [u8]);

impl Asked for Path<'_> {
    fn path(&self) -> &[u8] {
        self.0
    }

    fn is_http10(&self) -> bool {
        false
    }

    fn has_query(&self) -> bool {
        false
    }

    fn authority(&self) -> &[u8] {
        b"a.example"
    }

    fn known(&self, _field: Known) -> Option<&[u8]> {
        None
    }

    fn local(&self) -> LocalAddress {
        LocalAddress::Unknown
    }

    fn now(&self) -> Time {
        Time::ZERO
    }
}

fn heads() -> HeadWriter {
    fn write(out: &mut Vec<u8>, reply: &Reply<'_>, date: &HttpDate, _common: CommonFields) {
        for part in [b"Date: ", &date.as_bytes()[..], b"\r\n", reply.fields, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    HeadWriter::new(6, |_, _, _| {}).with_replies(write, CommonFields::default())
}

fn state(fields: &[u8], expires_after: Option<i64>) -> RequestState {
    let loaded = Rc::new(Loaded::new(Arc::new(Program::default()), None, None, None));
    let mut state = RequestState::new(loaded, ExchangeId::NOBODY);
    state.sent.fields = fields.to_vec();
    state.reuse.expires_after = expires_after;
    state.reuse.looked(Stamp::default());
    state
}

const WHOSE: (ServerId, u8) = (ServerId(0), 0);

fn insert(table: &mut ReadyTable, path: &[u8], state: &RequestState, second: u64) {
    let content = Body::new(b"content".to_vec());
    table.insert((path, true, 0), state, (&content, 0, 7), &heads(), (second, &HttpDate::from_unix(second)));
}

fn head(table: &mut ReadyTable, path: &[u8], second: u64) -> Option<String> {
    let at = table.find(&Path(path), WHOSE)?;
    table.take(at, second).map(|ready| String::from_utf8(ready.head().to_vec()).unwrap())
}

fn date_anew(table: &mut ReadyTable, path: &[u8], second: u64, is_still: bool) {
    let at = table.find(&Path(path), WHOSE).unwrap();
    if table.is_lasting(at, second) {
        table.date_anew(at, (second, &HttpDate::from_unix(second)), |_| is_still);
    }
}

fn dated(second: u64) -> String {
    String::from_utf8(HttpDate::from_unix(second).as_bytes().to_vec()).unwrap()
}

#[test]
fn what_its_file_alone_decides_is_dated_anew() {
    let mut table = ReadyTable::new(1 << 20, [1, 2]);
    let fields = |second| format!("X: y\r\nExpires: {}\r\n", dated(second));
    insert(&mut table, b"/a", &state(fields(1_060).as_bytes(), Some(60)), 1_000);
    assert_eq!(head(&mut table, b"/a", 1_001), None, "the second is over");
    for second in [1_001, 1_500] {
        date_anew(&mut table, b"/a", second, true);
        let expected = format!("Date: {}\r\n{}\r\n", dated(second), fields(second + 60));
        assert_eq!(head(&mut table, b"/a", second), Some(expected));
        // Logs tell of the field that was sent.
        let (note, _) = table.noted().unwrap();
        assert_eq!(note.state.sent.fields, fields(second + 60).into_bytes());
    }
    date_anew(&mut table, b"/a", 1_501, false);
    assert_eq!(head(&mut table, b"/a", 1_501), None, "its file is another");
    date_anew(&mut table, b"/a", 1_502, true);
    assert_eq!(head(&mut table, b"/a", 1_502), None, "and stays so until it is made anew");
    insert(&mut table, b"/a", &state(fields(1_563).as_bytes(), Some(60)), 1_503);
    date_anew(&mut table, b"/a", 1_504, true);
    assert!(head(&mut table, b"/a", 1_504).is_some());
}

/// No file decides of it, and nothing else that may become another.
#[test]
fn text_of_the_configuration_is_dated_anew() {
    let mut table = ReadyTable::new(1 << 20, [1, 2]);
    let mut text = state(b"X: y\r\n", None);
    text.reuse.stamps.clear();
    text.sent.is_text = true;
    insert(&mut table, b"/a", &text, 1_000);
    date_anew(&mut table, b"/a", 1_001, false);
    assert_eq!(head(&mut table, b"/a", 1_001), Some(format!("Date: {}\r\nX: y\r\n\r\n", dated(1_001))));
    text.reuse.depends.on(Depends::SECOND);
    insert(&mut table, b"/b", &text, 1_000);
    date_anew(&mut table, b"/b", 1_001, true);
    assert_eq!(head(&mut table, b"/b", 1_001), None, "it tells of the second");
}

#[test]
fn what_the_time_decides_is_made_anew() {
    let mut table = ReadyTable::new(1 << 20, [1, 2]);
    let mut timed = state(b"", None);
    timed.reuse.depends.on(Depends::SECOND);
    let mut of_none = state(b"", None);
    of_none.reuse.stamps.clear();
    let mut of_many = state(b"", None);
    (0..100).for_each(|_| of_many.reuse.looked(Stamp::default()));
    // `add_header Expires` beside `expires`, or in its place.
    let two = format!("Expires: {}\r\nExpires: {}\r\n", dated(1_060), dated(1_060));
    let others = [timed, of_none, of_many, state(two.as_bytes(), Some(60)), state(b"Expires: 0\r\n", Some(60))];
    for (number, state) in others.iter().enumerate() {
        let path = format!("/{number}").into_bytes();
        insert(&mut table, &path, state, 1_000);
        assert!(head(&mut table, &path, 1_000).is_some());
        date_anew(&mut table, &path, 1_001, true);
        assert_eq!(head(&mut table, &path, 1_001), None, "{number}");
    }
    assert_eq!(expires_in(b"X-Expires: a\r\nExpires: b\r\n"), Some(23));
    assert_eq!(expires_in(b"X-Expires: a\r\n"), None);
}

/// None replaces another before there are as many as may be.
#[test]
fn each_of_many_paths_is_found_again() {
    let mut table = ReadyTable::new(usize::MAX, [3, 5]);
    let state = state(b"", None);
    let path = |number: usize| format!("/{number}/page.html").into_bytes();
    for number in 0..20_000 {
        insert(&mut table, &path(number), &state, 7);
    }
    assert!((0..20_000).all(|number| head(&mut table, &path(number), 7).is_some()));
    for number in 20_000..ENTRIES_MAX + 1_000 {
        insert(&mut table, &path(number), &state, 7);
    }
    let left = (0..ENTRIES_MAX + 1_000).filter(|number| head(&mut table, &path(*number), 7).is_some()).count();
    assert_eq!(left, ENTRIES_MAX);
}
