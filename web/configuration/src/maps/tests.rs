use super::*;
use features::Variables;
use features::{Compiling, Value};
use std::collections::HashMap;

/// Expressions are their text: these match what is listed.
#[derive(Default, Debug)]
struct Compiler {
    expressions: Vec<(Vec<u8>, bool)>,
}

impl Compiling for Compiler {
    fn value(&mut self, text: &[u8]) -> Result<Value, String> {
        Value::parse(text, &mut |name| (name == b"g").then_some(1)).map_err(|error| error.to_string())
    }

    fn expression(&mut self, pattern: &[u8], caseless: bool) -> Result<u32, String> {
        if pattern == b"(" {
            return Err("pcre2_compile() failed".into());
        }
        self.expressions.push((pattern.into(), caseless));
        Ok(self.expressions.len() as u32 - 1)
    }
}

struct Group;

impl Variables for Group {
    fn write_variable(&mut self, _: u16, out: &mut Vec<u8>) -> bool {
        out.push(b'q');
        true
    }

    fn write_capture(&mut self, _: u8, out: &mut Vec<u8>) {
        out.push(b'q');
    }
}

/// A block's lines: their words.
fn lines(block: &str) -> Vec<Vec<&[u8]>> {
    block
        .split(';')
        .map(|line| {
            line.split_whitespace().map(|word| if word == "\"\"" { &b""[..] } else { word.as_bytes() }).collect()
        })
        .filter(|words: &Vec<&[u8]>| !words.is_empty())
        .collect()
}

fn map(block: &str) -> Result<(Map, Compiler), String> {
    let (mut builder, mut compiler) = (MapBuilder::new(Value::default()), Compiler::default());
    lines(block).iter().try_for_each(|words| builder.add(words, &mut compiler))?;
    Ok((builder.finish(), compiler))
}

fn geo(block: &str) -> Result<(Geo, Vec<String>), String> {
    let mut builder = GeoBuilder::default();
    lines(block).iter().try_for_each(|words| builder.add(words))?;
    let warnings = builder.warnings();
    Ok((builder.finish(None), warnings))
}

fn split(block: &str) -> Result<SplitClients, String> {
    let mut builder = SplitBuilder::new(Value::default());
    lines(block).iter().try_for_each(|words| builder.add(words))?;
    builder.finish()
}

/// What nginx 1.22 answered for each key with these four blocks.
const ANSWERS: [(&str, [&str; 4]); 37] = [
    ("", ["empty", "a", "last", "D"]),
    ("a.example.org", ["start", "b", "last", "D"]),
    ("example.org", ["def", "d", "last", "D"]),
    ("b.a.example.org", ["longer", "b", "last", "D"]),
    ("both.org", ["both", "b", "last", "D"]),
    ("q.both.org", ["both", "b", "last", "D"]),
    ("mail.com", ["end", "c", "last", "D"]),
    ("mail.x.com", ["endx", "c", "last", "D"]),
    ("mail", ["def", "b", "last", "D"]),
    ("exact.ORG", ["exact", "d", "last", "D"]),
    ("exact.org.", ["exact", "d", "last", "D"]),
    ("default", ["esc", "b", "last", "D"]),
    ("reqx", ["re-q-q", "b", "last", "D"]),
    ("ReQx", ["def", "b", "last", "D"]),
    ("ci", ["ci", "c", "last", "D"]),
    ("CI", ["ci", "c", "last", "D"]),
    ("10.0.0.0", ["def", "c", "ten", "begin"]),
    ("10.1.2.3", ["def", "b", "host", "r"]),
    ("10.1.2.4", ["def", "d", "ten", "r"]),
    ("10.207.1.1", ["def", "d", "y", "D"]),
    ("10.208.0.0", ["def", "a", "ten", "D"]),
    ("9.9.9.9", ["def", "c", "D", "D"]),
    ("2001:db8::1", ["def", "d", "six", "D"]),
    ("2001:db9::1", ["def", "c", "D", "D"]),
    ("::ffff:10.1.2.3", ["def", "d", "host", "r"]),
    ("10.1.0.4", ["def", "d", "ten", "r"]),
    ("10.1.0.5", ["def", "d", "ten", "in"]),
    ("10.1.0.8", ["def", "b", "ten", "in"]),
    ("10.1.0.9", ["def", "c", "ten", "one"]),
    ("10.1.0.10", ["def", "d", "ten", "r"]),
    ("10.0.0.1", ["def", "d", "ten", "begin"]),
    ("10.0.0.2", ["def", "d", "ten", "r"]),
    ("10.3.0.0", ["def", "d", "ten", "D"]),
    ("user1", ["def", "b", "last", "D"]),
    ("user2", ["def", "c", "last", "D"]),
    (".example.org", ["start", "b", "last", "D"]),
    ("x.mail.x.y", ["def", "d", "last", "D"]),
];

#[test]
fn values_are_those_that_nginx_gives() {
    let (map, compiler) = map("hostnames; default def; *.example.org start; .both.org both; mail.* end; \
        mail.x.* endx; EXACT.org exact; \\default esc; ~^re(?<g>.)x$ re-$g-$1; ~*^CI$ ci; \"\" empty; \
        *.a.example.org longer")
    .expect("a map");
    let split = split("0.5% a; 20.25% b; 33% c; * d").expect("parts");
    let (networks, warnings) = geo("default D; 10.0.0.0/8 ten; 10.1.0.0/16 ten1; 10.1.2.3 host; \
        delete 10.1.0.0/16; 2001:db8::/32 six; 10.200.0.0/13 y; 255.255.255.255 last")
    .expect("a geo");
    assert_eq!(warnings, [""; 0]);
    let (ranges, warnings) = geo("ranges; default D; 10.0.0.0-10.2.255.255 r; 10.1.0.5-10.1.0.9 in; \
        10.1.0.9-10.1.0.9 one; 10.0.0.0-10.0.0.1 begin")
    .expect("a geo");
    assert_eq!(warnings, [""; 0]);
    for (key, answers) in ANSWERS {
        let mut matches = |number: u32, subject: &[u8]| match &compiler.expressions[number as usize] {
            (pattern, false) if pattern == b"^re(?<g>.)x$" => subject == b"reqx",
            (pattern, true) if pattern == b"^CI$" => subject.eq_ignore_ascii_case(b"ci"),
            other => panic!("{other:?}"),
        };
        let mut mapped = Vec::new();
        map.find(key.as_bytes(), &mut matches).write(&mut Group, &mut mapped);
        let address = Geo::address(key.as_bytes());
        let found = [
            &mapped,
            split.find(key.as_bytes()),
            networks.find(address, core::iter::empty()),
            ranges.find(address, core::iter::empty()),
        ];
        assert_eq!(found.map(String::from_utf8_lossy), answers, "{key}");
    }
}

#[test]
fn long_keys_are_found_whatever_their_case() {
    let key = "a".repeat(300);
    let (map, _) = map(&format!("{key} long; b short")).expect("a map");
    let mut none = |_: u32, _: &[u8]| unreachable!();
    assert_eq!(map.find(key.as_bytes(), &mut none).constant(), Some(&b"long"[..]));
    assert_eq!(map.find(key.to_uppercase().as_bytes(), &mut none).constant(), Some(&b"long"[..]));
    assert_eq!(map.find(&[b'A'; 70_000], &mut none).constant(), Some(&b""[..]));
}

#[test]
fn a_proxy_tells_of_the_client() {
    let (geo, _) =
        geo("default D; proxy 10.0.0.0/8; proxy_recursive; 192.0.2.0/24 doc; 10.0.0.0/8 near").expect("a geo");
    let find = |from: &str, field: &'static str| {
        let value = geo.find(from.parse().ok(), [field.as_bytes()].into_iter());
        String::from_utf8_lossy(value).into_owned()
    };
    assert_eq!(find("10.0.0.1", "192.0.2.1, 10.0.0.2"), "doc");
    assert_eq!(find("10.0.0.1", "x"), "near");
    assert_eq!(find("203.0.113.1", "192.0.2.1"), "D");
}

#[test]
fn what_is_wrong_is_said_in_nginxs_words() {
    for (block, said) in [
        ("a", "invalid number of the map parameters"),
        ("a b c", "invalid number of the map parameters"),
        ("default a; default b", "duplicate default map parameter"),
        ("a b; A c", "conflicting parameter \"a\""),
        ("hostnames; *.a b; *.A c", "conflicting parameter \"*.a\""),
        ("hostnames; .a b; a c", "conflicting parameter \"a\""),
        ("hostnames; a b; .a c", "conflicting parameter \".a\""),
        ("hostnames; *.*.a b", "invalid hostname or wildcard \"*.*.a\""),
        ("hostnames; A..b c", "invalid hostname or wildcard \"A..b\""),
        ("hostnames; * c", "invalid hostname or wildcard \"*\""),
        ("a $none", "unknown \"none\" variable"),
        ("~( b", "pcre2_compile() failed"),
    ] {
        assert_eq!(map(block).expect_err(block), said, "{block}");
    }
    for (block, said) in [
        ("a", "invalid number of the geo parameters"),
        ("10.0.0.0/33 a", "invalid network \"10.0.0.0/33\""),
        ("proxy x", "invalid network \"x\""),
        ("10.0.0.0/8 a; ranges", "the \"ranges\" directive must be the first directive inside \"geo\" block"),
        ("ranges; 10.0.0.0/8 a", "invalid range \"10.0.0.0/8\""),
        ("ranges; 10.0.0.2-10.0.0.1 a", "invalid range \"10.0.0.2-10.0.0.1\""),
        (
            "ranges; 10.0.0.5-10.0.0.9 a; 10.0.0.1-10.0.0.5 b",
            "range \"10.0.0.1-10.0.0.5\" overlaps \"10.0.0.5-10.0.0.9\"",
        ),
    ] {
        assert_eq!(geo(block).expect_err(block), said, "{block}");
    }
    for (block, said) in [
        ("10 a", "invalid percent value \"10\""),
        ("0% a", "invalid percent value \"0%\""),
        ("1.234% a", "invalid percent value \"1.234%\""),
        ("1..2% a", "invalid percent value \"1..2%\""),
        ("60% a; 40.01% b", "percent total is greater than 100%"),
        ("60% a; * b; 1% c", "percent total is greater than 100%"),
    ] {
        assert_eq!(split(block).expect_err(block), said, "{block}");
    }
}

#[test]
fn what_nginx_warns_of_is_kept() {
    let (_, warnings) = geo("default a; default b; 10.0.0.1/8 c; 10.0.0.0/8 d; delete 11.0.0.0/8").expect("a geo");
    assert_eq!(
        warnings,
        [
            "duplicate network \"default\", value: \"b\", old value: \"a\"",
            "duplicate network \"default\", value: \"b\", old value: \"a\"",
            "low address bits of 10.0.0.1/8 are meaningless",
            "duplicate network \"10.0.0.0/8\", value: \"d\", old value: \"c\"",
            "no network \"11.0.0.0/8\" to delete",
        ]
    );
    let (_, warnings) = geo("ranges; 1.0.0.0-1.0.0.1 a; 1.0.0.0-1.0.0.1 b; delete 2.0.0.0-2.0.0.1").expect("a geo");
    assert_eq!(
        warnings,
        [
            "duplicate range \"1.0.0.0-1.0.0.1\", value: \"b\", old value: \"a\"",
            "no address range \"2.0.0.0-2.0.0.1\" to delete",
        ]
    );
}

/// Networks at random against each looked at in turn.
#[test]
fn the_longest_network_counts() {
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    for _ in 0..50 {
        let mut builder = GeoBuilder::default();
        let mut networks = HashMap::new();
        for value in 0..20 {
            let len = random() % 6;
            let address = (random() % 64) << 26 & u32::MAX.checked_shl(32 - len).unwrap_or(0);
            networks.insert((address, len), value.to_string());
            let net = format!("{}/{len}", core::net::Ipv4Addr::from_bits(address));
            builder.add(&[net.as_bytes(), value.to_string().as_bytes()]).expect("a network");
        }
        let geo = builder.finish(None);
        for at in 0..64_u32 {
            let address = at << 26 | 77;
            let holds = |(start, len): &(u32, u32)| (address ^ start).checked_shr(32 - len).unwrap_or(0) == 0;
            let expected = networks.iter().filter(|(net, _)| holds(net)).max_by_key(|((_, len), _)| *len);
            let found = geo.find(Some(core::net::Ipv4Addr::from_bits(address).into()), core::iter::empty());
            assert_eq!(String::from_utf8_lossy(found), expected.map_or("", |(_, value)| value), "{at} {networks:?}");
        }
    }
}
