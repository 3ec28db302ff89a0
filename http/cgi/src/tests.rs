use super::answer::{
    AnswerBody, AnswerEnd, AnswerError, AnswerReader, AnswerRules, AnswerSink, CgiProtocol, STDERR_MAX,
};
use super::fastcgi::{self, RecordError, RecordEvent, RecordReader};
use super::head::{Head, HeadError, HeadReader, HeadRules};
use super::*;
use random::SplitMix64;
use semantics::Status;

fn params(pairs: &[(&str, &str)]) -> Params {
    let mut params = Params::new();
    pairs.iter().for_each(|(name, value)| params.add(name.as_bytes(), value.as_bytes()));
    params
}

#[test]
fn a_request_is_records() {
    let mut out = Vec::new();
    fastcgi::begin(&params(&[("A", "b"), ("LONG", &"x".repeat(200))]), true, &mut out).unwrap();
    fastcgi::stdin(b"hello", &mut out);
    fastcgi::end_stdin(&mut out);
    let mut expected = vec![1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0];
    expected.extend([1, 4, 0, 1, 0, 4 + 5 + 204, 3, 0, 1, 1, b'A', b'b', 4, 0x80, 0, 0, 200]);
    expected.extend(b"LONG");
    expected.extend([b'x'; 200]);
    expected.extend([0; 3]);
    expected.extend([1, 4, 0, 1, 0, 0, 0, 0]);
    expected.extend([1, 5, 0, 1, 0, 5, 3, 0]);
    expected.extend(b"hello\0\0\0");
    expected.extend([1, 5, 0, 1, 0, 0, 0, 0]);
    assert_eq!(out, expected);
}

/// Contents of the records of one type, and how many there are.
fn stream(records: &[u8], kind: u8) -> (Vec<u8>, usize) {
    let (mut content, mut count, mut rest) = (Vec::new(), 0, records);
    while let [1, of, 0, 1, high, low, padding, 0, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *of == kind {
            content.extend_from_slice(&behind[..length]);
            count += 1;
        }
        rest = &behind[length + usize::from(*padding)..];
    }
    assert!(rest.is_empty());
    (content, count)
}

#[test]
fn long_streams_are_several_records() {
    let mut out = Vec::new();
    let value = "v".repeat(200_000);
    fastcgi::begin(&params(&[("N", &value)]), false, &mut out).unwrap();
    let (content, count) = stream(&out, 4);
    assert_eq!((content.len(), count), (1 + 4 + 1 + 200_000, 5));
    assert!(content.ends_with(b"vvv"));
    out.clear();
    fastcgi::stdin(value.as_bytes(), &mut out);
    assert_eq!(stream(&out, 5), (value.into_bytes(), 4));
    out.clear();
    let padding = fastcgi::stdin_head(13, &mut out);
    out.extend([7; 13]);
    out.extend(vec![0; padding]);
    assert_eq!(stream(&out, 5), (vec![7; 13], 1));
}

#[test]
fn what_is_too_long_is_refused() {
    let long = params(&[("N", &"v".repeat(PARAMS_MAX))]);
    let too_long = Err(ParamError::TooLong(PARAMS_MAX + 1));
    assert_eq!(fastcgi::begin(&long, true, &mut Vec::new()), too_long);
    assert_eq!(scgi::netstring(&long, 0, &mut Vec::new()), too_long);
    let mut out = Vec::new();
    assert_eq!(uwsgi::packet(&params(&[("N", &"v".repeat(65_530))]), (0, 0), &mut out), Ok(()));
    assert_eq!((out.len(), &out[..4]), (65_539, &[0, 0xff, 0xff, 0][..]));
    let longer = params(&[("N", &"v".repeat(65_531))]);
    assert_eq!(uwsgi::packet(&longer, (0, 0), &mut out), Err(ParamError::TooLong(65_536)));
    assert_eq!(scgi::netstring(&params(&[("N", "a\0B\0c")]), 0, &mut out), Err(ParamError::Zero));
}

#[test]
fn packets_and_netstrings_are_those_of_their_protocols() {
    let mut all = params(&[("SCGI", "1")]);
    all.add_field(b"X-Some-field", b"yes");
    let mut out = Vec::new();
    scgi::netstring(&all, 27, &mut out).unwrap();
    assert_eq!(out, b"47:CONTENT_LENGTH\x0027\0SCGI\x001\0HTTP_X_SOME_FIELD\0yes\0,");
    out.clear();
    uwsgi::packet(&all, (5, 9), &mut out).unwrap();
    assert_eq!(out, b"\x05\x21\x00\x09\x04\0SCGI\x01\x001\x11\0HTTP_X_SOME_FIELD\x03\0yes");
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Read {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ended: Option<(u32, u8)>,
    whole: bool,
    error: Option<RecordError>,
}

/// What comes of an answer in pieces.
fn read(pieces: &[&[u8]]) -> Read {
    let (mut reader, mut read) = (RecordReader::new(), Read::default());
    'all: for piece in pieces {
        let mut rest = *piece;
        loop {
            let (count, event) = match reader.read(rest) {
                Ok(next) => next,
                Err(why) => {
                    read.error = Some(why);
                    break 'all;
                }
            };
            rest = &rest[count..];
            match event {
                RecordEvent::Nothing => break,
                RecordEvent::Stdout(bytes) => read.stdout.extend_from_slice(bytes),
                RecordEvent::StdoutEnd => read.whole = true,
                RecordEvent::Stderr(bytes) => read.stderr.extend_from_slice(bytes),
                RecordEvent::End { app, protocol } => read.ended = Some((app, protocol)),
            }
        }
        assert!(rest.is_empty(), "all is read");
    }
    assert!(read.ended.is_some() || !reader.is_over());
    read
}

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut record = vec![1, kind, 0, 1, high, low, padding, 0];
    record.extend_from_slice(content);
    record.extend(vec![0xaa; usize::from(padding)]);
    record
}

#[test]
fn answers_are_the_same_however_they_are_cut() {
    let mut random = SplitMix64::new(2);
    for _ in 0..300 {
        let (mut answer, mut expected) = (Vec::new(), Read { whole: true, ended: Some((7, 0)), ..Read::default() });
        for _ in 0..random.below(8) {
            let content: Vec<u8> = (0..=random.below(40)).map(|_| random.bits() as u8).collect();
            let padding = random.below(9) as u8;
            if random.below(3) == 0 {
                answer.extend(record(7, &content, padding));
                expected.stderr.extend(content);
            } else {
                answer.extend(record(6, &content, padding));
                expected.stdout.extend(content);
            }
        }
        answer.extend(record(7, b"", 3));
        answer.extend(record(6, b"", 1));
        answer.extend(record(
            3,
            &[0, 0, 0, 7, 0, 1, 2, 3, 4, 5][..8 + random.below(3)],
            random.below(300).min(255) as u8,
        ));
        assert_eq!(read(&[&answer]), expected);
        let single: Vec<&[u8]> = answer.chunks(1).collect();
        assert_eq!(read(&single), expected);
        let (a, b) = (random.below(answer.len()), random.below(answer.len()));
        assert_eq!(read(&[&answer[..a.min(b)], &answer[a.min(b)..a.max(b)], &answer[a.max(b)..]]), expected);
    }
}

#[test]
fn what_is_no_answer_is_refused() {
    let end = record(3, &[0; 8], 0);
    for (answer, why) in [
        (b"HTTP/1.1 200 OK\r\n".to_vec(), RecordError::Version(b'H')),
        (vec![1, 5, 0, 1, 0, 0, 0, 0], RecordError::Kind(5)),
        (vec![1, 6, 1, 1, 0, 0, 0, 0], RecordError::Request(257)),
        (vec![1, 6, 0, 2, 0, 0, 0, 0], RecordError::Request(2)),
        ([end.as_slice(), b"x"].concat(), RecordError::BehindEnd),
    ] {
        assert_eq!(read(&[&answer]).error, Some(why));
    }
    // No end, and an end without what it is to say.
    assert_eq!(read(&[&record(6, b"a", 0)[..8]]), Read::default());
    assert_eq!(read(&[&record(3, b"", 0)]).ended, Some((0, 0)));
}

const RULES: HeadRules = HeadRules { bytes: 200, status_line: false };

/// The head of an answer, and what of it follows.
fn head(rules: HeadRules, text: &[u8]) -> Result<Option<(Head, &[u8])>, HeadError> {
    let (read, head) = HeadReader::new(rules).read(text)?;
    let whole = head.map(|head| (head, &text[read..]));
    for size in [1, 2, 7] {
        let (mut reader, mut read, mut found) = (HeadReader::new(rules), 0, Ok(None));
        for piece in text.chunks(size) {
            match reader.read(piece) {
                Ok((count, Some(head))) => {
                    found = Ok(Some((head, &text[read + count..])));
                    break;
                }
                Ok((count, None)) => read += count,
                Err(why) => {
                    found = Err(why);
                    break;
                }
            }
        }
        assert_eq!(found, Ok(whole.clone()), "by {size}: {}", text.escape_ascii());
    }
    Ok(whole)
}

#[test]
fn heads_are_those_of_cgi() {
    let (found, body) = head(RULES, b"Content-type: text/html\nX-A:b \t\r\n\nbody\n").unwrap().unwrap();
    assert_eq!((found.status, body), (Status::OK, &b"body\n"[..]));
    assert_eq!(found.fields, b"Content-type: text/html\r\nX-A: b\r\n");
    let (found, body) = head(RULES, b"Status: 404 Not there\r\ncontent-length: 12\r\n\r\n").unwrap().unwrap();
    assert_eq!((found.status.code(), &*found.reason, found.length), (404, &b"Not there"[..], Some(12)));
    assert_eq!((found.fields.as_slice(), body), (&b"Status: 404 Not there\r\ncontent-length: 12\r\n"[..], &b""[..]));
    let (found, _) = head(RULES, b"Location: /x\n\n").unwrap().unwrap();
    assert_eq!(found.status, Status::FOUND);
    let (found, _) = head(RULES, b"Location: /x\nStatus: 201\n\n").unwrap().unwrap();
    assert_eq!(found.status.code(), 201);
    let (found, body) = head(RULES, b"\nbody").unwrap().unwrap();
    assert_eq!((found.status, found.fields.len(), body), (Status::OK, 0, &b"body"[..]));
    assert_eq!(head(RULES, b"A: b\nC"), Ok(None));
    // A coding that there is not.
    let (found, _) = head(RULES, b"Transfer-Encoding: chunked\nA: b\n\n").unwrap().unwrap();
    assert_eq!(found.fields, b"A: b\r\n");
}

#[test]
fn heads_may_begin_with_a_status_line_where_that_is_usual() {
    let rules = HeadRules { status_line: true, ..RULES };
    let (found, _) = head(rules, b"HTTP/1.1 503 Busy\r\nStatus: 200\r\nA: b\r\n\r\n").unwrap().unwrap();
    assert_eq!(
        (found.status.code(), &*found.reason, found.fields.as_slice()),
        (503, &b"Busy"[..], &b"Status: 200\r\nA: b\r\n"[..])
    );
    for (text, why) in [
        (&b"HTTP/1.1\r\n\r\n"[..], "upstream sent invalid status \"\""),
        (b"HTTP/x 200\r\n\r\n", "upstream sent invalid header: \"HTTP/x 200\\x0a...\""),
        (b"A: b\r\nHTTP/1.1 200\r\n\r\n", "upstream sent invalid header: \"HTTP\\x2f...\""),
    ] {
        let refused = HeadReader::new(rules).read(text).unwrap_err();
        assert_eq!(refused.to_string(), why, "{}", text.escape_ascii());
    }
    let refused = HeadReader::new(RULES).read(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
    assert_eq!(refused, HeadError::Malformed { line: b"HTTP"[..].into(), byte: b'/' });
}

#[test]
fn heads_that_are_none_are_refused() {
    let long = [&b"A: "[..], &[b'x'; 300]].concat();
    let many = b"A: b\n".repeat(60);
    let malformed = |line: &str, byte| HeadError::Malformed { line: line.as_bytes().into(), byte };
    let status = |value: &str| HeadError::Status(value.as_bytes().into());
    for (text, why) in [
        (&b"no colon\n\n"[..], malformed("no", b' ')),
        (b"nocolon\n\n", malformed("nocolon", b'\n')),
        (b": no name\n\n", malformed("", b':')),
        (b"A : b\n\n", malformed("A", b' ')),
        (b"A: b\n folded\n\n", malformed("", b' ')),
        (b"A: b\rC: d\n\n", malformed("A: b", b'\r')),
        (b"A: b\0\n\n", malformed("A: b", 0)),
        (b"Status: 99\n\n", status("99")),
        (b"Status: 100 Continue\n\n", status("100 Continue")),
        (b"Status: ok\n\n", status("ok")),
        (b"Content-Length: -1\n\n", HeadError::Length),
        (b"Content-Length: 1\nContent-length: 1\n\n", HeadError::Length),
        (&long, HeadError::TooBig),
        (&many, HeadError::TooBig),
    ] {
        assert_eq!(HeadReader::new(RULES).read(text).unwrap_err(), why, "{}", text.escape_ascii());
    }
}

/// An answer as one of HTTP/1.1, chunked where its length is not told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Written {
    text: Vec<u8>,
    chunked: bool,
}

impl AnswerSink for Written {
    fn head(&mut self, head: Head, body: AnswerBody) {
        assert!(self.text.is_empty(), "one head");
        let reason = match &*head.reason {
            b"" => head.status.reason().as_bytes(),
            reason => reason,
        };
        self.text = [b"HTTP/1.1 ", head.status.code().to_string().as_bytes(), b" ", reason, b"\r\n"].concat();
        self.text.extend_from_slice(&head.fields);
        self.chunked = body == AnswerBody::Open;
        self.text.extend_from_slice(if self.chunked { b"Transfer-Encoding: chunked\r\n\r\n" } else { b"\r\n" });
    }

    fn body(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty(), "some of a body");
        let (line, end) = if self.chunked { (format!("{:x}\r\n", bytes.len()), "\r\n") } else { Default::default() };
        self.text.extend_from_slice(&[line.as_bytes(), bytes, end.as_bytes()].concat());
    }

    fn end(&mut self) {
        self.text.extend_from_slice(if self.chunked { b"0\r\n\r\n" } else { b"" });
    }
}

/// What an answer comes to: by HTTP/1.1, whether it is whole, whether the connection may
/// be kept, and what was said of errors.
fn answered(
    protocol: CgiProtocol,
    bodyless: bool,
    pieces: &[&[u8]],
) -> Result<(String, bool, bool, String), AnswerError> {
    let mut reader = AnswerReader::new(AnswerRules { protocol, head: RULES, bodyless, waits_for_end: false });
    let mut out = Written::default();
    for piece in pieces {
        reader.read(piece, &mut out)?;
    }
    if protocol == CgiProtocol::Plain {
        reader.end(&mut out)?;
    }
    let errors = reader.take_errors().into_iter().map(|line| String::from_utf8(line.text).unwrap()).collect();
    Ok((String::from_utf8(out.text).unwrap(), reader.is_whole(), reader.may_be_kept(), errors))
}

#[test]
fn answers_become_those_of_http() {
    use CgiProtocol::{FastCgi, Plain};
    let head = b"Status: 404 Gone astray\nA: b\n\n";
    let records =
        [record(6, head, 0), record(7, b"oh", 1), record(6, b"body", 4), record(6, b"", 0), record(3, &[0; 8], 0)];
    let (text, whole, kept, errors) = answered(FastCgi, false, &[&records.concat()]).unwrap();
    assert_eq!(
        text,
        "HTTP/1.1 404 Gone astray\r\nStatus: 404 Gone astray\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
    );
    assert_eq!((whole, kept, errors.as_str()), (true, true, "oh"));
    // Without the end of the request it is whole, and the connection not free.
    let (other, whole, kept, _) = answered(FastCgi, false, &[&records[..4].concat()]).unwrap();
    assert_eq!((other.as_str(), whole, kept), (text.as_str(), true, false));
    // No body, whatever is sent.
    let (text, whole, kept, _) = answered(FastCgi, true, &[&records.concat()]).unwrap();
    assert_eq!(
        (text.as_str(), whole, kept),
        ("HTTP/1.1 404 Gone astray\r\nStatus: 404 Gone astray\r\nA: b\r\n\r\n", true, true)
    );
    let (text, ..) = answered(Plain, false, &[b"Status: 304\n\nno"]).unwrap();
    assert_eq!(text, "HTTP/1.1 304 Not Modified\r\nStatus: 304\r\n\r\n");
    // By its length; what is too much stays here.
    let (text, whole, ..) = answered(Plain, false, &[b"Content-Length: 4\n\nbo", b"dymore"]).unwrap();
    assert_eq!((text.as_str(), whole), ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", true));
    let long = [record(6, b"Content-Length: 1\n\nab", 0), record(6, b"", 0), record(3, &[0; 8], 0)].concat();
    assert_eq!(answered(FastCgi, false, &[&long]).map(|(_, whole, kept, _)| (whole, kept)), Ok((true, false)));
}

#[test]
fn answers_that_end_early_are_told_from_whole_ones() {
    use CgiProtocol::{FastCgi, Plain};
    let end = |answer: &[u8]| {
        let mut reader =
            AnswerReader::new(AnswerRules { protocol: FastCgi, head: RULES, bodyless: false, waits_for_end: false });
        let mut out = Written::default();
        reader.read(answer, &mut out)?;
        reader.end(&mut out)
    };
    let in_head = |end| Err(AnswerError::EndInHead(end));
    let in_body = |end| Err(AnswerError::EndInBody(end));
    assert_eq!(end(&record(6, b"A: b\n\nbody", 0)), in_body(AnswerEnd::Connection));
    assert_eq!(end(&record(6, b"A: b\n", 0)), in_head(AnswerEnd::Connection));
    assert_eq!(end(&record(3, &[0; 8], 0)), in_head(AnswerEnd::Request));
    assert_eq!(end(&record(6, b"", 0)), in_head(AnswerEnd::Stdout));
    let short = record(6, b"Content-Length: 5\n\nbody", 0);
    assert_eq!(end(&[short.clone(), record(6, b"", 0)].concat()), in_body(AnswerEnd::Stdout));
    assert_eq!(end(&[short, record(3, &[0; 8], 0)].concat()), in_body(AnswerEnd::Request));
    assert_eq!(end(&[record(6, b"A: b\n\n", 0), record(6, b"", 0)].concat()), Ok(()));
    let plain = |answer: &[u8]| answered(Plain, false, &[answer]).map(|_| ());
    assert_eq!(plain(b"Content-Length: 4\n\nbod"), in_body(AnswerEnd::Connection));
    assert_eq!(plain(b"A: b\n"), in_head(AnswerEnd::Connection));
    let malformed = HeadError::Malformed { line: b"A"[..].into(), byte: b' ' };
    assert_eq!(plain(b"A b\n"), Err(AnswerError::Head(malformed)));
}

/// A connection that is to be kept is free once the end of the request was read, in however
/// many pieces: the answer is whole no sooner, and loses nothing where that never comes.
#[test]
fn the_end_of_a_request_is_waited_for_where_its_connection_is_kept() {
    let rules = AnswerRules { protocol: CgiProtocol::FastCgi, head: RULES, bodyless: false, waits_for_end: true };
    let at_once = AnswerRules { waits_for_end: false, ..rules };
    for head in ["A: b\n\n", "Content-Length: 4\n\n"] {
        let said = [record(6, head.as_bytes(), 0), record(6, b"body", 0), record(6, b"", 3)].concat();
        let end = record(3, &[0; 8], 2);
        for size in [1, 3, 8, said.len() + end.len()] {
            let (mut reader, mut out) = (AnswerReader::new(rules), Written::default());
            let (mut other, mut whole) = (AnswerReader::new(at_once), Written::default());
            for piece in said.chunks(size) {
                reader.read(piece, &mut out).unwrap();
                other.read(piece, &mut whole).unwrap();
            }
            assert!(other.is_whole() && !reader.is_whole() && !reader.may_be_kept(), "{head:?} by {size}");
            let mut ended = (reader.clone(), out.clone());
            end.chunks(size).for_each(|piece| reader.read(piece, &mut out).unwrap());
            assert!(reader.is_whole() && reader.may_be_kept(), "{head:?} by {size}");
            assert_eq!(out, whole, "{head:?} by {size}");
            // The connection ends instead.
            ended.0.end(&mut ended.1).unwrap();
            assert_eq!(ended.1, whole, "{head:?} by {size}");
        }
    }
}

#[test]
fn each_record_of_errors_is_a_line_and_bytes_are_counted() {
    let records = [
        record(7, b"first", 3),
        record(7, &[b'x'; STDERR_MAX + 1], 0),
        record(7, b"", 0),
        record(6, b"A: b\n\n12345", 0),
        record(7, b"last", 0),
        record(6, b"", 0),
    ]
    .concat();
    for size in [1, 5, records.len()] {
        let rules = AnswerRules { protocol: CgiProtocol::FastCgi, head: RULES, bodyless: false, waits_for_end: false };
        let (mut reader, mut out) = (AnswerReader::new(rules), Written::default());
        records.chunks(size).for_each(|piece| reader.read(piece, &mut out).unwrap());
        let lines = reader.take_errors();
        let told: Vec<(usize, bool)> = lines.iter().map(|line| (line.text.len(), line.in_head)).collect();
        assert_eq!(told, [(5, true), (STDERR_MAX, true), (4, false)], "by {size}");
        assert_eq!(reader.bytes(), records.len() as u64);
        assert_eq!(reader.body_bytes(), Some(5 + 12 + 8));
        assert!(!reader.has_surplus() && reader.take_errors().is_empty());
    }
}
