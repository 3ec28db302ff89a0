//! A disk that fails while a file is sent: what clients get of it, and what is in the error log, beside nginx.

use crate::NGINX;
use crate::operators::{Server, both};
use interop::fuse::{Fate, Fuse};
use interop::{in_namespace, leave_out, scratch, wait_for};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

const BYTES: usize = 3 << 20;

/// Where reads of the file begin to fail: amid a page and a piece.
const FAILS: u64 = (1 << 20) + 700_000;

/// Lines about files that failed: their level, and what they say behind the number of the connection.
fn told(log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains(" failed (")).filter_map(|line| {
        let level = line.split(['[', ']']).nth(1)?;
        let (_, text) = line.split_once(": *")?;
        Some(format!("{level} {}", text.split_once(' ')?.1))
    });
    lines.collect()
}

/// A folder with a file system of our own below it, which has one film.
fn mounted(name: &str, content: &[u8]) -> (PathBuf, Fuse) {
    let root = scratch("nginx-disks").join(name);
    std::fs::create_dir_all(root.join("films")).unwrap();
    let mounted = Fuse::mount(&root.join("films"), &[("film", content)]);
    (root, mounted.unwrap_or_else(|why| leave_out(format!("no file system of our own: {why}"))))
}

/// All that comes to the connection's end.
fn ask() -> Vec<u8> {
    let mut stream = TcpStream::connect("127.0.0.1:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /films/film HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut came = Vec::new();
    // Orderly or not.
    let _ = stream.read_to_end(&mut came);
    came
}

#[test]
fn a_file_that_cannot_be_found_for_its_disk_is_told() {
    in_namespace(&[NGINX], || {
        let (root, fuse) = mounted("found", b"a film");
        fuse.set("film", Fate::FailsFound(Errno::IO));
        let conf = format!(
            "error_log error.log; http {{ access_log l.log; server {{ listen 127.0.0.1:80; root {}; }} }}",
            root.display()
        );
        let [theirs, ours] = both(|is_nginx| {
            let server = Server::start(is_nginx, "disks-found", &conf);
            let came = ask();
            assert!(came.starts_with(b"HTTP/1.1 500 "), "{}", String::from_utf8_lossy(&came));
            wait_for("a line", || !told(&server.text("error.log")).is_empty());
            let lines = told(&server.text("error.log"));
            server.running.stop();
            lines
        });
        assert_eq!(ours, theirs);
    });
}

#[test]
fn a_file_that_cannot_be_read_on_is_told() {
    in_namespace(&[NGINX], || {
        let content: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        let (root, fuse) = mounted("read", &content);
        let conf = format!(
            "error_log error.log; http {{ access_log l.log; sendfile on; server {{ listen 127.0.0.1:80; root {}; }} }}",
            root.display()
        );
        both(|is_nginx| {
            let server = Server::start(is_nginx, "disks-read", &conf);
            fuse.set("film", Fate::Fails(FAILS, Errno::IO));
            let came = ask();
            let end = came.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
            let body = &came[end + 4..];
            assert!(body.len() as u64 <= FAILS && body == &content[..body.len()], "{is_nginx}: {}", body.len());
            // Ours has it read by a thread, which waits for whoever has the file, and says which one it is.
            let line = if is_nginx { "sendfile() failed (5: " } else { "films/film\" failed (5: " };
            wait_for("a line", || server.text("error.log").contains(line));
            fuse.set("film", Fate::Answered);
            server.running.stop();
        });
    });
}

/// nginx waits with it: what ours says is not compared, but that it says it.
#[test]
fn a_file_that_is_waited_for_in_vain_is_told() {
    in_namespace(&[], || {
        let (root, fuse) = mounted("late", b"a film");
        std::fs::write(root.join("sorry"), "come again").unwrap();
        let conf = format!(
            "error_log error.log; http {{ access_log l.log; client_header_timeout 2s; \
             server {{ listen 127.0.0.1:80; root {}; location /films/film {{ error_page 503 /sorry; }} }} }}",
            root.display()
        );
        let server = Server::start(false, "disks-late", &conf);
        fuse.set("film", Fate::Hangs);
        let came = String::from_utf8(ask()).unwrap();
        assert!(came.starts_with("HTTP/1.1 503 ") && came.ends_with("come again"), "{came}");
        wait_for("a line", || server.text("l.log").contains("\"GET /films/film HTTP/1.1\" 503 10 "));
        let errors = server.text("error.log");
        assert!(errors.contains("[error]") && errors.contains("did not answer in time"), "{errors}");
        fuse.set("film", Fate::Answered);
        server.running.stop();
    });
}
