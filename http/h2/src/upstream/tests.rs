//! Upstreams that keep to the protocol, and that do not: each fault ends what RFC 9113 has it end.

use super::*;
use crate::{BlockWriter, Offer, ServerConnection, ServerEvent, ServerSettings};

type Conn = UpstreamConnection<u32>;

/// A connection whose server has said its settings, and a stream on it.
fn opened() -> (Conn, Vec<u8>) {
    let mut out = Vec::new();
    let mut conn = Conn::new(UpstreamSettings::default(), &mut out);
    let mut settings = Vec::new();
    frame::write_settings(&mut settings, &[]);
    assert_eq!(told(&mut conn, &settings, &mut out), Ok(vec!["settings".to_owned()]));
    assert_eq!(ask(&mut conn, 7, true, &mut out), Some(1));
    out.clear();
    (conn, out)
}

fn ask(conn: &mut Conn, data: u32, ends: bool, out: &mut Vec<u8>) -> Option<u32> {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    let fields = fields
        .into_iter()
        .map(|(name, value)| (HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Incremental));
    conn.open(Question { data, ends, is_head: false, head_max: 4_096, waits: false }, fields, out)
}

/// What bytes mean, in words; or what the connection ends by.
fn told(conn: &mut Conn, bytes: &[u8], out: &mut Vec<u8>) -> Result<Vec<String>, String> {
    let (mut memory, mut at, mut all) = (HeadMemory::of_answers(), 0, Vec::new());
    while at < bytes.len() {
        let offer = Offer { bytes: &bytes[at..], second: 1, memory: &mut memory };
        let (taken, event) = conn.on_bytes(offer, out).map_err(|fault| fault.told.into_owned())?;
        at += taken;
        match event {
            UpstreamTold::NeedMore => break,
            UpstreamTold::Nothing => {}
            UpstreamTold::Room(who) => all.push(format!("room {who:?}")),
            UpstreamTold::Settings => all.push("settings".to_owned()),
            UpstreamTold::Head { data, status, lines, length, ends, .. } => {
                let lines = String::from_utf8_lossy(lines).replace("\r\n", ";");
                all.push(format!("{data} head {status} {length:?} {ends} {lines}"));
            }
            UpstreamTold::Data { data, bytes, ends, .. } => all.push(format!("{data} data {} {ends}", bytes.len())),
            UpstreamTold::Trailers { data, lines } => {
                all.push(format!("{data} trailers {}", String::from_utf8_lossy(lines).trim_end()));
            }
            UpstreamTold::Reset { data, code } => all.push(format!("{data} reset {}", code.name())),
            UpstreamTold::Malformed { data, told } => all.push(format!("{data} malformed: {told}")),
            UpstreamTold::GoAway { code } => all.push(format!("goaway {}", code.name())),
            UpstreamTold::Ponged => all.push("pong".to_owned()),
        }
    }
    Ok(all)
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut writer = BlockWriter::trailers(&mut block);
    fields.iter().for_each(|(name, value)| writer.field(name.as_bytes(), value.as_bytes()));
    block
}

fn headers(stream: u32, fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_headers(&mut out, stream, &head(fields), ends, PAYLOAD);
    out
}

fn data(stream: u32, bytes: usize, ends: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, Kind::Data, if ends { frame::END_STREAM } else { 0 }, stream, &vec![b'x'; bytes]);
    out
}

fn one(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, kind, flags, stream, payload);
    out
}

#[test]
fn an_answer_comes_in_pieces_with_what_stands_around_it() {
    let (mut conn, mut out) = opened();
    let bytes = [
        headers(1, &[(":status", "103"), ("link", "</a>")], false),
        headers(1, &[(":status", "200"), ("x-one", "1")], false),
        data(1, 5, false),
        data(1, 0, false),
        headers(1, &[("grpc-status", "0")], true),
    ]
    .concat();
    let expected = [
        "7 head 103 None false link: </a>;",
        "7 head 200 None false x-one: 1;",
        "7 data 5 false",
        "7 trailers grpc-status: 0",
    ];
    assert_eq!(told(&mut conn, &bytes, &mut out), Ok(expected.map(str::to_owned).to_vec()));
    assert_eq!(conn.open_streams(), 0, "it is over on both sides");
    // Byte by byte the same.
    let (mut conn, mut out) = opened();
    let (mut held, mut all) = (Vec::new(), Vec::new());
    for byte in bytes {
        held.push(byte);
        let mut memory = HeadMemory::of_answers();
        loop {
            let offer = Offer { bytes: &held, second: 1, memory: &mut memory };
            let (taken, event) = conn.on_bytes(offer, &mut out).expect("no fault");
            let is_more = matches!(event, UpstreamTold::NeedMore);
            all.extend(match event {
                UpstreamTold::Head { status, .. } => Some(format!("head {status}")),
                UpstreamTold::Data { bytes, .. } => Some(format!("data {}", bytes.len())),
                UpstreamTold::Trailers { .. } => Some("trailers".to_owned()),
                _ => None,
            });
            held.drain(..taken);
            if is_more || held.is_empty() {
                break;
            }
        }
    }
    assert_eq!(all, ["head 103", "head 200", "data 1", "data 1", "data 1", "data 1", "data 1", "trailers"]);
}

#[test]
fn what_is_wrong_with_an_answer_ends_its_stream_alone() {
    let ok = headers(1, &[(":status", "200")], false);
    let told_length = headers(1, &[(":status", "200"), ("content-length", "4")], false);
    for (bytes, why) in [
        (headers(1, &[("x", "1")], true), "upstream sent no :status header"),
        (headers(1, &[(":status", "200"), (":status", "200")], true), "upstream sent duplicate :status header"),
        (headers(1, &[(":status", "20")], true), "upstream sent invalid :status \"20\""),
        (headers(1, &[(":status", "101")], false), "upstream sent unexpected :status \"101\""),
        (headers(1, &[(":status", "600")], true), "upstream sent invalid :status \"600\""),
        (headers(1, &[(":status", "099")], true), "upstream sent invalid :status \"099\""),
        (headers(1, &[(":status", "103")], true), "upstream prematurely closed stream"),
        (headers(1, &[(":status", "200"), ("Upper", "1")], true), "upstream sent invalid header: \"Upper: 1\""),
        (headers(1, &[(":status", "200"), ("a", "b\nc")], true), "upstream sent invalid header: \"a: b\nc\""),
        (headers(1, &[(":status", "200"), (":path", "/")], true), "upstream sent invalid header \":path: /\""),
        (
            headers(1, &[(":status", "200"), ("content-length", "x")], true),
            "upstream sent invalid \"Content-Length\" header: \"content-length: x\"",
        ),
        (headers(1, &[(":status", "200"), ("a", &"b".repeat(5_000))], true), "upstream sent too big header"),
        (data(1, 1, false), "upstream sent unexpected http2 frame: 0"),
        (
            [told_length.clone(), data(1, 5, false)].concat(),
            "upstream sent response body larger than indicated content length",
        ),
        ([told_length.clone(), data(1, 3, true)].concat(), "upstream prematurely closed stream"),
        ([told_length, headers(1, &[("a", "b")], true)].concat(), "upstream prematurely closed stream"),
        (
            [ok.clone(), headers(1, &[(":status", "200")], true)].concat(),
            "upstream sent invalid trailer \":status: 200\"",
        ),
        ([ok.clone(), headers(1, &[("a", "b")], false)].concat(), "upstream sent trailer without end stream flag"),
        (one(Kind::WindowUpdate, 0, 1, &[0; 4]), "upstream sent zero window update"),
        (
            [one(Kind::WindowUpdate, 0, 1, &WINDOW_MAX.to_be_bytes()), ok].concat(),
            "upstream sent too large window update",
        ),
    ] {
        let (mut conn, mut out) = opened();
        assert_eq!(ask(&mut conn, 8, true, &mut out), Some(3));
        out.clear();
        let all = told(&mut conn, &bytes, &mut out).expect("the connection goes on");
        assert!(all.contains(&format!("7 malformed: {why}")), "{why}: {all:?}");
        let reset = FrameHead::read(&out).expect("a frame");
        assert_eq!((reset.kind, reset.stream), (Kind::Reset, 1), "{why}");
        // The other stream's answer is what it is.
        let other = told(&mut conn, &headers(3, &[(":status", "204")], true), &mut out);
        assert_eq!(other, Ok(vec!["8 head 204 Some(0) true ".to_owned()]), "{why}");
    }
}

/// RFC 9113 section 5.3.2: PRIORITY means nothing any more, whatever it says.
#[test]
fn a_priority_harms_no_answer() {
    let (mut conn, mut out) = opened();
    for payload in [&[0, 0, 0, 1, 9][..], &[0, 0, 0, 0, 9], &[0, 0, 0, 1], &[]] {
        assert_eq!(told(&mut conn, &one(Kind::Priority, 0, 1, payload), &mut out), Ok(Vec::new()));
    }
    let answer = told(&mut conn, &headers(1, &[(":status", "204")], true), &mut out);
    assert_eq!((answer, out.len()), (Ok(vec!["7 head 204 Some(0) true ".to_owned()]), 0));
}

/// RFC 8297: hints come before each answer, however quickly answers follow each other.
#[test]
fn hints_before_each_answer_are_no_flood() {
    let (mut conn, mut out) = opened();
    for number in 0..2_000_u32 {
        let stream = 2 * number + 1;
        if number > 0 {
            assert_eq!(ask(&mut conn, 7, true, &mut out), Some(stream));
        }
        let answer = [headers(stream, &[(":status", "103")], false), headers(stream, &[(":status", "200")], true)];
        assert_eq!(told(&mut conn, &answer.concat(), &mut out).map(|told| told.len()), Ok(2), "{number}");
    }
}

#[test]
fn what_is_wrong_with_a_connection_ends_it() {
    let many = |kind, count: usize, payload: &[u8]| one(kind, 0, 0, payload).repeat(count);
    let window = |bytes: usize| {
        [headers(1, &[(":status", "200")], false), data(1, 16_384, false).repeat(bytes / 16_384)].concat()
    };
    for (bytes, why) in [
        (many(Kind::Settings, 100, &[]), "upstream sent too many settings frames"),
        (many(Kind::Ping, 1_100, &[0; 8]), "upstream sent too many ping frames"),
        (
            [headers(1, &[(":status", "200")], false), data(1, 0, false).repeat(300)].concat(),
            "upstream sent too much of http2 frames (empty frames)",
        ),
        (
            headers(1, &[(":status", "103")], false).repeat(300),
            "upstream sent too much of http2 frames (interim answers)",
        ),
        (
            one(Kind::Priority, 0, 1, &[0, 0, 0, 1, 9]).repeat(1_100),
            "upstream sent too much of http2 frames (PRIORITY)",
        ),
        (data(2, 1, false), "upstream sent data frame for unknown stream 2"),
        (data(5, 1, false), "upstream sent data frame for unknown stream 5"),
        (headers(5, &[(":status", "200")], true), "upstream sent frame for unknown stream 5"),
        (one(Kind::Reset, 0, 9, &[0; 4]), "upstream sent frame for unknown stream 9"),
        (one(Kind::PushPromise, 4, 1, &[0, 0, 0, 2]), "upstream sent unexpected push promise frame"),
        (one(Kind::Continuation, 4, 1, &[]), "upstream sent unexpected http2 frame: 9"),
        (
            one(Kind::Settings, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
            "upstream sent settings frame with too large initial window size: 2147483648",
        ),
        (one(Kind::Settings, 0, 1, &[]), "upstream sent settings frame with non-zero stream id: 1"),
        (one(Kind::WindowUpdate, 0, 0, &WINDOW_MAX.to_be_bytes()), "upstream sent too large window update"),
        (one(Kind::Ping, 0, 0, &[0; 7]), "upstream sent ping frame with invalid length: 7"),
        (one(Kind::Headers, frame::END_HEADERS, 1, &[0xff, 0xff]), "upstream sent truncated http2 header"),
        (one(Kind::Headers, frame::END_HEADERS, 1, &[0x80]), "upstream sent invalid http2 table index"),
        (
            [one(Kind::Headers, 0, 1, &[]), one(Kind::Continuation, 0, 1, &[]).repeat(100)].concat(),
            "upstream sent too much of http2 frames (CONTINUATION)",
        ),
        (
            FrameHead { length: 16_385, kind: Kind::Data, flags: 0, stream: 1 }.bytes().to_vec(),
            "upstream sent too large http2 frame: 16385",
        ),
    ] {
        let (mut conn, mut out) = opened();
        let fault = told(&mut conn, &bytes, &mut out);
        assert_eq!(fault, Err(why.to_owned()));
        let mut at = 0;
        while FrameHead::read(&out[at..]).is_some_and(|head| head.kind != Kind::GoAway) {
            at += HEAD + FrameHead::read(&out[at..]).map_or(0, |head| head.length as usize);
        }
        assert!(FrameHead::read(&out[at..]).is_some(), "{why}: it is told");
    }
    // More than its window ends a stream; what is read has more.
    let (mut conn, mut out) = opened();
    let all = told(&mut conn, &window(81_920), &mut out).expect("the stream's");
    assert!(all.iter().any(|told| told.starts_with("7 malformed: upstream violated stream flow control")), "{all:?}");
    let (mut conn, mut out) = opened();
    assert!(told(&mut conn, &window(65_536), &mut out).is_ok());
    conn.give_back(1, 65_536, &mut out);
    assert!(
        told(&mut conn, &data(1, 16_384, false).repeat(8), &mut out).is_ok_and(|all| all.len() == 8),
        "twice as much"
    );
}

/// Of an answer that nobody takes yet little comes, whatever is given back of it; once somebody does, as much as for
/// others.
#[test]
fn who_waits_has_a_little_window() {
    let (mut conn, mut out) = opened();
    let fields = || [(HeaderField::new(b":method", b"GET"), Indexing::Incremental)].into_iter();
    let question = |waits| Question { data: 8, ends: true, is_head: false, head_max: 4_096, waits };
    assert_eq!(conn.open(question(true), fields(), &mut out), Some(3));
    let kinds = |out: &mut Vec<u8>| {
        let (mut at, mut all) = (0, Vec::new());
        while let Some(head) = FrameHead::read(&out[at..]) {
            at += HEAD + head.length as usize;
            let increment = out[at - 4..at].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            all.push((head.kind, head.stream, if head.kind == Kind::WindowUpdate { increment } else { 0 }));
        }
        out.clear();
        all
    };
    assert_eq!(kinds(&mut out), [(Kind::Headers, 3, 0)]);
    let mut bytes = [headers(3, &[(":status", "200")], false), data(3, 2_048, false)].concat();
    assert!(told(&mut conn, &bytes, &mut out).is_ok_and(|all| all.len() == 2));
    conn.give_back(3, 2_048, &mut out);
    conn.give_back(3, 0, &mut out);
    assert_eq!(kinds(&mut out), [(Kind::WindowUpdate, 3, 2_048)]);
    conn.widen(3, &mut out);
    conn.widen(3, &mut out);
    assert_eq!(kinds(&mut out), [(Kind::WindowUpdate, 3, 65_536 - 2_048)]);
    bytes = data(3, 16_384, false).repeat(4);
    assert!(told(&mut conn, &bytes, &mut out).is_ok_and(|all| all.len() == 4));
    assert_eq!(conn.open(question(false), fields(), &mut out), Some(5));
    assert_eq!(kinds(&mut out), [(Kind::Headers, 5, 0), (Kind::WindowUpdate, 5, 65_536 - 2_048)]);
    conn.reset(3, ErrorCode::CANCEL, &mut out);
    assert_eq!(conn.grown, 0);
    let (mut conn, mut out) = opened();
    assert_eq!(conn.open(question(true), fields(), &mut out), Some(3));
    let bytes = [headers(3, &[(":status", "200")], false), data(3, 2_049, false)].concat();
    let all = told(&mut conn, &bytes, &mut out).expect("the stream's");
    assert!(all.iter().any(|told| told.contains("upstream violated stream flow control")), "{all:?}");
}

#[test]
fn what_a_server_says_not_to_have_processed_is_told() {
    let (mut conn, mut out) = opened();
    for data in [8, 9] {
        ask(&mut conn, data, true, &mut out);
    }
    let mut bytes = Vec::new();
    frame::write_go_away(&mut bytes, 3, ErrorCode::NO_ERROR);
    assert_eq!(told(&mut conn, &bytes, &mut out), Ok(vec!["goaway NO_ERROR".to_owned()]));
    assert_eq!((conn.unprocessed(), conn.unprocessed()), (Some(9), None));
    assert!(conn.is_leaving() && conn.room() == 0 && ask(&mut conn, 10, true, &mut out).is_none());
    let refused = one(Kind::Reset, 0, 3, &ErrorCode::REFUSED_STREAM.0.to_be_bytes());
    assert_eq!(told(&mut conn, &refused, &mut out), Ok(vec!["8 reset REFUSED_STREAM".to_owned()]));
    assert_eq!(conn.drain(), [7]);
}

/// Our own server at the other end: bodies both ways as windows let them.
#[test]
fn bodies_go_as_windows_let_them() {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let mut conn = Conn::new(UpstreamSettings::default(), &mut out);
    let mut server =
        ServerConnection::<()>::new(ServerSettings { window: 100, ..ServerSettings::default() }, &mut back);
    let mut memory = HeadMemory::default();
    assert!(told(&mut conn, &back, &mut out).is_ok());
    back.clear();
    let stream = ask(&mut conn, 7, false, &mut out).expect("room");
    let (mut left, mut came, mut ended) = (1_000, 0, false);
    while !ended {
        let room = conn.data_room(stream).min(left);
        if room > 0 {
            left -= room;
            let head = conn.data(stream, room, left == 0);
            out.extend_from_slice(&head);
            out.extend_from_slice(&vec![b'y'; room]);
        }
        let mut at = 0;
        while at < out.len() {
            let (taken, event) =
                server.on_bytes(Offer { bytes: &out[at..], second: 1, memory: &mut memory }, &mut back);
            at += taken;
            match event {
                ServerEvent::Body { stream, bytes, ends } => {
                    (came, ended) = (came + bytes.len(), ends);
                    server.give_back(stream, bytes.len(), &mut back);
                }
                ServerEvent::Failed(failure) => panic!("{failure:?}"),
                _ if taken == 0 => break,
                _ => {}
            }
        }
        out.drain(..at);
        assert!(told(&mut conn, &back, &mut out).is_ok());
        back.clear();
    }
    assert_eq!((came, conn.open_streams()), (1_000, 1), "the answer is still to come");
}

/// Whoever is sent to opens windows, each of a stream and the connection's, a few bytes at a time where
/// messages are short, and measures the path by PING: for what was sent that is no flood.
#[test]
fn what_answers_bodies_that_are_sent_is_no_flood() {
    let (mut conn, mut out) = opened();
    assert_eq!(ask(&mut conn, 8, false, &mut out), Some(3));
    let mut frames = Vec::new();
    frame::write_window_update(&mut frames, 0, 10);
    frame::write_window_update(&mut frames, 3, 10);
    frame::write(&mut frames, Kind::Ping, 0, 0, b"measured");
    for sent in 0..20_000 {
        assert!(conn.data_room(3) >= 10, "{sent}");
        let _ = conn.data(3, 10, false);
        assert_eq!(told(&mut conn, &frames, &mut out), Ok(vec!["room None".to_owned(), "room Some(8)".to_owned()]));
        out.clear();
    }
    // Who was sent nothing has no reason to.
    let floods = (0..8_001).find_map(|_| told(&mut conn, &frames, &mut out).err());
    assert!(floods.is_some_and(|told| told.contains("too")), "{:?}", conn.budgets);
}

#[test]
fn a_connection_whose_window_is_shut_says_so() {
    let (mut conn, mut out) = opened();
    let mut streams = Vec::new();
    let mut left = FIRST_WINDOW as usize;
    while left > 0 {
        assert!(!conn.is_shut());
        let stream = ask(&mut conn, 9, false, &mut out).unwrap();
        let some = conn.data_room(stream).min(left);
        let _ = conn.data(stream, some, false);
        left -= some;
        streams.push(stream);
    }
    assert!(conn.is_shut() && streams.iter().all(|stream| conn.data_room(*stream) == 0));
    let mut more = Vec::new();
    frame::write_window_update(&mut more, 0, 1);
    assert_eq!(told(&mut conn, &more, &mut out), Ok(vec!["room None".to_owned()]));
    assert!(!conn.is_shut());
}
