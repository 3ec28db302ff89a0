//! Answers of FastCGI programs, and the CGI heads in them.

use super::cuts;
use crate::Target;
use cgi::fastcgi::{RecordError, RecordEvent, RecordReader};
use cgi::head::{Head, HeadError, HeadReader, HeadRules};

pub(crate) const TARGET: Target = Target {
    name: "cgi_answer",
    about: "what an answer of a FastCGI program says does not depend on how it is cut, and its head is canonical",
    run,
    seeds,
    dictionary: &[
        b"\x01\x06\x00\x01\x00",
        b"\x01\x07\x00\x01\x00",
        b"\x01\x03\x00\x01\x00\x08\x00\x00",
        b"Status: 404 Not Found\r\n",
        b"Content-Length: 5\n",
        b"Location: /\n",
        b"HTTP/1.1 200 OK\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\n\r\n",
        b"\n\n",
    ],
    test_runs: 5_000,
    max_len: 1_000,
};

const RULES: HeadRules = HeadRules { bytes: 300, status_line: true };

/// What an answer says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    whole: bool,
    end: Option<(u32, u8)>,
    why: Option<RecordError>,
}

fn records<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Said {
    let (mut reader, mut said) = (RecordReader::new(), Said::default());
    for mut piece in pieces {
        loop {
            let (read, event) = match reader.read(piece) {
                Ok(next) => next,
                Err(why) => return Said { why: Some(why), ..said },
            };
            piece = &piece[read..];
            match event {
                RecordEvent::Nothing => break,
                RecordEvent::Stdout(bytes) => said.stdout.extend_from_slice(bytes),
                RecordEvent::Stderr(bytes) => said.stderr.extend_from_slice(bytes),
                RecordEvent::StdoutEnd => said.whole = true,
                RecordEvent::End { app, protocol } => said.end = Some((app, protocol)),
            }
        }
        assert!(piece.is_empty(), "all is read");
        assert!(said.end.is_some() || !reader.is_over());
    }
    said
}

/// The head, and how many bytes it has.
fn head<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Option<(Head, usize)>, HeadError> {
    let (mut reader, mut length) = (HeadReader::new(RULES), 0);
    for piece in pieces {
        let (read, head) = reader.read(piece)?;
        length += read;
        if let Some(head) = head {
            return Ok(Some((head, length)));
        }
        assert_eq!(read, piece.len(), "all is read");
    }
    Ok(None)
}

fn cut(input: &[u8]) -> Vec<&[u8]> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    for cut in cuts(input) {
        pieces.push(&input[start..cut]);
        start = cut;
    }
    pieces.push(&input[start..]);
    pieces
}

fn run(input: &[u8]) {
    let said = records(core::iter::once(input));
    assert_eq!(records(cut(input).into_iter()), said, "{}", input.escape_ascii());
    // The head within the records, and the input as a head itself.
    for text in [said.stdout.as_slice(), input] {
        let whole = head(core::iter::once(text));
        assert_eq!(head(cut(text).into_iter()), whole, "{}", text.escape_ascii());
        let Ok(Some((head, length))) = whole else { continue };
        assert!(length <= RULES.bytes && (200..600).contains(&head.status.code()));
        // What it says is said again by what it is made of, behind a status line: behind one a field Status may
        // say anything.
        let again = [b"HTTP/1.1 200\r\n", &*head.fields, b"\r\n"].concat();
        let (read, other) = HeadReader::new(HeadRules { bytes: usize::MAX, ..RULES }).read(&again).expect("fields");
        let other = other.expect("they end");
        assert_eq!((read, &other.fields, other.length), (again.len(), &head.fields, head.length));
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let record = |kind: u8, content: &[u8]| {
        let mut record = vec![1, kind, 0, 1, 0, content.len() as u8, 3, 0];
        record.extend_from_slice(content);
        record.extend([0; 3]);
        record
    };
    let answer = [
        record(7, b"PHP message: oh"),
        record(6, b"Status: 404 Not Found\r\nX-A: b\r\nContent-"),
        record(6, b"Length: 4\r\n\r\nbody"),
        record(6, b""),
        record(3, &[0; 8]),
    ];
    vec![
        answer.concat(),
        record(6, b"Location: /x\n\n"),
        b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nbody".to_vec(),
        b"Content-type: text/html; charset=UTF-8\nSet-Cookie: a=b\n\n<p>".to_vec(),
    ]
}
