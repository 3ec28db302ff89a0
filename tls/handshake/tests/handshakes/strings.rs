//! Cipher strings, beside what `openssl ciphers` lists for them.

use handshake::Suites;
use std::process::Command;

/// Strings of one to five words, of names, aliases and signs: the same each time.
fn cipher_strings() -> Vec<String> {
    #[rustfmt::skip]
    const NAMES: [&str; 38] = [
        "ALL", "HIGH", "DEFAULT", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH", "TLSv1.2", "FIPS", "AES", "AES128",
        "AES256", "AESGCM", "CHACHA20", "RSA", "aRSA", "kRSA", "ECDSA", "aECDSA", "SHA", "SHA256", "SHA384", "MD5",
        "aNULL", "eNULL", "DHE", "CAMELLIA", "MEDIUM", "nothing", "ECDHE+AESGCM", "AESGCM+aRSA", "RSA+AESGCM",
        "ECDHE+CHACHA20", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305", "AES128-SHA",
    ];
    #[rustfmt::skip]
    let told = [
        "HIGH:!SHA256:!SHA384", "AESGCM:!RSA", "DEFAULT@SECLEVEL=1", "HIGH@STRENGTH", "HIGH!aRSA", "SUITEB128",
        "SUITEB128ONLY", "SUITEB192", "SUITEB128C2", "ALL:@SECLEVEL=4", "AES128:AES256:@STRENGTH", "ALL:@OTHER",
        "ALL:-AES128:-AES256:ALL", "ALL:!DEFAULT", "ALL:!!AES", "ALL, !AES128; +AES256",
        "AES128:@STRENGTH:ALL", "ECDSA+AESGCM:+AES256:ALL", "ALL:@SECLEVEL=6", "CHACHA20:-ALL:HIGH",
    ];
    let mut seed = 1_u64;
    let mut below = move |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % bound
    };
    let mut all: Vec<String> = told.map(str::to_owned).into();
    while all.len() < 220 {
        let words = (0..=below(5)).map(|at| {
            let sign = if at == 0 { "" } else { ["", "", "!", "-", "+"][below(5)] };
            format!("{sign}{}", NAMES[below(NAMES.len())])
        });
        all.push(words.collect::<Vec<_>>().join(":"));
    }
    all
}

/// A string means those of our suites that OpenSSL lists for it, in the same order.
#[test]
fn cipher_strings_mean_what_those_of_openssl_mean() {
    let ours: Vec<&str> = Suites::of_tls12("ALL").expect("suites").names().collect();
    let (mut differ, mut with_some) = (Vec::new(), 0);
    for text in cipher_strings() {
        let listed = Command::new("openssl").args(["ciphers", "-s", &text]).output().expect("openssl");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let theirs: Vec<&str> = listed.trim().split(':').filter(|name| ours.contains(name)).collect();
        let meant = Suites::of_tls12(&text).unwrap_or_else(|_| Suites::none());
        let meant: Vec<&str> = meant.names().collect();
        with_some += usize::from(!theirs.is_empty());
        if meant != theirs {
            differ.push(format!("{text}\n  OpenSSL {theirs:?}\n  here    {meant:?}"));
        }
    }
    assert!(with_some > 100, "{with_some} strings mean any");
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
