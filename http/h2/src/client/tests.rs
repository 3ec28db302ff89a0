//! The client against frames that a server may send, and some that none may.

use super::*;
use crate::frame::{
    ACK, END_HEADERS, END_STREAM, write, write_go_away, write_reset, write_settings, write_window_update,
};
use hpack::{put_static, put_status};

/// A client and what it wrote.
struct Talk {
    client: ClientConnection,
    scratch: Scratch,
    out: Vec<u8>,
}

const FIELDS: [(&str, &str); 5] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x"), ("x-own", "value")];

impl Talk {
    fn new(settings: ClientSettings) -> Self {
        let mut out = Vec::new();
        let client = ClientConnection::new(settings, &mut out);
        Self { client, scratch: Scratch::new(), out }
    }

    /// With the server's settings.
    fn settled(settings: ClientSettings, entries: &[(u16, u32)]) -> Self {
        let mut talk = Self::new(settings);
        let mut bytes = Vec::new();
        write_settings(&mut bytes, entries);
        assert_eq!(talk.take(&bytes), Ok(vec!["Room".to_owned()]));
        talk.out.clear();
        talk
    }

    fn ask(&mut self, content: u64) -> Option<u16> {
        let fields = FIELDS
            .iter()
            .map(|(name, value)| (HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Incremental));
        self.client.open(Asked { content, ..Asked::default() }, fields, &mut self.out)
    }

    /// What bytes mean; all of them are whole frames.
    fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, ErrorCode> {
        let mut events = Vec::new();
        loop {
            let (taken, event) = self.client.on_bytes(bytes, &mut self.scratch, &mut self.out)?;
            bytes = &bytes[taken..];
            match event {
                ClientEvent::NeedMore => {
                    assert_eq!(bytes, b"");
                    return Ok(events);
                }
                ClientEvent::Nothing => {}
                event => events.push(format!("{event:?}")),
            }
        }
    }

    /// The frames that were written since they were last looked at.
    fn written(&mut self) -> Vec<(Kind, u8, u32, Vec<u8>)> {
        let out = std::mem::take(&mut self.out);
        let mut rest = out.strip_prefix(frame::PREFACE.as_slice()).unwrap_or(&out);
        let mut frames = Vec::new();
        while let Some(head) = FrameHead::read(rest) {
            let end = frame::HEAD + head.length as usize;
            frames.push((head.kind, head.flags, head.stream, rest[frame::HEAD..end].to_vec()));
            rest = &rest[end..];
        }
        frames
    }
}

fn block(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    if status > 0 {
        put_status(status, &mut block);
    }
    for (name, value) in fields {
        put_static(HeaderField::new(name.as_bytes(), value.as_bytes()), &mut block);
    }
    block
}

fn answer(stream: u32, status: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ends = if content.is_empty() { END_STREAM } else { 0 };
    write(&mut bytes, Kind::Headers, END_HEADERS | ends, stream, &block(status, &[]));
    if !content.is_empty() {
        write(&mut bytes, Kind::Data, END_STREAM, stream, content);
    }
    bytes
}

#[test]
fn a_connection_begins_as_the_rfc_says() {
    // RFC 9113 section 3.4.
    let mut talk = Talk::new(ClientSettings { decoder_table: 0, ..ClientSettings::default() });
    assert!(talk.out.starts_with(frame::PREFACE));
    let frames = talk.written();
    let entries: Vec<_> = frame::settings(&frames[0].3).collect();
    assert_eq!(entries, [(2, 0), (4, (1 << 30) - 1), (1, 0)]);
    assert_eq!((frames[1].0, frames[1].2, frames.len()), (Kind::WindowUpdate, 0, 2));
    // Something else than settings comes first.
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Ping, 0, 0, &[0; 8]);
    assert_eq!(talk.take(&bytes), Err(ErrorCode::PROTOCOL_ERROR));
    assert_eq!(talk.written()[0].0, Kind::GoAway);
}

#[test]
fn answers_come_in_any_order_and_however_they_are_cut() {
    let mut bytes = Vec::new();
    bytes.extend(answer(3, 200, b"hello"));
    bytes.extend(answer(1, 404, b""));
    write(&mut bytes, Kind::Headers, END_HEADERS, 5, &block(103, &[("link", "</a>")]));
    write(&mut bytes, Kind::Headers, 0, 5, &block(200, &[("content-length", "2")])[..1]);
    write(&mut bytes, Kind::Continuation, END_HEADERS, 5, &block(200, &[("content-length", "2")])[1..]);
    write(&mut bytes, Kind::Data, frame::PADDED, 5, &[3, b'h', b'i', 0, 0, 0]);
    write(&mut bytes, Kind::Headers, END_HEADERS | END_STREAM, 5, &block(0, &[("x-sum", "1")]));
    for step in 1..bytes.len() {
        let mut talk = Talk::settled(ClientSettings::default(), &[]);
        assert_eq!([talk.ask(0), talk.ask(0), talk.ask(0)], [Some(0), Some(1), Some(2)]);
        let (mut events, mut start) = (Vec::new(), 0);
        for end in (step..bytes.len()).step_by(step).chain([bytes.len()]) {
            loop {
                let (taken, event) =
                    talk.client.on_bytes(&bytes[start..end], &mut talk.scratch, &mut talk.out).unwrap();
                start += taken;
                match event {
                    ClientEvent::NeedMore => break,
                    ClientEvent::Over { place, status, content, .. } => events.push((place, status, content)),
                    _ => {}
                }
            }
        }
        assert_eq!((start, events), (bytes.len(), vec![(1, 200, 5), (0, 404, 0), (2, 200, 2)]), "{step}");
        assert_eq!((talk.client.open_streams(), talk.client.room()), (0, 100));
    }
}

#[test]
fn the_same_request_is_a_few_bytes_once_the_table_has_it() {
    let mut talk = Talk::settled(ClientSettings::default(), &[]);
    let lengths: Vec<usize> = (0..4)
        .map(|_| {
            talk.ask(0).unwrap();
            talk.written()[0].3.len()
        })
        .collect();
    assert!(lengths[0] > 15, "{lengths:?}");
    assert_eq!(lengths[1..], [5, 5, 5]);
}

#[test]
fn a_server_says_how_many_streams_it_takes() {
    // RFC 9113 section 6.5.2; before it says so, one.
    let mut talk = Talk::new(ClientSettings { streams: 200, ..ClientSettings::default() });
    assert_eq!(talk.client.room(), 1);
    let mut bytes = Vec::new();
    write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    talk.take(&bytes).unwrap();
    assert_eq!([talk.ask(0), talk.ask(0), talk.ask(0)], [Some(0), Some(1), None]);
    assert_eq!(
        talk.take(&answer(1, 200, b"")),
        Ok(vec!["Over { place: 0, status: 200, content: 0, grpc_status: None }".to_owned()])
    );
    assert_eq!(talk.ask(0), Some(0));
    bytes.clear();
    write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, 1_000)]);
    talk.take(&bytes).unwrap();
    assert_eq!(talk.client.room(), 198);
}

#[test]
fn content_goes_as_far_as_the_windows_are_open() {
    // RFC 9113 section 6.9: of the stream, of the connection, and a change of the first.
    let mut talk = Talk::settled(ClientSettings::default(), &[(setting::INITIAL_WINDOW_SIZE, 10)]);
    let place = talk.ask(100_000).unwrap();
    talk.written();
    let mut sent = Vec::new();
    let mut all = |talk: &mut Talk| {
        while let Some(piece) = talk.client.poll_data(&mut talk.out) {
            assert_eq!(piece.place, place);
            sent.push((piece.range.start, piece.range.end));
        }
        sent.clone()
    };
    assert_eq!(all(&mut talk), [(0, 10)]);
    let mut bytes = Vec::new();
    write_window_update(&mut bytes, 1, 5);
    talk.take(&bytes).unwrap();
    assert_eq!(all(&mut talk), [(0, 10), (10, 15)]);
    bytes.clear();
    write_settings(&mut bytes, &[(setting::INITIAL_WINDOW_SIZE, 100_000)]);
    talk.take(&bytes).unwrap();
    // The connection's is 65,535.
    assert_eq!(all(&mut talk)[2..], [(15, 16_399), (16_399, 32_783), (32_783, 49_167), (49_167, 65_535)]);
    bytes.clear();
    write_window_update(&mut bytes, 0, 40_000);
    talk.take(&bytes).unwrap();
    assert_eq!(all(&mut talk)[6..], [(65_535, 81_919), (81_919, 98_303), (98_303, 100_000)]);
    assert_eq!(talk.take(&answer(1, 200, b"")).unwrap().len(), 1);
    // The answer came after the last byte: nothing is to be taken back.
    assert!(!talk.out.windows(4).any(|code| code == [0, 0, 0, 8]));
    // A window beyond 2^31 - 1.
    bytes.clear();
    write_window_update(&mut bytes, 0, MAX_STREAM);
    assert_eq!(talk.take(&bytes), Err(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn an_answer_before_the_content_is_sent_takes_that_back() {
    let mut talk = Talk::settled(ClientSettings::default(), &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    talk.ask(10).unwrap();
    assert_eq!(talk.client.poll_data(&mut talk.out), None);
    talk.written();
    assert_eq!(talk.take(&answer(1, 413, b"no")).unwrap().len(), 3);
    assert_eq!(talk.written(), [(Kind::Reset, 0, 1, vec![0, 0, 0, 8])]);
    // What the server says of it later means nothing.
    let mut bytes = Vec::new();
    write_reset(&mut bytes, 1, ErrorCode::NO_ERROR);
    write_window_update(&mut bytes, 1, 5);
    assert_eq!(talk.take(&bytes), Ok(vec![]));
}

#[test]
fn windows_are_given_back_when_they_are_half_used_and_hold() {
    let settings = ClientSettings { stream_window: 1_000, connection_window: 70_000, ..ClientSettings::default() };
    let mut talk = Talk::settled(settings, &[]);
    talk.ask(0).unwrap();
    talk.written();
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Headers, END_HEADERS, 1, &block(200, &[]));
    write(&mut bytes, Kind::Data, 0, 1, &[0; 500]);
    talk.take(&bytes).unwrap();
    assert_eq!(talk.written(), []);
    bytes.clear();
    write(&mut bytes, Kind::Data, 0, 1, &[0; 1]);
    talk.take(&bytes).unwrap();
    assert_eq!(talk.written(), [(Kind::WindowUpdate, 0, 1, vec![0, 0, 1, 0xf5])]);
    bytes.clear();
    write(&mut bytes, Kind::Data, 0, 1, &[0; 1_001]);
    assert_eq!(talk.take(&bytes), Err(ErrorCode::FLOW_CONTROL_ERROR));
}

/// Windows of who takes as it has room begin with nothing, and are opened by it alone; padding counts (RFC 9113
/// section 6.9.1).
#[test]
fn held_windows_are_opened_by_who_takes() {
    let settings = ClientSettings { held: true, ..ClientSettings::default() };
    let first = Talk::new(settings).written();
    // Pushes are off, and INITIAL_WINDOW_SIZE is zero.
    assert_eq!(first[0], (Kind::Settings, 0, 0, vec![0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]));
    let mut talk = Talk::settled(settings, &[]);
    let place = talk.ask(0).unwrap();
    talk.client.open_window(place, 600, &mut talk.out);
    assert_eq!(talk.written()[1], (Kind::WindowUpdate, 0, 1, vec![0, 0, 2, 0x58]));
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Headers, END_HEADERS, 1, &block(200, &[]));
    write(&mut bytes, Kind::Data, 0, 1, &[0; 500]);
    let mut padded = vec![9];
    padded.extend([0; 39 + 9]);
    write(&mut bytes, Kind::Data, frame::PADDED, 1, &padded);
    talk.take(&bytes).unwrap();
    assert_eq!((talk.client.window(place), talk.written()), (51, vec![]), "nothing is given back by itself");
    // A window has 2^31 - 1 at most.
    talk.client.open_window(place, u32::MAX, &mut talk.out);
    assert_eq!(talk.client.window(place), MAX_STREAM);
    assert_eq!(talk.written(), [(Kind::WindowUpdate, 0, 1, (MAX_STREAM - 51).to_be_bytes().to_vec())]);
    let mut talk = Talk::settled(settings, &[]);
    talk.ask(0).unwrap();
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Headers, END_HEADERS, 1, &block(200, &[]));
    write(&mut bytes, Kind::Data, 0, 1, &[0; 1]);
    assert_eq!(talk.take(&bytes), Err(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn what_a_server_has_not_processed_is_told_apart() {
    // RFC 9113 section 6.8.
    let mut talk = Talk::settled(ClientSettings::default(), &[]);
    let places: Vec<_> = (0..3).map(|_| talk.ask(0).unwrap()).collect();
    let mut bytes = Vec::new();
    write_go_away(&mut bytes, MAX_STREAM, ErrorCode::NO_ERROR);
    talk.take(&bytes).unwrap();
    assert_eq!((talk.client.unprocessed(), talk.client.room(), talk.client.is_leaving()), (None, 0, true));
    bytes.clear();
    write_go_away(&mut bytes, 1, ErrorCode::NO_ERROR);
    talk.take(&bytes).unwrap();
    let told: Vec<_> = std::iter::from_fn(|| talk.client.unprocessed()).collect();
    assert_eq!((told, talk.client.open_streams()), (places[1..].to_vec(), 1));
    assert_eq!(talk.take(&answer(1, 200, b"x")).unwrap().len(), 3);
}

#[test]
fn malformed_answers_end_their_stream_and_no_other() {
    // RFC 9113 section 8.1.1.
    let heads = [
        (block(0, &[("server", "x")]), false),
        (block(0, &[("server", "x"), (":status", "200")]), true),
        (block(200, &[(":status", "200")]), true),
        (block(200, &[(":path", "/")]), true),
        (block(101, &[]), false),
        (block(200, &[("content-length", "5")]), true),
        (block(200, &[("content-length", "x")]), false),
        (block(100, &[]), true),
    ];
    for (head, ends) in heads {
        let mut talk = Talk::settled(ClientSettings::default(), &[]);
        talk.ask(0);
        talk.ask(0);
        talk.written();
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Headers, END_HEADERS | if ends { END_STREAM } else { 0 }, 1, &head);
        assert_eq!(talk.take(&bytes), Ok(vec!["Malformed { place: 0 }".to_owned()]), "{head:?}");
        assert_eq!(talk.written(), [(Kind::Reset, 0, 1, vec![0, 0, 0, 1])]);
        assert_eq!(talk.take(&answer(3, 200, b"")).unwrap().len(), 1);
    }
    // Content before the head.
    let mut talk = Talk::settled(ClientSettings::default(), &[]);
    talk.ask(0);
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Data, END_STREAM, 1, b"x");
    assert_eq!(talk.take(&bytes), Ok(vec!["Malformed { place: 0 }".to_owned()]));
}

#[test]
fn what_no_server_may_send_ends_the_connection() {
    let case = |kind, flags, stream, payload: &[u8]| {
        let mut talk = Talk::settled(ClientSettings::default(), &[]);
        talk.ask(0);
        let mut bytes = Vec::new();
        write(&mut bytes, kind, flags, stream, payload);
        talk.take(&bytes).unwrap_err()
    };
    assert_eq!(case(Kind::Headers, END_HEADERS, 3, &block(200, &[])), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Headers, END_HEADERS, 2, &block(200, &[])), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Headers, END_HEADERS, 1, &[0x80]), ErrorCode::COMPRESSION_ERROR);
    assert_eq!(case(Kind::Data, 0, 3, b"x"), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Data, 0, 0, b"x"), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Continuation, END_HEADERS, 1, &[]), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::PushPromise, END_HEADERS, 1, &[0, 0, 0, 2]), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Reset, 0, 3, &[0; 4]), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Settings, ACK, 0, &[0; 6]), ErrorCode::FRAME_SIZE_ERROR);
    assert_eq!(case(Kind::Settings, 0, 0, &[0, 5, 0, 0, 0, 1]), ErrorCode::PROTOCOL_ERROR);
    assert_eq!(case(Kind::Ping, 0, 0, &[0; 7]), ErrorCode::FRAME_SIZE_ERROR);
    assert_eq!(case(Kind::Other(77), 0, 0, &[0; PAYLOAD + 1]), ErrorCode::FRAME_SIZE_ERROR);
}

#[test]
fn a_long_answer_is_found_among_many_short_ones() {
    let mut talk = Talk::settled(ClientSettings { streams: 4, ..ClientSettings::default() }, &[]);
    let long = talk.ask(0).unwrap();
    for number in 1..100 {
        let place = talk.ask(0).unwrap();
        assert_ne!(place, long);
        let over = format!("Over {{ place: {place}, status: 204, content: 0, grpc_status: None }}");
        assert_eq!(talk.take(&answer(2 * number + 1, 204, b"")), Ok(vec![over]));
    }
    let over = format!("Over {{ place: {long}, status: 200, content: 1, grpc_status: None }}");
    assert_eq!(talk.take(&answer(1, 200, b"z")).unwrap().last(), Some(&over));
}

/// An answer on a stream whose head is this block, with so much content.
fn with_block(stream: u32, block: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Headers, END_HEADERS, stream, block);
    write(&mut bytes, Kind::Data, END_STREAM, stream, content);
    bytes
}

#[test]
fn a_block_means_again_what_it_meant_while_the_table_is_as_it_was() {
    // RFC 7541 section 2.3.3: the newest entry is 62.
    let added = |length: &str| [&[0x88, 0x5c, length.len() as u8][..], length.as_bytes()].concat();
    let newest = [0x88, 0xbe];
    let mut talk = Talk::settled(ClientSettings::default(), &[]);
    let mut stream = 1;
    let is_answer = |talk: &mut Talk, stream: &mut u32, block: &[u8], content: usize| {
        talk.ask(0).unwrap();
        let events = talk.take(&with_block(*stream, block, &vec![b'x'; content])).unwrap();
        *stream += 2;
        !events.last().unwrap().starts_with("Malformed")
    };
    assert!(is_answer(&mut talk, &mut stream, &added("5"), 5));
    for _ in 0..3 {
        assert!(is_answer(&mut talk, &mut stream, &newest, 5));
    }
    assert!(!is_answer(&mut talk, &mut stream, &newest, 7), "it still says 5");
    assert!(is_answer(&mut talk, &mut stream, &added("7"), 7));
    // The same bytes as before, and another length.
    assert!(is_answer(&mut talk, &mut stream, &newest, 7) && is_answer(&mut talk, &mut stream, &newest, 7));
    assert!(!is_answer(&mut talk, &mut stream, &newest, 5));
    // What adds an entry does so each time.
    assert!(is_answer(&mut talk, &mut stream, &added("9"), 9) && is_answer(&mut talk, &mut stream, &added("9"), 9));
    assert!(is_answer(&mut talk, &mut stream, &[0x88, 0xbf], 9), "the one before is the same");
    // Trailers add an entry, and the head that was known means another.
    assert!(is_answer(&mut talk, &mut stream, &newest, 9) && !is_answer(&mut talk, &mut stream, &newest, 3));
    talk.ask(0).unwrap();
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Headers, END_HEADERS, stream, &newest);
    write(&mut bytes, Kind::Data, 0, stream, b"123456789");
    write(&mut bytes, Kind::Headers, END_HEADERS | END_STREAM, stream, &[0x40, 1, b'x', 1, b'y']);
    talk.take(&bytes).unwrap();
    stream += 2;
    assert!(is_answer(&mut talk, &mut stream, &newest, 3), "62 is no length now");
    // Larger than the table: it is empty then, and 62 nothing (section 4.4).
    let large = [&[0x88, 0x40, 1, b'a', 0x7f, 0x81, 0x1f][..], &[b'v'; 4_096]].concat();
    assert!(is_answer(&mut talk, &mut stream, &large, 1));
    talk.ask(0).unwrap();
    assert_eq!(talk.take(&with_block(stream, &newest, b"")), Err(ErrorCode::COMPRESSION_ERROR));
}

#[test]
fn a_table_that_is_smaller_is_told_before_the_same_block_means_the_same() {
    // RFC 7541 section 4.2: after our settings are acknowledged, the next block says so.
    let settings = ClientSettings { decoder_table: 0, ..ClientSettings::default() };
    let mut talk = Talk::settled(settings, &[]);
    let plain = block(200, &[]);
    let ask = |talk: &mut Talk, stream, block: &[u8]| {
        talk.ask(0).unwrap();
        talk.take(&with_block(stream, block, b""))
    };
    assert!(ask(&mut talk, 1, &plain).is_ok() && ask(&mut talk, 3, &plain).is_ok());
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Settings, ACK, 0, &[]);
    talk.take(&bytes).unwrap();
    assert_eq!(ask(&mut talk, 5, &plain), Err(ErrorCode::COMPRESSION_ERROR));
}

#[test]
fn trailers_say_what_became_of_a_call() {
    let over = |events: Result<Vec<String>, ErrorCode>| events.unwrap().pop().unwrap();
    let said = |head: &[u8], trailers: Option<&[u8]>| {
        let mut talk = Talk::settled(ClientSettings::default(), &[]);
        talk.ask(0);
        let mut bytes = Vec::new();
        let ends = if trailers.is_none() { END_STREAM } else { 0 };
        write(&mut bytes, Kind::Headers, END_HEADERS | ends, 1, head);
        if let Some(trailers) = trailers {
            write(&mut bytes, Kind::Headers, END_HEADERS | END_STREAM, 1, trailers);
        }
        over(talk.take(&bytes))
    };
    let status = |value: &str| block(0, &[("grpc-status", value), ("grpc-message", "x")]);
    let is = |event: String, said: &str| {
        event == format!("Over {{ place: 0, status: 200, content: 0, grpc_status: {said} }}")
    };
    let ok = block(200, &[("content-type", "application/grpc")]);
    assert!(is(said(&ok, Some(&status("0"))), "Some(0)"));
    assert!(is(said(&ok, Some(&status("14"))), "Some(14)"));
    for wrong in ["", "x", "-1", "70000"] {
        assert!(is(said(&ok, Some(&status(wrong))), "Some(65535)"), "{wrong}");
    }
    assert!(is(said(&ok, Some(&block(0, &[("x", "y")]))), "None"));
    // Without content, the head has it; with some, it means nothing there.
    let head = block(200, &[("grpc-status", "12")]);
    assert!(is(said(&head, None), "Some(12)"));
    assert!(is(said(&head, Some(&block(0, &[("x", "y")]))), "None"));
}

#[test]
fn what_is_not_waited_for_is_cancelled() {
    let mut talk = Talk::settled(ClientSettings::default(), &[]);
    let places = [talk.ask(0).unwrap(), talk.ask(10).unwrap()];
    talk.written();
    for place in places {
        talk.client.cancel(place, &mut talk.out);
    }
    assert_eq!(talk.client.open_streams(), 0);
    assert_eq!(talk.client.poll_data(&mut talk.out), None);
    let resets = [1, 3].map(|stream| (Kind::Reset, 0, stream, vec![0, 0, 0, 8]));
    assert_eq!(talk.written(), resets);
    // What comes meanwhile means nothing, but for the table and the window.
    assert_eq!(talk.take(&answer(1, 200, b"late")), Ok(vec![]));
}

#[test]
fn what_is_refused_as_too_much_is_told_apart() {
    // RFC 9113 section 5.1.2: the limit came when the streams were open.
    let mut talk = Talk::settled(ClientSettings::default(), &[(setting::MAX_CONCURRENT_STREAMS, 4)]);
    assert_eq!([talk.ask(0), talk.ask(0), talk.ask(0)], [Some(0), Some(1), Some(2)]);
    let mut bytes = Vec::new();
    write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, 3)]);
    write_reset(&mut bytes, 1, ErrorCode::REFUSED_STREAM);
    let refused = |place, beyond_limit| {
        format!("{:?}", ClientEvent::Reset { place, code: ErrorCode::REFUSED_STREAM, beyond_limit })
    };
    assert_eq!(talk.take(&bytes), Ok(vec!["Room".to_owned(), refused(0, false)]), "it takes as many");
    bytes.clear();
    write_settings(&mut bytes, &[(setting::MAX_CONCURRENT_STREAMS, 1)]);
    write_reset(&mut bytes, 5, ErrorCode::REFUSED_STREAM);
    assert_eq!(talk.take(&bytes), Ok(vec!["Room".to_owned(), refused(2, true)]));
    talk.take(&answer(3, 200, b"")).unwrap();
    assert_eq!(talk.ask(0), Some(1));
    bytes.clear();
    write_reset(&mut bytes, 7, ErrorCode::REFUSED_STREAM);
    assert_eq!(talk.take(&bytes), Ok(vec![refused(1, false)]), "it knew the limit");
}

#[test]
fn a_head_says_whether_messages_may_be_compressed() {
    for (encoding, compressed) in [(None, false), (Some("identity"), false), (Some("gzip"), true)] {
        let mut talk = Talk::settled(ClientSettings::default(), &[]);
        talk.ask(0).unwrap();
        let fields: Vec<_> = encoding.into_iter().map(|encoding| ("grpc-encoding", encoding)).collect();
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Headers, END_HEADERS, 1, &block(200, &fields));
        let head = ClientEvent::Head { place: 0, status: 200, grpc_encoding: compressed };
        assert_eq!(talk.take(&bytes), Ok(vec![format!("{head:?}")]));
    }
}
