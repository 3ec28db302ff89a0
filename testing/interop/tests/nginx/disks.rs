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
            let errors = server.text("error.log");
            let line = errors.lines().find(|told| told.contains(line)).unwrap();
            let about = ", client: 127.0.0.1, server: , request: \"GET /films/film HTTP/1.1\", host: \"a\"";
            assert!(line.contains(" while sending response to client") && line.ends_with(about), "{line}");
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

/// The body that a path is answered with, whose status is this.
fn body_of(path: &str, status: u16) -> String {
    let mut stream = TcpStream::connect("127.0.0.1:80").unwrap();
    // The clients of a page that never ends wait no longer.
    stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).unwrap_or_else(|why| panic!("{path}: {why}, {came}"));
    let (head, body) = came.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
    body.to_owned()
}

/// What is within a page fails as if its place answered 503 where its disk hangs, and the page ends; whatever else is
/// asked for such a file is told the same.
#[test]
fn a_file_within_a_page_is_not_waited_for_without_an_end() {
    in_namespace(&[], || {
        let (root, fuse) = mounted("within", b"a film");
        let include = |more: &str| format!("before<!--#include virtual=\"/films/film\"{more} -->after");
        let stub = format!("<!--#block name=\"s\" -->sorry<!--#endblock -->{}", include(" stub=\"s\""));
        let pages = [
            ("plain", include("")),
            ("waits", include(" wait=\"yes\"")),
            ("stub", stub),
            ("inner", include("")),
            ("outer", "<!--#include virtual=\"/inner.html\" -->end".to_owned()),
        ];
        for (name, text) in &pages {
            std::fs::write(root.join(format!("{name}.html")), text).unwrap();
            let fails = text.replace("/films/film", "/fails").replace("/inner.html", "/fails-inner.html");
            std::fs::write(root.join(format!("fails-{name}.html")), fails).unwrap();
        }
        std::fs::write(root.join("page"), "a page").unwrap();
        let conf = format!(
            "error_log error.log; http {{ access_log l.log; client_header_timeout 4s; root {}; \
             server {{ listen 127.0.0.1:80; ssi on; ssi_types *; location = /fails {{ return 503; }} \
             location = /allowed {{ return 200; }} location = /asked {{ auth_request /films/film; alias {}/page; }} \
             location = /behind {{ auth_request /allowed; alias {}/films/film; }} \
             location = /copied {{ mirror /films/film; alias {}/page; }} \
             location = /added {{ add_after_body /films/film; alias {}/page; }} \
             location = /adds {{ add_after_body /fails; alias {}/page; }} }} }}",
            root.display(),
            root.display(),
            root.display(),
            root.display(),
            root.display(),
            root.display(),
        );
        let server = Server::start(false, "disks-within", &conf);
        let names = pages.each_ref().map(|(name, _)| *name);
        let expected = names.map(|name| body_of(&format!("/fails-{name}.html"), 200));
        let adds = body_of("/adds", 200);
        // Nothing of it is known yet.
        fuse.set("film", Fate::Hangs);
        for (name, expected) in names.iter().zip(&expected) {
            assert_eq!(&body_of(&format!("/{name}.html"), 200), expected, "{name}");
        }
        assert_eq!(body_of("/added", 200), adds);
        assert_eq!(body_of("/copied", 200), "a page");
        body_of("/asked", 500);
        body_of("/behind", 503);
        // Of each that waited, but for those that waited with another.
        wait_for("lines", || server.text("error.log").matches("did not answer in time").count() >= 7);
        fuse.set("film", Fate::Answered);
        server.running.stop();
    });
}

/// One that is found and is not read on is cut short, whether its content passes filters or not.
#[test]
fn a_file_within_a_page_that_is_not_read_is_cut_short() {
    in_namespace(&[], || {
        let (root, fuse) = mounted("within-read", &vec![b'x'; BYTES]);
        std::fs::write(root.join("page"), "before<!--#include virtual=\"/films/film\" -->after").unwrap();
        let conf = |all: &str| {
            format!(
                "error_log error.log; http {{ access_log l.log; client_header_timeout 4s; send_timeout 4s; root {}; \
                 server {{ listen 127.0.0.1:80; ssi_types *; {all} location = /page {{ ssi on; }} }} }}",
                root.display(),
            )
        };
        for all in ["", "ssi on;"] {
            let server = Server::start(false, "disks-within-read", &conf(all));
            fuse.set("film", Fate::HangsRead);
            assert_eq!(body_of("/page", 200), "beforeafter", "{all}");
            wait_for("a line", || server.text("error.log").contains("did not answer in time"));
            fuse.set("film", Fate::Answered);
            assert_eq!(body_of("/page", 200).len(), "beforeafter".len() + BYTES, "{all}");
            server.running.stop();
        }
    });
}
