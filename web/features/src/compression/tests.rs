use super::*;
use crate::compiling::{BlockCompiling, Compiling};
use crate::row::{DirectiveEffect, Refusal, Words};
use crate::value::Value;
use std::sync::Arc;

/// Expressions are counted, each directive is the first of its name, and warnings are kept.
#[derive(Default)]
struct Compiler {
    expressions: u32,
    warnings: Vec<String>,
}

impl Compiling for Compiler {
    fn value(&mut self, _: &[u8]) -> Result<Value, String> {
        Ok(Value::default())
    }

    fn expression(&mut self, pattern: &[u8], caseless: bool) -> Result<u32, String> {
        assert!(caseless);
        self.expressions += 1;
        if pattern == b"(" { Err("pcre2_compile() failed".into()) } else { Ok(self.expressions - 1) }
    }
}

impl BlockCompiling for Compiler {
    fn is_first(&mut self, _: &'static str) -> bool {
        true
    }

    fn has(&self, _: &'static str) -> bool {
        false
    }

    fn path(&self, text: &[u8]) -> Vec<u8> {
        text.to_vec()
    }

    fn zone(&self, _: &[u8], _: bool) -> Option<u16> {
        None
    }

    fn level(&self, _: &[u8]) -> Option<u8> {
        None
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }
}

/// What directives come to, and what is warned of.
fn set(text: &str) -> Result<(Arc<CompressionRules>, Vec<String>), String> {
    let (mut settings, mut compiling) = (FeatureSettings::default(), Compiler::default());
    for line in text.split(';') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, words)) = words.split_first() else { continue };
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let row = GZIP.directives.iter().chain(OTHERS.directives).find(|row| row.name == *name).expect(name);
        let DirectiveEffect::Sets(setter) = row.effect else { continue };
        let set = setter(&mut settings, &mut Words { name: row.name, words: &words, compiling: &mut compiling });
        set.map_err(|why| match why {
            Refusal::OfDirective(text) => format!("\"{name}\" directive {text}"),
            Refusal::Text(text) | Refusal::Nowhere(text) => text,
        })?;
    }
    Ok((settings.compression, compiling.warnings))
}

fn rules(text: &str) -> Arc<CompressionRules> {
    set(text).expect(text).0
}

fn accepted(rules: &CompressionRules, field: &str) -> Accepted {
    let request = RequestFacts { accept_encoding: Some(field.as_bytes()), ..RequestFacts::default() };
    rules.accepted(&request, &mut |_, _| unreachable!())
}

/// What nginx 1.22 compressed, by the field that it was sent.
#[test]
fn fields_are_read_as_nginx_reads_them() {
    let rules = rules("gzip on");
    for (field, taken) in FIELDS {
        assert_eq!(accepted(&rules, field).takes(Coding::Gzip), taken, "{field:?}");
    }
    let all = accepted(&rules, "br;q=0.5, zstd, gzip;q=0");
    assert!(all.takes(Coding::Brotli) && all.takes(Coding::Zstd) && !all.takes(Coding::Gzip));
    assert!(!accepted(&rules, "brotli").takes(Coding::Brotli));
    assert_eq!(accepted(&rules, "identity").class(), 0);
}

const FIELDS: [(&str, bool); 31] = [
    ("gzip", true),
    ("gzip,", true),
    ("gzip, deflate", true),
    ("deflate, gzip", true),
    ("deflate,gzip", true),
    ("x-gzip", false),
    ("x-gzip, gzip", true),
    ("GZIP", true),
    ("gzipx", false),
    ("gzip;q=0", false),
    ("gzip;q=0.0", false),
    ("gzip;q=0.000", false),
    ("gzip;q=0.001", true),
    ("gzip;q=0.0001", false),
    ("gzip;q=1", true),
    ("gzip;q=1.000", true),
    ("gzip;q=1.001", false),
    ("gzip;q=2", false),
    ("gzip;q=", false),
    ("gzip;q", false),
    ("gzip;", true),
    ("gzip; q=0.5", true),
    ("gzip ; Q=0.5", true),
    ("gzip;x=1", false),
    ("*", false),
    ("gzi", false),
    ("", false),
    ("gzip;q=0,gzip", false),
    ("identity;q=1, *;q=0, gzip;q=.5", false),
    ("deflate;gzip", false),
    ("gzip\t", false),
];

#[test]
fn requests_that_are_alike_have_one_number() {
    let rules = rules("gzip on; gzip_disable msie6 x.y");
    let mut request = RequestFacts { accept_encoding: Some(b"gzip, br"), ..RequestFacts::default() };
    let class = |request: &RequestFacts<'_>| {
        rules.accepted(request, &mut |number, agent| number == 0 && agent.starts_with(b"xzy")).class()
    };
    assert_eq!(class(&request), 3);
    request.user_agent = Some(b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)");
    assert_eq!(class(&request), 0);
    request.user_agent = Some(b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)");
    assert_eq!(class(&request), 3);
    request.user_agent = Some(b"Mozilla/4.0 (compatible; MSIE 7.0)");
    assert_eq!(class(&request), 3);
    request.user_agent = Some(b"MSIE 5.");
    assert_eq!(class(&request), 3, "nothing follows");
    request.user_agent = Some(b"xzy");
    assert_eq!(class(&request), 0);
    request.user_agent = None;
    request.authorization = true;
    assert_eq!(class(&request), 3);
    request.via = true;
    assert_eq!(class(&request), 3 + 8 + 16);
    request.old = true;
    assert_eq!(class(&request), 0);
    assert_eq!(class(&RequestFacts::default()), 0);
}

#[test]
fn responses_are_chosen_as_nginx_does() {
    let on = rules("gzip on; gzip_vary on; gzip_types text/css; gzip_min_length 100");
    let gzip = accepted(&on, "gzip");
    let plain = ResponseFacts { length: Some(100), ..ResponseFacts::default() };
    let choose = |response: &ResponseFacts<'_>| {
        let chosen = on.choose(gzip, response);
        (chosen.coding, chosen.vary)
    };
    let (yes, no) = ((Some(Coding::Gzip), true), (None, false));
    assert_eq!(choose(&plain), yes);
    assert_eq!(choose(&ResponseFacts { length: None, ..plain }), yes);
    assert_eq!(choose(&ResponseFacts { length: Some(99), ..plain }), no);
    assert_eq!(choose(&ResponseFacts { status: 404, ..plain }), yes);
    assert_eq!(choose(&ResponseFacts { status: 206, ..plain }), no);
    assert_eq!(choose(&ResponseFacts { encoded: true, ..plain }), no);
    assert_eq!(choose(&ResponseFacts { media_type: b"Text/CSS; charset=utf-8", ..plain }), yes);
    assert_eq!(choose(&ResponseFacts { media_type: b"image/png", ..plain }), no);
    let chosen = on.choose(Accepted::default(), &plain);
    assert_eq!((chosen.coding, chosen.vary), (None, true));
    // Several codings: the first that both have, each by its own rules.
    let all = rules("gzip on; brotli on; zstd on; brotli_types text/css; gzip_types *; brotli_min_length 1000");
    let both = accepted(&all, "gzip, br");
    assert_eq!(all.choose(both, &plain).coding, Some(Coding::Gzip));
    assert_eq!(all.choose(both, &ResponseFacts { length: None, ..plain }).coding, Some(Coding::Brotli));
    assert_eq!(all.choose(both, &ResponseFacts { media_type: b"image/png", ..plain }).coding, Some(Coding::Gzip));
    assert_eq!(all.choose(accepted(&all, "zstd,gzip"), &plain).coding, Some(Coding::Zstd));
    assert!(!all.choose(both, &plain).vary);
}

#[test]
fn what_came_through_a_proxy_is_compressed_as_told() {
    let via = |text: &str, authorization: bool, response: &ResponseFacts<'_>| {
        let rules = rules(&format!("gzip on; gzip_proxied {text}"));
        let accept_encoding = Some(&b"gzip"[..]);
        let request = RequestFacts { accept_encoding, via: true, authorization, ..RequestFacts::default() };
        rules.choose(rules.accepted(&request, &mut |_, _| false), response).coding.is_some()
    };
    let plain = ResponseFacts::default();
    assert!(!via("off", true, &plain) && via("any", false, &plain));
    assert!(via("auth", true, &plain) && via("auth", false, &plain));
    let dated = ResponseFacts { now: 100, expires: Some(99), ..plain };
    assert!(via("expired", false, &dated) && !via("auth", false, &dated) && via("auth", true, &dated));
    assert!(!via("expired", false, &ResponseFacts { expires: Some(100), ..dated }));
    let controlled = ResponseFacts { cache_control: &[b"public", b"max-age=5, No-Cache"], ..plain };
    assert!(via("no-cache", false, &controlled) && !via("no-store private", false, &controlled));
    let controlled = ResponseFacts { cache_control: &[b"no-cache=x, private"], ..plain };
    assert!(!via("no-cache", false, &controlled) && via("private", false, &controlled));
    let tagged = ResponseFacts { etag: true, last_modified: true, ..plain };
    assert!(via("private", false, &tagged));
    assert!(!via("no_etag", false, &tagged) && !via("no_last_modified", false, &tagged));
    assert!(via("no_etag no_last_modified", false, &plain));
}

#[test]
fn files_that_were_compressed_are_looked_for() {
    let files = |text: &str, field: &str| {
        let rules = rules(text);
        let files = rules.files(accepted(&rules, field));
        let told = |(looked, chosen): (Coding, Chosen)| {
            assert!(chosen.coding.is_none_or(|coding| coding == looked));
            format!(
                "{looked:?}{}{}",
                if chosen.coding.is_some() { "" } else { "-" },
                if chosen.vary { "v" } else { "" }
            )
        };
        files.map(told).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(files("gzip_static on", "gzip"), "Gzip");
    assert_eq!(files("gzip_static on", "br"), "");
    assert_eq!(files("gzip_static on; gzip_vary on", "br"), "Gzip-v");
    assert_eq!(files("gzip_static always; gzip_vary on", "br"), "Gzip");
    assert_eq!(files("gzip_static on; brotli_static on; zstd_static on", "gzip, br"), "Brotli Gzip");
    assert_eq!(files("gzip_static off", "gzip"), "");
    let rules = rules("gunzip on");
    assert!(rules.unpacks(accepted(&rules, "br"), &ResponseFacts::default()));
    assert!(!rules.unpacks(accepted(&rules, "gzip"), &ResponseFacts::default()));
}

#[test]
fn what_is_wrong_is_said_in_nginxs_words() {
    for (text, said) in [
        ("gzip_comp_level 0", "value must be equal to or greater than 1"),
        ("gzip_comp_level 10", "value must be equal to or less than 9"),
        ("brotli_comp_level 12", "value must be equal to or less than 11"),
        ("gzip_static x", "invalid value \"x\""),
        ("gzip_proxied x", "invalid value \"x\""),
        ("gzip_disable (", "pcre2_compile() failed"),
        ("brotli_min_length x", "\"brotli_min_length\" directive invalid value"),
        ("zstd_comp_level x", "\"zstd_comp_level\" directive invalid number"),
    ] {
        assert_eq!(set(text).expect_err(text), said, "{text}");
    }
    let (_, warned) = set("gzip_types text/css TEXT/css text/html").expect("taken");
    assert_eq!(warned, ["duplicate MIME type \"text/css\"", "duplicate MIME type \"text/html\""]);
    assert_eq!(*rules("gzip_buffers 4 8k; postpone_gzipping 10"), CompressionRules::default());
}

#[test]
fn ratios_are_rounded_as_nginx_rounds_them() {
    for (whole, sent, text) in
        [(1_000, 100, "10.00"), (1_000, 300, "3.33"), (2_000, 300, "6.67"), (2_996, 1_000, "3.00"), (5, 10, "0.50")]
    {
        assert_eq!(ratio(whole, sent), text);
    }
}
