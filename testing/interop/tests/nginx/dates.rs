//! Answers that are ready are dated anew in each second, and follow their files.

use crate::answer::{Answer, Connection};
use interop::{Nearside, Running, in_namespace, scratch, wait_for};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:80";

const SITE: &str = "\
user root; worker_processes 1; daemon off; pid pid; error_log error.log;
events {}
http {
    types { text/html html; }
    access_log access.log;
    gzip on; gzip_min_length 1; gzip_types text/html;
    server {
        listen 127.0.0.1:80;
        root www;
        location / { expires 1h; try_files $uri /fallback.html; }
        location /day/ { expires @15h; }
    }
}
";

/// Where answers are found by their path alone.
const BARE: &str = "\
user root; worker_processes 1; daemon off; pid pid; error_log error.log;
events {}
http {
    types { text/html html; }
    access_log off;
    server {
        listen 127.0.0.1:80;
        root www;
        location / { index first.html index.html; }
        location = /text { return 200 \"text\"; }
    }
}
";

/// A server of this configuration, with these files.
fn serve(name: &str, conf: &str, files: &[(&str, &str)]) -> (PathBuf, Running) {
    let folder = scratch(name);
    let _ = fs::remove_dir_all(&folder);
    for (file, text) in files {
        let path = folder.join("www").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(folder.join("nginx.conf"), conf).unwrap();
    let mut command = Nearside::command(["nginx"]);
    command.arg("-p").arg(&folder).arg("-c").arg(folder.join("nginx.conf")).args(["-e", "stderr"]);
    let mut running = Running::start(&mut command);
    running.wait_until_open(ADDRESS);
    (folder, running)
}

fn seconds() -> u64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec.cast_unsigned()
}

fn get(connection: &mut Connection, path: &str, accepted: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n");
    let answer = connection.ask(request.as_bytes(), b"GET");
    assert_eq!((answer.status(), answer.lives), (Some(200), true), "{path}: {answer:?}");
    answer
}

/// When a field says that it is.
fn time(answer: &Answer, field: &str) -> u64 {
    let value = answer.field(field).unwrap_or_else(|| panic!("{field}: {answer:?}"));
    semantics::date::parse(value.as_bytes(), 0).unwrap_or_else(|| panic!("{field}: {value}"))
}

#[test]
fn ready_answers_have_the_time_and_follow_their_files() {
    in_namespace(&[], || {
        let page = "a page that can be compressed, a page that can be compressed\n".repeat(20);
        let files = [("page.html", &*page), ("fallback.html", "fallback"), ("day/page.html", "day")];
        let (folder, running) = serve("nginx-dates", SITE, &files);
        let mut connection = Connection::open(ADDRESS);
        let began = seconds();
        let mut latest = 0;
        while seconds() < began + 3 {
            let before = seconds();
            for (path, coding) in
                [("/page.html", "gzip"), ("/page.html", ""), ("/later.html", ""), ("/day/page.html", "")]
            {
                let answer = get(&mut connection, path, coding);
                let date = time(&answer, "date");
                // Its clock and ours may be a little apart.
                assert!(date >= latest && (before - 1..=seconds() + 1).contains(&date), "{before}: {answer:?}");
                latest = date;
                let after = time(&answer, "expires") - date;
                if path.starts_with("/day") {
                    assert_eq!(answer.field("cache-control"), Some(&*format!("max-age={after}")), "{answer:?}");
                } else {
                    assert_eq!(after, 3_600, "{answer:?}");
                }
                assert_eq!(answer.field("content-encoding").is_some(), coding == "gzip", "{answer:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        fs::write(folder.join("www/page.html"), page.replace("can be", "may be")).unwrap();
        fs::write(folder.join("www/later.html"), "now").unwrap();
        let mut shows = |path: &str, coding: &str, text: &str| {
            wait_for(path, || {
                // Connections end after so many requests (`keepalive_requests`).
                connection = Connection::open(ADDRESS);
                get(&mut connection, path, coding).plain_body().starts_with(text.as_bytes())
            });
        };
        shows("/page.html", "gzip", "a page that may be");
        shows("/page.html", "", "a page that may be");
        shows("/later.html", "", "now");
        fs::remove_file(folder.join("www/page.html")).unwrap();
        shows("/page.html", "gzip", "fallback");
        shows("/page.html", "", "fallback");
        drop(connection);
        running.stop();
    });
}

#[test]
fn answers_by_path_have_the_time_and_follow_their_files() {
    in_namespace(&[], || {
        let files = [("page.html", "one page"), ("index.html", "an index"), ("gone.html", "here")];
        let (folder, running) = serve("nginx-dates-bare", BARE, &files);
        let mut connection = Connection::open(ADDRESS);
        let began = seconds();
        let mut latest = 0;
        while seconds() < began + 3 {
            let before = seconds();
            for (path, text) in
                [("/page.html", "one page"), ("/", "an index"), ("/text", "text"), ("/gone.html", "here")]
            {
                let answer = get(&mut connection, path, "");
                let date = time(&answer, "date");
                // Its clock and ours may be a little apart.
                assert!(date >= latest && (before - 1..=seconds() + 1).contains(&date), "{before}: {answer:?}");
                latest = date;
                assert_eq!(answer.body, text.as_bytes(), "{path}");
            }
            let last = "GET /page.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let mut closing = Connection::open(ADDRESS);
            let answer = closing.ask(last.as_bytes(), b"GET");
            assert_eq!((answer.body.as_slice(), answer.lives), (&b"one page"[..], false), "{answer:?}");
            assert!((before - 1..=seconds() + 1).contains(&time(&answer, "date")), "{answer:?}");
            thread::sleep(Duration::from_millis(20));
        }
        fs::write(folder.join("www/page.html"), "another page").unwrap();
        fs::write(folder.join("www/first.html"), "first").unwrap();
        fs::remove_file(folder.join("www/gone.html")).unwrap();
        let mut shows = |path: &str, status: u16, text: &str| {
            wait_for(path, || {
                // Connections end after so many requests (`keepalive_requests`).
                connection = Connection::open(ADDRESS);
                let answer = connection.ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), b"GET");
                answer.status() == Some(status) && (status != 200 || answer.body == text.as_bytes())
            });
        };
        shows("/page.html", 200, "another page");
        shows("/", 200, "first");
        shows("/gone.html", 404, "");
        drop(connection);
        running.stop();
    });
}
