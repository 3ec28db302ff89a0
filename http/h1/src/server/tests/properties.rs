//! What holds for all input.

use super::{RequestEvent, RequestLimits, RequestReader, Seen, offer};
use crate::random::Random;

/// Streams that together come through every branch.
pub(crate) const STREAMS: [&str; 12] = [
    "GET /index.html HTTP/1.1\r\nHost: 10.0.0.2\r\n\r\n",
    "\r\nGET /a?b=c HTTP/1.1\r\nHost: example.org:80\r\nUser-Agent: x/1\r\nAccept: */*\r\n\r\nGET / HTTP/1.0\r\n\r\nrest",
    "POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\nhello worldHEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\n\
        GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nignored",
    "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\", W/\"b\"\r\nIf-Match: *\r\n\
      Range: bytes=0-4\r\nIf-Range: \"x\"\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nGET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nBad : x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET / HTTP/2.0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX",
    "GET /\u{e9}\u{ff} HTTP/1.1\r\nHost: a\r\nLong: 0123456789abcdef0123456789abcdef0123456789abcdef\t0123456789\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\n\r\n",
];

/// Small enough that the streams and their mutations come to each limit.
pub(super) const TIGHT: RequestLimits =
    RequestLimits { request_line: 60, head: 200, fields: 8, body: 15, chunk_line: 12, trailers: 20, line_feeds: false };

#[test]
fn every_split_in_two_or_three_gives_the_same_events() {
    for stream in STREAMS {
        for limits in [RequestLimits::default(), TIGHT] {
            let bytes = stream.as_bytes();
            let whole = offer(bytes, &[], &limits);
            for first in 0..bytes.len() {
                assert_eq!(offer(bytes, &[first], &limits), whole, "{stream:?} split at {first}");
                for second in (first..bytes.len()).step_by(7) {
                    assert_eq!(offer(bytes, &[first, second], &limits), whole, "{stream:?} split at {first}, {second}");
                }
            }
        }
    }
}

/// The same events whole, in random pieces, and byte by byte now and then.
pub(super) fn compare_splits(bytes: &[u8], limits: &RequestLimits, random: &mut Random, round: usize) {
    let whole = offer(bytes, &[], limits);
    let ends = random.ends(bytes.len());
    assert_eq!(offer(bytes, &ends, limits), whole, "round {round}: {:?}", bytes.escape_ascii().to_string());
    if round.is_multiple_of(10) {
        let each: Vec<_> = (0..bytes.len()).collect();
        assert_eq!(offer(bytes, &each, limits), whole, "round {round}: {:?}", bytes.escape_ascii().to_string());
    }
}

/// Byte by byte, in random pieces, and whole, on streams that are mutated at
/// random: the same events, no panic, no end without progress (an engine that
/// made none would keep [`offer`] in its loop).
#[test]
fn mutated_streams_give_the_same_events_however_split() {
    let mut random = Random::new(1);
    for round in 0..30_000 {
        let bytes = random.mutated(STREAMS[round % STREAMS.len()].as_bytes());
        let limits = if random.below(2) == 0 { RequestLimits::default() } else { TIGHT };
        compare_splits(&bytes, &limits, &mut random, round);
    }
}

/// Bytes without any structure, and offers that do not keep to the contract
/// (other bytes than before, fewer bytes than before).
#[test]
fn arbitrary_offers_never_panic() {
    let mut random = Random::new(2);
    for _ in 0..3_000 {
        let mut engine = RequestReader::new();
        for _ in 0..20 {
            let length = random.below(200);
            let bytes: Vec<u8> = if random.below(2) == 0 {
                (0..length).map(|_| random.next() as u8).collect()
            } else {
                let stream = STREAMS[random.below(STREAMS.len())];
                random.mutated(stream.as_bytes())
            };
            let consumed = match engine.on_bytes(&bytes, &TIGHT) {
                RequestEvent::NeedMore => 0,
                RequestEvent::Request { request, consumed, .. } => {
                    assert!(request.fields().count() <= usize::from(TIGHT.fields));
                    consumed
                }
                RequestEvent::Body { bytes, consumed } => bytes.len().max(consumed),
                RequestEvent::EndOfBody { consumed }
                | RequestEvent::LineFeeds { consumed }
                | RequestEvent::Reject { consumed, .. }
                | RequestEvent::Ignored { consumed } => consumed,
            };
            assert!(consumed <= bytes.len());
        }
    }
}

/// A head written by the client's writer is read as it was written.
#[test]
fn written_requests_are_read() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let target = format!("/{}", random.word(60));
        let (host, agent, body) = (random.word(30), random.word(200), random.below(3) as u64);
        let mut out = Vec::new();
        let mut head = crate::client::RequestHead::new(&mut out, "PUT", target.as_bytes(), host.as_bytes())
            .field("User-Agent", agent.as_bytes())
            .content_length(body);
        let keep_alive = random.below(2) == 0;
        if !keep_alive {
            head = head.close();
        }
        head.end();
        let RequestEvent::Request { request, transfer, consumed } =
            RequestReader::new().on_bytes(&out, &RequestLimits::default())
        else {
            panic!("{:?}", out.escape_ascii().to_string())
        };
        assert_eq!(consumed, out.len());
        assert_eq!((request.target(), request.authority()), (target.as_bytes(), host.as_bytes()));
        assert_eq!(request.known(semantics::Known::UserAgent), Some(agent.as_bytes()));
        assert_eq!(transfer.keep_alive(), keep_alive);
        let framing = if body == 0 { crate::Framing::None } else { crate::Framing::Length(body) };
        assert_eq!(transfer.framing(), framing);
    }
}

/// The same events for one request, whatever came before it on the connection.
#[test]
fn pipelined_requests_do_not_influence_each_other() {
    for first in &STREAMS[..1] {
        for stream in STREAMS {
            let both = format!("{first}{stream}");
            let alone = offer(stream.as_bytes(), &[], &RequestLimits::default());
            let piped = offer(both.as_bytes(), &[], &RequestLimits::default());
            assert!(matches!(piped[0], Seen::Request { .. }));
            assert_eq!(piped[1..], alone, "{stream:?}");
        }
    }
}
