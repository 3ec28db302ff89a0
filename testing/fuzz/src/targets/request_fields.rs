//! Values of fields that modules read: Accept-Encoding, Authorization,
//! X-Forwarded-For, Referer, and arguments that are links.

use crate::Target;
use configuration::addresses::{address_and_port, forwarded, network};
use configuration::program::{RefererHost, Referers};
use core::net::IpAddr;
use features::auth_basic::basic_credentials;
use features::compression::{CompressionRules, RequestFacts, ResponseFacts};
use features::secure_link;

pub(crate) const TARGET: Target = Target {
    name: "request_fields",
    about: "what modules read of fields does not depend on case or on what stands before",
    run,
    seeds,
    dictionary: &[
        b"gzip",
        b"br",
        b"zstd",
        b";q=0",
        b";q=0.001",
        b", ",
        b"Basic ",
        b"QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        b"10.0.0.1",
        b"[::1]:80",
        b"http://",
        b".example.org",
        b"=",
        b":",
        b",",
    ],
    test_runs: 20_000,
    max_len: 200,
};

fn run(input: &[u8]) {
    encodings(input);
    if let Some((user, password)) = basic_credentials(input) {
        assert!(!user.is_empty() && !user.contains(&b':'));
        let both = [&user[..], b":", &password].concat();
        let again = [b"bAsIc   ", &passwords::base64::encode(&both)[..]].concat();
        assert_eq!(basic_credentials(&again), Some((user, password)), "{}", input.escape_ascii());
    }
    addresses(input);
    let host = |name: &[u8]| RefererHost { name: name.into(), path: b"/x"[..].into() };
    let hosts = vec![host(b"*.example.org"), host(b"example.*"), host(b".both.org")];
    let referers = Referers { hosts, expressions: vec![1], ..Referers::default() };
    let _ = referers.is_valid(Some(input), &mut |_, text| text.len() > 100);
    let (link, hashed) = input.split_at(input.len() / 2);
    let checked = secure_link::check(link, hashed, 5);
    assert!(checked.valid.is_none(), "nobody finds a hash by chance: {}", input.escape_ascii());
    assert_eq!(secure_link::check_secret(input, b"secret"), None);
}

fn encodings(input: &[u8]) {
    let rules = CompressionRules::default();
    let accepted = |field: &[u8]| {
        let request =
            RequestFacts { accept_encoding: Some(field), via: input.len() % 2 == 1, ..RequestFacts::default() };
        rules.accepted(&request, &mut |_, _| false)
    };
    let found = accepted(input);
    assert!(found.class() < 32);
    for other in [input.to_ascii_uppercase(), input.to_ascii_lowercase(), [b"x, ", input].concat()] {
        assert_eq!(accepted(&other), found, "{}", input.escape_ascii());
    }
    let chosen = rules.choose(found, &ResponseFacts { media_type: input, ..ResponseFacts::default() });
    assert!(chosen.coding.is_none(), "nothing is on");
}

fn addresses(input: &[u8]) {
    if let Some(address) = address_and_port(input) {
        let written = if address.port() == 0 { address.ip().to_string() } else { address.to_string() };
        assert_eq!(address_and_port(written.as_bytes()), Some(address), "{}", input.escape_ascii());
    }
    if let Some(network) = network(input) {
        let written = format!("{}/{}", network.address, network.len);
        let again = configuration::addresses::network(written.as_bytes()).expect("a network");
        assert!(!again.low_bits && (again.address, again.len) == (network.address, network.len));
    }
    let from = Some(IpAddr::from([10, 0, 0, 1]));
    let values = || input.split(|byte| *byte == b'\n');
    assert_eq!(forwarded(from, values(), |_| false, true), None);
    let mut first = true;
    let once = forwarded(from, values(), |_| core::mem::take(&mut first), true);
    assert_eq!(once, forwarded(from, values(), |_| true, false), "{}", input.escape_ascii());
    let all = forwarded(from, values(), |_| true, true);
    assert_eq!(all.is_some(), once.is_some());
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 12] = [
        b"gzip, deflate, br, zstd",
        b"identity;q=1, *;q=0, GZIP ; Q=0.5",
        b"gzip;q=0.000, br;q=1.000",
        b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        b"basic    YTo",
        b"203.0.113.5, 10.9.9.9\n10.0.0.2:81 , ",
        b"[2001:db8::1]:443",
        b"2001:db8::1/33",
        b"http://www.example.org:8080/x/y",
        b"https://both.org",
        b"_e4Nc3iduzkWRm01TBBNYw,2147483647",
        b"/p/5eb63bbbe01eeed093cb22bb8f5acdc3/x",
    ];
    texts.iter().map(|text| text.to_vec()).collect()
}
