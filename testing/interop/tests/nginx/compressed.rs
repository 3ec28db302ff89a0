//! Files whose compression takes longer than their clients may wait.

use crate::NGINX;
use crate::answer::Connection;
use crate::operators::{Server, both};
use interop::{Nearside, Running, in_namespace, scratch};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

const ADDRESS: &str = "127.0.0.1:80";

/// The highest level of Brotli takes many seconds for a file as long as this, and the file
/// is below what is compressed as a whole.
const LINES: u32 = 400_000;

/// A request is late after `TIMEOUT`.
const SITE: &str = "\
user root; worker_processes 1; daemon off; pid pid; error_log error.log;
events {}
http {
    types { text/plain txt; }
    access_log off;
    client_header_timeout TIMEOUT;
    brotli on; brotli_comp_level 11; brotli_types text/plain;
    server { listen 127.0.0.1:80; root www; }
}
";

/// Asks once for a file that nobody has asked for before.
fn shows_as_it_is(timeout: &'static str) {
    in_namespace(&[], move || {
        let folder = scratch(&format!("nginx-compressed-{timeout}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("www")).unwrap();
        let mut text = String::new();
        for line in 0..LINES {
            let _ = writeln!(text, "{line} {:x}", u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        fs::write(folder.join("www/long.txt"), &text).unwrap();
        fs::write(folder.join("nginx.conf"), SITE.replace("TIMEOUT", timeout)).unwrap();
        let mut command = Nearside::command(["nginx"]);
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
        let mut running = Running::start(&mut command);
        running.wait_until_open(ADDRESS);
        let mut connection = Connection::open(ADDRESS);
        let request = b"GET /long.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n";
        let answer = connection.ask(request, b"GET");
        assert_eq!((answer.status(), answer.field("content-encoding"), answer.lives), (Some(200), None, true));
        assert!(answer.body == text.as_bytes(), "{} bytes of {}", answer.body.len(), text.len());
        drop(connection);
        running.stop();
    });
}

#[test]
fn what_is_not_compressed_when_its_client_is_late_is_sent_as_it_is() {
    shows_as_it_is("1s");
}

#[test]
fn nobody_waits_for_a_compression_as_long_as_for_a_head() {
    shows_as_it_is("1h");
}

/// However little there is of a file, and whatever becomes of its length; and what is said of one that was compressed
/// beforehand where nothing of it is sent.
#[test]
fn short_files_are_compressed_and_their_answers_vary_as_with_nginx() {
    const CONF: &str = "\
        http { access_log off; types { text/plain txt; } gzip_types text/plain; root {root};\n\
        server { listen 127.0.0.1:80;\n\
        location /gz/ { gzip on; gzip_min_length 0; }\n\
        location /static/ { gzip_static on; gzip_vary on; }\n\
        location /both/ { gzip on; gzip_min_length 0; gzip_static on; gzip_vary on; }\n\
        location /varies/ { gzip on; gzip_vary on; }\n\
        } }";
    const LENGTHS: [usize; 5] = [0, 1, 10, 100, 1_000];
    in_namespace(&[NGINX], || {
        let root = scratch("nginx-compressed-short");
        let _ = fs::remove_dir_all(&root);
        for place in ["gz", "static", "both", "varies"] {
            fs::create_dir_all(root.join(place)).unwrap();
            for length in LENGTHS {
                let text: String = (0..length).map(|at| char::from(b'a' + (at * at % 23) as u8)).collect();
                fs::write(root.join(place).join(format!("{length}.txt")), text).unwrap();
            }
            if place != "gz" && place != "varies" {
                let packed =
                    Command::new("gzip").args(["-kn"]).arg(root.join(place).join("1000.txt")).status().unwrap();
                assert!(packed.success());
            }
        }
        let conf = CONF.replace("{root}", root.to_str().unwrap());
        let [theirs, ours] = both(|is_nginx| {
            let server = Server::start(is_nginx, "compressed-short", &conf);
            let mut seen = Vec::new();
            let mut ask = |path: &str, what: &str, more: &str| {
                let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n");
                let answer = Connection::open(ADDRESS).ask(request.as_bytes(), b"GET");
                let names = ["content-encoding", "etag", "vary", "content-range", "last-modified"];
                let fields = names.map(|name| answer.field(name).unwrap_or("-").to_owned());
                let etag = fields[1].trim_start_matches("W/").to_owned();
                // Pages of errors name their server.
                let body = answer.status().filter(|status| *status < 300).map(|_| answer.plain_body());
                seen.push(format!("{path} {what}: {:?} {} {body:?}", answer.status(), fields.join(" ")));
                etag
            };
            for place in ["gz", "static", "both", "varies"] {
                for length in LENGTHS {
                    let path = format!("/{place}/{length}.txt");
                    for takes in ["", "Accept-Encoding: gzip\r\n"] {
                        let etag = ask(&path, takes, takes);
                        // Of what was compressed beforehand there are ranges, as in later versions of nginx.
                        if length < 1_000 || takes.is_empty() || matches!(place, "gz" | "varies") {
                            ask(&path, &format!("{takes} a range"), &format!("{takes}Range: bytes=0-0\r\n"));
                        }
                        for condition in ["If-None-Match", "If-Match"] {
                            let what = format!("{takes} {condition}");
                            ask(&path, &what, &format!("{takes}{condition}: {etag}\r\n"));
                            ask(&path, &format!("{what}, another"), &format!("{takes}{condition}: \"other\"\r\n"));
                        }
                    }
                }
            }
            server.running.stop();
            seen
        });
        let apart: Vec<_> = theirs.iter().zip(&ours).filter(|(theirs, ours)| theirs != ours).collect();
        assert!(apart.is_empty(), "{} apart: {:#?}", apart.len(), &apart[..apart.len().min(40)]);
    });
}
