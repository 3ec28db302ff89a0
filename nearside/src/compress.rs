//! Bodies of replies by a coding that their client takes.

use crate::Reply;
use gzip::{Coding, Whole};
use semantics::{Known, Request, Status};

/// Shorter bodies do not pay for it, and longer ones would have other clients wait.
const SHORTEST: usize = 256;
const LONGEST: usize = 1 << 20;

/// Compresses a reply that is to be compressed, as far as its client takes that.
pub(crate) fn compress(request: &Request<'_>, reply: &mut Reply, whole: &mut Whole) {
    if !reply.compressed {
        return;
    }
    reply.append("Vary", b"Accept-Encoding");
    if reply.status == Status::PARTIAL_CONTENT || !(SHORTEST..=LONGEST).contains(&reply.body.len()) {
        return;
    }
    let Some(coding) = best(request) else { return };
    let (_, level) = coding.levels();
    let mut shorter = Vec::new();
    if whole.encode(coding, level, &reply.body, &mut shorter) && shorter.len() < reply.body.len() {
        reply.body = shorter;
        reply.append("Content-Encoding", coding.token());
    }
}

/// What the client likes best (RFC 9110 section 12.5.3); of those that it likes as much, what
/// makes texts shortest. A client that says nothing gets no coding.
fn best(request: &Request<'_>) -> Option<Coding> {
    let lines = || request.values(Known::AcceptEncoding, "accept-encoding").into_iter().flatten();
    let quality = |wanted: &[u8]| {
        let words = lines().flat_map(|line| line.split(|&byte| byte == b','));
        let mut found = words.filter_map(|word| {
            let mut parts = word.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            parts.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
            Some(parts.next().map_or(1000, thousandths))
        });
        found.next()
    };
    let of = |coding: &Coding| quality(coding.token()).or_else(|| quality(b"*")).unwrap_or(0);
    Coding::ALL.into_iter().rev().max_by_key(of).filter(|coding| of(coding) > 0)
}

/// A weight (RFC 9110 section 12.4.2), in thousandths; 0 for what is none.
fn thousandths(parameter: &[u8]) -> u32 {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), rest @ ..] = parameter else { return 0 };
    let digits = match rest {
        [] => &[][..],
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return 0,
    };
    let part = (0..3).fold(0, |sum, at| sum * 10 + digits.get(at).map_or(0, |digit| u32::from(digit - b'0')));
    (u32::from(whole - b'0') * 1000 + part).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use h1::server::{RequestEvent, RequestLimits, RequestReader};

    fn with_head<T>(fields: &str, look: impl FnOnce(&Request<'_>) -> T) -> T {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut reader = RequestReader::new();
        let RequestEvent::Request { request, .. } = reader.on_bytes(head.as_bytes(), &RequestLimits::default()) else {
            panic!("a request");
        };
        look(&request)
    }

    #[test]
    fn the_coding_is_the_one_that_the_client_likes_best() {
        for (fields, wanted) in [
            ("", None),
            ("Accept-Encoding: gzip, br, zstd\r\n", Some(Coding::Brotli)),
            ("Accept-Encoding: gzip;q=1.0, br;q=0.5\r\n", Some(Coding::Gzip)),
            ("Accept-Encoding: GZIP ; Q=0.001\r\n", Some(Coding::Gzip)),
            ("Accept-Encoding: br;q=0, *\r\n", Some(Coding::Zstd)),
            ("Accept-Encoding: br;q=0, zstd;q=0.000, gzip;q=0\r\n", None),
            ("Accept-Encoding: identity\r\n", None),
            ("Accept-Encoding: deflate\r\nAccept-Encoding: zstd\r\n", Some(Coding::Zstd)),
            ("Accept-Encoding: br;q=2, gzip;q=0.0001\r\n", None),
            ("Accept-Encoding: ,,;;\r\n", None),
        ] {
            assert_eq!(with_head(fields, best), wanted, "{fields}");
        }
    }

    #[test]
    fn bodies_get_shorter_or_stay() {
        let answer = |body: &[u8]| {
            with_head("Accept-Encoding: gzip\r\n", |request| {
                let mut reply = Reply::new();
                reply.body(body).compressed();
                compress(request, &mut reply, &mut Whole::default());
                reply
            })
        };
        let text = b"hello, world\n".repeat(100);
        let reply = answer(&text);
        assert_eq!(reply.fields, b"Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n");
        assert_eq!(gzip::members(&reply.body, 1 << 20).as_deref(), Ok(&text[..]));
        for stays in [text[..SHORTEST - 1].to_vec(), (0..=255).collect(), text.repeat(LONGEST / text.len() + 1)] {
            let reply = answer(&stays);
            assert_eq!((reply.fields.as_slice(), reply.body), (&b"Vary: Accept-Encoding\r\n"[..], stays));
        }
    }
}
