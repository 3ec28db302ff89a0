//! Files whose compression takes longer than their clients may wait.

use crate::answer::Connection;
use interop::{Nearside, Running, in_namespace, scratch};
use std::fmt::Write as _;
use std::fs;

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
