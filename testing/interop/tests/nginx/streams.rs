//! Answers that are sent at a rate (`limit_rate`), counted by `nearside load --stream`: what it says of us,
//! and of nginx.

use crate::secured::OPENSSL;
use interop::{Nearside, Program, Running, in_namespace, scratch};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const NGHTTPD: Program = Program::new("nghttpd", "nghttp2-server");

/// Streams, and the rate of each.
const STREAMS: u64 = 4;
const RATE: u64 = 1_000_000;

const CONFIGURATION: &str = "user root; worker_processes 1; daemon off; pid nginx.pid; error_log error.log crit;\n\
    events {}\n\
    http { access_log off; root .;\n\
    server { listen 127.0.0.1:80; location / { limit_rate 125000; } }\n\
    }\n";

fn serve(mut command: Command, folder: &Path) -> Running {
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    let mut server = Running::start(&mut command);
    server.wait_until_open("127.0.0.1:80");
    server
}

/// What is counted of who serves: bits per second of all, and the whole.
fn counted(flags: &[&str]) -> (f64, Value) {
    counted_of("http://127.0.0.1/film", "-c 4 -d 3s", flags)
}

/// The same of a URL, with other words before the flags.
fn counted_of(url: &str, words: &str, flags: &[&str]) -> (f64, Value) {
    let mut command = Nearside::command(["load", url]);
    command.args(words.split(' '));
    if !words.contains("--link") {
        command.args(["--threads", "1", "--cores", "none"]);
    }
    command.args(["--json", "--stream", "1Mbit"]).args(flags);
    let ran = command.output().expect("it starts");
    // 5: on a machine that does other things no second may count.
    assert!(ran.status.success() || ran.status.code() == Some(5), "{}", String::from_utf8_lossy(&ran.stderr));
    let json: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    (json["bits_per_second"].as_f64().expect("a rate"), json)
}

/// nginx sends by the seconds of its clock, a second's worth ahead; both come to the rate,
/// and both can be played.
#[test]
fn a_rate_is_counted_alike_of_nginx_and_of_us() {
    in_namespace(&[super::NGINX], || {
        let folder = scratch("nginx-streams");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("nginx.conf"), CONFIGURATION).expect("written");
        fs::write(folder.join("film"), vec![b'x'; 64 << 20]).expect("written");
        for ours in [false, true] {
            let command = if ours { Nearside::command(["nginx"]) } else { Command::new("nginx") };
            let server = serve(command, &folder);
            let (rate, json) = counted(&[]);
            assert_eq!((&json["under_way"], &json["errors"]["lost"]), (&STREAMS.into(), &0.into()), "{ours}: {json}");
            // Whatever else the machine does, no more comes than is sent: a second's worth ahead of three.
            let due = (STREAMS * RATE) as f64;
            assert!(rate > 0.0 && rate <= due * 4.1 / 3.0, "{ours}: {rate}, {json}");
            // Where nothing disturbed it, it is the rate.
            if json["counted"]["stolen"] == 0 && json["counted"]["generator_late"] == 0 {
                assert!(rate > due * 0.6, "{ours}: {rate}, {json}");
            }
            let (_, json) = counted(&["--buffer", "500ms", "--play-at", "10%"]);
            assert_eq!((&json["under_way"], &json["setup"]["buffer_ns"]), (&STREAMS.into(), &500_000_000.into()));
            server.stop();
        }
        fs::remove_dir_all(&folder).expect("it goes");
    });
}

/// Two connections of HTTP/2, each with two streams.
const SHARED: &str = "-c 2 -d 3s --http2 --max-concurrent-streams 2";

/// Streams that share connections are counted as those with one each: of nginx and of us, with prior knowledge and over
/// TLS.
#[test]
fn streams_of_one_connection_are_counted_alike_of_nginx_and_of_us() {
    in_namespace(&[super::NGINX, OPENSSL], || {
        let folder = scratch("nginx-shared-streams");
        fs::create_dir_all(&folder).expect("a folder");
        certify(&folder);
        let secured = CONFIGURATION.replace("127.0.0.1:80;", "127.0.0.1:80 http2; listen 127.0.0.1:443 ssl http2;");
        let secured = secured.replace("root .;", "root .; ssl_certificate one.pem; ssl_certificate_key one.key;");
        fs::write(folder.join("nginx.conf"), secured).expect("written");
        fs::write(folder.join("film"), vec![b'x'; 64 << 20]).expect("written");
        for ours in [false, true] {
            let command = if ours { Nearside::command(["nginx"]) } else { Command::new("nginx") };
            let server = serve(command, &folder);
            let (rate, json) = counted_of("http://127.0.0.1/film", SHARED, &[]);
            assert_eq!((&json["under_way"], &json["errors"]["lost"]), (&STREAMS.into(), &0.into()), "{ours}: {json}");
            assert!(rate > 0.0 && rate <= (STREAMS * RATE) as f64 * 4.1 / 3.0, "{ours}: {rate}, {json}");
            let played = ["--buffer", "500ms", "--play-at", "10%", "--insecure"];
            let (_, json) = counted_of("https://127.0.0.1/film", SHARED, &played);
            assert_eq!((&json["under_way"], &json["errors"]["malformed"]), (&STREAMS.into(), &0.into()), "{json}");
            assert_eq!((&json["setup"]["connections"], &json["connect"]["samples"]), (&2.into(), &2.into()), "{json}");
            server.stop();
        }
        fs::remove_dir_all(&folder).expect("it goes");
    });
}

/// Players open their windows as they play: a server that would send all of a film at once is held to their rate, over
/// kernel sockets and over a link.
#[test]
fn players_hold_a_server_back_by_their_windows() {
    in_namespace(&[NGHTTPD, OPENSSL], || {
        let folder = scratch("nghttpd-streams");
        fs::create_dir_all(&folder).expect("a folder");
        certify(&folder);
        fs::write(folder.join("film"), vec![b'x'; 64 << 20]).expect("written");
        let serve = |port: &str, secured: bool| {
            let mut command = Command::new("nghttpd");
            command.arg("-d").arg(&folder).arg(port);
            if secured {
                command.arg(folder.join("one.key")).arg(folder.join("one.pem"));
            } else {
                command.arg("--no-tls");
            }
            let mut server = Running::start(&mut command);
            server.wait_until_open(&format!("127.0.0.1:{port}"));
            server
        };
        let servers = [serve("80", false), serve("443", true)];
        let over_link = format!("{SHARED} --link tap:near0,addr=10.9.0.1/24 --addr 10.9.0.2/24");
        let played = ["--buffer", "500ms", "--insecure"];
        for (url, words, flags) in [
            ("http://127.0.0.1/film", SHARED, &played[..2]),
            ("https://127.0.0.1/film", SHARED, &played[..]),
            ("http://10.9.0.1/film", over_link.as_str(), &played[..2]),
        ] {
            let (rate, json) = counted_of(url, words, flags);
            assert_eq!((&json["under_way"], &json["errors"]["lost"]), (&STREAMS.into(), &0.into()), "{url}: {json}");
            // What they play, and what their buffers hold.
            let due = (STREAMS * RATE) as f64;
            assert!(rate > 0.0 && rate <= due * (1.0 + 0.5 / 3.0) * 1.02, "{url}: {rate}, {json}");
            if json["counted"]["stolen"] == 0 && json["counted"]["generator_late"] == 0 {
                assert_eq!(json["playing"]["under_runs"]["samples"], 0, "{url}: {json}");
            }
        }
        // nghttpd ends by a signal, not of itself.
        servers.into_iter().for_each(drop);
        fs::remove_dir_all(&folder).expect("it goes");
    });
}

/// A certificate in this folder.
fn certify(folder: &Path) {
    let mut openssl = Command::new("openssl");
    openssl
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=one.example -days 30".split(' '));
    openssl.arg("-keyout").arg(folder.join("one.key")).arg("-out").arg(folder.join("one.pem"));
    assert!(openssl.output().expect("it starts").status.success());
}
