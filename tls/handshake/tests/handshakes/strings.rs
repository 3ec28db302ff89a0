//! Cipher strings, beside what `openssl ciphers` lists for them, and what `openssl s_server` shakes hands by.

use super::{folder, rules, server};
use handshake::{Acceptor, First, ServerRules, ServerTls, Suites, hello};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

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

/// All suites of TLS 1.2 that there are, by their numbers.
const SUITES: [u16; 6] = [0xc02b, 0xc02c, 0xc02f, 0xc030, 0xcca8, 0xcca9];

/// A ClientHello of TLS 1.2 with these suites, that anything else can be agreed on with.
fn hello_with(suites: &[u16]) -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let list = |numbers: &[u16]| with_length(&numbers.iter().flat_map(|one| one.to_be_bytes()).collect::<Vec<_>>());
    let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes()[..], &with_length(data)].concat();
    let extensions = [
        // secp256r1 and secp384r1: Suite B has no others.
        extension(10, &list(&[23, 24])),
        extension(11, &[1, 0]),
        // RSA and ECDSA, with SHA-256 and SHA-384.
        extension(13, &list(&[0x0401, 0x0501, 0x0804, 0x0805, 0x0403, 0x0503])),
    ]
    .concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &list(suites), &[1, 0], &with_length(&extensions)].concat();
    let message = [&[1, 0][..], &with_length(&body)].concat();
    [&[22, 3, 1][..], &with_length(&message)].concat()
}

/// The suite that an answer chooses: none, if it is an alert.
fn chosen(answer: &[u8]) -> Option<u16> {
    // A record's head, a message's, the version, and the server's random number.
    const SESSION: usize = 5 + 4 + 2 + 32;
    if answer.first() != Some(&22) {
        assert_eq!(answer.first(), Some(&21), "{answer:02x?}");
        return None;
    }
    let at = SESSION + 1 + usize::from(answer[SESSION]);
    Some(u16::from_be_bytes([answer[at], answer[at + 1]]))
}

/// `openssl s_server` with a cipher string: where it listens, if it does.
fn their_server(text: &str, curve: &str) -> (Child, Option<String>) {
    let (certificate, key) = (format!("{curve}.pem"), format!("{curve}.key"));
    let mut started = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-serverpref", "-tls1_2", "-cipher", text])
        .args(["-cert", "rsa.pem", "-key", "rsa.key", "-dcert", &certificate, "-dkey", &key])
        .current_dir(folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let output = BufReader::new(started.stdout.take().expect("its output"));
    let address = output.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("ACCEPT ").map(str::to_owned));
    (started, address)
}

/// What a server answers a ClientHello with, up to the end of the ServerHello.
fn their_choice(address: &str, hello: &[u8]) -> Option<u16> {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.write_all(hello).expect("sent");
    let (mut answer, mut bytes) = (Vec::new(), [0; 2_048]);
    while answer.len() < 128 {
        match socket.read(&mut bytes) {
            Ok(length) if length > 0 => answer.extend_from_slice(&bytes[..length]),
            // An alert is shorter, and a reset may follow it.
            _ => break,
        }
    }
    chosen(&answer)
}

fn our_choice(server: &Arc<ServerTls>, bytes: &[u8]) -> Option<u16> {
    let First::Whole(hello, _) = hello::first(bytes) else { panic!("a hello") };
    chosen(&Acceptor::new(Arc::clone(server), hello).on_bytes(bytes).out)
}

/// What differs in handshakes by one string; whether OpenSSL takes any of our suites by it.
fn handshakes_by(text: &str) -> (Vec<String>, bool) {
    // Suite B wants keys that are as good as its suites.
    let curve = if text.starts_with("SUITEB192") || text.starts_with("SUITEB128C2") { "ec384" } else { "ec" };
    let ours = Suites::of_tls12(text)
        .ok()
        .map(|suites12| server(ServerRules { suites12, tls13: false, prefers_own: true, ..rules(&["rsa", curve]) }));
    let (mut process, address) = their_server(text, curve);
    let (mut differ, mut takes) = (Vec::new(), false);
    for suites in SUITES.chunks(1).chain([&SUITES[..]]) {
        let bytes = hello_with(suites);
        let theirs = address.as_ref().and_then(|address| their_choice(address, &bytes));
        let here = ours.as_ref().and_then(|server| our_choice(server, &bytes));
        takes |= theirs.is_some();
        if theirs != here {
            differ.push(format!("{text}: of {suites:04x?} OpenSSL takes {theirs:04x?}, here {here:04x?}"));
        }
    }
    let _ = process.kill();
    process.wait().expect("its end");
    (differ, takes)
}

/// A client that has one suite, and one that has all, get from a server with a string what they get from
/// OpenSSL's.
#[test]
fn handshakes_by_cipher_strings_are_those_of_openssl() {
    let made = Command::new("sh")
        .arg("-c")
        .arg("openssl ecparam -name secp384r1 -genkey -noout -out ec384.key && openssl req -x509 -new -sha384 -key ec384.key -subj /CN=ec384 -days 30 -out ec384.pem")
        .current_dir(folder())
        .status();
    assert!(made.is_ok_and(|status| status.success()));
    // This level has no use for keys as short as these.
    let strings: Vec<_> = cipher_strings().into_iter().filter(|text| !text.contains("SECLEVEL=4")).collect();
    assert!(strings.len() >= 200);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = strings
            .chunks(strings.len().div_ceil(4))
            .map(|part| scope.spawn(|| part.iter().map(|text| handshakes_by(text)).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a part")).collect()
    });
    let taking = parts.iter().filter(|(_, takes)| *takes).count();
    let differ: Vec<_> = parts.into_iter().flat_map(|(differ, _)| differ).collect();
    assert!(taking > 100, "{taking} strings take any");
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
