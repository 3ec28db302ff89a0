//! Header blocks of HTTP/2.

use super::cuts;
use crate::Target;
use hpack::{Decoder, Encoder, HeaderField, Indexing, Scratch};
use std::ops::ControlFlow;

pub(crate) const TARGET: Target = Target {
    name: "hpack",
    about: "who refuses fields keeps the table of who takes them, and what was decoded is said again by our blocks",
    run,
    seeds,
    dictionary: &[
        b"\x82\x86\x84",
        b"\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
        b"\x40\x01a\x01b",
        b"\x10\x01a\x01b",
        b"\x20",
        b"\x3f\xe1\x1f",
        b"\xff\xff\xff\xff\x7f",
        b"\xbe\xbf\xc0",
        b"\x84\xff\xff\xff\xff",
    ],
    test_runs: 5_000,
    max_len: 1_000,
};

/// The table's limit: small enough that entries go.
const LIMIT: u32 = 300;

fn run(input: &[u8]) {
    let (mut takes, mut refuses, mut again) = (Decoder::new(LIMIT), Decoder::new(LIMIT), Decoder::default());
    let mut encoder = Encoder::default();
    let (mut scratch, mut start) = (Scratch::new(), 0);
    for end in cuts(input).into_iter().chain([input.len()]) {
        let block = &input[start..end];
        start = end;
        let mut fields = Vec::new();
        let decoded = takes.decode(block, &mut scratch, |field| {
            fields.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
            ControlFlow::Continue(())
        });
        let mut given = 0;
        let refused = refuses.decode(block, &mut scratch, |_| {
            given += 1;
            ControlFlow::Break(())
        });
        assert!(given <= 1 && takes.memory() <= LIMIT as usize + 200);
        assert_eq!(takes.memory(), refuses.memory(), "{}", input.escape_ascii());
        assert_eq!(decoded.err(), refused.err(), "{}", input.escape_ascii());
        let Ok(decoded) = decoded else { return };
        let bytes: usize = fields.iter().map(|(name, value, _)| name.len() + value.len()).sum();
        assert_eq!((decoded.fields as usize, decoded.bytes), (fields.len(), bytes as u64));
        let mut ours = Vec::new();
        encoder.begin(&mut ours);
        for (name, value, sensitive) in &fields {
            encoder.encode(HeaderField { name, value, sensitive: *sensitive }, Indexing::Incremental, &mut ours);
        }
        let mut said = Vec::new();
        let whole = again.decode(&ours, &mut scratch, |field| {
            said.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
            ControlFlow::Continue(())
        });
        assert!(whole.is_ok() && said == fields, "{}", input.escape_ascii());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(LIMIT);
    let mut block = |fields: &[(&str, &str)]| {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value) in fields {
            encoder.encode(HeaderField::new(name.as_bytes(), value.as_bytes()), Indexing::Incremental, &mut out);
        }
        out
    };
    let first = block(&[(":method", "GET"), (":path", "/index.html"), ("user-agent", "Mozilla/5.0"), ("x", "y")]);
    let second = block(&[(":method", "GET"), (":path", "/a?b=c"), ("user-agent", "Mozilla/5.0"), ("x", "\u{1}\u{7f}")]);
    vec![
        [first.clone(), second.clone()].concat(),
        first,
        second,
        b"\x20\x3f\x45\x40\x0acustom-key\x0dcustom-header\xbe\x10\x08password\x06secret\x7e\x01z".to_vec(),
    ]
}
