//! The committed inputs, and mutations of them, break no target.

use fuzz::{TARGETS, Target, corpus, hunt};

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target's name")
}

fn replay(name: &str) {
    let target = target(name);
    hunt::replay(target, target.test_runs);
}

#[test]
fn frame() {
    replay("frame");
}

#[test]
fn tcp_options() {
    replay("tcp_options");
}

#[test]
fn checksum() {
    replay("checksum");
}

#[test]
fn lacp() {
    replay("lacp");
}

#[test]
fn stack() {
    replay("stack");
}

#[test]
fn h2_server() {
    replay("h2_server");
}

#[test]
fn hpack() {
    replay("hpack");
}

#[test]
fn http_server() {
    replay("http_server");
}

#[test]
fn http_client() {
    replay("http_client");
}

#[test]
fn http_values() {
    replay("http_values");
}

#[test]
fn cgi_answer() {
    replay("cgi_answer");
}

#[test]
fn dns_answer() {
    replay("dns_answer");
}

/// The seeds are among the committed inputs: they follow the code that makes
/// them. `cargo run -p fuzz -- --write-corpus` writes them.
#[test]
fn the_corpus_holds_the_seeds() {
    for target in TARGETS {
        let committed = corpus::committed(target).expect("the committed inputs can be read");
        for seed in (target.seeds)() {
            assert!(committed.contains(&seed), "{}: a seed is not in the corpus", target.name);
        }
    }
}

#[test]
fn nginx_compile() {
    replay("nginx_compile");
}

#[test]
fn nginx_conf() {
    replay("nginx_conf");
}

#[test]
fn proxy_header() {
    replay("proxy_header");
}

#[test]
fn site_toml() {
    replay("site_toml");
}

#[test]
fn request_fields() {
    replay("request_fields");
}

#[test]
fn ssi() {
    replay("ssi");
}

#[test]
fn tls_records() {
    replay("tls_records");
}

#[test]
fn tls_hello() {
    replay("tls_hello");
}

#[test]
fn certificates() {
    replay("certificates");
}

#[test]
fn excerpts() {
    replay("excerpts");
}

#[test]
fn results() {
    replay("results");
}

#[test]
fn mp4_cut() {
    replay("mp4_cut");
}
