//! `sub_filter`: texts in content are replaced by others, whatever their case.
//!
//! Where several could begin, the first of them in the configuration counts; what
//! could become one with the bytes to come is kept until it is known. What could have
//! become one at the end of the content stays as it is, though a shorter one may
//! stand in it: so does nginx.

use crate::filter::{Broken, FilterStep};
use crate::media_types::{MediaTypes, add_types};
use crate::row::{DirectiveRow, Refusal, Words};
use crate::rule::{Arguments, ValueForm};
use crate::value::Value;
use crate::view::Values;
use crate::{Explaining, Feature, FeatureSettings};
use std::sync::Arc;

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[
        DirectiveRow::new("sub", "sub_filter", ValueForm::Own, sub_filter).taking(Arguments::exactly(2)).shown(
            "is text TEXT
             is www ONE & text TWO
             is ext $host
             with sub_filter_once off; sub_filter_types *;
             ask GET text.txt
             seen body",
        ),
        DirectiveRow::new("sub", "sub_filter_types", ValueForm::MediaTypes, |settings, words| {
            add_types(&mut rules(settings).types, words)
        })
        .taking(Arguments::at_least(1))
        .shown(
            "is text/css
             is text/plain
             with sub_filter www WWW;
             ask GET style.css
             ask GET text.txt
             seen body",
        ),
        DirectiveRow::new("sub", "sub_filter_once", ValueForm::Flag, |settings, words| {
            words.flag(&mut rules(settings).once)
        })
        .shown(
            "is on
             is off
             with sub_filter o 0; sub_filter_types *;
             ask GET text.txt
             seen body",
        ),
        DirectiveRow::new("sub", "sub_filter_last_modified", ValueForm::Flag, |settings, words| {
            words.flag(&mut rules(settings).last_modified)
        })
        .shown(
            "is on
             is off
             with sub_filter o 0; sub_filter_types *;
             ask GET text.txt
             seen last-modified",
        ),
    ],
    built_with: &["sub"],
    explain: Some(explain),
    ..Feature::NONE
};

/// The rules of a block, made its own.
fn rules(settings: &mut FeatureSettings) -> &mut SubstituteRules {
    Arc::make_mut(&mut settings.sub_filter)
}

fn sub_filter(settings: &mut FeatureSettings, words: &mut Words<'_>) -> Result<(), Refusal> {
    if words.word(0).is_empty() {
        return Err(Refusal::Text("empty search pattern".to_owned()));
    }
    let first = words.is_first();
    if !first && settings.sub_filter.pairs.len() >= PAIRS_MAX {
        return Err(Refusal::Text(format!("number of search patterns exceeds {PAIRS_MAX}")));
    }
    let text = words.compiling.value(&words.word(0).to_ascii_lowercase())?;
    let pair = (text, words.value(1)?);
    let rules = rules(settings);
    if first {
        rules.pairs.clear();
    }
    rules.pairs.push(pair);
    rules.prepare();
    Ok(())
}

fn explain(settings: &FeatureSettings, explaining: &mut dyn Explaining) {
    // Content of other types passes as it is.
    for (text, with) in &settings.sub_filter.pairs {
        explaining.value(text, false);
        explaining.value(with, false);
    }
}

/// Pairs at most.
const PAIRS_MAX: usize = 255;

/// `sub_filter` and what belongs to it.
#[derive(Clone, Debug)]
pub struct SubstituteRules {
    /// What is looked for, in small letters, and what stands in its place.
    pub pairs: Vec<(Value, Value)>,
    /// Each is replaced once (`sub_filter_once`).
    pub once: bool,
    /// `Last-Modified` stays (`sub_filter_last_modified`).
    pub last_modified: bool,
    /// In content of these types.
    pub types: MediaTypes,
    /// What is looked for, where no request decides that.
    patterns: Option<Arc<Patterns>>,
}

impl Default for SubstituteRules {
    fn default() -> Self {
        let types = MediaTypes::default();
        Self { pairs: Vec::new(), once: true, last_modified: false, types, patterns: None }
    }
}

impl SubstituteRules {
    /// Prepares what is looked for, where that is known.
    fn prepare(&mut self) {
        let texts: Option<Vec<Vec<u8>>> =
            self.pairs.iter().map(|(text, _)| Some(text.constant()?.to_ascii_lowercase())).collect();
        self.patterns = texts.and_then(|texts| Patterns::new(texts.into_iter().enumerate())).map(Arc::new);
    }

    /// What is looked for; `text` makes it of values. Nothing if all of them are empty.
    fn patterns(&self, mut text: impl FnMut(&Value) -> Vec<u8>) -> Option<Arc<Patterns>> {
        if let Some(patterns) = &self.patterns {
            return Some(Arc::clone(patterns));
        }
        let texts = self.pairs.iter().map(|(value, _)| text(value).to_ascii_lowercase());
        Patterns::new(texts.enumerate().filter(|(_, text)| !text.is_empty())).map(Arc::new)
    }
}

/// Texts that are looked for together, by how far one may skip (Horspool).
#[derive(Debug)]
struct Patterns {
    /// The pair of each, and its text; by their last byte within the shortest length,
    /// those of one in the order of the configuration.
    texts: Vec<(usize, Box<[u8]>)>,
    shortest: usize,
    /// By a byte: how far the next place is where one could end, if it was at the end of
    /// the shortest.
    shift: Box<[u8; 256]>,
    /// By a byte: where in `texts` those with it begin.
    index: Box<[u16; 257]>,
}

impl Patterns {
    fn new(texts: impl Iterator<Item = (usize, Vec<u8>)>) -> Option<Self> {
        let mut texts: Vec<(usize, Box<[u8]>)> = texts.map(|(pair, text)| (pair, text.into())).collect();
        let shortest = texts.iter().map(|(_, text)| text.len()).min().filter(|length| *length > 0)?;
        // The sort is stable.
        texts.sort_by_key(|(_, text)| text[shortest - 1]);
        let mut shift = Box::new([shortest.min(255) as u8; 256]);
        let mut index = Box::new([0_u16; 257]);
        for (_, text) in &texts {
            for (before_end, byte) in text[..shortest].iter().rev().take(255).enumerate() {
                let least = &mut shift[usize::from(*byte)];
                *least = (*least).min(before_end as u8);
            }
            index[usize::from(text[shortest - 1]) + 1] += 1;
        }
        for at in 1..index.len() {
            index[at] += index[at - 1];
        }
        Some(Self { texts, shortest, shift, index })
    }

    /// Those that may end their shortest part with this byte.
    fn with(&self, byte: u8) -> core::ops::Range<usize> {
        let byte = usize::from(byte);
        usize::from(self.index[byte])..usize::from(self.index[byte + 1])
    }
}

/// Replaces texts in one content.
#[derive(Debug)]
pub struct Substitution {
    rules: Arc<SubstituteRules>,
    patterns: Arc<Patterns>,
    /// What pairs put in place of theirs, once it was asked for.
    replacements: Vec<Option<Box<[u8]>>>,
    /// How many were replaced, if each is once.
    applied: usize,
    /// Bytes that were taken and not told.
    held: Vec<u8>,
}

/// Input that is looked at in one step, at most.
const LOOKED_AT: usize = 16 << 10;

/// What was found at a place.
enum Found {
    /// This one of the texts.
    One(usize),
    /// The beginning of one, which ends with what is there.
    Beginning,
    Nothing,
}

impl Substitution {
    /// Begins with content of a request; nothing if there is nothing to look for.
    pub fn new(rules: &Arc<SubstituteRules>, values: &mut dyn Values) -> Option<Self> {
        let patterns = rules.patterns(|text| values.value(text))?;
        let replacements = rules.pairs.iter().map(|_| None).collect();
        Some(Self { rules: Arc::clone(rules), patterns, replacements, applied: 0, held: Vec::new() })
    }

    /// Takes some of `input`, which ends there if `last`, and appends to `out`; once it has
    /// appended `most` bytes it takes no more.
    ///
    /// # Errors
    /// None: content may be anything.
    pub fn take(
        &mut self,
        (input, last): (&[u8], bool),
        (out, most): (&mut Vec<u8>, usize),
        values: &mut dyn Values,
    ) -> Result<FilterStep, Broken> {
        let start = out.len();
        let mut bytes = input.len().min(LOOKED_AT);
        if self.is_done() {
            out.append(&mut self.held);
            out.extend_from_slice(&input[..bytes]);
            return Ok(FilterStep { bytes, ended: last && bytes == input.len() });
        }
        self.held.extend_from_slice(&input[..bytes]);
        let mut held = core::mem::take(&mut self.held);
        let is_end = last && bytes == input.len();
        let shortest = self.patterns.shortest;
        let (mut told, mut end, mut stopped) = (0, shortest - 1, false);
        while end < held.len() && !self.is_done() {
            let byte = held[end].to_ascii_lowercase();
            let shift = self.patterns.shift[usize::from(byte)];
            if shift > 0 {
                end += usize::from(shift);
                continue;
            }
            let begin = end + 1 - shortest;
            match self.find(&held[begin..], byte) {
                Found::Nothing => end += 1,
                Found::Beginning => break,
                Found::One(text) => {
                    out.extend_from_slice(&held[told..begin]);
                    let (pair, length) = (self.patterns.texts[text].0, self.patterns.texts[text].1.len());
                    self.replace(pair, out, values);
                    told = begin + length;
                    end = told + shortest - 1;
                    if out.len() - start >= most {
                        stopped = true;
                        break;
                    }
                }
            }
        }
        if stopped {
            // What was not looked at is offered again.
            let left = (held.len() - told).min(bytes);
            held.truncate(held.len() - left);
            bytes -= left;
        } else {
            let all = is_end || self.is_done();
            let kept =
                if all { held.len() } else { self.beginning(&held, (end + 1 - shortest).clamp(told, held.len())) };
            out.extend_from_slice(&held[told..kept]);
            told = kept;
        }
        held.drain(..told);
        self.held = held;
        Ok(FilterStep { bytes, ended: last && bytes == input.len() && self.held.is_empty() })
    }

    /// Whether content passes as it is by now.
    fn is_done(&self) -> bool {
        self.rules.once && self.applied == self.patterns.texts.len()
    }

    /// The first place from `from` on where a text that is still looked for could begin: what is before it
    /// is waited for by none, and a stream of events that pause goes on whole.
    fn beginning(&self, held: &[u8], from: usize) -> usize {
        let is_wanted = |(pair, _): &&(usize, Box<[u8]>)| !(self.rules.once && self.replacements[*pair].is_some());
        let begins = |rest: &[u8], wanted: &[u8]| {
            wanted.get(..rest.len()).is_some_and(|beginning| rest.eq_ignore_ascii_case(beginning))
        };
        let could = |at: &usize| {
            held.get(*at..).is_some_and(|rest| {
                self.patterns.texts.iter().filter(is_wanted).any(|(_, wanted)| begins(rest, wanted))
            })
        };
        (from..held.len()).find(could).unwrap_or(held.len())
    }

    /// What begins with `text`, whose last byte of the shortest length is `byte`.
    fn find(&self, text: &[u8], byte: u8) -> Found {
        for at in self.patterns.with(byte) {
            let (pair, wanted) = &self.patterns.texts[at];
            if self.rules.once && self.replacements[*pair].is_some() {
                continue;
            }
            let length = wanted.len().min(text.len());
            if text[..length].eq_ignore_ascii_case(&wanted[..length]) {
                return if length == wanted.len() { Found::One(at) } else { Found::Beginning };
            }
        }
        Found::Nothing
    }

    fn replace(&mut self, pair: usize, out: &mut Vec<u8>, values: &mut dyn Values) {
        self.applied += usize::from(self.rules.once);
        let value = &self.rules.pairs[pair].1;
        let text = self.replacements[pair].get_or_insert_with(|| values.value(value).into());
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Literal;

    impl Values for Literal {
        fn value(&mut self, value: &Value) -> Vec<u8> {
            value.constant().unwrap_or_default().to_vec()
        }
    }

    fn made(pairs: &[(&str, &str)], once: bool, text: &str, piece: usize, most: usize) -> String {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(text, with)| (Value::literal(text.as_bytes()), Value::literal(with.as_bytes())));
        let mut rules = SubstituteRules { pairs: pairs.collect(), once, ..SubstituteRules::default() };
        rules.prepare();
        let mut filter = Substitution::new(&Arc::new(rules), &mut Literal).expect("texts");
        let (text, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
        loop {
            let end = text.len().min(at + piece);
            let last = end == text.len();
            let taken = filter.take((&text[at..end], last), (&mut out, most), &mut Literal).expect("no break");
            at += taken.bytes;
            if taken.ended {
                assert_eq!(at, text.len());
                return String::from_utf8(out).expect("text");
            }
        }
    }

    type Case<'a> = (&'a [(&'a str, &'a str)], bool, &'a str, &'a str);

    #[test]
    fn texts_are_replaced_however_they_come() {
        let cases: &[Case<'_>] = &[
            (&[("b", "x")], false, "abcb", "axcx"),
            (&[("b", "x")], true, "abcb", "axcb"),
            (&[("abc", "-")], false, "xABCabcaBcx", "x---x"),
            (&[("aab", "-")], false, "aaab aaaab", "a- aa-"),
            (&[("abcdef", "1"), ("abc", "2")], false, "abcdef abcde abcx", "1 2de 2x"),
            // What could become the first at the end stays.
            (&[("abcdef", "1"), ("abc", "2")], false, "abc abc", "2 abc"),
            (&[("abc", "2"), ("abcdef", "1")], false, "abcdef abc", "2def 2"),
            (&[("a", "bb"), ("b", "a")], false, "ab", "bba"),
            (&[("a", "1"), ("b", "2")], true, "aabb", "1a2b"),
            (&[("a", ""), ("b", "2")], true, "aabb", "a2b"),
            (&[("x", "y")], true, "", ""),
            (&[("long text", "x"), ("t", "T")], false, "text long textlong tex", "TexT xlong tex"),
            (&[("</head>", "<s></head>")], true, "<HEAD></HEAD><body>", "<HEAD><s></head><body>"),
        ];
        for (pairs, once, text, expected) in cases {
            for piece in [1, 2, 3, 5, 1 << 20] {
                for most in [1, 4, 1 << 20] {
                    assert_eq!(made(pairs, *once, text, piece, most), *expected, "{pairs:?} {text} by {piece}, {most}");
                }
            }
        }
    }

    /// What comes of one piece, before the next is there.
    fn at_once(pairs: &[(&str, &str)], once: bool, pieces: &[&str]) -> Vec<String> {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(text, with)| (Value::literal(text.as_bytes()), Value::literal(with.as_bytes())));
        let mut rules = SubstituteRules { pairs: pairs.collect(), once, ..SubstituteRules::default() };
        rules.prepare();
        let mut filter = Substitution::new(&Arc::new(rules), &mut Literal).expect("texts");
        let one = |piece: &&str| {
            let (mut out, mut rest) = (Vec::new(), piece.as_bytes());
            while !rest.is_empty() {
                let taken = filter.take((rest, false), (&mut out, 1 << 20), &mut Literal).expect("no break");
                rest = &rest[taken.bytes..];
            }
            String::from_utf8(out).expect("text")
        };
        pieces.iter().map(one).collect()
    }

    type Pieces<'a> = (&'a [(&'a str, &'a str)], bool, &'a [&'a str], &'a [&'a str]);

    /// An event of a stream comes whole, whatever is looked for: only what could become a text waits.
    #[test]
    fn only_what_could_become_a_text_waits() {
        let event = "data: hello world\n\n";
        let cases: &[Pieces<'_>] = &[
            (&[("QQQQQQQQ", "Y")], true, &[event, event], &[event, event]),
            (&[("QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ", "Y")], false, &[event, event], &[event, event]),
            (&[("abcdef", "1"), ("xyz", "2")], false, &["nothing", "xABC", "Dxy", "Z"], &["nothing", "x", "ABCD", "2"]),
            (&[("abcdef", "1"), ("fgh", "2")], false, &["abcdeF", "f", "gh", "."], &["1", "", "2", "."]),
            // What was replaced once is not waited for any more.
            (&[("abcd", "1"), ("wxyz", "2")], true, &["abcd", "abc", "wxy", "z", "wxy"], &["1", "abc", "", "2", "wxy"]),
            (&[("aab", "-")], false, &["xaa", "a", "b"], &["x", "a", "-"]),
        ];
        for (pairs, once, pieces, expected) in cases {
            assert_eq!(at_once(pairs, *once, pieces), *expected, "{pairs:?}");
        }
    }

    /// As one looks at it place by place.
    #[test]
    fn skipping_misses_nothing() {
        let mut random = random::SplitMix64::new(5);
        for _ in 0..3_000 {
            let mut text = |most: usize| -> String {
                (0..1 + random.below(most)).map(|_| char::from(b'a' + random.below(3) as u8)).collect()
            };
            let pairs: Vec<(String, String)> = (0..3).map(|at| (text(5), at.to_string())).collect();
            let content = text(40);
            let mut expected = String::new();
            let mut at = 0;
            'all: while at < content.len() {
                let shortest = pairs.iter().map(|(text, _)| text.len()).min().unwrap_or(0);
                for (wanted, with) in &pairs {
                    let rest = &content[at..];
                    if rest.starts_with(wanted.as_str()) {
                        expected.push_str(with);
                        at += wanted.len();
                        continue 'all;
                    }
                    if rest.len() >= shortest && wanted.starts_with(rest) {
                        break 'all;
                    }
                }
                expected.push(char::from(content.as_bytes()[at]));
                at += 1;
            }
            expected.push_str(&content[at.min(content.len())..]);
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            for piece in [1, 3, 100] {
                assert_eq!(made(&pairs, false, &content, piece, 1_000), expected, "{pairs:?} {content}");
            }
        }
    }
}
