//! Lines of heads that end in LF alone, where they may (RFC 9112 section 2.2).

use super::properties::{STREAMS, TIGHT, compare_splits};
use super::{RequestLimits, Seen, all, offer};
use crate::random::Random;

fn loosened(limits: RequestLimits) -> RequestLimits {
    RequestLimits { line_feeds: true, ..limits }
}

/// The streams of which any line of a head may end in LF alone: those whose chunks keep to
/// CR LF.
fn loose(stream: &str, mut ends_bare: impl FnMut() -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, line) in stream.split_inclusive("\r\n").enumerate() {
        match line.strip_suffix("\r\n") {
            Some(line) if ends_bare() && !(line.is_empty() && number == 0) => {
                out.extend_from_slice(line.as_bytes());
                out.push(b'\n');
            }
            _ => out.extend_from_slice(line.as_bytes()),
        }
    }
    out
}

/// Whichever lines end so, however the bytes are split: the same requests as by CR LF, and
/// none at all where they may not.
#[test]
fn heads_mean_the_same_whichever_line_ends_they_have() {
    let mut random = Random::new(6);
    let mut bare = 0;
    for stream in STREAMS.iter().filter(|stream| !stream.contains("chunked")) {
        let strict = all(stream.as_bytes());
        for round in 0..200 {
            let bytes = loose(stream, || round == 0 || random.below(2) == 0);
            if bytes == stream.as_bytes() {
                continue;
            }
            bare += 1;
            assert_eq!(
                offer(&bytes, &[], &loosened(RequestLimits::default())),
                strict,
                "{:?}",
                bytes.escape_ascii().to_string()
            );
            let ends = random.ends(bytes.len());
            assert_eq!(
                offer(&bytes, &ends, &loosened(RequestLimits::default())),
                strict,
                "{:?}",
                bytes.escape_ascii().to_string()
            );
            let refused = all(&bytes);
            assert!(matches!(refused.last(), Some(Seen::Reject(_)) | Some(Seen::Ignored(_))), "{refused:?}");
        }
    }
    assert!(bare > 1_000, "{bare}");
}

/// Mutated at random, whole or in any pieces.
#[test]
fn mutated_heads_give_the_same_events_however_split() {
    let mut random = Random::new(7);
    for round in 0..30_000 {
        let stream = loose(STREAMS[round % STREAMS.len()], || random.below(2) == 0);
        let bytes = random.mutated(&stream);
        let limits = loosened(if random.below(2) == 0 { RequestLimits::default() } else { TIGHT });
        compare_splits(&bytes, &limits, &mut random, round);
    }
}

/// A CR that no LF follows is refused wherever it is; chunks end their lines in CR LF.
#[test]
fn what_is_refused_all_the_same() {
    for bytes in [
        "GET / HTTP/1.1\r\r\nHost: a\n\n",
        "GET / HTTP/1.1\nHost: a\r\r\n\n",
        "GET / HTTP/1.1\nHost: a\rX: b\n\n",
        "GET / HTTP/1.1\nHost: a\n\rX: b\n\n",
        "GET / HTTP/1.1\nHost: a\n folded\n\n",
        "GET / HTTP/1.1\nHost : a\n\n",
        "GET / HTTP/1.1\nX: \0\nHost: a\n\n",
        "GET / HTTP/1.1\n: a\nHost: a\n\n",
        "GET / HTTP/1.1\nno field\nHost: a\n\n",
        "GET / HTTP/1.1\n\n",
        "\n\nGET / HTTP/1.1\nHost: a\n\n",
        "\r\n\r\n",
    ] {
        assert_eq!(offer(bytes.as_bytes(), &[], &loosened(RequestLimits::default())), [Seen::Reject(400)], "{bytes:?}");
    }
    const HEAD: &str = "POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n";
    for chunks in
        ["5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "0\n\r\n", "0\r\n\n", "0\r\nT: v\n\r\n", "0;x\n\r\n"]
    {
        let seen = offer(format!("{HEAD}{chunks}").as_bytes(), &[], &loosened(RequestLimits::default()));
        assert_eq!(seen.last(), Some(&Seen::Reject(400)), "{chunks:?}: {seen:?}");
    }
}
