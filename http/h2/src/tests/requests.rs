//! Heads of requests, and bodies.

use super::*;

/// RFC 9113 section 8.3: the image that all protocols have.
#[test]
fn a_head_becomes_the_image_that_all_protocols_have() {
    let fields = [
        (":method", "GET"),
        (":path", "/a/b?c=d?e"),
        (":scheme", "https"),
        (":authority", "example.org:8443"),
        ("cookie", "a=b"),
        ("user-agent", "me"),
        ("cookie", "c=d"),
        ("te", "trailers"),
        ("host", "EXAMPLE.org:8443"),
    ];
    let mut world = World::new();
    let bytes = world.headers(1, &fields, true);
    let head = "GET /a/b?c=d?e HTTP/2.0\r\nhost: example.org:8443\r\nuser-agent: me\r\nte: trailers\r\n\
                cookie: a=b; c=d\r\n\r\n";
    assert_eq!(world.offer(&bytes), [Seen::Request { stream: 1, head: head.into(), length: None, ends: true }]);
    let (mut memory, mut out) = (HeadMemory::default(), Vec::new());
    let bytes = world.headers(3, &fields, true);
    let offer = Offer { bytes: &bytes, second: 0, memory: &mut memory };
    let (_, ServerEvent::Request { request, .. }) = world.server.on_bytes(offer, &mut out) else { panic!("one") };
    assert_eq!((request.path(), request.query()), (&b"/a/b"[..], Some(&b"c=d?e"[..])));
    assert_eq!((request.authority(), request.line()), (&b"example.org:8443"[..], &b"GET /a/b?c=d?e HTTP/2.0"[..]));
    assert_eq!(request.known(semantics::Known::UserAgent), Some(&b"me"[..]));
    assert_eq!(request.method(), semantics::Method::Get);
}

#[test]
fn targets_have_the_forms_of_their_methods() {
    for (fields, target, authority) in [
        (&[(":method", "OPTIONS"), (":scheme", "http"), (":authority", "a"), (":path", "*")][..], "*", "a"),
        (&[(":method", "CONNECT"), (":authority", "b:443")], "b:443", "b:443"),
        (&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "c")], "/", "c"),
        (&[(":method", "ODD"), (":scheme", "x"), (":path", "/%20"), ("host", "")], "/%20", ""),
    ] {
        let mut world = World::new();
        let (mut memory, mut out) = (HeadMemory::default(), Vec::new());
        let bytes = world.headers(1, fields, true);
        let offer = Offer { bytes: &bytes, second: 0, memory: &mut memory };
        let (_, ServerEvent::Request { request, .. }) = world.server.on_bytes(offer, &mut out) else {
            panic!("{fields:?}")
        };
        assert_eq!((request.target(), request.authority()), (target.as_bytes(), authority.as_bytes()));
        assert_eq!(request.method_name(), fields[0].1.as_bytes());
    }
}

/// RFC 9113 sections 8.2 and 8.3.
#[test]
fn malformed_heads_are_refused_and_their_connection_goes_on() {
    let with = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
    let mut cases = vec![
        vec![],
        GET[1..].to_vec(),
        [&GET[..1], &GET[2..]].concat(),
        GET[..3].to_vec(),
        [&GET[..2], &GET[3..]].concat(),
        vec![("accept", "a"), GET[0], GET[1], GET[2], GET[3]],
        vec![GET[0], GET[1], GET[2], (":path", "")],
        vec![GET[0], GET[1], GET[2], (":path", "a")],
        vec![GET[0], GET[1], GET[2], (":path", "*")],
        vec![GET[0], GET[1], GET[2], (":path", "/a b")],
        vec![GET[0], GET[1], GET[2], (":path", "/a#b")],
        vec![GET[0], GET[1], GET[2], (":path", "/a\r\nb: c")],
        vec![GET[0], GET[1], (":authority", "a b"), GET[3]],
        vec![GET[0], GET[1], (":authority", "u@a"), GET[3]],
        vec![GET[0], (":scheme", ""), GET[2], GET[3]],
        vec![GET[0], (":scheme", "1http"), GET[2], GET[3]],
        vec![GET[0], (":scheme", "ht/tp"), GET[2], GET[3]],
        vec![(":method", ""), GET[1], GET[2], GET[3]],
        vec![(":method", "G T"), GET[1], GET[2], GET[3]],
        vec![(":method", "CONNECT"), GET[1], GET[2], GET[3]],
        vec![(":method", "CONNECT"), (":authority", "")],
    ];
    cases.extend(
        [
            (":status", "200"),
            (":method", "GET"),
            (":path", "/"),
            (":protocol", "websocket"),
            (":x", "a"),
            ("Upper", "a"),
            ("", "a"),
            ("a b", "c"),
            ("a:b", "c"),
            ("a", "b\r\nc: d"),
            ("a", "b\0"),
            ("a", "b\n"),
            ("a", " b"),
            ("a", "b\t"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("te", "trailers, gzip"),
            ("host", "b"),
            ("content-length", "x"),
            ("content-length", "-1"),
        ]
        .map(|field| with(&[field])),
    );
    cases.push(with(&[("content-length", "1"), ("content-length", "1")]));
    cases.push(with(&[("authorization", "a"), ("authorization", "a")]));
    let mut world = World::new();
    for (fields, stream) in cases.iter().zip((1..).step_by(2)) {
        let bytes = world.headers(stream, fields, false);
        let seen = world.offer(&bytes);
        assert!(matches!(seen[..], [Seen::Refused { status: 400, .. }]), "{fields:?}: {seen:?}");
        let mut out = Vec::new();
        world.server.reset(stream, ErrorCode::PROTOCOL_ERROR, &mut out);
        // What was under way is nobody's.
        assert_eq!(world.offer(&data(stream, b"rest", true)), [], "{fields:?}");
    }
    assert_eq!(world.get(1_001).len(), 1);
}

#[test]
fn heads_have_bounds() {
    let long = "x".repeat(300);
    for (fields, status) in [
        (vec![GET[0], GET[1], GET[2], (":path", &*format!("/{long}"))], 414),
        ([&GET[..], &[("a", &*"y".repeat(8_000))]].concat(), 431),
        ([&GET[..], &[("cookie", &*"y".repeat(8_000))]].concat(), 431),
        ([&GET[..], &[("a", "b"); 21]].concat(), 431),
        ([&GET[..], &[("cookie", "b"); 21]].concat(), 431),
    ] {
        let mut world = World::new();
        let bytes = world.headers(1, &fields, true);
        let seen = world.offer(&bytes);
        assert!(matches!(seen[..], [Seen::Refused { status: told, .. }] if told == status), "{status} {seen:?}");
    }
    let mut world = World::new();
    let bytes = world.headers(1, &[&GET[..], &[("a", "b"); 20]].concat(), true);
    assert!(matches!(world.offer(&bytes)[..], [Seen::Request { .. }]));
}

/// RFC 9113 section 6.10.
#[test]
fn heads_come_in_pieces() {
    let mut world = World::new();
    let block = world.block(&GET);
    for (piece, stream) in (1..block.len()).zip((1..).step_by(2)) {
        let mut bytes = Vec::new();
        frame::write_headers(&mut bytes, stream, &block, true, piece);
        assert_eq!(world.offer(&bytes), [Seen::Request { stream, head: HEAD_OF_GET.into(), length: None, ends: true }]);
        world.server.end_soon(stream);
    }
    // Nothing stands between them.
    for (kind, stream) in [(Kind::Ping, 0), (Kind::Continuation, 99), (Kind::Headers, 101), (Kind::Other(77), 0)] {
        let mut world = World::new();
        let first = frame_of(Kind::Headers, 0, 101, &block[..3]);
        assert_eq!(world.offer(&first), []);
        assert!(world.server.is_within_head());
        let seen = world.offer(&frame_of(kind, frame::END_HEADERS, stream, &[0; 8]));
        assert_eq!(seen, [failed(ErrorCode::PROTOCOL_ERROR)], "{kind:?}");
    }
}

/// RFC 9113 sections 6.1 and 8.1.
#[test]
fn bodies_come_in_pieces_of_any_size() {
    let mut world = World::new();
    assert_eq!(world.post(1).len(), 1);
    let padded = frame_of(Kind::Data, frame::PADDED, 1, b"\x03body\0\0\0");
    let bytes = [padded, data(1, b"", false), data(1, b" more", false), data(1, b"", true)].concat();
    for step in 1..bytes.len() {
        let mut world = World::new();
        world.post(1);
        let (mut body, mut ended, mut start, mut end) = (Vec::new(), false, 0, 0);
        while end < bytes.len() {
            end = (end + step).min(bytes.len());
            let (seen, taken) = world.offer_some(&bytes[start..end]);
            start += taken;
            for one in seen {
                let Seen::Body { stream: 1, bytes, ends } = one else { panic!("{one:?}") };
                assert!(!ended);
                body.extend_from_slice(&bytes);
                ended = ends;
            }
        }
        assert_eq!((start, &body[..], ended), (bytes.len(), &b"body more"[..], true), "{step}");
    }
    // Padding that is longer than what it is in.
    assert_eq!(world.offer(&frame_of(Kind::Data, frame::PADDED, 1, b"\x04abc")), [failed(ErrorCode::PROTOCOL_ERROR)]);
}

#[test]
fn trailers_end_a_body() {
    let mut world = World::new();
    world.post(1);
    let bytes = [data(1, b"body", false), world.headers(1, &[("a", "b"), ("c", "d")], true)].concat();
    let seen = world.offer(&bytes);
    assert_eq!(seen[1], Seen::Trailers { stream: 1, lines: "a: b\r\nc: d\r\n".into() });
    // They end it, and are plain fields.
    for (fields, ends) in [
        (&[("a", "b")][..], false),
        (&[(":path", "/")], true),
        (&[("A", "b")], true),
        (&[("a", "b\n")], true),
        (&[("transfer-encoding", "chunked")], true),
    ] {
        let mut world = World::new();
        world.post(1);
        let bytes = world.headers(1, fields, ends);
        assert_eq!(world.offer(&bytes), [Seen::Malformed(1)], "{fields:?}");
        // Who is told of that answers it, and ends it.
        assert_eq!(world.resets(), []);
        assert_eq!(world.offer(&[data(1, b"more", false), data(1, b"", true)].concat()), []);
    }
}

/// RFC 9113 section 8.1.1.
#[test]
fn a_body_is_as_long_as_its_head_says() {
    let asks = |world: &mut World, ends| {
        let bytes = world.headers(1, &[&POST[..], &[("content-length", "4")]].concat(), ends);
        world.offer(&bytes)
    };
    for (frames, is_right) in [
        (vec![data(1, b"body", true)], true),
        (vec![data(1, b"bo", false), data(1, b"dy", false), data(1, b"", true)], true),
        (vec![data(1, b"bod", true)], false),
        (vec![data(1, b"body ", false)], false),
        (vec![data(1, b"bo", false), data(1, b"dy ", true)], false),
        (vec![data(1, b"", true)], false),
    ] {
        let mut world = World::new();
        let seen = asks(&mut world, false);
        assert!(matches!(seen[..], [Seen::Request { length: Some(4), ends: false, .. }]));
        let seen = world.offer(&frames.concat());
        assert_eq!(!seen.contains(&Seen::Malformed(1)), is_right, "{frames:?}: {seen:?}");
        assert!(world.resets().is_empty());
    }
    let mut world = World::new();
    assert!(matches!(asks(&mut world, true)[..], [Seen::Refused { status: 400, .. }]));
    let mut world = World::new();
    asks(&mut world, false);
    let bytes = [data(1, b"bod", false), world.headers(1, &[("a", "b")], true)].concat();
    assert_eq!(world.offer(&bytes)[1..], [Seen::Malformed(1)]);
}

/// RFC 9113 section 5.1.
#[test]
fn frames_of_streams_that_are_over_mean_what_their_end_was() {
    let closed = |how: &str| {
        let mut world = World::new();
        world.post(1);
        let mut out = Vec::new();
        match how {
            "by us" => world.server.reset(1, ErrorCode::CANCEL, &mut out),
            "by its client" => _ = world.offer(&frame_of(Kind::Reset, 0, 1, &[0; 4])),
            _ => {
                world.offer(&data(1, b"", true));
                world.server.end_soon(1);
            }
        }
        world.out.clear();
        world
    };
    let more = |world: &mut World| [data(1, b"a", false), world.headers(1, &GET, true)];
    let mut world = closed("by us");
    let [body, head] = more(&mut world);
    assert_eq!((world.offer(&body), world.offer(&head), world.resets()), (vec![], vec![], vec![]));
    for how in ["by its client", "by both"] {
        let mut world = closed(how);
        let [body, head] = more(&mut world);
        assert_eq!(world.offer(&body), []);
        assert_eq!(world.resets(), [(1, ErrorCode::STREAM_CLOSED)], "{how}");
        assert_eq!(world.offer(&head), [failed(ErrorCode::STREAM_CLOSED)], "{how}");
    }
    // While it is answered.
    for at in 0..2 {
        let mut world = World::new();
        world.get(1);
        let bytes = more(&mut world)[at].clone();
        assert_eq!(world.offer(&bytes), [Seen::Reset(1)]);
        assert_eq!(world.resets(), [(1, ErrorCode::STREAM_CLOSED)]);
    }
    // One that was left out.
    let mut world = World::new();
    world.get(5);
    assert_eq!(world.get(3), [failed(ErrorCode::PROTOCOL_ERROR)]);
    // Window updates and resets of one that is over are late, and nothing else.
    let mut world = closed("by both");
    let late = [frame_of(Kind::WindowUpdate, 0, 1, &[0, 0, 9, 9]), frame_of(Kind::Reset, 0, 1, &[0; 4])];
    assert_eq!((world.offer(&late.concat()), world.written()), (vec![], vec![]));
}

/// What comes of a body behind its answer is dropped for a second; then its client is told to stop. One
/// that cannot go on without more of a window, or may not, is told at once.
#[test]
fn an_answer_that_ends_first_takes_no_more_of_the_body() {
    let answered = || {
        let (mut world, mut out, mut block) = (World::new(), Vec::new(), Vec::new());
        world.post(1);
        put_static(HeaderField::new(b":status", b"200"), &mut block);
        world.server.write_block(1, &block, true, &mut out);
        world.server.end_soon(1);
        for _ in 0..10 {
            assert_eq!(world.offer(&data(1, &[0; 16_384], false)), []);
        }
        assert_eq!(world.written().iter().filter(|frame| frame.0 != Kind::WindowUpdate).count(), 0);
        world
    };
    let trailers = answered().headers(1, &[("a", "b")], true);
    for last in [data(1, b"end", true), trailers, frame_of(Kind::Reset, 0, 1, &[0; 4])] {
        let mut world = answered();
        assert!(matches!(world.offer(&last)[..], [] | [Seen::Reset(0)]));
        assert!(world.server.streams().is_empty());
    }
    let mut world = answered();
    for second in 0..5 {
        world.second = second;
        let sent = data(1, b"some more", false);
        assert_eq!(world.offer(&sent), []);
        let mut out = Vec::new();
        world.server.on_second(second, &mut out);
        world.out = out;
        assert_eq!(world.resets(), if second == 2 { vec![(1, ErrorCode::NO_ERROR)] } else { vec![] }, "{second}");
    }
    for (length, is_told) in [(None, true), (Some("100000"), true), (Some("5"), false)] {
        let mut world = World::new();
        let mut fields = vec![(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
        fields.extend(length.map(|length| ("content-length", length)));
        let asked = world.headers(1, &fields, false);
        assert_eq!(world.offer(&asked).len(), 1);
        let (mut out, mut block) = (Vec::new(), Vec::new());
        put_static(HeaderField::new(b":status", b"200"), &mut block);
        world.server.send_block(1, &block, true, &mut out);
        world.out = out;
        assert_eq!(world.resets(), if is_told { vec![(1, ErrorCode::NO_ERROR)] } else { vec![] }, "{length:?}");
        assert_eq!(world.server.streams().is_empty(), is_told);
        assert_eq!(world.offer(&data(1, b"so it", true)), []);
        assert!(world.server.streams().is_empty());
    }
}

/// Uploads that are answered before they end, one after the other: those that are over keep nobody from a place.
#[test]
fn answered_streams_give_way_to_requests() {
    let mut world = World::new();
    for number in 0..1_000 {
        let stream = 2 * number + 1;
        assert_eq!(world.post(stream).len(), 1, "{stream}");
        let early = stream.checked_sub(200).map(|stream| (stream, ErrorCode::NO_ERROR));
        assert_eq!(world.resets(), Vec::from_iter(early), "{stream}");
        let (mut out, mut block) = (Vec::new(), Vec::new());
        put_static(HeaderField::new(b":status", b"200"), &mut block);
        world.server.write_block(stream, &block, true, &mut out);
        world.server.end_soon(stream);
    }
    // Not to one that is refused all the same.
    world.server.close();
    assert_eq!((world.post(2_001), world.resets()), (vec![], vec![(2_001, ErrorCode::REFUSED_STREAM)]));
}

/// RFC 9113 section 5.1.2.
#[test]
fn one_stream_more_than_there_may_be_is_refused() {
    let mut world = World::new();
    for stream in (1..201).step_by(2) {
        assert_eq!(world.post(stream).len(), 1);
    }
    assert_eq!(world.post(201), []);
    assert_eq!(world.resets(), [(201, ErrorCode::REFUSED_STREAM)]);
    world.offer(&frame_of(Kind::Reset, 0, 3, &[0; 4]));
    assert_eq!(world.post(203).len(), 1);
}
