//! Commands in content (`ssi`).

use super::cuts;
use crate::Target;
use features::{Value, Values};
use filters::{FilterValues, Include, Ssi, SsiRules, SsiValues};
use std::sync::Arc;

pub(crate) const TARGET: Target = Target {
    name: "ssi",
    about: "what commands make of content does not depend on how it is cut, and is bounded",
    run,
    seeds,
    dictionary: &[
        b"<!--#",
        b" -->",
        b"echo var=\"",
        b"set var=\"x\" value=\"",
        b"$x",
        b"${x}",
        b"if expr=\"",
        b"elif expr=\"$x = /(a)/\"",
        b"else",
        b"endif",
        b"block name=\"b\"",
        b"endblock",
        b"config timefmt=\"%A %V\"",
        b"config errmsg=\"",
        b"include virtual=\"/x\"",
        b"include file=\"y/%2e%2e?\"",
        b" wait=\"yes\"",
        b" set=\"x\"",
        b" stub=\"b\"",
        b"encoding=\"url\"",
        b"default='",
        b"\\",
    ],
    test_runs: 5_000,
    max_len: 1_000,
};

/// Variables of a request that has few, and what is included in it.
#[derive(Default)]
struct Few {
    set: SsiValues,
    included: Vec<Include>,
}

impl Values for Few {
    fn value(&mut self, value: &Value) -> Vec<u8> {
        value.constant().unwrap_or_default().to_vec()
    }
}

impl FilterValues for Few {
    fn named(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        (name.len() % 2 == 1).then(|| name.to_vec())
    }

    fn second(&mut self) -> u64 {
        784_111_777
    }

    fn ssi(&mut self) -> &mut SsiValues {
        &mut self.set
    }

    fn path(&mut self) -> Vec<u8> {
        b"/folder/page.html".to_vec()
    }

    fn include(&mut self, include: Include) -> bool {
        let leads_up = include.uri.split(|byte| *byte == b'/').any(|part| part == b"..");
        assert!(!leads_up && !include.uri.is_empty() && !include.uri.contains(&0), "{include:?}");
        self.included.push(include);
        !self.included.len().is_multiple_of(3)
    }

    fn waits(&self) -> bool {
        false
    }
}

/// What comes of pieces of content, each given room for `most` bytes; nothing if the
/// answer breaks.
fn made(pieces: &[&[u8]], most: usize) -> Option<(Vec<u8>, Vec<Include>)> {
    let mut ssi = Ssi::new(Arc::new(SsiRules { value_length: 40, ..SsiRules::default() }));
    let (mut out, mut values) = (Vec::new(), Few::default());
    for (number, piece) in pieces.iter().enumerate() {
        let (last, mut at) = (number + 1 == pieces.len(), 0);
        loop {
            let before = out.len();
            let taken = ssi.take((&piece[at..], last), (&mut out, most), &mut values).ok()?;
            assert!(out.len() - before <= most.saturating_add(6 << 16), "one value more at most");
            at += taken.bytes;
            if at == piece.len() && taken.ended == last {
                break;
            }
            assert!(taken.bytes > 0, "it goes on");
        }
    }
    Some((out, values.included))
}

fn run(input: &[u8]) {
    let whole = made(&[input], usize::MAX);
    let mut pieces = Vec::new();
    let mut start = 0;
    for cut in cuts(input) {
        pieces.push(&input[start..cut]);
        start = cut;
    }
    pieces.push(&input[start..]);
    assert_eq!(made(&pieces, usize::MAX), whole, "cut, {}", input.escape_ascii());
    assert_eq!(made(&[input], 1 + input.len() % 7), whole, "by little room, {}", input.escape_ascii());
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &b"text <b> <!-- comment --> <!--#echo var=\"uri\" default=\"-\" encoding=\"none\" --> more"[..],
        b"<!--#set var=\"x\" value=\"a$abc\" --><!--#if expr=\"$x = /^a(?<rest>.*)$/\" -->$1\
            <!--#echo var=\"rest\" --><!--#else -->no<!--#endif -->",
        b"<!--#config errmsg=\"oh\" timefmt=\"%c\" --><!--#none --><!--#echo var=\"date_gmt\" -->",
        b"<!--#block name=\"x\" -->in<!--#endblock --><!--#include virtual=\"/\" stub=\"x\" --><!--",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}
